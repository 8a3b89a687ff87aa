"""A transaction that stood in another's way is repeated, at a time of its own."""

from contextlib import contextmanager

import pytest

from dispatcher.store import retry
from dispatcher.store.driver_errors import Contended
from dispatcher.store.retry import ATTEMPTS, committed


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
        patch.setattr(retry.threading, "get_native_id", lambda: thread)
        patch.setattr(retry.threading, "Event", Pause)
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
