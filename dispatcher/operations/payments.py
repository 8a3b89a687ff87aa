"""Payments: listed, their history, owed, and decided where no rule settles them or no market pays."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from dispatcher.core.errors import Conflict, NotFound, Usage
from dispatcher.operations.workspace import Workspace
from dispatcher.store import Store, events, payables, payments
from dispatcher.store import money as rows
from dispatcher.store.money import PaymentRow
from dispatcher.store.payables import EventRow, ListedRow, OwedRow
from dispatcher.store.repeating import committed
from dispatcher.store.transaction import Tx

ACTOR: Final = "cli"
_BONUS: Final = ("due", "unknown", "paid")  # a bonus is asked for, or was
NAME: Final = re.compile(r"(reward|field)-([1-9][0-9]{0,17})")

Find = Callable[[Tx], Sequence[PaymentRow]]
Decision = Callable[..., None]
""":func:`approve`, :func:`refuse` or :func:`settle`."""


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


def list_owed(store: Store) -> list[OwedRow]:
    """What is owed to workers whom no market pays, by run and account."""
    with store.read() as tx:
        return payables.owed(tx)


def decide(
    workspace: Workspace, store: Store, find: Find, decision: Decision, because: str
) -> list[str]:
    """Decide about payments, with a reason; return their names.

    Parameters
    ----------
    workspace : Workspace
    store : Store
    find : callable
        Finds and locks them: :func:`named` or :func:`owed_to`.
    decision : callable
    because : str
        Kept with each payment.

    Raises
    ------
    Usage
        The reason is empty, or not one line.
    """
    if not because.strip() or not because.isprintable():
        raise Usage(
            "a decision about money needs a reason, one line of text",
            why="it is kept with the payment for whoever asks",
            fix='--because "payroll of March"',
        )

    def work(tx: Tx) -> list[str]:
        found = find(tx)
        decision(tx, found, at=workspace.clock(), because=because)
        return [row.name for row in found]

    return committed(store, work)


def owed_to(tx: Tx, account: str) -> list[PaymentRow]:
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


def named(
    tx: Tx, names: Sequence[str], *, together: Sequence[str] = ("unknown", "refused")
) -> list[PaymentRow]:
    """Lock the payments that are named.

    What goes to a market in one sum is decided in one: a field that is in one of the
    states ``together`` brings the others of its piece of work along.

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


def approve(tx: Tx, found: Sequence[PaymentRow], *, at: int, because: str) -> None:
    """Have markets pay, after a person has looked: as if they were never asked.

    Raises
    ------
    Conflict
        There is nothing that a market could be asked, or no money for it.
    """
    _check(found, "approved", ("held", "unknown", "refused"))
    names = {row.name for row in found}
    for row in found:
        if not _can_be_asked_for(tx, row, names):
            raise Conflict(
                f"{row.name} cannot be paid through {row.connector}",
                why="its piece of work is settled, or is not handed in there",
                fix="pay it at the market or elsewhere; then dispatcher payments settle",
            )
    fresh = _taken_again(tx, found, at)
    rows.move(tx, fresh, "due", now=at, actor=ACTOR, why=because)
    payments.forget_tries(tx, fresh)
    _note(tx, "payment.approved", found, at)


def refuse(tx: Tx, found: Sequence[PaymentRow], *, at: int, because: str) -> None:
    """Pay nothing for them; the money is room in the budget again.

    Raises
    ------
    Conflict
        One is paid, perhaps so, or nothing is promised for it.
    """
    _check(found, "refused", ("held", "unknown", "due"))
    for row in found:
        if row.piece is not None and row.state == "due" and row.attempts:
            raise Conflict(
                f"{row.connector} was asked for {row.name}, and may have paid it",
                why="the money would count as free, and be spent once more",
                fix="leave it to the daemon, which finds out or lets you decide",
            )
    rows.move(tx, found, "refused", now=at, actor=ACTOR, why=because)
    _note(tx, "payment.refused", found, at)


def settle(tx: Tx, found: Sequence[PaymentRow], *, at: int, because: str) -> None:
    """Book that a person has paid them: outside of the program, or at the market.

    Raises
    ------
    Conflict
        One is not owed, a market is about to be asked for it, or there is no money for
        one that was refused before.
    """
    _check(found, "settled", ("held", "unknown", "due", "refused"))
    for row in found:
        if row.piece is not None and row.state == "due":
            raise Conflict(
                f"{row.name} is about to be paid through {row.connector}",
                why="paid here as well, it would be paid twice",
                fix="leave it to the daemon",
            )
    fresh = _taken_again(tx, found, at)
    rows.move(tx, fresh, "paid", now=at, actor=ACTOR, why=because)
    _note(tx, "payment.settled", found, at)


def _can_be_asked_for(tx: Tx, row: PaymentRow, names: set[str]) -> bool:
    """Whether a market can be asked for what is named here.

    What the fields of a piece of work earn is one bonus, once, after its reward: one
    that was left out of it cannot be paid so any more.
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


def _taken_again(tx: Tx, found: Sequence[PaymentRow], at: int) -> list[PaymentRow]:
    """Take the money of those that were refused once more; as all are then.

    Raises
    ------
    Conflict
        There is none.
    """
    again = [row for row in found if row.state == "refused"]
    for row in again:
        if not rows.reserve_again(tx, row, now=at, actor=ACTOR):
            raise Conflict(
                f"there is no money for {row.name}",
                why="the budget of its run is used up",
                fix="dispatcher runs budget set RUN --cap ...",
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


def _note(tx: Tx, action: str, found: Sequence[PaymentRow], at: int) -> None:
    """Tell the audit log; the reason stands in the lines of money."""
    if found:
        names = " ".join(row.name for row in found[:20])
        detail: dict[str, object] = {"payments": len(found), "first": names}
        events.add_event(tx, at, ACTOR, action, detail)
