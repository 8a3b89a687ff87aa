"""Large neighbourhood search: free some entries of a plan, let HiGHS reassign them.

The method is that of Shaw (Using constraint programming and local search methods to
solve vehicle routing problems, 1998).

Most of a good plan is right. Entries that share sensitive sets are freed together, the
others stay, and the small problem that is left is solved to optimality; its size is
adapted to the time that takes. It alternates with annealing, where possible, which
leaves plans that no small problem can improve. It proves nothing and never makes a plan
worse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import Final

import numpy as np

from policies.model.problem import Pairs, Plan, Problem
from policies.model.problem_arrays import plan_of
from policies.model.sets import Bools, Ints
from policies.solvers.exact.highs import MARGIN, OPTIMAL, Model, build, run
from policies.solvers.exact.linear_model import Late
from policies.solvers.interfaces import Limits, Solution, Verdict, answer
from policies.solvers.search.annealing import LONG, STEPS, SmoothAnnealer, annealable

# On linworst_D50_P10_k5_t1, quadratic-worst-60-12-5-1 and linear-worst-60-12-2-2 from
# GREEDYL's plan (work 1.5): _FIRST of .1, .2 and .4 ends in the same values; 4 problems a
# turn lose .3 % to 2 on the second, and win .05 to .7 % on the others; _NODES of .5 loses up
# to .7 %, .1 wins up to .7 % in four times the CPU seconds. At work 5 a _GAP of .1, 1 and
# 10 ends alike; 100 wins .3 % on the second in 1.4 times the CPU seconds. In 2.5 s of CPU
# _SECONDS of .1 loses 1.2 and .2 % on the first two, 1.6 loses .1 % on the second; a _TURN of
# .1, .5 and 2 ends within .1 %.
_FIRST: Final = 0.2  # share of the entries freed at first
_NODES: Final = 0.25  # work of one small problem, at most
_SECONDS: Final = 0.4  # the same under a clock
_GAP: Final = 1.0  # in cost: a millionth of the objective
_TURN: Final = 0.5  # least seconds of small problems before a run of annealing
_EACH: Final = 4  # small problems between runs of annealing, without a clock


def improve(
    problem: Problem,
    plan: Pairs,
    rng: np.random.Generator,
    limits: Limits,
    done: Callable[[], bool],
) -> Solution:
    """Improve a plan until time or work ends.

    Parameters
    ----------
    problem : Problem
        Must have a linear model.
    plan : Pairs
        A plan that keeps all limits.
    rng : Generator
    limits : Limits
    done : callable
        True once the answer is no longer wanted.
    """
    ended, start = limits.deadline(), limits.clock()  # building the model counts

    def over() -> bool:
        return ended() or done()

    try:
        search = _Search(problem, build(problem, MARGIN, over), rng, plan)
    except Late:
        return answer(problem, Plan(plan.entry, plan.adversary))
    annealer = None
    if annealable(problem):
        annealer = SmoothAnnealer(problem, rng, limits.left(start), done)
    rounds, turn = int(min(limits.work, 1e6) / _NODES) + 1, limits
    while rounds > 0 and not over():
        most = rounds
        if annealer:
            began, timed = limits.clock(), limits.seconds != inf
            search.anneal(annealer, LONG if timed else int(STEPS * _NODES))
            seconds = max((limits.clock() - began) / 2, _TURN)
            turn = replace(limits, seconds=seconds) if timed else limits
            most = rounds if timed else min(rounds, _EACH)
        search.steps(most, turn, over)
        rounds -= most if turn is limits else 1
    return replace(search.best, tried=("large neighbourhoods",))


@dataclass
class _Search:
    """A plan, and the share of it that is freed at a time."""

    problem: Problem
    model: Model
    rng: np.random.Generator
    plan: Pairs
    share: float = _FIRST

    def __post_init__(self) -> None:
        self.best = answer(self.problem, Plan(self.plan.entry, self.plan.adversary))
        self.taken = self._columns(self.plan)
        self.start, self.row = self.problem.sets.by_entry()
        self.owner = self.problem.sets.member_set

    def steps(self, most: int, limits: Limits, over: Callable[[], bool]) -> None:
        """Free and reassign so many times, until time ends."""
        late = limits.deadline()
        for _ in range(most):
            if over() or late():
                break
            self._step(limits, over)

    def _step(self, limits: Limits, done: Callable[[], bool]) -> None:
        """Free some entries and reassign them."""
        n = self.problem.n_entries
        count = min(max(2, round(self.share * n)), n)
        fixed = np.flatnonzero(~self._freed(count)[self.model.entry])
        lower = np.zeros(len(self.model.cost))
        upper = self.model.upper.copy()
        lower[fixed] = upper[fixed] = self.taken[fixed]
        part = replace(
            limits, seconds=min(limits.seconds, _SECONDS), work=min(limits.work, _NODES)
        )
        small = replace(self.model, lower=lower, upper=upper)
        start = Pairs(self.model.entry[self.taken], self.model.adversary[self.taken])
        found = run(small, part, start=start, done=done, gap=_GAP)
        self.share *= 1.08 if found.status == OPTIMAL else 0.9
        self.share = min(max(self.share, 0.02), 0.9)
        if found.values is None:
            return
        made = answer(self.problem, self.model.plan(found.values))
        if made.verdict is not Verdict.SOLVED or made.value < self.best.value:
            return
        self._keep(made)

    def anneal(self, annealer: SmoothAnnealer, steps: int) -> None:
        """Anneal once, for at most so many steps, from the plan."""
        chosen = np.zeros(
            (self.problem.n_entries, self.problem.n_adversaries), np.bool_
        )
        chosen[self.best.plan.entry, self.best.plan.adversary] = True
        annealer.offer(chosen)
        annealer.run(steps)
        if annealer.best is None:
            return
        made = answer(self.problem, plan_of(annealer.best))
        if made.verdict is Verdict.SOLVED and made.value > self.best.value:
            self._keep(made)

    def _keep(self, made: Solution) -> None:
        """Continue from a plan that is as good or better."""
        self.best = made
        self.taken = self._columns(made.plan)

    def _columns(self, plan: Pairs) -> Bools:
        """Mask of the model's pairs that are in a plan."""
        width = self.problem.n_adversaries
        chosen = plan.entry * width + plan.adversary
        return np.isin(self.model.entry * width + self.model.adversary, chosen)

    def _freed(self, count: int) -> Bools:
        """Mask of about so many entries that share sets with each other."""
        sets, n = self.problem.sets, self.problem.n_entries
        freed = np.zeros(n, np.bool_)
        queue: list[int] = []
        while int(freed.sum()) < count:
            d = queue.pop(0) if queue else int(self.rng.integers(n))
            freed[d] = True
            around: Ints = self.owner[self.row[self.start[d] : self.start[d + 1]]]
            if not len(around) or len(queue) > count:
                continue
            near = sets.members(int(self.rng.choice(around)))
            picked = self.rng.choice(near, min(len(near), 4), replace=False)
            queue += [int(e) for e in picked if not freed[e]]
        return freed
