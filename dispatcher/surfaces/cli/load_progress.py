"""How far a load is: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from dispatcher.surfaces.cli.context import CliContext

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from dispatcher.stages.intake.loading import Progress

BAR_AFTER: Final = 1.0  # seconds; what is faster needs no bar
LINE_EVERY: Final = 10.0  # seconds, where no terminal reads


class LoadProgress:
    """Shows progress on stderr, and takes the bar away at the end.

    Parameters
    ----------
    context : CliContext
    """

    def __init__(self, context: CliContext) -> None:
        self._context = context
        self._started = time.monotonic()
        self._told = self._started
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def show(self, progress: Progress) -> None:
        """Show the state of a load."""
        if self._context.quiet:
            return
        now = time.monotonic()
        if sys.stderr.isatty():
            if now - self._started >= BAR_AFTER:
                self._draw(progress)
        elif now - self._told >= LINE_EVERY:
            self._told = now
            self._context.say(_line(progress))

    def _draw(self, progress: Progress) -> None:
        if self._bar is None:
            self._bar, self._task = _new_bar(progress, color=self._context.color)
        assert self._task is not None
        self._bar.update(
            self._task,
            completed=progress.position,
            records=f"{progress.records + progress.skipped:,} records",
            rejected=f"{progress.rejected:,} rejected" if progress.rejected else "",
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


def _new_bar(progress: Progress, *, color: bool) -> tuple[Bar, TaskID]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[records]}"),
        TextColumn("{task.fields[rejected]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True, no_color=not color),
        transient=True,
    )
    task = bar.add_task("load", total=progress.size, records="", rejected="")
    bar.start()
    return bar, task


def _line(progress: Progress) -> str:
    share = f"{100 * progress.position // progress.size} %  " if progress.size else ""
    return (
        f"{share}{progress.records + progress.skipped:,} records, "
        f"{progress.rejected:,} rejected"
    )
