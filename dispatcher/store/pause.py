"""What is paused: everything, a connector, or a run."""

import re
from collections.abc import Sequence
from typing import Final

from sqlalchemy import bindparam, delete
from sqlmodel import col, select

from dispatcher.core.errors import Usage
from dispatcher.model import Pause
from dispatcher.store.statements import insert
from dispatcher.store.transaction import Tx

ALL: Final = "all"
_SCOPE: Final = re.compile(r"all|(connector|run):.{1,100}", re.DOTALL)

_NEW: Final = insert(Pause).values(
    scope=bindparam("scope"), reason=bindparam("reason"), at=bindparam("at")
)
_PAUSE: Final = _NEW.on_conflict_do_update(
    index_elements=["scope"],
    set_={"reason": _NEW.excluded.reason, "at": _NEW.excluded.at},
)
_RESUME: Final = delete(Pause).where(col(Pause.scope) == bindparam("scope"))
_LIFT_ALL: Final = delete(Pause)
_ALL: Final = select(Pause).order_by(col(Pause.scope))


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
    tx.execute(_PAUSE, {"scope": scope, "reason": reason, "at": now})


def resume(tx: Tx, scope: str) -> bool:
    """End a pause; False when there was none."""
    return tx.execute(_RESUME, {"scope": scope}).rowcount == 1


def paused(tx: Tx) -> dict[str, Pause]:
    """Every pause by its scope."""
    return {one.scope: one for one in tx.models(_ALL)}


def lift_all(tx: Tx) -> list[Pause]:
    """Take all pauses away; return them."""
    lifted = tx.models(_ALL)
    tx.execute(_LIFT_ALL)
    return lifted


def put_back(tx: Tx, pauses: Sequence[Pause]) -> None:
    """Put pauses back that were taken away."""
    for one in pauses:
        tx.execute(_PAUSE, {"scope": one.scope, "reason": one.reason, "at": one.at})
