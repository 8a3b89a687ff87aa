"""Who is past a limit by an accepted join: what the gate refuses them is not planned."""

from contextlib import suppress
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher.core.errors import PastLimit
from dispatcher.ledger.active_policy import current_policy
from dispatcher.ledger.decision import decide
from dispatcher.ledger.identity_changes import merge
from dispatcher.preflight import Clearance
from dispatcher.stages.planning import Planning
from dispatcher.stages.planning import backlog as backlogs
from dispatcher.stages.planning.translation import translate
from tests.integration.ledger_cases import PAIR, Case, policy
from tests.integration.test_plan_verdicts import ANY, TIE
from tests.integration.test_planning import book_all, pairs
from tests.integration.test_relations import COMMON, COSINE
from tests.integration.test_told_links import POSTERIOR, beside

LINEAR_MEAN = PAIR + 'average = 0.5\ndisclosure = "linear"\n'
DAY = 86_400_000_000
EITHER = '[property.either]\nscope = "subject"\nany_of = [["a", "b"], ["c", "d"]]\n'
WINDOW = """
[property.often]
scope = "subject"
of = ["a", "b"]
tau = 0.7
window = "2d"
disclosure = { kind = "linear", per = "entry", weight = 0.3 }
"""
ASKS = st.tuples(st.sampled_from(["x/1", "x/2", "x/2"]), st.integers(0, 11))
PEOPLE = st.sampled_from(["ann", "ann", "bob", "bob", "cat"])
PLACES = st.sampled_from(["cafe", "gym"])
RECORDS = st.tuples(PEOPLE, st.integers(0, 3), PLACES, st.integers(1, 3))
LINKS = [("ann", "bob"), ("bob", "cat")]


@pytest.fixture
def case(store):
    return Case(store)


def joined(case):
    """x/1 and x/2 prove to be one; whatever they are past is accepted."""
    for accepted in range(20):
        with suppress(PastLimit), case.store.write() as tx:
            merge(
                tx,
                [["x/1", "x/2"]],
                because="same",
                at=case.tick(),
                **({"accept": accepted} if accepted else {}),
            )
            return
    raise AssertionError("more is past than a test of this size can be")


def barred(case):
    """Pairs (account, entry) that a plan may not have, but those that were shown."""
    with case.store.read() as tx:
        force = current_policy(tx)
        clear = Clearance()
        made = translate(tx, force, backlogs.read(tx, force, clear), case.now, clear)
    found, seen = made.problem.forbidden, made.problem.history
    new = ~found.within(seen)
    return [
        (account.id, int(made.backlog.entry[entry]))
        for entry, holder in zip(found.entry[new], found.adversary[new], strict=True)
        for account in made.workforce.accounts[holder]
    ]


def refused(case, asks):
    """Those of the pairs that the gate refuses, each asked for alone."""
    with case.store.read() as tx:
        force = current_policy(tx)
        decided = {(e, a): decide(tx, force, e, a).refusal for a, e in asks}
    return [(a, e) for (e, a), refusal in decided.items() if refusal is not None]


@pytest.mark.parametrize(
    "rules",
    [PAIR, EITHER, WINDOW, COMMON, COSINE, POSTERIOR],
    ids=["pair", "either", "window", "common", "cosine", "table"],
)
@settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    records=st.lists(RECORDS, min_size=4, max_size=4),
    asks=st.lists(ASKS, min_size=4, max_size=9),
)
def test_what_is_planned_is_granted_and_what_is_barred_is_refused(
    new_case, tmp_path_factory, rules, records, asks
):
    case = new_case()
    folder = tmp_path_factory.getbasetemp()
    told, name = {}, "friend"
    if rules == POSTERIOR:
        told, name = beside(case, policy(rules), folder).functions, "kin"
    case.apply(policy(rules), told, **{name: LINKS})
    case.add("x/1", "x/2", "x/3", "x/4")
    case.load(
        *(
            (f"r{i}", who, day * DAY, "abc", *at)
            for i, (who, day, *at) in enumerate(records)
        )
    )
    names = list(case.entries)
    for who, number in asks:
        case.book((who, names[number % len(names)]), skip=True)
    joined(case)
    forbidden = barred(case)
    assert sorted(refused(case, forbidden)) == sorted(forbidden)
    stage = Planning(case.store, case.tick, rest=0.0)
    drafted = stage.draft(partial=True, seed=1)
    if drafted.plan_id is not None:
        stage.apply(drafted.plan_id)
    for who, entry in pairs(case):
        assert not case.book((who, entry), skip=True).refused


