"""Arrivals at the task page: accounts, and the sessions that they open.

A session is 256 random bits in a cookie; the store keeps their SHA-256 alone, so that a
copy of the store opens nothing. What ends a session ends it in every copy of its cookie,
and in every server of the store.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Final, Literal

from connectors.base import Arrival
from dispatcher.core.errors import Conflict, DispatcherError, PastLimit
from dispatcher.core.log import get_logger
from dispatcher.ledger import identity_changes
from dispatcher.stages.serving.values import IN, SECOND, Present
from dispatcher.store import Clock, Store, Tx, accounts, events, lease, serving
from dispatcher.store import arrivals as rows
from dispatcher.store.engine import committed
from dispatcher.store.serving import ServedAccount

TOUCH: Final = 60 * SECOND
"""A session's last use is kept to the minute: looking is no write every time."""

SKEW: Final = 60 * SECOND
"""How far the clocks of two servers of one store may differ."""

BROWSER_SECONDS: Final = 90 * 86_400
"""How long a browser is known again after an arrival."""

BECAUSE: Final = "they arrived at the task page with one browser"
"""Why accounts are merged, in the ledger."""

_SECRET_BYTES: Final = 32
_LONGEST: Final = 64  # characters; ours have 43


@dataclass(frozen=True)
class SessionTerms:
    """How long a worker stays signed in.

    Attributes
    ----------
    idle : float
        Seconds without a request after which a session is over, > 0.
    absolute : float
        Seconds after which it is over in any case, > 0.
    shared_browser : {"note", "refuse", "merge"}
        What to do when accounts of several workers arrive with one browser.
    withdrawing : Collection of str
        Connectors that can withdraw tasks, for merges of accounts.
    """

    idle: float = 1800.0
    absolute: float = 43_200.0
    shared_browser: Literal["note", "refuse", "merge"] = "note"
    withdrawing: Collection[str] = ()

    def __post_init__(self) -> None:
        for name in ("idle", "absolute"):
            if not getattr(self, name) > 0:
                msg = f"{name} is {getattr(self, name)}, expected seconds > 0"
                raise ValueError(msg)


class Turned(Enum):
    """Why a session was not opened: accounts of other workers came with this browser.

    ``ASKED``: it is for the visitor to say whether they are one person, who goes on as
    one worker. ``REFUSED``: they are not to share it.
    """

    ASKED = auto()
    REFUSED = auto()


