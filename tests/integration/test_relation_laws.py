"""Laws of relation rules: the gate says what a judge over all exposures would say."""

from fractions import Fraction

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from dispatcher.ledger.comparison import compare
from tests.integration.ledger_cases import policy
from tests.integration.test_relations import COMMON, COSINE, exported

PEOPLE = ("ann", "bob", "cat", "dan")
PLACES = ("gym", "cafe", None)
ACCOUNTS = ("x/1", "x/2")
VISITS = (1, 2, 3, 2**24 - 1)  # the last is the most that is loaded
LINKED = [("ann", "bob"), ("bob", "cat"), ("cat", "dan"), ("dan", "ann")]


class Oracle:
    """What may be shown, from the list of all exposures and nothing else."""

    def __init__(self, kind, records, links):
        self.kind, self.records = kind, {r[0]: r for r in records}
        self.links = [set(pair) for pair in links]
        self.seen = {who: [] for who in ACCOUNTS}

    def vector(self, entries, person):
        found = {}
        for entry in entries:
            key, field = entry.split(".")
            _, of, _, _, place, visits = self.records[key]
            if of == person and field in "ab" and place is not None:
                found[place] = found.get(place, 0) + visits
        return found

    def past(self, entries, person):
        for other in {o for pair in self.links if person in pair for o in pair}:
            one, two = (self.vector(entries, p) for p in (person, other))
            if other == person or not one or not two:
                continue
            dot = sum(n * two.get(place, 0) for place, n in one.items())
            if self.kind == "common":
                if dot:
                    return True
                continue
            norms = sum(n * n for n in one.values()) * sum(n * n for n in two.values())
            if Fraction(dot * dot, norms) >= Fraction(36, 100):
                return True
        return False

    def ask(self, who, entry):
        seen = self.seen[who]
        if entry in seen:
            return True
        key, field = entry.split(".")
        person = self.records[key][1]
        if field in "ab" and (
            self.past(seen, person) or self.past([*seen, entry], person)
        ):
            return False
        seen.append(entry)
        return True


modest = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@st.composite
def worlds(draw):
    """Records, links and asks."""
    records = []
    for number in range(draw(st.integers(2, 6))):
        letters = draw(st.sampled_from(["a", "ab", "abc"]))
        place = draw(st.sampled_from(PLACES))
        visits = None if place is None else draw(st.sampled_from(VISITS))
        person = draw(st.sampled_from(PEOPLE))
        records.append((f"r{number}", person, 0, letters, place, visits))
    links = draw(st.lists(st.sampled_from(LINKED), min_size=1, unique=True))
    entries = [f"{r[0]}.{letter}" for r in records for letter in r[3]]
    asks = st.tuples(st.sampled_from(ACCOUNTS), st.sampled_from(entries))
    return records, links, draw(st.lists(asks, min_size=1, max_size=12))


@pytest.fixture
def made(new_case):
    def make(rules, records, links):
        case = new_case()
        case.apply(policy(rules, budget="t = 9"), friend=links)
        case.add(*ACCOUNTS)
        case.load(*records)
        return case

    return make


@modest
@given(kind=st.sampled_from(["common", "cosine"]), world=worlds())
def test_the_gate_decides_as_the_oracle_one_by_one_and_in_bulk(made, kind, world):
    rules = COMMON if kind == "common" else COSINE
    records, links, asks = world
    oracle = Oracle(kind, records, links)
    expected = [oracle.ask(*ask) for ask in asks]
    one, bulk = (made(rules, records, links) for _ in range(2))
    assert [not one.book(ask, skip=True).refused for ask in asks] == expected
    booked = bulk.book(*asks, skip=True)
    assert len(booked.tasks) == sum(expected)
    assert len(booked.refused) == len(asks) - sum(expected)
    for case in (one, bulk):
        with case.store.read() as tx:
            assert compare(tx).differences == ()


def test_whatever_the_gate_let_pass_verifies(made, tmp_path):
    records = [
        (
            f"r{i}",
            PEOPLE[i % 4],
            0,
            "abc",
            ("gym", "cafe", "park")[i % 3],
            VISITS[i % 4],
        )
        for i in range(12)
    ]
    counted = COMMON.replace('vector = "place"', 'vector = "place", count = "visits"')
    case = made(counted + "\n" + COSINE.split("\n\n", 1)[1], records, LINKED)
    asks = [
        (who, f"{r[0]}.{letter}")
        for r in records
        for who in ACCOUNTS
        for letter in "ab"
    ]
    booked = case.book(*asks, skip=True)
    assert booked.refused
    assert booked.new
    told = exported(case, tmp_path / "bundle")
    assert told["not_checked"] == []
    assert told["worst"]["met"]["share"] == "0"
