"""What each adversary holds of each unit: the gate's summary of the exposures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import bindparam, delete
from sqlmodel import col

from dispatcher.model import Holding
from dispatcher.store import relations
from dispatcher.store.ledger import parts
from dispatcher.store.packed import Block, Ints
from dispatcher.store.sql import Value
from dispatcher.store.transaction import Question, Tx

SPAN = 64
"""Units in a range, for each that is wanted, up to which one walk finds them all."""


_HOLDING = ("adversary_id", "unit_id", "field_id", "time", "entries")


def holdings(tx: Tx, wanted: Iterable[tuple[int, Sequence[int]]]) -> Ints:
    """What adversaries hold of many units: (adversary, unit, field, time, entries).

    ``wanted`` names units by adversary; they ascend. Where they lie close together,
    units between them come too.
    """
    asked: list[Question] = []
    for adversary, units in wanted:
        if not units:
            continue
        if units[-1] - units[0] < SPAN * len(units):
            source = "FROM holding WHERE adversary_id = ? AND unit_id BETWEEN ? AND ?"
            asked.append((source, (adversary, units[0], units[-1])))
        elif holds_anything(tx, adversary):
            source = "FROM holding WHERE adversary_id = ? AND unit_id = ANY(?)"
            asked += [(source, (adversary, part)) for part in parts(units)]
    return tx.numbers(_HOLDING, asked)


def holds_anything(tx: Tx, adversary_id: int) -> bool:
    """Whether the summary has a row of an adversary."""
    return (
        tx.one("SELECT 1 FROM holding WHERE adversary_id = ? LIMIT 1", (adversary_id,))
        is not None
    )


def all_holdings(tx: Tx, adversary_id: int) -> list[tuple[int, int, int, int]]:
    """Return the whole summary of one adversary (grows with what it holds)."""
    return tx.rows(
        "SELECT unit_id, field_id, time, entries FROM holding WHERE adversary_id = ?",
        (adversary_id,),
    )


def add_holdings(tx: Tx, added: Iterable[Sequence[int]]) -> None:
    """Add to the summary: rows (adversary, unit, field, time, entries)."""
    tx.upsert_add(
        "holding",
        ("adversary_id", "unit_id", "field_id", "time"),
        "entries",
        added,
    )


def begin_holdings(tx: Tx, begun: Block) -> None:
    """Write rows whose keys the summary does not have yet, as columns, in key order."""
    tx.insert_blocks("holding", _HOLDING, [begun] if begun.size else [])


Kept = Mapping[int, tuple[bool, bool, bool, bool]]
"""By field: kept for the record, for the subject, times told apart, places kept."""


def rebuild_holdings(tx: Tx, kept: Kept, adversary_id: int | None = None) -> None:
    """Write the summary anew from the ledger's exposures (grows with them).

    Of all adversaries, or of one (with the chains that ended in it).
    """
    text, parameters = _derived(kept, adversary_id)
    if adversary_id is None:
        tx.execute("DELETE FROM holding")
    else:
        tx.execute("DELETE FROM holding WHERE adversary_id = ?", (adversary_id,))
    tx.execute(
        "INSERT INTO holding (adversary_id, unit_id, field_id, time, entries) " + text,
        parameters,
    )
    relations.rebuild_visits(tx, _placed(kept), adversary_id)


def _placed(kept: Kept) -> list[int]:
    return [n for n, (_, _, _, places) in kept.items() if places]


def _derived(kept: Kept, adversary_id: int | None = None) -> tuple[str, list[Value]]:
    """Return the query that counts holdings from exposures, and its parameters."""
    by_record = [n for n, (record, _, _, _) in kept.items() if record]
    by_subject = [n for n, (_, subject, _, _) in kept.items() if subject]
    timed = [n for n, (_, _, times, _) in kept.items() if times]
    seen = (
        "(SELECT DISTINCT COALESCE(c.survivor_id, c.id) AS adversary_id, l.entry_id"
        " FROM ledger_line l JOIN chain c ON c.id = l.chain_id"
        " WHERE l.kind = 'exposure' AND l.showing = 1"
    )
    one: list[Value] = []
    if adversary_id is not None:
        seen += " AND (c.id = ? OR c.survivor_id = ?)"
        one = [adversary_id, adversary_id]
    seen += ") s"
    text = (
        "SELECT h.adversary_id, h.unit_id, h.field_id, h.moment, COUNT(*) AS entries"
        " FROM (SELECT s.adversary_id, 2 * e.record_id AS unit_id, e.field_id,"
        f" 0 AS moment FROM {seen} JOIN entry e ON e.id = s.entry_id"
        " WHERE e.field_id = ANY(?)"
        " UNION ALL SELECT s.adversary_id, 2 * e.subject_id + 1, e.field_id,"
        " CASE WHEN e.field_id = ANY(?) THEN COALESCE(e.time, 0) ELSE 0 END"
        f" FROM {seen} JOIN entry e ON e.id = s.entry_id"
        " WHERE e.field_id = ANY(?) AND e.subject_id IS NOT NULL) h"
        " GROUP BY h.adversary_id, h.unit_id, h.field_id, h.moment"
    )
    return text, [*one, by_record, timed, *one, by_subject]


_FORGET = delete(Holding).where(col(Holding.adversary_id) == bindparam("adversary"))


def forget(tx: Tx, adversary_id: int) -> None:
    """Delete the summary of an adversary that goes on as another."""
    tx.execute(_FORGET, {"adversary": adversary_id})
