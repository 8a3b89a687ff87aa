"""How strained a colouring is, by hand."""

from dataclasses import replace
from math import log

import numpy as np
import pytest

from benchmarks import families
from policies.model.coalitions import Coalitions
from policies.model.problem import Average, Plan
from policies.solvers.coloring import (
    GRAPH,
    MANY,
    RULED,
    coloured,
    packed,
    small_sets,
    strain,
    stuck,
)
from tests.unit.policies.tiny import Made, Tiny, step


def ring(n, k=2, size=2, **more):
    """Neighbours on a ring, of whom nobody may hold so many."""
    sets = [step(*((d + i) % n for i in range(size))) for d in range(n)]
    return Tiny(n, k, sets, **more).problem()


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (ring(6), 1.0),  # one bit a pair, one bit an entry
        (ring(6, size=3), log(4 / 3) / log(2)),  # a quarter of all ways crosses a set
        (ring(6, 3, size=3), log(9 / 8) / log(3)),
        (Tiny(8, 2, [step(0, 1)]).problem(), 1 / 8),  # the others are free
        (
            Tiny(4, 2, [Made(dict.fromkeys(range(4), 1), 2, 4)]).problem(),
            log(8 / 3) / log(16),
        ),
    ],
    ids=["pairs", "triples", "three adversaries", "free entries", "two of four"],
)
def test_strain_is_what_limits_take_of_all_choices(problem, expected):
    assert strain(problem) == pytest.approx(expected)


def test_who_is_given_to_nobody_strains_nothing():
    """Of the ring of four, 0 is left out: two pairs and three entries are left."""
    some = np.array([0, 1, 1, 1])
    assert strain(replace(ring(4), lo=some, hi=some)) == pytest.approx(2 / 3)


def test_a_set_that_must_be_crossed_strains_much_but_not_without_end():
    """One of two at each of two adversaries, and one set of four that has no place."""
    crowded = Tiny(4, 2, [Made(dict.fromkeys(range(4), 1), 1, 4)]).problem()
    assert 1 < strain(crowded) < 3


@pytest.mark.parametrize(
    "change",
    [
        {"lo": np.zeros(6, np.int64)},
        {"hi": np.full(6, 2)},
        {"capacity": np.array([3, 3])},
        {"history": Plan.of([(0, 0)])},
        {"coalitions": Coalitions(any_m=2)},
        {"averages": (Average((0,), 1),)},
        {"trusted": np.array([[True, False]])},
    ],
    ids=[
        "may be left out",
        "copies",
        "capacity",
        "history",
        "pools",
        "mean",
        "trusted",
    ],
)
def test_what_is_no_colouring_is_not_strained(change):
    problem = replace(ring(6), **change)
    assert strain(problem) == 0
    assert not coloured(problem)


@pytest.mark.parametrize(
    ("n", "size", "expected"),
    [(MANY, 2, True), (MANY + 1, 2, False), (MANY, 3, False), (9, 4, False)],
    ids=["strained", "many", "triples", "fours"],
)
def test_few_entries_of_strained_colourings_are_searched_by_rules(n, size, expected):
    problem = ring(n, size=size)
    assert coloured(problem) is expected
    assert (strain(problem) >= RULED) is (size == 2)


def test_graphs_keep_the_relaxation_at_a_strain_that_triples_are_searched_by_rules():
    """200 entries and 400 pairs: the bound stayed at .98 of .77."""
    graph = families.sparse((200, 410, 3, 1, 2, 2), 0)
    assert RULED <= strain(graph) < GRAPH
    assert not coloured(graph)
    assert coloured(families.sparse((100, 260, 2, 1, 3, 4), 0))


@pytest.mark.parametrize(
    ("n", "size", "expected"),
    [(300, 2, False), (301, 2, True), (900, 3, False)],
    ids=["few", "many", "easy"],
)
def test_searches_of_many_strained_entries_end_for_nobody(n, size, expected):
    """Pairs strain by 1, triples by .415: below .55, however many."""
    assert stuck(ring(n, size=size)) is expected


@pytest.mark.parametrize(("n", "expected"), [(340, False), (360, True)])
def test_what_is_left_to_search_grows_with_entries(n, expected):
    """Eight triples for five entries: a strain of 2 / 3, and 230 entries of it."""
    sets = [step(d, (d + 1) % n, (d + 2) % n) for d in range(n)]
    sets += [step(d, (d + 2) % n, (d + 5) % n) for d in range(n) if d % 5 < 3]
    problem = Tiny(n, 2, sets).problem()
    assert strain(problem) == pytest.approx(2 / 3, abs=0.01)
    assert stuck(problem) is expected


def test_a_relaxation_leads_further_where_most_sets_are_pairs():
    """Two pairs for three entries: 2 / 3 as well, and no triples but one."""
    pairs = [step(d, d + 1) for d in range(899) if d % 3 < 2]
    problem = Tiny(900, 2, [*pairs, step(0, 1, 2)]).problem()
    assert strain(problem) == pytest.approx(2 / 3, abs=0.01)
    assert not stuck(problem)


def test_large_sets_are_neither_small_nor_packed():
    problem = Tiny(80, 2, [step(*range(80))]).problem()
    assert not small_sets(problem)
    assert not packed(problem)


def test_a_large_set_among_small_ones_strains_nothing():
    pairs = [step(d, d + 1) for d in range(0, 80, 2)]
    few = Tiny(80, 2, pairs).problem()
    more = Tiny(80, 2, [*pairs, step(*range(80))]).problem()
    assert strain(few) == strain(more) == pytest.approx(0.5)
