"""How good a worker is taken to be."""

import pytest

from policies.answers.skill import EXPECTED_RIGHT, gold_accuracy


def test_nothing_asked_is_what_is_expected():
    assert gold_accuracy(0, 0) == pytest.approx(EXPECTED_RIGHT)


def test_it_is_the_mean_of_a_beta_posterior():
    """Beta(4, 1) and 6 of 15 right: (4 + 6) / (5 + 15)."""
    assert gold_accuracy(6, 15) == pytest.approx(0.5)


@pytest.mark.parametrize("right", [-1, 3])
def test_counts_that_can_not_be_are_refused(right):
    with pytest.raises(ValueError, match="of 2 right"):
        gold_accuracy(right, 2)
