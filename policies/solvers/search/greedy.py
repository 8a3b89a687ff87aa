"""GREEDY, GREEDYL, GRASP and GRASPL: algorithms 1 to 3 of the paper, incrementally.

Mode safe (the default) corrects the algorithms: the best repetition is kept, plans are
compared by (copies missing, complete sets, -objective), no limit is ever crossed, and
local search runs to a local optimum. For step functions the order is (missing, complete
sets, max f, -u), since f is 1 as soon as one set is complete.

Mode paper is the algorithms as printed, on G = u + lambda (tau - f) - C (section 5,
correctness), mistakes included:

- algorithm 1 resets g_opt inside its loop, so the last repetition that beats the empty
  plan is returned, not the best;
- f is flat: once one set is complete, more of them cost nothing;
- algorithm 3 requires G > g strictly, so that at lambda = 1 a tie can leave an entry
  unassigned;
- local search makes one pass; among tied neighbours the unchanged plan comes first.

What the paper leaves open follows its text: g, which algorithm 2 never sets, is the
objective of the present plan; algorithm 3 returns the pair it found; among tied pairs
the lower id comes first.

The local form exists twice. ``rounds`` is the section's text (extensions): t rounds
over all entries. ``onward`` is, to the letter, the listing SelectCandidates that the
paper's source leaves out: candidates are all pairs of the entry planned last and of
those after it in the order. Entries that are passed over are left to local search.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from policies.model.links import LinkMeasure
from policies.model.objective import Objective
from policies.model.problem import Plan, Problem
from policies.model.sets import Ints
from policies.solvers.interfaces import Limits, Solution, timeless
from policies.solvers.kernels.compiling import LOADING, is_loaded
from policies.solvers.search.delta_evaluation import Floats, Gains
from policies.solvers.search.local_search import (
    Meter,
    blocks,
    climb,
    finish,
    fits,
)

_SLOW = 0.005  # seconds of a pick from which several threads pay off
PACE: Final = 60_000  # member rows between two checks of the clock
# Loading compiled kernels takes .5 s of CPU. GREEDYL over so many pairs takes less without
# them: 500 entries, 50 sets, k = 10 (80,000 pairs) .04 (step) to .15 s (linear mean).
_PLAIN: Final = 100_000
# Estimated against measured CPU seconds, uncompiled: linear means of 50, 100 and 200 entries
# .008 .035 .113 / .012 .037 .111, of 500 (10 sets, k = 5) 1.45 / 1.49, of 500 (50 sets, k = 10)
# 6.5 / 5.9, below a limited mean (_TRIED of 4) .064 .40 1.5 / .067 .40 1.5, cosine of 100 and 200
# check-ins .15 .58 / .16 .49, the worst cosine of 300 4.8 / 6.1. The share of _WORST: linear worst 500, 10, 3, 2 .80 / .70; of
# _SEALED: step 500, 20, 2, 2 .55 / .43, 500, 50, 3, 2 1.29 / 1.10, sparse 500, 1500, 5, 2 .26 /
# .18, 1000, 2500, 15, 2 .43 / .37, 2000, 5000, 15, 2 .86 / .83 (sparse sets are not less).
# Visits, which the small sets of a tradeoff need (entries, sets, k, t; sets of 2 to 4): linear mean
# 500, 1000, 3, 2 .62 / 1.15, 500, 1000, 10, 2 2.1 / 3.6, 1000, 2000, 10, 1 4.2 / 9.9 (without them
# .12, .14 and .17), squares 2.8 and 5.6; worst .20 / .34, .54 / .31, 1.1 / .48.
_PICKED: Final = 8e-7  # seconds for each pair that GREEDY examines
_VISITED: Final = (1e-7, 5e-7)  # for each that it visits at each pick: worst, mean
_DEALT: Final = 2e-6  # the same for GREEDYL: 500 entries, 50 sets, k = 10 .16 / .15
# With coalitions of any two GREEDYL takes 6 us for each such pair, 20 where a mean counts (100 to
# 500 entries, 5 adversaries; 3 and 14 for 10): 500, 1000, 5, 2 .6 and 1.8 s, with kernels .65.
_POOLED: Final = (2, 6)  # times as long for a pair where adversaries pool: worst, mean
_TRIED: Final = 4  # examinations of a pair that is tried and taken back
_WORST: Final = 0.5  # share of the examinations that cost anything, for the worst set
_SEALED: Final = 0.2  # the same for step sets of many entries
_MANY: Final = 20  # entries of a set, on average, that are many
_TIMES: Final = 50  # speed-up of compiled kernels

ORDERS: Final = ("degree", "input", "random")
LOCALS: Final = ("rounds", "onward")


@dataclass(frozen=True)
class Greedy:
    """Algorithm 1 with its options.

    Attributes
    ----------
    repeats : int
        r, repetitions.
    width : int
        n: a pair is drawn from the n best (GRASP); 1 takes the best (GREEDY). At most k
        in the myopic form.
    myopic : bool
        Whether to use the local form (section 5, extensions): in a fixed order of the
        entries instead of over all pairs.
    order : str
        The fixed order of the myopic form: ``degree`` (in most sets first), ``input``
        or ``random``.
    local : str
        The kind of local form, if myopic: ``rounds`` or ``onward``.
    whole : bool
        Whether the clock ends only repairs after the first.
    """

    repeats: int = 1
    width: int = 1
    myopic: bool = False
    order: str = "degree"
    local: str = "rounds"
    whole: bool = False

    def __post_init__(self) -> None:
        if self.repeats < 1 or self.width < 1:
            raise ValueError(
                f"repeats is {self.repeats} and width {self.width}, expected >= 1"
            )
        if self.order not in ORDERS:
            raise ValueError(f"order is {self.order!r}, expected one of {ORDERS}")
        if self.local not in LOCALS:
            raise ValueError(f"local is {self.local!r}, expected one of {LOCALS}")
        if not self.myopic and (self.order, self.local) != (ORDERS[0], LOCALS[0]):
            raise ValueError(
                f"order is {self.order!r} and local {self.local!r}, expected no choice: "
                "over all pairs there is no order"
            )

    def supports(self, problem: Problem) -> bool:
        """All problems that fit."""
        return fits(problem)

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Construct and climb ``repeats`` times."""
        quick = picks_compiled(problem) if self._picks_once() else None
        gains = Gains(
            problem,
            paper=limits.paper,
            quick=False if self._once(problem) else quick,
            every=not self.myopic,
        )
        over = limits.deadline()
        meter = Meter(replace(limits, clock=timeless) if self.whole else limits)
        empty = gains.key
        best, kept = empty, Plan()
        for i in range(self.repeats):
            gains.reset()
            self.construct(gains, rng, meter)
            climb(gains, rng, meter, passes=1 if limits.paper else None)
            # as printed: compared with the empty plan each time, not with the best
            if gains.key < (empty if limits.paper else best) or i == 0:
                best, kept = gains.key, gains.plan()
            if meter.ended:
                break
        if limits.paper and not kept_beats(best, empty):
            kept = Plan()
        tried = (self._description(),)
        return finish(gains, kept, rng, meter, tried, over)

    def _once(self, problem: Problem) -> bool:
        """Whether the plan is finished before compiled kernels could be loaded."""
        rounds = self.myopic and self.local == "rounds"
        return rounds and self.repeats == 1 and examined(problem) < _PLAIN

    def _picks_once(self) -> bool:
        """Whether it is GREEDY itself, for which there is an estimate."""
        return not self.myopic and self.repeats == 1

    def _description(self) -> str:
        form = "over all pairs"
        if self.myopic:
            form = f"entry by entry ({self.order} order, {self.local})"
        return f"{self.repeats} greedy constructions {form}, best of {self.width}"

    def construct(self, gains: Gains, rng: np.random.Generator, meter: Meter) -> None:
        """Algorithm 2."""
        if meter.ended or (self.myopic and self.local == "rounds"):
            self._by_entry(gains, rng, meter)
            return
        if self.myopic:
            order = fixed_order(gains.problem, self.order, rng)
            done = _onward(gains, self.width, order, rng, meter)
        else:
            done = _by_pair(gains, self.width, rng, meter)
        if not done:
            self._by_entry(gains, rng, meter)  # out of work: the rest in linear time

    def _by_entry(self, gains: Gains, rng: np.random.Generator, meter: Meter) -> None:
        """Repeat rounds over all entries until nobody gets more."""
        problem, k = gains.problem, gains.k
        order = fixed_order(problem, self.order, rng)
        top = np.zeros((min(self.width, max(1, k)), 4))
        looks = gains.rows * k
        for _ in range(int(np.minimum(problem.hi, k).max(initial=0))):
            made = 0
            for part in blocks(order, looks):
                draws = rng.random(len(part))
                made += gains.assign(part, draws, top)
                meter.spend(looks * len(part))
            if not made or meter.ended in ("time", "interrupt"):
                return


