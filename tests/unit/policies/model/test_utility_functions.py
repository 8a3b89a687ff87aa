"""The built-in utilities are what they promise."""

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
from policies.rules.functions import check_utility

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
