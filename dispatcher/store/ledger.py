"""What the gate reads and writes: standings, exposure counts, lines, chains.

Statements that lock do so in one order everywhere: the policy lock, then chains by id, then
entries by id. Every question is by primary key or by an index, and none grows with the
length of the ledger, but for those that say so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Text, bindparam, cast, func, literal, or_, union_all, update
from sqlmodel import col, select

from dispatcher.model import (
    Account,
    Chain,
    Entry,
    FieldName,
    LedgerLine,
    Pause,
    Record,
    Recusal,
    Run,
)
from dispatcher.store.column_blocks import Block
from dispatcher.store.statements import (
    DriverStatement,
    in_list,
    insert,
    select_columns,
)
from dispatcher.store.transaction import Tx

MANY = 20_000
"""Ids asked for in one statement."""

OF_ADVERSARY: Final = or_(
    col(Chain.id) == bindparam("adversary"),
    col(Chain.survivor_id) == bindparam("adversary"),
)
"""Chains of an adversary: its own, and those that ended in it."""


class ChainRow(NamedTuple):
    """A chain's head."""

    id: int
    name: str
    seq: int
    head: str
    at: int
    policy_version: int
    sealed_seq: int
    survivor_id: int | None


class GateAccount(NamedTuple):
    """The data of an account that the gate needs."""

    id: int
    connector: str
    name: str
    adversary_id: int
    state: str

    @property
    def text(self) -> str:
        """The whole account: ``CONNECTOR/NAME``."""
        return f"{self.connector}/{self.name}"


class GateEntry(NamedTuple):
    """The data of an entry that the gate needs: ids and facts, no value."""

    id: int
    record_id: int
    field_id: int
    subject_id: int | None
    time: int | None
    record: str  # the record's pseudonym
    run_id: int
    waiting: bool  # for its run's pilot to be accepted
    place: str | None = None  # pseudonym; None at no place, or where no rule asks
    visits: int | None = None  # at that place


class ShowingRow(NamedTuple):
    """A line about an entry: an exposure, or an ``unburn``."""

    entry_id: int
    adversary_id: int  # the one that goes on, if the line's own has ended
    showing: int
    extra: int


class FactsRow(NamedTuple):
    """The data of an entry that a replay needs."""

    id: int
    record_id: int
    subject_id: int | None
    field_id: int
    time: int | None
    place: str | None = None
    visits: int | None = None


# -- fields ----------------------------------------------------------------------------

_FIELDS: Final = select(FieldName.name, FieldName.id)


def field_ids(tx: Tx) -> dict[str, int]:
    """Numbers of all field names, over all versions."""
    return dict(tx.execute(_FIELDS).all())


def number_fields(tx: Tx, names: Iterable[str]) -> dict[str, int]:
    """Give each new field name a number; return all of them."""
    known = field_ids(tx)
    new = [name for name in dict.fromkeys(names) if name not in known]
    first = max(known.values(), default=0) + 1
    numbered = list(enumerate(new, start=first))
    tx.insert_many("field", ("id", "name"), numbered)
    return known | {name: number for number, name in numbered}


# -- chains --------------------------------------------------------------------

CHAIN: Final = tuple(getattr(Chain, name) for name in ChainRow._fields)
"""Columns of a chain's head."""

_chains: Final = select_columns(*CHAIN).order_by(col(Chain.id))
_LOCK_CHAINS: Final = DriverStatement(
    _chains.where(in_list(Chain.id, "ids")).with_for_update(key_share=True)
)
_CHAINS: Final = DriverStatement(_chains)
_ADD_CHAIN: Final = insert(Chain).values(
    {name: bindparam(name) for name in ChainRow._fields}
)
_END_CHAIN: Final = (
    update(Chain)
    .where(
        or_(
            col(Chain.id) == bindparam("ended"),
            col(Chain.survivor_id) == bindparam("ended"),
        )
    )
    .values(survivor_id=bindparam("survivor"))
)


