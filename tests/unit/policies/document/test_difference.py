"""What a policy says otherwise than another, and whether workers may see more by it."""

from dataclasses import fields

import pytest

from policies.document import parse
from policies.document.difference import differences
from policies.policy import Disclosure, Entity, Policy, Property

BASE = """
version = 1
name = "forms"
[budget]
tau = 0.9
[entity.form]
key = "id"
subject = "person"
[entity.form.fields]
a = { ask = "transcribe" }
b = { ask = "transcribe" }
c = { ask = "transcribe", send = false }
[property.pair]
of = ["a", "b"]
[property.sum]
of = ["a", "b", "c"]
tau = 0.6
disclosure = "linear"
[workers.groups.team]
members = ["x/*"]
trusted = ["pair"]
"""


def policy(source):
    found = parse(source.encode()).policy
    assert found is not None, source
    return found


def told(old, new):
    text = BASE.replace(old, new)
    assert text != BASE
    return [one.line for one in differences(policy(BASE), policy(text))]


def test_a_policy_says_the_same_as_itself_whatever_its_comments():
    other = policy(BASE + "\n# a comment\n")
    assert differences(policy(BASE), other) == []


def test_against_nothing_every_property_is_new():
    lines = [one.line for one in differences(None, policy(BASE))]
    assert lines == ["+ property pair", "+ property sum"]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("tau = 0.6", "tau = 0.5", "~ property sum  tau 0.6 -> 0.5"),
        ("tau = 0.6", "tau = 0.7", "~ property sum  tau 0.6 -> 0.7  (looser)"),
        ("send = false", "send = true", "~ field c  send false -> true  (looser)"),
        (
            'trusted = ["pair"]',
            'trusted = ["pair", "sum"]',
            "~ group team  trusted pair -> pair+sum  (looser)",
        ),
        (
            'disclosure = "linear"',
            'disclosure = "quadratic"',
            "~ property sum  disclosure linear -> quadratic  (looser)",
        ),
        ("[budget]", "[budget]\nt = 2", "~ budget  t none -> 2"),
        ("[budget]", "[budget]\nt = 9", "~ budget  t none -> 9  (looser)"),
        (
            "[property.sum]",
            '[property.new]\nof = ["b", "c"]\n[property.sum]',
            "+ property new  of b+c",
        ),
    ],
)
def test_a_change_is_told_by_name_with_its_direction(old, new, line):
    assert told(old, new) == [line]


@pytest.mark.parametrize(
    "parameter",
    [one.name for one in fields(Disclosure) if one.name not in ("kind", "plugin")],
)
def test_a_change_of_any_parameter_of_a_disclosure_is_shown(parameter):
    def with_parameter(value):
        given = {"a": value} if parameter == "weights" else value
        rule = Property(
            "sum", (("a",),), disclosure=Disclosure("linear", **{parameter: given})
        )
        return Policy("p", Entity("e", "id", {}), properties={"sum": rule})

    (line,) = differences(with_parameter(37), with_parameter(38))
    one, other = line.changes[0].split(" -> ")
    assert "37" in one
    assert one.removeprefix("disclosure ").replace("37", "38") == other


def test_a_property_that_goes_lets_workers_see_more():
    dropped = BASE.partition("[property.sum]")[0] + BASE[BASE.index("[workers") :]
    (one,) = differences(policy(BASE), policy(dropped))
    assert (one.line, one.looser) == ("- property sum  (looser)", True)
