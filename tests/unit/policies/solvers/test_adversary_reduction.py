"""Adversaries that no plan needs are left out, and the answer is the same."""

from time import monotonic

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.solvers import SOLVERS, Limits, Verdict, adversary_reduction
from policies.solvers.adversary_reduction import among, among_all, needed
from tests.unit.policies.tiny import Tiny, step, tinies


def solve(problem, **limits):
    limits = Limits(**limits)
    return SOLVERS["auto"](problem, np.random.default_rng(0), limits)


def wide(n, k, **more):
    """A ring of n entries, and k adversaries of whom the first are the best."""
    ring = [step(d, (d + 1) % n) for d in range(n)]
    return Tiny(n, k, ring, weights=[list(range(k, 0, -1))] * n, **more).problem()


def test_three_entries_need_three_of_many_adversaries():
    """Of 200,000 the best three; the model of all would take minutes."""
    problem = wide(3, 200_000)
    assert needed(problem).tolist() == [0, 1, 2]
    limits = {"work": float("inf"), "seconds": 600.0, "clock": monotonic}
    found = solve(problem, **limits)
    assert found.verdict is Verdict.SOLVED
    assert found.value == found.bound == 200_000 + 199_999 + 199_998
    assert sorted(found.plan.adversary.tolist()) == [0, 1, 2]


def test_who_holds_something_stays_and_who_has_no_room_goes():
    """History discloses whoever is planned; without room nobody is given anything."""
    room = [1] * 1_000 + [0] * 1_000
    problem = wide(3, 2_000, history=[(0, 1_500)], forbidden=[(1, 700)], capacity=room)
    assert needed(problem).tolist() == [0, 1, 2, 700, 1_500]


def test_no_plan_is_told_with_all_adversaries_counted():
    """An entry that is a set by itself goes to nobody of however many."""
    found = solve(Tiny(1, 2_000, [step(0)]).problem())
    assert found.verdict is Verdict.INFEASIBLE
    assert found.core.available == 2_000


@pytest.mark.parametrize(
    "special",
    [{"trusted": [[False] * 2_000]}, {"lo": [1] * 40, "hi": [40] * 40}],
)
def test_where_others_may_matter_all_stay(special):
    """Whoever is trusted is not like the others; many copies need many adversaries."""
    n = len(special.get("lo", [1] * 3))
    assert needed(wide(n, 2_000, **special)) is None


@settings(max_examples=40, deadline=None)
@given(tinies(tradeoff=True) | tinies(averages=True), st.data())
def test_the_best_of_few_is_the_best_of_all(tiny, data):
    """Against trying all plans, with every function, history, room and caps on means."""
    tiny.trusted = None
    tiny.k += 3
    more = st.lists(st.integers(0, 3), min_size=3, max_size=3)
    tiny.weights = [row + data.draw(more) for row in tiny.weights]
    if tiny.capacity is not None:
        tiny.capacity = [*tiny.capacity, 2, 0, 1]
    problem = tiny.problem()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adversary_reduction, "FROM", 1)
        patch.setattr(adversary_reduction, "SHARE", 1)
        hands = needed(problem)
    if hands is None:
        return
    found = among_all(problem, solve(among(problem, hands)), hands)
    best = tiny.best()
    if best is None:
        assert found.verdict is Verdict.INFEASIBLE
    else:
        assert float(found.value) == pytest.approx(float(best), abs=1e-8)
