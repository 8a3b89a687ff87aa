"""Linear and quadratic tradeoffs as the paper generates them: gap reached, and in how long.

    python -m benchmarks.linear [--kinds linear-average ...] [--k 2 5] [--t 1 2]

u_min ~ U(0, .1), or U(.8, 1) with probability .4, over k; every property holds an entry
with probability .3; a_dp = 1 / |D_p|; u normalised by the top t; lambda = 1, tau = 0.
"""

from __future__ import annotations

import argparse
import time
from fractions import Fraction

import numpy as np

from benchmarks.paper_data import sets_of
from policies.document.policy import Objective
from policies.problem import Goal, Problem
from policies.sets import Measure
from policies.solvers import SOLVERS, Limits
from policies.utility import Weights

KINDS = {
    "linear-average": (Measure.LINEAR, True, "exchange", 3.0),
    "linear-worst": (Measure.LINEAR, False, "annealing", 10.0),
    "quadratic-average": (Measure.QUADRATIC, True, "socp-rounding", 30.0),
    "quadratic-worst": (Measure.QUADRATIC, False, "annealing", 30.0),
}
STEPS = 10**9


def generated(
    rng: np.random.Generator,
    n: int,
    m: int,
    k: int,
    t: int,
    measure: Measure,
    *,
    average: bool,
) -> Problem:
    """One problem of the paper's generator."""
    high = rng.random((n, k)) < 0.4
    w = np.where(high, rng.uniform(0.8, 1, (n, k)), rng.uniform(0, 0.1, (n, k)))
    whole = np.rint(w / k * STEPS).astype(np.int64)
    top = int(np.sort(whole, axis=1)[:, k - min(t, k) :].sum())
    member = rng.random((m, n)) < 0.3
    return Problem(
        sets=sets_of(member, measure),
        lo=np.ones(n, np.int64),
        hi=np.full(n, t),
        weights=Weights(np.arange(n), np.ones(n, np.int64), whole.T, Fraction(1, top)),
        goal=Goal(Objective.TRADEOFF, Fraction(1), Fraction(0), average=average),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--k", nargs="*", type=int, default=[2, 5])
    parser.add_argument("--t", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--entries", type=int, default=500)
    parser.add_argument("--properties", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.0, help="0: as due")
    words = parser.parse_args()
    print(
        "kind                  |D|  |P|   k  t       value       bound    gap %      s"
    )
    for kind in words.kinds:
        measure, average, name, due = KINDS[kind]
        for k in words.k:
            for t in words.t:
                rng = np.random.default_rng([words.seed, k, t])
                n, m = words.entries, words.properties
                problem = generated(rng, n, m, k, t, measure, average=average)
                limits = Limits(
                    work=float("inf"),
                    seconds=words.seconds or due,
                    clock=time.perf_counter,
                    prove=True,
                )
                began = time.perf_counter()
                found = SOLVERS[name](problem, np.random.default_rng(0), limits)
                took = time.perf_counter() - began
                value, bound = float(found.value), float(found.bound)
                gap = 100 * (bound - value) / abs(bound) if bound else 0.0
                print(
                    f"{kind:20} {n:5} {m:4} {k:3} {t:2} {value:11.7f} {bound:11.7f} "
                    f"{gap:8.4f} {took:6.1f}  {found.stopped}",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
