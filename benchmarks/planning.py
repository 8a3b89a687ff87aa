"""How near the plans of real backlogs come to the best, as the daemon makes them.

``python -m benchmarks.planning DIRECTORY [--seconds S]`` plans the backlogs of a data
directory (see :mod:`benchmarks.backlogs`): constructed first, then searched on for S
seconds. Each row has the gap to the proven bound before and after, the wall time of the
search, and the complete sets of the plan, which must be 0. It fails where a search takes
much longer than its seconds, makes a plan worse, or stays above 1 % though the largest
component has at most SMALL entries. ``--prefer`` shows instead what ``plan --prefer``
makes of each backlog: workers used, and showings of the fullest one, each beside the
utility's plan and what is proven to be the least.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.backlogs import (
    Rows,
    checkins,
    later,
    prescriptions,
    problem_of,
    receipts,
)
from policies.judging.judge import judge
from policies.model.problem import Plan, Problem
from policies.model.sets import Ints
from policies.planning.improving import better_plan
from policies.planning.preferences import fairest, fewest_workers
from policies.solvers import SOLVERS, Limits, Solution
from policies.solvers.components import split
from policies.solvers.search.ejection_chains import soft_ceiling

SPREAD = 2.0
GAP = 0.01
SMALL = 200
LATE = 2.0  # seconds that a search may take longer, on a busy machine


def cases(directory: Path) -> Iterator[tuple[str, Callable[[], Problem]]]:
    """Names of whole backlogs, fresh and under way, and how to make them."""
    for name, read, k, merged in (
        ("prescriptions", partial(prescriptions, directory, 10**6), 40, 4),
        ("receipts-100", partial(receipts, directory, 100), 10, 1),
        ("receipts", partial(receipts, directory, 10**6), 20, 2),
        ("brightkite-300", partial(checkins, directory, "brightkite300", 10**6), 12, 2),
        ("gowalla-2000", partial(checkins, directory, "gowalla_nyc3266", 2000), 20, 2),
    ):
        yield name, partial(_fresh, read, k)
        yield f"{name} later", partial(_later, read, k, merged)


def _fresh(read: Callable[[], Rows], k: int) -> Problem:
    return problem_of(read(), k, 0)


def _later(read: Callable[[], Rows], k: int, merged: int) -> Problem:
    return later(problem_of(read(), k, 0), merged, 0)


def plan_of(problem: Problem) -> Plan | None:
    """Construct a plan as the daemon does; None where not all has a place."""
    limits = Limits(spread=SPREAD, exact_size=1, seconds=60.0)
    found = SOLVERS["auto"](problem, np.random.default_rng(0), limits)
    return found.plan if not len(found.held) else None


def measured(name: str, problem: Problem, seconds: float) -> tuple[list[str], bool]:
    """Return a row, and whether all holds."""
    parts = split(problem.sets)
    largest = int(np.bincount(parts.label).max(initial=0))
    size = [name, f"{problem.n_entries:,}", str(problem.n_adversaries), str(largest)]
    plan = plan_of(problem)
    if plan is None:
        return [*size, "-", "-", "-", "-"], True
    given = np.bincount(plan.adversary, minlength=problem.n_adversaries)
    room, soft = problem.room(), soft_ceiling(problem, SPREAD)
    if soft is not None:
        room = np.minimum(room, np.maximum(soft, given))
    problem = replace(problem, capacity=room)
    value = judge(problem, plan).objective
    _, bound = better_plan(problem, plan, value, 0, None)
    began = time.monotonic()
    better, tight = better_plan(
        problem, plan, value, 0, Limits(seconds=seconds, work=seconds)
    )
    took = time.monotonic() - began
    judged = judge(problem, better)
    before, after = gap(value, bound), gap(judged.objective, min(bound, tight))
    row = [f"{before:.3%}", f"{after:.3%}", f"{took:.1f}", str(judged.complete)]
    kept = judged.feasible and not judged.complete and judged.objective >= value
    kept &= took <= seconds + LATE and (after <= GAP or largest > SMALL)
    return [*size, *row], kept


def preferred(name: str, problem: Problem) -> list[str]:
    """Return a row: of the fewest workers, and of the fairest load."""
    limits, rng = Limits(spread=float("inf"), exact_size=1), np.random.default_rng(0)

    def ask(room: Ints) -> Solution:
        return SOLVERS["auto"](replace(problem, capacity=room), rng, limits)

    found, every = ask(problem.room()), np.ones(problem.n_adversaries, np.bool_)
    given = np.bincount(found.plan.adversary, minlength=problem.n_adversaries)
    began = time.process_time()
    few = fewest_workers(problem, found, ask, 0, Limits(seconds=60.0))
    middle = time.process_time()
    fair = fairest(problem, found, ask, Limits(seconds=60.0), every)
    ended = time.process_time()
    return [
        name,
        f"{(given > 0).sum()}, {few.value}, {few.bound}",
        f"{float((found.value - few.solution.value) / found.value):.2%}",
        f"{middle - began:.1f}",
        f"{given.max()}, {fair.value}, {fair.bound}",
        f"{float((found.value - fair.solution.value) / found.value):.2%}",
        f"{ended - middle:.1f}",
    ]


def gap(value: Fraction, bound: Fraction) -> float:
    """Return the distance to the bound as a share of it."""
    return float((bound - value) / abs(bound)) if bound else 0.0


def main() -> int:
    """Print the table; return 1 where something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--prefer", action="store_true")
    given = parser.parse_args()
    if given.prefer:
        print(
            "backlog | workers used: by utility, fewest, at least | utility lost | CPU s "
            "| fullest: by utility, fairest, at least | utility lost | CPU s"
        )
        for name, make in cases(given.directory):
            if given.only in name:
                print(" | ".join(preferred(name, make())), flush=True)
        return 0
    print(
        "backlog | fields | workers | largest component | gap constructed | "
        "gap searched | seconds | complete sets"
    )
    failed = False
    for name, make in cases(given.directory):
        if given.only in name:
            row, kept = measured(name, make(), given.seconds)
            print(" | ".join(row) + ("" if kept else " | NOT KEPT"), flush=True)
            failed |= not kept
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
