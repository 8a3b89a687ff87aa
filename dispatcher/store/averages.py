"""Sums that caps on means are taken from, see :mod:`dispatcher.ledger.averages`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Final

from sqlalchemy import bindparam, delete
from sqlmodel import col

from dispatcher.model import DisclosureSum
from dispatcher.store.settings import set_setting, setting
from dispatcher.store.transaction import Row, Tx

_STAMP: Final = "averages-of"


def stamp(tx: Tx) -> bytes | None:
    """Return what the kept sums were made from: version and last load."""
    return setting(tx, _STAMP)


def last_load(tx: Tx) -> int:
    """Number of the last ``keys`` line."""
    return int(tx.value("SELECT MAX(seq) FROM key_lines") or 0)


def replace(
    tx: Tx,
    counts: Iterable[tuple[str, int]],
    totals: Iterable[tuple[int, str, str]],
    made_from: bytes,
) -> None:
    """Write all counts and sums anew."""
    tx.execute("DELETE FROM set_count")
    tx.execute("DELETE FROM disclosure_sum")
    tx.insert_many("set_count", ("property", "sets"), list(counts))
    columns = ("adversary_id", "property", "total")
    tx.insert_many("disclosure_sum", columns, list(totals))
    set_setting(tx, _STAMP, made_from)


def sets(tx: Tx) -> list[Row]:
    """Sets of each rule: (property, sets)."""
    return tx.rows("SELECT property, sets FROM set_count")


def sums(tx: Tx) -> list[Row]:
    """All sums: (adversary, property, total)."""
    return tx.rows("SELECT adversary_id, property, total FROM disclosure_sum")


def sum_of(tx: Tx, adversary_id: int, name: str) -> Fraction:
    """One sum."""
    found = tx.value(
        "SELECT total FROM disclosure_sum WHERE adversary_id = ? AND property = ?",
        (adversary_id, name),
    )
    return Fraction(found or 0)


def put_sum(tx: Tx, adversary_id: int, name: str, total: str) -> None:
    """Keep one sum."""
    tx.upsert_many(
        "disclosure_sum",
        ("adversary_id", "property"),
        ("adversary_id", "property", "total"),
        [(adversary_id, name, total)],
    )


def entries_by_unit(tx: Tx, *, subject: bool) -> Iterator[Row]:
    """All entries in order of record or subject: (unit's id, field, time)."""
    if subject:
        return tx.stream(
            "SELECT subject_id, field_id, time FROM entry"
            " WHERE subject_id IS NOT NULL ORDER BY subject_id"
        )
    return tx.stream("SELECT record_id, field_id, time FROM entry ORDER BY record_id")


def holdings_by_unit(tx: Tx, *, subject: bool) -> Iterator[Row]:
    """All holdings in order of record or subject.

    Columns: unit's id, adversary, field, time, entries.
    """
    return tx.stream(
        "SELECT unit_id / 2, adversary_id, field_id, time, entries FROM holding"
        " WHERE unit_id % 2 = ? ORDER BY unit_id",
        (int(subject),),
    )


def anything_held(tx: Tx) -> bool:
    """Whether any adversary holds anything that a rule looks at."""
    return tx.one("SELECT 1 FROM holding LIMIT 1") is not None


def unit_entries(tx: Tx, unit: int, *, subject: bool) -> list[Row]:
    """All entries of one record or subject: (field, time)."""
    if subject:
        return tx.rows("SELECT field_id, time FROM entry WHERE subject_id = ?", (unit,))
    return tx.rows("SELECT field_id, time FROM entry WHERE record_id = ?", (unit,))


def unit_holdings(tx: Tx, adversary_id: int, unit_id: int) -> list[Row]:
    """What one adversary holds of one unit: (field, time, entries)."""
    return tx.rows(
        "SELECT field_id, time, entries FROM holding"
        " WHERE adversary_id = ? AND unit_id = ?",
        (adversary_id, unit_id),
    )


_FORGET: Final = delete(DisclosureSum).where(
    col(DisclosureSum.adversary_id) == bindparam("adversary")
)


def forget_sums(tx: Tx, adversary_id: int) -> None:
    """Delete the sums of an adversary that goes on as another."""
    tx.execute(_FORGET, {"adversary": adversary_id})
