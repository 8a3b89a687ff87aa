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
from collections.abc import Iterator
from pathlib import Path

from benchmarks.baseline import SHOWN, asked, problems
from benchmarks.cells import SOLVED, Cell, Row, fill, rows_of
from policies.solvers import Limits
from policies.solvers.auto import TABLE, Auto

PATH = Path(__file__).parent / "results" / "ablation.csv"
PAGE = Path(__file__).parents[1] / "docs" / "ablation.md"
KEY = ("problem", "seed", "off")
FIELDS = (*KEY, *SOLVED)
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
    "best-copies": "no search where it is the optimum",
    "counting": "a core without a search",
    "valued": "the only row for utilities that are no sums",
    "relations": "the only row for relations that count",
    "fewer-adversaries": "a thousand adversaries and more",
    "scaled": "weights of 1e-30 and the like",
    "pair-search": "time: cosine_zero_U24 .02 s, else .21; cosine_zero_U30 .04, else .32",
    "cliques": "verdicts: 5 s do not refute queen5_5 (DIMACS) with 4 adversaries else",
    "cp-sat-feasible": "verdicts: 5 s do not refute queen6_6 with 6 adversaries else",
    "cp-sat": "plans where GREEDYL has none: collusion k = 5 in 1 s .74, else .30 or none",
    "hitting-set": "proofs under a clock: step_syn_D500_P20_k2_t2 in .5 s, else not in 10",
    "by-proof": "the plan that a certificate promises",
    "by-number": "step tradeoffs of a mean, of which there is none here",
    "leakless": "step tradeoffs, of which there is none here",
    "listing-first": "aggregates that no linear model says, of which there is none here",
    "cp-sat-after": "means that end on a limit: tau .2 of 4 sets of 100 entries, k = 3: "
    "proven at work .3, else a gap of .064 %",
    "listing": "few plans where HiGHS gives up; nothing on the shared instances",
    "prices": "bounds of worst tradeoffs where any 2 of 4 adversaries pool, 40 entries, "
    "10 sets: linear 4.9 to 7.8 % lower, quadratic 2.7 to 5.6 %",
    "across": "sparse sets: 400 entries, 640 sets, k = 2: 6.5 % of the value in 5 s",
    "socp": "quadratic means under 4 s: the search that loads no compiled kernels",
    "loads": "large worst loads: quadworst_D200 in 10 s .7534 of .7544, else .7518 of .7565",
    "annealing": "what HiGHS's model is too large for",
    "late-greedyl": "a stop at once, where pairs are too few for the first rows",
}
"""What rows are for beyond these problems."""


def cells(words: argparse.Namespace) -> Iterator[Cell]:
    """Each problem with all rows, and without each one that applies."""
    limits = Limits(work=words.work)
    for name, seed, problem in problems(words):
        for off in (WHOLE, *Auto().rows(problem, limits)):
            if not words.rows or off in (WHOLE, *words.rows):
                solver = Auto(frozenset() if off == WHOLE else frozenset((off,)))
                yield Cell((name, str(seed), off), problem, solver, seed, limits)


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
    parser = asked(__doc__, PATH)
    parser.add_argument("--rows", nargs="*", choices=[row.name for row in TABLE])
    words = parser.parse_args()
    fill(words.path, FIELDS, cells(words), lambda cell, _: cell.solve(), SHOWN)
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
