"""What each row of ``auto``'s table is worth: every one off in turn.

    python -m benchmarks.ablation [--instances DIR] [--data DIR] [--work 0.03]
        [--targets | --cases | --seconds 2] [--only PROBLEM ...] [--rows NAME ...]
        [--path CSV]

The problems are those of :mod:`benchmarks.baseline`, by work, or with ``--seconds`` in so
many CPU seconds; with ``--targets`` those of :mod:`benchmarks.families` (seed 0), each
within its own CPU seconds; with ``--cases`` problems that the documents name or promise
something about, and with ``--data`` backlogs as the daemon plans them. Under a clock there is one thread, and each search is a process of
its own, which loads what it needs.
A row is switched off only where it gave something to the search with all rows: where it
does not apply, is not reached or gives nothing, that search is the same without it. It
earns its place where without it a verdict is lost, the value or the gap is worse by more
than .05 %, or the search takes three times the CPU seconds. Cells that are in the file are
not run again. The table is printed, and written to ``docs/ablation.md``.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import combinations
from math import inf
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks import families, paper_data, planning
from benchmarks.baseline import SHOWN, asked, problems
from benchmarks.cells import (
    COMMIT,
    SOLVED,
    Cell,
    Row,
    by_cpu,
    fill,
    forked,
    is_wanted,
    load,
    rows_of,
)
from policies.model.coalitions import Coalitions
from policies.model.measures import Measure
from policies.model.problem import Average, Problem
from policies.model.utility_functions import Coverage, Utilities
from policies.solvers import Limits, auto
from policies.solvers.auto import TABLE, Auto
from policies.solvers.interfaces import Solution

PATH = Path(__file__).parent / "results" / "ablation.csv"
PAGE = Path(__file__).parents[1] / "docs" / "ablation.md"
KEY = ("problem", "seed", "off")
FIELDS = (*KEY, *SOLVED, "used")
WHOLE = "-"  # nothing is off
TARGET, CASE = "target ", "case "
LOSS = 0.0005
SMALL = 1e-3  # times the bound, at most 1: losses below are shares of this
SLOWER, SECONDS = 3.0, 0.2  # times the CPU seconds, and so many more at least

HEAD = """# What each row of `auto` is worth

