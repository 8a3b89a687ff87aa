"""What the gate reads and writes: standings, holdings, lines, chains.

Statements that lock do so in one order everywhere: the barrier, then chains by id, then
entries by id. Every question is by primary key or by an index, and none grows with the
length of the ledger, but for those that say so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from dispatcher.store.packed import Block
from dispatcher.store.transaction import Tx

MANY = 20_000
"""Ids asked for in one statement."""


class PolicyRow(NamedTuple):
    """An applied policy file."""

    version: int
    name: str
    source: bytes
    sha256: str
    applied_at: int


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


class AccountRow(NamedTuple):
    """What the gate asks of an account."""

    id: int
    connector: str
    name: str
    adversary_id: int
    state: str

    @property
    def text(self) -> str:
        """The whole account: ``CONNECTOR/NAME``."""
        return f"{self.connector}/{self.name}"


class EntryRow(NamedTuple):
    """What the gate asks of an entry: ids and facts, no value."""

    id: int
    record_id: int
    field_id: int
    subject_id: int | None
    time: int | None
    record: str  # the record's pseudonym
    run_id: int
    waiting: bool  # for its run's pilot to be accepted


class ShowingRow(NamedTuple):
    """A line about an entry: an exposure, or an ``unburn``."""

    entry_id: int
    adversary_id: int  # the one that goes on, if the line's own has ended
    showing: int
    extra: int


class FactsRow(NamedTuple):
    """What a replay asks of an entry."""

    id: int
    record_id: int
    subject_id: int | None
    field_id: int
    time: int | None
    place: str | None = None
    visits: int | None = None


# -- the barrier and the policy ------------------------------------------------


def in_force(tx: Tx, *, lock: str = "") -> tuple[int, str | None]:
    """Version in force, 0 before the first, and the hash of its file.

    The hash is None too if the version came while the lock was waited for.

    Parameters
    ----------
    tx : Tx
    lock : str
        ``FOR SHARE``, ``FOR UPDATE``, or nothing.
    """
    row = tx.one(
        "SELECT b.policy_version,"
        " (SELECT sha256 FROM policy WHERE version = b.policy_version)"
        f" FROM barrier b WHERE b.id = 1 {lock}"
    )
    return (row[0], row[1]) if row else (0, None)


def hold_barrier(tx: Tx) -> int:
    """Hold the barrier shared, as a booking does; return the version in force."""
    row = tx.one("SELECT policy_version FROM barrier WHERE id = 1 FOR SHARE")
    return int(row[0]) if row else 0


def close_barrier(tx: Tx) -> int:
    """Hold the barrier alone, waiting for bookings in flight; the version in force."""
    row = tx.one("SELECT policy_version FROM barrier WHERE id = 1 FOR UPDATE")
    return int(row[0]) if row else 0


def version_in_force(tx: Tx) -> int:
    """Version in force; 0 before the first."""
    row = tx.one("SELECT policy_version FROM barrier WHERE id = 1")
    return int(row[0]) if row else 0


def policy_row(tx: Tx, version: int) -> PolicyRow | None:
    """One applied policy file."""
    row = tx.one(
        "SELECT version, name, source, sha256, applied_at FROM policy"
        " WHERE version = ?",
        (version,),
    )
    return PolicyRow(row[0], row[1], bytes(row[2]), row[3], row[4]) if row else None


def put_policy(tx: Tx, row: PolicyRow) -> None:
    """Keep an applied policy file and put it in force."""
    tx.execute(
        "INSERT INTO policy (version, name, source, sha256, applied_at)"
        " VALUES (?, ?, ?, ?, ?)",
        row,
    )
    tx.execute("UPDATE barrier SET policy_version = ? WHERE id = 1", (row.version,))


def field_ids(tx: Tx) -> dict[str, int]:
    """Numbers of all field names, over all versions."""
    return dict(tx.rows("SELECT name, id FROM field"))


def number_fields(tx: Tx, names: Iterable[str]) -> dict[str, int]:
    """Give each new field name a number; return all of them."""
    known = field_ids(tx)
    for name in names:
        if name not in known:
            known[name] = max(known.values(), default=0) + 1
            tx.execute(
                "INSERT INTO field (id, name) VALUES (?, ?)", (known[name], name)
            )
    return known


# -- chains --------------------------------------------------------------------

_CHAIN = "id, name, seq, head, at, policy_version, sealed_seq, survivor_id"


def lock_chains(tx: Tx, ids: Iterable[int]) -> dict[int, ChainRow]:
    """Lock chains in order of id and read their heads."""
    wanted = sorted(set(ids))
    locked = tx.rows(
        f"SELECT {_CHAIN} FROM chain WHERE id = ANY(?) ORDER BY id FOR NO KEY UPDATE",
        (wanted,),
    )
    return {row[0]: ChainRow(*row) for row in locked}


def all_chains(tx: Tx) -> list[ChainRow]:
    """Return the head of every chain, by id (grows with the number of chains)."""
    found = tx.rows(f"SELECT {_CHAIN} FROM chain ORDER BY id")
    return [ChainRow(*row) for row in found]


def add_chain(tx: Tx, chain: ChainRow) -> None:
    """Begin a chain."""
    marks = ", ".join("?" * len(chain))
    tx.execute(f"INSERT INTO chain ({_CHAIN}) VALUES ({marks})", chain)


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
    for chain, seq in sealed:
        tx.execute("UPDATE chain SET sealed_seq = ? WHERE id = ?", (seq, chain))


def end_chain(tx: Tx, chain: int, survivor: int) -> None:
    """Let a chain, and all that ended in it, go on as another."""
    tx.execute(
        "UPDATE chain SET survivor_id = ? WHERE id = ? OR survivor_id = ?",
        (survivor, chain, chain),
    )


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

_ACCOUNT = "id, connector, name, adversary_id, state"


def accounts(tx: Tx, ids: Sequence[int]) -> dict[int, AccountRow]:
    """Many accounts, by id."""
    found: dict[int, AccountRow] = {}
    for part in parts(ids):
        for row in tx.rows(
            f"SELECT {_ACCOUNT} FROM account WHERE id = ANY(?)",
            (part,),
        ):
            found[row[0]] = AccountRow(*row)
    return found


def groups_of(tx: Tx, adversary_id: int) -> list[str]:
    """Different group lists (JSON) of an adversary's accounts."""
    return [
        row[0]
        for row in tx.rows(
            "SELECT DISTINCT groups FROM account WHERE adversary_id = ?",
            (adversary_id,),
        )
    ]


