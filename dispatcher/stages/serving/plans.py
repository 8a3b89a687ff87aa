"""The plan in force as serving reads it: by account, and by entry."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dispatcher.store import serving as rows
from dispatcher.store.transaction import Tx

Ids = NDArray[np.int64]


class PlanIndex:
    """Who was planned for what.

    Parameters
    ----------
    plan_id, applied_at : int
    packed : sequence of (account id, little-endian 64-bit entry ids)

    Notes
    -----
    An applied plan never changes, so one index serves until the next plan: 16 bytes a
    pair twice over, sorted once.
    """

    def __init__(
        self, plan_id: int, applied_at: int, packed: Sequence[tuple[int, bytes]]
    ) -> None:
        self.plan_id = plan_id
        self.applied_at = applied_at
        self._of_account: dict[int, Ids] = {
            account_id: np.frombuffer(raw, dtype="<i8").astype(np.int64, copy=False)
            for account_id, raw in packed
        }
        sizes = [len(ids) for ids in self._of_account.values()]
        entries = np.concatenate([*self._of_account.values(), np.empty(0, np.int64)])
        accounts = np.repeat(np.fromiter(self._of_account, np.int64), sizes)
        order = np.argsort(entries, kind="stable")
        self._entries: Ids = entries[order]
        self._accounts: Ids = accounts[order]

    def of_account(self, account_id: int) -> Ids:
        """Entries that are planned for an account."""
        return self._of_account.get(account_id, np.empty(0, np.int64))

    def accounts_of(self, entry_id: int) -> frozenset[int]:
        """Accounts that an entry is planned for."""
        first, last = np.searchsorted(self._entries, [entry_id, entry_id + 1])
        return frozenset(self._accounts[first:last].tolist())

    def sample(self, rng: np.random.Generator, count: int) -> list[int]:
        """At most so many of the planned entries, by chance, without repeats."""
        if not len(self._entries):
            return []
        picked = rng.integers(0, len(self._entries), size=count)
        return list(dict.fromkeys(self._entries[picked].tolist()))


class Plans:
    """Keeps the index of the plan in force; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._index: PlanIndex | None = None

    def in_force(self, tx: Tx) -> PlanIndex | None:
        """Return the index of the plan in force, or None while there is no plan."""
        plan = rows.plan_in_force(tx)
        if plan is None:
            return None
        with self._lock:
            index = self._index
            if index is None or index.plan_id != plan.id:
                packed = rows.planned_rows(tx, plan.id)
                index = PlanIndex(plan.id, plan.applied_at, packed)
                self._index = index
        return index
