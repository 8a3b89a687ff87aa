"""Annealing keeps all limits, comes close to the best plan, and bounds worst tradeoffs."""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations, count

import numpy as np
import pytest
from hypothesis import given, settings

from benchmarks import paper_data
from policies.instances.instance_file import read_instance, rows_of
from policies.judging.judge import judge
from policies.model.coalitions import Coalitions
from policies.model.measures import Measure
from policies.model.problem import Average, Goal, Plan
from policies.model.problem_arrays import plan_of
from policies.model.sets import NO_CAP
from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.bounds.level_relaxation import Ladder
from policies.solvers.kernels import annealing as kernel
from policies.solvers.kernels.compiling import kernels
from policies.solvers.kernels.plan_state import DEGREE, GIVEN, U
from policies.solvers.load_tables import load_tables
from policies.solvers.search import annealing
from policies.solvers.search.annealing import (
    AnnealingSolver,
    PenaltyAnnealer,
    SmoothAnnealer,
    anneal_across_limits,
    anneal_smoothly,
    annealable,
    crossable,
)
from policies.solvers.search.annealing_state import AnnealingState
from tests.unit.policies.referee import best, evaluate
from tests.unit.policies.tiny import (
    Made,
    Tiny,
    pairs_of,
    priced,
    step,
    tinies,
    uncapped,
)

ASKED = {
    "smooth": ("linear", "worst", "tradeoff", 0.3),
    "square": ("quadratic", "worst", "tradeoff", 0.3),
    "whole": ("step", "worst", "tradeoff", 0.0),
    "mean": ("quadratic", "average", "tradeoff", 0.2),
    "parts": ("step", "average", "tradeoff", 0.0),
    "sealed": ("step", "worst", "zero_step", 0.0),
    "below": ("linear", "worst", "discbudget", 0.7),
    "border": ("linear", "average", "discbudget", 0.6),
    "few": ("step", "average", "discbudget", 0.6),
}
"""Function, aggregation, problem, tau: one for each way to treat disclosure."""

AROUND = {
    "alone": {},
    "groups": {"coalition_groups": [[0, 1]]},
    "any two": {"any_m": 2},
    "crowded": {"capacities": [2, 2, 1]},
    "before": {"prior": [[0, 1], [3, 0]], "history_only_entries": [3]},
}


def drawn(name, seed=3, n=4, k=3, sizes=(2, 3, 3), **more):
    """Four entries in three sets and three adversaries, up to two copies each."""
    kind, aggregation, problem, tau = ASKED[name]
    rng = np.random.default_rng(seed)
    members = [sorted(rng.choice(n, size, replace=False).tolist()) for size in sizes]
    return {
        "schema": "sparsi-instance/1",
        "n_entries": n,
        "n_adversaries": k,
        "t": 2,
        "weights": rng.uniform(0.1, 1.0, (n, k)).round(3).tolist(),
        "utility_norm": 5.0,
        "properties": [{"entries": m, "a": [1 / len(m)] * len(m)} for m in members],
        "disclosure": {"kind": kind, "aggregation": aggregation},
        "problem": problem,
        "lambda": 1.0,
        "tau": tau,
    } | more


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", ASKED)
def test_four_entries_are_planned_as_well_as_by_trying_all(name, around):
    """Every function, aggregation and question, with everything that may go with it."""
    document = drawn(name, **AROUND[around])
    problem = read_instance(document).problem
    assert annealable(problem)
    answer = anneal_smoothly(problem, np.random.default_rng(0), Limits(work=0.2))
    optimum = best(document)
    if optimum is None:
        assert answer.verdict is Verdict.UNKNOWN
        return
    assert answer.verdict is Verdict.SOLVED
    assert evaluate(document, rows_of(answer.plan, problem.n_entries))[-1]
    assert float(answer.value) == pytest.approx(optimum, abs=1e-9)


def test_classes_are_complete_with_one_entry_of_each():
    """Six entries in classes of one and two: the optimum of the exact model."""
    document = drawn("sealed", n=6, sizes=(4, 5), any_m=2)
    for one in document["properties"]:
        d = one["entries"]
        one["classes"] = [d[:2], *([e] for e in d[2:])]
    problem = read_instance(document).problem
    answer = anneal_smoothly(problem, np.random.default_rng(0), Limits(work=0.2))
    exact = SOLVERS["milp"](problem, np.random.default_rng(0), Limits())
    assert exact.stopped == "optimal"
    assert 0 < exact.value == answer.value


