"""Conflicts: an operator judges what answers disagree on, and it counts from then on."""

from __future__ import annotations

import io
import json

import pytest

from dispatcher.core.errors import Conflict, Invalid, NotFound, Usage
from dispatcher.operations import answers
from dispatcher.operations.answers import FieldDecision
from dispatcher.operations.workspace import Workspace
from dispatcher.stages.assembly import write_records
from dispatcher.store import events, planning
from tests import builders
from tests.integration.exchange_house import Exchange
from tests.integration.ledger_cases import Case
from tests.integration.test_assembly import answer, result

READINGS = ("Main Stret", "Main Street", "Main Streets 5")
WHY = "looked at the scan"


@pytest.fixture
def exchange(store, clock):
    """r1.a was answered three times, which is t, each time in another way."""
    made = Exchange(Case(store), clock)
    made.workers("ann", "bob", "cem", "dan")
    made.case.load(("r1", "p1", 1, "abcd"), ("r2", "p2", 1, "ab"))
    for who, value in zip(("ann", "bob", "cem"), READINGS, strict=True):
        answer(made, who, "r1.a", value)
    made.assembly().tick(made.epoch)
    return made


@pytest.fixture
def desk(exchange, tmp_path):
    """Judges as ada; names fields as operators do."""

    def judge(field, decision, reason=WHY, **given):
        workspace = Workspace(tmp_path, clock=exchange.clock, actor="ada")
        return answers.judge(
            workspace, exchange.store, field, FieldDecision(decision), reason, **given
        )

    return judge


def exported(exchange) -> dict[str, object]:
    stream = io.BytesIO()
    write_records(exchange.store, "default", stream, "jsonl")
    return json.loads(stream.getvalue().splitlines()[0])


def last_event(exchange) -> dict[str, object]:
    with exchange.store.read() as tx:
        return json.loads(events.newest(tx, None, None, 1)[0].detail)


def test_a_conflict_has_who_gave_which_answer_and_no_value(exchange):
    (found,) = answers.list_conflicts(exchange.store)
    assert found.id.endswith(".a")
    assert [one.letter for one in found.choices] == ["A", "B", "C"]
    assert {len(one.givers) for one in found.choices} == {1}
    assert all(0 < giver.quality < 1 for one in found.choices for giver in one.givers)
    assert "Main" not in repr(found)
    assert answers.list_conflicts(exchange.store, after=found.entry_id) == []


def test_answers_are_shown_for_a_reason_that_is_kept_before(exchange, tmp_path):
    workspace = Workspace(tmp_path, clock=exchange.clock, actor="ada")
    with pytest.raises(Usage):
        answers.reveal_conflict(workspace, exchange.store, "r1.a", " ")
    found = answers.reveal_conflict(workspace, exchange.store, "r1.a", WHY)
    assert dict(found.answers) == dict(zip("ABC", READINGS, strict=True))
    assert last_event(exchange) == {"field": found.id, "reason": WHY}
    assert "Main" not in repr(found)


def test_a_chosen_answer_is_the_value_and_the_export_says_who_decided(exchange, desk):
    done = desk("r1.a", "choose", letter="B")
    assert (done.before, done.after, done.decided_by) == (
        "conflict",
        "answered",
        "operator",
    )
    assert result(exchange, "r1.a")[:2] == ("answered", "Main Street")
    row = exported(exchange)
    assert [row[f"a{of}"] for of in ("", "_confidence", "_state", "_decided_by")] == [
        "Main Street",
        None,
        "answered",
        "operator",
    ]
    assert last_event(exchange) == {
        "field": done.id,
        "decision": "choose",
        "before": "conflict",
    }
    assert answers.list_conflicts(exchange.store) == []


def test_what_was_decided_outlasts_later_answers_until_it_is_decided_anew(
    exchange, desk
):
    [task] = exchange.book(("ann", "r1.d")).tasks
    exchange.sending().tick(exchange.epoch)
    desk("r1.d", "value", value="  Berta ")
    exchange.market.give(exchange.token(task), "ann", "Anna")
    exchange.collecting().tick(exchange.epoch)
    exchange.assembly().tick(exchange.epoch)
    assert result(exchange, "r1.d")[:3] == ("answered", "Berta", 1)
    desk("r1.d", "unreadable")
    assert exported(exchange)["d_state"] == "illegible"
    desk("r1.d", "absent")
    assert exported(exchange)["d_state"] == "not_present"
    assert desk("r1.d", "consensus").after == "open"
    exchange.assembly().tick(exchange.epoch)
    assert result(exchange, "r1.d")[:2] == ("answered", "Anna")
    assert exported(exchange)["d_decided_by"] == "consensus"
    with pytest.raises(Conflict, match="not decided by hand"):
        desk("r1.d", "consensus")


def test_one_more_worker_is_asked_by_a_line_of_the_ledger(exchange, desk):
    done = desk("r1.a", "ask")
    assert (done.after, done.extra_showings) == ("open", 1)
    assert exchange.ask("SELECT count(*) FROM ledger_line WHERE kind = 'unburn'") == 1
    answer(exchange, "dan", "r1.a", "Main  Street")
    exchange.assembly().tick(exchange.epoch)
    assert result(exchange, "r1.a")[0] == "conflict"  # two of four are no majority
    desk("r1.a", "choose", letter="B")
    with pytest.raises(Conflict, match="no more worker"):
        desk("r1.a", "ask")
    with pytest.raises(Conflict, match="no more worker"):
        desk("r1.b", "ask")


def test_what_nobody_has_begun_is_taken_back_and_the_plan_gives_it_up(exchange, desk):
    exchange.book(("ann", "r2.a"))
    [begun] = exchange.book(("bob", "r2.a")).tasks
    builders.end_tasks(exchange.store, "shown", [begun])
    plan = builders.add_plan(
        exchange.store,
        [(3, [exchange.case.entries[name] for name in ("r2.a", "r2.b")])],
    )
    done = desk("r2.a", "value", value="Anna")
    assert (done.tasks, done.going_on, done.unplanned) == (1, 1, 1)
    assert exchange.states("task")[-2:] == ["returned", "shown"]
    with exchange.store.read() as tx:
        (left,) = planning.left_of_plans(tx, 1)
    assert left.plan_id == plan
    assert len(left.entries) == 8


def test_a_dry_run_decides_nothing(exchange, desk):
    before = result(exchange, "r1.a")
    assert desk("r1.a", "unreadable", dry_run=True).after == "answered"
    assert result(exchange, "r1.a") == before


def test_what_does_not_fit_is_refused_and_no_value_is_told(exchange, desk):
    with pytest.raises(Usage):
        desk("r1.a", "choose")
    with pytest.raises(Usage):
        desk("r1.a", "unreadable", letter="A")
    with pytest.raises(Usage):
        desk("r1.a", "unreadable", "two\nlines")
    with pytest.raises(NotFound, match="no such answer") as missing:
        desk("r1.a", "choose", letter="D")
    assert "A, B, C" in missing.value.why
    with pytest.raises(Invalid) as wrong:
        desk("r1.b", "value", value="seven canaries")
    assert "canaries" not in f"{wrong.value.what} {wrong.value.why}"
    with pytest.raises(NotFound):
        desk("r9.a", "unreadable")
    builders.erase_records(exchange.store, [1])
    with pytest.raises(NotFound, match="erased"):
        desk("r1.a", "choose", letter="B")
