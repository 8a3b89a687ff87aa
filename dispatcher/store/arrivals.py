"""Workers at the task page: their sessions, and the browsers that they arrive with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from sqlalchemy import bindparam, delete, func, update
from sqlalchemy.orm import aliased
from sqlmodel import col, select

from dispatcher.model import Account, BrowserArrival, SuspectPair, WorkerSession
from dispatcher.store.statements import (
    DriverStatement,
    in_list,
    insert,
    select_columns,
)
from dispatcher.store.transaction import Tx

# -- sessions ----------------------------------------------------------------------------


class SessionRow(NamedTuple):
    """A session and its account's present state; ``number`` is of the valid invite."""

    account_id: int
    invite: int
    opened_at: int
    seen_at: int
    ends_at: int
    state: str
    number: int
    language: str | None


_OPEN: Final = insert(WorkerSession).values(
    digest=bindparam("cookie"),
    account_id=bindparam("account"),
    invite=bindparam("number"),
    opened_at=bindparam("now"),
    seen_at=bindparam("now"),
    ends_at=bindparam("ends"),
)
_OF: Final = col(WorkerSession.digest) == bindparam("cookie")
_SESSION: Final = DriverStatement(
    select_columns(
        WorkerSession.account_id,
        WorkerSession.invite,
        WorkerSession.opened_at,
        WorkerSession.seen_at,
        WorkerSession.ends_at,
        Account.state,
        Account.invite,
        Account.language,
    )
    .join(Account, col(Account.id) == WorkerSession.account_id)
    .where(_OF)
)
_TOUCH: Final = (
    update(WorkerSession)
    .where(_OF, col(WorkerSession.seen_at) < bindparam("now"))
    .values(seen_at=bindparam("now"))
)
_END: Final = delete(WorkerSession).where(_OF)
_END_OF: Final = delete(WorkerSession).where(
    in_list(WorkerSession.account_id, "accounts")
)
_END_OVER: Final = delete(WorkerSession).where(
    col(WorkerSession.ends_at) <= bindparam("now")
)


def open_session(
    tx: Tx, digest: str, account_id: int, invite: int, *, now: int, ends_at: int
) -> None:
    """Keep a new session, opened by the invite of a number."""
    given = {"cookie": digest, "account": account_id, "number": invite}
    tx.execute(_OPEN, {**given, "now": now, "ends": ends_at})


def session(tx: Tx, digest: str) -> SessionRow | None:
    """One session with its account, in one read; None: it was ended or never opened."""
    row = tx.driver_one(_SESSION, {"cookie": digest})
    return None if row is None else SessionRow(*row)


def touch_worker_session(tx: Tx, digest: str, now: int) -> None:
    """Note that a session was used now."""
    tx.execute(_TOUCH, {"cookie": digest, "now": now})


def end_session(tx: Tx, digest: str) -> None:
    """End one session: its cookie opens nothing any more, nor does a copy."""
    tx.execute(_END, {"cookie": digest})


def end_sessions_of(tx: Tx, account_ids: Iterable[int]) -> int:
    """End all sessions of some accounts; return how many there were."""
    return tx.execute(_END_OF, {"accounts": sorted(account_ids)}).rowcount


# -- browsers ----------------------------------------------------------------------------


class SuspectRow(NamedTuple):
    """Two accounts, as CONNECTOR/NAME, that arrived with one browser."""

    first: str
    second: str
    noted_at: int
    at: int


NOBODY: Final = 0
"""Stands beside a browser's accounts: the row that two arrivals at once wait for."""

