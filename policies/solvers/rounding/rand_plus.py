"""RAND+: the paper's random baseline, best of a hundred draws (section 6).

Each entry goes to exactly t adversaries, drawn in proportion to w_da. The paper leaves
open what "in proportion" means for several: here it is successive sampling (draw one,
remove it, draw again from the rest), by keys E / w with E exponential. An entry whose
weights are all 0 draws uniformly.

Mode safe draws in the same way, but skips adversaries that a limit bars, with entries
in random order, and compares draws as :mod:`policies.solvers.search.greedy` does.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from policies.model.problem import Plan, Problem
from policies.model.sets import Ints
from policies.solvers.interfaces import Limits, Solution, answer
from policies.solvers.search.delta_evaluation import Floats, Gains
from policies.solvers.search.local_search import Meter, fits, with_end

DRAWS: Final = 100
"""As in section 6 of the paper."""

_LEAST = 1e-300  # replaces 0 in keys: after all others, in uniform order


def drawn_orders(odds: Floats, rng: np.random.Generator) -> Ints:
    """Order each row's columns by successive sampling.

    Parameters
    ----------
    odds : float64 array, shape (n, k)
        >= 0; columns with 0 come last, in random order.
    rng : Generator

    Returns
    -------
    int64 array, shape (n, k)
    """
    keys = rng.exponential(size=odds.shape) / np.maximum(odds, _LEAST)
    return np.argsort(keys, axis=1, kind="stable")


class RandPlus:
    """A baseline: the best of 100 random plans."""

    def supports(self, problem: Problem) -> bool:
        """All problems that fit."""
        return fits(problem)

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Draw, compare, keep the best."""
        gains, meter = Gains(problem, paper=limits.paper), Meter(limits)
        odds = gains.state.worth
        best: tuple[tuple[float, ...], Plan] | None = None
        for _ in range(DRAWS):
            gains.reset()
            order = rng.permutation(problem.n_entries)
            ranked = drawn_orders(odds, rng)
            if not limits.paper:  # required copies first, so that extras take no room
                gains.deal(order, ranked, problem.lo)
            gains.deal(order, ranked, problem.hi)
            if best is None or gains.key < best[0]:
                best = gains.key, gains.plan()
            if not meter.spend(gains.rows * gains.n * gains.k):
                break
        assert best is not None
        return with_end(answer(problem, best[1], tried=("random plans",)), meter)
