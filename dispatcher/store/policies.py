"""Applied versions of the policy as operators list them."""

from __future__ import annotations

import json
from typing import NamedTuple

from dispatcher.store.transaction import Tx


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
    told = {
        detail["version"]: detail
        for (text,) in tx.rows(
            "SELECT detail FROM event WHERE action = 'policy.activated' ORDER BY id"
        )
        if (detail := json.loads(text))
    }
    return [
        VersionRow(
            version=int(version),
            name=name,
            sha256=sha256,
            applied_at=int(at),
            accepted=told.get(version, {}).get("accepted", 0),
            reason=told.get(version, {}).get("reason", ""),
        )
        for version, name, sha256, at in tx.rows(
            "SELECT version, name, sha256, applied_at FROM policy ORDER BY version"
        )
    ]
