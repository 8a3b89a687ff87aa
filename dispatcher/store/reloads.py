"""Records that went down with a store and are loaded again: ledger first, values after.

Their rows were written from the ledger's key lines by a replay: pseudonyms and facts, no
value. Coming back they keep their ids, so that all that was shown of them counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from sqlalchemy import BigInteger, bindparam, func, update
from sqlmodel import col

from dispatcher.model import Entry, Record, Subject
from dispatcher.store.statements import DriverStatement, in_list, select_columns
from dispatcher.store.transaction import Tx


class LostEntry(NamedTuple):
    """An entry without its value, and the facts that the ledger has of it."""

    id: int
    subject: str | None
    time: int | None
    place: str | None
    visits: int | None


@dataclass
class LostRecord:
    """A record without its values; ``entries`` by field number.

    Subjects by pseudonym.
    """

    id: int
    subject: str | None
    entries: dict[int, LostEntry] = field(default_factory=dict)


class Back(NamedTuple):
    """A record that comes back: where to, under which data key, with which cells."""

    id: int
    run_id: int
    load_id: int
    key: bytes
    columns: bytes
    subject_id: int | None
    key_id: int | None


class BackEntry(NamedTuple):
    """An entry that comes back, with all facts."""

    id: int
    subject_id: int | None
    time: int | None
    place: str | None
    visits: int | None
    media: str
    shown: bytes
    key_id: int | None


_LOST: Final = DriverStatement(
    select_columns(Record.id, Record.pseudonym, Subject.pseudonym)
    .select_from(Record)
    .outerjoin(Subject, col(Subject.id) == col(Record.subject_id))
    .where(in_list(Record.pseudonym, "pseudonyms"), col(Record.lost_at).is_not(None))
    .order_by(col(Record.id))
    .with_for_update(of=Record)
)
_LOST_ENTRIES: Final = DriverStatement(
    select_columns(
        Entry.record_id,
        Entry.field_id,
        Entry.id,
        Subject.pseudonym,
        Entry.time,
        Entry.vector,
        Entry.visits,
    )
    .select_from(Entry)
    .outerjoin(Subject, col(Subject.id) == col(Entry.subject_id))
    .where(in_list(Entry.record_id, "records"))
)
_FOUND: Final = (
    update(Record)
    .where(in_list(Record.id, "ids"))
    .values(
        loaded_at=func.coalesce(Record.loaded_at, bindparam("now", type_=BigInteger())),
        erased_at=None,
        lost_at=None,
    )
)


def lost(tx: Tx, pseudonyms: Sequence[str]) -> dict[str, LostRecord]:
    """Return those of the records that are lost, by pseudonym; locked."""
    found = {
        name: LostRecord(number, subject)
        for number, name, subject in tx.driver_rows(
            _LOST, {"pseudonyms": list(pseudonyms)}
        )
    }
    of = {record.id: record for record in found.values()}
    for record, field_id, *facts in tx.driver_rows(
        _LOST_ENTRIES, {"records": list(of)}
    ):
        of[record].entries[field_id] = LostEntry(*facts)
    return found


def bring_back(tx: Tx, records: Iterable[Back], now: int) -> None:
    """Give records their cells again; the moment of their first load stays."""
    changed = []
    for row in records:
        key, columns = (
            tx.vault.seal(tx, f"record.{name}", row.id, row.key_id, value)
            for name, value in (("key", row.key), ("columns", row.columns))
        )
        changed.append((*row[:3], key, columns, row.subject_id, row.key_id))
    columns_ = ("run_id", "load_id", "key", "columns", "subject_id", "key_id")
    tx.update_many("record", ["id"], columns_, changed)
    tx.execute(_FOUND, {"ids": [row[0] for row in changed], "now": now})


def fill(tx: Tx, entries: Iterable[BackEntry]) -> None:
    """Give entries their shown forms again."""
    tx.update_many(
        "entry",
        ["id"],
        ["subject_id", "time", "vector", "visits", "media", "shown", "key_id"],
        [
            (
                *row[:6],
                tx.vault.seal(tx, "entry.shown", row.id, row.key_id, row.shown),
                row.key_id,
            )
            for row in entries
        ],
    )
