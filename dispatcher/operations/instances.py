"""Instances of the paper's problem: read them from files, solve them, judge plans."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np

from dispatcher.core.errors import Invalid, Usage
from dispatcher.core.input_files import read_input
from dispatcher.core.private_files import private
from dispatcher.strategies import (
    find_solver,
    load_utility,
    reads_paper,
    solver_with,
    solvers_for,
)
from policies.instances import importers
from policies.instances.instance_file import Instance, read_instance, rows_of
from policies.instances.json_values import InvalidInstance
from policies.instances.plan_document import read_plan
from policies.judging.judge import Judgement
from policies.judging.judge import judge as judge_plan
from policies.model.problem import Plan, Problem
from policies.planning.frontier import Frontier, frontier
from policies.rules.functions import InvalidFunction
from policies.solvers import Limits, Solution, Solver, Verdict
from policies.solvers.auto import Auto
from policies.solvers.exact.epsilon_constraint import front, held_at
from policies.solvers.exact.lexicographic import countable, fewest_complete_sets
from policies.solvers.explain.messages import certificate, sentences
from policies.solvers.explain.withholding import cheapest

NOTHING: Final = Fraction(0)
LEAST: Final = 0.1
"""Minimum seconds of search for the last of several parts."""

OPTIONS: Final = {
    ".col": ("--adversaries", "--copies"),
    ".hgr": ("--adversaries", "--copies"),
    ".csv": ("--adversaries", "--copies", "--friendships"),
}
"""File types other than JSON, by suffix, and their options."""


@dataclass(frozen=True)
class InstanceFile:
    """A file of a problem, and parameters that the file may lack.

    Attributes
    ----------
    path : Path
        JSON, or by its suffix a graph, a hypergraph or check-ins.
    adversaries : int or None
    copies : int
    friendships : Path or None
    """

    path: Path
    adversaries: int | None = None
    copies: int = 1
    friendships: Path | None = None


@dataclass(frozen=True)
class Search:
    """Parameters of solving an instance.

    Attributes
    ----------
    algorithm : str
        ``auto``, or the name of a solver.
    paper : bool
        Heuristics as the paper prints them, where the solver has that form.
    choices : Mapping
        Choices of a solver by the option that names them: (keyword, value or None).
    safe : bool
        Fewest complete sets first, then the paper's objective.
    levels : int or None
        Number of disclosure levels at which to compute the utility, instead of one
        plan.
    seconds, work : float
        Limits of the search.
    threads, seed : int
    trace : bool
        Whether the answer says which rows of ``auto`` ran, how long, and what came of it.
    """

    algorithm: str = "auto"
    paper: bool = False
    choices: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)
    safe: bool = False
    levels: int | None = None
    seconds: float = 60.0
    work: float = float("inf")
    threads: int = 1
    seed: int = 0
    trace: bool = False

    def check(self) -> None:
        """Refuse choices that contradict each other.

        Raises
        ------
        Usage
        """
        if self.safe and self.algorithm != "auto":
            raise Usage(
                f"--objective safe does not go with --algorithm {self.algorithm}",
                why="auto alone proves how few sets can be complete; heuristics count "
                "complete sets first in --mode safe anyway",
                fix="leave one of both out",
            )
        if self.trace and self.algorithm != "auto":
            raise Usage(
                f"--trace does not go with --algorithm {self.algorithm}",
                why="it shows the rows of auto's table",
                fix="leave one of both out",
            )
        if self.safe and self.levels is not None:
            raise Usage(
                "--objective safe does not go with --pareto",
                why="a front holds disclosure at levels and maximises utility alone",
                fix="leave one of both out",
            )


def solve(
    file: InstanceFile,
    search: Search,
    *,
    clock: Callable[[], float],
    stopped: Callable[[], bool],
) -> dict[str, Any]:
    """Solve the instance of a file; the plan is judged before it is returned.

    Parameters
    ----------
    file : InstanceFile
    search : Search
    clock : callable
        Monotonic seconds.
    stopped : callable
        Whether the search must end with the best plan so far.

    Returns
    -------
    dict
        A document ``dispatcher.solution/1`` or ``dispatcher.front/1``, which
        :func:`judge` reads again.

    Raises
    ------
    Usage
        The search does not fit this problem.
    Invalid
        The file is no instance, or its utility failed.
    """
    started = clock()
    search.check()
    document = read_document(file)
    paper = search.paper and reads_paper(search.algorithm)
    solver = solver_with(search.algorithm, search.choices)
    found = _read(document, solver, search.algorithm, str(file.path))
    limits: dict[str, Any] = {
        "seconds": search.seconds,
        "work": search.work,
        "clock": clock,
        "stopped": stopped,
        "threads": search.threads,
        "paper": paper,
    }
    ran: list[tuple[str, float, str]] = []
    if search.trace:
        limits["trace"] = lambda *row: ran.append(row)
    task = _Task(found, solver, search.seed, limits, clock())
    with _functions_named(str(file.path)):
        answer = task.answer(search)
    answer["mode"] = "paper" if paper else "safe"
    answer["seed"] = search.seed
    answer["seconds"] = round(clock() - started, 3)
    if search.trace:
        answer["rows"] = _rows(ran, Auto().rows(found.problem, Limits(**limits)))
    return answer


def _rows(
    ran: Sequence[tuple[str, float, str]], applying: Sequence[str]
) -> list[dict[str, Any]]:
    """Sum up the rows of auto that ran, by outcome; then those that were not reached."""
    runs: dict[tuple[str, str], list[float]] = {}
    for name, seconds, outcome in ran:
        runs.setdefault((name, outcome), []).append(seconds)
    reached = {name for name, _ in runs}
    for name in applying:
        if name not in reached:
            runs[name, "not reached"] = []
    return [
        {
            "row": name,
            "outcome": outcome,
            "runs": len(each),
            "seconds": round(sum(each), 6),
        }
        for (name, outcome), each in runs.items()
    ]


def sweep(
    file: InstanceFile, count: int, *, seed: int = 0, time_limit: float = 60.0
) -> Frontier:
    """Sweep the limit on f of an instance, from none to 0.

    Raises
    ------
    Usage
        The instance has links.
    Invalid
        The file is no instance.
    """
    document = read_document(file)
    with _functions_named(str(file.path)):
        problem = read_problem(document, str(file.path)).problem
        if problem.links is not None:
            raise Usage(
                "a frontier does not take relations",
                why="their disclosure is held at a level by discbudget alone",
                fix="ask discbudget with one tau after another",
            )
        limits = Limits(seconds=time_limit)
        return frontier(problem, count, find_solver("auto"), seed, limits)


def judge(file: InstanceFile, plan: Path) -> dict[str, Any]:
    """Judge a finished plan of an instance: its value and all violations.

    Returns
    -------
    dict
        A document ``dispatcher.judgement/1``: floats for reading, the verdict from
        exact numbers.

    Raises
    ------
    Invalid
        A file is no instance, or no plan of it.
    """
    document = read_document(file)
    with _functions_named(str(file.path)):
        found = read_problem(document, str(file.path))
        judged = judge_plan(found.problem, _read_plan(plan, found))
    return {
        "schema": "dispatcher.judgement/1",
        "feasible": judged.feasible,
        "objective": float(judged.objective),
        **worth(judged),
        "violations": list(judged.violations),
        "notes": list(found.notes),
    }


def _read(document: object, solver: Solver, algorithm: str, where: str) -> Instance:
    """Read the instance, and check that the solver accepts it."""
    found = read_problem(document, where)
    if not solver.supports(found.problem):
        raise Usage(
            f"{algorithm} does not solve this kind of problem",
            why=f"{found.asked} over {found.kind}, with the utility, copies, limits and "
            "sizes of this file, is outside what it can do",
            fix=f"leave --algorithm out, or take one of: {', '.join(solvers_for(found.problem))}",
        )
    return found


@dataclass
class _Task:
    """One search in the remaining time."""

    found: Instance
    solver: Solver
    seed: int
    limits: dict[str, Any]
    since: float

    def within(self, share: float = 1.0, work: float = 1.0) -> Limits:
        """Return limits as shares of the remaining time."""
        return Limits(**self.limits).left(self.since, share, LEAST).part(work)

    def solve(self, problem: Problem, limits: Limits) -> Solution:
        return self.solver(problem, np.random.default_rng(self.seed), limits)

    def answer(self, search: Search) -> dict[str, Any]:
        """Solve as asked; return the document without its time."""
        if search.levels is not None:
            return self._front(search.levels, search.algorithm)
        least = None
        if search.safe:
            solution, least = self._fewest()
        else:
            solution = self.solve(self.found.problem, self.within())
        answer = report(self.found, solution, search.algorithm)
        if least is not None:
            answer["complete_sets_bound"] = least
        return answer | withheld(self.found, solution, self.seed, self.within())

    def _fewest(self) -> tuple[Solution, int]:
        """Count complete sets first."""
        problem, rng = self.found.problem, np.random.default_rng(self.seed)
        if not countable(problem):
            raise Usage(
                "--objective safe does not take this problem",
                why="complete sets are counted by CP-SAT: of sets, not of relations, "
                "with a utility that is a sum, and up to 200,000 pairs",
                fix="leave it out, or name a heuristic that counts complete sets first: "
                "--algorithm graspl",
            )
        made = fewest_complete_sets(problem, rng, self.within(), self.solve)
        return made.solution, made.least

    def _front(self, count: int, algorithm: str) -> dict[str, Any]:
        """Utility at levels of disclosure."""
        problem = self.found.problem
        if problem.links is not None:
            raise Usage(
                "--pareto does not take relations",
                why="their disclosure is held at a level by discbudget alone",
                fix="ask discbudget with one tau after another",
            )
        if not all(self.solver.supports(held_at(problem, f)) for f in (None, NOTHING)):
            raise Usage(
                f"--pareto does not go with --algorithm {algorithm} here",
                why="utility alone, with disclosure held at a level, is outside what it "
                "can do",
                fix="leave --algorithm out: auto picks by structure",
            )
        rest = iter(range(count, 0, -1))
        points = front(
            problem,
            count,
            lambda part: self.solve(part, self.within(1 / next(rest), 1 / count)),
        )
        return report_front(self.found, list(points), algorithm)


def withheld(
    found: Instance, solution: Solution, seed: int, limits: Limits
) -> dict[str, Any]:
    """Return what to withhold if there is no plan and the file has its costs."""
    problem = found.problem
    if solution.verdict is not Verdict.INFEASIBLE or problem.prices is None:
        return {}
    least = cheapest(problem, np.random.default_rng(seed), limits)
    if least is None:
        return {"withheld": None}
    return {
        "withheld": {
            "entries": list(least.entries),
            "price": least.price,
            "bound": least.bound,
            "assignment": rows_of(least.plan, problem.n_entries),
        }
    }


def worth(judged: Judgement | None) -> dict[str, Any]:
    """Return a plan's measures other than its objective; nulls without a plan."""
    return {
        "utility": float(judged.u) if judged else None,
        "disclosure": float(judged.f_goal) if judged else None,
        "complete_sets": judged.disclosed if judged else None,
    }


