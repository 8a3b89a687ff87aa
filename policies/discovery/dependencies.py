"""Columns that tell another one: name and drug tell the disease in 93 % of cases.

How far X tells Y is the chance that two rows with the same X have the same Y: 1 for a
functional dependency, less for an approximate one. Rows whose X nobody shares say
nothing about it, so that a key does not seem to tell everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policies.discovery.coded_table import CodedTable

LEAST: Final = 0.8
"""A dependency tells at least so much."""
LEFT: Final = 0.5
"""At most so much is left of the doubt without it, or with one column of it alone."""
LEAST_SHARED: Final = 0.2
"""Share of the rows whose X another row has too."""
LEAST_ROWS: Final = 10
"""Rows whose X another row has too, so that it is more than chance."""
MOST_ROWS: Final = 20_000

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Dependency:
    """One dependency.

    Attributes
    ----------
    columns : tuple of str
        The columns that tell it: one or two, or more by a wider search.
    told : str
        The column that they tell.
    share : float
        Share of the cases in which they tell it.
    by_chance : float
        Share of the cases in which any two rows have the same value.
    """

    columns: tuple[str, ...]
    told: str
    share: float
    by_chance: float

    def __str__(self) -> str:
        """Return the dependency in words."""
        verb = "tells" if len(self.columns) == 1 else "tell"
        joined = " + ".join(self.columns)
        if self.share >= 1:
            return f"{joined} {verb} {self.told} always"
        return f"{joined} {verb} {self.told} in {percent(self.share)} of cases"


def percent(share: float) -> str:
    """Return a share as it is shown; never 0 % or 100 % where it is not just that."""
    if 0 < share < 0.01:
        return "< 1 %"
    if 0.99 < share < 1:
        return "> 99 %"
    return f"{100 * share:.0f} %"


def dependencies(
    table: CodedTable,
    told: Sequence[str],
    by: Sequence[str],
    larger: Sequence[tuple[tuple[str, ...], str]] = (),
) -> list[Dependency]:
    """Find what tells some columns.

    Parameters
    ----------
    table : CodedTable
        Its first rows are looked at, up to 20,000.
    told : sequence of str
        Columns that may be told.
    by : sequence of str
        Columns that may tell them, alone and in pairs.
    larger : sequence of (tuple of str, str)
        Left sides of more columns to be measured too, and what they may tell.

    Returns
    -------
    list of Dependency
        In order of the columns told, those by one column first.
    """
    rows = min(table.rows, MOST_ROWS)
    codes = {name: table[name].codes[:rows].astype(np.int64) for name in (*told, *by)}
    everything = np.zeros(rows, np.int64)
    known: dict[tuple[str, tuple[str, ...]], float] = {}
    found: list[Dependency] = []
    searched: list[tuple[tuple[str, ...], Sequence[str]]] = [
        *(((name,), told) for name in by),
        *((pair, told) for pair in combinations(by, 2)),
        *((left, (right,)) for left, right in larger),
    ]
    for columns, targets in searched:
        group = _joined([codes[name] for name in columns])
        for target in targets:
            share = None if target in columns else _agreement(group, codes[target])
            if share is None:
                continue
            chance = known.setdefault(
                (target, ()), _agreement(everything, codes[target]) or 0.0
            )
            known[target, columns] = share
            inner = [c for size in (1, 2) for c in combinations(columns, size)]
            parts = [known.get((target, c), 0.0) for c in inner if c != columns]
            before = max([chance, *parts])
            is_new = share >= LEAST and max(parts, default=0.0) < LEAST
            if is_new and 1 - share <= (1 - before) * LEFT:
                found.append(Dependency(columns, target, share, chance))
    order = {name: n for n, name in enumerate(told)}
    return sorted(found, key=lambda d: (order[d.told], len(d.columns)))


def _joined(columns: Sequence[Codes]) -> Codes:
    joined = columns[0]
    for codes in columns[1:]:
        _, dense = np.unique(joined, return_inverse=True)
        both = dense * (int(codes.max(initial=0)) + 1) + codes
        both[(joined < 0) | (codes < 0)] = -1
        joined = both
    return joined


def _agreement(group: Codes, told: Codes) -> float | None:
    """Chance that two rows of one group have the same value; None: too few rows do."""
    filled = (group >= 0) & (told >= 0)
    rows = int(filled.sum())
    width = int(told.max(initial=0)) + 1
    _, numbers = np.unique(group[filled], return_inverse=True)
    sizes = np.bincount(numbers)
    shared = int(sizes[sizes > 1].sum())
    if shared < max(LEAST_ROWS, LEAST_SHARED * rows):
        return None
    cells, counts = np.unique(numbers * width + told[filled], return_counts=True)
    of = sizes[cells // width]
    several = of > 1
    agreeing = counts[several] * (counts[several] - 1) / (of[several] - 1)
    return float(agreeing.sum() / shared)