@dataclass(frozen=True)
class Grasp(Greedy):
    """n = 5, r = 10, over all pairs (section 6)."""

    repeats: int = 10
    width: int = 5


@dataclass(frozen=True)
class Graspl(Greedy):
    """n = min(k, 3), r = 10, entry by entry (section 6)."""

    repeats: int = 10
    width: int = 3
    myopic: bool = True


def picks_compiled(problem: Problem) -> bool:
    """Whether compiled kernels are worth loading for GREEDY."""
    return _picking(problem) > LOADING


def picking_seconds(problem: Problem) -> float:
    """Estimate the CPU seconds of GREEDY, with the loading of kernels if they are not yet."""
    plain = _picking(problem)
    if plain <= LOADING:
        return plain
    return plain / _TIMES + (0.0 if is_loaded() else LOADING)


def dealing_seconds(problem: Problem) -> float:
    """Estimate the CPU seconds of GREEDYL in the same way."""
    looks = examined(problem)
    if looks < _PLAIN:
        return _DEALT * looks
    return _DEALT * looks / _TIMES + (0.0 if is_loaded() else LOADING)


def examined(problem: Problem) -> int:
    """Return the number of pairs that a sweep over all entries examines, for who sees them.

    Where adversaries pool, a pair takes longer; more so where a mean counts, as it is tried
    and taken back.
    """
    seen = problem.n_adversaries + sum(map(len, problem.groups))
    slow = _POOLED[problem.goal.average] if problem.groups else 1
    return (len(problem.sets.entry) + problem.n_entries) * seen * slow


