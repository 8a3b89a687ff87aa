"""The judge against a naive one, and on named tiny plans."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.judging.judge import SHOWN, judge
from policies.model.measures import Measure
from policies.model.objective import Objective
from policies.model.problem import Average, Goal, Pairs, Plan, Problem
from policies.model.sets import NO_CAP, InvalidProblem, SetSystem
from policies.model.weights import Weights
from tests.unit.policies.tiny import Made, Tiny, classes, step, tinies


@st.composite
def judged(draw, **kwargs):
    tiny = draw(tinies(**kwargs))
    pair = st.tuples(st.integers(0, max(0, tiny.n - 1)), st.integers(0, tiny.k - 1))
    pairs = draw(st.sets(pair, max_size=8)) if tiny.n else set()
    return tiny, pairs


@given(judged(tradeoff=True, averages=True))
def test_judge_agrees_with_the_definition(drawn):
    """Any plan of any tiny problem has the f, u, objective and verdict of plain Python."""
    tiny, pairs = drawn
    seen = judge(tiny.problem(), Plan.of(pairs))
    assert seen.f == tiny.worst(pairs)
    assert seen.utility == tiny.utility(pairs)
    assert seen.objective == tiny.objective(pairs)
    assert seen.feasible == tiny.feasible(pairs)


@given(judged())
def test_where_names_a_set_and_adversary_that_reach_the_worst(drawn):
    """The place that is told has exactly the share that is told."""
    tiny, pairs = drawn
    seen = judge(tiny.problem(), Plan.of(pairs))
    if seen.where is None:
        assert seen.f == 0
        return
    one, a = seen.where
    held = {d for d, b in pairs | set(tiny.history) if b == a}
    assert tiny.share(tiny.sets[one], held) == seen.f


@given(judged(), st.permutations(range(4)))
def test_renaming_entries_changes_nothing(drawn, order):
    """Entries are opaque: another numbering gives the same judgement."""
    tiny, pairs = drawn
    name = {d: order[d] for d in range(4)}
    if sorted(name[d] for d in range(tiny.n)) != list(range(tiny.n)):
        ranked = sorted(range(tiny.n), key=lambda d: name[d])
        name = {d: ranked.index(d) for d in range(tiny.n)}
    back = {v: d for d, v in name.items() if d < tiny.n}

    def moved(values):
        return [values[back[v]] for v in range(tiny.n)]

    other = replace(
        tiny,
        sets=[
            replace(s, members={name[d]: w for d, w in s.members.items()})
            for s in tiny.sets
        ],
        lo=moved(tiny.lo),
        hi=moved(tiny.hi),
        weights=moved(tiny.weights),
        forbidden=[(name[d], a) for d, a in tiny.forbidden],
        history=[(name[d], a) for d, a in tiny.history],
    )
    one = judge(tiny.problem(), Plan.of(pairs))
    two = judge(other.problem(), Plan.of((name[d], a) for d, a in pairs))
    assert (one.f, one.utility, one.feasible) == (two.f, two.utility, two.feasible)
    assert (one.complete, one.past) == (two.complete, two.past)


@given(judged())
def test_history_never_lowers_disclosure(drawn):
    """What was shown before can only add to f."""
    tiny, pairs = drawn
    without = replace(tiny, history=[])
    with_it = judge(tiny.problem(), Plan.of(pairs))
    assert with_it.f >= judge(without.problem(), Plan.of(pairs)).f


def test_a_complete_pair_is_named():
    """Name and disease at one worker: load 2 of 2, allowed 1."""
    seen = judge(Tiny(2, 2, [step(0, 1)]).problem(), Plan.of([(0, 0), (1, 0)]))
    assert seen.complete == 1
    assert not seen.feasible
    assert seen.violations == ("p0: entries 0, 1 are all held by adversary 0",)
    assert seen.where == (0, 0)


def test_classes_count_once_however_many_entries():
    """Two names and no disease touch one class of two: nothing is disclosed."""
    tiny = Tiny(4, 1, [classes((0, 1), (2, 3))], lo=[1, 1, 0, 0])
    seen = judge(tiny.problem(), Plan.of([(0, 0), (1, 0)]))
    assert (seen.f, seen.feasible) == (0, True)


def test_history_past_its_limit_is_told_but_is_no_fault_of_the_plan():
    """An old breach that the plan does not touch stays; touching it is refused."""
    tiny = Tiny(3, 2, [step(0, 1)], lo=[0, 0, 1], history=[(0, 0), (1, 0)])
    seen = judge(tiny.problem(), Plan.of([(2, 0)]))
    assert (seen.past, seen.feasible, seen.f) == (1, True, 1)


def test_quadratic_is_exact():
    """(1/3 + 1/3)^2 = 4/9, not a float near it."""
    thirds = Made({0: 1, 1: 1, 2: 1}, cap=3, full=3)
    tiny = Tiny(3, 1, [thirds], measures=(Measure.QUADRATIC,), lo=[1, 1, 0])
    assert judge(tiny.problem(), Plan.of([(0, 0), (1, 0)])).f == Fraction(4, 9)


def test_average_tradeoff_takes_the_highest_mean():
    """Two sets, one complete: mean 1/2; u = 2, so u + 1 * (1 - 1/2) = 5/2."""
    goal = Goal(Objective.TRADEOFF, Fraction(1), Fraction(1), average=True)
    half = Made({2: 1}, cap=1, full=1)
    loose = Made({0: 1, 1: 1}, cap=2, full=2)
    tiny = Tiny(3, 1, [loose, half], lo=[1, 1, 0], goal=goal)
    seen = judge(tiny.problem(), Plan.of([(0, 0), (1, 0)]))
    assert (seen.f_average, seen.objective) == (Fraction(1, 2), Fraction(5, 2))


def test_average_cap_tells_the_mean():
    """One of two linear sets held whole: mean 1/2, above a cap of 1/4."""
    sets = [Made({0: 1}, 1, 1), Made({1: 1}, 1, 1)]
    cap = Average((0,), Fraction(1, 4))
    tiny = Tiny(2, 1, sets, measures=(Measure.LINEAR,), lo=[1, 0], averages=(cap,))
    told = judge(tiny.problem(), Plan.of([(0, 0)])).violations
    assert told == ("the mean disclosure to adversary 0 is 1/2, allowed 1/4",)


def test_long_lists_of_violations_are_cut_and_counted():
    """30 entries without their copy: 20 are told, then how many more."""
    seen = judge(Tiny(30, 1).problem(), Plan())
    assert len(seen.violations) == SHOWN + 1
    assert seen.violations[0] == "entry 0 gets 0 copies, expected 1 to 1"
    assert seen.violations[-1] == "and 10 more entries with a wrong number of copies"


def test_capacity_and_forbidden_pairs_are_told():
    """One worker with room for one gets two, and one of them is barred."""
    tiny = Tiny(2, 1, capacity=[1], forbidden=[(1, 0)])
    told = judge(tiny.problem(), Plan.of([(0, 0), (1, 0)])).violations
    assert told == (
        "adversary 0 gets 2 new exposures, capacity 1",
        "entry 1 may not go to adversary 0",
    )


def test_a_plan_of_unknown_entries_is_no_plan():
    """Bad input is an error, not a violation."""
    with pytest.raises(InvalidProblem, match="entry 5, expected < 2"):
        judge(Tiny(2, 1).problem(), Pairs(np.array([5]), np.array([0])))


def test_nothing_is_judged_feasible():
    """No entries, no properties, no adversaries' hands: f = 0."""
    seen = judge(Tiny(0, 1, [], measures=()).problem(), Plan())
    assert (seen.f, seen.utility, seen.feasible, seen.where) == (0, 0, True, None)


