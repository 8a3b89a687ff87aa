"""The table of entries over which rules are expanded: columns, without values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policies.model.sets import Ints


@dataclass(frozen=True)
class EntryTable:
    """Entries as columns of equal length n; ids are opaque, and there are no values.

    Attributes
    ----------
    fields : tuple of str
        Names that ``field`` points into.
    record : int64[n]
    subject : int64[n]
        The person of the entry's record, -1 if none.
    field : int32[n]
        A record has at most one entry of a field.
    time : int64[n]
        Microseconds UTC; 0 where no rule slides a window.
    place : int64[n], optional
        Number of the entry's place, -1 at none; None: all are at none.

    Raises
    ------
    ValueError
        If the columns differ in length or ``field`` points outside ``fields``.
    """

    fields: tuple[str, ...]
    record: Ints
    subject: Ints
    field: npt.NDArray[np.int32]
    time: Ints
    place: Ints | None = None

    def __post_init__(self) -> None:
        lengths = [len(c) for c in (self.record, self.subject, self.field, self.time)]
        lengths += [] if self.place is None else [len(self.place)]
        if len(set(lengths)) > 1:
            raise ValueError(f"columns have lengths {lengths}, expected equal ones")
        if lengths[0] and not 0 <= self.field.min() <= self.field.max() < len(
            self.fields
        ):
            raise ValueError(f"field has indices outside 0..{len(self.fields) - 1}")

    def __len__(self) -> int:
        return len(self.record)

    def of_fields(self, names: Iterable[str]) -> tuple[Ints, Ints]:
        """Rows in these fields, ascending, and in which of them each is."""
        number = np.full(len(self.fields), -1, np.int64)
        for i, name in enumerate(names):
            if name in self.fields:
                number[self.fields.index(name)] = i
        found = number[self.field]
        rows = np.flatnonzero(found >= 0)
        return rows, found[rows]
