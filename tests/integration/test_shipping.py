"""The ledger outside of the store: shipped before anything is shown, healed, refused."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from dispatcher.core.errors import (
    LedgerAhead,
    LedgerBroken,
    LedgerForeign,
    NotShipped,
    Refused,
)
from dispatcher.custody.evidence import export
from dispatcher.ledger.book import Asks, Push, book
from dispatcher.ledger.chains import seal
from dispatcher.ledger.exhausted_fields import unburn
from dispatcher.ledger.shipping import attach, shipped_lines
from dispatcher.ledger.shipping import segments as files
from dispatcher.ledger.shipping.shipper import look
from dispatcher.store import open_store
from tests import sql
from tests.integration.ledger_cases import PAIR, Case, policy
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
GROUPS = '[workers.groups.g]\nmembers = ["x/g*"]\n'


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "shipped"


@pytest.fixture
def case(store, folder):
    """A store that ships, with two workers and seven entries, nothing shown yet."""
    attach(store, folder)
    made = Case(store)
    made.apply(policy(PAIR, groups=GROUPS))
    made.add("x/ann", "x/bob")
    made.load(("r1", "p1", 0, "abcd"), ("r2", "p1", 5, "abc"))
    return made


def evidence(store, place, clock):
    """The ledger of the store as an auditor gets it, sorted."""
    bundle = export(store, place, clock=clock)
    return sorted((bundle.folder / "ledger.jsonl").read_bytes().splitlines(True))


def shipped(folder):
    """The shipped lines of the ledger, sorted."""
    return sorted(
        line.raw for line in shipped_lines(folder) if "attached" not in line.members
    )


def exposures(folder):
    return [
        (line.members["account"], line.members["entry"])
        for line in shipped_lines(folder)
        if line.members.get("kind") == "exposure"
    ]


def test_what_is_shipped_is_the_evidence_to_the_byte(case, folder, tmp_path, clock):
    case.book(("x/ann", "r1.a r2.a r2.c"), ("x/bob", "r1.b"))
    case.book(("x/ann", "r1.c"))
    case.add("x/g1", "x/g2")
    with case.store.write() as tx:
        entry = case.entries["r1.a"]
        unburn(tx, entry, extra=2, because="it came back", at=case.tick())
        seal(tx, at=case.tick())
    case.apply(policy(PAIR, groups=GROUPS, name="two"))
    assert shipped(folder) != []
    assert evidence(case.store, tmp_path / "e", clock) == shipped(folder)


def test_a_refused_booking_ships_nothing(case, folder):
    case.book(("x/ann", "r1.a"))
    before = shipped(folder)
    with pytest.raises(Refused):
        case.book(("x/ann", "r1.b"))
    assert shipped(folder) == before


def test_what_a_refusal_undid_inside_a_transaction_is_not_shipped(
    store, folder, tmp_path, clock
):
    # Under a capped mean asks are granted one by one; the second is refused.
    attach(store, folder)
    case = Case(store)
    rules = '[property.m]\nof = ["a", "b"]\ntau = 1\naverage = 0.9\n'
    case.apply(policy(rules))
    case.add("x/ann")
    case.load(("r1", None, None, "ab"))
    asks = [Asks(case.accounts["x/ann"], [case.entries["r1.a"], case.entries["r1.b"]])]
    with store.write() as tx, pytest.raises(Refused):
        book(tx, asks, delivery=Push(), at=case.tick(), cause="test")
    assert exposures(folder) == []
    case.book(("x/ann", "r1.a"))
    assert evidence(store, tmp_path / "e", clock) == shipped(folder)


def test_a_store_that_never_shipped_is_shipped_whole(store, folder, tmp_path, clock):
    case = Case(store)
    case.apply(policy(PAIR))
    case.add("x/ann")
    case.load(("r1", "p1", 0, "abcd"))
    case.book(("x/ann", "r1.a"))
    attach(store, folder)
    store.settle(afresh=True)
    assert evidence(store, tmp_path / "e", clock) == shipped(folder)


KILLED = """
import os, signal, sys
from pathlib import Path
from dispatcher.ledger.shipping import attach
from dispatcher.ledger.shipping.shipper import Shipper
from dispatcher.store import open_store
from tests import sql
from tests.integration.ledger_cases import Case
url, folder, where = sys.argv[1:4]
store = open_store(url)
attach(store, Path(folder))
case = Case(store)
with store.read() as tx:
    case.accounts = {"x/ann": sql.value(tx, "SELECT min(id) FROM account")}
    case.entries = {"e": sql.value(tx, "SELECT min(id) FROM entry")}
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
if where == "before the append":
    Shipper.ship = die