class Arrivals:
    """Signs workers in, and identifies them by session.

    Parameters
    ----------
    store : Store
    clock : Clock
    terms : SessionTerms
    """

    def __init__(self, store: Store, clock: Clock, terms: SessionTerms) -> None:
        self._store = store
        self._clock = clock
        self._terms = terms
        self._browser_key = hmac.digest(store.key("task-key"), b"browser", "sha256")
        self._log = get_logger("arriving")

    def identify(
        self, connector: str, arrival: Arrival, *, invited: bool = True
    ) -> ServedAccount | None:
        """Account of a visitor who has proved to be its owner; it may be out.

        Parameters
        ----------
        connector : str
        arrival : Arrival
        invited : bool
            Whether the ticket is of a personal link of ours, which must be the valid
            one; otherwise the market alone says who comes.
        """
        with self._store.read() as tx:
            account = serving.account_named(tx, connector, arrival.account)
        if account is None:
            return None
        # Leaving ended the link, which still identifies its owner.
        valid = account.invite - int(account.state == "left")
        return None if invited and arrival.ticket != str(valid) else account

    def identified(self, account_id: int, invite: int) -> ServedAccount | None:
        """Account of a visitor who was identified a moment ago, if that is still right."""
        with self._store.read() as tx:
            account = serving.account(tx, account_id)
        right = account is not None and account.invite == invite and account.state in IN
        return account if right else None

    def open(
        self,
        account: ServedAccount,
        browser: str,
        *,
        until: int | None = None,
        instead: str = "",
        same_person: bool = False,
    ) -> str | Turned:
        """Open a session, and note with which browser.

        Parameters
        ----------
        account : ServedAccount
        browser : str
            Secret that the browser is known again by; the store keeps a keyed hash.
        until : int, optional
            Moment at which it ends, if that is sooner than its absolute limit.
        instead : str
            Secret of the session that the browser had before: it ends.
        same_person : bool
            Whether the visitor said that the other accounts of this browser are theirs.

        Returns
        -------
        str or Turned
            The session's secret, for its cookie.
        """
        noting = partial(self._note, account, browser)
        others = committed(self._store, noting)
        turned = self._turned(account, others, same_person=same_person)
        if turned is not None:
            # else a link that somebody else opens here would keep its worker out
            committed(self._store, partial(self._forget, account, browser))
            return turned
        now = self._clock()
        ends_at = now + round(self._terms.absolute * SECOND)
        if until is not None:
            ends_at = min(ends_at, until)
        secret = secrets.token_urlsafe(_SECRET_BYTES)

        def keep(tx: Tx) -> None:
            rows.end_session(tx, _digest(instead))
            rows.open_session(
                tx,
                _digest(secret),
                account.id,
                account.invite,
                now=now,
                ends_at=ends_at,
            )

        committed(self._store, keep)
        return secret

    def _note(self, account: ServedAccount, browser: str, tx: Tx) -> list[int]:
        """Note who arrives with which browser; return who else did, of other workers."""
        now = self._clock()
        others = rows.note_browser(tx, self._known(browser), account.id, now)
        if others:
            detail = {
                "accounts": sorted([account.id, *others]),
                "then": self._terms.shared_browser,
            }
            events.add_event(tx, now, "arriving", "browser.shared", detail)
        return others

    def _forget(self, account: ServedAccount, browser: str, tx: Tx) -> None:
        rows.forget_arrival(tx, self._known(browser), account.id)

    def _known(self, browser: str) -> str:
        secret = browser.encode("utf-8", "surrogatepass")
        return hmac.new(self._browser_key, secret, "sha256").hexdigest()

    def _turned(
        self, account: ServedAccount, others: Sequence[int], *, same_person: bool
    ) -> Turned | None:
        """Why an account may not come in beside those of other workers, if so."""
        if not others or self._terms.shared_browser == "note":
            return None
        if self._terms.shared_browser == "refuse":
            return Turned.REFUSED
        if not same_person:
            return Turned.ASKED
        try:
            committed(self._store, partial(self._merge, [account.id, *others]))
        except Conflict:  # meanwhile they are one
            return None
        except PastLimit as refused:  # what is past a limit only an operator accepts
            self._log.warning("not-merged", code=refused.code)
            return Turned.REFUSED
        return None

    def _merge(self, account_ids: Collection[int], tx: Tx) -> None:
        everybody = accounts.all_accounts(tx)
        identity_changes.merge(
            tx,
            [[one.text for one in everybody if one.id in account_ids]],
            because=BECAUSE,
            at=self._clock(),
            withdrawing=self._terms.withdrawing,
            actor="arriving",
        )

    def find(self, secret: str) -> Present | None:
        """Who is signed in with a session's secret, whatever it is; None: nobody.

        One read. The last use is written at most once a minute.
        """
        if not 0 < len(secret) <= _LONGEST:
            return None
        now, digest = self._clock(), _digest(secret)
        with self._store.read() as tx:
            found = rows.session(tx, digest)
        if found is None or found.state not in IN or found.invite != found.number:
            return None
        ends_at = min(found.ends_at, found.seen_at + round(self._terms.idle * SECOND))
        if not found.opened_at - SKEW <= now < ends_at:
            return None
        if now - found.seen_at >= min(TOUCH, self._terms.idle * SECOND / 2):
            with (
                suppress(DispatcherError),
                self._store.write() as tx,
            ):  # busy: next time
                rows.touch_worker_session(tx, digest, now)
        stopped = found.state == "stopped"
        return Present(found.account_id, found.invite, stopped, found.language)

    def choose_language(self, who: Present, code: str) -> None:
        """Keep the language in which a worker reads, for all their browsers."""
        choose = partial(self._choose, who.account_id, code)
        committed(self._store, choose)

    def _choose(self, account_id: int, code: str, tx: Tx) -> None:
        accounts.set_language(tx, account_id, code)

    def end(self, secret: str) -> None:
        """End the session of a secret."""
        committed(self._store, lambda tx: rows.end_session(tx, _digest(secret)))


def forget_over(store: Store, clock: Clock, epoch: int) -> int:
    """Delete sessions that are over, and browsers not seen for long. A tick.

    Raises
    ------
    StaleLease
        Another daemon leads.
    """
    with store.write() as tx:
        lease.check_epoch(tx, lease.SHARD, epoch)
        now = clock()
        return rows.forget(tx, now, now - BROWSER_SECONDS * SECOND)


def _digest(secret: str) -> str:
    text = f"worker\0session\0{secret}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
