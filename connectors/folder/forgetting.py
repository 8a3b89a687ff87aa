"""Remove single tasks from the files of a spool: their rows and what they show."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from connectors.folder.files import replace_file

_TOKEN: Final = re.compile(r"[0-9a-f]{32}")
_LARGEST: Final = 256 << 20


def forget_tasks(root: Path, tokens: Collection[str], *, kept: str) -> tuple[str, ...]:
    """Remove tasks from every file under a directory; other rows keep their place.

    Parameters
    ----------
    root : Path
    tokens : collection of str
        Names of the tasks.
    kept : str
        A directory of the root with names of batches only.

    Returns
    -------
    tuple of str
        Files that contain such a task and could not be changed.
    """
    wanted = frozenset(tokens)
    left = []
    for path in _files(root, kept):
        try:
            _forget(path, wanted)
        except FileNotFoundError:
            continue  # it was moved meanwhile: the second round finds it
        except OSError:
            left.append(str(path))
    return tuple(left)


def _files(root: Path, kept: str) -> Iterator[Path]:
    for directory, folders, names in os.walk(root):
        if Path(directory) == root:
            folders[:] = [name for name in folders if name != kept]
        for name in names:
            path = Path(directory) / name
            if not path.is_symlink() and path.is_file():
                yield path


def _forget(path: Path, wanted: frozenset[str]) -> None:
    if path.stem in wanted:  # content/TOKEN.png
        path.unlink()
        return
    if path.stat().st_size > _LARGEST:
        raise OSError
    content = path.read_bytes()
    text, encoding = _text(content)
    if wanted.isdisjoint(_TOKEN.findall(text)):
        return
    lines = path.name.lower().endswith(".jsonl")
    rows = text.splitlines(keepends=True) if lines else _records(text)
    kept = "".join(_without(row, wanted) for row in rows)
    changed = kept.encode(encoding, "surrogateescape")
    if path.stat().st_uid == os.geteuid():
        replace_file(path, changed)
    else:  # a worker's own file keeps the worker as its owner
        with path.open("r+b") as file:
            file.write(changed)
            file.truncate()
            os.fsync(file.fileno())


def _text(content: bytes) -> tuple[str, str]:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        with suppress(UnicodeDecodeError):
            mark = "le" if content.startswith(b"\xff\xfe") else "be"
            return content.decode(f"utf-16-{mark}"), f"utf-16-{mark}"
    return content.decode("utf-8", "surrogateescape"), "utf-8"


def _records(text: str) -> Iterator[str]:
    """Yield rows of a CSV text: line ends inside quotes do not end a row."""
    row = ""
    for line in text.splitlines(keepends=True):
        row += line
        if row.count('"') % 2 == 0:
            yield row
            row = ""
    if row:
        yield row


def _without(row: str, wanted: frozenset[str]) -> str:
    """Return the row, or empty lines instead: others keep their line numbers."""
    if wanted.isdisjoint(_TOKEN.findall(row)):
        return row
    return "\n" * row.count("\n")
