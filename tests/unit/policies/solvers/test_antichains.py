"""Every antichain on few entries: verdicts, values, bounds and certificates, by trying all.

The short form takes each class on up to four entries once and every second one on five,
with copies and workers by seed, and some random ones on six and seven.
``make laws`` (``SPARSI_LAWS=full``) takes every class with all workers and copies, and
10,000 random ones: half an hour on one busy core.
"""

import os
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.judging.certificates import certify
from policies.judging.judge import judge
from policies.model.problem import Pairs
from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.auto import Auto
from policies.solvers.interfaces import Cause
from tests.unit.policies.tiny import Tiny, pairs_of, step, tinies

FULL = os.environ.get("SPARSI_LAWS") == "full"
WAYS = ((1, 1), (2, 1), (2, 2), (3, 1), (3, 2))  # workers, copies
RANDOM = 10_000 if FULL else 30


def antichains(n):
    """All families of sets of n entries none of which holds another, as bit masks."""

    def grown(family, rest):
        yield family
        for i, mask in enumerate(rest):
            after = [m for m in rest[i + 1 :] if m & mask not in (m, mask)]
            yield from grown((*family, mask), after)

    return list(grown((), list(range(1, 1 << n))))


def classes_of(n):
    """One antichain of each class up to the names of the entries."""
    names = [
        [sum(1 << p[d] for d in range(n) if mask >> d & 1) for mask in range(1 << n)]
        for p in permutations(range(n))
    ]
    seen, out = set(), []
    for family in antichains(n):
        if frozenset(family) not in seen:
            out.append(family)
            seen |= {frozenset(to[mask] for mask in family) for to in names}
    return out


def test_there_are_as_many_classes_as_are_known():
    """Monotone functions up to isomorphism, the constant true left out (OEIS A003182)."""
    assert [len(classes_of(n)) for n in range(6)] == [1, 2, 4, 9, 29, 209]


def drawn(n, k, t, family, rng):
    """The problem of a family: one copy or up to t, weights 0 to 4."""
    sets = [step(*(d for d in range(n) if mask >> d & 1)) for mask in family]
    weights = rng.integers(0, 5, (n, k)).tolist()
    return Tiny(n, k, sets, lo=[1] * n, hi=[t] * n, weights=weights)


def best_value(tiny, family, t):
    """Highest u of a sealed plan, by all assignments; None if there is none."""
    n, k = tiny.n, tiny.k
    bad = [any(m & mask == m for m in family) for mask in range(1 << n)]
    ways = [c for size in range(1, t + 1) for c in combinations(range(k), size)]
    reached = {(0,) * k: 0}
    for d in range(n):
        after = {}
        for hands, worth in reached.items():
            for way in ways:
                new = tuple(h | (1 << d) * (a in way) for a, h in enumerate(hands))
                if not any(bad[h] for h in new):
                    value = worth + sum(tiny.weights[d][a] for a in way)
                    after[new] = max(after.get(new, -1), value)
        reached = after
    return max(reached.values(), default=None)


