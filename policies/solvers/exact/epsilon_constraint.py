"""The epsilon-constraint method: a tradeoff as problems of utility alone, level by level.

With f limited to a level, max u + lambda (tau - f) is a disc-budget problem (Haimes,
Lasdon and Wismer, On a bicriterion formulation, 1971). Let U(v) be a bound of u over
plans with f <= v. A plan with low < f <= high is worth at most

    U(high) + lambda (tau - low),

and at most U(high) + lambda (tau - high) where f has no value between. The highest of
these over all spans bounds the tradeoff; it is the optimum where U is exact and the
levels are all the values of f. :class:`Sweep` keeps these spans. Its users differ in
the order of levels:

* :func:`sweep_levels`: upwards, until no level can win any more (large backlogs);
* :func:`leakless`: level 0 alone (paper, section 4.1: zero disclosure);
* :func:`front`: downwards, every level for its own sake (paper, section 3);
* :mod:`policies.solvers.search.submodular_tradeoff`: splits the most promising span.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from policies.judging.judge import judge
from policies.model.aggregates import Aggregate
from policies.model.disclosure import cap_at
from policies.model.objective import Objective
from policies.model.problem import Average, Goal, Plan, Problem
from policies.model.sets import NO_CAP, Ints, SetSystem
from policies.solvers.interfaces import Limits, Solution, Verdict, answer, free_bound
from policies.solvers.scaling import reached

# Linear worst 200, 20, 5, 1, planned as a backlog (work 2): .6888 in 5.2 s of CPU; with half of
# _LEVELS .6852 in 1.8, with twice .7020 in 7.4.
_LEVELS: Final = 40  # more levels are thinned out; the bounds allow for it
_PARTS: Final = 8  # each level gets at least 1 / _PARTS of the work
# Linear worst 2000, 200, 10, 2 (78 kinds of sets, 1 s) takes 1.6 s with 45,000 levels.
_LOADS: Final = 1_000  # loads of one kind of sets that give levels, at most
_KINDS: Final = 10_000  # the same of all kinds together


def levels(sets: SetSystem) -> tuple[list[Fraction], bool]:
    """Return values that f of any set can take up to its cap, and whether these are all.

    They ascend, and 0 is one of them.
    """
    found = {Fraction(0)}
    if not sets.n_sets:
        return [Fraction(0)], True
    measures = list(dict.fromkeys(sets.measures))
    measure = np.array([measures.index(m) for m in sets.measures])[sets.owner]
    kinds = np.unique(
        np.stack([measure, sets.full, sets.cap, sets.step], axis=1), axis=0
    )
    most = max(1, min(_LOADS, _KINDS // len(kinds)))
    complete = True
    for number, full, cap, step in kinds.tolist():
        top = min(full, cap)
        each = max(step, top // most)
        steps = measures[number].is_step
        complete = complete and (steps or each == step)
        below = () if steps else range(each, top, each)
        found.update(measures[number].disclosure(load, full) for load in (*below, top))
    return sorted(found, key=lambda v: (float(v), v)), complete  # floats compare faster


def thinned(values: list[Fraction], most: int) -> list[Fraction]:
    """Return at most so many of the values, the first and the last included."""
    at = np.unique(np.linspace(0, len(values) - 1, most).astype(int))
    return [values[i] for i in at.tolist()] if len(values) > most else values


def capped(sets: SetSystem, level: Fraction, how: Aggregate | None = None) -> SetSystem:
    """Return the sets with caps lowered so that f <= level everywhere.

    With an aggregate, the limit is on its weight times f.
    """
    pairs, index = np.unique(
        np.stack([sets.owner, sets.full], axis=1), axis=0, return_inverse=True
    )

    def cap(number: int, full: int) -> int:
        f = level if how is None else how.level_of(number, level)
        return NO_CAP if f is None else cap_at(sets.measures[number], full, f)

    caps: Ints = np.array([cap(o, f) for o, f in pairs.tolist()], np.int64)
    if not sets.n_sets:
        return sets
    return replace(sets, cap=np.minimum(sets.cap, caps[index.reshape(-1)]))


def held_at(problem: Problem, level: Fraction | None) -> Problem:
    """Return the problem of utility alone with f <= level; None: without that limit.

    What history alone discloses counts: no plan is feasible below it.
    """
    goal = replace(problem.goal, objective=Objective.DISC_BUDGET)
    plain = replace(problem, goal=goal)
    if level is None:
        return plain
    plain = replace(plain, strict_history=True)
    how = goal.aggregate
    if goal.worst or (how is not None and how.by_set):
        return replace(plain, sets=capped(problem.sets, level, how))
    if how is not None:
        cap = Average((), level, aggregate=how)
        return replace(plain, averages=(*problem.averages, cap))
    every = tuple(range(len(problem.sets.properties)))
    mean = Average(every, level, over=goal.over)
    looser = [
        one
        for one in problem.averages
        if (one.properties, one.over) == (every, goal.over) and level < one.limit
    ]
    kept = [one for one in problem.averages if one not in looser]
    return replace(plain, averages=(*kept, mean))


@dataclass(frozen=True)
class DisclosureSpan:
    """Plans with f at least ``low`` and at most ``high``.

    Attributes
    ----------
    low : Fraction
    high : Fraction or None
        None: without limit.
    u : Fraction
        Upper bound on their utility.
    open : bool
        False if solving for it gave neither a plan nor a proof that there is none.
    """

    low: Fraction
    high: Fraction | None
    u: Fraction
    open: bool = True

    def bound(self, goal: Goal) -> Fraction:
        """Return an upper bound on the objective in this span."""
        return self.u + goal.lambda_ * (goal.tau - self.low)


@dataclass
class Sweep:
    """What is known of a tradeoff: a bound for each span of f, and the best plan.

    Attributes
    ----------
    problem : Problem
        A tradeoff.
    spans : list of Span
        Together they contain all plans.
    best : Solution or None
    """

    problem: Problem
    spans: list[DisclosureSpan]
    best: Solution | None = None

    @classmethod
    def over(
        cls, problem: Problem, levels: Sequence[Fraction], lows: Sequence[Fraction]
    ) -> Sweep:
        """Return a sweep of spans up to these levels with f >= ``lows``, and one beyond."""
        u = free_bound(replace(problem, goal=Goal()))
        spans = [
            DisclosureSpan(a, b, u) for a, b in zip(lows, [*levels, None], strict=True)
        ]
        return cls(problem, spans)

    def cut(self, span: DisclosureSpan, level: Fraction) -> None:
        """Split a span at a level."""
        at = self.spans.index(span)
        self.spans[at : at + 1] = [replace(span, high=level), replace(span, low=level)]

    def learn(self, level: Fraction | None, found: Solution) -> None:
        """Record the solution of the problem of utility alone with f <= level.

        Its bound applies to all spans below; if it has no plan, nor do they.
        """
        spans, sure = [], found.verdict is Verdict.SOLVED
        for span in self.spans:
            if level is not None and (span.high is None or span.high > level):
                spans.append(span)
            elif found.verdict is not Verdict.INFEASIBLE:
                u, open_ = min(span.u, found.bound), span.open and sure
                spans.append(replace(span, u=u, open=open_))
        self.spans = spans

    def take(self, found: Solution) -> None:
        """Keep the plan of a solution, if it is the best."""
        if found.verdict is not Verdict.SOLVED:
            return
        judged = judge(self.problem, found.plan)
        better = self.best is None or judged.objective > self.best.value
        if judged.feasible and better:
            self.best = replace(found, value=judged.objective, judged=judged)

    def above(self, level: Fraction | None) -> Fraction | None:
        """Upper bound on the objective in spans from a level on; None: no plans there."""
        bounds = (
            span.bound(self.problem.goal)
            for span in self.spans
            if span.high is None or (level is not None and span.high >= level)
        )
        return max(bounds, default=None)

    @property
    def bound(self) -> Fraction:
        """Upper bound on the objective of any plan."""
        found = [span.bound(self.problem.goal) for span in self.spans]
        free = free_bound(self.problem)
        bound = min(free, max(found, default=free))
        return bound if self.best is None else max(bound, self.best.value)


def sweep_levels(
    solver: Callable[[Problem, np.random.Generator, Limits], Solution],
    problem: Problem,
    rng: np.random.Generator,
    limits: Limits,
) -> Solution:
    """Solve a tradeoff of the worst set with a solver for disc-budget problems.

    Returns
    -------
    Solution
        The best plan over all levels of f, with a bound on the tradeoff.
    """
    floor = judge(problem, Plan()).f
    values, complete = levels(problem.sets)
    every = [v for v in values if v >= floor]
    ladder = thinned(every, _LEVELS)
    lows = [*ladder, ladder[-1] if ladder else floor]
    if not complete or len(ladder) < len(every):
        lows = [floor, *ladder]
    known = Sweep.over(problem, ladder, lows)
    over, last = limits.deadline(), Solution(Verdict.UNKNOWN)
    part = limits.part(1 / max(1, min(len(ladder), _PARTS)))
    for level in [*ladder, None]:
        best, rest = known.best, known.above(level)
        won = best is not None and rest is not None and best.value >= rest
        if best is not None and (won or over() or level is None):
            break
        sets = problem.sets if level is None else capped(problem.sets, level)
        goal = replace(problem.goal, objective=Objective.DISC_BUDGET)
        last = solver(replace(problem, sets=sets, goal=goal), rng, part)
        known.learn(level, last)
        known.take(last)
    return replace(known.best or last, bound=known.bound)


# -- step functions: complete no set, or pay for whole sets --------------------------


def whole(problem: Problem) -> bool:
    """Whether this is a tradeoff, of the worst set or a mean, over step sets alone."""
    goal, sets = problem.goal, problem.sets
    if goal.objective is not Objective.TRADEOFF or goal.lambda_ <= 0:
        return False
    if goal.aggregate is not None:
        return False
    return bool(sets.n_sets) and sets.has_only_steps


def leakless(problem: Problem, solve: Callable[[Problem], Solution]) -> Solution:
    """Return the best plan that completes no set, with a bound over all plans.

    Any other plan completes a set, so its f is 1 (worst case), or at least one part of
    the mean's divisor.

    Parameters
    ----------
    problem : Problem
        Must be :func:`whole`.
    solve : callable
        Solves the problem with all sets capped, where proofs are far easier.

    Returns
    -------
    Solution
        UNKNOWN, with the bound, if no such plan was found.
    """
    sets, goal, zero = problem.sets, problem.goal, Fraction(0)
    caps = np.minimum(sets.cap, np.maximum(sets.full - 1, 0))
    sealed = replace(
        problem, sets=replace(sets, cap=caps), goal=Goal(), strict_history=False
    )
    inner = solve(sealed)
    over = (goal.over or sets.n_sets) if goal.average else 1
    known = Sweep.over(problem, [zero], [zero, Fraction(1, over)])
    known.learn(zero, inner)
    made = answer(problem, inner.plan, bound=known.bound, tried=inner.tried)
    proven = made.verdict is Verdict.SOLVED and reached(made.value, made.bound)
    return replace(made, stopped="optimal" if proven else "")


# -- the Pareto front of utility and disclosure ----------------------------------------


def front(
    problem: Problem, count: int, solve: Callable[[Problem], Solution]
) -> Iterator[tuple[Fraction | None, Solution]]:
    """Solve at evenly spaced levels of f, the loosest first.

    Parameters
    ----------
    problem : Problem
        Without links; its goal defines f.
    count : int
        Levels, >= 2.
    solve : callable

    Yields
    ------
    level : Fraction or None
        The limit on f; None for the first.
    found : Solution
        Judged by the problem of utility alone at this level: its bound is a proven
        bound on utility there.

    Raises
    ------
    ValueError
        If count is less than 2.
    """
    if count < 2:
        raise ValueError(f"count is {count}, expected >= 2")
    plain = held_at(problem, None)
    first = solve(plain)
    yield None, first
    if first.verdict is not Verdict.SOLVED or first.judged is None:
        return
    top = last = first.judged.f_goal
    for step in range(count - 2, -1, -1):
        level = top * step / (count - 1)
        if level >= last and step:
            continue  # the previous plan keeps this level, so it is the best here too
        found = solve(held_at(problem, level))
        if found.verdict is Verdict.SOLVED:
            assert found.judged is not None
            last = min(last, found.judged.f_goal)
        yield level, found
        if found.verdict is Verdict.INFEASIBLE:
            return  # tighter levels have no plan either
