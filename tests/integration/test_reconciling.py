"""Reconciling: what a market has of us is held against what we know, and mended."""

from __future__ import annotations

import json

import pytest

from connectors.base import Item, Listed, Misconfigured, Offer, Rejected
from connectors.folder import Folder
from connectors.testing.hostile import Memory
from dispatcher.core import keys
from dispatcher.core.errors import StaleLease
from dispatcher.ledger.book import Push
from dispatcher.stages.reconciling import Mending
from dispatcher.store import lease, outbox, pause
from tests import builders
from tests.integration import stages
from tests.integration.exchange_house import Exchange, logs
from tests.integration.ledger_cases import Case

__all__ = ["logs"]

HOUR = 3600 * 1_000_000
MEND = Mending(mend=True)
TELL = Mending()


@pytest.fixture
def exchange(store, clock):
    made = Exchange(Case(store), clock)
    made.workers("ann", "bob")
    made.case.load(*((f"r{n}", f"p{n}", 1, "abcd") for n in range(4)))
    return made


@pytest.fixture
def sent(exchange, clock):
    """Four messages of one task each, sent an hour ago: their ids."""
    booked = exchange.book(*(("ann", f"r{n}.a") for n in range(4)), per_message=1)
    exchange.sending().tick(exchange.epoch)
    clock.advance(seconds=3600)
    return booked.messages


def reconciling(exchange):
    return stages.reconciling(exchange.store, exchange.connectors, exchange.clock)


def counts(drift):
    return {kind: count for kind, count in drift.counts.items() if count}


def events(exchange):
    return exchange.rows(
        "SELECT actor, detail FROM event WHERE action = 'market.reconciled'"
    )


def put(market, key):
    """Have something lie at the market that this store did not send."""
    item = Item("0" * 32, content=b"x")
    market.offers[key] = Offer(key, account="ann", items=(item,))


def test_a_market_that_agrees_has_nothing_to_mend(exchange, sent):
    drift = reconciling(exchange).by_name["memory"].reconcile(MEND)
    assert (drift.listed, counts(drift), drift.differs) == (4, {}, False)
    assert events(exchange) == []


def test_what_was_deleted_there_is_seen_and_returns_to_the_plan(exchange, sent):
    del exchange.market.offers[exchange.key(sent[1])]
    exposures = exchange.ask("SELECT count(*) FROM ledger_line")
    told = reconciling(exchange).by_name["memory"].reconcile(TELL)
    assert exchange.states("task") == ["sent"] * 4  # it was only told
    done = reconciling(exchange).by_name["memory"].reconcile(MEND)
    assert counts(told) == counts(done) == {"gone": 1}
    assert told.examples == {"gone": [f"outbox#{sent[1]}"]}
    assert exchange.states("task") == ["sent", "returned", "sent", "sent"]
    assert exchange.ask("SELECT count(*) FROM ledger_line") == exposures
    assert not reconciling(exchange).by_name["memory"].reconcile(MEND).differs


def test_an_answer_that_comes_after_all_still_counts(exchange, sent):
    exchange.market.offers.clear()
    reconciling(exchange).by_name["memory"].reconcile(Mending(mend=True, trust=True))
    task = exchange.ask("SELECT min(id) FROM task")
    exchange.market.give(exchange.token(task), "ann", "late")
    assert exchange.collecting().tick(exchange.epoch) == 1


def test_what_was_sent_a_moment_ago_is_not_taken_for_gone(exchange):
    exchange.book(("ann", "r0.a"))
    exchange.sending().tick(exchange.epoch)
    exchange.market.offers.clear()
    assert not reconciling(exchange).by_name["memory"].reconcile(MEND).differs