Written by `python -m benchmarks.ablation` from `benchmarks/results/ablation.csv`: every
row of the table in `policies/solvers/auto.py` switched off in turn, on one core. The
problems are those of `python -m benchmarks.baseline`, by work or, where seconds are named,
in CPU seconds; *targets*: those of [what the solvers reach](targets.md), seed 0, with
their limits in CPU seconds; and *cases*: what the documents name or promise (graphs of
the DIMACS collection in as many colours as do not suffice, the Schur colouring of
[what the solvers reach](targets.md), step tradeoffs of [the paper](paper.md#step-functions-500-entries-50-properties),
real backlogs as the daemon plans them, and from [instance files](reference/instances.md):
10^7 pairs, numbers of any size, coalitions of any two, utilities that are no sums, and f < tau
decided exactly).

*Runs* counts the searches without the row. It was switched off where it gave anything to
the search with all rows, in the whole or in a component: where it does not apply, is not
reached, or gives nothing, the search is the same without it and no run is needed.
*Lost*: without the row, on so many problems, a verdict is lost, the value or the gap is
worse by more than .05 %, or the search takes three times the CPU seconds (and .2 s more).
*Worst* names the problem that loses most. A row that loses nothing here stays only for
what is named in the last column. The file names the commit of each run (none: before 29
November, 16:00); a search without a row is held against the search with all rows of the
same commit. Rows that lost nothing went: last `by-proof` (6 runs), `annealing` (17),
`by-number` (2) and `listing` (never reached).

"""

KEPT = {
    "planned": "the daemon's backlogs, in time that grows with their size: no search",
    "greedyl": "the first plan at once, and never below it at any limit",
    "greedy": "the first plan at once, and never below it at any limit",
    "best-copies": "no search where it is the optimum",
    "counting": "a core without a search",
    "valued": "the only row for utilities that are no sums",
    "relations": "the only row for relations that count",
    "fewer-adversaries": "instance files may have 10^7 pairs: else no memory for them",
    "scaled": "`optimal` is proven in any unit: else claimed of GREEDY's plan",
    "cp-sat-after": "f < tau is decided exactly, also where the lowest mean is tau",
    "pair-search": "time: cosine_zero_U24 .02 s, else .21; cosine_zero_U30 .04, else .32",
    "hitting-set": "proofs under a clock: step_syn_D500_P20_k2_t2 in .5 s, else not in 10",
    "loads": "large worst loads: quadworst_D200 in 10 s .7534 of .7544, else .7518 of .7565",
}
"""What rows are for beyond these problems."""


def cells(words: argparse.Namespace) -> Iterator[Cell]:
    """Each problem with all rows, and without each one in turn."""
    for name, seed, problem, limits in asked_for(words):
        for off in (WHOLE, *(row.name for row in TABLE)):
            if not words.rows or off in (WHOLE, *words.rows):
                solver = Auto(frozenset() if off == WHOLE else frozenset((off,)))
                yield Cell((name, str(seed), off), problem, solver, seed, limits)


def queens(size: int, k: int) -> Problem:
    """Squares of a chessboard; nobody gets two on which queens attack each other."""
    squares = [(i, j) for i in range(size) for j in range(size)]
    attacks = [
        (one, two)
        for one, two in combinations(range(len(squares)), 2)
        if 0
        in (gap := [a - b for a, b in zip(squares[one], squares[two], strict=True)])
        or abs(gap[0]) == abs(gap[1])
    ]
    return Problem.from_sets([1] * len(squares), attacks, adversaries=k)


def schur(n: int, k: int) -> Problem:
    """Numbers 1 to n; nobody gets a, b and a + b."""
    sums = {(a - 1, b - 1, a + b - 1) for b in range(1, n) for a in range(1, b + 1)}
    within = sorted(set(one) for one in sums if max(one) < n)
    return Problem.from_sets([1] * n, within, adversaries=k)


def many_adversaries(n: int, k: int) -> Problem:
    """A ring of pairs that nobody may hold; many adversaries, the same best for all."""
    worth = np.tile(np.random.default_rng(0).random(k), (n, 1))
    ring = [[d, (d + 1) % n] for d in range(n)]
    return Problem.from_sets(worth, ring, adversaries=k)


def in_units(power: int) -> Problem:
    """A tradeoff of the paper's generator whose numbers are 10^power times as large."""
    made = paper_data.synthetic(0, 200, 10, 5, 2, Measure.QUADRATIC, average=True)
    times = Fraction(10) ** power
    goal = replace(made.goal, lambda_=made.goal.lambda_ * times)
    weights = replace(made.weights, unit=made.weights.unit * times)
    return replace(made, goal=goal, weights=weights)


def lowest_mean(n: int) -> Problem:
    """Entry 0 alone makes a mean of .6744685, whoever gets it; none may be that high."""
    edge = Fraction(6744685, 10_000_000)
    sets = [{0: 0.63489, 1: 0.36411}, {0: 0.714047, 2: 0.284953}]
    made = Problem.from_sets([1] * n, sets, adversaries=2, disclosure="linear")
    return replace(made, averages=(Average((0, 1), edge, strict=True),))


def pooled(n: int, m: int, k: int) -> Problem:
    """A worst linear tradeoff of the paper's generator where any two pool what they see."""
    made = paper_data.synthetic(0, n, m, k, 2, Measure.LINEAR, average=False)
    return replace(made, coalitions=Coalitions(any_m=2))


def covered_topics(n: int, k: int, topics: int, sets: int) -> Problem:
    """Entries of three topics each; an adversary is worth the topics that it sees."""
    rng = np.random.default_rng(0)
    secrets = [
        rng.choice(n, int(rng.integers(2, 4)), replace=False) for _ in range(sets)
    ]
    worth = tuple(rng.integers(1, 9, topics).astype(float).tolist())
    seen = [frozenset(rng.choice(topics, 3, replace=False).tolist()) for _ in range(n)]
    made = Problem.from_sets([1] * n, [s.tolist() for s in secrets], adversaries=k)
    one = Coverage(tuple(seen), worth)
    return replace(made, utilities=Utilities((one,) * k, (Fraction(1, 1000),) * k))


CASES: dict[str, tuple[float, Callable[[], Problem]]] = {
    "queen5_5, 4 colours, 5 s": (5.0, partial(queens, 5, 4)),
    "queen6_6, 6 colours, 5 s": (5.0, partial(queens, 6, 6)),
    "Schur, 44 in 4, 5 s": (5.0, partial(schur, 44, 4)),
    "50 entries, 200,000 adversaries, 5 s": (
        5.0,
        partial(many_adversaries, 50, 200_000),
    ),
    "lowest mean is the limit, 3 s": (3.0, partial(lowest_mean, 43)),
    "lowest mean is the limit, 80 entries, 3 s": (3.0, partial(lowest_mean, 80)),
    "any two of 6 pool, linear worst, 100 20 6 2, 3 s": (
        3.0,
        partial(pooled, 100, 20, 6),
    ),
    "numbers of 10^-12, 2 s": (2.0, partial(in_units, -12)),
    "topics covered, 100 entries, 3 s": (3.0, partial(covered_topics, 100, 4, 60, 150)),
    **{
        f"step tradeoff of the paper, {n} 50 2 2, 5 s": (
            5.0,
            partial(paper_data.synthetic, 0, n, 50, 2, 2, Measure.STEP),
        )
        for n in (100, 200)
    },
}
"""CPU seconds and problem: what documents name, beyond families and files."""

DAEMON = 10.0  # CPU seconds for a backlog, of which the daemon needs a fraction
BACKLOGS = ("prescriptions", "receipts-100", "brightkite-300 later")


def asked_for(words: argparse.Namespace) -> Iterator[tuple[str, int, Problem, Limits]]:
    """Names, seeds, problems and their limits."""
    for case, (seconds, make) in CASES.items() if words.cases else ():
        if is_wanted(words, CASE + case):
            yield CASE + case, 0, make(), by_cpu(seconds)
    for name, backlog in (
        planning.cases(words.data) if words.cases and words.data else ()
    ):
        named = f"{CASE}{name} as the daemon plans it, {DAEMON:g} s"
        if name in BACKLOGS and is_wanted(words, named):
            limits = replace(by_cpu(DAEMON), spread=planning.SPREAD, exact_size=1)
            yield named, 0, backlog(), limits
    if words.cases:
        return
    if not words.targets:
        for name, seed, problem in problems(words):
            if words.seconds:
                yield (
                    f"{name} {words.seconds:g} s",
                    seed,
                    problem,
                    by_cpu(words.seconds),
                )
            else:
                yield name, seed, problem, Limits(work=words.work)
        return
    for family in families.DUE:
        for cell in families.cells(family, 1, 0):
            sizes = (str(cell.key[size]) for size in families.KEY[1:5])
            name = f"{TARGET}{family} {' '.join(sizes)}"
            if cell.solver == "auto" and is_wanted(words, name):
                yield name, 0, cell.make(), by_cpu(cell.seconds)


def solved(cell: Cell, rows: list[Row]) -> dict[str, object] | None:
    """Solve a cell; None where the row that is off gives nothing to the whole."""
    *problem, off = cell.name
    if off != WHOLE:
        whole = [*problem, WHOLE, COMMIT]
        told = (r["used"] for r in rows if [*_named(r), r["off"], r["commit"]] == whole)
        return run(cell) if off in next(told, "").split() else None
    return run(cell)


def run(cell: Cell) -> dict[str, object]:
    """Solve a cell, under a clock in a process of its own, and name the rows it used."""
    if cell.limits.seconds == inf:
        return noted(cell)
    return forked(lambda: noted(cell)) or {"verdict": "CRASHED", "commit": COMMIT}


def noted(cell: Cell) -> dict[str, object]:
    """Solve a cell and name the rows that gave something."""
    used: set[str] = set()
    rows = tuple(
        replace(row, solver=noting(used, row.name, row.solver)) for row in TABLE
    )
    pairs = noting(used, "pair-search", auto.searched)  # asked by components too
    with patch.multiple(auto, TABLE=rows, searched=pairs):
        found = cell.solve()
    return found | {"used": " ".join(row.name for row in TABLE if row.name in used)}


def noting(
    used: set[str], name: str, step: Callable[..., Solution | None]
) -> Callable[..., Solution | None]:
    """Note that a row gave something."""

    def noted_step(*words: object) -> Solution | None:
        found = step(*words)
        if found is not None:
            used.add(name)
        return found

    return noted_step


def losses(whole: Row, without: Row) -> dict[str, float]:
    """What is lost without the row, by kind; shares of the value, times of the CPU."""
    lost = {}
    if whole["verdict"] != without["verdict"]:
        lost["verdict"] = 1.0
    elif whole["value"]:
        bound = abs(float(whole["bound"])) or 1.0
        size = max(abs(float(whole["value"])), SMALL * min(1.0, bound))
        less = (float(whole["value"]) - float(without["value"])) / size
        wider = (float(without["bound"]) - float(whole["bound"])) / size
        if less > LOSS:
            lost["value"] = less
        if wider + less > LOSS and wider > LOSS:
            lost["gap"] = wider
    cpu = float(without["cpu"] or 0), float(whole["cpu"])  # none of a crash
    if cpu[0] > SLOWER * cpu[1] and cpu[0] - cpu[1] > SECONDS:
        lost["time"] = cpu[0] / cpu[1]
    return lost


def _named(row: Row) -> tuple[str, str]:
    return row["problem"], row["seed"]


def counts(rows: list[Row]) -> str:
    """How many problems the file holds, and runs of each commit: what is not run shows."""
    found = {_named(r) for r in rows}
    targets = sum(name.startswith(TARGET) for name, _ in found)
    cases = sum(name.startswith(CASE) for name, _ in found)
    runs = Counter(r["commit"] or "none" for r in rows)
    told = ", ".join(f"{count} of {name}" for name, count in runs.items())
    return (
        f"{len(found)} problems, {targets} of them targets and {cases} cases; "
        f"runs by commit: {told}.\n"
    )


def table(rows: list[Row]) -> str:
    """One line a row of ``auto``."""
    wholes = {(*_named(r), r["commit"]): r for r in rows if r["off"] == WHOLE}
    lines = ["| row | phase | runs | lost | worst | kept for |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for row in TABLE:
        mine = [r for r in rows if r["off"] == row.name]
        lost: list[tuple[float, str]] = []
        worse = 0
        for one in mine:
            whole = wholes.get((*_named(one), one["commit"]))
            parts = losses(whole, one) if whole else {}
            worse += bool(parts)
            for kind, much in parts.items():
                told = {"verdict": "verdict", "time": f"{much:.1f} x the time"}
                text = told.get(kind, f"{kind} {much:.2%}")
                where = one["problem"] + f", seed {one['seed']}" * (one["seed"] != "0")
                lost.append((much + 10 * (kind == "verdict"), f"{where}: {text}"))
        worst = max(lost, default=(0.0, "-"))[1]
        kept = KEPT.get(row.name, "" if lost else "nothing here")
        lines.append(
            f"| {row.name} | {row.phase} | {len(mine)} | {worse} | {worst} | {kept} |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = asked(__doc__, PATH)
    parser.add_argument("--targets", action="store_true")
    parser.add_argument("--cases", action="store_true")
    parser.add_argument("--seconds", type=float, help="CPU seconds in place of work")
    parser.add_argument("--rows", nargs="*", choices=[row.name for row in TABLE])
    words = parser.parse_args()
    if not (words.targets or words.cases or words.seconds):
        load()
    fill(words.path, FIELDS, cells(words), solved, SHOWN)
    rows = rows_of(words.path)
    told = f"{HEAD}{counts(rows)}\n{table(rows)}"
    if words.path == PATH:
        PAGE.write_text(told, encoding="utf-8")
    print(told)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("cut: the same words go on from here")
