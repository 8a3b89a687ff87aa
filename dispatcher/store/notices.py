"""Notices, the webhooks that get them, and how far each delivery got."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from sqlalchemy import BigInteger, and_, bindparam, delete, func, or_, update
from sqlmodel import col, select

from dispatcher.model import (
    Entry,
    Notice,
    NoticeDelivery,
    Record,
    Result,
    Run,
    Webhook,
)
from dispatcher.store.settings import set_setting, setting
from dispatcher.store.statements import in_list, select_columns
from dispatcher.store.transaction import Tx

MAIL: Final = 0
"""Stands for a webhook's id where a notice goes by mail."""

HOUR: Final = 3_600_000_000
LONGEST_WAIT: Final = 27 * HOUR
"""No delivery is put off for longer: one that seems to be saw the clock set back."""

_BYTES: Final = 16
_NEW_COLUMN: Final = "webhook.secret"
_OLD_COLUMN: Final = "webhook.old_secret"

_WEBHOOKS: Final = select(Webhook).order_by(col(Webhook.id))
_WEBHOOK: Final = select(Webhook).where(Webhook.id == bindparam("number"))
_WEBHOOK_TO_CHANGE: Final = _WEBHOOK.with_for_update()
_REMOVE: Final = delete(Webhook).where(col(Webhook.id) == bindparam("number"))
_ENABLE: Final = (
    update(Webhook)
    .where(col(Webhook.id) == bindparam("number"))
    .values(disabled_at=None)
)
_DISABLE: Final = (
    update(Webhook)
    .where(col(Webhook.id) == bindparam("number"), col(Webhook.disabled_at).is_(None))
    .values(disabled_at=bindparam("moment"))
)
_ROTATE: Final = (
    update(Webhook)
    .where(col(Webhook.id) == bindparam("number"))
    .values(
        secret=bindparam("new"),
        old_secret=bindparam("old"),
        old_until=bindparam("until"),
    )
)

_FRESH: Final = (
    select(Notice)
    .where(Notice.fanned == 0)
    .order_by(col(Notice.id))
    .limit(bindparam("most"))
)
_FAN: Final = update(Notice).where(in_list(Notice.id, "ids")).values(fanned=1)