def _picking(problem: Problem) -> float:
    """Estimate the CPU seconds of GREEDY uncompiled.

    After each pair it re-examines the pairs around it: those of entries in common sets, and of
    all adversaries who pool; with links all of one adversary; all there are, by trying them, with caps on sums, with
    means of coalitions, and for the worst cosine, which may fall. Where f rises with every
    pair, no weight rules a pair out, and each pick visits all pairs.
    """
    sets, n, k = problem.sets, problem.n_entries, problem.n_adversaries
    rows = 1 + len(sets.entry) / max(1, n)
    size = np.diff(sets.start).astype(np.float64)
    near = min(float(size @ size) / max(1, n), n)
    copies = int(np.minimum(problem.hi, k).sum())
    seen = (k + sum(map(len, problem.groups))) / max(1, k)
    pooled = min(k, 1 + sum(len(group) ** 2 for group in problem.groups) / max(1, k))
    share, links, goal = 1.0, problem.links, problem.goal
    tradeoff = goal.objective is Objective.TRADEOFF and goal.lambda_ > 0
    falling = tradeoff and links is not None and links.relation is LinkMeasure.COSINE
    tried = bool(problem.groups) if goal.average else falling
    if problem.averages or problem.aggregate is not None or tried:
        near = _TRIED * n * k
        rows += 0 if links is None else len(links.entry) / max(1, n)
    elif links is not None:
        near = n
    elif sets.has_only_steps:
        share = _SEALED if len(sets.entry) > _MANY * sets.n_sets else 1.0
    elif not goal.average:
        share = _WORST
    if not tried:
        near *= pooled
    seconds = _PICKED * rows * seen * share * (n * k + near * copies)
    if problem.groups:
        seconds += _DEALT * examined(problem)  # the climb after it
    if tradeoff and links is None and not sets.has_only_steps:
        seconds += _VISITED[goal.average] * n * k * copies
    return seconds


