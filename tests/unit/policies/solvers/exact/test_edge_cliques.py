"""Edges covered by cliques, and colouring by component."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.solvers import SOLVERS, Cause, Limits, Verdict
from policies.solvers.exact.edge_cliques import covered, pairs_only
from tests.unit.policies.tiny import Tiny, classes, step


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
