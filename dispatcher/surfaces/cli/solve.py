"""``dispatcher solve``: one instance file in, one judged plan out; no store needed."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from dispatcher.core.errors import (
    EXIT_INFEASIBLE,
    EXIT_UNFINISHED,
    Invalid,
    Usage,
)
from dispatcher.surfaces.cli.context import CliContext, leave
from dispatcher.surfaces.cli.instance_files import (
    Adversaries,
    Copies,
    Friendships,
    InstanceFile,
    functions_named,
    own_stdout,
    read_document,
    read_problem,
)
from dispatcher.surfaces.cli.plan_files import check_place, write_whole
from dispatcher.surfaces.cli.solutions import lay_out, report, report_front, withheld

if TYPE_CHECKING:
    from policies.instances.instance_file import Instance
    from policies.model.problem import Problem
    from policies.solvers import Limits, Solution, Solver

NOTHING: Final = Fraction(0)
LEAST: Final = 0.1
"""Seconds of search that the last part of several gets in any case."""


class Mode(StrEnum):
    """How heuristics work."""

    SAFE = "safe"
    PAPER = "paper"


class Order(StrEnum):
    """In which order the local form goes through the entries."""

    DEGREE = "degree"
    INPUT = "input"
    RANDOM = "random"


class Local(StrEnum):
    """Which local form: the section's text, or the listing that the paper leaves out."""

    ROUNDS = "rounds"
    ONWARD = "onward"


class Aim(StrEnum):
    """What is best: by the paper's objective, or fewest complete sets before it."""

    PAPER = "paper"
    SAFE = "safe"


def solve(
    ctx: typer.Context,
    instance: InstanceFile,
    algorithm: Annotated[
        str, typer.Option(help="auto, or a solver: docs/reference/instances.md.")
    ] = "auto",
    mode: Annotated[
        Mode, typer.Option(help="paper: heuristics as the paper prints them.")
    ] = Mode.SAFE,
    order: Annotated[
        Order | None,
        typer.Option(help="greedyl, graspl: entries by sets, as given, or by chance."),
    ] = None,
    local: Annotated[
        Local | None,
        typer.Option(help="greedyl, graspl: t rounds, or onward and never back."),
    ] = None,
    objective: Annotated[
        Aim, typer.Option(help="safe: fewest complete sets, then the paper's.")
    ] = Aim.PAPER,
    pareto: Annotated[
        int | None,
        typer.Option(min=2, metavar="N", help="Utility at N levels of disclosure."),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(min=0.1, help="Seconds of search at most. Default: 60."),
    ] = None,
    work: Annotated[
        float | None,
        typer.Option(
            min=0.01, help="Stop by work, about seconds: the same on every machine."
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="The same seed gives the same plan.")
    ] = 0,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Default: all cores.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the JSON there.")
    ] = None,
    adversaries: Adversaries = None,
    copies: Copies = 1,
    friendships: Friendships = None,
) -> None:
    """Solve one instance of the paper's problem; the plan is judged before it is shown.

    JSON goes to stdout, or to the file of -o. The exit status is 0 with a plan, 7 where
    none exists (the core says why), 8 where that stayed open. Ctrl-C ends the search
    and shows the best plan so far.
    """
    started = time.perf_counter()
    context: CliContext = ctx.obj
    if output is not None:
        context.spare(output, instance, *filter(None, [friendships]))
        check_place(output)
    _check(algorithm, objective, pareto)
    with _interruptible() as stop:
        from dispatcher.strategies import reads_paper, solver_with

        document = read_document(instance, adversaries, copies, friendships)
        with own_stdout():
            limits: dict[str, Any] = {
                "seconds": _seconds(time_limit, work),
                "work": float("inf") if work is None else work,
                "clock": time.perf_counter,
                "stopped": stop.is_set,
                "threads": threads or os.cpu_count() or 1,
                "paper": mode is Mode.PAPER and reads_paper(algorithm),
            }
            choices = {"--order": ("order", order), "--local": ("local", local)}
            solver = solver_with(algorithm, choices)
            found = _read(document, solver, algorithm, str(instance))
            search = _Search(found, solver, seed, limits, time.perf_counter())
            with functions_named(str(instance)):
                told = search.told(objective, pareto, algorithm)
        told["mode"] = str(Mode.PAPER if limits["paper"] else Mode.SAFE)
        told["seed"] = seed
        told["seconds"] = round(time.perf_counter() - started, 3)
        _tell(context, told, output)
        if told["mode"] != mode:
            context.say(f"mode safe: {algorithm} has no other")
    status = _status(told)
    if status:
        leave(status)


