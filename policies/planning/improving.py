"""Search on from a constructed plan, and bound how far it can be from the best one.

The bound is that of a transportation problem: copies of entries go to adversaries with
room, and privacy is ignored. With prices r_a >= 0 of places, no plan is worth more than

    sum over d of (the hi_d largest of max(0, w_da - r_a)) + sum over a of r_a room_a

(weak duality). The prices come from a linear program over groups of entries that are
alike; the bound is then computed in integers, so that rounding cannot spoil it. The
distance of a plan to the bound is a sum over entries, the *regret* of each, and over
unused places that have a price. Entries with the most regret, and those that share
sensitive sets with them, are freed first and reassigned exactly by HiGHS while the rest
of the plan stays (large neighbourhood search); a block that was not solved in its time
is followed by smaller ones. A small problem is freed whole first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from policies.judging.judge import judge
from policies.model.objective import Objective
from policies.model.problem import Pairs, Plan, Problem
from policies.model.sets import Ints
from policies.planning.caps_on_averages import AverageCaps
from policies.planning.problem import PlanningProblem
from policies.planning.solving import after
from policies.solvers import Limits, Solution, Verdict
from policies.solvers.exact.epsilon_constraint import held_at
from policies.solvers.exact.highs import Milp
from policies.solvers.exact.highs import solve as solve_by_highs
from policies.solvers.explain.withholding import without
from policies.solvers.search.ejection_chains import soft_ceiling

WHOLE: Final = 16_000
"""Entries x adversaries up to which the whole plan is searched at once."""

BLOCK: Final = 4_000
"""The same for what is freed at a time, where the whole is larger.

Prescriptions of 1,340 fields, 40 workers, 10 s of CPU: from a gap of .42 % to .15 with 2,000,
.08 with 4,000; with 8,000 no block is solved in its second.
"""

LEAST: Final = 250
"""And the least, where a busy machine does not solve more in the time of a block."""

PRICED: Final = 250_000
"""Groups x adversaries up to which the prices of a bound are computed."""

# Prescriptions as above, 6 s of CPU: gap .130 and .143 % (two runs), half and twice of
# _BLOCK_SECONDS .143, _TRIES 1 .130, 6 .143. Receipts, a part of which was shown: .075 % with half
# and twice of both, and with a _FIRST of .25 and .9, in .5 s.
_FIRST: Final = 0.5  # share of the search for the whole at once, before blocks
_BLOCK_WORK: Final = 0.25  # work of one block, at most
_BLOCK_SECONDS: Final = 1.0  # the same under a clock
_CLOSE: Final = Fraction(1, 10_000)  # a gap that is not worth a further search
_TRIES: Final = 3  # times that an entry is freed in vain


def improve(
    made: PlanningProblem,
    found: Solution,
    seed: int,
    limits: Limits,
    *,
    search: bool = True,
) -> Solution:
    """Improve a plan within the limits, and prove a bound for it.

    Entries that are held back stay so. What is found is never worth less, keeps the same
    limits, and gives nobody more than ``limits.spread`` fair shares who had less.

    Parameters
    ----------
    made : PlanningProblem
    found : Solution
        Of :func:`policies.planning.solving.plan_rest`.
    seed : int
    limits : Limits
        ``work`` and ``seconds`` are those of this search alone.
    search : bool
        Whether to search; else the plan stays, and has its bound.

    Returns
    -------
    Solution
        With the tighter bound, also where the plan is the same.
    """
    if found.judged is None or not len(found.plan):
        return found
    averages = AverageCaps(made)
    whole = replace(made.problem, averages=averages.caps())
    problem = without(whole, tuple(found.held.tolist()))
    if problem.utilities is not None:
        return found  # worth more than a sum
    judged = judge(problem, found.plan)
    if not judged.feasible:
        return found  # planned by a looser problem
    problem = replace(problem, capacity=_ceilings(problem, found.plan, limits))
    plan, bound = better_plan(
        problem, found.plan, judged.objective, seed, limits if search else None
    )
    if plan is not found.plan:
        better = judge(problem, plan)
        if better.feasible and not averages.excess(plan):
            judged = better
        else:
            plan = found.plan
    bound = max(judged.objective, min(found.bound, bound))
    stopped = "optimal" if bound == judged.objective else found.stopped
    return replace(
        found,
        plan=plan,
        judged=judged,
        value=judged.objective,
        bound=bound,
        stopped=stopped,
    )


def better_plan(
    problem: Problem, plan: Plan, value: Fraction, seed: int, limits: Limits | None
) -> tuple[Plan, Fraction]:
    """Return the best plan found from a given one, and a bound on what any is worth.

    Parameters
    ----------
    problem : Problem
        Its utility is a sum over pairs.
    plan : Plan
        Keeps all limits.
    value : Fraction
        Its objective.
    seed : int
    limits : Limits or None
        None: the plan stays, and has its bound.
    """
    search = _Search(problem, plan, value, seed, limits or Limits())
    if limits is not None:
        search.run()
    return search.plan, search.bound


def _ceilings(problem: Problem, plan: Pairs, limits: Limits) -> Ints:
    """Return the room of each adversary within the spread, or what the plan gives it."""
    room, soft = problem.room(), soft_ceiling(problem, limits.spread)
    if soft is None:
        return room
    given = np.bincount(plan.adversary, minlength=len(room))
    return np.minimum(room, np.maximum(soft, given))


@dataclass(frozen=True, eq=False)
class _Groups:
    """Entries that are alike: of one kind and worth, with as many copies to plan.

    An entry that some adversaries must not be shown is a group of its own, if there are
    few of them; else the bound ignores that.

    Attributes
    ----------
    group : int64 array, shape (n entries,)
    count, copies : int64 array, shape (g groups,)
        Entries of a group, and ``hi`` of each.
    worth : int64 array, shape (g, k adversaries)
        In units of weights; 0 where the pair must not be planned.
    """

    group: Ints
    count: Ints
    copies: Ints
    worth: Ints

    @classmethod
    def of(cls, problem: Problem, priced: int) -> _Groups:
        n, k = problem.n_entries, problem.n_adversaries
        weights, barred = problem.weights, problem.forbidden
        alone = np.zeros(n, np.int64)
        apart = np.unique(barred.entry)
        if len(apart) * k <= priced:
            alone[apart] = apart + 1
        key = np.column_stack([weights.kind, weights.base, problem.hi, alone])
        rows, group, count = np.unique(
            key, axis=0, return_inverse=True, return_counts=True
        )
        kind, base, copies, own = rows.T
        worth = base[:, None] * weights.factor[:, kind].T
        group = group.reshape(-1)
        if own.any():
            worth[group[barred.entry], barred.adversary] = 0
        return cls(group, count, np.minimum(copies, k), worth)

    def prices(self, room: Ints) -> Ints:
        """Return the price of a place at each adversary, by the linear program's dual."""
        from scipy.optimize import linprog
        from scipy.sparse import eye_array, kron, vstack

        g, k = self.worth.shape
        top = float(self.worth.max(initial=0)) or 1.0
        rows = [
            kron(eye_array(g), np.ones((1, k))),
            kron(np.ones((1, g)), eye_array(k)),
        ]
        found = linprog(
            -self.worth.ravel() / top,
            A_ub=vstack(rows).tocsr(),
            b_ub=np.concatenate([self.count * self.copies, room]),
            bounds=np.column_stack([np.zeros(g * k), np.repeat(self.count, k)]),
        )
        if found.status != 0:  # any prices prove a bound
            return np.zeros(k, np.int64)
        price = np.rint(-found.ineqlin.marginals[g:] * top)
        return np.asarray(price.clip(0), np.int64)

    def best(self, price: Ints) -> Ints:
        """Return the most that an entry of each group can be worth at these prices."""
        left = -np.sort(-np.maximum(self.worth - price, 0), axis=1)
        total = np.column_stack([np.zeros(len(left), np.int64), left.cumsum(axis=1)])
        return np.asarray(total[np.arange(len(left)), self.copies], np.int64)


