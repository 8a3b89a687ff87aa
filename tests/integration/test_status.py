"""Status: what is counted, who leads, and what only the operator can mend."""

from dataclasses import astuple, replace

import pytest
from typer.main import get_command

from connectors.testing.hostile import Memory
from dispatcher.ledger.active_policy import asked_fields
from dispatcher.ledger.identity_changes import merge
from dispatcher.operations import records
from dispatcher.operations import status as operation
from dispatcher.operations.runs import RunBudget
from dispatcher.operations.status import PauseNow, WaitingPilot, status
from dispatcher.preflight import Obstacle, Preflight
from dispatcher.stages.planning import Planning
from dispatcher.store import lease, pause, planning, settings, statistics
from dispatcher.store.settings import SafeWorkers, TickFailure
from dispatcher.store.statistics import DownRow, HeldRow
from dispatcher.surfaces.cli.app import app
from dispatcher.surfaces.cli.status import lay_out
from tests import builders
from tests.contract.memory_feed import MemoryFeed
from tests.integration.ledger_cases import PAIR, Case, policy

MINUTE = 60


@pytest.fixture
def case(store):
    made = Case(store)
    made.apply(policy(PAIR))
    made.add("x/ann", "x/bob")
    made.load(("r1", "p1", 1, "abcd"))
    return made


def lead(case, clock):
    with case.store.write() as tx:
        lease.take(tx, lease.SHARD, "host-a/b/4121/9", clock(), clock() + 1000)


def test_an_empty_store_says_what_to_do_first(store, clock):
    found = status(store, clock())
    assert found.counts["records"] == 0
    assert found.needs_you == [
        "no policy is in force: dispatcher policy apply",
        "no daemon runs: dispatcher up",
    ]
    assert "policy version none" in lay_out(found)


def test_what_is_in_the_store_is_counted_by_state(case, clock):
    case.book(("x/ann", "r1.a r1.c"), ("x/bob", "r1.b"))
    found = status(case.store, clock())
    assert found.counts == {
        "records": 1,
        "entries": 4,
        "accounts": 2,
        "adversaries": 2,
        "exposures": 3,
        "answers": 0,
        "quarantined": 0,
        "feeds": 0,
    }
    assert found.tasks == {"booked": 3}
    assert found.outbox == {"ready": 2}
    assert "3 exposures" in lay_out(found)


def test_the_work_is_told_apart_by_connector(case, clock):
    """At x: one message failed and waits 90 s, one was answered; at y all is fresh."""
    case.add("y/eve")
    case.book(("x/ann", "r1.a"), ("x/bob", "r1.b"), ("y/eve", "r1.a"))
    builders.settle_messages(case.store, "sent", account="x/bob")
    builders.settle_messages(
        case.store, "ready", account="x/ann", tries=2, due=clock() + 90_000_000
    )
    builders.answer_tasks(case.store, [2])
    found = status(case.store, clock())
    until = clock() + 90_000_000
    rows = {row.connector: astuple(row)[1:] for row in found.connectors}
    assert rows == {
        "x": (1, 1, 1, until),
        "y": (1, 0, 0, None),
    }
    told = lay_out(status(case.store, clock()))
    assert (
        "  x: 1 open · 1 answered · 1 in doubt · retries in 2 min\n  y: 1 open\n"
        in told
    )


def test_a_message_that_was_given_up_may_have_arrived(case, clock):
    case.book(("x/ann", "r1.a"))
    builders.settle_messages(case.store, "dead", tries=5)
    (row,) = status(case.store, clock()).connectors
    assert (row.open, row.in_doubt, row.retry_at) == (0, 1, None)


def test_the_leader_is_named_while_its_lease_holds(case, clock):
    lead(case, clock)
    assert status(case.store, clock()).leader == "host-a pid 4121"
    clock.advance(seconds=1)
    found = status(case.store, clock())
    assert found.leader is None
    assert "no daemon runs: dispatcher up" in found.needs_you


def test_a_joined_adversary_is_counted_once(case, clock):
    groups = '[workers.groups.us]\nmembers = ["x/*"]\n'
    case.apply(policy(PAIR, groups=groups, name="second"))
    counts = status(case.store, clock()).counts
    assert (counts["accounts"], counts["adversaries"]) == (2, 1)


