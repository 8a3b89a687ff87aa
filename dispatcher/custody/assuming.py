"""What may have been shown, where a store is old and its shipped ledger is lost."""

from __future__ import annotations

from typing import Final

import numpy as np

from dispatcher.ledger.book import Asks, Pull, book
from dispatcher.model import record_unit, subject_unit
from dispatcher.store import Store, accounts, pause
from dispatcher.store import replaying as rows

ASSUMED: Final = "assumed"
"""Cause of exposures that nobody knows of, and that may have been."""


def assume_shown(store: Store, since: int, now: int) -> tuple[int, int]:
    """Take for shown what may have been: (exposures, adversary-unit pairs).

    Every pair of an applied plan that was not booked counts as shown, in the order of
    the plan, as far as the gate lets it. What else may have been shown, nobody knows:
    so no adversary is shown anything more of a record or person of which an entry was
    still open.
    """
    with store.write() as tx:
        pauses = pause.lift_all(tx)
        showings = 0
        for account_id, packed in rows.planned_pairs(tx):
            entry_ids = np.frombuffer(packed, "<i8").tolist()
            booked = book(
                tx,
                [Asks(account_id, entry_ids)],
                delivery=Pull(leased_until=now),
                at=now,
                cause=ASSUMED,
                skip_refused=True,
            )
            showings += booked.new
        pause.put_back(tx, pauses)
        records, subjects = rows.open_units(tx, since)
        units = [record_unit(n) for n in records] + [subject_unit(n) for n in subjects]
        living = rows.living_adversaries(tx)
        pairs = ((adversary, unit) for adversary in living for unit in units)
        recused = accounts.add_recusals(tx, pairs, now)
    return showings, recused
