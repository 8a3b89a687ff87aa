"""Status: what is counted, who leads, and what only the operator can mend."""

from dataclasses import astuple, replace

import pytest

from dispatcher.operations.status import WaitingPilot, status
from dispatcher.store import lease, pause, planning
from dispatcher.store.statistics import DownRow
from dispatcher.surfaces.cli.status import lay_out
from tests import builders
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
    assert (row.open, row.in_doubt, row.rests_until) == (0, 1, None)


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
        planning.hold_back(tx, [(case.entries["r1.d"], 1, reason)])
    clock.now = case.now
    clock.advance(seconds=11 * MINUTE)
    lead(case, clock)
    assert status(case.store, clock()).needs_you == [
        "1 field is held back: 5 needed: d and c may not share a worker: "
        "dispatcher plan --dry-run",
        "1 message was given up: dispatcher queue dead list",
        "a message waits for 11 min: dispatcher queue list --state ready",
        "connector:x is paused: token expired: dispatcher resume --connector x",
    ]


@pytest.mark.parametrize(
    ("scope", "options"),
    [("all", "--all"), ("run:may", "--run may"), ("connector:x", "--connector x")],
)
def test_each_pause_is_told_with_the_command_that_ends_it(case, clock, scope, options):
    with case.store.write() as tx:
        pause.pause(tx, scope, "lunch", clock())
    told = f"{scope} is paused: lunch: dispatcher resume {options}"
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
        "3 answers were refused: dispatcher answers list --refused",
        "2 fields are in conflict: dispatcher records list --state conflict",
        "2 workers are below the accuracy floor and given nothing new: "
        "dispatcher workers list, then dispatcher workers show ACCOUNT",
        "the made-up questions of name are used up: "
        "dispatcher workers gold add name FILE",
        "run x has a pilot, 1 record waits: dispatcher runs pilot show x, then accept",
        "2 messages wait for money: dispatcher runs budget show",
        "2 payments wait for your decision: dispatcher payments list",
    ]
