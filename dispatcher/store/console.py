"""What the operators' console reads: ids, names and counts, never a value."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from dispatcher.model import SYSTEM_CHAIN
from dispatcher.store.transaction import Tx


class MemberRow(NamedTuple):
    """One account of an adversary."""

    adversary_id: int
    account: str
    groups: tuple[str, ...]
    state: str


class WaitingRow(NamedTuple):
    """Messages of one connector in one state, and when the oldest was written."""

    connector: str
    state: str
    messages: int
    oldest: int


class RecordRow(NamedTuple):
    """One record by its pseudonym, and how many of its fields are settled."""

    id: int
    pseudonym: str
    run: str
    fields: int
    answered: int
    conflict: int

    @property
    def state(self) -> str:
        """``open``, ``conflict`` or ``answered``."""
        if self.conflict:
            return "conflict"
        return "open" if self.answered < self.fields else "answered"


class SealRow(NamedTuple):
    """A seal: its number in chain ``system``, moment, root, own hash, chains grown."""

    seq: int
    at: int
    root: str
    hash: str
    grown: int


def members(tx: Tx, adversary_ids: Sequence[int]) -> list[MemberRow]:
    """Accounts of adversaries, in order of arrival."""
    found = tx.rows(
        "SELECT adversary_id, connector || '/' || name, groups, state FROM account"
        " WHERE adversary_id = ANY(?) ORDER BY id",
        [list(adversary_ids)],
    )
    return [
        MemberRow(adversary, account, tuple(json.loads(groups)), state)
        for adversary, account, groups, state in found
    ]


def adversaries(tx: Tx) -> list[int]:
    """Ids of the adversaries that go on."""
    return [
        int(row[0])
        for row in tx.rows(
            "SELECT id FROM chain WHERE id <> ? AND survivor_id IS NULL ORDER BY id",
            [SYSTEM_CHAIN],
        )
    ]


def exposures(tx: Tx, adversary_ids: Sequence[int]) -> dict[int, int]:
    """How many exposures are booked for each (also in chains that ended in it)."""
    found = tx.rows(
        "SELECT COALESCE(c.survivor_id, c.id), count(*) FROM chain c"
        " JOIN ledger_line l ON l.chain_id = c.id AND l.kind = 'exposure'"
        " WHERE c.id = ANY(?) OR c.survivor_id = ANY(?)"
        " GROUP BY COALESCE(c.survivor_id, c.id)",
        [list(adversary_ids), list(adversary_ids)],
    )
    return {int(adversary): int(count) for adversary, count in found}


def waiting(tx: Tx) -> list[WaitingRow]:
    """Messages by connector and state."""
    return [
        WaitingRow(*row)
        for row in tx.rows(
            "SELECT connector, state, count(*), min(created_at) FROM outbox"
            " GROUP BY connector, state ORDER BY connector, state"
        )
    ]


_STATES = (
    "SELECT r.id AS id, r.pseudonym AS pseudonym, r.run_id AS run_id,"
    " count(e.id) AS fields,"
    " sum(CASE WHEN s.state = 'answered' THEN 1 ELSE 0 END) AS answered,"
    " sum(CASE WHEN s.state = 'conflict' THEN 1 ELSE 0 END) AS conflict"
    " FROM (SELECT id, pseudonym, run_id FROM record WHERE id > ?"
    " ORDER BY id LIMIT ?) r LEFT JOIN entry e ON e.record_id = r.id"
    " LEFT JOIN result s ON s.entry_id = e.id"
    " GROUP BY r.id, r.pseudonym, r.run_id"
)
_ALL = 2**62
_STATE = (
    "CASE WHEN conflict > 0 THEN 'conflict'"
    " WHEN answered < fields THEN 'open' ELSE 'answered' END"
)


def record_states(tx: Tx) -> dict[str, int]:
    """How many records are in each state (grows with the store)."""
    found = tx.rows(
        f"SELECT state, count(*) FROM (SELECT {_STATE} AS state FROM ({_STATES}) c) d"
        " GROUP BY state ORDER BY state",
        [0, _ALL],
    )
    return {state: int(count) for state, count in found}


def records(tx: Tx, after: int, state: str | None, limit: int) -> list[RecordRow]:
    """Records with a larger id, in order of loading, of a state (None: any)."""
    found = tx.rows(
        "SELECT d.id, d.pseudonym, u.name, d.fields, d.answered, d.conflict"
        f" FROM (SELECT c.*, {_STATE} AS state FROM ({_STATES}) c) d"
        " JOIN run u ON u.id = d.run_id"
        " WHERE CAST(? AS TEXT) IS NULL OR d.state = ? ORDER BY d.id LIMIT ?",
        [after, limit if state is None else _ALL, state, state, limit],
    )
    return [
        RecordRow(int(number), pseudonym, run, *(int(n) for n in counts))
        for number, pseudonym, run, *counts in found
    ]


def seals(tx: Tx, limit: int) -> list[SealRow]:
    """Return the last seals, newest first."""
    found = tx.rows(
        "SELECT seq, at, body, hash FROM ledger_line WHERE chain_id = ?"
        " AND kind = 'seal' ORDER BY seq DESC LIMIT ?",
        [SYSTEM_CHAIN, limit],
    )
    told = []
    for seq, at, body, own in found:
        parts = json.loads(body)
        heads = len(parts["heads"])
        told.append(SealRow(seq, at, parts["root"], bytes(own).hex(), heads))
    return told


def lines(tx: Tx) -> tuple[int, int, int]:
    """Chains that have a line, lines in all, and lines that no seal covers yet."""
    row = tx.one(
        "SELECT count(*), COALESCE(sum(seq), 0), COALESCE(sum(seq - sealed_seq), 0)"
        " FROM chain WHERE seq > 0"
    )
    assert row is not None  # an aggregate always has its row
    return int(row[0]), int(row[1]), int(row[2])
