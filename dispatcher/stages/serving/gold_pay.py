"""Gold is paid as the real field that it stands for: else pay would tell which it was.

Its payment is about the made-up showing, whose number no task has. The paying stage
looks at tasks alone; what becomes of these payments is decided here.
"""

from __future__ import annotations

from dispatcher import money
from dispatcher.store import Tx, probes
from dispatcher.store import money as purse
from dispatcher.store.serving import AccountRow


def earns(tx: Tx, task_id: int, account: AccountRow, run_id: int, now: int) -> bool:
    """Take what gold earns out of a run's budget; False: it may not be shown.

    A worker whom a market pays for a piece of work is asked gold only where fields earn
    nothing beside it: a market's bonus is for what was answered in earnest.
    """
    budget = purse.budget(tx, run_id)
    if budget is None or not budget.bonus:
        return True
    if purse.piece_in_hand(tx, account.id) is not None:
        return False
    row = purse.FieldRow(task_id, run_id, account.id, account.connector, 0)
    return money.hand_out(tx, row, now)


def settle(tx: Tx, task_id: int, state: str, now: int) -> None:
    """Let gold that was answered be owed, and give back what was not.

    One that is answered late, after its money was given back, takes it again, if there
    is any.
    """
    paid = purse.lock_payments(tx, "field", [task_id]).get(task_id)
    if paid is None:
        return
    if state == "answered" and paid.state == "released":
        if not purse.reserve_again(tx, paid, now=now, actor=money.ACTOR):
            return
        paid = purse.lock_payments(tx, "field", [task_id])[task_id]
    if paid.state == "reserved":
        after = "due" if state == "answered" else "released"
        purse.move(tx, [paid], after, now=now)


def give_back(tx: Tx, since: int, now: int) -> None:
    """Give back what was taken for gold that nobody answered since a moment."""
    lapsed = probes.unpaid_lapsed(tx, since)
    found = purse.lock_payments(tx, "field", lapsed).values() if lapsed else ()
    purse.move(
        tx, [row for row in found if row.state == "reserved"], "released", now=now
    )
