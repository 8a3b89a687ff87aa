"""Whatever way an ask is booked, the same cause refuses it, in the same words."""

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import pytest

from dispatcher.core.errors import Refused
from dispatcher.ledger.active_policy import current_policy
from dispatcher.ledger.decision import decide
from dispatcher.ledger.explain import explain
from dispatcher.ledger.refusals import PASSING, Refusal
from dispatcher.model import Recusal
from dispatcher.model.states import record_unit, subject_unit
from dispatcher.store import Store
from tests import builders, edits
from tests.integration.ledger_cases import PAIR, Case, policy

UNSENT = """
a = { ask = "transcribe" }
b = { ask = "transcribe" }
c = { ask = "transcribe" }
d = { ask = "transcribe", send = false }
"""
PERSON = '[property.person]\nscope = "subject"\nof = ["a", "b"]\n'
WINDOW = """
[property.window]
scope = "subject"
of = ["a", "b"]
window = "30s"
disclosure = { kind = "linear", per = "entry", weight = 0.5 }
"""
MET = """
[relation.friend]
source = "friends.csv"
ends = ["one", "two"]

[property.met]
scope = "relation"
relation = "friend"
of = ["a", "b"]
disclosure = { kind = "common", vector = "place" }
"""
MEAN = '[property.m]\nof = ["a", "b"]\naverage = 0.25\ndisclosure = "linear"\n'
WHOLE = '[property.m]\nof = ["a", "b"]\ndisclosure = "linear"\n'
RECORDS = (
    ("r1", "ann", 10_000_000, "abcd", "cafe", 1),
    ("r2", "ann", 20_000_000, "abcd", "gym", 1),
    ("r3", "bob", 30_000_000, "abcd", "cafe", 1),
    ("r4", "cat", 40_000_000, "abcd", "park", 1),
)


class Cause(NamedTuple):
    """How x/1 comes to be refused one entry, and what the refusal says.

    ``before`` is what it was shown until then; ``stands`` what is done besides.
    """

    source: bytes
    asked: str
    rule: str
    value: Fraction | int = 1
    limit: Fraction | int = 1
    before: str = ""
    stands: Callable[[Store], None] | None = None


def block(store):
    builders.block(store, "x/1")


def pause(store):
    builders.pause(store, "connector:x")


def await_pilot(store):
    builders.hold_for_pilot(store, only=1)


def recuse(store):
    builders.recuse(store, "x/1", record_unit(1))


def unrecuse(store):
    """Nothing in the product does so."""
    with store.write() as tx:
        edits.empty(tx, Recusal)


CAUSES = {
    "the field is never sent": Cause(policy("", UNSENT), "r1.d", "fields.send"),
    "the field is not in the version": Cause(
        policy("", 'a = { ask = "transcribe" }\nc = { ask = "transcribe" }'),
        "r1.d",
        "fields.send",
    ),
    "the account is blocked": Cause(
        policy(PAIR),
        "r1.a",
        "account",
        stands=block,
    ),
    "the pilot is awaited": Cause(
        policy(PAIR),
        "r1.a",
        "pilot",
        stands=await_pilot,
    ),
    "work is paused": Cause(
        policy(PAIR),
        "r1.a",
        "pause",
        stands=pause,
    ),
    "the record was recused": Cause(
        policy(PAIR),
        "r1.a",
        "recusal",
        stands=recuse,
    ),
    "the person was recused": Cause(
        policy(PAIR),
        "r2.a",
        "recusal",
        stands=lambda store: builders.recuse(store, "x/1", subject_unit(1)),
    ),
    "it was shown t times": Cause(
        policy(PAIR, budget="t = 2"), "r1.a", "budget.t", 3, 2, before="others"
    ),
    "a record rule": Cause(policy(PAIR), "r1.b", "a-b", before="r1.a"),
    "a subject rule": Cause(policy(PERSON), "r2.b", "person", before="r1.a"),
    "a window": Cause(policy(WINDOW), "r2.b", "window", before="r1.a"),
    "a relation rule": Cause(policy(MET), "r3.a", "met", before="r1.a"),
    "the mean of a rule": Cause(
        policy(MEAN),
        "r3.a",
        "m",
        Fraction(3, 8),
        Fraction(1, 4),
        before="r1.a r2.a",
    ),
    "the mean of all rules": Cause(
        policy(WHOLE, budget="average = 0.25"),
        "r3.a",
        "budget.average",
        Fraction(3, 8),
        Fraction(1, 4),
        before="r1.a r2.a",
    ),
}