def check(n, k, t, family, seed):
    """Verdict, value, bound and certificate against all assignments."""
    tiny = drawn(n, k, min(t, k), family, np.random.default_rng([seed, n, k, t]))
    best = best_value(tiny, family, min(t, k))
    built = bool(seed // 2 % 2)  # as the daemon does: not searched for the best
    limits = Limits(work=5.0, exact_size=1) if built else Limits(work=5.0)
    found = SOLVERS["auto"](tiny.problem(), np.random.default_rng(seed), limits)
    if best is None:
        assert found.verdict is Verdict.INFEASIBLE, family
        assert certify(tiny.problem()) is None
        check_core(tiny, family, min(t, k), found)
    else:
        assert found.verdict is Verdict.SOLVED, family
        assert tiny.feasible(pairs_of(found.plan))
        assert found.value == best or (built and found.value < best)
        assert best <= found.bound
    copied = replace(tiny, lo=[min(t, k)] * n)  # certificates are for exactly t copies
    if certify(copied.problem()) is not None:
        assert best_value(tiny, family, min(t, k)) is not None
        assert copied.best() is not None
    return best


def check_core(tiny, family, t, found):
    """The witness of INFEASIBLE, again by all assignments.

    The sets of the first clash leave no plan for its entries; so many adversaries as are
    needed do, and one fewer do not where that is said.
    """
    core = found.core
    clash, k = core.clashes[0], tiny.k
    told = [family[s] for s in clash.sets]
    assert told or clash.cause is Cause.COPIES
    assert best_value(tiny, told, t) is None
    if found.cores == (core,) and clash.cause is Cause.SEARCH:  # and none can be spared
        for one in range(len(told)):
            rest = told[:one] + told[one + 1 :]
            assert best_value(tiny, rest, t) is not None
    if core.needed is None:  # some entry alone is a set: nobody may ever get it
        assert any(mask & (mask - 1) == 0 for mask in told)
        return
    assert core.needed > k
    part = [m for m in family if all(d in core.entries for d in bits(m))]
    assert best_value(widened(tiny, core.needed), part, t) is not None
    if core.exact:
        assert best_value(widened(tiny, core.needed - 1), part, t) is None


def bits(mask):
    return [d for d in range(mask.bit_length()) if mask >> d & 1]


def widened(tiny, k):
    return Tiny(tiny.n, k, weights=[[1] * k for _ in range(tiny.n)])


@pytest.mark.parametrize("n", range(6))
def test_every_class_is_decided_as_by_trying_all(n):
    """Each is solved or refuted, and no plan is better."""
    for seed, family in enumerate(classes_of(n)):
        if n == 5 and seed % 2 and not FULL:
            continue
        for k, t in WAYS if FULL else (WAYS[(seed // 2 + n) % len(WAYS)],):
            check(n, k, t, family, seed)


def random_family(n, rng):
    """An antichain: random sets, those that hold another left out."""
    drawn_ = {int(rng.integers(1, 1 << n)) for _ in range(int(rng.integers(1, 9)))}
    return tuple(
        m for m in sorted(drawn_) if not any(o != m and o & m == o for o in drawn_)
    )


def test_random_families_on_six_and_seven_entries_too():
    """By seed; up to eight sets."""
    for seed in range(RANDOM):
        rng = np.random.default_rng([7, seed])
        n = 6 + seed % 2
        k, t = WAYS[int(rng.integers(len(WAYS)))]
        check(n, k, t, random_family(n, rng), seed)


def test_other_names_change_nothing():
    """Entries and workers renamed: the same verdict and value."""
    for seed in range(20):
        rng = np.random.default_rng([8, seed])
        n, k, family = 5, 3, random_family(5, rng)
        to, who = rng.permutation(n), rng.permutation(k)
        other = tuple(
            sum(1 << int(to[d]) for d in range(n) if m >> d & 1) for m in family
        )
        one = drawn(n, k, 2, family, np.random.default_rng(seed))
        two = drawn(n, k, 2, other, np.random.default_rng(seed))
        two.weights = np.zeros((n, k), np.int64)
        two.weights[np.ix_(to, who)] = one.weights
        two.weights = two.weights.tolist()
        found = [
            SOLVERS["auto"](x.problem(), np.random.default_rng(0), Limits(work=5.0))
            for x in (one, two)
        ]
        assert found[0].verdict is found[1].verdict
        if found[0].verdict is SOLVED:  # else a part of a plan: which one is open
            assert found[0].value == found[1].value


@given(tinies(), st.data())
@settings(max_examples=60)
def test_history_never_lowers_disclosure(tiny, data):
    """Step, classes, linear, quadratic: no f falls, and no plan becomes worth more.

    A cosine can fall, which is why the gate judges it before and after (design).
    """
    if not tiny.n:
        return
    pairs = st.tuples(st.integers(0, tiny.n - 1), st.integers(0, tiny.k - 1))
    plan = Pairs.of(data.draw(st.lists(pairs, max_size=6)))
    seen = data.draw(st.lists(pairs, max_size=3))
    more = replace(tiny, history=sorted({*tiny.history, *seen}))
    before, after = (judge(x.problem(), plan) for x in (tiny, more))
    both = zip(before.by_property, after.by_property, strict=True)
    assert all(x <= y for x, y in both)
    assert before.f <= after.f
    assert before.f_average <= after.f_average
    assert before.complete <= after.complete
    assert before.objective >= after.objective
    if after.feasible:
        assert before.feasible or before.past


def test_history_takes_no_plan_for_a_better_one():
    """What was seen before is added: no f falls, no plan gets better."""
    for seed in range(30):
        rng = np.random.default_rng([9, seed])
        family = random_family(5, rng)
        tiny = drawn(5, 2, 1, family, rng)
        plan = Pairs.of((d, int(rng.integers(2))) for d in range(5))
        seen = [(int(rng.integers(5)), int(rng.integers(2))) for _ in range(2)]
        before = judge(tiny.problem(), plan)
        after = judge(replace(tiny, history=sorted(set(seen))).problem(), plan)
        pairs = zip(before.by_property, after.by_property, strict=True)
        assert all(x <= y for x, y in pairs)
        assert before.complete <= after.complete


# -- facts of mathematics ---------------------------------------------------------


def verdict(n, k, sets):
    """What ``auto`` says of sets of which nobody may hold all."""
    tiny = Tiny(n, k, [step(*sorted(s)) for s in sets])
    limits = Limits(work=60.0)
    return SOLVERS["auto"](tiny.problem(), np.random.default_rng(0), limits).verdict


SOLVED, INFEASIBLE = Verdict.SOLVED, Verdict.INFEASIBLE


@pytest.mark.parametrize(("k", "says"), [(2, INFEASIBLE), (3, SOLVED)])
def test_the_fano_plane_has_no_split_in_two(k, says):
    """Seven points, seven lines of three."""
    lines = [{d, (d + 1) % 7, (d + 3) % 7} for d in range(7)]
    assert verdict(7, k, lines) is says


@pytest.mark.parametrize(
    ("n", "k", "length", "says"),
    [
        (8, 2, 3, SOLVED),
        (9, 2, 3, INFEASIBLE),
        (34, 2, 4, SOLVED),
        *([(35, 2, 4, INFEASIBLE)] if FULL else []),  # its core takes long
        (26, 3, 3, SOLVED),
    ],
)
def test_van_der_waerden_numbers(n, k, length, says):
    """W(3; 2) = 9, W(4; 2) = 35, W(3; 3) = 27: arithmetic progressions."""
    runs = [
        range(start, start + step_ * length, step_)
        for step_ in range(1, n)
        for start in range(n - step_ * (length - 1))
    ]
    assert verdict(n, k, [set(run) for run in runs]) is says


@pytest.mark.parametrize(
    ("n", "k", "says"),
    [(4, 2, SOLVED), (5, 2, INFEASIBLE), (13, 3, SOLVED), (14, 3, INFEASIBLE)],
)
def test_schur_numbers(n, k, says):
    """S(2) = 4, S(3) = 13: nobody holds x, y and x + y."""
    sums = {
        frozenset((x - 1, y - 1, x + y - 1))
        for x, y in product(range(1, n + 1), repeat=2)
        if x + y <= n
    }
    assert verdict(n, k, sums) is says


def test_44_numbers_in_four_sum_free_classes_have_a_plan_whatever_they_are_worth():
    """Only 273 colourings exist. With weights the engine sees no symmetry."""
    sums = {
        frozenset((x - 1, y - 1, x + y - 1))
        for x, y in product(range(1, 45), repeat=2)
        if x + y <= 44
    }
    weights = np.random.default_rng(1).integers(1, 100, (44, 4)).tolist()
    tiny = Tiny(
        44, 4, [step(*one) for one in sorted(map(sorted, sums))], weights=weights
    )
    auto = Auto(off=frozenset({"greedyl", "annealed", "prices", "highs"}))
    found = auto(tiny.problem(), np.random.default_rng(0), Limits(work=0.5))
    assert found.verdict is SOLVED


def test_the_bound_of_an_infeasible_problem_is_still_one():
    """A triangle and two workers: no plan, and at most 3."""
    tiny = Tiny(3, 2, [step(0, 1), step(1, 2), step(0, 2)])
    found = SOLVERS["auto"](tiny.problem(), np.random.default_rng(0), Limits())
    assert found.verdict is INFEASIBLE
    assert found.bound == Fraction(3)
