"""Rules told by tables and by packages: planned, gated, judged in evidence.

What a package tells is named NOT CHECKED there.
"""

import json
import shutil
import sys
from fractions import Fraction
from importlib.metadata import EntryPoint, EntryPoints

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher import strategies
from dispatcher.core import plugins
from dispatcher.core.errors import Invalid, PastLimit, Refused
from dispatcher.custody.evidence import export, verify
from dispatcher.ledger.comparison import compare
from dispatcher.ledger.identity_changes import merge
from dispatcher.ledger.limit_usage import LimitUsages
from dispatcher.stages import planning
from dispatcher.stages.intake.external_rules import read_links
from dispatcher.stages.planning import Planning
from policies.document import parse
from policies.model.problem import Plan
from policies.rules.functions import FieldFunction, UserUtility
from policies.solvers import Limits, Solution, Verdict
from tests import sql
from tests.integration.ledger_cases import Case, policy

TABLE = """a,b,secret,weight
young,north,ill,3
young,south,well,3
old,north,well,1
old,south,ill,1
"""
POSTERIOR = """
[property.illness]
of = ["a", "b"]
tau = 0.9
disclosure = { kind = "KIND", table = "worlds.csv", prior = "weight" }
"""
MINE = """
[property.mine]
scope = "subject"
of = ["a", "b", "c"]
tau = 0.5
disclosure = "plugin:mine"
"""


def mine(held):
    return {0: 0, 1: 0.25}.get(len(held), 1 if "c" in held else Fraction(1, 3))


FUNCTION = FieldFunction("mine", mine)
QUARTERS = FieldFunction("mine", lambda held: (0, 0.25, Fraction(2, 5), 1)[len(held)])
EACH = {"a": Fraction(1, 20), "b": Fraction(1, 8), "c": Fraction(9, 20)}
UNEVEN = FieldFunction("mine", lambda held: sum(map(EACH.get, held)))
VARIETY = UserUtility("variety", lambda held: min(len(held), 2))
FALLING = FieldFunction("mine", lambda held: int(len(held) == 1))
NOTHING = FieldFunction("mine", lambda held: 0.5)
ABOVE = FieldFunction("mine", len)
WORDS = FieldFunction("mine", lambda held: str(len(held)))
COUNTING = iter(range(1, 10**6))
FICKLE = FieldFunction("mine", lambda held: bool(held) and 1 / (1 + next(COUNTING)))
FALLING_WORTH = UserUtility("variety", lambda held: len(held) % 3)
GROWING_WORTH = UserUtility("variety", lambda held: len(held) ** 2)
BROKEN_WORTH = UserUtility("variety", lambda held: {}[held])
LEAVING = FieldFunction("mine", lambda held: sys.exit(0))
BROKEN = FieldFunction("mine", lambda held: {}[held])


@pytest.fixture
def case(store):
    return Case(store)


@pytest.fixture
def install(monkeypatch):
    """Make names of this module plug-ins."""

    def put(name, target, group=strategies.FUNCTIONS):
        point = EntryPoint(name, f"{__name__}:{target}", group)
        found = EntryPoints([point])
        monkeypatch.setattr(
            plugins, "entry_points", lambda *, group: found.select(group=group)
        )

    return put


def beside(case, source, folder):
    found = parse(source).policy
    assert found is not None
    return read_links(found, folder, case.store.key("pseudonym-key"))


def ready(case, rules, folder, **kwargs):
    source = policy(rules, **kwargs)
    told = beside(case, source, folder).functions
    case.apply(source, functions=told)
    case.add("x/1", "x/2", "x/3")
    case.load(("r1", "ann", 0, "abc"), ("r2", "ann", 0, "ab"))
    return case


@pytest.mark.parametrize(
    ("kind", "tau", "refused"),
    [
        # Either value alone says nothing but how much illness there is at that age.
        ("posterior", "0.9", True),
        ("information-gain", "0.9", True),
        ("information-gain", "1.0", True),
        ("mean-information-gain", "1.0", True),
        ("posterior", '"none"', False),
    ],
)
def test_what_a_table_lets_guess_is_refused(case, tmp_path, kind, tau, refused):
    (tmp_path / "worlds.csv").write_text(TABLE)
    rules = POSTERIOR.replace("KIND", kind).replace("tau = 0.9", f"tau = {tau}")
    budget = 'objective = "tradeoff"' if "none" in tau else ""
    ready(case, rules, tmp_path, budget=budget)
    case.book(("x/1", "r1.a"), ("x/1", "r2.b"))
    booked = case.book(("x/1", "r1.b"), skip=True)
    assert bool(booked.refused) is refused
    if refused:
        assert booked.refused[0].value == 1
    with case.store.read() as tx:
        assert compare(tx).differences == ()


