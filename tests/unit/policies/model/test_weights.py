"""Weights: exact, low in rank, and their upper bound."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given

from policies.model.weights import InvalidWeights, Weights
from tests.unit.policies.tiny import tinies


@given(tinies())
def test_best_bounds_every_plan(tiny):
    """No plan is worth more than each entry's best copies."""
    problem = tiny.problem()
    top = problem.weights.best(problem.hi)
    assert all(tiny.utility(p) <= top for p in tiny.plans())


def test_factors_multiply():
    """A field worth 2.0 to a nurse of quality 0.8 and weight 1.5 is worth 2.4."""
    weights = Weights.scaled([0], [2.0], [[0.8 * 1.5]])
    one = int(weights.of(np.array([0]), np.array([0]))[0])
    assert one * weights.unit == Fraction(24, 10)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[float("nan")]], "weights holds NaN or infinity"),
        ([[float("inf")]], "weights holds NaN or infinity"),
        ([[-0.5]], "weights holds -0.5, expected >= 0"),
        ([0.5], "weights has 1 dimensions, expected 2"),
    ],
)
def test_numbers_that_are_no_weights_are_refused(matrix, message):
    """The message gives the value."""
    with pytest.raises(InvalidWeights, match=message):
        Weights.dense(matrix)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": np.array([2])}, "kind holds 2, expected < 1"),
        ({"kind": np.array([0, 0])}, "kind has 2 entries, expected 1"),
        ({"base": np.array([0.5])}, "base has type float64, expected integers"),
        ({"base": np.array([-1])}, "base holds -1, expected >= 0"),
        ({"base": np.array([[1]])}, "base has 2 dimensions, expected 1"),
        ({"unit": Fraction(0)}, "unit is 0, expected > 0"),
        ({"factor": np.full((1, 1), 2**62)}, "expected < 2\\^62"),
    ],
)
def test_columns_that_do_not_fit_are_refused(changes, message):
    """Each is told with its value and what was expected."""
    fields = {
        "kind": np.array([0]),
        "base": np.array([1]),
        "factor": np.array([[1]]),
    }
    with pytest.raises(InvalidWeights, match=message):
        Weights(**(fields | changes))


def test_steps_are_at_least_one():
    """Nothing can be rounded to zero steps."""
    with pytest.raises(InvalidWeights, match="steps is 0, expected >= 1"):
        Weights.dense([[1.0]], steps=0)


def test_a_million_entries_cost_no_matrix():
    """10^6 entries and 300 workers: two columns and one small table."""
    weights = Weights.flat(1_000_000, 300)
    assert weights.best(np.full(1_000_000, 2)) == 2_000_000
    assert weights.factor.size == 300


def test_best_is_zero_for_nothing():
    """No entries, or nobody to show them to."""
    assert Weights.flat(0, 3).best(np.empty(0, np.int64)) == 0
    assert Weights.flat(3, 0).best(np.ones(3, np.int64)) == 0
