"""Numbers for ``dispatcher status``: counts by state, never a value."""

from __future__ import annotations

from typing import NamedTuple

from dispatcher.model import LIVE_TASK_STATES, SYSTEM_CHAIN
from dispatcher.store.transaction import Tx


class HeldRow(NamedTuple):
    """Entries that the plan holds back for one reason."""

    reason: str
    entries: int


class ConnectorRow(NamedTuple):
    """How the work of one connector stands.

    ``open`` tasks may still bring an answer; ``in_doubt`` are those, given up or not,
    whose message was tried and never confirmed: it may have arrived. ``rests_until`` is when
    a failed one is tried again, microseconds UTC; None where nothing failed.
    """

    connector: str
    open: int
    answered: int
    in_doubt: int
    rests_until: int | None


def connectors(tx: Tx, now: int) -> list[ConnectorRow]:
    """Tasks by connector, and which of them rest after a failure, by name."""
    tasks: dict[str, dict[str, int]] = {}
    for name, state, count in tx.rows(
        "SELECT connector, state, count(*) FROM task GROUP BY connector, state"
    ):
        tasks.setdefault(name, {})[state] = int(count)
    doubtful: dict[str, int] = dict(
        tx.rows(
            "SELECT t.connector, count(*) FROM outbox o JOIN task t ON t.outbox_id = o.id"
            " WHERE o.state IN ('ready', 'leased', 'dead') AND o.attempts > 0"
            " AND t.state IN ('booked', 'dead') GROUP BY t.connector"
        )
    )
    rests: dict[str, int] = dict(
        tx.rows(
            "SELECT connector, min(due) FROM outbox WHERE state = 'ready'"
            " AND attempts > 0 GROUP BY connector HAVING min(due) > ?",
            [now],
        )
    )
    return [
        ConnectorRow(
            connector=name,
            open=sum(tasks.get(name, {}).get(state, 0) for state in LIVE_TASK_STATES),
            answered=tasks.get(name, {}).get("answered", 0),
            in_doubt=int(doubtful.get(name, 0)),
            rests_until=rests.get(name),
        )
        for name in sorted(tasks.keys() | rests.keys())
    ]


def counts(tx: Tx) -> dict[str, int]:
    """Records, entries, accounts, adversaries, exposures and answers."""
    questions = {
        "records": "SELECT count(*) FROM record WHERE erased_at IS NULL",
        "entries": "SELECT count(*) FROM entry",
        "accounts": "SELECT count(*) FROM account WHERE state = 'active'",
        "adversaries": "SELECT count(*) FROM chain"
        f" WHERE id <> {SYSTEM_CHAIN} AND survivor_id IS NULL",
        "exposures": "SELECT count(*) FROM ledger_line WHERE kind = 'exposure'",
        "answers": "SELECT count(*) FROM answer WHERE valid = 1",
        "quarantined": "SELECT count(*) FROM quarantine WHERE dismissed_at IS NULL",
    }
    return {name: int(tx.value(text)) for name, text in questions.items()}


def states(tx: Tx, table: str) -> dict[str, int]:
    """How many rows of ``task``, ``outbox`` or ``result`` are in each state."""
    assert table in ("task", "outbox", "result")
    text = f"SELECT state, count(*) FROM {table} GROUP BY state ORDER BY state"
    return {state: int(count) for state, count in tx.rows(text)}


def fields(tx: Tx) -> dict[str, int]:
    """How many entries have a result in each state, or lie at a feed (published)."""
    found = states(tx, "result")
    at_feeds = tx.value(
        "SELECT count(DISTINCT entry_id) FROM task WHERE state = 'published'"
    )
    return found | ({"published": int(at_feeds)} if at_feeds else {})


def workers(tx: Tx) -> dict[str, int]:
    """How many accounts are in each state."""
    text = "SELECT state, count(*) FROM account GROUP BY state ORDER BY state"
    return {state: int(count) for state, count in tx.rows(text)}


def oldest_waiting(tx: Tx) -> int | None:
    """When the oldest message that waits or is being sent was written."""
    found = tx.value(
        "SELECT min(created_at) FROM outbox WHERE state IN ('ready', 'leased')"
    )
    return None if found is None else int(found)


def held_back(tx: Tx) -> list[HeldRow]:
    """Entries that the last plan held back, by reason, most first."""
    return [
        HeldRow(reason, int(count))
        for reason, count in tx.rows(
            "SELECT reason, count(*) FROM held_back GROUP BY reason"
            " ORDER BY count(*) DESC, reason"
        )
    ]


def last_seal(tx: Tx) -> tuple[int, int] | None:
    """Number in chain ``system`` and moment of the last seal."""
    row = tx.one(
        "SELECT seq, at FROM ledger_line WHERE chain_id = ? AND kind = 'seal'"
        " ORDER BY seq DESC LIMIT 1",
        [SYSTEM_CHAIN],
    )
    return None if row is None else (int(row[0]), int(row[1]))


def live_shown(tx: Tx, now: int) -> int:
    """Tasks that are in a worker's hands on our page now."""
    return int(
        tx.value(
            "SELECT count(*) FROM task WHERE state = 'shown' AND leased_until > ?",
            [now],
        )
    )


def runs(tx: Tx) -> list[str]:
    """Names of all runs."""
    return [row[0] for row in tx.rows("SELECT name FROM run ORDER BY name")]
