"""Certificates come first: they are named, used, and never wrong."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.judging.judge import judge
from policies.model.coalitions import Coalitions
from policies.model.problem import Average
from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.auto import TABLE, Auto
from policies.solvers.bounds import certificates
from policies.solvers.bounds.certificates import Prover, steps
from policies.solvers.exact.cpsat import exactly
from policies.solvers.interfaces import Ground, Solution, timeless
from tests.unit.policies.tiny import Tiny, step, tinies

WORK = {"work": 2.0}


def solve(problem, **limits):
    return SOLVERS["auto"](problem, np.random.default_rng(0), Limits(**limits))


def star(n, k, **rest):
    """One entry in a pair with each of the others."""
    return Tiny(n, k, [step(0, d) for d in range(1, n)], **rest)


def windows(n, k, **rest):
    """Any four entries in a row: an entry in the middle is in four sets."""
    return Tiny(n + 3, k, [step(*range(i, i + 4)) for i in range(n)], **rest)


@given(tinies(), st.booleans())
@settings(max_examples=150)
def test_nothing_that_has_no_plan_is_ever_certified(tiny, strict):
    """Classes, weights, copies, history, trust, capacities, forbidden pairs."""
    problem = replace(tiny.problem(), strict_history=strict)
    proof = Prover(Limits())(problem)
    if proof is not None:
        plans = (p for p in tiny.plans() if tiny.feasible(p))
        assert next(plans, None) is not None
        assert set(proof.entries) == {d for d in range(tiny.n) if tiny.lo[d]}


@given(tinies())
@settings(max_examples=60, deadline=None)
def test_the_plan_that_a_certificate_promises_is_found(tiny):
    """Whatever the ground, and though plans are not enumerated."""
    problem = tiny.problem()
    proof = Prover(Limits())(problem)
    if proof is not None:
        solver = Auto(frozenset({"few-plans"}))
        found = solver(problem, np.random.default_rng(0), Limits(**WORK))
        assert found.verdict is Verdict.SOLVED
        assert judge(problem, found.plan).feasible


@given(tinies())
@settings(max_examples=40, deadline=None)
def test_what_auto_names_as_certified_has_a_plan(tiny):
    """And every entry is in one component: none is named twice."""
    problem = tiny.problem()
    for limits in ({"work": 1.0}, {"work": 1.0, "exact_size": 1}):
        found = solve(problem, **limits)
        named = [d for proof in found.proofs for d in proof.entries]
        assert len(named) == len(set(named))
        if set(named) == {d for d in range(tiny.n) if tiny.lo[d]} and not tiny.capacity:
            assert found.verdict is not Verdict.INFEASIBLE


@pytest.mark.parametrize(
    ("tiny", "ground"),
    [
        (star(4, 4), Ground.ORDER),  # three neighbours bar three of four
        (star(4, 3), None),  # three pairs, three workers: 1 crossing expected
        (windows(20, 4), Ground.EXPECTATION),  # 20 / 64
        (windows(70, 4), Ground.LEMMA),  # 70 / 64, each meets six others
        (Tiny(2, 1, [step(0, 1)]), None),
    ],
)
def test_the_cheapest_ground_that_holds_is_named(tiny, ground):
    proof = Prover(Limits())(tiny.problem())
    assert (proof and proof.ground) == ground


def test_a_triple_and_two_workers_need_no_order():
    """Its third entry is barred from one worker at most: any order of giving will do."""
    assert (
        Prover(Limits())(Tiny(3, 3, [step(0, 1, 2)]).problem()).ground is Ground.ORDER
    )


def test_coalitions_are_drawn_for_but_not_counted_in_order():
    """A triple, ten workers, any two pool: 45 hands see it with chance 1 / 125 each."""
    tiny = Tiny(3, 10, [step(0, 1, 2)])
    pooled = replace(tiny.problem(), coalitions=Coalitions(any_m=2))
    assert Prover(Limits())(pooled).ground is Ground.EXPECTATION


def test_the_steps_are_bounded_by_the_time_given():
    """20 sets of four entries: 16 sums each, and little more."""
    problem = windows(20, 4).problem()
    assert steps(problem) == 20 * 16 + 8
    assert Prover(Limits(seconds=0.05, clock=timeless))(problem) is None
    prover = Prover(Limits(seconds=0.1, clock=timeless))
    assert prover(problem) is not None
    assert prover(problem) is None  # all is spent
    assert Prover(Limits()).steps == certificates.STEPS


def test_components_are_named_with_their_ground():
    """A star of four and a triple for three workers; a pair that two copies clash in."""
    sets = [step(0, 1), step(0, 2), step(3, 4, 5), step(6, 7)]
    rows = [[d % 3, (d + 1) % 3, 1] for d in range(8)]
    tiny = Tiny(8, 3, sets, lo=[1] * 6 + [2, 2], weights=rows)
    found = solve(tiny.problem(), work=1.0, exact_size=1)
    assert found.verdict is Verdict.INFEASIBLE
    (proof,) = found.proofs
    assert (proof.ground, proof.entries, proof.components) == (
        Ground.ORDER,
        (0, 1, 2, 3, 4, 5),
        2,
    )


def test_what_is_certified_is_planned_and_not_searched_for(monkeypatch):
    """CP-SAT starts from a plan, or never starts."""
    begun = []

    def search(problem, rng, limits, start=None, done=None):
        begun.append(start)
        return exactly(problem, rng, limits, start, done)

    monkeypatch.setattr("policies.solvers.auto.exactly", search)
    best = [[9, 1, 1, 1]] * 73  # the same for all entries
    found = solve(windows(70, 4, weights=best).problem(), **WORK)
    assert found.verdict is Verdict.SOLVED
    assert [proof.ground for proof in found.proofs] == [Ground.LEMMA]
    assert all(start is not None for start in begun)


def test_capacities_that_leave_too_little_are_not_searched_for_a_clash(monkeypatch):
    """A pair has a plan of its own: whether it has one is not asked again."""

    def feasible(*_):
        raise AssertionError("searched for what is certain")

    monkeypatch.setattr("policies.solvers.planned.feasible", feasible)
    monkeypatch.setattr(
        "policies.solvers.planned.build_plan", lambda hands, *_, **__: {0}
    )
    tiny = Tiny(2, 2, [step(0, 1)], capacity=[2, 0])
    found = solve(tiny.problem(), work=1.0, exact_size=1)
    assert found.verdict is Verdict.INFEASIBLE  # by the search over the whole
    assert found.proofs == ()  # with its capacities it is not certain


SETTLED = frozenset({"planned", "components", "counting", "best-copies", "scaled"})
NOTHING = Auto(frozenset(row.name for row in TABLE) - SETTLED)


def test_without_a_plan_in_time_it_is_certified():
    """Nothing was found: the verdict says what is known all the same."""
    best = [[9, 1, 1, 1]] * 73
    limits, rng = Limits(seconds=9.0, clock=timeless), np.random.default_rng(0)
    found = NOTHING(windows(70, 4, weights=best).problem(), rng, limits)
    assert found.verdict is Verdict.CERTIFIED
    assert not len(found.plan)
    narrow = windows(70, 3, weights=[r[:3] for r in best]).problem()
    tighter = NOTHING(narrow, rng, limits)
    assert tighter.verdict is Verdict.UNKNOWN
    assert "expected crossings and the local lemma" in tighter.tried


def test_greedy_gives_the_start_where_plans_are_easy(monkeypatch):
    """Nothing is certified, but there is much room: HiGHS improves what greedy found."""
    begun = []

    def search(problem, limits, seed, start, done):
        begun.append(start)
        return Solution(Verdict.UNKNOWN, bound=Fraction(99), stopped="work")

    monkeypatch.setattr("policies.solvers.auto.solve", search)
    best = [[9, 1, 1, 1]] * 30
    tiny = Tiny(
        30,
        4,
        [step(i, j) for i in range(30) for j in (i + 1, i + 2, i + 3) if j < 30],
        weights=best,
    )
    assert Prover(Limits())(tiny.problem()) is None
    problem = replace(tiny.problem(), capacity=np.full(4, 30))  # as a whole
    solve(problem, **WORK)
    assert [len(start) for start in begun] == [30]


def test_where_the_time_was_used_up_a_plan_is_handed_over(monkeypatch):
    """The first engine takes five times what it was given: no other one is begun."""
    now = [0.0]

    def late(problem, limits, **_):
        now[0] += 5 * limits.seconds
        return Solution(Verdict.UNKNOWN, bound=Fraction(999), stopped="time")

    refused = lambda *_: pytest.fail("began what cannot end in time")  # noqa: E731
    monkeypatch.setattr("policies.solvers.auto.solve", late)
    monkeypatch.setattr("policies.solvers.auto.exactly", refused)
    best = [[9, 1, 1, 1]] * 73
    caps = (Average((0,), Fraction(9, 10)),)
    problem = windows(70, 4, weights=best, averages=caps).problem()
    solver = Auto(frozenset({"across", "neighbourhood"}))
    limits = Limits(seconds=10.0, clock=lambda: now[0])
    found = solver(problem, np.random.default_rng(0), limits)
    assert (found.verdict, found.stopped) == (Verdict.SOLVED, "time")