def transport_bound(
    problem: Problem, *, priced: int = PRICED
) -> tuple[int, Ints, Ints]:
    """Bound the utility of all plans by copies and capacities.

    Parameters
    ----------
    problem : Problem
    priced : int
        Groups of equal entries times adversaries up to which prices are computed;
        above, the bound is that without capacities.

    Returns
    -------
    bound : int
        In units of weights.
    price : int64 array, shape (k adversaries,)
        Of a place at each adversary.
    best : int64 array, shape (n entries,)
        The most that an entry can be worth at these prices.
    """
    groups, room = _Groups.of(problem, priced), problem.room()
    price = np.zeros(len(room), np.int64)
    if 0 < groups.worth.size <= priced:
        price = groups.prices(room)
    best = groups.best(price)
    bound = int(best @ groups.count) + int(price @ room)
    return bound, price, best[groups.group]


@dataclass
class _Search:
    """A plan, and a bound on what any plan is worth."""

    problem: Problem
    plan: Plan
    value: Fraction
    seed: int
    limits: Limits

    def __post_init__(self) -> None:
        problem, goal = self.problem, self.problem.goal
        self.over, self.began = self.limits.deadline(), self.limits.clock()
        self.rng = np.random.default_rng(self.seed)
        bound, self.price, self.best = transport_bound(problem)
        paid = goal.lambda_ * goal.tau if goal.objective is Objective.TRADEOFF else 0
        self.bound = bound * problem.weights.unit + paid

    def run(self) -> None:
        """Search until time or work ends, or the plan is close to the bound."""
        problem, goal = self.problem, self.problem.goal
        separable = not problem.averages and problem.links is None
        separable &= goal.worst or goal.objective is Objective.DISC_BUDGET
        if problem.n_entries * problem.n_adversaries <= WHOLE:
            self._whole(_FIRST if separable else 1.0)
        if separable:
            if goal.objective is Objective.TRADEOFF:  # for utility alone, f no higher
                f = judge(problem, self.plan).f_goal
                strict = problem.strict_history
                self.problem = replace(held_at(problem, f), strict_history=strict)
            self._blocks()

    def _is_close(self) -> bool:
        return self.bound - self.value <= _CLOSE * abs(self.bound)

    def _ask(self, part: Problem, plan: Pairs, limits: Limits) -> Solution:
        seed = int(self.rng.integers(2**31))
        return solve_by_highs(part, limits, seed=seed, start=plan)

    def _whole(self, share: float) -> None:
        """Search the whole at once, for a share of the time and of the work."""
        if self._is_close() or not Milp().supports(self.problem):
            return
        limits = self.limits.left(self.began, share).part(share)
        found = self._ask(self.problem, self.plan, limits)
        self.bound = min(self.bound, found.bound)
        if found.verdict is Verdict.SOLVED and found.value > self.value:
            self.plan, self.value = found.plan, found.value

    def _blocks(self) -> None:
        """Free and reassign blocks around the entries of most regret."""
        unit, work = self.problem.weights.unit, self.limits.work
        self.sets_of, self.row = self.problem.sets.by_entry()
        self.size = BLOCK
        tries = np.zeros(self.problem.n_entries, np.int64)
        while work > 0 and not (self.over() or self._is_close()):
            regret = np.where(tries < _TRIES, self._regret(), 0)
            if not regret.any():
                return
            free = self._around(regret)
            tries[free] += 1
            gain = self._reassign(free)
            work -= _BLOCK_WORK
            if gain > 0:
                self.value += gain * unit
                tries[free] = 0

    def _regret(self) -> Ints:
        """Return how far each entry is from its best at these prices, shape (n,)."""
        left = _worths(self.problem, self.plan) - self.price[self.plan.adversary]
        got = np.bincount(self.plan.entry, left, self.problem.n_entries)
        return self.best - np.rint(got).astype(np.int64)

    def _around(self, regret: Ints) -> Ints:
        """Choose entries to free: of most regret first, each with who shares its sets."""
        most = max(self.size // self.problem.n_adversaries, 2)
        chance = regret * self.rng.random(len(regret))
        chosen = np.zeros(len(regret), np.bool_)
        count = 0
        for d in np.argsort(-chance, kind="stable").tolist():
            near = self._near(np.array([d]))
            near = near[(self.problem.hi[near] > 0) & ~chosen[near]]
            chosen[near] = True
            count += len(near)
            if count >= most:
                break
        return np.flatnonzero(chosen)

    def _near(self, entries: Ints) -> Ints:
        """Return the entries themselves, and those in a set with one of them."""
        sets = self.problem.sets
        touched = self._touching(entries)
        members = [sets.members(one) for one in touched.tolist()]
        return np.unique(np.concatenate([entries, *members]))

    def _touching(self, entries: Ints) -> Ints:
        """Return the sets with one of these entries."""
        rows = [
            self.row[self.sets_of[d] : self.sets_of[d + 1]] for d in entries.tolist()
        ]
        member = np.concatenate([np.empty(0, np.int64), *rows])
        return np.unique(self.problem.sets.member_set[member])

    def _reassign(self, free: Ints) -> int:
        """Reassign these entries as well as can be while the others stay.

        Returns
        -------
        int
            What that is worth more, in units of weights.
        """
        problem, plan = self.problem, self.plan
        freed = np.isin(np.arange(problem.n_entries), free)
        mine = freed[plan.entry]
        own = Pairs(plan.entry[mine], plan.adversary[mine])
        rest = Pairs(plan.entry[~mine], plan.adversary[~mine])
        entries = self._near(free)
        part = replace(
            after(problem, rest),
            lo=np.where(freed, problem.lo, 0),
            hi=np.where(freed, problem.hi, 0),
        ).select(entries, self._touching(free))
        limits = self.limits.left(self.began)
        limits = replace(
            limits, work=_BLOCK_WORK, seconds=min(limits.seconds, _BLOCK_SECONDS)
        )
        start = Pairs(np.searchsorted(entries, own.entry), own.adversary)
        found = self._ask(part, start, limits)
        done = found.stopped in ("optimal", "gap")
        self.size = min(BLOCK, 2 * self.size) if done else max(self.size // 2, LEAST)
        if found.verdict is not Verdict.SOLVED:
            return 0
        new = Pairs(entries[found.plan.entry], found.plan.adversary)
        gain = int(_worths(problem, new).sum() - _worths(problem, own).sum())
        if gain > 0:
            both = rest.union(new)
            self.plan = Plan(both.entry, both.adversary)
        return max(gain, 0)


def _worths(problem: Problem, pairs: Pairs) -> Ints:
    """Return what each pair is worth, in units of weights, shape (pairs,)."""
    weights = problem.weights
    factor = weights.factor[pairs.adversary, weights.kind[pairs.entry]]
    return weights.base[pairs.entry] * factor
