"""The most that one adversary may see of a record, on records small enough to see it."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.document import parse
from policies.model.problem import Plan
from policies.planning import densest_view
from policies.planning.densest_view import UnknownRecord, best_view
from policies.planning.frontier import adversaries_for
from policies.rules.tabulated import subsets
from policies.solvers import SOLVERS, Limits, Verdict

FIELDS = ("name", "zip", "sex", "born", "disease")


def record(rules: str = "", *, fields: str = "", budget: str = "") -> UnknownRecord:
    fields = fields or "\n".join(
        f'{name} = {{ ask = "transcribe" }}' for name in FIELDS
    )
    text = f"""
version = 1
name = "visits"
[budget]
{budget}
[entity.visit]
key = "id"
subject = "person"
[entity.visit.fields]
{fields}
{rules}
"""
    parsed = parse(text.encode(), "policy.toml")
    assert parsed.policy is not None, parsed.diagnostics
    return UnknownRecord(parsed.policy)


def densest(one: UnknownRecord, **asked):
    return one.densest(np.random.default_rng(0), Limits(), **asked)


SPLIT = """
[property.who]
of = ["name", "disease"]
"""
TRIPLE = """
[property.quasi]
of = ["zip", "sex", "born"]
"""
HISTORY = """
[property.history]
scope = "subject"
of = ["name", "zip", "sex", "born", "disease"]
disclosure = { kind = "linear", per = "entry", weight = 0.25 }
tau = 0.6
"""
WEIGHED = """
[property.weighed]
of = ["name", "zip", "sex"]
disclosure = { kind = "linear", weights = { name = 0.45, zip = 0.3, sex = 0.25 } }
tau = 0.56
"""


def test_without_a_rule_everything_is_seen():
    view = densest(record())
    assert (view.fields, view.most, view.proven) == (FIELDS, 5, True)


def test_of_a_forbidden_pair_one_field_is_kept():
    view = densest(record(SPLIT))
    assert (len(view.fields), view.most) == (4, 4)
    assert len({"name", "disease"}.intersection(view.fields)) == 1


def test_of_a_forbidden_triple_one_field_is_kept_and_of_both_two():
    assert densest(record(TRIPLE)).most == 4
    assert densest(record(SPLIT + TRIPLE)).most == 3


def test_a_linear_limit_counts_weights():
    """0.3 + 0.25 is below 0.56; the name's 0.45 goes with neither."""
    view = densest(record(WEIGHED))
    assert view.fields == ("zip", "sex", "born", "disease")
    assert densest(record(WEIGHED), having="name").fields == ("name", "born", "disease")


def test_a_limit_for_each_entry_leaves_two_of_five():
    """2 x 0.25 is below 0.6, 3 x 0.25 is not."""
    assert densest(record(HISTORY)).most == 2


def test_a_policy_that_denies_every_field_shows_none():
    alone = "".join(f'[property.{name}]\nof = ["{name}"]\n' for name in FIELDS)
    trusted = (
        '[workers.groups.own]\nmembers = ["inhouse/*"]\ntrusted = ['
        + ", ".join(f'"{name}"' for name in FIELDS)
        + "]\n"
    )
    view = densest(record(alone + trusted))
    assert (view.fields, view.most, view.proven) == ((), 0, True)


def test_a_field_that_is_never_sent_is_never_seen():
    sent = 'name = { ask = "transcribe" }\nnote = { send = false }'
    one = record(fields=sent)
    assert one.fields == ("name",)
    assert densest(one).fields == ("name",)


def test_a_rule_without_a_limit_denies_nothing():
    rule = SPLIT + 'tau = "none"\n'
    one = record(rule, budget='objective = "tradeoff"\ntau = 0.9')
    assert densest(one).most == 5


def test_two_who_share_what_they_know_split_a_pair_but_not_three_ways():
    """Two of a cycle of three exclude each other: no two strangers see all three."""
    cycle = "".join(
        f'[property.r{i}]\nof = ["{a}", "{b}"]\n'
        for i, (a, b) in enumerate((("name", "zip"), ("zip", "sex"), ("sex", "name")))
    )
    assert densest(record(SPLIT), adversaries=2).most == 5
    assert densest(record(cycle)).most == 3
    assert densest(record(cycle), adversaries=2).most == 4
    assert densest(record(cycle), adversaries=3).most == 5


def test_a_rule_of_records_is_evaded_by_a_second_record_and_one_of_people_is_not():
    person = SPLIT + 'scope = "subject"\n'
    assert densest(record(SPLIT), records=2).most == 5
    assert densest(record(person), records=2).most == 4


def test_the_view_that_has_a_field_is_the_densest_with_it():
    rules = """
[property.a]
of = ["name", "disease"]
[property.b]
of = ["name", "zip"]
"""
    one = record(rules)
    assert densest(one).fields == ("zip", "sex", "born", "disease")
    assert densest(one, having="name").fields == ("name", "sex", "born")
    assert [f.property for f in one.refusals(densest(one).fields, "name")] == ["a", "b"]


