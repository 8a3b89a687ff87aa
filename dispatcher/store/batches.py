"""What a batch of asks looks up: plain rows of numbers, ready to become columns.

Rows are streamed: tens of thousands of tuples alive at a time would set Python's garbage
collector to work, again and again, on all that the program holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dispatcher.store.ledger import parts
from dispatcher.store.transaction import Row, Tx


def entry_facts(tx: Tx, ids: Sequence[int]) -> Iterator[Row]:
    """Many entries, in no order: (id, record, field, subject or -1, time or 0)."""
    for part in parts(ids):
        yield from tx.stream(
            "SELECT id, record_id, field_id, COALESCE(subject_id, -1),"
            " COALESCE(time, 0) FROM entry WHERE id = ANY(?)",
            (part,),
        )


def records(tx: Tx, ids: Sequence[int]) -> Iterator[Row]:
    """Many records, in order of the ascending ids: (id, pseudonym, run, waiting)."""
    for part in parts(ids):
        yield from tx.stream(
            "SELECT id, pseudonym, run_id, waits_since IS NOT NULL FROM record"
            " WHERE id = ANY(?) ORDER BY id",
            (part,),
        )


def lines_about(tx: Tx, ids: Sequence[int]) -> Iterator[Row]:
    """Lines about many entries, from the index alone: (entry, chain, showing).

    ``ids`` ascend. ``showing`` is -1 for an ``unburn``.
    """
    if not ids or not tx.rows(
        "SELECT 1 FROM ledger_line WHERE entry_id BETWEEN ? AND ? LIMIT 1",
        (ids[0], ids[-1]),
    ):
        return
    for part in parts(ids):
        yield from tx.stream(
            "SELECT entry_id, chain_id, COALESCE(showing, -1) FROM ledger_line"
            " WHERE entry_id = ANY(?)",
            (part,),
        )


def survivors(tx: Tx) -> dict[int, int]:
    """Chains that ended, each with the one that goes on."""
    return dict(
        tx.rows("SELECT id, survivor_id FROM chain WHERE survivor_id IS NOT NULL")
    )
