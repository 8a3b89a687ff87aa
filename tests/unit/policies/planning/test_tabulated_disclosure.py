"""How near a plan comes to rules that are looked up: as the rules say, one by one."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.model.problem import Plan, Problem
from policies.model.weights import Weights
from policies.planning.tabulated_disclosure import worst_disclosures
from policies.policy import (
    Disclosure,
    Entity,
    Field,
    Policy,
    Property,
    Relation,
    Scope,
)
from policies.rules.expand import expand
from policies.rules.link_rules import value
from policies.rules.tabulated_links import both_ends, ends_held, symmetric
from tests.unit.policies.people import LINKS, entries, pairs, table, told


def policy(kind):
    def rule(name, scope, kind):
        relation = "kin" if scope is Scope.RELATION else None
        shape = Disclosure(kind)
        return Property(
            name, (("a", "b"),), scope=scope, relation=relation, disclosure=shape
        )

    rules = (
        rule("mine", Scope.RECORD, "plugin"),
        rule("whole", Scope.SUBJECT, "plugin"),
        rule("tie", Scope.RELATION, kind),
    )
    return Policy(
        "p",
        Entity("form", "id", {f: Field(f) for f in "abc"}, "person"),
        properties={r.name: r for r in rules},
        relations={"kin": Relation("kin", "kin.csv", ("one", "two"))},
    )


@settings(max_examples=60, deadline=None)
@given(
    rows=entries(),
    kind=st.sampled_from(["posterior", "plugin"]),
    links=st.lists(st.sampled_from(LINKS), unique=True),
    unit=told("ab", 5),
    both=told(both_ends("ab"), 5).map(symmetric),
    data=st.data(),
)
def test_the_worst_is_what_the_rules_say_one_by_one(
    rows, kind, links, unit, both, data
):
    size = len(rows)
    levels = {"mine": unit, "whole": unit, "tie": both}
    record, subject = (np.array([r[i] for r in rows], np.int64) for i in (0, 1))
    known, kin = table(rows), pairs(links)
    expansion = expand(policy(kind), known, {"kin": kin}, levels)
    trusted = np.zeros((3, 2), np.bool_)
    trusted[2, 1] = data.draw(st.booleans())
    held = data.draw(st.sets(st.tuples(st.integers(0, size - 1), st.integers(0, 1))))
    problem = Problem(
        sets=expansion.sets,
        lo=np.zeros(size, np.int64),
        hi=np.full(size, 2),
        weights=Weights(np.zeros(size, int), np.ones(size, int), np.ones((2, 1), int)),
        trusted=trusted,
        history=Plan.of(pair for pair in held if pair[0] % 2),
    )
    made = SimpleNamespace(
        problem=problem,
        expansion=expansion,
        fields=known.fields,
        kind=known.field.astype(np.int64),
        backlog=SimpleNamespace(record=record, subject=subject, links={"kin": kin}),
    )
    plan = Plan.of(pair for pair in held if not pair[0] % 2)
    rules = {rule.name: rule for rule in expansion.rules}
    worst = dict.fromkeys(rules, Fraction(0))
    for who in (0, 1):
        mine = [rows[entry] for entry, other in held if other == who]
        for name, place in (("mine", 0), ("whole", 1)):
            for one in range(5):
                counts = {r[2]: 1 for r in mine if r[place] == one}
                rule = rules[name]
                worst[name] = max(worst[name], rule.fraction(rule.score(counts)))
        of = ends_held(((r[1], r[0], r[2]) for r in mine), rules["tie"].fields)
        for one, other in links if not trusted[2, who] else ():
            reached = rules["tie"].reached(of.get(one, {}), of.get(other, {}))
            worst["tie"] = max(worst["tie"], value(reached))
    found = worst_disclosures(made, plan)
    assert {rule.name: found[i] for i, rule in enumerate(expansion.rules)} == worst