def report(found: Instance, solution: Solution, algorithm: str) -> dict[str, Any]:
    """Return the document: floats for reading, the verdict from exact numbers."""
    problem = found.problem
    solved = solution.verdict is Verdict.SOLVED
    judged = solution.judged if solved else None
    value = float(solution.value) if solved else None
    bound: float | None = float(solution.bound)
    if solution.verdict is Verdict.INFEASIBLE:
        bound = None
    if value is not None and bound is not None:
        bound = max(bound, value)
    core = solution.core
    return {
        "schema": "dispatcher.solution/1",
        "verdict": str(solution.verdict),
        "algorithm": algorithm,
        "objective": value,
        **worth(judged),
        "bound": bound,
        "gap": bound - value if value is not None and bound is not None else None,
        "stopped": solution.stopped or _ended(solution),
        "assignment": rows_of(solution.plan, problem.n_entries) if solved else None,
        "core": None
        if core is None or solved
        else {
            "why": sentences(problem, core),
            "entries": sorted({d for c in core.clashes for d in c.entries}),
            "properties": sorted({p for c in core.clashes for p in c.properties}),
            "needed": core.needed,
            "exact": core.exact,
            "available": core.available,
        },
        "certified": [
            {
                "why": certificate(problem, proof),
                "ground": str(proof.ground),
                "entries": list(proof.entries),
                "components": proof.components,
            }
            for proof in solution.proofs
        ],
        "tried": [*found.notes, *solution.tried],
    }


