"""What an adversary was shown: for those who ask why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from dispatcher.store import relations
from dispatcher.store.ledger import EntryRow, parts
from dispatcher.store.sql import Value
from dispatcher.store.transaction import Tx


class SeenRow(NamedTuple):
    """One thing that an adversary was shown."""

    entry_id: int
    record_id: int
    field: str
    account: str
    at: int


_SEEN: Final = (
    "SELECT e.id, e.record_id, f.name, a.connector || '/' || a.name, l.at"
    " FROM entry e JOIN ledger_line l ON l.entry_id = e.id"
    " JOIN chain c ON c.id = l.chain_id"
    " JOIN account a ON a.id = l.account_id"
    " JOIN field f ON f.id = e.field_id"
    " WHERE {where} AND COALESCE(c.survivor_id, c.id) = ? AND l.showing = 1"
    " ORDER BY l.at, e.id"
)


def _seen(
    tx: Tx, adversary_id: int, where: str, parameters: Sequence[Value]
) -> list[SeenRow]:
    """What an adversary was shown of the entries of a condition."""
    text = _SEEN.format(where=where)
    return [SeenRow(*row) for row in tx.rows(text, (*parameters, adversary_id))]


def seen_of_links(
    tx: Tx, adversary_id: int, entry: EntryRow, relation: str
) -> list[SeenRow]:
    """What an adversary was shown of linked people at the place of an entry."""
    people = relations.friends(tx, relation, entry.subject_id or 0)
    place, _ = relations.place_of(tx, entry.id)
    if place is None or not people:
        return []
    where = "e.subject_id = ANY(?) AND e.vector = ?"
    return _seen(tx, adversary_id, where, (people, place))


def seen_of_people(
    tx: Tx, adversary_id: int, entry: EntryRow, relation: str, field_ids: Sequence[int]
) -> list[SeenRow]:
    """What an adversary was shown of linked people, in some fields."""
    people = relations.friends(tx, relation, entry.subject_id or 0)
    where, fields = "e.subject_id = ANY(?) AND e.field_id = ANY(?)", list(field_ids)
    return [
        row
        for part in parts(people)
        for row in _seen(tx, adversary_id, where, (part, fields))
    ]


def seen_of_unit(
    tx: Tx, adversary_id: int, entry: EntryRow, field_ids: Sequence[int]
) -> list[SeenRow]:
    """What an adversary was shown of an entry's record and subject, in some fields."""
    found: list[SeenRow] = []
    for column, unit in (
        ("record_id", entry.record_id),
        ("subject_id", entry.subject_id),
    ):
        if unit is not None:
            where = f"e.{column} = ? AND e.field_id = ANY(?)"
            found += _seen(tx, adversary_id, where, (unit, list(field_ids)))
    return list(dict.fromkeys(found))
