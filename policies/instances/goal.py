"""The goal of an instance file: the objective, and the aggregation of f."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from policies.instances.json_values import (
    InvalidInstance,
    as_choice,
    as_integer,
    as_list,
    as_number,
    as_object,
    check_keys,
    require_keys,
)
from policies.model.aggregates import LARGEST_Q, Aggregate, Shape
from policies.model.construction import limits_on_all, load_limit
from policies.model.exact_numbers import fraction
from policies.model.fraction_sums import total
from policies.model.links import LinkMeasure
from policies.model.measures import MEASURES, Measure
from policies.model.objective import Objective
from policies.model.problem import Average, Goal
from policies.model.sets import NO_CAP

RELATIONS: Final = {"cosine": LinkMeasure.COSINE, "common": LinkMeasure.COMMON}
ASKED: Final = ("tradeoff", "discbudget", "zero_step", "zero_cosine")
DISCLOSURE_KEYS: Final = (
    "kind",
    "aggregation",
    "adversaries",
    "property_weights",
    "level",
    "q",
)
LARGEST_WEIGHT: Final = 1e9
"""Largest weight of a property; its inverse is the least weight above 0."""

LARGEST_COST: Final = 10**300
"""Largest lambda (|tau| + f): results are floats, summed over up to 10^7 observers."""

KEY_OWNERS: Final = {"level": Shape.COUNT, "q": Shape.SOFT_MAX}
"""Keys that only one aggregation uses."""


@dataclass(frozen=True)
class InstanceGoal:
    """The objective and its limit.

    Attributes
    ----------
    kind, asked : str
        Disclosure function, and one of ``ASKED``.
    goal : Goal
    """

    kind: str
    asked: str
    goal: Goal

    @property
    def limit(self) -> Fraction | None:
        """The limit f < tau, if there is one."""
        return self.goal.tau if self.asked == "discbudget" else None

    @property
    def aggregate_limit(self) -> Fraction | None:
        """The limit on an aggregate beyond the paper's, if there is one."""
        return None if self.goal.aggregate is None else self.limit

    def averages(self, n_properties: int) -> tuple[Average, ...]:
        """Return limits that apply to no single set, or that no plan keeps."""
        return () if self.limit is None else limits_on_all(self.goal, n_properties)

    def cap(self, measure: Measure, full: int, number: int) -> int:
        """Return the highest load of the set of this property."""
        if self.asked == "zero_step":
            return full - 1
        return (
            NO_CAP
            if self.limit is None
            else load_limit(self.goal, measure, full, number)
        )


def read_goal(root: Mapping[str, Any]) -> tuple[InstanceGoal, list[str]]:
    """Read the goal; return it with the unknown keys of ``disclosure``.

    Raises
    ------
    InvalidInstance
        Says what is wrong, where, and how to correct it.
    """
    how = as_object(root.get("disclosure"), "disclosure")
    unread = check_keys(how, "disclosure", DISCLOSURE_KEYS)
    require_keys(how, "disclosure", ("kind", "aggregation"))
    kind = as_choice(how.get("kind"), "disclosure.kind", (*MEASURES, *RELATIONS))
    shape = as_choice(how.get("aggregation"), "disclosure.aggregation", tuple(Shape))
    asked = as_choice(root.get("problem"), "problem", ASKED)
    _check_question(kind, asked)
    many = len(as_list(root.get("properties"), "properties"))
    aggregate = _read_aggregate(how, Shape(shape), many)
    is_papers = _is_papers(aggregate)
    goal = Goal(
        Objective.TRADEOFF if asked == "tradeoff" else Objective.DISC_BUDGET,
        fraction(as_number(root.get("lambda", 1.0), "lambda")),
        fraction(as_number(root.get("tau", 0.0), "tau", -1e18)),
        average=is_papers and aggregate.shape is Shape.AVERAGE,
        over=max(1, many),
        aggregate=None if is_papers else aggregate,
    )
    _check_cost(goal, max(total(aggregate.weights), Fraction(max(1, many))))
    return InstanceGoal(kind, asked, goal), unread


