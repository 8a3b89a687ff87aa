"""From what operators write (``rx-104.disease``) to ids, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import bindparam
from sqlmodel import col, select

from dispatcher.model import Entry, FieldName, Record
from dispatcher.store.statements import in_list, select_columns
from dispatcher.store.transaction import Tx

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
_FIELDS: Final = select(FieldName.name).order_by(col(FieldName.id))


def entry_named(tx: Tx, record_pseudonym: str, field: str) -> int | None:
    """Id of a record's entry of a field."""
    return tx.scalar(_NAMED, {"record": record_pseudonym, "field": field})


def has_record(tx: Tx, record_pseudonym: str) -> bool:
    """Whether a record is in the store."""
    return tx.scalar(_RECORD, {"record": record_pseudonym}) is not None


def record_keys(tx: Tx, record_ids: Sequence[int]) -> dict[int, str]:
    """Keys of records, as the operator loaded them; pseudonyms of erased ones."""
    found = tx.execute(_KEYS, {"records": sorted(set(record_ids))}).all()
    return {
        row[0]: row[3] if row[4] else row[1].decode("utf-8", errors="replace")
        for row in tx.vault.opened(tx, found, [(1, "record.key")], 2)
    }


def field_names(tx: Tx) -> list[str]:
    """Names of all fields, over all versions."""
    return tx.scalars(_FIELDS)
