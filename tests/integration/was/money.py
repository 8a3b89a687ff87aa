"""Budgets and payments: amounts taken and given back, each change kept as a line.

Amounts are whole millionths of a currency's unit. A budget's row is the lock of its
run's money: whoever takes holds it, so that no race overspends; it is locked after all
else that a transaction locks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from dispatcher.model import TRANSITIONS
from dispatcher.store.transaction import Tx

UNIT: Final = 1_000_000
"""Parts of a currency's unit; also parts of the whole that a fee is counted in."""

DAY: Final = 86_400 * 1_000_000
"""Microseconds of a day; allowances begin anew at midnight UTC."""

TAKES: Final = frozenset({"reserved", "due", "held", "unknown", "paid"})
"""States whose money is gone from the budget."""


class BudgetRow(NamedTuple):
    """Budget of a run; see :class:`dispatcher.model.Budget`."""

    run_id: int
    currency: str
    cap: int
    per_day: int | None
    reward: int
    bonus: int
    fee: int
    taken: int
    paid: int
    day: int
    day_taken: int

    def room(self, now: int) -> int:
        """What may still be taken; below 0 where the cap was lowered since."""
        room = self.cap - self.taken
        if self.per_day is not None:
            room = min(room, self.per_day - self.taken_today(now))
        return room

    def taken_today(self, now: int) -> int:
        """What was taken of the day's allowance."""
        # a clock that was put back gives no second allowance for the same day
        return self.day_taken if now // DAY <= self.day else 0

    def used_up(self, now: int) -> str:
        """What stops new work: ``cap``, ``day`` or, where nothing does, an empty word."""
        price = self.bonus or self.reward or 1
        if self.cap - self.taken < price:
            return "cap"
        return "day" if self.room(now) < price else ""

    def bonus_with_fee(self, *, at_market: bool) -> int:
        """What one field takes; a market that pays adds its fee."""
        return self.bonus + (self.fee_of(self.bonus) if at_market else 0)

    def fee_of(self, amount: int) -> int:
        """What a market adds to an amount, rounded up."""
        return -(-amount * self.fee // UNIT)


class PaymentRow(NamedTuple):
    """One payment; see :class:`dispatcher.model.Payment`."""

    kind: str
    about: int
    run_id: int
    account_id: int
    connector: str
    piece: int | None
    amount: int
    fee: int
    state: str = "reserved"
    day: int = 0
    attempts: int = 0
    due: int = 0
    reference: str | None = None
    submission: str | None = None
    progress: str | None = None
    cause: str | None = None
    why: str | None = None
    created_at: int = 0
    at: int = 0

    @property
    def total(self) -> int:
        """What it takes of the budget."""
        return self.amount + self.fee

    @property
    def name(self) -> str:
        """What people call it: ``field-12``."""
        return f"{self.kind}-{self.about}"


_BUDGET: Final = f"SELECT {', '.join(BudgetRow._fields)} FROM budget"
COLUMNS: Final = ", ".join(f"p.{name}" for name in PaymentRow._fields)


def budgets(tx: Tx) -> list[BudgetRow]:
    """All budgets, in order of their runs."""
    return [BudgetRow(*row) for row in tx.rows(f"{_BUDGET} ORDER BY run_id")]


def budget(tx: Tx, run_id: int) -> BudgetRow | None:
    """Budget of a run; None where it has none."""
    row = tx.one(f"{_BUDGET} WHERE run_id = ?", [run_id])
    return None if row is None else BudgetRow(*row)


def lock_budgets(tx: Tx, run_ids: Iterable[int]) -> dict[int, BudgetRow]:
    """Budgets of runs, locked in order until the end of the transaction."""
    found = tx.rows(
        f"{_BUDGET} WHERE run_id = ANY(?) ORDER BY run_id FOR UPDATE",
        [sorted(set(run_ids))],
    )
    return {row[0]: BudgetRow(*row) for row in found}


def put_budget(tx: Tx, row: BudgetRow, now: int) -> None:
    """Set what a budget allows; what was taken of it stays."""
    allows = ("currency", "cap", "per_day", "reward", "bonus", "fee")
    if budget(tx, row.run_id) is None:
        tx.insert_many("budget", (*BudgetRow._fields, "set_at"), [(*row, now)])
        return
    values = [getattr(row, name) for name in allows]
    tx.update_many(
        "budget", ["run_id"], [*allows, "set_at"], [(row.run_id, *values, now)]
    )


def has_payments(tx: Tx, run_id: int) -> bool:
    """Whether anything of a run was ever promised."""
    text = "SELECT 1 FROM payment WHERE run_id = ? LIMIT 1"
    return tx.one(text, [run_id]) is not None


def run_id_of(tx: Tx, name: str) -> int | None:
    """Id of a run by its name."""
    found = tx.value("SELECT id FROM run WHERE name = ?", [name])
    return None if found is None else int(found)


def run_names(tx: Tx) -> dict[int, str]:
    """Names of all runs by their ids."""
    return dict(tx.rows("SELECT id, name FROM run ORDER BY id"))


def no_budget(run_id: int, currency: str) -> BudgetRow:
    """Return a budget that allows nothing yet."""
    return BudgetRow(run_id, currency, 0, None, 0, 0, 0, 0, 0, 0, 0)


def lock_payments(tx: Tx, kind: str, abouts: Sequence[int]) -> dict[int, PaymentRow]:
    """Payments of one kind by what they are for, locked in order."""
    found = tx.rows(
        f"SELECT {COLUMNS} FROM payment p WHERE p.kind = ? AND p.about = ANY(?)"
        " ORDER BY p.about FOR UPDATE",
        [kind, sorted(set(abouts))],
    )
    return {row[1]: PaymentRow(*row) for row in found}


def lock_accounts(tx: Tx, account_ids: Iterable[int]) -> set[int]:
    """Lock accounts until the end of the transaction; return those that have no work.

    Whoever is to reserve a reward asks this first of all: nobody has two pieces of work
    open, or the same answers would count in both.
    """
    wanted = sorted(set(account_ids))
    if not wanted:
        return set()
    tx.rows(
        "SELECT id FROM account WHERE id = ANY(?) ORDER BY id FOR NO KEY UPDATE",
        [wanted],
    )
    # only now, and not in the same statement: it sees what the last holder wrote
    at_work = tx.rows(
        "SELECT account_id FROM payment WHERE account_id = ANY(?)"
        " AND kind = 'reward' AND state = 'reserved'",
        [wanted],
    )
    return {*wanted} - {row[0] for row in at_work}


def reserve(
    tx: Tx, held: BudgetRow, wanted: Sequence[PaymentRow], *, now: int, actor: str
) -> BudgetRow | None:
    """Take what payments need out of a locked budget: all of them, or nothing.

    Parameters
    ----------
    tx : Tx
    held : BudgetRow
        As it is now, locked.
    wanted : sequence of PaymentRow
        New ones, and ones that were released or refused and come back.
    now : int
        Microseconds UTC.
    actor : str

    Returns
    -------
    BudgetRow or None
        The budget after it; None where there is no room.
    """
    total = sum(row.total for row in wanted)
    if total > held.room(now):
        return None
    day = max(held.day, now // DAY)
    after = held._replace(
        taken=held.taken + total, day=day, day_taken=held.taken_today(now) + total
    )
    tx.execute(
        "UPDATE budget SET taken = ?, day = ?, day_taken = ? WHERE run_id = ?",
        [after.taken, after.day, after.day_taken, held.run_id],
    )
    fresh = [r._replace(day=day, created_at=now, at=now) for r in wanted if not r.at]
    tx.insert_many("payment", PaymentRow._fields, fresh)
    again = [row._replace(day=day, cause=None, why=None) for row in wanted if row.at]
    _write(tx, again, "reserved", now)
    _keep(tx, [*fresh, *again], "reserved", now, actor, None)
    return after


def reserve_again(tx: Tx, row: PaymentRow, *, now: int, actor: str) -> bool:
    """Take the money of one payment once more, if its run's budget has room for it."""
    held = lock_budgets(tx, [row.run_id])[row.run_id]
    return reserve(tx, held, [row], now=now, actor=actor) is not None


def move(
    tx: Tx,
    found: Sequence[PaymentRow],
    state: str,
    *,
    now: int,
    actor: str = "daemon",
    cause: str | None = None,
    why: str | None = None,
) -> None:
    """Move locked payments on; what takes no money any more is room again.

    ``reserved`` is reached so by what takes its money already; else that needs room, see
    :func:`reserve`.
    """
    if not found:
        return
    for row in found:
        assert state != "reserved" or row.state in TAKES, "reserve() takes the money"
        assert state in TRANSITIONS["payment"][row.state], (row.state, state)
    _write(tx, [row._replace(cause=cause, why=why) for row in found], state, now)
    _keep(tx, found, state, now, actor, why)
    back: Counter[tuple[int, int]] = Counter()
    paid: Counter[int] = Counter()
    for row in found:
        if state not in TAKES:
            back[row.run_id, row.day] += row.total
        elif state == "paid":
            paid[row.run_id] += row.total
    for (run_id, day), total in sorted(back.items()):
        tx.execute(
            "UPDATE budget SET taken = taken - ?, day_taken = day_taken -"
            " CASE WHEN day = ? THEN ? ELSE 0 END WHERE run_id = ?",
            [total, day, total, run_id],
        )
    for run_id, total in sorted(paid.items()):
        tx.execute(
            "UPDATE budget SET paid = paid + ? WHERE run_id = ?", [total, run_id]
        )


def _write(tx: Tx, found: Sequence[PaymentRow], state: str, now: int) -> None:
    tx.update_many(
        "payment",
        ["kind", "about"],
        ["state", "day", "cause", "why", "due", "at"],
        [(r.kind, r.about, state, r.day, r.cause, r.why, now, now) for r in found],
    )


def _keep(
    tx: Tx,
    found: Sequence[PaymentRow],
    state: str,
    now: int,
    actor: str,
    why: str | None,
) -> None:
    """Append a line for each change."""
    if not found:
        return
    first = tx.reserve("money_line", len(found))
    tx.insert_many(
        "money_line",
        ("id", "kind", "about", "run_id", "state", "amount", "fee", "at", "actor",
         "why"),
        [
            (first + i, r.kind, r.about, r.run_id, state, r.amount, r.fee, now, actor,
             why)
            for i, r in enumerate(found)
        ],
    )  # fmt: skip


# -- what is offered, and to whom --------------------------------------------------------


class FieldRow(NamedTuple):
    """A task that carries a field out, and the run that the field is of."""

    task_id: int
    run_id: int
    account_id: int
    connector: str
    outbox_id: int


def carried(tx: Tx, outbox_ids: Sequence[int]) -> list[FieldRow]:
    """Tasks that messages carry out."""
    found = tx.rows(
        "SELECT t.id, r.run_id, t.account_id, t.connector, t.outbox_id FROM task t"
        " JOIN entry e ON e.id = t.entry_id JOIN record r ON r.id = e.record_id"
        " WHERE t.outbox_id = ANY(?) AND t.state IN ('booked', 'sent', 'dead')"
        " ORDER BY t.id",
        [outbox_ids],
    )
    return [FieldRow(*row) for row in found]


def run_of_entry(tx: Tx, entry_id: int) -> int:
    """Run that a field is of."""
    return int(
        tx.value(
            "SELECT r.run_id FROM entry e JOIN record r ON r.id = e.record_id"
            " WHERE e.id = ?",
            [entry_id],
        )
    )


def piece_in_hand(tx: Tx, account_id: int) -> tuple[int, str] | None:
    """Piece of work that an account has open: its message and currency."""
    row = tx.one(
        "SELECT p.about, b.currency FROM payment p JOIN budget b ON b.run_id = p.run_id"
        " WHERE p.account_id = ? AND p.kind = 'reward' AND p.state = 'reserved'"
        " AND (p.progress IS NULL OR p.progress = 'open')"
        " ORDER BY p.about DESC LIMIT 1",
        [account_id],
    )
    return None if row is None else (int(row[0]), str(row[1]))


def put_into_piece(tx: Tx, row: PaymentRow, piece: int) -> None:
    """Have a field paid with another piece of work than it was first shown in."""
    tx.execute(
        "UPDATE payment SET piece = ? WHERE kind = ? AND about = ?",
        [piece, row.kind, row.about],
    )


def had_pieces(tx: Tx, account_id: int) -> bool:
    """Whether an account was ever offered a paid piece of work."""
    text = "SELECT 1 FROM payment WHERE account_id = ? AND kind = 'reward' LIMIT 1"
    return tx.one(text, [account_id]) is not None


def reward_of(tx: Tx, outbox_id: int) -> tuple[int, str] | None:
    """What a message promises for its piece of work: the amount and its currency."""
    row = tx.one(
        "SELECT p.amount, b.currency FROM payment p JOIN budget b ON b.run_id = p.run_id"
        " WHERE p.kind = 'reward' AND p.about = ?",
        [outbox_id],
    )
    return None if row is None else (int(row[0]), str(row[1]))


def note_sent(tx: Tx, references: Iterable[tuple[int, str]]) -> None:
    """Keep the market's own names of offers that have arrived there."""
    for outbox_id, reference in references:
        tx.execute(
            "UPDATE payment SET reference = ? WHERE kind = 'reward' AND about = ?",
            [reference, outbox_id],
        )
