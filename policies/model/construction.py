"""Build the parts of a Problem from plain numbers: weights, sets, limits on loads.

Floats stand for the fractions that they are written as
(:mod:`policies.model.exact_numbers`), so that sums and limits are exact.
:meth:`~policies.model.problem.Problem.from_sets` and the reader of instance files use
these functions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from policies.model.aggregates import Shape
from policies.model.disclosure import cap_below
from policies.model.exact_numbers import fraction, grid, shares
from policies.model.measures import MEASURES, Measure
from policies.model.objective import Objective
from policies.model.problem import Average, Goal
from policies.model.sets import NO_CAP, Ints, InvalidProblem, SetSystem
from policies.model.weights import Weights

_SLACK = 1e-9  # sums of rounded weights may exceed 1 by this much


@dataclass(frozen=True)
class SensitiveSet:
    """One sensitive set in integers, see :class:`~policies.model.sets.SetSystem`.

    Attributes
    ----------
    entries : tuple of int
    amounts : tuple of int
        Integer weight of each entry; in a set of classes, the number of its class.
    full : int
        Load from which f is 1, >= 1.
    classes : bool
        Whether it is a set of classes.
    """

    entries: tuple[int, ...]
    amounts: tuple[int, ...]
    full: int
    classes: bool = False

    @classmethod
    def whole(cls, entries: Iterable[int]) -> Self:
        """Return a set whose entries all have the same weight, 1/size."""
        once = tuple(dict.fromkeys(entries))
        return cls(once, (1,) * len(once), max(1, len(once)))

    @classmethod
    def weighted(cls, entries: Sequence[int], weights: Sequence[float]) -> Self:
        """Return a set with weights a_dp; repeated entries add up.

        Raises
        ------
        InvalidProblem
            If the weights add up to more than 1.
        """
        if (most := sum(weights)) > 1 + _SLACK:
            raise InvalidProblem(
                f"the weights add up to {float(most):.9g}, expected at most 1"
            )
        amounts, full = shares(weights)
        sums: dict[int, int] = {}
        for d, amount in zip(entries, amounts, strict=True):
            sums[d] = sums.get(d, 0) + amount
        return cls(tuple(sums), tuple(sums.values()), full)

    @classmethod
    def of_classes(cls, classes: Sequence[Collection[int]]) -> Self:
        """Return a set that one entry of every class completes.

        An empty class can never be held, so such a set discloses nothing.
        """
        if not classes or not all(classes):
            return cls((), (), 1)
        pairs = [(d, c) for c, group in enumerate(classes) for d in sorted(set(group))]
        entries, numbers = zip(*pairs, strict=True)
        return cls(entries, numbers, len(classes), True)


def set_system(
    n_entries: int,
    sets: Sequence[SensitiveSet],
    measure: Measure,
    caps: Sequence[int],
    word: str,
) -> SetSystem:
    """Return the sets as columns, each a property of its own.

    Parameters
    ----------
    n_entries : int
    sets : sequence of SensitiveSet
    measure : Measure
        How f follows from the load of each.
    caps : sequence of int, one a set
        Highest load that is allowed; ``NO_CAP`` without a limit.
    word : str
        The word for a set in messages: ``word 0``, ``word 1``, ...

    Raises
    ------
    InvalidProblem
        If a set names an entry that does not exist.
    """
    return SetSystem(
        n_entries=n_entries,
        properties=tuple(f"{word} {i}" for i in range(len(sets))),
        measures=(measure,) * len(sets),
        owner=np.arange(len(sets)),
        start=np.cumsum([0, *(len(one.entries) for one in sets)]),
        entry=np.array([d for one in sets for d in one.entries]),
        amount=np.array([w for one in sets for w in one.amounts]),
        cap=np.array(caps, np.int64),
        full=np.array([one.full for one in sets], np.int64),
        classes=np.array([one.classes for one in sets], np.bool_),
    )


def exact_weights(table: npt.ArrayLike, hi: Ints, norm: float | None) -> Weights:
    """Return w_da as integers, in a unit that makes u the sum divided by ``norm``.

    Parameters
    ----------
    table : real array, shape (n entries, k adversaries), finite and >= 0
    hi : int64 array, shape (n entries,)
        Copies that each entry may get.
    norm : float or None
        > 0. None: the sum of each entry's ``hi`` best weights (1 where that is 0), so
        that u is at most 1.
    """
    real = np.asarray(table, np.float64)
    steps, unit = grid(real, 2**61 // max(1, real.size))
    n = len(steps)
    weights = Weights(np.arange(n), np.ones(n, np.int64), steps.T, unit)
    whole = fraction(norm) if norm is not None else weights.best(hi) * unit
    return replace(weights, unit=unit / (whole or 1))


def load_limit(goal: Goal, measure: Measure, full: int, number: int) -> int:
    """Return the highest load of one set that the goal allows.

    Parameters
    ----------
    goal : Goal
    measure : Measure
    full : int
        Load from which f is 1.
    number : int
        The set's property.

    Returns
    -------
    int
        ``NO_CAP`` where the goal limits no single set: a tradeoff, and a limit on what
        all sets disclose together (see :func:`limits_on_all`).
    """
    how = goal.aggregate
    single = goal.worst or (how is not None and how.by_set)
    if goal.objective is Objective.TRADEOFF or not single or goal.tau <= 0:
        return NO_CAP
    tau = goal.tau if how is None else how.level_of(number, goal.tau)
    return NO_CAP if tau is None else cap_below(measure, full, tau)


def limits_on_all(goal: Goal, n_properties: int) -> tuple[Average, ...]:
    """Return the limit f < tau where it applies to no single set, or cannot be kept."""
    if goal.objective is Objective.TRADEOFF:
        return ()
    if goal.tau <= 0:
        return (Average((), goal.tau, strict=True, over=1),)
    if not n_properties:  # no set can disclose anything
        return ()
    if goal.average:
        every = tuple(range(n_properties))
        return (Average(every, goal.tau, strict=True, over=goal.over),)
    how = goal.aggregate
    if how is None or how.by_set:
        return ()
    return (Average((), goal.tau, strict=True, aggregate=how),)


def table_of(
    weights: npt.ArrayLike, adversaries: int | None
) -> npt.NDArray[np.float64]:
    """Return w_da as a table; one number an entry applies to every adversary.

    Parameters
    ----------
    weights : real array, shape (n,) or (n, k)
    adversaries : int or None
        k; required with one number an entry.

    Raises
    ------
    InvalidProblem
        Gives the value found and the value expected.
    """
    table = np.asarray(weights, np.float64)
    if table.ndim == 1 and adversaries is not None:
        table = np.repeat(table[:, None], adversaries, axis=1)
    if table.ndim != 2:
        raise InvalidProblem(
            f"weights has {table.ndim} dimensions, expected a row an entry with a "
            "number an adversary; or a number an entry, and adversaries"
        )
    if adversaries not in (None, table.shape[1]):
        raise InvalidProblem(
            f"weights has {table.shape[1]} columns, expected {adversaries}"
        )
    if not (np.isfinite(table) & (table >= 0)).all():
        raise InvalidProblem(
            "weights holds NaN, infinity or a negative number, expected numbers >= 0"
        )
    return table


def sensitive_set(
    number: int, given: Iterable[int] | Mapping[int, float], measure: Measure
) -> SensitiveSet:
    """Return one set of :meth:`~policies.model.problem.Problem.from_sets`.

    Raises
    ------
    InvalidProblem
        Gives the number of the set.
    """
    if not isinstance(given, Mapping):
        return SensitiveSet.whole(given)
    if measure.is_step:
        weighted = " or ".join(repr(m.name) for m in MEASURES.values() if m.power)
        raise InvalidProblem(
            f"set {number} has weights, expected entries alone: {measure.name} needs "
            f"none; pass disclosure={weighted}"
        )
    weights = list(given.values())
    if not all(weight >= 0 for weight in weights):
        raise InvalidProblem(f"set {number} has a weight below 0, expected >= 0")
    try:
        return SensitiveSet.weighted(list(given), weights)
    except InvalidProblem as error:
        raise InvalidProblem(f"set {number}: {error}") from None


def goal_of(
    objective: str, aggregation: str, tau: float, lambda_: float, n_sets: int
) -> Goal:
    """Return a goal over the paper's worst set or highest mean.

    Raises
    ------
    InvalidProblem
        Unknown name; the message lists the known ones.
    """
    if objective not in tuple(Objective):
        known = " or ".join(map(repr, map(str, Objective)))
        raise InvalidProblem(f"objective is {objective!r}, expected {known}")
    if aggregation not in (Shape.WORST, Shape.AVERAGE):
        raise InvalidProblem(
            f"aggregation is {aggregation!r}, expected 'worst' or 'average'"
        )
    return Goal(
        Objective(objective),
        fraction(lambda_),
        fraction(tau),
        average=aggregation == Shape.AVERAGE,
        over=max(1, n_sets),
    )


def measure_of(disclosure: str) -> Measure:
    """Return the measure with this name."""
    if disclosure not in MEASURES:
        raise InvalidProblem(
            f"disclosure is {disclosure!r}, expected {', '.join(MEASURES)}"
        )
    return MEASURES[disclosure]


def capacities(given: Iterable[int | None] | None) -> Ints | None:
    """Return capacities as integers, ``NO_CAP`` for None."""
    if given is None:
        return None
    return np.array([NO_CAP if most is None else most for most in given])