def _check_cost(goal: Goal, most: Fraction) -> None:
    """Refuse a cost of disclosure that is too large for a float."""
    tradeoff = goal.objective is Objective.TRADEOFF
    if not tradeoff or goal.lambda_ * (abs(goal.tau) + most) <= LARGEST_COST:
        return
    raise InvalidInstance(
        f"lambda (tau - f) with lambda = {float(goal.lambda_):g} and tau = "
        f"{float(goal.tau):g} can be larger than numbers can be written",
        "lambda",
        "Write a smaller lambda, or a smaller tau.",
    )


def _check_question(kind: str, asked: str) -> None:
    """Refuse a disclosure function that does not fit the problem."""
    fit = {
        "zero_step": kind == "step",
        "zero_cosine": kind in RELATIONS,
    }
    if not fit.get(asked, True):
        raise InvalidInstance(
            f"{asked} is asked of the disclosure function {kind}",
            "problem",
            "zero_step goes with kind step, zero_cosine with kind cosine; for others "
            "ask discbudget with a tau.",
        )


def _read_aggregate(how: Mapping[str, Any], shape: Shape, many: int) -> Aggregate:
    """Read how f of all properties and adversaries becomes one number."""
    _check_owners(how, shape)
    across = "max" if how.get("adversaries") is None else how["adversaries"]
    summed = as_choice(across, "disclosure.adversaries", ("max", "sum")) == "sum"
    weights = _read_property_weights(how, many)
    if shape in (Shape.AVERAGE, Shape.SOFT_MAX) and len(set(weights)) == 1:
        weights = ()  # normalised by their sum
    over = total(weights) if weights else Fraction(max(1, many))
    level, q = Fraction(0), 1
    if shape is Shape.COUNT:
        level = _read_level(how)
    if shape is Shape.SOFT_MAX:
        mend = f"Write a whole number from 1 to {LARGEST_Q}: 1 is the average."
        q = as_integer(how.get("q"), "disclosure.q", 1, LARGEST_Q, mend=mend)
        shape = Shape.AVERAGE if q == 1 else shape
    return Aggregate(shape, weights, summed, level, q, over)


def _check_owners(how: Mapping[str, Any], shape: Shape) -> None:
    """Refuse a key of another aggregation, and require those of this one."""
    for key, owner in KEY_OWNERS.items():
        given = how.get(key) is not None
        if given and shape is not owner:
            raise InvalidInstance(
                f"{key} is given for the aggregation {shape}",
                f"disclosure.{key}",
                f"Leave it out, or ask for the aggregation {owner}.",
            )
        if shape is owner and not given:
            raise InvalidInstance(
                f"{key} is missing, which the aggregation {shape} needs",
                "disclosure",
                f"Write {key}: docs/reference/instances.md says what it means.",
            )


def _read_level(how: Mapping[str, Any]) -> Fraction:
    """Read the level above which a count counts."""
    level = as_number(how.get("level"), "disclosure.level", 0.0)
    if level >= 1:
        raise InvalidInstance(
            f"{level!r} is out of range, expected 0 to below 1: no f is above 1",
            "disclosure.level",
            "Write a level below 1; step counts complete sets from 0.",
        )
    return fraction(level)


def _is_papers(how: Aggregate) -> bool:
    """Whether this is one of the paper's aggregations, worst or average."""
    known = how.shape in (Shape.WORST, Shape.AVERAGE)
    return known and not how.summed and not how.weights


def _read_property_weights(how: Mapping[str, Any], many: int) -> tuple[Fraction, ...]:
    """Read the weights of properties; empty if they are all 1."""
    where = "disclosure.property_weights"
    if how.get("property_weights") is None:
        return ()
    given = as_list(how["property_weights"], where, many)
    read = [
        as_number(item, f"{where}[{i}]", 0.0, LARGEST_WEIGHT)
        for i, item in enumerate(given)
    ]
    weights = tuple(fraction(weight) for weight in read)
    low = next(
        (i for i, weight in enumerate(read) if 0 < weight < 1 / LARGEST_WEIGHT), None
    )
    if low is not None:
        raise InvalidInstance(
            f"{read[low]!r} is out of range, expected 0, or {1 / LARGEST_WEIGHT:g} to {LARGEST_WEIGHT:g}",
            f"{where}[{low}]",
            "Write 0 for a property that does not count, or multiply all weights.",
        )
    if given and not any(weights):
        raise InvalidInstance(
            "all weights are 0, expected at least one above",
            where,
            "Give a weight to a property that counts, or leave the weights out.",
        )
    return () if all(weight == 1 for weight in weights) else weights
