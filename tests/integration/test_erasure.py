"""Erasure: what goes, what stays, and what a record that comes again meets."""

import json
import zipfile

import pytest
from sqlalchemy import delete

from connectors.base import TryLater
from connectors.testing.hostile import Memory
from dispatcher.core import progress
from dispatcher.core.errors import Conflict, NotFound, Refused
from dispatcher.custody import erasure
from dispatcher.custody.erasure import erase_again, note_export
from dispatcher.custody.evidence import export, verify
from dispatcher.custody.key_rotation import rekey_store
from dispatcher.custody.subject_report import write_report
from dispatcher.ledger.chains import seal
from dispatcher.ledger.comparison import compare
from dispatcher.model import Result, metadata
from dispatcher.stages.assembly import Assembly, reassemble
from dispatcher.store import outbox
from dispatcher.store.erasure import pending
from dispatcher.store.outbox import MessageOutcome
from dispatcher.store.vault import KeyFile
from tests import builders, sql
from tests.integration.clinic import PEOPLE, Clinic, canary

PLAIN = [
    "answer.raw", "entry.shown", "quarantine.payload",
    "record.columns", "record.key", "result.value", "subject.value", "task.draft",
]  # fmt: skip


@pytest.fixture(params=["sealed", "in clear"])
def clinic(request, store, tmp_path, clock):
    place = tmp_path / "clinic"
    place.mkdir()
    if request.param == "sealed":
        rekey_store(store, KeyFile(tmp_path / "outside.key"))
    made = Clinic(store, place, clock)
    made.load()
    made.work()
    made.sealed = request.param == "sealed"
    return made


def test_after_an_erasure_no_canary_is_anywhere(clinic):
    assert clinic.in_rows("anna") == ([] if clinic.sealed else PLAIN)
    files = clinic.in_files("anna")
    for part in ("spool/fay/batch-", "spool/.taken/", "spool/fox/my-copy", "whole.csv"):
        assert any(name.startswith(part) for name in files), part
    done = erasure.erase(clinic.means(), clinic.name("anna"))
    assert clinic.in_rows("anna") == []
    assert clinic.in_files("anna") == []
    assert done.left == []
    assert done.scrubbed
    assert done.deleted["records"] == 1
    assert done.deleted["answers"] == 2
    assert done.deleted["drafts"] == 1
    assert done.strange == 1
    assert done.recalled == {"inhouse": 1}


def test_the_audit_log_says_who_erased(clinic):
    erasure.erase(clinic.means(actor="daemon"), clinic.name("anna"))
    who = clinic.ask("SELECT actor FROM event WHERE action = 'subject.erased'")
    assert who == "daemon"


def test_others_keep_what_is_theirs(clinic):
    before = clinic.export.read_text()
    erasure.erase(clinic.means(), clinic.name("anna"))
    assert clinic.ask("SELECT count(*) FROM record WHERE erased_at IS NULL") == 1
    assert clinic.ask("SELECT count(*) FROM answer") == 1
    after = clinic.export.read_text()
    assert canary("anna", "") in before
    assert after.count(canary("bert", "key")) == 1
    assert "said" in after  # bert's answer
    assert any("spool/fay" in name for name in clinic.in_files("bert"))


def test_an_export_is_rewritten_in_the_form_that_it_has(clinic):
    """Whatever its name: else it would be deleted, or change its form."""
    path = clinic.place / "whole.out"
    note_export(clinic.store, "default", path, clinic.clock())
    reassemble(clinic.store, "default", path, "jsonl")
    erasure.erase(clinic.means(), clinic.name("anna"))
    (line,) = path.read_text().splitlines()
    assert canary("bert", "key") in json.loads(line).values()