def _ended(solution: Solution) -> str:
    """Return why a search ended if its solver does not say."""
    if solution.verdict is Verdict.SOLVED:
        return "optimal" if solution.value == solution.bound else "gap"
    return "optimal" if solution.core is not None else "work"


def report_front(
    found: Instance,
    points: Sequence[tuple[Fraction | None, Solution]],
    algorithm: str,
) -> dict[str, Any]:
    """Return the document of a front: one answer a level, the loosest first."""
    reports = [report(found, solution, algorithm) for _, solution in points]
    keys = ("verdict", "utility", "disclosure", "complete_sets", "bound", "stopped")
    front = [
        {"level": None if level is None else float(level)}
        | {key: one[key] for key in (*keys, "assignment")}
        for (level, _), one in zip(points, reports, strict=True)
    ]
    shared = ("verdict", "algorithm", "stopped", "assignment", "core", "certified")
    return {
        "schema": "dispatcher.front/1",
        **{key: reports[0][key] for key in (*shared, "tried")},
        "front": front,
    }


def read_document(file: InstanceFile) -> Any:  # noqa: ANN401 - JSON may be anything
    """Read an instance by the end of its file's name.

    Raises
    ------
    Usage
        The number of adversaries, or the file of friendships, is missing; or an option
        does not fit such a file.
    Invalid
        With what is wrong, where it is, and how to fix it.
    """
    path, adversaries, copies = file.path, file.adversaries, file.copies
    kind = path.suffix.lower()
    _check_options(file)
    if kind not in OPTIONS:
        return read_json(path)
    text = _text(path)
    if adversaries is None:
        raise Usage(
            f"{path} does not say how many adversaries there are",
            why="only a sparsi-instance/1 file does",
            fix="name a number with --adversaries",
        )
    try:
        if kind == ".col":
            return importers.colouring(text, adversaries, copies)
        if kind == ".hgr":
            return importers.hypergraph(text, adversaries, copies)
        if file.friendships is None:
            raise Usage(
                "check-ins come without their friendships",
                why="friendships are what must not be disclosed",
                fix="name their file with --friendships",
            )
        return importers.checkins(text, _text(file.friendships), adversaries, copies)
    except InvalidInstance as error:
        raise _invalid(str(path), error) from None


