"""The sets of a policy over a table of entries, against the compiled rules."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.judging.judge import judge
from policies.model.problem import Pairs, Problem
from policies.model.sets import NO_CAP
from policies.model.weights import Weights
from policies.policy import (
    Disclosure,
    Scope,
)
from policies.rules import expand as expansions
from policies.rules.asks import unsupported
from policies.rules.entry_table import EntryTable
from policies.rules.expand import LATEST, every_window, expand, widest_windows
from policies.rules.record_rules import Rule
from tests.unit.policies.rules.small_rules import (
    BY_ENTRY,
    EITHER,
    FIELDS,
    SHAPES,
    SHARES,
    STEP,
    TAUS,
    TIMES,
    TWO_OF,
    WEIGHED,
    policy,
    rule,
    table,
)


def members(expansion, one: int) -> list[int]:
    return sorted(expansion.sets.members(one).tolist())


def test_a_step_set_needs_all_its_fields():
    found = expand(policy(STEP), table((1, 0, "a", 0), (1, 0, "b", 0), (2, 0, "a", 0)))
    assert found.sets.n_sets == 1
    assert members(found, 0) == [0, 1]
    assert (found.sets.cap[0], found.sets.full[0], found.unit[0]) == (1, 2, 1)


def test_a_subject_set_is_classes_and_never_pairs():
    rows = [(r, 0, f, 0) for r in range(3) for f in ("a", "b")]
    found = expand(policy(rule(scope=Scope.SUBJECT)), table(*rows))
    assert found.sets.n_sets == 1
    assert found.sets.classes.tolist() == [True]
    assert found.sets.amount.tolist() == [0 if f == "a" else 1 for _, _, f, _ in rows]
    assert (found.sets.cap[0], found.sets.full[0]) == (1, 2)


def test_weights_are_integers_over_one_denominator():
    # 0.5, 0.3, 0.2 over 10; f < 0.7 is a sum <= 6
    found = expand(
        policy(WEIGHED), table((1, 0, "a", 0), (1, 0, "b", 0), (1, 0, "c", 0))
    )
    assert found.sets.amount.tolist() == [5, 3, 2]
    assert (found.sets.cap[0], found.sets.full[0]) == (6, 10)


def test_windows_inside_wider_ones_make_no_set():
    week = rule(scope=Scope.SUBJECT, window=7, disclosure=Disclosure(at=2))
    rows = [(r, 0, "a", t) for r, t in enumerate((0, 0, 3, 7, 8, 20))]
    found = expand(policy(week), table(*rows))
    # 0..7, 3..10 reach new entries; 7..14 and 8..15 lie inside 3..10; 20 is alone
    assert [members(found, s) for s in range(found.sets.n_sets)] == [
        [0, 1, 2, 3],
        [2, 3, 4],
    ]
    assert found.since.tolist() == [0, 3]


def test_without_a_limit_there_is_no_cap():
    found = expand(
        policy(replace(STEP, tau=None)), table((1, 0, "a", 0), (1, 0, "b", 0))
    )
    assert found.sets.cap.tolist() == [NO_CAP]


def test_weights_of_many_digits_are_kept_below_the_exact_limit():
    third = Fraction("0.333333333333333333333333333333")
    weights = {"a": third, "b": third, "c": 1 - 2 * third}
    prop = replace(
        WEIGHED, disclosure=Disclosure("linear", weights=weights), tau=2 * third
    )
    found = expand(policy(prop), table((1, 0, "a", 0), (1, 0, "b", 0), (1, 0, "c", 0)))
    load = found.sets.amount
    cap = found.sets.cap[0]
    assert load[0] <= cap < load[0] + load[1]  # a + b is exactly tau: refused


@pytest.mark.parametrize(
    ("kind", "tau", "most"),
    [("linear", "0.6666666666666666", 1), ("linear", "0.6666666666666667", 2),
     ("linear", "1", 3), ("quadratic", "0.25", 1), ("quadratic", "0.45", 2)],
)  # fmt: skip
def test_as_many_entries_of_a_third_fit_as_the_exact_limit_lets(kind, tau, most):
    """Three in sixteen digits: one alone, at 1/9, was told to reach a limit of 1/4."""
    shape = Disclosure(kind, per_entry=Fraction("0.3333333333333333"))
    prop = rule(scope=Scope.SUBJECT, disclosure=shape, tau=Fraction(tau))
    found = expand(policy(prop), table(*((r, 0, "a", 0) for r in range(5))))
    held = np.arange(5)
    fits = [n for n in range(6) if not sets_over(found, held < n)]
    assert fits == list(range(most + 1))


LONG = st.integers(1, 10**17)


@settings(max_examples=100)
@given(LONG, LONG, LONG, st.integers(1, 6), st.booleans())
def test_weights_of_many_digits_keep_what_the_exact_limit_keeps(a, b, c, many, below):
    """The limit is what some fields add up to, or lies just past that.

    Sums that no scale of 52 bits tells apart are refused together.
    """
    whole = a + b + c
    weights = {f: Fraction(n, whole) for f, n in zip(FIELDS, (a, b, c), strict=True)}
    some = [f for bit, f in enumerate(FIELDS) if many >> bit & 1]
    tau = sum((weights[f] for f in some), Fraction(not below, whole))
    shape = Disclosure("linear", weights=weights)
    prop = rule(alternatives=(FIELDS,), disclosure=shape, tau=min(tau, Fraction(1)))
    found = expand(policy(prop), table(*((1, 0, f, 0) for f in FIELDS)))
    sums = sorted({0, a, b, c, a + b, a + c, b + c, whole})
    apart = min(y - x for x, y in pairwise(sums)) * 2**50 > whole
    compiled = Rule(prop)
    for mask in range(8):
        held = np.array([mask >> bit & 1 for bit in range(3)], np.bool_)
        past = compiled.past(
            {(f, 0): 1 for f, h in zip(FIELDS, held, strict=True) if h}
        )
        over = bool(sets_over(found, held))
        assert past == over if apart else past <= over


def test_no_entries_make_no_sets():
    assert expand(policy(STEP, BY_ENTRY, EITHER), table()).sets.n_sets == 0
    assert expand(policy(), table((1, 0, "a", 0))).sets.n_sets == 0


def test_a_subject_rule_needs_a_subject():
    with pytest.raises(ValueError, match="no subject"):
        expand(policy(BY_ENTRY), table((1, -1, "a", 0)))


@pytest.mark.parametrize(
    ("fields", "lengths"), [([0, 3], (2, 2)), ([0, -1], (2, 2)), ([0, 1], (3, 2))]
)
def test_a_table_that_does_not_fit_is_refused(fields, lengths):
    with pytest.raises(ValueError, match=r"columns have|outside"):
        EntryTable(
            FIELDS,
            np.zeros(lengths[0], np.int64),
            np.zeros(lengths[1], np.int64),
            np.array(fields, np.int32),
            np.zeros(2, np.int64),
        )


def test_rules_that_cannot_be_planned_are_named_and_refused():
    link = rule("link", scope=Scope.RELATION, disclosure=Disclosure("posterior"))
    mine = rule("mine", disclosure=Disclosure("plugin", plugin="x"))
    both = policy(link, mine, STEP)
    assert [text.split(":")[0] for text in unsupported(both)] == ["link", "mine"]
    with pytest.raises(
        ValueError, match=r"mine: plugin rules are judged by their user.s function"
    ):
        expand(both, table())
    assert unsupported(policy(STEP, BY_ENTRY)) == ()


ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(FIELDS)), min_size=1, max_size=8, unique=True
)  # fmt: skip


SCOPES = st.sampled_from([Scope.RECORD, Scope.SUBJECT])


@settings(max_examples=150)
@given(
    SHAPES,
    SCOPES,
    TAUS,
    st.none() | st.integers(1, 6),
    ROWS,
    st.lists(st.tuples(st.integers(0, 1), TIMES), min_size=4, max_size=4),
    st.data(),
)
def test_both_faces_say_the_same(shape, scope, tau, window, rows, of_record, data):
    """A unit is past its limit iff one of its sets is over its cap."""
    if scope is Scope.RECORD:
        window = None
    prop = rule(scope=scope, tau=tau, window=window, **shape)
    facts = [(r, of_record[r][0], f, of_record[r][1]) for r, f in rows]
    held = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    expansion = expand(policy(prop), table(*facts))
    over = {int(expansion.unit[s]) for s in sets_over(expansion, np.array(held))}
    unit_of = 0 if scope is Scope.RECORD else 1
    compiled = Rule(prop)
    for unit in {row[unit_of] for row in facts}:
        mine = Counter(
            (f, t) for (r, s, f, t), h in zip(facts, held, strict=True)
            if h and (r, s)[unit_of] == unit
        )  # fmt: skip
        assert compiled.past(mine) == (unit in over)


@pytest.mark.parametrize(("times", "kept"), [(15, 15), (60, 46)])
def test_windows_too_many_in_each_other_are_no_sets_of_a_mean(monkeypatch, times, kept):
    """Of 15 windows all are sets; of 60 times of 15 those that lie in no other one."""
    monkeypatch.setattr(expansions, "MOST_MEMBERS", 0)
    prop = rule(
        scope=Scope.SUBJECT, tau=None, average=Fraction(1, 2), window=14,
        disclosure=Disclosure(per_entry=Fraction(1, 9), kind="linear"),
    )  # fmt: skip
    found = expand(policy(prop), table(*((t, 0, "a", t) for t in range(times))))
    assert found.sets.n_sets == kept
    assert found.widest == (frozenset({0}) if kept < times else frozenset())


def sets_over(expansion, held) -> list[int]:
    """Sets past their limit, by a loop over members."""
    sets, found = expansion.sets, []
    for one in range(sets.n_sets):
        rows = range(int(sets.start[one]), int(sets.start[one + 1]))
        amounts = [int(sets.amount[r]) for r in rows if held[sets.entry[r]]]
        load = len(set(amounts)) if sets.classes[one] else sum(amounts)
        if load > sets.cap[one]:
            found.append(one)
    return found


@settings(max_examples=100)
@given(
    SHAPES,
    SCOPES,
    st.none() | st.integers(1, 6),
    ROWS,
    st.lists(st.tuples(st.integers(0, 1), TIMES), min_size=4, max_size=4),
    st.data(),
)
def test_means_over_sets_are_those_of_the_units(
    shape, scope, window, rows, of_record, data
):
    """Where means are capped, also windows inside wider ones are sets."""
    if scope is Scope.RECORD:
        window = None
    prop = rule(scope=scope, tau=None, average=Fraction(1, 2), window=window, **shape)
    facts = [(r, of_record[r][0], f, of_record[r][1]) for r, f in rows]
    held = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    problem = a_problem(expand(policy(prop), table(*facts)).sets)
    plan = Pairs.of((d, 0) for d, h in enumerate(held) if h)
    sums, count = Fraction(0), 0
    for unit in {(r, s)[scope is Scope.SUBJECT] for r, s, _, _ in facts}:
        mine, known = (
            Counter(
                (f, t) for (r, s, f, t), h in zip(facts, held, strict=True)
                if (h or every) and (r, s)[scope is Scope.SUBJECT] == unit
            )
            for every in (False, True)
        )  # fmt: skip
        some, many = Rule(prop).total(mine, known)
        sums, count = sums + some, count + many
    assert judge(problem, plan).f_average == (sums / count if count else 0)


def a_problem(sets) -> Problem:
    """Everything may be shown to one adversary."""
    n = sets.n_entries
    none = np.zeros(n, np.int64)
    return Problem(sets, none, none + 1, Weights.flat(n, 1))


@settings(max_examples=100)
@given(SHAPES, SCOPES, ROWS)
def test_every_set_of_the_array_face_could_be_disclosed(shape, scope, rows):
    """With all entries held, a set has a load above 0 and a step set is full."""
    found = expand(
        policy(rule(scope=scope, **shape)), table(*[(r, 0, f, 0) for r, f in rows])
    )
    everything = np.ones(len(rows), bool)
    if "disclosure" not in shape or shape["disclosure"].kind == "step":
        assert sets_over(found, everything) == list(range(found.sets.n_sets))
    assert (np.diff(found.sets.start) > 0).all()


def test_the_mean_counts_only_sets_that_could_disclose_something():
    known = {("a", 0): 1, ("b", 0): 1}
    assert Rule(STEP).total({("a", 0): 1}, known) == (0, 1)
    assert Rule(STEP).total(known, known) == (1, 1)
    assert Rule(STEP).total({("a", 0): 1}, {("a", 0): 1}) == (0, 0)  # no set
    assert Rule(EITHER).total(known, {**known, ("c", 0): 1}) == (1, 2)
    assert Rule(TWO_OF).total({}, {("a", 0): 1}) == (0, 0)  # never two
    assert Rule(SHARES).total({("a", 0): 1}, known) == (Fraction(1, 9), 1)


def test_each_different_time_makes_a_set_for_the_mean():
    week = Rule(
        rule(
            scope=Scope.SUBJECT,
            window=5,
            disclosure=Disclosure("linear", per_entry=Fraction(1, 4)),
        )
    )
    known = {("a", 0): 1, ("b", 3): 1, ("a", 9): 2, ("c", 4): 1}
    # sets from 0 (a, b), 3 (b), 9 (a, a); held: b -> 1/4 + 1/4 + 0
    assert week.total({("b", 3): 1}, known) == (Fraction(1, 2), 3)


def test_each_alternative_is_a_set_from_each_time_of_the_rule():
    either = rule(
        scope=Scope.SUBJECT,
        window=9,
        alternatives=(("a", "b"), ("c",)),
        uses_any_of=True,
    )
    known = {("c", 0): 1, ("a", 1): 1, ("b", 2): 1}
    # from 0: both alternatives; from 1: a and b; from 2: nothing complete
    assert Rule(either).total({("a", 1): 1, ("b", 2): 1}, known) == (2, 3)


STARTS = st.lists(st.tuples(st.integers(3, 5), st.integers(-4, 9)), max_size=9)


def columns(rows):
    return tuple(np.array([r[i] for r in rows], np.int64) for i in (0, 1))


@given(STARTS, STARTS, st.integers(1, 6))
def test_each_start_begins_a_window_of_its_own_unit(rows, more, window):
    rows = sorted(rows)
    found = every_window(*columns(rows), window, columns(rows + more))
    told = [
        (unit, since, rows[first:last])
        for first, last, unit, since in zip(*(c.tolist() for c in found), strict=True)
    ]
    assert told == [
        (u, x, [(v, t) for v, t in rows if v == u and x <= t <= x + window])
        for u, x in sorted({*rows, *more})
    ]


@given(STARTS, st.integers(1, 6))
def test_each_window_lies_within_a_widest_one(rows, window):
    rows = sorted(rows)
    first, last = widest_windows(*columns(rows), window)
    kept = [range(a, b) for a, b in zip(first.tolist(), last.tolist(), strict=True)]
    first, last, _, _ = every_window(*columns(rows), window, columns(rows))
    for a, b in zip(first.tolist(), last.tolist(), strict=True):
        assert any(a in one and b - 1 in one for one in kept)


def test_a_window_ends_with_time_itself():
    rows = [(1, LATEST - 2), (1, LATEST)]
    assert [c.tolist() for c in widest_windows(*columns(rows), 9)] == [[0], [2]]
    ends = every_window(*columns(rows), 9, columns(rows))[1]
    assert ends.tolist() == [2, 2]
