"""What ``dispatcher doctor`` asks of the database itself."""

from __future__ import annotations

from dispatcher.store.transaction import Tx

FAULTS = 100
"""Faults that are counted, at most."""


def integrity(tx: Tx) -> int:
    """How many faults SQLite finds in its file; PostgreSQL answers for its own.

    Reads the whole file.
    """
    if tx.dialect != "sqlite":
        return 0
    rows = tx.rows(f"PRAGMA integrity_check({FAULTS})")
    return sum(row[0] != "ok" for row in rows)


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
