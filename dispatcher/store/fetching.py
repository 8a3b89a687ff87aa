"""What a receiver comes for: contents of tasks that were published to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from sqlalchemy import bindparam
from sqlmodel import col

from dispatcher.model import Account, Entry, Record, Task
from dispatcher.store.statements import in_list, in_words, select_columns
from dispatcher.store.transaction import Tx

_PUBLISHED: Final = (
    select_columns(
        Entry.id,
        Task.id,
        Entry.field_id,
        Record.run_id,
        Entry.shown,
        Entry.media,
        Entry.key_id,
    )
    .select_from(Task)
    .join(Entry, col(Entry.id) == Task.entry_id)
    .join(Record, col(Record.id) == Entry.record_id)
    .join(Account, col(Account.id) == Task.account_id)
    .where(
        in_list(Task.id, "tasks"),
        Task.connector == bindparam("connector"),
        in_words(Task.state, "booked", "published"),
        col(Record.erased_at).is_(None),
        Account.state == "active",
    )
    .order_by(col(Task.id))
)


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
    asked = {"tasks": list(ids), "connector": connector}
    found = tx.execute(_PUBLISHED, asked).all()
    for row in tx.vault.opened(tx, found, [(4, "entry.shown")], 6):
        yield FetchedRow._make(row[1:6])
