"""A bound on worst-set tradeoffs that uses the steps in which loads grow.

The worst set by powers of loads (paper, sections 4.2 and 4.3): f of a plan is one of
finitely many levels v, as loads are integer multiples of steps. A plan of level v keeps
every load below ``cap(v)``: v (its p-th root), rounded down to a multiple of its set's
step. So for any prices y >= 0 of these rows, whatever their source,

    u - lambda v <= ceiling(worth - parts' y) + sum of y (cap(v) - base) - lambda v

bounds all plans of that level (Lagrange), and the highest of these bounds all plans. The
prices found by one relaxation bound all levels at once, so a dozen relaxations suffice
(Kelley's cutting planes, 1960).

If the relaxation at a level v has no solution, there are no plans of that level or any
lower one: caps only fall with the level. These levels are excluded. Caps are slightly
too high (:data:`_LOOSE`), never too low, so that no plan is excluded by rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from policies.judging.judge import judge
from policies.model.disclosure import reached_at
from policies.model.problem import Plan, Problem
from policies.model.sets import Ints
from policies.solvers.exact.epsilon_constraint import levels
from policies.solvers.interfaces import Limits, free_bound
from policies.solvers.load_tables import LoadTables

Floats = npt.NDArray[np.float64]

_LOOSE = 1e-9  # a cap may be slightly too high, never too low
# CPU seconds that no limit interrupts. Linear worst, 500 to 2,000 entries, 50 to 400 sets, 3 to
# 10 adversaries: .26 to .4 us for each number of the matrix of a relaxation (.4 s for 1.2 million).
_CAPPED = 5e-8  # for each set and level, to compute all caps
_BUILT = (
    4e-7  # for each member of a set and adversary, to build a relaxation and read it
)


class Ladder:
    """Levels of f, and the bound proven for each.

    Parameters
    ----------
    problem : Problem
        Must be :func:`policies.solvers.load_tables.is_load_tradeoff`, with f of the
        worst set.
    it : Loads

    Attributes
    ----------
    count : int
        Relaxations solved so far.
    """

    def __init__(self, problem: Problem, it: LoadTables) -> None:
        self.it, self.count = it, 0
        sets = problem.sets
        self._full = sets.full.astype(np.float64)
        self._step = sets.step.astype(np.float64)
        least = judge(problem, Plan()).f
        values, complete = levels(sets)
        every = [v for v in values if v >= least] or [least]
        self.high: Floats = np.array([*map(float, every), 1.0])
        below = np.concatenate([[float(least)], self.high[:-1]])
        self.low = self.high if complete else below
        free = float(free_bound(problem)) - it.shift
        self.proven: Floats = free - it.lambda_ * self.low

    @property
    def bound(self) -> float:
        """Proven upper bound on the objective of every plan."""
        return self.it.shift + float(self.proven.max()) + _LOOSE * 1e-3

    def caps(self, level: npt.NDArray[Any]) -> Floats:
        """Return the highest load of each set at each level, shape (sets, levels)."""
        part = reached_at(level, self.it.power)
        steps = np.floor(
            part * (self._full / self._step)[:, None] * (1 + _LOOSE) + _LOOSE
        )
        return np.asarray(steps * (self._step / self._full)[:, None])

    def climb(
        self,
        value: float,
        level: float,
        most: int,
        over: Callable[[], bool],
        limits: Limits,
    ) -> None:
        """Relax at a plan's level, then repeatedly at that of the highest bound.

        A relaxation whose building does not fit into the time is not begun.

        Parameters
        ----------
        value : float
            Objective of a known plan; no proof is needed below it.
        level : float
            Its f.
        most : int
            Relaxations to solve, at most.
        over, limits
        """
        end = limits.clock() + limits.seconds
        building = _BUILT * self.it.parts.nnz * self.it.shape[1]
        if limits.seconds < building + _CAPPED * len(self._full) * len(self.high):
            return
        caps = self.caps(self.high)
        for turn in range(most):
            at = int(np.argmax(self.proven))
            before = self.proven[at]
            if self.it.shift + before <= value + _LOOSE or over():
                return
            left = end - limits.clock() - building
            if left < 0:
                return
            if turn == 0:
                prices, possible = self._tangent(level, left)
            else:
                prices, possible = self._relax(caps[:, at], left)
            self.count += 1
            if (
                not possible
            ):  # caps fall with the level, so lower ones are impossible too
                self.proven[: at + 1] = -np.inf
                continue
            if prices is None:
                return
            ceiling = self.it.ceiling(self.it.priced(prices))
            free = prices.sum(axis=1) @ caps - float((prices * self.it.base).sum())
            found = ceiling + free + 1e-12 * (1 + np.abs(free))
            self.proven = np.minimum(self.proven, found - self.it.lambda_ * self.low)
            if turn and self.proven[at] > before - 1e-9:
                return

    def _tangent(self, level: float, seconds: float) -> tuple[Floats | None, bool]:
        """Maximise u - lambda f with loads below the tangents of roots at a level of f."""
        from scipy.sparse import coo_array, hstack

        it = self.it
        power = it.power
        root = np.maximum(reached_at(np.array([level]), power)[:, 0], 1e-3)
        slope = 1 / (power * root ** (power - 1))  # load <= slope * f + rest
        rest = root * (1 - 1 / power)
        matrix, right, pairs = _rows(it, rest)
        size = it.base.size
        column = coo_array(
            (-np.repeat(slope, it.shape[1]), (np.arange(size), np.zeros(size, int))),
            shape=(matrix.shape[0], 1),
        )
        cost = np.append(-it.worth[pairs], it.lambda_)
        return self._prices(cost, hstack([matrix, column]).tocsr(), right, seconds)

    def _relax(self, cap: Floats, seconds: float) -> tuple[Floats | None, bool]:
        """Maximise u below these loads; return prices (m, k), and whether it is feasible."""
        matrix, right, pairs = _rows(self.it, cap)
        return self._prices(-self.it.worth[pairs], matrix, right, seconds)

    def _prices(
        self,
        cost: Floats,
        matrix: Any,  # noqa: ANN401
        right: Floats,
        seconds: float,
    ) -> tuple[Floats | None, bool]:
        from scipy.optimize import linprog

        options = {} if seconds == np.inf else {"time_limit": max(seconds, 0.01)}
        found = linprog(
            cost,
            A_ub=matrix,
            b_ub=right,
            bounds=(0, 1),
            method="highs",
            options=options,
        )
        if found.status == 2:
            return None, False
        if found.status != 0:
            return None, True
        duals = -np.asarray(found.ineqlin.marginals[: self.it.base.size])
        return np.maximum(duals, 0.0).reshape(self.it.base.shape), True


def _rows(it: LoadTables, cap: Floats) -> tuple[Any, Floats, tuple[Ints, Ints]]:
    """Return rows of loads (m * k), copies (2 n), capacities (k), over possible pairs."""
    from scipy.sparse import coo_array, eye_array, kron, vstack

    n, k = it.shape
    entry, adversary = np.nonzero(it.may)
    wide = kron(it.parts, eye_array(k), format="csc")[:, entry * k + adversary]
    fresh = (~it.held[entry, adversary]).astype(np.float64)
    ones, column = np.ones(len(entry)), np.arange(len(entry))
    copies = coo_array((ones, (entry, column)), shape=(n, len(entry)))
    blocks = [wide.multiply(fresh[None, :]), copies, -copies]
    right = [(cap[:, None] - it.base).reshape(-1), it.hi, -it.lo]
    if it.capped:
        blocks.append(coo_array((ones, (adversary, column)), shape=(k, len(entry))))
        right.append(it.room)
    return (
        vstack(blocks).tocsr(),
        np.concatenate(right).astype(float),
        (entry, adversary),
    )
