"""Queries about who was shown what, and why; never a value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from sqlalchemy import Row, Select, bindparam, func
from sqlalchemy.orm import aliased
from sqlmodel import col, select

from dispatcher.model import (
    SYSTEM_CHAIN,
    Account,
    Chain,
    Entry,
    FieldName,
    LedgerLine,
    Link,
    Record,
    Result,
    Subject,
)
from dispatcher.store import relations
from dispatcher.store.ledger import OF_ADVERSARY, GateEntry, parts
from dispatcher.store.relations import ends
from dispatcher.store.statements import in_list, in_words, select_columns
from dispatcher.store.transaction import Tx

SeenRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""One thing that an adversary was shown: entry_id, record_id, field, account, at."""


_seen: Final = (
    select_columns(
        col(Entry.id).label("entry_id"),
        Entry.record_id,
        col(FieldName.name).label("field"),
        (col(Account.connector) + "/" + col(Account.name)).label("account"),
        LedgerLine.at,
    )
    .select_from(Entry)
    .join(LedgerLine, col(LedgerLine.entry_id) == col(Entry.id))
    .join(Chain, col(Chain.id) == col(LedgerLine.chain_id))
    .join(Account, col(Account.id) == col(LedgerLine.account_id))
    .join(FieldName, col(FieldName.id) == col(Entry.field_id))
    .where(
        func.coalesce(Chain.survivor_id, Chain.id) == bindparam("adversary"),
        LedgerLine.showing == 1,
    )
    .order_by(col(LedgerLine.at), col(Entry.id))
)
_of_people: Final = _seen.where(in_list(Entry.subject_id, "people"))
_AT_PLACE: Final = _of_people.where(Entry.vector == bindparam("place"))
_of_fields: Final = in_list(Entry.field_id, "fields")
_OF_PEOPLE: Final = _of_people.where(_of_fields)
_OF_RECORD: Final = _seen.where(_of_fields, Entry.record_id == bindparam("unit"))
_OF_SUBJECT: Final = _seen.where(_of_fields, Entry.subject_id == bindparam("unit"))


def _shown(
    tx: Tx, query: Select[*tuple[Any, ...]], adversary_id: int, given: Mapping[str, Any]
) -> Sequence[SeenRow]:
    return tx.execute(query, {"adversary": adversary_id, **given}).all()


def seen_of_links(
    tx: Tx, adversary_id: int, entry: GateEntry, relation: str
) -> Sequence[SeenRow]:
    """What an adversary was shown of linked people at the place of an entry."""
    people = relations.friends(tx, relation, entry.subject_id or 0)
    if entry.place is None or not people:
        return []
    given = {"people": people, "place": entry.place}
    return _shown(tx, _AT_PLACE, adversary_id, given)


def seen_of_people(
    tx: Tx, adversary_id: int, entry: GateEntry, relation: str, field_ids: Sequence[int]
) -> list[SeenRow]:
    """What an adversary was shown of linked people, in some fields."""
    people = relations.friends(tx, relation, entry.subject_id or 0)
    fields = list(field_ids)
    return [
        row
        for part in parts(people)
        for row in _shown(
            tx, _OF_PEOPLE, adversary_id, {"people": part, "fields": fields}
        )
    ]


def seen_of_unit(
    tx: Tx, adversary_id: int, entry: GateEntry, field_ids: Sequence[int]
) -> list[SeenRow]:
    """What an adversary was shown of an entry's record and subject, in some fields."""
    found: list[SeenRow] = []
    for query, unit in (
        (_OF_RECORD, entry.record_id),
        (_OF_SUBJECT, entry.subject_id),
    ):
        if unit is not None:
            given = {"unit": unit, "fields": list(field_ids)}
            found += _shown(tx, query, adversary_id, given)
    return list(dict.fromkeys(found))


_SEEN_OF_RECORD: Final = (
    select_columns(FieldName.name, func.coalesce(Chain.survivor_id, Chain.id))
    .select_from(Entry)
    .join(Record, col(Record.id) == col(Entry.record_id))
    .join(LedgerLine, col(LedgerLine.entry_id) == col(Entry.id))
    .join(Chain, col(Chain.id) == col(LedgerLine.chain_id))
    .join(FieldName, col(FieldName.id) == col(Entry.field_id))
    .where(Record.pseudonym == bindparam("record"), LedgerLine.kind == "exposure")
    .order_by(col(LedgerLine.at), col(LedgerLine.chain_id))
)


