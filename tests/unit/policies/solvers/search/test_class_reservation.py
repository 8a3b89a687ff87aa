"""ClassReservation of a rule over classes: spare hands are left on each of them."""

from dataclasses import replace

import numpy as np
import pytest

from policies.model.problem import Pairs
from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.search.class_reservation import ClassReservation
from policies.solvers.search.ejection_chains import constructed
from tests.unit.policies.tiny import Tiny, classes

K = 12
RECORDS = 60
NAMES = tuple(range(RECORDS))
REASONS = tuple(range(RECORDS, 2 * RECORDS))
DRUGS = tuple(range(2 * RECORDS, 3 * RECORDS))


def one_patient(**changes):
    """A patient with 60 records of a name, a reason and a drug, 2 answers each."""
    made = [classes(NAMES, REASONS), classes(NAMES, DRUGS)]
    copies = [2] * (3 * RECORDS)
    tiny = Tiny(3 * RECORDS, K, made, lo=copies, hi=copies)
    return replace(tiny.problem(), **changes)


def solved(problem, name="auto", seed=3):
    limits = Limits(spread=2.0, exact_size=1)
    solver = constructed if name == "planner" else SOLVERS[name]
    return solver(problem, np.random.default_rng(seed), limits)


def hands_on(plan, entries):
    return set(plan.adversary[np.isin(plan.entry, entries)].tolist())


@pytest.mark.parametrize("name", ["auto", "planner"])
def test_a_large_patient_leaves_several_workers_on_each_side(name):
    """A returned name or drug finds another worker, though everybody is busy."""
    answer = solved(one_patient(), name)
    assert answer.verdict is Verdict.SOLVED
    assert len(hands_on(answer.plan, NAMES)) >= 4
    assert len(hands_on(answer.plan, REASONS)) >= 4
    assert len(hands_on(answer.plan, DRUGS)) >= 4
    assert not hands_on(answer.plan, NAMES) & hands_on(answer.plan, DRUGS)


def test_every_name_of_a_large_patient_can_be_handed_back_once():
    """After the plan was carried out, one more copy of each name has a plan."""
    first = solved(one_patient())
    again = np.zeros(3 * RECORDS, np.int64)
    again[list(NAMES)] = 1
    shown = Pairs(first.plan.entry, first.plan.adversary)
    problem = one_patient(lo=again, hi=again, history=shown, forbidden=shown)
    assert solved(problem, seed=4).verdict is Verdict.SOLVED


def test_history_keeps_its_side():
    """Whoever saw a name is away from reasons and drugs, and not from names."""
    shown = Pairs(np.array([0, 1]), np.array([5, 7]))
    sides = ClassReservation(one_patient(history=shown), np.random.default_rng(1))
    for adversary in (5, 7):
        assert not sides.away(NAMES[9])[adversary]
        assert sides.away(REASONS[9])[adversary]
        assert sides.away(DRUGS[9])[adversary]


def test_nobody_takes_a_side_where_most_hands_stay_free():
    """One record of one patient: 6 copies, 12 workers."""
    problem = Tiny(3, K, [classes((0,), (1,), (2,))], lo=[2] * 3, hi=[2] * 3).problem()
    assert ClassReservation(problem, np.random.default_rng(1)).away(0) is None


def test_too_many_ways_to_keep_away_are_not_weighed():
    """Nine rules of four classes each would make 262,144 of them."""
    groups = tuple((i, i + 4, i + 8, i + 12) for i in range(4))
    made = [classes(*groups) for _ in range(9)]
    problem = Tiny(16, K, made, lo=[2] * 16, hi=[2] * 16).problem()
    assert ClassReservation(problem, np.random.default_rng(1)).away(0) is None
