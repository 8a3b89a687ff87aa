"""Calls of markets that were checked: each counts once, and wakes the collecting."""

from __future__ import annotations

from typing import Final

from dispatcher.store.transaction import Tx

KEPT: Final = 86_400 * 1_000_000
"""Microseconds that a call is remembered: far above the age at which it is refused."""


def note(tx: Tx, connector: str, call: str, now: int) -> bool:
    """Remember a call; False if it came before. What is old is forgotten.

    Parameters
    ----------
    tx : Tx
    connector : str
    call : str
        Id of the call, as the connector makes it.
    now : int
        Microseconds.
    """
    tx.execute("DELETE FROM hook WHERE at < ?", [now - KEPT])
    found = tx.rows(
        "INSERT INTO hook (connector, call, at) VALUES (?, ?, ?)"
        " ON CONFLICT DO NOTHING RETURNING call",
        [connector, call, now],
    )
    return bool(found)


def latest(tx: Tx) -> dict[str, int]:
    """When each connector was called last, in microseconds."""
    found = tx.rows("SELECT connector, max(at) FROM hook GROUP BY connector")
    return {row[0]: row[1] for row in found}
