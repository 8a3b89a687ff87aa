"""Write a problem as an instance file that `solve`, `judge` and others read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any, Final

import numpy as np

from policies.instances.instance_file import SCHEMA
from policies.model.disclosure import loads
from policies.model.problem import Pairs, Problem
from policies.model.sets import NO_CAP, Ints, InvalidProblem

MOST_MEMBERS: Final = 2_000_000
"""Entries of all properties together, up to which a file is written."""


def document_of(problem: Problem, name: str = "") -> dict[str, Any]:
    """Return a problem's utility and limits on sets as a document.

    Each set becomes the smallest sets of entries that nobody may hold whole (kind
    step, problem ``zero_step``): a plan keeps these if and only if it keeps the limit.
    Adversaries who are past a limit by what they hold are left out: by the file's
    definition no plan would be feasible with them.

    Parameters
    ----------
    problem : Problem
        With ``lo`` = ``hi``, and neither links, averages, coalitions nor a utility
        that is no sum. Of a tradeoff only the utility is written.
    name : str

    Raises
    ------
    InvalidProblem
        It has one of these, nobody to plan for, or limits that take too many sets.
    """
    _check(problem)
    sets, judged = problem.sets, problem.judged()
    chosen = _open_sets(problem)
    there = np.setdiff1d(np.arange(problem.n_adversaries), _past(problem, chosen))
    if not len(there):
        raise InvalidProblem("there is nobody to plan for, expected an adversary")
    number = np.full(problem.n_adversaries, -1)
    number[there] = np.arange(len(there))
    properties, members = [], 0
    for one in chosen.tolist():
        trusting = []
        if judged is not None:
            trusting = number[there[~judged[sets.owner[one], there]]].tolist()
        for given in _smallest(problem, one):
            members += sum(map(len, given.get("classes", [given.get("entries", [])])))
            if members > MOST_MEMBERS:
                raise InvalidProblem(
                    f"the limits take more than {MOST_MEMBERS:,} members of sets, "
                    "expected fewer"
                )
            properties.append(given | ({"trusted": trusting} if trusting else {}))
    weights = problem.weights
    worth = weights.base[:, None] * weights.factor[there].T[weights.kind]
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "name": name,
        "n_entries": problem.n_entries,
        "n_adversaries": len(there),
        "t": max(1, int(problem.hi.max(initial=0))),
        "copies": problem.hi.tolist(),
        "weights": (worth * float(weights.unit)).round(9).tolist(),
        "utility_norm": 1,
        "properties": properties,
        "disclosure": {"kind": "step", "aggregation": "worst"},
        "problem": "zero_step",
        "prior": _rows(problem.history, number),
        "forbidden": _rows(problem.forbidden, number),
    }
    if problem.capacity is not None:
        rooms = problem.capacity[there].tolist()
        found["capacities"] = [None if room == NO_CAP else room for room in rooms]
    return found


def _check(problem: Problem) -> None:
    for given, what in (
        (problem.averages, "limits on averages"),
        (problem.links, "links"),
        (problem.coalitions, "coalitions"),
        (problem.utilities, "a utility that is no sum"),
        ((problem.lo != problem.hi).any(), "a number of copies to choose"),
    ):
        if given:
            raise InvalidProblem(f"an instance cannot state {what}, expected none")


def _past(problem: Problem, chosen: Ints) -> Ints:
    """Return the adversaries past a limit on one of these sets by history alone."""
    sets, judged, found = problem.sets, problem.judged(), [np.empty(0, np.int64)]
    for piece in loads(sets, Pairs(), problem.history):
        over = (piece.load > sets.cap[piece.set]) & np.isin(piece.set, chosen)
        if judged is not None:
            over &= judged[sets.owner[piece.set], piece.adversary]
        found.append(piece.adversary[over])
    return np.unique(np.concatenate(found))


def _open_sets(problem: Problem) -> Ints:
    """Return the sets that have a limit and an entry that is planned."""
    sets = problem.sets
    is_open = np.zeros(sets.n_sets, np.bool_)
    is_open[sets.member_set[problem.hi[sets.entry] > 0]] = True
    return np.flatnonzero(is_open & (sets.cap != NO_CAP))


def _smallest(problem: Problem, one: int) -> Iterator[dict[str, list[Any]]]:
    """Yield the smallest sets that are past the limit of a set."""
    sets, cap = problem.sets, int(problem.sets.cap[one])
    rows = slice(int(sets.start[one]), int(sets.start[one + 1]))
    entry, amount = sets.entry[rows], sets.amount[rows]
    if sets.classes[one]:
        groups = [entry[amount == c].tolist() for c in range(int(amount.max()) + 1)]
        for chosen in combinations(groups, cap + 1):
            yield {"classes": list(chosen)}
        return
    heavy = np.argsort(-amount, kind="stable")
    for taken in _past_cap(amount[heavy].tolist(), cap):
        yield {"entries": entry[heavy[list(taken)]].tolist()}


def _past_cap(weights: list[int], cap: int) -> Iterator[tuple[int, ...]]:
    """Yield the index sets whose weight is past a cap, but not without its last.

    ``weights`` descend: none of such a set can be spared.
    """
    left = np.cumsum(weights[::-1])[::-1].tolist()
    stack: list[tuple[tuple[int, ...], int, int]] = [((), 0, 0)]
    while stack:
        taken, load, first = stack.pop()
        for i in range(first, len(weights)):
            if load + left[i] <= cap:
                break  # all that follow are too little
            if load + weights[i] > cap:
                yield (*taken, i)
            else:
                stack.append(((*taken, i), load + weights[i], i + 1))


def _rows(pairs: Pairs, number: Ints) -> list[list[int]]:
    """Return pairs as rows, with adversaries by their new numbers."""
    there = number[pairs.adversary] >= 0
    rows = np.column_stack([pairs.entry[there], number[pairs.adversary[there]]])
    found: list[list[int]] = rows.tolist()
    return found
