"""Numbers for the metrics: counts by connector and state, never a worker or a value."""

from __future__ import annotations

from typing import Final, NamedTuple

from dispatcher.store.transaction import Tx


class WaitingRow(NamedTuple):
    """What waits for a connector: messages, moment of the oldest, most failed tries."""

    connector: str
    messages: int
    oldest: int
    tries: int


def tasks(tx: Tx) -> list[tuple[str, str, int]]:
    """Tasks by connector and state."""
    text = "SELECT connector, state, count(*) FROM task GROUP BY connector, state"
    return [(name, state, int(count)) for name, state, count in tx.rows(text)]


def waiting(tx: Tx) -> list[WaitingRow]:
    """Messages that wait or are being sent, by connector."""
    return [
        WaitingRow(name, int(count), int(oldest), int(tries))
        for name, count, oldest, tries in tx.rows(
            "SELECT connector, count(*), min(created_at), max(attempts) FROM outbox"
            " WHERE state IN ('ready', 'leased') GROUP BY connector"
        )
    ]


TIRED: Final = 3
"""A connector is down when a message to it that waits has failed so often."""


class DownRow(NamedTuple):
    """A connector that is down: what waits for it, and what it said last."""

    connector: str
    messages: int
    error: str


def down(tx: Tx) -> list[DownRow]:
    """Connectors whose messages wait after :data:`TIRED` failures or more."""
    errors = {
        name: told or ""
        for name, told in tx.rows(
            "SELECT connector, error FROM outbox"
            " WHERE state IN ('ready', 'leased') AND attempts >= ? ORDER BY due, id",
            [TIRED],
        )
    }
    return [
        DownRow(row.connector, row.messages, errors.get(row.connector, ""))
        for row in waiting(tx)
        if row.tries >= TIRED
    ]


def dead(tx: Tx) -> list[tuple[str, str, int]]:
    """Messages that were given up, by connector and kind."""
    text = (
        "SELECT connector, kind, count(*) FROM outbox WHERE state = 'dead'"
        " GROUP BY connector, kind"
    )
    return [(name, kind, int(count)) for name, kind, count in tx.rows(text)]


def answers(tx: Tx) -> list[tuple[str, str, int]]:
    """Answers by connector, ``valid`` or ``refused``."""
    text = (
        "SELECT a.connector, CASE WHEN w.valid = 1 THEN 'valid' ELSE 'refused' END,"
        " count(*) FROM answer w JOIN account a ON a.id = w.account_id"
        " GROUP BY a.connector, w.valid"
    )
    return [(name, verdict, int(count)) for name, verdict, count in tx.rows(text)]


def payments(tx: Tx) -> list[tuple[str, str, int]]:
    """Payments by connector and state."""
    text = (
        "SELECT connector, state, count(*) FROM payment GROUP BY connector, state"
        " ORDER BY connector, state"
    )
    return [(name, state, int(count)) for name, state, count in tx.rows(text)]


def chain_lengths(tx: Tx) -> dict[int, int]:
    """Length of every chain."""
    text = "SELECT id, seq FROM chain"
    return {int(chain): int(seq) for chain, seq in tx.rows(text)}


def exposures_after(tx: Tx, chain_id: int, seq: int) -> list[tuple[str, int]]:
    """Exposures by connector in the lines of a chain after one."""
    return [
        (name, int(count))
        for name, count in tx.rows(
            "SELECT a.connector, count(*) FROM ledger_line l"
            " JOIN account a ON a.id = l.account_id"
            " WHERE l.chain_id = ? AND l.seq > ? AND l.kind = 'exposure'"
            " GROUP BY a.connector",
            [chain_id, seq],
        )
    ]


def accepted_after(tx: Tx, chain_id: int, seq: int) -> list[tuple[str, str]]:
    """Lines of a chain after one that may accept what is past a limit: kind, body."""
    text = (
        "SELECT kind, body FROM ledger_line WHERE chain_id = ? AND seq > ?"
        " AND kind IN ('member', 'join', 'policy') ORDER BY seq"
    )
    return [(kind, body) for kind, body in tx.rows(text, [chain_id, seq])]


def agreement(tx: Tx) -> list[tuple[str, int, int]]:
    """Fields by name: results in which answers agree, and those in conflict."""
    text = (
        "SELECT f.name, sum(CASE WHEN q.state = 'answered' THEN 1 ELSE 0 END),"
        " sum(CASE WHEN q.state = 'conflict' THEN 1 ELSE 0 END)"
        " FROM result q JOIN entry e ON e.id = q.entry_id"
        " JOIN field f ON f.id = e.field_id"
        " WHERE q.state IN ('answered', 'conflict') GROUP BY f.name"
    )
    return [(name, int(agreed), int(other)) for name, agreed, other in tx.rows(text)]


def plan_summary(tx: Tx) -> str | None:
    """Return the summary (JSON) of the plan in force."""
    text = "SELECT summary FROM plan WHERE state = 'applied' ORDER BY id DESC LIMIT 1"
    found = tx.value(text)
    return None if found is None else str(found)


def size(tx: Tx) -> int:
    """Bytes of the database."""
    text = (
        "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        if tx.dialect == "sqlite"
        else "SELECT pg_database_size(current_database())"
    )
    return int(tx.value(text))
