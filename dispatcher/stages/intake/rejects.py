"""The file of rejected rows: line, column, reason; for its owner's eyes only."""

from __future__ import annotations

import csv
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from connectors.formats.formula_guard import guard
from dispatcher.core.errors import Invalid
from dispatcher.core.private_files import private
from dispatcher.stages.intake.opening import SUFFIXES
from dispatcher.stages.intake.table import RejectedRow

HEADER: Final = ("line", "column", "reason")


def rejects_path(file: Path) -> Path:
    """Return where the rejects of a file go: ``scans.rejected.csv`` beside it."""
    if file.name in ("", ".."):  # a folder: this one, or the one above
        file = file.resolve()
    name = file.name
    for _ in range(2):
        stem, dot, ending = name.rpartition(".")
        if stem and dot + ending.lower() in {*SUFFIXES, ".gz", ".gzip"}:
            name = stem
    return file.with_name(f"{name}.rejected.csv")


class RejectsFile:
    """A file written as rows are rejected, so that an aborted load leaves it too.

    The file is created with the first reject, readable only by its owner, and replaces
    that of an earlier load.

    Parameters
    ----------
    path : Path or None
        None: rejects are counted only.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.count = 0
        self._file: IO[str] | None = None

    def add(self, rejected: Iterable[RejectedRow]) -> None:
        """Append rejects to the file.

        Raises
        ------
        Invalid
            The file cannot be made, or its disk is full.
        """
        rows: list[tuple[object, ...]]
        rows = [(r.line, guard(r.column), r.reason) for r in rejected]
        if not rows:
            return
        self.count += len(rows)
        if self.path is None:
            return
        if self._file is None:
            self._file = _made(self.path)
            rows = [HEADER, *rows]
        try:
            csv.writer(self._file, lineterminator="\n").writerows(rows)
            self._file.flush()
        except OSError as error:
            raise _unwritable(self.path, error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._file is not None:
            with suppress(OSError):  # all was flushed, or the error was raised
                self._file.close()


def _made(path: Path) -> IO[str]:
    try:
        number = private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        if stat.S_ISREG(os.fstat(number).st_mode):
            os.fchmod(number, 0o600)
    except OSError as error:
        raise _unwritable(path, error) from None
    return os.fdopen(number, "w", encoding="utf-8", newline="")


def _unwritable(path: Path, error: OSError) -> Invalid:
    return Invalid(
        f"the file of rejected rows {path.name} cannot be written",
        why=error.strerror or type(error).__name__,
        fix="make its folder writable, or name another file with --rejects",
    )
