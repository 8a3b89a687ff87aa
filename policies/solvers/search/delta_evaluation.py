"""Incremental gains of one problem: the board that all greedy searches share.

The gain of a pair costs O(sets of the entry), whatever the function: step, linear,
quadratic, classes, cosine or common, worst or average, with history, trust, coalitions
and limits. From :data:`policies.solvers.kernels.compiling.FROM` pairs the kernels are
compiled; below it the very same functions run as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from policies.model.coalitions import membership
from policies.model.disclosure import reachable
from policies.model.links import LinkMeasure, Links
from policies.model.problem import Average, Pairs, Plan, Problem
from policies.model.problem_arrays import Tables, grid_of, plan_of, tables
from policies.model.sets import Bools, Ints
from policies.solvers.kernels import changes as kernels
from policies.solvers.kernels import folds as kernels_folds
from policies.solvers.kernels import pick_next_best as kernels_global
from policies.solvers.kernels import search as kernels_search
from policies.solvers.kernels import tape
from policies.solvers.kernels.compiling import FROM, compiled
from policies.solvers.kernels.tape import Floats, Tape
from policies.solvers.search.aggregate_deltas import with_aggregate

_PARTS: Final = (kernels, kernels_folds, kernels_search, kernels_global)


@cache
def fast() -> Mapping[str, Any]:
    """Compile the kernels, once."""
    spaces = tuple(vars(part) for part in _PARTS)
    names = tuple(name for part in _PARTS for name in part.NAMES)
    return compiled(spaces, names, (*kernels_search.DOORS, *kernels_global.DOORS))


PLAIN: Final[Mapping[str, Any]] = MappingProxyType(
    {name: vars(part)[name] for part in _PARTS for name in part.NAMES}
)


class Gains:
    """A plan under construction, with its gains.

    Parameters
    ----------
    problem : Problem
    paper : bool
        Whether to keep to the paper's objective G = u + lambda (tau - f) - C alone: no
        limit is a wall, only allowed pairs, copies and capacities are.
    quick : bool or None
        Whether kernels are compiled; None: by size.
    every : bool
        Whether gains of all pairs are remembered (global constructions).

    Attributes
    ----------
    n, k : int
        Entries and adversaries.
    rows : float
        Mean number of member rows of an entry, and one more, times the hands that see
        it: the cost of a gain.
    around : float
        Mean cost of looking again at all who share a set with an entry.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        paper: bool = False,
        quick: bool | None = None,
        every: bool = False,
    ) -> None:
        self.problem, self.paper = problem, paper
        self.n, self.k = problem.n_entries, problem.n_adversaries
        layout = tables(problem)
        size = (len(layout.entry) + self.n) * len(layout.seen)
        sights = len(layout.seen) / max(1, self.k) or 1.0  # hands that see one's gain
        self.quick = size >= FROM if quick is None else quick
        self._kernels = fast() if self.quick else PLAIN
        self.tape, incidence = _tape(problem, layout, paper, every, not self.quick)
        self.rows, self.around = (cost * sights for cost in incidence.cost(self.n))
        hands = layout.seen
        for d, a in _listed(problem.history):
            for hand in hands[layout.seen_start[a] : layout.seen_start[a + 1]].tolist():
                self.run("hold", d, hand, 1)
        self.run("settle")
        self.tape.keep()

    def run(self, name: str, *rest: Any) -> Any:  # noqa: ANN401 - as the kernel's
        """Run a kernel on the tapes."""
        return self._kernels[name](self.tape.z, self.tape.r, *rest)

    def memo(self, width: int) -> tuple[Floats, Floats, Floats]:
        """Return scratch for ``pick``, in its order; nothing is known yet."""
        k = self.k
        return np.zeros((k, width, 4)), np.full((k, 3), -1.0), np.zeros((width, 4))

    def prepare(self) -> None:
        """Look at every pair of the plan as it is, before picks are made."""
        worth = self.tape.read(tape.WORTH)
        for a in range(self.k):
            order = np.argsort(-worth[:, a], kind="stable")
            for sweep in (0, self.k):
                self.tape.write(tape.ORDER, order, (sweep + a) * self.n)
        self.run("prepare")

    def reset(self) -> None:
        """Go back to the empty plan."""
        self.tape.reset()

    def load(self, plan: Pairs) -> None:
        """Start from a plan; nothing is checked."""
        self.reset()
        for d, a in _listed(plan):
            self.run("give", d, a, 1)

    def plan(self) -> Plan:
        """Return the plan as it is."""
        return plan_of(self.tape.read(tape.CHOSEN).astype(np.bool_))

    @property
    def objective(self) -> float:
        """U - lambda f, without the constant lambda tau."""
        r = self.tape.r
        return float(r[tape.U] - r[tape.LAMBDA] * r[tape.F])

    @property
    def missing(self) -> int:
        """Copies owed and not planned."""
        return int(self.tape.r[tape.MISSING])

    @property
    def whole(self) -> int:
        """(unit, hand) with f = 1; cosines do not count."""
        return int(self.tape.r[tape.WHOLE])

    @property
    def key(self) -> tuple[float, ...]:
        """What plans are compared by, lower is better.

        Mode safe: copies missing, complete sets, then the objective. Mode paper: -G.
        """
        if self.paper:
            return (self.missing - self.objective,)
        return (self.missing, self.whole, -self.objective)