def kept_beats(key: tuple[float, ...], empty: tuple[float, ...]) -> bool:
    """Whether a plan is worth more than the empty one (algorithm 1, g > g_opt)."""
    return key < empty


def fixed_order(problem: Problem, order: str, rng: np.random.Generator) -> Ints:
    """Return the total order of entries, without those with hi = 0."""
    n = problem.n_entries
    if order == "random":
        ranked = rng.permutation(n)
    elif order == "input":
        ranked = np.arange(n)
    else:
        degree = np.bincount(problem.sets.entry, minlength=n)
        if problem.links is not None:
            degree = degree + np.bincount(problem.links.entry, minlength=n)
        ranked = np.argsort(-degree, kind="stable")
    return np.asarray(ranked[problem.hi[ranked] > 0], np.int64)


def _onward(
    gains: Gains, width: int, order: Ints, rng: np.random.Generator, meter: Meter
) -> bool:
    """Repeatedly plan the best pair of the last entry planned and of all later ones.

    Ids are places in the order, so that among tied pairs the earlier entry comes first.
    Returns whether this was completed.
    """
    problem, k = gains.problem, gains.k
    rest = np.setdiff1d(np.arange(gains.n), order)  # history only
    order = np.concatenate([order, rest])
    ranked = problem.select(order, np.arange(problem.sets.n_sets))
    mine = Gains(ranked, paper=gains.paper, quick=gains.quick, every=True)
    most = int(np.minimum(problem.hi, k).sum())
    draws = rng.random(most)
    if not k or not meter.spend(gains.rows * gains.n * k):
        return False
    top = mine.prepare(min(width, k))
    at = 0
    for i in range(most):
        count = int(mine.search("pick", 0, k, top))
        if not count or not meter.spend(mine.picked):
            break
        pair = int(top[int(draws[i] * count), 3])
        mine.search("construct", draws, top, i, i + 1)  # the same pick
        if pair // k > at:  # those passed over are closed for good
            mine.state.able[at : pair // k] = False
            mine.candidates.known[:, 0] = -1.0
            at = pair // k
    made = mine.plan()
    gains.load(Plan(order[made.entry], made.adversary))
    return not meter.ended


def _by_pair(gains: Gains, width: int, rng: np.random.Generator, meter: Meter) -> bool:
    """Plan the best pair repeatedly; return whether this was completed."""
    n, k, looks = gains.n, gains.k, gains.picked
    most = int(np.minimum(gains.problem.hi, k).sum())
    draws = rng.random(most)
    if not k or not meter.spend(gains.rows * n * k):
        return False
    top = gains.prepare(width)
    step = max(1, int(PACE / max(looks, 1)))  # no pairs, no looks
    threads, clock = min(meter.limits.threads, k), meter.limits.clock
    slow, at = False, 0
    with ThreadPoolExecutor(threads) as pool:
        while 0 <= at < most:
            stop = min(at + step, most)
            if slow:
                at = _side_by_side(gains, draws, top, pool, threads, at, stop)
            else:
                began, each = clock(), _SLOW * (stop - at)
                at = int(gains.search("construct", draws, top, at, stop))
                slow = threads > 1 and clock() - began > each
            if at >= 0 and not meter.spend(looks * step):
                return False
    return True


def _side_by_side(
    gains: Gains,
    draws: Floats,
    top: Floats,
    pool: ThreadPoolExecutor,
    threads: int,
    at: int,
    stop: int,
) -> int:
    """Run ``construct`` with PickNextBest in threads; the result is the same.

    Each thread finds and remembers the best pairs of its adversaries, by a total order;
    ``construct`` only takes the best of those.
    """
    cuts = np.linspace(0, gains.k, threads + 1).astype(int).tolist()
    tops = [np.zeros_like(top) for _ in range(threads)]
    for i in range(at, stop):
        found = pool.map(
            lambda j: gains.search("pick", cuts[j], cuts[j + 1], tops[j]),
            range(threads),
        )
        if not any(list(found)) or gains.search("construct", draws, top, i, i + 1) < 0:
            return -1
    return stop
