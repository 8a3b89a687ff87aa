"""Key lines as they were written, load by load, and facts for further ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from sqlalchemy import bindparam, func, insert
from sqlmodel import col, select

from dispatcher.model import (
    SYSTEM_CHAIN,
    Entry,
    KeyLine,
    LedgerLine,
    Record,
    Subject,
)
from dispatcher.store.statements import DriverStatement, in_list, select_columns
from dispatcher.store.transaction import Row, Tx


class LoadLines(NamedTuple):
    """Raw lines of one load, and how many of its keys are repeats."""

    seq: int
    keys: bytes
    relations: bytes
    facts: bytes
    repeats: int


class KnownEntry(NamedTuple):
    """All that is known of an entry: names are pseudonyms, None is nothing."""

    record: str
    field_id: int
    subject: str | None
    time: int | None
    place: str | None
    visits: int | None


_COLUMNS: Final = LoadLines._fields
_ADD: Final = insert(KeyLine).values({name: bindparam(name) for name in _COLUMNS})
_loads: Final = select_columns(*(getattr(KeyLine, name) for name in _COLUMNS))
_LOAD: Final = _loads.where(col(KeyLine.seq) == bindparam("seq"))
_LOADS: Final = _loads.order_by(col(KeyLine.seq))
_REPEATS: Final = select(func.sum(KeyLine.repeats)).where(
    KeyLine.seq <= bindparam("seq")
)
_NUMBERS: Final = (
    select(KeyLine.seq)
    .where(KeyLine.repeats == 0, func.length(KeyLine.keys) > 0)
    .order_by(col(KeyLine.seq))
)
_POLICY_LINES: Final = (
    select(LedgerLine.seq)
    .where(LedgerLine.chain_id == SYSTEM_CHAIN, LedgerLine.kind == "policy")
    .order_by(col(LedgerLine.seq))
)


def _up_to(column: Any) -> Any:  # noqa: ANN401 - a column, and a statement
    return (
        select(column).where(KeyLine.seq <= bindparam("seq")).order_by(col(KeyLine.seq))
    )


_KEYS: Final = _up_to(KeyLine.keys)
_RELATIONS: Final = _up_to(KeyLine.relations)
_FIELDS: Final = select_columns(
    Entry.field_id,
    func.count(),
    func.count(col(Entry.subject_id)),
    func.count(col(Entry.time)),
).group_by(col(Entry.field_id))
_FACTS: Final = DriverStatement(
    select_columns(
        Record.pseudonym,
        Entry.field_id,
        Subject.pseudonym,
        Entry.time,
        Entry.vector,
        Entry.visits,
    )
    .select_from(Entry)
    .join(Record, col(Record.id) == col(Entry.record_id))
    .outerjoin(Subject, col(Subject.id) == col(Entry.subject_id))
    .where(in_list(Entry.field_id, "fields"))
    .order_by(col(Entry.id))
)


def add(tx: Tx, load: LoadLines) -> None:
    """Keep the raw lines of a load under the number of its line in chain system."""
    tx.execute(_ADD, load._asdict())


def line(tx: Tx, seq: int) -> LoadLines | None:
    """Raw lines of one load."""
    row = tx.execute(_LOAD, {"seq": seq}).first()
    return None if row is None else LoadLines(*row)


def all_loads(tx: Tx) -> Iterator[LoadLines]:
    """Raw lines of every load, in order."""
    return (LoadLines(*row) for row in tx.stream(_LOADS))


def repeats_up_to(tx: Tx, seq: int) -> int:
    """Count key lines up to ``seq`` about entries that had one before."""
    return int(tx.scalar(_REPEATS, {"seq": seq}) or 0)


def loads(tx: Tx) -> list[int]:
    """Numbers of the ``keys`` lines of loads, in order; not of facts or links alone."""
    return tx.scalars(_NUMBERS)


def policy_lines(tx: Tx) -> list[int]:
    """Numbers of the ``policy`` lines in chain system: the first is of version 1."""
    return tx.scalars(_POLICY_LINES)


def up_to(tx: Tx, seq: int, *, relations: bool = False) -> Iterator[bytes]:
    """Raw lines of every load up to ``seq``, in order."""
    for row in tx.stream(_RELATIONS if relations else _KEYS, {"seq": seq}):
        yield row[0]


def loaded_fields(tx: Tx) -> list[Row]:
    """Of each loaded field: (field, entries, with a subject, with a time)."""
    return [tuple(row) for row in tx.execute(_FIELDS)]


def facts(tx: Tx, field_ids: list[int]) -> Iterator[Row]:
    """Facts of all entries of some fields: (record, field, subject, time, place, visits).

    Record, subject and place by pseudonym, in order of entry.
    """
    return tx.driver_stream(_FACTS, {"fields": field_ids})