def test_means_of_sums_that_64_bits_do_not_hold_are_exact():
    """Three properties of one entry of weight 2^62: 2^62 + 2^62 + 2^62 is past 2^63."""
    big, three = 2**62, np.arange(3)
    system = SetSystem(
        n_entries=3,
        properties=("a", "b", "c"),
        measures=(Measure.LINEAR,) * 3,
        owner=three,
        start=np.arange(4),
        entry=three,
        amount=np.full(3, big),
        cap=np.full(3, NO_CAP),
        full=np.full(3, big),
        classes=np.zeros(3, np.bool_),
    )
    one = np.ones(3, np.int64)
    problem = Problem(
        sets=system,
        lo=one,
        hi=one,
        weights=Weights.flat(3, 1),
        goal=Goal(Objective.TRADEOFF, average=True),
    )
    seen = judge(problem, Plan.of([(0, 0), (1, 0), (2, 0)]))
    assert seen.f_average == seen.f == 1


@pytest.mark.parametrize(
    ("measure", "full", "many"),
    [
        (Measure.QUADRATIC, 10**9, 40),
        (Measure.QUADRATIC, 2**52, 3),
        (Measure.LINEAR, 2**52, 3000),
    ],
)
def test_a_mean_of_many_sets_of_one_property_is_exact(measure, full, many):
    """All of them whole: 40 squares of 10^9 are past 2^63, as are 3,000 times 2^52."""
    sets = [Made({d: full}, NO_CAP, full) for d in range(many)]
    cap = Average((0,), Fraction(1, 2))
    problem = Tiny(many, 1, sets, (measure,), averages=(cap,)).problem()
    seen = judge(problem, Plan.of((d, 0) for d in range(many)))
    assert seen.f_average == 1
    assert seen.violations == ("the mean disclosure to adversary 0 is 1, allowed 1/2",)
