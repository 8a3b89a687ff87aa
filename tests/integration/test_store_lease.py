"""Ids, leases and pauses."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dispatcher.core.errors import StaleLease, StoreLocked, Usage
from dispatcher.store import Store, lease, open_store, pause
from dispatcher.store.engine import SMALL_REQUEST
from tests.conftest import FakeClock
from tests.patience import PATIENCE

MINUTE = 60_000_000


# -- ids -------------------------------------------------------------------------------


def test_ids_start_at_one_and_come_in_blocks(store: Store) -> None:
    with store.write() as tx:
        assert tx.reserve("entry", 1000) == 1
        assert tx.reserve("entry", 1000) == 1001
        assert tx.reserve("task", 1000) == 1
    with store.write() as tx:
        assert tx.reserve("entry", 1000) >= 2001


def test_no_id_is_given_twice_to_many_threads_and_processes(store_url: str) -> None:
    taken: list[int] = []
    guard = threading.Lock()

    def take(store: Store, sizes: list[int]) -> None:
        for size in sizes:
            with store.write() as tx:
                first = tx.reserve("task", size)
            with guard:
                taken.extend(range(first, first + size))

    with open_store(store_url) as one, open_store(store_url) as two:
        sizes = [1, 3, SMALL_REQUEST - 1, 2, SMALL_REQUEST, 5, SMALL_REQUEST + 1, 1] * 3
        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(take, s, sizes) for s in (one, two, one, two)]:
                done.result()
    assert len(taken) == len(set(taken)) == 4 * sum(sizes)
    assert min(taken) >= 1


def test_an_aborted_block_is_never_given_to_a_committed_one_twice(store: Store) -> None:
    def abort() -> None:
        with store.write() as tx:
            tx.reserve("task", 500)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        abort()
    with store.write() as tx:
        first = tx.reserve("task", 500)
    with store.write() as tx:
        assert tx.reserve("task", 500) >= first + 500


def test_bookings_do_not_wait_for_each_others_ids(postgres_store: Store) -> None:
    # Both transactions are open at once; on one locked row the second would wait.
    def second() -> int:
        with postgres_store.write() as tx:
            return tx.reserve("task", 1000)

    with postgres_store.write() as tx, ThreadPoolExecutor(1) as pool:
        first = tx.reserve("task", 1000)
        assert abs(pool.submit(second).result(PATIENCE) - first) == 1000


def test_a_reservation_of_nothing_is_refused(store: Store) -> None:
    with store.write() as tx, pytest.raises(ValueError, match="expected >= 1"):
        tx.reserve("task", 0)


# -- leases ----------------------------------------------------------------------------


def take(store: Store, holder: str, clock: FakeClock) -> int | None:
    with store.write() as tx:
        return lease.take(tx, lease.SHARD, holder, clock(), clock() + MINUTE)


def test_one_leads_until_its_lease_ends(store: Store, clock: FakeClock) -> None:
    assert take(store, "ann", clock) == 1
    assert take(store, "bob", clock) is None
    clock.advance(seconds=59)
    assert take(store, "bob", clock) is None
    clock.advance(seconds=1)
    assert take(store, "bob", clock) == 2
    assert take(store, "ann", clock) is None


def test_every_taking_has_an_epoch_of_its_own(store: Store, clock: FakeClock) -> None:
    assert [take(store, "ann", clock) for _ in range(3)] == [1, 2, 3]


def test_a_renewed_lease_lasts_longer(store: Store, clock: FakeClock) -> None:
    epoch = take(store, "ann", clock)
    assert epoch is not None
    clock.advance(seconds=50)
    with store.write() as tx:
        assert lease.renew(tx, lease.SHARD, epoch, clock() + MINUTE)
    clock.advance(seconds=50)
    assert take(store, "bob", clock) is None
    with store.read() as tx:
        found = lease.holder(tx, lease.SHARD)
    assert found == lease.LeaseHolder("ann", epoch, clock() + 10_000_000)


def test_a_released_lease_is_free_at_once(store: Store, clock: FakeClock) -> None:
    epoch = take(store, "ann", clock)
    assert epoch is not None
    with store.write() as tx:
        assert lease.release(tx, lease.SHARD, epoch)
    assert take(store, "bob", clock) == epoch + 1
    with store.write() as tx:
        assert not lease.renew(tx, lease.SHARD, epoch, clock() + MINUTE)
        assert not lease.release(tx, lease.SHARD, epoch)


def test_a_write_under_a_lost_lease_is_refused(store: Store, clock: FakeClock) -> None:
    old = take(store, "ann", clock)
    assert old is not None
    with store.write() as tx:
        lease.check_epoch(tx, lease.SHARD, old)
    clock.advance(seconds=61)
    new = take(store, "bob", clock)
    with pytest.raises(StaleLease) as refused, store.write() as tx:
        lease.check_epoch(tx, lease.SHARD, old)
    assert refused.value.facts == {"shard": 0, "epoch": old, "found": new}


def test_nobody_leads_a_shard_that_was_never_taken(store: Store) -> None:
    with store.read() as tx:
        assert lease.holder(tx, 7) is None
    with pytest.raises(StaleLease), store.write() as tx:
        lease.check_epoch(tx, 7, 1)


def test_a_taker_waits_for_the_write_it_would_overtake(
    store_url: str, clock: FakeClock
) -> None:
    with open_store(store_url) as ann, open_store(store_url, wait_ms=50) as bob:
        epoch = take(ann, "ann", clock)
        assert epoch is not None
        clock.advance(seconds=61)
        with ann.write() as tx:
            lease.check_epoch(tx, lease.SHARD, epoch)  # late, but not yet overtaken
            with pytest.raises(StoreLocked):
                take(bob, "bob", clock)
        assert take(bob, "bob", clock) == epoch + 1


def test_of_many_contenders_one_wins_each_epoch(store: Store, clock: FakeClock) -> None:
    with ThreadPoolExecutor(6) as pool:
        won = list(pool.map(lambda n: take(store, f"holder {n}", clock), range(6)))
    assert [epoch for epoch in won if epoch is not None] == [1]


# -- pauses ----------------------------------------------------------------------------


def test_a_pause_lasts_until_it_is_ended(store: Store) -> None:
    with store.write() as tx:
        pause.pause(tx, "all", "audit", 1)
        pause.pause(tx, "run:default", "wrong file", 1)
        pause.pause(tx, "all", "audit, second day", 2)
        why = {scope: (one.reason, one.at) for scope, one in pause.paused(tx).items()}
        assert why == {
            "all": ("audit, second day", 2),
            "run:default": ("wrong file", 1),
        }
        assert pause.resume(tx, "all")
        assert not pause.resume(tx, "all")
        assert list(pause.paused(tx)) == ["run:default"]


@pytest.mark.parametrize("scope", ["", "everything", "run:", "worker:x", "all "])
def test_only_known_things_can_be_paused(store: Store, scope: str) -> None:
    with store.write() as tx, pytest.raises(Usage, match="no such thing"):
        pause.pause(tx, scope, "why", 1)
