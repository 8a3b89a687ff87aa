"""The best exchange of up to four moves, against trying all."""

from itertools import combinations

import numpy as np
import pytest

from policies.solvers.kernels import exchange as kernel_exchange
from policies.solvers.kernels.compiling import kernels

PRICE = np.array([0.5, 0.3, 0.2])


def drawn(seed, *, capped):
    """Nine moves of five entries between three adversaries, best paid first."""
    rng = np.random.default_rng(seed)
    entry = rng.integers(0, 5, 9)
    gone = rng.integers(-1, 3, 9)
    come = (gone + rng.integers(1, 3, 9) + 1) % 4 - 1
    off, on = (np.where(side >= 0, rng.random(9), 0.0) for side in (gone, come))
    means, gain = rng.random(3) * 3, rng.normal(size=9) * 0.3
    price = PRICE[rng.permutation(3)]
    paid = gain - np.where(come >= 0, price[come] * on, 0)
    paid += np.where(gone >= 0, price[gone] * off, 0)
    order = np.argsort(-paid, kind="stable")
    columns = (c[order] for c in (entry, gone, come, off, on, gain, paid))
    free = rng.integers(0, 2, 3) if capped else np.full(3, 9)
    state = kernel_exchange.State(means, free, np.array([int(capped)]))
    slack = float(price @ (means.max() - means))
    numbers = np.array([1.0, means.max(), slack, 1e-13])
    return kernel_exchange.Columns(*columns), state, numbers, price


def gain_of(moves, state, rows):
    """What the rows gain together; None where there is no room or an entry twice."""
    entry, gone, come, off, on, gain, _ = moves
    means, free, capped = (part.copy() for part in state)
    if len({int(entry[r]) for r in rows}) < len(rows):
        return None
    for r in rows:
        if gone[r] >= 0:
            means[gone[r]] -= off[r]
            free[gone[r]] += 1
        if come[r] >= 0:
            means[come[r]] += on[r]
            free[come[r]] -= 1
    if capped[0] and free.min() < 0:
        return None
    return gain[list(rows)].sum() - (means.max() - state[0].max())


@pytest.mark.parametrize("capped", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_the_best_pair_or_else_the_best_three(seed, capped):
    """Nothing that gains more is passed over, and the loads are as they were."""
    moves, state, numbers, _ = drawn(seed, capped=capped)
    before = [part.copy() for part in state]
    out = np.zeros(3, np.int64)
    count = kernel_exchange.pick(moves, state, numbers, np.array([9, 9]), out)
    for was, part in zip(before, state, strict=True):
        assert np.allclose(was, part)
    best = {}
    for size in (1, 2, 3):
        tried = (gain_of(moves, state, r) for r in combinations(range(9), size))
        best[size] = max((g for g in tried if g is not None), default=-1.0)
    few = max(best[1], best[2])
    want = few if few > 1e-12 else best[3]
    if want <= 1e-12:
        assert count == 0
    else:
        assert gain_of(moves, state, out[:count].tolist()) == pytest.approx(want)


def couples_of(moves, numbers, price):
    """All couples of moves of two entries, best paid first, and what four needs."""
    i, j = (x[moves.entry[x] >= 0] for x in np.triu_indices(9, 1))
    i, j = (x[moves.entry[i] != moves.entry[j]] for x in (i, j))
    order = np.argsort(-(moves.paid[i] + moves.paid[j]), kind="stable")
    i, j = i[order], j[order]
    each, seats = np.zeros((9, 3)), np.zeros((9, 3), np.int64)
    for r in range(9):
        if moves.gone[r] >= 0:
            each[r, moves.gone[r]] -= moves.off[r]
            seats[r, moves.gone[r]] -= 1
        if moves.come[r] >= 0:
            each[r, moves.come[r]] += moves.on[r]
            seats[r, moves.come[r]] += 1
    gain, paid = moves.gain[i] + moves.gain[j], moves.paid[i] + moves.paid[j]
    shift = each[i] + each[j]
    couples = kernel_exchange.Couples(i, j, gain, paid, shift, seats[i] + seats[j])
    who = np.ascontiguousarray(np.argsort(shift, axis=0, kind="stable").T)
    height = np.take_along_axis(np.ascontiguousarray(shift.T), who, axis=1)
    work = kernel_exchange.Work(price, height, who, np.zeros(3), np.zeros(3, np.int64))
    span = [gain.max(initial=0.0), gain.min(initial=0.0), paid.max(initial=0.0)]
    return couples, np.array([*numbers, *span]), work


@pytest.mark.parametrize("capped", [False, True])
@pytest.mark.parametrize("seed", range(50))
def test_the_best_four(seed, capped):
    """The window of loads passes over nothing that gains more."""
    moves, state, numbers, price = drawn(seed, capped=capped)
    two, given, work = couples_of(moves, numbers, price)
    out = np.zeros(2, np.int64)
    count = kernel_exchange.four(moves.entry, two, state, given, work, out)
    tried = (gain_of(moves, state, r) for r in combinations(range(9), 4))
    want = max((g for g in tried if g is not None), default=-1.0)
    assert (count == 2) == (want > 1e-12)
    if count:
        rows = [int(r) for at in out for r in (two.first[at], two.second[at])]
        assert gain_of(moves, state, rows) == pytest.approx(want)


def test_compiled_is_the_same():
    """The very functions, compiled."""
    for seed in range(10):
        plain, quick = np.zeros(3, np.int64), np.zeros(3, np.int64)
        sizes = np.array([9, 9])
        moves, state, numbers, _ = drawn(seed, capped=False)
        one = kernel_exchange.pick(moves, state, numbers, sizes, plain)
        two = kernels("exchange", quick=True)["pick"](
            moves, state, numbers, sizes, quick
        )
        assert (one, plain.tolist()) == (two, quick.tolist())
        couples = couples_of(moves, numbers, np.full(3, 1 / 3))
        found = np.zeros((2, 2), np.int64)
        for run, into in zip(
            (kernel_exchange.four, kernels("exchange", quick=True)["four"]),
            found,
            strict=True,
        ):
            run(moves.entry, couples[0], state, *couples[1:], into)
        assert found[0].tolist() == found[1].tolist()
