"""Links between subjects, and where each adversary has seen whom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from sqlalchemy import (
    BigInteger,
    Subquery,
    bindparam,
    cast,
    delete,
    func,
    or_,
    union_all,
)
from sqlalchemy.orm import aliased
from sqlmodel import col, select

from dispatcher.model import (
    Chain,
    Entry,
    ExposureCount,
    LedgerLine,
    Link,
    Record,
    Subject,
    VisitCount,
)
from dispatcher.store.ledger import parts
from dispatcher.store.statements import (
    Columns,
    DriverStatement,
    fixed,
    in_list,
    insert,
    select_columns,
)
from dispatcher.store.transaction import Row, Tx

VisitRow: TypeAlias = tuple[int, int, int, str, int]
"""Adversary, subject, field, place and visits."""

_One: Final = aliased(Subject, name="one_end")
_Other: Final = aliased(Subject, name="other_end")
_both_ends: Final = (
    col(_One.pseudonym) == col(Link.one),
    col(_Other.pseudonym) == col(Link.other),
)

# -- links -----------------------------------------------------------------------------

_PAIRS: Final = (
    select(Link.one, Link.other)
    .where(Link.relation == bindparam("relation"))
    .order_by(col(Link.id))
)
_LINKS: Final = DriverStatement(
    select(Link.id, _One.id, _Other.id)
    .join(_One, _both_ends[0])
    .join(_Other, _both_ends[1])
    .where(Link.relation == bindparam("relation"))
    .order_by(col(Link.id))
)
_BY_VERSION: Final = (
    select_columns(Link.version, Link.relation, _One.id, _Other.id)
    .join(_One, _both_ends[0], isouter=True)
    .join(_Other, _both_ends[1], isouter=True)
    .order_by(col(Link.version), col(Link.id))
)
_ENDS: Final = select(Link.id, Link.one, Link.other).where(in_list(Link.id, "ids"))
_UP_TO: Final = (
    select(func.count()).select_from(Link).where(Link.version <= bindparam("version"))
)


def _mates_at(mine: Any, far: Any) -> Columns:  # noqa: ANN401
    return (
        select_columns(_Other.id)
        .select_from(_One)
        .join(Link, mine == col(_One.pseudonym))
        .join(_Other, col(_Other.pseudonym) == far, isouter=True)
        .where(_One.id == bindparam("subject"), Link.relation == bindparam("relation"))
    )


_MATES: Final = DriverStatement(
    union_all(_mates_at(Link.one, Link.other), _mates_at(Link.other, Link.one))
)
_HALF: Final = (
    select_columns(Link.id, func.coalesce(_One.id, -1), func.coalesce(_Other.id, -1))
    .join(_One, _both_ends[0], isouter=True)
    .join(_Other, _both_ends[1], isouter=True)
    .where(
        Link.relation == bindparam("relation"),
        or_(col(_One.id).is_not(None), col(_Other.id).is_not(None)),
    )
    .order_by(col(Link.id))
)


def add_links(tx: Tx, relation: str, pairs: Sequence[tuple[str, str]], at: int) -> None:
    """Keep new links (pseudonyms, one < other, each once) of the version ``at``."""
    first = tx.reserve("link", len(pairs)) if pairs else 0
    tx.insert_many(
        "link",
        ("id", "relation", "one", "other", "version"),
        [(first + i, relation, *pair, at) for i, pair in enumerate(pairs)],
    )


def pairs(tx: Tx, relation: str) -> Iterator[Row]:
    """Go through all links of a relation as they came: (one, other), pseudonyms."""
    return tx.stream(_PAIRS, {"relation": relation})


def links(tx: Tx, relation: str) -> Iterator[Row]:
    """Go through links of a relation: (id, one, other), subjects that are loaded."""
    return tx.driver_stream(_LINKS, {"relation": relation})


def links_by_version(tx: Tx) -> Iterator[Row]:
    """All links: (version, relation, one, other); None for an end not loaded."""
    return tx.stream(_BY_VERSION)


def ends(tx: Tx, link_ids: Sequence[int]) -> dict[int, tuple[str, str]]:
    """Pseudonyms of the two ends of links, sorted."""
    found: dict[int, tuple[str, str]] = {}
    for part in parts(link_ids):
        for number, one, other in tx.execute(_ENDS, {"ids": part}):
            found[number] = one, other
    return found


def count_up_to(tx: Tx, version: int) -> int:
    """How many links versions up to one have brought."""
    return tx.scalar(_UP_TO, {"version": version}) or 0


def friends(tx: Tx, relation: str, subject_id: int) -> list[int]:
    """Loaded subjects that a subject is linked with."""
    return [one for one in mates(tx, relation, subject_id) if one is not None]


def mates(tx: Tx, relation: str, subject_id: int) -> list[int | None]:
    """Whom a subject is linked with; None for each who is not loaded."""
    given = {"subject": subject_id, "relation": relation}
    return [row[0] for row in tx.driver_rows(_MATES, given)]


def half_links(tx: Tx, relation: str) -> Iterator[Row]:
    """Go through links with an end that is loaded: (id, one, other), -1 if it is not."""
    return tx.stream(_HALF, {"relation": relation})


# -- what an adversary holds, and where it has seen whom -------------------------------

_record_of_unit: Final = (
    select(Record.subject_id)
    .where(col(Record.id) == col(ExposureCount.unit_id) // 2)
    .scalar_subquery()
)
_HELD_OF: Final = DriverStatement(
    # By unit: else SQLite would go through all that the adversary holds.
    select_columns(
        _record_of_unit, col(ExposureCount.unit_id) // 2, ExposureCount.field_id
    ).where(
        ExposureCount.adversary_id == bindparam("adversary"),
        col(ExposureCount.unit_id).in_(
            select(2 * col(Record.id)).where(in_list(Record.subject_id, "subjects"))
        ),
    )
)
_ALL_HELD: Final = (
    select_columns(Record.subject_id, Record.id, ExposureCount.field_id)
    .select_from(ExposureCount)
    .join(
        Record,
        (col(Record.id) == col(ExposureCount.unit_id) // 2)
        & (2 * col(Record.id) == col(ExposureCount.unit_id)),
    )
    .where(
        ExposureCount.adversary_id == bindparam("adversary"),
        col(Record.subject_id).is_not(None),
    )
)
_HOLDERS: Final = (
    select(ExposureCount.adversary_id)
    .distinct()
    .order_by(col(ExposureCount.adversary_id))
)
_KNOWN_OF: Final = select(Entry.subject_id, Entry.record_id, Entry.field_id).where(
    in_list(Entry.field_id, "fields"), col(Entry.subject_id).is_not(None)
)
_PLACES_OF: Final = DriverStatement(
    select_columns(Entry.id, Entry.vector, Entry.visits).where(
        in_list(Entry.id, "ids"), col(Entry.vector).is_not(None)
    )
)
_visits: Final = select(
    VisitCount.subject_id, VisitCount.field_id, VisitCount.place, VisitCount.visits
).where(VisitCount.adversary_id == bindparam("adversary"))
_VISITS: Final = DriverStatement(
    _visits.where(in_list(VisitCount.subject_id, "subjects"))
)
_VISITORS: Final = (
    select(VisitCount.adversary_id).distinct().order_by(col(VisitCount.adversary_id))
)
_added_visits: Final = cast(func.sum(Entry.visits), BigInteger)
_KNOWN_VISITS: Final = (
    select_columns(Entry.subject_id, Entry.field_id, Entry.vector, _added_visits)
    .where(
        in_list(Entry.field_id, "fields"),
        col(Entry.vector).is_not(None),
        col(Entry.subject_id).is_not(None),
    )
    .group_by(col(Entry.subject_id), col(Entry.field_id), col(Entry.vector))
)
_PLACES: Final = (
    select_columns(Entry.id, Entry.vector, Entry.visits)
    .where(col(Entry.vector).is_not(None))
    .order_by(col(Entry.id))
)


def exposed(*, of_one: bool) -> Subquery:
    """Query of what adversaries were shown: (adversary_id, entry_id), each once.

    Of all, or of the parameter ``adversary`` with the chains that ended in it.
    """
    found = (
        select(
            func.coalesce(Chain.survivor_id, Chain.id).label("adversary_id"),
            LedgerLine.entry_id,
        )
        .distinct()
        .join(Chain, col(Chain.id) == col(LedgerLine.chain_id))
        .where(LedgerLine.kind == fixed("exposure"), LedgerLine.showing == 1)
    )
    if of_one:
        asked = bindparam("adversary", type_=BigInteger())
        found = found.where(
            or_(col(Chain.id) == asked, col(Chain.survivor_id) == asked)
        )
    return found.subquery()


def _visits_exposed(*, of_one: bool) -> Columns:
    """Query that adds visits up from exposures."""
    shown = exposed(of_one=of_one).c
    return (
        select_columns(
            shown.adversary_id,
            Entry.subject_id,
            Entry.field_id,
            Entry.vector,
            _added_visits.label("visits"),
        )
        .join(Entry, col(Entry.id) == shown.entry_id)
        .where(
            in_list(Entry.field_id, "fields"),
            col(Entry.vector).is_not(None),
            col(Entry.subject_id).is_not(None),
        )
        .group_by(
            shown.adversary_id,
            col(Entry.subject_id),
            col(Entry.field_id),
            col(Entry.vector),
        )
    )


_COLUMNS: Final = ("adversary_id", "subject_id", "field_id", "place", "visits")
_CLEAR: Final = delete(VisitCount)
_FORGET: Final = delete(VisitCount).where(
    col(VisitCount.adversary_id) == bindparam("adversary")
)
_DERIVE: Final = insert(VisitCount).from_select(_COLUMNS, _visits_exposed(of_one=False))
_DERIVE_ONE: Final = insert(VisitCount).from_select(
    _COLUMNS, _visits_exposed(of_one=True)
)


def _count_lacking(one: Columns, other: Columns) -> Columns:
    return select_columns(func.count()).select_from(one.except_(other).subquery())


_kept: Final = select_columns(*(getattr(VisitCount, name) for name in _COLUMNS))
_made: Final = _visits_exposed(of_one=False)
_DIFFERING: Final = (_count_lacking(_kept, _made), _count_lacking(_made, _kept))


def held_of(tx: Tx, adversary_id: int, subject_ids: Sequence[int]) -> Iterator[Row]:
    """What an adversary holds of subjects: (subject, record, field)."""
    for part in parts(subject_ids):
        given = {"adversary": adversary_id, "subjects": part}
        yield from tx.driver_rows(_HELD_OF, given)


def all_held(tx: Tx, adversary_id: int) -> Iterator[Row]:
    """Go through all that an adversary holds of subjects: (subject, record, field)."""
    return tx.stream(_ALL_HELD, {"adversary": adversary_id})


def holders(tx: Tx) -> list[int]:
    """Return adversaries that hold anything."""
    return tx.scalars(_HOLDERS)


def known_of(tx: Tx, field_ids: Sequence[int]) -> Iterator[Row]:
    """All that is loaded of some fields: (subject, record, field)."""
    return tx.stream(_KNOWN_OF, {"fields": list(field_ids)})


def places_of(tx: Tx, entry_ids: Sequence[int]) -> dict[int, tuple[str, int]]:
    """Places of entries and their visits; nothing of those that are at none."""
    return {
        number: (place, visits)
        for part in parts(entry_ids)
        for number, place, visits in tx.driver_rows(_PLACES_OF, {"ids": part})
    }


def visits(tx: Tx, adversary_id: int, subject_ids: Sequence[int]) -> Iterator[Row]:
    """Where an adversary has seen subjects: (subject, field, place, visits)."""
    for part in parts(subject_ids):
        given = {"adversary": adversary_id, "subjects": part}
        yield from tx.driver_rows(_VISITS, given)


def all_visits(tx: Tx, adversary_id: int) -> Iterator[Row]:
    """Go through all that an adversary has seen: (subject, field, place, visits)."""
    return tx.stream(_visits, {"adversary": adversary_id})


def adversaries(tx: Tx) -> list[int]:
    """Return adversaries that have seen anybody anywhere."""
    return tx.scalars(_VISITORS)


def known_visits(tx: Tx, field_ids: Sequence[int]) -> Iterator[Row]:
    """All that is loaded of some fields: (subject, field, place, visits)."""
    return tx.stream(_KNOWN_VISITS, {"fields": list(field_ids)})


def places(tx: Tx) -> Iterator[Row]:
    """Entries that are at a place: (entry, place, visits)."""
    return tx.stream(_PLACES)


def add_visits(tx: Tx, added: Iterable[VisitRow]) -> None:
    """Add to the summary: rows (adversary, subject, field, place, visits)."""
    tx.upsert_add("visit", _COLUMNS[:-1], "visits", added)


def rebuild_visits(
    tx: Tx, field_ids: list[int], adversary_id: int | None = None
) -> None:
    """Write the summary anew from the ledger's exposures (grows with them).

    Of all adversaries, or of one (with the chains that ended in it).
    """
    if adversary_id is None:
        tx.execute(_CLEAR)
    else:
        forget_visits(tx, adversary_id)
    if not field_ids:
        return
    if adversary_id is None:
        tx.execute(_DERIVE, {"fields": field_ids})
    else:
        tx.execute(_DERIVE_ONE, {"fields": field_ids, "adversary": adversary_id})


def differing_visits(tx: Tx, field_ids: list[int]) -> int:
    """Count rows of the summary that the ledger's exposures do not give, or lack."""
    given = {"fields": field_ids}
    return sum(int(tx.execute(lacking, given).scalar_one()) for lacking in _DIFFERING)


def forget_visits(tx: Tx, adversary_id: int) -> None:
    """Delete where an adversary that goes on as another has seen subjects."""
    tx.execute(_FORGET, {"adversary": adversary_id})
