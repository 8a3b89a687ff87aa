"""Rules told set by set: against the definitions, on tables small enough to see through."""

from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.policy import Disclosure, Property
from policies.rules.belief import (
    Beliefs,
    World,
    information_gain,
    mean_information_gain,
)
from policies.rules.functions import InvalidFunction
from policies.rules.tabulated import (
    TabulatedRule,
    monotone_closure,
    subsets,
    tabulate_beliefs,
    tabulate_function,
)
from tests.unit.policies.rules.belief_referee import closure, posterior

FIELDS = ("a", "b", "c")


@st.composite
def beliefs(draw):
    """Up to six worlds of three fields with two values each."""
    value = st.sampled_from("xy")
    rows = draw(st.lists(st.tuples(value, value, value, value), min_size=1, max_size=6))
    chances = [draw(st.integers(1, 4)) for _ in rows]
    total = sum(chances)
    return Beliefs(
        tuple(
            World(row[:3], row[3], Fraction(chance, total))
            for row, chance in zip(rows, chances, strict=True)
        )
    )


@settings(max_examples=60, deadline=None)
@given(beliefs())
def test_the_posterior_is_the_highest_of_all_worlds_and_of_all_subsets(table):
    levels = tabulate_beliefs("posterior", table, FIELDS)
    for held in subsets(FIELDS):
        seen = [FIELDS.index(name) for name in held]
        highest = max(
            closure(lambda s, w=world: posterior(table, s, w), seen)
            for world in table.worlds
        )
        assert levels[held] == highest
    assert levels[frozenset()] == 0


@settings(max_examples=40, deadline=None)
@given(beliefs())
def test_a_gain_is_the_highest_of_all_subsets_and_its_mean_no_more(table):
    levels = tabulate_beliefs("information-gain", table, FIELDS)
    means = tabulate_beliefs("mean-information-gain", table, FIELDS)
    for held in subsets(FIELDS):
        seen = [FIELDS.index(name) for name in held]
        assert levels[held] == closure(lambda s: information_gain(table, s), seen)
        assert means[held] == closure(lambda s: mean_information_gain(table, s), seen)
        assert means[held] <= levels[held] <= 1


def rule(levels, tau="1/2", fields=FIELDS):
    limit = None if tau is None else Fraction(tau)
    shape = Disclosure("plugin", plugin="mine")
    return TabulatedRule(Property("p", (fields,), disclosure=shape, tau=limit), levels)


shares = st.integers(0, 4).map(lambda n: Fraction(n, 4))


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(shares, min_size=7, max_size=7),
    tau=st.sampled_from(["1/4", "1/2", "1"]),
)
def test_gate_and_plan_say_the_same_of_every_set(values, tau):
    sets = subsets(FIELDS)
    levels = monotone_closure(dict(zip(sets, [Fraction(0), *values], strict=True)))
    told = rule(levels, tau)
    for held in sets:
        counts = {(name, 0): 2 for name in held} | {("z", 0): 1}
        assert told.value(counts) == levels[held]
        past = levels[held] >= Fraction(tau)
        assert told.past(counts) is past
        planned = told.planned is not None and told.planned.past(counts)
        assert planned is past


def test_a_rule_without_a_limit_makes_no_sets():
    levels = tabulate_function(lambda held: len(held) / 3, FIELDS)
    assert rule(levels, None).planned is None
    assert rule(levels, None).cap is None
    assert rule(tabulate_function(lambda held: 0, FIELDS)).planned is None


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda held: 0.5, "f of no fields is 0.5"),
        (lambda held: float(len(held)), "expected 0 to 1"),
        (lambda held: -0.1 * bool(held), "expected 0 to 1"),
        (lambda held: 1.0 if len(held) == 1 else 0.0, "f falls"),
        (lambda held: float("nan") if held else 0.0, "is nan, expected 0 to 1"),
        (lambda held: "x" if held else 0.0, "is str, expected a number"),
    ],
)
def test_a_disclosure_that_lies_is_refused_with_the_sets(function, told):
    """Range, f of nothing, falling, and what is no number."""
    with pytest.raises(InvalidFunction, match=told):
        tabulate_function(function, FIELDS)


def test_what_falls_is_closed_if_it_says_so():
    def f(held):
        return {0: 0, 1: 1}.get(len(held), 0)

    assert tabulate_function(f, FIELDS, monotone=False)[frozenset(FIELDS)] == 1
    with pytest.raises(InvalidFunction, match="falls from b to a, b"):
        tabulate_function(f, FIELDS)


def test_too_much_to_be_told_is_refused():
    with pytest.raises(InvalidFunction, match="13 fields"):
        subsets(map(str, range(13)))
    world = World(tuple("x" * 12), "s", Fraction(1, 2000))
    table = Beliefs((world,) * 2000)
    with pytest.raises(InvalidFunction, match="too many"):
        tabulate_beliefs("posterior", table, [str(i) for i in range(12)])


def test_a_rule_needs_every_set_told():
    levels = {frozenset(c): Fraction(0) for c in combinations(FIELDS, 1)}
    with pytest.raises(ValueError, match="no fields is missing in the table"):
        rule(levels)