def _listed(pairs: Pairs) -> Iterator[tuple[int, int]]:
    return zip(pairs.entry.tolist(), pairs.adversary.tolist(), strict=True)


def _tape(
    problem: Problem, t: Tables, paper: bool, every: bool, listed: bool
) -> tuple[Tape, _Rows]:
    """Lay out the counters of an empty plan."""
    n, k, h, m = problem.n_entries, problem.n_adversaries, t.n_observers, len(t.cap)
    lambda_ = t.lambda_ if t.tradeoff or paper else 0.0
    links = _links(problem, lambda_, paper)
    rows = _Rows(t, links, n)
    units = m + rows.n_links
    counted = np.ones(units, np.bool_)
    counted[:m] = problem.links is None
    judged = np.pad(t.judged, ((0, rows.n_links), (0, 0)), constant_values=True)
    weight, limit = _no_means(units, h) if paper else _means(problem, t, units)
    tau = np.inf
    if links is not None and links.tau is not None and not paper:
        tau = float(links.tau)
    careful = len(weight) > 0 or tau < np.inf
    capped = not paper and (careful or bool((t.cap < _top(t)).any()))
    falling = links is not None and links.relation is LinkMeasure.COSINE and lambda_ > 0
    trial = h > k if t.average else falling
    mode = tape.BY_TRIAL if trial else tape.BY_MEAN if t.average else tape.BY_WORST
    words = {
        tape.N: n,
        tape.K: k,
        tape.H: h,
        tape.Q: units,
        tape.CAPS: len(weight),
        tape.MODE: mode,
        tape.AVERAGE: int(t.average),
        tape.PAPER: int(paper),
        tape.CAPPED: int(capped),
        tape.CAREFUL: int(careful),
        tape.FALLING: int(falling),
    }
    reals = {
        tape.MISSING: float(t.lo.sum()),
        tape.LAMBDA: lambda_,
        tape.TAU: tau,
    }
    able = _permitted(problem) if paper else t.able
    fields = _counters(n, k, h, units, rows.n_slots, len(weight)) | {
        tape.WEIGHT: weight,
        tape.LIMIT: limit,
        tape.OVER: _over(problem, t, links),
        tape.WORTH: t.worth,
        tape.ROW_START: rows.start,
        tape.ROW_UNIT: rows.unit,
        tape.ROW_AMOUNT: rows.amount,
        tape.ROW_SLOT: rows.slot,
        tape.ROW_MATE: rows.mate,
        tape.MASS: _blank((n,)) if links is None else links.rough,
        tape.UNIT_START: rows.unit_start,
        tape.UNIT_ENTRY: rows.unit_entry,
        tape.UNIT_AMOUNT: rows.unit_amount,
        tape.KIND: rows.kind(t, links),
        tape.FULL: np.concatenate([t.full, 2 * np.arange(rows.n_links)]),
        tape.CAP: np.concatenate([t.cap, np.zeros(rows.n_links, np.int64)]),
        tape.COUNTED: counted,
        tape.JUDGED: judged,
        tape.SEEN_START: t.seen_start,
        tape.SEEN: t.seen,
        tape.ABLE: able,
        tape.LO: t.lo,
        tape.HI: t.hi,
        tape.ROOM: t.room,
    }
    if every:
        fields |= _every(problem, t.worth)
    with_aggregate(problem, rows.n_links, words, reals, fields)
    return Tape(words, reals, fields, listed=listed), rows