else:
    os.fdatasync = die
case.book(("x/ann", "e"))
"""


@pytest.mark.parametrize("where", ["before the append", "before the sync"])
def test_killed_between_commit_and_append_it_is_healed(
    case, store_url, folder, tmp_path, clock, where
):
    done = subprocess.run(
        [sys.executable, "-c", KILLED, store_url, str(folder), where],
        check=False, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    with case.store.read() as tx:  # committed
        assert (
            sql.value(tx, "SELECT count(*) FROM ledger_line WHERE kind = 'exposure'")
            == 1
        )
    if where == "before the append":
        assert exposures(folder) == []
    case.store.settle(afresh=True)  # as whoever leads next does
    assert len(exposures(folder)) == 1
    assert evidence(case.store, tmp_path / "e", clock) == shipped(folder)


def test_the_next_line_of_a_chain_brings_what_another_process_left_behind(
    case, store_url, folder, tmp_path, clock
):
    with open_store(store_url) as other:  # it ships nothing: as if it was killed
        mate = Case(other, now=case.now, entries=case.entries, accounts=case.accounts)
        mate.book(("x/ann", "r1.a"))
        mate.book(("x/bob", "r1.b"))
    case.book(("x/ann", "r1.c"))
    assert len(exposures(folder)) == 2  # bob's chain did not go on yet
    case.store.settle(afresh=True)
    assert evidence(case.store, tmp_path / "e", clock) == shipped(folder)


def test_many_threads_share_syncs_and_lose_nothing(
    store, folder, tmp_path, clock, monkeypatch
):
    shipper = attach(store, folder)
    case = Case(store)
    case.apply(policy(PAIR, budget="t = 50"))
    workers = [f"x/w{n}" for n in range(6)]
    case.add(*workers)
    case.load(*((f"r{i}", None, None, "acd") for i in range(8)))
    syncs = []
    real = os.fdatasync

    def slow(file):
        syncs.append(file)
        end = time.monotonic() + PATIENCE
        while len(syncs) == 1 and len(shipper._queue) < 2 and time.monotonic() < end:
            time.sleep(0.01)  # two more come meanwhile
        real(file)

    monkeypatch.setattr(files.os, "fdatasync", slow)

    def book(worker):
        for i in range(8):
            case.book((worker, f"r{i}.a"))
            seen = [e for a, e in exposures(folder) if a == worker]
            assert len(seen) == i + 1, "it returned before its line was kept"

    failed = []

    def run(worker):
        try:
            book(worker)
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=run, args=(w,)) for w in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not failed
    assert len(exposures(folder)) == 48
    assert len(syncs) < 48, "no sync was shared"
    assert evidence(store, tmp_path / "e", clock) == shipped(folder)


def test_a_dead_disk_stops_all_showing_until_it_is_mended(
    case, folder, tmp_path, clock, monkeypatch
):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(files.os, "fdatasync", full)
        with pytest.raises(NotShipped) as caught:
            case.book(("x/ann", "r1.a"))  # committed, and must not be shown
        assert (caught.value.code, caught.value.exit_status) == ("E131", 75)
        with pytest.raises(NotShipped):
            case.store.settle()
        with pytest.raises(NotShipped):
            case.book(("x/ann", "r1.c"))  # not even committed
    with case.store.read() as tx:
        assert (
            sql.value(tx, "SELECT count(*) FROM ledger_line WHERE kind = 'exposure'")
            == 1
        )
    case.store.settle()
    assert len(exposures(folder)) == 1
    case.book(("x/ann", "r1.c"))
    assert evidence(case.store, tmp_path / "e", clock) == shipped(folder)


def test_a_store_from_an_old_copy_is_refused(sqlite_path, folder, tmp_path):
    with open_store(sqlite_path) as store:
        attach(store, folder)
        case = Case(store)
        case.apply(policy(PAIR))
        case.add("x/ann")
        case.load(("r1", "p1", 0, "abcd"))
        store.checkpoint()
        shutil.copy(sqlite_path, tmp_path / "old.db")
        case.book(("x/ann", "r1.a"))
    with open_store(tmp_path / "old.db") as old:
        attach(old, folder)
        with pytest.raises(LedgerAhead, match="lacks 1 lines") as caught:
            old.settle(afresh=True)
        assert caught.value.exit_status == 6
        again = Case(old, case.now, case.entries, case.accounts)
        with pytest.raises(LedgerAhead):
            again.book(("x/ann", "r1.c"))
        with old.read() as tx:
            assert not sql.value(tx, "SELECT count(*) FROM task")


def test_two_copies_of_a_store_can_not_go_on_side_by_side(
    sqlite_path, folder, tmp_path
):
    with open_store(sqlite_path) as store:
        attach(store, folder)
        case = Case(store)
        case.apply(policy(PAIR))
        case.add("x/ann")
        case.load(("r1", "p1", 0, "abcd"))
        store.checkpoint()
        shutil.copy(sqlite_path, tmp_path / "twin.db")
        with open_store(tmp_path / "twin.db") as twin:
            attach(twin, folder)
            twin.settle(afresh=True)
            case.book(("x/ann", "r1.a"))
            mate = Case(twin, case.now, case.entries, case.accounts)
            with pytest.raises(LedgerAhead, match="part ways"):
                mate.book(("x/ann", "r1.c"))


def test_another_store_may_not_ship_to_the_same_folder(sqlite_path, folder, tmp_path):
    with open_store(sqlite_path) as store:
        attach(store, folder)
        Case(store).apply(policy(PAIR))
    with open_store(tmp_path / "other.db", create=True) as other:
        attach(other, folder)
        with pytest.raises(LedgerForeign) as caught:
            Case(other).apply(policy(PAIR))
        assert caught.value.exit_status == 5


def attached(folder, name):
    """The shipped files, and the first line that is attached under a name."""
    file = folder / "ledger-000001.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    mark = f'{{"attached":"{name}"'.encode()
    return file, lines, next(i for i, raw in enumerate(lines) if raw.startswith(mark))


@pytest.mark.parametrize("name", ["policy", "keys"])
@pytest.mark.parametrize("how", ["cut out", "changed", "doubled", "moved"])
def test_what_a_line_is_about_is_missed_where_the_line_stands(case, folder, name, how):
    """By a store that starts, by a look, and by whoever reads the whole."""
    file, lines, at = attached(folder, name)
    edited = {
        "cut out": [*lines[:at], *lines[at + 1 :]],
        "changed": [*lines[:at], lines[at].replace(b"x", b"y"), *lines[at + 1 :]],
        "doubled": [*lines[: at + 1], *lines[at:]],
        "moved": [*lines[:at], *lines[at + 1 :], lines[at], lines[-1]],
    }[how]
    assert edited != lines
    file.write_bytes(b"".join(edited))
    attach(case.store, folder)  # as a daemon that starts does
    for read in (
        lambda: case.store.settle(afresh=True),
        lambda: look(case.store, folder),
        lambda: list(shipped_lines(folder)),
    ):
        with pytest.raises(LedgerBroken):
            read()


@pytest.mark.parametrize("name", ["policy", "keys"])
def test_an_append_that_ended_within_what_a_line_is_about_is_done_anew(
    case, folder, tmp_path, clock, name
):
    """The power fails when the attachment is on the disk and its line is not yet."""
    file, lines, at = attached(folder, name)
    for end in (at + 1, at + 2):
        torn = b"".join(lines[:end])[: -1 if end == at + 2 else None]
        file.write_bytes(torn)
        assert look(case.store, folder).behind
        case.store.settle(afresh=True)
        assert evidence(case.store, tmp_path / f"e{end}", clock) == shipped(folder)
        sent = [line.raw for line in shipped_lines(folder)]
        assert len(sent) == len(set(sent))
