"""HiGHS on a :class:`Model`: with a start, a stop, and bounds that can be trusted.

The engine is highspy, HiGHS's own binding. ``scipy.optimize.milp`` can neither be given a
plan to start from nor be stopped, and hides that it ends at an absolute gap of 10^-6;
OR-Tools' MathOpt takes hints, but calls back for no HiGHS model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from policies.model.problem import Pairs
from policies.solvers.exact.linear_terms import Model
from policies.solvers.interfaces import Limits

Floats = npt.NDArray[np.float64]

_NODES = 200  # branch-and-bound nodes for each unit of work
_TOLERANCE = 1e-9  # with the usual 10^-6 it lies by 10^-7 on a disclosure

GAP: Final = 1e-4
"""Gap that counts as none: 10^-10 in the objective, as cost is scaled to 10^6."""

OPTIMAL: Final = "optimal"
CUT: Final = "cut"
LATE: Final = "late"
EMPTY: Final = "infeasible"


@dataclass(frozen=True, eq=False)
class Outcome:
    """What HiGHS found.

    Attributes
    ----------
    status : str
        ``optimal``, ``infeasible``, ``late`` (the time is over), or ``cut``: by another
        limit, a stop, or numbers that HiGHS cannot work with.
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
    """Minimise the cost.

    Parameters
    ----------
    model : Model
    limits : Limits
    relax : bool
        Whether columns may be fractional.
    start : Pairs, optional
        A plan to start from.
    seed : int
    done : callable, optional
        True once the answer is not wanted any more.
    gap : float
        Distance to the bound, in cost, that counts as optimal.
    """
    if not len(model.cost):
        return _without_columns(model)
    began = limits.clock()
    import highspy

    highs = highspy.Highs()  # type: ignore[no-untyped-call]
    rest = limits.left(began)  # the first import takes its time
    _configure(highs, rest, seed, gap)
    highs.passModel(_program(model, relax=relax))
    if start is not None and not relax:
        columns = _start(model, start)
        highs.setSolution(len(columns[0]), *columns)
    late = rest.deadline()

    def look(event: Any) -> None:  # noqa: ANN401
        """End the search once it is over."""
        if late() or (done is not None and done()):
            event.interrupt()

    for moment in (
        highs.cbMipInterrupt,
        highs.cbSimplexInterrupt,
        highs.cbIpmInterrupt,
    ):
        moment.subscribe(look)
    highs.solve()
    linear = relax or not model.whole.any()  # such a run has no bound of its own
    found = _outcome(highs, relax=linear)
    over = found.status == CUT and late() and not limits.stopped()
    return replace(found, status=LATE) if over else found


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
    """Write the model in HiGHS's own form."""
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
    """Values of the pair columns: HiGHS works the others out."""
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
    """A model without columns: its rows hold or not."""
    holds = bool(((model.low <= 1e-9) & (model.high >= -1e-9)).all())
    if holds:
        return Outcome(OPTIMAL, np.empty(0), 0.0)
    return Outcome(EMPTY, None, np.inf)
