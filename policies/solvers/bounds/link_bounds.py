"""Bounds for cosines in a tradeoff or below a limit, by components of pairs that meet.

Each pair that somebody holds discloses a fixed part at least (:mod:`link_pairs`). Two
relaxations follow, and the lower one counts:

- *Prices.* The highest mean over adversaries is at least any weighted mean of theirs. So
  with prices y_a on what adversary a sees (their sum lambda in a tradeoff) a plan is worth
  at most the best of utility less priced pairs, which components are solved for one by
  one (Lagrange). A few rounds move the prices to where most is seen.
- *Levels.* A worst disclosure below a level keeps all pairs apart that disclose more. So
  a tradeoff is worth at most the best, over levels, of the utility with those pairs
  apart and the price of the level below; a limit tau is one such level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

import numpy as np

from policies.model.objective import Objective
from policies.model.problem import Goal, Plan, Problem
from policies.model.sets import SetSystem
from policies.solvers.bounds.link_pairs import LinkPairs, root_down
from policies.solvers.bounds.priced_links import PricedLinks
from policies.solvers.exact.level_sweep import thinned
from policies.solvers.interfaces import Solution, Verdict, answer, free_bound

ROUNDS: Final = 8
"""Times that prices are moved."""

LEVELS: Final = 6
"""Levels of a worst disclosure that are looked at."""

_LARGEST: Final = 400_000  # pairs times adversaries above which nothing is priced

Question = Callable[[Problem], Solution]


def sealed(problem: Problem, sets: SetSystem) -> Problem:
    """Return the question how to keep these pairs apart, for utility alone."""
    return replace(
        problem,
        sets=sets,
        links=None,
        goal=Goal(),
        averages=(),
        trusted=None,  # nobody is trusted with a link
        strict_history=False,
    )


@dataclass
class LinkBounds:
    """Both relaxations of one problem with links that count.

    Parameters
    ----------
    problem : Problem
    pairs : LinkPairs
        Of its entries.
    solve : callable
        Solves or bounds a problem of pairs kept apart.
    over : callable
        Whether time is over: bounds so far are returned then.
    """

    problem: Problem
    pairs: LinkPairs
    solve: Question
    over: Callable[[], bool]
    best: Solution | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        goal, links = self.problem.goal, self.problem.links
        assert links is not None
        self.tradeoff = goal.objective is Objective.TRADEOFF
        self.count = goal.over or links.n_links or 1
        self.utility = free_bound(self.problem) - self._reward(Fraction(0))

    def bound(self, apart: Solution) -> Solution:
        """Return the lowest bound, or that there is no plan.

        Parameters
        ----------
        apart : Solution
            The problem with all pairs kept apart, as ``solve`` answers it.

        Returns
        -------
        Solution
            Without a plan: INFEASIBLE with its core where pairs that a limit keeps
            apart cannot be, else UNKNOWN with the bound.
        """
        found = free_bound(self.problem)
        links = self.problem.links
        assert links is not None
        if links.tau is not None:
            told = self._apart(links.tau**2 if links.tau > 0 else Fraction(0), apart)
            if told.verdict is Verdict.INFEASIBLE:
                return told
            found = min(found, told.bound + self._reward(Fraction(0)))
        goal = self.problem.goal
        if self.tradeoff and goal.lambda_ > 0 and goal.aggregate is None:
            found = min(found, self._by_level(apart))
        if goal.average if self.tradeoff else links.mean_tau is not None:
            found = min([found, *self._by_price()])
        return Solution(
            Verdict.UNKNOWN, bound=found, tried=("bounds by pairs that meet",)
        )

    def _reward(self, f: Fraction) -> Fraction:
        """What the objective adds to utility at a disclosure."""
        goal = self.problem.goal
        return goal.lambda_ * (goal.tau - f) if self.tradeoff else Fraction(0)

    # -- levels --------------------------------------------------------------------

    def _apart(self, square: Fraction, apart: Solution) -> Solution:
        """Answer for utility alone, with all pairs apart that disclose so much."""
        chosen = np.array([w >= square for w in self.pairs.worst], np.bool_)
        sets = self.pairs.kept_apart(chosen)
        if sets.n_sets == self.pairs.sets.n_sets:
            return apart
        if self.over():
            return Solution(Verdict.UNKNOWN, bound=self.utility)
        return self.solve(sealed(self.problem, sets))

    def _by_level(self, apart: Solution) -> Fraction:
        """Bound a tradeoff by what keeps disclosure below each level."""
        average, squares = self.problem.goal.average, sorted(set(self.pairs.worst))
        if average:  # one pair is one part of a mean
            squares, scale = squares[:1], Fraction(1, self.count)
        else:
            squares, scale = thinned(squares, LEVELS), Fraction(1)
        before, values = Fraction(0), []
        for square in squares:
            told = self._apart(square, apart)
            if told.verdict is not Verdict.INFEASIBLE:
                values.append(told.bound + self._reward(before))
            before = root_down(square) * scale
        return max([*values, self.utility + self._reward(before)])

    # -- prices --------------------------------------------------------------------

    def _by_price(self) -> Iterator[Fraction]:
        """Bound by prices, round after round."""
        problem, links = self.problem, self.problem.links
        k = problem.n_adversaries
        if not self.pairs.part or not k or len(self.pairs.part) * k > _LARGEST:
            return
        priced = PricedLinks(problem, self.pairs, self.count)
        total, limit = float(problem.goal.lambda_), Fraction(0)
        if not self.tradeoff and links is not None and links.mean_tau is not None:
            limit = links.mean_tau
            best = float(problem.weights.best(problem.hi) * problem.weights.unit)
            total = best / max(float(limit), 1e-6) / 4
        price = np.full(k, total / k)
        for number in range(1, ROUNDS + 1):
            found = priced.ceiling(price * (1 - 1e-9), self.over)
            if found is None:
                return
            self._keep(found.plan)
            pay = self._reward(Fraction(0)) if self.tradeoff else found.paid * limit
            yield found.bound + pay
            if self.over():
                return
            seen = found.seen
            top = max(float(seen.max()), float(limit), 1e-12)
            if self.tradeoff:
                price = price * (1 + (seen - seen.mean()) / top / number)
                price *= total / price.sum()
            else:
                price = price * np.maximum(1 + (seen - float(limit)) / top / number, 0)

    def _keep(self, plan: Plan) -> None:
        """Remember the best plan that prices led to."""
        made = answer(self.problem, plan, tried=("pairs at a price",))
        better = self.best is None or made.value > self.best.value
        if made.verdict is Verdict.SOLVED and better:
            self.best = made
