"""What was erased stays erased, whatever a backup brings back."""

from __future__ import annotations

from dispatcher.core.log import get_logger
from dispatcher.custody import erasures
from dispatcher.custody.erasure import erase, erase_rows
from dispatcher.custody.erasure_context import Erased, ErasureContext
from dispatcher.custody.erasures import Listed
from dispatcher.custody.purging import purge, purge_rows
from dispatcher.store import erasure as rows
from dispatcher.store import intake
from dispatcher.store.transaction import Tx


def erase_again(context: ErasureContext) -> list[str]:
    """Erase what was erased before and is back, since a backup was put back by hand.

    Returns
    -------
    list of str
        Pseudonyms.
    """
    listed = erasures.share(context.lists)
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
        known = intake.suppressed(tx, listed.spelled)
        lost = bool(listed.before) and rows.lost_before(tx, listed.before)
        aged = _aged(tx, listed)
    if len(known) < len(listed.spelled) or lost:
        with context.store.write() as tx:
            rows.suppress(tx, listed.spelled)
            rows.give_up_lost(tx, listed.before)
    return aged
