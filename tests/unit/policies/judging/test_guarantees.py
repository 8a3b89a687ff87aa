"""Certificates by their names, on raw sets, against all assignments and all games.

Raw sets: what one entry tells of another (an equal value, say) belongs to the sets. The
raw sets of a family are the smallest hands of entries from which one of it is known.
Counting on the declared sets instead would certify what cannot be.
"""

from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from math import comb, e, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.document.reader import parse
from policies.judging.certificates import certify, safe_number
from policies.judging.chances import Draw, derandomized_plan
from policies.judging.judge import judge
from policies.model.coalitions import Coalitions
from policies.model.problem import Pairs, Problem
from policies.model.weights import Weights
from policies.rules.asks import EntryFacts, compile_rules, judge_ask
from policies.rules.entry_table import EntryTable
from policies.rules.expand import expand
from tests.unit.policies.solvers.test_antichains import FULL, classes_of
from tests.unit.policies.tiny import Tiny, pairs_of, step


def raw(family, shows, n):
    """Smallest X with S known from X for some S; ``shows[d]`` is known from d alone."""
    known = [
        (frozenset(x), frozenset(x).union(*(shows.get(d, ()) for d in x)))
        for size in range(n + 1)
        for x in combinations(range(n), size)
    ]
    found = []
    for x, closure in known:
        if any(s <= closure for s in family) and not any(y <= x for y in found):
            found.append(x)
    return found


def made(n, k, family, copies=1, m=1, **rest):
    """A problem of exactly so many copies of everything, sealed from any m together."""
    lo = copies if isinstance(copies, list) else [copies] * n
    tiny = Tiny(n, k, [step(*sorted(s)) for s in family], lo=lo, hi=lo, **rest)
    return replace(tiny.problem(), coalitions=Coalitions(any_m=m))


def sealed(plan, k, family, m=1, history=()):
    """Whether no m adversaries get to hold a set that the plan adds to, by the words."""
    for who in combinations(range(k), m):
        new = {d for d, a in plan if a in who}
        held = new | {d for d, a in history if a in who}
        if any(s <= held and s & new for s in map(set, family)):
            return False
    return True


def possible(n, k, family, copies=1, m=1, history=(), barred=()):
    """Whether some assignment is sealed, by trying all of them."""
    lo = copies if isinstance(copies, list) else [copies] * n
    ways = [
        [
            [(d, a) for a in who]
            for who in combinations(range(k), lo[d])
            if not any((d, a) in barred for a in who)
        ]
        for d in range(n)
    ]
    return any(
        sealed([pair for given in way for pair in given], k, family, m, history)
        for way in product(*ways)
    )


def total(problem):
    return sum(Draw.of(problem).chances(), Fraction(0))


@pytest.mark.parametrize("n", range(2, 6 if FULL else 5))
def test_no_certificate_is_wrong_on_any_family(n):
    """C1t,m, C1'', C2t: all antichains on up to 4 entries (5: full), k, t, m by force."""
    proven = wrong = 0
    for masks in classes_of(n):
        family = [{d for d in range(n) if mask >> d & 1} for mask in masks]
        for k, t, m in product((2, 3, 4), (1, 2, 3), (1, 2)):
            if t > k or m > k:
                continue
            problem = made(n, k, family, t, m)
            if certify(problem) is not None:
                proven += 1
                wrong += not possible(n, k, family, t, m)
    assert proven > 10
    assert wrong == 0


