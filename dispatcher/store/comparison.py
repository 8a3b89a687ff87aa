"""What a comparison of the store with its ledger reads: whole tables, as they stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dispatcher.store import packed
from dispatcher.store.packed import Ints
from dispatcher.store.transaction import Row, Tx

AT_ONCE: Final = 2_000_000
"""Rows of numbers that are read in one piece."""


def lines(tx: Tx) -> Iterator[Row]:
    """All lines of adversaries' chains, chain by chain and in order.

    Columns: chain, seq, kind, at, version, account, entry, cause, showing, body, hash,
    and the ledger name of the entry.
    """
    return tx.stream(
        "SELECT l.chain_id, l.seq, l.kind, l.at, l.policy_version, l.account_id,"
        " l.entry_id, l.cause, l.showing, l.body, l.hash,"
        " r.pseudonym || '.' || CAST(e.field_id AS TEXT)"
        " FROM ledger_line l LEFT JOIN entry e ON e.id = l.entry_id"
        " LEFT JOIN record r ON r.id = e.record_id"
        " ORDER BY l.chain_id, l.seq"
    )


_FACTS: Final = (
    "'[\"' || r.pseudonym || '.' || CAST(e.field_id AS TEXT) || '\",'"
    " || COALESCE('\"' || s.pseudonym || '\"', 'null') || ','"
    " || COALESCE(CAST(e.time AS TEXT), 'null') || ','"
    " || COALESCE('\"' || e.vector || '\"', 'null') || ','"
    " || COALESCE(CAST(e.visits AS TEXT), 'null') || ']'"
)


def facts(tx: Tx) -> Iterator[Row]:
    """Id of every entry, and its facts as a load told them to the ledger."""
    return tx.stream(
        f"SELECT e.id, {_FACTS} FROM entry e LEFT JOIN record r ON r.id = e.record_id"
        " LEFT JOIN subject s ON s.id = e.subject_id"
    )


def strangers(tx: Tx) -> list[int]:
    """Records whose person is not the one of an entry of theirs."""
    found = tx.rows(
        "SELECT DISTINCT r.id FROM entry e JOIN record r ON r.id = e.record_id"
        " WHERE COALESCE(e.subject_id, -1) <> COALESCE(r.subject_id, -1) ORDER BY r.id"
    )
    return [row[0] for row in found]


def entries(tx: Tx) -> Ints:
    """All entries by id: (id, record, field, subject or -1, time or 0)."""
    person, moment = "COALESCE(subject_id, -1)", "COALESCE(time, 0)"
    return _whole(tx, "entry", ("id", "record_id", "field_id", person, moment))


def _whole(tx: Tx, table: str, columns: tuple[str, ...]) -> Ints:
    """Numbers of a whole table by id, the first column, piece by piece."""
    source = f"FROM {table} WHERE id > ? ORDER BY id LIMIT {AT_ONCE}"
    pieces, last = [], -1
    while True:
        piece = tx.numbers(columns, [(source, (last,))])
        pieces.append(piece)
        if len(piece) < AT_ONCE:
            return packed.joined(pieces, len(columns))
        last = int(piece[-1, 0])


def holdings(tx: Tx) -> Ints:
    """The whole summary by key: (adversary, unit, field, time, entries)."""
    columns = ("adversary_id", "unit_id", "field_id", "time", "entries")
    holders = tx.rows("SELECT DISTINCT adversary_id FROM holding ORDER BY adversary_id")
    source = "FROM holding WHERE adversary_id = ? ORDER BY unit_id, field_id, time"
    return tx.numbers(columns, [(source, (row[0],)) for row in holders])


def tasks(tx: Tx) -> Ints:
    """All tasks by id: (id, account, entry)."""
    return _whole(tx, "task", ("id", "account_id", "entry_id"))


_AWRY: Final = {
    "task.adversary_id": "SELECT t.id FROM task t JOIN account a ON a.id = t.account_id"
    " WHERE t.adversary_id <> a.adversary_id",
    "task.connector": "SELECT t.id FROM task t JOIN account a ON a.id = t.account_id"
    " WHERE t.connector <> a.connector",
    "task.outbox_id": "SELECT t.id FROM task t LEFT JOIN outbox o ON o.id = t.outbox_id"
    " WHERE t.outbox_id IS NOT NULL AND (o.id IS NULL OR o.account_id <> t.account_id"
    " OR o.connector <> t.connector)",
}


def awry(tx: Tx) -> dict[str, list[int]]:
    """Tasks that are with another account than they were booked for, by column."""
    return {
        column: [row[0] for row in tx.rows(f"{text} ORDER BY t.id")]
        for column, text in _AWRY.items()
    }


def policies(tx: Tx) -> list[tuple[int, bytes, str]]:
    """Version, file and digest of every applied policy, in order."""
    found = tx.rows("SELECT version, source, sha256 FROM policy ORDER BY version")
    return [(row[0], bytes(row[1]), row[2]) for row in found]


def links(tx: Tx) -> Iterator[Row]:
    """All links: (id, relation, one, other, version)."""
    return tx.stream("SELECT id, relation, one, other, version FROM link")


def subject_ids(tx: Tx) -> dict[str, int]:
    """Ids of all people by pseudonym."""
    return dict(tx.rows("SELECT pseudonym, id FROM subject"))


def versions_with_functions(tx: Tx) -> list[int]:
    """Versions that functions of rules are kept for."""
    found = tx.rows("SELECT DISTINCT version FROM rule_table ORDER BY version")
    return [row[0] for row in found]


def field_names(tx: Tx) -> dict[int, str]:
    """Names of all numbered fields."""
    return dict(tx.rows("SELECT id, name FROM field"))