GUESS = "x,secret,chance\ncommon,ill,495\ncommon,well,495\nrare,ill,10\n"
GAIN = """
[property.guess]
of = ["x"]
tau = 0.05
disclosure = { kind = "KIND", table = "guess.csv" }
"""


@pytest.mark.parametrize(
    ("kind", "planned"), [("information-gain", 0), ("mean-information-gain", 2)]
)
def test_a_rare_value_that_tells_all_is_planned_by_the_mean_alone(
    case, tmp_path, kind, planned
):
    """One value in a hundred makes the secret certain: its gain is 1, the mean .0099."""
    (tmp_path / "guess.csv").write_text(GUESS)
    source = policy(GAIN.replace("KIND", kind), fields='x = { ask = "transcribe" }')
    case.apply(source, functions=beside(case, source, tmp_path).functions)
    case.add("x/1", "x/2")
    case.load(("r1", "ann", 0, "x"), ("r2", "bob", 0, "x"))
    drafted = Planning(case.store, case.tick, rest=0.0).draft(partial=True)
    assert drafted.summary["pairs"] == planned
    booked = case.book(("x/1", "r1.x"), ("x/2", "r2.x"), skip=True)
    assert len(booked.tasks) == planned
    assert [refusal.value for refusal in booked.refused] == [1] * (2 - planned)
    bundle = export(case.store, tmp_path / "bundle", clock=case.tick)
    verdict = verify(bundle.folder, [bundle.root])
    assert verdict.status == 0, verdict.text
    assert "NOT CHECKED" not in verdict.text
    told = json.loads((bundle.folder / "cert.json").read_text())
    worst = Fraction(told["worst"]["guess"]["share"]) * Fraction(1, 20)
    assert worst == (Fraction(9928580254, 10**12) if planned else 0)
    table = (bundle.folder / "tables-1.jsonl").read_text()
    assert table.splitlines()[2] == (
        '{"chance":"1/100","property":"guess","secret":0,"values":[1]}'
    )  # no value of it is in evidence


def test_a_plan_keeps_what_tells_too_much_apart_and_the_evidence_names_it(
    case, tmp_path, install
):
    (tmp_path / "worlds.csv").write_text(TABLE)
    install("mine", "FUNCTION")
    rules = POSTERIOR.replace("KIND", "posterior") + MINE
    ready(case, rules, tmp_path, budget="average = 0.9")
    stage = Planning(case.store, case.tick, rest=0.0)
    drafted = stage.draft()
    assert drafted.summary["worst"]["share"] >= 0.5  # who sees b alone: f = 1/2 of 0.9
    stage.apply(drafted.plan_id)
    with case.store.read() as tx:
        force_levels = sql.rows(
            tx, "SELECT property, source FROM rule_table ORDER BY 1"
        )
    assert force_levels == [("illness", "worlds.csv"), ("mine", "plugin:mine")]
    case.book(("x/1", "r1.a"), ("x/2", "r1.b"), ("x/1", "r2.a"))
    with pytest.raises(Refused) as refused:
        case.book(("x/1", "r1.b"))
    assert refused.value.facts["property"] == "illness"
    with pytest.raises(Refused) as refused:
        case.book(("x/1", "r1.c"))
    assert refused.value.facts["property"] == "mine"
    bundle = export(case.store, tmp_path / "bundle", clock=case.tick)
    verdict = verify(bundle.folder, [bundle.root])
    assert verdict.status == 0, verdict.text
    told = json.loads((bundle.folder / "cert.json").read_text())
    assert told["not_checked"] == ["budget.average", "mine"]
    # Who sees b alone: f = 1/2 of 0.9.
    assert told["worst"]["illness"] | {"chain": 0, "seq": 0} == {
        "share": "5/9",
        "chain": 0,
        "seq": 0,
    }
    assert "illness" not in verdict.text


def shown_as_planned(case, stage, drafted):
    """Book all that is planned; return how many pairs that was. None is refused."""
    stage.apply(drafted.plan_id)
    names = {number: name for name, number in case.accounts.items()}
    entries = {number: name for name, number in case.entries.items()}
    with case.store.read() as tx:
        rows = sql.rows(tx, "SELECT account_id, entries FROM assignment")
    asks = [
        (names[account], " ".join(entries[e] for e in memoryview(packed).cast("q")))
        for account, packed in rows
    ]
    return len(case.book(*asks).tasks)