def test_what_needs_the_operator_is_said_with_the_command(case, clock):
    lead(case, clock)
    case.book(("x/ann", "r1.a"), ("x/bob", "r1.b"))
    builders.settle_messages(case.store, "dead", account="x/ann")
    with case.store.write() as tx:
        pause.pause(tx, "connector:x", "token expired", clock())
        reason = "5 needed: d and c may not share a worker"
        planning.hold_back(tx, [(case.entries["r1.d"], reason)])
    clock.now = case.now
    clock.advance(seconds=11 * MINUTE)
    lead(case, clock)
    assert status(case.store, clock()).needs_you == [
        "1 field is held back (d 1): 5 needed: d and c may not share a worker; for one "
        "field: dispatcher explain RECORD.FIELD, for all: dispatcher plan --dry-run",
        "1 message was given up: dispatcher queue list --state dead",
        "a message waits for 11 min: dispatcher queue list --state ready",
        "connector:x is paused: token expired, 11 min by now: "
        "dispatcher resume --connector x",
    ]


def test_what_is_held_back_for_like_reasons_is_one_line(case, clock):
    """Three fields lack workers for three rules, one waits for them: two lines."""
    kinds = ("3 workers needed: a-b", "4 workers needed: a-c", "1 worker needed: c")
    reasons = zip("abcd", (*kinds, "the rest waits"), strict=True)
    with case.store.write() as tx:
        planning.hold_back(tx, [(case.entries[f"r1.{f}"], why) for f, why in reasons])
    told = [one for one in status(case.store, clock()).needs_you if "held" in one]
    assert [one.partition(";")[0] for one in told] == [
        "3 fields are held back (c 1, a 1, b 1): 1 worker needed: c, and 2 reasons "
        "like it",
        "1 field is held back (d 1): the rest waits",
    ]


def test_a_plan_says_first_how_much_of_the_work_it_covers(case, clock):
    """r1.d is held back: the best of what can be placed is not the best of all."""
    stage = Planning(case.store, case.tick, rest=0)
    stage.apply(stage.draft(seed=1).plan_id)
    assert "within 0.00% of the best plan" in lay_out(status(case.store, clock()))
    with case.store.write() as tx:
        planning.hold_back(tx, [(case.entries["r1.d"], "5 needed")])
    told = lay_out(status(case.store, clock()))
    assert "plan     1 in force   3 of 4 open fields placed   " in told
    assert "within 0.00% of the best for what can be placed" in told


def test_that_a_plan_is_being_made_is_said_while_it_is(case, clock, monkeypatch):
    """And no longer once it is there, could not be made, or another daemon leads."""
    with case.store.write() as tx:
        epoch = lease.take(tx, lease.SHARD, "a/b/1/1", clock(), clock() + 10**12)
    stage = Planning(case.store, clock, rest=0)
    draft, told = stage.draft, []

    def watched(**how):
        clock.advance(seconds=75)
        told.append(lay_out(status(case.store, clock())))
        return draft(**how)

    monkeypatch.setattr(stage, "draft", watched)
    assert stage.tick(epoch) == 4
    assert "\nplanning for 75 s …\n" in told[0]
    assert "planning" not in lay_out(status(case.store, clock()))
    with case.store.write() as tx:
        settings.note_planning(tx, epoch - 1, clock())  # by one that is gone
    assert status(case.store, clock()).planning_since is None


def test_feeds_are_no_workers(case, clock):
    case.add("ads/acme")
    preflight = Preflight({"x": Memory(), "ads": MemoryFeed()})
    told = lay_out(status(case.store, clock(), preflight))
    assert "2 workers · 1 feed (3 accounts)" in told


def test_a_plan_counts_what_it_means_still_and_not_what_was_added_last(case, clock):
    """Four showings, then two more beside them, of which one is served."""
    stage = Planning(case.store, case.tick, rest=0)
    stage.apply(stage.draft(seed=1).plan_id)
    case.load(("r2", "p2", 1, "cd"))
    stage.apply(stage.draft(seed=1).plan_id)
    assert status(case.store, clock()).plan.pairs == 6
    with case.store.write() as tx:
        plan, who, packed = planning.lock_all_planned(tx)[0]
        planning.keep_planned(tx, plan, who, packed[8:])
    told = lay_out(status(case.store, clock()))
    assert (
        "5 showings planned   0 sensitive sets would be whole with one worker   planned worst share"
        in told
    )


