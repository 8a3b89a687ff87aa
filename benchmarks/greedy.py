"""GREEDY against G recomputed in numpy; GREEDYL by size; memory; first plans of ``auto``.

    python -m benchmarks.greedy [--scale]

The naive GREEDY would evaluate t |D| rounds of up to |D| |A| candidates; 1,000 of them
are timed and the rest is extrapolated, which the output says. Seconds are CPU seconds of
the calling thread; where numpy multiplies in several threads that favours it. Bytes are
all that is allocated, at its highest, from the problem to the plan. First plans: CPU
seconds of the rows of ``auto`` up to GREEDYL, on problems of 500 entries; each in a process
that has loaded no engine and no kernel yet, the least of three.
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np

from benchmarks.cells import by_cpu, forked
from benchmarks.families import KS, SPARSE, generated, sparse
from benchmarks.machine import load_average, verdict
from benchmarks.paper_data import budget, synthetic
from policies.model.measures import Measure
from policies.model.objective import Objective
from policies.model.problem import Goal, Problem
from policies.model.problem_arrays import tables
from policies.model.sets import NO_CAP, SetSystem
from policies.model.weights import Weights
from policies.solvers.auto import TABLE, Auto
from policies.solvers.search.delta_evaluation import Gains

SAMPLE = 1_000
FASTER = 1_000  # times, at least
BYTES = 200  # a candidate pair, at most
FIRST = 0.2  # CPU seconds to the first plan of 500 entries, at most
AGAIN = 3  # times, of which the least counts
K, T = 5, 2


def sparse_problem(n: int, k: int, t: int, *, seed: int) -> Problem:
    """n entries in n triples: degree 3 on average."""
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.integers(0, n, (n, 3)), axis=1)
    distinct = (ends[:, 0] < ends[:, 1]) & (ends[:, 1] < ends[:, 2])
    weights = rng.integers(1, 1_000, (k, 64))
    kind = rng.integers(0, 64, n)
    size = int(distinct.sum())
    sets = SetSystem(
        n,
        ("triples",),
        (Measure.LINEAR,),
        np.zeros(size, np.int64),
        3 * np.arange(size + 1),
        ends[distinct].reshape(-1),
        np.ones(3 * size, np.int64),
        np.full(size, NO_CAP),
        np.full(size, 3),
        np.zeros(size, np.bool_),
    )
    flat = Weights(kind, np.ones(n, np.int64), weights)
    hi = np.full(n, t)
    return Problem(
        sets=sets,
        lo=np.ones(n, np.int64),
        hi=hi,
        weights=replace(flat, unit=Fraction(1, flat.best(hi))),
        goal=Goal(Objective.TRADEOFF, Fraction(1), Fraction(0)),
    )


def naive_seconds(problem: Problem, seed: int) -> float:
    """Seconds for one evaluation of G from the assignment matrix, in numpy."""
    t = tables(problem)
    shares = np.zeros((len(t.cap), problem.n_entries))
    shares[t.set_of, t.entry] = t.amount / t.full[t.set_of]
    rng = np.random.default_rng(seed)
    x = rng.random(t.worth.shape) < 1 / problem.n_adversaries
    average = problem.goal.average
    began = time.thread_time()
    for _ in range(SAMPLE):
        d, a = rng.integers(x.shape[0]), rng.integers(x.shape[1])
        x[d, a] ^= True
        load = shares @ x
        f = load.mean(axis=0).max() if average else load.max()
        g = t.worth[x].sum() - f - np.count_nonzero(~x.any(axis=1))
        x[d, a] ^= True
    assert np.isfinite(g)
    return (time.thread_time() - began) / SAMPLE


def greedy_seconds(problem: Problem) -> float:
    """Seconds of one global construction, kernels compiled before."""
    gains = Gains(problem, every=True)
    most = int(problem.hi.sum())
    draws = np.zeros(most)
    best = float("inf")
    for _ in range(4):
        gains.reset()
        began = time.thread_time()
        best_pairs = gains.prepare(1)
        gains.search("construct", draws, best_pairs, 0, most)
        best = min(best, time.thread_time() - began)
    return best


def compare() -> list[str]:
    """Compare at |D| = 500; return what there is to say of the limit."""
    n, said = 500, []
    for average in (True, False):
        problem = synthetic(1, n, 50, K, T, Measure.LINEAR, average=average)
        quick, one = greedy_seconds(problem), naive_seconds(problem, 1)
        candidates = sum(K * n - i for i in range(T * n))
        naive, kind = one * candidates, "average" if average else "worst"
        print(
            f"GREEDY |D|={n} |P|=50 k={K} t={T} {kind:7} {quick * 1e3:8.1f} ms; "
            f"naive numpy {one * 1e6:.0f} us a candidate (timed on {SAMPLE}), "
            f"{naive:.0f} s for {candidates} (extrapolated): "
            f"{naive / quick:,.0f} times faster"
        )
        share = quick / naive * FASTER
        said.append(verdict(f"GREEDY, {kind}: thousandths of naive", share, 1))
    return said


def scale(sizes: tuple[int, ...]) -> list[str]:
    """Build and search at several sizes; return what there is to say of the limit."""
    said = []
    for n in sizes:
        problem = sparse_problem(n, K, T, seed=2)
        order, draws, top = np.arange(n), np.zeros(n), np.zeros((1, 4))
        gains = Gains(problem, quick=True)
        gains.assign(order[:0], draws, top)  # compiled before it is timed
        began = time.thread_time()
        for _ in range(T):
            gains.assign(order, draws, top)
        took = time.thread_time() - began
        del gains
        most = {every: peak(problem, every=every) / (n * K) for every in (False, True)}
        print(
            f"GREEDYL |D|={n:9,} {took:7.3f} s, {took / n * 1e6:5.2f} us an entry; "
            f"at most {most[False]:.0f} bytes a pair, GREEDY {most[True]:.0f}"
        )
        name = f"bytes a pair at {n:,} entries"
        said.append(verdict(name, max(most.values()), BYTES))
    return said


def peak(problem: Problem, *, every: bool) -> int:
    """Bytes allocated at the highest for one search."""
    tracemalloc.start()
    gains = Gains(problem, quick=True, every=every)
    if every:
        gains.prepare(1)
    gains.plan()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


def of_500_entries() -> Iterator[tuple[str, Problem]]:
    """Names and problems: the families with 500 entries, and limits on a mean."""
    kinds = ("step", "linear-average", "linear-worst")
    for family in (*kinds, "quadratic-average", "quadratic-worst"):
        for k in KS:
            for t in (1, 2):
                yield f"{family} 50 {k} {t}", generated(family, 50, k, t, 0)
    for k in KS:
        for average in (True, False):
            made = synthetic(0, 500, 50, k, 2, Measure.LINEAR, average=average)
            kind = "average" if average else "worst"
            yield f"limited {kind} 50 {k} 2", budget(made, Fraction(9, 10))
    for shape in SPARSE:
        if shape[0] == 500:
            yield f"sparse {' '.join(map(str, shape[1:4]))}", sparse(shape, 0)


def first_plan(problem: Problem) -> dict[str, object]:
    """Solve with the rows up to GREEDYL alone."""
    names = [row.name for row in TABLE]
    solver = Auto(frozenset(names[names.index("greedyl") + 1 :]))
    began = time.process_time()
    found = solver(problem, np.random.default_rng(0), by_cpu(10.0))
    return {"seconds": time.process_time() - began, "verdict": found.verdict}


def first_plans() -> list[str]:
    """Print what first plans take; return what there is to say of the limit."""
    slowest = 0.0
    for name, problem in of_500_entries():
        runs = [forked(lambda p=problem: first_plan(p)) for _ in range(AGAIN)]
        took = min(float(str(run["seconds"])) for run in runs)
        slowest = max(slowest, took)
        print(f"first plan of {name:24} {took:6.3f} s, {runs[0]['verdict']}")
    return [verdict("s of CPU to the first plan of 500 entries", slowest, FIRST)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", action="store_true", help="up to 10^6 entries")
    words = parser.parse_args()
    print(f"load average {load_average():.1f}")
    sizes = (10_000, 100_000, 1_000_000) if words.scale else (10_000, 100_000)
    said = first_plans() + compare() + scale(sizes)
    print("\n".join(said))
    return 1 if any("FAILS" in line for line in said) else 0


if __name__ == "__main__":
    sys.exit(main())
