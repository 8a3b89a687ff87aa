"""Aggregates of f on small numbers, each by hand."""

from fractions import Fraction

import pytest

from policies.model.aggregates import LARGEST_Q, Aggregate, Parts, Shape, root_above
from policies.model.sets import InvalidProblem

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)

SEEN = {(0, 0): Fraction(1), (0, 1): HALF, (1, 1): HALF, (1, 2): HALF}
"""f by (hand, property): 0 sees 1 and 1/2 of properties 0 and 1, 1 sees 1/2 of 1 and 2."""


def parts(shape, **how):
    made = Parts(Aggregate(shape, **how))
    for (hand, number), f in SEEN.items():
        made.add(number, number, hand, f)
    return made


W = (Fraction(1), Fraction(2), Fraction(3))


@pytest.mark.parametrize(
    ("made", "value"),
    [
        (parts(Shape.WORST, weights=W), Fraction(3, 2)),  # 3 * 1/2, of 1
        (parts(Shape.WORST, summed=True), Fraction(3, 2)),  # 1 + 1/2
        (parts(Shape.AVERAGE, over=Fraction(3)), HALF),  # (1 + 1/2) / 3, of 0
        (parts(Shape.AVERAGE, weights=W, over=Fraction(6)), Fraction(5, 12)),
        (parts(Shape.AVERAGE, summed=True, over=Fraction(3)), Fraction(5, 6)),
        (parts(Shape.COUNT, level=THIRD), 3),  # 0, 1 and 2: property 1 once
        (parts(Shape.COUNT, level=THIRD, summed=True), 4),
        (parts(Shape.COUNT, level=HALF), 1),  # at the level is not above it
        (parts(Shape.COUNT, level=THIRD, weights=W), 6),
        (parts(Shape.SOFT_MAX, q=2, over=Fraction(5)), HALF),  # (1 + 1/4) / 5 = 1/4
        (Parts(Aggregate(Shape.SOFT_MAX, q=3, summed=True)), 0),  # nothing is held
    ],
)
def test_the_value_of_a_small_table(made, value):
    assert made.value == value


def test_power_means_lie_between_the_mean_and_the_worst():
    """For 0, who sees 1, 1/2 and 0: they rise with q."""
    mean = parts(Shape.AVERAGE, over=Fraction(3)).value
    roots = [
        parts(Shape.SOFT_MAX, q=q, over=Fraction(3)).value for q in (2, 4, 8, LARGEST_Q)
    ]
    assert [mean, *roots, 1] == sorted([mean, *roots, 1])
    assert roots[-1] > Fraction(9, 10)


def test_a_limit_on_a_root_is_decided_by_powers():
    """sqrt(1/2) is no fraction: the limits next to it on both sides are told apart."""
    made = Parts(Aggregate(Shape.SOFT_MAX, q=2, over=Fraction(2)))
    made.add(0, 0, 0, Fraction(1))
    low = Fraction(7071067811865475244008443, 10**25)
    assert not made.kept(low, strict=True)
    assert made.kept(low + Fraction(1, 10**25), strict=True)
    exact = Parts(Aggregate(Shape.SOFT_MAX, q=2, over=Fraction(4)))
    exact.add(0, 0, 0, Fraction(1))
    assert not exact.kept(HALF, strict=True)
    assert exact.kept(HALF, strict=False)
    assert not exact.kept(Fraction(-1), strict=False)


@pytest.mark.parametrize("q", [2, 3, 7, LARGEST_Q])
@pytest.mark.parametrize(
    "value", [Fraction(0), Fraction(1), THIRD, Fraction(1, 10**40)]
)
def test_a_root_is_rounded_up_by_less_than_a_step(value, q):
    root, step = root_above(value, q), Fraction(1, 10**18)
    assert root**q >= value
    assert not root or (root - step) ** q < value


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"weights": (Fraction(-1),)}, "weight"),
        ({"level": Fraction(-1)}, "level"),
        ({"q": 0}, "q is 0"),
        ({"q": LARGEST_Q + 1}, "expected 1 to 32"),
        ({"over": Fraction(0)}, "over"),
    ],
)
def test_an_aggregate_of_no_meaning_can_not_be_made(how, why):
    with pytest.raises(InvalidProblem, match=why):
        Aggregate(Shape.AVERAGE, **how)
