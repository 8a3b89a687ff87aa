"""What a batch of asks looks up, as columns of numbers.

No row becomes a tuple for long: tens of thousands of them alive at a time would set
Python's garbage collector to work, again and again, on all that the program holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dispatcher.store.ledger import parts
from dispatcher.store.packed import Ints
from dispatcher.store.transaction import Row, Tx

_FACTS = (
    "id",
    "record_id",
    "field_id",
    "COALESCE(subject_id, -1)",
    "COALESCE(time, 0)",
)


def lock_facts(tx: Tx, ids: Sequence[int]) -> Ints:
    """Lock many entries, and read them: (id, record, field, subject or -1, time or 0).

    ``ids`` ascend, and so do the rows: in that order entries are locked everywhere, so
    that their showings are counted one by one.
    """
    source = "FROM entry WHERE id = ANY(?) ORDER BY id FOR NO KEY UPDATE"
    return tx.numbers(_FACTS, [(source, (part,)) for part in parts(ids)])


def records(tx: Tx, ids: Sequence[int]) -> Iterator[Row]:
    """Many records, in order of the ascending ids: (id, pseudonym, run, waiting)."""
    for part in parts(ids):
        yield from tx.stream(
            "SELECT id, pseudonym, run_id, waits_since IS NOT NULL FROM record"
            " WHERE id = ANY(?) ORDER BY id",
            (part,),
        )


_LINE = ("entry_id", "chain_id", "COALESCE(showing, -1)")


def lines_about(tx: Tx, ids: Sequence[int]) -> Ints:
    """Lines about many entries, in no order: (entry, chain, showing).

    ``ids`` ascend. ``showing`` is -1 for an ``unburn``.
    """
    if not ids or not tx.rows(
        "SELECT 1 FROM ledger_line WHERE entry_id BETWEEN ? AND ? LIMIT 1",
        (ids[0], ids[-1]),
    ):
        return tx.numbers(_LINE, ())
    source = "FROM ledger_line WHERE entry_id = ANY(?)"
    return tx.numbers(_LINE, [(source, (part,)) for part in parts(ids)])


def survivors(tx: Tx) -> dict[int, int]:
    """Chains that ended, each with the one that goes on."""
    return dict(
        tx.rows("SELECT id, survivor_id FROM chain WHERE survivor_id IS NOT NULL")
    )
