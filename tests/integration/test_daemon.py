"""The daemon: one leads, a dead one is followed at once, a frozen one is fenced."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from dispatcher.app.daemon import Daemon, Tick
from dispatcher.app.leadership import LEASE_SECONDS, Standby, take_lease
from dispatcher.app.systemd import Notifier
from dispatcher.core.errors import (
    AnotherLeads,
    Conflict,
    StaleLease,
    StoreLocked,
    StoreUnreachable,
)
from dispatcher.core.processes import process_name
from dispatcher.ledger.book import Asks, Push, book
from dispatcher.operations.status import status
from dispatcher.store import lease
from dispatcher.store.settings import set_setting
from dispatcher.surfaces.daemon import stand_by
from tests import sql
from tests.integration.exchange_house import logs
from tests.integration.ledger_cases import PAIR, Case, policy
from tests.patience import PATIENCE, until

__all__ = ["logs"]


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
    fence = daemon.fence()
    clock.advance(seconds=LEASE_SECONDS)  # it slept past its lease
    take_lease(store, clock, "another/b/1/1")
    with pytest.raises(StaleLease), store.write() as tx:
        book(
            tx,
            [Asks(case.accounts["x/ann"], [case.entries["r1.a"]])],
            delivery=Push(),
            at=clock(),
            cause="test",
            fence=fence,
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


HOUR, YEAR = 3600, 365 * 86_400


@pytest.mark.parametrize(
    "seconds", [YEAR, -YEAR, HOUR, -HOUR], ids=["year", "-year", "hour", "-hour"]
)
def test_a_time_of_day_that_is_set_gives_each_tick_a_turn_and_keeps_its_rhythm(
    store, clock, seconds
):
    """A boot before NTP, a suspend, a clock put back: the lease is renewed by it."""
    rare, often = [], threading.Semaphore(0)
    ticks = [
        Tick("reconciling", 3600, lambda _: rare.append(1) or 0),
        Tick("booking", 0.02, lambda _: often.release() or 0),
    ]
    daemon = make(store, clock, ticks)
    daemon.lead()
    daemon.start()
    for turns, change in enumerate((seconds, -seconds), start=1):
        until(lambda turns=turns: len(rare) == turns, "the turn of before")
        clock.advance(seconds=change)
        until(lambda turns=turns: len(rare) == turns + 1, "one turn at once")
        until(
            lambda: held(store).leased_until == clock() + LEASE_SECONDS * 1_000_000,
            "the lease is renewed by the clock that there is now",
        )
        while often.acquire(blocking=False):
            pass
        assert often.acquire(timeout=PATIENCE)
    daemon.stop()
    assert len(rare) == 3
    daemon.raise_if_lost()


def test_a_failing_tick_stops_no_other_and_tells_no_value(store, clock, logs):
    counts = {"bad": 0, "good": 0}

    def bad(_epoch):
        counts["bad"] += 1
        if counts["bad"] == 1:
            raise ValueError("Canary Secretson")
        if counts["bad"] == 2:
            raise SystemExit("Canary Secretson")
        raise Conflict("refused", why="Canary Secretson")

    def good(_epoch):
        counts["good"] += 1
        if counts["good"] > 2 and counts["bad"] > 3:
            enough.set()
        return 0

    enough = threading.Event()
    ticks = [Tick("assembly", 0.02, bad), Tick("collecting", 0.02, good)]
    daemon = make(store, clock, ticks)
    daemon.lead()
    daemon.start()
    assert enough.wait(PATIENCE)
    told = status(store, clock()).needs_you
    assert any("cannot do its assembly (E" in sentence for sentence in told)
    assert not any("collecting" in sentence for sentence in told)
    daemon.stop()
    text = logs.getvalue()
    assert "tick-failed" in text
    assert "ValueError" in text
    assert "SystemExit" in text
    assert "tick-refused" in text
    assert "Canary" not in text


def test_what_a_tick_can_do_again_needs_nobody(store, clock, daemon):
    """A failure is told from the first time until the tick succeeds."""
    fails = [True]

    def plan(_epoch):
        if fails:
            raise ValueError("Canary")
        return 0

    tick = Tick("planning", 60, plan)
    daemon._turn(tick)
    clock.advance(seconds=120)
    with store.write() as tx:
        lease.renew(tx, lease.SHARD, 1, clock() + 1)
    (told,) = (one for one in status(store, clock()).needs_you if "planning" in one)
    assert told == (
        "the daemon cannot do its planning (E001), 2 min by now: "
        "dispatcher plan --dry-run"
    )
    fails.clear()
    daemon._turn(tick)
    assert not any("planning" in one for one in status(store, clock()).needs_you)


def test_a_failure_is_told_and_taken_back_once_the_store_takes_writes(
    store, clock, daemon, monkeypatch
):
    """Each turn tries again what the turn before could not write."""
    fails = [True]

    def plan(_epoch):
        if fails:
            raise ValueError("Canary")
        return 0

    def locked():
        raise StoreLocked("busy")

    def is_told():
        return any("planning" in one for one in status(store, clock()).needs_you)

    tick = Tick("planning", 60, plan)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(store, "write", locked)
        daemon._turn(tick)
    assert not is_told()
    daemon._turn(tick)
    assert is_told()
    fails.clear()
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(store, "write", locked)
        daemon._turn(tick)
    assert is_told()
    daemon._turn(tick)
    assert not is_told()


def test_a_connector_that_hangs_holds_up_its_own_job_alone(store, clock):
    """And is not called a second time while it hangs."""
    go, quick, begun = threading.Event(), threading.Semaphore(0), []

    def hang(_epoch):
        begun.append(1)
        assert go.wait(PATIENCE)
        return 1

    ticks = [
        Tick("sending:slow", 0.02, hang, shows=True),
        Tick("sending:quick", 0.02, lambda _: quick.release() or 1, shows=True),
    ]
    daemon = make(store, clock, ticks)
    daemon.lead()
    daemon.start()
    for _ in range(5):
        assert quick.acquire(timeout=PATIENCE)
    assert len(begun) == 1
    go.set()
    daemon.stop()


def test_what_runs_may_still_write_while_the_daemon_stops(store, clock):
    go, runs, wrote = threading.Event(), threading.Event(), []

    def run(epoch):
        runs.set()
        assert go.wait(PATIENCE)
        with store.write() as tx:
            lease.check_epoch(tx, lease.SHARD, epoch)
        wrote.append(epoch)
        return 1

    daemon = make(store, clock, [Tick("sending:slow", 1000, run)])
    daemon.lead()
    daemon.start()
    assert runs.wait(PATIENCE)
    with ThreadPoolExecutor(1) as pool:
        stopped = pool.submit(daemon.stop)
        until(lambda: not daemon.is_leading(), "the daemon stops")
        go.set()
        stopped.result(PATIENCE)
    assert wrote == [1]
    daemon.raise_if_lost()


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


# -- standing by ---------------------------------------------------------------------

HERE = "another/b/1/1"  # a name of elsewhere: nobody can tell whether it lives
DAY = 86_400.0


class Waiting:
    """A steady clock that a standby's pauses move, and what happens in each pause."""

    def __init__(self, *acts, longest=60):
        self.seconds = 0.0
        self.acts = list(acts)
        self.longest = longest

    def __call__(self):
        return self.seconds

    def pause(self, seconds):
        self.seconds += seconds
        if self.acts:
            self.acts.pop(0)()
        return self.seconds > self.longest


