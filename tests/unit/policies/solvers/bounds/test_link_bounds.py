"""Cosines in tradeoffs and below limits: bounds against all plans there are."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.judging.judge import judge
from policies.model.coalitions import Coalitions
from policies.model.links import LinkMeasure, Links
from policies.model.measures import Measure
from policies.model.objective import Objective
from policies.model.problem import Goal, Pairs, Problem
from policies.model.sets import SetSystem
from policies.model.weights import Weights
from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.bounds.link_bounds import PricedPairs
from policies.solvers.bounds.link_pairs import LinkPairs, root_down
from policies.solvers.contract import every_plan
from policies.solvers.exact.enumeration import enumerate_plans, listable


def friends(visits, ties, weights, **rest):
    """Visits are (user, place, count); ties join users; weights[entry][adversary]."""
    link, entry, side = [], [], []
    for i, ends in enumerate(ties):
        for end, user in enumerate(ends):
            mine = [d for d, (who, _, _) in enumerate(visits) if who == user]
            link += [i] * len(mine)
            entry += mine
            side += [end] * len(mine)
    relation = rest.pop("relation", LinkMeasure.COSINE)
    limits = {name: rest.pop(name, None) for name in ("tau", "mean_tau")}
    columns = (np.array(x, np.int64) for x in (link, entry, side))
    place, count = (np.array([v[i] for v in visits], np.int64) for i in (1, 2))
    n = len(visits)
    links = Links(relation, place, count, *columns, len(ties), **limits)
    factor = np.array(weights, np.int64).reshape(n, -1).T
    return Problem(
        sets=SetSystem(n),
        lo=np.ones(n, np.int64),
        hi=np.array(rest.pop("hi", [1] * n)),
        weights=Weights(np.arange(n), np.ones(n, np.int64), factor),
        links=links,
        **rest,
    )


def priced(lambda_, *, average):
    return Goal(Objective.TRADEOFF, Fraction(lambda_), Fraction(0), average=average)


@st.composite
def meetings_of_friends(draw):
    users, k = draw(st.integers(2, 3)), draw(st.integers(2, 3))
    spots = [(u, p) for u in range(users) for p in range(3)]
    chosen = draw(st.lists(st.sampled_from(spots), unique=True, min_size=2, max_size=5))
    visits = [(u, p, draw(st.integers(1, 3))) for u, p in chosen]
    pairs = [(a, b) for a in range(users) for b in range(a + 1, users)]
    ties = draw(st.lists(st.sampled_from(pairs), unique=True, min_size=1))
    row = st.lists(st.integers(0, 4), min_size=k, max_size=k)
    n = len(visits)
    share = st.integers(1, 5).map(lambda i: Fraction(i, 5))
    rest = {
        "relation": draw(st.sampled_from(LinkMeasure)),
        "hi": [draw(st.integers(1, 2)) for _ in visits],
    }
    if draw(st.booleans()):
        rest["goal"] = priced(
            draw(st.sampled_from([1, 3, 10])), average=draw(st.booleans())
        )
    else:
        rest[draw(st.sampled_from(["tau", "mean_tau"]))] = draw(share)
    if draw(st.integers(0, 3)) == 0:
        held = draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=3))
        rest["history"] = Pairs.of([(d, 0) for d in held])
        rest["strict_history"] = True
    return friends(visits, ties, [draw(row) for _ in visits], **rest)


def optimum(problem):
    judged = (judge(problem, plan) for plan in every_plan(problem))
    return max((j.objective for j in judged if j.feasible), default=None)


def solve(problem, work=2.0):
    """As for an instance of which not every plan can be looked at."""
    limits = Limits(work=work)
    with patch("policies.solvers.features.listable", return_value=False):
        return SOLVERS["auto"](problem, np.random.default_rng(0), limits)


@given(meetings_of_friends())
@settings(max_examples=25, deadline=None)
def test_auto_is_between_its_bound_and_all_plans(problem):
    """Worst and mean, cosine and common, in a tradeoff and below a limit, with history."""
    found, best = solve(problem, work=1.0), optimum(problem)
    if best is None:
        assert found.verdict is not Verdict.SOLVED
        return
    assert found.verdict is not Verdict.INFEASIBLE
    assert found.bound >= best
    if found.verdict is Verdict.SOLVED:
        assert found.value == judge(problem, found.plan).objective <= best
        assert found.stopped != "optimal" or best - found.value <= Fraction(1, 10**8)


@st.composite
def pooled(draw):
    """The same, with capacities, and with two who pool what they hold."""
    problem = draw(meetings_of_friends())
    if draw(st.booleans()):
        problem = replace(problem, coalitions=Coalitions(groups=((0, 1),)))
    if draw(st.booleans()):
        k = problem.n_adversaries
        room = draw(st.lists(st.integers(0, 4), min_size=k, max_size=k))
        problem = replace(problem, capacity=np.array(room))
    return problem


@given(pooled())
@settings(max_examples=25, deadline=None)
def test_where_plans_are_few_all_of_them_are_looked_at(problem):
    """So the optimum is proven, or that there is none; at a limit the judge decides."""
    assert listable(problem)
    found, best = enumerate_plans(problem, Limits()), optimum(problem)
    if best is None:
        assert found.verdict is Verdict.INFEASIBLE
    else:
        assert found.value == best <= found.bound


def test_many_plans_are_not_listed():
    """Twelve entries and four adversaries: 4^12 plans."""
    visits = [(d % 2, d // 2, 1) for d in range(12)]
    assert not listable(friends(visits, [(0, 1)], [[1] * 4] * 12, tau=Fraction(1)))
    assert listable(friends(visits, [(0, 1)], [[1] * 2] * 12, tau=Fraction(1)))


def test_ten_entries_for_two_are_proven_at_once():
    """Two friends at five places: 2^10 plans, each disclosing pair costs 1/5."""
    visits = [(d % 2, d // 2, 1) for d in range(10)]
    goal = priced(10, average=False)
    problem = friends(visits, [(0, 1)], [[2, 1]] * 10, goal=goal)
    found = SOLVERS["auto"](problem, np.random.default_rng(0), Limits())
    assert (found.value, found.stopped) == (15, "optimal")


def two_friends(weights, **rest):
    """Both were at two places, once each; k adversaries."""
    visits = [(0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 1, 1)]
    return friends(visits, [(0, 1)], weights, **rest)


def test_a_pair_tells_its_part_of_the_longest_vectors_at_least():
    """1 * 1 / (sqrt 2 * sqrt 2) for each place, whatever else is held."""
    pairs = LinkPairs.of(two_friends([[1, 1]] * 4, tau=Fraction(1)))
    assert [Fraction(part, 2**40) for part in pairs.part] == [Fraction(1, 2)] * 2
    assert pairs.worst == [Fraction(1, 4)] * 2


def test_a_root_is_rounded_down():
    assert root_down(Fraction(1, 4)) == Fraction(1, 2)
    assert 0 < Fraction(1, 2) - root_down(Fraction(1, 2)) ** 2 < Fraction(1, 2**39)
    assert root_down(Fraction(1)) == 1


def test_a_tradeoff_at_a_high_price_is_proven_by_keeping_pairs_apart():
    """All want the first adversary; a cosine costs 50 times a half at least."""
    problem = two_friends([[3, 1]] * 4, goal=priced(50, average=False))
    found = solve(problem)
    assert (found.value, found.bound, found.stopped) == (8, 8, "optimal")


def test_a_tradeoff_at_a_low_price_is_proven_to_pay_it():
    """Ten units more for whoever discloses; everything costs 1 (a cosine of 1)."""
    problem = two_friends([[9, 1]] * 4, goal=priced(1, average=True))
    found = solve(problem)
    assert found.value == 35
    assert 35 <= found.bound < Fraction(351, 10)  # without looking: 36


def test_a_limit_that_no_pair_may_pass_is_infeasible_with_the_pairs_named():
    """One adversary must get all four, and sees a cosine of 1 of friends 0 and 1."""
    found = solve(two_friends([[1]] * 4, tau=Fraction(1, 4)))
    assert found.verdict is Verdict.INFEASIBLE
    (core,) = found.cores
    assert set(core.clashes[0].entries) <= {0, 1, 2, 3}


def test_what_somebody_held_before_bars_nobody_else_but_is_no_proof():
    """The first adversary holds a pair: that is no reason to keep it apart now."""
    history = Pairs.of([(0, 0), (2, 0)])
    problem = two_friends([[2, 1]] * 4, history=history, tau=Fraction(1))
    pairs = LinkPairs.of(problem)
    kept = pairs.kept_apart(np.ones(2, np.bool_))
    assert kept.entry.tolist() == [1, 3]


# -- one component -----------------------------------------------------------------


@st.composite
def components(draw):
    n, k = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    number = st.integers(0, 6)
    worth = [
        {a: draw(number) for a in range(k) if draw(st.integers(0, 5))} for _ in range(n)
    ]
    price = [[draw(st.integers(0, 2)) for _ in range(k)] for _ in range(n)]
    near = [{} for _ in range(n)]
    for i in range(n):
        for j in range(i):
            if draw(st.booleans()):
                near[i][j] = near[j][i] = [draw(number) for _ in range(k)]
    lo = [draw(st.integers(0, 1)) for _ in range(n)]
    hi = [low + draw(st.integers(0, 1)) for low in lo]
    return worth, price, near, lo, hi


def every_value(worth, price, near, lo, hi):
    """Value of every choice, by recomputation."""
    ways = [
        [
            who
            for size in range(lo[d], hi[d] + 1)
            for who in combinations(sorted(worth[d]), size)
        ]
        for d in range(len(worth))
    ]
    for way in product(*ways):
        value = sum(worth[d][a] - price[d][a] for d, who in enumerate(way) for a in who)
        yield (
            way,
            value
            - sum(
                near[d][e][a]
                for d, who in enumerate(way)
                for e in near[d]
                if e < d
                for a in set(who) & set(way[e])
            ),
        )


@given(components(), st.sampled_from([0, 1, 3, 2000]))
@settings(max_examples=200)
def test_a_component_is_searched_to_the_end_or_bounded(component, nodes):
    """However few nodes there are: best <= all choices' best <= ceiling."""
    worth, price, near, lo, hi = component
    values = dict(every_value(*component))
    top = max(values.values(), default=None)
    search = PricedPairs(worth, [row.copy() for row in price], near, lo, hi, nodes)
    if top is None:
        assert search.best is None
        return
    assert search.ceiling >= top
    if search.best is not None:
        assert search.best == values[tuple(tuple(sorted(w)) for w in search.plan)]
    if nodes == 2000:
        assert search.best == search.ceiling == top


