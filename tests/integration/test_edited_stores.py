"""A store that was edited past the program: found, named, and shown nothing from."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path

import pytest
from sqlmodel import SQLModel

from dispatcher.app.daemon import Daemon, Tick
from dispatcher.core.errors import StaleLease, StoreEdited
from dispatcher.custody.evidence import export, verify
from dispatcher.ledger import comparison
from dispatcher.ledger.chains import seal
from dispatcher.ledger.comparison import compare, refuse_edited
from dispatcher.ledger.exhausted_fields import unburn
from dispatcher.ledger.identity_changes import merge
from dispatcher.ledger.links import RuleFunction
from dispatcher.model import ExposureCount, Link
from dispatcher.store import lease, open_store
from tests import edits, sql
from tests.edits import EDITS
from tests.integration.ledger_cases import PAIR, Case, policy
from tests.patience import PATIENCE, until

RULES = """
[relation.friend]
source = "friends.csv"
ends = ["one", "two"]

[property.a-b]
of = ["a", "b"]

[property.history]
scope = "subject"
window = "1h"
of = ["a", "c"]
tau = 0.9
disclosure = { kind = "quadratic", per = "entry", weight = 0.25 }

[property.met]
scope = "relation"
relation = "friend"
of = ["c", "d"]
disclosure = { kind = "common", vector = "place", count = "visits" }

[property.half]
of = ["a", "d"]
tau = 0.9
average = 0.9
disclosure = "linear"

[property.told]
of = ["c", "d"]
tau = 0.9
disclosure = "plugin:mine"
"""
GROUPS = (
    '[workers.groups.house]\nmembers = ["x/staff*"]\ntrusted = ["history"]\n'
    '[workers.groups.pair]\nmembers = ["x/twin*"]'
)
LEVELS = {
    frozenset(held): Fraction(len(held), 4) for held in ((), ("c",), ("d",), ("c", "d"))
}


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Compare even these small stores in several pieces."""
    monkeypatch.setattr(comparison, "AT_ONCE", 4)


def furnished(store):
    """A case with something in every table that the gate reads."""
    case = Case(store)
    case.add("x/early")
    told = {"told": RuleFunction("plugin:mine", "0" * 64, LEVELS)}
    friends = [("p1", "p2"), ("p2", "p3")]
    source = policy(RULES, groups=GROUPS, budget="t = 5")
    case.apply(source, functions=told, friend=friends)
    case.add("x/ann", "x/bob", "x/cat", "x/staff", "x/twin1", "x/twin2")
    case.load(
        ("r1", "p1", 10, "abcd", "cafe", 2),
        ("r2", "p2", 20, "abcd", "park", 3),
        ("r3", "p3", 30, "abcd"),
        ("r4", "p4", 40, "bd"),
    )
    case.book(("x/ann", "r1.a r2.c"), ("x/bob", "r2.a r1.d"), ("x/cat", "r3.b"))
    case.book(("x/staff", "r1.a r4.b"), ("x/twin1", "r3.d"), ("x/early", "r4.d"))
    with store.write() as tx:
        merge(tx, [("x/ann", "x/cat")], because="one person", at=case.tick())
        entry = case.entries["r4.b"]
        unburn(tx, entry, extra=1, because="came back", at=case.tick())
        seal(tx, at=case.tick())
    case.apply(
        policy(RULES, groups=GROUPS, budget="t = 4", name="two"),
        functions=told,
        friend=[*friends, ("p1", "p3")],
    )
    case.book(("x/cat", "r1.a r3.c"))
    return case


@pytest.fixture
def case(store):
    return furnished(store)


TRUSTED = (
    "account",
    "chain",
    "disclosure_sum",
    "entry",
    "exposure_count",
    "field",
    "key_lines",
    "ledger_line",
    "link",
    "outbox",
    "policy",
    "policy_lock",
    "record",
    "rule_table",
    "set_count",
    "subject",
    "task",
    "visit",
)
"""Tables that the gate reads, or that say what leaves to whom."""

