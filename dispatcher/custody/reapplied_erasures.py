"""What was erased stays erased, whatever a backup brings back; and erasure by age, as a tick."""

from __future__ import annotations

from dispatcher.core.log import get_logger
from dispatcher.custody import erasure_list
from dispatcher.custody.erasure import (
    Erased,
    ErasureContext,
    erase,
    erase_rows,
    finish,
    purge,
    purge_rows,
)
from dispatcher.custody.erasure_list import Listed
from dispatcher.custody.key_rotation import seal_leftovers
from dispatcher.ledger.active_policy import current_policy
from dispatcher.store import erasure as rows
from dispatcher.store import records
from dispatcher.store.transaction import Tx


def erase_again(context: ErasureContext) -> list[str]:
    """Erase what was erased before and is back, since a backup was put back by hand.

    Returns
    -------
    list of str
        Pseudonyms.
    """
    listed = erasure_list.share(context.lists)
    back = _back(context, listed)
    for name in back:
        erase(context, name)
    if _settle(context, listed):
        purge(context, listed.before)
    if back:
        get_logger("erasure").warning("erased-again", count=len(back))
    return back


def keep_erased(context: ErasureContext, listed: Listed) -> int:
    """Erase in a restored store what was erased before, ere it takes its place.

    Spools and exports are cleaned when the store is used.

    Returns
    -------
    int
        People and records that were back, those that were erased by age among them.
    """
    back = _back(context, listed)
    for name in back:
        erase_rows(context, name, Erased())
    aged = _settle(context, listed)
    if aged:
        purge_rows(context, listed.before, Erased())
    return len(back) + aged


def any_back(tx: Tx, listed: Listed) -> bool:
    """Whether somebody or something is back that was erased before."""
    return bool(_named(tx, listed)) or _aged(tx, listed) > 0


def _back(context: ErasureContext, listed: Listed) -> list[str]:
    with context.store.read() as tx:
        return _named(tx, listed)


def _named(tx: Tx, listed: Listed) -> list[str]:
    return rows.not_erased(tx, listed.names) if listed.names else []


def _aged(tx: Tx, listed: Listed) -> int:
    return rows.count_loaded_before(tx, listed.before) if listed.before else 0


def _settle(context: ErasureContext, listed: Listed) -> int:
    """Keep the other spellings out too; return how many records are back by age."""
    with context.store.read() as tx:
        known = records.suppressed(tx, listed.spelled)
        lost = bool(listed.before) and records.lost_before(tx, listed.before)
        aged = _aged(tx, listed)
    if len(known) < len(listed.spelled) or lost:
        with context.store.write() as tx:
            rows.suppress(tx, listed.spelled)
            records.give_up_lost(tx, listed.before)
    return aged


class Retention:
    """The daemon's tick: erases what the policy's ``retain`` no longer allows.

    Parameters
    ----------
    context : ErasureContext
    """

    def __init__(self, context: ErasureContext) -> None:
        self._context = context

    def tick(self, epoch: int) -> int:
        """Erase a bounded number of records that are too old; return how many.

        Raises
        ------
        StaleLease
            This daemon does not lead any more.
        """
        seal_leftovers(self._context.store)
        erase_again(self._context)
        with self._context.store.read() as tx:
            force = current_policy(tx)
        retain = None if force is None else force.policy.entity.retain
        if retain is None:
            finish(self._context, Erased())  # of an erasure that was broken off
            return 0
        done = purge(
            self._context, self._context.clock() - retain, epoch=epoch, pieces=20
        )
        return done.deleted["records"]
