"""An aggregate of f on the tapes of a plan: see :mod:`policies.model.aggregates`."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from policies.model.aggregates import Aggregate, Shape
from policies.model.problem import Problem
from policies.solvers.kernels import tape

_CLOSE: Final = 1e-12  # what floats can not tell, relative to a limit and to 1


def with_aggregate(
    problem: Problem,
    n_links: int,
    words: dict[int, int],
    reals: dict[int, float],
    fields: dict[int, Any],
) -> None:
    """Write the aggregate of a problem, if it has one, over the numbers of a tape.

    Gains are seen by trying: a pair may change what all hands together are.

    Parameters
    ----------
    problem : Problem
    n_links : int
        Links among the units, after the sets.
    words, reals, fields
        As :class:`policies.solvers.kernels.tape.Tape` takes them; changed.
    """
    how = problem.aggregate
    reals[tape.CEILING] = np.inf
    if how is None:
        return
    words |= {
        tape.FOLD: _fold(how),
        tape.SUMMED: int(how.summed or how.shared),
        tape.ROOT: how.q,
        tape.AVERAGE: int(how.shape is not Shape.WORST),
        tape.MODE: tape.BY_TRIAL,
    }
    reals[tape.BAR] = float(how.level)
    owner = problem.sets.owner * int(problem.links is None)  # else they are only limits
    owner = np.concatenate([owner, np.arange(n_links)])
    weights = np.array([float(w) for w in how.weights])
    fields |= {
        tape.FACTOR: weights[owner] if how.weights else np.ones(len(owner)),
        tape.OVER: np.full(words[tape.H], float(how.divisor)),
        tape.ABOVE: np.zeros(len(owner), np.int64),
    }
    if words[tape.PAPER]:
        return
    limits = _limits(problem)
    if limits:
        reals[tape.CEILING] = min(limits)
        words |= {tape.CAREFUL: 1, tape.CAPPED: 1}


def _fold(how: Aggregate) -> int:
    if how.shape is Shape.COUNT:
        return tape.SHARED if how.shared else tape.COUNTING
    return tape.POWERED if how.shape is Shape.SOFT_MAX else tape.SCALED


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
