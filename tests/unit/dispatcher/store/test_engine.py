"""The turn to write goes round, and a transaction that met another is repeated."""

import threading
from contextlib import contextmanager

import pytest

from dispatcher.store import engine
from dispatcher.store.driver_errors import Contended
from dispatcher.store.engine import ATTEMPTS, FairLock, committed
from tests.patience import PATIENCE, until


def test_it_is_given_in_the_order_of_asking() -> None:
    turn, order = FairLock(), []
    assert turn.acquire(1)
    threads = []

    def take(name: int) -> None:
        assert turn.acquire(PATIENCE)
        order.append(name)
        turn.release()

    for name in range(5):
        threads.append(threading.Thread(target=take, args=(name,)))
        threads[-1].start()
        until(lambda n=name: len(turn._waiting) > n, "it waits", pause=0.001)
    turn.release()
    for thread in threads:
        thread.join(PATIENCE)
    assert order == [0, 1, 2, 3, 4]


def test_whoever_gives_it_back_does_not_get_it_before_one_who_waits() -> None:
    turn, said = FairLock(), []
    assert turn.acquire(1)
    other = threading.Thread(target=lambda: said.append(turn.acquire(PATIENCE)))
    other.start()
    until(lambda: turn._waiting, "the other waits", pause=0.001)
    turn.release()
    assert not turn.acquire(0)
    other.join(PATIENCE)
    assert said == [True]


def test_who_waits_in_vain_is_no_longer_in_the_row() -> None:
    turn = FairLock()
    assert turn.acquire(1)
    assert not turn.acquire(0.01)
    turn.release()
    assert turn.acquire(0)


# -- a whole transaction is repeated ---------------------------------------------------


class Meeting:
    """A store in which somebody else is always in the way."""

    @contextmanager
    def write(self):
        raise Contended("another transaction was in the way")
        yield


def pauses(monkeypatch, thread: int) -> list[float]:
    """What a thread of this number waits between its attempts."""
    found: list[float] = []

    class Pause:
        def wait(self, seconds: float) -> None:
            found.append(seconds)

    with monkeypatch.context() as patch:
        patch.setattr(engine.threading, "get_native_id", lambda: thread)
        patch.setattr(engine.threading, "Event", Pause)
        with pytest.raises(Contended):
            committed(Meeting(), lambda tx: None)
    return found


def test_each_pause_is_longer_and_there_are_only_so_many(monkeypatch):
    found = pauses(monkeypatch, 7)
    assert len(found) == ATTEMPTS - 1
    assert found == sorted(set(found))


def test_two_threads_that_met_wait_for_different_times(monkeypatch):
    """Addresses of threads are megabytes apart: their middle bits are all the same."""
    first, second = pauses(monkeypatch, 1000), pauses(monkeypatch, 1001)
    assert all(one != other for one, other in zip(first, second, strict=True))
