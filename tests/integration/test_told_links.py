"""Tables and functions of packages over links: planned, gated, explained, in evidence."""

import json
from fractions import Fraction
from importlib.metadata import EntryPoint, EntryPoints

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from dispatcher import strategies
from dispatcher.core import plugins
from dispatcher.core.errors import Invalid, PastLimit, Refused
from dispatcher.custody.evidence import export, verify
from dispatcher.ledger.active_policy import current_policy
from dispatcher.ledger.comparison import compare
from dispatcher.ledger.explain import explain
from dispatcher.ledger.identity_changes import merge
from dispatcher.ledger.links import RuleFunction
from dispatcher.ledger.recall import InFlightAction
from dispatcher.ledger.relations import Granted, around
from dispatcher.ledger.versions import ApplyTerms, apply_policy
from dispatcher.stages.intake.external_rules import read_links
from dispatcher.stages.planning import Planning
from policies.document import parse
from policies.rules.functions import FieldFunction
from policies.rules.tabulated import monotone_closure, subsets
from policies.rules.tabulated_links import both_ends, symmetric
from tests import sql
from tests.integration.ledger_cases import Case, Far, policy

# Two surnames tell whether people are siblings; one of them, or a town, only hints at it.
TABLE = """left.a,left.b,right.a,right.b,secret,weight
berg,north,berg,north,siblings,3
berg,north,dahl,south,strangers,2
dahl,south,berg,north,strangers,2
dahl,south,dahl,south,siblings,1
"""
KIN = '[relation.kin]\nsource = "kin.csv"\nends = ["one", "two"]\n'
TIE = (
    KIN
    + """
[property.siblings]
scope = "relation"
relation = "kin"
of = ["a", "b"]
tau = 0.9
disclosure = DISCLOSURE
"""
)
POSTERIOR = TIE.replace(
    "DISCLOSURE", '{ kind = "posterior", table = "kinship.csv", prior = "weight" }'
)
PLUGIN = TIE.replace("DISCLOSURE", '"plugin:mine"')
LINKS = "one,two\nann,bob\nbob,cat\nann,ann\neve,zoe\n"  # of zoe nothing is loaded
RECORDS = (
    ("r1", "ann", 0, "abc"),
    ("r2", "ann", 0, "ab"),
    ("r3", "bob", 0, "abc"),
    ("r4", "cat", 0, "a"),
    ("r5", "dan", 0, "ab"),
    ("r6", "eve", 0, "abc"),
)


def mine(held):
    """Everything about both ends' ``a``; a third of anything else."""
    if {"left.a", "right.b"} <= held:
        return 1
    return Fraction(1, 3) if held else 0


FUNCTION = FieldFunction("mine", mine)


@pytest.fixture
def case(store):
    return Case(store)


@pytest.fixture
def install(monkeypatch):
    """Make the function of this module a plug-in."""
    point = EntryPoint("mine", f"{__name__}:FUNCTION", strategies.FUNCTIONS)
    found = EntryPoints([point])
    monkeypatch.setattr(
        plugins, "entry_points", lambda *, group: found.select(group=group)
    )


def beside(case, source, folder, table=TABLE):
    (folder / "kinship.csv").write_text(table)
    (folder / "kin.csv").write_text(LINKS)
    found = parse(source)
    assert found.policy is not None, found.diagnostics
    return read_links(found.policy, folder, case.store.key("pseudonym-key"))


def ready(case, rules, folder, **kwargs):
    source = policy(rules, **kwargs)
    told = beside(case, source, folder).functions
    pairs = [("ann", "bob"), ("bob", "cat"), ("eve", "zoe")]
    case.apply(source, functions=told, kin=pairs)
    case.add("x/1", "x/2", "x/3", "x/4")
    case.load(*RECORDS)
    return case


def allowed(case, *asks, who="x/1"):
    """Book entries one by one; say of each whether it was allowed."""
    return [not case.book((who, ask), skip=True).refused for ask in asks]


