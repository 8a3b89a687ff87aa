"""The cone relaxation of means of squared loads (paper, section 4.3), and its bound.

The mean of squared loads is one cone an adversary: norm(2 M x, y - 1) <= y + 1 with one
row of M for each set. The bound comes from the tangents at the relaxation's loads: convex
functions lie above them, whatever the accuracy of the cone solver.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from policies.solvers.interfaces import Limits
from policies.solvers.load_tables import LoadTables, scaled

Floats = npt.NDArray[np.float64]

_STEP: Final = 2e-5  # seconds per member and adversary, to build and take a first step


def tangent_bound(it: LoadTables, x: Floats, prices: Floats) -> float:
    """Bound the objective by the tangents of every mean at the loads of ``x``.

    Parameters
    ----------
    it : Loads
    x : float64 array, shape (n, k)
        Any point; the relaxation's optimum gives the best bound.
    prices : float64 array, shape (k,)
        Weights of the adversaries' means; scaled to sum to lambda.
    """
    price = scaled(prices, it.lambda_)
    load = it.load(x)
    power = it.power[:, None]
    steep = load ** (power - 1)
    slope = power * steep * price / it.over
    # l^p >= l0^p + p l0^(p - 1) (l - l0), and loads are base + parts @ x
    rest = (1 - power) * load * steep * price / it.over
    fixed = float(rest.sum() + (slope * it.base).sum())
    return it.shift - fixed + it.ceiling(it.priced(slope)) + 1e-12 * abs(fixed)


def solved_cone(
    it: LoadTables, limits: Limits, *, limit: float | None = None
) -> tuple[Floats, Floats] | None:
    """Solve the cone program; return x (n, k) and prices of the means (k,), or None.

    With a ``limit`` on the means, they cost nothing below it. Also None if time does
    not suffice for one step, which cannot be interrupted.
    """
    import clarabel
    from scipy.sparse import coo_array, csc_array, vstack

    if _STEP * (it.parts.nnz + it.shape[0]) * it.shape[1] > limits.seconds:
        return None
    entry, adversary = np.nonzero(it.may)
    rows, right, sizes = _cones(it, entry, adversary)
    width = rows.shape[1]
    cost = np.zeros(width)
    cost[: len(entry)] = -it.worth[entry, adversary]
    cost[-1] = it.lambda_ if limit is None else 0.0
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    if limits.seconds != np.inf:
        settings.time_limit = max(limits.seconds * 0.7, 0.01)
    linear, cones = sizes
    if limit is not None:
        top = coo_array(([1.0], ([0], [width - 1])), shape=(1, width))
        rows, right = csc_array(vstack([top, rows])), np.append(limit, right)
        linear += 1
    kinds = [clarabel.NonnegativeConeT(linear)]
    kinds += [clarabel.SecondOrderConeT(size) for size in cones]
    solver = clarabel.DefaultSolver(
        csc_array((width, width)), cost, rows, right, kinds, settings
    )
    found = solver.solve()
    x, z = np.array(found.x), np.array(found.z)
    if not (np.isfinite(x).all() and np.isfinite(z).all()) or not len(x):
        return None
    table = np.zeros(it.shape)
    table[entry, adversary] = np.clip(x[: len(entry)], 0.0, 1.0)
    k = it.shape[1]
    return table, z[linear - k : linear]


def _cones(
    it: LoadTables, entry: npt.NDArray[Any], adversary: npt.NDArray[Any]
) -> tuple[Any, Floats, tuple[int, list[int]]]:
    """Return rows ``right - rows @ (x, y, f)`` in cones: signs, then one cone a mean.

    y (k,) is above each mean of squares; the last k linear rows keep every mean, linear
    sets included, below f.
    """
    from scipy.sparse import block_array, coo_array, csc_array, eye_array, vstack

    k, pairs = it.shape[1], len(entry)
    column, ones = np.arange(pairs), np.ones(pairs)
    fresh = (~it.held[entry, adversary]).astype(np.float64)
    copies = coo_array((ones, (entry, column)), shape=(it.shape[0], pairs))
    unit = eye_array(pairs)
    parts = [-unit, unit, copies, -copies]
    right = [np.zeros(pairs), ones, it.hi, -it.lo]
    if it.capped:
        parts.append(coo_array((ones, (adversary, column)), shape=(k, pairs)))
        right.append(it.room)
    squares = it.power == 2
    each = np.asarray(it.parts[~squares].sum(axis=0)).reshape(-1) / it.over
    mean = coo_array((each[entry] * fresh, (adversary, column)), shape=(k, pairs))
    signs = vstack(parts)
    top = block_array(
        [
            [signs, coo_array((signs.shape[0], k)), coo_array((signs.shape[0], 1))],
            [mean, eye_array(k), coo_array(-np.ones((k, 1)))],
        ]
    )
    right.append(-it.base[~squares].sum(axis=0) / it.over)
    blocks, sizes = [top], list[int]()
    wide = coo_array(csc_array(it.parts[squares])[:, entry].multiply(fresh[None, :]))
    whose = adversary[wide.col]
    scale = 2 / np.sqrt(it.over)
    for a in range(k):
        own = coo_array(([-1.0, -1.0], ([0, 1], [a, a])), shape=(2, k))
        at = np.flatnonzero(whose == a)
        place = (wide.row[at], wide.col[at])
        mine = coo_array((wide.data[at] * -scale, place), shape=wide.shape)
        m = mine.shape[0]
        blocks.append(
            block_array(
                [
                    [coo_array((2, pairs)), own, coo_array((2, 1))],
                    [mine, coo_array((m, k)), coo_array((m, 1))],
                ]
            )
        )
        right += [np.array([1.0, -1.0]), scale * it.base[squares, a]]
        sizes.append(m + 2)
    linear = signs.shape[0] + k
    rows = csc_array(vstack(blocks))
    rows.eliminate_zeros()  # the solver would take zeros for coupling
    return rows, np.concatenate(right).astype(float), (linear, sizes)
