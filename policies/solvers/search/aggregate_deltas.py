"""An aggregate of f in the state of a search: see :mod:`policies.model.aggregates`."""

from __future__ import annotations

from typing import Final

import numpy as np

from policies.model.aggregates import Aggregate, Shape
from policies.model.problem import Problem
from policies.solvers.kernels import search_state as columns
from policies.solvers.kernels.search_state import State

_CLOSE: Final = 1e-12  # what floats cannot tell, relative to a limit and to 1


def with_aggregate(problem: Problem, n_links: int, state: State) -> State:
    """Return a state with the aggregate of the problem, if it has one.

    Gains are seen by trying: a pair may change what all observers together are.

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
    owner = problem.sets.owner * int(problem.links is None)  # else they are only limits
    owner = np.concatenate([owner, np.arange(n_links)])
    weights = np.array([float(w) for w in how.weights])
    state.weight[-1] = weights[owner] if how.weights else 1.0
    state.observer[:, columns.DIVISOR] = float(how.divisor)
    state = state._replace(
        aggregate=_fold(how),
        summed=bool(how.summed or how.shared),
        root=how.q,
        average=how.shape is not Shape.WORST,
        mode=columns.BY_TRIAL,
        bar=float(how.level),
    )
    limits = [] if state.paper else _limits(problem)
    if limits:
        state = state._replace(ceiling=min(limits), careful=True, capped=True)
    return state


def _fold(how: Aggregate) -> int:
    if how.shape is Shape.COUNT:
        return columns.COUNTING_ONCE if how.shared else columns.COUNTING
    return columns.POWERED if how.shape is Shape.SOFT_MAX else columns.SCALED


def _limits(problem: Problem) -> list[float]:
    """What the aggregate may be at most, for each cap on it."""
    caps = [(c.limit, c.strict) for c in problem.averages if c.aggregate is not None]
    links = problem.links
    if links is not None and links.aggregate_tau is not None:
        caps.append((links.aggregate_tau, True))
    room = [_CLOSE * max(1.0, abs(float(limit))) for limit, _ in caps]
    return [
        float(limit) + (-close if strict else close)
        for (limit, strict), close in zip(caps, room, strict=True)
    ]
