"""DIMACS, hMETIS and check-ins: read as instances, refused with the line."""

from itertools import product

import numpy as np
import pytest

from policies.instances.importers import checkins, colouring, hypergraph
from policies.instances.instance_file import read_instance
from policies.instances.json_values import InvalidInstance
from policies.solvers import SOLVERS, Limits, Verdict

TRIANGLE = "c three\np edge 3 3\ne 1 2\ne 2 3\ne 3 1\ne 1 3\n"


def verdict(document):
    problem = read_instance(document).problem
    limits = Limits(work=5)
    return SOLVERS["auto"](problem, np.random.default_rng(0), limits).verdict


def cycle(n):
    lines = [f"e {v + 1} {(v + 1) % n + 1}" for v in range(n)]
    return "\n".join([f"p edge {n} {n}", *lines])


def wheel(n):
    spokes = [f"e {v + 1} {n + 1}" for v in range(n)]
    return "\n".join([f"p col {n + 1} {2 * n}", *cycle(n).splitlines()[1:], *spokes])


def graph(n, edges):
    lines = [f"e {u + 1} {v + 1}" for u, v in edges]
    return "\n".join([f"p edge {n} {len(lines)}", *lines])


def mycielski(times):
    """DIMACS mycielN: from an edge, copies of all vertices and one vertex more."""
    n, edges = 2, [(0, 1)]
    for _ in range(times - 1):
        edges = [
            *edges,
            *((u, n + v) for u, v in edges),
            *((v, n + u) for u, v in edges),
            *((n + v, 2 * n) for v in range(n)),
        ]
        n = 2 * n + 1
    return graph(n, edges)


def queens(size):
    """DIMACS queenN_N: fields of a board, joined where a queen goes."""
    spots = list(product(range(size), repeat=2))
    edges = [
        (i, j)
        for i, (a, b) in enumerate(spots)
        for j, (c, d) in enumerate(spots[:i])
        if a == c or b == d or abs(a - c) == abs(b - d)
    ]
    return graph(size * size, edges)


PETERSEN = graph(
    10,
    [
        *((v, (v + 1) % 5) for v in range(5)),
        *((v, v + 5) for v in range(5)),
        *((v + 5, (v + 2) % 5 + 5) for v in range(5)),
    ],
)
BIPARTITE = graph(9, [(u, 4 + v) for u in range(4) for v in range(5)])


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (TRIANGLE, 3),
        (cycle(4), 2),
        (cycle(5), 3),
        (wheel(5), 4),
        (wheel(6), 3),
        (BIPARTITE, 2),
        (PETERSEN, 3),
        (mycielski(3), 4),
        (mycielski(4), 5),
        (queens(5), 5),
    ],
    ids=[
        "triangle",
        "ring4",
        "ring5",
        "wheel5",
        "wheel6",
        "k45",
        "petersen",
        "myciel3",
        "myciel4",
        "queen5",
    ],
)
def test_a_graph_has_a_plan_from_its_chromatic_number_on(text, number):
    """DIMACS myciel3 4, myciel4 5, queen5_5 5; the others by hand."""
    assert verdict(colouring(text, number)) is Verdict.SOLVED
    assert verdict(colouring(text, number - 1)) is Verdict.INFEASIBLE


def test_an_edge_named_twice_is_one_property():
    """1-3 stands there both ways."""
    assert len(colouring(TRIANGLE, 2)["properties"]) == 3


FANO = "7 7\n1 2 3\n1 4 5\n1 6 7\n2 4 6\n2 5 7\n3 4 7\n3 5 6\n"


def test_the_fano_plane_can_not_be_split_in_two():
    """Every 2-colouring of its points has a line of one colour; three colours do."""
    assert verdict(hypergraph(FANO, 2)) is Verdict.INFEASIBLE
    assert verdict(hypergraph(FANO, 3)) is Verdict.SOLVED


def progressions(n, length):
    sets = [
        range(start, start + step * length, step)
        for step in range(1, n)
        for start in range(1, n - step * (length - 1) + 1)
    ]
    lines = [" ".join(map(str, s)) for s in sets]
    return "\n".join([f"{len(lines)} {n}", *lines])


def test_van_der_waerden_of_three_is_nine():
    """Two colours avoid progressions of three up to 8 numbers and not for 9."""
    assert verdict(hypergraph(progressions(8, 3), 2)) is Verdict.SOLVED
    assert verdict(hypergraph(progressions(9, 3), 2)) is Verdict.INFEASIBLE


def test_schur_of_two_is_four():
    """Two colours avoid a + b = c up to 4 numbers and not for 5."""

    def sums(n):
        triples = {
            tuple(sorted({a, b, a + b}))
            for a in range(1, n)
            for b in range(a, n - a + 1)
        }
        lines = [" ".join(map(str, t)) for t in sorted(triples)]
        return "\n".join([f"{len(lines)} {n}", *lines])

    assert verdict(hypergraph(sums(4), 2)) is Verdict.SOLVED
    assert verdict(hypergraph(sums(5), 2)) is Verdict.INFEASIBLE


def test_weights_of_vertices_become_weights_of_entries():
    """Format 11: a weight before each hyperedge, then one line a vertex."""
    document = hypergraph("% note\n1 3 11\n9 1 3\n5\n6\n7\n", 2)
    assert document["properties"] == [{"entries": [0, 2]}]
    assert document["weights"] == [[5.0, 5.0], [6.0, 6.0], [7.0, 7.0]]