def standby(store, clock, waiting):
    return Standby(store, clock, steady=waiting, pause=waiting.pause, me="me/b/2/2")


def renewed(store, clock, epoch):
    clock.advance(seconds=0.5)
    with store.write() as tx:
        until = clock() + LEASE_SECONDS * 1_000_000
        assert lease.renew(tx, lease.SHARD, epoch, until)


def test_a_standby_waits_for_as_long_as_the_leader_renews(store, clock):
    epoch = take_lease(store, clock, HERE)
    acts = [lambda: renewed(store, clock, epoch)] * 60
    waiting = Waiting(*acts, longest=20)
    assert standby(store, clock, waiting).wait() is None
    assert held(store).epoch == epoch


@pytest.mark.parametrize("jump", [0, DAY, -DAY], ids=["", "ahead", "behind"])
def test_a_standby_follows_a_silent_leader_in_under_10_s_whatever_the_clocks_say(
    store, clock, jump
):
    take_lease(store, clock, HERE)
    clock.advance(seconds=jump)
    waiting = Waiting()
    assert standby(store, clock, waiting).wait() == 2
    assert LEASE_SECONDS <= waiting.seconds < 10


@pytest.mark.parametrize("jump", [DAY, -DAY], ids=["ahead", "behind"])
def test_a_clock_that_jumps_takes_the_lease_from_no_leader_that_renews(
    store, clock, jump
):
    epoch = take_lease(store, clock, HERE)
    clock.advance(seconds=jump)
    acts = [lambda: renewed(store, clock, epoch)] * 100
    assert standby(store, clock, Waiting(*acts, longest=30)).wait() is None
    assert held(store).epoch == epoch