class TestC1tm:
    """C1t,m: chance <= C(k,m) (1 - C(k-m,t) / C(k,t))^s."""

    @pytest.mark.parametrize(
        ("k", "t", "m", "s"), list(product((4, 5, 6), (1, 2), (1, 2, 3), (4, 7)))
    )
    def test_the_chance_is_the_formula(self, k, t, m, s):
        """One set of s entries, exactly t copies, any m together."""
        problem = made(s, k, [range(s)], t, m)
        seen = 1 - Fraction(comb(k - m, t), comb(k, t))
        assert Draw.of(problem).chances() == (min(Fraction(1), comb(k, m) * seen**s),)

    def test_mixed_copies_multiply(self):
        """1, 2 and 3 copies of 5 adversaries: 5 * 1/5 * 2/5 * 3/5."""
        problem = made(3, 5, [{0, 1, 2}], [1, 2, 3])
        assert Draw.of(problem).chances() == (Fraction(6, 25),)

    def test_it_certifies_what_two_who_pool_do_not_complete(self):
        """Ten sets of seven of 70, k = 6, m = 2: each 15 / 3^7, and none meet."""
        problem = made(70, 6, [range(7 * i, 7 * i + 7) for i in range(10)], m=2)
        proof = certify(problem)
        assert set(proof.chance) == {Fraction(15, 3**7)}

    def test_two_copies_of_a_pair_among_three_are_not_certified(self):
        """e * 1/3 * 1 <= 1 would do for one copy; with two there is no plan."""
        assert certify(made(2, 3, [{0, 1}], 2)) is None
        assert not possible(2, 3, [{0, 1}], 2)

    def test_no_set_of_m_entries_is_certified_against_m(self):
        """Whoever holds each of them, together they hold all."""
        assert certify(made(2, 9, [{0, 1}], m=2)) is None

    @given(st.data())
    @settings(max_examples=60)
    def test_declared_groups_count_as_one_hand(self, data):
        """Any groups: a certificate means that some assignment is sealed from them."""
        n, k = 4, data.draw(st.integers(2, 4))
        masks = data.draw(st.lists(st.integers(3, 15), min_size=1, max_size=3))
        family = [{d for d in range(n) if mask >> d & 1} for mask in masks]
        who = st.lists(st.integers(0, k - 1), min_size=2, max_size=3, unique=True)
        groups = data.draw(st.lists(who, min_size=1, max_size=2))
        problem = replace(
            made(n, k, family), coalitions=Coalitions(tuple(map(tuple, groups)))
        )
        if certify(problem) is None:
            return
        plans = product(range(k), repeat=n)
        assert any(judge(problem, Pairs.of(enumerate(plan))).feasible for plan in plans)


class TestC1Cluster:
    """C1'': Pr_S <= mu_S / (mu_S + prod over d in S of (1 + mu of its neighbours at d))."""

    @given(st.lists(st.sets(st.integers(0, 11), min_size=3, max_size=5), max_size=8))
    @settings(max_examples=60)
    def test_the_witness_is_one_in_exact_rationals(self, family):
        """Checked from the words; a neighbour counts where it first meets the set."""
        k = 5
        proof = certify(made(12, k, family))
        if proof is None or proof.witness is None:
            return
        for i, (s, mu) in enumerate(zip(family, proof.witness, strict=True)):
            assert proof.chance[i] == Fraction(1, k ** (len(s) - 1))
            at = dict.fromkeys(s, Fraction(0))
            for j, other in enumerate(family):
                if j != i and s & other:
                    at[min(s & other)] += proof.witness[j]
            around = prod((1 + x for x in at.values()), start=Fraction(1))
            assert proof.chance[i] <= mu / (mu + around)

    @given(st.lists(st.sets(st.integers(0, 20), min_size=3, max_size=4), max_size=9))
    @settings(max_examples=60)
    def test_it_certifies_all_that_c1_does(self, family):
        """C1: e p (1 + sum over d in S of (deg d - 1)) <= 1, its linear-time reading."""
        k = 7
        degree = [sum(d in s for s in family) for d in range(21)]
        near = [sum(degree[d] - 1 for d in s) for s in family]
        chance = max((k ** (1.0 - len(s)) for s in family), default=0.0)
        if e * chance * (1 + max(near, default=0)) <= 0.99:
            assert certify(made(21, k, family)) is not None

    def test_a_long_chain_that_expectation_alone_does_not_certify(self):
        """1,000 triples, each meeting two others, k = 4: 1,000/16 expected, none needed."""
        family = [{2 * i, 2 * i + 1, 2 * i + 2} for i in range(1000)]
        problem = made(2001, 4, family)
        assert total(problem) == Fraction(1000, 16)
        assert derandomized_plan(problem) is None
        assert certify(problem).witness is not None


