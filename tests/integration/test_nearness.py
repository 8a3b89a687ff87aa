"""How near everybody is to every limit: the same as judging unit by unit."""

from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest

from dispatcher.ledger.nearness import Nearness
from dispatcher.ledger.standing import current_policy
from policies.policy import Scope
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
        return (nearness or Nearness()).look(tx)


def judged_one_by_one(case):
    """The same numbers from the rules themselves, one unit after the other."""
    with case.store.read() as tx:
        force = current_policy(tx)
        rows = tx.rows(
            "SELECT adversary_id, unit_id, field_id, time, entries FROM holding"
        )
    units = defaultdict(dict)
    for adversary, unit, number, time, count in rows:
        units[adversary, unit][force.numbered[number], time] = count
    found = defaultdict(list)
    for (adversary, unit), held in units.items():
        for rule in force.rules.all.values():
            mine = {place: n for place, n in held.items() if place[0] in rule.fields}
            if mine and (rule.scope is Scope.SUBJECT) == unit % 2:
                found[adversary, rule.name].append(rule.value(mine))
    return {
        key: (max(values), len(values), values.count(max(values)))
        for key, values in found.items()
    }


def test_the_largest_f_of_many_units_is_that_of_judging_each(store):
    case = Case(store)
    case.apply(policy(MANY, budget="t = 50"))
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
        wanted = rng.permutation(sorted(case.entries))[:40]
        case.book((name, " ".join(wanted)), skip=True)
    found = {
        (adversary, name): (near.f, near.units, near.worst)
        for adversary, shares in look(case).items()
        for name, near in shares.items()
    }
    assert found == judged_one_by_one(case)
    assert len({name for _, name in found}) == 6


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
    assert shares["h"] == (Fraction(1, 2), Fraction(3, 4), 2, 1)
    assert shares["h"].share == Fraction(2, 3)


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
    nearness = Nearness()
    pair.book(("x/1", "r1.a"), ("x/2", "r1.b"))
    assert {s["a-b"].units for s in look(pair, nearness).values()} == {1}
    judged = []
    ours = "dispatcher.ledger.nearness.judge"
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
        assert Nearness().look(tx) == {}
