"""Rounding mends degrees; what leaks is not kept."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.rounding import lp_rounding
from policies.solvers.rounding.lp_rounding import rounded_once
from tests.unit.policies.tiny import Tiny, step


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_every_rounding_has_as_many_copies_as_it_must(seed):
    """lo <= copies <= hi wherever so many pairs are possible; no other pair is taken."""
    rng = np.random.default_rng(seed)
    n, k = 6, 4
    may = rng.random((n, k)) < 0.7
    chance = rng.random((n, k)) * may
    lo = rng.integers(0, 3, n)
    hi = lo + rng.integers(0, 3, n)
    lo = np.minimum(lo, may.sum(axis=1))
    taken = rounded_once(chance, may, lo, hi, rng)
    copies = taken.sum(axis=1)
    assert not (taken & ~may).any()
    assert (copies >= lo).all()
    assert (copies <= np.minimum(hi, may.sum(axis=1))).all()


def test_certain_pairs_are_taken_and_the_likeliest_fills_up():
    """Row 0: 1 and 0 are certain. Row 1: nothing is drawn; its likeliest pair is taken."""
    chance = np.array([[1.0, 0.0], [1e-12, 2e-12]])
    may = np.ones((2, 2), np.bool_)
    one = np.ones(2, np.int64)
    taken = rounded_once(chance, may, one, one, np.random.default_rng(0))
    assert taken.tolist() == [[True, False], [False, True]]


def test_the_relaxation_bounds_what_rounding_reaches():
    """A ring of five pairs, two copies of weight 1: LP 5, and no leak is kept."""
    tiny = Tiny(5, 3, [step(d, (d + 1) % 5) for d in range(5)])
    answer = SOLVERS["lp-rounding"](
        tiny.problem(), np.random.default_rng(0), Limits(work=5)
    )
    assert answer.verdict is Verdict.SOLVED
    assert answer.value == 5 <= answer.bound
    assert "of 100 roundings kept every limit" in answer.tried[0]


@pytest.mark.parametrize("name", ["lp-rounding", "dependent-rounding"])
def test_no_rounding_of_halves_seals_a_triangle(name):
    """Three pairs of three entries, two adversaries: x = 1/2 keeps every row, no plan does.

    Copies are right in every sample, limits in none. Mode safe says that nothing was
    found; mode paper takes the sample of highest u, and the judge refuses it.
    """
    tiny = Tiny(3, 2, [step(0, 1), step(1, 2), step(0, 2)])
    for paper, told in ((False, "0 of 100 roundings"), (True, "the plan was refused")):
        limits = Limits(paper=paper)
        made = SOLVERS[name](tiny.problem(), np.random.default_rng(0), limits)
        assert made.verdict is Verdict.UNKNOWN
        assert told in made.tried[-1]
        assert float(made.bound) == pytest.approx(3)
    assert "copies" not in made.tried[-1]
    assert "0 of 100 roundings" in made.tried[0]


def test_in_paper_mode_the_sample_of_highest_utility_wins(monkeypatch):
    """Row S2: a hundred samples, the same for the same seed; safe would be content too."""
    tiny = Tiny(6, 3, [step(0, 1), step(2, 3)], weights=[[1, 2, 3]] * 6)
    seen = []
    real = lp_rounding.rounded_once
    monkeypatch.setattr(
        lp_rounding, "rounded_once", lambda *a: seen.append(real(*a)) or seen[-1]
    )
    made = [
        SOLVERS["lp-rounding"](
            tiny.problem(), np.random.default_rng(4), Limits(paper=True)
        )
        for _ in range(2)
    ]
    assert len(seen) == 2 * lp_rounding.REPEATS == 200
    weights = np.array([1, 2, 3])
    assert made[0].value == max((taken @ weights).sum() for taken in seen[:100])
    assert (np.stack(seen[:100]) == np.stack(seen[100:])).all()
