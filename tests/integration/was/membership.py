"""What changes of membership ask: names of units, what was accepted, open tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dispatcher.model import LIVE_TASK_STATES, SYSTEM_CHAIN
from dispatcher.store.ledger import parts
from dispatcher.store.relations import ends
from dispatcher.store.transaction import Tx


def unit_names(tx: Tx, units: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """Pseudonyms of what units are: a record, a subject, or the two ends of a link."""
    wanted = sorted(set(units))
    named: dict[int, tuple[str, ...]] = {}
    for table, odd in (("record", 0), ("subject", 1)):
        ids = [unit >> 1 for unit in wanted if unit >= 0 and unit & 1 == odd]
        for part in parts(ids):
            text = f"SELECT id, pseudonym FROM {table} WHERE id = ANY(?)"
            named |= {2 * row[0] + odd: (row[1],) for row in tx.rows(text, [part])}
    pairs = ends(tx, [-unit for unit in wanted if unit < 0])
    return named | {-number: pair for number, pair in pairs.items()}


def links(tx: Tx, units: Sequence[int]) -> list[tuple[int, int | None, int | None]]:
    """Return unit id and the two subjects of links, None for one that is not loaded."""
    return [
        (-row[0], row[1], row[2])
        for part in parts([-unit for unit in units])
        for row in tx.rows(
            "SELECT l.id, s.id, o.id FROM link l"
            " LEFT JOIN subject s ON s.pseudonym = l.one"
            " LEFT JOIN subject o ON o.pseudonym = l.other WHERE l.id = ANY(?)",
            [part],
        )
    ]


def accepting_lines(
    tx: Tx, adversary_id: int, version: int
) -> tuple[frozenset[str], list[str], str | None]:
    """Lines that may accept something for an adversary, under a version.

    Returns
    -------
    names : frozenset of str
        Its chain, and those that ended in it.
    bodies : list of str
        Of their member and join lines since the version is in force.
    policy : str or None
        Body of the version's own line.
    """
    chains = "(c.id = ? OR c.survivor_id = ?)"
    own = [adversary_id, adversary_id]
    names = tx.rows(f"SELECT c.name FROM chain c WHERE {chains}", own)
    bodies = tx.rows(
        "SELECT l.body FROM ledger_line l JOIN chain c ON c.id = l.chain_id"
        f" WHERE {chains} AND l.kind IN ('member', 'join') AND l.policy_version = ?",
        [*own, version],
    )
    policy = None
    for (body,) in tx.rows(
        "SELECT body FROM ledger_line WHERE chain_id = ? AND kind = 'policy'"
        " ORDER BY seq DESC LIMIT 1",
        [SYSTEM_CHAIN],
    ):
        policy = body
    return frozenset(row[0] for row in names), [row[0] for row in bodies], policy


def held_entries(tx: Tx, adversary_ids: Sequence[int]) -> int:
    """How many distinct entries some adversaries hold (grows with their ledger)."""
    return sum(
        int(
            tx.value(
                "SELECT COUNT(DISTINCT l.entry_id) FROM ledger_line l"
                " JOIN chain c ON c.id = l.chain_id WHERE l.kind = 'exposure'"
                " AND (c.id = ? OR c.survivor_id = ?)",
                [adversary, adversary],
            )
        )
        for adversary in adversary_ids
    )


class OpenTask(NamedTuple):
    """A task that may still bring an answer, and where it is."""

    id: int
    entry_id: int
    record_id: int
    subject_id: int | None
    field_id: int
    account_id: int
    adversary_id: int
    connector: str
    state: str
    outbox_id: int | None
    message_state: str | None
    attempts: int | None


_OPEN = (
    "SELECT t.id, t.entry_id, e.record_id, e.subject_id, e.field_id, t.account_id,"
    " a.adversary_id, t.connector, t.state, t.outbox_id, o.state, o.attempts"
    " FROM task t JOIN entry e ON e.id = t.entry_id"
    " JOIN account a ON a.id = t.account_id"
    " LEFT JOIN outbox o ON o.id = t.outbox_id"
    " WHERE t.state IN ({live})"
).format(live=", ".join(f"'{state}'" for state in LIVE_TASK_STATES))


def open_tasks(tx: Tx, adversary_ids: Sequence[int] | None = None) -> list[OpenTask]:
    """Tasks under way, by id: of some adversaries, or (None) of all."""
    if adversary_ids is None:
        return [OpenTask(*row) for row in tx.rows(_OPEN + " ORDER BY t.id")]
    text = _OPEN + " AND a.adversary_id = ANY(?) ORDER BY t.id"
    return [OpenTask(*row) for row in tx.rows(text, [list(adversary_ids)])]


def adversaries_of_messages(tx: Tx, outbox_ids: Sequence[int]) -> list[int]:
    """Whom some messages are for."""
    return sorted(
        {
            int(row[0])
            for part in parts(sorted(set(outbox_ids)))
            for row in tx.rows(
                "SELECT a.adversary_id FROM outbox o JOIN account a"
                " ON a.id = o.account_id WHERE o.id = ANY(?)"
                " AND a.adversary_id IS NOT NULL",
                [part],
            )
        }
    )


def tasks_of_messages(tx: Tx, outbox_ids: Sequence[int]) -> list[int]:
    """Tasks under way that left with some messages."""
    live = ", ".join(f"'{state}'" for state in LIVE_TASK_STATES)
    return [
        int(row[0])
        for part in parts(sorted(set(outbox_ids)))
        for row in tx.rows(
            f"SELECT id FROM task WHERE outbox_id = ANY(?) AND state IN ({live})",
            [part],
        )
    ]


def take_back(tx: Tx, task_ids: Sequence[int]) -> int:
    """End tasks under way; a late answer still counts. Returns how many."""
    live = ", ".join(f"'{state}'" for state in LIVE_TASK_STATES)
    return sum(
        tx.execute(
            "UPDATE task SET state = 'returned', leased_until = NULL, draft = NULL"
            f" WHERE id = ANY(?) AND state IN ({live})",
            [part],
        )
        for part in parts(sorted(set(task_ids)))
    )


def cancel_empty(tx: Tx, outbox_ids: Sequence[int]) -> int:
    """Cancel messages that were never tried and carry no task any more."""
    live = ", ".join(f"'{state}'" for state in LIVE_TASK_STATES)
    return sum(
        tx.execute(
            "UPDATE outbox SET state = 'cancelled' WHERE id = ANY(?)"
            " AND state = 'ready' AND attempts = 0 AND NOT EXISTS"
            " (SELECT 1 FROM task t WHERE t.outbox_id = outbox.id"
            f" AND t.state IN ({live}))",
            [part],
        )
        for part in parts(sorted(set(outbox_ids)))
    )


def withdraw(tx: Tx, outbox_ids: Sequence[int], at: int) -> int:
    """Write a message that withdraws each of these; once for each. Returns how many."""
    wanted = sorted(set(outbox_ids))
    known = {
        row[0] for row in tx.rows("SELECT handle FROM outbox WHERE kind = 'withdraw'")
    }
    found = [
        row
        for part in parts(wanted)
        for row in tx.rows(
            "SELECT id, connector, account_id FROM outbox WHERE id = ANY(?)"
            " AND kind = 'publish' ORDER BY id",
            [part],
        )
        if str(row[0]) not in known
    ]
    if not found:
        return 0
    first = tx.reserve("outbox", len(found))
    tx.insert_many(
        "outbox",
        ("id", "connector", "account_id", "kind", "state", "due", "attempts",
         "epoch", "handle", "created_at"),
        [
            (first + i, connector, account, "withdraw", "ready", at, 0, 0, str(number),
             at)
            for i, (number, connector, account) in enumerate(found)
        ],
    )  # fmt: skip
    return len(found)
