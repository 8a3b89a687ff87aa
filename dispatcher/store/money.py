"""Budgets and payments: amounts reserved and released, each change kept as a line.

Amounts are whole millionths of a currency's unit. A budget's row is the lock of its
run's money: every reservation locks it, so that no race overspends; it is locked after
everything else that a transaction locks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import Row, bindparam, case, exists, func, or_, update
from sqlmodel import col, select

from dispatcher.model import (
    DAY,
    TRANSITIONS,
    Account,
    Assignment,
    Budget,
    Entry,
    Outbox,
    Pause,
    Payment,
    Plan,
    Record,
    Result,
    Run,
    Task,
)
from dispatcher.store.statements import in_list, in_words, select_columns
from dispatcher.store.transaction import Tx

TAKES: Final = frozenset({"reserved", "due", "held", "unknown", "paid"})
"""States whose money is gone from the budget."""


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


COLUMNS: Final = tuple(col(getattr(Payment, name)) for name in PaymentRow._fields)
"""Columns of a payment, in the order of :class:`PaymentRow`."""

_BUDGETS: Final = select(Budget).order_by(col(Budget.run_id))
_BUDGET: Final = _BUDGETS.where(Budget.run_id == bindparam("of_run"))
_LOCK_BUDGETS: Final = _BUDGETS.where(in_list(Budget.run_id, "runs")).with_for_update()
_ANY_OF_RUN: Final = (
    select(Payment.about).where(Payment.run_id == bindparam("of_run")).limit(1)
)
_RUN_ID: Final = select(Run.id).where(Run.name == bindparam("called"))
_RUN_NAMES: Final = select(Run.id, Run.name).order_by(col(Run.id))
_LOCK_PAYMENTS: Final = (
    select_columns(*COLUMNS)
    .where(Payment.kind == bindparam("of_kind"), in_list(Payment.about, "abouts"))
    .order_by(col(Payment.about))
    .with_for_update()
)
_LOCK_ACCOUNTS: Final = (
    select(Account.id)
    .where(in_list(Account.id, "accounts"))
    .order_by(col(Account.id))
    .with_for_update(key_share=True)
)
_AT_WORK: Final = select(Payment.account_id).where(
    in_list(Payment.account_id, "accounts"),
    Payment.kind == "reward",
    Payment.state == "reserved",
)
_OF_RUN: Final = col(Budget.run_id) == bindparam("of_run")
_TAKE: Final = (
    update(Budget)
    .where(_OF_RUN)
    .values(
        taken=bindparam("total"), day=bindparam("today"), day_taken=bindparam("of_day")
    )
)
_GIVE_BACK: Final = (
    update(Budget)
    .where(_OF_RUN)
    .values(
        taken=Budget.taken - bindparam("total"),
        day_taken=Budget.day_taken
        - case((col(Budget.day) == bindparam("of_day"), bindparam("total")), else_=0),
    )
)
_PAY: Final = (
    update(Budget).where(_OF_RUN).values(paid=Budget.paid + bindparam("total"))
)
_FIELDS: Final = (
    select_columns(
        Task.id, Record.run_id, Task.account_id, Task.connector, Task.outbox_id
    )
    .join(Entry, col(Entry.id) == Task.entry_id)
    .join(Record, col(Record.id) == Entry.record_id)
    .order_by(col(Task.id))
)
_CARRIED: Final = _FIELDS.where(
    in_list(Task.outbox_id, "messages"),
    in_words(Task.state, "booked", "sent", "dead"),
)
_BOOKED: Final = _FIELDS.where(
    Task.id >= bindparam("first"), Task.id < bindparam("end")
)
_RUN_OF_ENTRY: Final = (
    select(Record.run_id)
    .join(Entry, col(Entry.record_id) == Record.id)
    .where(Entry.id == bindparam("entry"))
)
_REWARDS: Final = (
    select(Payment.about, Budget.currency)
    .join(Budget, col(Budget.run_id) == Payment.run_id)
    .where(Payment.kind == "reward")
)
_IN_HAND: Final = (
    _REWARDS.where(
        Payment.account_id == bindparam("account"),
        Payment.state == "reserved",
        or_(col(Payment.progress).is_(None), col(Payment.progress) == "open"),
    )
    .order_by(col(Payment.about).desc())
    .limit(1)
)
_REWARD: Final = (
    select(Payment.amount, Budget.currency)
    .join(Budget, col(Budget.run_id) == Payment.run_id)
    .where(Payment.kind == "reward", Payment.about == bindparam("message"))
)
_HAD_PIECE: Final = (
    select(Payment.about)
    .where(Payment.account_id == bindparam("account"), Payment.kind == "reward")
    .limit(1)
)
_INTO_PIECE: Final = (
    update(Payment)
    .where(
        col(Payment.kind) == bindparam("of_kind"),
        col(Payment.about) == bindparam("of_about"),
    )
    .values(piece=bindparam("message"))
)


def budgets(tx: Tx) -> list[Budget]:
    """All budgets, in order of their runs."""
    return tx.models(_BUDGETS)


def budget(tx: Tx, run_id: int) -> Budget | None:
    """Budget of a run; None where it has none."""
    return tx.model(_BUDGET, {"of_run": run_id})


def lock_budgets(tx: Tx, run_ids: Iterable[int]) -> dict[int, Budget]:
    """Budgets of runs, locked in order until the end of the transaction."""
    found = tx.models(_LOCK_BUDGETS, {"runs": sorted(set(run_ids))})
    return {row.run_id: row for row in found}


def put_budget(tx: Tx, row: Budget) -> None:
    """Set what a budget allows; what was taken of it stays."""
    allows = ("currency", "cap", "per_day", "reward", "bonus", "fee")
    if budget(tx, row.run_id) is None:
        cells = row.model_dump()
        tx.insert_many("budget", tuple(cells), [tuple(cells.values())])
        return
    values = [getattr(row, name) for name in allows]
    tx.update_many("budget", ["run_id"], allows, [(row.run_id, *values)])


def has_payments(tx: Tx, run_id: int) -> bool:
    """Whether anything of a run was ever promised."""
    return tx.scalar(_ANY_OF_RUN, {"of_run": run_id}) is not None


def run_id_of(tx: Tx, name: str) -> int | None:
    """Id of a run by its name."""
    return tx.scalar(_RUN_ID, {"called": name})


def run_names(tx: Tx) -> dict[int, str]:
    """Names of all runs by their ids."""
    return dict(tx.execute(_RUN_NAMES).all())


def lock_payments(tx: Tx, kind: str, abouts: Sequence[int]) -> dict[int, PaymentRow]:
    """Payments of one kind by what they are for, locked in order."""
    given = {"of_kind": kind, "abouts": sorted(set(abouts))}
    return {row[1]: PaymentRow(*row) for row in tx.execute(_LOCK_PAYMENTS, given)}


def lock_accounts(tx: Tx, account_ids: Iterable[int]) -> set[int]:
    """Lock accounts until the end of the transaction; return those that have no work.

    Whoever is to reserve a reward asks this first of all: nobody has two pieces of work
    open, or the same answers would count in both.
    """
    wanted = sorted(set(account_ids))
    if not wanted:
        return set()
    tx.execute(_LOCK_ACCOUNTS, {"accounts": wanted})
    # only now, and not in the same statement: it sees what the last holder wrote
    return {*wanted} - {*tx.scalars(_AT_WORK, {"accounts": wanted})}


def reserve(
    tx: Tx, held: Budget, wanted: Sequence[PaymentRow], *, now: int, actor: str
) -> Budget | None:
    """Take what payments need out of a locked budget: all of them, or nothing.

    Parameters
    ----------
    tx : Tx
    held : Budget
        As it is now, locked.
    wanted : sequence of PaymentRow
        New ones, and ones that were released or refused and come back.
    now : int
        Microseconds UTC.
    actor : str

    Returns
    -------
    Budget or None
        The budget after it; None where there is no room.
    """
    total = sum(row.total for row in wanted)
    if total > held.room(now):
        return None
    day = max(held.day, now // DAY)
    of_day = held.taken_today(now) + total
    after = held.model_copy(
        update={"taken": held.taken + total, "day": day, "day_taken": of_day}
    )
    tx.execute(
        _TAKE,
        {
            "of_run": held.run_id,
            "total": after.taken,
            "today": after.day,
            "of_day": after.day_taken,
        },
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
        tx.execute(_GIVE_BACK, {"of_run": run_id, "total": total, "of_day": day})
    for run_id, total in sorted(paid.items()):
        tx.execute(_PAY, {"of_run": run_id, "total": total})


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
    first = tx.reserve("payment_event", len(found))
    tx.insert_many(
        "payment_event",
        ("id", "kind", "about", "run_id", "state", "amount", "fee", "at", "actor",
         "why"),
        [
            (first + i, r.kind, r.about, r.run_id, state, r.amount, r.fee, now, actor,
             why)
            for i, r in enumerate(found)
        ],
    )  # fmt: skip


# -- what is offered, and to whom --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CarryingTask:
    """A task that carries a field out, and the run that the field is of."""

    task_id: int
    run_id: int
    account_id: int
    connector: str
    outbox_id: int


def carried(tx: Tx, outbox_ids: Sequence[int]) -> list[CarryingTask]:
    """Tasks that messages carry out."""
    found = tx.execute(_CARRIED, {"messages": outbox_ids})
    return [CarryingTask(*row) for row in found]


def booked(tx: Tx, tasks: range) -> list[CarryingTask]:
    """Tasks by their ids, which follow each other."""
    found = tx.execute(_BOOKED, {"first": tasks.start, "end": tasks.stop})
    return [CarryingTask(*row) for row in found]


def run_of_entry(tx: Tx, entry_id: int) -> int:
    """Run that a field is of."""
    found = tx.scalar(_RUN_OF_ENTRY, {"entry": entry_id})
    assert found is not None
    return found


def piece_in_hand(tx: Tx, account_id: int) -> tuple[int, str] | None:
    """Piece of work that an account has open: its message and currency."""
    row = tx.execute(_IN_HAND, {"account": account_id}).first()
    return None if row is None else (row[0], row[1])


def put_into_piece(tx: Tx, row: PaymentRow, piece: int) -> None:
    """Have a field paid with another piece of work than it was first shown in."""
    found = {"of_kind": row.kind, "of_about": row.about, "message": piece}
    tx.execute(_INTO_PIECE, found)


def had_pieces(tx: Tx, account_id: int) -> bool:
    """Whether an account was ever offered a paid piece of work."""
    return tx.scalar(_HAD_PIECE, {"account": account_id}) is not None


def reward_of(tx: Tx, outbox_id: int) -> tuple[int, str] | None:
    """What a message promises for its piece of work: the amount and its currency."""
    row = tx.execute(_REWARD, {"message": outbox_id}).first()
    return None if row is None else (row[0], row[1])


def note_sent(tx: Tx, references: Iterable[tuple[int, str]]) -> None:
    """Keep the market's own names of offers that have arrived there."""
    tx.update_many(
        "payment",
        ["kind", "about"],
        ["reference"],
        [("reward", outbox_id, reference) for outbox_id, reference in references],
    )


