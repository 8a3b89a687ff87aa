"""What the values of a table tell: whom they single out, and what can be guessed.

:mod:`policies.discovery.uniqueness` asks of combinations of columns whether they tell
people apart. Here the question is what somebody knows who sees all of some columns: of a
row without a value in one of them they see the others all the same, so that the share of
people singled out never falls with more columns. And records with equal values resemble
one another, so a column that is not seen can be guessed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Final, Self

import numpy as np

from policies.discovery.coded_table import CodedTable
from policies.model.sets import Bools, Floats, Ints

_COMPARED: Final = 3
"""Columns, at most, that rows are compared by."""
_BEST: Final = 6
"""Columns, the best by themselves, of which pairs and triples are compared."""
_SHUFFLES: Final = 5
"""Random orders of a column that show how much of it chance alone would tell."""


@dataclass(frozen=True)
class Guess:
    """How well a column of a record can be guessed from those of other records.

    Attributes
    ----------
    by : tuple of str
        What the records compared are equal in: of all that is seen, up to three columns
        with which most guesses are right.
    records : int
        Those that have a value in the column.
    blind : float
        Share of right guesses of whoever knows other records, and nothing of this one.
    informed : float
        Share of right guesses of whoever also sees some of this record: the most common
        value of the other records that are equal in ``by``; the blind guess if none is.
    gain : float
        Share of the column's entropy that is removed by what is seen, less what a
        column in random order would lose (reliable fraction of information; Mandros,
        Boley and Vreeken, 2017). 0 to 1.
    """

    by: tuple[str, ...]
    records: int
    blind: float
    informed: float
    gain: float


@dataclass(frozen=True, eq=False)
class Frequencies:
    """Rows of a table; equal numbers in a column stand for equal values.

    Attributes
    ----------
    columns : Mapping of str to int64 array, shape (rows,)
        0 is an empty cell.
    person : int64 array, shape (rows,)
        Who the row is about.
    """

    columns: Mapping[str, Ints]
    person: Ints

    @classmethod
    def of(cls, table: CodedTable, person: str | None = None) -> Self:
        """Count the rows of a table.

        Parameters
        ----------
        table : CodedTable
        person : str, optional
            The column that says who a row is about; by default each is about another
            person, as is a row in which that cell is empty.
        """
        columns = {one.name: one.codes.astype(np.int64) + 1 for one in table.columns}
        owner = np.arange(table.rows)
        if person is not None:
            known = columns[person]
            owner = np.where(known > 0, known - 1, len(table[person].values) + owner)
        return cls(columns, owner)

    def __len__(self) -> int:
        return len(self.person)

    @property
    def people(self) -> int:
        """Number of people."""
        return len(np.unique(self.person))

    @property
    def most_rows(self) -> int:
        """Most rows about one person."""
        return int(np.bincount(self.person).max(initial=0))

    def groups(self, seen: Collection[str]) -> Ints:
        """Number the rows that look the same in some columns alike, shape (rows,)."""
        group = np.zeros(len(self), np.int64)
        for name in seen:
            if len(self) and int(group.max()) + 1 == len(self):
                break  # no two rows look alike any more
            both = group * (int(self.columns[name].max(initial=0)) + 1)
            _, group = np.unique(both + self.columns[name], return_inverse=True)
        return group.astype(np.int64)

    def singled_out(self, seen: Collection[str]) -> Fraction:
        """Return the share of people of whom some row looks like nobody else's.

        An empty cell counts as a value: not to have a phone number may single out, too.
        """
        if not len(self):
            return Fraction(0)
        group = self.groups(seen)
        span = int(self.person.max()) + 1
        pairs = np.unique(group * span + self.person)
        lone = np.bincount(pairs // span)[pairs // span] == 1
        return Fraction(len(np.unique(pairs[lone] % span)), self.people)

    def guess(
        self, secret: str, seen: Collection[str], rng: np.random.Generator
    ) -> Guess | None:
        """Guess a column of each row from the rows that are equal in what is seen.

        Whoever compares rows by too many columns finds none that is equal, so the best
        few are taken.

        Parameters
        ----------
        secret : str
        seen : collection of str
        rng : Generator
            Shuffles the column, see :attr:`Guess.gain`.

        Returns
        -------
        Guess or None
            None if fewer than two rows have a value in the column.
        """
        filled = self.columns[secret] > 0
        if np.count_nonzero(filled) < 2:
            return None
        _, value = np.unique(self.columns[secret][filled], return_inverse=True)
        blind, _ = _right(np.zeros_like(value), value)

        def compared(names: tuple[str, ...]) -> tuple[float, Ints]:
            _, alike = np.unique(self.groups(names)[filled], return_inverse=True)
            chance, alone = _right(alike, value)
            return float(np.where(alone, blind, chance).mean()), alike

        by: tuple[str, ...] = ()
        right, group = float(blind.mean()), np.zeros_like(value)
        singles: dict[tuple[str, ...], tuple[float, Ints]] = {
            (name,): compared((name,)) for name in sorted(seen)
        }
        best = sorted(singles, key=lambda names: -singles[names][0])[:_BEST]
        names_of_best = sorted(name for names in best for name in names)
        larger = (
            names
            for size in range(2, _COMPARED + 1)
            for names in combinations(names_of_best, size)
        )
        for names in (*best, *larger):
            found, alike = singles.get(names) or compared(names)
            if found > right:
                by, right, group = names, found, alike
        by_chance = [_gain(group, rng.permutation(value)) for _ in range(_SHUFFLES)]
        gain = _gain(group, value) - sum(by_chance) / _SHUFFLES
        return Guess(
            by=by,
            records=len(value),
            blind=float(blind.mean()),
            informed=right,
            gain=min(1.0, max(0.0, gain)),
        )


def _right(group: Ints, value: Ints) -> tuple[Floats, Bools]:
    """Return the chance that each row is guessed, and whether it is alone in its group.

    The guess is the most common value of the other rows of the group; ties are broken
    by chance. Without the row itself only the value that leads its group can lead.
    """
    span = int(value.max()) + 1
    pairs, which, count = np.unique(
        group * span + value, return_inverse=True, return_counts=True
    )
    home = pairs // span
    start = np.flatnonzero(np.r_[True, home[1:] != home[:-1]])
    best = np.maximum.reduceat(count, start)[home]
    leaders = np.add.reduceat((count == best).astype(np.int64), start)[home]
    second = np.maximum.reduceat(np.where(count < best, count, 0), start)[home]
    runners = np.add.reduceat((count == second).astype(np.int64), start)[home]
    leads = (count == best) & (leaders == 1) & (count > 1)
    chance = np.where(count - 1 > second, 1.0, 1 / (1 + runners))
    size = np.bincount(group)[group]
    return np.where(leads, chance, 0.0)[which], np.asarray(size == 1)


def _gain(group: Ints, value: Ints) -> float:
    """Return (H(V) - H(V | group)) / H(V); 0 where nothing is uncertain."""
    total = len(value)

    def entropy(count: Ints) -> float:
        share = count / total
        return float(-(share * np.log2(share)).sum())

    whole = entropy(np.bincount(value))
    key = group * (int(value.max()) + 1) + value
    joint = entropy(np.unique(key, return_counts=True)[1])
    return 0.0 if not whole else (whole - joint + entropy(np.bincount(group))) / whole