_other, _first, _second = aliased(Account), aliased(Account), aliased(Account)
_note = insert(BrowserArrival).values(
    browser=bindparam("cookie"), account_id=bindparam("account"), at=bindparam("now")
)
_NOTE: Final = _note.on_conflict_do_update(
    index_elements=["browser", "account_id"], set_={"at": _note.excluded.at}
)
_OTHERS: Final = (
    select(BrowserArrival.account_id)
    .join(_other, col(_other.id) == BrowserArrival.account_id)
    .join(Account, col(Account.id) == bindparam("account"))
    .where(
        BrowserArrival.browser == bindparam("cookie"),
        _other.adversary_id != Account.adversary_id,
    )
    .order_by(col(BrowserArrival.account_id))
)
_pair = insert(SuspectPair).values(
    first_id=bindparam("first"),
    second_id=bindparam("second"),
    noted_at=bindparam("now"),
    at=bindparam("now"),
)
_NOTE_PAIR: Final = _pair.on_conflict_do_update(
    index_elements=["first_id", "second_id"], set_={"at": _pair.excluded.at}
).returning(col(SuspectPair.dismissed_at))
_ONE: Final = (
    col(SuspectPair.first_id) == bindparam("first"),
    col(SuspectPair.second_id) == bindparam("second"),
)
_DISMISS: Final = (
    update(SuspectPair)
    .where(*_ONE, col(SuspectPair.dismissed_at).is_(None))
    .values(dismissed_at=bindparam("now"))
)
_SUSPECTS: Final = (
    select_columns(
        col(_first.connector) + "/" + col(_first.name),
        col(_second.connector) + "/" + col(_second.name),
        SuspectPair.noted_at,
        SuspectPair.at,
    )
    .select_from(SuspectPair)
    .join(_first, col(_first.id) == SuspectPair.first_id)
    .join(_second, col(_second.id) == SuspectPair.second_id)
    .where(
        col(SuspectPair.dismissed_at).is_(None),
        _first.adversary_id != _second.adversary_id,
    )
    .order_by(col(SuspectPair.first_id), col(SuspectPair.second_id))
)
_COUNT: Final = _SUSPECTS.with_only_columns(func.count()).order_by(None)
_FORGET_ONE: Final = delete(BrowserArrival).where(
    col(BrowserArrival.browser) == bindparam("cookie"),
    col(BrowserArrival.account_id) == bindparam("account"),
)
_FORGET: Final = delete(BrowserArrival).where(
    col(BrowserArrival.at) < bindparam("before")
)


def note_browser(tx: Tx, browser: str, account_id: int, now: int) -> list[int]:
    """Note that an account arrived with a browser.

    Returns
    -------
    list of int
        Accounts of other adversaries that arrived with it, unless somebody said that
        they are other people. Each pair is kept.
    """
    for one in (NOBODY, account_id):
        tx.execute(_NOTE, {"cookie": browser, "account": one, "now": now})
    others = tx.scalars(_OTHERS, {"cookie": browser, "account": account_id})
    suspects = []
    for other in others:
        pair = {"first": min(other, account_id), "second": max(other, account_id)}
        if tx.scalar(_NOTE_PAIR, {**pair, "now": now}) is None:
            suspects.append(other)
    return suspects


def forget_arrival(tx: Tx, browser: str, account_id: int) -> None:
    """Forget that an account arrived with a browser; its pairs are kept."""
    tx.execute(_FORGET_ONE, {"cookie": browser, "account": account_id})


def dismiss_pair(tx: Tx, accounts: Sequence[int], now: int) -> bool:
    """Keep that two accounts are two people; False if nothing was open about them."""
    first, second = sorted(accounts)
    given = {"first": first, "second": second, "now": now}
    return tx.execute(_DISMISS, given).rowcount == 1


def suspects(tx: Tx) -> list[SuspectRow]:
    """Pairs of accounts that may be one person, and are not taken as one."""
    return [SuspectRow(*row) for row in tx.execute(_SUSPECTS)]


def count_suspects(tx: Tx) -> int:
    """How many such pairs there are."""
    return tx.scalar(_COUNT) or 0


def forget(tx: Tx, now: int, browsers_before: int) -> int:
    """Delete sessions that are over, and browsers not seen since a moment."""
    ended = tx.execute(_END_OVER, {"now": now}).rowcount
    return ended + tx.execute(_FORGET, {"before": browsers_before}).rowcount
