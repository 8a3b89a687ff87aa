"""The queue as operators see it: states and ids, and dead messages once more."""

import pytest

from dispatcher.ledger import recall
from dispatcher.store import outbox
from tests import builders, sql
from tests.builders import FAR
from tests.integration.ledger_cases import Case, Explained, policy


@pytest.fixture
def case(store):
    made = Case(store)
    made.apply(policy(""))
    made.add("x/ann", "y/bob")
    made.load(("r1", "p1", 1, "abc"))
    made.book(("x/ann", "r1.a"), ("y/bob", "r1.b"), ("x/ann", "r1.c"))
    return made


def states(case):
    with case.store.read() as tx:
        return [row[4] for row in outbox.messages(tx, None, 10)]


def kill(case, *positions):
    """Give messages up, by their place in the queue; return their ids."""
    with case.store.read() as tx:
        ids = [row[0] for row in outbox.messages(tx, None, 10)]
    chosen = [ids[i] for i in positions]
    builders.settle_messages(case.store, "dead", chosen, tries=12)
    return chosen


def test_messages_are_listed_oldest_first_without_content(case):
    with case.store.read() as tx:
        rows = outbox.messages(tx, None, 10)
    assert [row[1:] for row in rows] == [
        ("x", "x/ann", "publish", "ready", 0, ""),
        ("y", "y/bob", "publish", "ready", 0, ""),
        ("x", "x/ann", "publish", "ready", 0, ""),
    ]


def test_a_list_is_of_one_state_and_no_longer_than_asked(case):
    kill(case, 0)
    with case.store.read() as tx:
        assert len(outbox.messages(tx, "ready", 10)) == 2
        assert len(outbox.messages(tx, "dead", 10)) == 1
        assert len(outbox.messages(tx, None, 2)) == 2


def test_messages_of_a_state_are_read_part_by_part_as_they_are_due(case):
    builders.settle_messages(case.store, "ready", account="x/ann", due=FAR)
    found, after = [], 0
    with case.store.read() as tx:
        while rows := outbox.messages_of(tx, "ready", None, after, 2):
            found += [(row.worker, row.due == FAR) for row in rows]
            after = rows[-1].id
        assert [row.worker for row in outbox.messages_of(tx, "ready", "y", 0, 9)] == [
            "y/bob"
        ]
    assert found == [("y/bob", False), ("x/ann", True), ("x/ann", True)]


def test_a_part_of_the_queue_is_read_by_an_index(sqlite_store):
    given = {"wanted": "sent", "of_connector": None, "after": 5, "most": 50}
    with sqlite_store.read() as tx:
        found = tx.execute(Explained(outbox._MESSAGES_OF), given)
        plan = " ".join(str(row[-1]) for row in found)
    assert "state=? AND due>?" in plan
    assert "TEMP B-TREE" not in plan


def test_dead_messages_are_found_by_number_and_connector(case):
    first, second = kill(case, 0, 1)
    with case.store.read() as tx:
        assert outbox.dead(tx, [], None) == [first, second]
        assert outbox.dead(tx, [second, 999], None) == [second]
        assert outbox.dead(tx, [], "x") == [first]
        assert outbox.dead(tx, [second], "x") == []


def test_a_dead_message_waits_again_with_all_its_tries(case, clock):
    (dead,) = kill(case, 1)
    with case.store.write() as tx:
        assert outbox.revive(tx, [dead], clock()) == 1
    assert states(case) == ["ready"] * 3
    with case.store.read() as tx:
        assert sql.one(tx, "SELECT due, attempts FROM outbox WHERE id = ?", [dead]) == (
            clock(),
            0,
        )


def test_only_the_dead_are_revived(case, clock):
    with case.store.read() as tx:
        ids = [row[0] for row in outbox.messages(tx, None, 10)]
    builders.settle_messages(case.store, "sent", ids[:1])
    with case.store.write() as tx:
        assert outbox.revive(tx, ids, clock()) == 0
    assert states(case) == ["sent", "ready", "ready"]


def tasks(case):
    with case.store.read() as tx:
        return [
            state for (state,) in sql.rows(tx, "SELECT state FROM task ORDER BY id")
        ]


def test_what_never_left_or_can_be_recalled_is_taken_back(case, clock):
    """One is given up, one waits, one is at a market that withdraws, one is under way."""
    case.load(("r2", "p2", 2, "a"))
    case.book(("y/bob", "r2.a"))
    with case.store.read() as tx:
        dead, waiting, sent, leaving = (row[0] for row in outbox.messages(tx, None, 10))
    builders.settle_messages(case.store, "dead", [dead], tries=12)
    builders.settle_messages(case.store, "sent", [sent])
    builders.settle_messages(case.store, "ready", [leaving], tries=1)
    with case.store.write() as tx:
        found = recall.withdraw(tx, [dead, waiting, sent, leaving], {"x"}, at=clock())
    assert found == (3, 2, [leaving])
    assert states(case) == ["cancelled", "cancelled", "sent", "ready", "ready"]
    assert tasks(case)[1:] == ["returned", "returned", "booked"]


def test_what_is_at_a_market_that_keeps_its_tasks_goes_on(case, clock):
    with case.store.read() as tx:
        ids = [row[0] for row in outbox.messages(tx, None, 10)]
    builders.settle_messages(case.store, "sent", ids)
    with case.store.write() as tx:
        assert recall.withdraw(tx, ids, {"x"}, at=clock())[2] == [ids[1]]
        assert recall.withdraw(tx, [999], {"x"}, at=clock()) == (0, 0, [999])
    with case.store.read() as tx:
        assert sql.one(
            tx, "SELECT count(*) FROM ledger_line WHERE kind = 'exposure'"
        ) == (3,)