@st.composite
def begun(draw):
    """Raw sets, history of any sort (breaches too), barred pairs, copies."""
    n, k = draw(st.integers(2, 4)), draw(st.integers(2, 5))
    mask = st.integers(3, (1 << n) - 1)
    masks = draw(st.lists(mask, min_size=1, max_size=3))
    family = [{d for d in range(n) if x >> d & 1} for x in masks]
    one = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    told = draw(st.lists(one, max_size=2))
    shows = {}
    for d, x in told:
        shows.setdefault(d, set()).add(x)
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, k - 1))
    history = draw(st.lists(pair, max_size=3, unique=True))
    barred = draw(st.lists(pair, max_size=2, unique=True))
    copies = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    return n, k, raw(family, shows, n), copies, history, barred


class TestC1h:
    """C1h: history is held for sure; who may not get an entry gets it with chance 0."""

    @given(begun())
    @settings(max_examples=200)
    def test_it_is_never_wrong(self, case):
        """A certificate means that some assignment is sealed, breaches included."""
        n, k, family, copies, history, barred = case
        problem = made(n, k, family, copies, history=history, forbidden=barred)
        if certify(problem) is not None:
            assert possible(n, k, family, copies, 1, history, barred)

    def test_chances_add_up_over_adversaries(self):
        """Two of four hold one of the pair: entry 1 meets it with 1/4 for each."""
        problem = made(2, 4, [{0, 1}], [0, 1], history=[(0, 0), (0, 1)])
        assert Draw.of(problem).chances() == (Fraction(2, 4),)
        assert certify(problem) is not None

    def test_a_set_that_history_holds_is_no_certificate_of_the_strict_kind(self):
        """The empty rest counts 1 where a breach of the past counts at all."""
        problem = made(3, 4, [{0, 1}], [0, 0, 1], history=[(0, 0), (1, 0)])
        assert certify(problem) is not None  # nothing is added to it
        assert certify(replace(problem, strict_history=True)) is None

    def test_a_breached_set_takes_no_further_entry_into_account_but_its_own(self):
        """Any two of three are held by 0; the third goes to it with chance 1/2."""
        sets = [{0, 1}, {0, 2}, {1, 2}]
        problem = made(3, 2, sets, [0, 0, 1], history=[(0, 0), (1, 0)])
        assert Draw.of(problem).chances() == (0, Fraction(1, 2), Fraction(1, 2))


class TestC2t:
    """C2t: sum of k (t/k)^|S| < 1, and a sealed plan without any search."""

    @given(
        st.lists(st.sets(st.integers(0, 7), min_size=2, max_size=6), max_size=6),
        st.integers(2, 5),
        st.integers(1, 2),
        st.integers(1, 2),
    )
    @settings(max_examples=80)
    def test_there_is_a_plan_exactly_where_less_than_one_is_expected(
        self, family, k, t, m
    ):
        """And it is sealed, with t copies of everything, from any m together."""
        m = min(m, k)
        problem = made(8, k, family, t, m)
        if m == 1:
            exact = [min(Fraction(1), k * Fraction(t, k) ** len(s)) for s in family]
            assert total(problem) == sum(exact)
        plan = derandomized_plan(problem)
        assert (plan is not None) == (total(problem) < 1)
        if plan is not None:
            assert certify(problem) is not None
            pairs = pairs_of(plan)
            assert all(sum(d == x for x, _ in pairs) == t for d in range(8))
            assert sealed(pairs, k, family, m)

    def test_the_printed_condition_is_not_enough_for_two_copies(self):
        """k^(1-|S|) = 1/3 < 1 with t = 2, k = 3: no plan; 3 (2/3)^2 = 4/3 says nothing."""
        problem = made(2, 3, [{0, 1}], 2)
        assert Fraction(1, 3) < 1 <= total(problem)
        assert derandomized_plan(problem) is None
        assert not possible(2, 3, [{0, 1}], 2)

    def test_the_expectation_never_rises(self):
        """Three sets of four, 4 adversaries, 2 copies: 3/4, entry by entry down to 0."""
        family = [{0, 1, 2, 3}, {2, 3, 4, 5}, {0, 5, 6, 7}]
        problem = made(8, 4, family, 2)  # 4 (1/2)^4 each
        draw, pairs = Draw.of(problem), pairs_of(derandomized_plan(problem))
        course = [sum(draw.chances(), Fraction(0))]
        for entry in range(8):
            for a in sorted(a for d, a in pairs if d == entry):
                draw.give(entry, a)
            course.append(sum(draw.chances(), Fraction(0)))
        assert course[0] == Fraction(3, 4)
        assert course == sorted(course, reverse=True)
        assert course[-1] == 0