# -- what the looks of the paying stage change -------------------------------------------

_ADOPT: Final = (
    update(Payment)
    .where(
        col(Payment.kind) == "reward",
        col(Payment.about) == bindparam("message"),
        col(Payment.connector) == bindparam("of_connector"),
        col(Payment.reference).is_(None),
    )
    .values(reference=bindparam("new_reference"))
)
_END: Final = (
    update(Payment)
    .where(
        col(Payment.kind) == "reward",
        in_list(Payment.about, "abouts"),
        func.coalesce(Payment.progress, "open") == "open",
    )
    .values(progress="gone", due=bindparam("now"), at=bindparam("now"))
)
_PUT_OFF: Final = (
    update(Payment)
    .where(
        col(Payment.kind) == bindparam("of_kind"),
        in_list(Payment.about, "abouts"),
        col(Payment.state) == "due",
    )
    .values(
        attempts=bindparam("tries"), due=bindparam("until"), why=bindparam("reason")
    )
)


def set_column(
    tx: Tx, found: Iterable[PaymentRow], column: str, value: int | str | None
) -> None:
    """Set one column of payments, which says when or how often to look at them."""
    tx.update_many(
        "payment",
        ["kind", "about"],
        [column],
        [(r.kind, r.about, value) for r in found],
    )