FEW = """
[property.few]
of = ["a", "b", "c"]
tau = 0.5
average = 0.125
disclosure = "plugin:mine"
"""
FAVOURITE = '[[utility]]\nworker = "x/1"\nweight = 9.0'


@pytest.mark.parametrize("workers", [4, 8])
def test_a_cap_on_the_mean_of_a_told_rule_is_planned_for(
    case, tmp_path, install, workers
):
    """One field of a record is 1/4, two 2/5: of four records a worker sees two fields.

    The step sets that keep f below 1/2 know nothing of these quarters.
    """
    install("mine", "QUARTERS")
    source = policy(FEW, groups=FAVOURITE)
    case.apply(source, functions=beside(case, source, tmp_path).functions)
    case.add(*(f"x/{n}" for n in range(1, workers + 1)))
    case.load(*((f"r{n}", f"p{n}", 0, "abc") for n in range(4)))
    stage = Planning(case.store, case.tick, rest=0.0)
    drafted = stage.draft(partial=True, seed=1)
    assert drafted.verdict == ("SOLVED" if workers == 8 else "UNKNOWN")
    planned = shown_as_planned(case, stage, drafted)
    assert planned == 12 - drafted.summary["held"]
    assert planned == 12 if workers == 8 else 6 <= planned <= 8


def test_who_is_worth_most_is_planned_no_more_than_they_may_keep(
    case, tmp_path, install
):
    """Twenty may see four single fields each, of sixty; eleven of them come first.

    A plan gives those all it can. Without what is too much they would be given others
    that are too much as well, and the rest would wait.
    """
    install("mine", "QUARTERS")
    favourites = FAVOURITE.replace("x/1", "x/1*")
    source = policy(FEW.replace("0.125", "0.05"), groups=favourites)
    case.apply(source, functions=beside(case, source, tmp_path).functions)
    case.add(*(f"x/{n}" for n in range(1, 21)))
    case.load(*((f"r{n}", f"p{n}", 0, "abc") for n in range(20)))
    stage = Planning(case.store, case.tick, rest=0.0)
    drafted = stage.draft(seed=1)
    assert drafted.verdict == "SOLVED"
    assert float(drafted.summary["utility"]) > 400  # 44 to the favourites
    assert shown_as_planned(case, stage, drafted) == 60


def test_who_is_worth_most_is_taken_for_alike_where_the_rest_has_no_plan_else(
    case, tmp_path, install
):
    """Ten may see 0.64 each, of 5 in all: but nobody two fields of 9/20."""
    install("mine", "UNEVEN")
    source = policy(FEW.replace("0.125", "0.08"), groups=FAVOURITE)
    case.apply(source, functions=beside(case, source, tmp_path).functions)
    case.add(*(f"x/{n}" for n in range(1, 11)))
    case.load(*((f"r{n}", f"p{n}", 0, "abc") for n in range(8)))
    stage = Planning(case.store, case.tick, rest=0.0)
    drafted = stage.draft(seed=1)
    assert drafted.verdict == "SOLVED"
    assert float(drafted.summary["utility"]) >= 24
    assert shown_as_planned(case, stage, drafted) == 24


def test_plans_that_are_too_much_are_asked_for_again_only_while_there_is_time(
    case, tmp_path, install, monkeypatch
):
    """One worker may see a field of twelve: all that is planned is too much each time."""
    install("mine", "QUARTERS")
    source = policy(FEW.replace("0.125", "0.07"))
    case.apply(source, functions=beside(case, source, tmp_path).functions)
    case.add("x/1")
    case.load(*((f"r{n}", f"p{n}", 0, "abc") for n in range(4)))
    times = [0.0]

    def slow(problem, rng, limits):
        times.append(times[-1] + limits.seconds)
        return Solution(Verdict.UNKNOWN, Plan(np.arange(12), np.zeros(12, np.int64)))

    monkeypatch.setattr(planning, "find_solver", lambda name: slow)
    stage = Planning(case.store, case.tick, rest=0.0)
    limits = Limits(seconds=5.0, clock=lambda: times[-1])
    assert stage.draft(partial=True, limits=limits).summary["pairs"] == 1
    assert 3 < len(times) < 12
    assert times[-1] < 5.1