def test_a_standby_follows_at_once_when_the_lease_is_given_back(store, clock):
    first = make(store, clock)
    first.lead()
    waiting = Waiting(first.stop)
    assert standby(store, clock, waiting).wait() == 2
    assert waiting.seconds <= 1


def test_a_standby_follows_a_dead_process_of_this_host_at_once(store, clock):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    take_lease(store, clock, process_name(child.pid))
    waiting = Waiting(lambda: None, lambda: child.communicate(b"\n"))
    assert standby(store, clock, waiting).wait() == 2
    assert waiting.seconds <= 2


def test_a_standby_leads_where_nobody_ever_did(store, clock):
    assert standby(store, clock, Waiting()).wait() == 1


def test_a_standby_outlives_a_store_that_can_not_be_reached(store, clock, monkeypatch):
    first = make(store, clock)
    first.lead()
    read = store.read
    monkeypatch.setattr(store, "read", lambda: (_ for _ in ()).throw(StoreLocked("x")))

    def back():
        monkeypatch.setattr(store, "read", read)
        first.stop()

    assert standby(store, clock, Waiting(lambda: None, back)).wait() == 2


def test_signals_have_their_effect_again_when_a_standby_leads(store, clock):
    """Else one that comes before there are servers, who heed it, is lost."""
    before = signal.getsignal(signal.SIGTERM)
    daemon = make(store, clock)
    assert stand_by(daemon, store, Notifier({}, time.monotonic), clock)
    assert signal.getsignal(signal.SIGTERM) is before
    daemon.stop()


def test_a_standby_that_is_told_to_end_as_it_takes_the_lease_gives_it_back(
    store, clock
):
    def told():  # the lease's end is being worked out
        os.kill(os.getpid(), signal.SIGTERM)
        return clock()

    notifier = Notifier({}, time.monotonic)
    assert not stand_by(make(store, clock), store, notifier, told)
    assert held(store).leased_until == 0


def test_of_two_standbys_one_leads(store, clock):
    take_lease(store, clock, HERE)
    one = standby(store, clock, Waiting())
    two = Standby(store, clock, steady=(w := Waiting()), pause=w.pause, me="b/b/3/3")
    assert one.wait() == 2
    w.acts, w.longest = [lambda: renewed(store, clock, 2)] * 60, 20
    assert two.wait() is None


def test_a_leader_frozen_in_a_gate_write_is_followed_and_its_write_is_rolled_back(
    postgres_store, clock, monkeypatch
):
    monkeypatch.setattr("dispatcher.app.leadership.LEASE_SECONDS", 1)
    epoch = take_lease(postgres_store, clock, HERE)
    waiting = Waiting(lambda: time.sleep(0.6), lambda: time.sleep(0.6))

    def freezes():
        with postgres_store.write() as tx:
            lease.check_epoch(tx, lease.SHARD, epoch)
            set_setting(tx, "x", b"x")
            with ThreadPoolExecutor(1) as pool:  # it is frozen here
                two = standby(postgres_store, clock, waiting)
                assert pool.submit(two.wait).result(PATIENCE) == 2

    with pytest.raises(StoreUnreachable):
        freezes()
    with postgres_store.read() as tx:
        assert sql.value(tx, "SELECT count(*) FROM setting WHERE name = 'x'") == 0


def test_a_leaders_long_write_does_not_keep_it_from_renewing(postgres_store, clock):
    epoch = take_lease(postgres_store, clock, HERE)
    with postgres_store.write() as tx, ThreadPoolExecutor(1) as pool:
        lease.check_epoch(tx, lease.SHARD, epoch)
        pool.submit(renewed, postgres_store, clock, epoch).result(PATIENCE)
