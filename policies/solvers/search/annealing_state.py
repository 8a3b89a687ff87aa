"""The arrays of :mod:`policies.solvers.kernels.hand_annealing`, laid out for a problem and a plan."""

from __future__ import annotations

from typing import Final

import numpy as np

from policies.model.coalitions import membership
from policies.model.problem import Problem
from policies.model.problem_arrays import tables
from policies.model.sets import NO_CAP, Bools, Ints, SetSystem
from policies.solvers.kernels.compiling import ready
from policies.solvers.kernels.hand_annealing import Fixed, State

_LISTED: Final = 20_000
"""Loads whose exponentials are listed, of all sets: few beside the steps of a stride."""


class Board:
    """What hands see of the plans of one problem.

    Hands that another one sees all of are left out: f and loads never fall with what is
    held. All stay where somebody is trusted, as hands are judged for different sets then,
    and where history may be past a limit, which it may be for one hand alone.

    Attributes
    ----------
    tables : Tables
    width : float
        Entries of a set, on average.
    cost : float
        Loads that a pair changes, on average, at least 1.
    sweep : int
        Loads and pairs, all of which a look at the true objective goes through.
    """

    def __init__(self, problem: Problem) -> None:
        from scipy.sparse import csr_array

        self.problem = problem
        self.tables = t = tables(problem)
        hands, self._judged = (
            membership(problem.groups, problem.n_adversaries),
            t.judged,
        )
        alike = problem.strict_history or not len(problem.history)
        if problem.groups and problem.trusted is None and alike:
            kept = widest(hands)
            hands, self._judged = hands[kept], t.judged[:, kept]
        self._members = csr_array(hands.T.astype(np.int64))
        adversary, hand = np.nonzero(hands.T)
        start = np.searchsorted(adversary, np.arange(problem.n_adversaries + 1))
        self._seen = (start.astype(np.int64), hand.astype(np.int64))
        near = len(t.entry) / max(1, problem.n_entries)
        self.cost = max(1.0, near * len(hand) / problem.n_adversaries)
        self.sweep = len(t.full) * hands.shape[0] + t.able.size
        self.width = max(1.0, len(t.entry) / max(1, len(t.full)))
        mean = problem.averages or (t.tradeoff and t.average)
        over = problem.averages[0].over if problem.averages else t.over
        self._average = float(over) if mean else 0.0
        self._lay()
        self._held = t.held.astype(np.int64) @ self._members
        self._base = np.zeros((len(t.full), 1), np.int64)
        if len(problem.history):
            self._base = self._loads(self._held > 0)[0]
        self._may = t.able & ~self._barred()
        self._highest = self._caps(t.cap)

    def _barred(self) -> Bools:
        """Pairs of sets that history is past the limit of, for a hand that sees them."""
        from scipy.sparse import csr_array

        t = self.tables
        past = (self._base > t.cap[:, None]) & self._judged
        if not past.any():
            return np.zeros_like(t.able)
        ones = np.ones(len(t.entry), np.int64)
        inside = csr_array((ones, (t.entry, t.set_of)), shape=(len(t.hi), len(t.full)))
        seen = np.asarray(inside @ past.astype(np.int64)) > 0
        return np.asarray(seen.astype(np.int64) @ self._members.T > 0)

    def _lay(self) -> None:
        """Lay the sets out by entries, and classes by numbers of their own."""
        from scipy.sparse import csr_array

        t = self.tables
        n, m = len(t.hi), len(t.full)
        inside = t.classes[t.set_of]
        slot = np.full(len(t.entry), -1, np.int64)
        pairs = np.stack([t.set_of, t.amount])[:, inside]
        found, slot[inside] = np.unique(pairs, axis=1, return_inverse=True)
        amount = np.where(inside, 1, t.amount)
        rows = np.argsort(t.entry, kind="stable")
        start = np.searchsorted(t.entry[rows], np.arange(n + 1)).astype(np.int64)
        self._rows = (start, t.set_of[rows], amount[rows], slot[rows])
        count = found.shape[1]
        ones = np.ones(count, np.int64)
        weighed = np.where(inside, 0, t.amount)
        self._plain = csr_array((weighed, (t.set_of, t.entry)), shape=(m, n))
        self._slots = csr_array(
            (np.ones(int(inside.sum()), np.int64), (slot[inside], t.entry[inside])),
            shape=(count, n),
        )
        self._of = csr_array((ones, (found[0], np.arange(count))), shape=(m, count))

    def _loads(self, holds: Bools) -> tuple[Ints, Ints]:
        """Loads of what is held, and how many entries of each class are."""
        whole = holds.astype(np.int64)
        touched = np.asarray(self._slots @ whole)
        classed = self._of @ (touched > 0).astype(np.int64)
        return np.asarray(self._plain @ whole + classed), touched

    def _caps(self, cap: Ints) -> Ints:
        """Highest load of each set and hand; what history is past may stay."""
        caps: Ints = np.where(self._judged, cap[:, None], NO_CAP)
        if not self.problem.strict_history:
            np.maximum(caps, self._base, out=caps)
        return caps

    def state(self, chosen: Bools) -> State:
        """Lay a plan out, shape (n, k)."""
        copies = self._held + chosen.astype(np.int64) @ self._members
        load, touched = self._loads(copies > 0)
        return ready(
            State(
                chosen=chosen.copy(),
                best=chosen.copy(),
                degree=chosen.sum(axis=1),
                seats=chosen.sum(axis=0),
                copies=copies,
                touched=touched,
                load=load,
                mean=np.zeros(load.shape[1]),
                heat=np.zeros(load.shape),
                total=np.zeros(3),
                known=np.zeros((len(load), self._width())),
            )
        )

    def _width(self) -> int:
        """Loads of which exponentials are listed; 0 where they would be too many."""
        width = int(self.tables.full.max(initial=0)) + 1
        return width if len(self.tables.full) * width <= _LISTED else 0

    def fixed(self, sets: SetSystem | None, *, levelled: bool) -> Fixed:
        """Lay the problem out, with the limits of these sets instead of its own."""
        t = self.tables
        start, unit, amount, slot = self._rows
        seen_start, seen = self._seen
        return ready(
            Fixed(
                member_start=t.start,
                member=t.entry,
                start=start,
                unit=unit,
                amount=amount,
                slot=slot,
                kind=t.measure,
                full=t.full,
                cap=self._highest if sets is None else self._caps(sets.cap),
                judged=self._judged,
                seen_start=seen_start,
                seen=seen,
                average=self._average,
                levelled=levelled,
                may=self._may,
                lo=t.lo,
                hi=t.hi,
                room=t.room,
                worth=t.worth,
            )
        )

    def judged(self, chosen: Bools) -> tuple[float, float, bool]:
        """Return u and f of a plan, up to rounding, and whether it is past a limit."""
        t = self.tables
        copies = self._held + chosen.astype(np.int64) @ self._members
        load, _ = self._loads(copies > 0)
        f = load / t.full[:, None]  # changed in place: it can be large
        np.minimum(f, 1.0, out=f)
        f[t.measure > 1] **= 2
        f[t.measure < 1] = np.floor(f[t.measure < 1])
        f *= self._judged
        level = f.sum(axis=0) / self._average if self._average else f
        past = (load > self._highest).any() or (chosen & ~self._may).any()
        return float(t.worth[chosen].sum()), float(level.max(initial=0.0)), bool(past)


def widest(hands: Bools) -> Ints:
    """Hands that are no part of another one, as rows of (h, k)."""
    inside = (hands.astype(np.int64) @ (~hands).T.astype(np.int64)) == 0
    np.fill_diagonal(inside, val=False)
    return np.flatnonzero(~inside.any(axis=1))
