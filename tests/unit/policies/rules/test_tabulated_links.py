"""Relation rules told set by set: against the definition, on links small enough to see."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.judging.judge import judge
from policies.model.problem import Plan, Problem
from policies.model.weights import Weights
from policies.policy import (
    Disclosure,
    Entity,
    Field,
    Policy,
    Property,
    Relation,
    Scope,
)
from policies.rules.asks import compile_rules, unsupported
from policies.rules.belief import Beliefs, World
from policies.rules.expand import expand
from policies.rules.functions import InvalidFunction
from policies.rules.link_rules import value
from policies.rules.tabulated import monotone_closure, subsets, tabulate_beliefs
from policies.rules.tabulated_links import (
    TabulatedLinkRule,
    both_ends,
    ends_held,
    mirrored,
    symmetric,
)
from tests.unit.policies.people import LINKS, entries, pairs, table, told

FIELDS = ("a", "b")
ENDS = both_ends(FIELDS)


def rule_of(kind="posterior", tau="1/2", fields=FIELDS):
    return Property(
        "tie",
        (fields,),
        scope=Scope.RELATION,
        relation="kin",
        disclosure=Disclosure(kind),
        tau=None if tau is None else Fraction(tau),
    )


def policy(prop):
    entity = Entity("form", "id", {f: Field(f) for f in "abc"}, "person")
    relations = {"kin": Relation("kin", "kin.csv", ("one", "two"))}
    return Policy("p", entity, properties={"tie": prop}, relations=relations)


def siblings():
    """Whether two are siblings: sure when both surnames are seen, a hint by one town."""
    worlds = [
        (("berg", "x"), ("berg", "x"), "yes", 3),
        (("berg", "x"), ("dahl", "y"), "no", 2),
        (("dahl", "y"), ("berg", "x"), "no", 2),
        (("dahl", "y"), ("dahl", "y"), "yes", 1),
    ]
    total = sum(w[3] for w in worlds)
    return Beliefs(
        tuple(World((*w[0], *w[1]), w[2], Fraction(w[3], total)) for w in worlds)
    )


def siblings_rule(kind="posterior", tau="1/2"):
    levels = tabulate_beliefs("posterior", siblings(), ENDS)
    return TabulatedLinkRule(rule_of(kind, tau), symmetric(levels))


def test_both_surnames_tell_and_one_does_not():
    rule = siblings_rule(tau="9/10")
    one, other = {(1, "a"): 1}, {(2, "a"): 1}
    assert value(rule.reached(one, {})) == Fraction(1, 3)
    assert value(rule.reached(one, other)) == 1
    assert rule.past(rule.worst(one, [{}, other]))
    assert not rule.past(rule.worst(one, [{}]))


def test_a_link_has_no_direction():
    levels = monotone_closure(
        {held: Fraction(int(held >= {"left.a", "right.b"})) for held in subsets(ENDS)}
    )
    rule = TabulatedLinkRule(rule_of("plugin"), symmetric(levels))
    one, other = {(1, "a"): 1}, {(2, "b"): 1}
    assert value(rule.reached(one, other)) == value(rule.reached(other, one)) == 1
    assert value(rule.reached(one, {(2, "a"): 1})) == 0
    assert rule.alternatives == ((("a",), ("b",)), (("b",), ("a",)))


def test_a_table_tells_of_one_record_of_each_end_and_a_function_of_any():
    two = {(1, "a"): 1, (7, "b"): 1}
    assert (
        value(siblings_rule().reached(two, {}))
        == value(siblings_rule().reached({}, two))
        == 1
    )
    together = value(siblings_rule().reached({(1, "a"): 1, (1, "b"): 1}, {}))
    assert value(siblings_rule("plugin").reached(two, {})) == together < 1


def test_without_a_limit_nothing_is_kept_apart():
    rule = siblings_rule(tau=None)
    assert rule.alternatives == ()
    assert not rule.past(rule.reached({(1, "a"): 1, (2, "a"): 1}, {}))


def test_fields_are_named_for_each_end():
    assert ENDS == ["left.a", "left.b", "right.a", "right.b"]
    assert mirrored(frozenset(["left.a", "right.left.b"])) == {"right.a", "left.left.b"}
    with pytest.raises(InvalidFunction, match="7 fields, expected at most 6"):
        both_ends("abcdefg")


def test_a_rule_whose_table_was_not_given_is_named():
    assert unsupported(policy(rule_of())) == (
        "tie: posterior rules are judged by their table, and it was not given",
    )
    with pytest.raises(ValueError, match=r"f of left\.a is missing in the table"):
        TabulatedLinkRule(rule_of(), {frozenset(): Fraction(0)})


# -- The gate and the plan say the same -----------------------------------------


@settings(max_examples=150, deadline=None)
@given(
    levels=told(ENDS, 3).map(symmetric),
    rows=entries(),
    links=st.lists(st.sampled_from(LINKS), unique=True),
    kind=st.sampled_from(["posterior", "plugin"]),
    tau=st.sampled_from(["1/3", "1/2", "1"]),
    data=st.data(),
)
def test_a_plan_breaks_a_set_exactly_when_a_link_reaches_tau(
    levels, rows, links, kind, tau, data
):
    chosen = policy(rule_of(kind, tau))
    known = {"tie": levels}
    rule = compile_rules(chosen, known).links["tie"]
    sets = expand(chosen, table(rows), {"kin": pairs(links, 10)}, known).sets
    size = len(rows)
    held = data.draw(st.sets(st.integers(0, size - 1)))
    problem = Problem(
        sets=sets,
        lo=np.zeros(size, np.int64),
        hi=np.ones(size, np.int64),
        weights=Weights(np.zeros(size, int), np.ones(size, int), np.ones((1, 1), int)),
    )
    judged = judge(problem, Plan.of((i, 0) for i in held))
    ends = ends_held(((rows[i][1], rows[i][0], rows[i][2]) for i in held), rule.fields)
    past = any(
        rule.past(rule.reached(ends.get(one, {}), ends.get(other, {})))
        for one, other in links
    )
    assert judged.feasible is not past