_NOW: Final = bindparam("now", type_=BigInteger())
_FAR: Final = bindparam("far", type_=BigInteger())
_IS_DUE: Final = and_(
    col(NoticeDelivery.state) == "ready",
    or_(col(NoticeDelivery.due) <= _NOW, col(NoticeDelivery.due) > _FAR),
)
_SOME: Final = or_(
    select(Notice.id).where(Notice.fanned == 0).limit(1).exists(),
    select(NoticeDelivery.id).where(_IS_DUE).limit(1).exists(),
)
_IS_ANYTHING: Final = select_columns(_SOME)
_MESSAGES: Final = select_columns(
    NoticeDelivery.id,
    NoticeDelivery.webhook_id,
    NoticeDelivery.attempts,
    Notice.message,
    Notice.type,
    Notice.at,
    Notice.data,
).join(Notice, col(Notice.id) == NoticeDelivery.notice_id)
_ONE: Final = _MESSAGES.where(NoticeDelivery.id == bindparam("number"))
_DUE: Final = (
    _MESSAGES.where(_IS_DUE, NoticeDelivery.webhook_id == bindparam("to"))
    .order_by(col(NoticeDelivery.id))
    .limit(bindparam("most"))
)
_RECEIVERS: Final = (
    select(NoticeDelivery.webhook_id)
    .where(_IS_DUE)
    .distinct()
    .order_by(col(NoticeDelivery.webhook_id))
)
_STOP: Final = (
    update(NoticeDelivery)
    .where(
        col(NoticeDelivery.webhook_id) == bindparam("number"),
        col(NoticeDelivery.state) == "ready",
    )
    .values(state="failed", error=bindparam("why"), ended_at=bindparam("moment"))
)
_LOG: Final = (
    select_columns(
        NoticeDelivery.id,
        NoticeDelivery.webhook_id,
        Notice.message,
        Notice.type,
        Notice.at,
        NoticeDelivery.state,
        NoticeDelivery.attempts,
        NoticeDelivery.due,
        NoticeDelivery.status,
        NoticeDelivery.error,
        NoticeDelivery.ended_at,
    )
    .join(Notice, col(Notice.id) == NoticeDelivery.notice_id)
    .where(
        NoticeDelivery.webhook_id == bindparam("to"),
        col(NoticeDelivery.id) < bindparam("before", type_=BigInteger()),
        or_(bindparam("every").is_(True), col(NoticeDelivery.state) == "failed"),
    )
    .order_by(col(NoticeDelivery.id).desc())
    .limit(bindparam("most"))
)
_RECEIVER_OF: Final = select(NoticeDelivery.webhook_id).where(
    NoticeDelivery.id == bindparam("number")
)
_AGAIN: Final = (
    update(NoticeDelivery)
    .where(col(NoticeDelivery.id) == bindparam("number"))
    .values(
        state="ready", attempts=0, due=bindparam("moment"), error=None, ended_at=None
    )
)
_FORGET_OF: Final = delete(NoticeDelivery).where(
    col(NoticeDelivery.webhook_id) == bindparam("number")
)
_OLD: Final = (
    select(Notice.id)
    .where(Notice.fanned == 1, col(Notice.at) < bindparam("moment"))
    .limit(bindparam("most"))
)
_FORGET_DELIVERIES: Final = delete(NoticeDelivery).where(
    in_list(NoticeDelivery.notice_id, "ids")
)
_FORGET: Final = delete(Notice).where(in_list(Notice.id, "ids"))
_OPEN_ENTRY: Final = (
    select(Entry.id)
    .join(Record, col(Record.id) == Entry.record_id)
    .outerjoin(
        Result, (col(Result.entry_id) == Entry.id) & (col(Result.state) == "answered")
    )
    .where(
        Record.run_id == Run.id,
        col(Record.erased_at).is_(None),
        in_list(Entry.field_id, "asked"),
        col(Result.entry_id).is_(None),
    )
    .correlate(Run)
    .limit(1)
)
_COMPLETE: Final = (
    select_columns(Run.name, func.count(col(Record.id)))
    .join(Record, col(Record.run_id) == Run.id)
    .where(
        Run.state == "active",
        col(Record.erased_at).is_(None),
        ~_OPEN_ENTRY.exists(),
    )
    .group_by(col(Run.name))
)
_FAILED: Final = (
    select_columns(NoticeDelivery.webhook_id, func.count().label("deliveries"))
    .where(
        NoticeDelivery.state == "failed",
        col(NoticeDelivery.ended_at) > bindparam("since", type_=BigInteger()),
    )
    .group_by(col(NoticeDelivery.webhook_id))
    .order_by(col(NoticeDelivery.webhook_id))
)


@dataclass(frozen=True, slots=True)
class DueDelivery:
    """A delivery to make now; ``attempts`` are those before it."""

    id: int
    webhook_id: int
    attempts: int
    message: str
    type: str
    at: int
    data: str


@dataclass(frozen=True, slots=True)
class DeliveryRow:
    """A delivery as the log shows it."""

    id: int
    webhook_id: int
    message: str
    type: str
    at: int
    state: str
    attempts: int
    due: int
    status: int | None
    error: str | None
    ended_at: int | None


class Settled(NamedTuple):
    """What came of an attempt, by the columns of a delivery."""

    id: int
    state: str
    attempts: int
    due: int
    status: int | None
    error: str | None
    ended_at: int | None


# -- notices ---------------------------------------------------------------------------


def new_message(tx: Tx) -> str:
    """Return the id of a message that no other message has, anywhere."""
    return f"msg_{tx.vault.entropy(_BYTES).hex()}"


