"""MILP: the linear model in floats, solved by HiGHS.

It is the formulation of the paper (sections 4.1 and 4.2), completed: squares are exact
at the loads that can occur, coalitions are columns, and strict limits stay strict.
HiGHS accepts a plan to start from, can be stopped, and gives bounds that can be
trusted.

The engine is highspy, HiGHS's own binding. ``scipy.optimize.milp`` accepts no starting
plan, cannot be stopped, and hides that it ends at an absolute gap of 10^-6; OR-Tools'
MathOpt takes hints, but has no callbacks for HiGHS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor
from typing import Any, Final

import numpy as np

from policies.model.objective import Objective
from policies.model.problem import Pairs, Plan, Problem
from policies.model.sets import Bools, Ints
from policies.solvers.exact.cpsat import refuted
from policies.solvers.exact.linear_model import (
    MANY,
    SECANTS,
    TANGENTS,
    Builder,
    Floats,
    Late,
    LinearRow,
    Power,
    Union,
)
from policies.solvers.interfaces import (
    Limits,
    Solution,
    Verdict,
    answer,
    free_bound,
    never,
)
from policies.solvers.scaling import reached

_NODES = 200  # branch-and-bound nodes per unit of work
_TOLERANCE = 1e-9  # the default, 10^-6, is wrong by 10^-7 in disclosures

MARGIN: Final = 1e-7
"""Relative margin below a limit on a mean, used after a plan at the limit was refused."""

GAP: Final = 1e-4
"""Gap that counts as optimal: 10^-10 in the objective, as cost is scaled to 10^6."""

SAFETY: Final = 1e-3
"""Subtracted from HiGHS's bounds on a cost of 10^6: more than its tolerances."""

_LARGEST: Final = 4_000_000  # members x observers above which no model is built
# Sparse 1000, 2500, 15, 2 (128,000) takes .77 to .93 s, 2000, 5000, 15, 2 (255,000) 1.60 to 1.70,
# dense sets a tenth.
_BUILT: Final = 7e-6  # CPU seconds to write the model, for a member and observer

# CPU seconds for two pairs of which one is in a clique (below); measured beyond the limit, with
# presolve: sparse 1000, 2500, 15, 2 (1.8e8 times two) 1.4 s, 2000, 5000, 15, 2 (7.2e8) 6.8.
_COMPARED: Final = 8e-9


OPTIMAL: Final = "optimal"
CUT: Final = "cut"
LATE: Final = "late"
EMPTY: Final = "infeasible"


@dataclass(frozen=True, eq=False)
class Model:
    """min cost @ x, low <= matrix @ x <= high, lower <= x <= upper.

    Attributes
    ----------
    entry, adversary : int64 array, shape (pairs,)
        The first columns are these pairs.
    cost : float64 array, shape (columns,)
        Cost of the scaled, negated objective: see ``scale`` and ``shift``.
    whole : bool array, shape (columns,)
        Which columns are integers.
    lower, upper : float64 array, shape (columns,)
    matrix : sparse matrix, shape (rows, columns)
    low, high : float64 array, shape (rows,)
    scale, shift : float
        objective = shift - cost @ x / scale.
    impossible : bool
        No plan exists: an entry has too few pairs, or history exceeds a limit.
    slack : float
        Error of y in multiples of HiGHS's tolerance: y can be a sum.
    """

    entry: Ints
    adversary: Ints
    cost: Floats
    whole: Bools
    lower: Floats
    upper: Floats
    matrix: Any
    low: Floats
    high: Floats
    scale: float
    shift: float
    impossible: bool = False
    slack: float = 1.0

    def plan(self, values: Floats) -> Plan:
        """Return the plan of an integer solution."""
        chosen = values[: len(self.entry)] > 0.5
        return Plan(self.entry[chosen], self.adversary[chosen])

    def objective(self, cost: float) -> float:
        """Return the problem's objective at this cost."""
        return self.shift - cost / self.scale


