"""Incremental gains: the plan state that all greedy searches share.

The gain of a pair costs O(sets of the entry) for every function: step, power, classes,
cosine or common, worst or average, with history, trust, coalitions and limits. From
:data:`policies.solvers.kernels.compiling.FROM` pairs on, the kernels are compiled;
below, the same functions run uncompiled.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from policies.model.aggregates import Aggregate, Shape
from policies.model.disclosure import reachable
from policies.model.links import LinkMeasure, Links
from policies.model.problem import Average, Pairs, Plan, Problem
from policies.model.problem_arrays import Tables, grid_of, plan_of, tables
from policies.model.sets import Bools, Ints
from policies.solvers.kernels import plan_state as columns
from policies.solvers.kernels.compiling import FROM, kernels, ready, views
from policies.solvers.kernels.plan_state import Candidates, State

Floats = npt.NDArray[np.float64]

NOBODY_NEAR: Final = np.empty((2, 0), np.int64)
"""Used where pairs of adversaries who share an observer are not needed."""

_CLOSE: Final = 1e-12  # rounding error of floats, relative to a limit and to 1


class Gains:
    """A plan under construction, and the gains of pairs.

    Parameters
    ----------
    problem : Problem
    paper : bool
        Whether to use only the paper's objective G = u + lambda (tau - f) - C: no limit
        bars a pair; only allowed pairs, copies and capacities are enforced.
    quick : bool or None
        Whether to compile kernels; None: by size.
    every : bool
        Whether to remember the gains of all pairs (global constructions).

    Attributes
    ----------
    n, k : int
        Entries and adversaries.
    size : int
        Number of pairs examined in a sweep.
    rows : float
        Mean number of member rows of an entry, plus one, times the observers who see
        it: the cost of a gain.
    around : float
        Mean cost of re-examining all entries that share a set with an entry.
    picked : float
        Mean cost of what a pick makes necessary to re-examine: all pairs, if one may
        change the value of any other.
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
        self.size = (len(layout.entry) + self.n) * len(layout.seen)
        sights = len(layout.seen) / max(1, self.k) or 1.0  # observers who see a gain
        near = _near(problem) if every else NOBODY_NEAR
        self.state, incidence = plan_arrays(problem, layout, near, paper=paper)
        self.rows, self.around = (cost * sights for cost in incidence.cost(self.n))
        every_pair = self.state.careful or self.state.mode == columns.BY_TRIAL
        self.picked = self.rows * self.n * self.k if every_pair else self.around
        self.quick = quick = self.size >= FROM if quick is None else quick
        self._kernels = kernels("search", quick=quick)
        self._given = self.state if quick else views(self.state)
        self._hold(problem.history)
        self._kept = [one.copy() for one in self._changing()]
        self._near = near[1]
        self.candidates = self._none_known(0)
        self._ranked: Any = None

    def _changing(self) -> tuple[npt.NDArray[Any], ...]:
        """Return the arrays that change with the plan."""
        s = self.state
        counts = (s.chosen, s.copies, s.load, s.f, s.part, s.other, s.total)
        return (*counts, s.entry, s.unit, s.adversary, s.observer, s.mean)

    def run(self, name: str, *rest: Any) -> Any:  # noqa: ANN401 - as the kernel's
        """Run a kernel on the plan."""
        return self._kernels[name](self._given, *rest)

    def _hold(self, history: Pairs) -> None:
        """Count history for disclosure, but not as part of the plan."""
        s, missing = self.state, self.missing
        self.give(history, 1)
        s.chosen[...] = False
        s.entry[:, columns.DEGREE] = 0
        s.adversary[:, columns.GIVEN] = 0
        s.total[columns.U], s.total[columns.MISSING] = 0.0, missing

    def give(self, pairs: Pairs, sign: int) -> None:
        """Plan pairs (sign 1) or take them back (-1), unchecked."""
        both = (pairs.entry, pairs.adversary)
        one, other = (np.require(x, np.int64, ["C", "W"]) for x in both)
        self.run("give_pairs", one, other, sign)

    def assign(self, order: Ints, draws: Floats, best: Floats) -> int:
        """Give each entry an adversary drawn from the next best; return the number."""
        if self._ranked is None:
            ranked = np.argsort(-self.state.worth, axis=1, kind="stable")
            self._ranked = ranked if self.quick else ranked.data
        free = np.empty(0, np.int64)
        return int(self.run("assign", order, draws, best, self._ranked, free))

    def deal(self, order: Ints, ranked: Ints, most: Ints) -> None:
        """Give each entry to the first adversaries of its row that may have it.

        Parameters
        ----------
        order : int64 array, shape (entries,)
        ranked : int64 array, shape (n, k)
        most : int64 array, shape (n,)
            Number of copies that each gets at most.
        """
        if self.k:
            most = np.require(most, requirements=["C", "W"])
            self.run("assign", order, np.empty(0), np.empty((0, 4)), ranked, most)

    def search(self, name: str, *rest: Any) -> Any:  # noqa: ANN401 - as the kernel's
        """Run a kernel on the plan and on the remembered gains."""
        return self._kernels[name](self._given, self._remembered, *rest)

    def prepare(self, width: int) -> Floats:
        """Evaluate every pair for the present plan, before picks are made.

        Returns
        -------
        float64 array, shape (width, 4)
            Scratch for the best pairs (p, q, g, id).
        """
        self.state.entry[:, columns.STAMP] = -1
        self.candidates = c = self._none_known(width)
        c.order[:] = np.argsort(-self.state.worth.T, axis=1, kind="stable")
        self._remembered = c if self.quick else views(c)
        best = np.zeros((width, 4))
        self.search("construct", np.empty(0), best, -1, 0)
        return best

    def _none_known(self, width: int) -> Candidates:
        """Return empty memory for pairs, of which so many are best."""
        n, k = (self.n, self.k) if width else (0, 0)
        return Candidates(
            open=np.zeros((n, k), np.bool_),
            value=np.zeros((n, k)),
            whole=np.zeros((n, k)),
            order=np.zeros((2, k, n), np.int64),
            head=np.zeros((2, k), np.int64),
            near=self._near,
            queue=np.zeros(n, np.int64),
            memo=np.zeros((k, width, 4)),
            known=np.full((k, 3), -1.0),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays of the search."""
        every = (*self.state, *self.candidates, *self._kept)
        return sum(one.nbytes for one in every if isinstance(one, np.ndarray))

    def reset(self) -> None:
        """Return to the empty plan."""
        for one, kept in zip(self._changing(), self._kept, strict=True):
            one[...] = kept

    def load(self, plan: Pairs) -> None:
        """Start from a plan, unchecked."""
        self.reset()
        self.give(plan, 1)

    def plan(self) -> Plan:
        """Return the present plan."""
        return plan_of(self.state.chosen)

    @property
    def objective(self) -> float:
        """Return u - lambda f, without the constant lambda tau."""
        total = self.state.total
        return float(total[columns.U] - self.state.lambda_ * total[columns.F])

    @property
    def missing(self) -> int:
        """Number of copies owed and not planned."""
        return int(self.state.total[columns.MISSING])

    @property
    def whole(self) -> int:
        """Number of (unit, observer) with f = 1, cosines excluded."""
        return int(self.state.total[columns.WHOLE])

    @property
    def key(self) -> tuple[float, ...]:
        """The key by which plans are compared; lower is better.

        Mode safe: copies missing, complete sets, then the objective. Mode paper: -G.
        """
        if self.paper:
            return (self.missing - self.objective,)
        return (self.missing, self.whole, -self.objective)


def plan_arrays(
    problem: Problem, t: Tables, near: Ints, *, paper: bool = False
) -> tuple[State, Incidence]:
    """Return the arrays of an empty plan.

    Parameters
    ----------
    problem : Problem
    t : Tables
        Tables of the problem, perhaps of some of its observers alone.
    near : int64 array, shape (2, pairs)
        Adversaries who share an observer, by the first.
    paper : bool
        See :class:`Gains`.
    """
    n, k, h, m = problem.n_entries, problem.n_adversaries, t.n_observers, len(t.cap)
    lambda_ = t.lambda_ if t.tradeoff or paper else 0.0
    links = _links(problem, lambda_, paper)
    rows = Incidence(t, links, n)
    units = m + rows.n_links
    judged = np.pad(t.judged, ((0, rows.n_links), (0, 0)), constant_values=True)
    weight, limit = _no_means(units, h) if paper else _means(problem, t, units)
    tau = np.inf
    if links is not None and links.tau is not None and not paper:
        tau = float(links.tau)
    careful = len(weight) > 0 or tau < np.inf
    capped = not paper and (careful or bool((t.cap < _top(t)).any()))
    falling = links is not None and links.relation is LinkMeasure.COSINE and lambda_ > 0
    trial = h > k if t.average else falling
    by_trial, by_mean, by_worst = columns.BY_TRIAL, columns.BY_MEAN, columns.BY_WORST
    total = np.zeros(columns.TOTALS)
    total[columns.MISSING] = float(t.lo.sum())
    adversary = np.zeros((k + 1, columns.ADVERSARY_COLUMNS), np.int64)
    adversary[:k, columns.ROOM] = t.room
    adversary[:, columns.SEEN] = t.seen_start
    adversary[:, columns.NEAR] = np.searchsorted(near[0], np.arange(k + 1))
    observer = np.zeros((h, columns.OBSERVER_COLUMNS))
    observer[:, columns.DIVISOR] = _over(problem, t, links)
    entry = np.zeros((n + 1, columns.ENTRY_COLUMNS), np.int64)
    entry[:n, columns.LO], entry[:n, columns.HI] = t.lo, t.hi
    entry[:, columns.ROWS] = rows.start
    if links is not None:
        entry[:n, columns.MASS] = links.rough
    unit = rows.units(t, links)
    unit[:m, columns.COUNTED] = problem.links is None
    at_once = (unit[:-1, columns.FULL] <= 0) & (
        unit[:-1, columns.KIND] > columns.COSINE
    )
    state = State(
        chosen=np.zeros((n, k), np.bool_),
        copies=np.zeros((n, h), np.int64),
        load=np.zeros((units, h), np.int64),
        f=np.repeat(at_once[:, None].astype(np.float64), h, axis=1),
        part=np.zeros((rows.n_slots, h), np.int64),
        other=np.zeros(k),
        total=total,
        entry=entry,
        row=rows.row,
        unit=unit,
        member=rows.member,
        adversary=adversary,
        observer=observer,
        mean=np.stack([np.zeros_like(limit), limit]),
        weight=np.concatenate([weight, np.zeros((1, units))]),
        worth=t.worth,
        able=_permitted(problem) if paper else t.able,
        judged=judged,
        seen=t.seen,
        mode=by_trial if trial else by_mean if t.average else by_worst,
        aggregate=columns.NO_AGGREGATE,
        root=0,
        average=t.average,
        paper=paper,
        capped=capped,
        careful=careful,
        falling=falling,
        summed=False,
        lambda_=lambda_,
        tau=tau,
        bar=0.0,
        ceiling=np.inf,
    )
    return ready(_with_aggregate(problem, rows.n_links, state)), rows


def _near(problem: Problem) -> Ints:
    """Pairs of adversaries who share an observer, by the first, shape (2, pairs)."""
    k = problem.n_adversaries
    groups = (np.array(group, np.int64) for group in problem.groups)
    pooled = [(one[:, None] * k + one).reshape(-1) for one in groups]
    pairs = [np.arange(k) * (k + 1), *pooled]
    return np.stack(np.divmod(np.unique(np.concatenate(pairs)), k))


def _top(t: Tables) -> Ints:
    """Return the load of each set once everything is held, or more."""
    top = np.zeros(len(t.cap), np.int64)
    np.add.at(top, t.set_of, np.where(t.classes[t.set_of], 1, t.amount))
    return top


def _over(problem: Problem, t: Tables, links: Links | None) -> Floats:
    """Return the divisor of each observer's mean: the number of sets judged for it."""
    size = t.judged.sum(axis=0)
    if links is not None:
        size = np.full(t.n_observers, links.n_links)
    if problem.goal.over:
        size = np.full(t.n_observers, problem.goal.over)
    return np.asarray(np.maximum(size, 1), np.float64)


def _permitted(problem: Problem) -> Bools:
    """Mask of the pairs that are wanted and not forbidden."""
    may = np.repeat((problem.hi > 0)[:, None], problem.n_adversaries, axis=1)
    return may & ~grid_of(problem, problem.forbidden)


def _links(problem: Problem, lambda_: float, paper: bool) -> Links | None:
    """Return the links, if they count for anything."""
    links = problem.links
    if links is None:
        return None
    return links if lambda_ > 0 or (links.limited and not paper) else None


class Incidence:
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
        self.start = np.searchsorted(entry[order], np.arange(n + 1))
        self.row = np.stack([unit, amount, slot, mate], axis=1)[order]
        by_unit = np.argsort(unit, kind="stable")
        self.member = np.stack([entry, amount], axis=1)[by_unit]
        bounds = np.arange(m + self.n_links + 1)
        self.members = np.searchsorted(unit[by_unit], bounds)

    def cost(self, n: int) -> tuple[float, float]:
        """Return the rows of an entry, and those of all that share a unit with it."""
        rows = 1.0 + len(self.row) / max(1, n)
        size = np.diff(self.members).astype(np.float64)
        near = min(float((size * size).sum()) / max(1, n), float(n))
        return rows, 1.0 + near * rows

    def units(self, t: Tables, links: Links | None) -> Ints:
        """Return the table of units, and one more row for the end of the last members."""
        m = len(t.cap)
        table = np.zeros((m + self.n_links + 1, columns.UNIT_COLUMNS), np.int64)
        table[:, columns.MEMBERS] = self.members
        table[:, columns.COUNTED] = 1
        cosine = links is not None and links.relation is LinkMeasure.COSINE
        table[m:, columns.KIND] = columns.COSINE if cosine else columns.COMMON
        table[m:, columns.FULL] = 2 * np.arange(self.n_links + 1)
        table[:m, columns.KIND] = np.where(t.classes, columns.CLASSES, t.power)
        table[:m, columns.FULL] = t.full
        table[:m, columns.CAP] = t.cap
        return table


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
    """Return for each member row the entry at the same place at the other end, or -1."""
    mate = np.full(len(links.entry), -1, np.int64)
    spot = links.place[links.entry]
    order = np.lexsort((links.side, spot, links.link))
    met = np.diff(links.link[order]) == 0
    met &= np.diff(spot[order]) == 0
    one, two = order[:-1][met], order[1:][met]
    mate[one], mate[two] = links.entry[two], links.entry[one]
    return mate


def _no_means(units: int, observers: int) -> tuple[Any, Any]:
    return np.zeros((0, units)), np.zeros((0, observers))


def _means(problem: Problem, t: Tables, units: int) -> tuple[Any, Any]:
    """Return caps on means: weight of each unit, and the limit of each observer's sum."""
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


def _with_aggregate(problem: Problem, n_links: int, state: State) -> State:
    """Return a state with the aggregate of the problem, if it has one.

    Gains are then found by trying: a pair may change the value of all observers
    together.

    Parameters
    ----------
    problem : Problem
    n_links : int
        Links among the units, after the sets.
    state : State
    """
    how = problem.aggregate
    if how is None:
        return state
    owner = problem.sets.owner * int(problem.links is None)  # else they only limit
    owner = np.concatenate([owner, np.arange(n_links)])
    weights = np.array([float(w) for w in how.weights])
    state.weight[-1] = weights[owner] if how.weights else 1.0
    state.observer[:, columns.DIVISOR] = float(how.divisor)
    state = state._replace(
        aggregate=_aggregate_kind(how),
        summed=bool(how.summed or how.shared),
        root=how.q,
        average=how.shape is not Shape.WORST,
        mode=columns.BY_TRIAL,
        bar=float(how.level),
    )
    limits = [] if state.paper else _aggregate_limits(problem)
    if limits:
        state = state._replace(ceiling=min(limits), careful=True, capped=True)
    return state


def _aggregate_kind(how: Aggregate) -> int:
    if how.shape is Shape.COUNT:
        return columns.COUNTING_ONCE if how.shared else columns.COUNTING
    return columns.POWERED if how.shape is Shape.SOFT_MAX else columns.SCALED


def _aggregate_limits(problem: Problem) -> list[float]:
    """Return the upper bound of the aggregate for each cap on it."""
    caps = [(c.limit, c.strict) for c in problem.averages if c.aggregate is not None]
    links = problem.links
    if links is not None and links.aggregate_tau is not None:
        caps.append((links.aggregate_tau, True))
    room = [_CLOSE * max(1.0, abs(float(limit))) for limit, _ in caps]
    return [
        float(limit) + (-close if strict else close)
        for (limit, strict), close in zip(caps, room, strict=True)
    ]
