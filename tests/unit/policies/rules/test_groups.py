"""Which accounts are one adversary, and what it is trusted with."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from policies.policy import (
    Group,
)
from policies.rules.groups import adversaries, groups_of, trusted_rules
from tests.unit.policies.rules.small_rules import policy

GROUPS = {
    "red": Group("red", ("r/*", "x/1"), ("p", "q")),
    "blue": Group("blue", ("b/*", "x/1"), ("p",)),
    "green": Group("green", ("g/*", "h/*")),
    "lime": Group("lime", ("l/*", "h/*")),
    "sole": Group("sole", ("s/[ab]",)),
}


def test_groups_join_over_a_known_account_or_the_same_text():
    found = adversaries(
        policy(groups=GROUPS), ["r/1", "b/1", "g/1", "l/1", "s/a", "s/c"]
    )
    assert [(a.accounts, a.groups) for a in found] == [
        (("b/1", "r/1", "x/1"), ("blue", "red")),  # x/1 is written out, so it is known
        (("g/1", "l/1"), ("green", "lime")),  # both list h/*, though nobody matches
        (("s/a",), ("sole",)),
        (("s/c",), ()),
    ]


def test_groups_stay_apart_while_nobody_is_in_both():
    groups = {"one": Group("one", ("*/a",)), "two": Group("two", ("m/*",))}
    apart = adversaries(policy(groups=groups), ["n/a", "m/b"])
    assert [a.accounts for a in apart] == [("m/b",), ("n/a",)]
    joined = adversaries(policy(groups=groups), ["n/a", "m/b", "m/a"])
    assert [a.accounts for a in joined] == [("m/a", "m/b", "n/a")]


def test_globs_match_the_whole_account_with_case():
    groups = {"g": Group("g", ("m/*",))}
    assert groups_of(policy(groups=groups), "m/a/b") == ("g",)
    assert groups_of(policy(groups=groups), "M/a") == ()


def test_trust_needs_every_account():
    mine = policy(groups=GROUPS)
    assert trusted_rules(mine, [("red",), ("blue",)]) == {"p"}
    assert trusted_rules(mine, [("red",), ("red", "lime")]) == {"p", "q"}
    assert trusted_rules(mine, [("red",), ()]) == frozenset()
    assert trusted_rules(mine, []) == frozenset()
    assert trusted_rules(mine, [("gone",)]) == frozenset()


@given(
    st.lists(
        st.sampled_from(["r/1", "b/1", "g/1", "h/2", "l/1", "s/a", "z"]), unique=True
    )
)
def test_adversaries_part_the_known_accounts(accounts):
    found = adversaries(policy(groups=GROUPS), accounts)
    everyone = [a for part in found for a in part.accounts]
    assert sorted(everyone) == sorted({*accounts, "x/1"})
    for one, other in combinations(found, 2):
        assert not set(one.groups) & set(other.groups)
