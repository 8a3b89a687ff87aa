"""Messages for connectors: written with a booking, claimed, sent, given up, revived."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import BigInteger, Row, Text, and_, bindparam, exists, func, or_, update
from sqlalchemy.orm import aliased
from sqlalchemy.types import String
from sqlmodel import col, select

from dispatcher.model import LIVE_TASK_STATES, Account, Outbox, Payment, Task
from dispatcher.store import tasks
from dispatcher.store.statements import fixed, in_list, in_words, select_columns
from dispatcher.store.transaction import Tx


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message claimed by this daemon; ``attempts`` counts this one."""

    id: int
    account_id: int
    kind: str
    attempts: int
    handle: str | None
    error: str | None  # of the attempt before
    account: str  # its name at the connector


@dataclass(frozen=True, slots=True)
class MessageOutcome:
    """What became of a message: the new state and what goes with it."""

    id: int
    state: str  # sent, ready, dead; cancelled, which is ready first
    due: int
    back: int  # 1: it was never tried, so the attempt does not count
    handle: str | None
    error: str | None


# -- written -----------------------------------------------------------------------------

_COLUMNS: Final = (
    "id",
    "connector",
    "account_id",
    "kind",
    "state",
    "due",
    "attempts",
    "epoch",
    "created_at",
)
_WITHDRAWN: Final = select_columns(Outbox.handle).where(Outbox.kind == "withdraw")
_PUBLISHED: Final = (
    select(Outbox.id, Outbox.connector, Outbox.account_id)
    .where(in_list(Outbox.id, "messages"), in_words(Outbox.kind, "publish", "offer"))
    .order_by(col(Outbox.id))
)


def add(tx: Tx, messages: Iterable[Sequence[object]]) -> None:
    """Write messages: (id, connector, account_id, kind, due, created_at)."""
    tx.insert_many(
        "outbox",
        _COLUMNS,
        (
            (number, connector, account_id, kind, "ready", due, 0, 0, at)
            for number, connector, account_id, kind, due, at in messages
        ),
    )


def withdraw(tx: Tx, outbox_ids: Sequence[int], at: int) -> int:
    """Write a message that withdraws each of these; once for each. Returns how many."""
    known = set(tx.scalars(_WITHDRAWN))
    found = [
        row
        for row in tx.execute(_PUBLISHED, {"messages": outbox_ids}).all()
        if str(row[0]) not in known
    ]
    if not found:
        return 0
    first = tx.reserve("outbox", len(found))
    tx.insert_many(
        "outbox",
        (*_COLUMNS, "handle"),
        [
            (first + i, name, account, "withdraw", "ready", at, 0, 0, at, str(number))
            for i, (number, name, account) in enumerate(found)
        ],
    )
    return len(found)


OFFERED: Final = 7 * 86_400 * 1_000_000
"""Microseconds in which an offer that nobody is paid for is taken to be open."""

_OPEN_OFFERS: Final = (
    select(Outbox.id, Outbox.state, Outbox.attempts)
    .outerjoin(
        Payment, and_(col(Payment.kind) == "reward", col(Payment.about) == Outbox.id)
    )
    .where(
        in_list(Outbox.account_id, "accounts"),
        Outbox.kind == "offer",
        or_(
            in_words(Outbox.state, "ready", "leased"),
            and_(
                col(Outbox.state) == "sent",
                or_(
                    col(Payment.state) == "reserved",
                    and_(
                        col(Payment.state).is_(None),
                        col(Outbox.created_at) > bindparam("since"),
                    ),
                ),
            ),
        ),
    )
    .order_by(col(Outbox.id))
)


def end_offers(tx: Tx, account_ids: Sequence[int], now: int) -> int:
    """Take back the offers of work that some accounts have; return how many.

    One that was taken up already ends at its market as any other does.
    """
    given = {"accounts": list(account_ids), "since": now - OFFERED}
    found = tx.execute(_OPEN_OFFERS, given).all()
    unsent = [row.id for row in found if row.state == "ready" and not row.attempts]
    cancel(tx, unsent)
    sent = [row.id for row in found if row.id not in unsent]
    return len(unsent) + withdraw(tx, sent, now)


# -- sent --------------------------------------------------------------------------------

