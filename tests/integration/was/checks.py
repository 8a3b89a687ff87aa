"""What ``dispatcher doctor`` asks of the database itself."""

from __future__ import annotations

from typing import Final

from dispatcher.store.transaction import Tx

FAULTS = 100
"""Faults that are counted, at most."""

APPEND_ONLY: Final = ("ledger_line", "key_lines", "policy", "money_line")
"""Tables whose rows neither change nor go: triggers refuse it."""

_GUARDS: Final = {
    "sqlite": (
        ("no_update", "no_delete"),
        "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        " AND sql LIKE '%RAISE(ABORT%'",
    ),
    "postgresql": (
        ("no_change", "no_truncate"),
        "SELECT g.tgname FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid"
        " JOIN pg_proc f ON f.oid = g.tgfoid WHERE pg_table_is_visible(c.oid)"
        " AND g.tgenabled IN ('O', 'A') AND f.prosrc LIKE '%RAISE EXCEPTION%'",
    ),
}
"""By database: endings of the triggers of each such table, and those at work."""


def integrity(tx: Tx) -> int:
    """How many faults SQLite finds in its file; PostgreSQL answers for its own.

    Reads the whole file.
    """
    if tx.dialect != "sqlite":
        return 0
    rows = tx.rows(f"PRAGMA integrity_check({FAULTS})")
    return sum(row[0] != "ok" for row in rows)


def missing_guards(tx: Tx) -> list[str]:
    """Triggers of append-only tables that are gone, switched off or emptied."""
    endings, at_work = _GUARDS[tx.dialect]
    found = {str(row[0]) for row in tx.rows(at_work)}
    due = [f"{table}_{ending}" for table in APPEND_ONLY for ending in endings]
    return [name for name in due if name not in found]


def last_moment(tx: Tx) -> int:
    """Latest moment at the head of any chain; 0 before the first line."""
    return int(tx.value("SELECT COALESCE(max(at), 0) FROM chain"))


def first_moment(tx: Tx) -> int | None:
    """Moment of the ledger's first line; None before it."""
    found = tx.value(
        "SELECT min(l.at) FROM chain c JOIN ledger_line l"
        " ON l.chain_id = c.id AND l.seq = 1"
    )
    return None if found is None else int(found)


def server_clock(tx: Tx) -> int | None:
    """Now by the database server's clock; None where it has none of its own."""
    if tx.dialect == "sqlite":
        return None
    text = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)"
    return int(tx.value(text))