def _check_options(file: InstanceFile) -> None:
    """Refuse an option that would be ignored."""
    path = file.path
    given = {
        "--adversaries": file.adversaries is not None,
        "--copies": file.copies != 1,
        "--friendships": file.friendships is not None,
    }
    read = OPTIONS.get(path.suffix.lower(), ())
    unread = [word for word, there in given.items() if there and word not in read]
    if unread:
        words = " and ".join(unread)
        raise Usage(
            f"{path} does not take {words}",
            why="by the end of its name a file is a graph (.col), a hypergraph (.hgr), "
            "check-ins (.csv), or else JSON, which says how many there are itself",
            fix=f"leave {words} out, or rename the file",
        )


def read_problem(document: object, where: str) -> Instance:
    """Read the instance of a parsed file; utilities of packages are loaded.

    Raises
    ------
    Invalid
        With what is wrong, where it is, and how to fix it.
    """
    try:
        return read_instance(document, load_utility)
    except InvalidInstance as error:
        raise _invalid(where, error) from None


@contextmanager
def _functions_named(where: str) -> Iterator[None]:
    """Name the user's utility in the error when it fails."""
    try:
        yield
    except InvalidFunction as error:
        raise Invalid(
            f"{where}: its utility failed while it was planned or judged by",
            why=str(error),
            fix="tell the author of the function, or name another utility",
        ) from None


