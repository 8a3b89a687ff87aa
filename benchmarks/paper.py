"""The paper's experiments (section 6) again: ``make bench-paper``.

    python -m benchmarks.paper [NAMES] [--seeds 3] [--seconds 5] [--checkins DIR]
        [--draw] [--into DIR]

Every line of ``benchmarks/results/paper-NAME.csv`` is one cell: an instance seed, the
number of adversaries, an algorithm. Cells that are there already are not run again, so a
run that was cut goes on where it stopped; delete a file to run it afresh. Figures go to
``docs/figures``, the tables beside the paper's printed values to ``docs/paper.md``. With
--into cells, figures and tables go to that directory instead.

Heuristics run as the paper prints them (mode paper), RAND+ and LP ten times each, the
mean is taken (three times with check-ins). ``ours`` is ``auto``, which never leaks where
that is asked for. Check-ins: drawn ones, and those of the directory of --checkins or
$SPARSI_CHECKINS (see ``paper_data``).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import paper_data, paper_report
from benchmarks.cells import Row, by_wall, fill, rows_of
from policies.judging.judge import Judgement
from policies.model.links import link_similarities
from policies.model.measures import Measure
from policies.model.problem import Problem
from policies.solvers import SOLVERS, Solution, Verdict

RESULTS = Path(__file__).parent / "results"
KS = (2, 3, 5, 7, 10)
HEURISTICS = ("rand-plus", "greedyl", "graspl", "greedy", "grasp")
REPEATED = {"rand-plus": 10, "lp-rounding": 10}
FIELDS = (
    "seed",
    "data",
    "n",
    "k",
    "t",
    "problem",
    "algorithm",
    "verdict",
    "u",
    "f_worst",
    "f_average",
    "objective",
    "disclosed",
    "above_zero",
    "bound",
    "seconds",
    "u_error",
    "f_error",
    "levels",
)
KEY = FIELDS[:7]
SHOWN = ("u", "f_average", "seconds")
LINKED = 3  # runs of what draws, with check-ins: one takes half a minute
LEVELS = tuple(i / 20 for i in range(20))


@dataclass(frozen=True)
class Cell:
    """One solver on one instance."""

    key: dict[str, object]
    problem: Callable[[], Problem]
    solver: str
    paper: bool

    @property
    def name(self) -> tuple[str, ...]:
        return tuple(str(self.key[field]) for field in KEY)


def step_cells(seeds: int) -> Iterator[Cell]:
    """Utility by k at 500/50; complete sets at |P| = 50, k = 2."""
    shapes = [(500, k, 2) for k in KS]
    shapes += [(n, 2, t) for n in (100, 200, 300, 500) for t in (1, 2)]
    for n, k, t in dict.fromkeys(shapes):
        for seed in range(seeds):

            def base(seed: int = seed, n: int = n, k: int = k, t: int = t) -> Problem:
                return paper_data.synthetic(seed, n, 50, k, t, Measure.STEP)

            def hard(base: Callable[[], Problem] = base) -> Problem:
                return paper_data.sealed(base())

            for name in HEURISTICS:
                yield _cell(seed, "synthetic", n, k, t, "tradeoff", name, base)
            for name in ("lp-rounding", "ours"):
                yield _cell(seed, "synthetic", n, k, t, "sealed", name, hard)
            if k == t:  # else the best copies are optimal
                yield _cell(seed, "synthetic", n, k, t, "tradeoff", "ours", base)


def budget_cells(seeds: int) -> Iterator[Cell]:
    """DiscBudget against TradeOff, both solved to the optimum or near: 50/10, tau .9."""
    for k in KS:
        for seed in range(seeds):
            for average in (False, True):

                def base(seed: int = seed, k: int = k, avg: bool = average) -> Problem:
                    return paper_data.synthetic(
                        seed, 50, 10, k, 2, Measure.LINEAR, average=avg
                    )

                def capped(base: Callable[[], Problem] = base) -> Problem:
                    return paper_data.budget(base(), Fraction(9, 10))

                word = "average" if average else "worst"
                yield _cell(
                    seed, "synthetic", 50, k, 2, f"tradeoff {word}", "ours", base
                )
                yield _cell(
                    seed, "synthetic", 50, k, 2, f"discbudget {word}", "ours", capped
                )


def linear_cells(seeds: int) -> Iterator[Cell]:
    """Average disclosure, 500/50; the levels of single properties come with it."""
    for k in KS:
        for seed in range(seeds):

            def base(seed: int = seed, k: int = k) -> Problem:
                return paper_data.synthetic(
                    seed, 500, 50, k, 2, Measure.LINEAR, average=True
                )

            for name in (*HEURISTICS, "lp-rounding", "ours"):
                yield _cell(seed, "synthetic", 500, k, 2, "tradeoff", name, base)


def cosine_cells(data: list[paper_data.Checkins]) -> Iterator[Cell]:
    """Friendships by cosine; ours forbids any."""
    for found in data:
        n = len(found.user)
        for k in KS:

            def base(found: paper_data.Checkins = found, k: int = k) -> Problem:
                return paper_data.cosine(found, 0, k, 2, zero=False)

            def zero(found: paper_data.Checkins = found, k: int = k) -> Problem:
                return paper_data.cosine(found, 0, k, 2, zero=True)

            for name in ("rand-plus", "greedyl", "graspl", "greedy"):
                yield _cell(0, found.name, n, k, 2, "tradeoff", name, base)
            yield _cell(0, found.name, n, k, 2, "sealed", "ours", zero)


def _cell(
    seed: int,
    data: str,
    n: int,
    k: int,
    t: int,
    problem: str,
    name: str,
    make: Callable[[], Problem],
) -> Cell:
    key = dict(zip(KEY, (seed, data, n, k, t, problem, name), strict=True))
    return Cell(key, make, "auto" if name == "ours" else name, name != "ours")


def run(seconds: float, cell: Cell, _: list[Row]) -> dict[str, object]:
    """Solve a cell, several times where its solver draws."""
    problem = cell.problem()
    seed = int(str(cell.key["seed"]))
    runs = []
    began = time.perf_counter()
    times = REPEATED.get(cell.solver, 1)
    if problem.links is not None:
        times = min(times, LINKED)
    for again in range(times):
        limits = by_wall(30.0 if problem.links is not None else seconds)
        limits = replace(limits, paper=cell.paper)
        rng = np.random.default_rng([seed, again])
        runs.append(SOLVERS[cell.solver](problem, rng, limits))
    took = (time.perf_counter() - began) / times
    return _told(problem, runs) | {"seconds": f"{took:.3f}"}


def _told(problem: Problem, runs: list[Solution]) -> dict[str, object]:
    """Means over the runs that made a plan, and their standard errors."""
    seen = [(r, r.judged) for r in runs if r.judged is not None]
    verdict = min((r.verdict for r in runs), default=Verdict.UNKNOWN)
    if not seen:
        held = len(runs[0].held)
        return {"verdict": verdict, "bound": float(runs[0].bound), "above_zero": held}
    judged = [j for _, j in seen]
    u, f = ([float(getattr(j, name)) for j in judged] for name in ("u", "f_average"))
    return {
        "verdict": verdict,
        "u": _mean(u),
        "f_worst": _mean([float(j.f) for j in judged]),
        "f_average": _mean(f),
        "objective": _mean([u_ - f_ for u_, f_ in zip(u, f, strict=True)])
        if problem.goal.average
        else _mean([float(j.u - j.f) for j in judged]),
        "disclosed": _mean([float(j.disclosed) for j in judged]),
        "above_zero": _mean([_above(problem, r, j) for r, j in seen]),
        "bound": min(float(r.bound) for r, _ in seen),
        "u_error": _error(u),
        "f_error": _error(f),
        "levels": " ".join(map(str, _levels(judged[0]))),
    }


def _above(problem: Problem, run: Solution, judged: Judgement) -> float:
    """Properties (or links) of which anything is disclosed."""
    links = problem.links
    if links is None:
        return float(sum(f > 0 for f in judged.by_property))
    found = link_similarities(links, run.plan.entry, run.plan.adversary)
    return float(len({a.link for a in found if a.share(links.relation) > 0}))


def _levels(judged: Judgement) -> list[int]:
    """How many properties are above each of ``LEVELS``."""
    return [sum(f > level for f in judged.by_property) for level in LEVELS]


def _mean(values: list[float]) -> str:
    return f"{float(np.mean(values)):.9g}"


def _error(values: list[float]) -> str:
    many = len(values)
    return f"{float(np.std(values, ddof=1) / many**0.5):.3g}" if many > 1 else "0"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ("step", "budget", "linear", "cosine")
    parser.add_argument("names", nargs="*", help=", ".join(names))
    parser.add_argument("--seeds", type=int, default=3, help="instances of each kind")
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="of a run; 30 with check-ins"
    )
    given = os.environ.get("SPARSI_CHECKINS")
    parser.add_argument(
        "--checkins",
        type=Path,
        default=Path(given) if given else None,
        help="a directory of check-ins, see benchmarks.paper_data",
    )
    parser.add_argument("--draw", action="store_true", help="figures and tables only")
    parser.add_argument("--into", type=Path, help="a directory for cells and figures")
    words = parser.parse_args()
    wrong = set(words.names) - set(names)
    if wrong:
        parser.error(f"unknown: {', '.join(sorted(wrong))}")
    checkins = [paper_data.drawn_checkins(0)]
    if words.checkins is not None:
        brought = paper_data.read_checkins(words.checkins)
        if not brought:
            parser.error(f"{words.checkins} holds no file *_entries.csv")
        checkins += brought
    cells = {
        "step": step_cells(words.seeds),
        "budget": budget_cells(words.seeds),
        "linear": linear_cells(words.seeds),
        "cosine": cosine_cells(checkins),
    }
    into = words.into
    paths = {n: (RESULTS if into is None else into) / f"paper-{n}.csv" for n in names}
    for name in words.names or names:
        if not words.draw:
            fill(paths[name], FIELDS, cells[name], partial(run, words.seconds), SHOWN)
    found = {name: rows_of(path) for name, path in paths.items()}
    paper_report.write(found, paper_report.DOCS if into is None else into)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("cut: the same words go on from here")
