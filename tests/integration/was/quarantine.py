"""What came from outside and fits no task, as operators go through it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dispatcher.store.ledger import parts
from dispatcher.store.transaction import Tx


class StrangeRow(NamedTuple):
    """One refused answer, without what it said."""

    id: int
    connector: str
    reason: str
    at: int
    dismissed_at: int | None
    dismissed_why: str | None


def listed(tx: Tx, limit: int, *, dismissed: bool) -> list[StrangeRow]:
    """Refused answers, the newest first: those to be looked at, or (too) all."""
    where = "" if dismissed else " WHERE dismissed_at IS NULL"
    found = tx.rows(
        "SELECT id, connector, reason, at, dismissed_at, dismissed_why"
        f" FROM quarantine{where} ORDER BY at DESC, id DESC LIMIT ?",
        [limit],
    )
    return [StrangeRow(*row) for row in found]


def payloads(tx: Tx, ids: Sequence[int]) -> dict[int, bytes]:
    """What refused answers said, opened: values may be in it."""
    found = tx.rows(
        "SELECT id, payload, key_id FROM quarantine WHERE id = ANY(?)", [list(ids)]
    )
    return {
        row[0]: bytes(row[1])
        for row in tx.vault.opened(tx, found, [(1, "quarantine.payload")], 2)
    }


def waiting(tx: Tx) -> list[int]:
    """Ids of all that nobody has dismissed yet."""
    text = "SELECT id FROM quarantine WHERE dismissed_at IS NULL ORDER BY id"
    return [int(row[0]) for row in tx.rows(text)]


def dismiss(tx: Tx, ids: Sequence[int], why: str, at: int) -> int:
    """Dismiss refused answers; return how many were still to be looked at."""
    return sum(
        tx.execute(
            "UPDATE quarantine SET dismissed_at = ?, dismissed_why = ?"
            " WHERE dismissed_at IS NULL AND id = ANY(?)",
            [at, why, part],
        )
        for part in parts(sorted(set(ids)))
    )
