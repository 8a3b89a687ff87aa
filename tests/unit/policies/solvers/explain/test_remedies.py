"""How many workers would do: the worked example of the prescriptions, and small cases."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from policies.instances.instance_file import read_instance
from policies.model.disclosure import cap_below
from policies.model.measures import Measure
from policies.solvers import SOLVERS, Cause, Limits, Verdict
from policies.solvers.explain.cores import feasible, proven_core, widened
from policies.solvers.explain.remedies import remedies
from tests.unit.policies.tiny import Made, Tiny, classes, step

FIELDS = ("name", "birth", "zip", "gender", "doctor", "disease", "drug")
NAME, BIRTH, ZIP, GENDER, DOCTOR, DISEASE, DRUG = range(7)
HISTORY = 4  # the property patient-history
STEP, LINEAR = Measure.STEP, Measure.LINEAR


def patient(records, *, answers=3, tau=(3, 5), subject=False, workers=4):
    """One patient's prescriptions under the rules of the first ten minutes.

    patient-disease and patient-drug (per record, or over all records of the patient),
    doctor-drug, quasi-identifier, and patient-history: each disease or drug is 1/4,
    f < tau.
    """
    sets = []
    for r in range(records):
        at = 7 * r
        if not subject:
            sets.append(step(at + NAME, at + DISEASE, owner=0))
            sets.append(step(at + NAME, at + DRUG, owner=1))
        sets.append(step(at + DOCTOR, at + DRUG, owner=2))
        sets.append(step(at + GENDER, at + ZIP, at + BIRTH, owner=3))

    def every(field):
        return tuple(7 * r + field for r in range(records))

    if subject:
        sets.append(classes(every(NAME), every(DISEASE), owner=0))
        sets.append(classes(every(NAME), every(DRUG), owner=1))
    cap = cap_below(LINEAR, 4, Fraction(*tau))
    history = dict.fromkeys((*every(DISEASE), *every(DRUG)), 1)
    sets.append(Made(history, cap=cap, full=4, owner=HISTORY))
    copies = [2, 2, 2, 1, 2, answers, answers] * records
    return Tiny(
        7 * records, workers, sets, measures=(STEP, STEP, STEP, STEP, LINEAR), lo=copies
    )


def solve(tiny):
    limits = Limits(work=5.0, exact_size=1)
    return SOLVERS["auto"](tiny.problem(), np.random.default_rng(1), limits)


@pytest.mark.parametrize(
    ("tiny", "needed"),
    [
        # 8 entries x 3 answers = 24 showings, 2 to a worker
        (patient(4), 12),
        # answers = 2: 16 showings, 2 to a worker
        (patient(4, answers=2), 8),
        # tau above 0.75: 24 showings, 3 to a worker
        (patient(4, tau=(4, 5)), 8),
        # tau = 0.4: 24 showings, 1 to a worker
        (patient(4, tau=(2, 5)), 24),
        # one prescription: name (2) and disease (3) may not share a worker
        (patient(1), 5),
        # names at subject scope: the 12 are full, 2 more see the names
        (patient(4, subject=True), 14),
        (patient(1, subject=True), 5),
    ],
)
def test_the_minima_of_the_first_ten_minutes(tiny, needed):
    """Exact: so many workers would do, and one fewer would not."""
    answer = solve(tiny)
    assert answer.verdict is Verdict.INFEASIBLE
    core = answer.core
    assert (core.needed, core.exact, core.available) == (needed, True, 4)
    assert solve(replace(tiny, k=needed, weights=None)).verdict is Verdict.SOLVED
    fewer = solve(replace(tiny, k=needed - 1, weights=None))
    assert fewer.verdict is Verdict.INFEASIBLE


def test_what_clashes_is_counted():
    """24 showings of 8 entries, 2 to a worker; then the pairs that need 5."""
    clashes = solve(patient(4)).core.clashes
    history = clashes[0]
    assert (history.cause, history.properties) == (Cause.SET, (HISTORY,))
    assert (history.answers, history.per_adversary, history.needed) == (24, 2, 12)
    assert len(history.entries) == 8
    assert [(c.answers, c.per_adversary, c.needed) for c in clashes[1:]] == [
        (5, 1, 5),  # name and disease
        (5, 1, 5),  # name and drug
        (5, 1, 5),  # doctor and drug
    ]


def test_other_remedies_need_fewer_workers():
    """12, or 8 with answers = 2, or 8 with tau above 3/4."""
    tiny = patient(4)
    core = solve(tiny).core
    found = remedies(tiny.problem(), core, np.random.default_rng(1), Limits(work=2.0))
    told = {r.kind: (r.needed, r.answers, str(r.above)) for r in found}
    assert told == {"answers": (8, 2, "0"), "limit": (8, 0, "3/4")}
    assert all(r.property == HISTORY for r in found)


def test_patients_of_one_shape_are_explained_once():
    """Two patients with four prescriptions: one core that says two."""
    one = patient(4)
    shifted = [
        replace(s, members={d + 28: w for d, w in s.members.items()}) for s in one.sets
    ]
    two = Tiny(56, 4, one.sets + shifted, one.measures, lo=one.lo * 2).problem()
    kinds = replace(two.weights, kind=np.tile(np.arange(28), 2))
    answer = SOLVERS["auto"](
        replace(two, weights=kinds),
        np.random.default_rng(1),
        Limits(work=5.0, exact_size=1),
    )
    assert [c.repeats for c in answer.cores] == [2]
    assert set(answer.reason.tolist()) == {0}


def test_an_entry_that_crosses_alone_needs_no_number():
    """No number of workers would do for a singleton."""
    core = solve(Tiny(1, 3, [step(0)])).core
    assert (core.needed, core.exact) == (None, True)
    assert core.clashes[0].cause is Cause.ALONE


def test_more_answers_than_workers():
    """Three answers, two workers: three would do."""
    core = solve(Tiny(1, 2, [], measures=(), lo=[3])).core
    assert (core.clashes[0].cause, core.needed) == (Cause.COPIES, 3)


def test_a_clash_that_only_search_finds_is_minimal():
    """A ring of five pairs needs 3 workers; a sixth set beside it is no part of it."""
    ring = [step(d, (d + 1) % 5) for d in range(5)]
    beside = step(0, 5)
    core = solve(Tiny(6, 2, [*ring, beside])).core
    assert core.needed == 3
    assert core.clashes[0].cause is Cause.SEARCH
    assert core.clashes[0].sets == (0, 1, 2, 3, 4)


def test_capacities_that_are_too_small_in_all_are_told():
    """Three answers and room for two; what fits is planned all the same."""
    answer = solve(Tiny(3, 2, [], measures=(), capacity=[1, 1]))
    assert answer.verdict is Verdict.INFEASIBLE
    clash = answer.core.clashes[0]
    assert (clash.cause, clash.answers, clash.per_adversary) == (Cause.CAPACITY, 3, 2)
    assert (len(answer.plan), len(answer.held)) == (2, 1)


def test_trusted_workers_lower_the_need():
    """Two of three workers are trusted: a pair with two answers each needs no more."""
    tiny = Tiny(2, 3, [step(0, 1)], lo=[2, 2], trusted=[[True, True, False]])
    assert solve(tiny).verdict is Verdict.SOLVED
    assert solve(replace(tiny, trusted=None)).core.needed == 4


def test_history_is_kept_when_workers_are_added():
    """Both workers hold one end of the pair: a third one is needed."""
    tiny = Tiny(2, 2, [step(0, 1)], lo=[0, 1], history=[(0, 0), (0, 1)])
    core = solve(tiny).core
    assert (core.needed, core.exact) == (3, True)


def test_a_feasible_component_has_no_core():
    """Without a proof nothing is claimed."""
    problem = Tiny(2, 2, [step(0, 1)]).problem()
    rng, limits = np.random.default_rng(0), Limits()
    assert proven_core(problem, rng, limits, proven=False) is None
    assert feasible(problem, rng, limits).verdict is Verdict.SOLVED


def test_added_workers_are_fresh():
    """They hold nothing, are trusted with nothing and have no capacity limit."""
    tiny = Tiny(1, 1, [step(0)], capacity=[0], trusted=[[True]])
    wide = widened(tiny.problem(), 3)
    assert wide.n_adversaries == 3
    assert wide.trusted.tolist() == [[True, False, False]]
    assert wide.capacity[1] > 10**9


def test_fine_weights_do_not_keep_more_adversaries_from_being_tried():
    """Seven entries, means below 0.2, weights that fill the integers: seven would do."""
    document = {
        "schema": "sparsi-instance/1",
        "n_entries": 7,
        "n_adversaries": 2,
        "t": 1,
        "weights": [[1 / 3, 0.99]] * 7,
        "utility_norm": 7.3,
        "properties": [{"entries": list(range(7)), "a": [1 / 7] * 7}],
        "disclosure": {"kind": "linear", "aggregation": "average"},
        "problem": "discbudget",
        "tau": 0.2,
    }
    problem = read_instance(document).problem
    limits = Limits(work=5.0)
    answer = SOLVERS["auto"](problem, np.random.default_rng(1), limits)
    assert answer.verdict is Verdict.INFEASIBLE
    assert (answer.core.needed, answer.core.exact) == (7, True)
