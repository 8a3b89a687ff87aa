"""The fields of an instance file about who may get, who holds, and who pools what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from policies.coalitions import Coalitions
from policies.instance_fields import indices, integer, listed, optional
from policies.problem import Pairs
from policies.sets import NO_CAP, Ints

DEAREST: Final = 2**31
"""Highest price of withholding an entry."""


def prices(root: Mapping[str, Any], n: int) -> Ints | None:
    """Return what it costs to withhold each entry; null: it may not be."""
    given = root.get("withhold")
    if given is None:
        return None
    mend = "Write a price of at least 1, or null for what may not be withheld."
    rows = listed(given, "withhold", n)
    return np.array(
        [
            0 if row is None else integer(row, f"withhold[{d}]", 1, DEAREST, mend)
            for d, row in enumerate(rows)
        ],
        np.int64,
    )


def capacity(root: Mapping[str, Any], k: int) -> Ints | None:
    """Return how many new entries each adversary may get; None: any number."""
    given = root.get("capacities")
    if given is None:
        return None
    mend = "Write how many new entries it may get, or null for any number."
    rows = listed(given, "capacities", k)
    return np.array(
        [
            NO_CAP if c is None else integer(c, f"capacities[{a}]", 0, mend=mend)
            for a, c in enumerate(rows)
        ],
        np.int64,
    )


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
    return Coalitions(read, max(1, min(m, k)))
