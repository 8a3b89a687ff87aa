"""What a load says of itself, under way and at its end: numbers, never a value."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dispatcher.stages.intake.table import Facts


@dataclass(slots=True)
class Progress:
    """How far a load is.

    Attributes
    ----------
    records, entries : int
        New in the store, or back in it.
    returned : int
        Records that went down with a store, and are back.
    skipped : int
        In it already, with the same cells.
    rejected : int
    position : int
        Bytes of the file read.
    size : int or None
        Bytes of the file; None for a stream.
    """

    records: int = 0
    entries: int = 0
    skipped: int = 0
    rejected: int = 0
    returned: int = 0
    position: int = 0
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load brought.

    Attributes
    ----------
    facts : Facts
        How the file was understood.
    run : str
    load_id : int
    counts : Progress
    rejects : Path or None
        The file of rejected rows, if there are any and a path was given.
    """

    facts: Facts
    run: str
    load_id: int
    counts: Progress
    rejects: Path | None
