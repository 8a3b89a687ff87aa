"""What plans tell of a store is true: the gate tries all assignments of small ones."""

import json
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher.ledger.book import Asks, Push, book
from dispatcher.ledger.identity_changes import merge
from dispatcher.stages import planning
from dispatcher.stages.planning import Planning
from policies.rules import expand as expansions
from policies.solvers import Limits, Solution, Verdict
from tests import sql
from tests.integration.ledger_cases import Case, policy

FRIENDS = '[relation.friend]\nsource = "friends.csv"\nends = ["one", "two"]\n'
TIE = (
    FRIENDS
    + """
[property.tie]
scope = "relation"
relation = "friend"
of = ["a", "c"]
tau = "none"
average = 0.5
disclosure = { kind = "common", vector = "place" }
"""
)
COSINE = TIE.replace('"common", vector', '"cosine", count = "n", vector')
LINEAR = '[property.both]\nof = ["a", "b"]\ndisclosure = "linear"\n'
DAY = 86_400_000_000
ANY = 'objective = "tradeoff"\ntau = "none"'
STAFF = '[workers.groups.staff]\nmembers = ["x/1"]\ntrusted = ["tie"]\n'
SENT = 'a = { ask = "transcribe" }\nd = { ask = "transcribe" }\n'
SENT += "b = { send = false }\nc = { send = false }"


@pytest.fixture
def case(store):
    return Case(store)


class Undone(Exception):
    """What was booked for a try is taken back."""


def granted(case, chosen):
    """Whether the gate grants all of this, as (account, entry); nothing stays booked."""
    mine = {who: [e for w, e in chosen if w == who] for who, _ in chosen}
    asks = [Asks(who, entries) for who, entries in mine.items()]
    refused = []

    def tried():
        with case.store.write() as tx:
            found = book(
                tx, asks, delivery=Push(), at=case.now, cause="try", skip_refused=True
            )
            refused.extend(found.refused)
            raise Undone

    with pytest.raises(Undone):
        tried()
    return not refused


def possible(case):
    """Whether the gate grants any assignment of all entries, one answer of each."""
    entries, workers = list(case.entries.values()), list(case.accounts.values())
    every = product(workers, repeat=len(entries))
    return any(granted(case, list(zip(w, entries, strict=True))) for w in every)


def planned(case, **kwargs):
    """Plan whatever can be; the gate grants all of it."""
    stage = Planning(case.store, case.tick, rest=0.0)
    drafted = stage.draft(partial=True, seed=1, **kwargs)
    if drafted.plan_id is None:
        return drafted
    with case.store.read() as tx:
        rows = sql.rows(tx, "SELECT account_id, entries FROM assignment")
    chosen = [(who, e) for who, packed in rows for e in memoryview(packed).cast("q")]
    assert granted(case, chosen)
    assert len(chosen) == drafted.summary["pairs"]
    return drafted


PEOPLE = st.sampled_from(["ann", "bob", "cat"])
RECORDS = st.tuples(
    PEOPLE, st.sampled_from(["a", "a", "ab"]), st.sampled_from("xy"), st.integers(1, 3)
)
LINKS = [("ann", "bob"), ("bob", "cat"), ("ann", "cat")]
SHARES = st.sampled_from(["0.2", "0.34", "0.5", "0.7"])


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    tie=st.sampled_from([TIE, COSINE]),
    average=SHARES,
    whole=st.none() | SHARES,
    linear=st.booleans(),
    groups=st.sampled_from(["", STAFF]),
    links=st.integers(1, 3),
    records=st.lists(RECORDS, min_size=2, max_size=4),
    workers=st.integers(1, 2),
)
def test_a_plan_of_means_is_found_or_refuted_as_the_gate_judges(
    new_case, tie, average, whole, linear, groups, links, records, workers
):
    case = new_case()
    rules = tie.replace("0.5", average) + (LINEAR if linear else "")
    budget = ANY if whole is None else f"{ANY}\naverage = {whole}"
    case.apply(policy(rules, budget=budget, groups=groups), friend=LINKS[:links])
    case.add(*(f"x/{i + 1}" for i in range(workers)))
    case.load(
        *(
            (f"r{i}", who, 0, letters, place, visits)
            for i, (who, letters, place, visits) in enumerate(records)
        )
    )
    verdict = planned(case).verdict
    if verdict != "UNKNOWN":
        assert (verdict == "SOLVED") is possible(case)


def test_a_link_of_several_places_counts_once_in_a_mean(case):
    """Of two links one is shown, twice over: a mean of 1/2."""
    case.apply(policy(TIE, SENT, budget=ANY), friend=[("ann", "bob"), ("cat", "dan")])
    case.add("x/1")
    places = [("ann", "x"), ("bob", "x"), ("ann", "y"), ("bob", "y"), ("cat", "z")]
    case.load(
        *((f"r{i}", who, 0, "a", where, 1) for i, (who, where) in enumerate(places)),
        ("r9", "dan", 0, "c", "z", 1),  # shown to nobody
    )
    assert planned(case).verdict == "SOLVED"