def build(
    problem: Problem, margin: float = 0.0, over: Callable[[], bool] = never
) -> Model:
    """Write the linear model of a problem in floats.

    Parameters
    ----------
    problem : Problem
        Without links that count.
    margin : float
        Relative margin below limits on means. Only a model with margin 0 proves
        anything: others exclude plans.
    over : callable
        True once time is over.

    Raises
    ------
    Late
        Once time is over.
    """
    from scipy.sparse import csr_matrix

    made, goal = Builder(problem, over).build(), problem.goal
    many = problem.sets.n_sets * problem.n_adversaries > MANY
    rows: list[tuple[Ints, Floats, float, float]] = []
    for row in made.rows:
        if over():
            raise Late
        if isinstance(row, Power):
            rows += _chords(row, TANGENTS if many else SECANTS)
        elif isinstance(row, Union):
            ends = np.array([1.0, -1.0])
            rows += [(np.array([c, row.column]), ends, -np.inf, 0.0) for c in row.of]
        else:
            rows.append(_written(made, row, margin))
    start = np.cumsum([0, *(len(row[0]) for row in rows)])
    columns = [np.empty(0, np.int64), *(row[0] for row in rows)]
    factors = [np.empty(0), *(row[1] for row in rows)]
    matrix = csr_matrix(
        (np.concatenate(factors), np.concatenate(columns), start),
        shape=(len(rows), len(made.cost)),
    )
    matrix.sum_duplicates()
    tradeoff = goal.objective is Objective.TRADEOFF
    return Model(
        entry=made.entry,
        adversary=made.adversary,
        cost=np.array(made.cost),
        whole=np.array(made.whole, np.bool_),
        lower=np.zeros(len(made.cost)),
        upper=np.array(list(map(float, made.upper))),
        matrix=matrix,
        low=np.array([row[2] for row in rows]),
        high=np.array([row[3] for row in rows]),
        scale=made.scale,
        shift=float(goal.lambda_ * goal.tau) if tradeoff else 0.0,
        impossible=made.impossible,
        slack=made.slack,
    )


def _written(
    made: Builder, row: LinearRow, margin: float
) -> tuple[Ints, Floats, float, float]:
    """Return a row's columns, factors, lower and upper bound."""
    empty = np.empty(0, np.int64)
    columns = np.concatenate([empty, *(part.columns for part in row.parts)])
    factors = np.concatenate(
        [np.empty(0), *(part.amounts * float(part.unit) for part in row.parts)]
    )
    base = sum(float(part.unit * part.base) for part in row.parts if part.base)
    high = _highest(made, row, margin) if row.limit else float(row.high)
    low = -np.inf if row.low is None else row.low
    return (
        columns,
        factors * row.scale,
        (low - base) * row.scale,
        (high - base) * row.scale,
    )


def _highest(made: Builder, row: LinearRow, margin: float) -> float:
    """Return the upper bound of a limited sum, in floats.

    If its values lie on known steps, this is half a step above the last value within
    the limit. Otherwise a model without a margin allows the limit itself: its proofs
    are valid, and the judge rejects plans at a strict limit.
    """
    limit, steps = Fraction(row.high), made.steps(row.parts)
    away = margin * float(limit or 1)
    if not steps:
        return float(limit) - away
    last = ceil(limit * steps) - 1 if row.strict else floor(limit * steps)
    return float((last + Fraction(1, 2)) / steps) - away