FREE = {
    # Standing, which an operator or the worker changes; no limit rests on it.
    "account": "state invite quality judged_from language",
    "record": "run_id load_id loaded_at erased_at lost_at waits_since",
    "subject": "erased_at",
    "task": "id state created_at leased_until",
    "outbox": "id kind state due attempts epoch leased_until handle error created_at",
    # Values, which the vault binds to their rows, and what they are called.
    "entry": "shown media id",
    "policy": "name applied_at",
    # Numbers that only name a row.
    "link": "id",
    "policy_lock": "id",
}
"""Columns that no line of the ledger is about, by table."""

VALUES = {("record", "key"), ("record", "columns"), ("subject", "value")}
DRAFTS = {("task", "draft"), ("task", "key_id")}
KEYS = {(table, "key_id") for table in ("record", "entry", "subject")}


def bound():
    """Columns that a comparison must find edited."""
    tables = SQLModel.metadata.tables
    return [
        (table, column)
        for table in TRUSTED
        for column in tables[table].columns.keys()  # noqa: SIM118 - not a mapping
        if column not in FREE.get(table, "").split()
        and (table, column) not in VALUES | DRAFTS | KEYS
    ]


ENTRY = {("entry", "record_id"), ("entry", "field_id")}
"""Of each pair there is one row."""


def changed(table, column, value):
    """Another value of the same kind that no constraint refuses."""
    alone = column in SQLModel.metadata.tables[table].primary_key.columns
    if isinstance(value, int):
        return value + (1000 if alone or (table, column) in ENTRY else 1)
    if column == "kind":
        return "unburn" if value == "seal" else "seal"
    if alone or column in ("name", "pseudonym"):
        return f"{value}x"
    if isinstance(value, str):
        return f"{value[:-1]}{'1' if value[-1:] == '0' else '0'}"
    return bytes(value) + b"\n"


def edit(tx, table, column):
    """Change a column in some rows that have something in it, one after another.

    Yields after each change; it is taken back when the next one is asked for.
    """
    keys = [key.name for key in SQLModel.metadata.tables[table].primary_key]
    named = ", ".join(f'"{key}"' for key in keys)
    found = sql.rows(tx, f'SELECT {named}, "{column}" FROM "{table}" ORDER BY {named}')
    filled = [row for row in found if row[-1] is not None]
    for *key, value in [*filled[:2], *filled[2:][-2:]]:
        with taken_back(tx):
            here = dict(zip(keys, key, strict=True))
            edits.set_value(tx, table, column, changed(table, column, value), here)
            yield key


class Taken(Exception):
    """Ends a transaction, so that nothing of it is kept."""


@contextmanager
def taken_back(tx):
    """Undo at the end what is written here."""
    with suppress(Taken), tx.savepoint():
        yield
        raise Taken


def test_every_column_that_the_gate_trusts_is_held_against_the_ledger(case):
    unseen = []
    with suppress(Taken), case.store.write() as tx:
        assert compare(tx).differences == ()
        with edits.unguarded(tx):
            for table, column in bound():
                tried = 0
                for key in edit(tx, table, column):
                    tried += 1
                    if not compare(tx).differences:
                        unseen.append(f"{table}.{column} {key}")
                assert tried, f"nothing is in {table}.{column}"
            raise Taken
    assert unseen == []


