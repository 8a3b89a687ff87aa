"""Several solvers on one problem: one after another, or at once until one is sure."""

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
"""Solve within limits, until the second argument says that nobody wants the answer."""

_POLL: Final = 0.05
_ALL: Final = 0.9  # of the time: who used so much ended by the clock
_WORK: Final = 1e4  # for heuristics under a clock: they count, so it is a number


def few(work: float) -> float:
    """Return the work of a heuristic: a number, even where there is no limit."""
    return min(work, _WORK)


def late(limits: Limits, began: float) -> bool:
    """Whether the time is over, for who began then."""
    return limits.clock() - began >= limits.seconds * _ALL


def running(solver: Solver, problem: Problem, rng: np.random.Generator) -> Task:
    """A heuristic as a task that ends when another one is sure."""

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
    """Whether nothing is left to find out."""
    if solution.verdict is Verdict.INFEASIBLE:
        return True
    return solution.verdict is Verdict.SOLVED and solution.stopped == "optimal"


def race(tasks: Sequence[Task], limits: Limits) -> list[Solution]:
    """Run all tasks until one is sure.

    Under a clock they run at once, on one core too: engines do not hold it for
    themselves. Else one after another, so that the same work gives the same answer.
    """
    if limits.seconds != float("inf") and len(tasks) > 1:
        return _at_once(tasks, limits)
    return _in_turn(tasks, limits)


def _in_turn(tasks: Sequence[Task], limits: Limits) -> list[Solution]:
    """First the ones that come first, with a third of what is left for each but one."""
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
    """One thread each; all are asked to end once one is sure."""
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
        while thread.is_alive():  # short waits: a stop that is asked for is seen
            thread.join(_POLL)
    if faults:
        raise faults[0]
    return [answer for answer in found if answer is not None]


def merged(found: Sequence[Solution], why: str) -> Solution:
    """Make one answer of several: the best plan, the lowest bound.

    A plan was judged: beside one, no proof that there is none can be right.

    Parameters
    ----------
    found : sequence of Solution
        Not empty.
    why : str
        Why the search ended, if it did before an optimum was proven.
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
    if proven:  # whoever else found a plan as good does not change the answer
        best = max(proven, key=lambda one: one.value)
    bound = max(bound, best.value)
    ended = bool(proven) or reached(best.value, bound)
    stopped = "optimal" if ended else why
    return replace(best, bound=bound, tried=tried, stopped=stopped)
