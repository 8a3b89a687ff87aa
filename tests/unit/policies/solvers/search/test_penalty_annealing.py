"""Annealing across limits comes back within them, and close to the best plan."""

from dataclasses import replace
from itertools import combinations, count

import numpy as np
import pytest
from hypothesis import given, settings

from policies.model.coalitions import Coalitions
from policies.model.problem import Average, Plan
from policies.solvers import Limits, Verdict
from policies.solvers.kernels import annealing as kernel
from policies.solvers.kernels.compiling import kernels
from policies.solvers.kernels.plan_state import DEGREE, GIVEN, U
from policies.solvers.search.annealing import (
    PenaltyAnnealer,
    anneal_across,
    crossable,
)
from tests.unit.policies.tiny import Made, Tiny, step, tinies

SHORT = Limits(work=0.02)


def ring(n=5, k=2, **more):
    """Pairs of neighbours, none of which one adversary may hold."""
    rows = [[1 + (3 * d + 2 * a) % 7 for a in range(k)] for d in range(n)]
    sets = [step(d, (d + 1) % n, (d + 2) % n) for d in range(n)]
    return Tiny(n, k, sets, weights=rows, **more)


def laid_out(crossing):
    """A drawn plan, what annealing keeps beside it, and its numbers."""
    state = crossing.arrays.state(crossing._drawn())
    extra = crossing.arrays.annealing(state, smooth=False)
    extra.sums[kernel.OVER] = np.maximum(state.load - extra.cap, 0).sum()
    state.total[U] = state.worth[state.chosen].sum()
    numbers = np.zeros(kernel.NUMBERS)
    numbers[kernel.BEST] = -np.inf
    return state, extra, numbers


def annealed(tiny, start=None, limits=SHORT):
    return anneal_across(tiny.problem(), start, np.random.default_rng(0), limits)


@pytest.mark.parametrize(
    "tiny",
    [
        ring(),
        ring(6, 3, hi=[2] * 6),
        ring(5, 3, lo=[0, 1, 1, 2, 0], hi=[0, 2, 1, 3, 1]),
        ring(5, 3, hi=[2] * 5, forbidden=[(0, 0), (3, 1)]),
        ring(5, 2, trusted=[[True, False]]),
    ],
    ids=["colouring", "copies", "uneven", "forbidden", "trusted"],
)
def test_rings_are_planned_as_well_as_by_trying_all(tiny):
    found = annealed(tiny)
    assert found.verdict is Verdict.SOLVED
    assert found.value == tiny.best() <= found.bound


@settings(max_examples=60, deadline=None)
@given(tinies())
def test_what_is_told_keeps_all_limits(tiny):
    """A plan is found only where there is one, and is never better than the best."""
    problem = tiny.problem()
    if not crossable(problem):
        return
    found = annealed(tiny, limits=Limits(work=0.001))
    best = tiny.best()
    if found.verdict is Verdict.SOLVED:
        assert best is not None
        assert found.value <= best <= found.bound
    assert best is None or best <= found.bound


def test_three_neighbours_at_two_adversaries_have_no_plan():
    """An odd ring of pairs: a price is paid to the end, and no plan is told."""
    found = annealed(Tiny(3, 2, [step(*pair) for pair in combinations(range(3), 2)]))
    assert found.verdict is Verdict.UNKNOWN
    assert not len(found.plan)
    assert found.bound == 3


def test_an_entry_with_too_few_places_is_not_searched_for():
    found = annealed(Tiny(2, 2, [step(0, 1)], lo=[2, 1], hi=[2, 1], forbidden=[(0, 1)]))
    assert found.verdict is Verdict.UNKNOWN


def test_the_plan_to_start_from_comes_back_where_there_is_no_time():
    tiny = ring()
    start = Plan.of([(0, 0), (1, 1), (2, 0), (3, 1), (4, 1)])
    assert tiny.feasible({(0, 0), (1, 1), (2, 0), (3, 1), (4, 1)})
    ticks = count()
    limits = Limits(seconds=0.5, clock=lambda: float(next(ticks)))
    found = annealed(tiny, start, limits)
    assert found.plan.adversary.tolist() == start.adversary.tolist()
    assert found.stopped == "time"


