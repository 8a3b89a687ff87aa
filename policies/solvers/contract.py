"""The test suite that every solver must pass, for third parties too.

Subclass :class:`SolverContract` in a test file and define the fixture ``solver``;
pytest does the rest::

    class TestMySolver(SolverContract):
        @pytest.fixture
        def solver(self):
            return MySolver()

A package offers its solver by an entry point of the group ``sparsi_dispatcher.solvers``:
a name, and the solver or its class. The suite draws small problems and knows their
optimum from enumerating all plans.
"""

# A test's name is its sentence; a docstring would say it twice.
# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import combinations, product

import numpy as np
import pytest

from policies.judging.judge import judge
from policies.model.measures import MEASURES, Measure
from policies.model.objective import Objective
from policies.model.problem import Goal, Pairs, Plan, Problem
from policies.model.sets import NO_CAP, SetSystem
from policies.model.weights import Weights
from policies.solvers.interfaces import Limits, Solution, Solver, Verdict

SEEDS = range(8)
# Half and twice give the same 40 verdicts, values and bounds: six solvers, what they support.
WORK = 2.0  # of each call: drawn problems have a few entries
GOALS = (
    Goal(),
    Goal(Objective.TRADEOFF, Fraction(1), Fraction(1)),
    Goal(Objective.TRADEOFF, Fraction(1), Fraction(1), average=True),
)


def drawn_problem(seed: int) -> Problem:
    """Draw a small problem: at most four entries, three adversaries, four sets.

    Odd seeds have weighted sets, every third history, every fourth a capacity.
    """
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    measure = Measure.LINEAR if seed % 2 else Measure.STEP
    members = [
        np.sort(rng.choice(n, size=int(rng.integers(2, n + 1)), replace=False))
        for _ in range(int(rng.integers(1, 5)))
    ]
    size = np.array([len(inside) for inside in members], np.int64)
    sets = SetSystem(
        n_entries=n,
        properties=("drawn",),
        measures=(measure,),
        owner=np.zeros(len(members), np.int64),
        start=np.concatenate([[0], np.cumsum(size)]).astype(np.int64),
        entry=np.concatenate(members).astype(np.int64),
        amount=np.ones(int(size.sum()), np.int64),
        cap=size - 1,
        full=size,
        classes=np.zeros(len(members), np.bool_),
    )
    few = np.full(k, n, np.int64) if seed % 4 == 3 else None
    return Problem(
        sets=sets,
        lo=np.ones(n, np.int64),
        hi=np.full(n, min(2, k), np.int64),
        weights=Weights.scaled(
            np.zeros(n, np.int64),
            rng.integers(1, 9, n) / 8,
            rng.integers(0, 9, (k, 1)) / 8,
            steps=64,
        ),
        capacity=few,
        history=Pairs.of([(0, 0)] if seed % 3 == 0 else []),
        goal=Goal(),
    )


def every_plan(problem: Problem) -> Iterator[Plan]:
    """Yield all plans with the copies required."""
    k = problem.n_adversaries
    choices = [
        [
            chosen
            for size in range(int(lo), int(hi) + 1)
            for chosen in combinations(range(k), size)
        ]
        for lo, hi in zip(problem.lo, problem.hi, strict=True)
    ]
    for plan in product(*choices):
        yield Plan.of((d, a) for d, given in enumerate(plan) for a in given)


@cache
def best(seed: int) -> Fraction | None:
    """Return the highest objective of a drawn problem's plans; None if it has none."""
    problem = drawn_problem(seed)
    values = (judge(problem, plan) for plan in every_plan(problem))
    return max((j.objective for j in values if j.feasible), default=None)


class SolverContract:
    """What every solver must guarantee."""

    @pytest.fixture
    def solver(self) -> Solver:
        raise NotImplementedError("give the fixture `solver` in your own class")

    def solve(self, solver: Solver, seed: int) -> tuple[Problem, Solution]:
        problem = drawn_problem(seed)
        if not solver.supports(problem):
            pytest.skip("the solver does not support this problem")
        limits = Limits(work=WORK)
        return problem, solver(problem, np.random.default_rng(seed), limits)

    def test_it_supports_some_problem(self, solver: Solver) -> None:
        assert any(solver.supports(drawn_problem(seed)) for seed in SEEDS)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_a_plan_keeps_every_limit_and_its_value_is_the_judges(
        self, solver: Solver, seed: int
    ) -> None:
        problem, found = self.solve(solver, seed)
        if found.verdict is Verdict.SOLVED:
            judged = judge(problem, found.plan)
            assert judged.violations == ()
            assert found.value == judged.objective

    @pytest.mark.parametrize("seed", SEEDS)
    def test_a_bound_is_never_below_the_optimum(
        self, solver: Solver, seed: int
    ) -> None:
        _, found = self.solve(solver, seed)
        top = best(seed)
        if top is not None:
            assert found.value <= top or found.verdict is not Verdict.SOLVED
            assert found.bound >= top

    @pytest.mark.parametrize("seed", SEEDS)
    def test_it_never_says_that_there_is_no_plan_where_there_is_one(
        self, solver: Solver, seed: int
    ) -> None:
        _, found = self.solve(solver, seed)
        if found.verdict is Verdict.INFEASIBLE:
            assert best(seed) is None
        if found.verdict is not Verdict.SOLVED:
            assert found.tried or found.cores

    @pytest.mark.parametrize("seed", SEEDS)
    def test_the_same_seed_gives_the_same_plan(self, solver: Solver, seed: int) -> None:
        _, one = self.solve(solver, seed)
        _, two = self.solve(solver, seed)
        assert one.plan.entry.tolist() == two.plan.entry.tolist()
        assert one.plan.adversary.tolist() == two.plan.adversary.tolist()

    @pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
    @pytest.mark.parametrize("goal", GOALS)
    def test_a_problem_without_entries_is_no_trouble(
        self, solver: Solver, goal: Goal, measure: Measure
    ) -> None:
        empty = np.zeros(1, np.int64)
        nothing = Problem(
            sets=SetSystem(
                n_entries=0,
                properties=("empty",),
                measures=(measure,),
                owner=empty,
                start=np.zeros(2, np.int64),
                cap=empty + NO_CAP,
                full=empty + 1,
                classes=empty > 0,
            ),
            lo=np.empty(0, np.int64),
            hi=np.empty(0, np.int64),
            weights=Weights.scaled(
                np.empty(0, np.int64), np.empty(0), np.ones((1, 1)), steps=1
            ),
            capacity=np.array([NO_CAP]),
            goal=goal,
        )
        if solver.supports(nothing):
            found = solver(nothing, np.random.default_rng(0), Limits(work=WORK))
            assert len(found.plan) == 0
