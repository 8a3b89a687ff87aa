"""One row a kind of disclosure: what the rest of the program asks it."""

import tomllib
from fractions import Fraction

import pytest

from policies.document import parse
from policies.model.measures import MEASURES
from policies.policy import Disclosure, Policy, Property, Scope
from policies.rules.asks import unsupported
from policies.rules.kinds import (
    KINDS,
    PowerOfSum,
    disclosed_alone,
    is_tabulated,
    reads_table,
    title,
)
from policies.rules.record_rules import Rule, largest_score
from tests.unit.policies.tiny import CUBIC

FIELDS = ("a", "b")


def rule(kind, **parameters):
    return Property("p", (FIELDS,), disclosure=Disclosure(kind, **parameters))


def test_every_measure_is_a_kind():
    assert KINDS.keys() >= MEASURES.keys()


def test_every_parameter_that_a_kind_needs_is_one_that_it_takes():
    for row in KINDS.values():
        assert set(row.needed) <= set(row.keys)
        for key, needed in row.needed.items():
            assert tomllib.loads(f"{key} = {needed.example}").keys() == {key}


def test_every_power_of_a_sum_has_a_measure_to_be_planned_by():
    """Without one a policy is applied, and every plan of it fails."""
    sums = [row.measure for row in KINDS.values() if isinstance(row, PowerOfSum)]
    assert all(sum_.power and MEASURES[sum_.name] == sum_ for sum_ in sums)


def test_a_cosine_may_fall_and_be_irrational_and_a_common_place_neither():
    cosine, common = KINDS["cosine"], KINDS["common"]
    assert (cosine.monotone, cosine.rational) == (False, False)
    assert (common.monotone, common.rational) == (True, True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_rule_in_a_scope_that_its_kind_does_not_have_is_not_supported(kind):
    """A rule that is tabulated lacks its table; all others name the scope."""
    for scope in Scope:
        prop = Property("p", (FIELDS,), scope=scope, disclosure=Disclosure(kind))
        policy = Policy("p", None, properties={"p": prop})
        reasons = unsupported(policy)
        if is_tabulated(prop):
            assert "it was not given" in reasons[0]
        elif scope in KINDS[kind].scopes:
            assert reasons == ()
        else:
            assert reasons == (f"p: {kind} rules do not have the scope {scope}",)


def test_tables_of_worlds_are_read_by_all_tabulated_kinds_but_plugins():
    tabulated = [kind for kind in KINDS if is_tabulated(rule(kind))]
    assert [k for k in tabulated if not reads_table(rule(k))] == ["plugin"]


@pytest.mark.parametrize(
    ("prop", "expected"),
    [
        (rule("step"), []),
        (rule("step", at=1), [("a", 1), ("b", 1)]),
        (rule("step", at=2), [("a", 0), ("b", 0)]),
        (Property("p", (("a",), ("a", "b"))), [("a", 1)]),
        (rule("linear"), [("a", Fraction(1, 2)), ("b", Fraction(1, 2))]),
        (
            rule("quadratic", weights={"a": Fraction(1, 3), "b": Fraction(2, 3)}),
            [("b", Fraction(4, 9)), ("a", Fraction(1, 9))],
        ),
        (rule("cosine", vector="place"), []),
        (rule("plugin", plugin="x"), []),
    ],
)
def test_what_one_entry_discloses_by_itself(prop, expected):
    assert disclosed_alone(prop) == expected


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (Disclosure(), "step"),
        (Disclosure(at=2), "step at 2"),
        (Disclosure("cosine", vector="place"), "cosine"),
        (Disclosure("plugin", plugin="ages"), "plugin:ages"),
    ],
)
def test_a_disclosure_in_a_few_words(shape, words):
    assert title(shape) == words


CUBED = """\
version = 1
name = "forms"

[entity.form]
key = "id"

[entity.form.fields]
a = { ask = "transcribe" }
b = { ask = "transcribe" }

[property.p]
of = ["a", "b"]
disclosure = { kind = "quadratic", weights = { a = 0.5, b = 0.5 } }
tau = 0.2
"""


def test_a_row_alone_makes_a_kind_of_another_power(monkeypatch):
    """With the cube one of two halves discloses 1/8 < 0.2; the square is 1/4 > 0.2."""
    assert [d.code for d in parse(CUBED.encode()).diagnostics] == ["POL203"]
    monkeypatch.setitem(KINDS, "quadratic", PowerOfSum(CUBIC))
    policy = parse(CUBED.encode()).policy
    compiled = Rule(policy.properties["p"])
    assert compiled.value({("a", 0): 1}) == Fraction(1, 8)
    assert not compiled.past({("a", 0): 1})
    assert compiled.past({("a", 0): 1, ("b", 0): 1})


@pytest.mark.parametrize("power", [1, 2, 3, 5])
def test_the_largest_score_is_exact_for_every_power(power):
    for unit in (Fraction(1, 7), Fraction(3, 10)):
        for tau in (Fraction(1, 8), Fraction(27, 343), Fraction(1)):
            n = largest_score(unit, power, tau)
            assert (n * unit) ** power < tau <= ((n + 1) * unit) ** power