def add(
    tx: Tx, at: int, kind: str, data: Mapping[str, object], *, fanned: bool = False
) -> int:
    """Write a notice, in the transaction of what it tells of; return its number."""
    number = tx.reserve("notice")
    tx.insert_many(
        "notice",
        ("id", "message", "type", "at", "data", "fanned"),
        [(number, new_message(tx), kind, at, json.dumps(data), int(fanned))],
    )
    return number


def fresh(tx: Tx, limit: int) -> list[Notice]:
    """Notices without deliveries, the oldest first."""
    return tx.models(_FRESH, {"most": limit})


def add_deliveries(
    tx: Tx, notices: Sequence[int], rows: Sequence[tuple[int, int, int]]
) -> int:
    """Write deliveries (notice, webhook or :data:`MAIL`, due) of these notices.

    Returns
    -------
    int
        Id of the first.
    """
    first = tx.reserve("notice_delivery", len(rows)) if rows else 0
    tx.insert_many(
        "notice_delivery",
        ("id", "notice_id", "webhook_id", "state", "attempts", "due"),
        [
            (first + n, one, to, "ready", 0, due)
            for n, (one, to, due) in enumerate(rows)
        ],
    )
    tx.execute(_FAN, {"ids": list(notices)})
    return first


def forget_before(tx: Tx, moment: int, limit: int) -> int:
    """Delete notices from before a moment with their deliveries; return how many."""
    ids = tx.scalars(_OLD, {"moment": moment, "most": limit})
    if ids:
        tx.execute(_FORGET_DELIVERIES, {"ids": ids})
        tx.execute(_FORGET, {"ids": ids})
    return len(ids)


# -- deliveries ------------------------------------------------------------------------


def is_anything_due(tx: Tx, now: int) -> bool:
    """Whether a notice has no deliveries yet, or a delivery is due."""
    return bool(tx.scalar(_IS_ANYTHING, _moment(now)))


def receivers(tx: Tx, now: int) -> list[int]:
    """Webhooks, or :data:`MAIL`, to which something is due."""
    return tx.scalars(_RECEIVERS, _moment(now))


def due(tx: Tx, to: int, now: int, limit: int) -> list[DueDelivery]:
    """Deliveries to one receiver that are due, the oldest first."""
    given = {**_moment(now), "to": to, "most": limit}
    return [DueDelivery(**row._asdict()) for row in tx.execute(_DUE, given)]


def one(tx: Tx, delivery: int) -> list[DueDelivery]:
    """Return one delivery, due or not."""
    found = tx.execute(_ONE, {"number": delivery})
    return [DueDelivery(**row._asdict()) for row in found]


def put_off(tx: Tx, rows: Sequence[tuple[int, int, int]]) -> None:
    """Count attempts before they are made: (delivery, attempts, when it is due next)."""
    tx.update_many("notice_delivery", ["id"], ["attempts", "due"], rows)


def settle(tx: Tx, rows: Sequence[Settled]) -> None:
    """Keep what came of attempts."""
    tx.update_many("notice_delivery", ["id"], list(Settled._fields[1:]), rows)


def deliveries(
    tx: Tx, to: int, *, failed: bool, before: int, limit: int
) -> list[DeliveryRow]:
    """Deliveries to one receiver below an id, the newest first."""
    given = {"to": to, "before": before, "every": not failed, "most": limit}
    return [DeliveryRow(**row._asdict()) for row in tx.execute(_LOG, given)]


def receiver_of(tx: Tx, delivery: int) -> int | None:
    """Return the webhook of a delivery, or :data:`MAIL`; None if there is no delivery."""
    return tx.scalar(_RECEIVER_OF, {"number": delivery})


def deliver_again(tx: Tx, delivery: int, now: int) -> None:
    """Have a delivery made again from its first attempt on."""
    tx.execute(_AGAIN, {"number": delivery, "moment": now})