def ready(store, cause: Cause) -> Case:
    """A store in which x/1 is to be refused, and x/2 is not."""
    case = Case(store)
    everything = policy(MET)
    case.apply(everything, friend=[("ann", "bob")])
    case.add("x/1", "x/2", "y/3", "y/4")
    case.load(*RECORDS)
    if cause.source != everything:
        links = {"friend": [("ann", "bob")]} if b"relation" in cause.source else {}
        case.apply(cause.source, **links)
    if cause.before == "others":
        case.book(("y/3", cause.asked), ("y/4", cause.asked))
    elif cause.before:
        case.book(("x/1", cause.before))
    if cause.stands:
        cause.stands(store)
    return case


def alone(case: Case, asked: str) -> Refusal:
    """Book one ask."""
    [refusal] = case.book(("x/1", asked), skip=True).refused
    return refusal


def among_others(case: Case, asked: str) -> Refusal:
    """Book it beside asks of another worker: all are decided at once."""
    booked = case.book(("y/3", "r4.c"), ("x/1", asked), ("y/4", "r3.c"), skip=True)
    [refusal] = booked.refused
    assert len(booked.tasks) == 2
    return refusal


def only_looked_at(case: Case, asked: str) -> Refusal:
    """Decide it without a lock and without writing."""
    with case.store.read() as tx:
        force = current_policy(tx)
        assert force is not None
        decision = decide(tx, force, case.entries[asked], case.accounts["x/1"])
        assert decision.refusal is not None
        return decision.refusal


def explained(case: Case, asked: str) -> Refusal:
    """Decide it with all that every rule says."""
    with case.store.read() as tx:
        entry, account = case.entries[asked], case.accounts["x/1"]
        told = explain(tx, entry, account)
        assert told.refusal is not None
        return told.refusal


def raised(case: Case, asked: str) -> Refusal:
    """Book it where one refusal refuses all; return what a look says, if they agree."""
    looked = only_looked_at(case, asked)
    for asks in ([("x/1", asked)], [("y/3", "r4.c"), ("x/1", asked)]):
        with pytest.raises(Refused) as caught:
            case.book(*asks)
        assert str(caught.value) == str(looked.error())
        assert caught.value.facts == looked.error().facts
    return looked


WAYS: list[Callable[[Case, str], Refusal]] = [
    alone,
    among_others,
    only_looked_at,
    explained,
    raised,
]


@pytest.mark.parametrize("name", CAUSES)
def test_every_way_to_book_refuses_for_the_same_reason(store, name):
    cause = CAUSES[name]
    case = ready(store, cause)
    refusals = [way(case, cause.asked) for way in reversed(WAYS)]
    assert len(set(refusals)) == 1
    [refusal] = set(refusals)
    assert (refusal.account, refusal.entry_id, refusal.account_id) == (
        "x/1",
        case.entries[cause.asked],
        case.accounts["x/1"],
    )
    assert (refusal.rule, refusal.value, refusal.limit) == (
        cause.rule,
        cause.value,
        cause.limit,
    )


STANDING = {
    "account": (
        block,
        lambda store: builders.unblock(store, "x/1"),
    ),
    "pilot": (
        await_pilot,
        builders.end_pilot,
    ),
    "pause": (
        pause,
        builders.resume,
    ),
    "recusal": (
        recuse,
        unrecuse,
    ),
}
"""What stands against x/1 and record r1, and what takes it away again."""


@pytest.mark.parametrize("way", WAYS)
def test_of_several_causes_the_first_is_reported(store, way):
    pair = Cause(policy(PAIR, budget="t = 2"), "r1.b", "a-b", before="r1.a")
    case = ready(store, pair)
    case.book(("y/3", "r1.b"), ("y/4", "r1.b"))
    for begin, _ in STANDING.values():
        begin(store)
    found = [way(case, pair.asked).rule]
    for _, end in STANDING.values():
        end(store)
        found.append(way(case, pair.asked).rule)
    assert found == [*STANDING, "a-b"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["account", "pause", "pilot", "recusal"])
def test_a_property_may_bear_the_name_of_another_cause(sqlite_store, way, name):
    named = Cause(policy(PAIR.replace("a-b", name)), "r1.b", name, before="r1.a")
    refusal = way(ready(sqlite_store, named), named.asked)
    assert (refusal.cause, refusal.rule) == ("disclosure", name)
    assert refusal.cause not in PASSING


@pytest.mark.parametrize("way", [alone, among_others])
def test_what_a_worker_holds_already_is_judged_by_nothing_but_its_standing(store, way):
    case = ready(store, Cause(policy(PAIR, budget="t = 1"), "r1.a", "", before="r1.a"))
    again = [("x/1", "r1.a")] if way is alone else [("y/3", "r4.c"), ("x/1", "r1.a")]
    booked = case.book(*again, skip=True)
    assert booked.refused == []
    assert booked.new == len(again) - 1
    block(store)
    assert way(case, "r1.a").rule == "account"
