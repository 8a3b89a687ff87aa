"""Several solvers on one problem: in sequence, or in parallel until one is sure."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from policies.model.problem import Problem
from policies.solvers.interfaces import Limits, Solution, Solver, Verdict
from policies.solvers.scaling import reached

Task = Callable[[Limits, Callable[[], bool]], Solution]
"""Solve within limits, until the second argument says that the result is unwanted."""

_POLL: Final = 0.05  # seconds between two looks at the tasks
_ALL: Final = 0.9  # share of the time after which a task was ended by the clock
_WORK: Final = 1e4  # work of heuristics under a clock: finite, as they count it


def few(work: float) -> float:
    """Return the work of a heuristic: finite even where there is no limit."""
    return min(work, _WORK)


def late(limits: Limits, began: float) -> bool:
    """Whether time has ended for a task that began then."""
    return limits.clock() - began >= limits.seconds * _ALL


def running(solver: Solver, problem: Problem, rng: np.random.Generator) -> Task:
    """Return a heuristic as a task that ends when another one is sure."""

    def run(limits: Limits, done: Callable[[], bool]) -> Solution:
        asked = limits.stopped
        ends = replace(
            limits,
            stopped=lambda: asked() or done(),
            work=few(limits.work),
        )
        return solver(problem, rng, ends)

    return run


def sure(solution: Solution) -> bool:
    """Whether a solution is final."""
    if solution.verdict is Verdict.INFEASIBLE:
        return True
    return solution.verdict is Verdict.SOLVED and solution.stopped == "optimal"


def race(tasks: Sequence[Task], limits: Limits) -> list[Solution]:
    """Run all tasks until one is sure.

    Under a clock they run in parallel, on one core too: engines release the lock. Else
    they run in sequence, so that the same work gives the same answer.
    """
    if limits.seconds != float("inf") and len(tasks) > 1:
        return _at_once(tasks, limits)
    return _in_turn(tasks, limits)


def _in_turn(tasks: Sequence[Task], limits: Limits) -> list[Solution]:
    """Run tasks in order, each but the last with a third of the remaining time."""
    found: list[Solution] = []
    start = limits.clock()
    for number, task in enumerate(tasks):
        last = number == len(tasks) - 1
        left = max(limits.seconds - (limits.clock() - start), 0.01)
        share = 1.0 if last else 1 / 3
        part = replace(
            limits, seconds=left * share, work=max(limits.work * share, 0.01)
        )
        found.append(task(part, lambda: False))
        if sure(found[-1]) or limits.stopped():
            break
    return found


def _at_once(tasks: Sequence[Task], limits: Limits) -> list[Solution]:
    """Run each task in a thread; all are stopped once one is sure."""
    found: list[Solution | None] = [None] * len(tasks)
    faults: list[Exception] = []
    finished = threading.Event()
    each = replace(limits, threads=max(1, limits.threads // len(tasks)))

    def work(number: int) -> None:
        try:
            answer = tasks[number](each, finished.is_set)
        except Exception as error:  # noqa: BLE001 - raised again by the caller's thread
            faults.append(error)
            finished.set()
            return
        found[number] = answer
        if sure(answer):
            finished.set()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():  # short waits, so that a stop is noticed
            thread.join(_POLL)
    if faults:
        raise faults[0]
    return [answer for answer in found if answer is not None]


def merged(found: Sequence[Solution], why: str) -> Solution:
    """Combine several solutions: the best plan, the lowest bound.

    Plans were judged: if there is one, no claim of infeasibility can be right.

    Parameters
    ----------
    found : sequence of Solution
        Not empty.
    why : str
        Why the search ended, if before an optimum was proven.
    """
    plans = [one for one in found if one.verdict is Verdict.SOLVED]
    refuted = [one for one in found if one.verdict is Verdict.INFEASIBLE]
    if refuted and not plans:
        return refuted[0]
    found = [one for one in found if one.verdict is not Verdict.INFEASIBLE]
    bound = min(one.bound for one in found)
    tried = tuple(dict.fromkeys(text for one in found for text in one.tried))
    if not plans:
        return Solution(Verdict.UNKNOWN, bound=bound, tried=tried, stopped=why)
    best = max(plans, key=lambda one: one.value)
    proven = [one for one in plans if sure(one)]
    if proven:  # other tasks with an equal plan do not change the answer
        best = max(proven, key=lambda one: one.value)
    bound = max(bound, best.value)
    ended = bool(proven) or reached(best.value, bound)
    stopped = "optimal" if ended else why
    return replace(best, bound=bound, tried=tried, stopped=stopped)
