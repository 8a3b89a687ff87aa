"""Exact search with CP-SAT: feasibility first, then utility.

One 0-1 variable a pair; one row a set and adversary; identical adversaries are told
apart by order only where they are in fact identical. Answers hold for sure: "no" is a
proof, and a bound has the solver's rounding taken into account because all numbers are
integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from policies.disclosure import alone
from policies.document.policy import Objective
from policies.judge import judge
from policies.problem import Pairs, Plan, Problem
from policies.sets import NO_CAP, Bools
from policies.solvers.role import Cause, Clash, Core, Limits, Solution, Verdict

_LARGEST = 200_000  # variables above which no model is built


class CpSat:
    """Exact for problems whose model stays small."""

    def supports(self, problem: Problem) -> bool:
        """Disc-budget problems of at most 200,000 pairs, without links that count."""
        hands = problem.n_adversaries + len(problem.groups)
        links = problem.links
        if links is not None and (links.tau or links.mean_tau) is not None:
            return False
        small = problem.n_entries * hands <= _LARGEST
        return problem.goal.objective is Objective.DISC_BUDGET and small

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Find the best plan, or prove that there is none."""
        return search(problem, rng, limits)


@dataclass(frozen=True, eq=False)
class _Model:
    """The model and its pair variables."""

    model: Any
    pairs: list[tuple[int, int]]
    variables: list[Any]