_CONNECTOR: Final = col(Outbox.connector) == bindparam("of_connector")
_RELEASE: Final = (
    update(Outbox)
    .where(
        col(Outbox.state) == "leased",
        or_(
            col(Outbox.leased_until) <= bindparam("now"),
            and_(_CONNECTOR, col(Outbox.epoch) <= bindparam("turn")),
        ),
    )
    .values(state="ready", leased_until=None)
)
_DUE: Final = (
    select(Outbox.id)
    .where(
        Outbox.state == "ready",
        or_(
            col(Outbox.due) <= bindparam("now"),
            col(Outbox.created_at) > bindparam("now"),
        ),
        _CONNECTOR,
    )
    .order_by(col(Outbox.due), col(Outbox.id))
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)
)
_CLAIM: Final = (
    update(Outbox)
    .where(col(Outbox.id).in_(_DUE))
    .values(
        state="leased",
        epoch=bindparam("turn"),
        leased_until=bindparam("until"),
        attempts=Outbox.attempts + 1,
    )
    .returning(
        col(Outbox.id),
        col(Outbox.account_id),
        col(Outbox.kind),
        col(Outbox.attempts),
        col(Outbox.handle),
        col(Outbox.error),
    )
)
_NAMES: Final = select(Account.id, Account.name).where(in_list(Account.id, "accounts"))
_HANDLE: Final = select_columns(Outbox.handle).where(Outbox.id == bindparam("message"))
_MAY_LEAVE: Final = select(Outbox.id).where(
    Outbox.id == bindparam("message"), in_words(Outbox.state, "ready", "leased")
)
_SETTLE: Final = (
    update(Outbox)
    .where(
        col(Outbox.id) == bindparam("message"),
        col(Outbox.state) == "leased",
        col(Outbox.epoch) == bindparam("turn"),
    )
    .values(
        state=bindparam("after"),
        due=bindparam("then"),
        attempts=Outbox.attempts - bindparam("back", type_=BigInteger()),
        handle=func.coalesce(bindparam("reference", type_=Text()), Outbox.handle),
        error=bindparam("why"),
        leased_until=None,
    )
)
_CANCEL: Final = (
    update(Outbox)
    .where(in_list(Outbox.id, "messages"), col(Outbox.state) == "ready")
    .values(state="cancelled")
)
_CANCEL_EMPTY: Final = (
    update(Outbox)
    .where(
        in_list(Outbox.id, "messages"),
        col(Outbox.state) == fixed("ready"),
        col(Outbox.attempts) == 0,
        ~exists().where(
            col(Task.outbox_id) == Outbox.id, in_words(Task.state, *LIVE_TASK_STATES)
        ),
    )
    .values(state="cancelled")
)


def release_left(tx: Tx, connector: str, epoch: int, now: int) -> int:
    """Put back what an earlier turn of a connector leased and did not settle.

    Its daemon is gone, or could not write down what became of it: the outcome is
    unknown. A daemon takes one turn of a connector after another, so that at the
    beginning of one nothing that goes there is under way. A lease that is over binds
    nobody, whatever it was for: the connector may be gone from the settings.
    """
    given = {"of_connector": connector, "turn": epoch, "now": now}
    return tx.execute(_RELEASE, given).rowcount


def claim(
    tx: Tx, connector: str, epoch: int, now: int, until: int, limit: int
) -> list[MessageRow]:
    """Lease due messages of a connector, oldest first; each counts as an attempt.

    One that was written in the future is due: the clock was set back since.
    """
    given = {"of_connector": connector, "turn": epoch, "now": now}
    rows = tx.execute(_CLAIM, {**given, "until": until, "most": limit}).all()
    wanted = sorted({row.account_id for row in rows})
    accounts = dict(tx.execute(_NAMES, {"accounts": wanted}).all())
    found = [MessageRow(*row, accounts[row.account_id]) for row in rows]
    return sorted(found, key=lambda message: message.id)


def handle_of(tx: Tx, outbox_id: int) -> str | None:
    """Return the outside's reference of a sent message."""
    return tx.scalar(_HANDLE, {"message": outbox_id})


def may_leave(tx: Tx, outbox_id: int) -> bool:
    """Whether a message waits to be sent, or is being sent."""
    return tx.scalar(_MAY_LEAVE, {"message": outbox_id}) is not None


def settle(tx: Tx, epoch: int, outcomes: Sequence[MessageOutcome]) -> int:
    """Store the outcomes of messages that this daemon still has leased.

    Returns
    -------
    int
        How many it still held.
    """
    settled = 0
    for one in outcomes:
        given = {
            "message": one.id,
            "turn": epoch,
            "after": one.state,
            "then": one.due,
            "back": one.back,
            "reference": one.handle,
            "why": one.error,
        }
        settled += tx.execute(_SETTLE, given).rowcount
    return settled


def cancel(tx: Tx, outbox_ids: Sequence[int]) -> None:
    """Delete waiting messages whose subject no longer exists."""
    tx.execute(_CANCEL, {"messages": outbox_ids})


def cancel_empty(tx: Tx, outbox_ids: Sequence[int]) -> int:
    """Cancel messages that were never tried and carry no task any more."""
    return tx.execute(_CANCEL_EMPTY, {"messages": outbox_ids}).rowcount


