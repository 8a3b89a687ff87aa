"""Round a fractional plan so that no load rises by more than a constant.

Beck and Fiala's argument (1981) for loads of many adversaries (guarantees, R3; for the
worst linear set, paper, section 4.2, where the printed roundings guarantee nothing):
loads and copies stay fixed while fractions move, and a load is released once the sum of
its fractional parts is small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from policies.model.sets import Bools, Ints
from policies.solvers.load_tables import LoadTables

Floats = npt.NDArray[np.float64]

MOST: Final = 1_000
"""Fractions above which nothing is rounded: a step costs their cube."""

_STILL = 1e-12  # smaller movements count as none
_NEAR = 1e-8  # fractions this close to 0 or 1 are rounding errors of the relaxation


def slack(it: LoadTables) -> float:
    """Return by how much a load may rise: twice the largest sum of an entry's parts."""
    return 2.0 * float(it.parts.sum(axis=0).max(initial=0.0))


def additive(it: LoadTables, chance: Floats, over: Callable[[], bool]) -> Bools | None:
    """Round a fractional plan.

    Parameters
    ----------
    it : Loads
        Without capacities.
    chance : float64 array, shape (n, k)
        0 to 1, 0 for pairs that are not possible; rows add up to lo .. hi.
    over : callable
        True once time is over.

    Returns
    -------
    bool array, shape (n, k), or None
        u is no lower than that of ``chance``, each entry has lo .. hi copies, and each
        load is less than :func:`slack` above its own there. None if there are more
        than ``MOST`` fractions, or time is over.
    """
    near = np.rint(chance)
    x = np.where(np.abs(chance - near) < _NEAR, near, chance)
    d, a = np.nonzero((x > 0.0) & (x < 1.0))
    if len(d) > MOST:
        return None
    while len(d):
        if over():
            return None
        moved = _walked(x[d, a], it.worth[d, a], _kept(it, d, a))
        if moved is None:
            return None
        x[d, a] = moved
        floating = (moved > 0.0) & (moved < 1.0)
        d, a = d[floating], a[floating]
    return x > 0.5


def _kept(it: LoadTables, d: Ints, a: Ints) -> Floats:
    """Return the fixed rows: loads with large fractional sums, and copies of entries.

    Fractional parts add up to at most F times the largest sum of an entry, so fewer
    than F / 2 loads have more than twice that; entries with two fractions are at most F
    / 2. So there is always a free direction.
    """
    part, least, rows = it.parts.tocsc(), slack(it), []
    for one in np.unique(a).tolist():
        fresh = np.flatnonzero((a == one) & ~it.held[d, a])
        mine = part[:, d[fresh]]  # sparse: of many sets, few have large sums
        much = mine[np.flatnonzero(np.asarray(mine.sum(axis=1)).reshape(-1) > least)]
        wide = np.zeros((much.shape[0], len(d)))
        wide[:, fresh] = much.toarray()
        rows.append(wide)
    entries, count = np.unique(d, return_counts=True)
    several = entries[count > 1]
    return np.concatenate([*rows, (several[:, None] == d).astype(np.float64)])


def _walked(x: Floats, worth: Floats, kept: Floats) -> Floats | None:
    """Move in directions that leave ``kept @ x`` fixed, until none is left."""
    free = _null(kept)
    if not free.shape[1]:
        return None
    x = x.copy()
    while free.shape[1]:
        way = free[:, 0] if worth @ free[:, 0] >= 0.0 else -free[:, 0]
        room = np.where(way > 0.0, 1.0 - x, x)
        moving = np.abs(way) > _STILL
        x = x + float((room[moving] / np.abs(way[moving])).min()) * way
        near = np.rint(x)
        done = np.flatnonzero(moving & (np.abs(x - near) < _NEAR))
        x[done] = near[done]
        for i in done.tolist():
            free = _without(free, i)
    return x


def _null(kept: Floats) -> Floats:
    """Return the directions that change no row, as columns."""
    from scipy.linalg import qr

    basis, triangle, _ = qr(kept.T, pivoting=True, check_finite=False)
    size = np.abs(np.diag(triangle))
    rank = int((size > 1e-9 * size.max(initial=1.0)).sum())
    return np.asarray(basis[:, rank:])


def _without(free: Floats, i: int) -> Floats:
    """Return the directions among these in which coordinate ``i`` does not move."""
    j = int(np.abs(free[i]).argmax()) if free.shape[1] else -1
    if j >= 0 and abs(free[i, j]) > _STILL:
        rest = np.delete(free, j, axis=1)
        rest -= np.outer(free[:, j], rest[i] / free[i, j])
        free = rest / np.linalg.norm(rest, axis=0)
    free[i] = 0.0  # exactly: a remainder would grow
    return free
