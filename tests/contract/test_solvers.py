"""The solvers' own contract, kept by built-in ones and by those of other packages."""

from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints
from itertools import product

import numpy as np
import pytest

from dispatcher import strategies
from dispatcher.core import plugins
from dispatcher.core.errors import Invalid, Usage
from policies.judging.judge import judge
from policies.model.measures import MEASURES
from policies.model.problem import Plan
from policies.solvers import ORDERED, PRINTED, SOLVERS, Limits, Solution, Verdict
from policies.solvers.contract import (
    GOALS,
    SolverContract,
    best,
    drawn_problem,
    every_plan,
)
from policies.solvers.interfaces import answer, free_bound, timeless
from policies.solvers.third_party import Foreign
from tests.unit.policies.tiny import Tiny, pairs_of, step


class First:
    """Takes the first plan that the judge takes: slow, and right."""

    def supports(self, problem):
        return problem.n_entries < 8

    def __call__(self, problem, rng, limits):
        for plan in every_plan(problem):
            judged = judge(problem, plan)
            if judged.feasible:
                return Solution(
                    Verdict.SOLVED,
                    plan,
                    value=judged.objective,
                    bound=free_bound(problem),
                    judged=judged,
                )
        return Solution(Verdict.INFEASIBLE, tried=("every plan",))


class Liar:
    """Gives everything to everybody and calls it perfect."""

    def supports(self, problem):
        return True

    def __call__(self, problem, rng, limits):
        n, k = problem.n_entries, problem.n_adversaries
        entry, adversary = np.divmod(np.arange(n * k), max(1, k))
        value = free_bound(problem)
        return Solution(
            Verdict.SOLVED, Plan(entry, adversary), value=value, bound=value
        )


class Denier(Liar):
    """Says that nothing can be planned, ever."""

    def __call__(self, problem, rng, limits):
        return Solution(Verdict.INFEASIBLE, tried=("nothing",))


class Crasher(Liar):
    """Raises."""

    def __call__(self, problem, rng, limits):
        raise KeyError(problem)


class Stranger(Liar):
    """Answers for another problem."""

    def __call__(self, problem, rng, limits):
        return Solution(Verdict.SOLVED, Plan.of([(99, 99)]))


class Widener(Liar):
    """Lifts the limits of what it was given, and plans all for one."""

    def __call__(self, problem, rng, limits):
        for array in (problem.sets.cap, problem.hi, problem.lo):
            array.flags.writeable = True
            array[:] = 1
        object.__setattr__(problem, "capacity", None)
        pairs = ((d, 0) for d in range(problem.n_entries))
        return answer(problem, Plan.of(pairs))


class Leaver(Liar):
    """Ends the program, well."""

    def supports(self, problem):
        raise SystemExit(0)

    def __call__(self, problem, rng, limits):
        raise SystemExit(0)


class Mumbler(Liar):
    """Says what no solution says."""

    def __call__(self, problem, rng, limits):
        return Solution(Verdict.SOLVED, object.__new__(Plan), tried=(1,), stopped=[])


class Unmade(Liar):
    """Wants more than its maker has."""

    def __init__(self, more):
        self.more = more


UNDRAWN = {"exchange", "makespan", "socp-rounding"}  # tradeoffs alone


@pytest.mark.parametrize("name", sorted(SOLVERS.keys() - UNDRAWN))
class TestBuiltIn(SolverContract):
    @pytest.fixture
    def solver(self, name):
        return SOLVERS[name]


class TestFirst(SolverContract):
    @pytest.fixture
    def solver(self):
        return First()


@pytest.mark.parametrize("name", sorted(UNDRAWN))
def test_those_for_tradeoffs_take_problems_without_entries_too(name):
    checks = SolverContract()
    for goal, measure in product(GOALS, MEASURES.values()):
        checks.test_a_problem_without_entries_is_no_trouble(
            SOLVERS[name], goal, measure
        )


OTHERS = [Liar, Denier, Crasher, Stranger, Widener, Leaver, Mumbler]


@pytest.mark.parametrize("other", OTHERS)
class TestWhateverOthersAnswer(SolverContract):
    """The house keeps the contract for them."""

    @pytest.fixture
    def solver(self, other):
        return Foreign(other(), "other")


def test_drawn_problems_are_of_both_kinds():
    tops = [best(seed) for seed in range(12)]
    assert None in tops
    assert sum(top is not None for top in tops) > 4