_ENTRY = (
    "SELECT e.id, e.record_id, e.field_id, e.subject_id, e.time, r.pseudonym, r.run_id,"
    " r.waits_since IS NOT NULL FROM entry e JOIN record r ON r.id = e.record_id WHERE e.id"
)


def entries(tx: Tx, ids: Sequence[int]) -> Iterator[EntryRow]:
    """Many entries' facts, in no order; none for an unknown id."""
    for part in parts(ids):
        yield from map(EntryRow._make, tx.rows(_ENTRY + " = ANY(?)", (part,)))


def lock_entries(tx: Tx, ids: Sequence[int]) -> None:
    """Lock entries in order of id, so that their showings are counted one by one."""
    if tx.dialect == "sqlite":  # a writer there is alone
        return
    for part in parts(sorted(set(ids))):
        tx.rows(
            "SELECT id FROM entry WHERE id = ANY(?) ORDER BY id FOR NO KEY UPDATE",
            (part,),
        )


_SHOWINGS = (
    "SELECT l.entry_id, COALESCE(c.survivor_id, c.id), l.showing, l.kind, l.body"
    " FROM ledger_line l JOIN chain c ON c.id = l.chain_id WHERE l.entry_id"
)


def showings(tx: Tx, entry_id: int) -> list[ShowingRow]:
    """Return all lines about one entry, told as :func:`showings_of`."""
    return [_showing(row) for row in tx.rows(_SHOWINGS + " = ?", (entry_id,))]


def showings_of(tx: Tx, ids: Sequence[int]) -> Iterator[ShowingRow]:
    """Return all lines about many entries."""
    for part in parts(ids):
        yield from map(_showing, tx.rows(_SHOWINGS + " = ANY(?)", (part,)))


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
        for adversary, unit in tx.rows(
            "SELECT adversary_id, unit_id FROM recusal WHERE adversary_id = ANY(?)",
            (part,),
        )
    }


def stopped_scopes(tx: Tx) -> set[str]:
    """What is paused: ``all``, ``connector:NAME``, ``run#ID``."""
    return {
        row[0]
        for row in tx.rows(
            "SELECT scope FROM pause WHERE scope NOT LIKE 'run:%'"
            " UNION ALL SELECT 'run#' || CAST(id AS TEXT) FROM run WHERE"
            " state <> 'active' OR 'run:' || name IN (SELECT scope FROM pause)"
        )
    }


def parts(ids: Sequence[int]) -> Iterator[list[int]]:
    """Cut ids into pieces of :data:`MANY`."""
    for i in range(0, len(ids), MANY):
        yield [int(n) for n in ids[i : i + MANY]]