def planned(case, worst=None):
    """Plan the whole backlog; return the asks of the plan."""
    stage = Planning(case.store, case.tick, rest=0.0)
    drafted = stage.draft()
    assert worst in (None, drafted.summary["worst"]["f"])
    stage.apply(drafted.plan_id)
    names = {number: name for name, number in case.entries.items()}
    accounts = {number: text for text, number in case.accounts.items()}
    with case.store.read() as tx:
        rows = sql.rows(tx, "SELECT account_id, entries FROM assignment")
    return [
        (accounts[account], names[int.from_bytes(raw[i : i + 8], "little")])
        for account, raw in rows
        for i in range(0, len(raw), 8)
    ]


def test_the_tables_of_a_folder_are_read_with_the_links(case, tmp_path):
    read = beside(case, policy(POSTERIOR), tmp_path)
    assert len(read.links["kin"]) == 3
    told = read.functions["siblings"]
    assert told.source == "kinship.csv"
    assert told.levels[frozenset(["left.a", "right.a"])] == 1
    assert told.levels[frozenset(["left.a"])] == Fraction(1, 3)


def test_what_both_ends_tell_together_is_refused(case, tmp_path):
    ready(case, POSTERIOR, tmp_path)
    assert allowed(case, "r1.a", "r1.b", "r3.c", "r5.a") == [True] * 4
    with pytest.raises(Refused) as refused:
        case.book(("x/1", "r3.a"))
    assert refused.value.facts["property"] == "siblings"
    assert refused.value.facts["value"] == "1"
    assert allowed(case, "r4.a") == [True]  # ann and cat are not linked
    assert allowed(case, "r3.a", "r4.a", who="x/2") == [True, False]
    with case.store.read() as tx:
        assert compare(tx).differences == ()


def test_a_second_record_of_a_linked_person_is_more_than_a_table_tells(case, tmp_path):
    ready(case, POSTERIOR, tmp_path)
    case.load(("r7", "dan", 0, "a"))
    assert allowed(case, "r1.a", "r2.a", "r2.b") == [True, False, False]
    assert allowed(case, "r5.a", "r7.a") == [True, True]  # dan is linked with nobody


def test_what_is_held_of_one_end_counts_before_the_other_is_loaded(case, tmp_path):
    ready(case, POSTERIOR.replace("tau = 0.9", "tau = 0.3"), tmp_path)
    assert allowed(case, "r6.a", "r5.a") == [False, True]


@pytest.mark.parametrize("rules", [POSTERIOR, PLUGIN])
def test_an_ask_looks_at_nothing_granted_of_others(case, tmp_path, install, rules):
    """Bob, who is linked with Ann, counts; Cat and Dan are not, and are not read."""
    ready(case, rules, tmp_path)
    with case.store.read() as tx:
        names = ("r1.a", "r3.b", "r4.a", "r5.a")
        ann, bob, *others = (case.entry(tx, name) for name in names)
        granted = Granted()
        granted.entries[bob.subject_id].append(bob)
        for other in others:
            granted.entries[other.subject_id] = Far([other])
        force = current_policy(tx)
        (seen,) = around(tx, force, ann, 1, held=False, granted=granted)
    assert seen.friends == ({(bob.record_id, "b"): 1},)


def test_a_function_is_asked_for_both_ends_either_way_round(case, tmp_path, install):
    ready(case, PLUGIN, tmp_path)
    assert allowed(case, "r1.a", "r2.a", "r3.a", "r3.b") == [True, True, True, False]
    assert allowed(case, "r3.b", "r1.b", "r2.a", who="x/2") == [True, True, False]
    with case.store.read() as tx:
        told = explain(tx, case.entries["r3.b"], case.accounts["x/1"])
    (finding,) = told.findings
    assert (finding.before, finding.after) == (Fraction(1, 3), 1)
    records = {case.records[key] for key in ("r1", "r2", "r3")}
    assert {(s.record_id, s.field) for s in told.seen} == {(r, "a") for r in records}


