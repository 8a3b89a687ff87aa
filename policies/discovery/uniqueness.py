"""How many people combinations of columns single out, counted by numpy.

A person is singled out by a combination of columns if some values of these columns are
theirs and nobody else's. A row without a value in one of the columns is not counted as
singled out; without a column of people, every row is a person of its own. The share only
grows with more columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import comb, prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policies.discovery.coded_table import CodedTable

Codes = NDArray[np.int64]
_FEW: Final = 4  # different values for each row that are counted without sorting
LARGEST: Final = 3
"""Columns of the largest combinations that are counted."""
MOST_SEARCHED: Final = 24
"""Columns among which triples are searched however long the table is."""
MOST_IN_TRIPLES: Final = 60
"""The same, in a short table."""
TRIPLE_CELLS: Final = 250_000_000
"""Rows of all triples together, at most, where there are more than 24 columns."""
MOST_PAIRED: Final = 120
"""Columns among which pairs are searched."""


@dataclass(frozen=True)
class Combination:
    """What a combination of columns tells.

    Attributes
    ----------
    columns : tuple of str
    singled_out : int
        People of the sample whom it singles out.
    share : float
        The same as a share of all people of the sample.
    beyond : float
        Share of the whole table's people, estimated from above; `share` itself where
        the whole table was read.
    is_key : bool
        Whether all rows are filled and different: the combination is unique.
    """

    columns: tuple[str, ...]
    singled_out: int
    share: float
    beyond: float
    is_key: bool

    def __str__(self) -> str:
        """Return the columns as they are shown: ``zip + sex``."""
        return " + ".join(self.columns)


class Uniqueness:
    """Counts how many people combinations of columns of a table single out.

    Parameters
    ----------
    table : CodedTable
    person : str or sequence of str, optional
        The columns that say whose a row is. Rows without a value in one of them are
        each a person of their own.
    """

    def __init__(
        self, table: CodedTable, person: str | Sequence[str] | None = None
    ) -> None:
        self._table = table
        self._pair: tuple[tuple[str, ...], Codes, int] | None = None
        self._owner: Codes | None = None
        self.people = table.rows
        """Number of people of the sample."""
        if person:
            names = (person,) if isinstance(person, str) else tuple(person)
            owner, known = self._dense(names)
            nobody = owner < 0
            owner[nobody] = known + np.arange(int(nobody.sum()))
            self._pair, self._owner = None, owner
            self.people = known + int(nobody.sum())

    @property
    def in_several_rows(self) -> int:
        """Number of people whom several rows of the sample are about."""
        if self._owner is None:
            return 0
        return int((np.bincount(self._owner) > 1).sum())

    def measure(self, columns: Sequence[str]) -> Combination:
        """Count the people whom one combination singles out."""
        codes, bound = self._joined(tuple(columns))
        filled = codes >= 0
        present = codes[filled]
        if bound <= _FEW * self._table.rows:
            sizes = np.bincount(present)
            sizes = sizes[sizes > 0]
        else:
            _, sizes = np.unique(present, return_counts=True)
        is_key = bool(filled.all()) and sizes.size == self._table.rows > 0
        if self._owner is None:
            singled = int((sizes == 1).sum())
        else:
            pairs = np.unique(present * self.people + self._owner[filled])
            _, starts, sizes = np.unique(
                pairs // self.people, return_index=True, return_counts=True
            )
            alone = pairs[starts[sizes == 1]] % self.people
            singled = np.unique(alone).size
        share = singled / self.people if self.people else 0.0
        beyond = share * self._chance(sizes)
        return Combination(tuple(columns), singled, share, beyond, is_key)

    def search(
        self,
        columns: Sequence[str],
        least: float,
        largest: int = LARGEST,
        most: int | None = None,
    ) -> list[Combination]:
        """Find the smallest combinations that single out at least a share of people.

        Of two combinations, one inside the other, only the inner one is returned.

        Parameters
        ----------
        columns : sequence of str
            In order of preference: pairs are searched among the first 120 of those that
            have more than one value, triples among the first :meth:`in_triples`.
        least : float
            Share of people; 1 asks for the combinations that tell all rows apart.
        largest : int
            Columns of the largest combinations.
        most : int, optional
            Columns among which triples are searched, instead of :meth:`in_triples`.

        Returns
        -------
        list of Combination
            By size, then in order of the table.
        """
        found: list[Combination] = []
        several = [name for name in columns if len(self._table[name].values) > 1]
        for size in range(1, largest + 1):
            cut = MOST_PAIRED if size < LARGEST else (most or self.in_triples())
            chosen = set(several[:cut])
            searched = [c.name for c in self._table.columns if c.name in chosen]
            for names in combinations(searched, size):
                if _contains_any(names, found) or self._is_coarse(names, least):
                    continue
                combination = self.measure(names)
                if combination.is_key or (
                    least < 1 and combination.share >= least and combination.singled_out
                ):
                    found.append(combination)
        return found

    def in_triples(self) -> int:
        """Return how many columns triples are searched among: fewer in a long table."""
        return next(
            most
            for most in range(MOST_IN_TRIPLES, 0, -1)
            if most <= MOST_SEARCHED
            or comb(most, LARGEST) * self._table.rows <= TRIPLE_CELLS
        )

    def _is_coarse(self, names: Sequence[str], least: float) -> bool:
        """Whether columns have too few values to single out a share of the people."""
        different = prod(len(self._table[name].values) for name in names)
        return different < least * (self.people if least < 1 else self._table.rows)

    def _joined(self, columns: tuple[str, ...]) -> tuple[Codes, int]:
        """Return one number for the values of each row, and a bound of the numbers."""
        if len(columns) == 1:
            column = self._table[columns[0]]
            return column.codes.astype(np.int64), len(column.values)
        if len(columns) > 2:
            first, size = self._dense(columns[:-1])
        else:
            first, size = self._joined(columns[:-1])
        second = self._table[columns[-1]]
        joined = first * max(1, len(second.values)) + second.codes
        joined[(first < 0) | (second.codes < 0)] = -1
        return joined, size * len(second.values)

    def _dense(self, columns: tuple[str, ...]) -> tuple[Codes, int]:
        """Return the numbers of a combination without gaps; the last one is kept."""
        if self._pair is not None and self._pair[0] == columns:
            return self._pair[1], self._pair[2]
        joined, _ = self._joined(columns)
        used, numbers = np.unique(joined, return_inverse=True)
        dense = numbers.astype(np.int64) - int(used.size > 0 and used[0] < 0)
        size = int(dense.max(initial=-1)) + 1
        self._pair = (columns, dense, size)
        return dense, size

    def _chance(self, sizes: NDArray[np.int64]) -> float:
        """Chance that who is alone in the sample is alone in the whole table.

        Estimated from above, by the expected chance that a match with somebody alone in
        the sample is right: one value held by two people of the sample is seen that
        often when it would have been seen as held by one (Skinner and Elliot, 2002).
        """
        if not self._table.is_sample:
            return 1.0
        drawn = self._table.rows / self._table.total
        once, twice = int((sizes == 1).sum()), int((sizes == 2).sum())
        if not once:
            return 0.0
        return drawn * once / (drawn * once + 2 * (1 - drawn) * twice)


def _contains_any(names: Iterable[str], found: Sequence[Combination]) -> bool:
    whole = set(names)
    return any(whole.issuperset(combination.columns) for combination in found)


def smallest(found: Iterable[Iterable[str]]) -> list[tuple[str, ...]]:
    """Return the combinations that contain no other of them, the smaller ones first.

    Combinations are of few columns, but there can be many of them: parts are looked up.
    """
    kept: dict[frozenset[str], tuple[str, ...]] = {}
    for names in sorted(map(tuple, found), key=len):
        sizes = range(1, len(names) + 1)
        parts = chain.from_iterable(combinations(names, size) for size in sizes)
        if not any(frozenset(part) in kept for part in parts):
            kept[frozenset(names)] = names
    return list(kept.values())
