"""Laws that hold for every solver of the registry, against brute force."""

from dataclasses import replace
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import currently_in_test_context, given, settings
from hypothesis import strategies as st

from policies.judging.judge import judge
from policies.model.measures import MEASURES, Measure
from policies.model.problem import Average, Problem
from policies.model.sets import NO_CAP
from policies.solvers import SOLVERS, Limits, Verdict
from tests.unit.policies.tiny import (
    CUBIC,
    Made,
    Tiny,
    pairs_of,
    step,
    tinies,
    uncapped,
)

ALL = pytest.mark.parametrize("name", sorted(SOLVERS))
EXACT = ("auto", "cp-sat")


@st.composite
def further_limits(draw):
    """Limits on all kinds of sets, and one of the further measure, or a cap on its mean."""
    tiny = draw(tinies())
    last, weights = len(tiny.measures), {d: 1 + d % 2 for d in range(tiny.n)}
    full = max(1, sum(weights.values()))
    cap = draw(st.sampled_from([*range(full), NO_CAP]))
    cubic = Made(weights, cap, full, last)
    mean = Average((last,), Fraction(draw(st.integers(1, 7)), 8))
    return replace(
        tiny,
        sets=[*tiny.sets, cubic] if tiny.n else [],
        measures=(*tiny.measures, CUBIC),
        trusted=None,
        averages=(mean,) if draw(st.booleans()) else (),
    )


def further_tradeoffs(average):
    return uncapped((CUBIC, Measure.LINEAR), average=average)


def solve(name, tiny, seed=1, **limits):
    limits = {"work": 2.0} | limits
    problem = tiny.problem()
    if not SOLVERS[name].supports(problem):
        if currently_in_test_context():
            return None  # one example of many
        pytest.skip(f"{name} does not support this problem")
    return SOLVERS[name](problem, np.random.default_rng(seed), Limits(**limits))


def check_against_brute_force(answer, tiny):
    best = tiny.best()
    if answer.verdict is Verdict.SOLVED:
        assert best is not None
        assert tiny.feasible(pairs_of(answer.plan))
        assert answer.value == tiny.objective(pairs_of(answer.plan))
        assert answer.value <= best <= answer.bound
        assert answer.stopped != "optimal" or answer.value == best
    if answer.verdict is Verdict.INFEASIBLE:
        assert best is None


@ALL
@given(tiny=tinies())
@settings(max_examples=40)
def test_value_never_beats_brute_force_and_bound_is_never_below_it(name, tiny):
    """value <= optimum <= bound, and the plan is feasible by plain Python."""
    answer = solve(name, tiny)
    if answer is None:
        return
    check_against_brute_force(answer, tiny)


@pytest.mark.parametrize("name", EXACT)
@given(tiny=tinies())
@settings(max_examples=60)
def test_exact_solvers_find_the_optimum_or_prove_there_is_none(name, tiny):
    """Feasible iff brute force finds a plan, and then the value is the optimum."""
    answer = solve(name, tiny)
    best = tiny.best()
    expected = Verdict.INFEASIBLE if best is None else Verdict.SOLVED
    assert answer.verdict is expected
    if best is not None:
        assert answer.value == best == answer.bound


@given(tiny=tinies(tradeoff=True))
@settings(max_examples=40)
def test_auto_finds_the_best_tradeoff(tiny):
    """max u + lambda * (tau - f) over all plans below the caps."""
    answer = solve("auto", tiny)
    best = tiny.best()
    if best is None:
        assert answer.verdict is Verdict.INFEASIBLE
        return
    assert answer.verdict is Verdict.SOLVED
    assert answer.value == best
    assert answer.bound >= best


@given(tiny=tinies())
@settings(max_examples=40)
def test_auto_without_exact_search_still_answers_feasibility(tiny):
    """Large problems take this way: each component is decided, none leaks."""
    answer = solve("auto", tiny, exact_size=0, spread=2.0)
    best = tiny.best()
    if answer.verdict is Verdict.SOLVED:
        assert best is not None
        assert tiny.feasible(pairs_of(answer.plan))
        assert answer.value <= best <= answer.bound
    elif answer.verdict is Verdict.INFEASIBLE:
        assert best is None
    else:  # only capacities that couple components may stay undecided
        assert tiny.capacity is not None
        assert answer.tried


@given(tiny=tinies())
@settings(max_examples=40)
def test_what_is_planned_beside_a_refuted_component_breaks_nothing(tiny):
    """A partial plan serves every entry that is not held back, within all limits."""
    answer = solve("auto", tiny, exact_size=0)
    lo = [0 if d in answer.held else low for d, low in enumerate(tiny.lo)]
    if len(answer.plan) or answer.verdict is Verdict.SOLVED:
        assert replace(tiny, lo=lo).feasible(pairs_of(answer.plan))
    assert not set(answer.plan.entry.tolist()) & set(answer.held.tolist())


