"""The list of what was erased, beside the store: a restored backup is erased anew.

A file of lines ``{"at": MICROSECONDS, "id": PSEUDONYM}``, 0600, only appended to. It
holds no value and no key of a person; it must outlive the store, not the person.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from dispatcher.errors import Invalid

NAME: Final = "erasures.jsonl"


def note(path: Path, name: str, at: int) -> None:
    """Append a pseudonym, durably, before anything is erased.

    Raises
    ------
    Invalid
        The file can not be written.
    """
    if name in listed(path):
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(path, flags, 0o600), "ab") as file:
            line = json.dumps({"at": at, "id": name}, separators=(",", ":"))
            file.write(f"{line}\n".encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise Invalid(
            f"{path} can not be written",
            why=f"{error.strerror}; without this list a restored backup would bring "
            "back what was erased",
            fix="mend its folder's permissions or room, then repeat: nothing was erased",
        ) from None


def listed(path: Path) -> list[str]:
    """Pseudonyms of all that was ever erased on request, in order.

    A last line that was cut short by a crash is left out: its erasure had not begun.

    Raises
    ------
    Invalid
        A line is none of ours.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    names = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            names.append(str(json.loads(line)["id"]))
        except (ValueError, KeyError, TypeError):
            raise Invalid(
                f"{path} line {number} is no line of an erasure",
                why="the list says what must stay erased when a backup is restored",
                fix="put the file back from a copy, or take the broken line out",
            ) from None
    return list(dict.fromkeys(names))