class TestC2h:
    """C2h: the same potential over what is held now."""

    @given(begun(), st.randoms(use_true_random=False))
    @settings(max_examples=150)
    def test_the_rest_is_finished_sealed_in_any_order(self, case, random):
        """Entries renamed at random: they are then given in another order."""
        n, k, family, copies, history, barred = case
        to = list(range(n))
        random.shuffle(to)
        family = [{to[d] for d in s} for s in family]
        history, barred = ([(to[d], a) for d, a in x] for x in (history, barred))
        copies = [copies[to.index(d)] for d in range(n)]
        problem = made(n, k, family, copies, history=history, forbidden=barred)
        if Draw.of(problem) is None:
            assert derandomized_plan(problem) is None
            return
        plan = derandomized_plan(problem)
        assert (plan is not None) == (total(problem) < 1)
        if plan is not None:
            assert sealed(pairs_of(plan), k, family, 1, history)
            assert not pairs_of(plan) & set(barred)

    def test_of_three_the_two_who_hold_a_half_are_left_out(self):
        """A pair, half of it with 0 and 1: expected 2/3, and 2 gets the other half."""
        problem = made(2, 3, [{0, 1}], [0, 1], history=[(0, 0), (0, 1)])
        assert total(problem) == Fraction(2, 3)
        assert pairs_of(derandomized_plan(problem)) == {(1, 2)}


@st.composite
def rules_of_a_record(draw):
    """A policy on the fields a, b and c, its smallest sets or None, showings of each."""
    names = st.sets(st.sampled_from("abc"), min_size=2, max_size=3)
    kinds = {
        "step": "",
        "two": 'disclosure = { kind = "step", at = 2 }',
        "sum": 'disclosure = "linear"\ntau = 0.6',
    }
    kind = draw(st.sampled_from(["step"] * 3 + ["two", "sum"]))
    rules = sorted(map(sorted, draw(st.sets(names.map(frozenset), min_size=1))))
    blocks = [
        f"[property.p{i}]\nof = {list(of)}\n{kinds[kind]}".replace("'", '"')
        for i, of in enumerate(rules)
    ]
    fields = "\n".join(f'{f} = {{ ask = "transcribe" }}' for f in "abc")
    source = (
        'version = 1\nname = "case"\n[entity.thing]\nkey = "id"\n'
        f"[entity.thing.fields]\n{fields}\n" + "\n".join(blocks)
    )
    family = [frozenset("abc".index(f) for f in of) for of in rules]
    family = [s for s in family if not any(t < s for t in family)]
    exposures = draw(st.lists(st.integers(0, 2), min_size=3, max_size=3))
    return source, family if kind == "step" else None, exposures


