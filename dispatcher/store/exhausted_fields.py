"""Exhausted fields: those that were shown as often as t allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, func, literal_column, or_
from sqlalchemy.types import String
from sqlmodel import col, select

from dispatcher.model import (
    LIVE_TASK_STATES,
    Entry,
    LedgerLine,
    Record,
    Result,
    Run,
    Task,
    TaskAnswer,
)
from dispatcher.store.ledger import parts, unburned
from dispatcher.store.settings import set_setting, setting
from dispatcher.store.statements import fixed, in_list, in_words, select_columns
from dispatcher.store.transaction import Tx

_UNBURNT: Final = "unburnt"


@dataclass(frozen=True, slots=True)
class EntryOutcome:
    """One entry: how often it was shown, and the outcome."""

    entry_id: int
    record_id: int
    field_id: int
    run: str
    state: str
    wanted: int
    showings: int
    extra: int
    answers: int
    live: int


_SHOWING: Final = col(LedgerLine.showing) == literal_column("1")
_OFTEN: Final = (
    select_columns(LedgerLine.entry_id)
    .where(_SHOWING)
    .group_by(col(LedgerLine.entry_id))
    .having(func.count() >= bindparam("least"))
    .subquery()
)
_RESULT_STATE: Final = func.coalesce(Result.state, "open")
_OFTEN_SHOWN: Final = (
    select_columns(_OFTEN.c.entry_id)
    .outerjoin(Result, col(Result.entry_id) == _OFTEN.c.entry_id)
    .where(_RESULT_STATE != "answered")
    .order_by(_OFTEN.c.entry_id)
)
_WANTED: Final = bindparam("state", type_=String())
_IN_STATE: Final = (
    select(Entry.id)
    .join(Record, col(Record.id) == Entry.record_id)
    .outerjoin(Result, col(Result.entry_id) == Entry.id)
    .where(
        col(Record.erased_at).is_(None),
        or_(_WANTED.is_(None), _RESULT_STATE == _WANTED),
        col(Entry.id) > bindparam("after"),
    )
    .order_by(col(Entry.id))
    .limit(bindparam("most"))
)
_IN_CONFLICT: Final = (
    select(Result.entry_id)
    .join(Entry, col(Entry.id) == Result.entry_id)
    .join(Record, col(Record.id) == Entry.record_id)
    .where(
        Result.state == fixed("conflict"),
        col(Record.erased_at).is_(None),
        col(Result.entry_id) > bindparam("after"),
    )
    .order_by(col(Result.entry_id))
    .limit(bindparam("most"))
)
_UNBURN_LINES: Final = select_columns(LedgerLine.entry_id, LedgerLine.body).where(
    LedgerLine.kind == "unburn", in_list(LedgerLine.entry_id, "entries")
)
_COUNT: Final = func.count()
_FIELDS: Final = (
    select_columns(
        col(Entry.id).label("entry_id"),
        Entry.record_id,
        Entry.field_id,
        col(Run.name).label("run"),
        _RESULT_STATE.label("state"),
        func.coalesce(Result.wanted, 0).label("wanted"),
        select(_COUNT)
        .select_from(LedgerLine)
        .where(LedgerLine.entry_id == Entry.id, _SHOWING)
        .correlate(Entry)
        .scalar_subquery()
        .label("showings"),
        select(_COUNT)
        .select_from(TaskAnswer)
        .where(TaskAnswer.entry_id == Entry.id, TaskAnswer.valid == 1)
        .correlate(Entry)
        .scalar_subquery()
        .label("answers"),
        select(_COUNT)
        .select_from(Task)
        .where(Task.entry_id == Entry.id, in_words(Task.state, *LIVE_TASK_STATES))
        .correlate(Entry)
        .scalar_subquery()
        .label("live"),
    )
    .select_from(Entry)
    .join(Record, col(Record.id) == Entry.record_id)
    .join(Run, col(Run.id) == Record.run_id)
    .outerjoin(Result, col(Result.entry_id) == Entry.id)
    .where(
        col(Record.erased_at).is_(None),
        Run.state == "active",
        in_list(Entry.id, "entries"),
    )
    .order_by(col(Entry.id))
)


def often_shown(tx: Tx, least: int) -> list[int]:
    """Entries without a settled answer that had so many showings (grows with them)."""
    return tx.scalars(_OFTEN_SHOWN, {"least": least})


def in_state(tx: Tx, state: str | None, limit: int, after: int = 0) -> list[int]:
    """Entries above an id in a state of their answers (None: any), by id.

    Those in conflict are found by an index; the others are looked for from the id on.
    """
    if state == "conflict":
        return tx.scalars(_IN_CONFLICT, {"most": limit, "after": after})
    return tx.scalars(_IN_STATE, {"state": state, "most": limit, "after": after})


def fields(tx: Tx, entry_ids: Sequence[int]) -> list[EntryOutcome]:
    """What became of entries, in order of id; those of erased records are left out."""
    found: list[EntryOutcome] = []
    for part in parts(sorted(set(entry_ids))):
        extra: dict[int, int] = {}
        for entry_id, body in tx.execute(_UNBURN_LINES, {"entries": part}):
            extra[entry_id] = extra.get(entry_id, 0) + unburned(body)
        for row in tx.execute(_FIELDS, {"entries": part}):
            again = extra.get(row.entry_id, 0)
            found.append(EntryOutcome(**row._asdict(), extra=again))
    return found


def granted(tx: Tx) -> int:
    """How many times extra showings were granted: there may be something to plan."""
    return int(setting(tx, _UNBURNT) or 0)


def note_granted(tx: Tx) -> None:
    """Count one more grant; chain ``system`` is locked."""
    set_setting(tx, _UNBURNT, str(granted(tx) + 1).encode())
