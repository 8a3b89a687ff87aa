"""What ``dispatcher queue`` reads and writes: outbox messages, without content."""

from __future__ import annotations

from collections.abc import Sequence

from dispatcher.store.transaction import Tx


def messages(tx: Tx, state: str | None, limit: int) -> list[tuple[object, ...]]:
    """Messages, oldest first: id, connector, account, kind, state, tries, error."""
    return [
        tuple(row)
        for row in tx.rows(
            "SELECT o.id, o.connector, a.connector || '/' || a.name, o.kind, o.state,"
            " o.attempts, COALESCE(o.error, '') FROM outbox o"
            " JOIN account a ON a.id = o.account_id"
            " WHERE (CAST(? AS TEXT) IS NULL OR o.state = ?) ORDER BY o.id LIMIT ?",
            [state, state, limit],
        )
    ]


def dead(tx: Tx, ids: Sequence[int], connector: str | None) -> list[int]:
    """Dead messages: those of the ids (none: all) and of the connector (None: any)."""
    wanted = set(ids)
    found = tx.rows(
        "SELECT id FROM outbox WHERE state = 'dead'"
        " AND (CAST(? AS TEXT) IS NULL OR connector = ?) ORDER BY id",
        [connector, connector],
    )
    return [row[0] for row in found if not wanted or row[0] in wanted]


def revive(tx: Tx, ids: Sequence[int], now: int) -> int:
    """Let dead messages wait again, with all their tries; return how many.

    Their tasks are under way again, so that a change that makes one unsafe finds it.
    """
    tx.execute(
        "UPDATE task SET state = 'booked' WHERE state = 'dead' AND outbox_id IN"
        " (SELECT id FROM outbox WHERE state = 'dead' AND id = ANY(?))",
        [ids],
    )
    return tx.execute(
        "UPDATE outbox SET state = 'ready', due = ?, attempts = 0"
        " WHERE state = 'dead' AND id = ANY(?)",
        [now, ids],
    )
