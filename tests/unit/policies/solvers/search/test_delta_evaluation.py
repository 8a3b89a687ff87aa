"""Incremental gains equal recomputation by the judge, whatever the function."""

import tracemalloc
from dataclasses import replace
from fractions import Fraction
from math import inf
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.judging.judge import judge
from policies.model.coalitions import Coalitions
from policies.model.links import LinkMeasure, Links
from policies.model.measures import MEASURES, Measure
from policies.model.objective import Objective
from policies.model.problem import Goal, Pairs, Plan, Problem
from policies.model.sets import SetSystem
from policies.model.weights import Weights
from policies.solvers.kernels.plan_state import (
    CLASSES,
    COMMON,
    COSINE,
    LINEAR,
    STEP,
    F,
    U,
)
from policies.solvers.search.delta_evaluation import Gains
from tests.unit.policies.tiny import CUBIC, Made, Tiny, step, tinies


def agrees(gains: Gains) -> None:
    """f, u, complete sets and missing copies are what the judge sees."""
    problem, plan = gains.problem, gains.plan()
    seen = judge(problem, plan)
    f = seen.f_average if problem.goal.average else seen.f
    assert gains.state.total[F] == pytest.approx(float(f), abs=1e-9)
    assert gains.state.total[U] == pytest.approx(float(seen.u), abs=1e-9)
    if problem.links is None:
        assert gains.whole == seen.complete
    degree = np.bincount(plan.entry, minlength=problem.n_entries)
    assert gains.missing == int(np.maximum(problem.lo - degree, 0).sum())


def test_kernels_know_measures_by_their_powers_and_others_by_numbers_below_0():
    """No power of a measure, whichever is added, counts as classes or as a relation."""
    assert (Measure.STEP.power, Measure.LINEAR.power) == (STEP, LINEAR)
    assert 0 > CLASSES > COSINE > COMMON


def pair(d: int, a: int) -> Plan:
    return Plan(np.array([d]), np.array([a]))