def lock_chains(tx: Tx, ids: Iterable[int]) -> dict[int, ChainRow]:
    """Lock chains in order of id and read their heads."""
    wanted = sorted(set(ids))
    locked = tx.driver_rows(_LOCK_CHAINS, {"ids": wanted})
    return {row[0]: ChainRow(*row) for row in locked}


def all_chains(tx: Tx) -> list[ChainRow]:
    """Return the head of every chain, by id (grows with the number of chains)."""
    return [ChainRow(*row) for row in tx.driver_rows(_CHAINS)]


def add_chain(tx: Tx, chain: ChainRow) -> None:
    """Begin a chain."""
    tx.execute(_ADD_CHAIN, chain._asdict())


def save_heads(tx: Tx, chains: Iterable[ChainRow]) -> None:
    """Keep the new heads of chains."""
    tx.update_many(
        "chain",
        ("id",),
        ("seq", "head", "at", "policy_version"),
        ((c.id, c.seq, c.head, c.at, c.policy_version) for c in chains),
    )


def save_sealed(tx: Tx, sealed: Iterable[tuple[int, int]]) -> None:
    """Note up to where each chain is sealed: (id, seq)."""
    tx.update_many("chain", ("id",), ("sealed_seq",), sealed)


def end_chain(tx: Tx, chain: int, survivor: int) -> None:
    """Let a chain, and all that ended in it, go on as another."""
    tx.execute(_END_CHAIN, {"ended": chain, "survivor": survivor})


# -- lines ---------------------------------------------------------------------

LINE = (
    "chain_id",
    "seq",
    "kind",
    "at",
    "policy_version",
    "account_id",
    "entry_id",
    "cause",
    "showing",
    "body",
    "hash",
)
"""Columns of a ledger line, in the order of the rows given here."""


def add_lines(tx: Tx, lines: Iterable[Sequence[object]]) -> None:
    """Append lines, rows in the order of :data:`LINE`."""
    tx.insert_many("ledger_line", LINE, lines)


EXPOSURE = tuple(name for name in LINE if name != "body")
"""Columns of an exposure's line, in the order of the blocks given here."""


def add_exposures(tx: Tx, lines: Iterable[Block]) -> None:
    """Append exposure lines, columns in the order of :data:`EXPOSURE`."""
    tx.insert_blocks("ledger_line", EXPOSURE, lines)


# -- what one decision asks ----------------------------------------------------

ACCOUNT: Final = tuple(getattr(Account, name) for name in GateAccount._fields)
"""Columns of :class:`GateAccount`."""

ENTRY: Final = (
    Entry.id,
    Entry.record_id,
    Entry.field_id,
    Entry.subject_id,
    Entry.time,
    Record.pseudonym,
    Record.run_id,
    col(Record.waits_since).is_not(None),
    Entry.vector,
    Entry.visits,
)
"""Columns of :class:`GateEntry`."""

ENTRY_NUMBERS: Final = (
    Entry.id,
    Entry.record_id,
    Entry.field_id,
    func.coalesce(Entry.subject_id, -1),
    func.coalesce(Entry.time, 0),
)
"""Columns of an entry as numbers: id, record, field, subject or -1, time or 0."""

