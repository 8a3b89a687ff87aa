"""What changes of membership ask: names of units, what was accepted, open tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sqlalchemy import bindparam, func
from sqlalchemy.orm import aliased
from sqlmodel import col, select

from dispatcher.model import (
    SYSTEM_CHAIN,
    Chain,
    LedgerLine,
    Link,
    Record,
    Subject,
)
from dispatcher.store.ledger import OF_ADVERSARY
from dispatcher.store.relations import ends
from dispatcher.store.statements import in_list, in_words, select_columns
from dispatcher.store.transaction import Tx

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
    """Pseudonyms of what units are: a record, a subject, or the two ends of a link."""
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
