"""Preferred plans against all plans: fewest workers, and the fairest load."""

from collections import Counter
from dataclasses import replace

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from policies.planning.preferences import fairest, fewest_workers
from policies.solvers import SOLVERS, Limits
from policies.solvers.interfaces import timeless
from tests.unit.policies.tiny import Tiny, pairs_of, step

LIMITS = Limits(work=1.0, clock=timeless)


def solver(problem):
    """Plans of a problem with at most so much room for each adversary."""

    def ask(room):
        rng = np.random.default_rng(0)
        return SOLVERS["auto"](replace(problem, capacity=room), rng, LIMITS)

    return ask


@st.composite
def backlogs(draw):
    """Fields of a copy or two for some workers, pairs and triples that may not meet."""
    n, k = draw(st.integers(1, 4)), draw(st.integers(2, 4))
    numbers = st.integers(0, n - 1)
    groups = st.sets(numbers, min_size=min(n, 2), max_size=3).filter(
        lambda s: len(s) > 1
    )
    sets = draw(st.lists(groups, max_size=3)) if n > 1 else []
    lo = draw(st.lists(st.integers(1, 2), min_size=n, max_size=n))
    room = st.lists(st.integers(1, 4), min_size=k, max_size=k)
    seen = st.tuples(numbers, st.integers(0, k - 1))
    return Tiny(
        n, k, [step(*sorted(s)) for s in sets], lo=lo,
        weights=draw(st.lists(room, min_size=n, max_size=n)),
        capacity=draw(st.none() | room),
        history=(history := draw(st.lists(seen, max_size=2, unique=True))),
        forbidden=history,
    )  # fmt: skip


@settings(max_examples=25)
@given(backlogs())
def test_no_plan_uses_fewer_workers_or_is_fairer_than_the_bound(tiny):
    """And the load is the fairest that any plan of all the copies has."""
    plans = [plan for plan in tiny.plans() if tiny.feasible(plan)]
    assume(plans)
    problem = tiny.problem()
    ask = solver(problem)
    found = ask(problem.room())
    few = fewest_workers(problem, found, ask, 0, LIMITS)
    assert few.bound <= min(len({a for _, a in plan}) for plan in plans) <= few.value
    assert tiny.feasible(pairs_of(few.solution.plan))
    assert len({a for _, a in pairs_of(few.solution.plan)}) == few.value
    fair = fairest(problem, found, ask, LIMITS, np.ones(tiny.k, np.bool_))
    least = min(max(Counter(a for _, a in plan).values()) for plan in plans)
    assert fair.bound <= least == fair.value
    assert tiny.feasible(pairs_of(fair.solution.plan))


def test_whoever_is_given_little_is_left_out_first():
    """Six entries, three workers of room six; two entries may not meet: two workers."""
    tiny = Tiny(6, 3, [step(0, 1)], weights=[[3, 2, 1]] * 6, capacity=[6, 6, 6])
    problem = tiny.problem()
    few = fewest_workers(
        problem, solver(problem)(problem.room()), solver(problem), 0, LIMITS
    )
    assert (few.value, few.bound) == (2, 2)
    assert few.room.tolist() == [6, 6, 0]


def test_who_does_not_share_the_work_has_all_room():
    """Of three entries the third is for the last alone, who is not among the others."""
    tiny = Tiny(4, 3, forbidden=[(0, 2), (1, 2), (2, 0), (2, 1), (3, 0), (3, 1)])
    problem = tiny.problem()
    ask, among = solver(problem), np.array([True, True, False])
    fair = fairest(problem, ask(problem.room()), ask, LIMITS, among)
    assert (fair.value, fair.bound) == (1, 1)
    assert (fair.solution.plan.adversary == 2).sum() == 2
