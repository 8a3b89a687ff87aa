"""DEPENDENT-ROUNDING: round a fractional plan so that the numbers of copies are right.

Each entry's row is rounded by pairs (Gandhi et al. 2006, as the paper cites them): its
marginals stay, its number of copies is kept with certainty, and entries are
independent. The paper claims that certainty for all constraints, but it applies to
copies alone: two entries with x = 1/2 each meet at somebody half of the time. An
adversary gets all of D_p with probability at most (mean of x over D_p)^|D_p|: with x
mixed with a uniform row by theta, limits on large sets are kept almost surely
(guarantees R1), at a loss of theta in utility. Every sample is judged.

Mode paper rounds the relaxation unmixed and keeps the sample of highest objective.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from policies.judging.judge import judge
from policies.model.problem import Plan, Problem
from policies.model.problem_arrays import Floats, able, plan_of, tables
from policies.model.sets import Bools
from policies.solvers.exact.cpsat import refuted
from policies.solvers.exact.highs import EMPTY, Milp, bound_of, build, run
from policies.solvers.interfaces import Limits, Solution, Verdict, answer, free_bound
from policies.solvers.search.delta_evaluation import Gains
from policies.solvers.search.local_search import Meter, climb, fits, with_end

REPEATS: Final = 100  # roundings that are tried

THETAS: Final = (0.0, 0.02, 0.1, 0.3)
"""Shares of the uniform row to try, in turn.

Half and twice of each end in the same plans at work 1: step_caps_tight_D60_k6_t2,
step_sparse_D60_P100_k2_t1_34 and step_syn_D100_P10_k2_t2.
"""


@dataclass(frozen=True, eq=False)
class FractionalPlan:
    """A fractional plan.

    Attributes
    ----------
    chance : float64 array, shape (n, k)
        x, 0 to 1; rows add up to lo .. hi.
    bound : Fraction
        Upper bound on the value of any plan.
    refuted : str
        Why there is no plan; empty if that is not known.
    """

    chance: Floats
    bound: Fraction
    refuted: str = ""


def fractional_plan(problem: Problem, limits: Limits) -> FractionalPlan:
    """Return the optimum of the linear relaxation, or the best plan without limits."""
    ceiling = free_bound(problem)
    chance = np.zeros((problem.n_entries, problem.n_adversaries))
    if Milp().supports(problem):
        model = build(problem)
        if model.impossible:
            return FractionalPlan(
                chance, ceiling, "an entry, history or a limit leaves no plan"
            )
        found = run(model, limits, relax=True)
        if found.status == EMPTY:
            return FractionalPlan(chance, ceiling, "not even fractions of copies fit")
        ceiling = bound_of(model, found, ceiling)
        if found.values is not None:
            x = np.clip(found.values[: len(model.entry)], 0.0, 1.0)
            chance[model.entry, model.adversary] = x
            return FractionalPlan(chance, ceiling)
    may = able(problem)
    score = np.where(may, tables(problem).worth, -1.0)
    order = np.argsort(-score, axis=1, kind="stable")
    copies = np.minimum(problem.hi, may.sum(axis=1))
    first = np.arange(problem.n_adversaries) < copies[:, None]
    np.put_along_axis(chance, order, first.astype(np.float64), axis=1)
    return FractionalPlan(chance, ceiling)


def mixed(chance: Floats, may: Bools, theta: float) -> Floats:
    """Mix each row with an even one of the same sum over the possible pairs."""
    wide = np.maximum(may.sum(axis=1), 1)
    even = np.minimum(chance.sum(axis=1) / wide, 1.0)[:, None] * may
    return np.asarray((1.0 - theta) * chance + theta * even)


def rounded_rows(chance: Floats, rng: np.random.Generator) -> Bools:
    """Round every row by pairs of fractions; its sum goes to the floor or ceiling.

    Parameters
    ----------
    chance : float64 array, shape (n, k)
    rng : Generator
    """
    x = chance.copy()
    n, k = x.shape
    rows, carry = np.arange(n), np.zeros(n, np.int64)
    for j in range(1, k):
        a, b = x[rows, carry], x[:, j]
        up, down = np.minimum(1.0 - a, b), np.minimum(a, 1.0 - b)
        total = up + down
        rise = rng.random(n) * total < down
        step = np.where(rise, up, -down)
        a, b = a + step, b - step
        x[rows, carry], x[:, j] = a, b
        whole = (a < 1e-9) | (a > 1.0 - 1e-9)
        carry = np.where(whole, j, carry)
    if k:
        last = x[rows, carry]
        near = np.rint(last)
        whole = np.abs(last - near) < 1e-9
        x[rows, carry] = np.where(whole, near, rng.random(n) < last)
    return x > 0.5


class DependentRounding:
    """A heuristic with the relaxation's bound."""

    def supports(self, problem: Problem) -> bool:
        """All problems that fit."""
        return fits(problem)

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Relax, mix, round, judge; then climb."""
        meter = Meter(limits)
        start = fractional_plan(problem, limits)
        if start.refuted:
            return refuted(problem, start.refuted)
        best, kept = _best(problem, start, rng, meter)
        tried = (f"{kept} of {REPEATS} roundings kept every limit",)
        if best is None:
            end = meter.ended or "work"
            return Solution(
                Verdict.UNKNOWN, bound=start.bound, tried=tried, stopped=end
            )
        made = answer(problem, best, bound=start.bound, tried=tried)
        if limits.paper:
            return with_end(made, meter)
        gains = Gains(problem)
        gains.load(best)
        climb(gains, rng, meter)
        better = answer(problem, gains.plan(), bound=start.bound, tried=tried)
        if better.verdict is Verdict.SOLVED and better.value > made.value:
            made = better
        return with_end(made, meter)


def _best(
    problem: Problem, start: FractionalPlan, rng: np.random.Generator, meter: Meter
) -> tuple[Plan | None, int]:
    """Return the best valid sample, and how many kept every limit."""
    paper, may = meter.limits.paper, able(problem)
    best: tuple[Fraction, Plan] | None = None
    kept = 0
    for i in range(REPEATS):
        theta = 0.0 if paper else THETAS[i % len(THETAS)]
        plan = plan_of(rounded_rows(mixed(start.chance, may, theta), rng))
        seen = judge(problem, plan)
        kept += seen.feasible
        counts = seen.feasible or paper
        if counts and (best is None or seen.objective > best[0]):
            best = seen.objective, plan
        if not meter.spend(len(problem.sets.entry) * problem.n_adversaries):
            break
    return (None if best is None else best[1]), kept