def test_what_is_compared_at_once_is_a_piece_or_what_one_adversary_has(
    store, monkeypatch
):
    """However long the ledger is: the memory that it takes does not grow with it."""
    case = Case(store)
    case.apply(policy(PAIR, budget="t = 90"))
    case.add(*(f"x/w{n}" for n in range(9)))
    case.load(*((f"r{n}", f"p{n}", n, "ac") for n in range(5)))
    for worker in range(9):
        for n in range(5 if worker == 4 else worker % 3):
            case.book((f"x/w{worker}", f"r{n}.c"))
    with store.write() as tx:
        merge(tx, [("x/w1", "x/w4")], because="one person", at=case.tick())
    pieces = []
    whole = comparison.rows.showings

    def showings(tx, chains):
        found = whole(tx, chains)
        pieces.append({n: int((found["chain"] == n).sum()) for n in chains})
        return found

    monkeypatch.setattr(comparison.rows, "showings", showings)
    assert columns(store) == []
    sizes = [sum(piece.values()) for piece in pieces]
    assert sum(sizes) == 1 + 2 + 5 + 2 + 1 + 2, pieces
    assert len([size for size in sizes if size]) > 2
    assert max(sizes) == 1 + 5, "the two that are one adversary"


# -- what each of the edits lets be shown, and what evidence says of it --------


def whole_evidence(case, tmp_path, clock):
    bundle = export(case.store, tmp_path / "evidence", clock=clock)
    return verify(bundle.folder)


def violated(verdict):
    assert verdict.status == 1, verdict.text
    return json.loads(verdict.first.removeprefix("VIOLATED "))


def pair_case(store, rules=PAIR):
    case = Case(store)
    case.apply(policy(rules))
    case.add("x/ann", "x/bob")
    case.load(("r1", "p1", 1, "ab"), ("r2", "p1", 2, "ab"), ("r3", "p2", 3, "ab"))
    return case


def test_a_merge_that_was_undone_shows_nothing_to_the_chain_that_ended(store):
    case = pair_case(store)
    case.book(("x/ann", "r1.a"))
    with store.write() as tx:
        merge(tx, [("x/ann", "x/bob")], because="one person", at=case.tick())
        edits.put_into_adversary(tx, "bob", 2)
    assert columns(store) == ["account.adversary_id"]
    with pytest.raises(StoreEdited, match="a2, which ended in a join"):
        case.book(("x/bob", "r1.b"))


def test_what_was_shown_after_a_merge_was_undone_is_named_by_evidence(
    store, tmp_path, clock
):
    case = pair_case(store)
    case.book(("x/ann", "r1.a"))
    with store.write() as tx:
        merge(tx, [("x/ann", "x/bob")], because="one person", at=case.tick())
        edits.put_into_adversary(tx, "bob", 2)
        edits.forget_merges(tx)
    assert columns(store) == ["account.adversary_id", "chain.survivor_id"]
    case.book(("x/bob", "r1.b"))
    verdict = whole_evidence(case, tmp_path, clock)
    assert violated(verdict)["property"] == "a-b"
    assert violated(verdict)["adversary"] == "a1"
    assert "ASTRAY a2 goes on after its end" in verdict.text


def test_what_was_shown_to_an_account_in_another_adversary_is_named_by_evidence(
    store, tmp_path, clock
):
    case = pair_case(store)
    case.book(("x/ann", "r1.a"))
    with store.write() as tx:
        edits.put_into_adversary(tx, "ann", 2)
    assert columns(store) == ["account.adversary_id", "task.adversary_id"]
    case.book(("x/ann", "r1.b"))
    verdict = whole_evidence(case, tmp_path, clock)
    assert violated(verdict)["adversary"] == "a1"
    assert "account is in another adversary" in verdict.text


HISTORY = '[property.history]\nscope = "subject"\nof = ["a", "b"]\n'


def test_what_was_shown_of_a_person_by_another_name_is_named_by_evidence(
    store, tmp_path, clock
):
    case = pair_case(store, HISTORY)
    case.book(("x/ann", "r1.a"))
    with store.write() as tx:
        edits.change_entry(tx, case.entries["r2.b"], subject_id=2)
    assert columns(store) == ["entry.subject_id", "record.subject_id"]
    case.book(("x/ann", "r2.b"))
    verdict = whole_evidence(case, tmp_path, clock)
    assert violated(verdict)["property"] == "history"


