"""After an erasure: nowhere a trace, whoever is spelled otherwise, whatever broke off."""

import gzip
import shutil
import unicodedata
import zipfile
from contextlib import suppress

import pytest

from dispatcher.core.errors import WrongKey
from dispatcher.core.keys import place_of
from dispatcher.custody import backup, erasure
from dispatcher.custody.erasure import erase_again
from dispatcher.custody.evidence import export, verify
from dispatcher.custody.key_rotation import rekey_store
from dispatcher.custody.sealed_file import Secret
from dispatcher.ledger.book import Push
from dispatcher.ledger.comparison import compare
from dispatcher.ledger.shipping import attach
from dispatcher.stages.intake.loading import RESPELLED, load
from dispatcher.store import engine, open_store
from dispatcher.store.driver_errors import not_kept, outcome_unknown
from dispatcher.store.vault import KeyFile, Vault
from tests import sql
from tests.integration.clinic import Clinic, canary
from tests.integration.cutting import AFTER, BEFORE, cutter

SECRET = Secret(passphrase=b"six words that nobody guesses")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """A passphrase is stretched for long: not in tests."""
    monkeypatch.setattr("dispatcher.custody.sealed_file.SCRYPT_N", 2)


@pytest.fixture
def clinic(store, tmp_path, clock):
    place = tmp_path / "clinic"
    place.mkdir()
    rekey_store(store, KeyFile(tmp_path / "outside.key"))
    attach(store, place / "shipped")
    made = Clinic(store, place, clock)
    made.load()
    made.work()
    return made


def test_safety_35_the_canary_is_in_no_file_and_all_that_counts_stays_whole(
    clinic, tmp_path, clock, postgres_cluster
):
    # Of a name that no other test of this cluster has written in clear.
    clinic.load(["quirin"])
    clinic.case.book(("folder/fay", "quirin.a"), delivery=Push())
    clinic.send()
    clinic.put("fay", "answers-quirin.csv", {"quirin.a": "said"})
    clinic.collect()
    name, store = clinic.name("quirin"), clinic.store
    assert clinic.in_files("quirin") != []
    backup.create(store, clinic.place / "backups", SECRET, clock=clock)
    lines, counts = (clinic.case.count(t) for t in ("ledger_line", "exposure_count"))
    with store.read() as tx:
        key_id, kek, wrapped = sql.rows(
            tx,
            "SELECT k.id, k.kek, k.wrapped FROM value_key k JOIN subject s"
            " ON s.key_id = k.id WHERE s.pseudonym = ?",
            [name],
        )[0]
    done = erasure.erase(clinic.means(), name)
    assert done.left == clinic.in_rows("quirin") == clinic.in_files("quirin") == []
    # store, log and journal; on PostgreSQL the cluster's pages and write-ahead log
    root = store.path.parent if store.path else postgres_cluster.socket
    needle = canary("quirin", "").encode()
    for path in root.rglob("*"):
        if path.is_file() and path.name != "source.csv":  # the operator's own
            with suppress(FileNotFoundError):  # a server takes its files away at will
                assert needle not in path.read_bytes(), path
    assert (clinic.case.count("ledger_line"), clinic.case.count("exposure_count")) == (
        lines,
        counts,
    )
    with store.write() as tx:
        assert compare(tx).differences == ()
    bundle = export(store, tmp_path / "evidence", clock=clock)
    assert verify(bundle.folder).first[:8] == "VERIFIED"
    # Who kept the wrapped key from pages or logs loses it with the next wrapping key.
    rekey_store(store, store.vault.file, new_key=True, forget_old=True)
    vault = Vault(store.vault.file)
    with pytest.raises(WrongKey):
        vault.unwrap(place_of("value_key", key_id), kek, bytes(wrapped))


@pytest.mark.parametrize(
    "other",
    [str.upper, lambda key: f" {key} ", lambda key: key.replace("-", "\u200b-"),
     lambda key: unicodedata.normalize("NFD", key)],
)  # fmt: skip
def test_who_was_erased_is_refused_by_any_spelling(clinic, tmp_path, other):
    path = tmp_path / "zoë.csv"
    head = "id,person,when,a,b,more\n"
    path.write_text(f"{head}rx-0007,Zoë-007,2026-01-01,A,B,C\n")
    assert load(clinic.store, path, clock=clinic.clock).counts.records == 1
    [found] = erasure.find(clinic.store, "Zoë-007")
    erasure.erase(clinic.means(), found.id)
    rejects = tmp_path / "rejects.csv"
    rows = [("new", other("Zoë-007")), (other("rx-0007"), "somebody")]
    for key, person in rows if other("rx-0007") != "rx-0007" else rows[:1]:
        path.write_text(f"{head}{key},{person},2026-01-01,A,B,C\n")
        done = load(clinic.store, path, clock=clinic.clock, rejects=rejects)
        assert (done.counts.records, done.counts.rejected) == (0, 1)
        assert RESPELLED in rejects.read_text()
    path.write_text(f"{head}rx-7,zoë-8,2026-01-01,A,B,C\nrx-8,zoë-8,2026-01-01,A,B,C\n")
    assert load(clinic.store, path, clock=clinic.clock).counts.records == 1


