"""What was erased stays erased, whatever a backup brings back."""

from __future__ import annotations

from dispatcher.core.log import get_logger
from dispatcher.custody import erasures
from dispatcher.custody.erasure import erase, erase_rows
from dispatcher.custody.erasures import Listed
from dispatcher.custody.means import Erased, Means
from dispatcher.custody.purging import purge, purge_rows
from dispatcher.store import erasure as rows
from dispatcher.store import intake
from dispatcher.store.transaction import Tx


def erase_again(means: Means) -> list[str]:
    """Erase what was erased before and is back, since a backup was put back by hand.

    Returns
    -------
    list of str
        Pseudonyms.
    """
    listed = erasures.share(means.lists)
    back = _back(means, listed)
    for name in back:
        erase(means, name)
    if _settle(means, listed):
        purge(means, listed.before)
    if back:
        get_logger("erasure").warning("erased-again", count=len(back))
    return back


def keep_erased(means: Means, listed: Listed) -> int:
    """Erase in a restored store what was erased before, ere it takes its place.

    Spools and exports are cleaned when the store is used.

    Returns
    -------
    int
        People and records that were back, those that were erased by age among them.
    """
    back = _back(means, listed)
    for name in back:
        erase_rows(means, name, Erased())
    aged = _settle(means, listed)
    if aged:
        purge_rows(means, listed.before, Erased())
    return len(back) + aged


def any_back(tx: Tx, listed: Listed) -> bool:
    """Whether somebody or something is back that was erased before."""
    return bool(_named(tx, listed)) or _aged(tx, listed) > 0


def _back(means: Means, listed: Listed) -> list[str]:
    with means.store.read() as tx:
        return _named(tx, listed)


def _named(tx: Tx, listed: Listed) -> list[str]:
    return rows.not_erased(tx, listed.names) if listed.names else []


def _aged(tx: Tx, listed: Listed) -> int:
    return rows.count_loaded_before(tx, listed.before) if listed.before else 0


def _settle(means: Means, listed: Listed) -> int:
    """Keep the other spellings out too; return how many records are back by age."""
    with means.store.read() as tx:
        known = intake.suppressed(tx, listed.spelled)
        lost = bool(listed.before) and rows.lost_before(tx, listed.before)
        aged = _aged(tx, listed)
    if len(known) < len(listed.spelled) or lost:
        with means.store.write() as tx:
            rows.suppress(tx, listed.spelled)
            rows.give_up_lost(tx, listed.before)
    return aged
