"""A problem as a CP-SAT model: one 0-1 variable a pair, one row a set and hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from policies.model.problem import Problem
from policies.model.problem_arrays import able
from policies.model.sets import NO_CAP, Bools, Ints
from policies.solvers.coloring import coloured, level
from policies.solvers.exact.cpsat_sums import Sums
from policies.solvers.interfaces import never


@dataclass(frozen=True, eq=False)
class CpModel:
    """The model, its pair variables, and the guards of its sets if it has any.

    ``withheld`` has a variable for each entry that may be withheld. ``ruled``:
    whether rules alone lead from choice to choice, and no relaxation is needed.
    """

    model: Any
    pairs: list[tuple[int, int]]
    variables: list[Any]
    guards: list[Any]
    withheld: dict[int, Any] = field(default_factory=dict)
    ruled: bool = False


def build(
    problem: Problem,
    *,
    guarded: bool = False,
    prices: Ints | None = None,
    may: Bools | None = None,
    sums: bool = False,
    over: Callable[[], bool] = never,
) -> CpModel | None:
    """Make the model; None where an entry cannot even be given its copies.

    With ``prices``, entries that have one may be withheld: given to nobody. ``may``,
    shape (entries, adversaries), tells which pairs there are; None: those that cross no
    limit by themselves. ``sums``: whether caps on means and aggregates are rows too.
    Rows of limits that are not made once time is ``over`` are left out: the model then
    says too little, never too much.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    may = able(problem) if may is None else may
    grid: list[dict[int, Any]] = []
    pairs: list[tuple[int, int]] = []
    variables: list[Any] = []
    withheld: dict[int, Any] = {}
    for d in range(problem.n_entries):
        row = {a: model.new_bool_var("") for a in np.flatnonzero(may[d]).tolist()}
        lo, hi = int(problem.lo[d]), int(problem.hi[d])
        if prices is not None and lo and int(prices[d]):
            mark = withheld[d] = model.new_bool_var("")
            model.add(sum(row.values()) + lo * mark >= lo)
            model.add(sum(row.values()) + hi * mark <= hi)
        elif len(row) < lo:
            return None
        elif row:
            model.add_linear_constraint(sum(row.values()), lo, hi)
        grid.append(row)
        pairs.extend((d, a) for a in row)
        variables.extend(row.values())
    if problem.capacity is not None:
        _capacities(problem, model, grid)
    guards = None
    if guarded:
        guards = [model.new_bool_var("") for _ in range(problem.sets.n_sets)]
    held = _Held(problem, model, grid)
    _limit(held, guards, over)
    if sums:
        Sums(problem, model, held.load, over, coarse=prices is not None).add()
    even = _alike(problem) and level(problem)
    if not withheld and (guarded or not even):  # else the engine sees what is alike
        _order(problem, model, grid)
    ruled = coloured(problem) or even
    ruled = ruled and not withheld  # prices are for a relaxation to bound
    return CpModel(model, pairs, variables, guards or [], withheld, ruled)


def _capacities(
    problem: Problem,
    model: Any,  # noqa: ANN401
    grid: list[dict[int, Any]],
) -> None:
    """No adversary gets more than there is room for."""
    room = problem.room()
    for a in range(problem.n_adversaries):
        mine = [row[a] for row in grid if a in row]
        if len(mine) > int(room[a]):
            model.add(sum(mine) <= int(room[a]))


