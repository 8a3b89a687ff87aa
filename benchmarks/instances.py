"""Every instance file of a directory: what is reached in how long, beside its reference.

    python -m benchmarks.instances DIR [--algorithm auto] [--seconds 10] [--threads 2]
        [--cpu]

A reference that is OPTIMAL must be met within its tolerance with a bound that is not
below it; INFEASIBLE must be recognised with a core; FEASIBLE must be met or passed, with
a bound not below its best. A referee (``check_plan.py``) beside the directory, or named
with --referee, recomputes every plan. With --cpu limits and times are CPU seconds of one
thread, whatever else the machine does. The exit status is the number of misses.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cells import by_cpu, by_wall
from policies.instances.instance_file import Instance, read_instance, rows_of
from policies.solvers import SOLVERS, Solution, Verdict

NEAR = 1e-9


@dataclass(frozen=True)
class Line:
    name: str
    verdict: str
    value: float | None
    bound: float | None
    best: float | None
    seconds: float
    stopped: str
    told: str

    def text(self) -> str:
        def number(x: float | None) -> str:
            return "-" if x is None else f"{x:.9f}"

        return (
            f"{self.name:40} {self.verdict:10} {number(self.value):>13} "
            f"{number(self.bound):>13} {number(self.best):>13} {self.seconds:6.1f} "
            f"{self.stopped:9} {self.told}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("only", nargs="*", help="parts of names")
    parser.add_argument("--algorithm", default="auto", choices=sorted(SOLVERS))
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--referee", type=Path)
    words = parser.parse_intermixed_args()
    referee = _referee(words.referee or words.directory.parent / "check_plan.py")
    misses = 0
    heading = Line("instance", "verdict", None, None, None, 0, "stopped", "remarks")
    print(heading.text().replace("            -", "").replace("   0.0", "     s"))
    for path in sorted(words.directory.glob("*.json")):
        if words.only and not any(part in path.stem for part in words.only):
            continue
        line = _one(path, words, referee)
        if line is not None:
            misses += line.told != "ok"
            print(line.text(), flush=True)
    print(f"{misses} misses")
    return misses


def _referee(path: Path) -> Any:
    if not path.is_file():
        return None
    spec = importlib.util.spec_from_file_location("referee", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _one(path: Path, words: argparse.Namespace, referee: Any) -> Line | None:
    document = json.loads(path.read_text(encoding="utf-8"))
    found = read_instance(document)
    solver = SOLVERS[words.algorithm]
    if not solver.supports(found.problem):
        return None
    limits = replace(by_wall(words.seconds), threads=words.threads)
    if words.cpu:
        limits = by_cpu(words.seconds)
    began = limits.clock()
    solution = solver(found.problem, np.random.default_rng(words.seed), limits)
    seconds = limits.clock() - began
    solved = solution.verdict is Verdict.SOLVED
    reference = document.get("reference") or {}
    return Line(
        name=path.stem,
        verdict=str(solution.verdict),
        value=float(solution.value) if solved else None,
        bound=float(solution.bound) if solved else None,
        best=reference.get("best"),
        seconds=seconds,
        stopped=solution.stopped,
        told="; ".join(_remarks(found, document, solution, reference, referee)) or "ok",
    )


def _remarks(
    found: Instance,
    document: dict[str, Any],
    solution: Solution,
    reference: dict[str, Any],
    referee: Any,
) -> list[str]:
    told = []
    solved = solution.verdict is Verdict.SOLVED
    value, bound, best = (
        float(solution.value),
        float(solution.bound),
        reference.get("best"),
    )
    match reference.get("status"):
        case "INFEASIBLE":
            if solution.verdict is not Verdict.INFEASIBLE:
                told.append("not recognised")
            elif solution.core is None:
                told.append("no core")
        case "OPTIMAL":
            if not solved or abs(value - best) > reference["tolerance"] + NEAR:
                told.append("not optimal")
            if solved and bound < best - NEAR:
                told.append("bound too low")
        case "FEASIBLE":
            if not solved or value < best - NEAR:
                told.append(f"below best by {best - value:.2g}")
            if solved and bound < best - NEAR:
                told.append("bound too low")
    if solved and referee is not None:
        rows = rows_of(solution.plan, found.problem.n_entries)
        seen = referee.evaluate(document, rows)
        if seen["violations"] or abs(seen["objective"] - value) > NEAR:
            told.append(f"the referee disagrees: {seen['violations'][:2]}")
    return told


if __name__ == "__main__":
    sys.exit(main())