def failed_since(tx: Tx, moment: int) -> dict[int, int]:
    """Deliveries that were given up since a moment, by receiver."""
    return {to: int(number) for to, number in tx.execute(_FAILED, {"since": moment})}


def _moment(now: int) -> dict[str, int]:
    return {"now": now, "far": now + LONGEST_WAIT}


# -- webhooks --------------------------------------------------------------------------


def add_webhook(tx: Tx, url: str, types: str, secret: bytes, now: int) -> int:
    """Store a webhook, its secret sealed; return its id."""
    number = tx.reserve("webhook")
    (key,) = tx.vault.make(tx, 1)
    sealed = tx.vault.seal(tx, _NEW_COLUMN, number, key, secret)
    tx.insert_many(
        "webhook",
        ("id", "url", "types", "secret", "key_id", "made_at"),
        [(number, url, types, sealed, key, now)],
    )
    return number


def webhooks(tx: Tx) -> list[Webhook]:
    """All webhooks, the disabled too."""
    return tx.models(_WEBHOOKS)


def webhook(tx: Tx, number: int, *, lock: bool = False) -> Webhook | None:
    """Return the webhook of an id, locked until the end of the transaction if asked."""
    return tx.model(_WEBHOOK_TO_CHANGE if lock else _WEBHOOK, {"number": number})


def remove_webhook(tx: Tx, number: int) -> bool:
    """Delete a webhook with its deliveries; False if there is none."""
    tx.execute(_FORGET_OF, {"number": number})
    return tx.execute(_REMOVE, {"number": number}).rowcount == 1


def disable_webhook(tx: Tx, number: int, why: str, now: int) -> bool:
    """Disable a webhook, and give up what waits for it; False if it was disabled."""
    tx.execute(_STOP, {"number": number, "why": why, "moment": now})
    return tx.execute(_DISABLE, {"number": number, "moment": now}).rowcount == 1


def enable_webhook(tx: Tx, number: int) -> None:
    """Let a webhook get notices again: those from now on."""
    tx.execute(_ENABLE, {"number": number})


def rotate(tx: Tx, found: Webhook, secret: bytes, until: int) -> None:
    """Replace a webhook's secret; the one of before signs too until a moment."""
    before = _opened(tx, found, _NEW_COLUMN, found.secret)
    given = {
        "number": found.id,
        "new": tx.vault.seal(tx, _NEW_COLUMN, found.id, found.key_id, secret),
        "old": tx.vault.seal(tx, _OLD_COLUMN, found.id, found.key_id, before),
        "until": until,
    }
    tx.execute(_ROTATE, given)


def secrets_of(tx: Tx, found: Webhook, now: int) -> list[bytes]:
    """Secrets that sign now, the newest first."""
    secrets = [_opened(tx, found, _NEW_COLUMN, found.secret)]
    if found.old_secret is not None and (found.old_until or 0) > now:
        secrets.append(_opened(tx, found, _OLD_COLUMN, found.old_secret))
    return secrets


def _opened(tx: Tx, found: Webhook, column: str, sealed: bytes) -> bytes:
    return tx.vault.open(tx, column, found.id, found.key_id, sealed)


# -- states that were noticed ----------------------------------------------------------


def complete_runs(tx: Tx, asked: Sequence[int]) -> dict[str, int]:
    """Runs of which each record has all its answers, with how many records they have."""
    found = tx.execute(_COMPLETE, {"asked": list(asked)})
    return {name: int(records) for name, records in found}


_STATES: Final = "noticed-states"


def noticed_states(tx: Tx, *, lock: bool = False) -> dict[str, int]:
    """States that notices told of and that last, with a number where more is news."""
    found: dict[str, int] = json.loads(setting(tx, _STATES, lock=lock) or b"{}")
    return found


def note_states(tx: Tx, states: Mapping[str, int]) -> None:
    """Keep the states that last, and no others."""
    set_setting(tx, _STATES, json.dumps(states, sort_keys=True).encode())
