"""Queries for comparing the store with its ledger: tables streamed, or by piece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from sqlalchemy import Text, bindparam, cast, func, or_
from sqlalchemy.sql.elements import ColumnElement
from sqlmodel import col, select

from dispatcher.model import (
    Account,
    Entry,
    ExposureCount,
    FieldName,
    LedgerLine,
    Link,
    Outbox,
    PolicyVersion,
    Record,
    RuleTable,
    Subject,
    Task,
)
from dispatcher.store.column_blocks import Ints
from dispatcher.store.statements import (
    DriverStatement,
    fixed,
    in_list,
    select_columns,
)
from dispatcher.store.transaction import Row, Tx

Showings = npt.NDArray[np.void]
"""Rows of exposures, with the facts of their entries; see :func:`showings`."""

_SHOWING: Final = np.dtype(
    [
        ("chain", np.int64),
        ("seq", np.int64),
        ("account", np.int64),
        ("entry", np.int64),
        ("showing", np.int64),
        ("record", np.int64),
        ("field", np.int64),
        ("subject", np.int64),
        ("time", np.int64),
    ]
)


_ledger_name: Final = col(Record.pseudonym) + "." + cast(Entry.field_id, Text)
_LINES: Final = DriverStatement(
    select_columns(
        LedgerLine.chain_id,
        LedgerLine.seq,
        LedgerLine.kind,
        LedgerLine.at,
        LedgerLine.policy_version,
        LedgerLine.account_id,
        LedgerLine.cause,
        LedgerLine.showing,
        LedgerLine.body,
        LedgerLine.hash,
        _ledger_name,
    )
    .select_from(LedgerLine)
    .join(Entry, col(Entry.id) == col(LedgerLine.entry_id), isouter=True)
    .join(Record, col(Record.id) == col(Entry.record_id), isouter=True)
    .order_by(col(LedgerLine.chain_id), col(LedgerLine.seq))
)


def _json(text: ColumnElement[Any]) -> ColumnElement[str]:
    return func.coalesce(text, "null", type_=Text())


_quote: Final = '"'
_FACTS: Final = DriverStatement(
    select_columns(
        Entry.id,
        '["'
        + _ledger_name
        + '",'
        + _json(_quote + col(Subject.pseudonym) + _quote)
        + ","
        + _json(cast(Entry.time, Text))
        + ","
        + _json(_quote + col(Entry.vector) + _quote)
        + ","
        + _json(cast(Entry.visits, Text))
        + "]",
    )
    .select_from(Entry)
    .join(Record, col(Record.id) == col(Entry.record_id), isouter=True)
    .join(Subject, col(Subject.id) == col(Entry.subject_id), isouter=True)
)
_STRANGERS: Final = (
    select(Record.id)
    .distinct()
    .join(Entry, col(Entry.record_id) == col(Record.id))
    .where(func.coalesce(Entry.subject_id, -1) != func.coalesce(Record.subject_id, -1))
    .order_by(col(Record.id))
)


_SHOWINGS: Final = DriverStatement(
    select_columns(
        LedgerLine.chain_id,
        LedgerLine.seq,
        func.coalesce(LedgerLine.account_id, 0).label("account"),
        func.coalesce(LedgerLine.entry_id, 0).label("entry"),
        func.coalesce(LedgerLine.showing, -1).label("showing"),
        func.coalesce(Entry.record_id, -1).label("record"),
        func.coalesce(Entry.field_id, -1).label("field"),
        func.coalesce(Entry.subject_id, -1).label("subject"),
        func.coalesce(Entry.time, 0).label("time"),
    )
    .select_from(LedgerLine)
    .join(Entry, col(Entry.id) == col(LedgerLine.entry_id), isouter=True)
    .where(LedgerLine.kind == fixed("exposure"), in_list(LedgerLine.chain_id, "chains"))
    .order_by(col(LedgerLine.chain_id), col(LedgerLine.seq))
)
_TASKS: Final = DriverStatement(
    select_columns(Task.id, Task.account_id, Task.entry_id)
    .where(in_list(Task.account_id, "accounts"))
    .order_by(col(Task.id))
)
_ACCOUNTS_OF_TASKS: Final = select(Task.account_id).distinct()
_COUNTS: Final = DriverStatement(
    select_columns(
        ExposureCount.adversary_id,
        ExposureCount.unit_id,
        ExposureCount.field_id,
        ExposureCount.time,
        ExposureCount.entries,
    )
    .where(ExposureCount.adversary_id == bindparam("adversary"))
    .order_by(
        col(ExposureCount.unit_id), col(ExposureCount.field_id), col(ExposureCount.time)
    )
)
_task_of_account: Final = (
    select(Task.id)
    .join(Account, col(Account.id) == col(Task.account_id))
    .order_by(col(Task.id))
)
_AWRY: Final = {
    "task.adversary_id": _task_of_account.where(
        col(Task.adversary_id) != col(Account.adversary_id)
    ),
    "task.connector": _task_of_account.where(
        col(Task.connector) != col(Account.connector)
    ),
    "task.outbox_id": select(Task.id)
    .join(Outbox, col(Outbox.id) == col(Task.outbox_id), isouter=True)
    .where(
        col(Task.outbox_id).is_not(None),
        or_(
            col(Outbox.id).is_(None),
            col(Outbox.account_id) != col(Task.account_id),
            col(Outbox.connector) != col(Task.connector),
        ),
    )
    .order_by(col(Task.id)),
}
_POLICIES: Final = select(
    PolicyVersion.version, PolicyVersion.source, PolicyVersion.sha256
).order_by(col(PolicyVersion.version))
_LINKS: Final = select_columns(
    Link.id, Link.relation, Link.one, Link.other, Link.version
)
_SUBJECTS: Final = select(Subject.pseudonym, Subject.id)
_TOLD_VERSIONS: Final = (
    select(RuleTable.version).distinct().order_by(col(RuleTable.version))
)
_FIELD_NAMES: Final = select(FieldName.id, FieldName.name)


def lines(tx: Tx) -> Iterator[Row]:
    """All lines of adversaries' chains, chain by chain and in order.

    Columns: chain, seq, kind, at, version, account, cause, showing, body, hash, and the
    ledger name of the entry.
    """
    return tx.driver_stream(_LINES)


def facts(tx: Tx) -> Iterator[Row]:
    """Yield the id of every entry, and its facts in the format of the ledger."""
    return tx.driver_stream(_FACTS)


def strangers(tx: Tx) -> list[int]:
    """Find records whose subject differs from that of one of their entries."""
    return tx.scalars(_STRANGERS)


def showings(tx: Tx, chains: Sequence[int]) -> Showings:
    """Exposures of some chains, by chain and line, as a structured array.

    Fields: chain, seq, account, entry, showing (-1 where it is missing), and of the entry
    record, field, subject (or -1) and time (or 0).
    """
    width = len(_SHOWING.fields or ())
    found = tx.driver_numbers(width, [(_SHOWINGS, {"chains": list(chains)})])
    return np.ascontiguousarray(found).view(_SHOWING).reshape(-1)


def exposure_counts(tx: Tx, adversaries: Sequence[int]) -> Ints:
    """The summary of some adversaries by key: (adversary, unit, field, time, entries)."""
    asked = [(_COUNTS, {"adversary": one}) for one in adversaries]
    return tx.driver_numbers(5, asked)


def tasks(tx: Tx, accounts: Sequence[int]) -> Ints:
    """All tasks of some accounts by id: (id, account, entry)."""
    return tx.driver_numbers(3, [(_TASKS, {"accounts": list(accounts)})])


def accounts_of_tasks(tx: Tx) -> list[int]:
    """Accounts that have tasks."""
    return tx.scalars(_ACCOUNTS_OF_TASKS)


def awry(tx: Tx) -> dict[str, list[int]]:
    """Find tasks whose account differs from the one they were booked for, by column."""
    return {column: tx.scalars(query) for column, query in _AWRY.items()}


def policies(tx: Tx) -> Sequence[Row]:
    """Version, file and digest of every applied policy, in order."""
    return tx.execute(_POLICIES).all()


def links(tx: Tx) -> Iterator[Row]:
    """All links: (id, relation, one, other, version)."""
    return tx.stream(_LINKS)


def subject_ids(tx: Tx) -> Mapping[str, int]:
    """Ids of all people by pseudonym."""
    return dict(tx.execute(_SUBJECTS).all())


def versions_with_functions(tx: Tx) -> list[int]:
    """Versions that functions of rules are kept for."""
    return tx.scalars(_TOLD_VERSIONS)


def field_names(tx: Tx) -> dict[int, str]:
    """Names of all numbered fields."""
    return dict(tx.execute(_FIELD_NAMES).all())
