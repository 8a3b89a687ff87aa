"""Payments: list them, and decide those that no rule settles or no market pays."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from dispatcher import money
from dispatcher.core.errors import Conflict, NotFound, Usage
from dispatcher.operations.workspace import Workspace
from dispatcher.store import Store, events, payables, payments
from dispatcher.store import money as rows
from dispatcher.store.engine import committed
from dispatcher.store.money import PaymentRow
from dispatcher.store.payables import EventRow, ListedRow, OwedRow
from dispatcher.store.transaction import Tx

_BONUS: Final = ("due", "unknown", "paid")  # a bonus is asked for, or was
NAME: Final = re.compile(r"(reward|field)-([1-9][0-9]{0,17})")


def amount_of(row: OwedRow | ListedRow | EventRow) -> str:
    """The amount of a row as exact text, with its currency."""
    return str(money.money_of(row.amount, row.currency))


def list_payments(
    store: Store,
    states: Sequence[str],
    *,
    run: str | None = None,
    connector: str | None = None,
    limit: int = 100,
) -> Sequence[ListedRow]:
    """Payments in some states, the latest change first."""
    with store.read() as tx:
        return payables.listed(tx, states, run, connector, limit)


def list_payments_of(
    store: Store, account_id: int, states: Sequence[str], *, limit: int
) -> Sequence[ListedRow]:
    """Payments of one account in some states, the latest change first."""
    with store.read() as tx:
        return payables.listed_of(tx, states, account_id, limit)


def history(store: Store, name: str) -> Sequence[EventRow]:
    """Every change of one payment, with who made it, the first one first.

    Raises
    ------
    Usage, NotFound
        The name is none, or there is no such payment.
    """
    kind, about = _parsed(name)
    with store.read() as tx:
        found = payables.events(tx, kind, about)
    if not found:
        raise _no_payment(name)
    return found


def list_owed(store: Store) -> Sequence[OwedRow]:
    """List what is owed to workers whom no market pays, by run and account."""
    with store.read() as tx:
        return payables.owed(tx)


def approve(
    workspace: Workspace, store: Store, names: Sequence[str], because: str
) -> list[str]:
    """Have markets pay after a review, as if they had never been asked.

    Parameters
    ----------
    workspace : Workspace
    store : Store
    names : sequence of str
        Such as ``reward-12``.
    because : str
        Kept with each payment.

    Returns
    -------
    list of str
        Names of all payments decided.

    Raises
    ------
    Usage
        A name is invalid, or the reason is empty or not one line.
    NotFound
        There is no such payment.
    Conflict
        A market cannot be asked to pay one, or there is no money for it.
    """
    return _decide(workspace, store, lambda tx: _named(tx, names), _approve, because)


def refuse(
    workspace: Workspace, store: Store, names: Sequence[str], because: str
) -> list[str]:
    """Pay nothing for work; its money returns to the budget.

    Raises
    ------
    Usage, NotFound
        As :func:`approve`.
    Conflict
        One is, or may be, paid; or nothing is promised for it.
    """
    return _decide(workspace, store, lambda tx: _named(tx, names), _refuse, because)


def settle(
    workspace: Workspace,
    store: Store,
    names: Sequence[str],
    because: str,
    *,
    account: str | None = None,
) -> list[str]:
    """Record that a person has paid them: outside of the program, or at the market.

    Parameters
    ----------
    workspace : Workspace
    store : Store
    names : sequence of str
    because : str
        Kept with each payment.
    account : str, optional
        All that this worker (CONNECTOR/NAME) is owed, instead of ``names``.

    Raises
    ------
    Usage, NotFound
        As :func:`approve`; or nothing is owed to the account.
    Conflict
        One is not owed, a market is about to be asked for it, or there is no money for
        one that was refused before.
    """

    def find(tx: Tx) -> list[PaymentRow]:
        if account is None:
            return _named(tx, names, together=["unknown"])
        return _owed_to(tx, account)

    return _decide(workspace, store, find, _settle, because)


@dataclass(frozen=True)
class _Decision:
    """Who decides, when and why."""

    actor: str
    at: int
    because: str


def _decide(
    workspace: Workspace,
    store: Store,
    find: Callable[[Tx], list[PaymentRow]],
    decide: Callable[[Tx, Sequence[PaymentRow], _Decision], None],
    because: str,
) -> list[str]:
    if not because.strip() or not because.isprintable():
        raise Usage(
            "a decision about money needs a reason, one line of text",
            why="it is kept with the payment for whoever asks",
            fix='--reason "payroll of March"',
        )

    def work(tx: Tx) -> list[str]:
        found = find(tx)
        decide(tx, found, _Decision(workspace.actor, workspace.clock(), because))
        return [row.name for row in found]

    return committed(store, work)


def _owed_to(tx: Tx, account: str) -> list[PaymentRow]:
    """Lock all that one worker is owed.

    Raises
    ------
    NotFound
        Nothing.
    """
    connector, _, name = account.partition("/")
    found = payables.owed_to(tx, connector, name)
    if not found:
        raise NotFound(
            f"{account} is owed nothing",
            why="no field of this account waits to be paid by you",
            fix="dispatcher payments owed",
        )
    return found


def _named(
    tx: Tx, names: Sequence[str], *, together: Sequence[str] = ("unknown", "refused")
) -> list[PaymentRow]:
    """Lock the payments that are named.

    What a market pays in one sum is decided together: a field in one of the states
    ``together`` includes the others of its piece of work.

    Raises
    ------
    Usage, NotFound
        A name is none, or there is no such payment.
    """
    wanted: dict[str, list[int]] = {"reward": [], "field": []}
    for name in names:
        kind, about = _parsed(name)
        wanted[kind].append(about)
    found = [
        row
        for kind, abouts in wanted.items()
        for row in rows.lock_payments(tx, kind, abouts).values()
    ]
    missing = {*names} - {row.name for row in found}
    if missing:
        raise _no_payment(sorted(missing)[0])
    beside = [
        one
        for state in together
        for one in payments.fields_in_state(
            tx,
            sorted({r.piece for r in found if r.piece and r.state == state}),
            state,
        )
        if any(r.kind == "field" and r.piece == one.piece for r in found)
    ]
    return list({row.name: row for row in [*found, *beside]}.values())


def _parsed(name: str) -> tuple[str, int]:
    """Kind and number of a payment's name."""
    match = NAME.fullmatch(name)
    if match is None:
        raise Usage(
            f"{name[:40]!r} is no payment",
            why="a payment is called reward-N or field-N",
            fix="dispatcher payments list",
        )
    return match[1], int(match[2])


