"""The workforce: adversaries that can be shown something now, and how much."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dispatcher.ledger import averages
from dispatcher.ledger.active_policy import ActivePolicy
from dispatcher.preflight import Clearance
from dispatcher.stages.planning.backlog import Backlog
from dispatcher.store import booking
from dispatcher.store.accounts import AccountRow, all_accounts
from dispatcher.store.transaction import Tx

Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Workforce:
    """Adversaries that can be shown something now.

    Attributes
    ----------
    ids : tuple of int
        Adversary of each index of the problem.
    accounts : tuple of tuple of AccountRow
        Their active accounts.
    rooms : tuple of tuple of (int or None)
        How many entries each of those accounts may still be shown.
    trusted : tuple of frozenset of str
        Rules not judged for them.
    clear : Clearance
    carried : dict of str to bool array, shape (n,)
        Connector of an account -> which entries of the backlog go by it.
    """

    ids: tuple[int, ...]
    accounts: tuple[tuple[AccountRow, ...], ...]
    rooms: tuple[tuple[int | None, ...], ...]
    trusted: tuple[frozenset[str], ...]
    clear: Clearance
    carried: dict[str, Flags]

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def feeds(self) -> Flags:
        """Whether each adversary has an account at a feed, shape (adversaries,)."""
        return self._having(lambda name: name in self.clear.feeds)

    @cached_property
    def workers(self) -> Flags:
        """Whether each adversary has an account at a market, shape (adversaries,)."""
        return self._having(lambda name: name not in self.clear.feeds)

    def _having(self, accepts: Callable[[str], bool]) -> Flags:
        found = [any(accepts(a.connector) for a in each) for each in self.accounts]
        return np.array(found, np.bool_)

    def routes(self, entries: int) -> Ints:
        """By which connectors each entry goes: bit i is the i-th of ``carried``."""
        found = np.zeros(entries, np.int64)
        for i, flags in enumerate(self.carried.values()):
            found |= flags.astype(np.int64) << i
        return found

    def goes_by(self, connector: str, route: int) -> bool:
        """Whether entries of a route go by a connector."""
        return bool(route >> list(self.carried).index(connector) & 1)


def workforce(
    tx: Tx,
    force: ActivePolicy,
    backlog: Backlog,
    now: int,
    clear: Clearance,
    without: frozenset[int] = frozenset(),
) -> Workforce:
    """Return the adversaries that may be shown something, and how much.

    Left out are `without`, and those past a cap on an average by an accepted join or
    version: the gate shows them nothing that leaves them past it, and with them no plan
    would meet it.
    """
    active: dict[int, list[AccountRow]] = defaultdict(list)
    groups: dict[int, list[str]] = defaultdict(list)
    for account in all_accounts(tx):
        if account.adversary_id:
            groups[account.adversary_id].append(account.groups)
            if account.state == "active" and account.id not in clear.barred:
                active[account.adversary_id].append(account)
    trusted = {i: force.trusted(groups[i]) for i in active}
    for i in {*_past_averages(tx, force, trusted), *without}:
        del active[i]
    planned: dict[int, int] = defaultdict(int)
    for row in backlog.left:
        planned[row.account_id] += len(row.entries) // 8
    loads = booking.loads(tx, [a.id for each in active.values() for a in each], now)

    def room(account: AccountRow) -> int | None:
        total = force.policy.capacity(account.text).total
        if total is None:
            return None
        given = loads[account.id][0] if account.id in loads else 0
        return max(0, total - given - planned[account.id])

    ids = tuple(sorted(active))
    return Workforce(
        ids=ids,
        accounts=tuple(tuple(active[i]) for i in ids),
        rooms=tuple(tuple(room(a) for a in active[i]) for i in ids),
        trusted=tuple(trusted[i] for i in ids),
        clear=clear,
        carried={
            name: _carried(force, backlog, clear, name)
            for name in sorted({a.connector for i in ids for a in active[i]})
        },
    )


def _carried(
    force: ActivePolicy, backlog: Backlog, clear: Clearance, connector: str
) -> Flags:
    """Which entries go by a connector: of a kind that it carries, and not too long."""
    kinds = np.zeros(max(force.fields, default=0) + 1, np.bool_)
    for number, standing in force.fields.items():
        ask = force.policy.entity.fields[standing.name].ask
        kinds[number] = clear.carries(connector, ask)
    most = clear.most_bytes(connector)
    return kinds[backlog.field] & (most is None or backlog.size <= most)


def _past_averages(
    tx: Tx, force: ActivePolicy, trusted: Mapping[int, frozenset[str]]
) -> list[int]:
    """Find adversaries past a cap on an average by what they were shown."""
    if not force.averages:
        return []
    means = averages.read(tx, force)
    return [
        adversary
        for adversary, names in trusted.items()
        if averages.past_averages(force, means.sets, means.sums[adversary], names)
    ]
