"""Caps on means while a plan is being built: exact, and strict where they are strict."""

from fractions import Fraction

import numpy as np
import pytest

from policies.instances.instance_file import read_instance
from policies.model.measures import Measure
from policies.model.problem import Average
from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.search.plan_state import AverageBudgets
from tests.unit.policies.tiny import Made, Tiny


@pytest.mark.parametrize("limit", [Fraction(1, 2), Fraction(5, 8)])
@pytest.mark.parametrize("strict", [False, True])
def test_room_ends_at_a_limit_or_below_it_where_it_is_strict(strict, limit):
    """One linear set of four: 2 of them are at 1/2, and below 5/8."""
    sets = [Made(dict.fromkeys(range(4), 1), cap=4, full=4)]
    caps = (Average((0,), limit, strict=strict),)
    tiny = Tiny(4, 2, sets, measures=(Measure.LINEAR,), averages=caps)
    means = AverageBudgets(tiny.problem())
    assert means.fits(0, [(0, 0, 1)])
    assert means.fits(0, [(0, 0, 2)]) is caps[0].kept(Fraction(2, 4))
    assert not means.fits(0, [(0, 0, 3)])


def test_a_submodular_plan_stays_below_the_strict_limit_of_a_file():
    """Four entries of a quarter, two copies each, tau 1/2: each adversary may hold one."""
    document = {
        "schema": "sparsi-instance/1",
        "n_entries": 4,
        "n_adversaries": 4,
        "t": 2,
        "weights": [[1] * 4] * 4,
        "properties": [{"entries": [0, 1, 2, 3], "a": [0.25] * 4}],
        "disclosure": {"kind": "linear", "aggregation": "average"},
        "problem": "discbudget",
        "tau": 0.5,
        "utility": {"kind": "concave", "curve": "root"},
    }
    problem = read_instance(document).problem
    rng, limits = np.random.default_rng(0), Limits(work=1.0)
    found = SOLVERS["submodular"](problem, rng, limits)
    assert found.verdict is Verdict.SOLVED
    assert np.bincount(found.plan.adversary, minlength=4).max() == 1
