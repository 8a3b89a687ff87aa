"""Records that went down with a store and are loaded again: ledger first, values after.

Their rows were written from the ledger's key lines by a replay: pseudonyms and facts, no
value. Coming back they keep their ids, so that all that was shown of them counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

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


def lost(tx: Tx, pseudonyms: Sequence[str]) -> dict[str, LostRecord]:
    """Return those of the records that are lost, by pseudonym; locked."""
    found = {
        name: LostRecord(number, subject)
        for number, name, subject in tx.rows(
            "SELECT r.id, r.pseudonym, s.pseudonym FROM record r"
            " LEFT JOIN subject s ON s.id = r.subject_id WHERE r.pseudonym = ANY(?)"
            " AND r.lost_at IS NOT NULL ORDER BY r.id FOR UPDATE OF r",
            [list(pseudonyms)],
        )
    }
    of = {record.id: record for record in found.values()}
    for record, field_id, *facts in tx.rows(
        "SELECT e.record_id, e.field_id, e.id, s.pseudonym, e.time, e.vector, e.visits"
        " FROM entry e LEFT JOIN subject s ON s.id = e.subject_id"
        " WHERE e.record_id = ANY(?)",
        [list(of)],
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
    tx.execute(
        "UPDATE record SET loaded_at = COALESCE(loaded_at, ?), erased_at = NULL,"
        " lost_at = NULL WHERE id = ANY(?)",
        [now, [row[0] for row in changed]],
    )


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


def leave_empty(tx: Tx, entry_ids: Sequence[int], now: int) -> None:
    """Let entries of fields that no policy has any more stay without a value."""
    tx.insert_many(
        "result",
        ["entry_id", "confidence", "answers", "wanted", "state", "at"],
        [(number, 0.0, 0, 0, "erased", now) for number in entry_ids],
    )
