"""Burnt fields: found, named, given more showings; and refused answers put aside."""

import json
import os
from types import SimpleNamespace

import pytest

from dispatcher.core.errors import Refused
from dispatcher.custody.evidence import export, verify
from dispatcher.ledger.exhausted_fields import burnt, shown, unburn
from dispatcher.operations.status import status
from dispatcher.stages.assembly import Assembly
from dispatcher.stages.planning import Planning
from dispatcher.store import lease, planning
from dispatcher.surfaces.cli.start import main
from tests import builders, sql
from tests.integration.ledger_cases import PAIR, Case, policy

FIELDS = 'a = { ask = "transcribe", answers = 2 }\nb = { ask = "transcribe" }'


@pytest.fixture
def case(store):
    made = Case(store)
    made.apply(policy(PAIR, FIELDS, budget="t = 2"))
    made.add("x/ann", "x/bob", "x/cat", "x/dan")
    made.load(("r1", None, None, "ab"), ("r2", None, None, "ab"))
    return made


def found(case):
    with case.store.read() as tx:
        return [(one.entry_id, one.field, one.showings) for one in burnt(tx)]


def burn(case):
    """Show r1.a to ann and bob, as often as t allows, and let both tasks come back."""
    case.book(("x/ann", "r1.a"), ("x/bob", "r1.a"))
    assert found(case) == []  # answers may come yet
    builders.end_tasks(case.store)


def test_a_field_is_burnt_when_no_showing_is_left_and_answers_are_missed(case):
    burn(case)
    assert found(case) == [(case.entries["r1.a"], "a", 2)]


def test_a_field_with_its_answers_is_not_burnt(case):
    booked = case.book(("x/ann", "r1.a"), ("x/bob", "r1.a"))
    for task in booked.tasks:
        builders.answer_tasks(case.store, [task], "same", at=case.tick())
    assert found(case) == []


def test_one_showing_left_is_enough_not_to_be_burnt(case):
    case.book(("x/ann", "r1.a"))
    builders.end_tasks(case.store)
    assert found(case) == []


def test_what_is_granted_lets_it_be_planned_and_shown(case, clock, tmp_path):
    burn(case)
    plans = Planning(case.store, clock)
    before = plans.draft(dry_run=True).summary
    assert before["burnt"] == 1
    with case.store.read() as tx:
        pulse = planning.pulse(tx)
    with pytest.raises(Refused):
        case.book(("x/cat", "r1.a"))
    with case.store.write() as tx:
        entry = case.entries["r1.a"]
        unburn(tx, entry, extra=1, because="came back", at=case.tick())
    assert found(case) == []
    with case.store.read() as tx:
        assert planning.pulse(tx) != pulse  # so that the daemon plans again
        assert shown(tx, [entry])[0].limit == 3
    assert plans.draft(dry_run=True).summary["pairs"] == before["pairs"] + 1
    case.book(("x/cat", "r1.a"))
    builders.end_tasks(case.store)
    assert found(case) == [(entry, "a", 3)]
    verdict = verify(export(case.store, tmp_path / "e", clock=clock).folder)
    assert verdict.status == 0, verdict.text


def test_a_plan_leaves_the_spare_showings_in_reserve(case, clock):
    numbers = Planning(case.store, clock).draft(dry_run=True).summary
    # a wants 2 answers of t = 2, b wants 1: one showing of each b is spare
    assert numbers["pairs"] == 6
    assert (numbers["spare"], numbers["no_spare"]) == (2, 2)


def test_a_field_in_conflict_is_open_again_with_a_grant(case, clock):
    with case.store.write() as tx:
        epoch = lease.take(tx, lease.SHARD, "d", clock(), clock() + 10**12)
    booked = case.book(("x/ann", "r1.a"), ("x/bob", "r1.a"))
    for task, text in zip(booked.tasks, ("one", "two"), strict=True):
        builders.answer_tasks(case.store, [task], text)
    Assembly(case.store, clock).tick(epoch)
    assert case.count("result", "state = 'conflict'") == 1
    assert found(case) == []  # its answers disagree: it is in conflict
    with case.store.write() as tx:
        entry = case.entries["r1.a"]
        unburn(tx, entry, extra=1, because="disagree", at=case.tick())
    Assembly(case.store, clock).tick(epoch)
    with case.store.read() as tx:
        row = sql.one(
            tx, "SELECT state, wanted FROM result WHERE entry_id = ?", [entry]
        )
    assert row == ("open", 3)


