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
from policies.problem import Pairs, Problem
from policies.sets import Bools, Ints, InvalidProblem, Measure

SHOWN: Final = 20  # violations of one sort that are told one by one


@dataclass(frozen=True)
class Crossing:
    """A set on which an adversary would be past the limit."""

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
        The same as a number.
    f : Fraction
        Worst f over all judged sets and adversaries, history included.
    where : (int, int) or None
        Set and adversary of the worst f; None where nothing is held.
    by_property : tuple of Fraction
        Worst f of each property.
    f_average : Fraction
        Highest mean of f over all sets, of one adversary.
    objective : Fraction
        u, or u + lambda * (tau - f).
    complete : int
        Judged (set, adversary) with f = 1, history included.
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
    past: int
    crossed: tuple[Crossing, ...]
    violations: tuple[str, ...]

    @property
    def feasible(self) -> bool:
        """Whether the plan keeps every limit."""
        return not self.violations


class _Tally:
    """Sums over the pieces of loads that the judge walks through."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.worst = Fraction(0)
        self.where: tuple[int, int] | None = None
        self.by_property = [Fraction(0)] * len(problem.sets.properties)
        self.complete = 0
        self.past = 0
        self.n_crossed = 0
        self.crossed: list[Crossing] = []
        self.sums: dict[tuple[int, int], Ints] = defaultdict(
            lambda: np.zeros(problem.n_adversaries, np.int64)
        )

    def add(self, piece: Loads) -> None:
        """Count one piece."""
        sets, trusted = self.problem.sets, self.problem.trusted
        owner = sets.owner[piece.set]
        if trusted is not None:
            judged = ~trusted[owner, piece.adversary]
            piece = Loads(
                piece.set[judged],
                piece.adversary[judged],
                piece.load[judged],
                piece.fresh[judged],
            )
            owner = owner[judged]
        full = sets.full[piece.set]
        self.complete += int(np.sum(piece.load >= full))
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
                value = value**2
            adversary = piece.adversary[order[one:stop]]
            np.add.at(self.sums[number, whole], adversary, value)

    def means(self, properties: tuple[int, ...], counted: Bools) -> list[Fraction]:
        """Mean of f over the counted sets of these properties, for each adversary."""
        sets, trusted = self.problem.sets, self.problem.trusted
        k = self.problem.n_adversaries
        per = np.bincount(sets.owner[counted], minlength=len(sets.properties))
        total = [Fraction(0)] * k
        for (number, whole), sums in self.sums.items():
            if number not in properties:
                continue
            scale = whole ** int(sets.measures[number])
            for a in np.flatnonzero(sums).tolist():
                total[a] += Fraction(int(sums[a]), scale)
        out = []
        for a in range(k):
            size = sum(
                int(per[p]) for p in properties if trusted is None or not trusted[p, a]
            )
            out.append(total[a] / size if size else Fraction(0))
        return out


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
    for piece in loads(problem.sets, plan, problem.history):
        tally.add(piece)
    utility = int(np.sum(problem.weights.of(plan.entry, plan.adversary)))
    u = utility * problem.weights.unit
    every = tuple(range(len(problem.sets.properties)))
    whole = np.ones(problem.sets.n_sets, np.bool_)
    f_average = max(tally.means(every, whole), default=Fraction(0))
    goal = problem.goal
    objective = u
    if goal.objective is Objective.TRADEOFF:
        f = f_average if goal.average else tally.worst
        objective = u + goal.lambda_ * (goal.tau - f)
    return Judgement(
        utility=utility,
        u=u,
        f=tally.worst,
        where=tally.where,
        by_property=tuple(tally.by_property),
        f_average=f_average,
        objective=objective,
        complete=tally.complete,
        past=tally.past,
        crossed=tuple(tally.crossed),
        violations=tuple(_violations(problem, plan, tally)),
    )


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
        f"{sets.properties[int(sets.owner[c.set])]}: adversary {c.adversary} has load "
        f"{c.load} on set {c.set}, allowed {c.cap}"
        for c in tally.crossed
    ]
    yield from _told(lines, tally.n_crossed, "limits crossed")
    yield from _means(problem, tally)


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
        means = tally.means(cap.properties, counted)
        lines = [
            f"adversary {a} has a mean disclosure of {mean}, allowed {cap.limit}"
            for a, mean in enumerate(means)
            if mean > cap.limit
        ]
        yield from _told(lines[:SHOWN], len(lines), "averages past their cap")
