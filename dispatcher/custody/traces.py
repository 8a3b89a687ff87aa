"""Looking for what is left of erased values in files that are not ours to change."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

SHORT_KEY: Final = 4
"""Shorter keys stand everywhere and prove nothing."""

SHORT_TEXT: Final = 8
"""Shorter values, and those without a letter (dates, amounts), prove nothing."""

BLOCK: Final = 1 << 20
LARGEST: Final = 4 << 30


def needles_of(keys: Iterable[bytes], texts: Iterable[bytes]) -> list[bytes]:
    """What is looked for, once each, the longest first.

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
    directory: Path, needles: Sequence[bytes], *, but: Collection[Path] = ()
) -> list[str]:
    """Files under a directory that hold one of some texts.

    Parameters
    ----------
    directory : Path
    needles : sequence of bytes
    but : collection of Path
        Files that are not looked into.
    """
    if not needles:
        return []
    skipped = {path.resolve() for path in but}
    return sorted(
        str(path)
        for path in _files(directory)
        if path.resolve() not in skipped and _holds(path, needles)
    )


def _files(directory: Path) -> Iterator[Path]:
    for place, _, names in os.walk(directory):
        for name in names:
            path = Path(place) / name
            if path.is_file() and not path.is_symlink():
                yield path


def _holds(path: Path, needles: Sequence[bytes]) -> bool:
    overlap = max(len(needle) for needle in needles) - 1
    tail = b""
    try:
        if path.stat().st_size > LARGEST:
            return False
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                text = tail + block
                if any(needle in text for needle in needles):
                    return True
                tail = text[-overlap:]
    except OSError:
        return False  # closed to us: it is named by whoever may look
    return False