@pytest.mark.parametrize("rules", [POSTERIOR, PLUGIN])
def test_a_plan_is_booked_whole_and_the_evidence_names_the_rule(
    case, tmp_path, install, rules
):
    ready(case, rules, tmp_path, budget="average = 0.9")
    with case.store.read() as tx:
        kept = sql.rows(tx, "SELECT property, source FROM rule_table")
    source = "kinship.csv" if rules is POSTERIOR else "plugin:mine"
    assert kept == [("siblings", source)]
    asks = planned(case, worst="1/3")  # the rule's own f, below its limit
    booked = case.book(*asks)
    assert booked.new == len(case.entries) == len(asks)
    bundle = export(case.store, tmp_path / "bundle", clock=case.tick)
    verdict = verify(bundle.folder, [bundle.root])
    assert verdict.status == 0, verdict.text
    told = json.loads((bundle.folder / "cert.json").read_text())
    assert told["counts"]["links"] == 3
    if rules is PLUGIN:
        assert told["not_checked"] == ["budget.average", "siblings"]
        assert 'NOT CHECKED "siblings"' in verdict.text
    else:
        assert told["not_checked"] == []
        assert told["worst"]["siblings"]["share"] == "10/27"  # 1/3 of 0.9


def test_rules_of_places_over_the_same_links_are_planned_beside_it(case, tmp_path):
    """Of eve's friend nothing is loaded: to places she has none, to a table she has."""
    places = """
[property.met]
scope = "relation"
relation = "kin"
of = ["a", "c"]
disclosure = { kind = "common", vector = "place", count = "visits" }

[property.alike]
scope = "relation"
relation = "kin"
of = ["c"]
tau = 0.5
disclosure = { kind = "cosine", vector = "place", count = "visits" }
"""
    ready(case, POSTERIOR + places, tmp_path)
    case.load(("r7", "bob", 0, "c", "gym", 2), ("r8", "ann", 0, "c", "gym", 1))
    asks = planned(case)
    assert case.book(*asks).new == len(case.entries)
    with case.store.read() as tx:
        assert compare(tx).differences == ()
    assert allowed(case, "r7.c", "r8.c", who="x/4").count(False) >= 1


def test_a_mean_is_of_links_that_could_tell_anything(case, tmp_path, install):
    ready(case, PLUGIN.replace("tau = 0.9", "average = 0.2"), tmp_path)
    # Three links, each end of each a third: ann-bob, bob-cat, eve-zoe.
    assert allowed(case, "r1.a", "r6.a", "r1.b", "r2.a") == [True, False, True, True]
    with case.store.read() as tx:
        assert compare(tx).differences == ()


def test_a_join_that_brings_both_ends_together_must_be_accepted(case, tmp_path):
    ready(case, POSTERIOR, tmp_path)
    case.book(("x/1", "r1.a"), ("x/2", "r3.a"))
    with pytest.raises(PastLimit) as past, case.store.write() as tx:
        merge(tx, [["x/1", "x/2"]], because="one person", at=case.tick())
    assert past.value.facts["property"] == "siblings"
    with case.store.write() as tx:
        merge(tx, [["x/1", "x/2"]], because="one person", at=case.tick(), accept=1)
    assert allowed(case, "r3.b") == [False]
    case.add("x/5")  # who saw both ends can be shown neither: three others are needed
    drafted = Planning(case.store, case.tick, rest=0.0).draft(dry_run=True)
    assert drafted.summary["worst"]["f"] == "1"
    bundle = export(case.store, tmp_path / "bundle", clock=case.tick)
    assert verify(bundle.folder, [bundle.root]).status == 0


def test_a_version_takes_back_what_one_end_alone_tells_too_much_of(case, tmp_path):
    ready(case, POSTERIOR, tmp_path)
    case.book(("x/1", "r6.a"), ("x/1", "r5.a"), ("x/2", "r6.c"))
    stricter = policy(POSTERIOR.replace("tau = 0.9", "tau = 0.3"))
    read = beside(case, stricter, tmp_path)
    with pytest.raises(PastLimit) as past, case.store.write() as tx:
        apply_policy(tx, stricter, at=case.tick(), links=read)
    assert past.value.facts["units"] == 1  # eve, who is linked with somebody unknown
    with case.store.write() as tx:
        terms = ApplyTerms(accept=1, in_flight=InFlightAction.RECALL)
        applied = apply_policy(tx, stricter, at=case.tick(), links=read, terms=terms)
    assert (applied.recall.unsafe, applied.recalled.tasks) == (1, 1)


