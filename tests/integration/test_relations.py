"""Relation rules at the gate: links of people, by common places and by cosine."""

import json
from contextlib import contextmanager
from math import isqrt

import pytest

from dispatcher.core.errors import Conflict, Invalid, PastLimit, Refused
from dispatcher.custody.evidence import export, verify
from dispatcher.ledger.active_policy import current_policy
from dispatcher.ledger.comparison import compare
from dispatcher.ledger.explain import explain
from dispatcher.ledger.identity_changes import merge
from dispatcher.ledger.relations import Granted, around
from dispatcher.store import relations as links
from tests.integration.ledger_cases import Case, Far, Plans, policy

LINKS = '[relation.friend]\nsource = "friends.csv"\nends = ["one", "two"]\n'
COMMON = (
    LINKS
    + """
[property.met]
scope = "relation"
relation = "friend"
of = ["a", "b"]
disclosure = { kind = "common", vector = "place" }
"""
)
COSINE = (
    LINKS
    + """
[property.alike]
scope = "relation"
relation = "friend"
of = ["a", "b"]
tau = 0.6
disclosure = { kind = "cosine", vector = "place", count = "visits" }
"""
)
FRIENDS = [("ann", "bob"), ("bob", "cat"), ("ann", "ann2")]
RECORDS = (
    ("r1", "ann", 0, "abc", "cafe", 3),
    ("r2", "ann", 0, "a", "gym", 4),
    ("r3", "bob", 0, "ab", "cafe", 1),
    ("r4", "bob", 0, "a", "park", 2),
    ("r5", "cat", 0, "a", "park", 1),
    ("r6", "dan", 0, "a", "cafe", 1),
    ("r7", "bob", 0, "a"),
)


@pytest.fixture
def case(store):
    return Case(store)


def ready(case, rules, **links):
    case.apply(policy(rules), friend=links.get("friend", FRIENDS))
    case.add("x/1", "x/2", "x/3")
    case.load(*RECORDS)
    return case


@contextmanager
def past_met():
    with pytest.raises(PastLimit) as past:
        yield
    assert past.value.facts["property"] == "met"


def allowed(case, *asks):
    """Book entries one by one; say of each whether it was allowed."""
    return [not case.book(("x/1", ask), skip=True).refused for ask in asks]


def test_nobody_sees_two_friends_at_one_place(case):
    ready(case, COMMON)
    assert allowed(case, "r1.a", "r3.a", "r4.a", "r6.a", "r5.a", "r2.a", "r7.a") == [
        True,  # ann at the café
        False,  # bob at the café
        True,  # bob at the park
        True,  # dan is nobody's friend
        False,  # cat at the park
        True,  # ann at the gym
        True,  # bob at no place
    ]
    with pytest.raises(Refused) as refused:
        case.book(("x/1", "r3.b"))
    assert refused.value.facts["property"] == "met"
    assert refused.value.facts["value"] == "1"
    with case.store.read() as tx:
        assert compare(tx).differences == ()


def test_an_ask_reads_the_people_around_it_and_no_more(sqlite_store):
    """Not all links of the relation, nor all that the adversary holds."""
    with sqlite_store.read() as tx:
        plans = Plans(tx)
        links.mates(plans, "friend", 1)
        list(links.held_of(plans, 1, [1, 2]))
        list(links.visits(plans, 1, [1, 2]))
    told = " ".join(plans.told)
    assert "(relation=? AND one=?)" in told
    assert "(relation=? AND other=?)" in told
    assert "(adversary_id=? AND unit_id=?)" in told
    assert "(adversary_id=? AND subject_id=?)" in told
    whole = ("(relation=?)", "(adversary_id=?)")
    assert not [one for one in plans.told if one.endswith(whole)]


def test_an_ask_looks_at_nothing_granted_of_others(case):
    """However large the batch: Dan is nobody's friend, and his visits are not read."""
    ready(case, COMMON)
    with case.store.read() as tx:
        force = current_policy(tx)
        ann, dan = (case.entry(tx, name) for name in ("r1.a", "r6.a"))
        granted = Granted()
        granted.visits[dan.subject_id] = Far([0])
        (seen,) = around(tx, force, ann, 1, held=False, granted=granted)
    assert seen.friends == ()


def test_fields_outside_the_rule_show_no_place(case):
    ready(case, COMMON)
    assert allowed(case, "r1.c", "r3.a") == [True, True]