def put_off(
    tx: Tx, kind: str, abouts: Sequence[int], tries: int, until: int, why: str | None
) -> None:
    """Look at payments that are due again at a moment, and say why."""
    tx.execute(
        _PUT_OFF,
        {
            "of_kind": kind,
            "abouts": list(abouts),
            "tries": tries,
            "until": until,
            "reason": why,
        },
    )


def adopt(tx: Tx, connector: str, references: Iterable[tuple[int, str]]) -> None:
    """Learn the market's names of offers that arrived there without our hearing of it."""
    for outbox_id, reference in references:
        given = {
            "message": outbox_id,
            "of_connector": connector,
            "new_reference": reference,
        }
        tx.execute(_ADOPT, given)


def note_progress(
    tx: Tx, standings: Iterable[tuple[int, str | None, str]], now: int
) -> None:
    """Keep how pieces of work stand: message, submission, progress."""
    tx.update_many(
        "payment",
        ["kind", "about"],
        ["submission", "progress", "due", "at"],
        [
            ("reward", about, number, word, now, now)
            for about, number, word in standings
        ],
    )


def end_pieces(tx: Tx, abouts: Sequence[int], now: int) -> int:
    """Note that pieces of work are not at their market any more; how many."""
    return tx.execute(_END, {"abouts": list(abouts), "now": now}).rowcount


