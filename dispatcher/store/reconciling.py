"""What reconciling reads and writes: messages as they stand here, to be held to a market."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from sqlalchemy import Row, bindparam, exists
from sqlmodel import col, select

from dispatcher.model import Outbox, Task
from dispatcher.store.collecting import save_cursor
from dispatcher.store.statements import in_list, select_columns
from dispatcher.store.transaction import Tx

PAGE: Final = 1000

_KNOWN: Final = select(Outbox.id, Outbox.connector, Outbox.state).where(
    in_list(Outbox.id, "messages")
)
_WITHDRAWN: Final = select_columns(Outbox.handle).where(
    Outbox.kind == "withdraw",
    Outbox.state == "sent",
    Outbox.connector == bindparam("connector"),
)
# by tasks and not by messages: each page goes on where the last one ended
_SENT: Final = (
    select_columns(col(Task.outbox_id).label("id"), col(Task.id).label("task_id"))
    .where(
        Task.id > bindparam("after"),
        Task.connector == bindparam("connector"),
        Task.state == "sent",
        exists().where(
            col(Outbox.id) == Task.outbox_id,
            col(Outbox.kind) == "publish",
            col(Outbox.state) == "sent",
            col(Outbox.due) <= bindparam("before"),
        ),
    )
    .order_by(col(Task.id))
    .limit(PAGE)
)
_OFFERS: Final = (
    select(Outbox.id)
    .where(
        Outbox.connector == bindparam("connector"),
        Outbox.kind == "offer",
        Outbox.state == "sent",
        Outbox.created_at >= bindparam("since"),
        Outbox.due <= bindparam("before"),
    )
    .order_by(col(Outbox.id))
)

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


KnownRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""A message by its id: connector, state."""


SentRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""A message that the outside has, with one of its tasks: id, task_id."""


def known(tx: Tx, ids: Sequence[int]) -> dict[int, KnownRow]:
    """Those of some messages that this store has."""
    found = tx.execute(_KNOWN, {"messages": sorted(set(ids))})
    return {row.id: row for row in found}


def withdrawn(tx: Tx, connector: str) -> set[int]:
    """Messages of a connector that were withdrawn there."""
    handles = tx.scalars(_WITHDRAWN, {"connector": connector})
    return {int(handle) for handle in handles}


def sent_tasks(tx: Tx, connector: str, before: int) -> Iterator[Sequence[SentRow]]:
    """Tasks that were sent before a moment and are not answered, page by page."""
    last = 0
    while True:
        asked = {"after": last, "connector": connector, "before": before}
        found = tx.execute(_SENT, asked).all()
        if not found:
            return
        last = found[-1].task_id
        yield found


def sent_offers(tx: Tx, connector: str, since: int, before: int) -> list[int]:
    """Offers without content that were sent between two moments."""
    asked = {"connector": connector, "since": since, "before": before}
    return tx.scalars(_OFFERS, asked)