@pytest.mark.parametrize("name", ASKED)
def test_what_the_arrays_say_of_a_plan_is_what_the_judge_says(name):
    """U and f of random plans, with groups and history, up to rounding."""
    rng = np.random.default_rng(5)
    document = drawn(name, coalition_groups=[[1, 2]], prior=[[0, 1]])
    problem = read_instance(document).problem
    arrays, tau = AnnealingState(problem), document["tau"]
    for _ in range(20):
        chosen = np.zeros((4, 3), np.bool_)
        chosen[np.arange(4), rng.integers(3, size=4)] = True
        u, f, past = arrays.judged(chosen)
        seen = judge(problem, plan_of(chosen))
        assert u == pytest.approx(float(seen.u))
        if problem.averages:
            past = f >= float(problem.averages[0].limit) - 1e-12
        elif problem.goal.objective.value == "tradeoff":
            assert u + tau - f == pytest.approx(float(seen.objective))
        assert past is not seen.feasible


def test_crowded_adversaries_swap_entries():
    """Each has room for two and both hold the other's: one at a time cannot move."""
    document = drawn("smooth", n=4, k=2, sizes=(2,), capacities=[2, 2], t=1)
    document["weights"] = [[1, 9], [1, 9], [9, 1], [9, 1]]
    document["utility_norm"] = 36
    problem = read_instance(document).problem
    start = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], np.bool_)
    rng = np.random.default_rng(0)
    annealer = SmoothAnnealer(problem, rng, Limits(), start=start)
    assert annealer.value < best(document)
    annealer.run(2_000)
    assert annealer.value == pytest.approx(best(document))


def test_sixty_entries_of_whom_any_three_may_pool_are_planned_well():
    """Greedy draws and CP-SAT found less than a third of that in ten seconds."""
    document = drawn("below", n=60, k=6, sizes=[5, 6, 7, 8] * 9, any_m=3, seed=1)
    document["tau"] = 0.85
    document["utility_norm"] = float(
        np.sort(np.array(document["weights"]), axis=1)[:, -2:].sum()
    )
    problem = read_instance(document).problem
    found = SOLVERS["annealing"](problem, np.random.default_rng(0), Limits(work=2))
    assert found.verdict is Verdict.SOLVED
    assert float(found.value) > 0.72


@pytest.mark.parametrize("pool", [Coalitions(), Coalitions(groups=((0, 1),))])
def test_who_history_put_past_a_limit_is_given_nothing_of_that_set(pool):
    """Worker 0 (or 0 and 1 together) hold both already; only the last one may add.

    Their weights are higher, and no load would rise.
    """
    one = replace(step(0, 1), cap=1)
    before = [(0, 0), (1, 1 if pool else 0)]
    k = 3 if pool else 2
    weights = [[5] * (k - 1) + [1], [1] * k]
    tiny = Tiny(2, k, [one], lo=[1, 0], hi=[1, 0], weights=weights, history=before)
    problem = replace(tiny.problem(), coalitions=pool)
    found = anneal_smoothly(problem, np.random.default_rng(0), Limits(work=0.01))
    assert (found.verdict, found.value) == (Verdict.SOLVED, 1)
    arrays = AnnealingState(problem)
    for a in range(k):
        chosen = np.zeros((2, k), np.bool_)
        chosen[0, a] = True
        past = arrays.judged(chosen)[2]
        assert past is not judge(problem, plan_of(chosen)).feasible


@pytest.mark.parametrize("strict", [False, True])
def test_a_mean_may_be_at_its_limit_unless_the_limit_is_strict(strict):
    """Two of three entries go to somebody: 2/3, which is the limit."""
    document = drawn("border", n=3, k=2, sizes=(3,), t=1)
    problem = read_instance(document).problem
    cap = replace(problem.averages[0], limit=Fraction(2, 3), strict=strict)
    problem = replace(problem, averages=(cap,))
    found = anneal_smoothly(problem, np.random.default_rng(0), Limits(work=0.01))
    assert found.verdict is (Verdict.UNKNOWN if strict else Verdict.SOLVED)


