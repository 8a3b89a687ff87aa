"""Samples: figures as they were at moments; ids of nobody, and no value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sqlalchemy import bindparam, delete, func
from sqlmodel import col, select

from dispatcher.model import Sample
from dispatcher.store.statements import select_columns
from dispatcher.store.transaction import Tx

_COLUMNS: Final = ("measure", "at", "label", "value")
_KEYS: Final = _COLUMNS[:3]
_SINCE: Final = (
    select_columns(Sample.at, Sample.label, Sample.value)
    .where(Sample.measure == bindparam("measure"), col(Sample.at) >= bindparam("since"))
    .order_by(col(Sample.at), col(Sample.label))
)
_LAST: Final = select(func.max(Sample.at)).where(Sample.measure == bindparam("measure"))
_FIRST: Final = select(func.min(Sample.at)).where(
    Sample.measure == bindparam("measure"), col(Sample.at) >= bindparam("since")
)
_OLD: Final = delete(Sample).where(
    col(Sample.measure) == bindparam("of_measure"), col(Sample.at) < bindparam("before")
)
_ALL: Final = delete(Sample).where(col(Sample.measure) == bindparam("of_measure"))
_BETWEEN: Final = delete(Sample).where(
    col(Sample.measure) == bindparam("of_measure"),
    col(Sample.at) < bindparam("before"),
    col(Sample.at) % bindparam("every") != 0,
)


def keep(tx: Tx, rows: Iterable[tuple[str, int, str, int]]) -> None:
    """Write levels: rows (measure, at, label, value), over those of the same period."""
    tx.upsert_many("sample", _KEYS, _COLUMNS, list(rows))


def replace(tx: Tx, rows: Sequence[tuple[str, int, str, int]]) -> None:
    """Write levels of which no past is kept: they alone are there of their measures."""
    for measure in sorted({row[0] for row in rows}):
        tx.execute(_ALL, {"of_measure": measure})
    keep(tx, rows)


def add(tx: Tx, rows: Iterable[tuple[str, int, str, int]]) -> None:
    """Add to counts: rows (measure, at, label, value)."""
    tx.upsert_add("sample", _KEYS, "value", list(rows))


def thin(
    tx: Tx, measures: Sequence[str], *, before: int, every: int, oldest: int
) -> None:
    """Delete what is older than a moment; of what is older than another, keep some.

    Parameters
    ----------
    tx : Tx
    measures : sequence of str
    before : int
        Of samples before this, those at multiples of ``every`` are kept.
    every : int
    oldest : int
        Samples before this are deleted.
    """
    for measure in measures:
        tx.execute(_OLD, {"of_measure": measure, "before": oldest})
        given = {"of_measure": measure, "before": before, "every": every}
        tx.execute(_BETWEEN, given)


def since(tx: Tx, measure: str, moment: int) -> list[tuple[int, str, int]]:
    """Samples of a measure from a moment on: at, label, value, in order."""
    found = tx.execute(_SINCE, {"measure": measure, "since": moment})
    return [(int(at), str(label), int(value)) for at, label, value in found]


def first(tx: Tx, measure: str, moment: int) -> int | None:
    """Moment of the first sample of a measure from one on."""
    return tx.scalar(_FIRST, {"measure": measure, "since": moment})


def latest(tx: Tx, measure: str) -> tuple[int, dict[str, int]] | None:
    """Return the newest samples of a measure: their moment, and values by label."""
    at = tx.scalar(_LAST, {"measure": measure})
    if at is None:
        return None
    return int(at), {label: value for _, label, value in since(tx, measure, at)}
