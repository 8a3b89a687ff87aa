"""The field ``utility`` of an instance file: a u that is no sum over pairs.

Without it u is the sum of ``weights``. With it u = sum over adversaries of
``scale[a] * u_a(entries of a) / utility_norm``, and ``kind`` says what u_a is:

- ``concave``: a ``curve`` (root, log, or cap with a ``cap``) of the sum of the weights;
- ``coverage``: ``touches`` gives the topics of each entry, ``topics`` what each is worth;
- ``facility``: ``serves`` gives, client by client, what each entry is worth to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from policies.exact import fraction
from policies.instance_fields import (
    InvalidInstance,
    choice,
    indices,
    listed,
    mapped,
    number,
    table,
)
from policies.problem import Problem
from policies.utility import Weights
from policies.utility_functions import (
    ConcaveOverModular,
    Coverage,
    FacilityLocation,
    Utilities,
    Utility,
)

KINDS = ("concave", "coverage", "facility")


def with_utility(problem: Problem, root: Mapping[str, Any]) -> Problem:
    """Return the problem with the utilities of the file; as it is where it names none.

    Raises
    ------
    InvalidInstance
        With what is wrong, where it is, and how to mend it.
    """
    if root.get("utility") is None:
        return problem
    given = mapped(root["utility"], "utility")
    kind = choice(given.get("kind"), "utility.kind", KINDS)
    n, k = problem.n_entries, problem.n_adversaries
    scale = [Fraction(1)] * k
    if given.get("scale") is not None:
        rows = listed(given["scale"], "utility.scale", k)
        scale = [
            fraction(number(w, f"utility.scale[{a}]", 0.0)) for a, w in enumerate(rows)
        ]
    functions: tuple[Utility, ...]
    if kind == "concave":
        functions = _concave(root, given, n, k)
    elif kind == "coverage":
        functions = (_coverage(given, n),) * k
    else:
        functions = (_facility(given, n),) * k
    norm = root.get("utility_norm")
    made = Utilities(functions, tuple(scale))
    if norm is None:  # what everybody would get from everything
        top = made.total([frozenset(np.flatnonzero(problem.hi).tolist())] * k)
    else:
        top = fraction(number(norm, "utility_norm"))
        if top <= 0:
            raise InvalidInstance(
                f"{norm!r} is out of range, expected > 0",
                "utility_norm",
                "Write the best u without limits, or 1.",
            )
    made = replace(made, scale=tuple(w / (top or 1) for w in scale))
    return replace(problem, utilities=made, weights=Weights.flat(n, k))


def _concave(
    root: Mapping[str, Any], given: Mapping[str, Any], n: int, k: int
) -> tuple[Utility, ...]:
    curve = choice(given.get("curve"), "utility.curve", ("root", "log", "cap"))
    cap = number(given.get("cap", 1.0), "utility.cap")
    if cap <= 0:
        raise InvalidInstance(
            f"{cap!r} is out of range, expected > 0",
            "utility.cap",
            "Write the sum of weights from which more gains nothing.",
        )
    weights = np.asarray(table(root.get("weights"), "weights", n, k), np.float64)
    return tuple(
        ConcaveOverModular(tuple(column), curve, cap)
        for column in weights.reshape(n, k).T.tolist()
    )


def _coverage(given: Mapping[str, Any], n: int) -> Coverage:
    topics = [
        number(w, f"utility.topics[{j}]", 0.0)
        for j, w in enumerate(listed(given.get("topics"), "utility.topics"))
    ]
    rows = listed(given.get("touches"), "utility.touches", n)
    touches = tuple(
        frozenset(indices(row, f"utility.touches[{d}]", len(topics)))
        for d, row in enumerate(rows)
    )
    return Coverage(touches, tuple(topics))


def _facility(given: Mapping[str, Any], n: int) -> FacilityLocation:
    rows = listed(given.get("serves"), "utility.serves")
    return FacilityLocation(
        tuple(
            tuple(
                number(w, f"utility.serves[{c}][{d}]", 0.0)
                for d, w in enumerate(listed(row, f"utility.serves[{c}]", n))
            )
            for c, row in enumerate(rows)
        )
    )
