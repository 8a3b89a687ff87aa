"""Exact search with CP-SAT: feasibility first, then utility.

One 0-1 variable a pair; one row a set and adversary; identical adversaries are told
apart by order only where they are in fact identical. Answers hold for sure: "no" is a
proof, and a bound has the solver's rounding taken into account because all numbers are
integers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from policies.judging.judge import judge
from policies.model.objective import Objective
from policies.model.problem import Pairs, Plan, Problem
from policies.solvers.exact.cpsat_model import CpModel, build
from policies.solvers.interfaces import (
    Cause,
    Clash,
    Core,
    Limits,
    Solution,
    Verdict,
    never,
)
from policies.solvers.parallel_portfolio import late

_LARGEST = 200_000  # variables above which no model is built: it takes seconds
_POLL = 0.05  # seconds between two looks at the stop flag


class CpSat:
    """Exact for problems whose model stays small."""

    def supports(self, problem: Problem) -> bool:
        """Disc-budget problems of at most 200,000 pairs, without links that count.

        Where sums are limited, of at most so many members of sets, by hands, too.
        """
        hands = problem.n_adversaries + len(problem.groups)
        links = problem.links
        if problem.utilities is not None:
            return False
        if links is not None and links.limited:
            return False
        members = len(problem.sets.entry) if problem.averages else 0
        small = max(problem.n_entries, members) * hands <= _LARGEST
        return problem.goal.objective is Objective.DISC_BUDGET and small

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Find the best plan, or prove that there is none."""
        return exactly(problem, rng, limits)


def search(
    problem: Problem,
    rng: np.random.Generator,
    limits: Limits,
    *,
    utility: bool = True,
    hint: Pairs | None = None,
    done: Callable[[], bool] | None = None,
    sums: bool = False,
) -> Solution:
    """Solve exactly.

    Parameters
    ----------
    problem : Problem
    rng, limits
    utility : bool
        Whether to maximise; else the first feasible plan will do.
    hint : Pairs, optional
        A plan to start from.
    done : callable, optional
        True once the answer is not wanted any more.
    sums : bool
        Whether caps on means and aggregates count, of the whole problem.
    """
    if done is not None:
        asked = limits.stopped
        limits = replace(limits, stopped=lambda: asked() or done())
    began = limits.clock()
    best = problem.weights.best(problem.hi)
    bound = best * problem.weights.unit
    over = limits.deadline()
    built = build(problem, sums=sums, over=over)
    if built is None:
        return refuted(problem, "an entry has fewer possible adversaries than answers")
    if over():  # what was left out of the model would make its plan a waste
        return Solution(Verdict.UNKNOWN, bound=bound, tried=("CP-SAT had no time",))
    plan = None
    if hint is not None and judge(problem, Plan(hint.entry, hint.adversary)).feasible:
        plan, state = Plan(hint.entry, hint.adversary), "found"  # nothing to look for
    else:
        if hint is not None:
            _start_from(built, hint)
        plan, state, _ = _run(built, rng, limits.left(began))
    if state == "infeasible":
        return refuted(problem, "all assignments were searched")
    if plan is None:
        return Solution(Verdict.UNKNOWN, bound=bound, tried=("CP-SAT ran out of work",))
    if utility and best:
        left = limits.left(began)
        plan, bound = maximise(problem, built, plan, rng, left)
    judged = judge(problem, plan)
    if not judged.feasible:  # a bug in the model, never a leak
        told = f"CP-SAT's plan was refused: {judged.violations[0]}"
        return Solution(Verdict.UNKNOWN, bound=bound, tried=(told,))
    return Solution(
        Verdict.SOLVED, plan, value=judged.objective, bound=bound, judged=judged
    )


def exactly(
    problem: Problem,
    rng: np.random.Generator,
    limits: Limits,
    start: Pairs | None = None,
    done: Callable[[], bool] | None = None,
) -> Solution:
    """CP-SAT, and whether it proved its plan."""
    began = limits.clock()
    found = search(problem, rng, limits, hint=start, done=done, sums=True)
    proven = found.verdict is Verdict.SOLVED and found.value == found.bound
    if proven:
        return replace(found, stopped="optimal")
    return replace(found, stopped="time") if late(limits, began) else found


def refuted(problem: Problem, why: str) -> Solution:
    """INFEASIBLE, with the whole problem as its core."""
    sets = problem.sets
    reason = Clash(
        Cause.SEARCH,
        sets=tuple(range(sets.n_sets)),
        properties=tuple(int(p) for p in np.unique(sets.owner)),
        entries=tuple(int(d) for d in np.flatnonzero(problem.lo)),
        answers=int(problem.lo.sum()),
    )
    core = Core(
        entries=tuple(range(problem.n_entries)),
        clashes=(reason,),
        needed=None,
        exact=False,
        available=problem.n_adversaries,
    )
    held = np.arange(problem.n_entries)
    return Solution(Verdict.INFEASIBLE, held=held, cores=(core,), tried=(why,))