def test_no_plan_within_the_limits_is_told():
    """One adversary and a whole set of one entry: no plan, and no value."""
    document = drawn("sealed", n=2, k=1, sizes=(1,))
    problem = read_instance(document).problem
    found = anneal_smoothly(problem, np.random.default_rng(0), Limits(work=0.01))
    assert found.verdict is Verdict.UNKNOWN
    assert "no plan" in found.tried[0]


def test_too_many_coalitions_are_refused_before_they_fill_memory():
    """Any 4 of 20 are 4,845 hands: exact models and greedy draws are left for those."""
    document = drawn("sealed", k=20, any_m=4)
    assert not annealable(read_instance(document).problem)
    assert annealable(read_instance(document | {"any_m": 2}).problem)


@dataclass
class Walk:
    """Numbers that each stretch of steps began with, and the lowest limit on a set."""

    numbers: list[np.ndarray] = field(default_factory=list)
    caps: list[int] = field(default_factory=list)

    def column(self, place):
        return [numbers[place] for numbers in self.numbers]


@pytest.fixture
def walk(monkeypatch):
    """What the kernel is given, stretch by stretch; it is run all the same."""
    seen = Walk()

    def watched(name, *, quick):
        compiled = kernels(name, quick=quick)

        def anneal(state, extra, numbers, draws):
            if len(draws):  # without any it is only compiled
                seen.numbers.append(numbers.copy())
                seen.caps.append(int(extra.cap.min()))
            compiled["anneal"](state, extra, numbers, draws)

        return {"anneal": anneal}

    monkeypatch.setattr(annealing, "kernels", watched)
    return seen


def test_a_run_that_is_cut_by_the_clock_ends_cold(walk):
    """Two million steps do not fit into forty looks at a clock: it cools by the clock."""
    now = [0.0]

    def clock():
        now[0] += 0.1
        return now[0]

    problem = read_instance(drawn("smooth")).problem
    limits = Limits(seconds=4.0, clock=clock)
    annealer = SmoothAnnealer(problem, np.random.default_rng(0), limits)
    annealer.run()
    assert annealer.spent < 200_000
    hot, *_, cold = walk.column(kernel.TEMPERATURE)
    assert cold < hot / 40  # of 75 at the very end
    assert annealer.value == pytest.approx(best(drawn("smooth")))


def test_where_there_is_much_to_look_at_looks_are_rare(walk):
    """A thousand steps change few of 100,000 loads; a look goes through all of them."""
    wide = {"n": 300, "k": 300, "sizes": [3] * 300}
    for document in (drawn("smooth"), drawn("mean", **wide), drawn("smooth", **wide)):
        problem = read_instance(document).problem
        SmoothAnnealer(problem, np.random.default_rng(0), Limits()).run(1)
    assert walk.column(kernel.LOOK) == [100, 100, 300 * (300 + 300) / 3 / 100]


@pytest.mark.parametrize("name", ["smooth", "parts", "sealed", "border"])
def test_compiled_and_plain_kernels_walk_alike(name):
    """Three hundred steps from one plan by the same draws end in the same plan."""
    document = drawn(name, coalition_groups=[[0, 1]], capacities=[3, 2, 2])
    arrays = AnnealingState(read_instance(document).problem)
    chosen = np.zeros((4, 3), np.bool_)
    chosen[np.arange(4), [0, 1, 2, 0]] = True
    draws = np.random.default_rng(1).random((300, kernel.DRAWS))
    ends = []
    for anneal in (kernel.anneal, kernels("annealing", quick=True)["anneal"]):
        state = arrays.state(chosen)
        extra = arrays.annealing(state, smooth=name != "sealed")
        numbers = np.array([1, 3, 0.05, 0.5, 0.1, 9, 0.02, 0.6, 0, -np.inf, 100.0])
        anneal(state, extra, numbers, draws)
        ends.append((state, numbers))
    (one, told), (two, also) = ends
    assert (one.chosen == two.chosen).all()
    assert (one.load == two.load).all()
    assert told == pytest.approx(also)
    assert not (one.chosen == chosen).all()


