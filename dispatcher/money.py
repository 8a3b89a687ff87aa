"""Budgets of runs: work leaves only while there is money for it, reserved beforehand.

The cost of work is reserved in the same transaction that assigns the work, and released
if nothing comes of it. So a cap is kept whatever happens after: a crash, two daemons,
ten workers at once. Without a budget nothing is counted, except for a market that pays
its workers itself: there nothing leaves without a budget.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from connectors.money import Money
from dispatcher.model import UNIT, Budget
from dispatcher.store import money as rows
from dispatcher.store.money import CarryingTask, PaymentRow
from dispatcher.store.payments import begin_anew
from dispatcher.store.tasks import entries_given
from dispatcher.store.transaction import Tx

LOOK: Final = 256
"""Planned fields read at once to find the run that pays an offer."""

ACTOR: Final = "daemon"

Ids = npt.NDArray[np.int64]


class Message(Protocol):
    """The parts of an outgoing message that matter here."""

    @property
    def id(self) -> int:
        """Its number."""

    @property
    def account_id(self) -> int:
        """Its recipient."""

    @property
    def kind(self) -> str:
        """``publish``, ``offer`` or ``withdraw``."""


@dataclass(frozen=True)
class Stays:
    """Messages that may not leave now.

    Attributes
    ----------
    waiting : frozenset of int
        There is no money for them, or the account has other work; retried later.
    idle : frozenset of int
        They offer work that no longer exists.
    """

    waiting: frozenset[int] = frozenset()
    idle: frozenset[int] = frozenset()


def money_of(parts: int, currency: str) -> Money:
    """Convert whole millionths to an amount: ``1200000`` is 1.20."""
    amount = Decimal(parts) / UNIT
    if parts % 10_000 == 0:  # as most currencies are written
        amount = amount.quantize(Decimal("0.01"))
    return Money(amount, currency)


def parts_of(money: Money) -> int:
    """Convert an amount to millionths."""
    parts = money.in_parts(UNIT)
    assert parts is not None, "an amount has at most six digits"
    return parts


def send_off(
    tx: Tx,
    connector: str,
    messages: Sequence[Message],
    *,
    pays: bool,
    currency: str = "",
    now: int,
) -> Stays:
    """Reserve money for messages about to leave; return those that must stay.

    Parameters
    ----------
    tx : Tx
        The transaction that claims the messages.
    connector : str
        A market.
    messages : sequence of Message
        For it.
    pays : bool
        Whether the market pays its workers itself.
    currency : str
        Its currency; empty for any.
    now : int
    """
    if not pays and not rows.budgets(tx):
        return Stays()
    if pays:
        offers = [one for one in messages if one.kind == "offer"]
        return _send_pieces(tx, connector, offers, currency, now)
    return _send_fields(tx, [one.id for one in messages if one.kind == "publish"], now)


def _send_pieces(
    tx: Tx, connector: str, offers: Sequence[Message], currency: str, now: int
) -> Stays:
    free = rows.lock_accounts(tx, [one.account_id for one in offers])
    fit = {row.run_id for row in rows.budgets(tx) if currency in ("", row.currency)}
    known = rows.lock_payments(tx, "reward", [one.id for one in offers])
    waiting, idle = set(), set()
    for offer in offers:
        before = known.get(offer.id)
        if before is not None and before.state in rows.TAKES:
            continue  # a promise is kept
        runs = _runs_for(tx, offer.account_id) if before is None else []
        if before is None and not runs:
            idle.add(offer.id)
            continue
        if offer.account_id not in free:
            waiting.add(offer.id)
            continue
        if before is not None:
            taken = _take_again(tx, before, now)
        else:
            fitting = [run_id for run_id in runs if run_id in fit]
            taken = _take_piece(tx, connector, offer, fitting, now)
        if taken:
            free.discard(offer.account_id)  # of two in one batch one waits
        else:
            waiting.add(offer.id)
    return Stays(frozenset(waiting), frozenset(idle))


def _runs_for(tx: Tx, account_id: int) -> list[int]:
    """Return the runs of the fields that wait for an account, most fields first.

    The plan still contains what it was already given, and what others have settled
    meanwhile: no piece of work is paid for these.
    """
    planned = np.frombuffer(rows.planned_for(tx, account_id), "<i8")
    given = np.array(entries_given(tx, account_id), np.int64)
    left = planned[~np.isin(planned, given)]
    for first in range(0, len(left), LOOK):
        counts = rows.open_runs_of(tx, left[first : first + LOOK].tolist())
        if counts:
            return sorted(counts, key=lambda run_id: (-counts[run_id], run_id))
    return []


def _take_again(tx: Tx, before: PaymentRow, now: int) -> bool:
    if not rows.reserve_again(tx, before, now=now, actor=ACTOR):
        return False
    begin_anew(tx, [before], now)
    return True


def _take_piece(
    tx: Tx, connector: str, offer: Message, runs: Sequence[int], now: int
) -> bool:
    """Reserve the reward in the first budget with room for it and for a field."""
    held = rows.lock_budgets(tx, runs)
    for budget in (held[run_id] for run_id in runs if run_id in held):
        wanted = PaymentRow(
            kind="reward",
            about=offer.id,
            run_id=budget.run_id,
            account_id=offer.account_id,
            connector=connector,
            piece=offer.id,
            amount=budget.reward,
            fee=budget.fee_of(budget.reward),
        )
        least = wanted.total + budget.bonus_with_fee(at_market=True)
        if not budget.reward or budget.room(now) < least:
            continue
        if rows.reserve(tx, budget, [wanted], now=now, actor=ACTOR) is not None:
            return True
    return False


class Allowance:
    """How many fields the budgets still allow for push connectors.

    It is read without a lock: :func:`book_fields` reserves the money and detects a
    concurrent reservation.

    Parameters
    ----------
    tx : Tx
    now : int
        Microseconds UTC.
    """

    def __init__(self, tx: Tx, now: int) -> None:
        self._tx = tx
        self._left = {
            row.run_id: max(0, row.room(now)) // row.bonus
            for row in rows.budgets(tx)
            if row.bonus
        }

    def takes(self, entries: Ids) -> npt.NDArray[np.bool_]:
        """Flag the entries that there is money for, and count them as reserved."""
        allowed = np.ones(len(entries), np.bool_)
        if not self._left or not len(entries):
            return allowed
        runs = rows.run_of_each(self._tx, entries.tolist())
        for place, entry_id in enumerate(entries.tolist()):
            left = self._left.get(runs[entry_id])
            if left is not None:
                allowed[place] = left > 0
                self._left[runs[entry_id]] = max(0, left - 1)
        return allowed


def book_fields(tx: Tx, tasks: range, free: frozenset[str], now: int) -> bool:
    """Reserve what fields earn that this transaction booked for push connectors.

    Parameters
    ----------
    tx : Tx
    tasks : range
        Ids of the new tasks.
    free : frozenset of str
        Connectors without pay: feeds.
    now : int

    Returns
    -------
    bool
        False: the money is gone, and the transaction must not commit.
    """
    if not tasks or not rows.budgets(tx):
        return True
    booked = [one for one in rows.booked(tx, tasks) if one.connector not in free]
    held = rows.lock_budgets(tx, {one.run_id for one in booked})
    wanted = _unpaid(booked, {}, held)
    return all(
        rows.reserve(tx, held[run_id], mine, now=now, actor=ACTOR) is not None
        for run_id, mine in wanted.items()
    )


def _send_fields(tx: Tx, outbox_ids: Sequence[int], now: int) -> Stays:
    """Reserve what the fields of messages earn: all of a message, or none.

    The money was reserved when they were booked, except if it was released since, or if
    they were booked before there was a budget.
    """
    carried: dict[int, list[CarryingTask]] = defaultdict(list)
    for task in rows.carried(tx, outbox_ids):
        carried[task.outbox_id].append(task)
    tasks = [task for own in carried.values() for task in own]
    known = rows.lock_payments(tx, "field", [task.task_id for task in tasks])
    held = rows.lock_budgets(tx, {task.run_id for task in tasks})
    waiting = set()
    for outbox_id, own in carried.items():
        wanted = _unpaid(own, known, held)
        left = {run_id: held[run_id].room(now) for run_id in wanted}
        if any(sum(p.total for p in w) > left[run] for run, w in wanted.items()):
            waiting.add(outbox_id)
            continue
        for run_id, mine in wanted.items():
            after = rows.reserve(tx, held[run_id], mine, now=now, actor=ACTOR)
            assert after is not None, "there was room under the lock"
            held[run_id] = after
    return Stays(frozenset(waiting))


def _unpaid(
    tasks: Iterable[CarryingTask],
    known: dict[int, PaymentRow],
    held: dict[int, Budget],
) -> dict[int, list[PaymentRow]]:
    """Return what to reserve for tasks, by run, without earlier reservations."""
    wanted: dict[int, list[PaymentRow]] = defaultdict(list)
    for task in tasks:
        budget, before = held.get(task.run_id), known.get(task.task_id)
        taken = before is not None and before.state in rows.TAKES
        if budget is None or taken or not (before or budget.bonus):
            continue
        wanted[task.run_id].append(before or _bonus(budget, task, None))
    return wanted


def _bonus(budget: Budget, task: CarryingTask, piece: int | None) -> PaymentRow:
    """Return what one field earns, with the fee of a market that pays it."""
    total = budget.bonus_with_fee(at_market=piece is not None)
    return PaymentRow(
        kind="field",
        about=task.task_id,
        run_id=budget.run_id,
        account_id=task.account_id,
        connector=task.connector,
        piece=piece,
        amount=budget.bonus,
        fee=total - budget.bonus,
    )


def hand_out(tx: Tx, task: CarryingTask, now: int) -> bool:
    """Reserve what a field earns that our page is about to show.

    Parameters
    ----------
    tx : Tx
        The transaction that books the showing.
    task : CarryingTask
        ``outbox_id`` is ignored.
    now : int

    Returns
    -------
    bool
        False: there is no money for it, and it must not be shown.
    """
    budgets = rows.budgets(tx)
    if not budgets:
        return True
    piece = rows.piece_in_hand(tx, task.account_id)
    if piece is None and rows.had_pieces(tx, task.account_id):
        return False  # it was handed in a moment ago
    budget = next((row for row in budgets if row.run_id == task.run_id), None)
    if budget is None or not budget.bonus:
        return True
    if piece is not None and piece[1] != budget.currency:
        return False  # one piece of work is paid in one currency
    held = rows.lock_budgets(tx, [task.run_id]).get(task.run_id)
    if held is None or not held.bonus:
        return True
    wanted = _bonus(held, task, None if piece is None else piece[0])
    return rows.reserve(tx, held, [wanted], now=now, actor=ACTOR) is not None


def hand_out_again(tx: Tx, task_id: int, account_id: int, now: int) -> bool:
    """Reserve again what a field earns that is shown once more, if it was released.

    It is paid with its worker's currently open piece of work.

    Returns
    -------
    bool
        False: there is no money for it, and it must not be shown.
    """
    if not rows.budgets(tx):
        return True
    piece = rows.piece_in_hand(tx, account_id)
    if piece is None and rows.had_pieces(tx, account_id):
        return False
    before = rows.lock_payments(tx, "field", [task_id]).get(task_id)
    if before is None:
        return True
    held = rows.lock_budgets(tx, [before.run_id])[before.run_id]
    if piece is not None and piece[1] != held.currency:
        return False
    if piece is not None and piece[0] != before.piece:
        rows.put_into_piece(tx, before, piece[0])
    taken = before.state in rows.TAKES
    return taken or rows.reserve(tx, held, [before], now=now, actor=ACTOR) is not None


def shut_runs(tx: Tx, account_id: int, now: int) -> frozenset[int] | None:
    """Return the runs of which an account can be shown nothing, for lack of money.

    Returns
    -------
    frozenset of int or None
        None: it can be shown nothing at all. It works for a market that pays and has no
        open piece of work: nobody would pay for its work now. The next offer has its
        own reward.
    """
    budgets = rows.budgets(tx)
    if not budgets:
        return frozenset()
    piece = rows.piece_in_hand(tx, account_id)
    if piece is None and rows.had_pieces(tx, account_id):
        return None
    return frozenset(
        row.run_id
        for row in budgets
        if row.bonus
        and (
            row.room(now) < row.bonus_with_fee(at_market=piece is not None)
            or (piece is not None and piece[1] != row.currency)
        )
    )
