"""What each row of ``auto``'s table is worth: every one off in turn, by work.

    python -m benchmarks.ablation [--instances DIR] [--data DIR] [--work 0.03]
        [--only PROBLEM ...] [--rows NAME ...] [--path CSV]

The problems are those of :mod:`benchmarks.baseline`. A row is switched off only where it
applies, and held against the same search with all rows. It earns its place where without
it a verdict is lost, the value or the gap is worse by more than .05 %, or the search
takes three times the CPU seconds. Cells that are in the file are not run again. The
table is printed, and written to ``docs/ablation.md``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.baseline import problems
from benchmarks.cells import Row, fill, rows_of
from policies.model.problem import Problem
from policies.solvers import Limits, Verdict
from policies.solvers.auto import TABLE, Auto

PATH = Path(__file__).parent / "results" / "ablation.csv"
PAGE = Path(__file__).parents[1] / "docs" / "ablation.md"
KEY = ("problem", "seed", "off")
FIELDS = (*KEY, "verdict", "value", "bound", "cpu")
WHOLE = "-"  # nothing is off
LOSS = 0.0005
SLOWER, SECONDS = 3.0, 0.3  # times the CPU seconds, and so many more at least

HEAD = """# What each row of `auto` is worth

Written by `python -m benchmarks.ablation` from `benchmarks/results/ablation.csv`: every
row of the table in `policies/solvers/auto.py` switched off in turn on every problem of
`python -m benchmarks.baseline` to which it applies, by work, on one core. *Lost*: without
the row, on so many problems, a verdict is lost, the value or the gap is worse by more than
.05 %, or the search takes three times the CPU seconds (and .3 s more). *Worst* names the
problem that loses most. A row that loses nothing here stays only for what is named in
the last column; cells that were not run yet are not counted.

"""

KEPT = {
    "planned": "backlogs of the daemon: `python -m benchmarks.spine`",
    "greedyl": "the first plan at once, and never below it at any limit",
    "greedy": "the first plan at once, and never below it at any limit",
    "counting": "a core without a search",
    "valued": "the only row for utilities that are no sums",
    "relations": "the only row for relations that count",
    "fewer-adversaries": "a thousand adversaries and more",
    "scaled": "weights of 1e-30 and the like",
}
"""What rows are for beyond these problems."""


@dataclass(frozen=True)
class Cell:
    """One problem without one row."""

    problem: str
    seed: int
    off: str
    make: Callable[[], Problem]

    @property
    def name(self) -> tuple[str, ...]:
        return self.problem, str(self.seed), self.off


def cells(words: argparse.Namespace) -> Iterator[Cell]:
    """Each problem with all rows, and without each one that applies."""
    for name, seed, make in problems(words):
        if words.only and not any(part in name for part in words.only):
            continue
        problem = make()
        applied = Auto().rows(problem, Limits(work=words.work))
        for off in (WHOLE, *applied):
            if not words.rows or off in (WHOLE, *words.rows):
                yield Cell(name, seed, off, lambda problem=problem: problem)


def run(cell: Cell, work: float) -> dict[str, object]:
    """Solve without the row."""
    off = frozenset[str]() if cell.off == WHOLE else frozenset((cell.off,))
    problem, began = cell.make(), time.process_time()
    rng = np.random.default_rng(cell.seed)
    found = Auto(off)(problem, rng, Limits(work=work))
    took = time.process_time() - began
    solved = found.verdict is Verdict.SOLVED
    return {
        **dict(zip(KEY, cell.name, strict=True)),
        "verdict": str(found.verdict),
        "value": f"{float(found.value):.12g}" if solved else "",
        "bound": f"{float(found.bound):.12g}",
        "cpu": f"{took:.3f}",
    }


def losses(whole: Row, without: Row) -> dict[str, float]:
    """What is lost without the row, by kind; shares of the value, times of the CPU."""
    lost = {}
    if whole["verdict"] != without["verdict"]:
        lost["verdict"] = 1.0
    elif whole["value"]:
        size = max(abs(float(whole["value"])), 1e-9)
        less = (float(whole["value"]) - float(without["value"])) / size
        wider = (float(without["bound"]) - float(whole["bound"])) / size
        if less > LOSS:
            lost["value"] = less
        if wider + less > LOSS and wider > LOSS:
            lost["gap"] = wider
    cpu = float(without["cpu"]), float(whole["cpu"])
    if cpu[0] > SLOWER * cpu[1] and cpu[0] - cpu[1] > SECONDS:
        lost["time"] = cpu[0] / cpu[1]
    return lost


def table(rows: list[Row]) -> str:
    """One line a row of ``auto``."""
    cells = {tuple(r[f] for f in KEY): r for r in rows}
    lines = ["| row | phase | problems | lost | worst | kept for |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for row in TABLE:
        mine = [r for r in rows if r["off"] == row.name]
        lost: list[tuple[float, str]] = []
        for one in mine:
            whole = cells.get((one["problem"], one["seed"], WHOLE))
            for kind, much in losses(whole, one).items() if whole else ():
                told = {"verdict": "verdict", "time": f"{much:.1f} x the time"}
                text = told.get(kind, f"{kind} {much:.2%}")
                where = f"{one['problem']}, seed {one['seed']}"
                lost.append((much + 10 * (kind == "verdict"), f"{where}: {text}"))
        worst = max(lost, default=(0.0, "-"))[1]
        silent = "nothing here" if mine else "not measured yet"
        kept = KEPT.get(row.name, "" if lost else silent)
        lines.append(
            f"| {row.name} | {row.phase} | {len(mine)} | {len(lost)} | {worst} | {kept} |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--instances", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work", type=float, default=0.03)
    parser.add_argument("--only", nargs="*", help="parts of the problems' names")
    parser.add_argument("--rows", nargs="*", choices=[row.name for row in TABLE])
    parser.add_argument("--path", type=Path, default=PATH)
    words = parser.parse_args()
    shown = ("verdict", "value", "bound", "cpu")
    fill(words.path, FIELDS, cells(words), lambda c, _: run(c, words.work), shown)
    told = HEAD + table(rows_of(words.path))
    if words.path == PATH:
        PAGE.write_text(told, encoding="utf-8")
    print(told)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("cut: the same words go on from here")