def test_loads_too_many_to_list_are_annealed_by_the_same_terms():
    """The exponentials of a walk, listed by load or taken one by one, are the same."""
    arrays = AnnealingState(read_instance(drawn("square", any_m=2)).problem)
    chosen = np.zeros((4, 3), np.bool_)
    chosen[np.arange(4), [0, 1, 2, 0]] = True
    draws = np.random.default_rng(1).random((300, kernel.DRAWS))
    ends = []
    for listed in (True, False):
        state = arrays.state(chosen)
        extra = arrays.annealing(state, smooth=True)
        assert extra.listed.size
        if not listed:
            extra = extra._replace(listed=np.zeros((len(state.load), 0)))
        numbers = np.array([1, 3, 0.05, 0.5, 0.1, 9, 0.02, 1, 0, -np.inf, 100.0])
        kernels("annealing", quick=True)["anneal"](state, extra, numbers, draws)
        ends.append((state, extra))
    (one, sums), (two, also) = ends
    assert (one.chosen == two.chosen).all()
    assert sums.sums == pytest.approx(also.sums)
    assert one.total == pytest.approx(two.total)


@pytest.mark.parametrize("name", ["below", "smooth"])
def test_the_price_of_limits_stays_near_what_pairs_are_worth(name, walk):
    """A limit that no plan keeps, and none at all: the next run starts in reach of both."""
    document = drawn(name, n=12, k=4, sizes=[5, 6, 7], any_m=2)
    document["tau"] = 0.1 if name == "below" else 0.0
    annealer = SmoothAnnealer(
        read_instance(document).problem, np.random.default_rng(0), Limits()
    )
    for _ in range(2):
        annealer.run(100_000)
    worth = annealer.arrays.tables.worth
    share = -np.sort(-worth, axis=1)[:, :2].sum() / len(worth)
    for low, price, high in zip(
        *map(walk.column, (kernel.LOW, kernel.PRICE, kernel.HIGH)), strict=True
    ):
        assert low <= price <= high
        assert high < 100 * max(share, float(worth.max()))


def test_a_level_in_vain_is_not_tried_again(walk):
    """Seven entries among five, of whom two pool: f is 4/7 at least."""
    document = drawn("smooth", n=7, k=5, sizes=[7], any_m=2, t=1)
    annealer = SmoothAnnealer(
        read_instance(document).problem, np.random.default_rng(0), Limits()
    )
    levels = []
    for _ in range(12):
        annealer.run(4_000)
        levels.append(walk.caps[-1])
    assert annealer.level == pytest.approx(4 / 7)
    assert min(levels) == 3  # of seven entries
    assert levels.count(3) == 1


def solve(tiny, seed=0, **limits):
    limits = {"work": 0.005} | limits
    return AnnealingSolver()(
        tiny.problem(), np.random.default_rng(seed), Limits(**limits)
    )


@given(tiny=uncapped((Measure.LINEAR, Measure.QUADRATIC), average=False))
@settings(max_examples=60, deadline=None)
def test_value_and_bound_enclose_the_best_plan(tiny):
    """Brute force over all plans lies between them."""
    found, best = solve(tiny), tiny.best()
    if found.verdict is Verdict.SOLVED:
        assert tiny.feasible(pairs_of(found.plan))
        assert found.value == tiny.objective(pairs_of(found.plan))
        assert found.value <= best
    if best is not None:
        assert best <= found.bound


def thirds(measure=Measure.LINEAR):
    """Three entries of one set, two workers: somebody holds two of three."""
    one = Made({0: 1, 1: 1, 2: 1}, NO_CAP, 3)
    return Tiny(3, 2, [one], measures=(measure,), goal=priced(9, average=False))


@pytest.mark.parametrize(
    ("measure", "value"), [(Measure.LINEAR, 3 - 6), (Measure.QUADRATIC, 3 - 4)]
)
def test_the_bound_knows_that_loads_are_whole(measure, value):
    """The relaxation says f = 1/2; no plan has f below 2/3, and the bound says so."""
    found = solve(thirds(measure))
    assert found.value == value
    assert found.bound - value < Fraction(1, 10**6)


