"""Every solver on every problem by work, so that two states of the code can be compared.

    python -m benchmarks.baseline [--instances DIR] [--data DIR] [--work 0.03]
        [--only PROBLEM ...] [--solvers NAME ...] [--path CSV]
    python -m benchmarks.baseline compare BEFORE AFTER

A cell is a problem and a solver. The problems: small ones of every family of
:mod:`benchmarks.families`, five seeds each; every instance file of a directory; real
backlogs of a data directory (:mod:`benchmarks.backlogs`). No clock cuts a search, so
that values, bounds and verdicts do not depend on the machine; CPU seconds do. Cells that
are in the file are not run again: each names the last commit that changed ``policies/``
when it was run.

``compare`` prints one line for each cell whose verdict, value or bound changed, or whose
CPU seconds did by half (and .5 s), and ends with 1 where anything got worse.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks import backlogs, families, paper_data
from benchmarks.cells import (
    SOLVED,
    Cell,
    Row,
    arguments,
    fill,
    is_wanted,
    load,
    rows_of,
)
from policies.instances.instance_file import read_instance
from policies.model.measures import Measure
from policies.model.problem import Problem
from policies.solvers import SOLVERS, Limits

PATH = Path(__file__).parent / "results" / "baseline.csv"
KEY = ("problem", "seed", "solver")
FIELDS = (*KEY, *SOLVED)
SHOWN = ("verdict", "value", "bound", "cpu")
SEEDS = range(5)
SHAPES = ((60, 12, 2, 2), (60, 12, 5, 1))  # entries, sets, k, t
SPARSE = ((60, 100, 2, 1, 3, 4), (60, 150, 3, 2, 2, 3))
NEAR = 1e-9  # of values: floats in a CSV
SLOWER, SECONDS = 1.5, 0.5


def generated(
    measure: Measure, average: bool, shape: tuple[int, int, int, int], seed: int
) -> Problem:
    """One problem of the paper's generator."""
    made = paper_data.synthetic(seed, *shape, measure, average=average)
    return paper_data.sealed(made) if measure is Measure.STEP else made


def problems(words: argparse.Namespace) -> Iterator[tuple[str, int, Problem]]:
    """Names, seeds and problems: those that are asked for."""
    for name, seed, make in _every(words):
        if is_wanted(words, name):
            yield name, seed, make()


def _every(
    words: argparse.Namespace,
) -> Iterator[tuple[str, int, Callable[[], Problem]]]:
    """Names, seeds, and how to make the problem."""
    kinds = {
        "step": (Measure.STEP, False),
        "linear-average": (Measure.LINEAR, True),
        "linear-worst": (Measure.LINEAR, False),
        "quadratic-average": (Measure.QUADRATIC, True),
        "quadratic-worst": (Measure.QUADRATIC, False),
    }
    for seed in SEEDS:
        for shape in SHAPES:
            size = "-".join(map(str, shape))
            for family, kind in kinds.items():
                yield f"{family}-{size}", seed, partial(generated, *kind, shape, seed)
        for shape in SPARSE:
            size = "-".join(map(str, shape[:4]))
            yield f"sparse-{size}", seed, partial(families.sparse, shape, seed)
        data = paper_data.drawn_checkins(seed, 100, 300, 90)
        for zero in (True, False):
            name = "cosine-zero" if zero else "cosine"
            yield name, seed, partial(paper_data.cosine, data, seed, 3, 2, zero=zero)
    for path in sorted(words.instances.glob("*.json")) if words.instances else ():
        yield path.stem, 0, partial(of_file, path)
    for name, make in backlogs.backlogs(words.data) if words.data else ():
        yield name, 0, make


def of_file(path: Path) -> Problem:
    """The problem of an instance file."""
    return read_instance(json.loads(path.read_text(encoding="utf-8"))).problem


def cells(words: argparse.Namespace) -> Iterator[Cell]:
    """All solvers that support a problem, ``auto`` first; nobody solves twice."""
    for name, seed, problem in problems(words):
        for solver in words.solvers or SOLVERS:
            if SOLVERS[solver].supports(problem):
                key = (name, str(seed), solver)
                yield Cell(key, problem, SOLVERS[solver], seed, Limits(work=words.work))


def compare(before: list[Row], after: list[Row]) -> Iterator[tuple[bool, str]]:
    """Whether a cell got worse, and what changed."""
    old = {tuple(row[f] for f in KEY): row for row in before}
    for row in after:
        was = old.pop(name := tuple(row[f] for f in KEY), None)
        if was is None:
            yield False, f"{' '.join(name)}: new, {row['verdict']} {row['value']}"
            continue
        told, worse = [], False
        if was["verdict"] != row["verdict"]:
            told.append(f"{was['verdict']} -> {row['verdict']}")
            worse |= row["verdict"] == "UNKNOWN"
        for field, sign in (("value", 1), ("bound", -1)):
            same = was["verdict"] == row["verdict"] != "INFEASIBLE"
            if was[field] and row[field] and same:
                one, two = float(was[field]), float(row[field])
                if abs(two - one) > NEAR * max(1.0, abs(one)):
                    change = (two - one) / max(abs(one), 1e-9)
                    told.append(f"{field} {one:.9g} -> {two:.9g} ({change:+.4%})")
                    worse |= sign * (two - one) < 0
        cpu = float(was["cpu"]), float(row["cpu"])
        if abs(cpu[1] - cpu[0]) > SECONDS and max(cpu) > SLOWER * min(cpu):
            told.append(f"cpu {cpu[0]:.2f} -> {cpu[1]:.2f} s")
            worse |= cpu[1] > cpu[0]
        if told:
            mark = "worse" if worse else "other"
            yield worse, f"{mark} {' '.join(name)}: {', '.join(told)}"
    for name in old:
        yield True, f"{' '.join(name)}: gone"


def asked(told: str | None, path: Path) -> argparse.ArgumentParser:
    """Return a parser of which problems are solved, and with how much work."""
    parser = arguments(told, path)
    parser.add_argument("--instances", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work", type=float, default=0.03)
    return parser


def main() -> int:
    if sys.argv[1:2] == ["compare"]:
        found = list(compare(*(rows_of(Path(path)) for path in sys.argv[2:4])))
        print(*(line for _, line in found), sep="\n")
        return any(worse for worse, _ in found)
    parser = asked(__doc__, PATH)
    parser.add_argument("--solvers", nargs="*", choices=sorted(SOLVERS))
    words = parser.parse_args()
    load()
    fill(words.path, FIELDS, cells(words), lambda cell, _: cell.solve(), SHOWN)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("cut: the same words go on from here")