# -- what a market reports of pieces of work -------------------------------------------

_BY_REFERENCE: Final = (
    select_columns(
        Payment.reference,
        Payment.about,
        col(Account.name).label("account"),
        Payment.submission,
        Payment.progress,
    )
    .join(Account, col(Account.id) == Payment.account_id)
    .where(
        Payment.connector == bindparam("connector"),
        in_list(Payment.reference, "references"),
    )
    .order_by(col(Payment.about))
    .with_for_update(of=Payment)
)
_UNTOLD: Final = (
    select(Payment.about)
    .join(Outbox, col(Outbox.id) == Payment.about)
    .where(
        Payment.connector == bindparam("connector"),
        Payment.kind == "reward",
        Payment.state == "reserved",
        func.coalesce(Payment.progress, "open") == "open",
        Outbox.state == "sent",
        Outbox.due <= bindparam("before"),
    )
    .order_by(col(Payment.about))
)


ToldRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""A reward by the market's name of its offer: about, account, submission, progress."""


def by_reference(
    tx: Tx, connector: str, references: Collection[str]
) -> dict[str, ToldRow]:
    """Rewards of a connector by the market's names of their offers, locked.

    Only rewards have such a name.
    """
    given = {"connector": connector, "references": sorted(set(references))}
    return {row.reference: row for row in tx.execute(_BY_REFERENCE, given)}


def untold(tx: Tx, connector: str, before: int) -> list[int]:
    """Messages of pieces of work that were sent long ago and are not known to end."""
    return tx.scalars(_UNTOLD, {"connector": connector, "before": before})


def hold(tx: Tx, about: int, why: str, now: int) -> bool:
    """Hold a reward for a person to look at; False if it was settled or held before."""
    row = lock_payments(tx, "reward", [about])[about]
    open_ = row.state in ("reserved", "due")
    move(tx, [row] if open_ else [], "held", now=now, why=why)
    return open_


# -- work that money is asked for: what waits, what was booked, whose it is -------------

_RUN_OF_EACH: Final = (
    select(Entry.id, Record.run_id)
    .join(Record, col(Record.id) == Entry.record_id)
    .where(in_list(Entry.id, "entries"))
)
_PLANNED: Final = (
    select(Assignment.entries)
    .join(Plan, col(Plan.id) == Assignment.plan_id)
    .where(Plan.state == "applied", Assignment.account_id == bindparam("account"))
    .order_by(col(Assignment.plan_id))
)
_RUNS: Final = (
    select(Record.run_id, func.count())
    .select_from(Entry)
    .join(Record, col(Record.id) == Entry.record_id)
    .where(in_list(Entry.id, "entries"))
    .group_by(col(Record.run_id))
)
_OPEN_RUNS: Final = (
    _RUNS.join(Run, col(Run.id) == Record.run_id)
    .outerjoin(Result, col(Result.entry_id) == Entry.id)
    .where(
        Run.state == "active",
        col(Record.erased_at).is_(None),
        col(Record.waits_since).is_(None),
        func.coalesce(Result.state, "open") == "open",
        ~exists().where(col(Pause.scope) == "run:" + col(Run.name)),
    )
)
_ACCOUNTS: Final = select(Account.id).where(in_list(Account.connector, "connectors"))


def run_of_each(tx: Tx, entry_ids: Sequence[int]) -> dict[int, int]:
    """Run of each of the entries."""
    return dict(tx.execute(_RUN_OF_EACH, {"entries": entry_ids}).all())


def planned_for(tx: Tx, account_id: int) -> bytes:
    """Packed entries that the plan in force still means for an account."""
    return b"".join(tx.scalars(_PLANNED, {"account": account_id}))


def open_runs_of(tx: Tx, entry_ids: Sequence[int]) -> dict[int, int]:
    """How many of the entries still miss answers, by run that is at work."""
    return dict(tx.execute(_OPEN_RUNS, {"entries": entry_ids}).all())


def runs_of(tx: Tx, entry_ids: Sequence[int]) -> dict[int, int]:
    """How many of the entries are of each run."""
    return dict(tx.execute(_RUNS, {"entries": entry_ids}).all())


def accounts_of(tx: Tx, connectors: Sequence[str]) -> frozenset[int]:
    """Accounts of some connectors."""
    return frozenset(tx.scalars(_ACCOUNTS, {"connectors": connectors}))
