"""Records, entries and fields as operators name and list them: keys, states, never a value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from sqlalchemy import Row, Text, bindparam, case, func, or_
from sqlmodel import col, select

from dispatcher.core.errors import MOST_COMPARED
from dispatcher.model import (
    LIVE_TASK_STATES,
    Entry,
    FieldName,
    Held,
    Record,
    Result,
    Run,
    Task,
    TaskAnswer,
)
from dispatcher.store.statements import in_list, in_words, select_columns, sum_where
from dispatcher.store.transaction import Tx

_RUN: Final = bindparam("run", type_=Text())
_STATE: Final = bindparam("wanted", type_=Text())
_AFTER: Final = (
    select(Record.id).where(Record.pseudonym == bindparam("after")).scalar_subquery()
)
_COUNTED: Final = (
    select_columns(
        Record.id,
        Record.key,
        Record.key_id,
        Record.erased_at,
        Record.pseudonym,
        col(Run.name).label("run"),
        func.count(col(Entry.id)).label("fields"),
        sum_where(col(Result.state) == "answered").label("answered"),
        sum_where(col(Result.state) == "conflict").label("conflict"),
    )
    .join(Run, col(Run.id) == Record.run_id)
    .outerjoin(
        Entry, (col(Entry.record_id) == Record.id) & in_list(Entry.field_id, "asked")
    )
    .outerjoin(Result, col(Result.entry_id) == Entry.id)
    .where(or_(_RUN.is_(None), col(Run.name) == _RUN))
    .group_by(
        col(Record.id),
        col(Record.key),
        col(Record.key_id),
        col(Record.erased_at),
        col(Record.pseudonym),
        col(Run.name),
    )
    .subquery()
    .c
)
_IN_STATE: Final = case(
    (_COUNTED.erased_at.is_not(None), "erased"),
    (_COUNTED.conflict > 0, "conflict"),
    (_COUNTED.answered < _COUNTED.fields, "open"),
    else_="answered",
)
_RECORDS: Final = (
    select_columns(
        _COUNTED.id,
        _COUNTED.key,
        _COUNTED.run,
        _IN_STATE,
        _COUNTED.fields,
        _COUNTED.answered,
        _COUNTED.conflict,
        _COUNTED.key_id,
        _COUNTED.pseudonym,
    )
    .where(
        or_(_STATE.is_(None), _IN_STATE == _STATE),
        _COUNTED.id > func.coalesce(_AFTER, 0),
    )
    .order_by(_COUNTED.id)
    .limit(bindparam("most"))
)


def _count(model: Any, *conditions: Any) -> Any:  # noqa: ANN401
    asked = select(func.count()).select_from(model)
    return asked.where(*conditions).correlate(Entry).scalar_subquery()


_TASK_OF: Final = col(Task.entry_id) == Entry.id
_FIELDS: Final = (
    select_columns(
        col(FieldName.name).label("field"),
        case(
            (in_list(Entry.field_id, "asked"), func.coalesce(Result.state, "open")),
            else_="not asked",
        ).label("state"),
        _count(Task, _TASK_OF).label("tasks"),
        _count(Task, _TASK_OF, in_words(Task.state, *LIVE_TASK_STATES)).label("live"),
        _count(
            TaskAnswer, col(TaskAnswer.entry_id) == Entry.id, col(TaskAnswer.valid) == 1
        ).label("answers"),
        func.coalesce(
            select(func.max(Held.reason))
            .where(col(Held.entry_id) == Entry.id)
            .correlate(Entry)
            .scalar_subquery(),
            "",
        ).label("held_back"),
        func.coalesce(
            select(func.max(TaskAnswer.reason))
            .where(col(TaskAnswer.entry_id) == Entry.id)
            .correlate(Entry)
            .scalar_subquery(),
            "",
        ).label("not_valid"),
        case(
            (col(Result.judged_by).is_not(None), "operator"),
            (col(Result.state).in_(("answered", "conflict")), "consensus"),
            else_="",
        ).label("decided_by"),
    )
    .select_from(Entry)
    .join(Record, col(Record.id) == Entry.record_id)
    .join(FieldName, col(FieldName.id) == Entry.field_id)
    .outerjoin(Result, col(Result.entry_id) == Entry.id)
    .where(Record.pseudonym == bindparam("record"))
    .order_by(col(Entry.field_id))
)


StatedRecord: TypeAlias = tuple[str, str, str, int, int, int, str]
"""One record: key, run, state, how many fields are asked, answered ones and conflicts,
and its pseudonym."""

FieldRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""One field of a record: field, state, tasks, live, answers, held_back, the plan's
reason, not_valid, why an answer of it does not count, and decided_by, ``consensus`` or
``operator``; each empty if there is none."""