def search(
    problem: Problem,
    rng: np.random.Generator,
    limits: Limits,
    *,
    utility: bool = True,
    hint: Pairs | None = None,
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
    """
    best = problem.weights.best(problem.hi)
    bound = best * problem.weights.unit
    built = _build(problem)
    if built is None:
        return refuted(problem, "an entry has fewer possible adversaries than answers")
    if hint is not None:
        _start_from(built, hint)
    plan, state, _ = _run(built, rng, limits)
    if state == "infeasible":
        return refuted(problem, "all assignments were searched")
    if plan is None:
        return Solution(Verdict.UNKNOWN, bound=bound, tried=("CP-SAT ran out of work",))
    if utility and best:
        plan, bound = _maximise(problem, built, plan, rng, limits)
    judged = judge(problem, plan)
    if not judged.feasible:  # a bug in the model, never a leak
        told = f"CP-SAT's plan was refused: {judged.violations[0]}"
        return Solution(Verdict.UNKNOWN, bound=bound, tried=(told,))
    return Solution(
        Verdict.SOLVED, plan, value=judged.objective, bound=bound, judged=judged
    )


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


def _maximise(
    problem: Problem,
    built: _Model,
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


def _start_from(built: _Model, plan: Pairs) -> None:
    """Hint the plan."""
    built.model.clear_hints()
    given = set(zip(plan.entry.tolist(), plan.adversary.tolist(), strict=True))
    for pair, variable in zip(built.pairs, built.variables, strict=True):
        built.model.add_hint(variable, int(pair in given))


def _build(problem: Problem) -> _Model | None:
    """Make the model; None where an entry can not even be given its copies."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    able = _able(problem)
    grid: list[dict[int, Any]] = []
    pairs: list[tuple[int, int]] = []
    variables: list[Any] = []
    for d in range(problem.n_entries):
        row = {a: model.new_bool_var("") for a in np.flatnonzero(able[d]).tolist()}
        lo, hi = int(problem.lo[d]), int(problem.hi[d])
        if len(row) < lo:
            return None
        if row:
            model.add_linear_constraint(sum(row.values()), lo, hi)
        grid.append(row)
        pairs.extend((d, a) for a in row)
        variables.extend(row.values())
    if problem.capacity is not None:
        room = problem.room()
        for a in range(problem.n_adversaries):
            mine = [row[a] for row in grid if a in row]
            if len(mine) > int(room[a]):
                model.add(sum(mine) <= int(room[a]))
    _limit(problem, model, grid)
    _order(problem, model, grid)
    return _Model(model, pairs, variables)


def _able(problem: Problem) -> Bools:
    """Which pairs could be planned, shape (n, k), sets of one entry included."""
    sets = problem.sets
    able = np.repeat((problem.hi > 0)[:, None], problem.n_adversaries, axis=1)
    able[problem.forbidden.entry, problem.forbidden.adversary] = False
    one = sets.member_set
    for row in np.flatnonzero(alone(sets)).tolist():
        owner = int(sets.owner[one[row]])
        barred = np.ones(problem.n_adversaries, np.bool_)
        if problem.trusted is not None:
            barred = ~problem.trusted[owner]
        able[sets.entry[row], barred] = False
    return able


def _limit(problem: Problem, model: Any, grid: list[dict[int, Any]]) -> None:  # noqa: ANN401
    """One row a set and hand: load, history included, at most the cap."""
    sets = problem.sets
    hands = [(a,) for a in range(problem.n_adversaries)] + list(problem.groups)
    before: list[set[int]] = [set() for _ in hands]
    past = problem.held(problem.history)
    for d, hand in zip(past.entry.tolist(), past.adversary.tolist(), strict=True):
        before[hand].add(d)
    seen = _Seen(model, grid, hands)
    judged = problem.judged()
    for one in range(sets.n_sets):
        cap = int(sets.cap[one])
        if cap == NO_CAP:
            continue
        rows = slice(int(sets.start[one]), int(sets.start[one + 1]))
        members = list(
            zip(sets.entry[rows].tolist(), sets.amount[rows].tolist(), strict=True)
        )
        owner = int(sets.owner[one])
        for hand in range(len(hands)):
            if judged is not None and not judged[owner, hand]:
                continue
            held = [(d, w) for d, w in members if d in before[hand]]
            free = [(v, d, w) for d, w in members for v in seen(d, hand)]
            if problem.strict_history and _load(held, classed=sets.classes[one]) > cap:
                model.add_bool_or([])
            if sets.classes[one]:
                _classes(model, free, {w for _, w in held}, cap)
            else:
                fresh = [(v, w) for v, d, w in free if d not in before[hand]]
                _weighted(model, free, fresh, sum(w for _, w in held), cap)


def _load(held: list[tuple[int, int]], *, classed: bool) -> int:
    """Load of what is held already."""
    return len({w for _, w in held}) if classed else sum(w for _, w in held)


class _Seen:
    """Variables that say whether a hand is given an entry, made when asked for."""

    def __init__(
        self,
        model: Any,  # noqa: ANN401
        grid: list[dict[int, Any]],
        hands: list[tuple[int, ...]],
    ) -> None:
        self.model, self.grid, self.hands = model, grid, hands
        self.known: dict[tuple[int, int], list[Any]] = {}

    def __call__(self, entry: int, hand: int) -> list[Any]:
        """Return the variable in a list; an empty list where it is never given."""
        row, who = self.grid[entry], self.hands[hand]
        if (entry, hand) not in self.known:
            given = [row[a] for a in who if a in row]
            if len(given) > 1:
                union = self.model.new_bool_var("")
                self.model.add_max_equality(union, given)
                given = [union]
            self.known[entry, hand] = given
        return self.known[entry, hand]


def _weighted(
    model: Any,  # noqa: ANN401
    free: list[tuple[Any, int, int]],
    fresh: list[tuple[Any, int]],
    held: int,
    cap: int,
) -> None:
    """Sum of weights at most the cap; nothing may be added once history is past it."""
    if held > cap:
        for variable, _, _ in free:
            model.add(variable == 0)
    elif held + sum(w for _, w in fresh) > cap:
        model.add(sum(w * v for v, w in fresh) <= cap - held)


def _classes(
    model: Any,  # noqa: ANN401
    free: list[tuple[Any, int, int]],
    held: set[int],
    cap: int,
) -> None:
    """Classes touched at most the cap."""
    if len(held) > cap:
        for variable, _, _ in free:
            model.add(variable == 0)
        return
    by_class: dict[int, list[Any]] = {}
    for variable, _, number in free:
        if number not in held:
            by_class.setdefault(number, []).append(variable)
    if len(by_class) + len(held) <= cap:
        return
    touched = []
    for _, variables in sorted(by_class.items()):
        mark = variables[0]
        if len(variables) > 1:
            mark = model.new_bool_var("")
            model.add_max_equality(mark, variables)
        touched.append(mark)
    model.add(sum(touched) <= cap - len(held))


def _order(problem: Problem, model: Any, grid: list[dict[int, Any]]) -> None:  # noqa: ANN401
    """Give the most wanted entry to the first adversaries if all are identical."""
    alike = (
        problem.capacity is None
        and problem.trusted is None
        and not len(problem.history)
        and not len(problem.forbidden)
        and bool((problem.weights.factor == problem.weights.factor[:1]).all())
    )
    if not alike or not grid:
        return
    d = int(np.argmax(problem.lo))
    for a in range(int(problem.lo[d])):
        model.add(grid[d][a] == 1)


def _run(
    built: _Model, rng: np.random.Generator, limits: Limits
) -> tuple[Plan | None, str, float]:
    """Run CP-SAT: the plan, how it ended, and the objective's bound."""
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.random_seed = int(rng.integers(2**31 - 1))
    parameters.num_workers = limits.threads
    parameters.linearization_level = 2
    parameters.max_deterministic_time = limits.work
    if limits.seconds != float("inf"):
        parameters.max_time_in_seconds = limits.seconds
    status = solver.solve(built.model)
    if status == cp_model.INFEASIBLE:
        return None, "infeasible", 0.0
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, "unknown", _ceiling(solver)
    chosen = [
        pair
        for pair, variable in zip(built.pairs, built.variables, strict=True)
        if solver.boolean_value(variable)
    ]
    return Plan.of(chosen), "found", _ceiling(solver)


def _ceiling(solver: Any) -> float:  # noqa: ANN401
    """Return the best bound, or infinity before there is one."""
    bound = float(solver.best_objective_bound)
    return float(np.floor(bound + 1e-6)) if np.isfinite(bound) else float("inf")
