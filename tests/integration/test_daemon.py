"""The daemon: one leads, a dead one is followed at once, a frozen one is fenced."""

import os
import subprocess
import sys
import threading

import pytest

from dispatcher.daemon import (
    LEASE_SECONDS,
    Daemon,
    Tick,
    process_name,
    take_lease,
)
from dispatcher.errors import AnotherLeads, Conflict, StaleLease, StoreLocked
from dispatcher.ledger.book import Asks, Push, book
from dispatcher.store import lease
from tests.integration.exchange_house import logs
from tests.integration.ledger_cases import PAIR, Case, policy

__all__ = ["logs"]

PATIENCE = 20.0  # seconds; what is waited for comes much sooner


def make(store, clock, ticks=(), lost=lambda: None):
    return Daemon(store, list(ticks), clock, lost=lost, renew_seconds=0.05)


@pytest.fixture
def daemon(store, clock):
    """A daemon that leads and does not tick yet."""
    made = make(store, clock)
    made.lead()
    yield made
    made.stop()


def held(store):
    with store.read() as tx:
        return lease.holder(tx, lease.SHARD)


def test_a_second_daemon_is_told_who_leads(store, clock, daemon):
    with pytest.raises(AnotherLeads) as caught:
        take_lease(store, clock, "another/b/1/1")
    assert caught.value.exit_status == 11
    assert f"pid {os.getpid()} holds the lease (epoch 1)" in caught.value.why
    assert held(store).epoch == 1


def test_the_lease_of_a_dead_process_of_this_host_is_taken_at_once(store, clock):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    name = process_name(child.pid)
    assert take_lease(store, clock, name) == 1
    with pytest.raises(AnotherLeads):
        take_lease(store, clock)
    child.communicate(b"\n")
    assert take_lease(store, clock) == 2


def test_the_lease_of_another_host_is_waited_for(store, clock):
    take_lease(store, clock, "elsewhere/b/1/1")
    clock.advance(seconds=LEASE_SECONDS - 1)
    with pytest.raises(AnotherLeads, match="another daemon leads") as caught:
        take_lease(store, clock)
    assert "elsewhere pid 1" in caught.value.why
    clock.advance(seconds=1)
    assert take_lease(store, clock) == 2


def test_a_stopped_daemon_gives_the_lease_back(store, clock):
    first = make(store, clock)
    first.lead()
    first.stop()
    assert not first.is_leading()
    assert take_lease(store, clock, "another/b/1/1") == 2


def test_a_frozen_daemon_can_book_nothing_once_another_leads(store, clock, daemon):
    case = Case(store)
    case.apply(policy(PAIR))
    case.add("x/ann")
    case.load(("r1", "p1", 1, "ab"))
    epoch = daemon.epoch_to_show()
    clock.advance(seconds=LEASE_SECONDS)  # it slept past its lease
    take_lease(store, clock, "another/b/1/1")
    with pytest.raises(StaleLease), store.write() as tx:
        book(
            tx,
            [Asks(case.accounts["x/ann"], [case.entries["r1.a"]])],
            delivery=Push(),
            at=clock(),
            cause="test",
            epoch=epoch,
        )
    assert case.count("ledger_line", "kind = 'exposure'") == 0
    assert case.count("outbox") == 0


def test_a_daemon_that_lost_its_lease_says_so_once_and_stops_ticking(store, clock):
    lost = threading.Event()
    turns = []
    tick = Tick("assembly", 0.02, lambda epoch: turns.append(epoch) or 0)
    daemon = make(store, clock, [tick], lost.set)
    daemon.lead()
    clock.advance(seconds=LEASE_SECONDS)
    take_lease(store, clock, "another/b/1/1")
    daemon.start()
    assert lost.wait(PATIENCE)
    daemon.stop()
    assert not daemon.is_leading()
    with pytest.raises(StaleLease):
        daemon.epoch_to_show()
    with pytest.raises(StaleLease, match="took over"):
        daemon.raise_if_lost()
    assert held(store).holder == "another/b/1/1"
    assert held(store).leased_until > clock()


def test_a_tick_refused_for_its_epoch_means_the_lease_is_lost(store, clock):
    lost = threading.Event()

    def refused(_epoch):
        raise StaleLease("stale")

    daemon = make(store, clock, [Tick("booking", 30, refused)], lost.set)
    daemon.lead()
    daemon.start()
    assert lost.wait(PATIENCE)
    daemon.stop()


def test_the_lease_is_renewed(store, clock):
    renewed = threading.Event()

    def watch(_epoch):
        if held(store).leased_until == clock() + LEASE_SECONDS * 1_000_000:
            renewed.set()
        return 0

    daemon = make(store, clock, [Tick("watch", 0.05, watch)])
    daemon.lead()
    clock.advance(seconds=5)
    daemon.start()
    assert renewed.wait(PATIENCE)
    daemon.stop()


def test_a_failing_tick_stops_no_other_and_tells_no_value(store, clock, logs):
    counts = {"bad": 0, "good": 0}

    def bad(_epoch):
        counts["bad"] += 1
        if counts["bad"] == 1:
            raise ValueError("Canary Secretson")
        raise Conflict("refused", why="Canary Secretson")

    def good(_epoch):
        counts["good"] += 1
        if counts["good"] > 2 and counts["bad"] > 2:
            enough.set()
        return 0

    enough = threading.Event()
    ticks = [Tick("assembly", 0.02, bad), Tick("collecting", 0.02, good)]
    daemon = make(store, clock, ticks)
    daemon.lead()
    daemon.start()
    assert enough.wait(PATIENCE)
    daemon.stop()
    text = logs.getvalue()
    assert "tick-failed" in text
    assert "ValueError" in text
    assert "tick-refused" in text
    assert "Canary" not in text


def test_draining_shows_nothing_new_and_goes_on_with_the_rest(store, clock):
    shown, others = [], threading.Event()
    ticks = [
        Tick("booking", 0.02, lambda _: shown.append(1) or 1, shows=True),
        Tick("collecting", 0.02, lambda _: others.set() or 0),
    ]
    daemon = make(store, clock, ticks)
    daemon.lead()
    daemon.begin_drain()
    assert daemon.is_leading()
    assert not daemon.is_open()
    with pytest.raises(StaleLease, match="nothing new"):
        daemon.epoch_to_show()
    daemon.start()
    assert others.wait(PATIENCE)
    daemon.stop()
    assert not shown
    daemon.raise_if_lost()


def test_a_lease_that_can_not_be_given_back_is_only_logged(
    store, clock, logs, monkeypatch
):
    daemon = make(store, clock)
    daemon.lead()

    def locked():
        raise StoreLocked("busy")

    monkeypatch.setattr(store, "write", locked)
    daemon.stop()
    assert "lease-not-released" in logs.getvalue()