def _chords(power: Power, tangents: int) -> list[tuple[Ints, Floats, float, float]]:
    """Return rows that keep a column above a power of a load."""
    load, scale, rows = power.load, power.scale, []
    columns = np.append(load.columns, power.column)
    amounts = np.append(load.amounts * float(load.unit), 0.0)
    base = float(load.unit * load.base)
    for slope, shift in power.lines(tangents):
        factors = amounts * float(slope)
        factors[-1] = -1.0
        high = float(shift) - base * float(slope)
        rows.append((columns, factors * scale, -np.inf, high * scale))
    return rows


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a run of HiGHS.

    Attributes
    ----------
    status : str
        ``optimal``, ``infeasible``, ``late`` (time is over), or ``cut``: stopped by
        another limit, a stop, or numbers that HiGHS cannot handle.
    values : float64 array, shape (columns,), or None
    bound : float
        Proven lower bound on the cost; -inf where there is none.
    duals : float64 array, shape (rows,), or None
        Row duals of a relaxation.
    """

    status: str
    values: Floats | None
    bound: float
    duals: Floats | None = None


def run(
    model: Model,
    limits: Limits,
    *,
    relax: bool = False,
    start: Pairs | None = None,
    seed: int = 0,
    done: Callable[[], bool] | None = None,
    gap: float = GAP,
) -> Outcome:
    """Minimise the cost of a model.

    Parameters
    ----------
    model : Model
    limits : Limits
    relax : bool
        Whether to solve the linear relaxation.
    start : Pairs, optional
        A plan to start from.
    seed : int
    done : callable, optional
        True once the answer is no longer wanted.
    gap : float
        Distance to the bound, in cost, that counts as optimal.
    """
    if not len(model.cost):
        return _without_columns(model)
    began = limits.clock()
    highs = _silent()
    rest = limits.left(began)  # the first import of highspy takes time
    _configure(highs, rest, seed, gap)
    highs.passModel(_program(model, relax=relax))
    if start is not None and not relax:
        columns = _start(model, start)
        highs.setSolution(len(columns[0]), *columns)
    late = rest.deadline()

    def look(event: Any) -> None:  # noqa: ANN401
        """Interrupt the search once time is over or a stop was asked."""
        if late() or (done is not None and done()):
            event.interrupt()

    for moment in (
        highs.cbMipInterrupt,
        highs.cbSimplexInterrupt,
        highs.cbIpmInterrupt,
    ):
        moment.subscribe(look)
    highs.solve()
    linear = relax or not model.whole.any()  # such a run reports no bound of its own
    found = _outcome(highs, relax=linear)
    over = found.status == CUT and late() and not limits.stopped()
    return replace(found, status=LATE) if over else found


def _silent() -> Any:  # noqa: ANN401
    """Return an engine that prints nothing, not even its name when callbacks start."""
    import highspy

    class Silent(highspy.Highs):
        def enableCallbacks(self) -> Any:  # noqa: ANN401, N802
            self.silent()
            return super().enableCallbacks()  # type: ignore[no-untyped-call]

    return Silent()  # type: ignore[no-untyped-call]


def _configure(highs: Any, limits: Limits, seed: int, gap: float) -> None:  # noqa: ANN401
    options: dict[str, Any] = {
        "output_flag": False,
        "threads": 1,
        "random_seed": seed % 2**31,
        "mip_rel_gap": 0.0,
        "mip_abs_gap": gap,
        "mip_feasibility_tolerance": _TOLERANCE,
        "primal_feasibility_tolerance": _TOLERANCE,
    }
    if limits.seconds != float("inf"):
        options["time_limit"] = limits.seconds * limits.wall_factor
    if limits.work != float("inf"):
        options["mip_max_nodes"] = max(1, min(int(limits.work * _NODES), 2**30))
    for name, value in options.items():
        highs.setOptionValue(name, value)


def _program(model: Model, *, relax: bool) -> Any:  # noqa: ANN401
    """Return the model as a HiGHS LP object."""
    import highspy

    program, matrix = highspy.HighsLp(), model.matrix
    program.num_row_, program.num_col_ = matrix.shape
    program.col_cost_ = model.cost
    program.col_lower_, program.col_upper_ = model.lower, model.upper
    program.row_lower_, program.row_upper_ = model.low, model.high
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = matrix.indptr.astype(np.int32)
    program.a_matrix_.index_ = matrix.indices.astype(np.int32)
    program.a_matrix_.value_ = matrix.data.astype(np.float64)
    if not relax:
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        program.integrality_ = [kinds[whole] for whole in model.whole.tolist()]
    return program


def _start(model: Model, plan: Pairs) -> tuple[Any, Any]:
    """Return values of the pair columns; HiGHS completes the solution."""
    width = int(max(model.adversary.max(initial=0), plan.adversary.max(initial=0))) + 1
    chosen = np.isin(
        model.entry * width + model.adversary, plan.entry * width + plan.adversary
    )
    return np.arange(len(chosen), dtype=np.int32), chosen.astype(np.float64)


def _outcome(highs: Any, *, relax: bool) -> Outcome:  # noqa: ANN401
    from highspy import HighsModelStatus, SolutionStatus

    status = highs.getModelStatus()
    if status in (
        HighsModelStatus.kInfeasible,
        HighsModelStatus.kUnboundedOrInfeasible,
    ):
        return Outcome(EMPTY, None, np.inf)
    info = highs.getInfo()
    found = info.primal_solution_status == int(SolutionStatus.kSolutionStatusFeasible)
    solution = highs.getSolution()
    values = np.array(solution.col_value) if found else None
    optimal = status == HighsModelStatus.kOptimal
    late = status == HighsModelStatus.kTimeLimit
    ended = LATE if late else OPTIMAL if optimal else CUT
    if relax:
        bound = float(info.objective_function_value) if optimal else -np.inf
        duals = np.array(solution.row_dual) if optimal else None
        return Outcome(ended, values, bound, duals)
    bound = float(info.mip_dual_bound)
    if not np.isfinite(bound):
        bound = -np.inf
    return Outcome(ended, values, bound)


def _without_columns(model: Model) -> Outcome:
    """Return the outcome of a model without columns, which is feasible or not."""
    holds = bool(((model.low <= 1e-9) & (model.high >= -1e-9)).all())
    if holds:
        return Outcome(OPTIMAL, np.empty(0), 0.0)
    return Outcome(EMPTY, None, np.inf)


def unstoppable(problem: Problem) -> float:
    """Estimate the CPU seconds before HiGHS looks at the clock for the first time.

    Before the root relaxation it divides the pairs into cliques (``cliquePartition`` of
    its 0-1 columns with a cost): each pair that is in one is compared with all others,
    whatever the time. Pairs are in one if their entry has one copy, or if a limit allows
    one of two entries.
    """
    sets, n, k = problem.sets, problem.n_entries, problem.n_adversaries
    half = (2 * sets.amount > sets.cap[sets.member_set]) & (sets.amount > 0)
    half &= ~sets.classes[sets.member_set]
    rivals = np.bincount(sets.member_set[half], minlength=sets.n_sets) > 1
    rival = np.zeros(n, np.bool_)
    rival[sets.entry[half & rivals[sets.member_set]]] = True
    single = (problem.hi == 1) & ~rival
    members = int(rival.sum()) * k + int(single.sum())
    return _COMPARED * members * n * k


def building(problem: Problem) -> float:
    """Estimate the CPU seconds that it takes to write the model."""
    observers = problem.n_adversaries + len(problem.groups)
    return _BUILT * (len(problem.sets.entry) + problem.n_entries) * observers


def linear(problem: Problem) -> bool:
    """Whether a linear model covers everything that counts."""
    links = problem.links
    if problem.utilities is not None:
        return False
    if links is None:
        return True
    return not links.limited and problem.goal.objective.value == "disc-budget"


class Milp:
    """Exact for every disclosure function but cosine, as far as time permits."""

    def supports(self, problem: Problem) -> bool:
        """All problems without links that count, if the model is small enough."""
        observers = problem.n_adversaries + len(problem.groups)
        size = (len(problem.sets.entry) + problem.n_entries) * observers
        return linear(problem) and size <= _LARGEST

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Find the best plan, or prove that there is none."""
        return solve(problem, limits, seed=int(rng.integers(2**31 - 1)))


