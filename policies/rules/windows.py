"""Sliding windows over columns: which entries of a unit count together.

A window begins at a time x of an entry and is closed: x to x + w. Whoever holds what lies
in it holds, of the windows inside it, no less than they have; so limits on f ask for the
widest ones alone, and means for every one.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

LATEST: Final = int(np.iinfo(np.int64).max)


def widest_windows(unit: Ints, time: Ints, window: int | None) -> tuple[Ints, Ints]:
    """First and last + 1 position of every set, over rows sorted by (unit, time).

    With a window: one for each different time x of a unit, from x to x + window, closed;
    a window that ends where the one before it ends lies inside it and is left out.
    """
    if not len(unit):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    fresh = np.flatnonzero(np.r_[True, unit[1:] != unit[:-1]])
    ends = np.r_[fresh[1:], len(unit)]
    if window is None:
        return fresh, ends
    last = np.empty(len(unit), dtype=np.int64)
    for begin, end in zip(fresh.tolist(), ends.tolist(), strict=True):
        times = time[begin:end]
        reach = _reach(times, window)
        last[begin:end] = begin + np.searchsorted(times, reach, side="right")
    # Within a unit `last` never falls, so a window is widest where it first reaches.
    begins = np.r_[True, (last[1:] != last[:-1]) | (unit[1:] != unit[:-1])]
    first = np.flatnonzero(begins)
    return first, last[first]


def every_window(
    unit: Ints, time: Ints, window: int, starts: tuple[Ints, Ints]
) -> tuple[Ints, Ints, Ints, Ints]:
    """One window for each different (unit, time) of the starts, some of them empty.

    Parameters
    ----------
    unit, time : int64 array, shape (rows,)
        Sorted by (unit, time).
    window : int
    starts : tuple of int64 array, shape (starts,)
        Units and times, in any order.

    Returns
    -------
    first, last, unit, since : int64 array, shape (windows,)
        First and last + 1 position, unit, and time it begins at.
    """
    unit_of, since = np.unique(np.stack(starts), axis=1)
    units, times = np.unique(np.r_[unit, unit_of]), np.unique(time)
    span = len(times) + 1
    key = np.searchsorted(units, unit) * span + np.searchsorted(times, time)
    base = np.searchsorted(units, unit_of) * span
    first = np.searchsorted(key, base + np.searchsorted(times, since))
    ends = np.searchsorted(times, _reach(since, window), side="right")
    return first, np.searchsorted(key, base + ends), unit_of, since


def _reach(times: Ints, window: int) -> Ints:
    """The ends of windows; the last of all times where that is no number."""
    return np.where(times > LATEST - window, LATEST, times + window)
