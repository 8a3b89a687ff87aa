"""Compiled rules: exact f of what is held of one unit."""

from collections import Counter
from fractions import Fraction
from itertools import combinations, combinations_with_replacement

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.policy import Disclosure, Scope
from policies.rules.record_rules import Rule, largest_score
from tests.unit.policies.rules.small_rules import (
    BY_ENTRY,
    EITHER,
    FIELDS,
    HELD,
    SHAPES,
    SHARES,
    STEP,
    TAUS,
    TIMES,
    TWO_OF,
    WEIGHED,
    rule,
)


@pytest.mark.parametrize(
    ("prop", "held", "f"),
    [
        (STEP, {"a": 1}, 0),
        (STEP, {"a": 1, "b": 1}, 1),
        (EITHER, {"b": 1, "c": 1}, 0),
        (EITHER, {"a": 1, "c": 1}, 1),
        (TWO_OF, {"c": 1}, 0),
        (TWO_OF, {"b": 1, "c": 1}, 1),
        (WEIGHED, {"a": 1, "c": 1}, Fraction(7, 10)),
        (WEIGHED, {"b": 1, "c": 1}, Fraction(1, 2)),
        (SHARES, {"a": 1, "b": 1}, Fraction(4, 9)),
        (BY_ENTRY, {"a": 1, "b": 1}, Fraction(1, 2)),
        (BY_ENTRY, {"a": 7, "c": 9}, 1),  # clamped; c is not in the rule
    ],
)
def test_f_is_exact(prop, held, f):
    compiled = Rule(prop)
    at_zero = {(field, 0): n for field, n in held.items()}
    assert compiled.value(at_zero) == f
    assert compiled.past(at_zero) == (prop.tau is not None and f >= prop.tau)


def test_the_limit_is_strict():
    """One of two entries of 1/4 each discloses 1/4."""
    held = {("a", 0): 1}
    quarter = {"disclosure": Disclosure("linear", per_entry=Fraction(1, 4))}
    assert Rule(rule(tau=Fraction(1, 4), **quarter)).past(held)
    assert not Rule(rule(tau=Fraction(1, 4) + Fraction(1, 10**30), **quarter)).past(
        held
    )
    assert not Rule(rule(tau=None, **quarter)).past(held)


@given(
    st.fractions(Fraction(1, 1000), 1),
    st.sampled_from([1, 2]),
    st.fractions(Fraction(1, 1000), 1),
)
def test_the_largest_score_is_the_last_below_tau(unit, power, tau):
    n = largest_score(unit, power, tau)
    assert n >= 0
    assert (n * unit) ** power < tau
    assert ((n + 1) * unit) ** power >= tau


def test_windows_are_closed_and_slide():
    week = Rule(rule(scope=Scope.SUBJECT, window=7, disclosure=Disclosure(at=3)))
    assert week.value({("a", 0): 1, ("a", 3): 1, ("b", 7): 1}) == 1
    assert week.value({("a", 0): 1, ("a", 3): 1, ("b", 8): 1}) == 0
    assert week.value({("a", 0): 1, ("a", 3): 1, ("b", 8): 1, ("a", 9): 1}) == 1


@given(SHAPES, st.integers(1, 6), HELD)
def test_a_window_counts_only_what_lies_within_it(shape, window, held):
    """F over windows = the largest f over any closed stretch of that length."""
    slid = Rule(rule(scope=Scope.SUBJECT, window=window, **shape))
    whole = Rule(rule(scope=Scope.SUBJECT, **shape))
    stretches = (
        {k: n for k, n in held.items() if x <= k[1] <= x + window}
        for x in range(-7, 14)
    )
    assert slid.value(held) == max(map(whole.value, stretches))


@given(SHAPES, st.none() | st.integers(1, 6), HELD, st.sampled_from(FIELDS), TIMES)
def test_f_never_falls_when_an_entry_is_added(shape, window, held, field, time):
    compiled = Rule(rule(scope=Scope.SUBJECT, window=window, **shape))
    more = {**held, (field, time): held.get((field, time), 0) + 1}
    assert 0 <= compiled.value(held) <= compiled.value(more) <= 1


@given(SHAPES, st.none() | st.integers(1, 6), HELD, st.data())
def test_means_lie_between_0_and_1_and_rise(shape, window, known, data):
    compiled = Rule(rule(scope=Scope.SUBJECT, window=window, **shape))
    some = {k: data.draw(st.integers(0, n)) for k, n in known.items()}
    part, sets = compiled.total(some, known)
    whole, same = compiled.total(known, known)
    assert sets == same
    assert 0 <= part <= whole <= sets


@pytest.mark.parametrize("scope", [Scope.RECORD, Scope.SUBJECT])
@given(
    SHAPES, TAUS, st.none() | st.integers(1, 6), HELD, st.sets(st.sampled_from(FIELDS))
)
def test_fields_left_are_the_fewest_that_reach_the_limit(
    scope, shape, tau, window, held, unsent
):
    """No fewer reach it, wherever they lie; so many do. A record has each field once.

    Fields that are never sent bring nobody nearer: status named rules over them as nearest.
    """
    record = scope is Scope.RECORD
    if record:
        held, window = {(field, 0): 1 for field, _ in held}, None
    compiled = Rule(rule(scope=scope, window=window, tau=tau, **shape), unsent)
    times = {time for _, time in held} or {0}
    options = [
        (field, time) for field in FIELDS if field not in unsent for time in times
    ]
    if record:
        options = [place for place in options if place not in held]
    choose = combinations if record else combinations_with_replacement

    def reached(number):
        return any(
            compiled.past({**held, **{p: held.get(p, 0) + n for p, n in more.items()}})
            for more in map(Counter, choose(options, number))
        )

    fewest = next((number for number in range(4) if reached(number)), None)
    left = compiled.left(held)
    assert left == fewest or (fewest is None and (left is None or left > 3))
    if record and fewest is None:
        assert left is None
