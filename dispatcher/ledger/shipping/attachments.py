"""What lines of chain ``system`` have only digests of, held against these digests.

A line of a version or of a load is shipped right behind what it is about: policy and
functions, or keys and links, each in one or several lines of its own that no chain
counts. Only the line itself tells that one of them was cut out or changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from dispatcher.core.errors import LedgerBroken
from dispatcher.ledger.chains import SYSTEM

_DIGESTS: Final = {
    "policy": {"policy": "sha256", "functions": "functions_sha256"},
    "keys": {
        "keys": "keys_sha256",
        "relations": "relations_sha256",
        "facts": "facts_sha256",
    },
}
"""By kind of line: what is attached to it, and its member with the digest of that."""

_AGAIN: Final = {"keys-again": "keys"}
"""Other names of what is attached."""


class Attachments:
    """Follows the lines of a shipped ledger as they come."""

    def __init__(self) -> None:
        self._seq = 0
        self._digests: dict[str, Any] = {}

    def take(self, members: Mapping[str, Any], where: str) -> bool:
        """Take the next line; return whether it is attached to one that follows.

        Raises
        ------
        LedgerBroken
            It is a line with a digest that what came before it does not have.
        """
        try:
            if "attached" in members:
                self._attach(str(members["attached"]), members, where)
                return True
            if self._digests or members.get("chain") == SYSTEM:
                self._compare(members, where)
        except (KeyError, TypeError, AttributeError, UnicodeError):
            raise broken(where, "it is no line of a ledger") from None
        return False

    def _attach(self, name: str, members: Mapping[str, Any], where: str) -> None:
        if self._digests and members["seq"] != self._seq:
            raise broken(where, f"what line {self._seq} of {SYSTEM} is about is alone")
        self._seq = members["seq"]
        digest = self._digests.setdefault(name, hashlib.sha256())
        digest.update(members["text"].encode())

    def _compare(self, members: Mapping[str, Any], where: str) -> None:
        kind = str(members["kind"]) if members["chain"] == SYSTEM else ""
        found = {_AGAIN.get(n, n): d.hexdigest() for n, d in self._digests.items()}
        if found and (members["seq"] != self._seq or len(found) < len(self._digests)):
            raise broken(where, f"what line {self._seq} of {SYSTEM} is about is alone")
        for name, member in _DIGESTS.get(kind, {}).items():
            if found.pop(name, _NOTHING) != members[member]:
                raise broken(where, f"its {name} do not stand before it as it was")
        if found:
            raise broken(where, "something stands before it that it is not about")
        self._digests.clear()


_NOTHING: Final = hashlib.sha256().hexdigest()


def broken(where: str, why: str) -> LedgerBroken:
    """Error for files that were not left as they were written."""
    return LedgerBroken(
        f"the shipped ledger does not read as it was written: {where}",
        why=f"{why[0].upper()}{why[1:]}.",
        fix="Put the file back from a copy of it. If there is none, move the folder "
        "away: the store's own ledger is shipped anew, whole, if it was never restored.",
    )
