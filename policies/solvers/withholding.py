"""Where there is no plan: the cheapest set of entries to withhold, proven.

An entry that is withheld goes to nobody; the others keep their copies and limits. Which
to withhold is a weighted hitting set over all reasons at once, searched by CP-SAT: one
more 0-1 variable an entry that has a price. Components that nothing couples are searched
one by one, and only those without a plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from policies.judge import judge
from policies.problem import Goal, Plan, Problem
from policies.sets import Ints
from policies.solvers.components import split
from policies.solvers.models.cpsat import CpSat, run_model
from policies.solvers.models.cpsat_model import build
from policies.solvers.role import Limits


@dataclass(frozen=True)
class Withholding:
    """Entries whose withholding leaves a plan for the rest.

    Attributes
    ----------
    entries : tuple of int
    price : int
        What they cost together.
    bound : int
        Proven: no set that costs less would do.
    plan : Plan
        Of the rest; it keeps every limit.
    """

    entries: tuple[int, ...]
    price: int
    bound: int
    plan: Plan

    @property
    def proven(self) -> bool:
        """Whether no cheaper set would do."""
        return self.price == self.bound


def cheapest(
    problem: Problem, rng: np.random.Generator, limits: Limits
) -> Withholding | None:
    """Find the cheapest entries to withhold.

    Parameters
    ----------
    problem : Problem
        With ``prices``: an entry with price 0 may not be withheld.
    rng, limits

    Returns
    -------
    Withholding or None
        None where not even withholding all that may be leaves a plan, or none was found
        within the limits, or the problem is of a kind that CP-SAT does not take, which
        the judge sees.
    """
    problem = replace(problem, goal=Goal(aggregate=problem.aggregate))  # limits alone
    if problem.prices is None or not CpSat().supports(problem):
        return None
    entries: list[int] = []
    price = bound = 0
    pieces: list[tuple[Ints, Ints]] = []
    parts = list(_parts(problem))
    for inside, part in parts:
        found = _search(part, rng, limits.part(1 / len(parts)))
        if found is None:
            return None
        entries += inside[list(found.entries)].tolist()
        price, bound = price + found.price, bound + found.bound
        pieces.append((inside[found.plan.entry], found.plan.adversary))
    nothing = np.empty(0, np.int64)
    plan = Plan(
        np.concatenate([nothing, *(entry for entry, _ in pieces)]),
        np.concatenate([nothing, *(adversary for _, adversary in pieces)]),
    )
    found = Withholding(tuple(sorted(entries)), price, bound, plan)
    kept = judge(without(problem, found.entries), plan).feasible
    return found if kept else None


def without(problem: Problem, entries: tuple[int, ...]) -> Problem:
    """Return the problem with these entries withheld."""
    lo, hi = problem.lo.copy(), problem.hi.copy()
    lo[list(entries)] = hi[list(entries)] = 0
    return replace(problem, lo=lo, hi=hi)


def _parts(problem: Problem) -> Iterator[tuple[Ints, Problem]]:
    """Go through parts that nothing couples, each with its entries."""
    every = np.arange(problem.n_entries)
    if problem.capacity is not None or problem.averages or not problem.n_entries:
        yield every, problem
        return
    parts = split(problem.sets)
    for component in np.unique(parts.label).tolist():
        chosen = np.array([component])
        inside = parts.entries_of(chosen)
        yield inside, problem.select(inside, parts.sets_of(chosen))


def _search(
    problem: Problem, rng: np.random.Generator, limits: Limits
) -> Withholding | None:
    """Search one part."""
    assert problem.prices is not None
    began, over = limits.clock(), limits.deadline()
    built = build(problem, prices=problem.prices, sums=True, over=over)
    if built is None or over():
        return None
    prices = problem.prices.tolist()
    cost = sum(prices[d] * mark for d, mark in built.withheld.items())
    if built.withheld:
        built.model.minimize(cost)
    plan, _, least, chosen = run_model(built, rng, limits.left(began))
    if plan is None:
        return None
    price = sum(prices[d] for d in chosen)
    bound = max(0, int(np.ceil(least - 1e-6))) if np.isfinite(least) else 0
    return Withholding(chosen, price, min(bound, price), plan)
