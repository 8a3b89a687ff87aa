"""The backlog, plans with their assignments, and what is held back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from sqlalchemy import bindparam, case, delete, func, or_, update
from sqlalchemy.orm import aliased
from sqlmodel import col, select

from dispatcher.model import (
    LIVE_TASK_STATES,
    Account,
    Assignment,
    Chain,
    Entry,
    Held,
    LedgerLine,
    Load,
    Plan,
    PolicyVersion,
    Qualification,
    Record,
    Recusal,
    Result,
    Run,
    Task,
    TaskAnswer,
)
from dispatcher.store.booking import SHOWN_BYTES
from dispatcher.store.exhausted_fields import granted
from dispatcher.store.ledger import ENTRY_NUMBERS
from dispatcher.store.statements import (
    DriverStatement,
    in_list,
    in_words,
    select_columns,
)
from dispatcher.store.tasks import entries_given
from dispatcher.store.transaction import Row, Tx

MANY: Final = 20_000
"""Ids asked for in one statement."""


class LeftRow(NamedTuple):
    """Pairs that an applied plan still means for an account; ``entries`` is packed."""

    plan_id: int
    account_id: int
    adversary_id: int
    entries: bytes


# -- the backlog -----------------------------------------------------------------------

_COUNT: Final = func.count()
_JOINS: Final = (
    select(_COUNT).select_from(Chain).where(col(Chain.survivor_id).is_not(None))
)
_UPSETS: Final[tuple[Any, ...]] = (
    _JOINS,
    select(func.max(PolicyVersion.version)),
    select(func.sum(Account.id)).where(Account.state != "active"),
)
_STAFF: Final[tuple[Any, ...]] = (
    *_UPSETS,
    select(_COUNT).select_from(Account).where(Account.state == "active"),
    select(func.max(Account.id)),
)
_PULSE: Final[tuple[Any, ...]] = (
    *_STAFF,
    select(func.max(Entry.id)),
    select(_COUNT)
    .select_from(Task)
    .where(col(Task.state).in_(("returned", "expired", "dead"))),
    select(_COUNT).select_from(Result).where(Result.state == "open"),
    select(func.sum(func.coalesce(Run.pilot, 0) + func.coalesce(Run.piloted, 0))),
    select(func.sum(Qualification.attempt)).where(Qualification.state == "failed"),
)
_IN_FORCE: Final = select(func.max(Plan.id), func.sum(Plan.refused)).where(
    Plan.state == "applied"
)
_HAS_ACCOUNT: Final = (
    select(Account.id)
    .where(Account.state == "active", in_list(Account.connector, "connectors"))
    .limit(1)
)
_LEFT: Final = (
    select(
        Assignment.plan_id,
        Assignment.account_id,
        Account.adversary_id,
        Assignment.entries,
    )
    .join(Plan, col(Plan.id) == col(Assignment.plan_id))
    .join(Account, col(Account.id) == col(Assignment.account_id))
    .where(
        Plan.state == "applied",
        Plan.policy_version == bindparam("version"),
        Account.state == "active",
        func.length(Assignment.entries) > 0,
    )
    .order_by(col(Assignment.plan_id), col(Assignment.account_id))
)
_RECUSED: Final = select(Recusal.adversary_id, Recusal.unit_id).order_by(
    col(Recusal.adversary_id), col(Recusal.unit_id)
)
_LOADED: Final = select(Load.id, Load.columns)


def _tasks_by_entry(*states: str) -> DriverStatement:
    return DriverStatement(
        select(Task.entry_id, _COUNT)
        .where(in_words(Task.state, *states))
        .group_by(col(Task.entry_id))
    )


_ENTRIES: Final = DriverStatement(
    select_columns(*ENTRY_NUMBERS).order_by(col(Entry.id))
)
_LONGER: Final = DriverStatement(
    select(Entry.id, SHOWN_BYTES).where(bindparam("most") < SHOWN_BYTES)
)
_LOST: Final = DriverStatement(
    select(Entry.id)
    .join(Record, col(Record.id) == col(Entry.record_id))
    .join(Run, col(Run.id) == col(Record.run_id))
    .where(Run.state == "lost")
)
_WAITING: Final = DriverStatement(
    select(Entry.id)
    .join(Record, col(Record.id) == col(Entry.record_id))
    .where(col(Record.waits_since).is_not(None))
)
_ANSWERED: Final = DriverStatement(
    select(TaskAnswer.entry_id, _COUNT)
    .where(TaskAnswer.valid == 1)
    .group_by(col(TaskAnswer.entry_id))
)
_RESULTS: Final = DriverStatement(
    select(
        Result.entry_id,
        Result.wanted,
        case((col(Result.state) == "open", 0), else_=1),
    )
)
_LIVE: Final = _tasks_by_entry(*LIVE_TASK_STATES)
_PUBLISHED: Final = _tasks_by_entry("published")
_TASKS: Final = DriverStatement(
    select(Task.entry_id, Task.account_id).where(in_list(Task.account_id, "accounts"))
)
_lines: Final = select_columns(
    LedgerLine.entry_id,
    func.coalesce(Chain.survivor_id, Chain.id),
    func.coalesce(LedgerLine.showing, 0),
    LedgerLine.kind,
    LedgerLine.body,
).join(Chain, col(Chain.id) == col(LedgerLine.chain_id))
_LINES: Final = DriverStatement(_lines.where(col(LedgerLine.entry_id).is_not(None)))
_LINES_ABOUT: Final = DriverStatement(
    _lines.where(in_list(LedgerLine.entry_id, "entries"))
)
_CELLS: Final = DriverStatement(
    select_columns(Record.id, Record.load_id, Record.columns, Record.key_id).where(
        col(Record.erased_at).is_(None)
    )
)


def pulse(tx: Tx) -> tuple[int, ...]:
    """A few numbers that change when there may be something new to plan.

    Grants of extra showings, :func:`upsets`, active accounts, last account, last entry,
    tasks that ended without an answer, open fields, records let go by pilots, and tests
    failed for good. :func:`in_force` changes with the plan itself.
    """
    return granted(tx), *(int(tx.scalar(number) or 0) for number in _PULSE)


def in_force(tx: Tx) -> tuple[int, int]:
    """Return the plan that is applied, 0 for none, and how many pairs left it unbooked."""
    plan_id, unbooked = tx.execute(_IN_FORCE).one()
    return plan_id or 0, unbooked or 0


def upsets(tx: Tx) -> tuple[int, ...]:
    """A few numbers that change when the plan in force no longer holds.

    Joins of adversaries, policy version, and accounts that are given nothing.
    """
    return tuple(int(tx.scalar(number) or 0) for number in _UPSETS)


def staff(tx: Tx) -> tuple[int, ...]:
    """A few numbers that change with who may work; :func:`upsets` is among them."""
    return tuple(int(tx.scalar(number) or 0) for number in _STAFF)


def joins(tx: Tx) -> int:
    """How many adversaries were joined to others so far."""
    return int(tx.scalar(_JOINS) or 0)


def entries(tx: Tx) -> Iterator[Row]:
    """All entries by id: (id, record, field, subject or -1, time or 0)."""
    return tx.driver_stream(_ENTRIES, {})


def longer(tx: Tx, most: int) -> Iterator[Row]:
    """Entries that show more than so many bytes: (id, bytes)."""
    return tx.driver_stream(_LONGER, {"most": most})


def never_asked(tx: Tx) -> Iterator[Row]:
    """Entries that were lost with a store, or wait for a pilot: (id,)."""
    yield from tx.driver_stream(_LOST, {})
    yield from tx.driver_stream(_WAITING, {})


def answered(tx: Tx) -> Iterator[Row]:
    """Valid answers of each entry: (entry, answers)."""
    return tx.driver_stream(_ANSWERED, {})


def results(tx: Tx) -> Iterator[Row]:
    """Return what consensus says: (entry, answers wanted by now, 1 if settled)."""
    return tx.driver_stream(_RESULTS, {})


def live(tx: Tx) -> Iterator[Row]:
    """Tasks that may still bring an answer: (entry, tasks)."""
    return tx.driver_stream(_LIVE, {})


def has_accounts(tx: Tx, connectors: Iterable[str]) -> bool:
    """Whether an account of one of the connectors is active."""
    return tx.scalar(_HAS_ACCOUNT, {"connectors": sorted(connectors)}) is not None


def published(tx: Tx) -> Iterator[Row]:
    """Copies that feeds have: (entry, tasks)."""
    return tx.driver_stream(_PUBLISHED, {})


def tasks(tx: Tx, account_ids: Sequence[int]) -> Iterator[Row]:
    """Every task that accounts ever had: (entry, account)."""
    return tx.driver_stream(_TASKS, {"accounts": list(account_ids)})


def left_of_plans(tx: Tx, version: int) -> list[LeftRow]:
    """Pairs of active accounts that the applied plans still mean to show."""
    return [LeftRow(*row) for row in tx.execute(_LEFT, {"version": version}).all()]


def exposures(tx: Tx, entry_ids: Sequence[int] | None) -> Iterator[Row]:
    """Lines about entries: (entry, adversary that goes on, showing, kind, body).

    ``entry_ids`` None: about all entries, in one pass over the ledger.
    """
    if entry_ids is None:
        yield from tx.driver_stream(_LINES, {})
        return
    for one in range(0, len(entry_ids), MANY):
        part = list(entry_ids[one : one + MANY])
        yield from tx.driver_rows(_LINES_ABOUT, {"entries": part})


def recused(tx: Tx) -> list[tuple[int, int]]:
    """Units that adversaries recused themselves from: (adversary, unit)."""
    return [(adversary, unit) for adversary, unit in tx.execute(_RECUSED)]


def loaded_columns(tx: Tx) -> dict[int, str]:
    """Columns of each load, as JSON."""
    return dict(tx.execute(_LOADED).all())


class _CellsRow(NamedTuple):
    """What :data:`_CELLS` reads of a record."""

    id: int
    load_id: int
    columns: bytes
    key_id: int | None


def cells(tx: Tx) -> Iterator[Row]:
    """Cells of all records that have them still: (record, load, JSON)."""
    found = map(_CellsRow._make, tx.driver_stream(_CELLS, {}))
    for row in tx.vault.opened(tx, found, "record.columns"):
        yield row.id, row.load_id, row.columns


# -- plans -----------------------------------------------------------------------------

_PLAN: Final = select(Plan).where(col(Plan.id) == bindparam("id"))
_PLANS: Final = select(Plan).order_by(col(Plan.id).desc())
_LOCK_APPLIED: Final = (
    select(Plan.id)
    .where(Plan.state == "applied")
    .order_by(col(Plan.id))
    .with_for_update()
)
_END: Final = (
    update(Plan)
    .where(col(Plan.state) == "applied", in_list(Plan.id, "ids"))
    .values(state="superseded")
)
_is_older_draft: Final = (
    col(Plan.state) == "draft",
    col(Plan.id) != bindparam("but"),
)
_DROP_PAIRS_OF_DRAFTS: Final = delete(Assignment).where(
    col(Assignment.plan_id).in_(select(Plan.id).where(*_is_older_draft))
)
_DROP_DRAFTS: Final = update(Plan).where(*_is_older_draft).values(state="dropped")
_APPLY: Final = (
    update(Plan)
    .where(col(Plan.id) == bindparam("of_id"), col(Plan.state) == "draft")
    .values(state="applied", summary=bindparam("numbers"), applied_at=bindparam("now"))
)
_COUNT_REFUSED: Final = (
    update(Plan)
    .where(col(Plan.id) == bindparam("of_id"))
    .values(refused=func.coalesce(Plan.refused, 0) + bindparam("pairs"))
)


def add_plan(
    tx: Tx,
    plan: Plan,
    assignments: Iterable[tuple[int, int, bytes]],
) -> None:
    """Write a plan and its assignments: rows (account, adversary, packed entries)."""
    cells = plan.model_dump()
    tx.insert_many("plan", tuple(cells), [tuple(cells.values())])
    _add_assignments(tx, plan.id, assignments)


def plan(tx: Tx, plan_id: int) -> Plan | None:
    """Return a plan."""
    return tx.model(_PLAN, {"id": plan_id})


def plans(tx: Tx) -> list[Plan]:
    """Return all plans, the newest first."""
    return tx.models(_PLANS)


def lock_applied(tx: Tx) -> list[int]:
    """Applied plans, locked until the end."""
    return tx.scalars(_LOCK_APPLIED)


def end_plans(tx: Tx, plan_ids: Sequence[int]) -> None:
    """Let applied plans be superseded."""
    tx.execute(_END, {"ids": list(plan_ids)})


def drop_drafts(tx: Tx, but: int) -> None:
    """Drop drafts, but one: they were made before it was applied."""
    tx.execute(_DROP_PAIRS_OF_DRAFTS, {"but": but})
    tx.execute(_DROP_DRAFTS, {"but": but})


def mark_applied(tx: Tx, plan_id: int, summary: str, now: int) -> bool:
    """Let a draft be applied, with its numbers; False if it is no draft (any more)."""
    given = {"of_id": plan_id, "numbers": summary, "now": now}
    return tx.execute(_APPLY, given).rowcount == 1


def count_refused(tx: Tx, plan_id: int, pairs: int) -> None:
    """Note that pairs left a plan unbooked: planning looks at them again."""
    tx.execute(_COUNT_REFUSED, {"of_id": plan_id, "pairs": pairs})


# -- assignments -----------------------------------------------------------------------

_LOCK_ASSIGNMENTS: Final = (
    select(
        Assignment.plan_id,
        Assignment.account_id,
        Assignment.adversary_id,
        Assignment.entries,
    )
    .where(
        col(Assignment.plan_id).in_(
            select(Plan.id).where(
                in_list(Plan.id, "ids"), Plan.policy_version == bindparam("version")
            )
        )
    )
    .order_by(col(Assignment.plan_id), col(Assignment.account_id))
    .with_for_update()
)
_ACTIVE: Final = select(Account.id).where(Account.state == "active")
_CLEAR: Final = delete(Assignment).where(in_list(Assignment.plan_id, "ids"))
_of_account: Final = (
    col(Assignment.plan_id) == bindparam("plan"),
    col(Assignment.account_id) == bindparam("account"),
)
_LOCK_PLANNED: Final = DriverStatement(
    select(Assignment.entries).where(*_of_account).with_for_update()
)
_KEEP_PLANNED: Final = DriverStatement(
    update(Assignment).where(*_of_account).values(entries=bindparam("packed"))
)
_LOCK_ALL_PLANNED: Final = (
    select(Assignment.plan_id, Assignment.account_id, Assignment.entries)
    .where(func.length(Assignment.entries) > 0)
    .order_by(col(Assignment.plan_id), col(Assignment.account_id))
    .with_for_update()
)
_PLANNED_FOR: Final = select(Assignment.entries).where(
    in_list(Assignment.adversary_id, "adversaries"),
    func.length(Assignment.entries) > 0,
)
_same_unit: Final = aliased(Entry)
_UNIT_MATES: Final = select(Entry.id).where(
    or_(
        *(
            col(getattr(Entry, unit)).in_(
                select(getattr(_same_unit, unit)).where(in_list(_same_unit.id, "ids"))
            )
            for unit in ("record_id", "subject_id")
        )
    )
)
_JOIN: Final = (
    update(Assignment)
    .where(col(Assignment.adversary_id) == bindparam("ended"))
    .values(adversary_id=bindparam("survivor"))
)


def _add_assignments(
    tx: Tx, plan_id: int, rows: Iterable[tuple[int, int, bytes]]
) -> None:
    tx.insert_many(
        "assignment",
        ("plan_id", "account_id", "adversary_id", "entries"),
        ((plan_id, *row) for row in rows),
    )


def lock_assignments(tx: Tx, plan_ids: Sequence[int], version: int) -> list[LeftRow]:
    """All rows of plans, locked until the end, those of active accounts only.

    What a plan under another version left is not taken over: it was planned anew.
    """
    given = {"ids": list(plan_ids), "version": version}
    found = tx.execute(_LOCK_ASSIGNMENTS, given).all()
    active = set(tx.scalars(_ACTIVE))
    return [LeftRow(*row) for row in found if row.account_id in active]


def showings(tx: Tx, version: int) -> int:
    """How many pairs the applied plans still mean to show to active accounts.

    Serving leaves what it shows in the plan, so that is taken off.
    """
    return sum(
        len(np.setdiff1d(np.frombuffer(row.entries, "<i8"), given))
        for row in left_of_plans(tx, version)
        for given in [np.array(entries_given(tx, row.account_id), np.int64)]
    )


def replace_assignments(
    tx: Tx, plan_id: int, ended: Sequence[int], rows: Iterable[tuple[int, int, bytes]]
) -> None:
    """Let a plan have these rows, and plans that ended none."""
    tx.execute(_CLEAR, {"ids": [plan_id, *ended]})
    _add_assignments(tx, plan_id, rows)


def lock_planned(tx: Tx, plan_id: int, account_id: int) -> bytes:
    """Packed entries that a plan still means for an account, locked until the end."""
    given = {"plan": plan_id, "account": account_id}
    return bytes(tx.driver_value(_LOCK_PLANNED, given) or b"")


def lock_all_planned(tx: Tx) -> list[tuple[int, int, bytes]]:
    """What all plans still mean, locked: (plan, account, packed entries)."""
    return [(row[0], row[1], row[2]) for row in tx.execute(_LOCK_ALL_PLANNED)]


def keep_planned(tx: Tx, plan_id: int, account_id: int, packed: bytes) -> None:
    """Let a plan mean these entries for an account, and no others."""
    given = {"plan": plan_id, "account": account_id, "packed": packed}
    tx.driver_execute(_KEEP_PLANNED, given)


def keep_all_planned(tx: Tx, kept: Iterable[tuple[int, int, bytes]]) -> None:
    """Do the same for many: rows (plan, account, packed entries)."""
    tx.update_many("assignment", ["plan_id", "account_id"], ["entries"], kept)


def join_planned(tx: Tx, ended: int, survivor: int) -> None:
    """Let an adversary have what was planned for one that joined it."""
    tx.execute(_JOIN, {"ended": ended, "survivor": survivor})


def drop_planned(tx: Tx, adversaries: Sequence[int]) -> int:
    """Take out of all plans what is planned for adversaries, and of the same units.

    Nothing else of a record or subject stays planned for anybody: planning can then place
    all of it anew. Drafts go whole.

    Returns
    -------
    int
        Pairs that applied plans lost.
    """
    drop_drafts(tx, but=0)
    rows = tx.execute(_PLANNED_FOR, {"adversaries": list(adversaries)})
    mine = [np.frombuffer(bytes(row[0]), "<i8") for row in rows]
    if not mine:
        return 0
    ids = np.unique(np.concatenate(mine)).tolist()
    mates: set[int] = set()
    for first in range(0, len(ids), MANY):
        mates |= set(tx.scalars(_UNIT_MATES, {"ids": ids[first : first + MANY]}))
    lost = unplan(tx, mates)
    for plan_id, pairs in lost.items():
        count_refused(tx, plan_id, pairs)
    return lost.total()


def unplan(tx: Tx, entry_ids: Collection[int]) -> Counter[int]:
    """Take entries out of every plan; return the pairs that each plan lost."""
    gone, lost = np.fromiter(entry_ids, np.int64, len(entry_ids)), Counter[int]()
    kept = []
    for plan_id, account_id, packed in lock_all_planned(tx):
        planned = np.frombuffer(packed, "<i8")
        left = planned[~np.isin(planned, gone)]
        if len(left) < len(planned):
            kept.append((plan_id, account_id, left.tobytes()))
            lost[plan_id] += len(planned) - len(left)
    keep_all_planned(tx, kept)
    return lost


# -- what is held back -----------------------------------------------------------------

_HOLD_NOTHING: Final = delete(Held)
_RELEASE: Final = delete(Held).where(in_list(Held.entry_id, "entries"))


def hold_back(tx: Tx, held: Iterable[tuple[int, str]]) -> None:
    """Replace what is held back: rows (entry, reason)."""
    tx.execute(_HOLD_NOTHING)
    tx.insert_many("held_back", ("entry_id", "reason"), held)


def release(tx: Tx, entry_ids: Sequence[int]) -> None:
    """Hold entries back no longer: they are gone."""
    tx.execute(_RELEASE, {"entries": list(entry_ids)})
