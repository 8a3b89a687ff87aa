"""The one judge: utility, disclosure, objective and feasibility, recomputed from scratch.

Solvers may use marginal gains; no plan counts before it was judged here. Nothing is
taken over from a solver but the plan itself, and every comparison is between integers
or fractions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from policies.disclosure import Loads, loads, reachable, share
from policies.document.policy import Objective
from policies.links import alikeness, below_limit
from policies.problem import Pairs, Problem
from policies.sets import Bools, Ints, InvalidProblem, Measure

SHOWN: Final = 20  # violations of one sort that are told one by one


@dataclass(frozen=True)
class Crossing:
    """A set on which a hand (an adversary, or a coalition) would be past the limit."""

    set: int
    adversary: int
    load: int
    cap: int


@dataclass(frozen=True)
class Judgement:
    """What a plan is worth and what it breaks.

    Attributes
    ----------
    utility : int
        Sum of w_da in units of the problem's weights.
    u : Fraction
        The same as a number; u of the problem's utilities where it has any.
    f : Fraction
        Worst f over all judged sets and hands, history included; over the links where
        the problem has links (a cosine is rounded up to 10^-18).
    where : (int, int) or None
        Set (or link) and hand of the worst f; None where nothing is held.
    by_property : tuple of Fraction
        Worst f of each property.
    f_average : Fraction
        Highest mean of f over all sets (or links), of one hand.
    objective : Fraction
        u, or u + lambda * (tau - f).
    complete : int
        Judged (set, adversary) with f = 1, history included.
    whole : tuple of int
        Sets of which some judged hand holds every entry (or one of every class),
        ascending.
    past : int
        (set, adversary) past the limit by history alone: nothing in the plan adds to it.
    crossed : tuple of Crossing
        (set, adversary) past the limit that the plan adds to; at most ``SHOWN``.
    violations : tuple of str
        In plain words; empty for a feasible plan.
    """

    utility: int
    u: Fraction
    f: Fraction
    where: tuple[int, int] | None
    by_property: tuple[Fraction, ...]
    f_average: Fraction
    objective: Fraction
    complete: int
    whole: tuple[int, ...]
    past: int
    crossed: tuple[Crossing, ...]
    violations: tuple[str, ...]

    @property
    def feasible(self) -> bool:
        """Whether the plan keeps every limit."""
        return not self.violations

    @property
    def disclosed(self) -> int:
        """How many sets are wholly held."""
        return len(self.whole)


class _Tally:
    """Sums over the pieces of loads that the judge walks through."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.hands = problem.n_adversaries + len(problem.groups)
        self.judged = problem.judged()
        self.size = np.diff(problem.sets.start)
        self.whole: set[int] = set()
        self.worst = Fraction(0)
        self.where: tuple[int, int] | None = None
        self.by_property = [Fraction(0)] * len(problem.sets.properties)
        self.complete = 0
        self.past = 0
        self.n_crossed = 0
        self.crossed: list[Crossing] = []
        self.sums: dict[tuple[int, int], Ints] = defaultdict(
            lambda: np.zeros(self.hands, np.int64)
        )

    def add(self, piece: Loads) -> None:
        """Count one piece."""
        sets = self.problem.sets
        owner = sets.owner[piece.set]
        if self.judged is not None:
            judged = self.judged[owner, piece.adversary]
            piece = Loads(
                piece.set[judged],
                piece.adversary[judged],
                piece.load[judged],
                piece.count[judged],
                piece.fresh[judged],
            )
            owner = owner[judged]
        full = sets.full[piece.set]
        self.complete += int(np.sum(piece.load >= full))
        every = np.where(
            sets.classes[piece.set],
            piece.load >= full,
            piece.count == self.size[piece.set],
        )
        self.whole.update(np.unique(piece.set[every]).tolist())
        over = piece.load > sets.cap[piece.set]
        self.past += int(np.sum(over & ~piece.fresh))
        self._cross(piece, over & piece.fresh)
        self._shares(piece, owner, full)

    def _cross(self, piece: Loads, over: Bools) -> None:
        """Note the crossings that the plan adds to."""
        rows = np.flatnonzero(over)
        self.n_crossed += len(rows)
        for row in rows[: max(0, SHOWN - len(self.crossed))]:
            one = int(piece.set[row])
            self.crossed.append(
                Crossing(
                    one,
                    int(piece.adversary[row]),
                    int(piece.load[row]),
                    int(self.problem.sets.cap[one]),
                )
            )

    def _shares(self, piece: Loads, owner: Ints, full: Ints) -> None:
        """Worst f and the sums of f, by (property, full)."""
        held = np.minimum(piece.load, full)
        order = np.lexsort((held, full, owner))
        owner, full, held = owner[order], full[order], held[order]
        same = (owner[1:] == owner[:-1]) & (full[1:] == full[:-1])
        edges = np.concatenate([[0], np.flatnonzero(~same) + 1, [len(owner)]])
        for one, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            if one == stop:
                continue
            number, whole = int(owner[one]), int(full[one])
            measure = self.problem.sets.measures[number]
            top = share(measure, int(held[stop - 1]), whole)
            self.by_property[number] = max(self.by_property[number], top)
            if self.where is None or top > self.worst:
                row = order[stop - 1]
                self.worst = top
                self.where = (int(piece.set[row]), int(piece.adversary[row]))
            value = held[one:stop] if measure else held[one:stop] == whole
            if measure is Measure.QUADRATIC:
                value = _squared(value, whole)
            adversary = piece.adversary[order[one:stop]]
            sums = self.sums[number, whole]
            if value.dtype == object and sums.dtype != object:
                sums = self.sums[number, whole] = sums.astype(object)
            np.add.at(sums, adversary, value)

    def means(
        self, properties: tuple[int, ...], counted: Bools, over: int = 0
    ) -> dict[int, Fraction]:
        """Mean of f over the counted sets of these properties, by hand, where above 0.

        ``over`` is what the sum is divided by, 0 for the number of counted sets.
        """
        sets, judged = self.problem.sets, self.judged
        wanted = set(properties)
        total: dict[int, Fraction] = defaultdict(Fraction)
        for (number, whole), sums in self.sums.items():
            if number not in wanted:
                continue
            scale = whole ** int(sets.measures[number])
            for a in np.flatnonzero(sums).tolist():
                total[a] += Fraction(int(sums[a]), scale)
        if over:
            return {a: t / over for a, t in total.items()}
        rows = list(properties)
        per = np.bincount(sets.owner[counted], minlength=len(sets.properties))[rows]
        size = {
            a: int(per.sum() if judged is None else per @ judged[rows, a])
            for a in total
        }
        return {a: t / size[a] for a, t in total.items() if size[a]}


