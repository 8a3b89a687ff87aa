"""What functions of rules say of every set of their fields, by version."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dispatcher.store.transaction import Tx


class TableRow(NamedTuple):
    """One rule's function as it was applied; ``levels`` is JSON, ``worlds`` JSON lines."""

    property: str
    source: str
    sha256: str
    levels: str
    worlds: str


def add(tx: Tx, version: int, rows: Iterable[TableRow]) -> None:
    """Keep the functions of a version."""
    tx.insert_many(
        "rule_table",
        ("version", "property", "source", "sha256", "levels", "worlds"),
        [(version, *row) for row in rows],
    )


def of_version(tx: Tx, version: int) -> list[TableRow]:
    """Read the functions of a version, by name of the rule."""
    found = tx.rows(
        "SELECT property, source, sha256, levels, worlds FROM rule_table"
        " WHERE version = ? ORDER BY property",
        (version,),
    )
    return [TableRow._make(row) for row in found]
