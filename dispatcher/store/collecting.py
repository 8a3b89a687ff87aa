"""Input from markets other than answers: cursors, calls, and quarantined answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from sqlalchemy import Row, bindparam, delete, func, update
from sqlmodel import col, select

from dispatcher.model import Cursor, Quarantine, WebhookDelivery
from dispatcher.store.statements import in_list, insert, select_columns
from dispatcher.store.transaction import Tx

_CURSOR: Final = select(Cursor.value).where(Cursor.connector == bindparam("connector"))


def cursor(tx: Tx, connector: str) -> str:
    """Return a connector's collection cursor; empty at the beginning."""
    return tx.scalar(_CURSOR, {"connector": connector}) or ""


def save_cursor(tx: Tx, connector: str, value: str) -> None:
    """Store a connector's cursor, in the transaction of what was collected."""
    tx.upsert_many(
        "cursor", ["connector"], ["connector", "value"], [(connector, value)]
    )


# -- calls of markets: each counts once, and triggers a collection ---------------------

KEPT: Final = 86_400 * 1_000_000
"""Microseconds that a call is remembered: far above the age at which it is refused."""

_FORGET_CALLS: Final = delete(WebhookDelivery).where(
    col(WebhookDelivery.at) < bindparam("before")
)
_ADD_CALL: Final = (
    insert(WebhookDelivery)
    .values(
        connector=bindparam("connector"), call=bindparam("call"), at=bindparam("at")
    )
    .on_conflict_do_nothing()
)
_LATEST_CALLS: Final = select(
    WebhookDelivery.connector, func.max(WebhookDelivery.at)
).group_by(col(WebhookDelivery.connector))


def note_call(tx: Tx, connector: str, call: str, now: int) -> bool:
    """Record a call; False if it is a repetition. Old calls are deleted.

    Parameters
    ----------
    tx : Tx
    connector : str
    call : str
        Id of the call, as the connector makes it.
    now : int
        Microseconds.
    """
    tx.execute(_FORGET_CALLS, {"before": now - KEPT})
    added = tx.execute(_ADD_CALL, {"connector": connector, "call": call, "at": now})
    return added.rowcount == 1


def latest_calls(tx: Tx) -> dict[str, int]:
    """When each connector was called last, in microseconds."""
    return dict(tx.execute(_LATEST_CALLS).all())


# -- quarantine: answers that fit no task, kept until reviewed or dismissed ------------

RefusedRow: TypeAlias = "Row[int, str, str, int, int | None, str | None]"
"""One refused answer without what it said: ``id``, ``connector``, ``reason``, ``at``,
``dismissed_at``, ``dismissed_why``."""

_NEWEST: Final = (
    select_columns(
        Quarantine.id,
        Quarantine.connector,
        Quarantine.reason,
        Quarantine.at,
        Quarantine.dismissed_at,
        Quarantine.dismissed_why,
    )
    .order_by(col(Quarantine.at).desc(), col(Quarantine.id).desc())
    .limit(bindparam("most"))
)
_WAITS: Final = col(Quarantine.dismissed_at).is_(None)
_NEWEST_WAITING: Final = _NEWEST.where(_WAITS)
_PAYLOADS: Final = (
    select(Quarantine.id, Quarantine.payload, Quarantine.key_id)
    .where(in_list(Quarantine.id, "ids"))
    .order_by(col(Quarantine.id))
)
_ALL_PAYLOADS: Final = select(
    Quarantine.id, Quarantine.payload, Quarantine.key_id
).order_by(col(Quarantine.id))
_WAITING: Final = select(Quarantine.id).where(_WAITS).order_by(col(Quarantine.id))
_COUNT: Final = select(func.count()).select_from(
    select(Quarantine.id)
    .where(Quarantine.connector == bindparam("connector"), _WAITS)
    .limit(bindparam("most"))
    .subquery()
)
_DISMISS: Final = (
    update(Quarantine)
    .where(_WAITS, in_list(Quarantine.id, "ids"))
    .values(dismissed_at=bindparam("moment"), dismissed_why=bindparam("why"))
)
_DROP: Final = delete(Quarantine).where(in_list(Quarantine.id, "ids"))


def add_strange(tx: Tx, strange: Iterable[Quarantine]) -> int:
    """Quarantine answers that fit no task, once each; return how many are new.

    Ids are given: they derive from the connector and its own id of the answer, so that
    a repeated delivery is stored once.
    """
    kept = list(strange)
    key_id = tx.vault.make(tx, 1)[0] if kept else None
    return tx.insert_new(
        "quarantine",
        ["id"],
        ("id", "connector", "reason", "payload", "key_id", "at"),
        [
            (
                row.id,
                row.connector,
                row.reason,
                tx.vault.seal(tx, "quarantine.payload", row.id, key_id, row.payload),
                key_id,
                row.at,
            )
            for row in kept
        ],
    )


def count_strange(tx: Tx, connector: str, most: int) -> int:
    """Count unreviewed quarantined answers, up to a maximum."""
    return tx.scalar(_COUNT, {"connector": connector, "most": most}) or 0


def listed(tx: Tx, limit: int, *, dismissed: bool) -> Sequence[RefusedRow]:
    """Refused answers, the newest first: those to be looked at, or (too) all."""
    return tx.execute(_NEWEST if dismissed else _NEWEST_WAITING, {"most": limit}).all()


def payloads(tx: Tx, ids: Sequence[int]) -> dict[int, bytes]:
    """Return the decrypted content of refused answers; it may contain values."""
    found = tx.execute(_PAYLOADS, {"ids": list(ids)}).all()
    return {
        row.id: bytes(row.payload)
        for row in tx.vault.opened(tx, found, "quarantine.payload")
    }


def waiting(tx: Tx) -> list[int]:
    """Ids of all that were not dismissed yet."""
    return tx.scalars(_WAITING)


def dismiss(tx: Tx, ids: Sequence[int], why: str, at: int) -> int:
    """Dismiss refused answers; return how many were not reviewed before."""
    given = {"ids": sorted(set(ids)), "why": why, "moment": at}
    return tx.execute(_DISMISS, given).rowcount


def drop_strange(tx: Tx, needles: Sequence[bytes]) -> int:
    """Delete quarantined answers with one of some texts; return how many."""
    found = tx.execute(_ALL_PAYLOADS).all()
    dropped = [
        row.id
        for row in tx.vault.opened(tx, found, "quarantine.payload")
        if any(needle in row.payload for needle in needles)
    ]
    # One key seals a collection: others may still need it.
    tx.execute(_DROP, {"ids": dropped})
    return len(dropped)