class _Held:
    """What hands hold: before, as numbers, and by the plan, as variables."""

    def __init__(
        self,
        problem: Problem,
        model: Any,  # noqa: ANN401
        grid: list[dict[int, Any]],
    ) -> None:
        self.problem, self.model = problem, model
        hands = [(a,) for a in range(problem.n_adversaries)] + list(problem.groups)
        self.before: list[set[int]] = [set() for _ in hands]
        past = problem.held(problem.history)
        for d, hand in zip(past.entry.tolist(), past.adversary.tolist(), strict=True):
            self.before[hand].add(d)
        self.seen = _Seen(model, grid, hands)

    def parts(
        self, one: int, hand: int
    ) -> tuple[list[tuple[int, int]], list[tuple[Any, int, int]]]:
        """Members of a set that are held, and those that may be, with their weights."""
        sets = self.problem.sets
        rows = slice(int(sets.start[one]), int(sets.start[one + 1]))
        members = list(
            zip(sets.entry[rows].tolist(), sets.amount[rows].tolist(), strict=True)
        )
        held = [(d, w) for d, w in members if d in self.before[hand]]
        return held, [(v, d, w) for d, w in members for v in self.seen(d, hand)]

    def load(self, one: int, hand: int, unit: Fraction) -> tuple[Any, int]:
        """Load of a hand on a set, and what it can come to at most.

        Weights are times a unit, rounded down; classes are counted as they are.
        """
        held, free = self.parts(one, hand)
        classed = bool(self.problem.sets.classes[one])
        base = _load(held, classed=classed)
        if classed:
            marks = _touched(self.model, free, {w for _, w in held})
            return base + sum(marks), base + len(marks)
        up, down = unit.numerator, unit.denominator
        base = base * up // down
        fresh = [(v, w * up // down) for v, d, w in free if d not in self.before[hand]]
        return base + sum(w * v for v, w in fresh), base + sum(w for _, w in fresh)


def _limit(what: _Held, guards: list[Any] | None, over: Callable[[], bool]) -> None:
    """One row a set and hand: load, history included, at most the cap.

    With ``guards``, a set's rows hold only where its guard does.
    """
    problem, model, sets = what.problem, what.model, what.problem.sets
    for one, hand in _capped(problem):
        if over():
            return
        cap, before = int(sets.cap[one]), what.before[hand]
        held, free = what.parts(one, hand)
        if problem.strict_history and _load(held, classed=sets.classes[one]) > cap:
            rules = [model.add_bool_or([])]
        elif sets.classes[one]:
            rules = _classes(model, free, {w for _, w in held}, cap)
        else:
            fresh = [(v, w) for v, d, w in free if d not in before]
            rules = _weighted(model, free, fresh, sum(w for _, w in held), cap)
        if guards is not None:
            for rule in rules:
                rule.only_enforce_if(guards[one])


def _capped(problem: Problem) -> Iterator[tuple[int, int]]:
    """Sets with a cap, and the hands that are judged by it."""
    sets, judged = problem.sets, problem.judged()
    hands = range(problem.n_adversaries + len(problem.groups))
    for one in np.flatnonzero(sets.cap < NO_CAP).tolist():
        mine = None if judged is None else judged[int(sets.owner[one])]
        yield from ((one, hand) for hand in hands if mine is None or mine[hand])


def _load(held: list[tuple[int, int]], *, classed: bool) -> int:
    """Load of what is held already."""
    return len({w for _, w in held}) if classed else sum(w for _, w in held)


class _Seen:
    """Variables that say whether a hand is given an entry, made when asked for."""

    def __init__(
        self,
        model: Any,  # noqa: ANN401
        grid: list[dict[int, Any]],
        hands: list[tuple[int, ...]],
    ) -> None:
        self.model, self.grid, self.hands = model, grid, hands
        self.known: dict[tuple[int, int], list[Any]] = {}

    def __call__(self, entry: int, hand: int) -> list[Any]:
        """Return the variable in a list; an empty list where it is never given."""
        row, who = self.grid[entry], self.hands[hand]
        if (entry, hand) not in self.known:
            given = [row[a] for a in who if a in row]
            if len(given) > 1:
                union = self.model.new_bool_var("")
                self.model.add_max_equality(union, given)
                given = [union]
            self.known[entry, hand] = given
        return self.known[entry, hand]


def _weighted(
    model: Any,  # noqa: ANN401
    free: list[tuple[Any, int, int]],
    fresh: list[tuple[Any, int]],
    held: int,
    cap: int,
) -> list[Any]:
    """Sum of weights at most the cap; nothing may be added once history is past it."""
    if held > cap:
        return [model.add(variable == 0) for variable, _, _ in free]
    if held + sum(w for _, w in fresh) > cap:
        return [model.add(sum(w * v for v, w in fresh) <= cap - held)]
    return []


def _classes(
    model: Any,  # noqa: ANN401
    free: list[tuple[Any, int, int]],
    held: set[int],
    cap: int,
) -> list[Any]:
    """Classes touched at most the cap."""
    if len(held) > cap:
        return [model.add(variable == 0) for variable, _, _ in free]
    if len({w for _, _, w in free} | held) <= cap:
        return []
    return [model.add(sum(_touched(model, free, held)) <= cap - len(held))]


def _touched(
    model: Any,  # noqa: ANN401
    free: list[tuple[Any, int, int]],
    held: set[int],
) -> list[Any]:
    """Whether each class that is not held yet is touched."""
    by_class: dict[int, list[Any]] = {}
    for variable, _, number in free:
        if number not in held:
            by_class.setdefault(number, []).append(variable)
    touched = []
    for _, variables in sorted(by_class.items()):
        mark = variables[0]
        if len(variables) > 1:
            mark = model.new_bool_var("")
            model.add_max_equality(mark, variables)
        touched.append(mark)
    return touched


def _alike(problem: Problem) -> bool:
    """Whether all adversaries are identical."""
    return (
        problem.capacity is None
        and problem.trusted is None
        and not problem.coalitions.groups  # any m of them are alike, these are not
        and not len(problem.history)
        and not len(problem.forbidden)
        and bool((problem.weights.factor == problem.weights.factor[:1]).all())
    )


def _order(problem: Problem, model: Any, grid: list[dict[int, Any]]) -> None:  # noqa: ANN401
    """Give the most wanted entry to the first adversaries if all are identical."""
    if not grid or not _alike(problem):
        return
    d = int(np.argmax(problem.lo))
    for a in range(int(problem.lo[d])):
        model.add(grid[d][a] == 1)