def test_ledger_and_evidence_stay_whole(clinic, tmp_path, clock):
    lines = clinic.case.count("ledger_line")
    counts = clinic.case.count("exposure_count")
    erasure.erase(clinic.means(), clinic.name("anna"))
    assert clinic.case.count("ledger_line") == lines
    assert clinic.case.count("exposure_count") == counts
    with clinic.store.write() as tx:
        assert compare(tx).differences == ()
        seal(tx, at=clinic.case.tick())
    bundle = export(clinic.store, tmp_path / "evidence", clock=clock)
    assert verify(bundle.folder, [bundle.root]).first[:8] == "VERIFIED"
    assert not any(
        canary("anna", "").encode() in path.read_bytes()
        for path in bundle.folder.iterdir()
    )


def test_the_same_record_is_refused_when_it_comes_again(clinic):
    erasure.erase(clinic.means(), clinic.name("anna"))
    done = clinic.load()
    assert (done.counts.records, done.counts.skipped, done.counts.rejected) == (0, 1, 1)
    assert clinic.in_rows("anna") == []


def test_a_new_record_of_an_erased_person_is_refused(clinic):
    erasure.erase(clinic.means(), clinic.name("anna"))
    path = clinic.csv(["anna"])
    path.write_text(path.read_text().replace(canary("anna", "key"), "another-key"))
    from dispatcher.stages.intake.loading import load

    done = load(clinic.store, path, clock=clinic.clock)
    assert (done.counts.records, done.counts.rejected) == (0, 1)


def test_what_was_shown_before_a_purge_still_counts_against_new_records(clinic):
    # fay saw anna's a. A record of anna's that comes after the purge is let in; but
    # its b may not go to fay: a and b of one person may not meet.
    erasure.purge(clinic.means(), clinic.clock() + 1)
    assert clinic.in_rows("anna") == []
    assert clinic.in_files("anna") == []
    assert clinic.load().counts.rejected == 2  # the very records stay out
    path = clinic.csv(["anna"])
    path.write_text(path.read_text().replace(canary("anna", "key"), "another-key"))
    from dispatcher.stages.intake.loading import load

    assert load(clinic.store, path, clock=clinic.clock).counts.records == 1
    clinic.case.entries["new.b"] = clinic.ask(
        "SELECT max(e.id) FROM entry e JOIN field f ON f.id = e.field_id"
        " WHERE f.name = 'b'"
    )
    with pytest.raises(Refused):
        clinic.case.book(("folder/fay", "new.b"))
    assert clinic.case.book(("folder/fox", "new.b")).new == 1  # who has only a b


def test_a_late_answer_about_an_erased_person_is_not_kept(clinic):
    clinic.put("fox", "answers-last.csv", {"anna.b": "last"})
    (clinic.spool / "fox" / "answers-last.csv").rename(clinic.place / "aside")
    erasure.erase(clinic.means(), clinic.name("anna"))
    (clinic.place / "aside").rename(clinic.spool / "fox" / "answers-last.csv")
    clinic.collect()
    assert clinic.in_rows("anna") == []
    assert clinic.ask("SELECT count(*) FROM answer") == 1
    Assembly(clinic.store, clinic.clock).tick(clinic.epoch)
    erased = "SELECT count(*) FROM result WHERE state = 'erased'"
    assert clinic.ask(erased) == 2


def test_an_erasure_that_was_broken_off_is_ended_by_another(clinic):
    class Down(Memory):
        def forget(self, tokens):
            raise ConnectionError

    broken = clinic.means()
    with pytest.raises(ConnectionError):
        erasure.erase(
            type(broken)(**{**vars(broken), "connectors": {"folder": Down()}}),
            clinic.name("anna"),
        )
    assert clinic.in_rows("anna") == []
    assert clinic.in_files("anna") != []
    erasure.erase(clinic.means(), clinic.name("anna"))
    assert clinic.in_files("anna") == []


def test_a_purge_that_was_broken_off_is_ended_by_the_daemons_tick(clinic):
    class Away(Memory):
        def forget(self, tokens):
            raise TryLater("away")

    means = clinic.means()
    away = type(means)(**{**vars(means), "connectors": {"folder": Away()}})
    done = erasure.purge(away, clinic.clock() + 1)
    assert "connector folder: it could not be reached" in done.left
    assert clinic.in_rows("anna") == []
    assert clinic.in_files("anna") != []
    erasure.Retention(means).tick(clinic.epoch)
    assert clinic.in_files("anna") == []
    with clinic.store.write() as tx:
        assert pending(tx) == []


