"""Search for remains of erased values in files that are not ours to change.

A text is a trace of somebody only if it belongs to nobody else, and only as a whole
token: ``rx-3`` is not in ``rx-30``. It is searched for as it is, and as CSV, JSON, HTML
and two older encodings would write it; also inside gzip and zip (so Excel) files.
"""

from __future__ import annotations

import gzip
import html
import json
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from dispatcher.core.progress import counted
from dispatcher.store import Store
from dispatcher.store import erasure as rows

SHORT_KEY: Final = 4
"""Shorter keys occur everywhere and prove nothing."""

SHORT_TEXT: Final = 8
"""Shorter values, and those without a letter (dates, amounts), prove nothing."""

BLOCK: Final = 1 << 20
LARGEST: Final = 4 << 30
EVER: Final = 2**63 - 1

_BEFORE: Final = rb"(?:(?<![0-9A-Za-z_\x80-\xff])|(?<=\\[nrt]))"
_AFTER: Final = rb"(?![0-9A-Za-z_\x80-\xff])"
_CLOSED: Final = (b"PAR1", b"\xd0\xcf\x11\xe0")  # Parquet, Excel before 2007
_SETTINGS: Final = ".toml"


def needles_of(keys: Iterable[bytes], texts: Iterable[bytes]) -> list[bytes]:
    """Return the texts to search for, without duplicates, longest first.

    Parameters
    ----------
    keys : iterable of bytes
        Keys of a person and of records.
    texts : iterable of bytes
        Values.
    """
    kept = {key.strip() for key in keys if len(key.strip()) >= SHORT_KEY}
    kept |= {
        text.strip()[:256]
        for text in texts
        if len(text.strip()) >= SHORT_TEXT
        and any(letter.isalpha() for letter in text.decode("utf-8", "replace"))
    }
    return sorted(kept, key=lambda text: (-len(text), text))


def search(
    directory: Path,
    needles: Sequence[bytes],
    *,
    but: Collection[Path] = (),
    sources: Collection[str] = (),
) -> list[str]:
    """Find the files under a directory that contain one of some texts.

    Parameters
    ----------
    directory : Path
    needles : sequence of bytes
    but : collection of Path
        Files that are skipped.
    sources : collection of str
        Names of files that once contained them. A file of that name that cannot be
        searched is reported.
    """
    if not needles:
        return []
    skipped = {path.resolve() for path in but}
    every = _Pattern(needles)
    # Settings and policies name keys in comments and examples, and contain no data.
    long = _Pattern([text for text in needles if len(text) >= SHORT_TEXT])
    files = counted(
        _files(directory), "files", lambda: sum(1 for _ in _files(directory))
    )
    return sorted(
        str(path)
        for path in files
        if path.resolve() not in skipped
        and _holds(path, long if path.suffix == _SETTINGS else every, sources)
    )


class Readable(Protocol):
    """A source of bytes."""

    def read(self, size: int, /) -> bytes:
        """Read at most `size` bytes."""


class _Pattern:
    """Texts in all their encodings, searched for in one pass."""

    def __init__(self, needles: Sequence[bytes]) -> None:
        plain: dict[bytes, None] = {}
        wide: dict[bytes, None] = {}
        for needle in needles:
            text = needle.decode("utf-8", "ignore")
            ways = (text, text.replace('"', '""'), html.escape(text))
            plain |= dict.fromkeys(way.encode() for way in (*ways, _json(text)))
            if len(needle) >= SHORT_TEXT:
                with suppress(UnicodeEncodeError):
                    plain[text.encode("cp1252")] = None
                wide[text.encode("utf-16-le")] = None
        parts = [re.escape(text) for text in plain if text]
        found = [_BEFORE + b"(?:" + b"|".join(parts) + b")" + _AFTER] if parts else []
        self.some = bool(parts)
        self._pattern = re.compile(b"|".join([*found, *map(re.escape, wide)]))
        self._reach = max(map(len, (*plain, *wide)), default=0) + 4

    def holds(self, file: Readable) -> bool:
        """Whether a file contains one of the texts."""
        tail = b""
        seen = 0
        while block := file.read(BLOCK):
            seen += len(block)
            if seen > LARGEST:
                return False
            text = tail + block
            # A match at the block's end may continue in the next one: search it again.
            if any(m.end() < len(text) for m in self._pattern.finditer(text)):
                return True
            tail = text[-self._reach :]
        return self._pattern.search(tail) is not None