# -- as an operator sees them ----------------------------------------------------------

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
    .where(
        or_(_STATE.is_(None), col(Outbox.state) == _STATE),
        col(Outbox.id) > bindparam("after"),
    )
    .order_by(col(Outbox.id))
    .limit(bindparam("most"))
)
_FEW: Final = (
    _MESSAGES.where(col(Outbox.state) == _STATE)
    .order_by(None)
    .order_by(col(Outbox.id) + 0)
)
"""Not in order of the key, or all that were sent would be read to find a few others."""
_last = aliased(Outbox)
_LAST_DUE: Final = func.coalesce(
    select(_last.due).where(_last.id == bindparam("after")).scalar_subquery(), -1
)
"""When the last message of the part before is due: the index has its state and this."""
_CONNECTOR_ASKED: Final = bindparam("of_connector", type_=String())
_MESSAGES_OF: Final = (
    select_columns(
        Outbox.id,
        Outbox.connector,
        (col(Account.connector) + "/" + col(Account.name)).label("worker"),
        Outbox.kind,
        Outbox.state,
        col(Outbox.attempts).label("tries"),
        col(Outbox.created_at).label("created"),
        Outbox.due,
        Outbox.error,
    )
    .join(Account, col(Account.id) == Outbox.account_id)
    .where(
        Outbox.state == bindparam("wanted"),
        or_(_CONNECTOR_ASKED.is_(None), col(Outbox.connector) == _CONNECTOR_ASKED),
        col(Outbox.due) >= _LAST_DUE,
        or_(col(Outbox.due) > _LAST_DUE, col(Outbox.id) > bindparam("after")),
    )
    .order_by(col(Outbox.due), col(Outbox.id))
    .limit(bindparam("most"))
)
_AT: Final = bindparam("wanted", type_=String())
_DEAD: Final = (
    select(Outbox.id)
    .where(
        Outbox.state == "dead",
        or_(_AT.is_(None), col(Outbox.connector) == _AT),
    )
    .order_by(col(Outbox.id))
)
_CHOSEN: Final = (col(Outbox.state) == "dead", in_list(Outbox.id, "ids"))
_REVIVE: Final = (
    update(Outbox)
    .where(*_CHOSEN)
    .values(state="ready", due=bindparam("now"), attempts=0)
)


_RECEIVERS: Final = (
    select(Account.adversary_id)
    .distinct()
    .join(Outbox, col(Outbox.account_id) == Account.id)
    .where(in_list(Outbox.id, "messages"))
    .order_by(col(Account.adversary_id))
)


def messages(
    tx: Tx, state: str | None, limit: int, after: int = 0
) -> list[tuple[object, ...]]:
    """Messages above an id: id, connector, account, kind, state, tries, error."""
    statement = _MESSAGES if state in (None, "sent") else _FEW
    found = tx.execute(statement, {"wanted": state, "most": limit, "after": after})
    return [tuple(row) for row in found]


def messages_of(
    tx: Tx, state: str, connector: str | None, after: int, limit: int
) -> Sequence[Row[*tuple[Any, ...]]]:
    """Messages of a state behind one, as they are due, by the names of columns."""
    given = {"wanted": state, "of_connector": connector, "after": after, "most": limit}
    return tx.execute(_MESSAGES_OF, given).all()


_STATES_OF: Final = (
    select_columns(Outbox.id, Outbox.connector, Outbox.state, Outbox.attempts)
    .where(in_list(Outbox.id, "messages"), in_words(Outbox.kind, "publish", "offer"))
    .order_by(col(Outbox.id))
)
_DROP_DEAD: Final = (
    update(Outbox)
    .where(in_list(Outbox.id, "messages"), col(Outbox.state) == "dead")
    .values(state="cancelled")
)


def states_of(tx: Tx, outbox_ids: Sequence[int]) -> Sequence[Row[*tuple[Any, ...]]]:
    """Messages that carry work: id, connector, state, attempts."""
    return tx.execute(_STATES_OF, {"messages": outbox_ids}).all()


def drop_dead(tx: Tx, outbox_ids: Sequence[int]) -> int:
    """Cancel messages that were given up; return how many."""
    return tx.execute(_DROP_DEAD, {"messages": outbox_ids}).rowcount


def dead(tx: Tx, ids: Sequence[int], connector: str | None) -> list[int]:
    """Dead messages: those of the ids (none: all) and of the connector (None: any)."""
    wanted = set(ids)
    found = tx.scalars(_DEAD, {"wanted": connector})
    return [number for number in found if not wanted or number in wanted]


def revive(tx: Tx, ids: Sequence[int], now: int) -> int:
    """Let dead messages wait again, with all their tries; return how many.

    Their tasks are under way again, so that a change that makes one unsafe finds it.
    """
    tasks.revive(tx, ids)
    return tx.execute(_REVIVE, {"ids": ids, "now": now}).rowcount


def adversaries_of_messages(tx: Tx, outbox_ids: Sequence[int]) -> list[int]:
    """Whom some messages are for."""
    return tx.scalars(_RECEIVERS, {"messages": outbox_ids})