def test_no_plan_is_called_optimal_on_its_makers_word():
    class Boaster(First):
        """Stops at the first plan, and says that it is the best."""

        def __call__(self, problem, rng, limits):
            found = super().__call__(problem, rng, limits)
            return replace(found, stopped="optimal")

    told = [
        Foreign(Boaster(), "b")(drawn_problem(seed), np.random.default_rng(1), Limits())
        for seed in range(12)
    ]
    solved = [one for one in told if one.verdict is Verdict.SOLVED]
    assert any(one.value < one.bound for one in solved)
    for one in solved:
        assert one.stopped == ("optimal" if one.value == one.bound else "")


def test_a_plan_that_is_refused_is_not_called_optimal():
    """Nothing is worth anything, so that no plan at all is worth as much as the bound."""
    past = Tiny(1, 1, [step(0)], lo=[0], hi=[1], weights=[[0]]).problem()

    class Blind(First):
        def __call__(self, problem, rng, limits):
            return Solution(Verdict.SOLVED, Plan.of([(0, 0)]), stopped="optimal")

    told = Foreign(Blind(), "blind")(past, np.random.default_rng(1), Limits())
    assert (told.verdict, told.value, told.bound) == (Verdict.UNKNOWN, 0, 0)
    assert told.stopped == ""


def test_what_a_solver_does_not_support_it_is_not_given():
    class Shy(Crasher):
        def supports(self, problem):
            return False

    told = Foreign(Shy(), "shy")(drawn_problem(0), np.random.default_rng(1), Limits())
    assert told.verdict is Verdict.UNKNOWN
    assert "does not take" in told.tried[0]


def install(monkeypatch, *points):
    found = EntryPoints(
        EntryPoint(name, f"{__name__}:{target}", strategies.SOLVERS)
        for name, target in points
    )
    for module in (plugins, strategies):
        monkeypatch.setattr(
            module, "entry_points", lambda *, group: found.select(group=group)
        )


def test_a_solver_comes_by_entry_point_and_is_judged(monkeypatch):
    install(monkeypatch, ("first", "First"), ("liar", "Liar"))
    limits, rng = Limits(), np.random.default_rng(1)
    problem = next(drawn_problem(seed) for seed in range(20) if best(seed) is not None)
    assert (
        strategies.find_solver("first")(problem, rng, limits).verdict is Verdict.SOLVED
    )
    told = strategies.find_solver("liar")(problem, rng, limits)
    assert told.verdict is Verdict.UNKNOWN
    assert any("refused" in line for line in told.tried)


@pytest.mark.parametrize(
    ("points", "error", "words"),
    [
        ([], Usage, "no algorithm"),
        ([("first", "install")], Invalid, "is none"),
        ([("first", "nothing")], Invalid, "cannot be loaded"),
        ([("first", "Unmade")], Invalid, "cannot be made"),
        ([("first", "First"), ("first", "Liar")], Invalid, "two packages"),
    ],
)
def test_what_is_no_solver_is_refused(monkeypatch, points, error, words):
    install(monkeypatch, *points)
    with pytest.raises(error, match=words):
        strategies.find_solver("first")


def modest():
    """Drawn problems by each goal, and twenty entries in twelve triples, room for more."""
    for seed, goal in product(range(4), GOALS):
        yield replace(drawn_problem(seed), goal=goal)
    rng = np.random.default_rng(2)
    triples = [step(*rng.choice(20, 3, replace=False).tolist()) for _ in range(12)]
    weights = rng.integers(1, 9, (20, 3)).tolist()
    yield Tiny(20, 3, triples, hi=[2] * 20, weights=weights).problem()


def test_who_goes_entry_by_entry_lets_its_caller_choose_the_order():
    local = (
        name for name, solver in SOLVERS.items() if getattr(solver, "myopic", False)
    )
    assert (*local,) == ORDERED
    for name in ORDERED:
        assert replace(SOLVERS[name], order="input", local="onward") != SOLVERS[name]


@pytest.mark.parametrize("name", sorted(SOLVERS.keys() - PRINTED))
def test_who_has_no_form_in_the_paper_works_alike_in_both_modes(name):
    """With one seed: one plan."""
    solver = SOLVERS[name]
    for problem in filter(solver.supports, modest()):
        safe, paper = (
            solver(
                problem,
                np.random.default_rng(1),
                Limits(0.5, paper=mode, clock=timeless),
            )
            for mode in (False, True)
        )
        assert pairs_of(safe.plan) == pairs_of(paper.plan)
        assert safe.value == paper.value
