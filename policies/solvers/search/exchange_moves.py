"""Changes of a balanced tradeoff's plan, and the best exchange of a few of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from policies.model.sets import Bools, Ints
from policies.solvers.kernels import exchange as kernel_exchange
from policies.solvers.kernels.compiling import FROM, kernels, ready
from policies.solvers.load_balance import Balance, scaled
from policies.solvers.load_tables import Floats

PAIRS, TRIPLES, FOURS = 300, 70, 120
"""Moves that are looked at together, two, three and four at a time."""

SLOW: Final = (150, 24, 24)
"""The same where nothing is compiled."""

_ROUNDS: Final = 200  # exchanges of one start; tens are usual
_TINY: Final = 1e-13


@dataclass(frozen=True, eq=False)
class Moves:
    """Changes of one entry each, cheapest at the prices first.

    Attributes
    ----------
    entry, gone, come : int64 array, shape (moves,)
        The entry leaves ``gone`` and comes to ``come``; -1 for neither.
    gain : float64 array, shape (moves,)
        What u gains.
    paid : float64 array, shape (moves,)
        The same less what the change of loads costs at the prices.
    shift : float64 array, shape (moves, k)
        What the means change by.
    seats : int64 array, shape (moves, k)
        What the numbers of pairs change by.
    off, on : float64 array, shape (moves,)
        What leaves ``gone``'s mean, and what comes to ``come``'s.
    """

    entry: Ints
    gone: Ints
    come: Ints
    gain: Floats
    paid: Floats
    shift: Floats
    seats: Ints
    off: Floats
    on: Floats

    @property
    def columns(self) -> kernel_exchange.Columns:
        """What :mod:`policies.solvers.kernels.exchange` calls moves."""
        known = self.entry, self.gone, self.come, self.off, self.on
        return ready(kernel_exchange.Columns(*known, self.gain, self.paid))

    def make(self, chosen: Bools, rows: list[int]) -> None:
        """Make these moves."""
        for r in rows:
            d, a, c = int(self.entry[r]), int(self.gone[r]), int(self.come[r])
            if a >= 0:
                chosen[d, a] = False
            if c >= 0:
                chosen[d, c] = True


def moves(
    b: Balance, chosen: Bools, price: Floats, most: int, least: float = -np.inf
) -> Moves:
    """Return the cheapest single changes: adding, dropping or moving one copy.

    Those that lose more than ``-least`` at the prices are left out.
    """
    it = b.it
    k = it.shape[1]
    degree = chosen.sum(axis=1)
    reduced = it.worth - b.cost * price
    found = [
        _rows(np.argwhere(chosen & (degree > it.lo)[:, None]), 1),
        _rows(np.argwhere(it.may & ~chosen & (degree < it.hi)[:, None]), 2),
        np.argwhere(chosen[:, :, None] & (it.may & ~chosen)[:, None, :]),
    ]
    every = np.concatenate(found).astype(np.int64)
    entry, gone, come = every.T
    paid = _at(reduced, entry, come) - _at(reduced, entry, gone)
    near = np.flatnonzero(paid > least)
    keep = near[np.argsort(-paid[near], kind="stable")[:most]]
    entry, gone, come = entry[keep], gone[keep], come[keep]
    shift, seats = np.zeros((len(keep), k)), np.zeros((len(keep), k), np.int64)
    off, on = _at(b.cost, entry, gone), _at(b.cost, entry, come)
    for at, sign, cost in ((come, 1, on), (gone, -1, off)):
        here = np.flatnonzero(at >= 0)
        shift[here, at[here]] += sign * cost[here]
        seats[here, at[here]] += sign
    gain = _at(it.worth, entry, come) - _at(it.worth, entry, gone)
    return Moves(entry, gone, come, gain, paid[keep], shift, seats, off, on)


def _rows(pairs: npt.NDArray[Any], column: int) -> npt.NDArray[Any]:
    """Put (entry, adversary) into (entry, gone, come): adversary in ``column``."""
    out = np.full((len(pairs), 3), -1, np.int64)
    out[:, 0], out[:, column] = pairs[:, 0], pairs[:, 1]
    return out


def _at(table: Floats, entry: Ints, adversary: Ints) -> Floats:
    return np.where(adversary >= 0, table[entry, np.maximum(adversary, 0)], 0.0)


def improve(
    b: Balance,
    chosen: Bools,
    prices: Floats,
    over: Callable[[], bool],
    *,
    fours: bool = True,
) -> None:
    """Exchange up to four entries at once until that gains nothing; changes ``chosen``.

    Parameters
    ----------
    b : Balance
    chosen : bool array, shape (n, k)
    prices : float64 array, shape (k,)
    over : callable
    fours : bool
        False: three entries at most, which costs a tenth.
    """
    price = scaled(prices, b.it.lambda_)
    for _ in range(_ROUNDS):
        if over() or not _exchange(b, chosen, price, fours=fours):
            return


def _exchange(b: Balance, chosen: Bools, price: Floats, *, fours: bool) -> bool:
    """Make the best exchange of the fewest entries, one to four, that gains anything.

    No exchange gains more than its moves are paid at the prices and what the loads are
    out of balance by; so few moves are looked at once the plan is good.
    """
    it = b.it
    means, free = b.means(chosen), it.room - chosen.sum(axis=0)
    top = float(means.max())
    slack = float(price @ (top - means)) - _TINY
    quick = (it.parts.nnz + len(chosen)) * len(means) >= FROM
    pairs, triples, couples = (PAIRS, TRIPLES, FOURS) if quick else SLOW
    some = moves(b, chosen, price, pairs, -slack)
    if not len(some.entry):
        return False
    numbers = np.array([it.lambda_, top, slack, _TINY])
    state = ready(kernel_exchange.State(means, free, np.array([int(it.capped)])))
    out, sizes = np.zeros(3, np.int64), np.array([pairs, triples])
    run = kernels("exchange", quick=quick)
    rows = out[: int(run["pick"](some.columns, state, numbers, sizes, out))].tolist()
    if not rows and fours:
        rows = _four(some, state, price, numbers, (run["four"], couples))
    some.make(chosen, rows)
    return bool(rows)


def _four(
    some: Moves,
    state: kernel_exchange.State,
    price: Floats,
    numbers: Floats,
    search: tuple[Callable[..., int], int],
) -> list[int]:
    """Return the four moves that gain most, as two couples of the first so many."""
    run, most = search
    i, j = _paired(some, most, float(numbers[2]))
    if len(i) < 2:
        return []
    gain, shift, seats = _joined(some, i, j)
    paid = some.paid[i] + some.paid[j]
    couples = ready(kernel_exchange.Couples(i, j, gain, paid, shift, seats))
    numbers = np.array([*numbers, gain.max(), gain.min(), paid.max()])
    who = np.ascontiguousarray(np.argsort(shift, axis=0, kind="stable").T)
    height = np.take_along_axis(np.ascontiguousarray(shift.T), who, axis=1)
    work = kernel_exchange.Work(
        price, height, who, np.empty(len(price)), np.zeros(3, np.int64)
    )
    out = np.zeros(2, np.int64)
    if not run(
        np.require(some.entry, requirements=["C", "W"]),
        couples,
        state,
        numbers,
        ready(work),
        out,
    ):
        return []
    return [int(r) for at in out.tolist() for r in (i[at], j[at])]


def _paired(some: Moves, most: int, slack: float) -> tuple[Ints, Ints]:
    """Pairs of the first moves, as two columns, highest paid first.

    Of two pairs that gain together neither loses more than the slack and what the other
    is paid at most.
    """
    i, j = np.triu_indices(min(most, len(some.entry)), 1)
    i, j = (x[some.entry[i] != some.entry[j]] for x in (i, j))
    paid = some.paid[i] + some.paid[j]
    near = np.flatnonzero(paid + paid.max(initial=0.0) > -slack)
    kept = near[np.argsort(-paid[near], kind="stable")]
    return i[kept], j[kept]


def _joined(some: Moves, i: Ints, j: Ints) -> tuple[Floats, Floats, Ints]:
    """Pairs of moves together: gain, shift, seats."""
    gain, shift, seats = some.gain, some.shift, some.seats
    return gain[i] + gain[j], shift[i] + shift[j], seats[i] + seats[j]