def seen_of_record(tx: Tx, pseudonym: str) -> list[tuple[str, int]]:
    """Which adversary was shown which field of a record, each once, in order of time."""
    found = tx.execute(_SEEN_OF_RECORD, {"record": pseudonym})
    return list(dict.fromkeys((str(field), int(chain)) for field, chain in found))


_ENTRIES_OF_UNIT: Final = {
    odd: select_columns(
        col(Entry.id).label("entry_id"),
        Record.pseudonym,
        col(FieldName.name).label("field"),
        func.coalesce(Entry.time, 0).label("time"),
        func.coalesce(Result.state, "open").label("state"),
    )
    .select_from(Entry)
    .join(Record, col(Record.id) == col(Entry.record_id))
    .join(FieldName, col(FieldName.id) == col(Entry.field_id))
    .outerjoin(Result, col(Result.entry_id) == col(Entry.id))
    .where(of == bindparam("unit"), _of_fields)
    .order_by(col(Entry.record_id), col(Entry.field_id))
    .limit(bindparam("most"))
    for odd, of in ((0, col(Entry.record_id)), (1, col(Entry.subject_id)))
}
_HOLDERS: Final = (
    select_columns(col(LedgerLine.entry_id), func.coalesce(Chain.survivor_id, Chain.id))
    .select_from(LedgerLine)
    .join(Chain, col(Chain.id) == col(LedgerLine.chain_id))
    .where(in_list(LedgerLine.entry_id, "entries"), LedgerLine.kind == "exposure")
    .distinct()
)
_UNIT_NAMED: Final = {
    0: select(col(Record.id)).where(Record.pseudonym == bindparam("name")),
    1: select(col(Subject.id)).where(Subject.pseudonym == bindparam("name")),
}


def unit_named(tx: Tx, pseudonym: str, *, subject: bool) -> int | None:
    """Number of the unit of a record, or of a subject."""
    found = tx.scalar(_UNIT_NAMED[subject], {"name": pseudonym})
    return None if found is None else 2 * found + subject


def entries_of_unit(
    tx: Tx, unit: int, field_ids: Sequence[int], most: int
) -> Sequence[SeenRow]:
    """Entries of a unit in some fields: entry_id, pseudonym, field, time, state."""
    given = {"unit": unit >> 1, "fields": list(field_ids), "most": most}
    return tx.execute(_ENTRIES_OF_UNIT[unit & 1], given).all()


def holders(tx: Tx, entry_ids: Sequence[int]) -> list[tuple[int, int]]:
    """Who was shown some entries: pairs of an entry and an adversary."""
    return [
        (int(entry), int(adversary))
        for part in parts(entry_ids)
        for entry, adversary in tx.execute(_HOLDERS, {"entries": part})
    ]


_LATEST_OF: Final = (
    select_columns(
        LedgerLine.at,
        Record.pseudonym,
        col(FieldName.name).label("field"),
        (col(Account.connector) + "/" + col(Account.name)).label("account"),
        LedgerLine.cause,
    )
    .select_from(LedgerLine)
    .join(Chain, col(Chain.id) == col(LedgerLine.chain_id))
    .join(Entry, col(Entry.id) == col(LedgerLine.entry_id))
    .join(Record, col(Record.id) == col(Entry.record_id))
    .join(Account, col(Account.id) == col(LedgerLine.account_id))
    .join(FieldName, col(FieldName.id) == col(Entry.field_id))
    .where(LedgerLine.kind == "exposure", OF_ADVERSARY)
    .order_by(col(LedgerLine.at).desc(), col(LedgerLine.seq).desc())
    .limit(bindparam("most"))
)


def latest_of(tx: Tx, adversary_id: int, limit: int) -> Sequence[SeenRow]:
    """What an adversary was shown, the latest first: at, pseudonym, field, account, cause."""
    given = {"adversary": adversary_id, "most": limit}
    return tx.execute(_LATEST_OF, given).all()


# -- records, joins, numbers -----------------------------------------------------------

