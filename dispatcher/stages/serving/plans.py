"""The plan in force as serving reads it: by account, and by entry."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from dispatcher.store import Store, Tx, lease, planning
from dispatcher.store import serving as rows

Ids = NDArray[np.int64]


class PlanIndex:
    """Who was planned for what when the plan was first read.

    A plan only ever loses pairs: those that were booked, which have tasks, and those
    that the gate refused, told by :meth:`drop`. So one index serves until the next
    plan: 16 bytes a pair, sorted once.

    Parameters
    ----------
    plan_id, applied_at : int
    packed : sequence of (account id, little-endian 64-bit entry ids)
    """

    def __init__(
        self, plan_id: int, applied_at: int, packed: Sequence[tuple[int, bytes]]
    ) -> None:
        self.plan_id = plan_id
        self.applied_at = applied_at
        parts = [np.frombuffer(raw, "<i8") for _, raw in packed]
        entries = np.concatenate([*parts, np.empty(0, np.int64)])
        owners = np.array([account_id for account_id, _ in packed], np.int64)
        accounts = np.repeat(owners, [len(part) for part in parts])
        order = np.argsort(entries, kind="stable")
        self._entries: Ids = entries[order].astype(np.int64)
        self._accounts: Ids = accounts[order]
        self._dropped: set[tuple[int, int]] = set()

    def accounts_of(self, entry_id: int) -> frozenset[int]:
        """Accounts that an entry is planned for, booked or not."""
        first, last = np.searchsorted(self._entries, [entry_id, entry_id + 1])
        planned = self._accounts[first:last].tolist()
        return frozenset(
            account for account in planned if (account, entry_id) not in self._dropped
        )

    def drop(self, account_id: int, entry_ids: Iterable[int]) -> None:
        """Forget pairs that left the plan."""
        self._dropped.update((account_id, entry_id) for entry_id in entry_ids)

    def sample(self, rng: np.random.Generator, count: int) -> list[int]:
        """At most so many of the planned entries, by chance, without repeats."""
        if not len(self._entries):
            return []
        picked = rng.integers(0, len(self._entries), size=count)
        return list(dict.fromkeys(self._entries[picked].tolist()))


class Plans:
    """Keeps the index of the plan in force; safe to use from several threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._index: PlanIndex | None = None

    def in_force(self, tx: Tx, version: int) -> PlanIndex | None:
        """Return the index of the applied plan, or None while there is none."""
        plan = rows.plan_in_force(tx, version)
        if plan is None:
            return None
        with self._lock:
            index = self._index
            if index is None or index.plan_id != plan.id:
                packed = rows.planned_rows(tx, plan.id)
                index = PlanIndex(plan.id, plan.applied_at, packed)
                self._index = index
        return index

    def take_out(
        self, plan_id: int, account_id: int, gone: Ids, epoch: int | None = None
    ) -> None:
        """Take pairs out of a plan, so that planning may find others for them.

        Raises
        ------
        StaleLease
            ``epoch`` is given and another daemon leads.
        """
        with self._store.write() as tx:
            if epoch is not None:
                lease.check_epoch(tx, lease.SHARD, epoch)
            planned = np.frombuffer(
                planning.lock_planned(tx, plan_id, account_id), "<i8"
            )
            left = np.setdiff1d(planned, gone).astype("<i8")
            if len(left) < len(planned):
                planning.keep_planned(tx, plan_id, account_id, left.tobytes())
        with self._lock:
            if self._index is not None and self._index.plan_id == plan_id:
                self._index.drop(account_id, gone.tolist())
