"""Read instance files ("sparsi-instance/1") into Problems, and return plans as rows.

An instance is the paper's problem in numbers: weights, sensitive sets, a disclosure
function, and the objective. Reading is exact: see :mod:`policies.model.exact_numbers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from policies.instances.goal import RELATIONS, InstanceGoal, read_goal
from policies.instances.json_values import (
    InvalidInstance,
    as_choice,
    as_indices,
    as_integer,
    as_list,
    as_number,
    as_object,
    as_optional_list,
    as_table,
    check_keys,
    check_size,
    describe,
    require_keys,
)
from policies.instances.utility import Loader, with_utility
from policies.model.coalitions import Coalitions
from policies.model.construction import SensitiveSet, exact_weights, set_system
from policies.model.exact_numbers import proportions
from policies.model.links import Counts, LinkMeasure, Links, conflict_sets
from policies.model.measures import MEASURES, Measure
from policies.model.problem import Pairs, Problem
from policies.model.sets import NO_CAP, Bools, Ints, InvalidProblem, SetSystem
from policies.model.weights import Weights

SCHEMA: Final = "sparsi-instance/1"

LARGEST_UTILITY: Final = 10**300
"""Highest u: results are written as floats."""

HIGHEST_PRICE: Final = 2**31
"""Highest price of withholding an entry."""

KEYS: Final = (
    *("schema", "name", "description", "user", "reference"),
    *("n_entries", "n_adversaries", "t", "weights", "utility_norm", "utility"),
    *("properties", "loc", "cnt", "disclosure", "problem", "lambda", "tau"),
    *("capacities", "prior", "history_only_entries", "coalition_groups", "any_m"),
    *("withhold", "copies", "forbidden"),
)
NEEDED: Final = (
    *("n_entries", "n_adversaries", "t", "weights"),
    *("properties", "disclosure", "problem"),
)
SET_KEYS: Final = ("entries", "a", "classes", "left", "right", "trusted")


@dataclass(frozen=True, eq=False)
class Instance:
    """A problem read from a file.

    Attributes
    ----------
    problem : Problem
        Set s is property s of the file; for ``zero_cosine`` the sets are pairs of
        conflicting entries, and the links are the properties.
    name : str
    kind : str
        Disclosure function: a measure's name, or cosine or common.
    asked : str
        tradeoff, discbudget, zero_step or zero_cosine.
    notes : tuple of str
        Notes to show with any verdict.
    """

    problem: Problem
    name: str
    kind: str
    asked: str
    notes: tuple[str, ...] = ()


def read_instance(document: object, load: Loader | None = None) -> Instance:
    """Read an instance from a parsed JSON document.

    ``load`` loads a user's utility by name; without it, files that name one are
    refused.

    Raises
    ------
    InvalidInstance
        Says what is wrong, where, and how to correct it.
    """
    root = as_object(document, "the document")
    as_choice(root.get("schema"), "schema", (SCHEMA,))
    unread = check_keys(root, "the document", KEYS)
    require_keys(root, "the document", NEEDED)
    n, k, t = _read_sizes(root)
    ask, unasked = read_goal(root)
    unread += unasked
    given = as_list(root.get("properties"), "properties")
    title = _read_name(root)
    lo = np.ones(n, np.int64)
    closed = as_optional_list(root, "history_only_entries")
    lo[as_indices(closed, "history_only_entries", n)] = 0
    hi = lo * min(t, k)
    if root.get("copies") is not None:
        lo = hi = lo * _copies(root, n, t)
    base = {
        "lo": lo,
        "hi": hi,
        "weights": _read_weights(root, n, k, hi),
        "capacity": _capacity(root, k),
        "history": _read_pairs(root, "prior", n, k),
        "forbidden": _read_pairs(root, "forbidden", n, k),
        "trusted": _trusted(given, k),
        "coalitions": _coalitions(root, k),
        "strict_history": True,
        "prices": _prices(root, n),
    }
    try:
        if ask.kind in RELATIONS:
            problem = _over_links(root, given, n, RELATIONS[ask.kind], ask, base)
        else:
            problem = _over_sets(given, n, MEASURES[ask.kind], ask, base)
        problem, notes = with_utility(problem, root, load)
    except InvalidProblem as error:
        raise InvalidInstance(
            str(error), "the document", "Correct the field that is named."
        ) from error
    notes += tuple(f"the key {key[:40]!r} was not read" for key in unread)
    return Instance(problem, title, ask.kind, ask.asked, notes)


def _read_sizes(root: Mapping[str, Any]) -> tuple[int, int, int]:
    """Read n_entries, n_adversaries and t."""
    mend = "Write how many {} there are, at least {}."
    n = as_integer(
        root.get("n_entries"), "n_entries", 0, mend=mend.format("entries", 0)
    )
    k = as_integer(
        root.get("n_adversaries"),
        "n_adversaries",
        1,
        mend=mend.format("adversaries", 1),
    )
    check_size(n, k, "n_adversaries")
    mend = "Write to how many adversaries an entry may go, at least 1."
    return n, k, as_integer(root.get("t"), "t", 1, mend=mend)


def _read_name(root: Mapping[str, Any]) -> str:
    """Read the name; empty if there is none."""
    name = root.get("name", "")
    if not isinstance(name, str):
        raise InvalidInstance(
            f"found {describe(name)}, expected a string",
            "name",
            "Write a name in quotes.",
        )
    return name


def _read_weights(root: Mapping[str, Any], n: int, k: int, hi: Ints) -> Weights:
    """Read weights as integers; ``utility_norm`` becomes part of their unit."""
    real = as_table(root.get("weights"), "weights", n, k)
    if root.get("utility_norm") is None:
        return exact_weights(real, hi, None)
    norm = as_number(root["utility_norm"], "utility_norm")
    mend = "Write the sum of each entry's t best weights, or 1."
    if norm <= 0:
        raise InvalidInstance(
            f"{norm!r} is out of range, expected > 0", "utility_norm", mend
        )
    weights = exact_weights(real, hi, norm)
    if weights.best(hi) * weights.unit > LARGEST_UTILITY:
        raise InvalidInstance(
            f"{norm!r} makes u larger than numbers can be written",
            "utility_norm",
            mend,
        )
    return weights


def _prices(root: Mapping[str, Any], n: int) -> Ints | None:
    """Read the price of withholding each entry; null: it may not be withheld."""
    mend = "Write a price of at least 1, or null for what may not be withheld."
    return _nullable_integers(
        root,
        "withhold",
        n,
        0,
        partial(as_integer, low=1, high=HIGHEST_PRICE, mend=mend),
    )


def _capacity(root: Mapping[str, Any], k: int) -> Ints | None:
    """Read how many new entries each adversary may get; None: any number."""
    mend = "Write how many new entries it may get, or null for any number."
    return _nullable_integers(
        root, "capacities", k, NO_CAP, partial(as_integer, low=0, mend=mend)
    )


def _nullable_integers(
    root: Mapping[str, Any],
    key: str,
    length: int,
    absent: int,
    read: Callable[[object, str], int],
) -> Ints | None:
    """Read a list of integers or nulls, which become ``absent``; None without a list."""
    given = root.get(key)
    if given is None:
        return None
    rows = as_list(given, key, length)
    found = [
        absent if x is None else read(x, f"{key}[{i}]") for i, x in enumerate(rows)
    ]
    return np.array(found, np.int64)


def _copies(root: Mapping[str, Any], n: int, t: int) -> Ints:
    """Read to how many adversaries each entry goes, no more and no fewer."""
    mend = "Write a number from 0 to t; or leave copies out: 1 to t."
    rows = as_list(root["copies"], "copies", n)
    return np.array(
        [as_integer(x, f"copies[{d}]", 0, t, mend=mend) for d, x in enumerate(rows)],
        np.int64,
    )


def _trusted(given: list[Any], k: int) -> Bools | None:
    """Read for whom each property is not judged; None where it is for everybody."""
    found = [
        as_indices(as_optional_list(one, "trusted"), f"properties[{i}].trusted", k)
        if isinstance(one, dict)
        else []
        for i, one in enumerate(given)
    ]
    if not any(found):
        return None
    trusted = np.zeros((len(given), k), np.bool_)
    for i, adversaries in enumerate(found):
        trusted[i, adversaries] = True
    return trusted


def _read_pairs(root: Mapping[str, Any], key: str, n: int, k: int) -> Pairs:
    """Read pairs (entry, adversary): those that are held already, or forbidden."""
    pairs = []
    for i, pair in enumerate(as_optional_list(root, key)):
        where = f"{key}[{i}]"
        d, a = as_list(pair, where, 2)
        d = as_integer(d, f"{where}[0]", 0, n - 1)
        pairs.append((d, as_integer(a, f"{where}[1]", 0, k - 1)))
    return Pairs.of(pairs)


def _coalitions(root: Mapping[str, Any], k: int) -> Coalitions:
    """Read which adversaries pool what they hold."""
    read = tuple(
        tuple(as_indices(group, f"coalition_groups[{i}]", k))
        for i, group in enumerate(as_optional_list(root, "coalition_groups"))
    )
    any_m = root.get("any_m")
    mend = "Write how many adversaries pool what they hold, or 1 for nobody."
    m = 1 if any_m is None else as_integer(any_m, "any_m", 1, mend=mend)
    return Coalitions(read, m)


def _over_sets(
    given: list[Any], n: int, measure: Measure, ask: InstanceGoal, base: dict[str, Any]
) -> Problem:
    """Build the problem of a disclosure by loads: one set per property."""
    rows = [_read_set(p, f"properties[{i}]", n, measure) for i, p in enumerate(given)]
    caps = [ask.cap(measure, row.full, i) for i, row in enumerate(rows)]
    sets = set_system(n, rows, measure, caps, "property")
    return Problem(sets=sets, goal=ask.goal, averages=ask.averages(len(rows)), **base)


def _read_set(given: object, where: str, n: int, measure: Measure) -> SensitiveSet:
    one = as_object(given, where)
    check_keys(one, where, SET_KEYS)  # unknown keys are notes
    if "classes" in one:
        return _read_classes(one["classes"], f"{where}.classes", n, measure)
    require_keys(one, where, ("entries",) if measure.is_step else ("entries", "a"))
    entries = as_indices(one["entries"], f"{where}.entries", n)
    if measure.is_step:
        return SensitiveSet.whole(sorted(set(entries)))
    a = as_list(one["a"], f"{where}.a", len(entries))
    values = [as_number(item, f"{where}.a[{j}]") for j, item in enumerate(a)]
    try:
        return SensitiveSet.weighted(entries, values)
    except InvalidProblem as error:
        raise InvalidInstance(
            str(error),
            f"{where}.a",
            "Divide them by their sum: a disclosure lies between 0 and 1.",
        ) from None


def _read_classes(given: object, where: str, n: int, measure: Measure) -> SensitiveSet:
    """Read a set of classes; with an empty class it discloses nothing."""
    if not measure.is_step:
        raise InvalidInstance(
            "classes are given for a function other than step",
            where,
            "Use kind step, or list entries with their weights a.",
        )
    return SensitiveSet.of_classes(
        [
            as_indices(group, f"{where}[{c}]", n)
            for c, group in enumerate(as_list(given, where))
        ]
    )


def _over_links(
    root: Mapping[str, Any],
    given: list[Any],
    n: int,
    relation: LinkMeasure,
    ask: InstanceGoal,
    base: dict[str, Any],
) -> Problem:
    """Build the problem of a cosine or common disclosure: links, or conflict sets."""
    place, count = _read_visits(root, n)
    link: list[int] = []
    entry: list[int] = []
    side: list[int] = []
    for i, p in enumerate(given):
        one = as_object(p, f"properties[{i}]")
        check_keys(one, f"properties[{i}]", SET_KEYS)
        require_keys(one, f"properties[{i}]", ("left", "right"))
        for end, word in enumerate(("left", "right")):
            found = as_indices(one[word], f"properties[{i}].{word}", n)
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
    sets = conflict_sets(links) if ask.asked == "zero_cosine" else SetSystem(n)
    return Problem(sets=sets, links=links, goal=goal, averages=ask.averages(0), **base)


def _read_visits(root: Mapping[str, Any], n: int) -> tuple[Ints, Counts]:
    """Read the place of each entry, renumbered, and its count as an exact integer."""
    require_keys(root, "the document", ("loc", "cnt"))
    where = as_list(root["loc"], "loc", n)
    for d, item in enumerate(where):
        if isinstance(item, bool) or not isinstance(item, int | str):
            raise InvalidInstance(
                "a place is neither a number nor a name",
                f"loc[{d}]",
                "Write an integer or a string.",
            )
    number_of = {spot: i for i, spot in enumerate(dict.fromkeys(where))}
    counts = as_list(root["cnt"], "cnt", n)
    for d, count in enumerate(counts):
        as_number(count, f"cnt[{d}]")
    place = np.array([number_of[spot] for spot in where], np.int64)
    return place, np.array(proportions(counts), np.object_)


def rows_of(plan: Pairs, n_entries: int) -> list[list[int]]:
    """Return a plan as a list with one row per entry: its adversaries."""
    rows: list[list[int]] = [[] for _ in range(n_entries)]
    for d, a in zip(plan.entry.tolist(), plan.adversary.tolist(), strict=True):
        rows[d].append(a)
    return rows