def test_after_a_merge_no_number_of_the_plan_is_told_until_it_was_made_anew(
    case, clock
):
    """What was planned for two would cross for one: that is never shown as a breach."""
    stage = Planning(case.store, case.tick, rest=0)
    stage.apply(stage.draft(seed=1).plan_id)
    with case.store.write() as tx:
        merge(tx, [["x/ann", "x/bob"]], because="same", at=case.tick())
    found = status(case.store, clock())
    assert found.plan.outdated
    assert "made before a merge, to be planned again: dispatcher plan" in lay_out(found)
    stage.apply(stage.draft(seed=1, partial=True).plan_id)
    found = status(case.store, clock())
    assert (found.plan.outdated, found.plan.pairs) == (False, 3)
    assert [(row.entries, row.fields) for row in found.held_back] in (
        [(1, {"a": 1})],
        [(1, {"b": 1})],
    )


@pytest.mark.parametrize(
    ("scope", "options"),
    [("all", "--all"), ("run:may", "--run may"), ("connector:x", "--connector x")],
)
def test_each_pause_is_told_with_the_command_that_ends_it(case, clock, scope, options):
    with case.store.write() as tx:
        pause.pause(tx, scope, "lunch", clock())
    clock.advance(seconds=2 * 60)
    told = f"{scope} is paused: lunch, 2 min by now: dispatcher resume {options}"
    assert told in status(case.store, clock()).needs_you


def test_a_connector_that_fails_again_and_again_is_named(case, clock):
    lead(case, clock)
    case.book(("x/ann", "r1.a"), ("x/bob", "r1.b"))
    builders.settle_messages(case.store, "ready", [1], tries=3, error="TooLong")
    found = status(case.store, clock())
    assert found.down == [DownRow("x", 2, "TooLong")]
    assert any("connector x is down" in told for told in found.needs_you)


def test_answers_that_fit_nothing_and_conflicts_and_what_is_down_are_named(case, clock):
    lead(case, clock)
    found = replace(
        status(case.store, clock()),
        down=[DownRow("acme", 2, "gave no answer")],
        counts={"quarantined": 3},
        results={"conflict": 2},
        payments={"unknown": 1, "held": 1},
        waiting_for_money=2,
        workers={"active": 3, "stopped": 2},
        gold_left={"name": 0, "age": 7},
        pilots=[WaitingPilot("x", let_go=2, waiting=1)],
    )
    assert found.needs_you == [
        "connector acme is down, the others are not affected: 2 messages wait "
        "(gave no answer): dispatcher connectors test acme",
        "3 answers were refused: dispatcher answers list",
        "2 fields are in conflict: dispatcher answers conflicts",
        "2 workers are below the accuracy floor and given nothing new: "
        "dispatcher workers list, then: dispatcher workers show ACCOUNT",
        "the made-up questions of name are used up: "
        "dispatcher questions add name FILE --purpose gold",
        "run x has a pilot, 1 record waits: dispatcher runs show x, then: "
        "dispatcher runs accept x",
        "2 messages wait for money: dispatcher runs list",
        "2 payments wait for your decision: dispatcher payments list",
    ]


def test_every_sentence_ends_with_a_command_that_there_is(case, clock):
    """Of each kind one: its last words name a command, its options and its arguments."""
    lead(case, clock)
    budget = RunBudget("may", *["0"] * 9, used_up="cap")
    declared = {"x": Memory().manifest}
    with case.store.read() as tx:
        unopened = Preflight({}, declared=declared).look(tx).obstacles
        unknown = Preflight({}).look(tx).obstacles
    refused = [
        Obstacle("ads", 1, "it failed when it was asked", "tell its author"),
        Obstacle("ads", 1, "it wants a reward", ""),
        Obstacle("ads", 1, "the password is wrong", "ask its people: who knows"),
        Obstacle("ads", 1, "it is paused", "dispatcher connectors enable ads"),
        *unopened,
        *unknown,
    ]
    found = replace(
        status(case.store, clock()),
        policy_version=0,
        leader=None,
        refused=refused,
        failing={"planning": TickFailure("E001", 0), "sending:x": TickFailure("E1", 0)},
        held_back=[HeldRow("5 needed", 1, {"d": 1})],
        burnt={"a": 1},
        down=[DownRow("acme", 2, "gave no answer")],
        outbox={"dead": 1},
        oldest_waiting_minutes=60,
        counts={"quarantined": 3},
        results={"conflict": 2},
        workers={"stopped": 2},
        suspects=1,
        gold_left={"name": 0},
        pilots=[WaitingPilot("x", let_go=2, waiting=1)],
        budgets=[budget],
        waiting_for_money=2,
        payments={"unknown": 1},
        safe_workers=SafeWorkers(5, 2, "a"),
        paused={
            scope: PauseNow("lunch", 1) for scope in ("all", "connector:x", "run:may")
        },
    )
    for sentence in found.needs_you:
        assert_ends_with_command(sentence)
    kinds = 2 + len(refused) + 2 + 2 + 3 + 6 + 3 + 2 + 1  # x is refused already
    assert len(found.needs_you) == kinds


