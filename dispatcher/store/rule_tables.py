"""What functions of rules say of every set of their fields, by version."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from sqlalchemy import bindparam
from sqlmodel import col

from dispatcher.model import RuleTable
from dispatcher.store.statements import select_columns
from dispatcher.store.transaction import Tx

_OF_VERSION: Final = (
    select_columns(
        RuleTable.property,
        RuleTable.source,
        RuleTable.sha256,
        RuleTable.levels,
        RuleTable.worlds,
    )
    .where(RuleTable.version == bindparam("of_version"))
    .order_by(col(RuleTable.property))
)


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
    found = tx.execute(_OF_VERSION, {"of_version": version})
    return [TableRow._make(row) for row in found]
