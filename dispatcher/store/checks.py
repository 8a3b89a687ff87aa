"""Checks of the database itself for ``dispatcher doctor``."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    and_,
    cast,
    column,
    extract,
    func,
    select,
    table,
    text,
)
from sqlmodel import col

from dispatcher.model import Chain, LedgerLine
from dispatcher.store.transaction import Tx

FAULTS = 100
"""Faults that are counted, at most."""

APPEND_ONLY: Final = (
    "ledger_line",
    "key_lines",
    "policy",
    "payment_event",
    "audit_line",
)
"""Tables whose rows neither change nor go: triggers refuse it."""

_MASTER: Final = table("sqlite_master", *map(column, ("name", "type", "sql")))
_TRIGGER: Final = table(
    "pg_trigger", *map(column, ("tgname", "tgrelid", "tgfoid", "tgenabled"))
)
_FUNCTION: Final = table("pg_proc", *map(column, ("oid", "prosrc")))
_GUARDS: Final = {
    "sqlite": (
        ("no_update", "no_delete"),
        select(_MASTER.c.name).where(
            _MASTER.c.type == "trigger", _MASTER.c.sql.like("%RAISE(ABORT%")
        ),
    ),
    "postgresql": (
        ("no_change", "no_truncate"),
        select(_TRIGGER.c.tgname)
        .join(_FUNCTION, _FUNCTION.c.oid == _TRIGGER.c.tgfoid)
        .where(
            func.pg_table_is_visible(_TRIGGER.c.tgrelid),
            _TRIGGER.c.tgenabled.in_(["O", "A"]),
            _FUNCTION.c.prosrc.like("%RAISE EXCEPTION%"),
        ),
    ),
}
"""By database: endings of the triggers of each such table, and those at work."""

_INTEGRITY: Final = text(f"PRAGMA integrity_check({FAULTS})")
_LAST: Final = select(func.coalesce(func.max(Chain.at), 0))
_FIRST: Final = (
    select(func.min(LedgerLine.at))
    .select_from(Chain)
    .join(
        LedgerLine,
        and_(col(LedgerLine.chain_id) == Chain.id, col(LedgerLine.seq) == 1),
    )
)
_CLOCK: Final = select(
    cast(extract("epoch", func.clock_timestamp()) * 1_000_000, BigInteger())
)


def integrity(tx: Tx) -> int:
    """How many faults SQLite finds in its file; PostgreSQL answers for its own.

    Reads the whole file.
    """
    if tx.dialect != "sqlite":
        return 0
    return sum(row[0] != "ok" for row in tx.execute(_INTEGRITY))


def missing_guards(tx: Tx) -> list[str]:
    """Find triggers of append-only tables that are missing, disabled or emptied."""
    endings, at_work = _GUARDS[tx.dialect]
    found = {str(row[0]) for row in tx.execute(at_work)}
    due = [f"{table}_{ending}" for table in APPEND_ONLY for ending in endings]
    return [name for name in due if name not in found]


def last_moment(tx: Tx) -> int:
    """Latest time at the head of any chain; 0 before the first line."""
    return tx.scalar(_LAST) or 0


def first_moment(tx: Tx) -> int | None:
    """Time of the ledger's first line; None before it."""
    return tx.scalar(_FIRST)


def server_clock(tx: Tx) -> int | None:
    """Now by the database server's clock; None where it has none of its own."""
    if tx.dialect == "sqlite":
        return None
    return tx.scalar(_CLOCK)
