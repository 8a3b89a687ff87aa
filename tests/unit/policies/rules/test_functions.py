"""Utilities that someone else wrote are sampled, and refused with what refutes them."""

import numpy as np
import pytest

from policies.rules.functions import InvalidFunction, check_utility


def rng():
    return np.random.default_rng(3)


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
