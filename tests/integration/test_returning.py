"""Records that went down with a store, loaded again after a replay of its ledger."""

import pytest

from dispatcher.core.errors import Refused
from dispatcher.custody import backup, erasure, erasure_list
from dispatcher.custody.erasure import ErasureContext
from dispatcher.custody.evidence import export, verify
from dispatcher.custody.key_rotation import rekey_store
from dispatcher.custody.restore import Gap, Target, restore
from dispatcher.custody.sealed_file import Secret
from dispatcher.ledger.comparison import compare
from dispatcher.ledger.shipping import attach
from dispatcher.stages.intake import runs
from dispatcher.stages.intake.loading import ERASED, OTHER, RESPELLED, load
from dispatcher.store import open_store, pause, serving
from dispatcher.store.vault import KeyFile
from tests import builders, sql
from tests.integration.ledger_cases import PAIR, Case, policy

SECRET = Secret(passphrase=b"six words that nobody guesses")
SUBJECT = '[property.one]\nscope = "subject"\nof = ["a", "c"]'


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """A passphrase is stretched for long: not in tests."""
    monkeypatch.setattr("dispatcher.custody.sealed_file.SCRYPT_N", 2)


class House:
    """A store that is shipped, backed up, lost and restored; files of people in it."""

    def __init__(self, store, place, clock, *, sealed=False, rules=PAIR):
        self.place, self.clock = place, clock
        self.key_file = KeyFile(place / "dispatcher.key")
        if sealed:
            rekey_store(store, self.key_file)
        self.case = Case(store)
        attach(store, place / "shipped")
        self.case.apply(policy(rules))
        self.case.add("x/ann", "x/bob")

    @property
    def store(self):
        return self.case.store

    def file(self, *rows: str):
        path = self.place / f"file-{len(list(self.place.glob('file-*')))}.csv"
        text = "\n".join(["id,person,when,a,b,c,d", *rows])
        path.write_text(text + "\n")
        return path

    def load(self, path):
        rejects = self.place / "rejects.csv"
        done = load(self.store, path, clock=self.case.tick, rejects=rejects)
        self.learn()
        return done.counts, rejects.read_text() if rejects.exists() else ""

    def learn(self):
        with self.store.read() as tx:
            for entry, record, field in sql.rows(
                tx,
                "SELECT e.id, r.id, f.name FROM entry e JOIN record r"
                " ON r.id = e.record_id JOIN field f ON f.id = e.field_id",
            ):
                self.case.entries[f"{record}.{field}"] = entry

    def ask(self, text, *parameters):
        with self.store.read() as tx:
            return sql.value(tx, text, list(parameters))

    def lose(self, **more):
        """Restore the backup, replayed; go on with it."""
        target = Target(
            str(self.place / "restored.db"),
            self.key_file,
            self.place / "shipped",
            **more,
        )
        path = next((self.place / "kept").glob("*.backup"))
        done = restore(path, SECRET, target, Gap(replay=True), clock=self.case.tick)
        restored = open_store(self.place / "restored.db", key_file=self.key_file)
        attach(restored, self.place / "shipped")
        with restored.write() as tx:
            pause.resume(tx, pause.ALL)
        self.case = Case(restored, self.case.now, {}, self.case.accounts)
        self.learn()
        return done

    def keep(self):
        backup.create(self.store, self.place / "kept", SECRET, clock=self.case.tick)


@pytest.fixture(params=["sealed", "in clear"])
def house(request, store, tmp_path, clock):
    made = House(store, tmp_path, clock, sealed=request.param == "sealed")
    yield made
    made.store.close()


FIRST, SECOND = "r1,p1,2026-01-01,A1,B1,C1,D1", "r2,p2,2026-01-02,A2,B2,C2,D2"


def test_loading_again_brings_the_values_back_to_their_exposures(house, tmp_path):
    house.load(house.file(FIRST))
    house.keep()
    source = house.file(SECOND)
    house.load(source)
    house.case.book(("x/ann", "2.a"))
    house.lose()
    assert house.ask("SELECT count(*) FROM record WHERE lost_at IS NOT NULL") == 1
    record = house.ask("SELECT id FROM record WHERE lost_at IS NOT NULL")
    keys = house.case.count("key_lines")
    counts, _ = house.load(source)
    assert (counts.records, counts.returned, counts.rejected) == (1, 1, 0)
    assert house.case.count("key_lines") == keys  # the ledger knew it all
    with house.store.read() as tx:
        shown = serving.shown_entry(tx, house.case.entries[f"{record}.a"])
        assert shown is not None
        assert b"A2" in [bytes(part) for part in shown if isinstance(part, bytes)]
        assert compare(tx).differences == ()
    with pytest.raises(Refused):
        house.case.book(("x/ann", f"{record}.b"))  # who has seen a
    assert house.case.book(("x/bob", f"{record}.b")).new == 1
    assert house.load(source)[0].skipped == 1
    bundle = export(house.store, tmp_path / "evidence", clock=house.clock)
    assert verify(bundle.folder).first[:8] == "VERIFIED"