def test_a_list_without_most_of_what_was_sent_is_not_believed(exchange, clock):
    exchange.case.load(*((f"s{n}", f"q{n}", 1, "abcd") for n in range(12)))
    exchange.book(*(("bob", f"s{n}.a") for n in range(12)), per_message=1)
    exchange.sending().tick(exchange.epoch)
    clock.advance(seconds=3600)
    exchange.market.offers.clear()
    drift = reconciling(exchange).by_name["memory"].reconcile(MEND)
    assert (drift.doubtful, counts(drift)) == (True, {"gone": 12})
    assert set(exchange.states("task")) == {"sent"}
    trusted = Mending(mend=True, trust=True)
    assert counts(reconciling(exchange).by_name["memory"].reconcile(trusted)) == {
        "gone": 12
    }
    assert set(exchange.states("task")) == {"returned"}


def test_what_a_forgotten_life_of_this_store_offered_is_withdrawn(exchange, sent):
    lost = exchange.key(10**15)
    put(exchange.market, lost)
    assert counts(reconciling(exchange).by_name["memory"].reconcile(TELL)) == {
        "unknown": 1
    }
    assert exchange.market.withdrawn == set()
    reconciling(exchange).by_name["memory"].reconcile(MEND)
    assert exchange.market.withdrawn == {lost}
    assert not reconciling(exchange).by_name["memory"].reconcile(MEND).differs


class Deleting(Memory):
    """What is withdrawn is gone from its list, and the pages behind move up."""

    def withdraw(self, handle):
        del self.offers[handle.key]


def test_what_moves_up_in_the_list_by_a_withdrawal_is_not_gone(store, clock):
    market = Deleting()
    lost = [keys.offer_key(store.key("task-key"), 10**15 + n) for n in range(4)]
    for key in lost:
        put(market, key)
    exchange = Exchange(Case(store), clock, market)
    exchange.workers("ann")
    exchange.case.load(*((f"r{n}", f"p{n}", 1, "abcd") for n in range(9)))
    exchange.book(*(("ann", f"r{n}.a") for n in range(9)), per_message=1)
    exchange.sending().tick(exchange.epoch)
    clock.advance(seconds=3600)
    assert counts(reconciling(exchange).by_name["memory"].reconcile(MEND)) == {
        "unknown": 4
    }
    assert len(market.offers) == 9


def test_what_another_store_offered_is_left_alone(exchange, sent):
    put(exchange.market, keys.offer_key(b"k" * 32, sent[0]))
    put(exchange.market, "somebody's own")
    drift = reconciling(exchange).by_name["memory"].reconcile(MEND)
    assert counts(drift) == {"foreign": 2}
    assert not drift.differs
    assert exchange.market.withdrawn == set()


def test_what_another_connector_of_ours_offered_there_is_left_alone(exchange, sent):
    exchange.case.add("other/cem")
    exchange.case.book(("other/cem", "r0.a"), delivery=Push(due=0))
    other = stages.sending(exchange.store, {"other": exchange.market}, exchange.clock)
    assert other.tick(exchange.epoch) == 1
    exchange.clock.advance(seconds=3600)
    assert len(exchange.market.offers) == 5
    drift = reconciling(exchange).by_name["memory"].reconcile(MEND)
    assert counts(drift) == {}
    assert exchange.market.withdrawn == set()


def test_what_was_given_up_and_lies_there_counts_as_sent(exchange, sent):
    [message] = exchange.book(("ann", "r0.b")).messages
    builders.settle_messages(exchange.store, "dead", tries=12, error="no answer")
    put(exchange.market, exchange.key(message))
    drift = reconciling(exchange).by_name["memory"].reconcile(MEND)
    assert counts(drift) == {"arrived": 1}
    exchange.sending().tick(exchange.epoch)
    assert set(exchange.states()) == {"sent"}
    assert set(exchange.states("task")) == {"sent"}
    assert len(exchange.market.offers) == 5


def test_what_is_still_open_after_a_withdrawal_is_withdrawn_again(
    exchange, sent, clock
):
    with exchange.store.write() as tx:
        outbox.withdraw(tx, sent[:1], clock())
    exchange.sending().tick(exchange.epoch)
    exchange.market.withdrawn.clear()  # it said yes, and did nothing
    drift = reconciling(exchange).by_name["memory"].reconcile(MEND)
    assert counts(drift) == {"unwithdrawn": 1}
    assert exchange.market.withdrawn == {exchange.key(sent[0])}


