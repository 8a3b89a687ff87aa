"""Instance files ("sparsi-instance/1") to the one Problem, and plans back to rows.

An instance is the paper's problem with numbers written out: weights, sensitive sets, a
disclosure function, and what is asked. Reading is exact: see :mod:`policies.model.exact_numbers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from policies.instances.adversaries import capacity, coalitions, history, prices
from policies.instances.fields import (
    InvalidInstance,
    choice,
    indices,
    integer,
    keyed,
    listed,
    mapped,
    named,
    needed,
    number,
    optional,
    sized,
    table,
)
from policies.instances.goal import MEASURES, RELATIONS, Ask, read_ask
from policies.instances.utility import Loader, with_utility
from policies.model.construction import SensitiveSet, exact_weights, set_system
from policies.model.exact_numbers import proportions
from policies.model.links import Counts, Links, Relation
from policies.model.meetings import meetings
from policies.model.problem import Pairs, Problem
from policies.model.sets import Ints, InvalidProblem, Measure, SetSystem
from policies.model.utility import Weights

SCHEMA: Final = "sparsi-instance/1"

_MOST: Final = 10**300  # that u may be: answers are written as floats

KEYS: Final = (
    *("schema", "name", "description", "user", "reference"),
    *("n_entries", "n_adversaries", "t", "weights", "utility_norm", "utility"),
    *("properties", "loc", "cnt", "disclosure", "problem", "lambda", "tau"),
    *("capacities", "prior", "history_only_entries", "coalition_groups", "any_m"),
    "withhold",
)
NEEDED: Final = (
    *("n_entries", "n_adversaries", "t", "weights"),
    *("properties", "disclosure", "problem"),
)
PROPERTY_KEYS: Final = ("entries", "a", "classes", "left", "right")


@dataclass(frozen=True, eq=False)
class Instance:
    """One instance, read.

    Attributes
    ----------
    problem : Problem
        Set s of it is property s of the file; for ``zero_cosine`` its sets are the
        pairs of entries that meet, and the links are the properties.
    name : str
    kind : str
        Disclosure function: step, linear, quadratic, cosine or common.
    asked : str
        tradeoff, discbudget, zero_step or zero_cosine.
    notes : tuple of str
        What is to be told with any verdict.
    """

    problem: Problem
    name: str
    kind: str
    asked: str
    notes: tuple[str, ...] = ()


def read_instance(document: object, load: Loader | None = None) -> Instance:
    """Read a parsed JSON document.

    ``load`` loads a user's utility by name; without it a file that names one is refused.

    Raises
    ------
    InvalidInstance
        With what is wrong, where it is, and how to mend it.
    """
    root = mapped(document, "the document")
    choice(root.get("schema"), "schema", (SCHEMA,))
    unread = keyed(root, "the document", KEYS)
    needed(root, "the document", NEEDED)
    n, k, t = _sizes(root)
    ask, unasked = read_ask(root)
    unread += unasked
    given = listed(root.get("properties"), "properties")
    title = _title(root)
    lo = np.ones(n, np.int64)
    closed = optional(root, "history_only_entries")
    lo[indices(closed, "history_only_entries", n)] = 0
    base = {
        "lo": lo,
        "hi": lo * min(t, k),
        "weights": _weights(root, n, k, lo * min(t, k)),
        "capacity": capacity(root, k),
        "history": history(root, n, k),
        "coalitions": coalitions(root, k),
        "strict_history": True,
        "prices": prices(root, n),
    }
    try:
        if ask.kind in RELATIONS:
            problem = _linked(root, given, n, RELATIONS[ask.kind], ask, base)
        else:
            problem = _measured(given, n, MEASURES[ask.kind], ask, base)
        problem, notes = with_utility(problem, root, load)
    except InvalidProblem as error:
        raise InvalidInstance(
            str(error), "the document", "Correct the field that is named."
        ) from error
    notes += tuple(f"the key {key[:40]!r} was not read" for key in unread)
    return Instance(problem, title, ask.kind, ask.asked, notes)


def _sizes(root: Mapping[str, Any]) -> tuple[int, int, int]:
    """Entries, adversaries, and copies of an entry at most."""
    mend = "Write how many {} there are, at least {}."
    n = integer(root.get("n_entries"), "n_entries", 0, mend=mend.format("entries", 0))
    k = integer(
        root.get("n_adversaries"),
        "n_adversaries",
        1,
        mend=mend.format("adversaries", 1),
    )
    sized(n, k, "n_adversaries")
    mend = "Write to how many adversaries an entry may go, at least 1."
    return n, k, integer(root.get("t"), "t", 1, mend=mend)


def _title(root: Mapping[str, Any]) -> str:
    """Return the name of the file, empty without one."""
    name = root.get("name", "")
    if not isinstance(name, str):
        raise InvalidInstance(
            f"found {named(name)}, expected a string", "name", "Write a name in quotes."
        )
    return name


def _weights(root: Mapping[str, Any], n: int, k: int, hi: Ints) -> Weights:
    """Weights as integers; ``utility_norm`` becomes part of the unit."""
    real = table(root.get("weights"), "weights", n, k)
    if root.get("utility_norm") is None:
        return exact_weights(real, hi, None)
    norm = number(root["utility_norm"], "utility_norm")
    mend = "Write the sum of each entry's t best weights, or 1."
    if norm <= 0:
        raise InvalidInstance(
            f"{norm!r} is out of range, expected > 0", "utility_norm", mend
        )
    weights = exact_weights(real, hi, norm)
    if weights.best(hi) * weights.unit > _MOST:
        raise InvalidInstance(
            f"{norm!r} makes u larger than numbers can be written",
            "utility_norm",
            mend,
        )
    return weights


def _measured(
    given: list[Any], n: int, measure: Measure, ask: Ask, base: dict[str, Any]
) -> Problem:
    """Step, linear and quadratic: one set a property."""
    rows = [_property(p, f"properties[{i}]", n, measure) for i, p in enumerate(given)]
    caps = [ask.cap(measure, row.full, i) for i, row in enumerate(rows)]
    sets = set_system(n, rows, measure, caps, "property")
    return Problem(sets=sets, goal=ask.goal, averages=ask.averages(len(rows)), **base)


def _property(given: object, where: str, n: int, measure: Measure) -> SensitiveSet:
    one = mapped(given, where)
    keyed(one, where, PROPERTY_KEYS)  # other keys are the writer's own
    if "classes" in one:
        return _classes(one["classes"], f"{where}.classes", n, measure)
    needed(one, where, ("entries",) if measure is Measure.STEP else ("entries", "a"))
    entries = indices(one["entries"], f"{where}.entries", n)
    if measure is Measure.STEP:
        return SensitiveSet.whole(sorted(set(entries)))
    a = listed(one["a"], f"{where}.a", len(entries))
    values = [number(item, f"{where}.a[{j}]") for j, item in enumerate(a)]
    try:
        return SensitiveSet.weighted(entries, values)
    except InvalidProblem as error:
        raise InvalidInstance(
            str(error),
            f"{where}.a",
            "Divide them by their sum: a disclosure lies between 0 and 1.",
        ) from None


def _classes(given: object, where: str, n: int, measure: Measure) -> SensitiveSet:
    """Classes; one that is empty can never be held, so nothing is disclosed."""
    if measure is not Measure.STEP:
        raise InvalidInstance(
            "classes are given for a function other than step",
            where,
            "Use kind step, or list entries with their weights a.",
        )
    return SensitiveSet.of_classes(
        [
            indices(group, f"{where}[{c}]", n)
            for c, group in enumerate(listed(given, where))
        ]
    )


def _linked(
    root: Mapping[str, Any],
    given: list[Any],
    n: int,
    relation: Relation,
    ask: Ask,
    base: dict[str, Any],
) -> Problem:
    """Cosine and common: links, and for ``zero_cosine`` the pairs that must not meet."""
    place, count = _visits(root, n)
    link: list[int] = []
    entry: list[int] = []
    side: list[int] = []
    for i, p in enumerate(given):
        one = mapped(p, f"properties[{i}]")
        keyed(one, f"properties[{i}]", PROPERTY_KEYS)
        needed(one, f"properties[{i}]", ("left", "right"))
        for end, word in enumerate(("left", "right")):
            found = indices(one[word], f"properties[{i}].{word}", n)
            link += [i] * len(found)
            entry += found
            side += [end] * len(found)
    goal = ask.goal
    links = Links(
        relation,
        place,
        count,
        np.array(link, np.int64),
        np.array(entry, np.int64),
        np.array(side, np.int64),
        len(given),
        tau=ask.limit if goal.worst else None,
        mean_tau=ask.limit if goal.average else None,
        aggregate_tau=ask.aggregate_limit,
    )
    sets = meetings(links) if ask.asked == "zero_cosine" else SetSystem(n)
    return Problem(sets=sets, links=links, goal=goal, averages=ask.averages(0), **base)


def _visits(root: Mapping[str, Any], n: int) -> tuple[Ints, Counts]:
    """Place of each entry, renumbered, and its count as an integer of any size."""
    needed(root, "the document", ("loc", "cnt"))
    where = listed(root["loc"], "loc", n)
    for d, item in enumerate(where):
        if isinstance(item, bool) or not isinstance(item, int | str):
            raise InvalidInstance(
                "a place is neither a number nor a name",
                f"loc[{d}]",
                "Write an integer or a string.",
            )
    number_of = {spot: i for i, spot in enumerate(dict.fromkeys(where))}
    counts = listed(root["cnt"], "cnt", n)
    for d, count in enumerate(counts):
        number(count, f"cnt[{d}]")
    place = np.array([number_of[spot] for spot in where], np.int64)
    return place, np.array(proportions(counts), np.object_)


def rows_of(plan: Pairs, n_entries: int) -> list[list[int]]:
    """Return a plan as a list, one row an entry, of lists of adversaries."""
    rows: list[list[int]] = [[] for _ in range(n_entries)]
    for d, a in zip(plan.entry.tolist(), plan.adversary.tolist(), strict=True):
        rows[d].append(a)
    return rows