def test_a_cosine_is_compared_by_squares_and_may_fall(case):
    ready(case, COSINE)
    # ann is seen with (cafe 3), bob with (cafe 1): f = 1; with gym 4: f = 3/5 = tau.
    assert allowed(case, "r1.a", "r3.a") == [True, False]
    assert allowed(case, "r2.a", "r3.a") == [True, False]
    assert allowed(case, "r4.a", "r3.a") == [True, True]  # 3 / (5 sqrt 5)
    with case.store.read() as tx:
        assert compare(tx).differences == ()
        told = explain(tx, case.entries["r3.b"], case.accounts["x/1"])
    (finding,) = told.findings
    scale = 10**18  # now bob has cafe 2, park 2: f = 6 / (5 sqrt 8)
    assert finding.after * scale == isqrt(36 * scale**2 // 200) + 1
    assert finding.after < finding.tau
    assert {seen.field for seen in told.seen} == {"a"}


def test_a_join_that_brings_friends_together_is_refused_or_takes_no_more(case):
    ready(case, COMMON)
    case.book(("x/1", "r1.a"), ("x/2", "r3.a"))
    group = '[workers.groups.g]\nmembers = ["x/1", "x/2"]'
    with past_met():
        case.apply(policy(COMMON, groups=group), friend=FRIENDS)
    trusted = group + '\ntrusted = ["met"]'
    case.apply(policy(COMMON, groups=trusted), friend=FRIENDS)
    assert allowed(case, "r3.b") == [True]
    with past_met():
        case.apply(policy(COMMON, groups=group), friend=FRIENDS)


def test_a_version_with_more_links_judges_what_was_seen(case):
    ready(case, COMMON, friend=[("bob", "cat")])
    case.book(("x/1", "r1.a"), ("x/1", "r3.a"))
    changed = case.apply(policy(COMMON), friend=[("bob", "cat")])
    assert not changed.changed
    with past_met():
        case.apply(policy(COMMON), friend=[("ann", "bob")])
    case.apply(policy(COMMON, name="two"), friend=[("ann", "dan")])
    assert allowed(case, "r6.a") == [False]
    assert allowed(case, "r4.a", "r5.a") == [True, False]  # the first links hold still


def test_a_relation_without_its_links_is_refused(case):
    with pytest.raises(Invalid, match="links of relation friend are missing"):
        case.apply(policy(COMMON))


def test_means_over_links_are_capped(case):
    rules = COMMON.replace("disclosure", 'tau = "none"\naverage = 0.5\ndisclosure')
    budget = 'objective = "tradeoff"\ntau = "none"'
    case.apply(policy(rules, budget=budget), friend=[*FRIENDS, ("bob", "dan")])
    case.add("x/1")
    case.load(*RECORDS)
    # ann-bob, bob-cat and bob-dan could meet; one in three may
    assert allowed(case, "r1.a", "r3.a", "r6.a") == [True, True, False]
    with case.store.read() as tx:
        assert compare(tx).differences == ()


def exported(case, folder):
    bundle = export(case.store, folder, clock=case.tick)
    verdict = verify(folder, [bundle.root])
    assert verdict.status == 0, verdict.text
    return json.loads((folder / "cert.json").read_text())


@pytest.mark.parametrize("rules", [COMMON, COSINE])
def test_evidence_of_links_verifies(case, rules, tmp_path):
    ready(case, rules)
    allowed(case, "r7.a", "r1.a", "r3.a", "r2.a", "r4.a", "r3.a", "r5.a", "r3.b")
    case.load(("r8", "dan", 0, "ab", "park", 7))
    case.apply(policy(rules, name="two"), friend=[("bob", "dan")])
    case.book(("x/2", "r8.a"), ("x/2", "r1.a"))
    told = exported(case, tmp_path / "bundle")
    assert told["counts"]["links"] == 4
    (worst,) = told["worst"].values()
    # Nothing met; or the square of 6 / (5 sqrt 8) over that of tau = 3/5.
    assert worst["share"] == ("0" if rules == COMMON else "1/2")


def test_rules_over_different_relations_are_judged_and_proven_each(case, tmp_path):
    """Common places of friends and cosines of kin, over other fields, in one policy."""
    kin = COSINE.replace("friend", "kin").replace('["a", "b"]', '["c"]')
    met = COMMON.replace('vector = "place"', 'vector = "place", count = "visits"')
    rules = met + kin
    case.apply(policy(rules), friend=[("ann", "bob")], kin=[("ann", "dan")])
    case.add("x/1", "x/2")
    case.load(
        ("r1", "ann", 0, "abc", "cafe", 3),
        ("r2", "bob", 0, "ac", "cafe", 1),
        ("r3", "dan", 0, "ac", "cafe", 1),
        ("r4", "dan", 0, "ac", "park", 2),
    )
    assert allowed(case, "r1.a", "r1.c") == [True, True]
    assert allowed(case, "r2.a", "r2.c") == [False, True]  # friends, and no kin
    assert allowed(case, "r3.a", "r3.c") == [True, False]  # kin, and no friends
    assert allowed(case, "r4.c", "r3.c") == [True, True]  # then f = 1 / sqrt 5
    with case.store.read() as tx:
        assert compare(tx).differences == ()
    told = exported(case, tmp_path / "bundle")
    assert told["counts"]["links"] == 2
    assert told["worst"]["met"]["share"] == "0"
    assert told["worst"]["alike"]["share"] == "5/9"  # 1/5 over 9/25


def test_a_version_that_first_reads_places_needs_records_that_brought_them(case):
    case.apply(policy('[property.p]\nof = ["a", "b"]'))
    case.load(("r1", "ann", 0, "ab"))
    with pytest.raises(Conflict, match="place"):
        case.apply(policy(COMMON), friend=FRIENDS)


def test_a_merge_that_is_accepted_is_past_and_no_licence(case, tmp_path):
    ready(case, COMMON)
    case.book(("x/1", "r1.a"), ("x/2", "r3.a"))
    merged = [["x/1", "x/2"]]
    with past_met(), case.store.write() as tx:
        merge(tx, merged, because="same person", at=case.tick())
    with case.store.write() as tx:
        told = merge(tx, merged, because="same person", at=case.tick(), accept=1)
    (past,) = told.accepted
    assert past.property == "met"
    assert len(past.unit) == 2
    assert list(past.unit) == sorted(past.unit)
    # Neither end of that link is shown any further, wherever it was.
    assert allowed(case, "r2.a", "r4.a", "r7.a", "r5.a") == [False, False, False, True]
    certificate = exported(case, tmp_path / "bundle")
    assert certificate["counts"]["accepted"] == 1
    assert certificate["worst"]["met"]["share"] == "1"
    with case.store.read() as tx:
        assert compare(tx).differences == ()
