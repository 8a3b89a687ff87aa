"""Edges covered by cliques, colouring by component, and components searched exactly."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.solvers import SOLVERS, Cause, Limits, Verdict
from policies.solvers.exact.conflict_graph import covered, pairs_only, searched, small
from tests.unit.policies.tiny import Tiny, classes, pairs_of, step


def solve(tiny):
    limits = Limits(work=10)
    return SOLVERS["clique"](tiny.problem(), np.random.default_rng(0), limits)


@given(st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=20))
@settings(max_examples=60)
def test_cliques_say_every_edge_and_nothing_else(edges):
    """Pairs inside the cliques are exactly the edges."""
    wanted = {(min(e), max(e)) for e in edges if e[0] != e[1]}
    if not wanted:
        return
    tiny = Tiny(8, 2, [step(*edge) for edge in sorted(wanted)])
    tight, says = covered(tiny.problem())
    told = set()
    for one in range(tight.sets.n_sets):
        members = sorted(tight.sets.members(one).tolist())
        told |= set(combinations(members, 2))
        assert len(says[one]) == len(members) * (len(members) - 1) // 2
    assert told == wanted


def test_a_complete_graph_is_one_clique():
    """K5: ten pairs, one row."""
    tiny = Tiny(5, 5, [step(a, b) for a, b in combinations(range(5), 2)])
    tight, says = covered(tiny.problem())
    assert tight.sets.n_sets == 1
    assert sorted(says[0]) == list(range(10))


def test_two_components_are_solved_each_by_itself():
    """A triangle with three workers, weights 3 2 1 each: 3 + 2 + 1, and a lone entry."""
    rows = [[3, 2, 1]] * 3 + [[5, 0, 0]]
    tiny = Tiny(4, 3, [step(0, 1), step(1, 2), step(0, 2)], weights=rows)
    answer = solve(tiny)
    assert (answer.verdict, answer.value, answer.stopped) == (
        Verdict.SOLVED,
        11,
        "optimal",
    )


def test_a_clique_too_large_is_the_core():
    """K4 beside a pair, three workers: the four entries, and four workers would do."""
    pairs = [step(a, b) for a, b in combinations(range(4), 2)]
    answer = solve(Tiny(6, 3, [*pairs, step(4, 5)]))
    assert answer.verdict is Verdict.INFEASIBLE
    clash = answer.core.clashes[0]
    assert (clash.cause, clash.entries) == (Cause.SET, (0, 1, 2, 3))
    assert clash.sets == (0, 1, 2, 3, 4, 5)
    assert (answer.core.needed, answer.core.exact) == (4, True)
    assert answer.held.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "sets", [[step(0, 1, 2)], [classes((0,), (1,))], []], ids=["three", "classes", "no"]
)
def test_other_sets_are_not_supported(sets):
    """Three entries, classes, or nothing at all."""
    assert not pairs_only(Tiny(3, 2, sets).problem())


@given(seed=st.integers(0, 10**6))
@settings(max_examples=80)
def test_the_optimum_is_brute_force_and_none_means_no_plan(seed):
    """5 entries, 3 workers, 4 pairs, singles and barred pairs among them."""
    rng = np.random.default_rng(seed)
    pairs = [step(*rng.permutation(5)[:2].tolist()) for _ in range(4)]
    tiny = Tiny(
        5,
        3,
        [*pairs, step(int(rng.integers(5)))][: int(rng.integers(1, 6))],
        lo=rng.integers(0, 2, 5).tolist(),
        hi=rng.integers(1, 4, 5).tolist(),
        weights=rng.integers(0, 9, (5, 3)).tolist(),
        forbidden=[(0, 1), (3, 2)],
    )
    assert small(tiny.problem())
    found, best = searched(tiny.problem()), tiny.best()
    if best is None:
        assert found is None
        return
    assert found is not None
    assert (found.verdict, found.value, found.bound) == (Verdict.SOLVED, best, best)
    assert tiny.feasible(pairs_of(found.plan))
    assert tiny.objective(pairs_of(found.plan)) == best


def test_what_it_ignores_it_declines():
    """Larger sets, history, capacities and trust are for others."""
    tiny = Tiny(3, 2, [step(0, 1)])
    assert small(tiny.problem())
    assert not small(replace(tiny, sets=[step(0, 1, 2)]).problem())
    assert not small(replace(tiny, history=[(0, 0)]).problem())
    assert not small(replace(tiny, capacity=[9, 9]).problem())
    assert not small(replace(tiny, trusted=[[True, False]]).problem())


def test_it_gives_up_and_does_not_guess():
    """40 entries who all meet and 12 workers: no plan, not to be refuted in few nodes."""
    ring = [step(a, b) for a in range(40) for b in range(a)]
    assert searched(Tiny(40, 12, ring).problem()) is None