def test_a_row_that_is_not_the_lost_record_is_refused(house):
    house.case.apply(policy(PAIR + SUBJECT, name="two"))
    house.keep()
    house.load(house.file(FIRST, SECOND))
    house.lose()
    for changed in (
        FIRST.replace("p1", "p9"),
        FIRST.replace("B1", ""),
    ):
        counts, told = house.load(house.file(changed))
        assert (counts.records, counts.rejected) == (0, 1)
        assert OTHER in told
    assert house.ask("SELECT count(*) FROM subject WHERE length(value) > 0") == 0
    counts, _ = house.load(house.file(SECOND.replace("A2", "corrected")))
    assert counts.returned == 1


def test_a_lost_record_grows_by_what_the_ledger_did_not_know(house):
    house.keep()
    house.load(house.file("r1,p1,2026-01-01,A1,B1,,"))
    house.lose()
    house.load(house.file(FIRST))
    record = house.ask("SELECT id FROM record")
    assert house.ask("SELECT count(*) FROM entry WHERE length(shown) > 0") == 4
    assert house.case.book(("x/bob", f"{record}.d")).new == 1
    bundle = export(house.store, house.place / "evidence", clock=house.clock)
    assert verify(bundle.folder).first[:8] == "VERIFIED"


def test_lost_records_wait_for_the_pilot_of_the_run_they_come_back_into(house):
    house.keep()
    source = house.file(FIRST, SECOND)
    house.load(source)
    house.lose()
    runs.begin(house.store, "nov", 1, 1, "ann")
    done = load(house.store, source, clock=house.case.tick, run="nov")
    assert done.counts.returned == 2
    assert house.ask("SELECT count(*) FROM record WHERE waits_since IS NOT NULL") == 1


def test_lost_records_wait_for_no_pilot_of_a_run_that_they_left(house):
    house.keep()
    source = house.file(FIRST, SECOND)
    house.load(source)
    house.lose()
    builders.hold_for_pilot(house.store)
    house.load(source)
    assert house.ask("SELECT count(*) FROM record WHERE waits_since IS NOT NULL") == 0


@pytest.mark.parametrize("lost", ["", "shipped"], ids=["settings", "shipped"])
def test_who_was_erased_after_the_backup_is_erased_in_what_is_restored(house, lost):
    """The list is kept twice: what is left of the two is enough."""
    house.load(house.file(FIRST))
    house.keep()
    later = house.file(SECOND, "r3,p3,2026-01-03,A3,B3,C3,D3")
    house.load(later)
    means = ErasureContext(
        house.store,
        {},
        house.clock,
        lambda *_: None,
        house.place,
        shipped=house.place / "shipped",
        actor="cli",
    )
    for key in ("p1", "r3"):  # one whom the backup has, a record that it has not
        [found] = erasure.find(house.store, key)
        erasure.erase(means, found.id)
    (house.place / lost / erasure_list.NAME).unlink()
    done = house.lose(listed=(house.place,))
    assert (done.erased, done.lost, done.listed) == (2, 1, True)
    assert house.ask("SELECT count(*) FROM entry WHERE length(shown) > 0") == 0
    counts, told = house.load(later)
    assert (counts.returned, counts.rejected, ERASED in told) == (1, 1, True)
    counts, told = house.load(
        house.file("r9,P-1,2026-01-01,A,B,C,D", "R3,p9,2026-01-01,A,B,C,D")
    )
    assert (counts.records, counts.rejected, RESPELLED in told) == (1, 1, True)


def test_what_was_purged_is_not_loaded_again_after_a_restore(house):
    house.keep()
    source = house.file(FIRST)
    house.load(source)
    listed = house.place / erasure_list.NAME
    erasure_list.note_purge(listed, house.case.now + 1, house.case.now + 1)
    house.lose(listed=(house.place,))
    counts, told = house.load(source)
    assert (counts.records, counts.rejected, ERASED in told) == (0, 1, True)


def test_all_facts_of_lost_entries_are_replayed_whatever_the_rules_need(house):
    # The first version has no use for the person; the next one has, for two fields.
    house.keep()
    source = house.file(FIRST, "r3,p1,2026-01-03,A3,B3,C3,D3")
    house.load(source)
    house.case.apply(policy(PAIR + SUBJECT, name="two"))
    house.case.book(("x/ann", "1.a"))
    house.lose()
    assert house.ask("SELECT count(*) FROM entry WHERE subject_id IS NOT NULL") == 8
    assert house.load(source)[0].returned == 2
    with pytest.raises(Refused):  # a of one record and c of the other, of one person
        house.case.book(("x/ann", f"{house.ask('SELECT max(id) FROM record')}.c"))
    with house.store.read() as tx:
        assert compare(tx).differences == ()


def test_a_lost_record_is_loaded_under_a_policy_without_one_of_its_fields(house):
    house.keep()
    house.load(house.file(FIRST))
    less = "\n".join(f'{f} = {{ ask = "transcribe" }}' for f in "abc")
    house.case.apply(policy(PAIR, less, name="two"))
    house.lose()
    assert house.load(house.file(FIRST))[0].returned == 1
    assert house.ask("SELECT count(*) FROM entry WHERE length(shown) > 0") == 3
    assert house.ask("SELECT count(*) FROM result WHERE state = 'erased'") == 1