def _counters(
    n: int, k: int, h: int, units: int, slots: int, caps: int
) -> dict[int, Any]:
    """Fields that change with the plan, all zero."""
    shape: dict[int, tuple[int, ...]] = {
        tape.CHOSEN: (n, k),
        tape.DEGREE: (n,),
        tape.GIVEN: (k,),
        tape.COPIES: (n, h),
        tape.LOAD: (units, h),
        tape.PART: (slots, h),
        tape.ATTAIN: (h,),
        tape.OTHER: (k,),
        tape.LEVEL: (h,),
        tape.MEAN: (caps, h),
        tape.SAVED: (2, h),
    }
    return {field: _blank(size) for field, size in shape.items()}


def _blank(shape: tuple[int, ...]) -> Ints:
    """Return zeros of a shape that take no memory."""
    return np.broadcast_to(np.int64(0), shape)


def _every(problem: Problem, worth: Floats) -> dict[int, Any]:
    """Fields of global constructions."""
    n, k = worth.shape
    members = membership(problem.groups, k).astype(np.int64)
    one, other = np.nonzero(members.T @ members)
    return {
        tape.OPEN: _blank((n, k)),
        tape.ORDER: _blank((2, k, n)),
        tape.HEAD: _blank((2, k)),
        tape.STAMP: _blank((n,)),
        tape.NEAR_START: np.searchsorted(one, np.arange(k + 1)),
        tape.NEAR: other,
        tape.VALUE: _blank((n, k)),
        tape.WHOLES: _blank((n, k)),
    }


def _top(t: Tables) -> Ints:
    """Load of each set once everything is held, or more."""
    top = np.zeros(len(t.cap), np.int64)
    np.add.at(top, t.set_of, np.where(t.classes[t.set_of], 1, t.amount))
    return top


def _over(problem: Problem, t: Tables, links: Links | None) -> Floats:
    """What each hand's sum of f is divided by: the sets on which it is judged."""
    size = t.judged.sum(axis=0)
    if links is not None:
        size = np.full(t.n_observers, links.n_links)
    if problem.goal.over:
        size = np.full(t.n_observers, problem.goal.over)
    return np.asarray(np.maximum(size, 1), np.float64)


def _permitted(problem: Problem) -> Bools:
    """Pairs that are wanted and not forbidden."""
    may = np.repeat((problem.hi > 0)[:, None], problem.n_adversaries, axis=1)
    return may & ~grid_of(problem, problem.forbidden)


def _links(problem: Problem, lambda_: float, paper: bool) -> Links | None:
    """Return the links, if they count for anything."""
    links = problem.links
    if links is None:
        return None
    return links if lambda_ > 0 or (links.limited and not paper) else None


