"""The best exchange of up to three moves of a balanced tradeoff: plain, compiled if large.

A move takes an entry from ``gone`` and gives it to ``come`` (-1 for nobody). Moves are
sorted by what they are ``paid`` at the prices, highest first. No exchange gains more than
its pay and ``slack``, what the loads are out of balance by: that cuts the loops.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from policies.sets import Ints
from policies.tables import Floats

NAMES: Final = ("shift", "peak", "pick", "two", "three", "third")
DOORS: Final = ("pick",)


class Columns(NamedTuple):
    """Moves, one a row.

    Attributes
    ----------
    entry, gone, come
        The entry leaves ``gone`` and comes to ``come``; -1 for nobody.
    off, on
        What leaves the one's load and comes to the other's.
    gain, paid
        What u gains, as it is and at the prices.
    """

    entry: Ints
    gone: Ints
    come: Ints
    off: Floats
    on: Floats
    gain: Floats
    paid: Floats


class State(NamedTuple):
    """Loads, places that are free, and whether they count (one number)."""

    load: Floats
    free: Ints
    capped: Ints


def shift(moves: Columns, state: State, i: int, sign: int) -> None:
    """Make move i (sign 1) or take it back (-1)."""
    a, c = moves.gone[i], moves.come[i]
    if a >= 0:
        state.load[a] -= sign * moves.off[i]
        state.free[a] += sign
    if c >= 0:
        state.load[c] += sign * moves.on[i]
        state.free[c] -= sign


def peak(state: State) -> float:
    """Highest load; infinite where an adversary has no room for what it was given."""
    top = state.load[0]
    for a in range(len(state.load)):
        top = max(top, state.load[a])
        if state.capped[0] and state.free[a] < 0:
            return 1e300
    return float(top)


def pick(moves: Columns, state: State, numbers: Floats, sizes: Ints, out: Ints) -> int:
    """Find the best move or pair of moves, or else the best three.

    Parameters
    ----------
    moves : Columns
    state : State
        As it was when it ends.
    numbers : float64 array
        lambda, highest load, slack, least gain.
    sizes : int64 array
        Moves that are looked at two and three at a time.
    out : int64 array, shape (3,)
        The moves found.

    Returns
    -------
    int
        How many; 0 where nothing gains.
    """
    count = two(moves, state, numbers, sizes[0], out)
    return count if count else three(moves, state, numbers, sizes[1], out)


def two(moves: Columns, state: State, numbers: Floats, size: int, out: Ints) -> int:
    """Find the best move or pair; return how many moves it is."""
    entry, gain, paid = moves.entry, moves.gain, moves.paid
    lambda_, top, slack, best = numbers[0], numbers[1], numbers[2], numbers[3]
    count, few = 0, min(len(entry), size)
    for i in range(few):
        shift(moves, state, i, 1)
        found = gain[i] - lambda_ * (peak(state) - top)
        if found > best:
            best, count, out[0] = found, 1, i
        for j in range(i + 1, few):
            if paid[i] + paid[j] + slack <= best:
                break
            if entry[i] != entry[j]:
                shift(moves, state, j, 1)
                found = gain[i] + gain[j] - lambda_ * (peak(state) - top)
                if found > best:
                    best, count, out[0], out[1] = found, 2, i, j
                shift(moves, state, j, -1)
        shift(moves, state, i, -1)
    return count


def three(moves: Columns, state: State, numbers: Floats, size: int, out: Ints) -> int:
    """Find the best three moves; return 3, or 0 where none gain."""
    entry, paid = moves.entry, moves.paid
    slack, best = numbers[2], numbers[3]
    count, few = 0, min(len(entry), size)
    for i in range(few):
        shift(moves, state, i, 1)
        for j in range(i + 1, few):
            if paid[i] + paid[j] + max(paid[j], 0.0) + slack <= best:
                break
            if entry[i] != entry[j]:
                shift(moves, state, j, 1)
                found = third(moves, state, numbers, few, i, j, best, out)
                if found > best:
                    best, count = found, 3
                shift(moves, state, j, -1)
        shift(moves, state, i, -1)
    return count


def third(
    moves: Columns,
    state: State,
    numbers: Floats,
    few: int,
    i: int,
    j: int,
    best: float,
    out: Ints,
) -> float:
    """Find the best third move to two; return what is gained, or ``best`` as it was."""
    entry, gain, paid = moves.entry, moves.gain, moves.paid
    lambda_, top, slack = numbers[0], numbers[1], numbers[2]
    for m in range(j + 1, few):
        if paid[i] + paid[j] + paid[m] + slack <= best:
            break
        if entry[m] == entry[i] or entry[m] == entry[j]:
            continue
        shift(moves, state, m, 1)
        found = gain[i] + gain[j] + gain[m] - lambda_ * (peak(state) - top)
        if found > best:
            best, out[0], out[1], out[2] = found, i, j, m
        shift(moves, state, m, -1)
    return best