_NAMED: Final = select(Record.pseudonym, Record.id).where(
    in_list(Record.pseudonym, "names")
)
_RECORDS: Final = (
    select(func.count(col(Entry.record_id).distinct()))
    .select_from(LedgerLine)
    .join(Chain, col(Chain.id) == LedgerLine.chain_id)
    .join(Entry, col(Entry.id) == LedgerLine.entry_id)
    .where(LedgerLine.kind == "exposure", OF_ADVERSARY)
)
_JOINS: Final = (
    select(col(LedgerLine.body))
    .join(Chain, col(Chain.id) == LedgerLine.chain_id)
    .where(LedgerLine.kind == "join", OF_ADVERSARY)
    .order_by(col(LedgerLine.at), col(LedgerLine.chain_id), col(LedgerLine.seq))
)


def records_named(tx: Tx, names: Iterable[str]) -> dict[str, int]:
    """Ids of records, by pseudonym; those that are none are left out."""
    return dict(tx.execute(_NAMED, {"names": sorted(set(names))}).all())


def held_records(tx: Tx, adversary_id: int) -> int:
    """Of how many records an adversary was shown something (grows with its ledger)."""
    return tx.scalar(_RECORDS, {"adversary": adversary_id}) or 0


def joins(tx: Tx, adversary_id: int) -> list[str]:
    """Bodies of the joins that made an adversary what it is, in order."""
    bodies = tx.scalars(_JOINS, {"adversary": adversary_id})
    return [str(body) for body in bodies]


# -- what changes of membership ask: names of units, what was accepted, open tasks -----

_NAMES: Final = (
    (select(Record.id, Record.pseudonym).where(in_list(Record.id, "ids")), 0),
    (select(Subject.id, Subject.pseudonym).where(in_list(Subject.id, "ids")), 1),
)
_OTHER: Final = aliased(Subject)
_LINKS: Final = (
    select_columns(Link.id, Subject.id, _OTHER.id)
    .select_from(Link)
    .outerjoin(Subject, col(Subject.pseudonym) == Link.one)
    .outerjoin(_OTHER, col(_OTHER.pseudonym) == Link.other)
    .where(in_list(Link.id, "links"))
)
_CHAINS: Final = select(Chain.name).where(OF_ADVERSARY)
_BODIES: Final = (
    select_columns(LedgerLine.body)
    .join(Chain, col(Chain.id) == LedgerLine.chain_id)
    .where(
        OF_ADVERSARY,
        in_words(LedgerLine.kind, "member", "join"),
        LedgerLine.policy_version == bindparam("version"),
    )
)
_POLICY: Final = (
    select_columns(LedgerLine.body)
    .where(LedgerLine.chain_id == SYSTEM_CHAIN, LedgerLine.kind == "policy")
    .order_by(col(LedgerLine.seq).desc())
    .limit(1)
)
_HELD: Final = (
    select(func.count(col(LedgerLine.entry_id).distinct()))
    .select_from(LedgerLine)
    .join(Chain, col(Chain.id) == LedgerLine.chain_id)
    .where(LedgerLine.kind == "exposure", OF_ADVERSARY)
)


def unit_names(tx: Tx, units: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """Pseudonyms of units: of a record, a subject, or the two ends of a link."""
    wanted = sorted(set(units))
    named: dict[int, tuple[str, ...]] = {}
    for asked, odd in _NAMES:
        ids = [unit >> 1 for unit in wanted if unit >= 0 and unit & 1 == odd]
        found = tx.execute(asked, {"ids": ids})
        named |= {2 * number + odd: (name,) for number, name in found}
    pairs = ends(tx, [-unit for unit in wanted if unit < 0])
    return named | {-number: pair for number, pair in pairs.items()}


def links(tx: Tx, units: Sequence[int]) -> list[tuple[int, int | None, int | None]]:
    """Return unit id and the two subjects of links, None for one that is not loaded."""
    found = tx.execute(_LINKS, {"links": [-unit for unit in units]})
    return [(-number, one, other) for number, one, other in found]


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
    names = tx.scalars(_CHAINS, {"adversary": adversary_id})
    bodies = tx.scalars(_BODIES, {"adversary": adversary_id, "version": version})
    return frozenset(names), bodies, tx.execute(_POLICY).scalar()


def held_entries(tx: Tx, adversary_ids: Sequence[int]) -> int:
    """How many distinct entries some adversaries hold (grows with their ledger)."""
    return sum(tx.scalar(_HELD, {"adversary": one}) or 0 for one in adversary_ids)