class TestKSafe:
    """K_safe: with so many active adversaries no order of asks ends stuck."""

    @staticmethod
    def stuck(n, k, family, exposures, history):
        """Whether some order ends with an entry open that nobody may get."""

        def may(d, hand):
            return d not in hand and not any(d in s and s <= hand | {d} for s in family)

        return TestKSafe.ends_stuck(n, k, may, exposures, history)

    @staticmethod
    def ends_stuck(n, k, may, exposures, history=()):
        """The same, by who may be shown what: ``may(d, hand)``."""
        never = {d for d in range(n) if not may(d, frozenset())}

        @cache
        def ends(hands, left):
            for d in range(n):
                if not left[d] or d in never:
                    continue
                able = {h for h in hands if may(d, h)}
                if not able:
                    return True
                less = (*left[:d], left[d] - 1, *left[d + 1 :])
                for hand in able:
                    after = list(hands)
                    after.remove(hand)
                    after.append(hand | {d})
                    if ends(tuple(sorted(after, key=sorted)), less):
                        return True
            return False

        start = [frozenset(d for d, b in history if b == a) for a in range(k)]
        return ends(tuple(sorted(start, key=sorted)), tuple(exposures))

    @given(begun(), st.lists(st.integers(0, 2), min_size=4, max_size=4))
    @settings(max_examples=60)
    def test_it_is_never_wrong_on_raw_sets(self, case, exposures):
        """All orders and choices, after any history, breached or not."""
        n, _, family, _, history, _ = case
        n, history = min(n, 3), [(d, a % 2) for d, a in history if d < 3]
        family = [s for s in family if all(d < n for d in s)]
        left = exposures[:n]
        base = made(n, 2, family, 0, history=history)
        number = safe_number(base, np.array(left, np.int64))
        if 2 <= number <= 6:
            assert not self.stuck(n, number, family, left, history)

    def test_declared_sets_would_say_too_few(self):
        """S = {0, 1}, entry 2 has the value of 1, one showing each, two workers."""
        family = raw([{0, 1}], {2: {1}, 1: {2}}, 3)
        assert sorted(map(sorted, family)) == [[0, 1], [0, 2]]
        left = np.ones(3, np.int64)
        assert safe_number(made(3, 2, [{0, 1}], 0), left) == 2
        assert self.stuck(3, 2, family, [1, 1, 1], [])
        assert safe_number(made(3, 2, family, 0), left) == 3
        assert not self.stuck(3, 3, family, [1, 1, 1], [])

    @pytest.mark.parametrize("n", range(2, 4))
    def test_it_is_tight_without_history_for_pairs(self, n):
        """A star of pairs, t showings of each: K = t (1 + n - 1); one fewer deadlocks."""
        family = [{0, d} for d in range(1, n)]
        left = [1] * n
        number = safe_number(made(n, 1, family, 0), np.array(left, np.int64))
        assert number == n
        assert self.stuck(n, n - 1, family, left, [])

    @staticmethod
    def exact(n, family, exposures):
        """K without history: 1 + max over d of T_d - 1 + nu(the rest of d's sets)."""
        most = 0
        for d in range(n):
            links = [s - {d} for s in family if d in s]
            taken = product(*(range(min(exposures[e] for e in s) + 1) for s in links))
            nu = max(
                sum(x)
                for x in taken
                if all(
                    sum(c for c, s in zip(x, links, strict=True) if e in s) <= t
                    for e, t in enumerate(exposures)
                )
            )
            if exposures[d] and {d} not in family:
                most = max(most, exposures[d] + nu)
        return most

    @given(rules_of_a_record())
    @settings(max_examples=40)
    def test_the_gate_itself_never_ends_stuck(self, case):
        """Every order of showings that the gate allows, of one record, ends whole.

        Without weights K is exact in its tightest form: one worker fewer, and some order
        ends with a field that the gate refuses to everybody.
        """
        source, family, exposures = case
        made = parse(source.encode(), "case.toml").policy
        rules, names = compile_rules(made), "abc"
        table = EntryTable(
            tuple(names), *np.zeros((2, 3), np.int64), np.arange(3, dtype=np.int32),
            np.zeros(3, np.int64),
        )  # fmt: skip
        sets = expand(made, table).sets
        zeros = np.zeros(3, np.int64)
        problem = Problem(sets, zeros, zeros, Weights.flat(3, 1))
        number = safe_number(problem, np.array(exposures, np.int64))

        @cache
        def may(d, hand):
            held = {(names[e], 0): 1 for e in hand}
            found = judge_ask(rules, EntryFacts("r", names[d]), held, {})
            return d not in hand and not any(one.refused for one in found)

        if 1 <= number <= 6:
            assert not self.ends_stuck(3, number, may, exposures)
        if family is not None:
            least = self.exact(3, family, exposures)
            assert least <= number
            if 2 <= least <= 6:
                assert not self.ends_stuck(3, least, may, exposures)
                assert self.ends_stuck(3, least - 1, may, exposures)


def test_raw_sets_with_a_single_entry_are_never_certified():
    """Entry 1 shows entry 0: whoever gets it completes {0, 1} alone."""
    family = raw([{0, 1}], {1: {0}}, 2)
    assert family == [{1}]
    assert certify(made(2, 9, family)) is None