class _Rows:
    """Incidence of entries and units, both ways."""

    def __init__(self, t: Tables, links: Links | None, n: int) -> None:
        m = len(t.cap)
        self.n_links = 0 if links is None else links.n_links
        classed = t.classes[t.set_of]
        slot, n_classes = _class_slots(t.set_of, t.amount, classed)
        slot[classed] += 2 * self.n_links
        self.n_slots = n_classes + 2 * self.n_links
        entry, unit, amount = t.entry, t.set_of, t.amount
        mate = np.full(len(entry), -1, np.int64)
        if links is not None:
            entry = np.concatenate([entry, links.entry])
            unit = np.concatenate([unit, m + links.link])
            amount = np.concatenate([amount, links.rough[links.entry]])
            slot = np.concatenate([slot, 2 * links.link + links.side])
            mate = np.concatenate([mate, _mates(links)])
        order = np.lexsort((unit, entry))
        start = np.searchsorted(entry[order], np.arange(n + 1)).astype(np.int64)
        self.start = start
        self.unit, self.amount = unit[order], amount[order]
        self.slot, self.mate = slot[order], mate[order]
        by_unit = np.argsort(unit, kind="stable")
        self.unit_entry, self.unit_amount = entry[by_unit], amount[by_unit]
        bounds = np.arange(m + self.n_links + 1)
        self.unit_start = np.searchsorted(unit[by_unit], bounds).astype(np.int64)

    def cost(self, n: int) -> tuple[float, float]:
        """Rows of an entry; rows of all who share a unit with it."""
        rows = 1.0 + len(self.unit) / max(1, n)
        size = np.diff(self.unit_start).astype(np.float64)
        near = min(float((size * size).sum()) / max(1, n), float(n))
        return rows, 1.0 + near * rows

    def kind(self, t: Tables, links: Links | None) -> Ints:
        """Kind of each unit."""
        sets = np.where(t.classes, tape.CLASSES, t.measure)
        cosine = links is not None and links.relation is LinkMeasure.COSINE
        last = np.full(self.n_links, tape.COSINE if cosine else tape.COMMON, np.int64)
        return np.concatenate([sets, last])


def _class_slots(set_of: Ints, number: Ints, classed: Bools) -> tuple[Ints, int]:
    """Number the classes of all sets; rows of other sets get 0."""
    slot = np.zeros(len(set_of), np.int64)
    if not classed.any():
        return slot, 0
    width = int(number[classed].max()) + 1
    key = set_of[classed] * width + number[classed]
    found, slot[classed] = np.unique(key, return_inverse=True)
    return slot, len(found)


def _mates(links: Links) -> Ints:
    """For each member row, the entry at the same place at the other end, or -1."""
    mate = np.full(len(links.entry), -1, np.int64)
    spot = links.place[links.entry]
    order = np.lexsort((links.side, spot, links.link))
    met = np.diff(links.link[order]) == 0
    met &= np.diff(spot[order]) == 0
    one, two = order[:-1][met], order[1:][met]
    mate[one], mate[two] = links.entry[two], links.entry[one]
    return mate


def _no_means(units: int, hands: int) -> tuple[Any, Any]:
    return np.zeros((0, units)), np.zeros((0, hands))


def _means(problem: Problem, t: Tables, units: int) -> tuple[Any, Any]:
    """Caps on means: weight of each unit, and the limit of each hand's sum."""
    counted = reachable(problem.sets)
    lines = []
    for cap in problem.averages:
        if cap.aggregate is not None:
            continue
        inside = np.isin(problem.sets.owner, cap.properties) & counted
        size = (t.judged & inside[:, None]).sum(axis=0)
        lines.append((np.flatnonzero(inside), size, cap))
    links = problem.links
    if links is not None and links.mean_tau is not None:
        cap = Average((), links.mean_tau, strict=True, over=problem.goal.over)
        size = np.full(t.n_observers, max(1, links.n_links))
        lines.append((np.arange(len(t.cap), units), size, cap))
    weight, limit = _no_means(units, t.n_observers)
    weight, limit = (np.zeros((len(lines), a.shape[1])) for a in (weight, limit))
    for i, (rows, size, cap) in enumerate(lines):
        weight[i, rows] = 1.0
        edge = float(cap.limit) * (
            np.full(t.n_observers, cap.over) if cap.over else size
        )
        limit[i] = edge + (-1e-12 if cap.strict else 1e-12)
    return weight, limit
