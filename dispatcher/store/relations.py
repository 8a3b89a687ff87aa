"""Links between subjects, and where each adversary has seen whom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import bindparam, delete
from sqlmodel import col

from dispatcher.model import Visit
from dispatcher.store.ledger import parts
from dispatcher.store.sql import Value
from dispatcher.store.transaction import Row, Tx


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
    return tx.stream(
        "SELECT one, other FROM link WHERE relation = ? ORDER BY id", (relation,)
    )


_ENDS = (
    " FROM link l JOIN subject s ON s.pseudonym = l.one"
    " JOIN subject o ON o.pseudonym = l.other"
)


def links(tx: Tx, relation: str) -> Iterator[Row]:
    """Go through links of a relation: (id, one, other), subjects that are loaded."""
    return tx.stream(
        f"SELECT l.id, s.id, o.id{_ENDS} WHERE l.relation = ? ORDER BY l.id",
        (relation,),
    )


def links_by_version(tx: Tx) -> Iterator[Row]:
    """All links: (version, relation, one, other); None for an end not loaded."""
    return tx.stream(
        "SELECT l.version, l.relation, s.id, o.id FROM link l"
        " LEFT JOIN subject s ON s.pseudonym = l.one"
        " LEFT JOIN subject o ON o.pseudonym = l.other ORDER BY l.version, l.id"
    )


def ends(tx: Tx, link_ids: Sequence[int]) -> dict[int, tuple[str, str]]:
    """Pseudonyms of the two ends of links, sorted."""
    found: dict[int, tuple[str, str]] = {}
    for part in parts(link_ids):
        for number, one, other in tx.rows(
            "SELECT id, one, other FROM link WHERE id = ANY(?)", (part,)
        ):
            found[number] = one, other
    return found


def count_up_to(tx: Tx, version: int) -> int:
    """How many links versions up to one have brought."""
    return int(tx.value("SELECT COUNT(*) FROM link WHERE version <= ?", (version,)))


def friends(tx: Tx, relation: str, subject_id: int) -> list[int]:
    """Loaded subjects that a subject is linked with."""
    return [one for one in mates(tx, relation, subject_id) if one is not None]


def mates(tx: Tx, relation: str, subject_id: int) -> list[int | None]:
    """Whom a subject is linked with; None stands for each who is not loaded."""
    found = tx.rows(
        "SELECT o.id FROM subject s JOIN link l ON l.one = s.pseudonym"
        " LEFT JOIN subject o ON o.pseudonym = l.other"
        " WHERE s.id = ? AND l.relation = ?"
        " UNION ALL"
        " SELECT o.id FROM subject s JOIN link l ON l.other = s.pseudonym"
        " LEFT JOIN subject o ON o.pseudonym = l.one"
        " WHERE s.id = ? AND l.relation = ?",
        (subject_id, relation, subject_id, relation),
    )
    return [row[0] for row in found]


def half_links(tx: Tx, relation: str) -> Iterator[Row]:
    """Go through links with an end that is loaded: (id, one, other), -1 if it is not."""
    return tx.stream(
        "SELECT l.id, COALESCE(s.id, -1), COALESCE(o.id, -1) FROM link l"
        " LEFT JOIN subject s ON s.pseudonym = l.one"
        " LEFT JOIN subject o ON o.pseudonym = l.other"
        " WHERE l.relation = ? AND (s.id IS NOT NULL OR o.id IS NOT NULL)"
        " ORDER BY l.id",
        (relation,),
    )


def held_of(tx: Tx, adversary_id: int, subject_ids: Sequence[int]) -> Iterator[Row]:
    """What an adversary holds of subjects: (subject, record, field).

    Records first: SQLite would go through all that the adversary holds, and CROSS JOIN
    is how it is told not to.
    """
    for part in parts(subject_ids):
        yield from tx.rows(
            "SELECT r.subject_id, r.id, h.field_id FROM record r"
            " CROSS JOIN holding h WHERE h.unit_id = 2 * r.id"
            " AND h.adversary_id = ? AND r.subject_id = ANY(?)",
            (adversary_id, part),
        )


def all_held(tx: Tx, adversary_id: int) -> list[Row]:
    """Return all that an adversary holds of subjects: (subject, record, field)."""
    return tx.rows(
        "SELECT r.subject_id, r.id, h.field_id FROM holding h"
        " JOIN record r ON r.id = h.unit_id / 2 AND 2 * r.id = h.unit_id"
        " WHERE h.adversary_id = ? AND r.subject_id IS NOT NULL",
        (adversary_id,),
    )


def holders(tx: Tx) -> list[int]:
    """Return adversaries that hold anything."""
    found = tx.rows("SELECT DISTINCT adversary_id FROM holding ORDER BY adversary_id")
    return [row[0] for row in found]


def known_of(tx: Tx, field_ids: Sequence[int]) -> Iterator[Row]:
    """All that is loaded of some fields: (subject, record, field)."""
    return tx.stream(
        "SELECT subject_id, record_id, field_id FROM entry"
        " WHERE field_id = ANY(?) AND subject_id IS NOT NULL",
        (list(field_ids),),
    )


def place_of(tx: Tx, entry_id: int) -> tuple[str | None, int]:
    """Place of an entry, None if it is at none, and its visits."""
    row = tx.one("SELECT vector, visits FROM entry WHERE id = ?", (entry_id,))
    return (None, 0) if row is None or row[0] is None else (row[0], int(row[1]))


def visits(tx: Tx, adversary_id: int, subject_ids: Sequence[int]) -> Iterator[Row]:
    """Where an adversary has seen subjects: (subject, field, place, visits)."""
    for part in parts(subject_ids):
        yield from tx.rows(
            "SELECT subject_id, field_id, place, visits FROM visit"
            " WHERE adversary_id = ? AND subject_id = ANY(?)",
            (adversary_id, part),
        )


def all_visits(tx: Tx, adversary_id: int) -> list[Row]:
    """Return all that an adversary has seen: (subject, field, place, visits)."""
    return tx.rows(
        "SELECT subject_id, field_id, place, visits FROM visit WHERE adversary_id = ?",
        (adversary_id,),
    )


def adversaries(tx: Tx) -> list[int]:
    """Return adversaries that have seen anybody anywhere."""
    return [
        row[0]
        for row in tx.rows(
            "SELECT DISTINCT adversary_id FROM visit ORDER BY adversary_id"
        )
    ]


def known_visits(tx: Tx, field_ids: Sequence[int]) -> Iterator[Row]:
    """All that is loaded of some fields: (subject, field, place, visits)."""
    return tx.stream(
        "SELECT subject_id, field_id, vector, SUM(visits) FROM entry"
        " WHERE field_id = ANY(?) AND vector IS NOT NULL AND subject_id IS NOT NULL"
        " GROUP BY subject_id, field_id, vector",
        (list(field_ids),),
    )


def places(tx: Tx) -> Iterator[Row]:
    """Entries that are at a place: (entry, place, visits)."""
    return tx.stream(
        "SELECT id, vector, visits FROM entry WHERE vector IS NOT NULL ORDER BY id"
    )


def add_visits(tx: Tx, added: Iterable[Sequence[Value]]) -> None:
    """Add to the summary: rows (adversary, subject, field, place, visits)."""
    keys = ("adversary_id", "subject_id", "field_id", "place")
    tx.upsert_add("visit", keys, "visits", added)


def rebuild_visits(
    tx: Tx, field_ids: list[int], adversary_id: int | None = None
) -> None:
    """Write the summary anew from the ledger's exposures (grows with them).

    Of all adversaries, or of one (with the chains that ended in it).
    """
    if adversary_id is None:
        tx.execute("DELETE FROM visit")
    else:
        tx.execute("DELETE FROM visit WHERE adversary_id = ?", (adversary_id,))
    if field_ids:
        text, parameters = _derived(field_ids, adversary_id)
        columns = "adversary_id, subject_id, field_id, place, visits"
        tx.execute(f"INSERT INTO visit ({columns}) {text}", parameters)


def differing_visits(tx: Tx, field_ids: list[int]) -> int:
    """Count rows of the summary that the ledger's exposures do not give, or lack."""
    text, parameters = _derived(field_ids)
    own = "SELECT adversary_id, subject_id, field_id, place, visits FROM visit"
    made = f"SELECT * FROM ({text}) d"
    return sum(
        int(tx.value(f"SELECT COUNT(*) FROM ({one} EXCEPT {two}) x", parameters))
        for one, two in ((own, made), (made, own))
    )


