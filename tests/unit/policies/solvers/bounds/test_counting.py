"""Counting bounds never ask for more adversaries than are needed; levels of f."""

from fractions import Fraction

from hypothesis import given

from policies.model.measures import Measure
from policies.model.sets import NO_CAP
from policies.solvers.bounds.counting import capacity, needs, singles
from policies.solvers.exact.epsilon_constraint import capped, levels
from tests.unit.policies.tiny import Made, Tiny, classes, step, system, tinies


@given(tinies())
def test_a_problem_with_a_plan_is_refuted_by_no_bound(tiny):
    """Every bound is a proof: none fires where brute force finds a plan."""
    if tiny.best() is None:
        return
    problem = tiny.problem()
    assert (needs(problem) <= tiny.k).all()
    assert list(singles(problem)) == []
    assert capacity(problem) is None


def test_needs_by_hand():
    """Each set's own count, over 5 entries of 2, 3, 1, 1, 1 answers."""
    sets = [
        step(0, 1),  # 2 + 3 answers, one to a worker
        Made({0: 1, 1: 1, 2: 1, 3: 1}, cap=2, full=4),  # 7 answers, two to a worker
        classes((0, 1), (2, 3)),  # max(2, 3) + max(1, 1)
        classes((0,), (1,), (2,)),  # 6 answers, two to a worker
        Made({0: 3, 1: 1, 2: 1}, cap=3, full=5),  # 2*3 + 3 + 1 = 10 of 3
        Made({4: 1}, cap=NO_CAP, full=1),  # no limit: its own answers
    ]
    tiny = Tiny(5, 9, sets, lo=[2, 3, 1, 1, 1])
    assert needs(tiny.problem()).tolist() == [5, 4, 4, 3, 4, 1]


def test_the_trusted_are_taken_off_first():
    """3 trusted workers may hold the whole pair: they answer all but nothing is left."""
    trusted = [[True] * 3 + [False]]
    tiny = Tiny(2, 4, [step(0, 1)], lo=[3, 3], trusted=trusted)
    assert needs(tiny.problem()).tolist() == [0]


def test_levels_are_the_values_that_f_can_take():
    """Weights 1 and 1 of 4, at most 2: f is 0, 1/4 or 1/2; a loose step: also 1."""
    linear = Made({0: 1, 1: 1}, cap=2, full=4)
    loose = Made({0: 1}, cap=NO_CAP, full=1, owner=1)
    sets = system(2, [linear, loose], (Measure.LINEAR, Measure.STEP))
    quarters = [Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(1)]
    assert levels(sets) == (quarters, True)
    assert capped(sets, Fraction(1, 4)).cap.tolist() == [1, 0]
    assert levels(system(0, [], ())) == ([0], True)


def test_there_are_ten_thousand_levels_at_most_of_sets_of_all_sizes():
    """Sets of 1,000 to 1,090: 91 kinds, of which each gave 1,000 levels."""
    kinds = [Made({0: 1}, NO_CAP, full, owner=0) for full in range(1_000, 1_091)]
    values, complete = levels(system(1, kinds, (Measure.LINEAR,)))
    assert not complete
    assert 5_000 < len(values) < 12_000
    assert values == sorted(values)
    few, complete = levels(system(1, kinds[:1], (Measure.LINEAR,)))
    assert complete
    assert few == [Fraction(load, 1_000) for load in range(1_001)]