def test_what_was_shown_when_the_summary_was_emptied_is_named_by_evidence(
    store, tmp_path, clock
):
    case = pair_case(store)
    case.book(("x/ann", "r1.a r2.a r3.a"))
    with store.write() as tx:
        edits.empty(tx, ExposureCount)
    assert columns(store) == ["exposure_count"]
    case.book(("x/ann", "r1.b r2.b r3.b"))
    verdict = whole_evidence(case, tmp_path, clock)
    assert violated(verdict)["property"] == "a-b"


def test_what_was_shown_too_often_when_showings_were_taken_back_is_named_by_evidence(
    store, tmp_path, clock
):
    case = Case(store)
    case.apply(policy(PAIR, budget="t = 1"))
    case.add("x/ann", "x/bob")
    case.load(("r1", "p1", 1, "ab"))
    case.book(("x/ann", "r1.a"))
    with store.write() as tx, edits.unguarded(tx):
        edits.unbook_showings(tx)
    assert columns(store) == ["ledger_line.showing"]
    case.book(("x/bob", "r1.a"))
    assert violated(whole_evidence(case, tmp_path, clock))["property"] == "budget.t"


def test_links_that_were_taken_away_are_still_judged_by_evidence(
    store, tmp_path, clock
):
    case = furnished(store)
    with store.write() as tx:
        edits.empty(tx, Link)
    assert columns(store) == ["link"]
    verdict = whole_evidence(case, tmp_path, clock)
    assert verdict.status == 0, verdict.text


def columns(store):
    """Columns that a comparison finds edited."""
    with store.read() as tx:
        return [one.column for one in compare(tx).differences]


# -- programs --------------------------------------------------------------------------


def test_each_edit_is_named_by_its_column(case):
    with suppress(Taken), case.store.write() as tx:
        for column, edited in EDITS.items():
            with taken_back(tx):
                assert edited(tx)
                assert column in [one.column for one in compare(tx).differences]
        raise Taken


@pytest.fixture
def place(run, store_url, monkeypatch, tmp_path):
    """A directory whose commands work on a furnished store; each in turn on a database."""
    monkeypatch.setenv("DISPATCHER_STORE", store_url)
    (tmp_path / "policy.toml").write_bytes(policy(PAIR))
    (tmp_path / "forms.csv").write_text("id,person,when,a,b\nr9,p,2026-01-01,x,y\n")
    with open_store(store_url) as store:
        furnished(store)
    return store_url


APART = ({"exposure_count", "visit"}, {"disclosure_sum"}, {"entry"})
"""Edits that hide each other: what sums up lines is compared where nothing else differs."""


@pytest.fixture(
    params=[*APART, EDITS.keys() - set().union(*APART)],
    ids=["counts", "sums", "entries", "others"],
)
def edited_columns(request, place):
    """Columns of a store in which all of them were edited; none hides another."""
    with open_store(place) as store:
        with store.write() as tx:
            for column in request.param:
                EDITS[column](tx)
        assert request.param <= set(columns(store))
    return request.param


def test_an_edited_store_is_refused_by_the_daemon_and_named_by_every_check(
    run, edited_columns
):
    for words in (["up"], ["db", "check"], ["ledger", "verify"]):
        done = run(*words)
        assert done.code == 1, (words, done.out, done.err)
        assert "E135" in done.err
        for column in edited_columns:
            assert f"{column} (" in done.err
    seen = run("doctor", "--only", "ledger")
    assert seen.code == 1
    assert "FAIL  the store is not as its ledger says: " in seen.out
    for column in edited_columns:
        assert f"{column} (" in seen.out


def test_a_command_that_writes_into_the_ledger_refuses_an_edited_store(run, place):
    before = lines(place)
    Path("ledger").mkdir(mode=0o700)
    with open_store(place) as store, store.write() as tx:
        EDITS["account.adversary_id"](tx)
    for words in (
        ["policy", "apply", "--yes"],
        ["workers", "add", "folder/new"],
        ["workers", "merge", "x/ann", "x/bob", "--reason", "same", "--yes"],
        ["records", "load", "forms.csv"],
        ["ledger", "replay"],
    ):
        done = run(*words)
        assert done.code == 1, (words, done.err)
        assert "E135" in done.err
        assert "restore BACKUP --replay-ledger" in done.err
        assert lines(place) == before


