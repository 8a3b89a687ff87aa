"""Paying: settle the money that was reserved, and have markets pay.

Reads and writes ``payment`` and ``budget``; reads ``task``, ``answer`` and ``result``.
First the books: money for unanswered work is released; a field that was answered well
earns its bonus once enough answers to it came; a piece of work that was handed in at
its market is approved when that holds for all fields done in it. Whether a worker
agrees with the others changes nothing: it would reveal what others answered, and an
honest difference is work too. What no rule settles is held for a person; nothing is
ever rejected here.

Then the markets that pay: each payment is counted as tried before the call is made, and
a market is asked whether it has paid before it is asked to pay a bonus, or to pay
again. Where it does not know, the payment is ``unknown``, and a person looks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from connectors.base import (
    ConnectorError,
    Market,
    Misconfigured,
    Pay,
    Paying,
    PayKind,
    TryLater,
)
from dispatcher import money
from dispatcher.core import keys, meters
from dispatcher.core.circuits import FAULTS, Circuit, pause_of
from dispatcher.core.log import get_logger
from dispatcher.store import Clock, Store, Tx, lease
from dispatcher.store import money as purse
from dispatcher.store import payments as rows
from dispatcher.store.engine import committed
from dispatcher.store.money import PaymentRow
from dispatcher.store.payments import DuePayment, Work

MICRO: Final = 1_000_000
CALLS: Final = 20
"""Payments that one market is asked for in one turn, at most."""

SPARING: Final = 10
"""Pause between two rounds of bookkeeping, as a multiple of the last one's duration."""

LEASE: Final = 300 * MICRO
"""Lease of a payment that is being made."""

ASKED: Final = 6
"""How often a market that may not know yet is asked whether it has paid."""

ASKING: Final = 600 * MICRO
"""Between two of these questions."""

MISCONFIGURED: Final = 60 * MICRO
LONGEST: Final = 3600 * MICRO

AFTERWARDS: Final = "it was answered after its piece of work had been settled"
CAN_NOT_TELL: Final = "the market cannot tell whether it has paid"


@dataclass(frozen=True)
class _Outcome:
    """Result of asking for a payment: its next state, or when to try again."""

    due: DuePayment
    state: str = ""
    again: int = 0
    why: str | None = None
    nothing_done: bool = False


