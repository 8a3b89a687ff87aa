"""Progress on a terminal: what is done and for how long, or how much with rate and time left.

:class:`Busy` is there for every command, and shows itself once a command takes over a
second; what the work below reports (:mod:`dispatcher.core.progress`) it shows too. Loads,
which take longest, count by :class:`Counted`. Both are on stderr and leave nothing behind;
without a terminal the first is silent, and the second writes a line now and then.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, Self

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID

AFTER: Final = 1.0  # seconds; what is faster needs no sign
LINE_EVERY: Final = 10.0  # seconds, where no terminal reads
SILENT: Final = frozenset({"up", "demo", "console", "connectors"})
"""Commands that say themselves what they do, or may ask for a secret."""


class _Timer(Protocol):
    def start(self) -> None: ...
    def cancel(self) -> None: ...


def _timer(seconds: float, act: Callable[[], None]) -> _Timer:
    made = threading.Timer(seconds, act)
    made.daemon = True
    return made


class Busy:
    """Says on a terminal which command runs, and for how long, once it takes a second.

    Parameters
    ----------
    doing : str
        The command.
    color : bool
    timer : callable
        (seconds, function) -> a timer that calls it after so many seconds.
    clock : callable
        () -> seconds.
    """

    def __init__(
        self,
        doing: str,
        *,
        color: bool,
        timer: Callable[[float, Callable[[], None]], _Timer] = _timer,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._doing = doing
        self._color = color
        self._make_timer = timer
        self._lock = threading.Lock()
        self._timer: _Timer | None = None
        self._clock = clock
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._over = False
        self._what = self._state = ""
        self._since = 0.0, 0.0

    def go_on(self) -> None:
        """Show it in a second, unless it is hidden before."""
        with self._lock:
            if self._over or self._timer is not None:
                return
            self._timer = self._make_timer(AFTER, self._draw)
        self._timer.start()

    def hide(self) -> None:
        """Take it away, as something else is to be written."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def end(self) -> None:
        """Take it away for good."""
        self._over = True
        self.hide()

    def heed(self, done: float, total: float | None, what: str) -> None:
        """Say besides how much is done, how fast, and how long the rest takes.

        A listener of :mod:`dispatcher.core.progress`.
        """
        now = self._clock()
        with self._lock:
            if what != self._what:
                self._what, self._since = what, (done, now)
            self._state = _state(done, total, what, *self._since, now)
            if self._bar is not None and self._task is not None:
                self._bar.update(self._task, state=self._state)

    def _draw(self) -> None:
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

        bar = _bar(
            self._color,
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[state]}"),
        )
        with self._lock:
            if self._over or self._timer is None:
                return
            self._bar = bar
            self._task = bar.add_task(
                f"dispatcher {self._doing}", total=None, state=self._state
            )
            bar.start()


class Counted:
    """Shows how much is done, with rate and time left; takes the bar away at the end.

    Parameters
    ----------
    busy : Busy or None
        Gives way to it.
    quiet : bool
    color : bool
    say : callable
        Writes a line where no terminal reads.
    """

    def __init__(
        self, busy: Busy | None, *, quiet: bool, color: bool, say: Callable[[str], None]
    ) -> None:
        self._busy = busy
        self._quiet = quiet
        self._color = color
        self._say = say
        self._started = self._told = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self._busy is not None:
            self._busy.go_on()

    def show(self, done: float, total: float | None, what: str) -> None:
        """Show the state: ``done`` of ``total`` in any unit, and in words what it is."""
        if self._quiet:
            return
        now = time.monotonic()
        if sys.stderr.isatty():
            if now - self._started >= AFTER:
                self._draw(done, total, what)
        elif now - self._told >= LINE_EVERY:
            self._told = now
            share = f"{100 * done / total:.0f} %  " if total else ""
            self._say(share + what)

    def _draw(self, done: float, total: float | None, what: str) -> None:
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

        if self._bar is None:
            if self._busy is not None:
                self._busy.hide()
            self._bar = _bar(
                self._color,
                BarColumn(),
                TextColumn("{task.percentage:>3.0f} %"),
                TextColumn("{task.fields[what]}"),
                TimeRemainingColumn(),
            )
            self._task = self._bar.add_task("", total=total, what=what)
            self._bar.start()
        assert self._task is not None
        self._bar.update(self._task, completed=done, total=total, what=what)


def rate_words(rate: float) -> str:
    """Say how many are done in a second, or how long one takes."""
    return f"{rate:,.0f} a second" if rate >= 1 else f"{1 / rate:,.0f} s each"


def _state(
    done: float, total: float | None, what: str, first: float, since: float, now: float
) -> str:
    """Return how much is done, how fast since ``first`` at ``since``, and what is left."""
    of = f" of {total:,.0f}" if total else ""
    rate = (done - first) / (now - since) if now > since else 0.0
    words = [f"{done:,.0f}{of} {what}"]
    if rate > 0:
        words.append(rate_words(rate))
        if total:
            minutes, seconds = divmod(round(max(0.0, total - done) / rate), 60)
            words.append(f"{minutes}:{seconds:02} left")
    return ", ".join(words)


def _bar(color: bool, *columns: ProgressColumn) -> Progress:
    from rich.console import Console
    from rich.progress import Progress

    return Progress(
        *columns,
        console=Console(stderr=True, no_color=not color),
        transient=True,
        redirect_stdout=False,  # bytes are written there too
        redirect_stderr=False,
    )
