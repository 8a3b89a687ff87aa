"""Key lines as they were written, load by load, and facts for further ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from dispatcher.model import SYSTEM_CHAIN
from dispatcher.store.transaction import Row, Tx


class Load(NamedTuple):
    """Raw lines of one load, and how many of its keys are repeats."""

    seq: int
    keys: bytes
    relations: bytes
    facts: bytes
    repeats: int

    @classmethod
    def of(cls, row: Row) -> Load:
        """Read a row of :data:`_LOAD`."""
        return cls(row[0], bytes(row[1]), bytes(row[2]), bytes(row[3]), int(row[4]))


class Facts(NamedTuple):
    """All that is known of an entry: names are pseudonyms, None is nothing."""

    record: str
    field_id: int
    subject: str | None
    time: int | None
    place: str | None
    visits: int | None


_LOAD: Final = "SELECT seq, keys, relations, facts, repeats FROM key_lines"


def add(tx: Tx, load: Load) -> None:
    """Keep the raw lines of a load under the number of its line in chain system."""
    tx.execute(
        "INSERT INTO key_lines (seq, keys, relations, facts, repeats)"
        " VALUES (?, ?, ?, ?, ?)",
        load,
    )


def line(tx: Tx, seq: int) -> Load | None:
    """Raw lines of one load."""
    row = tx.one(f"{_LOAD} WHERE seq = ?", (seq,))
    return None if row is None else Load.of(row)


def all_loads(tx: Tx) -> Iterator[Load]:
    """Raw lines of every load, in order."""
    return map(Load.of, tx.stream(f"{_LOAD} ORDER BY seq"))


def repeats_up_to(tx: Tx, seq: int) -> int:
    """Count key lines up to ``seq`` about entries that had one before."""
    found = tx.value("SELECT SUM(repeats) FROM key_lines WHERE seq <= ?", (seq,))
    return int(found or 0)


def loads(tx: Tx) -> list[int]:
    """Numbers of the ``keys`` lines of loads, in order; not of facts or links alone."""
    found = tx.rows(
        "SELECT seq FROM key_lines WHERE repeats = 0 AND LENGTH(keys) > 0 ORDER BY seq"
    )
    return [row[0] for row in found]


def policy_lines(tx: Tx) -> list[int]:
    """Numbers of the ``policy`` lines in chain system: the first is of version 1."""
    found = tx.rows(
        "SELECT seq FROM ledger_line WHERE chain_id = ? AND kind = 'policy'"
        " ORDER BY seq",
        (SYSTEM_CHAIN,),
    )
    return [row[0] for row in found]


def up_to(tx: Tx, seq: int, *, relations: bool = False) -> Iterator[bytes]:
    """Raw lines of every load up to ``seq``, in order."""
    column = "relations" if relations else "keys"
    for row in tx.stream(
        f"SELECT {column} FROM key_lines WHERE seq <= ? ORDER BY seq", (seq,)
    ):
        yield bytes(row[0])


def loaded_fields(tx: Tx) -> list[Row]:
    """Of each loaded field: (field, entries, with a subject, with a time)."""
    return tx.rows(
        "SELECT field_id, COUNT(*), COUNT(subject_id), COUNT(time)"
        " FROM entry GROUP BY field_id"
    )


def facts(tx: Tx, field_ids: list[int]) -> Iterator[Row]:
    """Facts of all entries of some fields: (record, field, subject, time, place, visits).

    Record, subject and place by pseudonym, in order of entry.
    """
    return tx.stream(
        "SELECT r.pseudonym, e.field_id, s.pseudonym, e.time, e.vector, e.visits"
        " FROM entry e"
        " JOIN record r ON r.id = e.record_id"
        " LEFT JOIN subject s ON s.id = e.subject_id"
        " WHERE e.field_id = ANY(?) ORDER BY e.id",
        (field_ids,),
    )
