"""Families of problems, five fresh seeds each, beside plain HiGHS and CP-SAT.

    python -m benchmarks.families [NAMES] [--seeds 5] [--peer-seeds 5] [--only SOLVER]
        [--k K] [--cpu] [--path CSV] [--table]

Every line of ``benchmarks/results/families.csv`` is one cell: a family, its sizes, a
seed and a solver. Cells that are there are not run again, so a run that was cut goes on
where it stopped; delete lines to run them afresh. The medians are printed, and written
to ``docs/targets.md``; with --path, another file of cells is filled and nothing written.

*step* (no property wholly held), *linear* and *quadratic* tradeoffs are the paper's: see
:mod:`benchmarks.paper_data`. *sparse* are ten families of many random sets of 2
to 4 entries, near the edge of what is possible. *cosine* are check-ins of the paper's size.

``ours`` is ``auto`` on two threads; with ``--cpu`` it has one, and limits and times are
CPU seconds, which do not depend on what else the machine does. ``highs`` and ``cp-sat`` solve the plain formulation
within 60 s; squares are linearised at the loads that can occur. ``reach`` is ``ours``
with the least of some time limits at which its proven gap is the better peer's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import families_table, paper_data
from benchmarks.cells import COMMIT, by_cpu, by_wall, fill, rows_of
from benchmarks.machine import load_average
from policies.model.measures import MEASURES, Measure
from policies.model.problem import Problem
from policies.solvers import SOLVERS, Solution, Verdict

PATH = Path(__file__).parent / "results" / "families.csv"
FIELDS = (
    "family",
    "n",
    "m",
    "k",
    "t",
    "seed",
    "solver",
    "verdict",
    "value",
    "bound",
    "gap",
    "complete",
    "seconds",
    "stopped",
    "load",
    "clock",
    "commit",
)
KEY = FIELDS[:7]
SHOWN = ("value", "gap", "seconds", "stopped")
PEERS = {"highs": "milp", "cp-sat": "cp-sat"}
CUT = 60.0
KS = (2, 3, 5, 10)
DUE = {
    "step": (3.0, 3.0),
    "linear-average": (3.0, 3.0),
    "linear-worst": (10.0, 30.0),
    "quadratic-average": (30.0, 60.0),
    "quadratic-worst": (30.0, 60.0),
    "sparse": (10.0, 10.0),
    "cosine": (30.0, 30.0),
}
"""Seconds for ours, for k < 10 and for k = 10."""

SPARSE = (
    (100, 200, 2, 1, 3, 4),
    (100, 260, 2, 1, 3, 4),
    (200, 400, 2, 1, 3, 3),
    (100, 300, 3, 1, 2, 3),
    (200, 500, 3, 2, 2, 3),
    (200, 400, 3, 1, 2, 2),
    (500, 1500, 5, 2, 2, 4),
    (500, 1000, 2, 1, 3, 4),
    (500, 1500, 10, 2, 2, 4),
    (500, 700, 2, 2, 3, 4),
)
"""Entries, properties, k, t, least and most entries of a property."""

PROVEN = 2e-6
"""Gap in per cent that counts as none: what tolerances of the engines amount to."""

REACHES = (0.1, 0.2, 0.4, 0.8, 1.5, 3.0, 6.0, 12.0, 20.0)


@dataclass(frozen=True)
class Cell:
    """One solver on one problem."""

    key: dict[str, object]
    make: Callable[[], Problem]
    solver: str
    seconds: float

    @property
    def name(self) -> tuple[str, ...]:
        return tuple(str(self.key[field]) for field in KEY)


def generated(family: str, m: int, k: int, t: int, seed: int) -> Problem:
    """One problem of the paper's generator with 500 entries."""
    if family == "step":
        return paper_data.sealed(paper_data.synthetic(seed, 500, m, k, t, Measure.STEP))
    word, aggregation = family.split("-")
    average = aggregation == "average"
    measure = MEASURES[word]
    return paper_data.synthetic(seed, 500, m, k, t, measure, average=average)


def sparse(shape: tuple[int, ...], seed: int) -> Problem:
    """Many distinct small sets, at random; weights as the paper draws them."""
    n, m, k, t, least, most = shape
    rng = np.random.default_rng([seed, *shape])
    found: set[tuple[int, ...]] = set()
    while len(found) < m:
        size = int(rng.integers(least, most + 1))
        found.add(tuple(sorted(rng.choice(n, size, replace=False).tolist())))
    member = np.zeros((m, n), np.bool_)
    for i, row in enumerate(sorted(found)):
        member[i, list(row)] = True
    high, low = rng.random((n, k)) < 0.4, rng.uniform(0.0, 0.1)
    w = np.where(high, rng.uniform(0.8, 1.0, (n, k)), low) / k
    return paper_data.sealed(
        Problem(
            sets=paper_data.sets_of(member, Measure.STEP),
            lo=np.ones(n, np.int64),
            hi=np.full(n, min(t, k)),
            weights=paper_data.weights_of(w, t),
        )
    )


