"""What is left to decide of a balanced tradeoff once a good plan is known.

At any prices a pair whose other value would lose more than the gap keeps its value in
every better plan. At a small gap few pairs remain, and a branch-and-bound over them
ends the search or improves the plan.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from policies.model.sets import Bools, Ints
from policies.solvers.load_tables import Loads

Floats = npt.NDArray[np.float64]

_SCALE: Final = 1e6  # of the objective: the engine stops at an absolute gap of 1e-6
_FAR: Final = 1e30  # a loss that no gap reaches
_SLACK: Final = 1e-8  # of a proven bound: what the engine's tolerances amount to
_ROW: Final = 1e4  # of the means: the engine lies by 1e-6 in each row


def regret(it: Loads, value: Floats) -> tuple[Bools, Floats]:
    """Return each entry's best pairs, and what turning each pair round would lose.

    Parameters
    ----------
    it : Loads
    value : float64 array, shape (n, k)
        Worth of pairs at some prices.
    """
    n, k = value.shape
    offered = np.where(it.may, value, -_FAR)
    order = np.argsort(-offered, axis=1, kind="stable")
    ranked = np.take_along_axis(offered, order, axis=1)
    most, place = np.minimum(it.hi, it.may.sum(axis=1)), np.arange(k)
    count = np.clip((ranked > 0).sum(axis=1), np.minimum(it.lo, most), most)
    best = np.zeros((n, k), np.bool_)
    np.put_along_axis(best, order, place < count[:, None], axis=1)
    padded = np.hstack([np.full((n, 1), _FAR), ranked, np.full((n, 1), -_FAR)])
    row = np.arange(n)
    last, following = padded[row, count], padded[row, count + 1]
    drop = np.where((count > it.lo)[:, None], offered, _FAR)
    out = np.minimum(drop, offered - following[:, None])
    add = np.where((count < it.hi)[:, None], -offered, _FAR)
    into = np.minimum(add, last[:, None] - offered)
    loss = np.where(best, out, into)
    return best, np.where(it.may, np.maximum(loss, 0.0), np.inf)


def decided(
    it: Loads,
    cost: Floats,
    base: Floats,
    fixed: tuple[Bools, Bools],
    work: Any,  # noqa: ANN401
    row: Ints | None = None,
) -> tuple[Bools | None, float]:
    """Search the pairs that are open; return the best plan found, and a bound.

    The bound is on u - lambda * f over the plans that keep the fixed pairs; -inf where
    there is none, inf where nothing was proven. Where adversaries are put together it is
    one on their mean means, which no plan is above.

    Parameters
    ----------
    it : Loads
    cost : float64 array, shape (n, k)
    base : float64 array, shape (k,)
    fixed : (bool array (n, k), bool array (n, k))
        The best pairs, and which pairs are open; others keep their value.
    work : dict
        Options of the engine.
    row : int64 array, shape (k,), optional
        Numbers from 0: adversaries of one number are put together.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array, hstack

    best, open_ = fixed
    n, k = best.shape
    row = np.arange(k) if row is None else row
    entry, adversary, count, member = _columns(it, cost, open_, row)
    size, column = len(entry), np.arange(len(entry))
    kept = best & ~open_
    members = np.bincount(row)
    mean = np.bincount(row, base + (cost * kept).sum(axis=0)) / members
    each = cost[entry, adversary] * _ROW / members[row[adversary]]
    loads_ = coo_array((each, (row[adversary], column)), (len(members), size))
    high = -np.ones((len(members), 1))
    rows = [LinearConstraint(hstack([loads_, high]), -np.inf, -mean * _ROW)]
    sums: list[tuple[Any, int, Any, Any]] = [
        (entry, n, it.lo - kept.sum(axis=1), it.hi - kept.sum(axis=1))
    ]
    if it.capped:
        room = np.bincount(row, it.room - kept.sum(axis=0))
        sums.append((row[adversary], len(members), np.full(len(room), -np.inf), room))
    for index, height, low, most in sums:
        matrix = coo_array((np.ones(size), (index, column)), (height, size + 1))
        rows.append(LinearConstraint(matrix, low, most))
    found = milp(
        np.append(-it.worth[entry, adversary], it.lambda_ / _ROW) * _SCALE,
        constraints=rows,
        integrality=np.append(np.ones(size), 0),
        bounds=Bounds(0, np.append(count, np.inf)),
        options=work,
    )
    if found.status == 2:
        return None, -np.inf
    least = getattr(found, "mip_dual_bound", None)
    u = float(it.worth[kept].sum())
    ceiling = np.inf if least is None else u - float(least) / _SCALE + _SLACK
    if found.x is None:
        return None, ceiling
    _spread(kept, cost, base, member, np.rint(found.x[:size]).astype(np.int64))
    return kept, ceiling


def _columns(
    it: Loads, cost: Floats, open_: Bools, row: Ints
) -> tuple[Ints, Ints, Ints, list[Ints]]:
    """Put open pairs of one entry together that are alike to adversaries of one row.

    Returns
    -------
    entry, adversary, count : int64 array, shape (columns,)
        One of the pairs, and how many there are.
    member : list of int64 array, shape (2, count)
        All of them.
    """
    entry, adversary = np.nonzero(open_)
    worth, each = it.worth[entry, adversary], cost[entry, adversary]
    order = np.lexsort((each, worth, row[adversary], entry))
    keys = np.stack([entry, row[adversary], worth, each])[:, order]
    new = np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0))[: len(order)]
    start = np.flatnonzero(new)
    first = order[start]
    count = np.diff(np.append(start, len(order)))
    pairs = np.stack([entry, adversary])[:, order]
    return entry[first], adversary[first], count, np.split(pairs, start[1:], axis=1)


def _spread(
    kept: Bools, cost: Floats, base: Floats, member: list[Ints], copies: Ints
) -> None:
    """Give copies to the pairs of their column, the heaviest first, where least lies."""
    mean = base + (cost * kept).sum(axis=0)
    weight = np.array([cost[m[0, 0], m[1, 0]] for m in member])
    for at in np.argsort(-weight, kind="stable").tolist():
        entry, adversary = member[at]
        chosen = np.argsort(mean[adversary], kind="stable")[: copies[at]]
        kept[entry[chosen], adversary[chosen]] = True
        mean[adversary[chosen]] += weight[at]
