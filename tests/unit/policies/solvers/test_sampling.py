"""RAND+, dependent rounding and Moser-Tardos: what they draw, and that they never leak."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.judging.judge import judge
from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.rounding import moser_tardos
from policies.solvers.rounding.dependent_rounding import mixed, rounded_rows
from policies.solvers.rounding.rand_plus import drawn_orders
from tests.unit.policies.tiny import Tiny, pairs_of, step


def solve(name, problem, seed=1, **limits):
    return SOLVERS[name](problem, np.random.default_rng(seed), Limits(**limits))


def test_successive_sampling_draws_in_proportion():
    """Odds 1 : 3 : 0. First place: 1/4, 3/4, never; second: 3/4 of all times column 0.

    Given 1 first (3/4), 0 comes second (the third has no odds); so P(0 second) = 3/4.
    """
    rows = drawn_orders(np.tile([1.0, 3.0, 0.0], (20_000, 1)), np.random.default_rng(0))
    first = np.bincount(rows[:, 0], minlength=3) / len(rows)
    second = np.bincount(rows[:, 1], minlength=3) / len(rows)
    assert first == pytest.approx([0.25, 0.75, 0.0], abs=0.02)
    assert second == pytest.approx([0.75, 0.25, 0.0], abs=0.02)


def test_rand_plus_gives_exactly_t_in_paper_mode():
    """t = 2 of 3, ten entries, weights of 0 included."""
    weights = [[0, 0, 0], *([[3, 1, 0]] * 9)]
    tiny = Tiny(10, 3, [step(0, 1)], hi=[2] * 10, weights=weights)
    made = solve(
        "rand-plus",
        Tiny(10, 3, [], hi=[2] * 10, measures=(), weights=weights).problem(),
        paper=True,
    )
    assert np.bincount(made.plan.entry).tolist() == [2] * 10
    safe = solve("rand-plus", tiny.problem())
    assert safe.verdict is Verdict.SOLVED
    assert judge(tiny.problem(), safe.plan).complete == 0


@given(
    chance=st.lists(
        st.lists(st.floats(0, 1), min_size=4, max_size=4), min_size=1, max_size=5
    ),
    seed=st.integers(0, 99),
)
@settings(max_examples=80, deadline=None)
def test_rounding_keeps_every_rows_sum(chance, seed):
    """To the floor or the ceiling; whole numbers stay."""
    x = np.array(chance)
    made = rounded_rows(x, np.random.default_rng(seed))
    total = x.sum(axis=1)
    assert (made.sum(axis=1) >= np.floor(total + 1e-6) - 1e-9).all()
    assert (made.sum(axis=1) <= np.ceil(total - 1e-6) + 1e-9).all()
    assert made[x == 1.0].all()
    assert not made[x == 0.0].any()


def test_rounding_keeps_marginals_and_pairs_repel():
    """Row (.5, .3, .2): each column as often as that, exactly one a row."""
    x = np.tile([0.5, 0.3, 0.2], (20_000, 1))
    made = rounded_rows(x, np.random.default_rng(1))
    assert (made.sum(axis=1) == 1).all()
    assert made.mean(axis=0) == pytest.approx([0.5, 0.3, 0.2], abs=0.02)


def test_mixing_keeps_the_sum_and_leaves_out_what_is_not_possible():
    """Two copies over three possible pairs of four: the even row is 2/3 each."""
    may = np.array([[True, True, True, False]])
    out = mixed(np.array([[1.0, 1.0, 0.0, 0.0]]), may, 0.3)
    assert out == pytest.approx(np.array([[0.9, 0.9, 0.2, 0.0]]))


@pytest.fixture
def triples():
    """Sixty entries in forty random triples, three workers, one copy each."""
    rng = np.random.default_rng(2)
    sets = [step(*rng.choice(60, 3, replace=False).tolist()) for _ in range(40)]
    weights = rng.integers(1, 9, (60, 3)).tolist()
    return Tiny(60, 3, sets, weights=weights)


@pytest.mark.parametrize("name", ["moser-tardos", "dependent-rounding", "rand-plus"])
def test_sampled_plans_are_sealed_and_below_their_bound(name, triples):
    """Not one triple is complete."""
    made = solve(name, triples.problem())
    assert made.verdict is Verdict.SOLVED
    assert triples.feasible(pairs_of(made.plan))
    assert made.value <= made.bound


def test_resampling_is_the_same_function_compiled(triples, monkeypatch):
    """The same seed, the same plan; nothing is climbed, which would hide a difference."""
    monkeypatch.setattr(moser_tardos, "climb", lambda *_: None)
    plain = solve("moser-tardos", triples.problem())
    monkeypatch.setattr("policies.solvers.search.delta_evaluation.FROM", 0)
    quick = solve("moser-tardos", triples.problem())
    assert pairs_of(plain.plan) == pairs_of(quick.plan)


def test_resampling_gives_up_without_a_leak():
    """A triangle of pairs, two workers: no plan exists, the relaxation does not see it."""
    tiny = Tiny(3, 2, [step(0, 1), step(1, 2), step(0, 2)])
    made = solve("moser-tardos", tiny.problem(), work=0.1)
    assert made.verdict is Verdict.UNKNOWN
    assert not len(made.plan)
    assert "drawn anew" in made.tried[0]