_ACCOUNTS: Final = DriverStatement(
    select_columns(*ACCOUNT).where(in_list(Account.id, "ids"))
)
_GROUPS: Final = DriverStatement(
    select(Account.groups)
    .distinct()
    .where(Account.adversary_id == bindparam("adversary"))
)
_ENTRIES: Final = DriverStatement(
    select_columns(*ENTRY)
    .select_from(Entry)
    .join(Record, col(Record.id) == col(Entry.record_id))
    .where(in_list(Entry.id, "ids"))
)
_LOCK_ENTRIES: Final = DriverStatement(
    select(Entry.id)
    .where(in_list(Entry.id, "ids"))
    .order_by(col(Entry.id))
    .with_for_update(key_share=True)
)
_showings: Final = (
    select_columns(
        LedgerLine.entry_id,
        func.coalesce(Chain.survivor_id, Chain.id),
        LedgerLine.showing,
        LedgerLine.kind,
        LedgerLine.body,
    )
    .select_from(LedgerLine)
    .join(Chain, col(Chain.id) == col(LedgerLine.chain_id))
)
_SHOWINGS: Final = DriverStatement(
    _showings.where(LedgerLine.entry_id == bindparam("entry"))
)
_SHOWINGS_OF: Final = DriverStatement(
    _showings.where(in_list(LedgerLine.entry_id, "ids"))
)
_RECUSALS: Final = DriverStatement(
    select(Recusal.adversary_id, Recusal.unit_id).where(
        in_list(Recusal.adversary_id, "adversaries")
    )
)
_STOPPED: Final = DriverStatement(
    union_all(
        select(Pause.scope).where(col(Pause.scope).not_like("run:%")),
        select(literal("run#") + cast(Run.id, Text)).where(
            or_(
                col(Run.state) != "active",
                (literal("run:") + col(Run.name)).in_(select(Pause.scope)),
            )
        ),
    )
)


def accounts(tx: Tx, ids: Sequence[int]) -> dict[int, GateAccount]:
    """Many accounts, by id."""
    found: dict[int, GateAccount] = {}
    for part in parts(ids):
        for row in tx.driver_rows(_ACCOUNTS, {"ids": part}):
            found[row[0]] = GateAccount(*row)
    return found


def groups_of(tx: Tx, adversary_id: int) -> list[str]:
    """Different group lists (JSON) of an adversary's accounts."""
    return [row[0] for row in tx.driver_rows(_GROUPS, {"adversary": adversary_id})]


def entries(tx: Tx, ids: Sequence[int]) -> Iterator[GateEntry]:
    """Many entries' facts, in no order; none for an unknown id."""
    for part in parts(ids):
        yield from map(GateEntry._make, tx.driver_rows(_ENTRIES, {"ids": part}))


def lock_entries(tx: Tx, ids: Sequence[int]) -> None:
    """Lock entries in order of id, so that their showings are counted one by one."""
    if tx.dialect == "sqlite":  # a writer there is alone
        return
    for part in parts(sorted(set(ids))):
        tx.driver_rows(_LOCK_ENTRIES, {"ids": part})


def showings(tx: Tx, entry_id: int) -> list[ShowingRow]:
    """Return all lines about one entry, in the form of :func:`showings_of`."""
    return [_showing(row) for row in tx.driver_rows(_SHOWINGS, {"entry": entry_id})]


def showings_of(tx: Tx, ids: Sequence[int]) -> Iterator[ShowingRow]:
    """Return all lines about many entries."""
    for part in parts(ids):
        yield from map(_showing, tx.driver_rows(_SHOWINGS_OF, {"ids": part}))


def _showing(row: Sequence[Any]) -> ShowingRow:
    entry_id, adversary, showing, kind, body = row
    extra = unburned(body) if kind == "unburn" else 0
    return ShowingRow(entry_id, adversary, showing or 0, extra)


def unburned(body: str) -> int:
    """Extra showings that the body of an ``unburn`` line grants."""
    return int(json.loads(body)["extra"])


def recusals(tx: Tx, adversary_ids: Sequence[int]) -> set[tuple[int, int]]:
    """Units that adversaries recused themselves from: (adversary, unit)."""
    return {
        (adversary, unit)
        for part in parts(adversary_ids)
        for adversary, unit in tx.driver_rows(_RECUSALS, {"adversaries": part})
    }


def stopped_scopes(tx: Tx) -> set[str]:
    """What is paused: ``all``, ``connector:NAME``, ``run#ID``."""
    return {row[0] for row in tx.driver_rows(_STOPPED)}


def parts(ids: Sequence[int]) -> Iterator[list[int]]:
    """Cut ids into pieces of :data:`MANY`."""
    for i in range(0, len(ids), MANY):
        yield [int(n) for n in ids[i : i + MANY]]
