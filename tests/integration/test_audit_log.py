"""The audit chain: a line for every act that changed something, and for none other."""

import pytest

from dispatcher.access import Act
from dispatcher.core.canonical import NO_HASH, line_hash
from dispatcher.core.errors import Conflict, NotFound
from dispatcher.store import audit_log, pause
from tests import sql
from tests.integration.ledger_cases import PAIR, Case, policy


@pytest.fixture
def act(clock):
    """Makes acts of ann at a moment after each other."""

    def made(operation="pause", **facts):
        clock.advance(1)
        return Act("ann", "command", operation, clock, **facts)

    return made


def lines(store):
    with store.read() as tx:
        return list(audit_log.lines_after(tx))


def pausing(store, scope="all"):
    with store.write() as tx:
        pause.pause(tx, scope, "why", 1)


def failing(store):
    with store.write() as tx:
        pause.pause(tx, "run:a", "why", 1)
        raise NotFound("it is not there")


def test_an_act_leaves_one_line_whatever_number_of_writes_it_takes(store, act):
    one = act(target="run default", reason="lunch")
    acting = store.acting(one)
    pausing(acting)
    pausing(acting, "run:a")
    one.end(store)
    (line,) = lines(store)
    assert (line.seq, line.actor, line.operation) == (1, "ann", "pause")
    assert (line.target, line.reason, line.outcome) == ("run default", "lunch", "done")
    pausing(store, "run:b")  # nobody's act
    assert len(lines(store)) == 1


def test_an_act_that_writes_nothing_itself_has_its_line_at_the_end(store, act):
    one = act()
    assert lines(store.acting(one)) == []
    one.end(store.acting(one))
    assert [line.outcome for line in lines(store)] == ["done"]


def test_an_act_that_fails_half_way_says_so(store, act):
    one = act()
    acting = store.acting(one)
    pausing(acting)
    with pytest.raises(NotFound):
        failing(acting)
    one.end(acting, "E004")
    assert [line.outcome for line in lines(store)] == ["done", "E004"]


def test_what_is_rolled_back_takes_its_line_along(store, act):
    with pytest.raises(NotFound):
        failing(store.acting(act()))
    assert lines(store) == []


def test_a_dry_run_leaves_no_line(store, act):
    one = act()
    acting = store.acting(one)
    acting.undo_writes()
    pausing(acting)
    assert (lines(store), one.lines) == ([], 0)


def test_lines_form_one_chain_with_a_head(store, act):
    for number in range(3):
        pausing(store.acting(act(f"runs.{number}")), f"run:{number}")
    prev = NO_HASH
    for line in lines(store):
        prev = line_hash(prev, audit_log.members_of(line, prev))
        assert line.hash.hex() == prev
    with store.read() as tx:
        assert audit_log.head(tx) == (3, prev)


def test_lines_are_found_by_who_noun_and_time(store, act, clock):
    for operation in ("workers.block", "workers.merge", "pause"):
        pausing(store.acting(act(operation)), f"run:{operation}")
    with store.read() as tx:

        def found(**wanted):
            return [one.operation for one in audit_log.newest(tx, **wanted)]

        assert found() == ["pause", "workers.merge", "workers.block"]
        assert found(operation="workers") == ["workers.merge", "workers.block"]
        assert found(operation="workers.merge") == ["workers.merge"]
        assert found(operation="worker") == []
        assert found(actor="bob") == []
        assert found(since=clock()) == ["pause"]
        assert found(until=clock() - 1_000_000) == ["workers.block"]
        assert found(before=2) == ["workers.block"]
        assert found(limit=1) == ["pause"]


@pytest.mark.parametrize(
    "statement", ["UPDATE audit_line SET actor = 'eve'", "DELETE FROM audit_line"]
)
def test_safety_36_no_line_is_edited_or_deleted(store, act, statement):
    pausing(store.acting(act()))
    with pytest.raises(Conflict, match="refuses to change"), store.write() as tx:
        sql.execute(tx, statement)
    assert [line.actor for line in lines(store)] == ["ann"]


def test_an_act_that_books_has_its_line_with_the_booking(store, act):
    case = Case(store)
    case.apply(policy(PAIR))
    case.add("x/1")
    case.load(("r0", "p0", 0, "ab"))
    case.store = store.acting(act("plan.apply"))
    case.book(("x/1", "r0.a"))
    assert [line.operation for line in lines(store)] == ["plan.apply"]
