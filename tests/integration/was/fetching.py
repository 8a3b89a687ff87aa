"""What a receiver comes for: contents of tasks that were published to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dispatcher.store.transaction import Tx


class FetchedRow(NamedTuple):
    """One published task with the form of its entry that may be shown."""

    task_id: int
    field_id: int
    run_id: int
    shown: bytes
    media: str


def published(tx: Tx, connector: str, ids: Sequence[int]) -> Iterator[FetchedRow]:
    """Tasks of a connector that were booked and not ended, in order of id, one a time.

    ``booked``: its message is on its way, and has arrived before that was written down.
    """
    found = tx.rows(
        "SELECT e.id, t.id, e.field_id, r.run_id, e.shown, e.media, e.key_id"
        " FROM task t JOIN entry e ON e.id = t.entry_id"
        " JOIN record r ON r.id = e.record_id JOIN account a ON a.id = t.account_id"
        " WHERE t.id = ANY(?) AND t.connector = ? AND t.state IN ('booked', 'published')"
        " AND r.erased_at IS NULL AND a.state = 'active' ORDER BY t.id",
        [list(ids), connector],
    )
    for row in tx.vault.opened(tx, found, [(4, "entry.shown")], 6):
        yield FetchedRow._make(row[1:6])
