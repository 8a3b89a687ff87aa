"""Laws of the gate: it says what a judge over the whole history would say, always."""

from collections import Counter
from fractions import Fraction

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from dispatcher.core.errors import PastLimit, Refused
from dispatcher.custody.evidence import export, verify
from dispatcher.ledger.active_policy import current_policy
from dispatcher.ledger.book import Asks, Pull, book
from dispatcher.ledger.comparison import compare
from dispatcher.store import exposure_counts
from tests import sql
from tests.integration.ledger_cases import PAIR, Case, policy

SECOND = 1_000_000
RECORDS = (
    ("r1", "p1", 0, "abcd"),
    ("r2", "p1", 5 * SECOND, "abc"),
    ("r3", "p1", 20 * SECOND, "bd"),
    ("r4", "p2", 0, "abd"),
)
ENTRIES = [f"{key}.{letter}" for key, _, _, letters in RECORDS for letter in letters]
RULES = {
    "pair": '[property.pair]\nof = ["a", "b"]',
    "person": '[property.person]\nscope = "subject"\nof = ["a", "d"]',
    "any": '[property.any]\nscope = "subject"\nany_of = [["a", "c"], ["b", "c", "d"]]',
    "some": '[property.some]\nof = ["a", "c", "d"]\n'
    'disclosure = { kind = "step", at = 2 }',
    "weighed": '[property.weighed]\nof = ["b", "c", "d"]\ntau = 0.7\n'
    'disclosure = { kind = "linear", weights = { b = 0.5, c = 0.3, d = 0.2 } }',
    "counted": '[property.counted]\nscope = "subject"\nof = ["a", "b", "d"]\n'
    'tau = 0.5\ndisclosure = { kind = "quadratic", per = "entry", weight = 0.25 }',
    "window": '[property.window]\nscope = "subject"\nof = ["b", "c"]\nwindow = "6s"\n'
    'disclosure = { kind = "linear", per = "entry", weight = 0.4 }',
}
ACCOUNTS = ("x/g1", "x/g2", "x/1", "x/2", "x/3")
GROUP = '[workers.groups.g]\nmembers = ["x/g*"]'
TRUSTED = GROUP + '\ntrusted = ["pair"]'


def disclosed(name, held, times):
    """F of one unit by the words of the policy language: {(record, field)} -> f."""
    fields = {f for _, f in held}
    match name:
        case "pair":
            return int({"a", "b"} <= fields)
        case "person":
            return int({"a", "d"} <= fields)
        case "any":
            return int({"a", "c"} <= fields or {"b", "c", "d"} <= fields)
        case "some":
            return int(len(fields & {"a", "c", "d"}) >= 2)
        case "weighed":
            tenths = {"b": 5, "c": 3, "d": 2}
            return Fraction(sum(tenths.get(f, 0) for f in fields), 10)
        case "counted":
            n = sum(f in "abd" for _, f in held)
            return min(Fraction(1), Fraction(n, 4)) ** 2
        case "window":
            mine = [times[r] for r, f in held if f in "bc"]
            most = max(
                (sum(x <= t <= x + 6 * SECOND for t in mine) for x in mine), default=0
            )
            return min(Fraction(1), most * Fraction(4, 10))
    raise AssertionError(name)


TAU = {"weighed": Fraction(7, 10), "counted": Fraction(1, 2)}
SUBJECT = {"person", "any", "counted", "window"}


class Oracle:
    """What may be shown, from nothing but the list of all exposures."""

    def __init__(self, rules, t, adversary_of, trusted=frozenset()):
        self.rules, self.t, self.adversary_of = rules, t, adversary_of
        self.trusted = trusted
        self.seen = {}
        self.showings = Counter()  # merges lower none of them
        self.time = {key: when for key, _, when, _ in RECORDS}
        self.person = {key: person for key, person, _, _ in RECORDS}

    def held(self, account):
        return self.seen.setdefault(self.adversary_of[account], set())

    def past(self, held, adversary):
        for name in self.rules:
            if name == "pair" and adversary in self.trusted:
                continue
            unit_of = (
                (lambda e: self.person[e[0]]) if name in SUBJECT else (lambda e: e[0])
            )
            for unit in {unit_of(e) for e in held}:
                mine = {e for e in held if unit_of(e) == unit}
                if disclosed(name, mine, self.time) >= TAU.get(name, 1):
                    return name
        return None

    def allows(self, account, entry):
        held = self.held(account)
        if entry in held:
            return True
        more = held | {entry}
        return not self.past(more, self.adversary_of[account]) and (
            self.showings[entry] < self.t
        )

    def show(self, account, entry):
        if entry not in self.held(account):
            self.held(account).add(entry)
            self.showings[entry] += 1


