"""Pieces of work at markets that pay: gone on with, settled, ended, held.

Nobody has two of them open, or the same answers would count in both: what is to be gone
on with is of accounts that are locked and ``free`` of other work.
"""

from __future__ import annotations

from typing import Final

from dispatcher.store import Tx
from dispatcher.store import money as purse
from dispatcher.store import payments as rows
from dispatcher.store.money import PaymentRow
from dispatcher.store.payments import Work

MICRO: Final = 1_000_000
BATCH: Final = 500
"""Payments that one transaction moves, at most."""

PATIENCE: Final = 3 * 86_400 * MICRO
"""Nobody waits longer than this for their pay because others have not answered yet."""

LOOK: Final = 30 * MICRO
"""Between two looks at what has to wait."""

ACTOR: Final = "daemon"
NOTHING_VALID: Final = "it was handed in without one valid answer"
NOT_PAID: Final = "the market would not pay the piece of work that it was done in"
GIVEN_UP: Final = (
    "its message was given up after several tries; it may be at the market"
)
FOUND: Final = "its offer is at the market after all"
REJECTED: Final = "it was rejected at the market"


def end_unsent(tx: Tx, piece: PaymentRow, tries: int, now: int) -> None:
    """Give the money of an offer back that will not leave, unless it may have left."""
    if tries > 1:
        cause, why = rows.GIVEN_UP, GIVEN_UP
        purse.move(tx, [piece], "held", now=now, cause=cause, why=why)
    else:
        purse.move(tx, [piece], "released", now=now)


def take_up(tx: Tx, free: set[int], now: int) -> int:
    """Go on with work that was given up and is at its market: one piece an account."""
    found = rows.found_pieces(tx, free, BATCH)
    first = list({row.account_id: row for row in reversed(found)}.values())
    purse.move(tx, first, "reserved", now=now, why=FOUND)
    rows.begin_anew(tx, first, now)
    free.difference_update(row.account_id for row in first)
    return len(first)


def settle(tx: Tx, piece: PaymentRow, free: set[int], now: int) -> int:
    """Settle a piece of work that has ended at its market, or look again later."""
    if piece.state == "released":  # it was handed back, and came in after all
        if not _take_late(tx, piece, free, now):
            return 0
        piece = purse.lock_payments(tx, "reward", [piece.about])[piece.about]
    match piece.progress:
        case "approved":
            return _settle_both(tx, piece, "paid", now)
        case "rejected":
            return _end_unpaid(tx, piece, REJECTED, now)
        case "gone":
            return _end_begun(tx, piece, now)
        case _:
            return _judge(tx, piece, rows.work_in(tx, piece), now)


def _take_late(tx: Tx, piece: PaymentRow, free: set[int], now: int) -> int:
    """Take a piece of work again that was handed back, unless other work is in hand.

    Where its worker has begun another one since, what was done then was done in that.
    What the market has paid is booked whatever else is in hand: no answers are counted.
    """
    if piece.progress == "approved":
        return take_again(tx, piece, now)
    if piece.account_id not in free:
        rows.look_later(tx, [piece], now + LOOK)
        return 0
    if not take_again(tx, piece, now):
        return 0
    free.discard(piece.account_id)
    if rows.had_work_since(tx, piece):
        rows.begin_anew(tx, [piece], now)
    return 1


def _judge(tx: Tx, piece: PaymentRow, work: Work, now: int) -> int:
    """Decide about a piece of work that was handed in."""
    if work.live or (work.open and now - piece.at < PATIENCE):
        rows.look_later(tx, [piece], now + LOOK)
        return 0
    if not work.valid:
        if piece.state != "held":  # a person looks already
            purse.move(tx, [piece], "held", now=now, why=NOTHING_VALID)
            return 1
        rows.look_later(tx, [piece], now + LOOK)
        return 0
    return _settle_both(tx, piece, "due", now)


def _settle_both(tx: Tx, piece: PaymentRow, state: str, now: int) -> int:
    """Let the reward go on, and the bonus for what was answered well in it."""
    found = rows.fields_of(tx, piece.about)
    fields = [(row, valid) for row, valid in found if row.state == "reserved"]
    purse.move(tx, [piece], state, now=now)
    purse.move(tx, [row for row, valid in fields if valid], "due", now=now)
    purse.move(tx, [row for row, valid in fields if not valid], "released", now=now)
    return 1 + len(fields)


def _end_begun(tx: Tx, piece: PaymentRow, now: int) -> int:
    """Settle a piece of work that was not handed in, and cannot be any more.

    The market pays nothing for it. Where we have got answers out of it, a person says
    whether the worker is paid elsewhere.
    """
    done = rows.work_in(tx, piece).valid if piece.state == "reserved" else 0
    if not done:
        return _end_unpaid(tx, piece, None, now)
    fields = "1 field" if done == 1 else f"{done} fields"
    why = f"it ended at the market after {fields} had been answered"
    purse.move(tx, [piece], "held", now=now, cause=rows.ENDED, why=why)
    return 1 + hold_fields(tx, piece.about, now)


def _end_unpaid(tx: Tx, piece: PaymentRow, why: str | None, now: int) -> int:
    """Give the reward's money back; what was answered all the same is held."""
    handed_back = piece.state == "reserved" and why is None
    state = "released" if handed_back else "refused"
    purse.move(tx, [piece], state, now=now, why=why)
    return 1 + hold_fields(tx, piece.about, now)


def hold_fields(tx: Tx, piece: int, now: int) -> int:
    """Hold what was answered in a piece of work that is not paid."""
    answered = [row for row, valid in rows.fields_of(tx, piece) if valid]
    purse.move(tx, answered, "held", now=now, why=NOT_PAID)
    return len(answered)


def take_again(tx: Tx, row: PaymentRow, now: int) -> int:
    """Take the money once more for what came in late; without room it waits."""
    if not purse.reserve_again(tx, row, now=now, actor=ACTOR):
        rows.look_later(tx, [row], now + LOOK)
        return 0
    return 1
