"""Relation rules compiled: exact f of one link."""

from fractions import Fraction

import pytest

from policies.policy import Disclosure, Property, Scope
from policies.rules.kinds import LinkDisclosure
from policies.rules.link_rules import (
    LinkRule,
    place_columns,
    value,
    vectors,
    with_visit,
)


def made(kind, tau="1/2", **changes):
    prop = Property(
        "tie",
        (("a", "b"),),
        scope=Scope.RELATION,
        relation="friend",
        disclosure=Disclosure(kind, vector="place"),
        tau=Fraction(tau),
    )
    fields = {name: getattr(prop, name) for name in prop.__dataclass_fields__}
    return LinkRule(Property(**(fields | changes)))


def test_common_is_one_as_soon_as_a_place_is_shared():
    rule = made("common", "1")
    assert not rule.past(rule.worst({"x": 1}, [{"y": 9}, {}]))
    assert rule.past(rule.worst({"x": 1}, [{"y": 9}, {"x": 1, "z": 5}]))


def test_a_cosine_at_the_limit_is_past_it_exactly():
    rule = made("cosine", "3/5")
    at = rule.reached({"x": 3, "y": 4}, {"x": 7})
    assert value(at) == Fraction(3, 5)
    assert rule.past(at)
    assert not rule.past(rule.reached({"x": 3, "y": 4, "z": 1}, {"x": 7}))


def test_a_root_is_rounded_up():
    f = value(LinkDisclosure(Fraction(1, 2)))
    assert f * f > Fraction(1, 2) > (f - Fraction(1, 10**18)) ** 2


def test_visits_are_added_by_person_and_place():
    held = [(1, "a", "x", 2), (1, "b", "x", 3), (1, "c", "x", 9), (2, "a", "y", 1)]
    assert vectors(held, frozenset("ab")) == {1: {"x": 5}, 2: {"y": 1}}
    assert with_visit({"x": 1}, "x", 2) == {"x": 3}
    assert with_visit({"x": 1}, None, 2) == {"x": 1}


def test_a_rule_without_its_relation_is_refused():
    with pytest.raises(ValueError, match="expected both"):
        made("common", relation=None)
    assert place_columns({}) is None