def _squared(value: Ints, whole: int) -> Ints:
    """Squares; in Python's integers where 64 bits could be too few."""
    return value.astype(object) ** 2 if whole >= 2**31 else value**2


def judge(problem: Problem, plan: Pairs) -> Judgement:
    """Judge a plan against the problem, from scratch.

    Parameters
    ----------
    problem : Problem
    plan : Pairs

    Returns
    -------
    Judgement

    Raises
    ------
    InvalidProblem
        If the plan names an entry or adversary that the problem does not have.
    """
    n, k = problem.n_entries, problem.n_adversaries
    for name, values, limit in (
        ("entry", plan.entry, n),
        ("adversary", plan.adversary, k),
    ):
        if len(values) and int(values.max()) >= limit:
            raise InvalidProblem(
                f"the plan names {name} {int(values.max())}, expected < {limit}"
            )
    tally = _Tally(problem)
    held, before = problem.held(plan), problem.held(problem.history)
    for piece in loads(problem.sets, held, before):
        tally.add(piece)
    utility = int(np.sum(problem.weights.of(plan.entry, plan.adversary)))
    u = utility * problem.weights.unit
    if problem.utilities is not None:
        u = problem.utilities.total(_hands(plan, k))
    f, where, f_average = tally.worst, tally.where, _mean(problem, tally)
    broken = list(_violations(problem, plan, tally))
    if problem.links is not None:
        f, where, f_average, passed = _alike(problem, held.union(before))
        broken += passed
    goal = problem.goal
    objective = u
    if goal.objective is Objective.TRADEOFF:
        objective += goal.lambda_ * (goal.tau - (f_average if goal.average else f))
    return Judgement(
        utility=utility,
        u=u,
        f=f,
        where=where,
        by_property=tuple(tally.by_property),
        f_average=f_average,
        objective=objective,
        complete=tally.complete,
        whole=tuple(sorted(tally.whole)),
        past=tally.past,
        crossed=tuple(tally.crossed),
        violations=tuple(broken),
    )


def _hands(plan: Pairs, k: int) -> list[frozenset[int]]:
    """What the plan gives to each adversary."""
    return [frozenset(plan.entry[plan.adversary == a].tolist()) for a in range(k)]


