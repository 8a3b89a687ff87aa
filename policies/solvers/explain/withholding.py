"""The cheapest entries to withhold where there is no plan, proven.

An entry that is withheld goes to nobody; the others keep their copies and limits. Which
ones to withhold is a weighted hitting set over all reasons at once, solved by CP-SAT
with one more 0-1 variable for each entry that has a price. Independent components are
searched one by one, and only those without a plan. CP-SAT cannot limit what links
disclose, nor all aggregates. There, if entries are few, they are removed in order of
price until not all plans of the rest are refuted; if many, until nobody holds both ends
of a link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Final

import numpy as np

from policies.judging.judge import judge
from policies.model.links import conflict_sets
from policies.model.objective import Objective
from policies.model.problem import Goal, Plan, Problem
from policies.model.problem_arrays import able
from policies.model.sets import Ints
from policies.solvers.components import split
from policies.solvers.exact.cpsat import CpSat, build, run_model
from policies.solvers.exact.enumeration import enumerate_plans, listable, looks
from policies.solvers.exact.linear_model import Late
from policies.solvers.interfaces import Limits, Verdict

LOOKS: Final = 2e7
"""Numbers visited by enumerations per unit of work."""

# Six boards of queens, 7 x 7 in 4 colours, 2 s of CPU: withheld for 506, at least 504; half of
# _SHARE 508, twice 506. Six of 5 x 5 in 3 are proven in .16 s with each.
_SHARE: Final = 0.3  # least share of the remaining time for a part


@dataclass(frozen=True)
class Withholding:
    """Entries to withhold, so that the rest has a plan.

    Attributes
    ----------
    entries : tuple of int
    price : int
        Their total price.
    bound : int
        Proven: no cheaper set suffices.
    plan : Plan
        A plan of the rest; it keeps every limit.
    """

    entries: tuple[int, ...]
    price: int
    bound: int
    plan: Plan

    @property
    def proven(self) -> bool:
        """Whether no cheaper set suffices."""
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
        None if there is no plan even without all entries that may be withheld, if none
        was found within the limits, or if the problem is large and of a kind that
        CP-SAT does not support.
    """
    if problem.prices is None:
        return None
    limit = replace(problem.goal, objective=Objective.DISC_BUDGET)
    problem = replace(problem, goal=limit, utilities=None)
    began = limits.clock()
    links = problem.links is not None and problem.links.limited
    found = None if links else _by_parts(problem, rng, limits)
    if found is None or not _kept(problem, found):
        found = _listed(problem, rng, limits.left(began))
    return found if found is not None and _kept(problem, found) else None


def _kept(problem: Problem, found: Withholding) -> bool:
    """Whether the judge confirms the result."""
    return judge(without(problem, found.entries), found.plan).feasible


def _by_parts(
    problem: Problem, rng: np.random.Generator, limits: Limits
) -> Withholding | None:
    """Search each component by CP-SAT."""
    if not CpSat().supports(problem):
        return None
    entries: list[int] = []
    price = bound = 0
    pieces: list[tuple[Ints, Ints]] = []
    parts = list(_parts(problem))
    began, over, each = limits.clock(), limits.deadline(), limits.part(1 / len(parts))
    for number, (inside, part) in enumerate(parts):
        share = max(1 / (len(parts) - number), _SHARE)
        found = None if over() else _search(part, rng, each.left(began, share))
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
    return Withholding(tuple(sorted(entries)), price, bound, plan)


def without(problem: Problem, entries: tuple[int, ...]) -> Problem:
    """Return the problem with these entries withheld."""
    lo, hi = problem.lo.copy(), problem.hi.copy()
    lo[list(entries)] = hi[list(entries)] = 0
    return replace(problem, lo=lo, hi=hi)


def _parts(problem: Problem) -> Iterator[tuple[Ints, Problem]]:
    """Yield independent parts, each with its entries."""
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
    began = limits.clock()
    try:
        built = build(problem, prices=problem.prices, sums=True, over=limits.deadline())
    except Late:
        return None
    if built is None:
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


def _listed(
    problem: Problem, rng: np.random.Generator, limits: Limits
) -> Withholding | None:
    """Enumerate by price if plans can be listed; otherwise keep ends of links apart."""
    began, bound = limits.clock(), 0
    half = replace(limits.part(0.5), seconds=limits.seconds / 2)
    if listable(problem):
        over, work = half.deadline(), half.work * LOOKS
        for bound, chosen in _by_price(problem):
            rest = without(problem, chosen)
            work -= looks(rest)
            if over() or work < 0:
                break
            found = enumerate_plans(rest, half.left(began))
            if found.verdict is Verdict.SOLVED:
                return Withholding(chosen, bound, bound, found.plan)
            if found.verdict is Verdict.UNKNOWN:
                break
        else:
            return None
    return _apart(problem, bound, rng, limits.left(began).part(0.5))


def _by_price(problem: Problem) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield all sets of entries that may be withheld, the cheapest first."""
    assert problem.prices is not None
    may = np.flatnonzero(problem.prices)
    may = may[np.argsort(problem.prices[may], kind="stable")]
    price = problem.prices[may].tolist()
    yield 0, ()
    waiting: list[tuple[int, tuple[int, ...]]] = [(price[0], (0,))] if price else []
    while waiting:
        total, chosen = heappop(waiting)
        yield total, tuple(sorted(may[list(chosen)].tolist()))
        last, following = chosen[-1], chosen[-1] + 1
        if following < len(price):  # add the next, or replace the last by it
            heappush(waiting, (total + price[following], (*chosen, following)))
            instead = total - price[last] + price[following]
            heappush(waiting, (instead, (*chosen[:-1], following)))


def _apart(
    problem: Problem, bound: int, rng: np.random.Generator, limits: Limits
) -> Withholding | None:
    """Withhold until nobody holds both ends of a link, then restore what is possible."""
    links, prices = problem.links, problem.prices
    assert prices is not None
    if links is None or not links.limited or problem.sets.n_sets:
        return None
    over = limits.deadline()
    apart = conflict_sets(links)
    strict = replace(problem, sets=apart, links=None, averages=(), goal=Goal())
    found = _by_parts(strict, rng, limits)
    if found is None:
        return None
    left, plan = set(found.entries), found.plan
    for d in sorted(left, key=lambda d: -int(prices[d])):
        wider = _put_back(problem, plan, left, d, over)
        if wider is not None:
            plan, left = wider, left - {d}
    price = int(prices[list(left)].sum())
    return Withholding(tuple(sorted(left)), price, min(bound, price), plan)


def _put_back(
    problem: Problem, plan: Plan, left: set[int], d: int, over: Callable[[], bool]
) -> Plan | None:
    """Give the entry its required copies, if the rest of the plan can stay."""
    if over():
        return None
    whole = without(problem, tuple(left - {d}))
    trial = replace(whole, lo=np.where(np.arange(problem.n_entries) == d, 0, whole.lo))
    copies = 0
    for a in np.flatnonzero(able(problem)[d]).tolist():
        if over():
            return None
        wider = Plan(np.append(plan.entry, d), np.append(plan.adversary, a))
        if judge(trial, wider).feasible:
            plan, copies = wider, copies + 1
            if copies >= problem.lo[d]:  # all else was judged
                return plan
    return None
