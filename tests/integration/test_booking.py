"""Booking: plans leave by capacity, pauses and policies; offers hold no content."""

from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pytest

from connectors.base import Limits
from connectors.inhouse import Inhouse
from connectors.testing.hostile import MEMORY, Memory
from dispatcher import money as money_rules
from dispatcher.core.errors import StaleLease
from dispatcher.model import Budget
from dispatcher.preflight import Preflight
from dispatcher.stages import booking as stage
from dispatcher.stages.booking import Booking
from dispatcher.stages.planning import Planning
from dispatcher.store import lease, money, pause
from dispatcher.store.outbox import MessageRow
from tests import builders, sql
from tests.contract.memory_feed import MemoryFeed
from tests.integration.exchange_house import logs
from tests.integration.ledger_cases import PAIR, Case, policy

__all__ = ["logs"]

HOUR = 3600


class Taking(Memory):
    """A market that declares something else than it usually does."""

    def __init__(self, **declared):
        super().__init__()
        self.declared = replace(MEMORY, **declared)

    @property
    def manifest(self):
        return self.declared


@dataclass
class House:
    """A case with an applied plan, and the stage."""

    case: Case
    clock: object
    epoch: int = 0

    def __post_init__(self):
        with self.case.store.write() as tx:
            found = lease.take(tx, lease.SHARD, "me", self.clock(), self.clock() + 1)
        assert found is not None
        self.epoch = found
        self.booking = self.stage()

    def stage(self, pushed=None):
        """Booking for ``x``, whose content leaves with the task, and a page of ours."""
        connectors = {"x": pushed or Memory(), "page": Inhouse(bytes(32))}
        rng = np.random.default_rng(5)
        return Booking(self.case.store, Preflight(connectors), self.clock, rng)

    def tick(self):
        return self.booking.tick(self.epoch)

    def plan(self, *pairs, version=None, state="applied"):
        """Write a plan: (account, entries) pairs, as planning would."""
        ids = self.case.entries
        builders.add_plan(
            self.case.store,
            [
                (self.case.accounts[who], [ids[entry] for entry in what.split()])
                for who, what in pairs
            ],
            version=version,
            state=state,
        )

    def left(self, plan_id=1):
        """What is still planned: names of entries by account."""
        names = {number: name for name, number in self.case.entries.items()}
        with self.case.store.read() as tx:
            rows = sql.rows(
                tx,
                "SELECT a.connector || '/' || a.name, s.entries FROM assignment s"
                " JOIN account a ON a.id = s.account_id WHERE s.plan_id = ?"
                " ORDER BY 1",
                [plan_id],
            )
        return {
            who: " ".join(names[n] for n in np.frombuffer(packed, "<i8").tolist())
            for who, packed in rows
        }

    def rows(self, statement):
        with self.case.store.read() as tx:
            return sql.rows(tx, statement)