def _tell(context: CliContext, told: dict[str, Any], output: Path | None) -> None:
    """Print the document, or put it in its file; where that fails, print it after all.

    Raises
    ------
    Invalid
        The file cannot be written, and the document was printed.
    """
    text = json.dumps(told, ensure_ascii=False)
    try:
        if output is None:
            print(text, flush=True)
        else:
            write_whole(output, text + "\n")
    except OSError as error:
        if output is None:
            raise
        print(text, flush=True)
        raise Invalid(
            f"{output} cannot be written: {error.strerror}",
            why="so the answer was printed to stdout; the file is as it was",
            fix="keep what was printed, or make room and repeat the command",
        ) from error
    if not context.json:
        context.say(lay_out(told))


def _seconds(time_limit: float | None, work: float | None) -> float:
    """Seconds of search: no clock cuts a run that is limited by work alone."""
    if time_limit is None:
        return 60.0 if work is None else float("inf")
    return time_limit


def _status(told: dict[str, Any]) -> int:
    if told["assignment"] is not None:
        return 0
    return EXIT_INFEASIBLE if told["verdict"] == "INFEASIBLE" else EXIT_UNFINISHED


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """Let the first Ctrl-C (or SIGTERM) end the search, and the second the program."""
    stop = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        del number, frame
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {
        number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        for number in before:
            signal.signal(number, note)
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check(algorithm: str, objective: Aim, pareto: int | None) -> None:
    """Raise where options contradict each other."""
    if objective is Aim.SAFE and algorithm != "auto":
        raise Usage(
            f"--objective safe does not go with --algorithm {algorithm}",
            why="auto alone proves how few sets can be complete; heuristics count "
            "complete sets first in --mode safe anyway",
            fix="leave one of both out",
        )
    if objective is Aim.SAFE and pareto is not None:
        raise Usage(
            "--objective safe does not go with --pareto",
            why="a front holds disclosure at levels and maximises utility alone",
            fix="leave one of both out",
        )


def _read(document: object, solver: Solver, algorithm: str, where: str) -> Instance:
    """Read the instance, and see that the solver takes it."""
    from dispatcher.strategies import solvers_for

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
class _Search:
    """One search in what is left of the time."""

    found: Instance
    solver: Solver
    seed: int
    limits: dict[str, Any]
    since: float

    def within(self, share: float = 1.0, work: float = 1.0) -> Limits:
        """Limits of shares of the time that is left since the instance was read."""
        from policies.solvers import Limits

        return Limits(**self.limits).left(self.since, share, LEAST).part(work)

    def solve(self, problem: Problem, limits: Limits) -> Solution:
        import numpy as np

        return self.solver(problem, np.random.default_rng(self.seed), limits)

    def told(
        self, objective: Aim, pareto: int | None, algorithm: str
    ) -> dict[str, Any]:
        """Solve as asked; return the document without its time."""
        if pareto is not None:
            return self._front(pareto, algorithm)
        least = None
        if objective is Aim.SAFE:
            solution, least = self._fewest()
        else:
            solution = self.solve(self.found.problem, self.within())
        told = report(self.found, solution, algorithm)
        if least is not None:
            told["complete_sets_bound"] = least
        return told | withheld(self.found, solution, self.seed, self.within())

    def _fewest(self) -> tuple[Solution, int]:
        """Count complete sets first."""
        import numpy as np

        from policies.solvers.exact.lexicographic import countable, fewest

        problem, rng = self.found.problem, np.random.default_rng(self.seed)
        if not countable(problem):
            raise Usage(
                "--objective safe does not take this problem",
                why="complete sets are counted by CP-SAT: of sets, not of relations, "
                "with a utility that is a sum, and up to 200,000 pairs",
                fix="leave it out, or name a heuristic that counts complete sets first: "
                "--algorithm graspl",
            )
        made = fewest(problem, rng, self.within(), self.solve)
        return made.solution, made.least

    def _front(self, count: int, algorithm: str) -> dict[str, Any]:
        """Utility at levels of disclosure."""
        from policies.solvers.exact.epsilon_constraint import front, held_at

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
