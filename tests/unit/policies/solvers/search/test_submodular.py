"""Solvers of submodular utilities: against brute force, and what they promise."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.judging.judge import judge
from policies.model.measures import Measure
from policies.model.objective import Objective
from policies.model.problem import Goal, Plan, Problem
from policies.model.sets import NO_CAP, InvalidProblem
from policies.model.utility_functions import (
    Additive,
    ConcaveOverModular,
    Coverage,
    FacilityLocation,
    Utilities,
)
from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.rounding.continuous_greedy import theta
from tests.unit.policies.tiny import Made, Tiny, pairs_of, step

NAMES = ("submodular", "continuous-greedy", "auto")
EACH = pytest.mark.parametrize("name", NAMES)


def functions(rng: np.random.Generator, kind: str, n: int, k: int) -> Utilities:
    """One function a worker, all of one kind."""
    made = []
    for _ in range(k):
        weights = tuple(rng.integers(0, 5, n).tolist())
        topics = [frozenset(rng.permutation(4)[: d % 3 + 1].tolist()) for d in range(n)]
        serves = tuple(tuple(row) for row in rng.integers(0, 5, (3, n)).tolist())
        made.append(
            {
                "root": ConcaveOverModular(weights, "root"),
                "log": ConcaveOverModular(weights, "log"),
                "cap": ConcaveOverModular(weights, "cap", 6.0),
                "coverage": Coverage(tuple(topics), (1.0, 2.0, 3.0, 4.0)),
                "facility": FacilityLocation(serves),
                "foreign": lambda held, w=weights: math.sqrt(sum(w[d] for d in held)),
            }[kind]
        )
    return Utilities(tuple(made), tuple(Fraction(a + 1, 2) for a in range(k)))


KINDS = ("root", "log", "cap", "coverage", "facility", "foreign")


def best_of(tiny: Tiny, utilities: Utilities) -> Fraction | None:
    """u of the best plan, by trying all."""
    found = [
        utilities.total(
            [frozenset(d for d, b in pairs if b == a) for a in range(tiny.k)]
        )
        for pairs in tiny.plans()
        if tiny.feasible(pairs)
    ]
    return max(found, default=None)


def linear(members: dict[int, int], owner: int = 0) -> Made:
    """A set without a limit of its own, disclosed by shares."""
    return Made(members, NO_CAP, sum(members.values()), owner)


def solved(name: str, problem: Problem, seed: int = 0):
    return SOLVERS[name](problem, np.random.default_rng(seed), Limits(work=2.0))


@EACH
@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 10**6), free=st.booleans())
@settings(max_examples=30)
def test_value_is_at_least_half_and_the_bound_never_below_the_best(
    name, kind, seed, free
):
    """Brute force over 4 entries and 3 workers; half is promised where copies bind."""
    rng = np.random.default_rng(seed)
    sets = [] if free else [step(*rng.permutation(4)[:2].tolist()) for _ in range(3)]
    tiny = Tiny(4, 3, sets, lo=[1] * 4, hi=[2] * 4)
    utilities = functions(rng, kind, 4, 3)
    best = best_of(tiny, utilities)
    found = solved(name, replace(tiny.problem(), utilities=utilities), seed)
    if best is None:
        assert found.verdict is Verdict.INFEASIBLE
        return
    assert found.verdict is Verdict.SOLVED
    assert tiny.feasible(pairs_of(found.plan))
    assert float(found.value) <= float(best) + 1e-9
    assert float(found.bound) >= float(best) - 1e-9
    if free:
        assert float(found.value) >= float(best) / 2 - 1e-9


@EACH
def test_a_clash_without_a_plan_is_told_whatever_u_is(name):
    """A triangle of pairs and two workers."""
    triangle = Tiny(3, 2, [step(a, b) for a, b in combinations(range(3), 2)])
    utilities = functions(np.random.default_rng(0), "root", 3, 2)
    found = solved(name, replace(triangle.problem(), utilities=utilities))
    assert found.verdict is Verdict.INFEASIBLE
    assert found.core is not None


@pytest.mark.parametrize("name", sorted(set(SOLVERS) - set(NAMES)))
def test_solvers_of_sums_over_pairs_decline(name):
    """Their values and bounds would be those of another problem."""
    tiny = Tiny(3, 2, [step(0, 1)])
    utilities = functions(np.random.default_rng(0), "root", 3, 2)
    problem = replace(tiny.problem(), utilities=utilities)
    assert not SOLVERS[name].supports(problem)
    tradeoff = replace(problem, goal=Goal(Objective.TRADEOFF, average=True))
    assert not SOLVERS[name].supports(tradeoff)


@pytest.mark.parametrize("name", ["submodular", "continuous-greedy"])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=20)
def test_additive_functions_are_the_same_problem_as_weights(name, seed):
    """The plan of lowest risk of a wrong gain: both ways of saying u agree."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 9, (5, 3)).tolist()
    tiny = Tiny(5, 3, [step(0, 1, 2), step(2, 3)], weights=weights, hi=[2] * 5)
    columns = tuple(Additive(tuple(row[a] for row in weights)) for a in range(3))
    said = Utilities(columns, (Fraction(1),) * 3)
    by_weights = solved(name, tiny.problem(), seed)
    by_functions = solved("submodular", replace(tiny.problem(), utilities=said), seed)
    assert by_functions.value == judge(tiny.problem(), by_functions.plan).objective
    assert min(by_weights.bound, by_functions.bound) >= by_weights.value