def test_a_link_seen_at_several_places_before_counts_once_in_a_mean(case):
    """x/1 and x/2 prove to be one, and to know one link of two: a mean of 1/2."""
    rules = TIE.replace('tau = "none"', "")
    case.apply(policy(rules), friend=[("ann", "bob"), ("cat", "dan")])
    case.add("x/1", "x/2")
    seen = [("ann", "x"), ("ann", "y"), ("bob", "x"), ("bob", "y")]
    rest = [("cat", "z"), ("dan", "z")]
    people = enumerate([*seen, *rest])
    case.load(*((f"r{i}", who, 0, "a", where, 1) for i, (who, where) in people))
    case.book(("x/1", "r0.a r1.a r4.a"), ("x/2", "r2.a r3.a"))
    with case.store.write() as tx:
        merge(tx, [["x/1", "x/2"]], because="same", at=case.tick(), accept=1)
    case.add("x/3")  # all is to be shown anew: nothing of ann and bob to x/1
    drafted = planned(case)
    assert drafted.verdict == "INFEASIBLE"
    assert drafted.summary["cores"][0]["needed"] == 3
    case.add("x/4")
    assert planned(case).verdict == "SOLVED"


def test_who_is_not_trusted_is_judged_by_all_rules_that_count(case):
    """x/1, who may see ties, is at 1/2 of a mean of 3/10; x/2 at 1/2 over two."""
    rules = TIE.replace("average = 0.5\n", "") + LINEAR
    budget = f"{ANY}\naverage = 0.3"
    case.apply(
        policy(rules, SENT, budget=budget, groups=STAFF), friend=[("ann", "bob")]
    )
    case.add("x/1", "x/2")
    case.load(("r1", "ann", 0, "ab", "x", 1), ("r2", "bob", 0, "c", "x", 1))
    assert planned(case).verdict == "SOLVED"
    case.load(("r3", "ann", 0, "ab", "y", 1), ("r4", "ann", 0, "a", "y", 1))
    assert not possible(case)


DAYS = """
[property.days]
scope = "subject"
of = ["a"]
tau = "none"
window = "20d"
disclosure = { kind = "linear", per = "entry", weight = 0.05 }
"""


@pytest.mark.parametrize(
    ("members", "workers", "told"),
    [(10**5, 6, "SOLVED"), (0, 6, "SOLVED"), (0, 2, "UNKNOWN")],
)
def test_a_mean_over_windows_is_planned_also_where_not_all_of_them_are_sets(
    case, monkeypatch, members, workers, told
):
    """A day of 30 tells up to 21/20 over its windows, 21 in all; a worker may see 6."""
    monkeypatch.setattr(expansions, "MOST_MEMBERS", members)
    monkeypatch.setattr(expansions, "MOST_WINDOWS", 1)
    case.apply(policy(DAYS, budget=f"{ANY}\naverage = 0.2"))
    case.add(*(f"x/{n}" for n in range(workers)))
    case.load(*((f"r{d}", "ann", d * DAY, "a") for d in range(30)))
    drafted = planned(case)
    assert drafted.verdict == told
    assert drafted.summary["pairs"] >= 12


REST = "0.50000000000000000008"


@pytest.mark.parametrize(("tau", "told"), [(0.5, "UNKNOWN"), (0.4, "INFEASIBLE")])
def test_weights_that_were_rounded_up_refute_no_plan_near_the_limit(case, tau, told):
    """Twelve parts of 1/2, cut off after twenty digits, are just below: all is granted."""
    names = [f"f{i:02}" for i in range(12)]
    weights = ", ".join(f"{name} = 0.04166666666666666666" for name in names)
    rules = f"""
[property.most]
of = {json.dumps([*names, "rest"])}
tau = {tau}
disclosure = {{ kind = "linear", weights = {{ {weights}, rest = {REST} }} }}
"""
    asked = "\n".join(f'{name} = {{ ask = "transcribe" }}' for name in names)
    case.apply(policy(rules, f"{asked}\nrest = {{ send = false }}"))
    case.add("x/1")
    case.load(("r1", "ann", 0, names))
    drafted = planned(case)
    assert drafted.verdict == told
    assert possible(case) is (told == "UNKNOWN")
    assert any("digits" in text for text in drafted.summary["tried"]) is possible(case)


def test_all_searches_of_a_plan_share_its_time(case, monkeypatch):
    """Cosines of 0 have no plan; then one below the limit is looked for, and a proof."""
    case.apply(policy(COSINE.replace('"none"\naverage = 0.5', "0.3")), friend=LINKS)
    case.add("x/1")
    case.load(*((f"r{i}", who, 0, "a", "x", 1) for i, who in enumerate(("ann", "bob"))))
    times = [0.0]

    def slow(problem, rng, limits):
        times.append(times[-1] + limits.seconds)
        return Solution(Verdict.UNKNOWN, tried=("nothing",))

    monkeypatch.setattr(planning, "find_solver", lambda name: slow)
    limits = Limits(seconds=5.0, clock=lambda: times[-1])
    assert planned(case, limits=limits).verdict == "UNKNOWN"
    assert len(times) > 3
    assert times[-1] < 5.1