def _mean(problem: Problem, tally: _Tally) -> Fraction:
    """Highest mean over all sets, of one hand."""
    every = tuple(range(len(problem.sets.properties)))
    whole = np.ones(problem.sets.n_sets, np.bool_)
    means = tally.means(every, whole, problem.goal.over)
    return max(means.values(), default=Fraction(0))


def _alike(
    problem: Problem, held: Pairs
) -> tuple[Fraction, tuple[int, int] | None, Fraction, list[str]]:
    """Worst f over the links, where it is, highest mean of one hand, limits passed."""
    links = problem.links
    assert links is not None
    worst, where = Fraction(0), None
    total: dict[int, Fraction] = defaultdict(Fraction)
    passed = []
    for alike in alikeness(links, held.entry, held.adversary):
        f = alike.share(links.relation)
        total[alike.hand] += f
        if f > worst:
            worst, where = f, (alike.link, alike.hand)
        if links.tau is not None and not below_limit(alike, links.relation, links.tau):
            passed.append(
                f"link {alike.link}: {_named(problem, alike.hand)} is past tau"
            )
    over = problem.goal.over or links.n_links or 1
    mean = max(total.values(), default=Fraction(0)) / over
    told = list(_told(passed[:SHOWN], len(passed), "links past tau"))
    if links.mean_tau is not None and mean >= links.mean_tau:
        told.append(f"a hand sees a mean of {float(mean)} of the links, past tau")
    return worst, where, mean, told


def _told(lines: list[str], total: int, what: str) -> Iterator[str]:
    """Return the lines, then how many more there are."""
    yield from lines
    if total > len(lines):
        yield f"{total - len(lines)} more {what}"


def _violations(problem: Problem, plan: Pairs, tally: _Tally) -> Iterator[str]:
    """Everything that the plan breaks, in plain words."""
    yield from _degrees(problem, plan)
    load = np.bincount(plan.adversary, minlength=problem.n_adversaries)
    if problem.capacity is not None:
        over = np.flatnonzero(load > problem.capacity)
        lines = [
            f"adversary {a} gets {int(load[a])} new exposures, "
            f"capacity {int(problem.capacity[a])}"
            for a in over[:SHOWN].tolist()
        ]
        yield from _told(lines, len(over), "adversaries past their capacity")
    barred = plan.within(problem.forbidden)
    rows = np.flatnonzero(barred)
    lines = [
        f"entry {int(plan.entry[r])} may not go to adversary {int(plan.adversary[r])}"
        for r in rows[:SHOWN].tolist()
    ]
    yield from _told(lines, len(rows), "forbidden pairs")
    sets = problem.sets
    lines = [
        f"{sets.properties[int(sets.owner[c.set])]}: {_named(problem, c.adversary)} has "
        f"load {c.load} on set {c.set}, allowed {c.cap}"
        for c in tally.crossed
    ]
    yield from _told(lines, tally.n_crossed, "limits crossed")
    if problem.strict_history and tally.past:
        yield f"{tally.past} limits are passed by history alone"
    yield from _means(problem, tally)


def _named(problem: Problem, hand: int) -> str:
    """A hand in words."""
    k = problem.n_adversaries
    if hand < k:
        return f"adversary {hand}"
    return f"adversaries {', '.join(map(str, problem.groups[hand - k]))} together"


def _degrees(problem: Problem, plan: Pairs) -> Iterator[str]:
    """Entries with too few or too many copies."""
    degree = np.bincount(plan.entry, minlength=problem.n_entries)
    off = np.flatnonzero((degree < problem.lo) | (degree > problem.hi))
    lines = [
        f"entry {d} gets {int(degree[d])} copies, "
        f"expected {int(problem.lo[d])} to {int(problem.hi[d])}"
        for d in off[:SHOWN].tolist()
    ]
    yield from _told(lines, len(off), "entries with a wrong number of copies")


def _means(problem: Problem, tally: _Tally) -> Iterator[str]:
    """Caps on averages that are passed."""
    if not problem.averages:
        return
    counted = reachable(problem.sets)
    for cap in problem.averages:
        means = tally.means(cap.properties, counted, cap.over)
        sign = "below " if cap.strict else ""
        hands = means if cap.kept(Fraction(0)) else range(tally.hands)
        lines = [
            f"{_named(problem, a)} has a mean disclosure of {mean}, "
            f"allowed {sign}{cap.limit}"
            for a in sorted(hands)
            if not cap.kept(mean := means.get(a, Fraction(0)))
        ]
        yield from _told(lines[:SHOWN], len(lines), "averages past their cap")
