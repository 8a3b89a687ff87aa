"""What a person decides about payments that no rule settles, or that no market makes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from dispatcher.errors import Conflict, NotFound, Usage
from dispatcher.store import membership, payments
from dispatcher.store import money as rows
from dispatcher.store.money import PaymentRow
from dispatcher.store.transaction import Tx

ACTOR: Final = "cli"
NAME: Final = re.compile(r"(reward|field)-([1-9][0-9]{0,17})")


def named(tx: Tx, names: Sequence[str]) -> list[PaymentRow]:
    """Lock the payments that are named.

    What went to a market in one sum is decided in one: a field whose bonus is unknown
    brings the others of its piece of work along.

    Raises
    ------
    Usage, NotFound
        A name is none, or there is no such payment.
    """
    wanted: dict[str, list[int]] = {"reward": [], "field": []}
    for name in names:
        match = NAME.fullmatch(name)
        if match is None:
            raise Usage(
                f"{name[:40]!r} is no payment",
                why="a payment is called reward-N or field-N",
                fix="dispatcher payments list",
            )
        wanted[match[1]].append(int(match[2]))
    found = [
        row
        for kind, abouts in wanted.items()
        for row in rows.lock_payments(tx, kind, abouts).values()
    ]
    missing = {*names} - {row.name for row in found}
    if missing:
        raise NotFound(
            f"there is no payment {sorted(missing)[0]}",
            why="nothing of this name was ever promised in this store",
            fix="dispatcher payments list",
        )
    asked = ("unknown", "refused")
    beside = [
        one
        for state in asked
        for one in payments.fields_in_state(
            tx,
            sorted({r.piece for r in found if r.piece and r.state == state}),
            state,
        )
        if any(r.kind == "field" and r.piece == one.piece for r in found)
    ]
    return list({row.name: row for row in [*found, *beside]}.values())


def approve(tx: Tx, found: Sequence[PaymentRow], *, at: int, because: str) -> None:
    """Have markets pay, after a person has looked: as if they were never asked.

    Raises
    ------
    Conflict
        There is nothing that a market could be asked, or no money for it.
    """
    _check(found, "approved", ("held", "unknown", "refused"))
    for row in found:
        late = row.kind == "field" and row.state == "held"
        untold = row.kind == "reward" and (row.submission is None or not row.reference)
        if late or untold:
            raise Conflict(
                f"{row.name} can not be paid through {row.connector}",
                why="its piece of work is settled, or was never handed in there",
                fix="pay it at the market or elsewhere; then dispatcher payments settle",
            )
    again = [row for row in found if row.state == "refused"]
    for row in again:
        held = rows.lock_budgets(tx, [row.run_id])[row.run_id]
        if rows.reserve(tx, held, [row], now=at, actor=ACTOR) is None:
            raise Conflict(
                f"there is no money for {row.name}",
                why="the budget of its run is used up",
                fix="dispatcher runs budget set RUN --cap ...",
            )
    fresh = [*(r._replace(state="reserved") for r in again)]
    fresh += [row for row in found if row.state != "refused"]
    rows.move(tx, fresh, "due", now=at, actor=ACTOR, why=because)
    payments.forget_tries(tx, fresh)
    _note(tx, "payment.approved", found, at)


def refuse(tx: Tx, found: Sequence[PaymentRow], *, at: int, because: str) -> None:
    """Pay nothing for them; the money is room in the budget again.

    Raises
    ------
    Conflict
        One is paid, or nothing is promised for it.
    """
    _check(found, "refused", ("held", "unknown", "due"))
    rows.move(tx, found, "refused", now=at, actor=ACTOR, why=because)
    _note(tx, "payment.refused", found, at)


def settle(tx: Tx, found: Sequence[PaymentRow], *, at: int, because: str) -> None:
    """Book that a person has paid them: outside of the program, or at the market.

    Raises
    ------
    Conflict
        One is not owed, or a market is about to be asked for it.
    """
    _check(found, "settled", ("held", "unknown", "due"))
    for row in found:
        if row.piece is not None and row.state == "due":
            raise Conflict(
                f"{row.name} is about to be paid through {row.connector}",
                why="paid here as well, it would be paid twice",
                fix="leave it to the daemon",
            )
    rows.move(tx, found, "paid", now=at, actor=ACTOR, why=because)
    _note(tx, "payment.settled", found, at)


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
        membership.add_event(tx, at, ACTOR, action, detail)
