"""Measures: f of a load, exactly."""

from fractions import Fraction

import pytest

from policies.model.measures import MEASURES, Measure
from tests.unit.policies.tiny import CUBIC


@pytest.mark.parametrize(
    ("measure", "load", "expected"),
    [
        (Measure.STEP, 3, Fraction(0)),
        (Measure.STEP, 4, Fraction(1)),
        (Measure.LINEAR, 3, Fraction(3, 4)),
        (Measure.LINEAR, 9, Fraction(1)),  # clamped
        (Measure.QUADRATIC, 3, Fraction(9, 16)),
        (CUBIC, 3, Fraction(27, 64)),
    ],
)
def test_disclosure_of_four(measure, load, expected):
    """Some functions at full = 4."""
    assert measure.disclosure(load, 4) == expected
    assert measure.numerator(load, 4) == expected * 4**measure.power


def test_each_measure_stands_under_its_name_and_has_a_power_of_its_own():
    assert {m.name: m for m in MEASURES.values()} == MEASURES
    assert len({m.power for m in MEASURES.values()}) == len(MEASURES)


def test_a_measure_is_no_root():
    with pytest.raises(ValueError, match="root has power -1, expected >= 0"):
        Measure("root", -1)