CHECKINS = "user,location,count\nann,home,2\nbob,home,1\nann,home,3\nbob,park,1\n"


def test_check_ins_are_added_up_and_friends_become_links():
    """ann was at home five times; the friendship with nobody known is left out."""
    friends = "a,b\nbob,ann\nann,bob\nann,eve\n"
    document = checkins(CHECKINS, friends, 2)
    assert document["cnt"] == [5, 1, 1]
    assert document["properties"] == [{"left": [0], "right": [1, 2]}]
    assert verdict(document) is Verdict.SOLVED
    assert verdict(checkins(CHECKINS, friends, 1)) is Verdict.INFEASIBLE


def test_more_lines_than_declared_and_how_a_graph_was_made_are_read():
    """Both ways round, as many DIMACS files do; d, v and x are no edges."""
    text = "c\nd 2\nv 1 2\nx 3 4\np col 2 1\ne 1 2\ne 2 1\n"
    assert colouring(text, 2)["properties"] == [{"entries": [0, 1]}]


def test_a_place_with_no_visits_discloses_nothing_and_columns_beside_are_left_out():
    """bob was at home never; a country is no count."""
    visits = "user,location,count,country\nann,home,2,x\nbob,home,0,x\n"
    document = checkins(visits, "a,b\nann,bob\n", 1)
    assert document["cnt"] == [2, 0]
    assert verdict(document) is Verdict.SOLVED


@pytest.mark.parametrize("reader", [colouring, hypergraph])
def test_an_instance_past_memory_is_refused_before_it_is_made(reader):
    """Two vertices for 10^9 adversaries: at once, with what to do."""
    text = {colouring: "p edge 2 1\ne 1 2\n", hypergraph: "1 2\n1 2\n"}[reader]
    with pytest.raises(InvalidInstance, match="at most 10000000 pairs") as told:
        reader(text, 10**9)
    assert "fewer adversaries" in told.value.mend


@pytest.mark.parametrize(
    ("reader", "text", "where"),
    [
        (colouring, "", "the file"),
        (colouring, "e 1 2\n", "line 1"),
        (colouring, "p edge 2 1\ne 1 3\n", "line 2"),
        (colouring, "p edge 2 1\ne 1 1\n", "line 2"),
        (colouring, "p edge 2 1\ne 1 x\n", "line 2"),
        (colouring, "p edge 2\n", "line 1"),
        (colouring, "p edge 2 5\ne 1 2\n", "line 1"),
        (colouring, "p edge 2 1 1\ne 1 2\n", "line 1"),
        (colouring, "p graph 2 1\ne 1 2\n", "line 1"),
        (colouring, "p edge 2 1\ne 1 2 3\n", "line 2"),
        (colouring, "p edge 2 1\na 1 2\n", "line 2"),
        (colouring, "p edge 2 1\ne 1 2\np edge 3 1\n", "line 3"),
        (colouring, "p edge 9999999 0\n", "the file"),
        (hypergraph, "1 2 1 1\n1 2\n", "line 1"),
        (hypergraph, "1 2 1\nx 1 2\n", "line 2"),
        (hypergraph, "1 2 10\n1 2\n3\n4 5\n", "line 4"),
        (hypergraph, "0 9999999\n", "the file"),
        (hypergraph, "", "the file"),
        (hypergraph, "1 2 7\n1 2\n", "line 1"),
        (hypergraph, "2 2\n1 2\n", "line 1"),
        (hypergraph, "1 2\n1 3\n", "line 2"),
        (hypergraph, "1 -2\n1\n", "line 1"),
    ],
)
def test_a_bad_graph_is_refused_with_its_line(reader, text, where):
    """What, where, and how to mend it."""
    with pytest.raises(InvalidInstance) as told:
        reader(text, 2)
    assert told.value.where == where


@pytest.mark.parametrize(
    ("entries", "friends", "where"),
    [
        ("user,place\na,b\n", "a,b\n", "line 1"),
        ("user,location,count\na,b,-1\n", "a,b\n", "line 2"),
        ("user,location,count\na,b,many\n", "a,b\n", "line 2"),
        ("user,location,count\na,b,0.5\n", "a,b\n", "line 2"),
        ("user,location,count\na,b,1.7\n", "a,b\n", "line 2"),
        ("user,location,count\na,b,\n", "a,b\n", "line 2"),
        ("user,location,weight\na,b,\n", "a,b\n", "line 2"),
        ("user,location,counts\na,b,2\n", "a,b\n", "line 1"),
        ("user,user,location\na,b,c\n", "a,b\n", "line 1"),
        ("user,location\na,b\nc,b\n", "a,c\n", "line 1"),
        ("user,location\na\n", "a,b\n", "line 2"),
        ("user,location\na,b\n", "a\nx\n", "line 2"),
        ("", "a,b\n", "line 1"),
    ],
)
def test_bad_check_ins_are_refused_with_their_line(entries, friends, where):
    """What, where, and how to mend it."""
    with pytest.raises(InvalidInstance) as told:
        checkins(entries, friends, 2)
    assert told.value.where == where
