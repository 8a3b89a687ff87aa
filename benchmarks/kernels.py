"""What each kernel costs to compile, cold: CPU seconds of its first call.

    python -m benchmarks.kernels

Every entry point that a solver calls counts with all functions below it. The cache is a
fresh directory, so that nothing is found in it; numba's own start is told apart.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.greedy import sparse_problem
from benchmarks.machine import load_average, verdict
from policies.model.problem_arrays import Floats
from policies.model.sets import Bools, Ints
from policies.solvers.exact import hitting_set
from policies.solvers.kernels import annealing as kernel_anneal
from policies.solvers.kernels import cover as kernels_cover
from policies.solvers.kernels import crossing as kernel_crossing
from policies.solvers.kernels import exchange as kernel_exchange
from policies.solvers.kernels import resampling as kernels_resample
from policies.solvers.rounding import moser_tardos
from policies.solvers.search import exchange_moves, load_annealing, penalty_annealing
from policies.solvers.search.delta_evaluation import Gains, fast

LIMIT = 3.0
N, K = 40, 3

GREEDY = "greedy grasp"
ALL = "greedy grasp greedyl graspl local-search rand-plus moser-tardos"

Kernel = tuple[str, str, Callable[[], object]]  # its name, who calls it, a first call


def whole(*shape: int) -> Ints:
    return np.zeros(shape, np.int64)


def real(*shape: int) -> Floats:
    return np.zeros(shape)


def truth(*shape: int) -> Bools:
    return np.zeros(shape, np.bool_)


def on_tapes() -> Iterator[Kernel]:
    """Kernels on the tapes of a plan; the first makes them."""
    board = Gains(sparse_problem(N, K, 2, seed=1), quick=False, every=True)
    z, r = np.array(board.tape.z), np.array(board.tape.r)

    def first(name: str, *rest: object) -> Callable[[], object]:
        return lambda: fast()[name](z, r, *rest)

    memo, known, top = board.memo(1)
    order, draws = np.arange(N), real(N)
    yield "settle", ALL, first("settle")
    yield "hold", f"{ALL}, with history", first("hold", 0, 0, 1)
    yield "give", f"{ALL}, from a plan", first("give", 0, 0, 1)
    yield "prepare", GREEDY, first("prepare")
    yield "construct", GREEDY, first("construct", draws, memo, known, top, 0, 1)
    yield "pick", f"{GREEDY}, in threads", first("pick", 0, K, memo, known, top)
    yield (
        "settle_pick",
        f"{GREEDY}, in threads",
        first("settle_pick", 3, 1, memo, known),
    )
    yield "myopic", "greedyl graspl", first("myopic", order, draws, top)
    yield "local", ALL, first("local", order, real(4), real(5))
    yield "swap", "local-search", first("swap", order)
    yield (
        "deal",
        "local-search rand-plus moser-tardos",
        first("deal", order, whole(N, K), whole(N)),
    )
    rest = real(N, K), real(1), whole(1), whole(1), whole(kernels_resample.STATES)
    resample = moser_tardos.fast()["resample"]
    yield "resample", "moser-tardos", lambda: resample(z, r, *rest)


def on_arrays() -> Iterator[Kernel]:
    """Kernels with arrays of their own."""
    fields = kernels_cover.Cover._fields
    cover = kernels_cover.Cover(
        *(whole(2 if name.endswith("start") else 1) for name in fields)
    )._replace(child=whole(2, 1), state=whole(kernels_cover.STATES), tally=whole(3))
    yield "search", "hitting-set", lambda: hitting_set.fast()["search"](cover, 0, 0)
    moves = kernel_exchange.Columns(*(whole(0),) * 3, *(real(0),) * 4)
    loads = kernel_exchange.State(real(2), whole(2), whole(1))
    sizes = real(4), whole(2), whole(3)
    exchanged = exchange_moves.fast()
    yield "pick (moves)", "exchange", lambda: exchanged["pick"](moves, loads, *sizes)
    couples = kernel_exchange.Couples(
        whole(0), whole(0), real(0), real(0), real(0, 2), whole(0, 2)
    )
    room = kernel_exchange.Work(real(2), real(2, 0), whole(2, 0), real(2), whole(3))
    given = whole(0), couples, loads, real(7), room, whole(2)
    yield "four (moves)", "exchange", lambda: exchanged["four"](*given)
    two, pairs = whole(2), truth(2, 2)
    state = kernel_anneal.State(
        pairs, two, two, real(1, 2), real(2), real(1, 2), real(1)
    )
    rows = whole(3), whole(0), real(0), truth(1), pairs, 0.0, 0.0
    fixed = kernel_anneal.Fixed(*rows, pairs, two, two, two, real(2, 2))
    walk = load_annealing.fast()["walk"]
    yield (
        "walk",
        "annealing socp-rounding",
        lambda: walk(state, fixed, real(3), real(0, 5)),
    )
    crossed = kernel_crossing.State(pairs, pairs, two, whole(1, 2), whole(1))
    limits = whole(3), whole(0), whole(0), whole(1, 2), pairs, two, two, real(2, 2)
    numbers, draws = real(kernel_crossing.SIZE), real(0, kernel_crossing.DRAWS)
    across = penalty_annealing.fast()["walk"]
    yield (
        "walk (limits)",
        "auto, small sets",
        lambda: across(crossed, kernel_crossing.Fixed(*limits), numbers, draws),
    )


def started() -> object:
    """Import numba and compile next to nothing."""
    import numba

    return numba.njit(lambda x: x[0] + 1)(real(1))


def seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> int:
    print(f"load average {load_average():.1f}")
    slow = 0
    with tempfile.TemporaryDirectory() as cache:
        os.environ["NUMBA_CACHE_DIR"] = cache
        print(f"numba's own start {seconds(started):.2f} s of CPU, once a process")
        for kernels in (on_tapes, on_arrays):
            for name, solvers, work in kernels():
                took = seconds(work)
                slow += took > LIMIT
                told = verdict(f"{name} compiles in s of CPU", took, LIMIT)
                print(f"{told}; {solvers}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
