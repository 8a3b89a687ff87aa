"""Components and their shapes."""

from dataclasses import replace

import numpy as np
from hypothesis import given

from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.components import shapes, split
from tests.unit.policies.tiny import Tiny, classes, pairs_of, step, tinies


@given(tinies())
def test_components_are_what_sets_connect(tiny):
    """Two entries have one label iff a chain of sets joins them (union by hand)."""
    problem = tiny.problem()
    parts = split(problem.sets)
    root = list(range(tiny.n))
    for _ in range(tiny.n):
        for s in tiny.sets:
            low = min(root[d] for d in s.members)
            for d in s.members:
                root[d] = low
    for d in range(tiny.n):
        for e in range(tiny.n):
            assert (parts.label[d] == parts.label[e]) == (root[d] == root[e])
    every = np.arange(parts.count)
    assert parts.entries_of(every).tolist() == list(range(tiny.n))
    assert parts.sets_of(every).tolist() == list(range(len(tiny.sets)))


def test_records_of_one_form_have_one_shape():
    """Three records of a pair and a single; the third wants two copies of one."""
    sets = [step(3 * r, 3 * r + 1) for r in range(3)]
    tiny = Tiny(9, 3, sets, lo=[1, 1, 1, 1, 1, 1, 1, 2, 1])
    problem = tiny.problem()
    problem = replace(
        problem, weights=replace(problem.weights, kind=np.array([0, 1, 2] * 3))
    )
    parts = split(problem.sets)
    shape = shapes(problem, parts)
    of_entry = shape[parts.label].tolist()
    assert of_entry[0] == of_entry[1] == of_entry[3]
    assert of_entry[6] != of_entry[0]
    assert of_entry[2] == of_entry[5] == of_entry[8]


def test_order_of_classes_and_caps_tell_shapes_apart():
    """{a} x {b, c} is not {a, b} x {c}; any two of three is not all three."""
    sets = [
        classes((0,), (1, 2)),
        classes((3, 4), (5,)),
        step(6, 7, 8),
        replace(step(9, 10, 11), cap=1, full=2),
    ]
    problem = Tiny(12, 2, sets).problem()
    kinds = np.zeros(12, np.int64)
    problem = replace(problem, weights=replace(problem.weights, kind=kinds))
    shape = shapes(problem, split(problem.sets))
    assert len(set(shape.tolist())) == 4


def many(records, workers, seed=0, **limits):
    """Records of name, disease, drug: both pairs with the name are apart."""
    sets = [step(3 * r, 3 * r + side) for r in range(records) for side in (1, 2)]
    tiny = Tiny(3 * records, workers, sets, lo=[2, 3, 3] * records)
    problem = tiny.problem()
    flat = replace(
        problem.weights,
        kind=np.array([0, 1, 2] * records),
        factor=np.ones((workers, 3), np.int64),
    )
    problem = replace(problem, weights=flat)
    rng = np.random.default_rng(seed)
    return tiny, SOLVERS["auto"](problem, rng, Limits(exact_size=1, **limits))


def test_a_thousand_records_of_one_form_are_planned_evenly():
    """8,000 copies over 20 workers: 400 each, nothing disclosed."""
    _, answer = many(1_000, 20, spread=2.0)
    assert answer.verdict is Verdict.SOLVED
    assert np.bincount(answer.plan.adversary).tolist() == [400] * 20
    assert answer.judged.complete == 0
    assert answer.value == answer.bound


def test_a_template_with_few_workers_packs_slots():
    """5 workers is the minimum: 2 for names, 3 for the rest, in every record."""
    _, answer = many(1_000, 5)
    assert answer.verdict is Verdict.SOLVED
    assert len(answer.plan) == 8_000


def test_a_template_without_a_plan_is_explained_once():
    """4 workers: one core for all thousand records, 5 are needed."""
    _, answer = many(1_000, 4)
    assert answer.verdict is Verdict.INFEASIBLE
    assert [(c.needed, c.repeats) for c in answer.cores] == [(5, 1_000)]
    assert len(answer.held) == 3_000


def test_templates_are_dealt_the_same_for_the_same_seed():
    """And otherwise for another."""
    one, two, three = (pairs_of(many(300, 9, seed=s)[1].plan) for s in (1, 1, 2))
    assert one == two
    assert one != three
