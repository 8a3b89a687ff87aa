"""Rounding by Beck and Fiala: u kept, copies kept, loads above by a constant at most."""

import tracemalloc
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.model.measures import Measure
from policies.model.objective import Objective
from policies.model.problem import Goal
from policies.model.sets import NO_CAP
from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.load_tables import load_tables
from policies.solvers.rounding import beck_fiala
from policies.solvers.rounding.beck_fiala import additive, slack
from tests.unit.policies.tiny import Made, Tiny, uncapped


def never():
    return False


@st.composite
def fractional(draw):
    """A problem and fractions of copies, between lo and hi of each entry."""
    tiny = draw(uncapped((Measure.LINEAR,), average=False, least=1))
    tiny = replace(tiny, capacity=None, lo=[min(low, tiny.k) for low in tiny.lo])
    x = np.zeros((tiny.n, tiny.k))
    for d in range(tiny.n):
        plans = []
        for _ in range(draw(st.integers(1, 4))):
            copies = draw(st.integers(tiny.lo[d], min(tiny.hi[d], tiny.k)))
            chosen = draw(st.permutations(range(tiny.k)))[:copies]
            plans.append([a in chosen for a in range(tiny.k)])
        x[d] = np.mean(plans, axis=0)
    return tiny, x


@given(drawn=fractional())
@settings(max_examples=150, deadline=None)
def test_u_and_copies_are_kept_and_no_load_rises_by_the_slack(drawn):
    tiny, x = drawn
    it = load_tables(tiny.problem())
    chosen = additive(it, x, never)
    assert chosen is not None
    copies = chosen.sum(axis=1)
    assert (copies >= tiny.lo).all()
    assert (copies <= tiny.hi).all()
    assert it.worth[chosen].sum() >= (it.worth * x).sum() - 1e-6
    assert (it.load(chosen) <= it.load(x) + slack(it) + 1e-6).all()


def large(seed, n=120, m=20, k=4):
    """Sets of a third of the entries: the slack is far below the sets' sizes."""
    rng = np.random.default_rng(seed)
    sets = []
    for _ in range(m):
        members = np.flatnonzero(rng.random(n) < 0.3).tolist()
        sets.append(Made(dict.fromkeys(members, 1), NO_CAP, len(members)))
    return Tiny(
        n,
        k,
        sets,
        measures=(Measure.LINEAR,),
        weights=rng.integers(0, 9, (n, k)).tolist(),
        goal=Goal(Objective.TRADEOFF, Fraction(500), Fraction(0)),
    )


def test_no_rounding_error_grows_into_a_copy():
    """Rows of a whole copy and two fractions that make one: two copies each, all 120."""
    rng = np.random.default_rng(4)
    it = load_tables(replace(large(4, k=10), hi=[2] * 120).problem())
    x = np.zeros((120, 10))
    part = rng.random(120)
    for d in range(120):
        x[d, rng.permutation(10)[:3]] = [1.0, part[d], 1.0 - part[d]]
    chosen = additive(it, x, never)
    assert chosen is not None
    assert (chosen.sum(axis=1) == 2).all()
    assert it.load(chosen).max() < it.load(x).max() + slack(it)


def test_an_even_plan_of_many_sets_stays_within_the_slack():
    """Each of 20 sets at 4 adversaries starts at exactly a quarter."""
    tiny = large(1)
    it = load_tables(tiny.problem())
    x = np.full((tiny.n, tiny.k), 1 / tiny.k)
    chosen = additive(it, x, never)
    assert chosen is not None
    assert (chosen.sum(axis=1) == 1).all()
    assert it.worth[chosen].sum() >= (it.worth * x).sum() - 1e-6
    assert it.load(chosen).max() < 1 / tiny.k + slack(it)


def test_neither_too_many_fractions_nor_a_stop_give_a_half_rounded_plan(monkeypatch):
    it, x = load_tables(large(2).problem()), np.full((120, 4), 0.25)
    assert additive(it, x, lambda: True) is None
    monkeypatch.setattr(beck_fiala, "MOST", 479)
    assert additive(it, x, never) is None


@pytest.mark.parametrize("paper", [False, True])
def test_lp_rounding_is_within_the_promise_of_its_bound(paper, monkeypatch):
    """Safe mode with no luck at all: u - lambda f is at most lambda * slack below."""
    problem = large(3).problem()
    monkeypatch.setattr(
        "policies.solvers.rounding.lp_rounding.REPEATS", 1 if paper else 0
    )
    limits = Limits(paper=paper)
    made = SOLVERS["lp-rounding"](problem, np.random.default_rng(0), limits)
    assert made.verdict is Verdict.SOLVED
    promised = made.bound - 500 * Fraction(slack(load_tables(problem)))
    if not paper:
        assert promised <= made.value <= made.bound


def test_sets_with_little_that_floats_take_no_room():
    """20,000 pairs and 400 fractions: a table of them would be of 64 MB."""
    rng = np.random.default_rng(0)
    members = [rng.choice(200, 2, replace=False).tolist() for _ in range(20_000)]
    sets = [Made(dict.fromkeys(pair, 1), NO_CAP, 2) for pair in members]
    tiny = Tiny(200, 2, sets, measures=(Measure.LINEAR,))
    it = load_tables(tiny.problem())
    tracemalloc.start()
    plan = additive(it, np.full((200, 2), 0.5), never)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (plan.sum(axis=1) == 1).all()
    assert most < 16_000_000
