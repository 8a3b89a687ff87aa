"""Moser-Tardos resampling, as a kernel on the tapes of a plan."""

from __future__ import annotations

from typing import Final

from policies.model.sets import Ints
from policies.solvers.kernels.changes import give
from policies.solvers.kernels.tape import (
    CAP,
    CHOSEN,
    COSINE,
    JUDGED,
    KIND,
    LO,
    LOAD,
    ROW_START,
    ROW_UNIT,
    UNIT_ENTRY,
    UNIT_START,
    Floats,
    H,
    K,
    Q,
)

# places of state
HEAD, TAIL, DONE, DRAWN, STATES = range(5)


def passed(z: Ints, unit: int) -> bool:
    """Whether a hand is past the limit of a set."""
    if z[z[KIND] + unit] >= COSINE:
        return False
    for h in range(z[H]):
        at = unit * z[H] + h
        if z[z[JUDGED] + at] == 1 and z[z[LOAD] + at] > z[z[CAP] + unit]:
            return True
    return False


def redraw(
    z: Ints, r: Floats, d: int, odds: Floats, draws: Floats, state: Ints
) -> None:
    """Take an entry's copies and draw lo anew, in proportion to its odds."""
    for a in range(z[K]):
        if z[z[CHOSEN] + d * z[K] + a] == 1:
            give(z, r, d, a, -1)
    for _ in range(z[z[LO] + d]):
        total = 0.0
        for a in range(z[K]):
            if z[z[CHOSEN] + d * z[K] + a] == 0:
                total += odds[d, a]
        point = draws[state[DRAWN]] * total
        state[DRAWN] += 1
        last = -1
        for a in range(z[K]):
            if z[z[CHOSEN] + d * z[K] + a] == 0 and odds[d, a] > 0.0:
                last = a
                point -= odds[d, a]
                if point < 0.0:
                    break
        if last >= 0:
            give(z, r, d, last, 1)


def resample(
    z: Ints,
    r: Floats,
    odds: Floats,
    draws: Floats,
    queue: Ints,
    queued: Ints,
    state: Ints,
) -> int:
    """Redraw the entries of sets past their limit, until none is or draws run out.

    Returns 0 once no set of the queue is past its limit.
    """
    while state[HEAD] < state[TAIL]:
        unit = queue[state[HEAD] % z[Q]]
        if not passed(z, unit):
            state[HEAD] += 1
            queued[unit] = 0
            continue
        first, last = z[z[UNIT_START] + unit], z[z[UNIT_START] + unit + 1]
        need = 0
        for i in range(first, last):
            need += z[z[LO] + z[z[UNIT_ENTRY] + i]]
        if need == 0 or state[DRAWN] + need > len(draws):
            return 1  # need is 0 where history alone crosses a limit: no draw helps
        for i in range(first, last):
            d = z[z[UNIT_ENTRY] + i]
            redraw(z, r, d, odds, draws, state)
            for row in range(z[z[ROW_START] + d], z[z[ROW_START] + d + 1]):
                other = z[z[ROW_UNIT] + row]
                if queued[other] == 0:
                    queued[other] = 1
                    queue[state[TAIL] % z[Q]] = other
                    state[TAIL] += 1
        state[DONE] += 1
    return 0


NAMES: Final = ("passed", "redraw", "resample")
