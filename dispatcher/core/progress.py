"""How far long work is, for whoever asked; unasked, nothing is counted.

An operation is called by commands, the API and the daemon, and its loops lie many calls
below. So they report to the context they run in: a surface listens around the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeVar

Listener = Callable[[float, float | None, str], None]
"""(done, total or None, of what): called often, so it is quick."""
Row = TypeVar("Row")
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
REPORTED: Final = 256  # rows between two reports


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Let a listener hear of the work that is done within."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def is_heard() -> bool:
    """Whether anybody listens: whether a total is worth a query."""
    return _listener.get() is not None


def report(done: float, total: float | None, what: str) -> None:
    """Say how much is done, of how much if that is known, and of what (``lines``)."""
    listener = _listener.get()
    if listener is not None:
        listener(done, total, what)


def counted(
    rows: Iterable[Row], what: str, total: Callable[[], float | None]
) -> Iterable[Row]:
    """Return the rows, reported while they are taken.

    Parameters
    ----------
    rows : iterable
    what : str
        What they are, in the plural.
    total : callable
        Their number if it is known; called only if somebody listens.
    """
    return _reported(rows, what, total()) if is_heard() else rows


def _reported(rows: Iterable[Row], what: str, total: float | None) -> Iterator[Row]:
    done = 0
    for done, row in enumerate(rows, start=1):
        yield row
        if done % REPORTED == 0:
            report(done, total, what)
    report(done, total, what)