def test_short_time_leaves_some_for_the_bound():
    """A clock of 0.1 s a look: a run of 10^6 steps ends halfway, then comes the bound."""
    ticks = count()
    clock = {"seconds": 10.0, "clock": lambda: 0.1 * next(ticks)}
    found = solve(thirds(), work=100.0, **clock)
    assert found.bound - found.value < Fraction(1, 10**6)


def test_the_bound_gets_the_time_that_is_left(monkeypatch):
    """A clock of 0.1 s a look: half of ten seconds are spent when it begins."""
    ticks, given = count(), []

    def now():
        return 0.1 * next(ticks)

    def climb(self, value, level, most, over, limits):
        given.append(now() + limits.seconds)

    monkeypatch.setattr(Ladder, "climb", climb)
    solve(thirds(), work=100.0, seconds=10.0, clock=now)
    assert given == [pytest.approx(10.0, abs=0.5)]


def test_same_seed_same_plan():
    """A run can be made again."""
    one, two = solve(thirds(), seed=3), solve(thirds(), seed=3)
    assert pairs_of(one.plan) == pairs_of(two.plan)


def test_the_answer_is_never_below_the_plan_that_it_starts_from():
    """A clock that is late at once: the plan that is held comes back, with its bound."""
    start = Plan.of([(0, 0), (1, 1), (2, 1)])
    ticks = count()
    limits = Limits(seconds=0.5, clock=lambda: float(next(ticks)))
    solver = AnnealingSolver(start)
    found = solver(thirds().problem(), np.random.default_rng(0), limits)
    assert found.value == 3 - 6 <= found.bound


def test_every_relaxation_only_lowers_what_is_proven():
    """One level after the other."""
    problem = thirds().problem()
    ladder = Ladder(problem, load_tables(problem))
    limits, seen = Limits(), [ladder.bound]
    for _ in range(3):
        ladder.climb(-3.0, 2 / 3, 1, lambda: False, limits)
        seen.append(ladder.bound)
    assert seen == sorted(seen, reverse=True)
    assert seen[-1] >= -3


@pytest.mark.parametrize(("seconds", "begun"), [(0.3, False), (3.0, True)])
def test_a_run_that_cannot_load_its_kernels_in_time_is_not_begun(
    monkeypatch, seconds, begun
):
    """After the cone relaxation of 500 entries it took .9 s beyond a limit of 1."""
    monkeypatch.setattr("policies.solvers.search.annealing.is_loaded", lambda: False)
    limits = Limits(work=0.01, seconds=seconds, clock=lambda: 0.0)
    annealer = annealing.SmoothAnnealer(
        thirds().problem(), np.random.default_rng(0), limits
    )
    annealer.anneal(1_000, 10.0)
    assert (annealer.spent > 0) is begun


def test_a_relaxation_that_cannot_be_built_in_time_is_not_begun():
    """Of 400 sets and 1,000 entries it took .6 s beyond a limit of one."""
    problem = paper_data.synthetic(0, 200, 20, 3, 2, Measure.LINEAR, average=False)
    ladder = Ladder(problem, load_tables(problem))
    before = ladder.bound
    ladder.climb(0.0, 0.5, 3, lambda: False, Limits(seconds=1e-3, clock=lambda: 0.0))
    assert (ladder.count, ladder.bound) == (0, before)
    ladder.climb(0.0, 0.5, 3, lambda: False, Limits(seconds=1.0, clock=lambda: 0.0))
    assert ladder.count == 3
    assert ladder.bound < before


def test_capacities_that_leave_no_plan_are_not_answered_with_one():
    """Three copies, two places: no plan, and the bound is a number still."""
    found = solve(replace(thirds(), capacity=[1, 1]))
    assert found.verdict is Verdict.UNKNOWN
    assert found.bound <= 3


@pytest.mark.parametrize(
    "changed",
    [
        {"goal": Goal()},
        {"goal": priced(average=True)},
        {"measures": (Measure.STEP,)},
        {"trusted": [[True, False]]},
        {"sets": [Made({0: 1, 1: 1}, 1, 2)]},
    ],
)
def test_other_problems_are_annealed_without_that_bound(changed):
    """Budgets, means, steps, trust and limits: as good as the exact model."""
    problem = replace(thirds(), **changed).problem()
    assert AnnealingSolver().supports(problem)
    found = AnnealingSolver()(problem, np.random.default_rng(0), Limits(work=0.05))
    exact = SOLVERS["milp"](problem, np.random.default_rng(0), Limits())
    assert exact.verdict is found.verdict is Verdict.SOLVED
    assert found.value == exact.value
    assert found.tried == ("annealing",)