def test_a_plan_at_the_bound_ends_it():
    """All weights 1: any plan is the best, and no second run is made."""
    problem = Tiny(6, 2, [step(d, d + 1) for d in range(5)]).problem()
    crossing = PenaltyAnnealer(problem, np.random.default_rng(0), Limits())
    assert crossing.anneal(10**12, 6.0) == "gap"
    assert crossing.runs == 1
    found = anneal_across(problem, None, np.random.default_rng(0), Limits())
    assert (found.value, found.stopped) == (6, "optimal")


def test_a_stop_that_is_asked_for_ends_it():
    found = annealed(ring(), limits=Limits(stopped=lambda: True))
    assert found.stopped == "interrupt"


def test_the_same_draws_give_the_same_plan():
    plans = [annealed(ring(6, 3, hi=[2] * 6)).plan for _ in range(2)]
    assert plans[0].adversary.tolist() == plans[1].adversary.tolist()


def test_crossings_raise_the_price_and_plans_lower_it():
    """No plan: 1.5, then a quarter more. A plan: it falls, down to the least price."""
    none = Tiny(3, 2, [step(0, 1), step(0, 2), step(1, 2)])
    prices = []
    for tiny in (none, ring()):
        run = PenaltyAnnealer(tiny.problem(), np.random.default_rng(0), SHORT)
        run.run(10_000)
        prices.append(run.price)
    assert prices == [1.5 * 1.25, 1.5 * 0.92]


def test_what_a_walk_counts_is_what_there_is():
    """Loads, degrees, crossings and utility after 20,000 steps, by hand."""
    problem = ring(7, 3, hi=[2] * 7).problem()
    crossing = PenaltyAnnealer(problem, np.random.default_rng(1), SHORT)
    state, extra, numbers = laid_out(crossing)
    numbers[kernel.PRICE], numbers[kernel.TEMPERATURE] = 2.0, 3.0
    draws = np.random.default_rng(2).random((20_000, kernel.DRAWS_ACROSS))
    anneal = kernels("annealing", quick=True)["anneal_across"]
    anneal(state, extra, numbers, draws)
    rows = np.zeros((7, 7), np.int64)
    for one in range(7):
        rows[one, problem.sets.members(one)] = 1
    load = rows @ state.chosen
    assert (state.load == load).all()
    assert (state.entry[:-1, DEGREE] == state.chosen.sum(axis=1)).all()
    assert (state.adversary[:-1, GIVEN] == state.chosen.sum(axis=0)).all()
    assert extra.sums[kernel.OVER] == np.maximum(load - 2, 0).sum()
    assert state.total[U] == pytest.approx(state.worth[state.chosen].sum())


def test_the_compiled_walk_takes_the_same_steps():
    problem = ring(6, 3, hi=[2] * 6).problem()
    ends = []
    quick = kernels("annealing", quick=True)["anneal_across"]
    for anneal in (kernel.anneal_across, quick):
        crossing = PenaltyAnnealer(problem, np.random.default_rng(1), SHORT)
        state, extra, numbers = laid_out(crossing)
        numbers[kernel.PRICE], numbers[kernel.TEMPERATURE] = 2.0, 1.0
        draws = np.random.default_rng(2).random((2_000, kernel.DRAWS_ACROSS))
        anneal(state, extra, numbers, draws)
        ends.append((state.chosen.tolist(), extra.best.tolist(), numbers.tolist()))
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    "change",
    [
        {"capacity": np.array([3, 3])},
        {"history": Plan.of([(0, 0)])},
        {"coalitions": Coalitions(any_m=2)},
        {"averages": (Average((0,), 1),)},
    ],
    ids=["capacity", "history", "coalitions", "averages"],
)
def test_what_it_does_not_look_at_is_refused(change):
    problem = ring().problem()
    assert crossable(problem)
    assert not crossable(replace(problem, **change))


@pytest.mark.parametrize(
    "tiny",
    [
        Tiny(13, 2, [Made({0: 2, 1: 1}, 2, 3)]),
        Tiny(13, 2, [Made(dict.fromkeys(range(13), 1), 12, 13)]),
        Tiny(25_001, 2, [step(0, 1)]),
        ring(5, 4),
    ],
    ids=["amounts", "large sets", "many pairs", "many adversaries"],
)
def test_what_is_not_small_and_plain_is_refused(tiny):
    assert not crossable(tiny.problem())
