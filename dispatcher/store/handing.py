"""Tasks and messages, written with the exposures that they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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


def add_tasks(tx: Tx, tasks: Iterable[Sequence[object]]) -> None:
    """Write tasks, rows in the order of the columns below."""
    tx.insert_many(
        "task",
        (
            "id",
            "entry_id",
            "account_id",
            "adversary_id",
            "connector",
            "outbox_id",
            "state",
            "created_at",
            "leased_until",
        ),
        tasks,
    )
