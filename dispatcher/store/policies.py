"""Applied versions of the policy, and what functions of their rules say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from sqlalchemy import bindparam, insert, update
from sqlmodel import col, select

from dispatcher.model import PolicyLock, PolicyVersion, RuleTable
from dispatcher.store.events import details
from dispatcher.store.statements import DriverStatement, select_columns
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


@dataclass(frozen=True, slots=True)
class VersionRow:
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
    activations = {
        detail["version"]: detail for _, detail in details(tx, "policy.activated")
    }
    return [
        VersionRow(
            version=version,
            name=name,
            sha256=sha256,
            applied_at=at,
            accepted=activations.get(version, {}).get("accepted", 0),
            reason=activations.get(version, {}).get("reason", ""),
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


# -- the policy lock and the policy --------------------------------------------


IN_FORCE: Final = (
    PolicyLock.policy_version,
    select(PolicyVersion.sha256)
    .where(PolicyVersion.version == PolicyLock.policy_version)
    .scalar_subquery(),
)
"""Columns: the version in force and the hash of its file."""

_in_force: Final = select_columns(*IN_FORCE).where(PolicyLock.id == 1)
_version: Final = select(PolicyLock.policy_version).where(PolicyLock.id == 1)
_VERSION: Final[Mapping[str, DriverStatement]] = {
    "": DriverStatement(_version),
    "shared": DriverStatement(_version.with_for_update(read=True)),
    "alone": DriverStatement(_version.with_for_update()),
}
_IN_FORCE: Final[Mapping[str, DriverStatement]] = {
    "": DriverStatement(_in_force),
    "shared": DriverStatement(_in_force.with_for_update(read=True, of=PolicyLock)),
    "alone": DriverStatement(_in_force.with_for_update(of=PolicyLock)),
}
_POLICY: Final = select(PolicyVersion).where(
    PolicyVersion.version == bindparam("version")
)
_PUT_POLICY: Final = insert(PolicyVersion).values(
    {
        name: bindparam(name)
        for name in ("version", "name", "source", "sha256", "applied_at")
    }
)
_PUT_IN_FORCE: Final = (
    update(PolicyLock)
    .where(col(PolicyLock.id) == 1)
    .values(policy_version=bindparam("version"))
)


def in_force(tx: Tx, *, lock: str = "") -> tuple[int, str | None]:
    """Version in force, 0 before the first, and the hash of its file.

    The hash is None too if the version came while the lock was waited for.

    Parameters
    ----------
    tx : Tx
    lock : str
        ``shared``, ``alone``, or nothing.
    """
    row = tx.driver_one(_IN_FORCE[lock])
    return (row[0], row[1]) if row else (0, None)


def lock_policy_shared(tx: Tx) -> int:
    """Hold the policy lock shared, as a booking does; return the version in force."""
    return tx.driver_value(_VERSION["shared"]) or 0


def lock_policy_exclusive(tx: Tx) -> int:
    """Hold the policy lock alone, after bookings in flight; return the version in force."""
    return tx.driver_value(_VERSION["alone"]) or 0


def version_in_force(tx: Tx) -> int:
    """Version in force; 0 before the first."""
    return tx.driver_value(_VERSION[""]) or 0


def policy_row(tx: Tx, version: int) -> PolicyVersion | None:
    """One applied policy file."""
    return tx.model(_POLICY, {"version": version})


def put_policy(
    tx: Tx, version: int, name: str, source: bytes, sha256: str, applied_at: int
) -> None:
    """Keep an applied policy file and put it in force."""
    row = {
        "version": version,
        "name": name,
        "source": source,
        "sha256": sha256,
        "applied_at": applied_at,
    }
    tx.execute(_PUT_POLICY, row)
    tx.execute(_PUT_IN_FORCE, {"version": version})