def _json(text: str) -> str:
    return json.dumps(text)[1:-1]


def _files(directory: Path) -> Iterator[Path]:
    for place, _, names in os.walk(directory):
        for name in names:
            path = Path(place) / name
            if path.is_file() and not path.is_symlink():
                yield path


def _holds(path: Path, pattern: _Pattern, sources: Collection[str]) -> bool:
    if not pattern.some:
        return False
    try:
        with path.open("rb") as file:
            head = file.read(4)
            if path.name in sources and head.startswith(_CLOSED):
                return True
            file.seek(0)
            if pattern.holds(file):
                return True
        return _packed(path, head, pattern)
    except OSError:
        return False  # not readable by us: whoever may read it reports it


def _packed(path: Path, head: bytes, pattern: _Pattern) -> bool:
    """Whether a compressed file contains a text; a broken one contains none."""
    try:
        if head.startswith(b"\x1f\x8b"):
            with gzip.open(path) as file:
                return pattern.holds(file)
        if head.startswith(b"PK"):
            with zipfile.ZipFile(path) as archive:
                return any(
                    _in_member(archive, one, pattern) for one in archive.namelist()
                )
    except (
        EOFError,
        lzma.LZMAError,
        zlib.error,
        zipfile.BadZipFile,
        RuntimeError,
        NotImplementedError,
    ):
        return False
    return False


def _in_member(archive: zipfile.ZipFile, name: str, pattern: _Pattern) -> bool:
    with archive.open(name) as file:
        return pattern.holds(file)


@dataclass(frozen=True)
class Sought:
    """Texts that belong to somebody and to nobody else.

    Attributes
    ----------
    needles : tuple of bytes
    sources : tuple of str
        Names of the files that the records were loaded from.
    """

    needles: tuple[bytes, ...]
    sources: tuple[str, ...]

    def left_in(self, directory: Path, *, but: Collection[Path]) -> list[str]:
        """Find the files under a directory that contain one of the texts."""
        return search(directory, self.needles, but=but, sources=self.sources)


def sought(
    store: Store, name: str, record_ids: Sequence[int], entry_ids: Sequence[int]
) -> Sought:
    """Read what to search for: keys, and those values that no other record has.

    A drug that hundreds take is no trace of one of them. All records are read for it.

    Parameters
    ----------
    store : Store
    name : str
        Pseudonym of the person or record.
    record_ids, entry_ids : Sequence of int
        What is to be erased.
    """
    with store.read() as tx:
        keys, values = [], set[bytes]()
        for row in rows.records(tx, record_ids):
            keys.append(row[1])
            values.update(cell.encode() for cell in json.loads(row[3]))
        values.update(row[3] for row in rows.said_of(tx, entry_ids))
        values.update(rows.shown_of(tx, entry_ids))
        person = rows.subject(tx, name) if name.startswith("s") else None
        if person is not None:
            keys.append(rows.person_of(tx, person.id))
        own = set(needles_of(keys, ()))
        shared = own ^ set(needles_of((), values))
        others = counted(
            rows.cells_of_others(tx, record_ids),
            "records",
            lambda: max(0, rows.count_loaded_before(tx, EVER) - len(record_ids)),
        )
        for cells in others:
            if not shared:
                break
            shared -= {text for text in shared if text in cells}
        return Sought(
            tuple(needles_of(own | shared, ())), tuple(rows.sources_of(tx, record_ids))
        )
