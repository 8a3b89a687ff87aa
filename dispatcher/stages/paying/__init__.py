"""Paying: what came of the money that was reserved, and what markets are asked to pay.

Reads and writes ``payment`` and ``budget``; reads ``task``, ``answer`` and ``result``.
First the books: what came back unanswered gives its money back; a field that was answered
well earns its bonus once enough answers to it came; a piece of work that was handed in
at its market is approved when all fields done in it have come so far. Whether a worker
agrees with the others changes nothing: it would tell them what others answered, and an
honest difference is work too. What no rule settles is held for a person; nothing is ever
rejected here.

Then the markets that pay: each payment is counted as tried before the call is made, and
a market is asked whether it has paid before it is asked to pay a bonus, or to pay again.
Where it cannot tell, the payment is ``unknown``, and a person looks.
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
from dispatcher.stages.paying import pieces
from dispatcher.stages.paying.pieces import BATCH, LOOK, MICRO, PATIENCE
from dispatcher.store import Clock, Store, Tx, lease
from dispatcher.store import money as purse
from dispatcher.store import payments as rows
from dispatcher.store.payments import DueRow
from dispatcher.store.repeating import committed

CALLS: Final = 20
"""Payments that one market is asked for in one turn, at most."""

REST: Final = 10
"""After the books were kept they rest so many times as long as it took."""

LEASE: Final = 300 * MICRO
"""How long a payment that is being made is this daemon's."""

ASKED: Final = 6
"""How often a market is asked that may not know yet what it paid."""

ASKING: Final = 600 * MICRO
"""Between two of these questions."""

MENDING: Final = 60 * MICRO
LONGEST: Final = 3600 * MICRO

AFTERWARDS: Final = "it was answered after its piece of work had been settled"
CAN_NOT_TELL: Final = "the market cannot tell whether it has paid"


@dataclass(frozen=True)
class _Outcome:
    """What a market said to a payment: the state it goes to, or when to try again."""

    due: DueRow
    state: str = ""
    again: int = 0
    why: str | None = None
    nothing_done: bool = False


class PaymentBooks:
    """What became of the money that was reserved; one object lives as long as the daemon.

    Parameters
    ----------
    store : Store
    clock : Clock
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._again = 0
        self._late_after = 0  # how far the look at what came in late has come

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
        self._again = ended + min(LOOK, REST * (ended - began))
        return moved

    def _keep_books(self, tx: Tx, epoch: int) -> int:
        lease.check_epoch(tx, lease.SHARD, epoch)
        now = self._clock()
        free = purse.lock_accounts(tx, rows.returning(tx, now, BATCH))
        lost = rows.lost_fields(tx, BATCH)
        purse.move(tx, lost, "released", now=now)
        moved = len(lost)
        for piece, tries in rows.unsent_pieces(tx, BATCH):
            pieces.end_unsent(tx, piece, tries, now)
            moved += 1
        moved += pieces.take_up(tx, free, now)
        for piece in rows.ended_pieces(tx, now, BATCH):
            moved += pieces.settle(tx, piece, free, now)
        late, self._late_after = rows.late_fields(tx, now, self._late_after, BATCH)
        moved += sum(pieces.take_again(tx, row, now) for row in late)
        earned = rows.earned_fields(tx, now, now - PATIENCE, BATCH)
        purse.move(tx, earned, "due", now=now)
        stranded = rows.stranded_fields(tx, BATCH)
        purse.move(tx, stranded, "held", now=now, why=AFTERWARDS)
        return moved + len(earned) + len(stranded)


class MarketPayments:
    """What one market that pays is asked for; one object lives as long as the daemon.

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
        """Let the market pay what is due, if it is awake; how many payments moved.

        Raises
        ------
        StaleLease
            This daemon does not lead any more.
        """
        if self._circuit.rests():
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
            if self._circuit.rests():
                break  # the others wait out their lease: nothing was tried of them
            if committed(self._store, partial(self._begin, due, epoch)):
                outcome = self._ask(due)
                paid += committed(self._store, partial(self._settle, outcome, epoch))
        return paid

    def _claim(self, tx: Tx, epoch: int) -> list[DueRow]:
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

    def _begin(self, due: DueRow, epoch: int, tx: Tx) -> bool:
        """Count a try just before it is made; False if a person decided meanwhile."""
        lease.check_epoch(tx, lease.SHARD, epoch)
        found = purse.lock_payments(tx, due.kind, due.abouts).values()
        if [row.state for row in found] != ["due"] * len(due.abouts):
            return False
        rows.put_off(tx, due, due.attempts + 1, self._clock() + LEASE)
        return True

    def _ask(self, due: DueRow) -> _Outcome:
        """Have one payment made; class what goes wrong by what to do next."""
        pay, now = self._payment(due), self._clock()
        try:
            with meters.calling(self._name):
                said = _made(self._market, pay, again=due.attempts > 0)
        except Misconfigured as error:
            self._circuit.rest(MENDING)
            outcome = _Outcome(due, "", now + MENDING, error.what, nothing_done=True)
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
            if said:
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

    def _payment(self, due: DueRow) -> Pay:
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

    def _settle(self, said: _Outcome, epoch: int, tx: Tx) -> int:
        """Write down what a market said; return how many payments moved."""
        lease.check_epoch(tx, lease.SHARD, epoch)
        due, now = said.due, self._clock()
        if not said.state:
            tries = due.attempts + int(not said.nothing_done)
            rows.put_off(tx, due, tries, said.again, said.why or "")
            return 0
        found = purse.lock_payments(tx, due.kind, due.abouts).values()
        # It may have been held meanwhile: what the market has paid is paid all the same.
        asked = ("due", "held") if said.state == "paid" else ("due",)
        mine = [row for row in found if row.state in asked]
        purse.move(tx, mine, said.state, now=now, why=said.why)
        if due.kind == "reward" and said.state == "held":
            pieces.hold_fields(tx, due.piece, now)
        return len(mine)


def _made(market: Paying, pay: Pay, *, again: bool) -> bool:
    """Have a market pay, unless it has; False if nobody can tell whether it has."""
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
    """Ask whether it was paid; a question that fails has paid nothing."""
    try:
        return market.paid(pay)
    except TryLater as error:
        raise error.as_certain() from error


def _unsure(due: DueRow, now: int) -> _Outcome:
    """Ask a market later that cannot tell yet; at last a person has to look."""
    if due.attempts < ASKED:
        return _Outcome(due, "", now + ASKING, CAN_NOT_TELL)
    return _Outcome(due, "unknown", why=CAN_NOT_TELL)


def _wait(due: DueRow) -> int:
    return min(LONGEST, 2 * MICRO << min(due.attempts, 20))
