"""LP-ROUNDING: the linear relaxation, rounded at random a hundred times (section 4.1).

As in the paper (L690), every pair is taken with the probability that the relaxation
gives it; an entry with too few copies gets its likeliest, one with too many loses its
least likely. That can leak: in safe mode every sample is judged and only plans that
keep all limits count; mode paper keeps the one of highest objective, whatever it leaks.

For the worst linear set, safe mode adds the rounding of
:mod:`policies.solvers.rounding.beck_fiala`: the paper's guarantees nothing there
(E[max] is not max E), this one a bounded rise of f.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from policies.judging.judge import judge
from policies.model.problem import Plan, Problem
from policies.model.problem_arrays import able, plan_of
from policies.model.sets import Bools, Ints
from policies.solvers.exact.cpsat import refuted
from policies.solvers.exact.highs import EMPTY, Milp, bound_of, build, run
from policies.solvers.interfaces import Limits, Solution, Verdict, answer, free_bound
from policies.solvers.load_tables import is_load_tradeoff, load_tables
from policies.solvers.rounding.beck_fiala import additive

Floats = npt.NDArray[np.float64]

REPEATS: Final = 100  # roundings, as the paper has it (section 4.1)


class LpRounding:
    """A heuristic with the relaxation's bound."""

    def supports(self, problem: Problem) -> bool:
        """Problems with a linear model."""
        return Milp().supports(problem)

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Relax, round, judge."""
        over = limits.deadline()
        model = build(problem)
        if model.impossible:
            return refuted(problem, "an entry, history or a limit leaves no plan")
        found = run(model, limits, relax=True)
        if found.status == EMPTY:
            return refuted(problem, "not even fractions of copies fit")
        ceiling = bound_of(model, found, free_bound(problem))
        if found.values is None:
            return Solution(
                Verdict.UNKNOWN, bound=ceiling, tried=("the LP ran out of time",)
            )
        chance = np.zeros((problem.n_entries, problem.n_adversaries))
        chance[model.entry, model.adversary] = found.values[: len(model.entry)]
        best: tuple[Fraction, Plan] | None = None
        made = feasible = 0
        for plan in _roundings(problem, chance, rng, limits):
            seen = judge(problem, plan)
            made += 1
            feasible += seen.feasible
            counts = seen.feasible or limits.paper
            if counts and (best is None or seen.objective > best[0]):
                best = seen.objective, plan
            if over():
                break
        tried = (f"{feasible} of {made} roundings kept every limit",)
        if best is None:
            return Solution(Verdict.UNKNOWN, bound=ceiling, tried=tried, stopped="work")
        return answer(problem, best[1], bound=ceiling, tried=tried, stopped="work")


def _roundings(
    problem: Problem, chance: Floats, rng: np.random.Generator, limits: Limits
) -> Iterator[Plan]:
    """Yield roundings of the relaxation."""
    free = not limits.paper and problem.capacity is None
    if free and is_load_tradeoff(problem, average=False, power=1):
        sure = additive(load_tables(problem), chance, limits.deadline())
        if sure is not None:
            yield plan_of(sure)
    may = able(problem)
    for _ in range(REPEATS):
        yield plan_of(rounded_once(chance, may, problem.lo, problem.hi, rng))


def rounded_once(
    chance: Floats, may: Bools, lo: Ints, hi: Ints, rng: np.random.Generator
) -> Bools:
    """Round once and correct the numbers of copies.

    Parameters
    ----------
    chance : float64 array, shape (n, k)
        The relaxation's x, 0 to 1.
    may : bool array, shape (n, k)
        Possible pairs.
    lo, hi : int64 array, shape (n,)
    """
    drawn = (rng.random(chance.shape) < chance) & may
    score = np.where(may, chance + 2.0 * drawn, -1.0)
    order = np.argsort(-score, axis=1, kind="stable")
    copies = np.clip(drawn.sum(axis=1), lo, np.minimum(hi, may.sum(axis=1)))
    kept = np.arange(chance.shape[1]) < copies[:, None]
    out = np.zeros(chance.shape, np.bool_)
    np.put_along_axis(out, order, kept, axis=1)
    return out & may