def test_what_a_market_can_not_take_back_is_said(clinic):
    clinic.case.book(("folder/fox", "bert.a"), delivery=None)
    clinic.case.add("memory/mia")
    clinic.connectors["memory"] = Memory()
    clinic.case.book(("memory/mia", "bert.b"))
    clinic.send()
    done = erasure.erase(clinic.means(), clinic.name("bert"))
    assert done.beyond == {"memory": 1}
    assert done.recalled["folder"] >= 1


def test_nothing_leaves_after_an_erasure(clinic):
    clinic.case.add("memory/mia")
    market = clinic.connectors["memory"] = Memory()
    clinic.case.book(("memory/mia", "bert.b"))
    erasure.erase(clinic.means(), clinic.name("bert"))
    clinic.send()
    assert not any(offer.items for offer in market.offers.values())


def test_a_message_on_its_way_is_waited_for(clinic):
    clinic.case.book(("folder/fox", "bert.a"))
    [message] = clinic.lease()
    waits = []

    def wait(seconds):
        waits.append(seconds)
        if len(waits) == 2:
            sent = MessageOutcome(message, "sent", 0, 0, "h", None)
            with clinic.store.write() as tx:
                assert outbox.settle(tx, clinic.epoch, [sent]) == 1

    erasure.erase(clinic.means(wait=wait), clinic.name("bert"))
    assert len(waits) == 2
    clinic.case.add("folder/pim")
    clinic.case.book(("folder/pim", "anna.a"))
    clinic.lease()
    with pytest.raises(Conflict, match="being sent"):
        erasure.erase(clinic.means(wait=waits.append), clinic.name("anna"))
    assert clinic.ask("SELECT count(*) FROM subject WHERE erased_at IS NULL") == 1


class Slow(Memory):
    """Something happens while it is asked whether a message arrived before."""

    meanwhile = staticmethod(lambda: None)

    def find(self, key):
        self.meanwhile()
        return super().find(key)


def test_what_was_packed_before_an_erasure_does_not_leave_after_it(clinic):
    """The market, or our own process, sleeps until the lease of the message is over."""
    clinic.case.add("memory/mia")
    market = clinic.connectors["memory"] = Slow()
    clinic.case.book(("memory/mia", "bert.b"))
    builders.settle_messages(clinic.store, "ready", connector="memory")

    def meanwhile():
        with pytest.raises(Conflict, match="being sent"):  # while it is leased it waits
            erasure.erase(clinic.means(wait=lambda _: None), clinic.name("bert"))
        clinic.clock.advance(seconds=301)
        erasure.erase(clinic.means(), clinic.name("bert"))

    market.meanwhile = meanwhile
    clinic.send()
    assert market.offers == {}
    market.meanwhile = lambda: None
    clinic.send()
    assert market.offers == {}
    assert clinic.ask("SELECT state FROM outbox WHERE connector = 'memory'") == "dead"


def test_what_is_not_begun_in_time_is_begun_anew(clinic):
    """The first of two messages takes 200 s: the second one waits for its next turn."""
    clinic.case.add("memory/mia")
    market = clinic.connectors["memory"] = Slow()
    clinic.case.book(("memory/mia", "bert.b"))
    clinic.case.book(("memory/mia", "anna.a"))
    builders.settle_messages(clinic.store, "ready", connector="memory")
    told = "SELECT count(*) FROM outbox WHERE connector = 'memory' AND state = ?"
    market.meanwhile = lambda: clinic.clock.advance(seconds=200)
    clinic.send()
    assert market.offers == {}
    assert clinic.ask(f"{told} AND attempts = 1", "ready") == 2  # no try was spent
    market.meanwhile = lambda: clinic.clock.advance(seconds=100)
    clinic.send()
    assert (clinic.ask(told, "sent"), clinic.ask(told, "ready")) == (1, 1)
    clinic.send()
    assert clinic.ask(told, "sent") == 2