def assert_ends_with_command(sentence):
    _, found, words = sentence.rpartition(": dispatcher ")
    assert found, sentence
    command, tokens = get_command(app), words.split()
    while tokens and tokens[0] in getattr(command, "commands", {}):
        command = command.get_command(None, tokens.pop(0))
    assert getattr(command, "invoke_without_command", True), sentence
    options = {name: one for one in command.params for name in one.opts}
    given = 0
    while tokens:
        token = tokens.pop(0)
        if token.startswith("--"):
            if not options[token].is_flag:
                tokens.pop(0)
        else:
            given += 1
    wanted = [one for one in command.params if one.param_type_name == "argument"]
    assert sum(one.required for one in wanted) <= given, sentence
    assert given <= len(wanted) or any(one.nargs == -1 for one in wanted), sentence


def test_beyond_a_bound_limits_are_not_judged_and_status_says_so(
    case, clock, monkeypatch
):
    """A look at the limits reads all that is held: a bound keeps `status` quick."""
    case.book(("x/ann", "r1.a"))
    look = operation.repeated(Preflight({"x": Memory()}))
    monkeypatch.setattr(operation, "JUDGED", 1)
    found = look(case.store, clock())
    assert found.limits is not None
    assert "too many" not in lay_out(found)
    monkeypatch.setattr(operation, "JUDGED", 0)
    found = look(case.store, clock())
    assert found.limits is None
    assert "limits: too many to judge here, see the console" in lay_out(found)


NEVER_ASKED = 'a = { ask = "transcribe" }\nb = { ask = "transcribe", send = false }\n'


def test_a_field_that_is_never_asked_is_not_waited_for(store, clock):
    """r1: a is asked and answered, b is never sent, c is only for feeds."""
    case = Case(store)
    case.apply(policy("", NEVER_ASKED + "c = {}"))
    case.add("x/ann")
    case.load(("r1", "p1", 1, "abc"))
    assert status(store, clock()).fields == {"open": 1}
    builders.save_results(store, [case.entries["r1.a"]], value=b"Anna")
    found = status(store, clock())
    assert (found.asked, found.fields) == (1, {"answered": 1, "open": 0})
    assert found.counts["entries"] == 3
    [listed] = records.list_records(store)
    assert listed[2:6] == ("answered", 1, 1, 0)
    assert records.list_records(store, state="open") == []
    _, shown = records.show(store, "r1")
    assert [(row.field, row.state) for row in shown] == [
        ("a", "answered"), ("b", "not asked"), ("c", "not asked"),
    ]  # fmt: skip
    with store.read() as tx:
        asked = asked_fields(tx)
        assert statistics.record_states(tx, asked) == {"answered": 1}
        [row] = statistics.records(tx, asked, 0, None, 9)
    assert (row.fields, row.answered, row.state) == (1, 1, "answered")


def test_what_only_feeds_get_is_waited_for_where_there_is_a_feed(store, clock):
    case = Case(store)
    case.apply(policy("", NEVER_ASKED + "c = {}"))
    case.add("x/ann", "f/acme")
    case.load(("r1", "p1", 1, "abc"))
    builders.save_results(store, [case.entries["r1.a"]], value=b"Anna")
    look = Preflight({"f": MemoryFeed()})
    assert status(store, clock(), look).fields == {"answered": 1, "open": 1}
    case.book(("f/acme", "r1.c"))
    builders.settle_messages(store, "published")
    done = status(store, clock(), look).fields
    assert done == {"answered": 1, "published": 1, "open": 0}
