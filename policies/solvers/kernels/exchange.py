"""The best exchange of up to four moves of a balanced tradeoff: plain, compiled if large.

A move takes an entry from ``gone`` and gives it to ``come`` (-1 for nobody). Moves are
sorted by what they are ``paid`` at the prices, highest first. No exchange gains more than
its pay and ``slack``, what the loads are out of balance by: that cuts the loops.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from policies.solvers.kernels.array_types import Floats, Floats2, Ints, Ints2

ENTRY_POINTS: Final = ("pick", "four")


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


class Couples(NamedTuple):
    """Two moves of different entries, one couple a row, highest paid first.

    Attributes
    ----------
    first, second
        The two moves.
    gain, paid
        What u gains, as it is and at the prices.
    shift : float64 array, shape (couples, k)
        What the loads change by.
    seats : int64 array, shape (couples, k)
        What the numbers of pairs change by.
    """

    first: Ints
    second: Ints
    gain: Floats
    paid: Floats
    shift: Floats2
    seats: Ints2


class Work(NamedTuple):
    """What a search for four moves needs beside the couples.

    Attributes
    ----------
    price : float64 array, shape (k,)
        What a load costs each adversary; they sum to lambda.
    height : float64 array, shape (k, couples)
        What couples change each load by, from the least.
    who : int64 array, shape (k, couples)
        Those couples.
    base : float64 array, shape (k,)
        Room to work in.
    at : int64 array, shape (3,)
        The same.
    """

    price: Floats
    height: Floats2
    who: Ints2
    base: Floats
    at: Ints


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


def four(
    entry: Ints, two: Couples, state: State, numbers: Floats, work: Work, out: Ints
) -> int:
    """Find the two couples that gain most together.

    Parameters
    ----------
    entry : int64 array, shape (moves,)
        The entry of each move.
    two : Couples
    state : State
    numbers : float64 array
        lambda, highest load, slack, least gain; then the highest and the lowest gain of
        a couple, and the highest pay.
    work : Work
    out : int64 array, shape (2,)
        The couples found.

    Returns
    -------
    int
        2, or 0 where none gain.
    """
    gain, paid, base, at = two.gain, two.paid, work.base, work.at
    lambda_, top, slack, best = numbers[0], numbers[1], numbers[2], numbers[3]
    count = 0
    for p in range(len(paid)):
        if 2 * paid[p] + slack <= best:
            break
        for a in range(len(base)):
            base[a] = state.load[a] + two.shift[p, a]
        narrowest(two, numbers, work, gain[p], paid[p], best)
        i, j = entry[two.first[p]], entry[two.second[p]]
        for r in range(at[1], at[2]):
            q = work.who[at[0], r]
            if q <= p or paid[p] + paid[q] + slack <= best:
                continue
            m, n = entry[two.first[q]], entry[two.second[q]]
            if i == m or j == n:
                continue
            if i == n or j == m:
                continue
            limit = top + (gain[p] + gain[q] - best) / lambda_
            most = fits(two, state, base, p, q, limit)
            found = gain[p] + gain[q] - lambda_ * (most - top)
            if found > best:
                best, count, out[0], out[1] = found, 2, p, q
    return count


def narrowest(
    two: Couples, numbers: Floats, work: Work, gain: float, paid: float, best: float
) -> None:
    """Find the load that the fewest couples bring to where it must be after a given one.

    What two couples gain is what they are paid and the slack, less what the loads are
    out of balance by afterwards: so every load ends in a window below the highest.
    Writes the adversary, and the couples that fit, from and to, into ``work.at``.
    """
    lambda_, top, slack = numbers[0], numbers[1], numbers[2]
    most = paid + numbers[6] + slack  # what any second couple makes of it
    highest = top + (gain + numbers[4] - best) / lambda_
    lowest = top + (gain + numbers[5] - most) / lambda_
    width = len(two.paid) + 1
    for a in range(len(work.base)):
        begin = 0
        if work.price[a] > 0:
            least = lowest - (most - best) / work.price[a] - work.base[a]
            begin = bisect(work.height, a, least)
        end = bisect(work.height, a, highest - work.base[a])
        if end - begin < width:
            width = end - begin
            work.at[0], work.at[1], work.at[2] = a, begin, end


def bisect(height: Floats2, a: int, least: float) -> int:
    """Count the numbers of row ``a``, which is sorted, that are below ``least``."""
    low, high = 0, height.shape[1]
    while low < high:
        middle = (low + high) // 2
        if height[a, middle] < least:
            low = middle + 1
        else:
            high = middle
    return low


def fits(
    two: Couples, state: State, base: Floats, p: int, q: int, limit: float
) -> float:
    """Return the highest load after both couples; infinite past the limit or the room."""
    most = base[0] + two.shift[q, 0]
    for a in range(len(base)):
        most = max(most, base[a] + two.shift[q, a])
        if most > limit:
            return 1e300
        if state.capped[0] and state.free[a] < two.seats[p, a] + two.seats[q, a]:
            return 1e300
    return float(most)
