"""What a plan costs: its showings, and its pieces of work at markets that pay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from dispatcher import money
from dispatcher.store import Tx
from dispatcher.store import money as rows
from dispatcher.store.money import BudgetRow

CHUNK: Final = 10_000
"""Entries whose runs are looked up at once."""


def costs(
    tx: Tx, planned: Iterable[tuple[int, int, bytes]], pays: frozenset[str], now: int
) -> list[dict[str, Any]]:
    """Say what planned work costs the runs that have a budget.

    Parameters
    ----------
    tx : Tx
    planned : iterable of (account, adversary, packed entries)
        As a plan assigns them.
    pays : frozenset of str
        Connectors that pay their workers themselves.
    now : int
        Microseconds UTC.

    Returns
    -------
    list of dict
        For each run with a budget and planned work: ``fields`` planned; ``pieces`` of
        work, one for each account at a market that pays, paid by the run that most of
        its fields are of; ``total`` with fees; ``room`` of the budget, for ever; and
        whether it is ``enough``. Amounts are exact text. It is what the plan costs if
        every field is answered: more pieces of work, or returned ones, change it.
    """
    budgets = {row.run_id: row for row in rows.budgets(tx)}
    if not budgets:
        return []
    names = rows.run_names(tx)
    paying = rows.accounts_of(tx, sorted(pays))
    fields: Counter[tuple[int, bool]] = Counter()
    pieces: Counter[int] = Counter()
    for account_id, _, packed in planned:
        at_market = account_id in paying
        by_run = _by_run(tx, packed, names)
        fields.update({(run_id, at_market): n for run_id, n in by_run.items()})
        if at_market and by_run:
            pieces[max(by_run, key=lambda run_id: (by_run[run_id], -run_id))] += 1
    return [
        _told(names[run_id], budget, fields, pieces, now)
        for run_id, budget in budgets.items()
        if pieces[run_id] or fields[run_id, True] or fields[run_id, False]
    ]


def _by_run(tx: Tx, packed: bytes, names: dict[int, str]) -> Counter[int]:
    """Count entries by run; where there is one run only, nothing is looked up."""
    entries = np.frombuffer(packed, "<i8")
    if len(names) == 1:
        return Counter({run_id: len(entries) for run_id in names if len(entries)})
    found: Counter[int] = Counter()
    for first in range(0, len(entries), CHUNK):
        found.update(rows.runs_of(tx, entries[first : first + CHUNK].tolist()))
    return found


def _told(
    name: str,
    budget: BudgetRow,
    fields: Counter[tuple[int, bool]],
    pieces: Counter[int],
    now: int,
) -> dict[str, Any]:
    at_home, at_market = (fields[budget.run_id, paid] for paid in (False, True))
    bonuses = at_market * budget.bonus_with_fee(at_market=True)
    rewards = pieces[budget.run_id] * (budget.reward + budget.fee_of(budget.reward))
    total = at_home * budget.bonus + bonuses + rewards
    room = budget.cap - budget.taken
    return {
        "run": name,
        "fields": at_home + at_market,
        "pieces": pieces[budget.run_id],
        "total": str(money.money_of(total, budget.currency)),
        "room": str(money.money_of(max(room, 0), budget.currency)),
        "enough": total <= room,
        "enough_today": total <= budget.room(now),
    }
