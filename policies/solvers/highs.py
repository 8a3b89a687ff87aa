"""HiGHS on a :class:`Model`, in a thread that a stop or the clock can leave behind."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from policies.solvers.model import Model
from policies.solvers.role import Limits

Floats = npt.NDArray[np.float64]

_NODES = 200  # branch-and-bound nodes for each unit of work
_POLL = 0.05  # seconds between two looks at the stop flag

OPTIMAL: Final = "optimal"
CUT: Final = "cut"
EMPTY: Final = "infeasible"


@dataclass(frozen=True, eq=False)
class Outcome:
    """What HiGHS found.

    Attributes
    ----------
    status : str
        ``optimal``, ``infeasible``, or ``cut`` by a limit.
    values : float64 array, shape (columns,), or None
    bound : float
        Proven lower bound on the cost; -inf where there is none.
    """

    status: str
    values: Floats | None
    bound: float


def run(
    model: Model, limits: Limits, *, relax: bool = False, below: float | None = None
) -> Outcome:
    """Minimise the cost.

    Parameters
    ----------
    model : Model
    limits : Limits
    relax : bool
        Whether columns may be fractional.
    below : float, optional
        Only solutions of at most this cost are wanted.
    """
    found: list[Outcome] = []

    def work() -> None:
        found.append(_solve(model, limits, relax=relax, below=below))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_POLL)
        if limits.stopped():
            return Outcome(CUT, None, -np.inf)
    if not found:  # the thread died: a bug or no memory, never a verdict
        return Outcome(CUT, None, -np.inf)
    return found[0]


def _solve(
    model: Model, limits: Limits, *, relax: bool, below: float | None
) -> Outcome:
    """Call scipy's HiGHS; gap 0 on a cost scaled to 10^6 (it stops at 10^-6)."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    options: dict[str, Any] = {"mip_rel_gap": 0.0}
    if limits.seconds != float("inf"):
        options["time_limit"] = max(limits.seconds, 0.01)
    else:
        options["node_limit"] = max(1, int(limits.work * _NODES))
    rules = []
    if model.matrix.shape[0]:
        rules.append(LinearConstraint(model.matrix, model.low, model.high))
    if below is not None:
        rules.append(LinearConstraint(model.cost[None, :], -np.inf, below))
    if not len(model.cost):
        return _empty(model)
    answer = milp(
        model.cost,
        integrality=np.zeros(len(model.cost)) if relax else model.whole.astype(int),
        bounds=Bounds(0, model.upper),
        constraints=rules,
        options=options,
    )
    if answer.status == 2:
        return Outcome(EMPTY, None, np.inf)
    bound = answer.mip_dual_bound
    if relax and answer.status == 0:
        bound = answer.fun
    lower = -np.inf if bound is None or not np.isfinite(bound) else float(bound)
    values = None if answer.x is None else np.asarray(answer.x)
    return Outcome(OPTIMAL if answer.status == 0 else CUT, values, lower)


def _empty(model: Model) -> Outcome:
    """A model without columns: its rows hold or not."""
    holds = bool(((model.low <= 1e-9) & (model.high >= -1e-9)).all())
    if holds:
        return Outcome(OPTIMAL, np.empty(0), 0.0)
    return Outcome(EMPTY, None, np.inf)
