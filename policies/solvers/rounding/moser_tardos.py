"""MOSER-TARDOS: draw at random, and draw anew only what crossed a limit.

Each entry gets its lo copies from a product distribution: the relaxation mixed with an
even row. While a set is past its limit for somebody, its entries are drawn again. Under
the certificates C1 (guarantees, table B) that ends after few redraws in expectation;
where it does not end, the share of the even row is raised, and at last UNKNOWN is said.
Local search below the limits then adds copies and utility.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from policies.model.objective import Objective
from policies.model.problem import Plan, Problem
from policies.model.problem_arrays import able
from policies.solvers.exact.cpsat import refuted
from policies.solvers.interfaces import Limits, Solution, Verdict, answer
from policies.solvers.kernels import changes as kernels
from policies.solvers.kernels import folds as kernels_folds
from policies.solvers.kernels import resampling as kernels_resample
from policies.solvers.kernels import search as kernels_search
from policies.solvers.kernels.compiling import compiled
from policies.solvers.kernels.resampling import DONE, DRAWN, HEAD, STATES, TAIL
from policies.solvers.kernels.tape import Floats, Q
from policies.solvers.rounding.dependent_rounding import mixed, relaxed
from policies.solvers.rounding.rand_plus import drawn
from policies.solvers.search.delta_evaluation import Gains
from policies.solvers.search.local_search import Meter, climb, fits, with_end

THETAS: Final = (0.02, 0.1, 0.3, 1.0)
"""Shares of the even row, tried in this order."""

_RUNS = 4  # successes of which the best is kept
_BATCH = 20  # draws for each wanted copy between two looks at the clock
_COST = 16  # member rows looked at for each row of a redrawn entry
_BATCHES = 20  # batches for each share, at most

PLAIN: Final[Mapping[str, Any]] = MappingProxyType(vars(kernels_resample))


@cache
def fast() -> Mapping[str, Any]:
    """Compile the kernel, once."""
    parts = (kernels, kernels_folds, kernels_search)
    spaces = (*map(vars, parts), vars(kernels_resample))
    names = (*kernels.NAMES, *kernels_folds.NAMES, *kernels_resample.NAMES)
    return compiled(spaces, names, ("resample",))


class MoserTardos:
    """For limits on sets; never proves anything but the relaxation's bound."""

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
        start = relaxed(problem, limits)
        if start.refuted:
            return refuted(problem, start.refuted)
        may, best, redraws = able(problem), None, 0
        gains = Gains(problem, paper=True)  # without walls: limits are crossed, mended
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
        told = (f"{redraws} sets drawn anew",)
        if best is None:
            end = meter.ended or "work"
            return Solution(Verdict.UNKNOWN, bound=start.bound, tried=told, stopped=end)
        walled = Gains(problem)
        walled.load(best[1])
        climb(walled, rng, meter)
        made = answer(problem, walled.plan(), bound=start.bound, tried=told)
        return with_end(made, meter)


def _run(
    gains: Gains, odds: Floats, rng: np.random.Generator, meter: Meter
) -> tuple[Plan | None, int]:
    """Draw until no limit is crossed; the plan, or None, and how many sets were redrawn."""
    problem = gains.problem
    gains.reset()
    tape = gains.tape
    gains.run("deal", np.arange(gains.n), drawn(odds, rng), problem.lo)
    m = int(tape.z[Q])
    state = np.zeros(STATES, np.int64)
    state[TAIL] = m
    queue, queued = np.arange(m), np.ones(m, np.int64)
    resample = (fast() if gains.quick else PLAIN)["resample"]

    most = _BATCH * max(10, int(problem.lo.sum()))
    for _ in range(_BATCHES):
        draws = rng.random(most)
        state[DRAWN] = 0
        left = resample(tape.z, tape.r, odds, draws, queue, queued, state)
        more = meter.spend(_COST * gains.rows * float(state[DRAWN]))
        if not left:
            return gains.plan(), int(state[DONE])
        if not more or state[HEAD] == state[TAIL]:
            break
    return None, int(state[DONE])