def solve(
    problem: Problem,
    limits: Limits,
    *,
    seed: int = 0,
    start: Pairs | None = None,
    done: Callable[[], bool] | None = None,
) -> Solution:
    """Solve a problem as one MILP.

    Parameters
    ----------
    problem : Problem
    limits : Limits
    seed : int
    start : Pairs, optional
        A plan to start from.
    done : callable, optional
        True once the answer is no longer wanted.
    """
    over, began, margin = limits.deadline(), limits.clock(), 0.0
    ceiling = free_bound(problem)
    tried: tuple[str, ...] = ("HiGHS had no time",)
    unbegun = Solution(Verdict.UNKNOWN, bound=ceiling, tried=tried, stopped="time")
    while True:
        try:
            model = _begun(problem, margin, over, limits.left(began))
        except Late:
            return unbegun
        if model.impossible and not margin:
            return refuted(problem, "an entry, history or a limit leaves no plan")
        found = run(model, limits.left(began), start=start, seed=seed, done=done)
        if not margin:  # margins exclude plans, so such bounds prove nothing
            ceiling = min(ceiling, bound_of(model, found, ceiling))
        if found.status == EMPTY and not margin:
            return refuted(problem, "all assignments were searched")
        stopped = _stopped(found, limits)
        if found.values is None:
            tried = (_without(stopped),)
            return Solution(
                Verdict.UNKNOWN, bound=ceiling, tried=tried, stopped=stopped
            )
        made = answer(
            problem,
            model.plan(found.values),
            bound=ceiling,
            tried=("HiGHS",),
            stopped=stopped,
        )
        if made.verdict is Verdict.SOLVED or margin > 1e-3 or over():
            return _proven(made)
        margin = max(margin * 30, MARGIN)


def _begun(
    problem: Problem, margin: float, over: Callable[[], bool], limits: Limits
) -> Model:
    """Build a model if HiGHS can begin in time; raise Late otherwise."""
    began, waits = limits.clock(), unstoppable(problem)
    if building(problem) + waits > limits.seconds:
        raise Late
    model = build(problem, margin, over)
    if waits > limits.left(began).seconds:
        raise Late
    return model


def bound_of(model: Model, found: Outcome, ceiling: Fraction) -> Fraction:
    """Return a bound on the objective from HiGHS's bound on the cost."""
    if not np.isfinite(found.bound):
        return ceiling
    return Fraction(model.objective(found.bound - SAFETY * model.slack))


def _stopped(found: Outcome, limits: Limits) -> str:
    if found.status == OPTIMAL:
        return "optimal"
    if limits.stopped():
        return "interrupt"
    if found.status == LATE:
        return "time"
    return "gap" if limits.work == float("inf") else "work"


def _without(stopped: str) -> str:
    """Return a message that HiGHS found no plan."""
    if stopped == "gap":
        return "HiGHS gave up: numbers too far apart"
    return "HiGHS found no plan in time"


def _proven(made: Solution) -> Solution:
    """Replace "optimal" by "gap" if the bound is not reached: squares may be bounds."""
    if made.stopped != "optimal" or reached(made.value, made.bound):
        return made
    return replace(made, stopped="gap")
