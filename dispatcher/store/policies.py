"""Applied versions of the policy, and what functions of their rules say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from sqlalchemy import bindparam
from sqlmodel import col, select

from dispatcher.model import PolicyVersion, RuleTable
from dispatcher.store.events import details
from dispatcher.store.statements import select_columns
from dispatcher.store.transaction import Tx

_VERSIONS: Final = select(
    PolicyVersion.version,
    PolicyVersion.name,
    PolicyVersion.sha256,
    PolicyVersion.applied_at,
).order_by(col(PolicyVersion.version))
_FUNCTIONS: Final = (
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


class VersionRow(NamedTuple):
    """An applied version, with what the audit log says of how it came."""

    version: int
    name: str
    sha256: str
    applied_at: int
    accepted: int
    reason: str


class TableRow(NamedTuple):
    """One rule's function as it was applied; ``levels`` is JSON, ``worlds`` JSON lines."""

    property: str
    source: str
    sha256: str
    levels: str
    worlds: str


def versions(tx: Tx) -> list[VersionRow]:
    """All versions, the first one first."""
    told = {detail["version"]: detail for _, detail in details(tx, "policy.activated")}
    return [
        VersionRow(
            version=version,
            name=name,
            sha256=sha256,
            applied_at=at,
            accepted=told.get(version, {}).get("accepted", 0),
            reason=told.get(version, {}).get("reason", ""),
        )
        for version, name, sha256, at in tx.execute(_VERSIONS)
    ]


def add_functions(tx: Tx, version: int, rows: Iterable[TableRow]) -> None:
    """Keep the functions of a version."""
    tx.insert_many(
        "rule_table",
        ("version", "property", "source", "sha256", "levels", "worlds"),
        [(version, *row) for row in rows],
    )


def functions_of(tx: Tx, version: int) -> list[TableRow]:
    """Read the functions of a version, by name of the rule."""
    found = tx.execute(_FUNCTIONS, {"of_version": version})
    return [TableRow._make(row) for row in found]
