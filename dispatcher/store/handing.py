"""Tasks and messages, written with the exposures that they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dispatcher.store.packed import Block
from dispatcher.store.transaction import Tx


def add_outbox(tx: Tx, messages: Iterable[Sequence[object]]) -> None:
    """Write messages: (id, connector, account_id, kind, due, created_at)."""
    tx.insert_many(
        "outbox",
        (
            "id",
            "connector",
            "account_id",
            "kind",
            "state",
            "due",
            "attempts",
            "epoch",
            "created_at",
        ),
        (
            (number, connector, account_id, kind, "ready", due, 0, 0, at)
            for number, connector, account_id, kind, due, at in messages
        ),
    )


TASK = (
    "id",
    "entry_id",
    "account_id",
    "adversary_id",
    "connector",
    "state",
    "created_at",
)
"""Columns that every new task has, in the order of the blocks given here."""


def add_pushed(tx: Tx, tasks: Iterable[Block]) -> None:
    """Write tasks that leave in messages: :data:`TASK`, then the message's id."""
    tx.insert_blocks("task", (*TASK, "outbox_id"), tasks)


def add_pulled(tx: Tx, tasks: Iterable[Block]) -> None:
    """Write tasks that are shown by us: :data:`TASK`, then the end of the lease."""
    tx.insert_blocks("task", (*TASK, "leased_until"), tasks)
