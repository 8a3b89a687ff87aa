"""Tiny problems: a builder, a naive judge, brute force, and hypothesis strategies.

Nothing here uses the engine's own judge or solvers: plain Python over sets and
fractions, so that a law that compares both says something.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, product

import numpy as np
from hypothesis import strategies as st

from policies.model.measures import MEASURES, Measure
from policies.model.objective import Objective
from policies.model.problem import Average, Goal, Pairs, Plan, Problem
from policies.model.sets import NO_CAP, SetSystem
from policies.model.weights import Weights


@dataclass(frozen=True)
class Made:
    """One set: entry -> weight, or entry -> class."""

    members: dict[int, int]
    cap: int
    full: int
    owner: int = 0
    classes: bool = False


def step(*entries: int, owner: int = 0) -> Made:
    """All of them together are forbidden."""
    size = len(entries)
    return Made(dict.fromkeys(entries, 1), max(0, size - 1), max(1, size), owner)


def classes(*groups: tuple[int, ...], owner: int = 0) -> Made:
    """One entry of each class together are forbidden."""
    members = {d: c for c, group in enumerate(groups) for d in group}
    return Made(members, len(groups) - 1, len(groups), owner, True)


CUBIC = Measure("cubic", 3)  # one that nobody has registered


def system(n: int, sets: list[Made], measures: tuple[Measure, ...]) -> SetSystem:
    return SetSystem(
        n_entries=n,
        properties=tuple(f"p{i}" for i in range(len(measures))),
        measures=measures,
        owner=np.array([s.owner for s in sets], np.int64),
        start=np.cumsum([0] + [len(s.members) for s in sets]),
        entry=np.array([d for s in sets for d in s.members], np.int64),
        amount=np.array([w for s in sets for w in s.members.values()], np.int64),
        cap=np.array([s.cap for s in sets], np.int64),
        full=np.array([s.full for s in sets], np.int64),
        classes=np.array([s.classes for s in sets], np.bool_),
    )


@dataclass
class Tiny:
    """A problem in plain Python, and the same as the engine's Problem."""

    n: int
    k: int
    sets: list[Made] = field(default_factory=list)
    measures: tuple[Measure, ...] = (Measure.STEP,)
    lo: list[int] | None = None
    hi: list[int] | None = None
    weights: list[list[int]] | None = None  # [entry][adversary]
    capacity: list[int] | None = None
    forbidden: list[tuple[int, int]] = field(default_factory=list)
    history: list[tuple[int, int]] = field(default_factory=list)
    trusted: list[list[bool]] | None = None
    goal: Goal = field(default_factory=Goal)
    averages: tuple[Average, ...] = ()

    def __post_init__(self) -> None:
        self.lo = [1] * self.n if self.lo is None else self.lo
        self.hi = list(self.lo) if self.hi is None else self.hi
        if self.weights is None:
            self.weights = [[1] * self.k for _ in range(self.n)]

    def problem(self) -> Problem:
        factor = np.array(self.weights, np.int64).reshape(self.n, self.k).T
        return Problem(
            sets=system(self.n, self.sets, self.measures),
            lo=np.array(self.lo, np.int64),
            hi=np.array(self.hi, np.int64),
            weights=Weights(np.arange(self.n), np.ones(self.n, np.int64), factor),
            capacity=None if self.capacity is None else np.array(self.capacity),
            forbidden=Pairs.of(self.forbidden),
            history=Pairs.of(self.history),
            trusted=None if self.trusted is None else np.array(self.trusted, np.bool_),
            goal=self.goal,
            averages=self.averages,
        )

    # -- the naive judge ---------------------------------------------------------

    def load(self, one: Made, held: set[int]) -> int:
        mine = [w for d, w in one.members.items() if d in held]
        return len(set(mine)) if one.classes else sum(mine)

    def share(self, one: Made, held: set[int]) -> Fraction:
        load = min(self.load(one, held), one.full)
        measure = self.measures[one.owner]
        if measure == Measure.STEP:
            return Fraction(int(load == one.full))
        return Fraction(load, one.full) ** measure.power

    def trusts(self, one: Made, a: int) -> bool:
        return self.trusted is not None and self.trusted[one.owner][a]

    def worst(self, pairs: set[tuple[int, int]]) -> Fraction:
        every = pairs | set(self.history)
        shares = [Fraction(0)]
        for a in range(self.k):
            held = {d for d, b in every if b == a}
            shares += [self.share(s, held) for s in self.sets if not self.trusts(s, a)]
        return max(shares)

    def utility(self, pairs: set[tuple[int, int]]) -> int:
        return sum(self.weights[d][a] for d, a in pairs)

    def mean(self, pairs: set[tuple[int, int]]) -> Fraction:
        """Highest mean of f over all sets, of one worker; nobody is trusted."""
        every = pairs | set(self.history)
        held = [{d for d, b in every if b == a} for a in range(self.k)]
        sums = [sum((self.share(s, h) for s in self.sets), Fraction(0)) for h in held]
        return max(sums) / len(self.sets)

    def objective(self, pairs: set[tuple[int, int]]) -> Fraction:
        u = Fraction(self.utility(pairs))
        if self.goal.objective is Objective.DISC_BUDGET:
            return u
        f = self.mean(pairs) if self.goal.average else self.worst(pairs)
        return u + self.goal.lambda_ * (self.goal.tau - f)

    def means_kept(self, pairs: set[tuple[int, int]]) -> bool:
        every = pairs | set(self.history)
        for average in self.averages:
            for a in range(self.k):
                counted = [
                    s
                    for s in self.sets
                    if s.owner in average.properties
                    and not self.trusts(s, a)
                    and self.share(s, set(range(self.n))) > 0
                ]
                held = {d for d, b in every if b == a}
                total = sum((self.share(s, held) for s in counted), Fraction(0))
                if counted and total / len(counted) > average.limit:
                    return False
        return True

    def feasible(self, pairs: set[tuple[int, int]]) -> bool:
        for d in range(self.n):
            if not self.lo[d] <= sum(e == d for e, _ in pairs) <= self.hi[d]:
                return False
        if pairs & set(self.forbidden):
            return False
        every = pairs | set(self.history)
        for a in range(self.k):
            new = {d for d, b in pairs if b == a}
            held = {d for d, b in every if b == a}
            if self.capacity is not None and len(new) > self.capacity[a]:
                return False
            for s in self.sets:
                touched = new & set(s.members)
                if touched and not self.trusts(s, a) and self.load(s, held) > s.cap:
                    return False
        return self.means_kept(pairs)

    def plans(self) -> Iterator[set[tuple[int, int]]]:
        choices = []
        for d in range(self.n):
            sizes = range(self.lo[d], min(self.hi[d], self.k) + 1)
            choices.append([c for s in sizes for c in combinations(range(self.k), s)])
        for plan in product(*choices):
            yield {(d, a) for d, chosen in enumerate(plan) for a in chosen}

    def best(self) -> Fraction | None:
        """Return the objective of the best feasible plan, None if there is none."""
        values = [self.objective(p) for p in self.plans() if self.feasible(p)]
        return max(values, default=None)