def test_a_table_that_does_not_tell_the_ends_apart_is_refused(case, tmp_path):
    with pytest.raises(Invalid) as error:
        beside(case, policy(POSTERIOR), tmp_path, TABLE.replace("left.a", "a"))
    assert "column `left.a`" in error.value.why


# -- Laws ------------------------------------------------------------------------

PEOPLE = ("ann", "bob", "cat")
ACCOUNTS = ("x/1", "x/2")
LINKED = [("ann", "bob"), ("bob", "cat"), ("cat", "ann"), ("ann", "zoe")]
SHARES = st.integers(0, 3).map(lambda n: Fraction(n, 3))


class Oracle:
    """What may be shown, from the list of all exposures and nothing else."""

    def __init__(self, levels, single, records, links):
        self.levels, self.single = levels, single
        self.owner = {r[0]: r[1] for r in records}
        self.links = links
        self.seen = {who: [] for who in ACCOUNTS}

    def f(self, entries, link):
        held = set()
        for end, person in zip(("left.", "right."), link, strict=True):
            mine = [e.split(".") for e in entries if e[-1] in "ab"]
            mine = [(r, f) for r, f in mine if self.owner[r] == person]
            if self.single and len({r for r, _ in mine}) > 1:
                return 1
            held |= {end + f for _, f in mine}
        return self.levels[frozenset(held)]

    def ask(self, who, entry):
        seen = self.seen[who]
        if entry in seen:
            return True
        mine = [link for link in self.links if self.owner[entry[:-2]] in link]
        after = [*seen, entry]
        if entry[-1] in "ab" and any(
            self.f(after, link) >= Fraction(1, 2) for link in mine
        ):
            return False
        seen.append(entry)
        return True


@st.composite
def worlds(draw):
    """Records, links, f of every set, and asks."""
    records = []
    for number in range(draw(st.integers(2, 6))):
        letters = draw(st.sampled_from(["a", "ab", "abc", "bc"]))
        records.append((f"r{number}", draw(st.sampled_from(PEOPLE)), 0, letters))
    links = draw(st.lists(st.sampled_from(LINKED), min_size=1, unique=True))
    sets = subsets(both_ends("ab"))
    size = len(sets) - 1
    values = draw(st.lists(SHARES, min_size=size, max_size=size))
    levels = monotone_closure(dict(zip(sets, [Fraction(0), *values], strict=True)))
    entries = [f"{r[0]}.{letter}" for r in records for letter in r[3]]
    asks = st.tuples(st.sampled_from(ACCOUNTS), st.sampled_from(entries))
    asked = draw(st.lists(asks, min_size=1, max_size=12))
    return records, links, symmetric(levels), asked


@pytest.fixture
def made(new_case):
    def make(rules, levels, records, links):
        case = new_case()
        told = {"siblings": RuleFunction("test", "0" * 64, levels)}
        case.apply(policy(rules, budget="t = 9"), functions=told, kin=links)
        case.add(*ACCOUNTS)
        case.load(*records)
        return case

    return make


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(table=st.booleans(), world=worlds())
def test_the_gate_decides_as_the_oracle_one_by_one_and_in_bulk(made, table, world):
    rules = (POSTERIOR if table else PLUGIN).replace("tau = 0.9", "tau = 0.5")
    records, links, levels, asks = world
    oracle = Oracle(levels, table, records, links)
    expected = [oracle.ask(*ask) for ask in asks]
    one, bulk = (made(rules, levels, records, links) for _ in range(2))
    assert [not one.book(ask, skip=True).refused for ask in asks] == expected
    booked = bulk.book(*asks, skip=True)
    assert len(booked.tasks) == sum(expected)
    assert len(booked.refused) == len(asks) - sum(expected)
    for case in (one, bulk):
        with case.store.read() as tx:
            assert compare(tx).differences == ()