def test_entries_with_too_many_choices_are_bounded_and_not_branched_on():
    """Fifteen of thirty adversaries for each of two entries that meet."""
    worth = [dict.fromkeys(range(30), 1)] * 2
    near = [{1: [1] * 30}, {0: [1] * 30}]
    search = PricedPairs(worth, [[0] * 30, [0] * 30], near, [0, 0], [15, 15])
    assert search.ceiling == 30


def test_a_long_chain_is_bounded_without_going_ever_deeper():
    """Each entry meets the next, all want one adversary: Python ends at 1,000 calls."""
    n = 550
    worth = [{0: 2, 1: 0} for _ in range(n)]
    near = [{e: [3, 3] for e in (d - 1, d + 1) if 0 <= e < n} for d in range(n)]
    search = PricedPairs(worth, [[0, 0] for _ in range(n)], near, [1] * n, [1] * n, n)
    assert n <= search.ceiling <= 2 * n


def test_trust_in_a_property_is_no_trust_with_a_link():
    """A mask for the problem's sets says nothing of pairs that are kept apart."""
    problem = two_friends([[9, 1]] * 4, goal=priced(50, average=False))
    named = SetSystem(4, ("told",), (Measure.STEP,))
    trusted = np.ones((1, 2), np.bool_)
    found = solve(replace(problem, sets=named, trusted=trusted))
    assert (found.value, found.stopped) == (20, "optimal")


