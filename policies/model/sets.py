"""Sensitive sets as columns: the paper's D_p for all properties at once.

The **load** of an adversary on a weighted set is the sum of the integer weights of the
set's entries that the adversary holds; on a set of classes, the number of classes of
which it holds at least one entry. For both, the limit is ``load <= cap``, and f follows
from load and ``full``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from policies.model.measures import MEASURES, Measure

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

NO_CAP: Final = int(np.iinfo(np.int64).max)


class InvalidProblem(ValueError):
    """A malformed problem or plan; the message gives the value and the expectation."""


def column(
    name: str, values: npt.ArrayLike, length: int | None = None, low: int = 0
) -> Ints:
    """Return a read-only int64 vector; raise unless integers >= low, of that length."""
    array = np.asarray(values)
    if array.size == 0:
        array = array.reshape(-1).astype(np.int64)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise InvalidProblem(
            f"{name} is {array.dtype} of {array.ndim} dimensions, "
            "expected integers of one dimension"
        )
    if length is not None and len(array) != length:
        raise InvalidProblem(f"{name} has length {len(array)}, expected {length}")
    if array.size and int(array.min()) < low:
        raise InvalidProblem(f"{name} holds {int(array.min())}, expected >= {low}")
    array = array.astype(np.int64)
    array.flags.writeable = False
    return array


def below(name: str, values: Ints, limit: int) -> None:
    """Raise unless all values are below the limit."""
    if values.size and int(values.max()) >= limit:
        raise InvalidProblem(f"{name} holds {int(values.max())}, expected < {limit}")


@dataclass(frozen=True, eq=False)
class SetSystem:
    """All sensitive sets of all properties, columnar (the paper's D_p).

    Attributes
    ----------
    n_entries : int
        Entries are 0 .. n_entries - 1.
    properties : tuple of str
        Name of each property (rule).
    measures : tuple of Measure
        Disclosure function of each property, of ``MEASURES``; sets of classes belong to
        a step.
    owner : int64 array, shape (sets,)
        Property of each set.
    start : int64 array, shape (sets + 1,)
        Members of set s are rows ``start[s]:start[s + 1]`` of the next two.
    entry : int64 array, shape (members,)
        Member entries; an entry is at most once in a set, and at most once in a class.
    amount : int64 array, shape (members,)
        Weighted set: the entry's integer weight, >= 0. Set of classes: the number of
        its class, from 0 without gaps.
    cap : int64 array, shape (sets,)
        Highest load that is allowed, >= 0 (from f < tau, exactly); ``NO_CAP`` without
        a limit.
    full : int64 array, shape (sets,)
        Load from which f is 1, >= 1: the size of a step set, k for "any k", the number
        of classes, the common denominator of the weights.
    classes : bool array, shape (sets,)
        Which sets are sets of classes.
    """

    n_entries: int
    properties: tuple[str, ...] = ()
    measures: tuple[Measure, ...] = ()
    owner: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    start: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    entry: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    amount: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    cap: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    full: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    classes: Bools = field(default_factory=lambda: np.empty(0, np.bool_))

    def __post_init__(self) -> None:
        if self.n_entries < 0:
            raise InvalidProblem(f"n_entries is {self.n_entries}, expected >= 0")
        if len(self.measures) != len(self.properties):
            raise InvalidProblem(
                f"sets.measures has length {len(self.measures)}, "
                f"expected {len(self.properties)}"
            )
        known = MEASURES.values()
        for measure in {id(m): m for m in self.measures}.values():  # few among many
            if measure not in known:
                raise InvalidProblem(
                    f"sets.measures holds {getattr(measure, 'name', measure)}, "
                    f"expected measures of MEASURES: {', '.join(MEASURES)}"
                )
        owner = column("sets.owner", self.owner)
        below("sets.owner", owner, len(self.properties))
        m = len(owner)
        start = column("sets.start", self.start, m + 1)
        entry = column("sets.entry", self.entry)
        below("sets.entry", entry, self.n_entries)
        columns = {
            "owner": owner,
            "start": start,
            "entry": entry,
            "amount": column("sets.amount", self.amount, len(entry)),
            "cap": column("sets.cap", self.cap, m),
            "full": column("sets.full", self.full, m, low=1),
        }
        for name, array in columns.items():
            object.__setattr__(self, name, array)
        classes = np.array(self.classes, dtype=np.bool_)
        if classes.shape != (m,):
            raise InvalidProblem(
                f"sets.classes has shape {classes.shape}, expected ({m},)"
            )
        classes.flags.writeable = False
        object.__setattr__(self, "classes", classes)
        self._check_shape()

    def _check_shape(self) -> None:
        """Raise unless the offsets rise and no set names an entry twice."""
        if int(self.start[0]) != 0 or int(self.start[-1]) != len(self.entry):
            raise InvalidProblem(
                f"sets.start runs from {int(self.start[0])} to {int(self.start[-1])}, "
                f"expected 0 to {len(self.entry)}"
            )
        if (np.diff(self.start) < 0).any():
            raise InvalidProblem("sets.start falls somewhere, expected it to rise")
        key = self.member_set * max(1, self.n_entries) + self.entry
        if self.classes.any():  # there an entry may stand once in each class
            classed = self.classes[self.member_set]
            place = np.where(classed, self.amount, 0)
            order = np.lexsort((place, key))
            same = (np.diff(key[order]) == 0) & (np.diff(place[order]) == 0)
            twice = key[order[1:][same]]
        else:
            key = np.sort(key)
            twice = key[1:][key[1:] == key[:-1]]
        if twice.size:
            bad = divmod(int(twice[0]), self.n_entries)
            raise InvalidProblem(
                f"set {bad[0]} names entry {bad[1]} twice, expected once"
            )
        if self.classes.any() and self.power[self.classes].any():
            raise InvalidProblem("a set of classes has a measure other than step")

    @property
    def n_sets(self) -> int:
        """Number of sets."""
        return len(self.owner)

    @property
    def power(self) -> Ints:
        """Power of each set's measure (0 for a step), shape (sets,)."""
        return np.array([m.power for m in self.measures], np.int64)[self.owner]

    @property
    def total(self) -> Ints:
        """Load of each whole set (of a set of classes: full), shape (sets,)."""
        total = np.zeros(self.n_sets, np.int64)
        np.add.at(total, self.member_set, self.amount)
        return np.where(self.classes, self.full, total)

    @property
    def step(self) -> Ints:
        """Steps in which the load of each set grows, shape (sets,), >= 1."""
        step = np.ones(self.n_sets, np.int64)
        filled = np.flatnonzero(np.diff(self.start) > 0)
        if len(filled):
            step[filled] = np.gcd.reduceat(self.amount, self.start[filled])
        return np.where(self.classes, 1, np.maximum(step, 1))

    @property
    def has_only_steps(self) -> bool:
        """Whether every property is disclosed whole or not at all."""
        return all(measure.is_step for measure in self.measures)

    @property
    def member_set(self) -> Ints:
        """The set of each member row, shape (members,)."""
        return np.repeat(np.arange(self.n_sets), np.diff(self.start))

    def by_entry(self) -> tuple[Ints, Ints]:
        """Return the member rows of each entry.

        Returns
        -------
        start : int64 array, shape (n_entries + 1,)
        row : int64 array, shape (members,)
            Rows ``start[d]:start[d + 1]`` are entry d's member rows, by set.
        """
        row = np.argsort(self.entry, kind="stable")
        count = np.bincount(self.entry, minlength=self.n_entries)
        start = np.concatenate([[0], np.cumsum(count)])
        return start.astype(np.int64), row.astype(np.int64)

    def members(self, one: int) -> Ints:
        """Entries of one set."""
        return self.entry[self.start[one] : self.start[one + 1]]

    def select(self, entries: Ints, sets: Ints) -> SetSystem:
        """Return these sets, over these entries renumbered 0, 1, ... in their order.

        ``entries`` must hold every member of ``sets``.
        """
        number = np.full(self.n_entries, -1, np.int64)
        number[entries] = np.arange(len(entries))
        size = np.diff(self.start)[sets]
        start = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
        rows = np.repeat(self.start[sets] - start[:-1], size) + np.arange(start[-1])
        return SetSystem(
            n_entries=len(entries),
            properties=self.properties,
            measures=self.measures,
            owner=self.owner[sets],
            start=start,
            entry=number[self.entry[rows]],
            amount=self.amount[rows],
            cap=self.cap[sets],
            full=self.full[sets],
            classes=self.classes[sets],
        )
