"""The annealing state of a problem and a plan, as arrays for the kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from policies.model.coalitions import membership
from policies.model.disclosure import raise_parts
from policies.model.problem import Problem
from policies.model.problem_arrays import Tables, tables
from policies.model.sets import NO_CAP, Bools, Ints, SetSystem
from policies.solvers.kernels import plan_state as columns
from policies.solvers.kernels.annealing import SUMS, Annealing
from policies.solvers.kernels.compiling import ready
from policies.solvers.kernels.plan_state import State
from policies.solvers.search.delta_evaluation import NOBODY_NEAR, plan_arrays

_LISTED: Final = 20_000
"""Loads with tabulated exponentials, over all sets: few compared to a run's steps."""


class AnnealingState:
    """Arrays of one problem from which annealing states of its plans are made.

    Observers who see a part of what another one sees are left out: f and loads never
    fall with what is held. All stay if somebody is trusted, as observers are judged for
    different sets then, and if history may be past a limit, which it may be for one
    observer alone.

    Attributes
    ----------
    tables : Tables
    width : float
        Mean number of entries of a set.
    cost : float
        Mean number of loads that a pair changes, at least 1.
    sweep : int
        Number of loads and pairs, which an evaluation of the true objective reads.
    """

    def __init__(self, problem: Problem) -> None:
        from scipy.sparse import csr_array

        self.problem = problem
        self.tables = t = tables(problem)
        alike = problem.strict_history or not len(problem.history)
        if problem.groups and problem.trusted is None and alike:
            observers = membership(problem.groups, problem.n_adversaries)
            kept = widest(observers)
            self.tables = t = _seen_by(t, observers[kept], kept)
        adversary = np.repeat(np.arange(problem.n_adversaries), np.diff(t.seen_start))
        ones = np.ones(len(adversary), np.int64)
        self._members = csr_array(
            (ones, (adversary, t.seen)), shape=(problem.n_adversaries, t.n_observers)
        )
        near = len(t.entry) / max(1, problem.n_entries)
        self.cost = max(1.0, near * len(t.seen) / problem.n_adversaries)
        self.sweep = len(t.full) * t.n_observers + t.able.size
        self.width = max(1.0, len(t.entry) / max(1, len(t.full)))
        mean = problem.averages or (t.tradeoff and t.average)
        over = problem.averages[0].over if problem.averages else t.over
        self._divisor = float(over) if mean else 0.0
        self._arrays = plan_arrays(problem, t, NOBODY_NEAR)[0]
        self._lay()
        self._held = t.held.astype(np.int64) @ self._members
        self._base = np.zeros((len(t.full), 1), np.int64)
        if len(problem.history):
            self._base = self._loads(self._held > 0)[0]
        self.able = t.able & ~self._barred()
        self._arrays = self._arrays._replace(able=self.able)
        self.caps = self._caps(t.cap)

    def _barred(self) -> Bools:
        """Mask of pairs whose set history has taken past the limit, for some observer."""
        from scipy.sparse import csr_array

        t = self.tables
        past = (self._base > t.cap[:, None]) & t.judged
        if not past.any():
            return np.zeros_like(t.able)
        ones = np.ones(len(t.entry), np.int64)
        inside = csr_array((ones, (t.entry, t.set_of)), shape=(len(t.hi), len(t.full)))
        seen = np.asarray(inside @ past.astype(np.int64)) > 0
        return np.asarray(seen.astype(np.int64) @ self._members.T > 0)

    def _lay(self) -> None:
        """Set up loads as products: over entries, and over classes by their own numbers."""
        from scipy.sparse import csr_array

        s = self._arrays
        n, m, slots = len(s.worth), len(s.load), len(s.part)
        entry = np.repeat(np.arange(n), np.diff(s.entry[:, columns.ROWS]))
        unit, amount = s.row[:, columns.UNIT], s.row[:, columns.AMOUNT]
        classed = s.unit[unit, columns.KIND] == columns.CLASSES
        slot, ones = s.row[classed, columns.SLOT], np.ones(int(classed.sum()), np.int64)
        weighed = np.where(classed, 0, amount)
        self._plain = csr_array((weighed, (unit, entry)), shape=(m, n))
        self._slots = csr_array((ones, (slot, entry[classed])), shape=(slots, n))
        owner = np.zeros(slots, np.int64)
        owner[slot] = unit[classed]
        places = (owner, np.arange(slots))
        self._of = csr_array((np.ones(slots, np.int64), places), shape=(m, slots))

    def _loads(self, holds: Bools) -> tuple[Ints, Ints]:
        """Return the loads of held pairs, and the number of entries held of each class."""
        whole = holds.astype(np.int64)
        touched = np.asarray(self._slots @ whole)
        classed = self._of @ (touched > 0).astype(np.int64)
        return np.asarray(self._plain @ whole + classed), touched

    def _caps(self, cap: Ints) -> Ints:
        """Return the highest load of each set and observer; past history may stay."""
        caps: Ints = np.where(self.tables.judged, cap[:, None], NO_CAP)
        if not self.problem.strict_history:
            np.maximum(caps, self._base, out=caps)
        return caps

    def state(self, chosen: Bools) -> State:
        """Return the kernel's state for a plan, shape (n, k)."""
        copies = self._held + chosen.astype(np.int64) @ self._members
        load, touched = self._loads(copies > 0)
        entry, adversary = self._arrays.entry.copy(), self._arrays.adversary.copy()
        entry[:-1, columns.DEGREE] = chosen.sum(axis=1)
        adversary[:-1, columns.GIVEN] = chosen.sum(axis=0)
        return ready(
            self._arrays._replace(
                chosen=chosen.copy(),
                copies=copies,
                load=load,
                part=touched,
                entry=entry,
                adversary=adversary,
                total=np.zeros(columns.TOTALS),
            )
        )

    def annealing(
        self, state: State, sets: SetSystem | None = None, *, smooth: bool
    ) -> Annealing:
        """Return annealing's own arrays for a plan, with the limits of given sets."""
        m, h = state.load.shape
        width = int(self.tables.full.max(initial=0)) + 1
        return ready(
            Annealing(
                best=state.chosen.copy(),
                cap=self.caps if sets is None else self._caps(sets.cap),
                term=np.zeros((m, h)),
                listed=np.zeros((m, width if m * width <= _LISTED else 0)),
                mean=np.zeros(h),
                sums=np.zeros(SUMS),
                divisor=self._divisor,
                smooth=smooth,
            )
        )

    def judged(self, chosen: Bools) -> tuple[float, float, bool]:
        """Return u and f of a plan, up to rounding, and whether it is past a limit."""
        t = self.tables
        copies = self._held + chosen.astype(np.int64) @ self._members
        load, _ = self._loads(copies > 0)
        f = load / t.full[:, None]  # changed in place below: it can be large
        np.minimum(f, 1.0, out=f)
        raise_parts(f, t.power)
        f *= t.judged
        level = f.sum(axis=0) / self._divisor if self._divisor else f
        past = (load > self.caps).any() or (chosen & ~self.able).any()
        return float(t.worth[chosen].sum()), float(level.max(initial=0.0)), bool(past)


def _seen_by(t: Tables, observers: Bools, kept: Ints) -> Tables:
    """Return the tables for these observers alone, given as rows of (h, k)."""
    adversary, observer = np.nonzero(observers.T)
    start = np.searchsorted(adversary, np.arange(observers.shape[1] + 1))
    return replace(
        t,
        judged=t.judged[:, kept],
        seen_start=start.astype(np.int64),
        seen=observer.astype(np.int64),
    )


def widest(observers: Bools) -> Ints:
    """Return the observers that are part of no other, as rows of (h, k)."""
    inside = (observers.astype(np.int64) @ (~observers).T.astype(np.int64)) == 0
    np.fill_diagonal(inside, val=False)
    return np.flatnonzero(~inside.any(axis=1))
