"""Work that money is asked for: what waits for an account, what was booked, whose it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import bindparam, exists, func
from sqlmodel import col, select

from dispatcher.model import (
    Account,
    Assignment,
    Entry,
    Pause,
    Plan,
    Record,
    Result,
    Run,
    Task,
)
from dispatcher.store.statements import in_list
from dispatcher.store.transaction import Tx

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
_GIVEN: Final = select(Task.entry_id).where(Task.account_id == bindparam("account"))
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


def given_to(tx: Tx, account_id: int) -> list[int]:
    """Entries that an account was ever given a task on."""
    return tx.scalars(_GIVEN, {"account": account_id})


def open_runs_of(tx: Tx, entry_ids: Sequence[int]) -> dict[int, int]:
    """How many of the entries still miss answers, by run that is at work."""
    return dict(tx.execute(_OPEN_RUNS, {"entries": entry_ids}).all())


def runs_of(tx: Tx, entry_ids: Sequence[int]) -> dict[int, int]:
    """How many of the entries are of each run."""
    return dict(tx.execute(_RUNS, {"entries": entry_ids}).all())


def accounts_of(tx: Tx, connectors: Sequence[str]) -> frozenset[int]:
    """Accounts of some connectors."""
    return frozenset(tx.scalars(_ACCOUNTS, {"connectors": connectors}))