def entry_of(text):
    record, _, field = text.partition(".")
    return record, field


asks = st.lists(
    st.tuples(
        st.sampled_from(ACCOUNTS),
        st.lists(st.sampled_from(ENTRIES), min_size=1, max_size=9),
    ),
    min_size=1,
    max_size=6,
)
modest = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture
def fresh(new_case):
    def make(source):
        case = new_case()
        case.apply(source)
        case.add(*ACCOUNTS)
        case.load(*RECORDS)
        return case

    return make


@modest
@given(
    names=st.sets(st.sampled_from(sorted(RULES)), min_size=1),
    t=st.integers(1, 3),
    group=st.sampled_from(["", GROUP, TRUSTED]),
    rounds=st.lists(asks, min_size=1, max_size=3),
)
def test_many_at_once_are_decided_like_one_by_one_and_like_the_judge(
    fresh, names, t, group, rounds
):
    if "pair" not in names:
        group = group and GROUP
    source = policy(
        "\n".join(RULES[n] for n in sorted(names)), budget=f"t = {t}", groups=group
    )
    bulk, single = fresh(source), fresh(source)
    adversary = {a: "g" if group and a.startswith("x/g") else a for a in ACCOUNTS}
    trusted = {"g"} if group == TRUSTED else frozenset()
    oracle = Oracle(names, t, adversary, trusted)
    for batch in rounds:
        told = bulk.book(*((a, " ".join(e)) for a, e in batch), skip=True)
        refused = [(r.account_id, r.entry_id, r.rule, r.value) for r in told.refused]
        one_by_one, expected = [], []
        for account, entries in batch:
            for text in entries:
                ok = oracle.allows(account, entry_of(text))
                ask = single.accounts[account], single.entries[text]
                if ok:
                    oracle.show(account, entry_of(text))
                else:
                    expected.append(ask)
                said = single.book((account, text), skip=True)
                one_by_one += [
                    (r.account_id, r.entry_id, r.rule, r.value) for r in said.refused
                ]
        assert refused == one_by_one
        assert [(a, e) for a, e, _, _ in refused] == expected
    with bulk.store.read() as one, single.store.read() as two:
        held = "SELECT * FROM exposure_count ORDER BY 1, 2, 3, 4"
        assert sql.rows(one, held) == sql.rows(two, held)
        shown = "SELECT chain_id, entry_id, showing FROM ledger_line WHERE showing = 1 ORDER BY 1, 2"
        assert sql.rows(one, shown) == sql.rows(two, shown)
        assert compare(one).differences == ()