class PaymentBooks:
    """The stage that settles reserved money; one object lives as long as the daemon.

    Parameters
    ----------
    store : Store
    clock : Clock
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._again = 0
        self._late_after = 0  # last id of the scan for late work

    def tick(self, epoch: int) -> int:
        """Keep the books; return how many payments were moved.

        Raises
        ------
        StaleLease
            This daemon does not lead any more.
        """
        began = self._clock()
        if self._again - LOOK <= began < self._again:  # the clock may be set back
            return 0
        with self._store.read() as tx:
            if not purse.budgets(tx):
                return 0
        moved = committed(self._store, lambda tx: self._keep_books(tx, epoch))
        ended = self._clock()
        self._again = ended + min(LOOK, SPARING * (ended - began))
        return moved

    def _keep_books(self, tx: Tx, epoch: int) -> int:
        lease.check_epoch(tx, lease.SHARD, epoch)
        now = self._clock()
        free = purse.lock_accounts(tx, rows.returning(tx, now, BATCH))
        lost = rows.lost_fields(tx, BATCH)
        purse.move(tx, lost, "released", now=now)
        moved = len(lost)
        for piece, tries in rows.unsent_pieces(tx, BATCH):
            end_unsent(tx, piece, tries, now)
            moved += 1
        moved += take_up(tx, free, now)
        for piece in rows.ended_pieces(tx, now, BATCH):
            moved += settle(tx, piece, free, now)
        late, self._late_after = rows.late_fields(tx, now, self._late_after, BATCH)
        moved += sum(take_again(tx, row, now) for row in late)
        earned = rows.earned_fields(tx, now, now - PATIENCE, BATCH)
        purse.move(tx, earned, "due", now=now)
        stranded = rows.stranded_fields(tx, BATCH)
        purse.move(tx, stranded, "held", now=now, why=AFTERWARDS)
        return moved + len(earned) + len(stranded)


class MarketPayments:
    """The stage that has one market pay; one object lives as long as the daemon.

    Parameters
    ----------
    store : Store
    name : str
        The operator's name of the market.
    market : Market
        It pays (:class:`~connectors.base.Paying`).
    clock : Clock

    Raises
    ------
    TypeError
        The market does not pay.
    """

    def __init__(self, store: Store, name: str, market: Market, clock: Clock) -> None:
        if not isinstance(market, Paying):
            raise TypeError(f"{name} does not pay")
        self._store = store
        self._name = name
        self._market: Paying = market
        self._clock = clock
        self._circuit = Circuit(market.manifest.limits.per_minute, clock)
        self._log = get_logger("paying")

    def tick(self, epoch: int) -> int:
        """Have the market pay what is due; return how many payments moved.

        Raises
        ------
        StaleLease
            This daemon does not lead any more.
        """
        if self._circuit.is_open():
            return 0
        with self._store.read() as tx:
            if not purse.budgets(tx):
                return 0
        return self._pay(epoch)

    def _pay(self, epoch: int) -> int:
        """Claim, ask, settle."""
        claimed = committed(self._store, lambda tx: self._claim(tx, epoch))
        paid = 0
        for due in claimed:
            if self._circuit.is_open():
                break  # the others wait out their lease: nothing was tried of them
            if committed(self._store, partial(self._begin, due, epoch)):
                outcome = self._ask(due)
                paid += committed(self._store, partial(self._settle, outcome, epoch))
        return paid

    def _claim(self, tx: Tx, epoch: int) -> list[DuePayment]:
        """Lease the next payments of a market."""
        lease.check_epoch(tx, lease.SHARD, epoch)
        now = self._clock()
        room = self._circuit.room(CALLS)
        if not room:
            return []
        found = rows.due_rewards(tx, self._name, now, room)
        found += rows.due_bonuses(tx, self._name, now, room - len(found))
        for due in found:
            rows.put_off(tx, due, due.attempts, now + LEASE)
        self._circuit.spend(len(found))
        return found

    def _begin(self, due: DuePayment, epoch: int, tx: Tx) -> bool:
        """Count a try just before it is made; False if a person decided meanwhile."""
        lease.check_epoch(tx, lease.SHARD, epoch)
        found = purse.lock_payments(tx, due.kind, due.abouts).values()
        if [row.state for row in found] != ["due"] * len(due.abouts):
            return False
        rows.put_off(tx, due, due.attempts + 1, self._clock() + LEASE)
        return True

    def _ask(self, due: DuePayment) -> _Outcome:
        """Have one payment made; classify a failure by what to do next."""
        pay, now = self._payment(due), self._clock()
        try:
            with meters.calling(self._name):
                answered = _made(self._market, pay, again=due.attempts > 0)
        except Misconfigured as error:
            self._circuit.open_for(MISCONFIGURED)
            outcome = _Outcome(
                due, "", now + MISCONFIGURED, error.what, nothing_done=True
            )
        except TryLater as error:
            pause = pause_of(error)
            self._circuit.failed(pause)
            again = now + max(pause, _wait(due))
            outcome = _Outcome(due, "", again, error.what, error.certain)
        except ConnectorError as error:
            outcome = _Outcome(due, "held", why=error.what)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it is asked after
            self._circuit.failed(after=FAULTS)
            outcome = _Outcome(due, again=now + _wait(due), why=type(error).__name__)
        else:
            self._circuit.worked()
            if answered:
                return _Outcome(due, "paid")
            outcome = _unsure(due, now)
        self._log.warning(
            "not-paid",
            connector=self._name,
            kind=due.kind,
            piece=due.piece,
            why=outcome.why,
        )
        return outcome

    def _payment(self, due: DuePayment) -> Pay:
        kind = PayKind.REWARD if due.kind == "reward" else PayKind.BONUS
        offer = keys.offer_key(self._store.key("task-key"), due.piece)
        return Pay(
            key=f"{kind.value}-{offer}",
            kind=kind,
            submission=due.submission,
            reference=due.reference,
            account=due.account,
            reward=money.money_of(due.amount, due.currency),
        )

    def _settle(self, outcome: _Outcome, epoch: int, tx: Tx) -> int:
        """Store the outcome of a payment; return how many payments moved."""
        lease.check_epoch(tx, lease.SHARD, epoch)
        due, now = outcome.due, self._clock()
        if not outcome.state:
            tries = due.attempts + int(not outcome.nothing_done)
            rows.put_off(tx, due, tries, outcome.again, outcome.why or "")
            return 0
        found = purse.lock_payments(tx, due.kind, due.abouts).values()
        # It may have been held meanwhile: what the market has paid is paid all the same.
        asked = ("due", "held") if outcome.state == "paid" else ("due",)
        open_rows = [row for row in found if row.state in asked]
        purse.move(tx, open_rows, outcome.state, now=now, why=outcome.why)
        if due.kind == "reward" and outcome.state == "held":
            hold_fields(tx, due.piece, now)
        return len(open_rows)


def _made(market: Paying, pay: Pay, *, again: bool) -> bool:
    """Have a market pay, unless it has; False if it is not known whether it has."""
    bonus = pay.kind is PayKind.BONUS
    if bonus or again:
        # a first bonus too: a restored store has forgotten what it paid
        paid = _asked(market, pay)
        if paid:
            return True
        if paid is None and bonus and again:
            return False
    (market.bonus if bonus else market.approve)(pay)
    return True


def _asked(market: Paying, pay: Pay) -> bool | None:
    """Ask whether it was paid; a failed question has paid nothing."""
    try:
        return market.paid(pay)
    except TryLater as error:
        raise error.as_certain() from error


def _unsure(due: DuePayment, now: int) -> _Outcome:
    """Ask again later whether it was paid; in the end a person has to look."""
    if due.attempts < ASKED:
        return _Outcome(due, "", now + ASKING, CAN_NOT_TELL)
    return _Outcome(due, "unknown", why=CAN_NOT_TELL)


def _wait(due: DuePayment) -> int:
    return min(LONGEST, 2 * MICRO << min(due.attempts, 20))


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
    """Release the money of an offer that will not leave, unless it may have left."""
    if tries > 1:
        cause, why = rows.GIVEN_UP, GIVEN_UP
        purse.move(tx, [piece], "held", now=now, cause=cause, why=why)
    else:
        purse.move(tx, [piece], "released", now=now)


def take_up(tx: Tx, free: set[int], now: int) -> int:
    """Take up given-up work that is still at its market: one piece per account."""
    found = rows.found_pieces(tx, free, BATCH)
    first = list({row.account_id: row for row in reversed(found)}.values())
    purse.move(tx, first, "reserved", now=now, why=FOUND)
    rows.begin_anew(tx, first, now)
    free.difference_update(row.account_id for row in first)
    return len(first)


def settle(tx: Tx, piece: PaymentRow, free: set[int], now: int) -> int:
    """Settle a piece of work that has ended at its market, or postpone it."""
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
    """Take back a piece of work that was returned, unless its worker has other work.

    Where its worker has begun another one since, later answers belong to that one. What
    the market has paid is booked in any case: no answers are counted for it.
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
    """Move the reward to a state, and the bonus for what was answered well in it."""
    found = rows.fields_of(tx, piece.about)
    fields = [(row, valid) for row, valid in found if row.state == "reserved"]
    purse.move(tx, [piece], state, now=now)
    purse.move(tx, [row for row, valid in fields if valid], "due", now=now)
    purse.move(tx, [row for row, valid in fields if not valid], "released", now=now)
    return 1 + len(fields)


def _end_begun(tx: Tx, piece: PaymentRow, now: int) -> int:
    """Settle a piece of work that was not handed in and no longer can be.

    The market pays nothing for it. If it brought answers, a person decides whether the
    worker is paid elsewhere.
    """
    done = rows.work_in(tx, piece).valid if piece.state == "reserved" else 0
    if not done:
        return _end_unpaid(tx, piece, None, now)
    fields = "1 field" if done == 1 else f"{done} fields"
    why = f"it ended at the market after {fields} had been answered"
    purse.move(tx, [piece], "held", now=now, cause=rows.ENDED, why=why)
    return 1 + hold_fields(tx, piece.about, now)


def _end_unpaid(tx: Tx, piece: PaymentRow, why: str | None, now: int) -> int:
    """Release the reward's money; hold the bonus for what was answered all the same."""
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
    """Reserve money again for late work; without room in the budget it waits."""
    if not purse.reserve_again(tx, row, now=now, actor=ACTOR):
        rows.look_later(tx, [row], now + LOOK)
        return 0
    return 1
