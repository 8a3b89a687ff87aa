"""The formula guard taken away again, where it is ours.

``records reassemble`` puts ``'`` before cells of CSV that a spreadsheet would run as a
formula (:mod:`connectors.formats.formula_guard`). A file of its shape is loaded without that sign, so
that what went out comes back exactly. In any other file a ``'`` is part of the cell:
whoever wrote it there meant it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from connectors.formats.formula_guard import unguard
from dispatcher.stages.intake.table import Batch

NOTE: Final = "written by records reassemble: the formula guard is taken away"
_CONFIDENCE: Final = "_confidence"


def is_reassembled(columns: Sequence[str]) -> bool:
    """Whether the columns end as ``records reassemble`` ends them.

    The last three are FIELD or FIELD_answer, FIELD_confidence, FIELD_state, each with
    underscores behind it where a loaded column had that name.
    """
    if len(columns) < 3:
        return False
    value, confidence, state = (unguard(name).rstrip("_") for name in columns[-3:])
    field = confidence.removesuffix(_CONFIDENCE)
    return (
        field != confidence
        and state == f"{field}_state"
        and value in (field.rstrip("_"), f"{field}_answer")
    )


def unguarded(
    columns: Sequence[str], batches: Iterator[Batch]
) -> tuple[tuple[str, ...], Iterator[Batch]]:
    """Return header and rows without the guard."""
    names = tuple(unguard(name) for name in columns)

    def without() -> Iterator[Batch]:
        for batch in batches:
            batch.columns = names
            batch.rows = [
                # A guarded cell begins with ', so most rows are left as they are.
                [unguard(cell) for cell in row] if any(map(_quoted, row)) else row
                for row in batch.rows
            ]
            yield batch

    return names, without()


def _quoted(cell: str) -> bool:
    return cell.startswith("'")