def walk(problem: Problem, flips: list[int], **how: bool) -> None:
    """Give and take pairs; after each, the board and the next gain must be right."""
    gains = Gains(problem, paper=True, **how)
    n, k = problem.n_entries, problem.n_adversaries
    for flip in flips if n and k else []:
        d, a = (flip // k) % n, flip % k
        chosen = bool(gains.state.chosen[d, a])
        if not chosen:
            blocked, value, whole = gains.run("assess", d, a, True, inf)
            foreseen = gains.run("risen", a, value), gains.whole + whole
        gains.give(pair(d, a), -1 if chosen else 1)
        if not chosen and not blocked:
            assert gains.state.total[F] == pytest.approx(foreseen[0], abs=1e-9)
            assert gains.whole == foreseen[1]
        agrees(gains)


FLIPS = st.lists(st.integers(0, 11), max_size=12)


@patch.dict(MEASURES, {"cubic": CUBIC})
@given(
    tiny=tinies(tradeoff=True), flips=FLIPS, average=st.booleans(), pool=st.booleans()
)
@settings(max_examples=80, deadline=None)
def test_a_gain_is_what_the_judge_recomputes(tiny, flips, average, pool):
    """Step, any power, classes, trust, history; worst and average; coalitions."""
    problem = tiny.problem()
    goal = replace(problem.goal, average=average)
    groups = Coalitions(any_m=2) if pool and tiny.k > 1 else Coalitions()
    walk(replace(problem, goal=goal, coalitions=groups), flips)


def linked(
    relation: LinkMeasure, goal: Goal, groups: Coalitions | None = None
) -> Problem:
    """Two users at places 0, 1, 2 (entries 0-2 and 3-5), and a link of entry 1 and 4."""
    links = Links(
        relation,
        place=np.array([0, 1, 2, 0, 1, 2]),
        count=np.array([3, 1, 2, 1, 4, 0]),
        link=np.array([0, 0, 0, 0, 0, 0, 1, 1]),
        entry=np.array([0, 1, 2, 3, 4, 5, 1, 1]),
        side=np.array([0, 0, 0, 1, 1, 1, 0, 1]),
        n_links=2,
    )
    return Problem(
        sets=SetSystem(6),
        lo=np.ones(6, np.int64),
        hi=np.full(6, 2),
        weights=Weights.flat(6, 2),
        links=links,
        goal=goal,
        coalitions=groups or Coalitions(),
    )


@pytest.mark.parametrize("relation", list(LinkMeasure))
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("pool", [False, True])
@given(flips=FLIPS)
@settings(max_examples=25, deadline=None)
def test_links_are_counted_as_the_judge_counts_them(relation, average, pool, flips):
    """Cosine can fall when an entry is added; a link of an entry with itself counts."""
    goal = Goal(Objective.TRADEOFF, Fraction(1), Fraction(0), average)
    groups = Coalitions(((0, 1),)) if pool else None
    walk(linked(relation, goal, groups), flips)


def test_the_arithmetic_of_one_small_board():
    """Weights 1, 2, 1 of 4 on entries 0, 1, 2; both adversaries see them.

    0 gets entry 1: f = 2/4. Giving it entry 0 as well makes (2 + 1)/4 = 3/4; giving
    entry 0 to adversary 1 leaves f at max(2/4, 1/4) = 2/4. With the mean over 2 sets
    (one of which is empty) the first makes 3/8.
    """
    sets = [Made({0: 1, 1: 2, 2: 1}, cap=4, full=4), Made({}, cap=1, full=1)]
    goal = Goal(Objective.TRADEOFF, Fraction(1), Fraction(0))
    tiny = Tiny(3, 2, sets, measures=(Measure.LINEAR,), goal=goal)
    gains = Gains(tiny.problem())
    gains.give(pair(1, 0), 1)
    assert gains.state.total[F] == 0.5
    assert gains.run("risen", 0, gains.run("assess", 0, 0, True, inf)[1]) == 0.75
    assert gains.run("risen", 1, gains.run("assess", 0, 1, True, inf)[1]) == 0.5
    mean = Gains(replace(tiny.problem(), goal=replace(goal, average=True)))
    mean.give(pair(1, 0), 1)
    assert mean.run(
        "risen", 0, mean.run("assess", 0, 0, True, inf)[1]
    ) == pytest.approx(0.375)


def numbers(gains: Gains) -> list[object]:
    """All arrays of a search, as lists."""
    return [x.tolist() for x in gains.state if isinstance(x, np.ndarray)]


def test_reset_and_load_leave_no_trace():
    """History stays; the plan goes."""
    tiny = Tiny(3, 2, [step(0, 1, 2)], history=[(0, 0)])
    gains = Gains(tiny.problem())
    before = numbers(gains)
    gains.load(Plan(np.array([1, 2]), np.array([0, 0])))
    assert (gains.whole, gains.missing) == (1, 1)
    gains.reset()
    assert numbers(gains) == before


def test_walls_bar_what_history_makes_unsafe():
    """0 saw entry 0: entry 1 of the pair must go to 1; a pair past its limit alone too."""
    tiny = Tiny(2, 2, [step(0, 1)], history=[(0, 0)], lo=[0, 1], hi=[0, 1])
    gains = Gains(tiny.problem())
    assert gains.run("assess", 1, 0, False, inf)[0]
    assert not gains.run("assess", 1, 1, False, inf)[0]


def test_numba_and_python_run_the_same_function():
    """On memory views below the size, compiled above it; the numbers are the same."""
    rng = np.random.default_rng(5)
    sets = [step(*sorted(set(rng.integers(0, 40, 6).tolist()))) for _ in range(30)]
    goal = Goal(Objective.TRADEOFF, Fraction(1, 2), Fraction(0))
    weights = rng.integers(1, 9, (40, 3)).tolist()
    tiny = Tiny(40, 3, sets, hi=[2] * 40, weights=weights, goal=goal)
    boards = []
    for quick in (False, True):
        gains = Gains(tiny.problem(), quick=quick, every=True)
        best = gains.prepare(1)
        gains.search("construct", np.zeros(80), best, 0, 80)
        gains.run("local", np.arange(40))
        boards.append(gains)
    one, two = (numbers(gains) for gains in boards)
    assert one == two
    assert boards[0].state.chosen.any()


def test_memory_stays_below_200_bytes_a_pair():
    """The state, what reset remembers and what a global construction does."""
    n, k = 2_000, 5
    problem = Problem(
        sets=SetSystem(n),
        lo=np.ones(n, np.int64),
        hi=np.ones(n, np.int64),
        weights=Weights.flat(n, k),
        history=Pairs(),
    )
    gains = Gains(problem, every=True, quick=False)
    gains.prepare(1)
    assert 0 < gains.nbytes / (n * k) < 200


def test_making_a_board_stays_below_200_bytes_a_pair_too():
    """Triples, three an entry: what is allocated at its highest, kernels compiled."""
    n, k = 6_000, 5
    ends = np.arange(n)[:, None] + np.array([[0, 1, 2]])
    sets = SetSystem(
        n,
        ("triples",),
        (Measure.LINEAR,),
        np.zeros(n, np.int64),
        3 * np.arange(n + 1),
        np.sort(ends % n, axis=1).reshape(-1),
        np.ones(3 * n, np.int64),
        np.full(n, 3),
        np.full(n, 3),
        np.zeros(n, np.bool_),
    )
    problem = Problem(sets, np.ones(n, np.int64), np.full(n, 2), Weights.flat(n, k))
    Gains(problem, every=True).prepare(1)  # compiled before anything is counted
    tracemalloc.start()
    Gains(problem, every=True).prepare(1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0 < peak / (n * k) < 200


def test_all_hands_that_see_a_gain_count_as_its_cost():
    """Any three of 12 pool: each is seen by itself and 55 coalitions, so it is compiled."""
    sets = [step(*range(i, i + 5)) for i in range(20)]
    alone = Tiny(24, 12, sets).problem()
    one, all_ = Gains(alone), Gains(replace(alone, coalitions=Coalitions(any_m=3)))
    assert (one.quick, all_.quick) == (False, True)
    assert all_.rows == 56 * one.rows
    assert all_.around == 56 * one.around
