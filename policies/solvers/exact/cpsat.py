"""CP-SAT: the linear model in integers, solved exactly.

All numbers are integers, so infeasibility is a proof and bounds are bounds of the
problem. Identical adversaries are ordered to break symmetry, but only where they are in
fact identical: any plan can be renamed so that the entry with the highest demand goes
to the first of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, floor, inf, lcm
from typing import Any, Final

import numpy as np

from policies.judging.judge import Judgement, judge
from policies.model.objective import Objective
from policies.model.problem import Pairs, Plan, Problem
from policies.model.sets import Bools, Ints
from policies.solvers.coloring import coloured, level
from policies.solvers.exact import linear_model
from policies.solvers.exact.linear_model import (
    Builder,
    Late,
    LinearRow,
    Power,
    Sum,
    Union,
)
from policies.solvers.interfaces import (
    Cause,
    Clash,
    Core,
    Limits,
    Solution,
    Verdict,
    never,
)
from policies.solvers.parallel_portfolio import late

_LARGEST = 200_000  # variables above which building the model takes seconds

LISTED: Final = 500
"""Loads up to which powers above the second are listed."""

GRID: Final = 36
"""Bits of the number for 1 on a coarser grid: leaves room for many sets."""

SQUARE: Final = 2  # the power that CP-SAT multiplies out by itself

_POLL = 0.05  # seconds between two checks of the stop flag


@dataclass(frozen=True, eq=False)
class CpModel:
    """The model, its pair variables, and the guards of its sets if it has any.

    ``withheld`` has a variable for each entry that may be withheld. ``ruled``: whether
    propagation alone finds plans, without the linear relaxation. ``eager``: whether a
    first plan matters more than a proof.
    """

    model: Any
    pairs: list[tuple[int, int]]
    variables: list[Any]
    guards: list[Any]
    withheld: dict[int, Any] = field(default_factory=dict)
    ruled: bool = False
    eager: bool = False


def build(
    problem: Problem,
    *,
    guarded: bool = False,
    prices: Ints | None = None,
    may: Bools | None = None,
    sums: bool = False,
    over: Callable[[], bool] = never,
) -> CpModel | None:
    """Write the linear model in integers; None if it is trivially infeasible.

    See :class:`policies.solvers.exact.linear_model.Builder`. ``sums``: whether caps on
    means and aggregates are rows too.

    Raises
    ------
    Late
        Once time is over.
    """
    made = Builder(problem, over, True, guarded, prices, may)
    made.build(averages=sums, disclosure=False)
    if made.impossible:
        return None
    writer = _Writer(made, over)
    columns = writer.columns
    alike = problem.n_entries > 0 and _alike(problem)
    even = alike and level(problem)
    if alike and not made.withheld and (guarded or not even):
        for c in made.column[np.argmax(problem.lo)][: problem.lo.max()].tolist():
            writer.model.add(columns[c] == 1)  # else the engine sees the symmetry
    owed = replace(problem, hi=problem.lo)  # further copies only add utility
    ruled = (coloured(owed) or even) and not made.withheld  # prices need a bound
    pairs = zip(made.entry.tolist(), made.adversary.tolist(), strict=True)
    return CpModel(
        writer.model,
        list(pairs),
        columns[: len(made.entry)],
        [columns[c] for c in made.guards],
        {d: columns[c] for d, c in made.withheld.items()},
        ruled,
    )


class _Writer:
    """Writes the rows of a linear model in integers.

    A column stands for an integer number of steps of its grid. A row is multiplied by
    the common denominator of its factors. If the numbers then exceed ``MOST``, factors
    and limit are divided and rounded down. As columns are at least 0, every solution of
    the row also satisfies the rounded one: it is a relaxation.
    """

    def __init__(self, made: Builder, over: Callable[[], bool]) -> None:
        from ortools.sat.python import cp_model

        self.model, self.sum = cp_model.CpModel(), cp_model.LinearExpr.weighted_sum
        self.grid, self.tops = list(made.grid), list[int]()
        self.columns: list[Any] = []
        powers = {row.column for row in made.rows if isinstance(row, Power)}
        for c, upper in enumerate(made.upper):
            top = 0 if c in powers else floor(Fraction(upper) / self.grid[c])
            self.tops.append(top)
            bit = top == 1
            one = (
                self.model.new_bool_var("")
                if bit
                else self.model.new_int_var(0, top, "")
            )
            self.columns.append(one)
        for row in made.rows:
            if over():
                raise Late
            if isinstance(row, Power):
                self._power(row)
            elif isinstance(row, Union):
                self._union(row)
            else:
                self._row(row)

    def _union(self, row: Union) -> None:
        """Add the union that a coalition holds, in half the rows of clauses."""
        parts = [self.columns[c] for c in row.of]
        self.model.add_max_equality(self.columns[row.column], parts)

    def _row(self, row: LinearRow) -> None:
        """Write a row."""
        first = row.parts[0] if row.parts else None
        if first is not None and len(row.parts) == 1 and self._step(first) == 1:
            most: float = inf
            if row.high != inf:
                most = floor(row.high - first.base)
            if not row.strict:
                self._add(first.columns.tolist(), first.amounts.tolist(), most, row)
                return
        columns = [c for part in row.parts for c in part.columns.tolist()]
        steps = [self._step(part) for part in row.parts]
        if row.defines >= 0:
            scale = 1 / self.grid[row.defines]
        else:
            scale = Fraction(lcm(*(step.denominator for step in steps)))
        factors: list[int] = []
        for part, step in zip(row.parts, steps, strict=True):
            by, amounts = step * scale, part.amounts.tolist()
            if by.denominator == 1:
                factors += [by.numerator * amount for amount in amounts]
            else:
                factors += [floor(by * amount) for amount in amounts]
        most = inf
        if row.high != inf:
            base = sum(part.unit * part.base for part in row.parts if part.base)
            edge = (Fraction(row.high) - base) * scale
            most = ceil(edge) - 1 if row.strict else floor(edge)
        self._add(columns, factors, most, row)

    def _step(self, part: Sum) -> Fraction:
        """Return the value of one step of a part's columns."""
        grid = self.grid[int(part.columns[0])] if len(part.columns) == 1 else 1
        return part.unit if grid == 1 else part.unit * grid  # fractions are slow

    def _add(
        self, columns: list[int], factors: list[int], most: float, row: LinearRow
    ) -> None:
        """Add a row of integers, unless it is always satisfied."""
        ends = [f * self.tops[c] for f, c in zip(factors, columns, strict=True)]
        top = sum(end for end in ends if end > 0)
        if row.low is None and top <= most:
            return
        largest = max(top, top - sum(ends))
        if largest > linear_model.MOST:
            step = -(-largest // linear_model.MOST)
            factors, most = [f // step for f in factors], most // step
        total = self.sum([self.columns[c] for c in columns], factors)
        if not columns:
            rule = self.model.add_bool_or([])
        elif row.low is None:
            rule = self.model.add(total <= int(most))
        elif most == inf:
            rule = self.model.add(total >= row.low)
        else:
            rule = self.model.add_linear_constraint(total, row.low, int(most))
        if row.guard >= 0:
            rule.only_enforce_if(self.columns[row.guard])

    def _power(self, row: Power) -> None:
        """Add a power as a product or a table of the load, on a coarser grid if needed."""
        full, power = row.full, row.power
        table = power > SQUARE
        if full**power > linear_model.MOST or (table and full > LISTED):
            fine = 2 ** (GRID // power)
            full = min(full, min(fine, LISTED) if table else fine)
        scale = Fraction(full, row.full)
        self.grid[row.column] = 1 / (scale**power * row.of)
        self.tops[row.column] = full**power
        load = self._load(row, scale, full)
        value = self.columns[row.column] = self.model.new_int_var(0, full**power, "")
        if power == 1:
            self.model.add(value == load)
        elif table:
            powers = [(at, at**power) for at in range(full + 1)]
            self.model.add_allowed_assignments([load, value], powers)
        else:
            self.model.add_multiplication_equality(value, [load, load])

    def _load(self, row: Power, scale: Fraction, full: int) -> Any:  # noqa: ANN401
        """Return a variable at or above a load on this grid."""
        part = row.load.times(scale)
        columns, step = part.columns.tolist(), self._step(part)
        if len(columns) == 1 and not part.base and step * int(part.amounts[0]) == 1:
            return self.columns[columns[0]]
        load = self.model.new_int_var(0, full, "")
        factors = [floor(step * amount) for amount in part.amounts.tolist()]
        most = floor(-part.unit * part.base)
        total = self.sum([self.columns[c] for c in columns], factors)
        self.model.add(total - load <= most)
        return load


def _alike(problem: Problem) -> bool:
    """Whether all adversaries are identical."""
    factor = problem.weights.factor
    return _interchangeable(problem) and bool((factor == factor[:1]).all())


def _interchangeable(problem: Problem) -> bool:
    """Whether all adversaries have the same limits: only their weights may differ."""
    return (
        problem.capacity is None
        and problem.trusted is None
        and not problem.coalitions.groups  # any m are symmetric, declared groups not
        and not len(problem.history)
        and not len(problem.forbidden)
    )


def _renamed(problem: Problem, plan: Plan | None) -> Plan | None:
    """Give each adversary's entries to the one with whom all together are worth most.

    Any plan by interchangeable adversaries keeps its limits under other names. Where it
    was searched for without regard to utility, this is the cheapest part of it: a linear
    assignment.
    """
    from scipy.optimize import linear_sum_assignment

    if plan is None or not len(plan) or not _interchangeable(problem):
        return plan
    used, place = np.unique(plan.adversary, return_inverse=True)
    everybody = np.arange(problem.n_adversaries)
    worth = np.zeros((len(used), len(everybody)))
    for entry, at in zip(plan.entry, place, strict=True):
        worth[at] += problem.weights.of(np.full(len(everybody), entry), everybody)
    name = linear_sum_assignment(worth, maximize=True)[1]
    return Plan(plan.entry, name[place])


class CpSat:
    """Exact for problems whose model stays small."""

    def supports(self, problem: Problem) -> bool:
        """Disc-budget problems of at most 200,000 pairs, without links that count.

        If sums are limited, members of sets x observers have the same limit.
        """
        observers = problem.n_adversaries + len(problem.groups)
        links = problem.links
        if problem.utilities is not None:
            return False
        if links is not None and links.limited:
            return False
        members = len(problem.sets.entry) if problem.averages else 0
        small = max(problem.n_entries, members) * observers <= _LARGEST
        return problem.goal.objective is Objective.DISC_BUDGET and small

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Find the best plan, or prove that there is none."""
        return exactly(problem, rng, limits)


def search_plan(
    problem: Problem,
    rng: np.random.Generator,
    limits: Limits,
    *,
    utility: bool = True,
    hint: Pairs | None = None,
    done: Callable[[], bool] | None = None,
    sums: bool = False,
    eager: bool = False,
) -> Solution:
    """Solve exactly in one call, starting from a known plan if there is one.

    Parameters
    ----------
    problem : Problem
    rng, limits
    utility : bool
        Whether to maximise; else the first feasible plan will do, renamed to the
        adversaries with whom it is worth most.
    hint : Pairs, optional
        A plan to start from.
    done : callable, optional
        True once the answer is no longer wanted.
    sums : bool
        Whether to model caps on means and aggregates of the whole problem.
    eager : bool
        Whether a first plan matters more than a proof: the relaxation is used less.
    """
    if done is not None:
        asked = limits.stopped
        limits = replace(limits, stopped=lambda: asked() or done())
    began = limits.clock()
    best = problem.weights.best(problem.hi)
    bound = best * problem.weights.unit
    over = limits.deadline()
    try:
        built = build(problem, sums=sums, over=over)
    except Late:
        return Solution(Verdict.UNKNOWN, bound=bound, tried=("CP-SAT had no time",))
    if built is None:
        return refuted(problem, "an entry, history or a limit leaves no plan")
    if utility and best:
        unit = _maximised(problem, built)
    if hint is not None:
        _start_from(built, hint)
    built = replace(built, eager=eager and hint is None)
    plan, state, top = _run(built, rng, limits.left(began))
    if state == "infeasible":
        return refuted(problem, "all assignments were searched")
    if utility and best and top != inf:
        bound = min(bound, int(top) * unit)
    judged = _better(problem, plan if utility else _renamed(problem, plan), hint)
    if judged is None:
        return Solution(Verdict.UNKNOWN, bound=bound, tried=("CP-SAT ran out of work",))
    plan, seen = judged
    if not seen.feasible:  # a bug in the model; the plan is not used
        refusal = f"CP-SAT's plan was refused: {seen.violations[0]}"
        return Solution(Verdict.UNKNOWN, bound=bound, tried=(refusal,))
    return Solution(
        Verdict.SOLVED, plan, value=seen.objective, bound=bound, judged=seen
    )


def _better(
    problem: Problem, plan: Plan | None, hint: Pairs | None
) -> tuple[Plan, Judgement] | None:
    """Return the better of the plan found and the hint, with its judgement."""
    best = None if plan is None else (plan, judge(problem, plan))
    if hint is None:
        return best
    held = Plan(hint.entry, hint.adversary)
    known = judge(problem, held)
    if not known.feasible or (best and best[1].objective >= known.objective):
        return best
    return held, known


def exactly(
    problem: Problem,
    rng: np.random.Generator,
    limits: Limits,
    start: Pairs | None = None,
    done: Callable[[], bool] | None = None,
    *,
    eager: bool = False,
) -> Solution:
    """Run CP-SAT and mark a proven plan as optimal; see :func:`search_plan`."""
    began = limits.clock()
    found = search_plan(
        problem, rng, limits, hint=start, done=done, sums=True, eager=eager
    )
    proven = found.verdict is Verdict.SOLVED and found.value == found.bound
    if proven:
        return replace(found, stopped="optimal")
    return replace(found, stopped="time") if late(limits, began) else found


def refuted(problem: Problem, why: str) -> Solution:
    """Return INFEASIBLE, with the whole problem as its core."""
    sets = problem.sets
    reason = Clash(
        Cause.SEARCH,
        sets=tuple(range(sets.n_sets)),
        properties=tuple(int(p) for p in np.unique(sets.owner)),
        entries=tuple(int(d) for d in np.flatnonzero(problem.lo)),
        answers=int(problem.lo.sum()),
    )
    core = Core(
        entries=tuple(range(problem.n_entries)),
        clashes=(reason,),
        needed=None,
        exact=False,
        available=problem.n_adversaries,
    )
    held = np.arange(problem.n_entries)
    return Solution(Verdict.INFEASIBLE, held=held, cores=(core,), tried=(why,))


def maximise(
    problem: Problem,
    built: CpModel,
    plan: Plan,
    rng: np.random.Generator,
    limits: Limits,
) -> tuple[Plan, Any]:
    """Search for the best plan from a given one; return it and the proven bound."""
    unit = _maximised(problem, built)
    _start_from(built, plan)
    better, _, top = _run(built, rng, limits)
    ceiling = problem.weights.best(problem.hi) * problem.weights.unit
    if top != inf:
        ceiling = min(ceiling, int(top) * unit)
    return (better if better is not None else plan), ceiling


def _maximised(problem: Problem, built: CpModel) -> Fraction:
    """Make the model maximise utility in integers; return the value of one unit."""
    weights = problem.weights
    grid = np.array(built.pairs, dtype=np.int64).reshape(-1, 2)
    worth = weights.of(grid[:, 0], grid[:, 1])
    common = int(np.gcd.reduce(worth)) or 1
    terms = (worth // common).tolist()
    total = sum(w * v for w, v in zip(terms, built.variables, strict=True))
    built.model.maximize(total)
    return common * weights.unit


def _start_from(built: CpModel, plan: Pairs) -> None:
    """Give the plan to the engine as a hint."""
    built.model.clear_hints()
    given = set(zip(plan.entry.tolist(), plan.adversary.tolist(), strict=True))
    for pair, variable in zip(built.pairs, built.variables, strict=True):
        built.model.add_hint(variable, int(pair in given))


def _run(
    built: CpModel, rng: np.random.Generator, limits: Limits
) -> tuple[Plan | None, str, float]:
    """Run CP-SAT; return the plan, the status, and the objective's bound."""
    return run_model(built, rng, limits)[:3]


def run_model(
    built: CpModel, rng: np.random.Generator, limits: Limits
) -> tuple[Plan | None, str, float, tuple[int, ...]]:
    """Run CP-SAT; return the plan, the status, the bound, and the withheld entries."""
    from ortools.sat.python import cp_model

    solver = _solver(cp_model, rng, limits)
    # where propagation suffices, the relaxation costs most of the time for little
    level = 0 if built.ruled else 1 if built.eager else 2
    solver.parameters.linearization_level = level
    status = _wait(solver, built.model, limits)
    if status == cp_model.INFEASIBLE:
        return None, "infeasible", 0.0, ()
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, "unknown", float("inf"), ()  # the engine's bound may still be 0
    chosen = [
        pair
        for pair, variable in zip(built.pairs, built.variables, strict=True)
        if solver.boolean_value(variable)
    ]
    marks = (d for d, mark in built.withheld.items() if solver.boolean_value(mark))
    return Plan.of(chosen), "found", _ceiling(solver), tuple(marks)


def _solver(cp_model: Any, rng: np.random.Generator, limits: Limits) -> Any:  # noqa: ANN401
    """Return the engine within these limits."""
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.random_seed = int(rng.integers(2**31 - 1))
    timed = limits.seconds != float("inf")
    parameters.num_workers = limits.threads if timed else 1  # one plan for one seed
    parameters.catch_sigint_signal = False
    parameters.max_deterministic_time = limits.work
    if timed:
        parameters.max_time_in_seconds = max(limits.seconds, 0.01) * limits.wall_factor
    return solver


def _wait(solver: Any, model: Any, limits: Limits) -> Any:  # noqa: ANN401
    """Solve in a thread, so that a requested stop is noticed."""
    if limits.stopped is never and limits.seconds == float("inf"):
        return solver.solve(model)
    over = limits.deadline()
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(solver.solve(model)))
    thread.start()
    while thread.is_alive():
        thread.join(_POLL)
        if over():
            solver.stop_search()
    return found[0]


def clashing(
    problem: Problem, rng: np.random.Generator, limits: Limits
) -> list[int] | None:
    """Return sets that leave no plan together, often few; None where undecided."""
    from ortools.sat.python import cp_model

    try:
        built = build(problem, guarded=True, over=limits.deadline())
    except Late:
        return None
    if built is None:
        return []
    built.model.add_assumptions(built.guards)
    solver = _solver(cp_model, rng, replace(limits, threads=1))
    if _wait(solver, built.model, limits) != cp_model.INFEASIBLE:
        return None
    place = {guard.index: one for one, guard in enumerate(built.guards)}
    core = solver.sufficient_assumptions_for_infeasibility()
    return sorted(place[index] for index in core)


def _ceiling(solver: Any) -> float:  # noqa: ANN401
    """Return the best bound, or infinity before there is one."""
    bound = float(solver.best_objective_bound)
    return float(np.floor(bound + 1e-6)) if np.isfinite(bound) else float("inf")