@ALL
@given(tiny=tinies())
@settings(max_examples=15)
def test_same_seed_same_plan(name, tiny):
    """A plan can be made again."""
    one, two = solve(name, tiny, seed=7), solve(name, tiny, seed=7)
    if one is None:
        return
    assert one.verdict is two.verdict
    assert pairs_of(one.plan) == pairs_of(two.plan)


@ALL
@patch.dict(MEASURES, {"cubic": CUBIC})
@given(tiny=st.one_of(further_limits(), *map(further_tradeoffs, (False, True))))
@settings(max_examples=25)
def test_a_further_measure_is_one_row(name, tiny):
    """f = share ** 3: no solver takes it for another power, and bounds stay bounds."""
    assert CUBIC in tiny.measures
    answer = solve(name, tiny)
    if answer is None:
        return
    check_against_brute_force(answer, tiny)


@patch.dict(MEASURES, {"cubic": CUBIC})
@pytest.mark.parametrize("aggregation", ["worst", "average"])
@pytest.mark.parametrize("name", ["greedy", "annealing", "milp", "auto"])
def test_a_further_measure_is_planned_from_its_name(name, aggregation):
    """Each adversary gets half of the set, which discloses 1/8."""
    problem = Problem.from_sets(
        [[1, 1], [1, 1]],
        [{0: 0.5, 1: 0.5}],
        disclosure="cubic",
        aggregation=aggregation,
        objective="tradeoff",
        lambda_=4,
        tau=0,
    )
    answer = SOLVERS[name](problem, np.random.default_rng(1), Limits(work=2.0))
    assert judge(problem, answer.plan).f == Fraction(1, 8)
    assert answer.value == 1 - Fraction(4, 8) <= answer.bound


@patch.dict(MEASURES, {"cubic": CUBIC})
@pytest.mark.parametrize("name", ["cp-sat", "milp", "auto"])
def test_a_limit_holds_for_a_further_measure(name):
    """Two of three parts disclose 8/27 < 0.3, so two adversaries do for three entries."""
    problem = Problem.from_sets(
        [[1, 1]] * 3, [{0: 1 / 3, 1: 1 / 3, 2: 1 / 3}], disclosure="cubic", tau=0.3
    )
    answer = SOLVERS[name](problem, np.random.default_rng(1), Limits(work=2.0))
    assert judge(problem, answer.plan).f == Fraction(8, 27)
    assert answer.value == answer.bound


@ALL
def test_the_judge_agrees(name):
    """Six entries in a ring of pairs, three workers: every solver's plan is judged."""
    ring = [step(d, (d + 1) % 6) for d in range(6)]
    tiny = Tiny(6, 3, ring, lo=[1] * 6)
    answer = solve(name, tiny)
    assert answer.verdict is Verdict.SOLVED
    seen = judge(tiny.problem(), answer.plan)
    assert (seen.feasible, seen.f, seen.complete) == (True, 0, 0)


@ALL
@pytest.mark.parametrize(
    ("tiny", "value"),
    [
        (Tiny(0, 1, [], measures=()), 0),  # empty
        (Tiny(2, 1, [], measures=()), 2),  # no properties
        (Tiny(2, 2, [step(0, 1)], weights=[[0, 0], [0, 0]]), 0),  # zero weights
        (Tiny(2, 2, [step(0, 1), step(0, 1)]), 2),  # a duplicate set
        (Tiny(3, 2, [step(0, 1), step(0, 1, 2)]), 3),  # a set within another
        (Tiny(1, 2, [], measures=(), hi=[9]), 2),  # hi > k
        (Tiny(2, 1, [step(0)], lo=[0, 1]), 1),  # a singleton that need not be shown
        (Tiny(1, 1, [step()]), 1),  # a set without entries discloses nothing
    ],
)
def test_degenerate_input_has_an_answer(name, tiny, value):
    """Each by hand."""
    answer = solve(name, tiny)
    assert (answer.verdict, answer.value) == (Verdict.SOLVED, value)


@ALL
@pytest.mark.parametrize(
    "tiny",
    [
        Tiny(2, 1, [step(0, 1)]),  # one adversary gets everything
        Tiny(1, 3, [step(0)]),  # whoever gets the only entry of a set
        Tiny(2, 2, [step(0, 1)], lo=[3, 1], hi=[3, 1]),  # more copies than adversaries
    ],
    ids=["k1", "single", "copies"],
)
def test_what_can_not_be_is_never_planned(name, tiny):
    """No solver leaks, and the exact ones say why."""
    answer = solve(name, tiny)
    assert answer.verdict in (Verdict.INFEASIBLE, Verdict.UNKNOWN)
    assert not len(answer.plan)
    if name in EXACT:
        assert answer.verdict is Verdict.INFEASIBLE