def test_status_names_burnt_fields(case, clock):
    burn(case)
    told = status(case.store, clock())
    assert told.burnt == {"a": 1}
    (line,) = [said for said in told.needs_you if "burnt" in said]
    assert line.startswith("1 field is burnt")
    assert "dispatcher fields list --burnt" in line


def test_status_names_the_plan_that_is_in_force(case, clock):
    plans = Planning(case.store, clock)
    plans.apply(plans.draft().plan_id)
    assert status(case.store, clock()).plan.plan == 1
    case.apply(policy(PAIR, FIELDS, budget="t = 2", name="two"))
    assert status(case.store, clock()).plan is None


# -- as an operator types it ----------------------------------------------------------


@pytest.fixture
def run(tmp_path, monkeypatch, capsys, sqlite_template):
    for name in [n for n in os.environ if n.startswith("DISPATCHER_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dispatcher.db").write_bytes(sqlite_template.read_bytes())

    def command(*words):
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return SimpleNamespace(code=code, out=out, err=err)

    return command


@pytest.fixture
def house(run, tmp_path):
    from dispatcher.store import open_store

    with open_store(tmp_path / "dispatcher.db") as store:
        case = Case(store)
        case.apply(policy(PAIR, FIELDS, budget="t = 2"))
        case.add("x/ann", "x/bob", "x/cat")
        case.load(("r1", None, None, "ab"))
        burn(case)
        with store.write() as tx:
            tx.insert_many(
                "quarantine",
                ("id", "connector", "reason", "payload", "at"),
                [
                    (n, "folder", "there is no such task", b'{"value": "Canary"}', n)
                    for n in (7, 8)
                ],
            )
    return run


def test_burnt_fields_are_listed_and_given_more(house):
    assert house("fields", "list", "--burnt", "--no-header").out.startswith(
        "r1.a\tdefault\tburnt\t2"
    )
    rows = json.loads(house("--json", "fields", "list").out)["fields"]
    assert [(row["field"], row["burnt"]) for row in rows] == [
        ("r1.a", True),
        ("r1.b", False),
    ]
    assert house("fields", "list", "--state", "conflict").out == ""
    for words in (
        ["--all"],
        ["--reason", "x"],
        ["r1.a", "--all", "--reason", "x"],
        ["--all", "--reason", "two\nlines"],
    ):
        assert house("fields", "unburn", *words).code == 2, words
    assert house("fields", "unburn", "r9.a", "--reason", "x").code == 1
    words = ["fields", "unburn", "--all", "--extra-showings", "2"]
    tried = house(*words, "--reason", "came back", "--dry-run")
    assert "DRY RUN" in tried.err
    assert house("fields", "list", "--burnt").out != ""
    done = house(*words, "--reason", "came back")
    assert done.out == "1 field may have 2 more showings each\n"
    assert house("fields", "list", "--burnt").out == ""
    assert house(*words, "--reason", "came back").out == "no field is burnt\n"
    assert house("audit", "export", "evidence").code == 0
    assert house("audit", "verify", "evidence").code == 0


def test_a_field_of_an_erased_record_is_given_nothing(house, tmp_path):
    from dispatcher.store import open_store

    with open_store(tmp_path / "dispatcher.db") as store:
        builders.erase_records(store, [1])
    refused = house("fields", "unburn", "r1.a", "--reason", "came back")
    assert refused.code == 1
    assert "r1.a is of a record that was erased" in refused.err


def test_refused_answers_stay_until_they_are_dismissed(house):
    listed = house("answers", "list", "--no-header")
    assert [line.split("\t")[0] for line in listed.out.splitlines()] == ["8", "7"]
    assert "Canary" not in listed.out + listed.err
    assert house("answers", "list", "--show-values").code == 2
    seen = house("answers", "list", "--show-values", "--reason", "looking into it")
    assert "Canary" in seen.out
    assert "2 answers were refused" in house("status").out
    for words, code in (
        ([], 2),
        (["7"], 2),
        (["7", "--all", "--reason", "x"], 2),
        (["9", "--reason", "x"], 1),
    ):
        assert house("answers", "dismiss", *words).code == code, words
    assert house("answers", "dismiss", "7", "--reason", "a typo").code == 0
    assert "1 answer was refused" in house("status").out
    assert house("answers", "dismiss", "7", "--reason", "again").code == 1
    assert house("answers", "dismiss", "--all", "--reason", "rest").code == 0
    assert "refused" not in house("status").out
    assert house("answers", "list").out == ""
    kept = json.loads(house("--json", "answers", "list", "--dismissed").out)["answers"]
    assert [one["dismissed"] for one in kept] == ["rest", "a typo"]
