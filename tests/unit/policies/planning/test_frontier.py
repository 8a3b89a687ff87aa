"""The frontier of strictness, utility and workers, on problems solved by hand."""

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.model.problem import Problem
from policies.planning.frontier import adversaries_for, frontier
from policies.solvers import SOLVERS, Limits, Verdict


def sweep(problem, count):
    return frontier(problem, count, SOLVERS["auto"], 0, Limits())


def told(found):
    return [
        (p.limit, p.utility, p.f, p.needed.least, p.needed.enough)
        for p in (*found.points, found.policy)
    ]


def test_whole_sets_are_apart_from_the_first_limit_on():
    """A triangle of pairs, two workers: one entry finds no place once pairs are apart."""
    problem = Problem.from_sets([1, 1, 1], [[0, 1], [1, 2], [0, 2]], adversaries=2)
    apart = Fraction(2, 3)
    found = sweep(problem, 3)
    assert told(found) == [
        (1, 1, 1, 1, 1),
        (Fraction(1, 2), apart, 0, 3, 3),
        (0, apart, 0, 3, 3),
        (None, apart, 0, 3, 3),
    ]
    assert [p.bound for p in found.points] == [1, apart, apart]
    assert (found.adversaries, found.answers) == (2, 3)


def test_a_linear_limit_takes_more_workers_step_by_step():
    """Four quarters of one set, two workers; f of each is a number of quarters."""
    problem = Problem.from_sets(
        [1] * 4, [[0, 1, 2, 3]], adversaries=2, disclosure="linear", tau=0.6
    )
    found = sweep(problem, 5)
    quarter = Fraction(1, 4)
    assert [(p.limit, p.needed.least, p.needed.enough) for p in found.points] == [
        (1, 1, 1), (3 * quarter, 2, 2), (2 * quarter, 2, 2), (quarter, 4, 4), (0, 4, None)
    ]  # fmt: skip
    assert [p.utility for p in found.points] == [1, 1, 1, Fraction(1, 2), 0]
    assert found.points[-1].needed.never
    assert (found.policy.f, found.policy.utility) == (2 * quarter, 1)
    assert (found.policy.needed.least, found.policy.needed.enough) == (2, 2)


def test_what_was_shown_already_leaves_no_plan_below_it():
    problem = Problem.from_sets(
        [1, 1],
        [[0, 1]],
        adversaries=1,
        disclosure="linear",
        history=[(0, 0)],
        copies=[0, 1],
    )
    found = sweep(problem, 3)
    assert [p.verdict for p in found.points] == [
        Verdict.SOLVED, Verdict.SOLVED, Verdict.INFEASIBLE
    ]  # fmt: skip
    assert found.points[-1].utility is None


def test_a_problem_without_sets_has_one_point():
    found = sweep(Problem.from_sets([1, 1], [], adversaries=1), 4)
    assert told(found) == [(0, 1, 0, 1, 1), (None, 1, 0, 1, 1)]


@settings(max_examples=8, deadline=None)
@given(
    st.lists(st.sets(st.integers(0, 5), min_size=2, max_size=3), max_size=5),
    st.integers(1, 2),
)
def test_the_workers_needed_are_neither_more_nor_fewer(sets, copies):
    """One fewer has no plan, by all assignments that there are."""
    problem = Problem.from_sets([1] * 6, sets, adversaries=1, copies=1)
    lo = np.full(6, copies)
    wanted = Problem(problem.sets, lo, lo, problem.weights)
    needed = adversaries_for(wanted, 0, Limits())
    assert needed.least == needed.enough
    for number, there in ((needed.enough, True), (needed.enough - 1, False)):
        assert _plan_exists(sets, copies, number) is there


def _plan_exists(sets, copies, adversaries):
    """Whether entries can be given to adversaries so that nobody holds a whole set."""
    from itertools import combinations

    choices = list(combinations(range(adversaries), copies))

    def place(entry, held):
        if entry == 6:
            return True
        for chosen in choices:
            for a in chosen:
                held[a].add(entry)
            if not any(one <= held[a] for a in chosen for one in sets) and place(
                entry + 1, held
            ):
                return True
            for a in chosen:
                held[a].discard(entry)
        return False

    return adversaries > 0 and place(0, [set() for _ in range(adversaries)])