def test_one_that_can_not_be_withdrawn_stops_no_other(exchange, sent):
    class Stubborn(Memory):
        def withdraw(self, handle):
            if handle.key == exchange.key(10**15):
                raise Rejected("no")
            super().withdraw(handle)

    market = Stubborn()
    market.offers = exchange.market.offers
    exchange.connectors["memory"] = market
    for number in (10**15, 10**15 + 1):
        put(market, exchange.key(number))
    drift = reconciling(exchange).by_name["memory"].reconcile(MEND)
    assert counts(drift) == {"unknown": 2, "refused": 1}
    assert market.withdrawn == {exchange.key(10**15 + 1)}


def test_the_daemon_mends_and_writes_down_what_it_did(exchange, sent, logs):
    del exchange.market.offers[exchange.key(sent[0])]
    assert reconciling(exchange).tick(exchange.epoch) == 1
    assert exchange.states("task")[0] == "returned"
    [(actor, detail)] = events(exchange)
    assert actor == "connector:memory"
    assert json.loads(detail)["gone"] == 1
    assert "market-differs" in logs.getvalue()


@pytest.mark.parametrize("scope", ["all", "connector:memory"])
def test_a_pause_leaves_what_lies_there_as_it_is(exchange, sent, clock, scope):
    exchange.market.offers.clear()
    with exchange.store.write() as tx:
        pause.pause(tx, scope, "a restored store is looked at first", clock())
    assert reconciling(exchange).tick(exchange.epoch) == 0
    assert set(exchange.states("task")) == {"sent"}


def test_a_daemon_that_lost_the_lease_mends_nothing(exchange, sent, clock):
    put(exchange.market, exchange.key(10**15))
    with exchange.store.write() as tx:
        lease.take(tx, lease.SHARD, "other", clock(), clock() + HOUR)
    with pytest.raises(StaleLease):
        reconciling(exchange).tick(exchange.epoch)
    assert exchange.market.withdrawn == set()


@pytest.mark.parametrize("fault", [Misconfigured("shut"), SystemExit(0)])
def test_a_market_that_can_not_be_asked_stops_no_other(exchange, sent, logs, fault):
    class Shut(Memory):
        def listing(self, cursor):
            raise fault

    exchange.connectors["shut"] = Shut()
    del exchange.market.offers[exchange.key(sent[0])]
    assert reconciling(exchange).tick(exchange.epoch) == 1
    assert "not-reconciled" in logs.getvalue()


def test_pages_that_never_end_are_turned_only_so_often(exchange, sent, monkeypatch):
    monkeypatch.setattr("dispatcher.stages.reconciling.MOST_PAGES", 5)
    exchange.market.listing = lambda cursor: Listed((), "again")
    with pytest.raises(Misconfigured, match="no end"):
        reconciling(exchange).by_name["memory"].reconcile(MEND)
    assert set(exchange.states("task")) == {"sent"}


def test_a_batch_that_was_deleted_from_a_folder_is_gone(store, clock, tmp_path):
    folder = Folder(tmp_path / "spool", settle=0)
    exchange = Exchange(Case(store), clock, folder, name="folder")
    exchange.workers("agency/☕")
    exchange.case.load(("r1", "p1", 1, "abcd"), ("r2", "p2", 1, "abcd"))
    exchange.book(("agency/☕", "r1.a"), ("agency/☕", "r2.a"), per_message=1)
    exchange.sending().tick(exchange.epoch)
    clock.advance(seconds=3600)
    first, _ = sorted((tmp_path / "spool").glob("agency*/batch-*"))
    first.rename(tmp_path / "deleted")
    assert counts(reconciling(exchange).by_name["folder"].reconcile(MEND)) == {
        "gone": 1
    }
    assert sorted(exchange.states("task")) == ["returned", "sent"]