def test_auto_says_unknown_and_not_nothing_when_stopped_at_once():
    """A stop flag that is already set: no plan that was not judged, and what was tried."""
    sets = [step(a, b) for a in range(5) for b in range(a)]  # K5 needs 5 workers
    tiny = Tiny(5, 4, sets)
    answer = solve("auto", tiny, stopped=lambda: True)
    assert answer.verdict is Verdict.UNKNOWN
    assert answer.held.tolist() == [0, 1, 2, 3, 4]
    assert len(answer.tried) >= 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("work", 0),
        ("work", float("nan")),
        ("seconds", -1),
        ("spread", 0.5),
        ("threads", 0),
    ],
)
def test_limits_check_themselves(field, value):
    """The message gives the value."""
    with pytest.raises(ValueError, match=f"limits.{field} is {value}"):
        Limits(**{field: value})


def test_the_core_is_the_most_demanding_one():
    """Two infeasible components: one needs 3 workers, one 4."""
    three = [step(a, b) for a, b in [(0, 1), (1, 2), (0, 2)]]
    four = [step(a, b) for a in range(3, 7) for b in range(3, a)]
    answer = solve("auto", Tiny(7, 2, three + four), exact_size=0)
    assert answer.verdict is Verdict.INFEASIBLE
    assert sorted(c.needed for c in answer.cores) == [3, 4]
    assert answer.core.needed == 4
    assert answer.bound == Fraction(7)


@pytest.mark.parametrize("exact_size", [0, 4_000])
@given(tiny=tinies(averages=True))
@settings(max_examples=60)
def test_caps_on_means_are_kept_or_nothing_is_planned(exact_size, tiny):
    """Whatever is planned keeps every cap; INFEASIBLE is said only where it is so."""
    answer = solve("auto", tiny, exact_size=exact_size)
    lo = [0 if d in answer.held else low for d, low in enumerate(tiny.lo)]
    if len(answer.plan) or answer.verdict is Verdict.SOLVED:
        assert replace(tiny, lo=lo).feasible(pairs_of(answer.plan))
    if answer.verdict is Verdict.INFEASIBLE:
        assert tiny.best() is None


def test_a_cap_on_the_mean_spreads_what_is_seen():
    """Eight linear sets of two halves, mean <= 1/4: at most 4 halves to a worker."""
    sets = [Made({2 * i: 1, 2 * i + 1: 1}, cap=2, full=2) for i in range(8)]
    tiny = Tiny(
        16,
        4,
        sets,
        measures=(Measure.LINEAR,),
        weights=[[9, 1, 1, 1]] * 16,  # the first worker is best at everything
        averages=(Average((0,), Fraction(1, 4)),),
    )
    answer = solve("auto", tiny, exact_size=0)
    assert answer.verdict is Verdict.SOLVED
    assert np.bincount(answer.plan.adversary).tolist() == [4, 4, 4, 4]


@pytest.mark.parametrize(("parts", "verdict"), [(10, "SOLVED"), (9, "INFEASIBLE")])
def test_means_are_searched_where_greedy_falls_short(parts, verdict):
    """Loads 5 5 4 3 3 of tens on two workers: only 5 + 5 and 4 + 3 + 3 keep 10 each."""
    sets = [Made({d: w}, cap=10, full=10) for d, w in enumerate((5, 5, 4, 3, 3))]
    caps = (Average((0,), Fraction(parts, 50)),)
    tiny = Tiny(5, 2, sets, measures=(Measure.LINEAR,), averages=caps)
    assert (tiny.best() is None) is (verdict == "INFEASIBLE")
    assert solve("auto", tiny, exact_size=0).verdict == verdict


def test_no_proof_of_a_component_is_one_within_caps_on_means(monkeypatch):
    """Counting says that either set can be kept apart, and nothing of the mean."""
    monkeypatch.setattr(
        "policies.solvers.planned.build_plan", lambda hands, *_, **__: {0}
    )
    caps = (Average((0,), Fraction(1, 3)),)
    tiny = Tiny(3, 9, [step(0, 1), step(1, 2)], averages=caps)
    answer = solve("auto", tiny, exact_size=0, stopped=lambda: True)
    assert (answer.verdict, answer.proofs) == (Verdict.UNKNOWN, ())


def test_a_proof_stands_in_for_a_plan_that_was_not_found(monkeypatch):
    """The search ends at once, but the local lemma says that a plan exists."""
    monkeypatch.setattr(
        "policies.solvers.planned.build_plan", lambda hands, *_, **__: {0}
    )
    answer = solve(
        "auto", Tiny(3, 9, [step(0, 1), step(1, 2)]), exact_size=0, stopped=lambda: True
    )
    assert answer.verdict is Verdict.CERTIFIED


def test_seconds_pass_without_a_clock_of_ones_own():
    """A limit in seconds ends a search, whoever sets it; 1 ns is over by the next look."""
    over = Limits(seconds=1e-9).deadline()
    assert any(over() for _ in range(1_000_000))