def lines(place):
    with open_store(place) as store, store.read() as tx:
        return sql.value(tx, "SELECT COUNT(*) FROM ledger_line")


def test_a_store_that_nobody_edited_is_as_its_ledger_says(run, place):
    for words in (["db", "check"], ["ledger", "verify"]):
        done = run(*words)
        assert done.code == 0, done.err
    with open_store(place) as store:
        refuse_edited(store)


# -- while the daemon runs ---------------------------------------------------------------


def test_a_daemon_does_not_lead_an_edited_store_and_gives_the_lease_back(store, clock):
    case = pair_case(store)
    case.book(("x/ann", "r1.a"))
    with store.write() as tx:
        edits.empty(tx, ExposureCount)
    daemon = Daemon(store, [], clock, lost=lambda: None)
    with pytest.raises(StoreEdited):
        daemon.lead()
    assert not daemon.is_leading()
    with store.read() as tx:
        assert lease.holder(tx, lease.SHARD).leased_until == 0


def test_a_daemon_whose_store_is_edited_stops_at_once_and_says_why(store, clock):
    case, lost = pair_case(store), threading.Event()
    case.book(("x/ann", "r1.a"))
    turns = []

    def compare_now(epoch):
        turns.append(epoch)
        refuse_edited(store)
        return 0

    tick = Tick("comparing", 0.02, compare_now)
    daemon = Daemon(store, [tick], clock, lost=lost.set, renew_seconds=0.05)
    daemon.lead()
    daemon.start()
    until(lambda: turns, "the first turn")
    assert daemon.is_open()
    with store.write() as tx:
        edits.put_into_adversary(tx, "ann", 2)
    assert lost.wait(PATIENCE)
    assert not daemon.is_open()
    with pytest.raises(StaleLease):
        daemon.epoch_to_show()
    daemon.stop()
    with pytest.raises(StoreEdited, match="not as its ledger says"):
        daemon.raise_if_lost()
    with store.read() as tx:
        assert lease.holder(tx, lease.SHARD).leased_until == 0


def test_a_tick_that_is_not_due_at_once_waits_for_its_time(store, clock):
    turns = []
    later = Tick(
        "comparing", 3600.0, lambda _: turns.append("later") or 0, at_once=False
    )
    first = Tick("sealing", 0.02, lambda _: turns.append("first") or 0)
    daemon = Daemon(store, [later, first], clock, lost=lambda: None)
    daemon.lead()
    daemon.start()
    until(lambda: len(turns) > 2, "some turns")
    daemon.stop()
    assert "later" not in turns


def test_a_store_is_as_its_ledger_says_at_every_moment_of_bookings(store):
    """One snapshot: no booking, load, merge or seal is ever half there."""
    case = Case(store)
    case.apply(policy(PAIR + HISTORY.replace("history", "person"), budget="t = 9"))
    case.add(*(f"x/w{n}" for n in range(6)))
    case.load(*((f"r{n}", f"p{n % 3}", n, "abcd") for n in range(12)))
    ended, found = threading.Event(), []

    def work():
        try:
            for n in range(12):
                for worker in range(6):
                    asks = " ".join(f"r{n}.{field}" for field in "cad")
                    case.book((f"x/w{worker}", asks), skip=True)
                case.load((f"more{n}", f"p{n}", n, "ab"))
                with store.write() as tx:
                    seal(tx, at=case.tick())
            with store.write() as tx:
                merge(
                    tx,
                    [("x/w0", "x/w5")],
                    because="one person",
                    at=case.tick(),
                    accept=None,
                )
        finally:
            ended.set()

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(work)
        while not ended.is_set():
            found += columns(store)
        done.result()
    assert found == []
    assert columns(store) == []
