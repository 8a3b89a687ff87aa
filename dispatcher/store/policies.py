"""Applied versions of the policy as operators list them."""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlmodel import col, select

from dispatcher.model import PolicyVersion
from dispatcher.store.events import details
from dispatcher.store.transaction import Tx

_VERSIONS: Final = select(
    PolicyVersion.version,
    PolicyVersion.name,
    PolicyVersion.sha256,
    PolicyVersion.applied_at,
).order_by(col(PolicyVersion.version))


class VersionRow(NamedTuple):
    """An applied version, with what the audit log says of how it came."""

    version: int
    name: str
    sha256: str
    applied_at: int
    accepted: int
    reason: str


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
