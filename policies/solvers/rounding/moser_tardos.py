"""MOSER-TARDOS: draw at random, and redraw only what crossed a limit.

Each entry gets its lo copies from a product distribution: the relaxation mixed with an
even row. While a set is past its limit for somebody, its entries are redrawn. Under the
certificates C1 (guarantees, table B) that ends after few redraws in expectation; if it
does not end, the share of the even row is raised, and finally the verdict is UNKNOWN.
Local search below the limits then adds copies and utility.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from policies.model.objective import Objective
from policies.model.problem import Plan, Problem
from policies.model.problem_arrays import able
from policies.solvers.exact.cpsat import refuted
from policies.solvers.interfaces import Limits, Solution, Verdict, answer
from policies.solvers.kernels.resampling import DONE, DRAWN, HEAD, PROGRESS, TAIL
from policies.solvers.rounding.dependent_rounding import fractional_plan, mixed
from policies.solvers.rounding.rand_plus import drawn_orders
from policies.solvers.search.delta_evaluation import Floats, Gains
from policies.solvers.search.local_search import Meter, climb, fits, with_end

THETAS: Final = (0.02, 0.1, 0.3, 1.0)
"""Shares of the even row, tried in this order; .02 sealed 20 of 20 (guarantees, R1).

Work 1: half of each ends in the same plans on step_caps_tight_D60_k6_t2,
step_sparse_D60_P100_k2_t1_34 and step_syn_D100_P10_k2_t2; with twice the first has none.
"""

_RUNS = 4  # successful runs, of which the best is kept
_BATCH = 20  # draws per required copy between two checks of the clock
_COST = 16  # member rows visited per row of a redrawn entry
_BATCHES = 20  # batches per share, at most


class MoserTardos:
    """For limits on sets; proves nothing but the relaxation's bound."""

    def supports(self, problem: Problem) -> bool:
        """Disc-budget with limits on single sets, without capacities or means."""
        links = problem.links
        free = links is None or not links.limited
        budget = problem.goal.objective is Objective.DISC_BUDGET
        plain = problem.capacity is None and not problem.averages
        return budget and plain and free and fits(problem)

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Draw, redraw, climb."""
        meter = Meter(limits)
        start = fractional_plan(problem, limits)
        if start.refuted:
            return refuted(problem, start.refuted)
        may, best, redraws = able(problem), None, 0
        gains = Gains(problem, paper=True)  # limits are crossed, then repaired
        for theta in THETAS:
            odds = np.ascontiguousarray(mixed(start.chance, may, theta) * may)
            for _ in range(_RUNS):
                plan, count = _run(gains, odds, rng, meter)
                redraws += count
                if plan is None:
                    break
                utility = int(problem.weights.of(plan.entry, plan.adversary).sum())
                if best is None or utility > best[0]:
                    best = utility, plan
            if best is not None or meter.ended:
                break
        tried = (f"{redraws} sets drawn anew",)
        if best is None:
            end = meter.ended or "work"
            return Solution(
                Verdict.UNKNOWN, bound=start.bound, tried=tried, stopped=end
            )
        walled = Gains(problem)
        walled.load(best[1])
        climb(walled, rng, meter)
        made = answer(problem, walled.plan(), bound=start.bound, tried=tried)
        return with_end(made, meter)


def _run(
    gains: Gains, odds: Floats, rng: np.random.Generator, meter: Meter
) -> tuple[Plan | None, int]:
    """Draw until no limit is crossed; return the plan or None, and the sets redrawn."""
    problem = gains.problem
    gains.reset()
    gains.deal(np.arange(gains.n), drawn_orders(odds, rng), problem.lo)
    m = len(gains.state.load)
    progress = np.zeros(PROGRESS, np.int64)
    progress[TAIL] = m
    queue, queued = np.arange(m), np.ones(m, np.int64)
    most = _BATCH * max(10, int(problem.lo.sum()))
    for _ in range(_BATCHES):
        draws = rng.random(most)
        progress[DRAWN] = 0
        left = gains.run("resample", odds, draws, queue, queued, progress)
        more = meter.spend(_COST * gains.rows * float(progress[DRAWN]))
        if not left:
            return gains.plan(), int(progress[DONE])
        if not more or progress[HEAD] == progress[TAIL]:
            break
    return None, int(progress[DONE])
