"""What reconciling reads and writes: messages as they stand here, to be held to a market."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from dispatcher.store.collecting import save_cursor
from dispatcher.store.ledger import parts
from dispatcher.store.transaction import Tx

PAGE: Final = 1000

__all__ = [
    "PAGE",
    "KnownRow",
    "SentRow",
    "known",
    "save_cursor",
    "sent_offers",
    "sent_tasks",
    "withdrawn",
]


class KnownRow(NamedTuple):
    """A message by its id."""

    connector: str
    state: str


class SentRow(NamedTuple):
    """A message that the outside has, with one of its tasks that may be answered."""

    id: int
    task_id: int


def known(tx: Tx, ids: Sequence[int]) -> dict[int, KnownRow]:
    """Those of some messages that this store has."""
    return {
        int(row[0]): KnownRow(row[1], row[2])
        for part in parts(sorted(set(ids)))
        for row in tx.rows(
            "SELECT id, connector, state FROM outbox WHERE id = ANY(?)", [part]
        )
    }


def withdrawn(tx: Tx, connector: str) -> set[int]:
    """Messages of a connector that were withdrawn there."""
    found = tx.rows(
        "SELECT handle FROM outbox WHERE kind = 'withdraw' AND state = 'sent'"
        " AND connector = ?",
        [connector],
    )
    return {int(row[0]) for row in found}


def sent_tasks(tx: Tx, connector: str, before: int) -> Iterator[list[SentRow]]:
    """Tasks that were sent before a moment and are not answered, page by page."""
    last = 0
    while True:
        found = tx.rows(
            # by tasks and not by messages: each page goes on where the last one ended
            "SELECT t.outbox_id, t.id FROM task t"
            " WHERE t.id > ? AND t.connector = ? AND t.state = 'sent' AND EXISTS"
            " (SELECT 1 FROM outbox o WHERE o.id = t.outbox_id AND o.kind = 'publish'"
            " AND o.state = 'sent' AND o.due <= ?) ORDER BY t.id LIMIT ?",
            [last, connector, before, PAGE],
        )
        if not found:
            return
        last = int(found[-1][1])
        yield [SentRow(*row) for row in found]


def sent_offers(tx: Tx, connector: str, since: int, before: int) -> list[int]:
    """Offers without content that were sent between two moments."""
    found = tx.rows(
        "SELECT id FROM outbox WHERE connector = ? AND kind = 'offer'"
        " AND state = 'sent' AND created_at >= ? AND due <= ? ORDER BY id",
        [connector, since, before],
    )
    return [int(row[0]) for row in found]
