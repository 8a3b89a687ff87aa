"""User functions are sampled; the built-in utilities are what they promise."""

from fractions import Fraction

import numpy as np
import pytest

from policies.model.utility_functions import (
    Additive,
    ConcaveOverModular,
    Coverage,
    FacilityLocation,
    Utilities,
)
from policies.model.weights import InvalidWeights
from policies.rules.functions import InvalidFunction, check_utility

BUILT_IN = [
    Additive((1.0, 2.0, 0.0, 3.0)),
    ConcaveOverModular((1.0, 2.0, 0.0, 3.0), "root"),
    ConcaveOverModular((1.0, 2.0, 0.0, 3.0), "log"),
    ConcaveOverModular((1.0, 2.0, 0.0, 3.0), "cap", 2.5),
    Coverage(
        (frozenset({0}), frozenset({0, 1}), frozenset(), frozenset({2})), (1, 2, 4)
    ),
    FacilityLocation(((1.0, 0.5, 0.0, 2.0), (0.0, 3.0, 1.0, 0.0))),
]


def rng():
    return np.random.default_rng(3)


@pytest.mark.parametrize("utility", BUILT_IN)
def test_built_in_utilities_rise_by_ever_less(utility):
    """Sampled: nothing speaks against monotone and submodular."""
    told = check_utility(utility, 4, rng())
    assert (told.monotone, told.submodular) == (True, True)
    assert utility(frozenset()) == 0


@pytest.mark.parametrize("serves", [(), ((),), ((), ())])
def test_clients_without_entries_gain_nothing(serves):
    """No client, or clients whom nobody could serve."""
    assert FacilityLocation(serves).gains(np.zeros(0, np.bool_)).tolist() == []


def test_values_by_hand():
    """Sets {1, 3} of the above."""
    held = frozenset({1, 3})
    assert [u(held) for u in BUILT_IN] == pytest.approx(
        [5, 5**0.5, np.log(6), 2.5, 7, 5]
    )


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda held: -1.0 if held else 0.0, "expected >= 0"),
        (lambda held: 2.0 - len(held) / 4, "u falls"),
        (lambda held: float(len(held) ** 2), "gains more"),
        (lambda held: float("nan") if held else 0.0, "gives nan"),
        (lambda held: "x" if held else 0.0, "gives str"),
    ],
)
def test_a_utility_that_lies_is_refused(function, told):
    """Negative, falling, gaining ever more, and what is no number."""
    with pytest.raises(InvalidFunction, match=told):
        check_utility(function, 4, rng())


def test_a_utility_may_declare_that_gains_grow():
    """Squares do."""
    told = check_utility(lambda held: len(held) ** 2, 4, rng(), submodular=False)
    assert (told.monotone, told.submodular) == (True, False)


def test_the_utility_of_all_is_a_weighted_sum():
    """2 * 3 + 1 * 2."""
    add = Additive((1.0, 2.0))
    hands = [frozenset({0, 1}), frozenset({1})]
    assert Utilities((add, add), (Fraction(2), Fraction(1))).total(hands) == 8
    with pytest.raises(InvalidWeights, match="as many of each"):
        Utilities((add,), (Fraction(2), Fraction(1)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Additive((-1.0,)),
        lambda: Additive((float("nan"),)),
        lambda: ConcaveOverModular((1.0,), "square"),
        lambda: ConcaveOverModular((1.0,), "cap", 0),
        lambda: Coverage((frozenset({1}),), (1.0,)),
        lambda: FacilityLocation(((-1.0,),)),
    ],
)
def test_utilities_check_themselves(make):
    """Negative, not finite, unknown."""
    with pytest.raises(InvalidWeights):
        make()
