"""How near everybody is to every limit: the same as judging unit by unit."""

import json
import re
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest

from dispatcher.ledger.active_policy import current_policy
from dispatcher.ledger.identity_changes import merge
from dispatcher.ledger.limit_usage import LimitUsage, LimitUsages
from dispatcher.ledger.versions import ApplyTerms, apply_policy
from dispatcher.ledger.violations import ANY
from policies.policy import Scope
from tests import sql
from tests.integration.ledger_cases import PAIR, Case, policy

MANY = """
[property.step]
any_of = [["a", "b"], ["c", "d"]]

[property.weighed]
of = ["a", "b", "c"]
disclosure = { kind = "linear", weights = { a = 0.5, b = 0.25, c = 0.25 } }

[property.history]
scope = "subject"
of = ["a", "c"]
disclosure = { kind = "quadratic", per = "entry", weight = 0.2 }
tau = 0.9

[property.shape]
scope = "subject"
of = ["b", "d"]
disclosure = { kind = "step", at = 3 }

[property.window]
scope = "subject"
window = "10s"
of = ["a", "b", "d"]
disclosure = { kind = "linear", per = "entry", weight = 0.25 }

[property.curved]
of = ["b", "c"]
disclosure = { kind = "quadratic" }
tau = 0.5
"""


def look(case, nearness=None):
    with case.store.read() as tx:
        return (nearness or LimitUsages()).look(tx)


def judged_one_by_one(case):
    """The same numbers from the rules themselves, one unit after the other."""
    with case.store.read() as tx:
        force = current_policy(tx)
        rows = sql.rows(
            tx,
            "SELECT adversary_id, unit_id, field_id, time, entries FROM exposure_count",
        )
    units = defaultdict(dict)
    for adversary, unit, number, time, count in rows:
        units[adversary, unit][force.numbered[number], time] = count
    found = defaultdict(list)
    for (adversary, unit), held in units.items():
        for rule in force.rules.all.values():
            mine = {place: n for place, n in held.items() if place[0] in rule.fields}
            if mine and (rule.scope is Scope.SUBJECT) == unit % 2:
                found[adversary, rule.name].append((rule.value(mine), rule.left(mine)))
    return {key: usage(*zip(*numbers, strict=True)) for key, numbers in found.items()}


def usage(values, left):
    known = [number for number in left if number is not None]
    least = min(known, default=None)
    best = max(values)
    return best, len(values), values.count(best), least, known.count(least)


LIMITS = re.compile("tau = .*\n")
FREE = 't = 50\ntau = "none"\nobjective = "tradeoff"\nlambda = 1'
"""No rule has a limit: what is shown goes past f = 1, as after an accepted breach."""

PRECISE = """
[property.precise]
of = ["a", "b", "c"]
disclosure = { kind = "linear", weights = { a = 0.400000000000000000001, b = 0.3, \
c = 0.299999999999999999999 } }
"""
COUNTED = """
[property.counted]
of = ["a", "b", "d"]
disclosure = { kind = "step", at = 2 }
"""


@pytest.mark.parametrize(
    ("rules", "budget", "count"),
    [
        (MANY, "t = 50", 40),
        (LIMITS.sub("", MANY + COUNTED + PRECISE), FREE, 40),
        (LIMITS.sub("", MANY + COUNTED + PRECISE), FREE, 96),
        (LIMITS.sub("", MANY + COUNTED + PRECISE), FREE, 3),
    ],
    ids=["within limits", "past limits", "all is shown", "little is shown"],
)
def test_the_largest_f_of_many_units_is_that_of_judging_each(
    sqlite_store, rules, budget, count
):
    case = Case(sqlite_store)
    case.apply(policy(rules, budget=budget))
    case.add("x/1", "x/2", "x/3")
    rng = np.random.default_rng(4)
    second = 1_000_000
    case.load(
        *(
            (f"r{n}", f"p{n % 4}", int(rng.integers(40)) * second, "abcd")
            for n in range(24)
        )
    )
    for name in ("x/1", "x/2", "x/3"):
        wanted = rng.permutation(sorted(case.entries))[:count]
        case.book((name, " ".join(wanted)), skip=True)
    found = {
        (adversary, name): (near.f, near.units, near.worst, near.left, near.nearest)
        for adversary, shares in look(case).items()
        for name, near in shares.items()
    }
    assert found == judged_one_by_one(case)
    assert len({name for _, name in found}) == rules.count("[property.")


def test_a_set_of_more_fields_than_a_machine_word_has_bits_is_judged_too(sqlite_store):
    names = [f"f{n}" for n in range(64)]
    fields = "\n".join(f'{name} = {{ ask = "transcribe" }}' for name in names)
    sets = [names[:63], names[1:]]
    case = Case(sqlite_store)
    case.apply(
        policy(f"[property.wide]\nany_of = {json.dumps(sets)}", fields, budget=FREE)
    )
    case.add("x/1", "x/2")
    letters = [*names]
    case.load(("r1", None, None, letters), ("r2", None, None, letters))
    book_all(case, "x/1", [f"r1.{name}" for name in names[:63]])
    book_all(case, "x/1", [f"r2.{name}" for name in names[:62]])
    book_all(case, "x/2", [f"r1.{name}" for name in names[2:]])
    one, two = (shares["wide"] for shares in look(case).values())
    assert (one.f, one.units, one.worst) == (1, 2, 1)
    assert (two.f, two.units, two.worst) == (0, 1, 1)