def test_somebody_of_a_like_key_who_was_there_before_stays(clinic, tmp_path):
    path = tmp_path / "like.csv"
    rows = "x1,007,2026-01-01,A,B,C\nx2,7,2026-01-01,A,B,C\n"
    path.write_text(f"id,person,when,a,b,more\n{rows}")
    assert load(clinic.store, path, clock=clinic.clock).counts.records == 2
    [found] = erasure.find(clinic.store, "007")
    erasure.erase(clinic.means(), found.id)
    path.write_text("id,person,when,a,b,more\nx3,7,2026-01-01,A,B,C\n")
    assert load(clinic.store, path, clock=clinic.clock).counts.records == 1


def test_what_others_have_too_is_no_trace(clinic):
    path = clinic.place.parent / "drugs.csv"
    path.write_text(
        "id,person,when,a,b,more\n"
        "rx-3,carl-carlson,2026-01-01,amoxicillin 500,Carl Secretson,x\n"
        "rx-30,dora-dorason,2026-01-01,amoxicillin 500,Dora Secretson,y\n"
    )
    load(clinic.store, path, clock=clinic.clock)
    (clinic.place / "policy.toml").write_text('show = ["rx-3.name"]\n')
    (clinic.place / "spool" / "others.csv").write_text("rx-30,amoxicillin 500\n")
    (clinic.place / "notes.txt").write_text("see rx-3: he called\n")
    with gzip.open(clinic.place / "old.csv.gz", "wt") as file:
        file.write("1;Carl Secretson;2\n")
    with zipfile.ZipFile(clinic.place / "old.xlsx", "w") as archive:
        archive.writestr("xl/sharedStrings.xml", "<t>Carl Secretson</t>")
    (clinic.place / "wide.txt").write_text("Carl Secretson", encoding="utf-16")
    [found] = erasure.find(clinic.store, "carl-carlson")
    done = erasure.erase(clinic.means(), found.id)
    left = ["notes.txt", "old.csv.gz", "old.xlsx", "wide.txt"]
    assert done.left == [str(clinic.place / name) for name in left]


def test_an_erasure_that_was_not_kept_is_done_once_more(clinic, monkeypatch):
    means, name = clinic.means(), clinic.name("anna")
    work = []
    add_event = erasure.add_event

    def note(*args):
        work.append(args)
        if len(work) == 1:
            raise not_kept()
        add_event(*args)

    monkeypatch.setattr(erasure, "add_event", note)
    done = erasure.erase(means, name)
    assert len(work) == 2
    assert done.deleted["records"] == 1  # counted once
    assert clinic.in_rows("anna") == clinic.in_files("anna") == []


def test_an_erasure_of_unknown_outcome_is_not_repeated_blindly(clinic, monkeypatch):
    means, name = clinic.means(), clinic.name("anna")
    tries = []

    def unknown(store, work):
        tries.append(work)
        with store.write() as tx:
            work(tx)
        raise outcome_unknown()

    monkeypatch.setattr(erasure, "committed", unknown)
    with pytest.raises(type(outcome_unknown())):
        erasure.erase(means, name)
    assert len(tries) == 1
    monkeypatch.setattr(erasure, "committed", engine.committed)
    done = erasure.erase(means, name)  # told to repeat it: it ends what is left
    assert clinic.in_rows("anna") == clinic.in_files("anna") == done.left == []


def test_a_killed_erasure_is_ended_by_the_next_start(clinic, monkeypatch):
    class Killed(BaseException):
        pass

    def kill(*_args):
        raise Killed

    for point in ("add_event", "finish"):
        name = clinic.name("anna" if point == "add_event" else "bert")
        with monkeypatch.context() as broken:
            broken.setattr(erasure, point, kill)
            with pytest.raises(Killed):
                erasure.erase(clinic.means(), name)
    from dispatcher.custody.erasure import Retention

    Retention(clinic.means()).tick(clinic.epoch)  # as the daemon does
    assert erase_again(clinic.means()) == []
    for person in ("anna", "bert"):
        assert clinic.in_rows(person) == clinic.in_files(person) == []


@pytest.mark.parametrize("how", [BEFORE, AFTER])
def test_a_connection_cut_in_the_commit_of_an_erasure(
    postgres_url, postgres_cluster, tmp_path, clock, how
):
    with open_store(postgres_url) as direct:
        place = tmp_path / "clinic"
        place.mkdir()
        clinic = Clinic(direct, place, clock)
        clinic.load()
        clinic.work()
    socket = postgres_cluster.socket / ".s.PGSQL.5432"
    with cutter(socket) as proxy:
        base = postgres_url.rpartition("/")[2]
        url = f"postgresql://{postgres_cluster.user}@127.0.0.1:{proxy.port}/{base}"
        with open_store(url) as store:
            clinic.store = clinic.case.store = store
            name = clinic.name("anna")
            erasure.scope(store, name)
            # the event's parameter, not the column in a statement's text
            proxy.cut(how, b"subject.erased\0\0")
            done = erasure.erase(clinic.means(), name)
            assert proxy.cuts == 1
            assert done.deleted["records"] == 1
            events = "SELECT count(*) FROM event WHERE action = 'subject.erased'"
            assert clinic.ask(events) == 1
            assert clinic.in_rows("anna") == []
    shutil.rmtree(place)
