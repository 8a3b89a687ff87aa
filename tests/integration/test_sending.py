"""Sending: at least once, made once by its key, one connector's fault is its own."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from connectors.base import (
    Binding,
    Handle,
    Idempotency,
    Limits,
    Misconfigured,
    Rejected,
    TryLater,
)
from connectors.folder import Folder
from connectors.inhouse import Inhouse
from connectors.testing.hostile import MEMORY, Fault, Hostile, Memory
from dispatcher.core.errors import StaleLease, StoreUnusable
from dispatcher.ledger import versions
from dispatcher.ledger.book import Push
from dispatcher.ledger.recall import InFlightAction
from dispatcher.model.states import record_unit
from dispatcher.store import lease, settings
from dispatcher.store import outbox as rows
from dispatcher.store.dumping import make_ready
from tests import builders
from tests.contract.memory_feed import FEED, MemoryFeed
from tests.integration.exchange_house import FIELDS, Exchange, logs
from tests.integration.ledger_cases import Case, policy
from tests.patience import until

__all__ = ["logs"]

HOUR = 3600 * 1_000_000
PAIRS = (("ann", "r1"), ("bob", "r2"))


class Failing(Memory):
    """Raises what it is told to, before or after accepting."""

    manifest = MEMORY

    def __init__(self) -> None:
        super().__init__()
        self.before: list[BaseException] = []
        self.after: list[Exception] = []
        self.calls = 0

    def publish(self, offer):
        self.calls += 1
        if self.before:
            raise self.before.pop(0)
        handle = super().publish(offer)
        if self.after:
            raise self.after.pop(0)
        return handle


@pytest.fixture
def exchange(store, clock):
    made = Exchange(Case(store), clock, Failing())
    made.workers("ann", "bob")
    made.case.load(("r1", "p1", 1, "abcd"), ("r2", "p2", 1, "abcd"))
    return made


def test_a_booked_message_goes_out_with_the_shown_form_and_its_form(exchange):
    booked = exchange.book(("ann", "r1.a r1.b"))
    assert exchange.sending().tick(exchange.epoch) == 1
    offer = exchange.market.offers[exchange.key(booked.messages[0])]
    assert offer.account == "ann"
    assert [item.content for item in offer.items] == [b"shown", b"shown"]
    assert [item.token for item in offer.items] == [
        exchange.token(n) for n in booked.tasks
    ]
    number = next(item.form for item in offer.items if item.form.ask == "number")
    assert (number.minimum, number.maximum) == ("0", "10")
    assert exchange.states() == ["sent"]
    assert exchange.states("task") == ["sent", "sent"]
    assert exchange.ask("SELECT handle FROM outbox") == f"memory:{offer.key}"


def test_nothing_is_sent_twice(exchange):
    exchange.book(("ann", "r1.a"))
    sending = exchange.sending()
    assert [sending.tick(exchange.epoch) for _ in range(3)] == [1, 0, 0]
    assert exchange.market.calls == 1


def test_an_unknown_outcome_is_asked_for_before_it_is_repeated(exchange, clock):
    exchange.market.after = [TimeoutError()]
    exchange.book(("ann", "r1.a"))
    sending = exchange.sending()
    assert sending.tick(exchange.epoch) == 0
    assert exchange.states() == ["ready"]
    clock.advance(seconds=10)
    assert sending.tick(exchange.epoch) == 1
    assert exchange.market.calls == 1
    assert exchange.states() == ["sent"]


def test_an_unknown_outcome_that_did_not_arrive_is_sent_again(exchange, clock):
    exchange.market.before = [ConnectionError()]
    exchange.book(("ann", "r1.a"))
    sending = exchange.sending()
    sending.tick(exchange.epoch)
    clock.advance(seconds=10)
    assert sending.tick(exchange.epoch) == 1
    assert exchange.market.calls == 2


def test_what_a_killed_daemon_had_leased_is_asked_for_by_the_next(exchange, clock):
    booked = exchange.book(("ann", "r1.a"))
    with exchange.store.write() as tx:  # claimed and published, then killed
        claimed = rows.claim(tx, "memory", exchange.epoch, clock(), clock() + HOUR, 9)
    assert [message.id for message in claimed] == booked.messages
    exchange.market.offers[exchange.key(claimed[0].id)] = (
        "what the killed daemon published"
    )
    clock.advance(seconds=20)
    with exchange.store.write() as tx:
        epoch = lease.take(tx, lease.SHARD, "next", clock(), clock() + HOUR)
    assert exchange.sending().tick(epoch) == 1
    assert exchange.market.calls == 0
    assert exchange.states() == ["sent"]


@pytest.mark.parametrize(
    "meanwhile",
    [
        builders.answer_tasks,  # collected before it was asked for
        builders.end_tasks,
        lambda store: builders.block(store, "memory/ann"),
    ],
    ids=["answered", "returned", "blocked"],
)
def test_what_arrived_before_a_crash_is_sent_whatever_came_of_it_since(
    exchange, clock, meanwhile
):
    exchange.book(("ann", "r1.a"))
    with exchange.store.write() as tx:  # claimed and published, then killed
        (mine,) = rows.claim(tx, "memory", exchange.epoch, clock(), clock() + HOUR, 9)
    exchange.market.offers[exchange.key(mine.id)] = "what the killed daemon published"
    meanwhile(exchange.store)
    with exchange.store.write() as tx:
        epoch = lease.take(tx, lease.SHARD, "next", clock() + 20, clock() + HOUR)
    assert exchange.sending().tick(epoch) == 1
    sent = exchange.rows("SELECT state, handle FROM outbox WHERE kind = 'publish'")
    assert sent == [("sent", f"memory:{exchange.key(mine.id)}")]


def test_what_could_not_be_written_down_is_asked_for_in_the_next_turn(
    exchange, monkeypatch
):
    def full(*_):
        raise StoreUnusable("the disk of the store is full")

    exchange.book(("ann", "r1.a"))
    sending = exchange.sending()
    with monkeypatch.context() as patch:
        patch.setattr(rows, "settle", full)
        with pytest.raises(StoreUnusable):
            sending.tick(exchange.epoch)
    assert exchange.states() == ["leased"]
    assert sending.tick(exchange.epoch) == 1
    assert exchange.market.calls == 1
    assert exchange.states() == ["sent"]


def test_a_daemon_that_lost_the_lease_sends_nothing(exchange, clock):
    exchange.book(("ann", "r1.a"))
    clock.advance(seconds=1)
    with exchange.store.write() as tx:
        lease.take(tx, lease.SHARD, "other", clock(), clock() + HOUR)
    with pytest.raises(StaleLease):
        exchange.sending().tick(exchange.epoch)
    assert exchange.market.calls == 0


def test_a_rejected_message_is_dead_at_once_and_the_others_go(exchange):
    exchange.market.before = [Rejected("no such worker there")]
    exchange.book(("ann", "r1.a"), ("bob", "r2.a"))
    assert exchange.sending().tick(exchange.epoch) == 1
    assert sorted(exchange.states()) == ["dead", "sent"]
    assert sorted(exchange.states("task")) == ["dead", "sent"]
    assert exchange.ask("SELECT error FROM outbox WHERE state = 'dead'") == (
        "no such worker there"
    )


def test_try_later_lets_the_connector_rest_and_costs_the_others_no_attempt(
    exchange, clock
):
    exchange.market.before = [TryLater("slow down", after=120)]
    exchange.book(("ann", "r1.a"), ("bob", "r2.a"))
    sending = exchange.sending()
    assert sending.tick(exchange.epoch) == 0
    assert exchange.market.calls == 1
    assert exchange.rows("SELECT attempts FROM outbox ORDER BY id") == [(1,), (0,)]
    assert "memory" in sending.resting
    with exchange.store.read() as tx:
        row = settings.circuit(tx, "memory")
    assert row == (clock(), clock() + 120_000_000, 1, "slow down")
    clock.advance(seconds=119)
    assert sending.tick(exchange.epoch) == 0
    clock.advance(seconds=2)
    assert sending.tick(exchange.epoch) == 2
    with exchange.store.read() as tx:
        assert settings.circuit(tx, "memory") is None


def test_a_misconfigured_connector_rests_and_no_message_dies(exchange, clock):
    sending = exchange.sending(attempts=2)
    exchange.book(("ann", "r1.a"))
    for _ in range(5):
        exchange.market.before = [Misconfigured("the token was revoked")]
        sending.tick(exchange.epoch)
        clock.advance(seconds=90)
    assert exchange.states() == ["ready"]
    assert sending.tick(exchange.epoch) == 1


def test_after_its_last_attempt_a_message_is_dead_and_a_retry_asks_first(
    exchange, clock
):
    exchange.market.after = [TimeoutError()] * 3
    exchange.market.find = lambda key: None
    exchange.book(("ann", "r1.a"))
    sending = exchange.sending(attempts=3)
    for _ in range(5):
        sending.tick(exchange.epoch)
        clock.advance(seconds=3600)
    assert exchange.states() == ["dead"]
    assert exchange.market.calls == 3
    assert exchange.states("task") == ["dead"]
    del exchange.market.find
    with exchange.store.write() as tx:
        assert rows.revive(tx, rows.dead(tx, [], None), clock()) == 1
    assert sending.tick(exchange.epoch) == 1
    assert exchange.market.calls == 3
    assert exchange.states("task") == ["sent"]


def test_a_connector_that_can_not_tell_is_never_asked_to_repeat(exchange, clock):
    class Blind(Failing):
        manifest = replace(MEMORY, idempotency=Idempotency.NONE)

        def find(self, key):
            return None

    exchange.market = Blind()
    exchange.connectors["memory"] = exchange.market
    exchange.market.after = [TimeoutError()]
    exchange.book(("ann", "r1.a"))
    sending = exchange.sending()
    sending.tick(exchange.epoch)
    clock.advance(seconds=60)
    sending.tick(exchange.epoch)
    assert exchange.states() == ["dead"]
    assert exchange.market.calls == 1
    with exchange.store.write() as tx:  # the operator looked there and says: again
        rows.revive(tx, rows.dead(tx, [], "memory"), clock())
    assert sending.tick(exchange.epoch) == 1


def test_what_a_lost_store_may_have_sent_is_not_repeated_where_nobody_can_tell(
    exchange, clock
):
    exchange.market.manifest = replace(MEMORY, idempotency=Idempotency.NONE)
    exchange.book(("ann", "r1.a"))
    with exchange.store.write() as tx:  # it was restored from a backup
        make_ready(tx, clock())
        epoch = lease.take(tx, lease.SHARD, "next", clock(), clock() + HOUR)
    assert exchange.sending().tick(epoch) == 0
    assert exchange.market.calls == 0
    assert exchange.states() == ["dead"]


@pytest.mark.parametrize("fault", [RuntimeError("x"), SystemExit(0)])
def test_one_connector_that_fails_holds_up_no_other(exchange, fault):
    exchange.connectors["second"] = Memory()
    exchange.case.add("second/eve")
    exchange.case.book(("second/eve", "r1.c"))
    exchange.book(("ann", "r1.a"))
    exchange.market.before = [fault] * 9
    assert exchange.sending().tick(exchange.epoch) == 1
    assert len(exchange.connectors["second"].offers) == 1


def test_a_paused_connector_or_run_sends_nothing_and_loses_nothing(exchange, clock):
    exchange.book(("ann", "r1.a"))
    sending = exchange.sending()
    for scope in ("all", "connector:memory", "run:default"):
        builders.resume(exchange.store)
        builders.pause(exchange.store, scope)
        assert sending.tick(exchange.epoch) == 0
        clock.advance(seconds=90)
    builders.resume(exchange.store)
    assert exchange.market.calls == 0
    assert sending.tick(exchange.epoch) == 1
    assert exchange.ask("SELECT attempts FROM outbox") == 1


def test_a_field_that_a_later_policy_keeps_back_never_leaves(exchange):
    booked = exchange.book(("ann", "r1.a r1.d"))
    kept = 'a = { ask = "transcribe", answers = 2 }\nd = { send = false }'
    with exchange.case.store.write() as tx:
        terms = versions.ApplyTerms(in_flight=InFlightAction.KEEP)
        source = policy("", kept, budget="t = 3")
        versions.apply_policy(tx, source, at=exchange.case.tick(), terms=terms)
    assert exchange.sending().tick(exchange.epoch) == 1
    [offer] = exchange.market.offers.values()
    assert [item.token for item in offer.items] == [exchange.token(booked.tasks[0])]
    assert exchange.states("task") == ["sent", "dead"]


def test_a_blocked_account_is_sent_nothing(exchange):
    exchange.book(("ann", "r1.a"))
    builders.block(exchange.store, "memory/ann")
    assert exchange.sending().tick(exchange.epoch) == 0
    assert (exchange.states(), exchange.states("task")) == (["cancelled"], ["returned"])


def test_an_offer_of_work_carries_no_content(exchange):
    ann = exchange.case.accounts["memory/ann"]
    with exchange.store.write() as tx:
        rows.add(tx, [(99, "inhouse", ann, "offer", 0, 0)])
    exchange.connectors["inhouse"] = Inhouse(b"k" * 32)
    assert exchange.sending(link="http://x.test/").tick(exchange.epoch) == 1
    assert exchange.ask("SELECT handle FROM outbox WHERE id = 99") == exchange.key(99)


def test_a_withdrawal_takes_the_named_message_back(exchange):
    booked = exchange.book(("ann", "r1.a"))
    sending = exchange.sending()
    sending.tick(exchange.epoch)
    with exchange.store.write() as tx:
        assert rows.withdraw(tx, booked.messages, 0) == 1
    assert sending.tick(exchange.epoch) == 1
    assert exchange.market.withdrawn == {exchange.key(booked.messages[0])}
    with exchange.store.write() as tx:  # a second one is not written for it
        assert rows.withdraw(tx, booked.messages, 0) == 0


def test_a_withdrawal_waits_for_a_message_that_may_yet_leave(exchange, clock):
    exchange.market.before = [TryLater("not now", after=5)]
    booked = exchange.book(("ann", "r1.a"))
    with exchange.case.store.write() as tx:
        assert rows.withdraw(tx, booked.messages, clock()) == 1
        assert rows.withdraw(tx, booked.messages, clock()) == 0  # once is enough
    sending = exchange.sending()
    for _ in range(4):
        sending.tick(exchange.epoch)
        assert exchange.ask("SELECT count(*) FROM outbox WHERE state = 'dead'") == 0
        clock.advance(seconds=90)
    assert exchange.market.withdrawn == {exchange.key(booked.messages[0])}


def test_another_offers_handle_is_not_believed_and_the_market_is_asked(exchange, clock):
    class Confused(Failing):
        def publish(self, offer):
            super().publish(offer)
            return Handle("another", "memory:another")

    exchange.market = exchange.connectors["memory"] = Confused()
    booked = exchange.book(("ann", "r1.a"))
    sending = exchange.sending()
    assert sending.tick(exchange.epoch) == 0
    assert exchange.states() == ["ready"]
    clock.advance(seconds=10)
    assert sending.tick(exchange.epoch) == 1
    assert exchange.market.calls == 1
    key = exchange.key(booked.messages[0])
    assert exchange.ask("SELECT handle FROM outbox") == f"memory:{key}"


def test_no_value_reaches_a_log_or_an_error(exchange, clock, logs):
    exchange.case.load(("r3", "p3", 1, "abc"), shown=b"canary-value")
    exchange.market.before = [
        Rejected("the market says: canary-value is no good"),
        RuntimeError("canary-value"),
        TryLater("canary-value", after=1),
    ]
    exchange.book(("ann", "r3.a r3.b r3.c"), per_message=1)
    sending = exchange.sending()
    for _ in range(4):
        sending.tick(exchange.epoch)
        clock.advance(seconds=60)
    assert logs.getvalue().count("\n") >= 3
    assert "canary" not in logs.getvalue()
    told = exchange.rows("SELECT error FROM outbox WHERE error IS NOT NULL")
    assert "canary" not in str(told)


def test_a_hostile_market_ends_with_one_copy_of_everything(store, clock):
    memory = Memory()
    hostile = Hostile(memory, np.random.default_rng(5), {Fault.TIMEOUT})
    exchange = Exchange(Case(store), clock, hostile)
    exchange.workers("ann", "bob")
    exchange.case.load(*((f"r{n}", f"p{n}", 1, "abcd") for n in range(6)))
    asks = [
        (who, f"r{n}.{f}") for n in range(6) for who, f in (("ann", "a"), ("bob", "b"))
    ]
    booked = exchange.book(*asks, per_message=1)
    sending = exchange.sending(attempts=40)
    for _ in range(40):
        sending.tick(exchange.epoch)
        clock.advance(seconds=3600)
    assert set(exchange.states()) == {"sent"}
    assert set(memory.offers) == {exchange.key(n) for n in booked.messages}


def test_a_dead_market_degrades_only_itself(store, clock):
    """It hangs, then fails: the other one is served meanwhile, and after it."""
    dead, alive, go = Memory(), Memory(), threading.Event()

    def hang(offer):
        assert go.wait(240)
        raise TryLater("gave no whole answer", after=60)

    dead.publish = hang
    exchange = Exchange(Case(store), clock, dead)
    exchange.connectors["other"] = alive
    exchange.case.add("memory/ann", "other/bob")
    exchange.case.load(("r1", "p1", 1, "abcd"), ("r2", "p2", 1, "abcd"))
    both = ("memory/ann", "r1.a"), ("other/bob", "r2.a")
    exchange.case.book(*both, delivery=Push(due=0))
    sending = exchange.sending()
    with ThreadPoolExecutor(1) as pool:
        hung = pool.submit(sending.by_name["memory"].tick, exchange.epoch)
        until(lambda: "leased" in exchange.states(), "the message is on its way")
        assert sending.by_name["other"].tick(exchange.epoch) == 1
        assert (len(alive.offers), sorted(exchange.states())) == (1, ["leased", "sent"])
        # what hangs is not taken from it
        assert sending.by_name["other"].tick(exchange.epoch) == 0
        assert sorted(exchange.states()) == ["leased", "sent"]
        go.set()
        assert hung.result(240) == 0
    assert sorted(exchange.states()) == ["ready", "sent"]
    assert list(sending.resting) == ["memory"]


def test_a_market_whose_calls_all_fail_is_left_alone_for_a_while(exchange, clock):
    exchange.book(
        *((who, f"{r}.{f}") for who, r in PAIRS for f in "abc"), per_message=1
    )
    exchange.market.before = [OSError("no")] * 20
    sending = exchange.sending(attempts=40)
    sending.tick(exchange.epoch)
    assert exchange.market.calls == 3
    assert "memory" in sending.resting
    clock.advance(seconds=61)
    sending.tick(exchange.epoch)
    assert exchange.market.calls == 4
    exchange.market.before.clear()
    clock.advance(seconds=121)
    sending.tick(exchange.epoch)
    clock.advance(seconds=61)
    sending.tick(exchange.epoch)
    assert set(exchange.states()) == {"sent"}


def test_no_more_messages_leave_in_a_minute_than_the_market_takes(
    exchange, clock, monkeypatch
):
    slow = replace(MEMORY, limits=Limits(per_minute=2))
    monkeypatch.setattr(type(exchange.market), "manifest", slow)
    exchange.book(
        *((who, f"{r}.{f}") for who, r in PAIRS for f in "abc"), per_message=1
    )
    sending = exchange.sending()
    assert [sending.tick(exchange.epoch) for _ in range(3)] == [2, 0, 0]
    clock.advance(seconds=31)
    assert sending.tick(exchange.epoch) == 1
    clock.advance(seconds=3600)
    assert sending.tick(exchange.epoch) == 2


def test_a_folder_gets_one_directory_a_message(store, clock, tmp_path):
    folder = Folder(tmp_path / "spool", settle=0)
    exchange = Exchange(Case(store), clock, folder, name="folder")
    exchange.workers("agency/☕")
    exchange.case.load(("r1", "p1", 1, "abcd"))
    exchange.book(("agency/☕", "r1.a r1.b"))
    assert exchange.sending().tick(exchange.epoch) == 1
    [batch] = (tmp_path / "spool").glob("agency*/batch-*")
    assert (batch / "tasks.csv").read_text("utf-8-sig").count("shown") == 2


LONG = "Jane Roe, 12 Harbour Street, penicillin 500 mg three times a day. " * 12


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("Jane Roe\n12 Harbour Street", "cannot take 'Jane Roe\n12 Harbour Street'"),
        (LONG, f"this text is too long: {LONG}"),
        ("Jane Roe, 12 Harbour Street", "bad item: Jane Roe, 12 Ha..."),
        ("JANE ROE, HARBOUR STREET", "no such customer: jane roe"),
    ],
)
def test_a_connector_that_quotes_a_value_in_part_is_not_repeated(
    exchange, logs, value, words
):
    # As it is written, cut short by it or by us, on two lines, in other letters.
    exchange.case.load(("r3", "p3", 1, "a"), shown=value.encode())
    exchange.market.before = [Rejected(words)]
    exchange.book(("ann", "r3.a"))
    exchange.sending().tick(exchange.epoch)
    assert exchange.states() == ["dead"]
    assert exchange.ask("SELECT error FROM outbox") == "Rejected"
    told = logs.getvalue().casefold()
    assert "send-dead" in told
    assert "jane" not in told
    assert "harbour" not in told


def test_a_connector_that_quotes_nothing_is_heard(exchange):
    exchange.market.before = [Rejected("the account is not known there")]
    exchange.book(("ann", "r1.a"))
    exchange.sending().tick(exchange.epoch)
    assert exchange.ask("SELECT error FROM outbox") == "the account is not known there"


def test_nothing_more_of_a_person_goes_to_whom_asked_for_that(exchange):
    exchange.book(("ann", "r1.a r2.a"))
    record = exchange.case.records["r1"]
    builders.recuse(exchange.store, "memory/ann", record_unit(record))
    assert exchange.sending().tick(exchange.epoch) == 1
    (offer,) = exchange.market.offers.values()
    assert [item.token for item in offer.items] == [exchange.token(2)]
    assert exchange.states("task") == ["dead", "sent"]


class OpenToAll(Failing):
    """A market where whoever is there may open any task."""

    @property
    def manifest(self):
        return replace(MEMORY, binding=Binding.NONE)

    def publish(self, offer):
        self.offers[offer.key] = offer
        return Handle(offer.key, offer.key)


def test_where_anyone_opens_any_task_all_accounts_are_one_or_nothing_goes(
    store, clock, logs
):
    # What is booked for ann alone would lie open to bob.
    exchange = Exchange(Case(store), clock, OpenToAll())
    exchange.workers("ann", "bob")
    exchange.case.load(("r1", "p1", 1, "abcd"))
    exchange.book(("ann", "r1.a"))
    sending = exchange.sending()
    assert sending.tick(exchange.epoch) == 0
    assert exchange.states() == ["ready"]
    assert exchange.ask("SELECT attempts FROM outbox") == 0
    assert "one adversary" in logs.getvalue()
    group = '[workers.groups.g]\nmembers = ["memory/*"]'
    exchange.case.apply(policy("", FIELDS, budget="t = 3", groups=group, name="two"))
    clock.advance(seconds=61)
    assert sending.tick(exchange.epoch) == 1
    assert [one.audience for one in exchange.market.offers.values()] == ["ann"]


class OneReceiver(MemoryFeed):
    """A feed: whatever account it is sent for, the same receiver gets it."""

    @property
    def manifest(self):
        return replace(FEED, binding=Binding.NONE)


def test_two_accounts_of_one_feed_are_one_adversary_or_nothing_goes(store, clock, logs):
    exchange = Exchange(Case(store), clock, OneReceiver())
    exchange.workers("ann", "bob")
    exchange.case.load(("r1", "p1", 1, "abcd"))
    exchange.book(("ann", "r1.a"))
    sending = exchange.sending()
    assert sending.tick(exchange.epoch) == 0
    assert "one adversary" in logs.getvalue()
    group = '[workers.groups.g]\nmembers = ["memory/*"]'
    exchange.case.apply(policy("", FIELDS, budget="t = 3", groups=group, name="two"))
    clock.advance(seconds=61)
    assert sending.tick(exchange.epoch) == 1
    assert [one.account for one in exchange.market.sent.values()] == ["ann"]
