"""The field ``utility`` of an instance file: a utility that is not a sum over pairs.

Without it u is the sum of ``weights``. With it u = sum over adversaries of
``scale[a] * u_a(entries of a) / utility_norm``, and ``kind`` selects u_a:

- ``concave``: a ``curve`` (root, log, or cap with a ``cap``) of the sum of the weights;
- ``coverage``: ``touches`` gives the topics of each entry, ``topics`` their worths;
- ``facility``: ``serves`` gives, client by client, the worth of each entry to it;
- ``plugin``: the function ``name`` of an installed package, sampled before it counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from policies.instances.json_values import (
    InvalidInstance,
    as_choice,
    as_indices,
    as_list,
    as_number,
    as_object,
    as_table,
    check_keys,
    describe,
)
from policies.model.exact_numbers import fraction
from policies.model.problem import Problem
from policies.model.utility_functions import (
    ConcaveOverModular,
    Coverage,
    FacilityLocation,
    Utilities,
    Utility,
)
from policies.model.weights import Weights
from policies.rules.functions import InvalidFunction, UserUtility, check_utility

UTILITY_KINDS = ("concave", "coverage", "facility", "plugin")
UTILITY_KEYS = ("kind", "scale", "curve", "cap", "touches", "topics", "serves", "name")

Loader = Callable[[str], UserUtility]
"""Loads a user's utility by name; raises if there is none."""


def with_utility(
    problem: Problem, root: Mapping[str, Any], load: Loader | None = None
) -> tuple[Problem, tuple[str, ...]]:
    """Return the problem with the file's utility; unchanged if the file has none.

    Parameters
    ----------
    problem : Problem
    root : Mapping
        The file.
    load : callable, optional
        Loads a user's utility; None: files that name one are refused.

    Returns
    -------
    Problem
    tuple of str
        Notes to show with any verdict.

    Raises
    ------
    InvalidInstance
        Says what is wrong, where, and how to correct it.
    """
    if root.get("utility") is None:
        return problem, ()
    given = as_object(root["utility"], "utility")
    kind = as_choice(given.get("kind"), "utility.kind", UTILITY_KINDS)
    check_keys(given, "utility", UTILITY_KEYS)
    n, k = problem.n_entries, problem.n_adversaries
    scale = [Fraction(1)] * k
    if given.get("scale") is not None:
        rows = as_list(given["scale"], "utility.scale", k)
        scale = [
            fraction(as_number(w, f"utility.scale[{a}]", 0.0))
            for a, w in enumerate(rows)
        ]
    functions: tuple[Utility, ...]
    notes: tuple[str, ...] = ()
    if kind == "plugin":
        function, note = _read_plugin(given, n, load)
        functions, notes = (function,) * k, (note,)
    elif kind == "concave":
        functions = _read_concave(root, given, n, k)
    elif kind == "coverage":
        functions = (_read_coverage(given, n),) * k
    else:
        functions = (_read_facility(given, n),) * k
    norm = root.get("utility_norm")
    made = Utilities(functions, tuple(scale))
    if norm is None:  # u if everybody got everything
        top = made.total([frozenset(np.flatnonzero(problem.hi).tolist())] * k)
    else:
        top = fraction(as_number(norm, "utility_norm"))
        if top <= 0:
            raise InvalidInstance(
                f"{norm!r} is out of range, expected > 0",
                "utility_norm",
                "Write the best u without limits, or 1.",
            )
    made = replace(made, scale=tuple(w / (top or 1) for w in scale))
    return replace(problem, utilities=made, weights=Weights.flat(n, k)), notes


def _read_plugin(
    given: Mapping[str, Any], n: int, load: Loader | None
) -> tuple[Utility, str]:
    """Load a user's utility and sample it; return it with a note on the samples."""
    name = given.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidInstance(
            f"found {describe(name)}, expected the name of a utility",
            "utility.name",
            "Write the name that its package gives it.",
        )
    if load is None:
        raise InvalidInstance(
            "utilities of packages are not loaded here",
            "utility.kind",
            "Solve the file by: dispatcher solve.",
        )
    utility = load(name)

    def u(held: frozenset[int]) -> float:
        try:
            worth = float(utility.u(held))  # type: ignore[arg-type]  # checked here
        except (Exception, SystemExit) as error:
            # third-party code: whatever it raises, it cannot be used for planning
            raise InvalidFunction(
                f"it gives no number for {len(held)} entries ({type(error).__name__})"
            ) from error
        if not math.isfinite(worth):
            raise InvalidFunction(f"it gives {worth} for {len(held)} entries")
        return worth

    try:
        found = check_utility(
            u, n, np.random.default_rng(0), submodular=utility.submodular
        )
    except InvalidFunction as error:
        raise InvalidInstance(
            f"utility {name[:40]!r} is none to plan by: {error}",
            "utility.name",
            "Tell its author, or name another utility.",
        ) from None
    word = "never falls" + (" and its gains shrink" if found.submodular else "")
    note = (
        f"utility plugin:{name}: {word}, in {found.samples} samples; that is no proof"
    )
    return u, note


def _read_concave(
    root: Mapping[str, Any], given: Mapping[str, Any], n: int, k: int
) -> tuple[Utility, ...]:
    curve = as_choice(given.get("curve"), "utility.curve", ("root", "log", "cap"))
    cap = as_number(given.get("cap", 1.0), "utility.cap")
    if cap <= 0:
        raise InvalidInstance(
            f"{cap!r} is out of range, expected > 0",
            "utility.cap",
            "Write the sum of weights from which more gains nothing.",
        )
    weights = np.asarray(as_table(root.get("weights"), "weights", n, k), np.float64)
    return tuple(
        ConcaveOverModular(tuple(column), curve, cap)
        for column in weights.reshape(n, k).T.tolist()
    )


def _read_coverage(given: Mapping[str, Any], n: int) -> Coverage:
    topics = [
        as_number(w, f"utility.topics[{j}]", 0.0)
        for j, w in enumerate(as_list(given.get("topics"), "utility.topics"))
    ]
    rows = as_list(given.get("touches"), "utility.touches", n)
    touches = tuple(
        frozenset(as_indices(row, f"utility.touches[{d}]", len(topics)))
        for d, row in enumerate(rows)
    )
    return Coverage(touches, tuple(topics))


def _read_facility(given: Mapping[str, Any], n: int) -> FacilityLocation:
    rows = as_list(given.get("serves"), "utility.serves")
    return FacilityLocation(
        tuple(
            tuple(
                as_number(w, f"utility.serves[{c}][{d}]", 0.0)
                for d, w in enumerate(as_list(row, f"utility.serves[{c}]", n))
            )
            for c, row in enumerate(rows)
        )
    )
