"""Certificates: never wrong against brute force, and worth having on named cases."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.judging.certificates import certify, safe_number
from policies.model.problem import Average
from tests.unit.policies.tiny import Made, Tiny, classes, step, tinies


@given(tinies())
@settings(max_examples=150)
def test_a_certified_problem_has_a_plan(tiny):
    """Sets, classes, weights, copies, history, trust: certified means feasible."""
    tiny.capacity = None
    if certify(tiny.problem()) is not None:
        assert tiny.best() is not None


def test_disjoint_triples_are_certified():
    """One triple, 3 workers: chance 3 / 27; mu / (mu + 1) >= 1/9 for mu = 1/8."""
    proof = certify(Tiny(3, 3, [step(0, 1, 2)]).problem())
    assert proof.chance == (Fraction(1, 9),)
    assert abs(sum(proof.witness) - Fraction(1, 8)) < Fraction(1, 1000)


def test_a_long_chain_of_pairs_is_certified_with_enough_workers():
    """Each pair meets two others: chance 1/k; k = 5 is enough, k = 2 is not."""
    chain = [step(d, d + 1) for d in range(40)]
    assert certify(Tiny(41, 6, chain).problem()) is not None
    assert certify(Tiny(41, 2, chain).problem()) is None


def test_two_copies_are_drawn_without_repeat():
    """A pair, 2 copies each of 3 workers: chance 3 * (2/3)^2 > 1, and no plan exists."""
    tiny = Tiny(2, 3, [step(0, 1)], lo=[2, 2])
    assert certify(tiny.problem()) is None
    assert tiny.best() is None


def test_any_two_of_three_is_more_likely_than_all_three():
    """k = 10: 10 * (3 * 1/100 * 9/10 + 1/1000) = 28/100."""
    two = Made({0: 1, 1: 1, 2: 1}, cap=1, full=2)
    assert certify(Tiny(3, 10, [two]).problem()).chance == (Fraction(28, 100),)


def test_history_counts_in_the_chance():
    """Worker 0 holds entry 0 of a pair: entry 1 goes to it with chance 1/4."""
    tiny = Tiny(2, 4, [step(0, 1)], lo=[0, 1], history=[(0, 0)])
    assert certify(tiny.problem()).chance == (Fraction(1, 4),)


@pytest.mark.parametrize(
    "tiny",
    [
        Tiny(1, 2, [], capacity=[1, 1]),
        Tiny(1, 2, [], averages=(Average((0,), Fraction(1)),)),
        Tiny(1, 0, []),
        Tiny(1, 1, [], lo=[2]),
    ],
)
def test_where_the_lemma_says_nothing_nothing_is_certified(tiny):
    """Capacities, means, nobody, more copies than workers."""
    assert certify(tiny.problem()) is None


# -- liveness --------------------------------------------------------------------


def deadlocks(tiny, exposures):
    """Whether some order of safe servings leaves an open entry that nobody may get."""
    alone = {d for d in range(tiny.n) if not may(tiny, d, frozenset())}
    start = tuple(
        frozenset(d for d, b in tiny.history if b == a) for a in range(tiny.k)
    )

    @cache
    def stuck(hands, left):
        for d in range(tiny.n):
            if not left[d] or d in alone:
                continue
            able = [a for a in range(tiny.k) if may(tiny, d, hands[a])]
            if not able:
                return True
            less = (*left[:d], left[d] - 1, *left[d + 1 :])
            seen = set()
            for a in able:
                if hands[a] in seen:
                    continue
                seen.add(hands[a])
                after = list(hands)
                after[a] = hands[a] | {d}
                if stuck(tuple(sorted(after, key=sorted)), less):
                    return True
        return False

    return stuck(tuple(sorted(start, key=sorted)), tuple(exposures))


def may(tiny, d, hand):
    if d in hand:
        return False
    return all(
        tiny.load(s, set(hand) | {d}) <= s.cap for s in tiny.sets if d in s.members
    )


@st.composite
def games(draw):
    tiny = draw(tinies())
    tiny.n = min(tiny.n, 3)
    kept = [s for s in tiny.sets if all(d < tiny.n for d in s.members)]
    exposures = draw(st.lists(st.integers(0, 2), min_size=tiny.n, max_size=tiny.n))
    pair = st.tuples(st.integers(0, max(0, tiny.n - 1)), st.integers(0, 1))
    history = draw(st.lists(pair, unique=True, max_size=2)) if tiny.n else []
    return tiny.n, kept, tiny.measures, exposures, history


@given(games())
@settings(max_examples=60)
def test_with_the_safe_number_no_order_of_asks_ends_stuck(game):
    """Every order and every choice is tried, with history, classes and weights."""
    n, sets, measures, exposures, history = game
    base = Tiny(n, 2, sets, measures, lo=[0] * n, hi=exposures, history=history)
    number = safe_number(base.problem(), np.array(exposures, np.int64))
    if number > 7:  # too large to try all
        return
    k = max(2, number)
    full = Tiny(n, k, sets, measures, lo=[0] * n, hi=exposures, history=history)
    assert not deadlocks(full, exposures)


@pytest.mark.parametrize(
    ("sets", "exposures", "number"),
    [
        ([step(0, 1)], [1, 1], 2),  # 1 + (1 - 1) + 1
        ([step(0, 1)], [2, 3], 5),  # entry 1: 1 + (3 - 1) + 2
        ([step(0, 1), step(0, 2)], [1, 1, 1], 3),  # entry 0 meets both
        ([classes((0,), (1, 2))], [1, 1, 1], 3),  # two others may bar entry 0
        ([Made({0: 1, 1: 1, 2: 1}, 1, 2)], [1, 1, 1], 3),  # any two
        ([], [4], 4),  # four answers need four workers
        ([step(0)], [1], 0),  # never shown
        ([], [0], 0),  # nothing is open
    ],
)
def test_safe_numbers_by_hand(sets, exposures, number):
    """And one worker fewer can be brought to a deadlock."""
    n = len(exposures)
    problem = Tiny(n, 1, sets, lo=[0] * n, hi=exposures).problem()
    assert safe_number(problem) == number
    if number > 1:
        assert deadlocks(Tiny(n, number - 1, sets, hi=exposures), exposures)


def test_capacities_ask_for_more_workers():
    """A pair, one showing each: N - 1 = 1 exposure may fill one worker of capacity 1."""
    tiny = Tiny(2, 3, [step(0, 1)], capacity=[1, 1, 1])
    assert safe_number(tiny.problem()) == 3


def test_who_must_not_be_shown_an_entry_is_one_worker_more():
    """Two hold nothing and may never get entry 0; a holder is not counted twice."""
    tiny = Tiny(2, 3, [step(0, 1)], lo=[1, 1], hi=[1, 1])
    assert safe_number(tiny.problem()) == 2
    tiny.forbidden = [(0, 1), (0, 2)]
    assert safe_number(tiny.problem()) == 4
    tiny.history, tiny.forbidden = [(0, 1)], [(0, 1)]
    assert safe_number(tiny.problem()) == 3
