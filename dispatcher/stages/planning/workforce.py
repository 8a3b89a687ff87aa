"""Who can be given something now, by adversary, and how much."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dispatcher.ledger import averages
from dispatcher.ledger.standing import InForce
from dispatcher.stages.planning.backlog import Backlog
from dispatcher.store import booking
from dispatcher.store.accounts import Account, all_accounts
from dispatcher.store.transaction import Tx

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Workforce:
    """Adversaries that can be given something now.

    Attributes
    ----------
    ids : tuple of int
        Adversary of each index of the problem.
    accounts : tuple of tuple of Account
        Their active accounts.
    rooms : tuple of tuple of (int or None)
        How many entries each of those accounts may still be given.
    trusted : tuple of frozenset of str
        Rules not judged for them.
    feeds : frozenset of str
        Connectors whose accounts get what is published, and nothing that is asked.
    """

    ids: tuple[int, ...]
    accounts: tuple[tuple[Account, ...], ...]
    rooms: tuple[tuple[int | None, ...], ...]
    trusted: tuple[frozenset[str], ...]
    feeds: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.ids)

    def takes(self, *, published: bool) -> Flags:
        """Whether each adversary has an account that takes such fields.

        Returns
        -------
        bool array, shape (adversaries,)
        """
        return np.array(
            [
                any((a.connector in self.feeds) == published for a in each)
                for each in self.accounts
            ],
            np.bool_,
        )


def workforce(
    tx: Tx,
    force: InForce,
    backlog: Backlog,
    now: int,
    feeds: frozenset[str],
    without: frozenset[int] = frozenset(),
) -> Workforce:
    """Return the adversaries that may get something, and how much.

    Without some, and those past a cap on a mean by an accepted join or version: the gate
    lets them see nothing that leaves them past it, and with them no plan would keep it.
    """
    active: dict[int, list[Account]] = defaultdict(list)
    groups: dict[int, list[str]] = defaultdict(list)
    for account in all_accounts(tx):
        if account.adversary_id:
            groups[account.adversary_id].append(account.groups)
            if account.state == "active":
                active[account.adversary_id].append(account)
    trusted = {i: force.trusted(groups[i]) for i in active}
    for i in {*_past_means(tx, force, trusted), *without}:
        del active[i]
    planned: dict[int, int] = defaultdict(int)
    for row in backlog.left:
        planned[row.account_id] += len(row.entries) // 8
    loads = booking.loads(tx, [a.id for each in active.values() for a in each], now)

    def room(account: Account) -> int | None:
        total = force.policy.capacity(account.text).total
        if total is None:
            return None
        given = loads[account.id].given if account.id in loads else 0
        return max(0, total - given - planned[account.id])

    ids = tuple(sorted(active))
    return Workforce(
        ids=ids,
        accounts=tuple(tuple(active[i]) for i in ids),
        rooms=tuple(tuple(room(a) for a in active[i]) for i in ids),
        trusted=tuple(trusted[i] for i in ids),
        feeds=feeds,
    )


def _past_means(
    tx: Tx, force: InForce, trusted: Mapping[int, frozenset[str]]
) -> list[int]:
    """Adversaries who are past a cap on a mean by what they were shown."""
    if not force.averages:
        return []
    means = averages.read(tx, force)
    return [
        adversary
        for adversary, names in trusted.items()
        if averages.past_means(force, means.sets, means.sums[adversary], names)
    ]
