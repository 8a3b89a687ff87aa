"""The list of what was erased, beside the store: a restored backup is erased anew.

A file of lines, 0600, only appended to: ``{"at": MICROSECONDS, "id": PSEUDONYM}`` with
``"spelled"`` (names that other spellings of the keys have) for a person or record, and
``{"at": MICROSECONDS, "before": MICROSECONDS}`` for all that was loaded before a moment.
It holds no value and no key of a person; it must outlive the store, not the person.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from dispatcher.errors import Invalid
from dispatcher.private_files import private

NAME: Final = "erasures.jsonl"


@dataclass(frozen=True)
class Listed:
    """What was ever erased by hand.

    Attributes
    ----------
    names : tuple of str
        Pseudonyms, in order.
    spelled : frozenset of str
        See :func:`dispatcher.keys.spelled`.
    before : int
        All records loaded before this moment were erased; 0: none.
    """

    names: tuple[str, ...] = ()
    spelled: frozenset[str] = frozenset()
    before: int = 0


def note(path: Path, name: str, at: int, spelled: Collection[str] = ()) -> None:
    """Append a pseudonym, durably, before anything is erased.

    Raises
    ------
    Invalid
        The file can not be written.
    """
    known = read(path)
    if name in known.names and known.spelled.issuperset(spelled):
        return
    line: dict[str, Any] = {"at": at, "id": name}
    _append(path, line | ({"spelled": sorted(spelled)} if spelled else {}))


def note_purge(path: Path, before: int, at: int) -> None:
    """Append a moment, durably, before all that was loaded earlier is erased.

    Raises
    ------
    Invalid
        The file can not be written.
    """
    if read(path).before < before:
        _append(path, {"at": at, "before": before})


def _append(path: Path, line: dict[str, Any]) -> None:
    try:
        with os.fdopen(private(path, os.O_RDWR | os.O_CREAT), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            _drop_cut_line(file)
            text = json.dumps(line, separators=(",", ":"), sort_keys=True)
            file.write(f"{text}\n".encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise Invalid(
            f"{path} can not be written",
            why=f"{error.strerror}; without this list a restored backup would bring "
            "back what was erased",
            fix="mend its folder's permissions or room, then repeat: nothing was erased",
        ) from None


def _drop_cut_line(file: BinaryIO) -> None:
    """Go to the end of the last whole line; what a crash left behind it goes."""
    text = file.read()
    end = text.rfind(b"\n") + 1
    file.seek(end)
    file.truncate(end)


def read(path: Path) -> Listed:
    """Read the list; there may be none.

    A last line that was cut short by a crash is left out: its erasure had not begun.

    Raises
    ------
    Invalid
        A line is none of ours.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return Listed()
    names: dict[str, None] = {}
    spelled: set[str] = set()
    before = 0
    for number, text in enumerate(lines[:-1], start=1):
        try:
            line = json.loads(text)
            if "before" in line:
                before = max(before, int(line["before"]))
            else:
                names[str(line["id"])] = None
                spelled.update(map(str, line.get("spelled", ())))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Invalid(
                f"{path} line {number} is no line of an erasure",
                why="the list says what must stay erased when a backup is restored",
                fix="put the file back from a copy, or take the broken line out",
            ) from None
    return Listed(tuple(names), frozenset(spelled), before)