@given(
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 10**6),
    average=st.booleans(),
    held=st.booleans(),
)
@settings(max_examples=15, deadline=None)
def test_a_tradeoff_is_no_worse_than_any_plan_one_step_away(kind, seed, average, held):
    """Brute force over 4 entries and 2 workers: the bound is never below the best."""
    rng = np.random.default_rng(seed)
    sets = [linear(dict.fromkeys(rng.permutation(4)[:3].tolist(), 1)) for _ in range(3)]
    goal = Goal(Objective.TRADEOFF, Fraction(3), average=average)
    history = [(0, 1)] if held else []
    shares = (Measure.LINEAR,)
    tiny = Tiny(4, 2, sets, shares, hi=[2] * 4, goal=goal, history=history)
    problem = replace(tiny.problem(), utilities=functions(rng, kind, 4, 2))
    values = {
        frozenset(pairs): judge(problem, Plan.of(pairs)).objective
        for pairs in tiny.plans()
    }
    with patch("policies.solvers.diminishing.listable", return_value=False):
        found = solved("auto", problem, seed)
    assert found.verdict is Verdict.SOLVED
    assert float(found.bound) >= float(max(values.values())) - 1e-9
    mine = frozenset(pairs_of(found.plan))
    assert found.value == values[mine]
    beside = [v for pairs, v in values.items() if len({d for d, _ in pairs ^ mine}) < 2]
    assert found.value == max(beside)


def test_a_tradeoff_gives_up_u_where_f_costs_more():
    """The most u is .917 at f = .8; less disclosure is worth more: .817 at .55."""
    sets = [linear({0: 5, 1: 5}), linear({0: 6, 2: 2, 3: 2}, owner=1)]
    goal = Goal(Objective.TRADEOFF, Fraction(1), average=True)
    serves = (1.0, 0.0, 0.0, 0.5), (0.0, 1.0, 1.0, 0.0)
    one = FacilityLocation(serves)
    two = Utilities((one, one), (Fraction(1, 3), Fraction(1, 6)))
    tiny = Tiny(4, 2, sets, (Measure.LINEAR,) * 2, goal=goal)
    problem = replace(tiny.problem(), utilities=two)
    every = [Plan.of(enumerate(row)) for row in product(range(2), repeat=4)]
    most = max(judge(problem, plan).objective for plan in every)
    assert solved("auto", problem).bound == most
    with patch("policies.solvers.diminishing.listable", return_value=False):
        found = solved("auto", problem)
    assert found.value == most
    assert found.bound < found.value + Fraction(1, 2)
    assert found.stopped == "gap"
    limits = Limits(work=2.0, stopped=lambda: True)
    cut = SOLVERS["auto"](problem, np.random.default_rng(0), limits)
    assert (cut.verdict, cut.stopped) == (Verdict.SOLVED, "interrupt")


def test_large_sets_are_sealed_with_the_promised_share_of_u():
    """R1: 40 sets of 80 entries, 10 workers; (1 - 1/e)(1 - theta) of u without limits."""
    rng = np.random.default_rng(5)
    n, k = 160, 10
    sets = [step(*rng.permutation(n)[:80].tolist()) for _ in range(40)]
    tiny = Tiny(n, k, sets, lo=[1] * n, hi=[2] * n)
    utilities = functions(rng, "root", n, k)
    problem = replace(tiny.problem(), utilities=utilities)
    share = theta(problem)
    assert 0 < share < 0.2
    free = solved(
        "submodular", replace(Tiny(n, k, hi=[2] * n).problem(), utilities=utilities)
    )
    found = solved("continuous-greedy", problem)
    assert found.verdict is Verdict.SOLVED
    promised = (1 - 1 / math.e) * (1 - share) * float(free.value)
    assert float(found.value) >= promised
    assert float(found.value) >= 0.97 * float(free.value)  # far more in practice


@pytest.mark.parametrize("kind", KINDS)
def test_gains_are_recomputations(kind):
    """gain = u with the entry - u without, for every set of 5 entries."""
    utilities = functions(np.random.default_rng(7), kind, 5, 2)
    for a, mask in product(range(2), product([False, True], repeat=5)):
        held = np.array(mask)
        now = frozenset(np.flatnonzero(held).tolist())
        u = utilities.functions[a]
        want = [float(utilities.scale[a]) * (u(now | {d}) - u(now)) for d in range(5)]
        assert np.allclose(utilities.gains(a, held), want, atol=1e-12)


def test_history_counts_for_limits_and_not_for_u():
    """Worker 0 saw entry 0: entry 1 must go to worker 1, who is worth nothing."""
    tiny = Tiny(2, 2, [step(0, 1)], lo=[0, 1], hi=[0, 1], history=[(0, 0)])
    utilities = Utilities(
        (Additive((1.0, 1.0)), Additive((0.0, 0.0))), (Fraction(1),) * 2
    )
    found = solved("submodular", replace(tiny.problem(), utilities=utilities))
    assert pairs_of(found.plan) == {(1, 1)}
    assert found.value == 0


def test_utilities_must_fit_the_workers():
    """One function too few."""
    tiny = Tiny(1, 2)
    with pytest.raises(InvalidProblem, match="1 utilities, expected 2"):
        replace(
            tiny.problem(), utilities=Utilities((Additive((1.0,)),), (Fraction(1),))
        )


def test_parts_of_a_problem_keep_their_functions():
    """Entries 2 and 3 alone, renumbered: u is what it was of them."""
    tiny = Tiny(4, 1, weights=[[1]] * 4)
    u = Additive((1.0, 2.0, 4.0, 8.0))
    problem = replace(tiny.problem(), utilities=Utilities((u,), (Fraction(1),)))
    part = problem.select(np.array([2, 3]), np.empty(0, np.int64))
    assert judge(part, Plan.of([(0, 0), (1, 0)])).u == 12
