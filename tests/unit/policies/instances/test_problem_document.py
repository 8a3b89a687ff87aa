"""A problem written as an instance file has the same plans, and they are worth the same."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.instances.instance_file import read_instance
from policies.instances.problem_document import document_of
from policies.judging.judge import judge
from policies.model.measures import Measure
from policies.model.problem import Average, Plan
from policies.model.sets import InvalidProblem
from tests.unit.policies.tiny import Made, Tiny, classes, step


def read(problem):
    return read_instance(json.loads(json.dumps(document_of(problem)))).problem


@st.composite
def backlogs(draw):
    """Copies, history, forbidden pairs, trust; step, weighted and class sets."""
    n, k = draw(st.integers(2, 4)), draw(st.integers(1, 3))
    numbers = list(range(n))

    def one_set():
        mine = sorted(draw(st.sets(st.sampled_from(numbers), min_size=2)))
        kind = draw(st.sampled_from(["step", "weighted", "classes"]))
        if kind == "weighted":
            weights = {d: draw(st.integers(0, 3)) for d in mine}
            full = max(1, sum(weights.values()))
            return Made(weights, draw(st.integers(0, full)), full)
        if kind == "classes" and len(mine) > 2:
            return classes((mine[0],), tuple(mine[1:]))
        return step(*mine)

    sets = [one_set() for _ in range(draw(st.integers(0, 3)))]
    pair = st.tuples(st.sampled_from(numbers), st.integers(0, k - 1))
    history = draw(st.lists(pair, max_size=3, unique=True))
    lo = draw(st.lists(st.integers(0, min(2, k)), min_size=n, max_size=n))
    room = st.none() | st.lists(st.integers(0, 4), min_size=k, max_size=k)
    weight = st.lists(st.integers(0, 9), min_size=k, max_size=k)
    return Tiny(
        n, k, sets, (Measure.STEP,), lo=lo,
        weights=draw(st.lists(weight, min_size=n, max_size=n)),
        capacity=draw(room), history=history,
        forbidden=history + draw(st.lists(pair, max_size=1)),
        trusted=draw(st.none() | st.just([[True] + [False] * (k - 1)])),
    )  # fmt: skip


@settings(max_examples=40)
@given(backlogs())
def test_it_has_the_same_plans_and_they_are_worth_the_same(tiny):
    """Unless somebody is past a limit already: who is, is not in the file."""
    problem = tiny.problem()
    past = {
        a
        for a in range(tiny.k)
        for s in tiny.sets
        if any(tiny.lo[d] for d in s.members) and not tiny.trusts(s, a)
        if tiny.load(s, {d for d, b in tiny.history if b == a}) > s.cap
    }
    if len(past) == tiny.k:
        with pytest.raises(InvalidProblem, match="nobody"):
            document_of(problem)
        return
    written = read(problem)
    assert written.n_adversaries == tiny.k - len(past)
    if past:
        return
    for pairs in tiny.plans():
        plan = Plan.of(pairs)
        mine, its = judge(problem, plan), judge(written, plan)
        assert mine.feasible == its.feasible
        assert mine.u == its.u


def test_a_limit_on_a_sum_becomes_the_smallest_sets_past_it():
    """Weights 3, 2, 2, 1 below 4: 3 with 2, and 2, 2, 1 together; 3 and 1 are allowed."""
    tiny = Tiny(4, 2, [Made({0: 3, 1: 2, 2: 2, 3: 1}, 4, 8)])
    found = [one["entries"] for one in document_of(tiny.problem())["properties"]]
    assert sorted(map(sorted, found)) == [[0, 1], [0, 2], [1, 2, 3]]


def test_what_an_instance_cannot_state_is_refused():
    problem = Tiny(2, 2, averages=(Average((0,), 1),), sets=[step(0, 1)]).problem()
    with pytest.raises(InvalidProblem, match="averages"):
        document_of(problem)
    some = replace(problem, averages=(), lo=problem.lo * 0)
    with pytest.raises(InvalidProblem, match="copies"):
        document_of(some)