def test_a_plan_is_made_by_a_users_utility_and_names_it(case, tmp_path, install):
    """u = min(fields, 2) a record: 3 fields of r1 to two workers, a pair and a single.

    A sum would be content with anything; all three fields with one worker give 2.
    """
    install("variety", "VARIETY", strategies.UTILITIES)
    budget = 'utility = "plugin:variety"'
    rows = '[[utility]]\nworker = "x/3"\nweight = 0.5'
    ready(case, "", tmp_path, budget=budget, groups=rows)
    stage = Planning(case.store, case.tick, rest=0.0)
    drafted = stage.draft()
    assert drafted.summary["utility"] == "5"  # 2 + 1 of r1, 2 of r2
    assert drafted.summary["utility_by"] == "plugin:variety"
    install("other", "VARIETY", strategies.UTILITIES)  # the package is needed no more
    assert stage.draft(dry_run=True).summary["utility"] == "5"
    bundle = export(case.store, tmp_path / "bundle", clock=case.tick)
    assert verify(bundle.folder, [bundle.root]).status == 0


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("FALLING_WORTH", "to a, b, c, expected it to rise"),
        ("GROWING_WORTH", "declare the utility as not submodular"),
        ("FUNCTION", "expected policies.rules.functions.UserUtility"),
        ("BROKEN_WORTH", "the function raised KeyError"),
    ],
)
def test_what_is_no_utility_is_not_applied(case, tmp_path, install, target, told):
    install("variety", target, strategies.UTILITIES)
    with pytest.raises(Invalid) as refused:
        ready(case, "", tmp_path, budget='utility = "plugin:variety"')
    assert told in refused.value.why


def test_a_utility_that_is_not_installed_is_named(case, tmp_path, install):
    install("other", "VARIETY", strategies.UTILITIES)
    source = policy("", budget='utility = "plugin:variety"')
    with pytest.raises(Invalid, match="there is no utility 'variety'") as refused:
        beside(case, source, tmp_path)
    assert "installed: other" in refused.value.fix
    with pytest.raises(Invalid, match="plugin:variety says is missing"):
        case.apply(source)


def test_a_changed_table_is_a_new_version_and_judges_the_past(case, tmp_path):
    (tmp_path / "worlds.csv").write_text(TABLE)
    rules = POSTERIOR.replace("KIND", "information-gain").replace("0.9", "0.5")
    ready(case, rules.replace("0.5", "0.9999"), tmp_path)
    case.book(("x/1", "r1.a"))
    source = policy(rules.replace("0.5", "0.9999"))
    again = case.apply(source, functions=beside(case, source, tmp_path).functions)
    assert not again.changed
    (tmp_path / "worlds.csv").write_text(f"{TABLE}\nyoung,south,well,0\n")
    again = case.apply(source, functions=beside(case, source, tmp_path).functions)
    assert not again.changed  # what cannot be says nothing
    table = "a,b,secret,weight\nyoung,x,ill,1\nold,x,well,1\n"
    (tmp_path / "worlds.csv").write_text(table)
    with pytest.raises(PastLimit):
        case.apply(source, functions=beside(case, source, tmp_path).functions)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("FALLING", "declare it as not monotone"),
        ("NOTHING", "f of no fields is 0.5"),
        ("ABOVE", "expected 0 to 1"),
        ("WORDS", "expected a number"),
        ("FICKLE", "differs when asked twice|expected a number"),
        ("BROKEN", "raised KeyError"),
        ("LEAVING", "raised SystemExit"),
        ("TABLE", "expected policies.rules.functions.FieldFunction"),
        ("nothing", "raised AttributeError"),
    ],
)
def test_a_function_that_is_none_is_refused_with_the_sets(
    case, tmp_path, install, target, words
):
    install("mine", target)
    with pytest.raises(Invalid) as error:
        beside(case, policy(MINE), tmp_path)
    assert any(word in error.value.why for word in words.split("|"))


def test_a_function_that_nobody_brings_is_said(case, tmp_path):
    with pytest.raises(Invalid, match="no disclosure function 'mine'"):
        beside(case, policy(MINE), tmp_path)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (None, "worlds.csv"),
        ("a,b,secret\nx,y,z\n", "column `weight`"),
        ("a,b,secret,weight\nx,y,z,much\n", "worlds.csv:2: the chance is no number"),
        ("a,b,secret,weight\nx,y,z,-1\n", "below 0"),
        ("a,b,secret,weight\nx,y,z,0\n", "no world has a chance"),
        ("a,b,secret,weight\nx,y,z\n", "more or fewer cells"),
        ("a,b,secret,weight\nx,y,\udcff,1\n", "no CSV in UTF-8"),
    ],
)
def test_a_table_that_is_none_is_refused(case, tmp_path, table, words):
    if table is not None:
        raw = table.encode("utf-8", "surrogateescape")
        (tmp_path / "worlds.csv").write_bytes(raw)
    with pytest.raises(Invalid) as error:
        beside(case, policy(POSTERIOR.replace("KIND", "posterior")), tmp_path)
    assert words in f"{error.value} {error.value.why}"