def test_all_answers_about_a_person_take_as_many_workers_as_their_records():
    """Two entries of a person each: 5, 10, 15 entries take 3, 5, 8 workers."""
    one = record(HISTORY)
    for records, workers in ((1, 3), (2, 5), (3, 8)):
        needed = adversaries_for(one.wanted(records), 0, Limits())
        assert (needed.least, needed.enough) == (workers, workers)


# -- laws ------------------------------------------------------------------------------

rules = st.lists(
    st.tuples(
        st.sets(st.sampled_from(FIELDS), min_size=2, max_size=4), st.integers(1, 3)
    ),
    max_size=4,
)


def written(chosen) -> str:
    """Rules: any ``at`` of some fields, or all of them."""
    return "".join(
        f"[property.r{i}]\nof = {sorted(fields)}\n"
        + (
            f'disclosure = {{ kind = "step", at = {at} }}\n'
            if 1 < at < len(fields)
            else ""
        )
        for i, (fields, at) in enumerate(chosen)
    ).replace("'", '"')


@settings(max_examples=8, deadline=None)
@given(rules)
def test_no_view_that_the_rules_allow_has_more_fields(chosen):
    one = record(written(chosen))
    allowed = [held for held in subsets(FIELDS) if not one.past(held)]
    view = densest(one)
    assert view.most == len(view.fields) == max(map(len, allowed))
    assert frozenset(view.fields) in allowed


@settings(max_examples=8, deadline=None)
@given(
    rules, st.lists(st.integers(0, 9), min_size=5, max_size=5), st.sampled_from(FIELDS)
)
def test_the_best_view_is_worth_as_much_as_any_that_the_rules_allow(
    chosen, worths, kept
):
    one, of = record(written(chosen)), dict(zip(FIELDS, worths, strict=True))

    def worth(held):
        return Fraction(max((of[name] for name in held), default=0))

    allowed = [held for held in subsets(FIELDS) if not one.past(held)]
    best = max((worth(held), len(held)) for held in allowed)
    found = best_view(one, FIELDS, worth)
    assert (found.bound, len(found.fields)) == best
    with_it = [held for held in allowed if kept in held]
    best = max((worth(held), len(held)) for held in with_it)
    found = best_view(one, FIELDS, worth, keep=kept)
    assert (worth(found.fields), len(found.fields)) == best


def test_a_search_that_ends_early_gives_a_bound_alone():
    pairs = "".join(
        f'[property.r{i}]\nof = ["{a}", "{b}"]\n'
        for i, (a, b) in enumerate(combinations(FIELDS, 2))
    )
    found = best_view(record(pairs), FIELDS, lambda held: Fraction(len(held)), most=2)
    assert found.fields is None
    assert found.bound >= 1


@pytest.mark.parametrize("adversaries", [1, 2])
@pytest.mark.parametrize("having", [None, "disease"])
@pytest.mark.parametrize("shown", [None, 0, 1])
def test_a_search_that_ends_early_gives_a_view_to_which_no_field_can_be_added(
    monkeypatch, shown, having, adversaries
):
    """Whether the solver gave no plan, an empty one, or one of a single entry."""

    def early(problem, rng, limits):
        found = SOLVERS["auto"](problem, rng, limits)
        if shown is None:
            return replace(found, verdict=Verdict.UNKNOWN, bound=math.inf)
        first = list(FIELDS).index(having) if having else 0
        many = max(shown, int(having is not None))
        plan = Plan(np.full(many, first), np.zeros(many, int))
        return replace(found, plan=plan, bound=5)

    monkeypatch.setattr(densest_view, "SOLVERS", {"auto": early})
    one = record(SPLIT + TRIPLE)
    view = densest(one, having=having, adversaries=adversaries)
    assert len(view.fields) == (3 if adversaries == 1 else 5)
    assert (view.most, view.proven) == (5, adversaries == 2)
    assert having is None or having in view.fields
    assert adversaries == 2 or not one.past(view.fields)


def test_a_field_that_a_rule_denies_alone_has_no_view_however_short_the_search(
    monkeypatch,
):
    def early(problem, rng, limits):
        found = SOLVERS["auto"](problem, rng, limits)
        return replace(found, verdict=Verdict.UNKNOWN)

    monkeypatch.setattr(densest_view, "SOLVERS", {"auto": early})
    trusted = '[workers.groups.own]\nmembers = ["x/*"]\ntrusted = ["name"]\n'
    one = record('[property.name]\nof = ["name"]\n' + trusted)
    assert densest(one, having="name") is None
    assert len(densest(one, having="zip").fields) == 4


@pytest.mark.parametrize("least", [0, 1])
def test_a_view_with_too_few_fields_is_none(least):
    """Of two fields that exclude each other, none has two."""
    one = record(SPLIT)
    found = best_view(one, ("name", "disease"), lambda held: Fraction(1), least=least)
    assert len(found.fields) == 1
    assert (
        best_view(one, ("name", "disease"), lambda held: Fraction(1), least=2).fields
        is None
    )