def pairs_of(plan: Plan) -> set[tuple[int, int]]:
    return set(zip(plan.entry.tolist(), plan.adversary.tolist(), strict=True))


@st.composite
def made_sets(draw: st.DrawFn, n: int, measures: tuple[Measure, ...]) -> Made:
    owner = draw(st.integers(0, len(measures) - 1))
    members = draw(st.lists(st.integers(0, n - 1), unique=True, min_size=1, max_size=n))
    if measures[owner] is Measure.STEP and len(members) > 1 and draw(st.booleans()):
        number = draw(st.integers(2, len(members)))
        groups: list[list[int]] = [[] for _ in range(number)]
        for i, d in enumerate(members):
            groups[i % number].append(d)
        return classes(*map(tuple, groups), owner=owner)
    if measures[owner] is Measure.STEP:
        size = draw(st.integers(1, len(members)))
        cap = draw(st.sampled_from([size - 1, NO_CAP]))
        return Made(dict.fromkeys(members, 1), cap, size, owner)
    weights = {d: draw(st.integers(0, 3)) for d in members}
    full = max(1, sum(weights.values()))
    return Made(weights, draw(st.sampled_from([*range(full), NO_CAP])), full, owner)


@st.composite
def tinies(draw: st.DrawFn, *, tradeoff: bool = False, averages: bool = False) -> Tiny:
    n = draw(st.integers(0, 4))
    k = draw(st.integers(1, 3))
    measures = tuple(
        draw(st.lists(st.sampled_from([*MEASURES.values()]), min_size=1, max_size=2))
    )
    sets = draw(st.lists(made_sets(n, measures), max_size=4)) if n else []
    lo = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    hi = [draw(st.integers(low, 3)) for low in lo]
    pair = st.tuples(st.integers(0, max(0, n - 1)), st.integers(0, k - 1))
    some = st.lists(pair, unique=True, max_size=3) if n else st.just([])
    goal = Goal()
    if tradeoff:
        quarter = Fraction(draw(st.integers(0, 12)), 4)
        goal = Goal(Objective.TRADEOFF, quarter, Fraction(1))
    caps: tuple[Average, ...] = ()
    if averages:
        caps = (Average((0,), Fraction(draw(st.integers(1, 4)), 4)),)
    return Tiny(
        n=n,
        k=k,
        sets=sets,
        measures=measures,
        lo=lo,
        hi=hi,
        weights=[draw(st.lists(st.integers(0, 3), min_size=k, max_size=k)) for _ in lo],
        capacity=draw(st.none() | st.lists(st.integers(0, 4), min_size=k, max_size=k)),
        forbidden=draw(some),
        history=draw(some),
        trusted=draw(
            st.none()
            | st.lists(
                st.lists(st.booleans(), min_size=k, max_size=k),
                min_size=len(measures),
                max_size=len(measures),
            )
        ),
        goal=goal,
        averages=caps,
    )


def priced(lambda_: int = 1, *, average: bool) -> Goal:
    """u - lambda * f, with f the mean or the worst of the sets."""
    return Goal(Objective.TRADEOFF, Fraction(lambda_), Fraction(0), average=average)


@st.composite
def uncapped(
    draw: st.DrawFn, measures: tuple[Measure, ...], *, average: bool, least: int = 0
) -> Tiny:
    """Tradeoffs over loads alone: one to three sets, no limit on any.

    ``least`` is the smallest lambda.
    """
    n, k = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    sets = []
    for _ in range(draw(st.integers(1, 3))):
        members = draw(st.sets(st.integers(0, n - 1), min_size=1))
        weights = {d: draw(st.integers(1, 3)) for d in sorted(members)}
        owner = draw(st.integers(0, len(measures) - 1))
        sets.append(Made(weights, NO_CAP, sum(weights.values()), owner))
    lo = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    lambda_ = draw(st.sampled_from([c for c in (0, 1, 5, 20) if c >= least]))
    return Tiny(
        n,
        k,
        sets,
        measures=measures,
        lo=lo,
        hi=[low + draw(st.integers(0, 1)) for low in lo],
        weights=[draw(st.lists(st.integers(0, 3), min_size=k, max_size=k)) for _ in lo],
        capacity=draw(st.none() | st.lists(st.integers(1, 4), min_size=k, max_size=k)),
        history=draw(st.sampled_from([[], [(0, 0)]])),
        goal=priced(lambda_, average=average),
    )
