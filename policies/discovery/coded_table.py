"""A table as numbers: each column's values are numbered as they first appear."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

EMPTY: Final = -1
"""The code of a cell without a value."""
LONGEST_VALUE: Final = 400  # characters that are kept of a value
SAMPLE_ROWS: Final = 100_000
SAMPLE_CELLS: Final = 2_000_000

Codes = NDArray[np.int32]


@dataclass(frozen=True)
class CodedColumn:
    """One column.

    Attributes
    ----------
    name : str
    codes : ndarray of int32, shape (rows,)
        The value of each row, as its place in `values`; :data:`EMPTY` where it has none.
    values : tuple of str
        The different values, in order of their first appearance. A very long one is
        cut, and ends in a digest of the whole.
    """

    name: str
    codes: Codes
    values: tuple[str, ...]

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Number of rows that have each value."""
        filled = self.codes[self.codes >= 0]
        return np.bincount(filled, minlength=len(self.values))

    @property
    def filled(self) -> int:
        """Number of rows that have a value."""
        return int(self.counts.sum())


@dataclass(frozen=True)
class CodedTable:
    """A table, or an evenly drawn sample of its rows.

    Attributes
    ----------
    columns : tuple of CodedColumn
        In order of the table; all of the same length.
    total : int
        Rows of the table that the sample was drawn from.
    """

    columns: tuple[CodedColumn, ...]
    total: int

    @property
    def rows(self) -> int:
        """Number of rows held."""
        return len(self.columns[0].codes) if self.columns else 0

    @property
    def is_sample(self) -> bool:
        """Whether rows of the table were left out."""
        return self.rows < self.total

    def __getitem__(self, name: str) -> CodedColumn:
        """Return a column by its name.

        Raises
        ------
        KeyError
        """
        return self._by_name[name]

    def __contains__(self, name: str) -> bool:
        """Whether there is a column of that name."""
        return name in self._by_name

    @cached_property
    def _by_name(self) -> dict[str, CodedColumn]:
        return {column.name: column for column in self.columns}


@dataclass
class _Coding:
    name: str
    numbers: dict[str, int] = field(default_factory=dict)
    codes: list[int] = field(default_factory=list)

    def add(self, cells: Iterable[str]) -> None:
        numbers = self.numbers
        self.codes.extend(
            numbers.setdefault(value, len(numbers)) if (value := _kept(cell)) else EMPTY
            for cell in cells
        )

    def finished(self, rows: int, picked: NDArray[np.bool_] | None) -> CodedColumn:
        """Return the column; renumbered if only the picked rows are kept."""
        self.codes.extend([EMPTY] * (rows - len(self.codes)))
        codes = np.array(self.codes, dtype=np.int32)
        values = np.array([*self.numbers, ""], dtype=object)
        if picked is None:
            return CodedColumn(self.name, codes, tuple(values[:-1]))
        used, renumbered = np.unique(codes[picked], return_inverse=True)
        if used.size and used[0] == EMPTY:
            used, renumbered = used[1:], renumbered - 1
        return CodedColumn(self.name, renumbered.astype(np.int32), tuple(values[used]))


class TableSampler:
    """Codes the rows of a table of any length, and keeps an even sample of them.

    Up to `most` rows are all kept. Past that, each row is kept with a chance that is
    halved whenever there are too many: memory is bounded, one pass is enough, and rows
    that follow one another are no likelier than others to be kept together.

    Parameters
    ----------
    most_rows, most_cells : int
        Bounds of what is kept.
    seed : int
        Of the draw.
    """

    def __init__(
        self,
        most_rows: int = SAMPLE_ROWS,
        most_cells: int = SAMPLE_CELLS,
        seed: int = 0,
    ) -> None:
        self._most_rows = most_rows
        self._most_cells = most_cells
        self._draw = np.random.default_rng(seed)
        self._level = 0  # each row is kept with a chance of 2 ** -level
        self._lots: list[NDArray[np.uint64]] = []
        self._kept = 0
        self._columns: list[_Coding] = []
        self._total = 0

    def add(self, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Add the next rows.

        Parameters
        ----------
        names : sequence of str
            Columns; a later call may have more of them.
        rows : sequence of sequence of str
        """
        self._grow(names)
        lots = self._draw.integers(0, 1 << 62, len(rows), dtype=np.uint64)
        self._total += len(rows)
        if self._level:
            stays = self._stays(lots)
            rows = [row for row, kept in zip(rows, stays, strict=True) if kept]
            lots = lots[stays]
        if not rows:
            return
        self._lots.append(lots)
        self._kept += len(rows)
        for column, cells in zip(self._columns, zip(*rows, strict=True), strict=False):
            column.add(cells)
        while self._kept > self._most:
            self._thin()

    def finish(self, names: Sequence[str] = ()) -> CodedTable:
        """Return what was added, under the names of all columns."""
        self._grow(names)
        columns = tuple(column.finished(self._kept, None) for column in self._columns)
        return CodedTable(columns, self._total)

    @property
    def _most(self) -> int:
        width = max(1, len(self._columns))
        return max(1, min(self._most_rows, self._most_cells // width))

    def _grow(self, names: Sequence[str]) -> None:
        known = len(self._columns)
        self._columns += [
            _Coding(name, codes=[EMPTY] * self._kept) for name in names[known:]
        ]

    def _stays(self, lots: NDArray[np.uint64]) -> NDArray[np.bool_]:
        mask = np.uint64((1 << self._level) - 1)
        stays: NDArray[np.bool_] = (lots & mask) == 0
        return stays

    def _thin(self) -> None:
        self._level += 1
        lots = np.concatenate(self._lots)
        stays = self._stays(lots)
        kept = []
        for column in self._columns:
            done = column.finished(self._kept, stays)
            numbers = {value: n for n, value in enumerate(done.values)}
            kept.append(_Coding(column.name, numbers, done.codes.tolist()))
        self._columns, self._lots = kept, [lots[stays]]
        self._kept = int(stays.sum())


def _kept(cell: str) -> str:
    """Return a cell as it is compared and kept: stripped, and not too long."""
    text = cell.strip()
    if len(text) <= LONGEST_VALUE:
        return text
    digest = blake2b(text.encode(errors="replace"), digest_size=12).hexdigest()
    return f"{text[:LONGEST_VALUE]} {digest}"
