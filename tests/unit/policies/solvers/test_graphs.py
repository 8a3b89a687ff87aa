"""DIMACS graphs: a plan exists exactly when there are as many workers as colours."""

from itertools import combinations

import numpy as np
import pytest

from policies.instances.importers import colouring
from policies.instances.instance_file import read_instance
from policies.solvers import SOLVERS, Limits, Verdict


def col(n, edges):
    """The text of a ``.col`` file."""
    lines = [f"p edge {n} {len(edges)}", *(f"e {a + 1} {b + 1}" for a, b in edges)]
    return "\n".join(["c made here", *lines, ""])


def mycielski(times):
    """Graphs without triangles that need one colour more each time; myciel3 after 3."""
    n, edges = 2, [(0, 1)]
    for _ in range(times - 1):
        more = [(a, b + n) for a, b in edges] + [(b, a + n) for a, b in edges]
        edges = edges + more + [(d + n, 2 * n) for d in range(n)]
        n = 2 * n + 1
    return n, edges


def queens(side):
    """Squares that queens attack each other on."""
    at = list(np.ndindex(side, side))
    pairs = combinations(range(side * side), 2)
    return side * side, [
        (a, b)
        for a, b in pairs
        if at[a][0] == at[b][0]
        or at[a][1] == at[b][1]
        or abs(at[a][0] - at[b][0]) == abs(at[a][1] - at[b][1])
    ]


def cycle(n):
    return n, [(d, (d + 1) % n) for d in range(n)]


@pytest.mark.parametrize(
    ("graph", "colours"),
    [
        (cycle(8), 2),
        (cycle(9), 3),
        (mycielski(3), 4),  # myciel3: 11 vertices, 20 edges
        (mycielski(4), 5),  # myciel4: 23 vertices, 71 edges
        (queens(5), 5),  # queen5_5
    ],
)
def test_workers_are_colours(graph, colours):
    """One fewer is refuted with a core."""
    text = col(*graph)
    for k, says in ((colours - 1, Verdict.INFEASIBLE), (colours, Verdict.SOLVED)):
        problem = read_instance(colouring(text, k)).problem
        limits = Limits(work=60.0)
        found = SOLVERS["auto"](problem, np.random.default_rng(0), limits)
        assert found.verdict is says
        assert (found.core is None) is (says is Verdict.SOLVED)


def test_mycielski_graphs_are_those_of_the_collection():
    """myciel3.col and myciel4.col name so many vertices and edges."""
    sizes = [(n, len(edges)) for n, edges in (mycielski(3), mycielski(4))]
    assert sizes == [(11, 20), (23, 71)]


def test_a_mean_that_no_plan_keeps_is_refuted_by_cp_sat_where_highs_gives_up():
    """A mean below 1/71 leaves no pair together: myciel4 in four colours, which is none."""
    n, edges = mycielski(4)
    document = colouring(col(n, edges), 4) | {
        "disclosure": {"kind": "step", "aggregation": "average"},
        "problem": "discbudget",
        "tau": 1 / len(edges),
    }
    problem = read_instance(document).problem
    limits, rng = Limits(work=0.1), np.random.default_rng(0)
    assert SOLVERS["milp"](problem, rng, limits).verdict is Verdict.UNKNOWN
    found = SOLVERS["auto"](problem, rng, limits)
    assert found.verdict is Verdict.INFEASIBLE
    assert (found.core.needed, found.core.exact) == (5, True)
