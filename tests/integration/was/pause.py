"""What is paused: everything, a connector, or a run."""

import re
from typing import Final

from dispatcher.core.errors import Usage
from dispatcher.store.transaction import Tx

ALL: Final = "all"
_SCOPE: Final = re.compile(r"all|(connector|run):.{1,100}", re.DOTALL)


def pause(tx: Tx, scope: str, reason: str, now: int) -> None:
    """Pause ``all``, ``connector:NAME`` or ``run:NAME``; a later reason replaces.

    Raises
    ------
    Usage
        The scope is none of those.
    """
    if not _SCOPE.fullmatch(scope):
        raise Usage(
            "no such thing can be paused",
            why="A pause is for all, for a connector or for a run.",
            fix="Name it: all, connector:NAME or run:NAME",
        )
    tx.upsert_many(
        "pause", ["scope"], ["scope", "reason", "at"], [(scope, reason, now)]
    )


def resume(tx: Tx, scope: str) -> bool:
    """End a pause; False when there was none."""
    return tx.execute("DELETE FROM pause WHERE scope = ?", [scope]) == 1


def paused(tx: Tx) -> dict[str, str]:
    """Reason of every pause, by scope."""
    return dict(tx.rows("SELECT scope, reason FROM pause ORDER BY scope"))