# -- The gate and the verifier ---------------------------------------------------

KINDS = ("posterior", "information-gain", "mean-information-gain")
TABLED = """
[relation.kin]
source = "kin.csv"
ends = ["one", "two"]

[property.record]
of = ["a", "b"]
tau = 0.5
disclosure = { kind = "KIND0", table = "worlds.csv" }

[property.person]
scope = "subject"
of = ["a", "c"]
tau = 0.4
window = "2d"
average = 0.3
disclosure = { kind = "KIND1", table = "people.csv" }

[property.link]
scope = "relation"
relation = "kin"
of = ["a"]
tau = 0.9
disclosure = { kind = "KIND2", table = "kinship.csv" }
"""
DAY = 86_400_000_000


@st.composite
def histories(draw):
    """Kinds, tables of two columns, records with links, and what is asked for."""
    kinds = [draw(st.sampled_from(KINDS)) for _ in range(3)]
    row = st.tuples(*[st.sampled_from("xy")] * 3, st.integers(1, 9))
    tables = [draw(st.lists(row, min_size=1, max_size=5)) for _ in range(3)]
    people = ("ann", "bob", "cat")
    records = [
        (f"r{n}", draw(st.sampled_from(people)), draw(st.integers(0, 4)) * DAY, "abc")
        for n in range(draw(st.integers(2, 4)))
    ]
    entries = [f"{r[0]}.{letter}" for r in records for letter in "abc"]
    accounts = st.sampled_from(["x/1", "x/2", "x/3"])
    asked = st.lists(st.tuples(accounts, st.sampled_from(entries)), max_size=12)
    links = [("ann", "bob"), ("ann", "zoe")]
    return kinds, tables, records, draw(asked), draw(asked), links


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(history=histories())
def test_the_verifier_agrees_with_the_gate_on_what_tables_tell(
    new_case, tmp_path, history
):
    """Whatever was booked, refused and joined: every number of the evidence agrees."""
    kinds, tables, records, before, after, links = history
    heads = ("a,b", "a,c", "left.a,right.a")
    names = ("worlds.csv", "people.csv", "kinship.csv")
    for name, head, rows in zip(names, heads, tables, strict=True):
        lines = "".join(f"{','.join(map(str, row))}\n" for row in rows)
        (tmp_path / name).write_text(f"{head},secret,chance\n{lines}")
    (tmp_path / "kin.csv").write_text("one,two\n")
    rules = TABLED
    for number, kind in enumerate(kinds):
        rules = rules.replace(f"KIND{number}", kind)
    case = new_case()
    source = policy(rules, budget="t = 9\naverage = 0.35")
    case.apply(source, functions=beside(case, source, tmp_path).functions, kin=links)
    case.add("x/1", "x/2", "x/3")
    case.load(*records)
    for ask in before:
        case.book(ask, skip=True)
    with case.store.write() as tx:
        merge(tx, [["x/1", "x/2"]], because="one person", at=case.tick(), accept=None)
    for ask in after:
        case.book(ask, skip=True)
    folder = tmp_path / "bundle"
    shutil.rmtree(folder, ignore_errors=True)
    bundle = export(case.store, folder, clock=case.tick)
    verdict = verify(bundle.folder, [bundle.root])
    assert verdict.status == 0, verdict.text
    assert "NOT CHECKED" not in verdict.text


def test_how_near_a_limit_is_comes_from_the_table(case, tmp_path, install):
    """f of one field is 0.25, of two 0.4, and of three 1: the limit is reached with c."""
    install("mine", "QUARTERS")
    rules = """
[property.told]
of = ["a", "b", "c"]
disclosure = "plugin:mine"
tau = 0.9
"""
    ready(case, rules, tmp_path)
    case.book(("x/1", "r1.a r1.b r2.a"), ("x/2", "r1.c"))
    with case.store.read() as tx:
        one, two = (shares["told"] for shares in LimitUsages().look(tx).values())
    assert (one.f, one.worst, one.left, one.nearest) == (Fraction(2, 5), 1, 1, 1)
    assert (two.f, two.worst, two.left, two.nearest) == (Fraction(1, 4), 1, 2, 1)