def test_a_message_of_a_crashed_sender_is_in_nobodys_way(clinic):
    clinic.case.book(("folder/fox", "bert.a"))
    clinic.lease(seconds=-1)
    erasure.erase(clinic.means(), clinic.name("bert"))
    assert clinic.in_rows("bert") == []


def test_what_a_restored_backup_brings_back_is_erased_again(clinic, tmp_path):
    store = clinic.store
    with store.read() as tx:
        kept = {
            table: sql.rows(tx, f"SELECT * FROM {table}")
            for table in ("subject", "record", "entry", "value_key")
        }
    columns = {
        name: [column.name for column in metadata.tables[name].columns] for name in kept
    }
    erasure.erase(clinic.means(), clinic.name("anna"))
    assert erase_again(clinic.means()) == []
    with store.write() as tx:  # the rows of before, as from a backup
        for name, found in kept.items():
            tx.execute(delete(metadata.tables[name]))
            tx.insert_many(name, columns[name], found)
        tx.execute(delete(Result))
    assert len(erasure.find(store, canary("anna", "id"))) == 1
    assert erase_again(clinic.means()) == [clinic.name("anna")]
    assert clinic.in_rows("anna") == []
    assert clinic.load().counts.rejected == 1


def test_files_that_are_not_ours_are_named(clinic):
    (clinic.place / "notes.txt").write_text(f"see {canary('anna', 'a')}!")
    heard = []
    with progress.listening(lambda *said: heard.append(said)):
        done = erasure.erase(clinic.means(), clinic.name("anna"))
    assert done.left == [str(clinic.place / "notes.txt")]
    ends = {what: (done, total) for done, total, what in heard}
    assert ends["records"][0] <= ends["records"][1] == len(PEOPLE) - 1
    assert ends["files"][0] == ends["files"][1] >= 1


def test_a_person_is_found_by_key_and_reported(clinic, tmp_path):
    [found] = erasure.find(clinic.store, canary("anna", "id"))
    assert found.id == clinic.name("anna")
    assert found.counts["fields"] == 2
    assert (found.showings.lines, found.showings.adversaries) == (3, 3)
    [record] = erasure.find(clinic.store, canary("anna", "key"))
    assert record.id == clinic.name("anna", "r")
    with pytest.raises(NotFound):
        erasure.find(clinic.store, "nobody")
    target = tmp_path / "report.zip"
    write_report(clinic.store, found.id, target, at=clinic.clock())
    assert target.stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(target) as archive:
        [data] = json.loads(archive.read("data.json"))
        recipients = json.loads(archive.read("recipients.json"))
    assert data["values"]["more"] == canary("anna", "more")
    assert {one["category"] for one in recipients} == {
        "workers of folder", "workers of inhouse",
    }  # fmt: skip


def test_one_record_may_be_erased_alone(clinic):
    erasure.erase(clinic.means(), clinic.name("bert", "r"))
    assert clinic.ask("SELECT count(*) FROM subject WHERE erased_at IS NOT NULL") == 0
    assert clinic.load(["bert"]).counts.rejected == 1


def test_an_erased_persons_key_is_destroyed(clinic):
    before = clinic.case.count("value_key")
    erasure.erase(clinic.means(), clinic.name("anna"))
    assert before - clinic.case.count("value_key") == int(clinic.sealed)


def test_retain_is_honoured_by_the_daemons_tick(store, tmp_path, clock):
    place = tmp_path / "clinic"
    place.mkdir()
    made = Clinic(store, place, clock, retain='retain = "30d"')
    made.load(["anna"])
    keeping = erasure.Retention(made.means())
    assert keeping.tick(made.epoch) == 0
    clock.advance(31 * 86_400)
    made.load(["bert"])
    assert keeping.tick(made.epoch) == 1
    assert made.in_rows("anna") == []
    assert made.ask("SELECT count(*) FROM record WHERE erased_at IS NULL") == 1
    assert PEOPLE == ("anna", "bert")