SHORT = Limits(work=0.02)


def ring(n=5, k=2, **more):
    """Pairs of neighbours, none of which one adversary may hold."""
    rows = [[1 + (3 * d + 2 * a) % 7 for a in range(k)] for d in range(n)]
    sets = [step(d, (d + 1) % n, (d + 2) % n) for d in range(n)]
    return Tiny(n, k, sets, weights=rows, **more)


def laid_out(crossing):
    """A plan of one copy each, what annealing keeps beside it, and its numbers."""
    n, k = crossing.arrays.able.shape
    chosen = np.zeros((n, k), np.bool_)
    chosen[np.arange(n), np.arange(n) % k] = True
    state = crossing.arrays.state(chosen)
    extra = crossing.arrays.annealing(state, smooth=False)
    extra.sums[kernel.OVER] = np.maximum(state.load - extra.cap, 0).sum()
    state.total[U] = state.worth[state.chosen].sum()
    numbers = np.zeros(kernel.NUMBERS)
    numbers[kernel.BEST] = -np.inf
    return state, extra, numbers


def annealed(tiny, start=None, limits=SHORT):
    return anneal_across_limits(tiny.problem(), start, np.random.default_rng(0), limits)


@pytest.mark.parametrize(
    "tiny",
    [
        ring(),
        ring(6, 3, hi=[2] * 6),
        ring(5, 3, lo=[0, 1, 1, 2, 0], hi=[0, 2, 1, 3, 1]),
        ring(5, 3, hi=[2] * 5, forbidden=[(0, 0), (3, 1)]),
        ring(5, 2, trusted=[[True, False]]),
    ],
    ids=["colouring", "copies", "uneven", "forbidden", "trusted"],
)
def test_rings_are_planned_as_well_as_by_trying_all(tiny):
    found = annealed(tiny)
    assert found.verdict is Verdict.SOLVED
    assert found.value == tiny.best() <= found.bound


@settings(max_examples=60, deadline=None)
@given(tinies())
def test_what_is_told_keeps_all_limits(tiny):
    """A plan is found only where there is one, and is never better than the best."""
    problem = tiny.problem()
    if not crossable(problem):
        return
    found = annealed(tiny, limits=Limits(work=0.001))
    best = tiny.best()
    if found.verdict is Verdict.SOLVED:
        assert best is not None
        assert found.value <= best <= found.bound
    assert best is None or best <= found.bound


def test_three_neighbours_at_two_adversaries_have_no_plan():
    """An odd ring of pairs: a price is paid to the end, and no plan is told."""
    found = annealed(Tiny(3, 2, [step(*pair) for pair in combinations(range(3), 2)]))
    assert found.verdict is Verdict.UNKNOWN
    assert not len(found.plan)
    assert found.bound == 3


def test_an_entry_with_too_few_places_is_not_searched_for():
    found = annealed(Tiny(2, 2, [step(0, 1)], lo=[2, 1], hi=[2, 1], forbidden=[(0, 1)]))
    assert found.verdict is Verdict.UNKNOWN


def test_the_plan_to_start_from_comes_back_where_there_is_no_time():
    tiny = ring()
    start = Plan.of([(0, 0), (1, 1), (2, 0), (3, 1), (4, 1)])
    assert tiny.feasible({(0, 0), (1, 1), (2, 0), (3, 1), (4, 1)})
    ticks = count()
    limits = Limits(seconds=0.5, clock=lambda: float(next(ticks)))
    found = annealed(tiny, start, limits)
    assert found.plan.adversary.tolist() == start.adversary.tolist()
    assert found.stopped == "time"


