"""From what operators write (``rx-104.disease``) to ids, and back."""

from __future__ import annotations

from collections.abc import Sequence

from dispatcher.store.transaction import Tx


def entry_named(tx: Tx, record_pseudonym: str, field: str) -> int | None:
    """Id of a record's entry of a field."""
    found = tx.value(
        "SELECT e.id FROM entry e JOIN record r ON r.id = e.record_id"
        " JOIN field f ON f.id = e.field_id WHERE r.pseudonym = ? AND f.name = ?",
        [record_pseudonym, field],
    )
    return None if found is None else int(found)


def has_record(tx: Tx, record_pseudonym: str) -> bool:
    """Whether a record is in the store."""
    text = "SELECT 1 FROM record WHERE pseudonym = ?"
    return tx.value(text, [record_pseudonym]) is not None


def record_keys(tx: Tx, record_ids: Sequence[int]) -> dict[int, str]:
    """Keys of records, as the operator loaded them; pseudonyms of erased ones."""
    found = tx.rows(
        "SELECT id, key, key_id, pseudonym, erased_at FROM record WHERE id = ANY(?)",
        [sorted(set(record_ids))],
    )
    return {
        row[0]: row[3] if row[4] else row[1].decode("utf-8", errors="replace")
        for row in tx.vault.opened(tx, found, [(1, "record.key")], 2)
    }


def field_names(tx: Tx) -> list[str]:
    """Names of all fields, over all versions."""
    return [row[0] for row in tx.rows("SELECT name FROM field ORDER BY id")]
