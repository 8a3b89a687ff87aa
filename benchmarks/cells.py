"""Tables of cells as CSV: what is there is kept, what is missing is run, line by line."""

from __future__ import annotations

import argparse
import csv
import json
import os
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from benchmarks.machine import commit
from policies.model.problem import Problem
from policies.solvers import Limits, Solver, Verdict
from policies.solvers import kernels as package
from policies.solvers.kernels.compiling import GROUPS, kernels

Row = dict[str, str]
SOLVED = ("verdict", "value", "bound", "stopped", "cpu", "commit")
"""Columns that :meth:`Cell.solve` gives."""

COMMIT = commit()
WALL_FACTOR = 30.0  # of CPU seconds, on a machine that does much else


def by_cpu(seconds: float) -> Limits:
    """Limits in CPU seconds of one thread: what else the machine does is not counted."""
    return Limits(
        work=float("inf"),
        seconds=seconds,
        clock=time.process_time,
        wall_factor=WALL_FACTOR,
    )


def by_wall(seconds: float) -> Limits:
    """Limits in seconds of the clock on the wall."""
    return Limits(work=float("inf"), seconds=seconds, clock=time.perf_counter)


def load() -> None:
    """Load engines and compiled kernels, so that no cell pays for them."""
    for engine in ("highspy", "ortools.sat.python.cp_model", "scipy.optimize"):
        import_module(engine)
    for group, parts in GROUPS.items():
        compiled = kernels(group, quick=True)
        for part in parts:
            for name in import_module(f"{package.__name__}.{part}").ENTRY_POINTS:
                _ = compiled[name]


class Named(Protocol):
    """A cell: its first columns, as they stand in the file."""

    @property
    def name(self) -> tuple[str, ...]: ...


One = TypeVar("One", bound=Named)


@dataclass(frozen=True)
class Cell:
    """One solver on one problem, within limits.

    Attributes
    ----------
    name : tuple of str
    problem : Problem
    solver : Solver
    seed : int
    limits : Limits
    """

    name: tuple[str, ...]
    problem: Problem
    solver: Solver
    seed: int
    limits: Limits

    def solve(self) -> dict[str, object]:
        """Solve the problem; what came out, and the CPU seconds that it took."""
        began = time.process_time()
        rng = np.random.default_rng(self.seed)
        found = self.solver(self.problem, rng, self.limits)
        took = time.process_time() - began
        solved = found.verdict is Verdict.SOLVED
        value = f"{float(found.value):.12g}" if solved else ""
        bound = f"{float(found.bound):.12g}"
        values = (
            str(found.verdict),
            value,
            bound,
            found.stopped,
            f"{took:.3f}",
            COMMIT,
        )
        return dict(zip(SOLVED, values, strict=True))


def forked(work: Callable[[], dict[str, object]]) -> dict[str, object]:
    """Do the work in a process of its own, in which nothing is loaded yet.

    Returns
    -------
    dict
        What the work gave; nothing where the process died.
    """
    read, write = os.pipe()
    child = os.fork()
    if not child:  # it never goes on as its parent, whose clean-up is not its own
        try:
            os.write(write, json.dumps(work()).encode())
        except Exception:  # noqa: BLE001 - printed, and the cell is CRASHED
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer: dict[str, object] = json.loads(pipe.read() or b"{}")
    os.waitpid(child, 0)
    return answer


def arguments(told: str | None, path: Path) -> argparse.ArgumentParser:
    """Return a parser of what all such tables are asked: a part of it, and its file."""
    parser = argparse.ArgumentParser(
        description=told, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", help="parts of the problems' names")
    parser.add_argument("--path", type=Path, default=path)
    return parser


def is_wanted(words: argparse.Namespace, name: str) -> bool:
    """Whether a problem of this name is asked for."""
    return not words.only or any(part in name for part in words.only)


def rows_of(path: Path) -> list[Row]:
    """The cells of the file; a last line that was cut is left out."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    return list(csv.DictReader(StringIO(text[: text.rfind("\n") + 1])))


def fill(
    path: Path,
    fields: tuple[str, ...],
    cells: Iterator[One],
    run: Callable[[One, list[Row]], dict[str, object] | None],
    shown: tuple[str, ...],
) -> None:
    """Run the cells that are not in the file yet.

    Parameters
    ----------
    path : Path
    fields : tuple of str
        The columns; the first of them name a cell.
    cells : iterator of Named
    run : callable
        Gives the other columns of a cell; of the rows that are there it may use others.
        None where there is nothing to be told.
    shown : tuple of str
        Columns that are printed beside the name.
    """
    kept = rows_of(path)
    before = len(kept)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")  # whatever cuts this, no cell is lost
    with fresh.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept)
    fresh.replace(path)
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        for cell in cells:
            if any(tuple(row.values())[: len(cell.name)] == cell.name for row in kept):
                continue
            found = run(cell, kept)
            if found is None:
                continue
            found = dict(zip(fields, cell.name, strict=False)) | found
            row = {field: str(found.get(field, "")) for field in fields}
            writer.writerow(row)
            file.flush()
            kept.append(row)
            print(path.stem, *cell.name, *(row[f] or "-" for f in shown), flush=True)
    print(
        f"{path}: {len(kept) - before} cells were run, {before} were there", flush=True
    )
