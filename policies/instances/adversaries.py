"""The fields of an instance file about who may get, who holds, and who pools what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from policies.instances.fields import indices, integer, listed, optional
from policies.model.coalitions import Coalitions
from policies.model.problem import Pairs
from policies.model.sets import NO_CAP, Ints

DEAREST: Final = 2**31
"""Highest price of withholding an entry."""


def prices(root: Mapping[str, Any], n: int) -> Ints | None:
    """Return what it costs to withhold each entry; null: it may not be."""
    mend = "Write a price of at least 1, or null for what may not be withheld."
    return _numbers(
        root, "withhold", n, 0, partial(integer, low=1, high=DEAREST, mend=mend)
    )


def capacity(root: Mapping[str, Any], k: int) -> Ints | None:
    """Return how many new entries each adversary may get; None: any number."""
    mend = "Write how many new entries it may get, or null for any number."
    return _numbers(root, "capacities", k, NO_CAP, partial(integer, low=0, mend=mend))


def _numbers(
    root: Mapping[str, Any],
    key: str,
    length: int,
    absent: int,
    read: Callable[[object, str], int],
) -> Ints | None:
    """Return a list of numbers, ``absent`` where one is null; None without the list."""
    given = root.get(key)
    if given is None:
        return None
    rows = listed(given, key, length)
    found = [
        absent if x is None else read(x, f"{key}[{i}]") for i, x in enumerate(rows)
    ]
    return np.array(found, np.int64)


def history(root: Mapping[str, Any], n: int, k: int) -> Pairs:
    """Return what is held already."""
    pairs = []
    for i, pair in enumerate(optional(root, "prior")):
        where = f"prior[{i}]"
        d, a = listed(pair, where, 2)
        d = integer(d, f"{where}[0]", 0, n - 1)
        pairs.append((d, integer(a, f"{where}[1]", 0, k - 1)))
    return Pairs.of(pairs)


def coalitions(root: Mapping[str, Any], k: int) -> Coalitions:
    """Return who pools what they hold."""
    read = tuple(
        tuple(indices(group, f"coalition_groups[{i}]", k))
        for i, group in enumerate(optional(root, "coalition_groups"))
    )
    any_m = root.get("any_m")
    mend = "Write how many adversaries pool what they hold, or 1 for nobody."
    m = 1 if any_m is None else integer(any_m, "any_m", 1, mend=mend)
    return Coalitions(read, m)