def problems(
    family: str, seeds: int
) -> Iterator[tuple[tuple[int, ...], partial[Problem]]]:
    """Sizes (n, m, k, t, seed) and how to make the problem."""
    if family == "sparse":
        for shape in SPARSE:
            for seed in range(seeds):
                yield (*shape[:4], seed), partial(sparse, shape, seed)
    elif family == "cosine":
        for k, t in ((2, 1), (3, 1), (3, 2), (5, 2), (10, 2)):
            for seed in range(seeds):
                data = paper_data.drawn_checkins(seed)
                sizes = len(data.user), len(data.friends), k, t, seed
                yield sizes, partial(paper_data.cosine, data, seed, k, t, zero=True)
    else:
        shapes = [(50, k, t) for k in KS for t in (1, 2)]
        if family == "step":
            shapes.append((100, 2, 2))
        for m, k, t in shapes:
            for seed in range(seeds):
                yield (500, m, k, t, seed), partial(generated, family, m, k, t, seed)


def cells(family: str, seeds: int, peer_seeds: int) -> Iterator[Cell]:
    """Ours first, then the peers."""
    for sizes, make in problems(family, seeds):
        base = dict(zip(KEY, (family, *sizes), strict=False))
        due = DUE[family][sizes[2] == 10]
        yield Cell(base | {"solver": "ours"}, make, "auto", due)
        if family == "cosine":
            data = paper_data.drawn_checkins(sizes[4])
            loose = partial(
                paper_data.cosine, data, sizes[4], sizes[2], sizes[3], zero=False
            )
            yield Cell(base | {"solver": "greedy"}, loose, "greedy", CUT)
    for sizes, make in problems(family, peer_seeds):
        base = dict(zip(KEY, (family, *sizes), strict=False))
        for peer, solver in PEERS.items():
            if peer == "highs" or family in ("step", "sparse"):
                yield Cell(base | {"solver": peer}, make, solver, CUT)
        if family in ("step", "linear-average"):
            yield Cell(base | {"solver": "reach"}, make, "auto", 0.0)


def run(
    cell: Cell, rows: list[dict[str, str]], *, cpu: bool = False
) -> dict[str, object] | None:
    """Solve one cell; None where there is nothing to compare it with."""
    problem = cell.make()
    if cell.key["solver"] != "reach":
        return solved(problem, cell.solver, cell.seconds, cpu=cpu)
    beside = {**cell.key}
    peers = []
    for peer in PEERS:
        beside["solver"] = peer
        name = [str(beside[field]) for field in KEY]
        peers += [r for r in rows if [r[field] for field in KEY] == name and r["gap"]]
    if not peers:
        return None
    goal = min(float(r["gap"]) for r in peers)
    told: dict[str, object] = {}
    for seconds in REACHES:
        told = solved(problem, cell.solver, seconds, cpu=cpu)
        if told["gap"] != "" and float(str(told["gap"])) <= goal + PROVEN:
            return told
    return told | {"seconds": "inf"}


def solved(
    problem: Problem, solver: str, seconds: float, *, cpu: bool = False
) -> dict[str, object]:
    """Solve, time and judge."""
    threads = 1 if solver == "milp" else 2
    limits = by_cpu(seconds) if cpu else replace(by_wall(seconds), threads=threads)
    load, began = load_average(), limits.clock()
    found = SOLVERS[solver](problem, np.random.default_rng(0), limits)
    took = limits.clock() - began
    return told(found) | {
        "seconds": f"{took:.3f}",
        "load": f"{load:.1f}",
        "clock": "cpu" if cpu else "wall",
        "commit": COMMIT,
    }


def told(found: Solution) -> dict[str, object]:
    """Value, bound, gap in per cent, properties wholly held by somebody."""
    if found.verdict is not Verdict.SOLVED or found.judged is None:
        return {
            "verdict": str(found.verdict),
            "bound": float(found.bound),
            "complete": 0,
            "stopped": found.stopped,
            "gap": "",
        }
    gap = (found.bound - found.value) / max(abs(found.bound), Fraction(1, 10**9))
    return {
        "verdict": str(found.verdict),
        "value": f"{float(found.value):.10f}",
        "bound": f"{float(found.bound):.10f}",
        "gap": f"{100 * float(gap):.7f}",
        "complete": found.judged.disclosed,
        "stopped": found.stopped,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=", ".join(DUE))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--peer-seeds", type=int, default=5)
    parser.add_argument("--only", nargs="*", help="solvers: ours, highs, cp-sat, ...")
    parser.add_argument("--k", nargs="*", type=int, help="only these k")
    parser.add_argument("--cpu", action="store_true", help="CPU seconds, one thread")
    parser.add_argument("--table", action="store_true", help="the table only")
    parser.add_argument("--path", type=Path, default=PATH)
    words = parser.parse_args()
    wrong = set(words.names) - set(DUE)
    if wrong:
        parser.error(f"unknown: {', '.join(sorted(wrong))}")
    for name in () if words.table else words.names or DUE:
        chosen = (
            cell
            for cell in cells(name, words.seeds, words.peer_seeds)
            if (not words.only or cell.key["solver"] in words.only)
            and (not words.k or cell.key["k"] in words.k)
        )
        fill(words.path, FIELDS, chosen, partial(run, cpu=words.cpu), SHOWN)
    if words.path == PATH:
        families_table.write(rows_of(PATH))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("cut: the same words go on from here")
