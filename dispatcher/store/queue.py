"""What ``dispatcher queue`` reads and writes: outbox messages, without content."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import bindparam, func, or_, update
from sqlalchemy.types import String
from sqlmodel import col, select

from dispatcher.model import Account, Outbox, Task
from dispatcher.store.statements import in_list, select_columns
from dispatcher.store.transaction import Tx

_STATE: Final = bindparam("wanted", type_=String())
_MESSAGES: Final = (
    select_columns(
        Outbox.id,
        Outbox.connector,
        col(Account.connector) + "/" + col(Account.name),
        Outbox.kind,
        Outbox.state,
        Outbox.attempts,
        func.coalesce(Outbox.error, ""),
    )
    .join(Account, col(Account.id) == Outbox.account_id)
    .where(or_(_STATE.is_(None), col(Outbox.state) == _STATE))
    .order_by(col(Outbox.id))
    .limit(bindparam("most"))
)
_CONNECTOR: Final = bindparam("wanted", type_=String())
_DEAD: Final = (
    select(Outbox.id)
    .where(
        Outbox.state == "dead",
        or_(_CONNECTOR.is_(None), col(Outbox.connector) == _CONNECTOR),
    )
    .order_by(col(Outbox.id))
)
_CHOSEN: Final = (col(Outbox.state) == "dead", in_list(Outbox.id, "ids"))
_REVIVE_TASKS: Final = (
    update(Task)
    .where(
        col(Task.state) == "dead",
        col(Task.outbox_id).in_(select(Outbox.id).where(*_CHOSEN)),
    )
    .values(state="booked")
)
_REVIVE: Final = (
    update(Outbox)
    .where(*_CHOSEN)
    .values(state="ready", due=bindparam("now"), attempts=0)
)


def messages(tx: Tx, state: str | None, limit: int) -> list[tuple[object, ...]]:
    """Messages, oldest first: id, connector, account, kind, state, tries, error."""
    found = tx.execute(_MESSAGES, {"wanted": state, "most": limit})
    return [tuple(row) for row in found]


def dead(tx: Tx, ids: Sequence[int], connector: str | None) -> list[int]:
    """Dead messages: those of the ids (none: all) and of the connector (None: any)."""
    wanted = set(ids)
    found = tx.scalars(_DEAD, {"wanted": connector})
    return [number for number in found if not wanted or number in wanted]


def revive(tx: Tx, ids: Sequence[int], now: int) -> int:
    """Let dead messages wait again, with all their tries; return how many.

    Their tasks are under way again, so that a change that makes one unsafe finds it.
    """
    tx.execute(_REVIVE_TASKS, {"ids": ids})
    return tx.execute(_REVIVE, {"ids": ids, "now": now}).rowcount
