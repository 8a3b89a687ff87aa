"""What people ask about who was shown what: records, joins, numbers; never a value."""

from __future__ import annotations

from collections.abc import Iterable

from dispatcher.store.ledger import MANY
from dispatcher.store.transaction import Tx


def records_named(tx: Tx, names: Iterable[str]) -> dict[str, int]:
    """Ids of records, by pseudonym; those that are none are left out."""
    wanted = sorted(set(names))
    return {
        row[0]: int(row[1])
        for first in range(0, len(wanted), MANY)
        for row in tx.rows(
            "SELECT pseudonym, id FROM record WHERE pseudonym = ANY(?)",
            [wanted[first : first + MANY]],
        )
    }


def held_records(tx: Tx, adversary_id: int) -> int:
    """Of how many records an adversary was shown something (grows with its ledger)."""
    return int(
        tx.value(
            "SELECT COUNT(DISTINCT e.record_id) FROM ledger_line l"
            " JOIN chain c ON c.id = l.chain_id JOIN entry e ON e.id = l.entry_id"
            " WHERE l.kind = 'exposure' AND (c.id = ? OR c.survivor_id = ?)",
            [adversary_id, adversary_id],
        )
    )


def joins(tx: Tx, adversary_id: int) -> list[str]:
    """Bodies of the joins that made an adversary what it is, in order."""
    return [
        row[0]
        for row in tx.rows(
            "SELECT l.body FROM ledger_line l JOIN chain c ON c.id = l.chain_id"
            " WHERE l.kind = 'join' AND (c.id = ? OR c.survivor_id = ?)"
            " ORDER BY l.at, l.chain_id, l.seq",
            [adversary_id, adversary_id],
        )
    ]