def records(
    tx: Tx,
    asked: Sequence[int],
    run: str | None,
    state: str | None,
    limit: int,
    after: str = "",
) -> list[StatedRecord]:
    """Records in the order of loading, of a run (None: any) and in a state.

    ``asked`` has the numbers of the fields that count; ``after`` is the pseudonym of
    the record before the first one.
    """
    given = {"asked": asked, "run": run, "wanted": state, "most": limit, "after": after}
    found = tx.execute(_RECORDS, given).all()
    return [
        (_text(row[1]) or row[8], row[2], row[3], *map(int, row[4:7]), row[8])
        for row in tx.vault.opened(tx, found, [(1, "record.key")], 7)
    ]


def fields(tx: Tx, asked: Sequence[int], pseudonym: str) -> Sequence[FieldRow]:
    """Fields of the record with this pseudonym, in their order; ``asked`` by number."""
    return tx.execute(_FIELDS, {"asked": asked, "record": pseudonym}).all()


def _text(key: bytes) -> str:
    """The key as a line can show it: what is not printable is marked."""
    text = bytes(key).decode("utf-8", errors="replace")
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


# -- from what operators write (``rx-104.disease``) to ids, and back -------------------

_NAMED: Final = (
    select(Entry.id)
    .join(Record, col(Record.id) == Entry.record_id)
    .join(FieldName, col(FieldName.id) == Entry.field_id)
    .where(
        Record.pseudonym == bindparam("record"), FieldName.name == bindparam("field")
    )
)
_RECORD: Final = select(Record.id).where(Record.pseudonym == bindparam("record"))
_KEYS: Final = select_columns(
    Record.id, Record.key, Record.key_id, Record.pseudonym, Record.erased_at
).where(in_list(Record.id, "records"))
_FIRST: Final = (
    select(Record.id)
    .where(col(Record.erased_at).is_(None))
    .order_by(col(Record.id))
    .limit(MOST_COMPARED)
)
_FIELD_NAMES: Final = select(FieldName.name).order_by(col(FieldName.id))


def entry_named(tx: Tx, record_pseudonym: str, field: str) -> int | None:
    """Id of a record's entry of a field."""
    return tx.scalar(_NAMED, {"record": record_pseudonym, "field": field})


def record_named(tx: Tx, pseudonym: str) -> int | None:
    """Id of a record."""
    return tx.scalar(_RECORD, {"record": pseudonym})


def has_record(tx: Tx, record_pseudonym: str) -> bool:
    """Whether a record is in the store."""
    return record_named(tx, record_pseudonym) is not None


def record_keys(tx: Tx, record_ids: Sequence[int]) -> dict[int, str]:
    """Keys of records, as the operator loaded them; pseudonyms of erased ones."""
    found = tx.execute(_KEYS, {"records": sorted(set(record_ids))}).all()
    return {
        row[0]: row[3] if row[4] else row[1].decode("utf-8", errors="replace")
        for row in tx.vault.opened(tx, found, [(1, "record.key")], 2)
    }


def pseudonyms(tx: Tx, record_ids: Sequence[int]) -> dict[int, str]:
    """Pseudonyms of records."""
    given = {"records": sorted(set(record_ids))}
    return {row[0]: row[3] for row in tx.execute(_KEYS, given)}


def first_keys(tx: Tx) -> list[str]:
    """Keys of the records loaded first, as many as a mistyped one is compared with.

    They are sealed: no query can look for one that resembles another.
    """
    found = record_keys(tx, tx.scalars(_FIRST)).values()
    return [key for key in found if key.isprintable()]


def field_names(tx: Tx) -> list[str]:
    """Names of all fields, over all versions."""
    return tx.scalars(_FIELD_NAMES)