def _no_payment(name: str) -> NotFound:
    return NotFound(
        f"there is no payment {name}",
        why="nothing of this name was ever promised in this store",
        fix="dispatcher payments list",
    )


def _approve(tx: Tx, found: Sequence[PaymentRow], by: _Decision) -> None:
    _check(found, "approved", ("held", "unknown", "refused"))
    names = {row.name for row in found}
    for row in found:
        if not _can_be_asked_for(tx, row, names):
            raise Conflict(
                f"{row.name} cannot be paid through {row.connector}",
                why="its piece of work is settled, or is not handed in there",
                fix="pay it at the market or elsewhere; then dispatcher payments settle",
            )
    fresh = _taken_again(tx, found, by)
    rows.move(tx, fresh, "due", now=by.at, actor=by.actor, why=by.because)
    payments.forget_tries(tx, fresh)
    _note(tx, "payment.approved", found, by)


def _refuse(tx: Tx, found: Sequence[PaymentRow], by: _Decision) -> None:
    _check(found, "refused", ("held", "unknown", "due"))
    for row in found:
        if row.piece is not None and row.state == "due" and row.attempts:
            raise Conflict(
                f"{row.connector} was asked for {row.name}, and may have paid it",
                why="the money would count as free, and be spent once more",
                fix="leave it to the daemon, which finds out or lets you decide",
            )
    rows.move(tx, found, "refused", now=by.at, actor=by.actor, why=by.because)
    _note(tx, "payment.refused", found, by)


def _settle(tx: Tx, found: Sequence[PaymentRow], by: _Decision) -> None:
    _check(found, "settled", ("held", "unknown", "due", "refused"))
    for row in found:
        if row.piece is not None and row.state == "due":
            raise Conflict(
                f"{row.name} is about to be paid through {row.connector}",
                why="paid here as well, it would be paid twice",
                fix="leave it to the daemon",
            )
    fresh = _taken_again(tx, found, by)
    rows.move(tx, fresh, "paid", now=by.at, actor=by.actor, why=by.because)
    _note(tx, "payment.settled", found, by)


def _can_be_asked_for(tx: Tx, row: PaymentRow, names: set[str]) -> bool:
    """Whether a market can be asked to pay what is named here.

    The fields of a piece of work earn one bonus, paid once, after its reward: a field
    that was left out can no longer be paid that way.
    """
    if row.kind == "reward":
        return bool(row.submission and row.reference) and row.progress != "gone"
    if row.state == "held":
        return False
    beside = [] if row.piece is None else payments.of_piece(tx, row.piece)
    return all(
        state in ("due", "paid") if kind == "reward" else state not in _BONUS
        for kind, about, state in beside
        if f"{kind}-{about}" not in names
    )


def _taken_again(
    tx: Tx, found: Sequence[PaymentRow], by: _Decision
) -> list[PaymentRow]:
    """Reserve money again for refused payments; return them all with their new state.

    Raises
    ------
    Conflict
        There is none.
    """
    again = [row for row in found if row.state == "refused"]
    for row in again:
        if not rows.reserve_again(tx, row, now=by.at, actor=by.actor):
            raise Conflict(
                f"there is no money for {row.name}",
                why="the budget of its run is used up",
                fix="dispatcher runs budget RUN --cap ...",
            )
    others = [row for row in found if row.state != "refused"]
    return [*(row._replace(state="reserved") for row in again), *others]


def _check(found: Sequence[PaymentRow], verb: str, states: Sequence[str]) -> None:
    for row in found:
        if row.state not in states:
            raise Conflict(
                f"{row.name} is {row.state}",
                why=f"only what is {', '.join(states)} can be {verb}",
                fix="dispatcher payments list",
            )


def _note(tx: Tx, action: str, found: Sequence[PaymentRow], by: _Decision) -> None:
    """Record it as an event; the reason is kept with each payment."""
    if found:
        names = " ".join(row.name for row in found[:20])
        detail: dict[str, object] = {"payments": len(found), "first": names}
        events.add_event(tx, by.at, by.actor, action, detail)
