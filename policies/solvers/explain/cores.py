"""Why there is no plan, and how many adversaries would suffice.

Counting comes first (:mod:`policies.solvers.bounds.counting`): it proves most cases at
once. Otherwise a minimal clash is found by a deletion filter (Chinneck and Dravnieks,
Locating minimal infeasible constraint sets in linear programs, 1991): a part is removed
for good if there is still no plan without it. The rest is irreducible: without any one
of its parts there is a plan, which proves it. If time ends first, ``Solution.tried``
says so.

Then the true minimum: the problem is solved with more and more new adversaries, from
the counting bound up, until a plan exists. One fewer was refuted then, so the number is
exact, unless a search on the way was undecided.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import comb
from typing import Final

import numpy as np

from policies.judging.judge import judge
from policies.model.disclosure import loads
from policies.model.links import LinkMeasure
from policies.model.objective import Objective
from policies.model.problem import Goal, Plan, Problem
from policies.model.sets import NO_CAP, Ints
from policies.model.weights import Weights
from policies.solvers.bounds.counting import capacity, clash, needs, singles
from policies.solvers.bounds.link_pairs import outgrown
from policies.solvers.exact import enumeration
from policies.solvers.exact.cpsat import CpSat, clashing, exactly, search_plan
from policies.solvers.exact.highs import Milp, solve
from policies.solvers.interfaces import (
    Cause,
    Clash,
    Core,
    Limits,
    Solution,
    Verdict,
)
from policies.solvers.parallel_portfolio import sure
from policies.solvers.search.ejection_chains import constructed

MORE: Final = 64
"""Numbers of adversaries tried one by one."""

_POOLED: Final = 24  # the same where any m pool: models grow with the coalitions

_WIDEST: Final = 10_000  # largest number of adversaries tried; above, bounds must do
_CLASHES: Final = 6  # clashes in the core of a component, at most

_POOLS: Final = 2_000  # coalitions of any m up to which more adversaries are tried

_FIRST: Final = 0.6
"""Share of time and work for HiGHS where CP-SAT may follow.

