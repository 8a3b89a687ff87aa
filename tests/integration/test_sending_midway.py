"""What comes in between while a batch goes out: each message is judged as it leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from connectors.base import Idempotency
from connectors.testing.hostile import MEMORY, Memory
from dispatcher.core.errors import StaleLease
from dispatcher.ledger.identity_changes import merge
from dispatcher.store import lease, pause
from tests import builders
from tests.integration.exchange_house import Exchange
from tests.integration.ledger_cases import Case

HOUR = 3600 * 1_000_000


class Meanwhile(Memory):
    """Does something while the first message is handed over."""

    manifest = replace(MEMORY, idempotency=Idempotency.NONE)

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile = lambda: None

    def publish(self, offer):
        handle = super().publish(offer)
        self.meanwhile()
        self.meanwhile = lambda: None
        return handle


@pytest.fixture
def exchange(store, clock):
    made = Exchange(Case(store), clock, Meanwhile())
    made.workers("ann", "bob", "cid")
    made.case.load(("r1", "p1", 1, "abcd"), ("r2", "p2", 1, "abcd"))
    made.book(("ann", "r1.a"), ("bob", "r2.a"), ("cid", "r2.b"))
    return made


def test_a_daemon_whose_lease_is_taken_hands_nothing_more_over(exchange, clock):
    def taken():
        with exchange.store.write() as tx:
            lease.take(tx, lease.SHARD, "next", clock() + 20, clock() + HOUR)

    exchange.market.meanwhile = taken
    with pytest.raises(StaleLease):
        exchange.sending().tick(exchange.epoch)
    assert len(exchange.market.offers) == 1


def test_a_worker_who_is_blocked_gets_nothing_more(exchange):
    exchange.market.meanwhile = lambda: builders.block(exchange.store, "memory/cid")
    sending = exchange.sending()
    assert sending.tick(exchange.epoch) == 2
    assert exchange.states() == ["sent", "sent", "cancelled", "ready"]
    assert exchange.states("task") == ["sent", "sent", "returned"]
    sending.tick(exchange.epoch)  # what would take it back finds nothing there
    assert exchange.states() == ["sent", "sent", "cancelled", "sent"]
    assert exchange.market.withdrawn == set()


@pytest.mark.parametrize("scope", [pause.ALL, "connector:memory"])
def test_a_pause_stops_what_has_not_left(exchange, clock, scope):
    def paused():
        with exchange.store.write() as tx:
            pause.pause(tx, scope, "look first", clock())

    exchange.market.meanwhile = paused
    sending = exchange.sending()
    assert sending.tick(exchange.epoch) == 1
    assert exchange.states() == ["sent", "ready", "ready"]
    with exchange.store.write() as tx:
        pause.resume(tx, scope)
    clock.advance(seconds=90)
    assert sending.tick(exchange.epoch) == 2  # its attempt did not count


def test_what_a_merge_recalls_stays_here(store, clock):
    exchange = Exchange(Case(store), clock, Meanwhile())
    exchange.case.apply(
        b'version = 1\nname = "x"\n[entity.thing]\nkey = "id"\nsubject = "person"\n'
        b'time = "when"\n[entity.thing.fields]\na = { ask = "transcribe" }\n'
        b'b = { ask = "transcribe" }\n[property.a-b]\nof = ["a", "b"]\n'
    )
    exchange.workers("ann", "bob", "cid")
    exchange.case.load(("r1", "p1", 1, "ab"), ("r2", "p2", 1, "ab"))
    exchange.book(("ann", "r2.a"), ("bob", "r1.a"), ("cid", "r1.b"))

    def merged():
        with store.write() as tx:
            pair = ["memory/bob", "memory/cid"]
            at = exchange.case.tick()
            merge(tx, [pair], because="one person", at=at, accept=1)

    exchange.market.meanwhile = merged
    exchange.sending().tick(exchange.epoch)
    assert [offer.account for offer in exchange.market.offers.values()] == ["ann"]