def _derived(
    field_ids: list[int], adversary_id: int | None = None
) -> tuple[str, list[Value]]:
    """Return the query that adds visits up from exposures, and its parameters."""
    mine: list[Value] = [] if adversary_id is None else [adversary_id, adversary_id]
    only = " AND (c.id = ? OR c.survivor_id = ?)" if mine else ""
    text = (
        "SELECT s.adversary_id, e.subject_id, e.field_id, e.vector,"
        " CAST(SUM(e.visits) AS BIGINT) AS visits"
        " FROM (SELECT DISTINCT COALESCE(c.survivor_id, c.id) AS adversary_id,"
        " l.entry_id FROM ledger_line l JOIN chain c ON c.id = l.chain_id"
        f" WHERE l.kind = 'exposure' AND l.showing = 1{only}) s"
        " JOIN entry e ON e.id = s.entry_id"
        " WHERE e.field_id = ANY(?) AND e.vector IS NOT NULL"
        " AND e.subject_id IS NOT NULL"
        " GROUP BY s.adversary_id, e.subject_id, e.field_id, e.vector"
    )
    return text, [*mine, field_ids]


_FORGET = delete(Visit).where(col(Visit.adversary_id) == bindparam("adversary"))


def forget_visits(tx: Tx, adversary_id: int) -> None:
    """Delete where an adversary that goes on as another has seen subjects."""
    tx.execute(_FORGET, {"adversary": adversary_id})