.3 and .9 end in the same cores: queen6_6 in 6 colours and queen5_5 in 4, the Schur colouring of
14 in 3, and sparse 100, 600, 3, 1 (.3 to 3 s of CPU).
"""

_FEW: Final = 24  # entries of a clash up to which they are removed one by one

UNPROVEN: Final = "the core could not be made smallest in time"


def feasibility_problem(problem: Problem) -> Problem:
    """Return the pure feasibility problem: required copies only, and no objective."""
    n, k = problem.n_entries, problem.n_adversaries
    links, how = problem.links, problem.goal.aggregate
    if links is not None and not links.limited:
        links = how = None  # it was on links
    return replace(
        problem,
        hi=problem.lo,
        weights=Weights.flat(n, k),
        goal=Goal(Objective.DISC_BUDGET, aggregate=how),
        links=links,
        utilities=None,
    )


def feasible(problem: Problem, rng: np.random.Generator, limits: Limits) -> Solution:
    """Find any plan: by ejection chains, else by exact search.

    Returns
    -------
    Solution
        SOLVED, INFEASIBLE (proven), or UNKNOWN.
    """
    if limits.stopped():
        return Solution(Verdict.UNKNOWN)
    if problem.links is not None and problem.links.limited:
        if enumeration.listable(problem):
            return enumeration.enumerate_plans(problem, limits)
        return Solution(Verdict.UNKNOWN)
    bare = feasibility_problem(problem)
    if bare.aggregate is not None and enumeration.listable(bare):
        return enumeration.enumerate_plans(bare, limits)
    quick = Solution(Verdict.UNKNOWN)
    if not (bare.averages or bare.coalitions):
        quick = constructed(bare, rng, limits)
        if quick.verdict is Verdict.SOLVED:
            return quick
    found = list[Solution]()
    steps = bare.sets.has_only_steps
    if CpSat().supports(bare) and (steps or not bare.averages):
        found = [search_plan(bare, rng, limits, utility=False, sums=True)]
    elif Milp().supports(bare):
        found = _exact(bare, rng, limits, 0)
    sure = (one for one in found if one.verdict in _KNOWN)
    one = next(sure, found[-1] if found else quick)
    return replace(one, tried=quick.tried + one.tried) if found else one


_KNOWN: Final = {Verdict.SOLVED: True, Verdict.INFEASIBLE: False}


def possible(problem: Problem, rng: np.random.Generator, limits: Limits) -> bool | None:
    """Whether any plan exists; None if undecided."""
    return _KNOWN.get(feasible(problem, rng, limits).verdict)


def _exact(
    problem: Problem, rng: np.random.Generator, limits: Limits, seed: int
) -> list[Solution]:
    """Ask HiGHS, then CP-SAT if HiGHS leaves a small problem undecided.

    HiGHS computes in floats, for which a mean at its limit is neither below it nor past
    it. CP-SAT computes in integers and decides.
    """
    if not CpSat().supports(problem):
        return [solve(problem, limits, seed=seed)]
    began = limits.clock()
    first = solve(problem, limits.part(_FIRST).left(began, _FIRST), seed=seed)
    if sure(first) or limits.stopped():
        return [first]
    start = first.plan if first.verdict is Verdict.SOLVED else None
    rest = limits.part(1 - _FIRST).left(began)
    return [first, exactly(problem, rng, rest, start)]


def counted(problem: Problem) -> list[Clash]:
    """Return clashes found without any search, hopeless ones first."""
    found = [*_limits(problem), *_history(problem), *_pooled(problem)]
    found += list(singles(problem))
    found += _sets(problem)
    short = capacity(problem)
    if short is not None:
        found.append(short)
    return found


def _sets(problem: Problem) -> Iterator[Clash]:
    """Yield sets that need more adversaries than there are, the most demanding first."""
    need = needs(problem)
    over = np.flatnonzero(need > problem.n_adversaries)
    seen: set[tuple[object, ...]] = set()
    for one in over[np.argsort(-need[over], kind="stable")].tolist():
        found = clash(problem, one, int(need[one]))
        key = (found.properties, found.cause, found.needed)
        if key not in seen:  # one example of each suffices
            seen.add(key)
            yield found


def _limits(problem: Problem) -> Iterator[Clash]:
    """Yield a limit that no value is below."""
    if any(not cap.kept(cap.limit * 0) for cap in problem.averages):
        yield Clash(Cause.LIMIT)


def _history(problem: Problem) -> Iterator[Clash]:
    """Yield limits that history alone exceeds."""
    if not problem.strict_history or not len(problem.history):
        return
    sets = problem.sets
    before, judged = problem.held(problem.history), problem.judged()
    for piece in loads(sets, Plan(), before):
        past = piece.load > sets.cap[piece.set]
        if judged is not None:
            past &= judged[sets.owner[piece.set], piece.adversary]
        for one, adversary in zip(
            piece.set[past].tolist(), piece.adversary[past].tolist(), strict=True
        ):
            seen = before.entry[before.adversary == adversary]
            members = np.intersect1d(sets.members(one), seen)
            yield Clash(
                Cause.HISTORY,
                sets=(one,),
                properties=(int(sets.owner[one]),),
                entries=tuple(members.tolist()),
            )
            return
    links = problem.links
    if links is not None and links.limited:
        yield from outgrown(problem)
        if (
            links.relation is LinkMeasure.COSINE
        ):  # additions may lower what is disclosed
            return
    empty = judge(replace(problem, lo=problem.lo * 0), Plan())
    if not empty.feasible:
        parts = (sets.owner[sets.member_set], sets.entry)
        if links is not None and links.limited:
            parts = (links.link, links.entry)
        seen = np.isin(parts[1], before.entry)
        properties, entries = (np.unique(part[seen]).tolist() for part in parts)
        yield Clash(Cause.HISTORY, properties=tuple(properties), entries=tuple(entries))


def _pooled(problem: Problem) -> Iterator[Clash]:
    """Yield sets of few entries that any m adversaries hold between them."""
    k, m = problem.n_adversaries, problem.coalitions.any_m
    if m < 2:
        return
    sets = problem.sets
    size = np.diff(sets.start)
    wanted = np.zeros(sets.n_sets, np.int64)
    np.add.at(wanted, sets.member_set, problem.lo[sets.entry] > 0)
    few = (size <= m) | (m >= np.count_nonzero(problem.room()))
    lost = (wanted == size) & few & (sets.total > sets.cap) & ~sets.classes
    if problem.trusted is not None:
        lost &= ~np.asarray(problem.trusted.any(axis=1))[sets.owner]
    for one in np.flatnonzero(lost)[:1].tolist():
        yield Clash(
            Cause.COALITION,
            sets=(one,),
            properties=(int(sets.owner[one]),),
            entries=tuple(sets.members(one).tolist()),
            needed=None if size[one] <= m else k + 1,
        )


@dataclass(frozen=True)
class Explained:
    """A core, and what was not achieved for it."""

    core: Core
    tried: tuple[str, ...] = ()


def explain(
    problem: Problem, rng: np.random.Generator, limits: Limits, *, most: int = 1
) -> Explained:
    """Find a minimal clash of a problem that is known to have no plan.

    Parameters
    ----------
    problem : Problem
    rng, limits
    most : int
        Clashes in the core, at most; each is a proof by itself.
    """
    found = counted(problem)
    tried: tuple[str, ...] = ()
    if not found:
        least, smallest = _smallest(problem, rng, limits)
        found = [least]
        tried = () if smallest else (UNPROVEN,)
    hopeless = (Cause.ALONE, Cause.HISTORY, Cause.LIMIT, Cause.COALITION)
    needed, exact = None, True
    if all(c.cause not in hopeless or c.needed for c in found):
        low = max([problem.n_adversaries + 1, *(c.needed or 0 for c in found)])
        at_least, needed = adversaries_needed(problem, low, rng, limits)
        exact = at_least == needed
    core = Core(
        entries=tuple(np.flatnonzero(problem.lo).tolist()),
        clashes=tuple(found[:most]),
        needed=needed,
        exact=exact,
        available=problem.n_adversaries,
    )
    return Explained(core, tried)


def proven_core(
    problem: Problem, rng: np.random.Generator, limits: Limits, *, proven: bool = True
) -> Core | None:
    """Explain one component, without capacities; None if it was not proven infeasible.

    Parameters
    ----------
    problem : Problem
    rng, limits
    proven : bool
        Whether a search already proved that there is no plan.
    """
    if not proven and not counted(problem):
        return None
    return explain(problem, rng, limits, most=_CLASHES).core


def adversaries_needed(
    problem: Problem, low: int, rng: np.random.Generator, limits: Limits
) -> tuple[int, int | None]:
    """Return how many adversaries are needed at least, and how many suffice.

    New ones (without history) are added one at a time. If that is undecided, their
    number is doubled, then bisected: models grow, and what is undecided mostly stays
    so.

    Parameters
    ----------
    problem : Problem
        No single entry is past a limit by itself.
    low : int
        Fewer are known not to suffice.
    rng, limits

    Returns
    -------
    least : int
        Fewer were proven not to suffice.
    enough : int or None
        None: no number was found.
    """
    over, m = limits.deadline(), problem.coalitions.any_m
    apart = not (problem.averages or problem.coalitions or problem.links)
    high = problem.n_adversaries + int(problem.lo.sum()) if apart else None
    # with an adversary for every copy, no limit of a set is crossed
    last = low + (_POOLED if m > 1 else MORE)
    last = last if high is None else min(high, last)
    last = min(last, problem.n_adversaries + _WIDEST + 1)
    refuted = below = low - 1
    step, found = 1, False
    while not over():
        number = (below + high) // 2 if found and high else below + step
        pools = comb(number, min(m, number)) if m > 1 else 0
        if number == below or number >= last or pools > _POOLS:
            break
        exists = possible(widened(problem, number), rng, _slice(limits, 0.25))
        if exists:
            high, found = number, True
            continue
        below = number
        if exists is None:
            step *= 2
        else:
            refuted = number
    return refuted + 1, high


def widened(problem: Problem, number: int) -> Problem:
    """Return the problem with new adversaries added, so that there are ``number``.

    All weights become 1, and utilities go: whether a plan exists depends on neither, and
    fine weights times more adversaries would overflow.
    """
    more = number - problem.n_adversaries
    trusted = problem.trusted
    if trusted is not None:
        fresh = np.zeros((trusted.shape[0], more), np.bool_)
        trusted = np.hstack([trusted, fresh])
    capacity: Ints | None = problem.capacity
    if capacity is not None:
        capacity = np.concatenate([capacity, np.full(more, NO_CAP)])
    return replace(
        problem,
        weights=Weights.flat(problem.n_entries, number),
        utilities=None,
        capacity=capacity,
        trusted=trusted,
    )


def _slice(limits: Limits, share: float) -> Limits:
    return replace(
        limits, seconds=limits.seconds * share, work=max(limits.work * share, 0.01)
    )


def _smallest(
    problem: Problem, rng: np.random.Generator, limits: Limits
) -> tuple[Clash, bool]:
    """Remove capacities, sets and entries as long as there is still no plan."""
    cut = _Cut(problem, rng, limits)
    if problem.capacity is not None:
        cut.free_capacity()
    cut.narrow()
    cut.sets()
    cut.links()
    cut.entries()
    return cut.clash(), cut.smallest


class _Cut:
    """Deletion filter: parts that the clash does not need are removed."""

    def __init__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> None:
        self.problem, self.rng = problem, rng
        self.kept = np.arange(problem.sets.n_sets)
        self.wanted = np.flatnonzero(problem.lo)
        self.smallest = True
        self.over, self.limits = limits.deadline(), limits
        links = problem.links
        single = links is None or not links.limited or links.tau is not None
        self.mean = bool(problem.averages) or not single

    def _still(self, kept: Ints, wanted: Ints, *, free: bool = False) -> bool:
        """Whether these parts alone leave no plan."""
        if self.over():
            self.smallest = False
            return False
        exists = possible(self.part(kept, wanted, free=free), self.rng, self._each())
        if exists is None:
            self.smallest = False
        return exists is False

    def _each(self) -> Limits:
        seconds = self.limits.seconds / 4
        return replace(self.limits, seconds=seconds, work=self.limits.work / 4)

    def part(self, kept: Ints, wanted: Ints, *, free: bool = False) -> Problem:
        """Return the problem with only these sets' limits and these entries' copies."""
        problem = self.problem
        lo = np.zeros_like(problem.lo)
        lo[wanted] = problem.lo[wanted]
        inside = np.zeros(problem.sets.n_sets, np.bool_)
        inside[kept] = True
        sets = problem.sets
        if problem.averages:  # sets count in the means, so only their caps are removed
            sets = replace(sets, cap=np.where(inside, sets.cap, NO_CAP))
        else:
            sets = sets.select(np.arange(problem.n_entries), kept)
        capacity = None if free else problem.capacity
        return replace(problem, sets=sets, lo=lo, capacity=capacity)

    def free_capacity(self) -> None:
        """Remove the capacities if they do not matter."""
        if self._still(self.kept, self.wanted, free=True):
            self.problem = replace(self.problem, capacity=None)

    def narrow(self) -> None:
        """Keep only the sets that CP-SAT's own proof used."""
        bare = feasibility_problem(self.problem)
        if self.problem.averages or not CpSat().supports(bare):
            return
        used = clashing(bare, self.rng, self._each())
        if used is not None:
            self.kept = np.array(used, np.int64)

    def sets(self) -> None:
        """Remove sets one by one."""
        if self.problem.averages:
            capped = self.problem.sets.cap < NO_CAP
            self.kept = self.kept[capped[self.kept]]
        for one in self.kept.tolist():
            rest = self.kept[self.kept != one]
            if self._still(rest, self.wanted):
                self.kept = rest

    def links(self) -> None:
        """Remove links one by one, unless they count together."""
        links = self.problem.links
        if links is None or not links.limited:
            return
        for one in [] if self.mean else np.unique(links.link).tolist():
            before = self.problem
            rest = links.among(links.link != one)
            self.problem = replace(before, links=rest)
            if self._still(self.kept, self.wanted):
                links = rest
            else:
                self.problem = before

    def entries(self) -> None:
        """Remove entries one by one: for means all, otherwise if few are left."""
        inside = self.wanted if self.mean else self._involved()
        if not self.mean and len(inside) > _FEW:
            return
        if len(inside) < len(self.wanted) and not self._still(self.kept, inside):
            return
        self.wanted = inside
        for d in inside.tolist():
            rest = self.wanted[self.wanted != d]
            if self._still(self.kept, rest):
                self.wanted = rest

    def _involved(self) -> Ints:
        """Return the entries that need copies and are in the rest; all for capacities."""
        sets, links = self.problem.sets, self.problem.links
        if self.problem.capacity is not None:
            return self.wanted
        inside = sets.entry[np.isin(sets.member_set, self.kept)]
        if links is not None and links.limited:
            inside = links.entry
        return np.intersect1d(self.wanted, inside)

    def clash(self) -> Clash:
        """Return the rest as a clash."""
        problem, kept = self.problem, self.kept
        if problem.averages:
            kept = np.flatnonzero(
                np.isin(np.arange(problem.sets.n_sets), kept)
                | (np.diff(problem.sets.start) > 0)
            )
        properties = np.unique(problem.sets.owner[kept])
        links = problem.links
        if links is not None and links.limited:
            properties = np.unique(links.link)
        cause = Cause.MEAN if self.mean else Cause.SEARCH
        wanted = self.wanted if self.mean else self._involved()
        if not len(wanted):  # what is held already clashes
            cause, wanted = Cause.HISTORY, np.unique(problem.history.entry)
        return Clash(
            cause,
            sets=tuple(kept.tolist()),
            properties=tuple(properties.tolist()),
            entries=tuple(wanted.tolist()),
            answers=int(problem.lo[wanted].sum()),
        )


def infeasible(
    problem: Problem, rng: np.random.Generator, limits: Limits, tried: tuple[str, ...]
) -> Solution:
    """Return INFEASIBLE with its core for a problem that is known to have no plan."""
    explained = explain(problem, rng, limits)
    return Solution(
        Verdict.INFEASIBLE,
        held=np.flatnonzero(problem.lo),
        cores=(explained.core,),
        tried=(*tried, *explained.tried),
        stopped="optimal",
    )