class GateMachine(RuleBasedStateMachine):
    """Bookings, retries, refusals, crashes, new versions and joins, in any order."""

    make = None

    @initialize(names=st.sets(st.sampled_from(sorted(RULES)), min_size=1, max_size=4))
    def begin(self, names):
        self.names, self.joined, self.versions = set(names), False, 1
        self.case = type(self).make(self.source())
        self.oracle = Oracle(self.names, 2, {a: a for a in ACCOUNTS})

    def source(self):
        group = GROUP if self.joined else ""
        rules = "\n".join(RULES[n] for n in sorted(self.names))
        return policy(rules, budget="t = 2", groups=group, name=f"v{self.versions}")

    @rule(account=st.sampled_from(ACCOUNTS), text=st.sampled_from(ENTRIES))
    def pull(self, account, text):
        allowed = self.oracle.allows(account, entry_of(text))
        try:
            self.case.book((account, text), delivery=Pull(leased_until=1))
        except Refused:
            assert not allowed
        else:
            assert allowed
            self.oracle.show(account, entry_of(text))

    @rule(batch=asks)
    def push_all_or_nothing(self, batch):
        before = {key: set(held) for key, held in self.oracle.seen.items()}
        showings = self.oracle.showings.copy()
        allowed = True
        for account, entries in batch:
            for text in entries:
                ok = self.oracle.allows(account, entry_of(text))
                allowed = allowed and ok
                if ok:
                    self.oracle.show(account, entry_of(text))
        try:
            self.case.book(*((a, " ".join(e)) for a, e in batch))
        except Refused:
            assert not allowed
            self.oracle.seen, self.oracle.showings = before, showings
        else:
            assert allowed

    @rule(batch=asks)
    def crash_before_commit(self, batch):
        case = self.case
        wanted = [
            Asks(case.accounts[a], [case.entries[t] for t in e]) for a, e in batch
        ]

        def cut_off():
            with case.store.write() as tx:
                lease = Pull(leased_until=1)
                book(tx, wanted, delivery=lease, at=1, cause="test", skip_refused=True)
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            cut_off()

    @rule(name=st.sampled_from(sorted(RULES)))
    def apply_another_version(self, name):
        before, names = self.versions, set(self.names)
        self.names ^= {name}
        self.versions += 1
        self.oracle.rules = self.names
        past = any(
            self.oracle.past(held, who) for who, held in self.oracle.seen.items()
        )
        try:
            self.case.apply(self.source())
        except PastLimit:
            assert past
            self.names = self.oracle.rules = names
            self.versions = before
        else:
            assert not past

    @rule()
    def join_the_group(self):
        if self.joined:
            return
        self.joined, self.versions = True, self.versions + 1
        together = self.oracle.held("x/g1") | self.oracle.held("x/g2")
        past = self.oracle.past(together, "g")
        try:
            self.case.apply(self.source())
        except PastLimit:
            assert past
            self.joined, self.versions = False, self.versions - 1
        else:
            assert not past
            self.oracle.seen["g"] = together
            del self.oracle.seen["x/g1"], self.oracle.seen["x/g2"]
            self.oracle.adversary_of |= {"x/g1": "g", "x/g2": "g"}

    @invariant()
    def summaries_follow_from_the_ledger(self):
        with self.case.store.read() as tx:
            assert compare(tx).differences == ()
            assert current_policy(tx) is not None

    def teardown(self):
        if hasattr(self, "case"):
            place = self.case.store.path.with_suffix(".evidence")
            bundle = export(self.case.store, place, clock=self.case.tick)
            verdict = verify(bundle.folder)
            assert verdict.status == 0, verdict.text


def test_safety_40_whatever_happens_the_gate_agrees_with_the_judge(fresh):
    GateMachine.make = staticmethod(fresh)
    run_state_machine_as_test(
        GateMachine,
        settings=settings(
            max_examples=15,
            stateful_step_count=15,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_the_oracle_is_not_blind():
    """The judge of these tests refuses what each rule is there to refuse."""
    for name in RULES:
        oracle = Oracle({name}, 9, {"x": "x"})
        everything = {entry_of(text) for text in ENTRIES}
        assert oracle.past(everything, "x") == name
        assert all(not oracle.past({e}, "x") for e in everything)


@pytest.mark.parametrize("span", [0, exposure_counts.SPAN])
def test_a_batch_knows_what_is_held_of_units_far_apart_and_close(
    store, monkeypatch, span
):
    monkeypatch.setattr(exposure_counts, "SPAN", span)
    case = Case(store)
    case.apply(policy(PAIR))
    case.add("x/1", "x/2")
    case.load(("r1", None, None, "ab"), ("r2", None, None, "ab"))
    case.book(("x/1", "r1.a r2.b"))
    booked = case.book(("x/1", "r1.b r2.a"), ("x/2", "r1.b r2.b"), skip=True)
    assert [refusal.rule for refusal in booked.refused] == ["a-b", "a-b"]
    assert len(booked.tasks) == 2
