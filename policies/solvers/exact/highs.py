"""HiGHS on a :class:`Model`: with a start, a stop, and bounds that can be trusted.

The engine is highspy's where it is installed, else the same one inside scipy: both are
one binding. ``scipy.optimize.milp`` itself can neither be given a plan to start from nor
be stopped, and hides that it ends at an absolute gap of 10^-6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
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

WALL: Final = 30.0
"""Engines look at the limits' clock, and at their own only after so many times as long."""

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


@cache
def engine() -> Any:  # noqa: ANN401 - a module of a compiled library
    """Return the binding."""
    try:
        return import_module("highspy._core")
    except ImportError:
        return import_module("scipy.optimize._highspy._core")


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
    core = engine()
    highs = core._Highs()  # noqa: SLF001 - its only name
    rest = limits.left(began)  # the first import takes its time
    _configure(highs, rest, seed, gap)
    _load(core, highs, model, relax=relax)
    if start is not None and not relax:
        columns = _start(model, start)
        highs.setSolution(len(columns[0]), *columns)
    late = rest.deadline()
    _watch(core, highs, lambda: late() or (done is not None and done()))
    highs.run()
    linear = relax or not model.whole.any()  # such a run has no bound of its own
    found = _outcome(core, highs, relax=linear)
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
        options["time_limit"] = limits.seconds * WALL
    if limits.work != float("inf"):
        options["mip_max_nodes"] = max(1, min(int(limits.work * _NODES), 2**30))
    for name, value in options.items():
        highs.setOptionValue(name, value)


def _load(core: Any, highs: Any, model: Model, *, relax: bool) -> None:  # noqa: ANN401
    matrix = model.matrix
    columns, rows = len(model.cost), matrix.shape[0]
    whole = np.zeros(columns) if relax else model.whole
    highs.passModel(
        columns,
        rows,
        int(matrix.nnz),
        int(core.MatrixFormat.kRowwise),
        int(core.ObjSense.kMinimize),
        0.0,
        model.cost,
        model.lower,
        model.upper,
        model.low,
        model.high,
        matrix.indptr.astype(np.int32),
        matrix.indices.astype(np.int32),
        matrix.data.astype(np.float64),
        whole.astype(np.int32),
    )


def _start(model: Model, plan: Pairs) -> tuple[Any, Any]:
    """Values of the pair columns: HiGHS works the others out."""
    width = int(max(model.adversary.max(initial=0), plan.adversary.max(initial=0))) + 1
    chosen = np.isin(
        model.entry * width + model.adversary, plan.entry * width + plan.adversary
    )
    return np.arange(len(chosen), dtype=np.int32), chosen.astype(np.float64)


def _watch(core: Any, highs: Any, over: Callable[[], bool]) -> None:  # noqa: ANN401
    """Let the search end once it is over."""

    def look(kind: int, text: str, out: Any, into: Any, user: Any) -> None:  # noqa: ANN401
        del kind, text, out, user
        if over():
            into.user_interrupt = True

    highs.setCallback(look, None)
    for kind in (
        core.cb.kCallbackMipInterrupt,
        core.cb.kCallbackSimplexInterrupt,
        core.cb.kCallbackIpmInterrupt,
    ):
        highs.startCallback(kind)


def _outcome(core: Any, highs: Any, *, relax: bool) -> Outcome:  # noqa: ANN401
    status = highs.getModelStatus()
    known = core.HighsModelStatus
    if status in (known.kInfeasible, known.kUnboundedOrInfeasible):
        return Outcome(EMPTY, None, np.inf)
    info = highs.getInfo()
    found = info.primal_solution_status == int(
        core.SolutionStatus.kSolutionStatusFeasible
    )
    solution = highs.getSolution()
    values = np.array(solution.col_value) if found else None
    optimal = status == known.kOptimal
    ended = LATE if status == known.kTimeLimit else OPTIMAL if optimal else CUT
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
