"""Pilots: a run of which only so many records are shown until an operator accepts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from sqlalchemy import Row, bindparam, case, func
from sqlmodel import col, select

from dispatcher.model import Entry, FieldName, Record, Result, Run, Task, TaskAnswer
from dispatcher.store.statements import select_columns, sum_where
from dispatcher.store.transaction import Tx

PilotRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""A run with its pilot: run_id, name, wanted (records that it lets go in all; None where
there is no pilot), opened (those that it let go by now)."""


_PILOT: Final = select_columns(
    col(Run.id).label("run_id"),
    Run.name,
    col(Run.pilot).label("wanted"),
    func.coalesce(Run.piloted, 0).label("opened"),
)
_FIND: Final = _PILOT.where(Run.name == bindparam("called"))
_LOCK: Final = _FIND.with_for_update()
_UNDER_WAY: Final = _PILOT.where(col(Run.pilot).is_not(None)).order_by(col(Run.name))
_SHOWN: Final = (
    select(Task.id)
    .join(Entry, col(Entry.id) == Task.entry_id)
    .join(Record, col(Record.id) == Entry.record_id)
    .where(Record.run_id == bindparam("of_run"))
    .limit(1)
)
_WAITS: Final = col(Record.waits_since).is_not(None)
_WAITING: Final = (
    select(func.count())
    .select_from(Record)
    .where(Record.run_id == bindparam("of_run"), _WAITS)
)
_OF_RUN: Final = col(Record.run_id) == bindparam("of_run")


def lock(tx: Tx, name: str) -> PilotRow | None:
    """Return a run by name, locked until the end: no load writes records meanwhile."""
    return tx.execute(_LOCK, {"called": name}).first()


def find(tx: Tx, name: str) -> PilotRow | None:
    """Return a run by name."""
    return tx.execute(_FIND, {"called": name}).first()


def under_way(tx: Tx) -> Sequence[PilotRow]:
    """All runs with a pilot."""
    return tx.execute(_UNDER_WAY).all()


def is_shown(tx: Tx, run_id: int) -> bool:
    """Whether a task was ever made of a record of the run."""
    return tx.scalar(_SHOWN, {"of_run": run_id}) is not None


def waiting(tx: Tx, run_id: int) -> int:
    """How many records of a run wait."""
    return tx.scalar(_WAITING, {"of_run": run_id}) or 0


# -- how it went -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PilotField:
    """How a field of a run went: entries let go, settled, in conflict; its answers."""

    field: str
    entries: int
    answered: int
    conflicts: int
    answers: int
    agreement: float | None
    seconds: float | None


_FIELDS: Final = (
    select_columns(
        FieldName.name,
        func.count(),
        sum_where(col(Result.state) == "answered"),
        sum_where(col(Result.state) == "conflict"),
        func.avg(case((col(Result.state) == "answered", col(Result.confidence)))),
        FieldName.id,
    )
    .select_from(Record)
    .join(Entry, col(Entry.record_id) == Record.id)
    .join(FieldName, col(FieldName.id) == Entry.field_id)
    .outerjoin(Result, col(Result.entry_id) == Entry.id)
    .where(_OF_RUN, col(Record.waits_since).is_(None))
    .group_by(col(FieldName.id), col(FieldName.name))
    .order_by(col(FieldName.name))
)
_TIMES: Final = (
    select(
        Entry.field_id,
        func.count(),
        func.avg(col(TaskAnswer.at) - col(Task.created_at)),
    )
    .select_from(Record)
    .join(Entry, col(Entry.record_id) == Record.id)
    .join(TaskAnswer, col(TaskAnswer.entry_id) == Entry.id)
    .join(Task, col(Task.id) == TaskAnswer.task_id)
    .where(_OF_RUN, col(Record.waits_since).is_(None), TaskAnswer.valid == 1)
    .group_by(col(Entry.field_id))
)


def by_field(tx: Tx, run_id: int) -> list[PilotField]:
    """How the fields of a run's records that do not wait went.

    ``agreement`` is the mean confidence of what was settled; ``seconds`` the mean time
    from a task to its valid answer.
    """
    times = {
        field: (answers, float(mean) / 1e6)
        for field, answers, mean in tx.execute(_TIMES, {"of_run": run_id})
    }
    found = []
    rows = tx.execute(_FIELDS, {"of_run": run_id})
    for name, entries, answered, conflicts, sure, number in rows:
        answers, seconds = times.get(number, (0, None))
        agreement = None if sure is None else float(sure)
        numbers = int(entries), int(answered), int(conflicts), answers
        found.append(PilotField(name, *numbers, agreement, seconds))
    return found