def test_what_was_planned_and_not_shown_closes_nothing(case):
    """x/1 was to see a, x/2 b: one of both, who were shown a alone, may be shown c."""
    case.apply(policy(EITHER))
    case.add("x/1", "x/2")
    planning = Planning(case.store, case.tick, rest=0.0)
    case.load(("r0", "p", 0, "ab"))
    planning.apply(planning.draft(seed=1).plan_id)
    case.book(next((who, entry) for who, entry in pairs(case) if entry == "r0.a"))
    joined(case)
    case.load(("r1", "p", 0, "c"))
    drafted = planning.draft(partial=True, seed=1)
    assert (drafted.summary["pairs"], drafted.summary["held"]) == (1, 1)
    planning.apply(drafted.plan_id)
    assert {entry for _, entry in pairs(case)} == {"r1.c"}
    assert not case.book(("x/1", "r1.c"), skip=True).refused


@pytest.mark.parametrize(
    ("rules", "records"),
    [
        (LINEAR_MEAN, [(f"r{i}", "ann", 0, "ab") for i in range(4)]),
        (TIE, [("r0", "ann", 0, "a", "x", 1), ("r1", "bob", 0, "a", "x", 1)]),
    ],
    ids=["fields", "links"],
)
def test_what_a_join_would_bring_past_a_mean_is_planned_anew(case, rules, records):
    """x/1 and x/2 were to have half each, as much as a mean allows, and prove to be one."""
    case.apply(policy(rules, budget=ANY), friend=[("ann", "bob")])
    case.add("x/1", "x/2")
    planning = Planning(case.store, case.tick, rest=0.0)
    case.load(*records)
    planning.apply(planning.draft(seed=1).plan_id)
    before = pairs(case)
    assert {who for who, _ in before} == {"x/1", "x/2"}
    case.add("x/3")
    joined(case)
    case.load(("r9", "ann", 0, "a", "y", 1))
    drafted = planning.draft(seed=1)
    assert drafted.verdict == "SOLVED"
    assert drafted.summary["adversaries"] == 2
    planning.apply(drafted.plan_id)
    planned = pairs(case)
    assert {entry for _, entry in planned} == {"r9.a", *(entry for _, entry in before)}
    for pair in sorted(planned):
        assert not case.book(pair, skip=True).refused


@pytest.mark.parametrize("booked", [True, False], ids=["shown", "planned"])
def test_who_is_past_a_cosine_by_a_join_leaves_others_those_below_the_limit(
    case, booked
):
    """Four friends of each other at one gym, for two workers: a cosine of 1/82 is kept.

    A third is past the cosine of two others by what they were shown. What they were to be
    shown is planned anew.
    """
    friends = [
        ("ann", "bob"),
        ("bob", "cat"),
        ("ann", "cat"),
        *combinations(["cat", "dan", "eve", "fay"], 2),
    ]
    case.apply(policy(COSINE), friend=friends)
    case.add("x/1", "x/2")
    planning = Planning(case.store, case.tick, rest=0.0)
    case.load(("r0", "ann", 0, "a", "cafe", 1), ("r1", "bob", 0, "a", "cafe", 1))
    planning.apply(planning.draft(seed=1).plan_id)
    if booked:
        book_all(case)
    joined(case)
    case.add("x/3", "x/4")
    people = ["cat", "dan", "eve", "fay"]
    case.load(*((f"r2{who}", who, 0, "a", who, 9) for who in people))
    case.load(*((f"r3{who}", who, 0, "a", "gym", 1) for who in people))
    drafted = planning.draft(seed=1)
    assert drafted.verdict == "SOLVED"
    worst = Fraction(drafted.summary["worst"]["f"])
    assert (worst == 1) == booked  # of ann and bob, as before
    planning.apply(drafted.plan_id)
    for who, entry in sorted(pairs(case), key=lambda pair: pair[1]):
        if not booked or entry[:2] in ("r2", "r3"):
            assert not booked or who in ("x/3", "x/4")
            assert not case.book((who, entry), skip=True).refused
