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
_LOADED: Final = (
    select_columns(
        Record.id,
        Record.key,
        Record.key_id,
        Record.erased_at,
        Record.pseudonym,
        col(Run.name).label("run"),
    )
    .join(Run, col(Run.id) == Record.run_id)
    .where(or_(_RUN.is_(None), col(Run.name) == _RUN))
)
_PAGE: Final = (
    _LOADED.where(col(Record.id) > bindparam("after"))
    .order_by(col(Record.id))
    .limit(bindparam("page"))
    .subquery("page")
)
_PAGE_END: Final = select(func.max(_PAGE.c.id))
_THESE: Final = _LOADED.where(in_list(Record.id, "records")).subquery("page")


def _stated(page: Any) -> Any:  # noqa: ANN401 - a subquery of records
    """Records of a page in a state, with how many of their fields are settled."""
    counted = (
        select_columns(
            *page.c,
            func.count(col(Entry.id)).label("fields"),
            sum_where(col(Result.state) == "answered").label("answered"),
            sum_where(col(Result.state) == "conflict").label("conflict"),
        )
        .select_from(page)
        .outerjoin(
            Entry,
            (col(Entry.record_id) == page.c.id) & in_list(Entry.field_id, "asked"),
        )
        .outerjoin(Result, col(Result.entry_id) == Entry.id)
        .group_by(*page.c)
        .subquery()
        .c
    )
    state = case(
        (counted.erased_at.is_not(None), "erased"),
        (counted.conflict > 0, "conflict"),
        (counted.answered < counted.fields, "open"),
        else_="answered",
    )
    return (
        select_columns(
            counted.id,
            counted.key,
            counted.run,
            state.label("state"),
            counted.fields,
            counted.answered,
            counted.conflict,
            counted.key_id,
            counted.pseudonym,
        )
        .where(or_(_STATE.is_(None), state == _STATE))
        .order_by(counted.id)
        .limit(bindparam("most"))
    )


_RECORDS: Final = _stated(_PAGE)
_THESE_RECORDS: Final = _stated(_THESE)
_AT_ONCE: Final = 4_000
"""Records that are looked at together, at most, to find some in one state."""


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
    after: int = 0,
) -> list[StatedRecord]:
    """Records above an id in the order of loading, of a run (None: any) and in a state.

    ``asked`` has the numbers of the fields that count. Those of a run or state are looked
    for from the id on (grows with the others between them).
    """
    given = {"asked": asked, "run": run, "wanted": state, "most": limit}
    found: list[StatedRecord] = []
    page = limit
    while len(found) < limit:
        part = given | {"after": after, "page": page}
        found += _opened(tx, tx.execute(_RECORDS, part).all())
        last = tx.scalar(_PAGE_END, part)
        if last is None:
            break
        after, page = last, min(2 * page, _AT_ONCE)
    return found[:limit]


def records_of(
    tx: Tx,
    asked: Sequence[int],
    run: str | None,
    state: str | None,
    record_ids: Sequence[int],
) -> list[StatedRecord]:
    """Return those of some records that are of a run (None: any) and in a state."""
    given = {"asked": asked, "run": run, "wanted": state, "most": len(record_ids)}
    found = tx.execute(_THESE_RECORDS, given | {"records": record_ids}).all()
    return _opened(tx, found)


def _opened(tx: Tx, rows: Sequence[Row[*tuple[Any, ...]]]) -> list[StatedRecord]:
    return [
        (
            _text(row.key) or row.pseudonym,
            row.run,
            row.state,
            *map(int, (row.fields, row.answered, row.conflict)),
            row.pseudonym,
        )
        for row in tx.vault.opened(tx, rows, "record.key")
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
        row.id: row.pseudonym
        if row.erased_at
        else row.key.decode("utf-8", errors="replace")
        for row in tx.vault.opened(tx, found, "record.key")
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
