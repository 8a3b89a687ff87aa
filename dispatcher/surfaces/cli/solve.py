"""``dispatcher solve``: one instance file in, one judged plan out; no store needed."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from dispatcher.errors import (
    EXIT_INFEASIBLE,
    EXIT_UNFINISHED,
    Invalid,
    Usage,
)
from dispatcher.surfaces.cli.context import CliContext, leave
from dispatcher.surfaces.cli.instance_files import invalid, read_document
from dispatcher.surfaces.cli.plan_files import check_place, write_whole

if TYPE_CHECKING:
    from policies.instance import Instance
    from policies.solvers import Solution

SPARE: Final = 0.3
"""Seconds of the time limit that are kept for judging and writing."""
LEAST: Final = 0.1
"""Seconds of search at least, however long reading took."""


class Mode(StrEnum):
    """How heuristics work."""

    SAFE = "safe"
    PAPER = "paper"


def solve(
    ctx: typer.Context,
    instance: Annotated[
        Path,
        typer.Argument(
            help="sparsi-instance/1 JSON, DIMACS .col, hMETIS .hgr, or CSV of check-ins."
        ),
    ],
    algorithm: Annotated[str, typer.Option(help="A solver's name.")] = "auto",
    mode: Annotated[
        Mode, typer.Option(help="paper: heuristics as the paper prints them.")
    ] = Mode.SAFE,
    time_limit: Annotated[
        float | None,
        typer.Option(min=0.1, help="Seconds at most, reading included. Default: 60."),
    ] = None,
    work: Annotated[
        float | None,
        typer.Option(
            min=0.01, help="Stop by work done instead: the same on every machine."
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
    adversaries: Annotated[
        int | None, typer.Option(min=1, help="For .col, .hgr and .csv: how many.")
    ] = None,
    copies: Annotated[
        int, typer.Option(min=1, help="For .col, .hgr and .csv: t of each entry.")
    ] = 1,
    friendships: Annotated[
        Path | None, typer.Option(help="For .csv: pairs of users, with a header.")
    ] = None,
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
    with _interruptible() as stop:
        document = read_document(instance, adversaries, copies, friendships)
        with _own_stdout():
            limits: dict[str, Any] = {
                "seconds": _seconds(time_limit, work),
                "work": float("inf") if work is None else work,
                "clock": time.perf_counter,
                "stopped": stop.is_set,
                "threads": threads or os.cpu_count() or 1,
                "prove": True,
                "paper": mode is Mode.PAPER,
            }
            found, solution = _search(
                document, algorithm, seed, limits, where=str(instance), since=started
            )
            withheld = _withheld(found, solution, seed, limits)
        seconds = time.perf_counter() - started
        told = report(found, solution, algorithm, seconds) | withheld
        _tell(context, told, output)
    status = _status(told)
    if status:
        leave(status)


def _tell(context: CliContext, told: dict[str, Any], output: Path | None) -> None:
    """Print the document, or put it in its file; where that fails, print it after all.

    Raises
    ------
    Invalid
        The file can not be written, and the document was printed.
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
            f"{output} can not be written: {error.strerror}",
            why="so the answer was printed to stdout; the file is as it was",
            fix="keep what was printed, or make room and repeat the command",
        ) from error
    if not context.json:
        context.say(lay_out(told))


def _seconds(time_limit: float | None, work: float | None) -> float:
    """Seconds of search: no clock cuts a run that is limited by work alone."""
    if time_limit is None:
        return 60.0 if work is None else float("inf")
    return max(time_limit - SPARE, LEAST)


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


@contextmanager
def _own_stdout() -> Iterator[None]:
    """Keep what a solver's C++ prints off our stdout: it goes to stderr."""
    sys.stdout.flush()
    try:
        kept = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # one of them is closed: then nothing can be printed either
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).fflush(None)
        os.dup2(kept, 1)
        os.close(kept)


def _search(
    document: object,
    algorithm: str,
    seed: int,
    limits: dict[str, Any],
    *,
    where: str,
    since: float,
) -> tuple[Instance, Solution]:
    """Read the instance and solve it in what is left of the time ``since`` then."""
    import numpy as np

    from dispatcher.strategies import find_solver, load_utility
    from policies.functions import InvalidFunction
    from policies.instance import read_instance
    from policies.instance_fields import InvalidInstance
    from policies.solvers import Limits

    solver = find_solver(algorithm)
    try:
        found = read_instance(document, load_utility)
    except InvalidInstance as error:
        raise invalid(where, error) from None
    if not solver.supports(found.problem):
        raise Usage(
            f"{algorithm} does not solve this kind of problem",
            why=f"{found.asked} over {found.kind} is outside what it can do",
            fix="leave --algorithm out: auto picks by structure",
        )
    rng = np.random.default_rng(seed)
    spent = time.perf_counter() - since
    limits["seconds"] = max(limits["seconds"] - spent, LEAST)
    try:
        return found, solver(found.problem, rng, Limits(**limits))
    except InvalidFunction as error:
        raise Invalid(
            f"{where}: its utility failed while it was planned by",
            why=str(error),
            fix="tell the author of the function, or name another utility",
        ) from None


def _withheld(
    found: Instance, solution: Solution, seed: int, limits: dict[str, Any]
) -> dict[str, Any]:
    """Say what to withhold, if there is no plan and the file says what that costs."""
    import numpy as np

    from policies.instance import rows_of
    from policies.solvers import Limits, Verdict
    from policies.solvers.withholding import cheapest

    problem = found.problem
    if solution.verdict is not Verdict.INFEASIBLE or problem.prices is None:
        return {}
    least = cheapest(problem, np.random.default_rng(seed), Limits(**limits))
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


def report(
    found: Instance, solution: Solution, algorithm: str, seconds: float
) -> dict[str, Any]:
    """Return the document: floats for reading, the verdict from exact numbers."""
    from policies.instance import rows_of
    from policies.solvers import Verdict
    from policies.solvers.words import certificate, sentences

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
    average = problem.goal.average
    return {
        "schema": "dispatcher.solution/1",
        "verdict": str(solution.verdict),
        "algorithm": algorithm,
        "objective": value,
        "utility": float(judged.u) if judged else None,
        "disclosure": float(judged.f_average if average else judged.f)
        if judged
        else None,
        "complete_sets": judged.disclosed if judged else None,
        "bound": bound,
        "gap": bound - value if value is not None and bound is not None else None,
        "seconds": round(seconds, 3),
        "stopped": solution.stopped or ("optimal" if solved or core else "work"),
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


def lay_out(told: dict[str, Any]) -> str:
    """Lay the answer out for people."""
    if told["assignment"] is not None:
        return (
            f"{told['verdict']}: objective {told['objective']:.9g}, at most "
            f"{told['bound']:.9g} ({told['stopped']}, {told['seconds']:.1f} s)\n"
            f"  utility {told['utility']:.9g}   disclosure {told['disclosure']:.9g}   "
            f"complete sets {told['complete_sets']}"
        )
    lines = [f"{told['verdict']} ({told['stopped']}, {told['seconds']:.1f} s)"]
    if told["core"]:
        lines += [f"  {why}" for why in told["core"]["why"]]
    else:
        lines += [f"  tried: {what}" for what in told["tried"]]
    lines += [f"  certified: {proof['why']}" for proof in told["certified"]]
    if told.get("withheld"):
        least = told["withheld"]
        named = ", ".join(map(str, least["entries"][:12]))
        lines.append(
            f"  withhold {len(least['entries'])} entries at a price of {least['price']} "
            f"(at least {least['bound']}): {named}"
        )
    return "\n".join(lines)