def maximise(
    problem: Problem,
    built: CpModel,
    plan: Plan,
    rng: np.random.Generator,
    limits: Limits,
) -> tuple[Plan, Any]:
    """Second phase: from a feasible plan to the best; and the proven bound."""
    weights = problem.weights
    grid = np.array(built.pairs, dtype=np.int64).reshape(-1, 2)
    worth = weights.of(grid[:, 0], grid[:, 1])
    common = int(np.gcd.reduce(worth)) or 1
    terms = (worth // common).tolist()
    built.model.maximize(
        sum(w * v for w, v in zip(terms, built.variables, strict=True))
    )
    _start_from(built, plan)
    better, _, top = _run(built, rng, limits)
    ceiling = weights.best(problem.hi)
    if top != float("inf"):
        ceiling = min(ceiling, int(top) * common)
    return (better if better is not None else plan), ceiling * weights.unit


def _start_from(built: CpModel, plan: Pairs) -> None:
    """Hint the plan."""
    built.model.clear_hints()
    given = set(zip(plan.entry.tolist(), plan.adversary.tolist(), strict=True))
    for pair, variable in zip(built.pairs, built.variables, strict=True):
        built.model.add_hint(variable, int(pair in given))


def _run(
    built: CpModel, rng: np.random.Generator, limits: Limits
) -> tuple[Plan | None, str, float]:
    """Run CP-SAT: the plan, how it ended, and the objective's bound."""
    return run_model(built, rng, limits)[:3]


def run_model(
    built: CpModel, rng: np.random.Generator, limits: Limits
) -> tuple[Plan | None, str, float, tuple[int, ...]]:
    """Run CP-SAT: the plan, how it ended, the objective's bound, what is withheld."""
    from ortools.sat.python import cp_model

    solver = _solver(cp_model, rng, limits)
    if built.ruled:  # a relaxation says little, and costs most of the time
        solver.parameters.linearization_level = 0
    status = _wait(solver, built.model, limits)
    if status == cp_model.INFEASIBLE:
        return None, "infeasible", 0.0, ()
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, "unknown", float("inf"), ()  # its bound may be 0: not yet begun
    chosen = [
        pair
        for pair, variable in zip(built.pairs, built.variables, strict=True)
        if solver.boolean_value(variable)
    ]
    marks = (d for d, mark in built.withheld.items() if solver.boolean_value(mark))
    return Plan.of(chosen), "found", _ceiling(solver), tuple(marks)


def _solver(cp_model: Any, rng: np.random.Generator, limits: Limits) -> Any:  # noqa: ANN401
    """Return the engine within these limits."""
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.random_seed = int(rng.integers(2**31 - 1))
    timed = limits.seconds != float("inf")
    parameters.num_workers = limits.threads if timed else 1  # work alone: one plan
    parameters.linearization_level = 2
    parameters.catch_sigint_signal = False
    parameters.max_deterministic_time = limits.work
    if timed:
        parameters.max_time_in_seconds = max(limits.seconds, 0.01) * limits.wall_factor
    return solver


def _wait(solver: Any, model: Any, limits: Limits) -> Any:  # noqa: ANN401
    """Run in a thread, so that a stop that is asked for is seen."""
    if limits.stopped is never and limits.seconds == float("inf"):
        return solver.solve(model)
    over = limits.deadline()
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(solver.solve(model)))
    thread.start()
    while thread.is_alive():
        thread.join(_POLL)
        if over():
            solver.stop_search()
    return found[0]


def clashing(
    problem: Problem, rng: np.random.Generator, limits: Limits
) -> list[int] | None:
    """Sets that leave no plan together, often few of them; None where undecided."""
    from ortools.sat.python import cp_model

    over = limits.deadline()
    built = build(problem, guarded=True, over=over)
    if built is None:
        return []
    if over():
        return None
    built.model.add_assumptions(built.guards)
    solver = _solver(cp_model, rng, replace(limits, threads=1))
    if _wait(solver, built.model, limits) != cp_model.INFEASIBLE:
        return None
    place = {guard.index: one for one, guard in enumerate(built.guards)}
    core = solver.sufficient_assumptions_for_infeasibility()
    return sorted(place[index] for index in core)


def _ceiling(solver: Any) -> float:  # noqa: ANN401
    """Return the best bound, or infinity before there is one."""
    bound = float(solver.best_objective_bound)
    return float(np.floor(bound + 1e-6)) if np.isfinite(bound) else float("inf")
