"""``dispatcher solve`` and ``judge``: the paper's problem from files; no store needed."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from dispatcher.core.errors import (
    EXIT_FAILED,
    EXIT_INFEASIBLE,
    EXIT_UNFINISHED,
    Invalid,
)
from dispatcher.surfaces.cli.context import CliContext, Output, Seed, TimeLimit, leave

File = Annotated[
    Path,
    typer.Argument(
        help="sparsi-instance/1 JSON, DIMACS .col, hMETIS .hgr, or CSV of check-ins."
    ),
]
Adversaries = Annotated[
    int | None, typer.Option(min=1, help="For .col, .hgr and .csv: how many.")
]
Copies = Annotated[
    int, typer.Option(min=1, help="For .col, .hgr and .csv: t of each entry.")
]
Friendships = Annotated[
    Path | None, typer.Option(help="For .csv: pairs of users, with a header.")
]


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
    instance: File,
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
    time_limit: TimeLimit = None,
    work: Annotated[
        float | None,
        typer.Option(
            min=0.01, help="Stop by work, about seconds: the same on every machine."
        ),
    ] = None,
    seed: Seed = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Default: all cores.")
    ] = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="Show which rows of auto ran, and how long.")
    ] = False,
    output: Output = None,
    adversaries: Adversaries = None,
    copies: Copies = 1,
    friendships: Friendships = None,
) -> None:
    """Solve one instance of the paper's problem; the plan is judged before it is shown.

    JSON goes to stdout, or to the file of -o. The exit status is 0 with a plan, 7 where
    none exists (the core says why), 8 where that stayed open. Ctrl-C ends the search
    and shows the best plan so far.
    """
    context: CliContext = ctx.obj
    with _interruptible() as stop:
        from dispatcher.operations import instances

        if output is not None:
            context.spare(output, instance, *filter(None, [friendships]))
            instances.check_place(output)
        search = instances.Search(
            algorithm=algorithm,
            paper=mode is Mode.PAPER,
            choices={"--order": ("order", order), "--local": ("local", local)},
            safe=objective is Aim.SAFE,
            levels=pareto,
            seconds=_seconds(time_limit, work),
            work=float("inf") if work is None else work,
            threads=threads or os.cpu_count() or 1,
            seed=seed or 0,
            trace=trace,
        )
        file = instances.InstanceFile(instance, adversaries, copies, friendships)
        with _own_stdout():
            answer = instances.solve(
                file, search, clock=time.perf_counter, stopped=stop.is_set
            )
        _show(context, answer, output)
        if answer["mode"] != mode:
            context.say(f"mode safe: {algorithm} has no other")
    status = _status(answer)
    if status:
        leave(status)


def judge(
    ctx: typer.Context,
    instance: File,
    plan: Annotated[
        Path,
        typer.Argument(
            help="Output of solve -o, or a JSON list of adversaries for each entry."
        ),
    ],
    adversaries: Adversaries = None,
    copies: Copies = 1,
    friendships: Friendships = None,
) -> None:
    """Judge a finished plan of an instance: what it is worth, and all that it breaks.

    JSON goes to stdout. The exit status is 0 where every limit is kept, 1 where one is
    not (violations say which), 5 for a file that is no instance, or no plan of it.
    """
    from dispatcher.operations import instances

    context: CliContext = ctx.obj
    file = instances.InstanceFile(instance, adversaries, copies, friendships)
    with _own_stdout():
        judged = instances.judge(file, plan)
    print(json.dumps(judged, ensure_ascii=False), flush=True)
    if not context.json:
        context.say(_judgement(judged))
    if not judged["feasible"]:
        leave(EXIT_FAILED)


def _show(context: CliContext, answer: dict[str, Any], output: Path | None) -> None:
    """Print the document, or put it in its file; where that fails, print it after all.

    Raises
    ------
    Invalid
        The file cannot be written, and the document was printed.
    """
    from dispatcher.operations.instances import write_whole

    text = json.dumps(answer, ensure_ascii=False)
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
        context.say("\n".join([lay_out(answer), *_rows(answer.get("rows", ()))]))


def _rows(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """One line for each row of auto and its outcome."""
    for one in rows:
        times = f" ({one['runs']} times)" if one["runs"] > 1 else ""
        yield f"  {one['row']:18} {one['seconds']:8.3f} s  {one['outcome']}{times}"


def _seconds(time_limit: float | None, work: float | None) -> float:
    """Seconds of search: no clock cuts a run that is limited by work alone."""
    if time_limit is None:
        return 60.0 if work is None else float("inf")
    return time_limit


def _status(answer: dict[str, Any]) -> int:
    if answer["assignment"] is not None:
        return 0
    return EXIT_INFEASIBLE if answer["verdict"] == "INFEASIBLE" else EXIT_UNFINISHED


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
    """Keep what engines and packages print off our stdout: it goes to stderr."""
    sys.stdout.flush()
    try:
        kept = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # one of them is closed: then nothing can be printed either
        yield
        return
    try:
        yield
    finally:  # what is still in a buffer was printed here too: Python's, then C's
        with suppress(OSError):
            sys.stdout.flush()
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).fflush(None)
        os.dup2(kept, 1)
        os.close(kept)


def lay_out(answer: dict[str, Any]) -> str:
    """Lay the answer out for people."""
    least = answer.get("complete_sets_bound")
    if answer.get("front") and answer["assignment"] is not None:
        lines = [
            f"{answer['verdict']}: {len(answer['front'])} levels ({answer['seconds']:.1f} s)"
        ]
        lines += [_level(one) for one in answer["front"]]
        return "\n".join(lines)
    if answer["assignment"] is not None:
        return (
            f"{answer['verdict']}: objective {answer['objective']:.9g}, at most "
            f"{answer['bound']:.9g} ({answer['stopped']}, {answer['seconds']:.1f} s)\n"
            f"  utility {answer['utility']:.9g}   disclosure {answer['disclosure']:.9g}   "
            f"complete sets {answer['complete_sets']}"
            + (f" (at least {least})" if least is not None else "")
        )
    lines = [f"{answer['verdict']} ({answer['stopped']}, {answer['seconds']:.1f} s)"]
    if answer["core"]:
        lines += [f"  {why}" for why in answer["core"]["why"]]
    else:
        lines += [f"  tried: {what}" for what in answer["tried"]]
    lines += [f"  certified: {proof['why']}" for proof in answer["certified"]]
    if answer.get("withheld"):
        choice = answer["withheld"]
        many = len(choice["entries"])
        named = ", ".join(map(str, choice["entries"][:12])) + ", ..." * (many > 12)
        lines.append(
            f"  withhold {many} {'entry' if many == 1 else 'entries'} ({named}) at a price "
            f"of {choice['price']}; no choice costs less than {choice['bound']}"
        )
    return "\n".join(lines)


def _level(one: dict[str, Any]) -> str:
    """One line of a front."""
    within = "any" if one["level"] is None else f"{one['level']:.6g}"
    if one["assignment"] is None:
        return f"  disclosure at most {within}: {one['verdict']}"
    return (
        f"  disclosure {one['disclosure']:.6g} (at most {within}): utility "
        f"{one['utility']:.9g} of at most {one['bound']:.9g}, complete sets "
        f"{one['complete_sets']}"
    )


def _judgement(judged: dict[str, Any]) -> str:
    """Lay the judgement out for people."""
    kept = "every limit is kept" if judged["feasible"] else "not every limit is kept"
    lines = [
        f"{kept}: objective {judged['objective']:.9g}",
        f"  utility {judged['utility']:.9g}   disclosure {judged['disclosure']:.9g}   "
        f"complete sets {judged['complete_sets']}",
    ]
    lines += [f"  {what}" for what in (*judged["violations"], *judged["notes"])]
    return "\n".join(lines)