def five_friends(**rest):
    """All five meet at one place, any two are friends: two of them clash anywhere."""
    ties = list(combinations(range(5), 2))
    visits = [(user, 0, 1) for user in range(5)]
    return friends(visits, ties, [[1] * 2] * 5, tau=Fraction(1), **rest)


def test_listing_ends_with_the_time_and_still_bounds():
    """A stop while subsets are counted: neither a plan nor a proof that there is none."""
    problem, asked = five_friends(hi=[2] * 5), iter([False] * 10 + [True])
    ended = Limits(stopped=lambda: next(asked))
    found = enumerate_plans(problem, ended)
    assert (found.verdict, found.bound) == (Verdict.UNKNOWN, 10)
    assert next(asked, None) is None


def test_what_is_common_needs_no_closer_look():
    """F is 0 or 1: at tau = 1, or at a mean of 1/10, floats already tell exactly."""
    problem = five_friends(relation=LinkMeasure.COMMON)
    mean = replace(problem.links, tau=None, mean_tau=Fraction(1, 10))
    with patch(
        "policies.solvers.exact.enumeration.link_similarities",
        side_effect=AssertionError,
    ):
        assert enumerate_plans(problem, Limits()).verdict is Verdict.INFEASIBLE
        averaged = enumerate_plans(replace(problem, links=mean), Limits())
        assert averaged.verdict is Verdict.INFEASIBLE