def test_a_plan_at_the_bound_ends_it():
    """All weights 1: any plan is the best, and no second run is made."""
    problem = Tiny(6, 2, [step(d, d + 1) for d in range(5)]).problem()
    crossing = PenaltyAnnealer(problem, np.random.default_rng(0), Limits())
    assert crossing.anneal(10**12, 6.0) == "gap"
    assert crossing.runs == 1
    found = anneal_across_limits(problem, None, np.random.default_rng(0), Limits())
    assert (found.value, found.stopped) == (6, "optimal")


def test_a_stop_that_is_asked_for_ends_it():
    found = annealed(ring(), limits=Limits(stopped=lambda: True))
    assert found.stopped == "interrupt"


def test_the_same_draws_give_the_same_plan():
    plans = [annealed(ring(6, 3, hi=[2] * 6)).plan for _ in range(2)]
    assert plans[0].adversary.tolist() == plans[1].adversary.tolist()


def test_crossings_raise_the_price_and_plans_lower_it():
    """No plan: 1.5, then a quarter more. A plan: it falls, down to the least price."""
    none = Tiny(3, 2, [step(0, 1), step(0, 2), step(1, 2)])
    prices = []
    for tiny in (none, ring()):
        run = PenaltyAnnealer(tiny.problem(), np.random.default_rng(0), SHORT)
        run.run(10_000)
        prices.append(run.price)
    assert prices == [1.5 * 1.25, 1.5 * 0.92]


def test_what_a_walk_counts_is_what_there_is():
    """Loads, degrees, crossings and utility after 20,000 steps, by hand."""
    problem = ring(7, 3, hi=[2] * 7).problem()
    crossing = PenaltyAnnealer(problem, np.random.default_rng(1), SHORT)
    state, extra, numbers = laid_out(crossing)
    numbers[kernel.PRICE], numbers[kernel.TEMPERATURE] = 2.0, 3.0
    draws = np.random.default_rng(2).random((20_000, kernel.DRAWS_ACROSS))
    anneal = kernels("annealing", quick=True)["anneal_across"]
    anneal(state, extra, numbers, draws)
    rows = np.zeros((7, 7), np.int64)
    for one in range(7):
        rows[one, problem.sets.members(one)] = 1
    load = rows @ state.chosen
    assert (state.load == load).all()
    assert (state.entry[:-1, DEGREE] == state.chosen.sum(axis=1)).all()
    assert (state.adversary[:-1, GIVEN] == state.chosen.sum(axis=0)).all()
    assert extra.sums[kernel.OVER] == np.maximum(load - 2, 0).sum()
    assert state.total[U] == pytest.approx(state.worth[state.chosen].sum())


def test_the_compiled_walk_takes_the_same_steps():
    problem = ring(6, 3, hi=[2] * 6).problem()
    ends = []
    quick = kernels("annealing", quick=True)["anneal_across"]
    for anneal in (kernel.anneal_across, quick):
        crossing = PenaltyAnnealer(problem, np.random.default_rng(1), SHORT)
        state, extra, numbers = laid_out(crossing)
        numbers[kernel.PRICE], numbers[kernel.TEMPERATURE] = 2.0, 1.0
        draws = np.random.default_rng(2).random((2_000, kernel.DRAWS_ACROSS))
        anneal(state, extra, numbers, draws)
        ends.append((state.chosen.tolist(), extra.best.tolist(), numbers.tolist()))
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    "change",
    [
        {"capacity": np.array([3, 3])},
        {"history": Plan.of([(0, 0)])},
        {"coalitions": Coalitions(any_m=2)},
        {"averages": (Average((0,), 1),)},
    ],
    ids=["capacity", "history", "coalitions", "averages"],
)
def test_what_it_does_not_look_at_is_refused(change):
    problem = ring().problem()
    assert crossable(problem)
    assert not crossable(replace(problem, **change))


@pytest.mark.parametrize(
    "tiny",
    [
        Tiny(13, 2, [Made({0: 2, 1: 1}, 2, 3)]),
        Tiny(13, 2, [Made(dict.fromkeys(range(13), 1), 12, 13)]),
        Tiny(25_001, 2, [step(0, 1)]),
        ring(5, 4),
    ],
    ids=["amounts", "large sets", "many pairs", "many adversaries"],
)
def test_what_is_not_small_and_plain_is_refused(tiny):
    assert not crossable(tiny.problem())