def book_all(case, account, entries):
    assert not case.book((account, " ".join(entries))).refused


def test_units_past_a_limit_count_as_one_f_however_far_past(sqlite_store):
    """After an accepted breach the scores differ, and f does not."""
    case = Case(sqlite_store)
    loose = policy(PAIR.replace('["a", "b"]', '["a", "d"]'))
    case.apply(loose)
    case.add("x/1")
    case.load(*((f"r{n}", None, None, "abcd") for n in range(3)))
    book_all(case, "x/1", ["r0.a", "r0.b", "r0.c", "r1.a", "r1.b", "r2.c"])
    rules = """
[property.step]
of = ["a", "b", "c"]
disclosure = { kind = "step", at = 2 }

[property.sum]
of = ["a", "b", "c"]
disclosure = { kind = "linear", per = "entry", weight = 0.5 }
"""
    with case.store.write() as tx:
        apply_policy(tx, policy(rules), at=case.tick(), terms=ApplyTerms(accept=ANY))
    [shares] = look(case).values()
    for name in ("step", "sum"):
        assert (shares[name].f, shares[name].units, shares[name].worst) == (1, 3, 2)


def test_another_version_is_judged_anew(pair):
    nearness = LimitUsages()
    pair.book(("x/1", "r1.a r1.c"))
    assert {s["a-b"].f for s in look(pair, nearness).values()} == {0}
    pair.apply(policy(PAIR.replace('"b"', '"d"').replace("a-b", "a-d")))
    assert [set(shares) for shares in look(pair, nearness).values()] == [{"a-d"}]


def test_an_adversary_that_ended_in_a_merge_is_not_looked_at(pair):
    nearness = LimitUsages()
    pair.book(("x/1", "r1.a"), ("x/2", "r2.b"))
    assert len(look(pair, nearness)) == 2
    with pair.store.write() as tx:
        merge(tx, [["x/1", "x/2"]], because="one address", at=pair.tick())
    [shares] = look(pair, nearness).values()
    assert shares["a-b"].units == 2


def test_a_share_is_f_over_the_limit(store):
    case = Case(store)
    case.apply(
        policy(
            '[property.h]\nscope = "subject"\nof = ["a"]\ntau = 0.75\n'
            'disclosure = { kind = "linear", per = "entry", weight = 0.25 }'
        )
    )
    case.add("x/1")
    case.load(("r1", "p", 1, "a"), ("r2", "p", 2, "a"), ("r3", "q", 2, "a"))
    case.book(("x/1", "r1.a r2.a r3.a"))
    [shares] = look(case).values()
    assert shares["h"] == LimitUsage(Fraction(1, 2), Fraction(3, 4), 2, 1, 1, 1)
    assert shares["h"].share == Fraction(2, 3)


def test_one_field_from_a_refusal_is_near_whatever_the_share(store):
    """Four records of which b is refused next, and f is 0 for all of them."""
    case = Case(store)
    case.apply(policy(PAIR))
    case.add("x/1")
    case.load(*((f"r{n}", None, None, "abcd") for n in range(5)))
    book_all(case, "x/1", [f"r{n}.a" for n in range(4)])
    [shares] = look(case).values()
    near = shares["a-b"]
    assert (near.share, near.left, near.nearest, near.units) == (0, 1, 4, 4)


@pytest.fixture
def pair(store):
    case = Case(store)
    case.apply(policy(PAIR))
    case.add("x/1", "x/2")
    case.load(("r1", None, None, "abcd"), ("r2", None, None, "abcd"))
    return case


def test_nobody_is_near_before_anything_is_shown(pair):
    assert look(pair) == {}


def test_only_adversaries_whose_chains_grew_are_judged_again(pair, monkeypatch):
    nearness = LimitUsages()
    pair.book(("x/1", "r1.a"), ("x/2", "r1.b"))
    assert {s["a-b"].units for s in look(pair, nearness).values()} == {1}
    judged = []
    ours = "dispatcher.ledger.limit_usage.judge"
    monkeypatch.setattr(ours, lambda tx, force, number: judged.append(number) or {})
    look(pair, nearness)
    assert judged == []
    pair.book(("x/2", "r2.b"))
    look(pair, nearness)
    assert len(judged) == 1


def test_a_rule_that_an_adversary_is_trusted_with_is_not_judged(store):
    case = Case(store)
    groups = '[workers.groups.us]\nmembers = ["x/*"]\ntrusted = ["a-b"]'
    case.apply(policy(PAIR, groups=groups))
    case.add("x/1")
    case.load(("r1", None, None, "ab"))
    case.book(("x/1", "r1.a r1.b"))
    assert look(case) == {}


def test_without_a_policy_there_is_nothing_to_look_at(store):
    with store.read() as tx:
        assert LimitUsages().look(tx) == {}
