"""Moser-Tardos resampling (JACM 2010), as a kernel on the arrays of a plan.

While a set is past its limit, its entries are redrawn, and the sets that share an entry
with it are checked again: no other set's load has changed. So once the queue is empty,
no set is past its limit. Under the local lemma (guarantees, C1) the expected number of
draws is linear in the number of sets; otherwise only the supply of draws ends the loop.
"""

from __future__ import annotations

from typing import Final

from policies.model.problem_arrays import Floats
from policies.model.sets import Ints
from policies.solvers.kernels.moves import give
from policies.solvers.kernels.plan_state import (
    CAP,
    COSINE,
    ENTRY,
    KIND,
    LEVEL,
    LO,
    MEMBERS,
    ROWS,
    UNIT,
    Floats2,
    State,
)

ENTRY_POINTS: Final = ("resample",)

# indices of ``progress``
HEAD, TAIL, DONE, DRAWN, PROGRESS = range(5)


def is_set_past_limit(s: State, unit: int) -> bool:
    """Whether some observer is past the limit of a set."""
    if s.unit[unit, KIND] <= COSINE:
        return False
    for o in range(s.load.shape[1]):
        if s.judged[unit, o] and s.load[unit, o] > s.unit[unit, CAP]:
            return True
    return False


def resample(
    s: State,
    odds: Floats2,
    draws: Floats,
    queue: Ints,
    queued: Ints,
    progress: Ints,
) -> int:
    """Redraw the entries of sets past their limit, until none is or draws run out.

    Parameters
    ----------
    s
    odds : float64 array, shape (n, k)
    draws : float64 array, shape (draws,)
    queue, queued : int64 array, shape (q,)
        A ring buffer of units to check, each at most once, and whether it is in there.
    progress : int64 array, shape (PROGRESS,)
        Head and tail of the queue, number of sets redrawn, number of draws used.

    Returns
    -------
    int
        0 once no set of the queue is past its limit, else 1.
    """
    size, k = len(queue), s.worth.shape[1]
    while progress[HEAD] < progress[TAIL]:
        unit = queue[progress[HEAD] % size]
        if not is_set_past_limit(s, unit):
            progress[HEAD] += 1
            queued[unit] = 0
            continue
        first, last = s.unit[unit, MEMBERS], s.unit[unit + 1, MEMBERS]
        need = 0
        for i in range(first, last):
            need += s.entry[s.member[i, ENTRY], LO]
        if need == 0 or progress[DRAWN] + need > len(draws):
            return 1  # need is 0 where history alone exceeds a limit: no draw helps
        for i in range(first, last):
            d = s.member[i, ENTRY]
            for a in range(k):
                if s.chosen[d, a]:
                    give(s, d, a, -1, LEVEL)
            for _ in range(s.entry[d, LO]):  # lo copies, in proportion to the odds
                total = 0.0
                for a in range(k):
                    if not s.chosen[d, a]:
                        total += odds[d, a]
                point = draws[progress[DRAWN]] * total
                progress[DRAWN] += 1
                drawn = -1
                for a in range(k):
                    if not s.chosen[d, a] and odds[d, a] > 0.0:
                        drawn = a
                        point -= odds[d, a]
                        if point < 0.0:
                            break
                if drawn >= 0:
                    give(s, d, drawn, 1, LEVEL)
            for row in range(s.entry[d, ROWS], s.entry[d + 1, ROWS]):
                other = s.row[row, UNIT]
                if queued[other] == 0:
                    queued[other] = 1
                    queue[progress[TAIL] % size] = other
                    progress[TAIL] += 1
        progress[DONE] += 1
    return 0