def _text(path: Path) -> str:
    try:
        return read_input(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Invalid(
            f"{path} is not text",
            why="it is not UTF-8",
            fix="name a file of one of the formats of docs/reference/instances.md",
        ) from None


class _Twice(Exception):
    """A duplicate key in a JSON object."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object from its pairs; refuse duplicate keys."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise _Twice(repr(next(name for name in made if names.count(name) > 1)[:40]))
    return made


def read_json(path: Path) -> Any:  # noqa: ANN401 - JSON is anything until it was read
    """Read a file of JSON.

    Raises
    ------
    Invalid
        With what is wrong, where it is, and how to fix it.
    """
    text = _text(path)
    try:
        return json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise Invalid(
            f"{path}, line {error.lineno}, column {error.colno}: {error.msg}",
            why="the file is not JSON",
            fix="correct this place; the format: docs/reference/instances.md",
        ) from None
    except _Twice as error:
        raise Invalid(
            f"{path}: the key {error} appears twice in one object",
            why="only one of both would be read",
            fix="take one of them out",
        ) from None
    except RecursionError:
        raise Invalid(
            f"{path} is nested too deeply",
            why="nothing in an instance or a plan is deeper than three lists",
            fix="write it as docs/reference/instances.md says",
        ) from None
    except ValueError:
        raise Invalid(
            f"{path} holds a number of too many digits",
            why="numbers are read as 64-bit floats",
            fix="write fewer digits",
        ) from None


def _invalid(path: str, error: InvalidInstance) -> Invalid:
    """Return the error for a file that is no instance."""
    return Invalid(f"{path}: {error.where}", why=error.what, fix=error.mend)


def _read_plan(path: Path, found: Instance) -> Plan:
    """Read the plan of a file for this instance.

    Raises
    ------
    Invalid
        With what is wrong, where it is, and how to fix it.
    """
    problem = found.problem
    try:
        return read_plan(read_json(path), problem.n_entries, problem.n_adversaries)
    except InvalidInstance as error:
        raise _invalid(str(path), error) from None


def check_place(path: Path) -> None:
    """Raise unless a file can be written there; change nothing.

    Raises
    ------
    Invalid
    """
    if path.is_dir():
        raise Invalid(
            f"{path} is a folder",
            why="the answer is written to a file",
            fix=f"name a file in it: {path / 'plan.json'}",
        )
    try:
        with suppress(FileNotFoundError):
            path.stat()  # fails on a loop of links
        if path.is_file():
            os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
        if not _is_stream(path):
            draft = _draft(path)
            draft.touch(exist_ok=False)
            draft.unlink()
    except OSError as error:
        raise Invalid(
            f"{path} cannot be written: {error.strerror}",
            why="this was tried before the search, so that no answer is lost",
            fix="name a file in a folder that exists and that you may write to",
        ) from error


def write_whole(path: Path, text: str) -> None:
    """Write a file atomically: beside its target, then moved into place.

    A pipe or a device is written to directly.

    Raises
    ------
    OSError
    """
    if _is_stream(path):
        path.write_text(text, encoding="utf-8")
        return
    draft = _draft(path)
    try:
        with open(draft, "x", encoding="utf-8", opener=private) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, draft)
        draft.replace(path.resolve())
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()


def _is_stream(path: Path) -> bool:
    """Whether it exists and is no regular file: a pipe or a device."""
    return path.exists() and not path.is_file()


def _draft(path: Path) -> Path:
    """Return the temporary path of a file before it is moved into place."""
    target = path.resolve()
    return target.with_name(f".{target.name[:60]}.{os.getpid()}")
