"""The daemon works with a market that lies in every way it can: no promise breaks."""

from __future__ import annotations

import csv
import time
from pathlib import Path

import pytest

from connectors.testing.hostile import Fault
from dispatcher.core.keys import task_id_of
from dispatcher.store import open_store
from dispatcher.verifier import main as verify
from tests import edits, sql
from tests.e2e.lying.lying_market import EVERY, Outside
from tests.e2e.programs import Program, terminate

PLUGIN = Path(__file__).parent / "lying"
FIELDS = ("name", "disease", "dose", "doctor")
APART = ({"name", "disease"}, {"name", "dose", "doctor"})
POLICY = """
version = 1
name = "lies"

[budget]
tau = 1.0
t = 8

[entity.note]
key = "id"
subject = "person"

[entity.note.fields]
name = { ask = "transcribe" }
disease = { ask = "transcribe" }
dose = { ask = "transcribe" }
doctor = { ask = "transcribe" }

[property.who-has-what]
of = ["name", "disease"]

[property.trail]
of = ["name", "dose", "doctor"]

[[test]]
name = "who has what"
worker = "liar/w0"
seen = ["n0.name"]
ask = "n0.disease"
expect = "deny"
by = "who-has-what"
"""
NOTES = [f"n{number}" for number in range(7)]
WORKERS = [f"liar/w{number}" for number in range(12)]
HOUR = 3600 * 1_000_000
LONGEST = 600.0  # seconds; about 20 are usual


@pytest.fixture
def program(tmp_path, sqlite_template, monkeypatch):
    site = tmp_path / "site"
    info = site / "lying_market-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: liar\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[sparsi_dispatcher.connectors]\nliar = lying_market:CONNECTOR\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{site}:{PLUGIN}")
    made = Program(tmp_path)
    made.settle(sqlite_template)
    with (tmp_path / "dispatcher.toml").open("a") as file:
        file.write('collecting = 0.5\n\n[connectors.liar]\nfile = "outside.db"\n')
    (tmp_path / "policy.toml").write_text(POLICY)
    with (tmp_path / "notes.csv").open("w", newline="") as file:
        rows = [[n, f"p-{n}", *(f"{n} {field}" for field in FIELDS)] for n in NOTES]
        csv.writer(file).writerows([("id", "person", *FIELDS), *rows])
    made.run("policy", "apply")
    made.run("workers", "add", *WORKERS)
    made.run("records", "load", str(tmp_path / "notes.csv"))
    return made


def an_hour_passes(program):
    """What was sent lies long enough to be missed if it is not there."""
    path = program.directory / "dispatcher.db"
    with open_store(path) as store, store.write() as tx:
        edits.let_pass(tx, HOUR)


def missing(program):
    """How many fields have no answer yet."""
    with open_store(program.directory / "dispatcher.db") as store, store.read() as tx:
        done = sql.value(tx, "SELECT count(*) FROM result WHERE state = 'answered'")
    return len(NOTES) * len(FIELDS) - done


def finish(program):
    """Let the daemon work until every field is answered, and reconcile now and then."""
    end = time.monotonic() + LONGEST
    while missing(program):
        assert time.monotonic() < end, program.log()[-4000:]
        time.sleep(1)
        an_hour_passes(program)
        words = ("--json", "connectors", "reconcile", "liar", "--mend", "--trust")
        program.run(*words)


@pytest.mark.long
def test_a_market_that_lies_in_every_way_breaks_no_promise(program, tmp_path):
    outside = Outside(tmp_path / "outside.db")
    with program.up("--drain", "0") as process:
        program.ready()
        finish(program)
        assert terminate(process) == 0
    assert "Traceback" not in program.log()
    # it did lie, in each of its ways
    did = {fault for (fault,) in outside.ask("SELECT DISTINCT fault FROM did")}
    assert did >= {fault.value for fault in EVERY} - {Fault.HANG.value}
    # every value came home as it was written, whatever else was said
    program.run("records", "reassemble", "-o", str(tmp_path / "whole.csv"))
    with (tmp_path / "whole.csv").open(newline="") as file:
        whole = {row["id"]: row for row in csv.DictReader(file)}
    told = {n: {field: whole[n][field] for field in FIELDS} for n in NOTES}
    assert told == {n: {field: f"{n} {field}" for field in FIELDS} for n in NOTES}
    nothing_was_doubled(outside)
    nobody_holds_what_must_stay_apart(outside)
    all_that_lay_there_was_booked(program, outside)
    program.run("audit", "export", str(tmp_path / "evidence"))
    assert verify([str(tmp_path / "evidence")]) == 0
    reasons = program.run("--json", "answers", "list", "--limit", "999").stdout
    for reason in ("another worker's", "no such task", "10485760 characters"):
        assert reason in reasons


def nothing_was_doubled(outside):
    assert outside.ask("SELECT key FROM made GROUP BY key HAVING count(*) > 1") == []
    assert outside.ask("SELECT token FROM got GROUP BY token HAVING count(*) > 1") == []


def nobody_holds_what_must_stay_apart(outside):
    """By what truly lay there, withdrawn or not."""
    held: dict[tuple[str, str], set[str]] = {}
    for account, content in outside.ask("SELECT account, content FROM got"):
        note, field = content.split()
        held.setdefault((account, note), set()).add(field)
    assert held
    assert not any(together <= fields for fields in held.values() for together in APART)


def all_that_lay_there_was_booked(program, outside):
    """Each task there is one of ours, of that worker, whose exposure is in the ledger."""
    with open_store(program.directory / "dispatcher.db") as store, store.read() as tx:
        key = store.key("task-key")
        for token, account in outside.ask("SELECT token, account FROM got"):
            assert sql.value(
                tx,
                "SELECT count(*) FROM task t JOIN account a ON a.id = t.account_id"
                " JOIN ledger_line l ON l.entry_id = t.entry_id"
                " AND l.kind = 'exposure' AND l.chain_id = t.adversary_id"
                " WHERE t.id = ? AND a.name = ?",
                [task_id_of(key, token), account],
            )
