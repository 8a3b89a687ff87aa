"""CP-SAT: one call keeps to the limit of time, and only what is alike is ordered."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ortools.sat.python import cp_model

from policies.model.measures import Measure
from policies.model.problem import Average, Coalitions, Plan
from policies.model.sets import NO_CAP
from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.exact import cpsat
from policies.solvers.exact.cpsat import build
from tests.unit.policies.solvers.test_graphs import mycielski
from tests.unit.policies.tiny import Made, Tiny, step


def test_one_call_has_the_time_that_the_model_left(monkeypatch):
    """A clock of one second a look: what making the model took is gone, no more."""
    seen = []
    run = cp_model.CpSolver.solve

    def watched(solver, *rest):
        seen.append(solver.parameters.max_time_in_seconds)
        return run(solver, *rest)

    monkeypatch.setattr(cp_model.CpSolver, "solve", watched)
    ticks = count()
    limits = Limits(seconds=100, clock=lambda: float(next(ticks)))
    tiny = Tiny(3, 2, [step(0, 1, 2)], weights=[[1, 2], [3, 1], [2, 2]])
    found = cpsat.search_plan(tiny.problem(), np.random.default_rng(0), limits)
    assert found.verdict is Verdict.SOLVED
    assert found.value == found.bound == 7
    assert len(seen) == 1
    assert 50 < seen[0] < 100


def test_the_plan_held_is_never_given_away():
    """No work at all: the plan that the search began with is the answer."""
    tiny = Tiny(3, 2, [step(0, 1, 2)], weights=[[1, 2], [3, 1], [2, 2]])
    problem, held = tiny.problem(), Plan.of([(0, 1), (1, 0), (2, 1)])
    rng, limits = np.random.default_rng(0), Limits(work=1e-12)
    found = cpsat.search_plan(problem, rng, limits, hint=held)
    assert (found.verdict, found.value) == (Verdict.SOLVED, 7)
    assert found.bound >= 7


def test_a_search_that_ends_before_it_began_bounds_nothing():
    """CP-SAT names 0 as its bound then; taken for proven, any plan would be optimal."""
    tiny = Tiny(3, 2, [step(0, 1, 2)], weights=[[1, 2], [3, 1], [2, 2]])
    built = cpsat.build(tiny.problem())
    built.model.maximize(sum(built.variables))
    limits = Limits(work=1e-12)
    plan, state, bound, _ = cpsat.run_model(built, np.random.default_rng(0), limits)
    assert (plan, state, bound) == (None, "unknown", float("inf"))


def averaged():
    """Two sets of two at most half disclosed on average: one entry of them each."""
    made = [Made({0: 1, 1: 1}, NO_CAP, 2), Made({1: 1, 2: 1}, NO_CAP, 2)]
    tiny = Tiny(3, 2, made, measures=(Measure.LINEAR,))
    return replace(tiny.problem(), averages=(Average((0,), Fraction(1, 2), over=2),))


@pytest.mark.parametrize("made", [0, 1, 3])
def test_a_model_that_is_not_made_in_time_is_not_searched(monkeypatch, made):
    """What is left out of it may be what leaves no plan: no verdict, and a bound."""
    monkeypatch.setattr(cp_model.CpSolver, "solve", None)
    looks = iter([False] * made)
    limits = Limits(stopped=lambda: next(looks, True))
    for problem in (averaged(), Tiny(3, 2, [step(0, 1), step(1, 2)]).problem()):
        rng = np.random.default_rng(0)
        found = cpsat.search_plan(problem, rng, limits, sums=True)
        assert (found.verdict, found.bound) == (Verdict.UNKNOWN, 3)
        assert cpsat.clashing(problem, rng, limits) is None


def test_rows_of_means_count_as_size():
    """Of 200,000 members and adversaries; caps on single sets alone are swift."""
    problem = averaged()
    assert cpsat.CpSat().supports(problem)
    wide = replace(problem, sets=repeated(problem.sets, 30_000))
    assert not cpsat.CpSat().supports(wide)
    assert cpsat.CpSat().supports(replace(wide, averages=()))


def repeated(sets, times):
    """The same sets again and again."""
    members = np.tile(np.arange(sets.n_sets), times)
    return sets.select(np.arange(3), members)


def test_adversaries_of_unequal_groups_are_not_alike():
    """0 pools with everybody: entry 0 must go to 1 or 2, the other one to the other."""
    tiny = Tiny(2, 3, [step(0, 1)])
    pooled = replace(tiny.problem(), coalitions=Coalitions(((0, 1), (0, 2))))
    found = cpsat.search_plan(pooled, np.random.default_rng(0), Limits())
    assert found.verdict is Verdict.SOLVED
    assert sorted(found.plan.adversary.tolist()) == [1, 2]


def test_with_groups_the_most_wanted_entry_may_go_to_anybody():
    """The centre of a star goes to 2, who pools with nobody; all leaves to 0 and 1."""
    star = [step(0, leaf) for leaf in range(1, 6)]
    tiny = Tiny(6, 3, star, lo=[1] * 6, hi=[2] * 6)
    pooled = replace(tiny.problem(), coalitions=Coalitions(((0, 1),)))
    found = cpsat.search_plan(pooled, np.random.default_rng(0), Limits())
    assert found.value == found.bound == 11


@st.composite
def pooled_problems(draw):
    n, k = draw(st.integers(2, 4)), draw(st.integers(2, 3))
    some = st.lists(st.integers(0, n - 1), unique=True, min_size=2)
    sets = [step(*members) for members in draw(st.lists(some, max_size=3))]
    group = st.lists(st.integers(0, k - 1), unique=True, min_size=2)
    groups = draw(st.lists(group.map(sorted).map(tuple), unique=True, max_size=2))
    tiny = Tiny(n, k, sets, hi=[draw(st.integers(1, 2)) for _ in range(n)])
    return tiny, tuple(groups)


@pytest.mark.parametrize("name", ["cp-sat", "auto", "milp"])
@given(case=pooled_problems())
@settings(max_examples=40, deadline=None)
def test_groups_give_the_optimum_of_trying_all_plans(name, case):
    tiny, groups = case
    hands = [(a,) for a in range(tiny.k)] + list(groups)

    def keeps(pairs):
        held = [{d for d, a in pairs if a in hand} for hand in hands]
        return not any(set(one.members) <= h for one in tiny.sets for h in held)

    best = max((tiny.utility(p) for p in tiny.plans() if keeps(p)), default=None)
    problem = replace(tiny.problem(), coalitions=Coalitions(groups))
    solver = SOLVERS[name]
    assert solver.supports(problem)
    found = solver(problem, np.random.default_rng(0), Limits())
    if best is None:
        assert found.verdict is Verdict.INFEASIBLE
    else:
        assert found.verdict is Verdict.SOLVED
        assert found.value == best <= found.bound


def triples(n, m, k):
    """Random sets of three entries; whole weights of 1 to 9."""
    rng = np.random.default_rng(0)
    sets = [step(*rng.choice(n, 3, replace=False).tolist()) for _ in range(m)]
    return Tiny(n, k, sets, weights=rng.integers(1, 10, (n, k)).tolist()).problem()


@pytest.mark.parametrize(
    ("sizes", "work", "ruled"),
    [
        ((400, 400, 3), 0.3, False),
        ((280, 280, 3), 0.3, False),
        ((80, 160, 2), 0.3, True),
    ],
)
def test_easy_colourings_are_proven_by_a_relaxation_and_strained_ones_by_rules(
    sizes, work, ruled
):
    """Without one, ten times the work leaves 1 % open of the easy ones."""
    problem = triples(*sizes)
    built = cpsat.build(problem)
    assert built is not None
    assert built.ruled is ruled
    found = SOLVERS["cp-sat"](problem, np.random.default_rng(0), Limits(work=work))
    assert found.stopped == "optimal"
    assert found.value == found.bound


def mixed(n, m, seed):
    """Random sets of two or three entries for three; a second copy where it is worth it."""
    rng = np.random.default_rng(seed)
    sets = [
        step(*rng.choice(n, int(rng.integers(2, 4)), replace=False).tolist())
        for _ in range(m)
    ]
    weights = rng.integers(1, 1000, (n, 3)).tolist()
    return Tiny(n, 3, sets, hi=[2] * n, weights=weights).problem()


def test_second_copies_do_not_hide_that_a_colouring_is_strained():
    """Led by a relaxation, ten times the work leaves it open: what counts is whether the
    copies that are owed have few places to go."""
    problem = mixed(70, 230, seed=2)
    assert cpsat.build(problem).ruled
    found = SOLVERS["cp-sat"](problem, np.random.default_rng(0), Limits(work=0.3))
    assert found.stopped == "optimal"
    assert not cpsat.build(mixed(80, 200, seed=2)).ruled


def test_adversaries_who_are_alike_are_told_apart_by_the_engine_alone():
    """myciel5 in five colours, which is none: with a first entry placed, and led by a
    relaxation, ten times the work did not refute it."""
    n, edges = mycielski(5)
    problem = Tiny(n, 5, [step(*edge) for edge in edges]).problem()
    found = SOLVERS["cp-sat"](problem, np.random.default_rng(0), Limits(work=3.0))
    assert found.verdict is Verdict.INFEASIBLE


@pytest.mark.parametrize(
    "change",
    [
        {"weights": [[1, 2, 1, 1]] * 3},  # adversaries differ
        {"hi": [2, 1, 1]},  # there is something to gain
        {"sets": [Made({0: 1, 1: 1, 2: 1}, cap=1, full=3)]},  # not whole sets alone
    ],
)
def test_only_colourings_without_utility_are_left_to_rules(change):
    plain = Tiny(3, 4, [step(0, 1, 2)])
    assert build(plain.problem()).ruled
    assert not build(replace(plain, **change).problem()).ruled


def test_a_plan_found_without_regard_to_utility_is_renamed_to_the_best_adversaries():
    """Six entries that exclude one another: plans differ by the names of adversaries."""
    weights = np.random.default_rng(7).integers(1, 100, (6, 6)).tolist()
    clique = [step(a, b) for a, b in combinations(range(6), 2)]
    problem = Tiny(6, 6, clique, weights=weights).problem()
    limits = Limits(work=1.0)
    any_plan = cpsat.search_plan(
        problem, np.random.default_rng(0), limits, utility=False
    )
    best = cpsat.exactly(problem, np.random.default_rng(0), limits)
    assert any_plan.value == best.value
    assert best.stopped == "optimal"


def test_adversaries_with_limits_of_their_own_keep_their_names():
    """Entry 1 is forbidden to adversary 0, with whom it would be worth most."""
    problem = Tiny(
        2, 2, [step(0, 1)], weights=[[1, 1], [9, 1]], forbidden=[(1, 0)]
    ).problem()
    found = cpsat.search_plan(
        problem, np.random.default_rng(0), Limits(work=1.0), utility=False
    )
    assert list(found.plan) == [(0, 0), (1, 1)]