def begin_with_a_whole_piece(house, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(stage, "LEAST", 1.0)
        house.booking = house.stage()


def between(house, monkeypatch, happens):
    """Let something happen after booking has looked, before it writes."""
    store = house.case.store
    write = store.write

    @contextmanager
    def first():
        monkeypatch.setattr(store, "write", write)
        happens()
        with write() as tx:
            yield tx

    monkeypatch.setattr(store, "write", first)


@pytest.fixture
def house(store, clock):
    case = Case(store)
    case.apply(policy(PAIR))
    case.add("x/ann", "x/bob", "page/cat")
    case.load(("r1", "p1", 1, "abcd"), ("r2", "p2", 1, "abcd"))
    return House(case, clock)


def test_what_is_planned_is_booked_and_put_into_one_message_a_worker(house):
    house.plan(("x/ann", "r1.a r2.a"), ("x/bob", "r1.b"))
    assert house.tick() == 3
    assert house.case.count("ledger_line", "kind = 'exposure'") == 3
    assert house.case.count("task", "state = 'booked'") == 3
    assert house.rows("SELECT kind, state FROM outbox") == [("publish", "ready")] * 2
    assert house.left() == {"x/ann": "", "x/bob": ""}
    assert house.tick() == 0


def test_what_the_gate_refuses_for_good_leaves_the_plan_and_is_logged(logs, house):
    house.case.book(("x/ann", "r1.a"))
    house.plan(("x/ann", "r1.b r2.b"))
    assert house.tick() == 1
    assert house.left() == {"x/ann": ""}
    assert "planned-pairs-refused" in logs.getvalue()
    assert "a-b" in logs.getvalue()
    told = house.rows("SELECT type FROM notice ORDER BY id")
    assert told[-1] == ("plan.refused",)


def test_a_pause_keeps_the_plan_as_it_is(house, clock):
    house.plan(("x/ann", "r1.a"))
    for scope in ("all", "connector:x", "run:default"):
        with house.case.store.write() as tx:
            pause.pause(tx, scope, "why", clock())
        assert house.tick() == 0
        assert house.left() == {"x/ann": "r1.a"}
        with house.case.store.write() as tx:
            pause.resume(tx, scope)
    assert house.tick() == 1


def test_a_blocked_account_keeps_its_plan_until_it_works_again(house):
    house.plan(("x/ann", "r1.a"))
    builders.block(house.case.store, "x/ann")
    assert house.tick() == 0
    builders.unblock(house.case.store, "x/ann")
    assert house.tick() == 1


def test_what_may_be_open_at_once_meters_the_plan(house):
    house.case.apply(policy(PAIR + '[capacity."*"]\nopen = 2\n'))
    house.plan(("x/ann", "r1.a r2.a r1.c r2.c r1.d"))
    assert house.tick() == 2
    assert house.tick() == 0
    assert len(house.left()["x/ann"].split()) == 3
    builders.answer_tasks(house.case.store, [1])
    assert house.tick() == 1


def test_what_is_given_per_hour_meters_the_plan(house, clock):
    house.case.apply(policy(PAIR + '[capacity."*"]\nper_hour = 2\n'))
    house.case.now = clock()
    house.plan(("x/ann", "r1.a r2.a r1.c"))
    assert house.tick() == 2
    assert house.tick() == 0
    clock.advance(seconds=HOUR + 1)
    assert house.tick() == 1


def test_a_piece_is_small_and_the_rest_comes_in_the_next_turn(house, monkeypatch):
    monkeypatch.setattr(stage, "PIECE", 2)
    monkeypatch.setattr(stage, "TURN", 1)
    monkeypatch.setattr(stage, "MOST", 1)
    begin_with_a_whole_piece(house, monkeypatch)
    house.plan(("x/ann", "r1.a r2.a r1.c r2.c r1.d"))
    assert [house.tick(), house.tick(), house.tick()] == [2, 2, 1]


def test_the_first_piece_is_the_least(house, monkeypatch):
    monkeypatch.setattr(stage, "PIECE", 16)
    monkeypatch.setattr(stage, "TURN", 1)
    monkeypatch.setattr(stage, "MESSAGE", 1)
    house.plan(("x/ann", "r1.a r2.a r1.c r2.c r1.d"))
    assert house.tick() == 2


@pytest.mark.parametrize(
    ("seconds", "second"), [(0.0, 4), (0.4, 2), (10, 1), (-86_400, 4), (86_400, 1)]
)
def test_a_piece_grows_and_shrinks_with_the_time_that_the_last_one_took(
    house, clock, monkeypatch, seconds, second
):
    monkeypatch.setattr(stage, "PIECE", 2)
    monkeypatch.setattr(stage, "TURN", 1)
    monkeypatch.setattr(stage, "MESSAGE", 1)
    begin_with_a_whole_piece(house, monkeypatch)
    house.plan(("x/ann", "r1.a r2.a r1.c r2.c r1.d"), ("x/bob", "r1.b r2.b r2.d"))
    write = house.case.store.write

    @contextmanager
    def slow_write():
        with write() as tx:
            yield tx
            clock.advance(seconds=seconds)

    monkeypatch.setattr(house.case.store, "write", slow_write)
    assert house.tick() == 2
    assert house.tick() == second


def test_a_message_holds_a_limited_number_of_tasks(house, monkeypatch):
    monkeypatch.setattr(stage, "MESSAGE", 2)
    house.plan(("x/ann", "r1.a r2.a r1.c r2.c r1.d"))
    assert house.tick() == 5
    assert house.case.count("outbox") == 3


def test_what_the_gate_refused_for_good_is_planned_anew(house):
    """Who is shown r1.a or r1.b by another way does not get the other one as well."""
    planning = Planning(house.case.store, house.clock, rest=0.0)
    assert planning.tick(house.epoch) == 8
    who, planned = next(
        (account, entry)
        for account, entries in house.left().items()
        for entry in entries.split()
        if account.startswith("x/") and entry in ("r1.a", "r1.b")
    )
    house.case.book((who, {"r1.a": "r1.b", "r1.b": "r1.a"}[planned]))
    assert planning.tick(house.epoch) == 0
    while house.tick():
        pass
    assert planning.tick(house.epoch) == 1
    holders = [w for w, entries in house.left(2).items() if planned in entries.split()]
    assert len(holders) == 1
    assert who not in holders
    assert planning.tick(house.epoch) == 0


def test_a_message_holds_no_more_than_its_connector_takes(house):
    house.booking = house.stage(Taking(limits=Limits(items=2)))
    house.plan(("x/ann", "r1.a r2.a r1.c r2.c r1.d"), ("x/bob", "r1.b"))
    assert house.tick() == 6
    sizes = house.rows("SELECT count(*) FROM task GROUP BY outbox_id ORDER BY 1")
    assert sizes == [(1,), (1,), (2,), (2,)]


def test_a_piece_goes_by_entries_over_all_workers_and_fills_messages(
    house, monkeypatch
):
    for name, value in {
        "PIECE": 3,
        "TURN": 1,
        "MESSAGE": 2,
        "PARTS": 9,
        "MOST": 1,
        "WINDOW": 2,
    }.items():
        monkeypatch.setattr(stage, name, value)
    begin_with_a_whole_piece(house, monkeypatch)
    house.plan(("x/ann", "r1.a r1.c r2.a r2.c"), ("x/bob", "r1.b r1.d r2.d"))
    assert house.tick() == 4
    assert house.left() == {"x/ann": "r2.a r2.c", "x/bob": "r2.d"}
    assert house.rows("SELECT count(*) FROM task GROUP BY outbox_id") == [(2,), (2,)]
    assert house.tick() == 3
    assert house.left() == {"x/ann": "", "x/bob": ""}


def test_what_is_only_paused_goes_back_into_its_own_part(house, monkeypatch):
    monkeypatch.setattr(stage, "MESSAGE", 1)
    house.plan(("x/ann", "r1.a r1.c r2.a"))
    store = house.case.store
    between(house, monkeypatch, lambda: builders.pause(store, "run:default"))
    assert house.tick() == 0
    assert house.left() == {"x/ann": "r1.a r1.c r2.a"}


@pytest.mark.parametrize("state", ["draft", "superseded"])
def test_only_applied_plans_are_booked(house, state):
    house.plan(("x/ann", "r1.a"), state=state)
    assert house.tick() == 0


def test_a_plan_under_an_earlier_policy_is_not_booked(house):
    house.plan(("x/ann", "r1.a"))
    house.case.apply(policy(PAIR, name="second"))
    assert house.tick() == 0
    assert house.case.count("outbox") == 0


def test_a_policy_that_comes_between_look_and_booking_ends_the_turn(house, monkeypatch):
    house.plan(("x/ann", "r1.a"))
    other = policy(PAIR, name="second")
    between(house, monkeypatch, lambda: house.case.apply(other))
    assert house.tick() == 0
    assert house.case.count("ledger_line", "kind = 'exposure'") == 0
    assert house.left() == {"x/ann": "r1.a"}


def test_without_a_policy_nothing_is_booked(store, clock):
    assert House(Case(store), clock).tick() == 0


def test_a_fenced_daemon_books_nothing_and_offers_nothing(house, clock):
    house.plan(("x/ann", "r1.a"), ("page/cat", "r2.a"))
    with house.case.store.write() as tx:
        lease.take(tx, lease.SHARD, "next", clock() + 10, clock() + 99)
    with pytest.raises(StaleLease):
        house.tick()
    assert house.case.count("outbox") == 0
    assert house.left()["x/ann"] == "r1.a"


def test_who_works_at_our_page_gets_a_word_and_no_content(house, clock):
    house.plan(("page/cat", "r1.a r2.a"))
    assert house.tick() == 1
    assert house.rows("SELECT kind, state FROM outbox") == [("offer", "ready")]
    assert house.case.count("ledger_line", "kind = 'exposure'") == 0
    assert house.case.count("task") == 0
    assert house.left() == {"page/cat": "r1.a r2.a"}
    assert house.tick() == 0  # told already
    clock.advance(seconds=HOUR)
    assert house.tick() == 1


@pytest.mark.parametrize("scope", ["all", "connector:page"])
def test_nobody_is_called_to_work_that_is_paused(house, clock, scope):
    house.plan(("page/cat", "r1.a"))
    with house.case.store.write() as tx:
        pause.pause(tx, scope, "why", clock())
    assert house.tick() == 0


# -- money -------------------------------------------------------------------------------


def purse(house, **set_: int) -> None:
    told = {"cap": 100, "bonus": 1} | set_
    with house.case.store.write() as tx:
        money.put_budget(tx, Budget(run_id=1, currency="GBP", **told))


def test_no_more_is_booked_than_there_is_money_for_and_the_rest_stays_planned(house):
    """An exposure without money would be seen by nobody and count for ever."""
    purse(house, cap=2)
    house.plan(("x/ann", "r1.a r2.a"), ("x/bob", "r1.b"))
    assert house.tick() == 2
    assert house.case.count("ledger_line", "kind = 'exposure'") == 2
    assert house.case.count("payment", "state = 'reserved'") == 2
    assert " ".join(house.left().values()).split() in (["r1.b"], ["r2.a"])
    assert house.tick() == 0
    purse(house, cap=3)
    assert house.tick() == 1
    assert house.case.count("payment", "state = 'reserved'") == 3


def test_money_that_somebody_took_meanwhile_books_nothing(house, monkeypatch):
    purse(house, cap=2)
    house.plan(("x/ann", "r1.a r2.a"), ("x/bob", "r1.b"))

    def blind(_, entries):
        return np.ones(len(entries), np.bool_)

    monkeypatch.setattr(money_rules.Allowance, "takes", blind)
    assert house.tick() == 0
    assert house.case.count("ledger_line", "kind = 'exposure'") == 0
    assert house.case.count("payment") == 0
    assert house.left() == {"x/ann": "r1.a r2.a", "x/bob": "r1.b"}


def test_a_feed_costs_nothing(house):
    purse(house, cap=0)
    house.case.apply(policy(PAIR, fields="a = {}\nb = {}", name="published"))
    house.plan(("x/ann", "r1.a r2.a"))
    house.booking = house.stage(MemoryFeed())
    assert house.tick() == 2
    assert house.case.count("payment") == 0


def test_what_was_booked_for_money_leaves_without_taking_it_again(house):
    purse(house, cap=3)
    house.plan(("x/ann", "r1.a r2.a"), ("x/bob", "r1.b"))
    house.tick()
    with house.case.store.write() as tx:
        messages = [MessageRow(n, 0, "publish", 1, None, None, "") for n in (1, 2)]
        assert money_rules.send_off(tx, "x", messages, pays=False, now=2) == (
            money_rules.Stays()
        )
        assert money.budgets(tx)[0].taken == 3
