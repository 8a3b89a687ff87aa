"""The list of erasures, which are repeated in a restored backup.

It is kept twice, beside the settings and with the shipped ledger: either copy suffices.
A file of lines, 0600, only appended to: ``{"at": MICROSECONDS, "id": PSEUDONYM}`` with
``"spelled"`` (names that other spellings of the keys have) for a person or record, and
``{"at": MICROSECONDS, "before": MICROSECONDS}`` for all that was loaded before a time.
It contains no value and no key of a person; it must outlive the store, not the person.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dispatcher.core.errors import Invalid
from dispatcher.core.private_files import append_lines

NAME: Final = "erasures.jsonl"


@dataclass(frozen=True)
class ErasureList:
    """All erasures on request, and the latest one by age.

    Attributes
    ----------
    names : tuple of str
        Pseudonyms, in order.
    spelled : frozenset of str
        See :func:`dispatcher.core.keys.spelled`.
    before : int
        All records loaded before this time were erased; 0: none.
    there : bool
        Whether there is a list at all; without one, erasures are unknown.
    """

    names: tuple[str, ...] = ()
    spelled: frozenset[str] = frozenset()
    before: int = 0
    there: bool = False


def places(*folders: Path | None) -> list[Path]:
    """Return the paths of the lists in some folders, each once."""
    return list(dict.fromkeys(one / NAME for one in folders if one is not None))


def note(path: Path, name: str, at: int, spelled: Collection[str] = ()) -> None:
    """Append a pseudonym, durably, before anything is erased.

    Raises
    ------
    Invalid
        The file cannot be written.
    """
    known = read(path)
    if name in known.names and known.spelled.issuperset(spelled):
        return
    line: dict[str, Any] = {"at": at, "id": name}
    _append(path, line | ({"spelled": sorted(spelled)} if spelled else {}))


def note_purge(path: Path, before: int, at: int) -> None:
    """Append a time, durably, before all that was loaded earlier is erased.

    Raises
    ------
    Invalid
        The file cannot be written.
    """
    if read(path).before < before:
        _append(path, {"at": at, "before": before})


def share(paths: Sequence[Path]) -> ErasureList:
    """Merge the lists into each other; return their content.

    Raises
    ------
    Invalid
        A line is none of ours, or a file cannot be written.
    """
    found = {path: _lines(path) for path in paths}
    listed = _parsed(found)
    every = dict.fromkeys(line for own in found.values() for line in own or ())
    for path, own in found.items():
        if missing := every.keys() - (own or ()):
            _write(path, b"".join(b"%b\n" % line for line in every if line in missing))
    return listed


def _append(path: Path, line: dict[str, Any]) -> None:
    text = json.dumps(line, separators=(",", ":"), sort_keys=True)
    _write(path, f"{text}\n".encode())


def _write(path: Path, text: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
        append_lines(path, text)
    except OSError as error:
        raise Invalid(
            f"{path} cannot be written",
            why=f"{error.strerror}; without this list a restored backup would bring "
            "back what was erased",
            fix="fix its folder's permissions, or free some space, then repeat: nothing was erased",
        ) from None


def read(*paths: Path) -> ErasureList:
    """Read the union of some lists; there may be none.

    A last line that a crash truncated is ignored: its erasure had not begun.

    Raises
    ------
    Invalid
        A line is none of ours, or a list cannot be read.
    """
    return _parsed({path: _lines(path) for path in paths})


def _parsed(found: Mapping[Path, list[bytes] | None]) -> ErasureList:
    names: dict[str, None] = {}
    spelled: set[str] = set()
    before = 0
    for path, lines in found.items():
        for number, text in enumerate(lines or (), start=1):
            try:
                line = json.loads(text)
                if "before" in line:
                    before = max(before, int(line["before"]))
                else:
                    names[str(line["id"])] = None
                    spelled.update(map(str, line.get("spelled", ())))
            except (ValueError, KeyError, TypeError, AttributeError):
                raise _broken(path, number) from None
    there = any(lines is not None for lines in found.values())
    return ErasureList(tuple(names), frozenset(spelled), before, there)


def _lines(path: Path) -> list[bytes] | None:
    """Return the complete lines of a list; None if it does not exist.

    Raises
    ------
    Invalid
        It exists, or may exist, and cannot be read.
    """
    try:
        return path.read_bytes().split(b"\n")[:-1]
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Invalid(
            f"{path} cannot be read",
            why=f"{error.strerror or error}; it says what must stay erased when a backup "
            "is restored",
            fix="let the user that runs this read it (it is 0600), or repair its disk, "
            "then repeat",
        ) from None


def _broken(path: Path, number: int) -> Invalid:
    return Invalid(
        f"{path} line {number} is no line of an erasure",
        why="the list says what must stay erased when a backup is restored",
        fix="put the file back from a copy, or take the broken line out",
    )
