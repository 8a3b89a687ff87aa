"""Links: properties over the entries of two users at places (cosine and common).

A link is a sensitive relation of two users, each with entries (place, count). The
similarity of what an adversary holds of both is ``COSINE``, the paper's measure of
their two count vectors (section 5), or ``COMMON``, which is 1 as soon as they share one
place. Links are judged with integers. Roots are rounded up, and only to show or sum
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from fractions import Fraction
from functools import cached_property
from math import isqrt
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from policies.model.measures import Measure
from policies.model.sets import Bools, Ints, InvalidProblem, SetSystem, below, column

ROOT: Final = 10**18
"""Roots are rounded up to a multiple of 1 / ROOT."""

ROUGH: Final = 2**24 - 1
"""Largest count by which a search ranks plans."""

Counts = npt.NDArray[Any]
"""Integers >= 0: int64 while sums of their products fit it, else Python's (object)."""


class LinkMeasure(IntEnum):
    """How f follows from what is held of both ends of a link."""

    COMMON = 0  # f = 1 if both ends are held at a common place, else 0
    COSINE = 1  # f = cosine of the two vectors of counts by place (paper, section 5)


def _empty_column() -> Ints:
    return np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Links:
    """All links, columnar.

    Attributes
    ----------
    relation : Relation
    place : int64 array, shape (n entries,)
        Place of each entry.
    count : int64 or object array, shape (n entries,)
        Number of visits, an integer >= 0 of any size.
    link, entry, side : int64 array, shape (members,)
        Entry ``entry`` belongs to end ``side`` (0 left, 1 right) of ``link``. A place
        is at most once at one end; an entry may be in many links.
    n_links : int
        Links without members disclose nothing.
    tau, mean_tau, aggregate_tau : Fraction or None
        Limits: f < tau for each link and observer; mean f < mean_tau for each observer; the
        goal's aggregate < aggregate_tau.
    """

    relation: LinkMeasure
    place: Ints
    count: Counts
    link: Ints = field(default_factory=_empty_column)
    entry: Ints = field(default_factory=_empty_column)
    side: Ints = field(default_factory=_empty_column)
    n_links: int = 0
    tau: Fraction | None = None
    mean_tau: Fraction | None = None
    aggregate_tau: Fraction | None = None

    def __post_init__(self) -> None:
        place = column("links.place", self.place)
        entry = column("links.entry", self.entry)
        columns = {
            "place": place,
            "count": _counts(self.count, len(place)),
            "link": column("links.link", self.link, len(entry)),
            "entry": entry,
            "side": column("links.side", self.side, len(entry)),
        }
        below("links.entry", entry, len(place))
        below("links.side", columns["side"], 2)
        below("links.link", columns["link"], self.n_links)
        for name, array in columns.items():
            object.__setattr__(self, name, array)
        keys = np.stack([self.link, self.side, self.place[self.entry]])
        order = np.lexsort(keys[::-1])
        ranked = keys[:, order]
        twice = np.flatnonzero((ranked[:, 1:] == ranked[:, :-1]).all(axis=0))
        if twice.size:
            link, side, spot = ranked[:, twice[0]].tolist()
            raise InvalidProblem(
                f"link {link} names place {spot} twice at end {side}, expected once: "
                "add the counts up"
            )

    @property
    def limited(self) -> bool:
        """Whether a limit applies to the links."""
        taus = (self.tau, self.mean_tau, self.aggregate_tau)
        return any(tau is not None for tau in taus)

    @cached_property
    def rough(self) -> Ints:
        """Counts of at most ``ROUGH`` for searches, shape (n entries,).

        Larger counts are scaled down together and rounded up, so that only 0 becomes 0.
        They rank plans; the judge uses ``count``.
        """
        top = int(self.count.max(initial=0))
        if top <= ROUGH:
            return self.count.astype(np.int64)
        scaled = [-(-count * ROUGH // top) for count in self.count.tolist()]
        return np.array(scaled, np.int64)

    def select(self, entries: Ints) -> Links:
        """Return the links over these entries alone, renumbered."""
        number = np.full(len(self.place), -1, np.int64)
        number[entries] = np.arange(len(entries))
        kept = number[self.entry] >= 0
        return replace(
            self,
            place=self.place[entries],
            count=self.count[entries],
            link=self.link[kept],
            entry=number[self.entry[kept]],
            side=self.side[kept],
        )

    def among(self, rows: Bools) -> Links:
        """Return the links with these member rows only; links keep their numbers."""
        return replace(
            self, link=self.link[rows], entry=self.entry[rows], side=self.side[rows]
        )

    def conflicts(self) -> tuple[Ints, Ints, Ints]:
        """Find the pairs of entries that together disclose something.

        Returns
        -------
        link, left, right : int64 array, shape (conflicts,)
            Entries at a common place at the two ends of ``link``, both with counts > 0;
            by link. A link of an entry with itself gives ``left == right``.
        """
        live = np.flatnonzero(self.count[self.entry] > 0)
        left, right = (live[self.side[live] == end] for end in (0, 1))
        spots = int(self.place.max(initial=0)) + 1
        one, two = (
            self.link[rows] * spots + self.place[self.entry[rows]]
            for rows in (left, right)
        )
        _, at, to = np.intersect1d(one, two, assume_unique=True, return_indices=True)
        found = left[at], right[to]
        return self.link[found[0]], self.entry[found[0]], self.entry[found[1]]


def _counts(values: npt.ArrayLike, length: int) -> Counts:
    """Return a read-only vector of counts; raise unless integers >= 0, of that length."""
    array = np.asarray(values)
    if array.dtype != np.object_:
        array = column("links.count", array, length)
    elif array.shape != (length,) or not all(
        type(count) is int and count >= 0 for count in array.tolist()
    ):
        raise InvalidProblem(f"links.count is not {length} integers >= 0")
    top = int(array.max(initial=0))
    array = array.astype(np.int64 if top * top * length < 2**63 else np.object_)
    array.flags.writeable = False
    return array


@dataclass(frozen=True)
class LinkSimilarity:
    """How similar a link's ends look to one observer: cosine = dot / sqrt(square)."""

    link: int
    observer: int
    dot: int
    square: int

    def share(self, relation: LinkMeasure) -> Fraction:
        """Disclosure f, 0 <= f <= 1; a cosine is rounded up to 10^-18."""
        if relation is LinkMeasure.COMMON:
            return Fraction(int(self.dot > 0))
        return root_up(Fraction(self.dot**2, self.square))


def root_up(value: Fraction) -> Fraction:
    """Return the square root of a number >= 0, rounded up to a multiple of 10^-18."""
    scaled = value.numerator * ROOT * ROOT
    floor = isqrt(scaled // value.denominator)
    exact = floor * floor * value.denominator == scaled
    return Fraction(floor if exact else floor + 1, ROOT)


def above_level(alike: LinkSimilarity, relation: LinkMeasure, level: Fraction) -> bool:
    """Whether f > level >= 0, exactly: cosines are compared by their squares."""
    if relation is LinkMeasure.COMMON:
        return int(alike.dot > 0) > level
    return Fraction(alike.dot**2, alike.square) > level * level


def below_limit(alike: LinkSimilarity, relation: LinkMeasure, tau: Fraction) -> bool:
    """Whether f < tau, exactly: cosines are compared by their squares."""
    if relation is LinkMeasure.COMMON:
        return int(alike.dot > 0) < tau
    return tau > 0 and Fraction(alike.dot**2, alike.square) < tau * tau


def link_similarities(
    links: Links, entry: Ints, observer: Ints
) -> Iterator[LinkSimilarity]:
    """Compute from scratch each observer's similarity of each link, where dot > 0.

    Parameters
    ----------
    links : Links
    entry, observer : int64 array, shape (held,)
        What is held, each pair once.
    """
    start = np.searchsorted(np.sort(links.entry), np.arange(len(links.place) + 1))
    by_entry = np.argsort(links.entry, kind="stable")
    times = (start[1:] - start[:-1])[entry]
    held = np.repeat(np.arange(len(entry)), times)
    offset = np.repeat(start[:-1][entry] - np.cumsum(times) + times, times)
    row = by_entry[offset + np.arange(len(held))]
    width = int(observer.max(initial=0)) + 1
    owner = links.link[row] * width + observer[held]
    count = links.count[links.entry[row]]
    keys, group = np.unique(owner, return_inverse=True)
    squares = np.zeros((len(keys), 2), count.dtype)
    np.add.at(squares, (group, links.side[row]), count * count)
    dots = np.zeros(len(keys), count.dtype)
    spot = links.place[links.entry[row]]
    order = np.lexsort((links.side[row], spot, group))
    met = (np.diff(group[order]) == 0) & (np.diff(spot[order]) == 0)
    first = np.flatnonzero(met)
    np.add.at(dots, group[order[first]], count[order[first]] * count[order[first + 1]])
    for one in np.flatnonzero(dots).tolist():
        link, holder = divmod(int(keys[one]), width)
        square = int(squares[one, 0]) * int(squares[one, 1])
        yield LinkSimilarity(link, holder, int(dots[one]), square)


def conflict_sets(links: Links) -> SetSystem:
    """Return the pairs of entries that together disclose a link, as step sets.

    Each pair is one set, owned by its first link. f = 0 for all links if and only if no
    observer holds such a pair (with a cosine that is 0 for empty vectors).
    """
    link, left, right = links.conflicts()
    ends = np.stack([np.minimum(left, right), np.maximum(left, right)], axis=1)
    ends, first = np.unique(ends, axis=0, return_index=True)
    lone = ends[:, 0] == ends[:, 1]
    size = np.where(lone, 1, 2)
    kept = np.ones(2 * len(ends), np.bool_)
    kept[1::2] = ~lone
    return SetSystem(
        n_entries=len(links.place),
        properties=_property_names(links),
        measures=(Measure.STEP,) * links.n_links,
        owner=link[first],
        start=np.concatenate([[0], np.cumsum(size)]),
        entry=ends.reshape(-1)[kept],
        amount=np.ones(int(kept.sum()), np.int64),
        cap=size - 1,
        full=size,
        classes=np.zeros(len(ends), np.bool_),
    )


def _property_names(links: Links) -> tuple[str, ...]:
    return tuple(f"property {i}" for i in range(links.n_links))


def links_by_set(
    sets: SetSystem, links: Links, chosen: Iterable[int]
) -> dict[int, list[int]]:
    """Return all links that each of these conflict sets discloses; {} for other sets."""
    if sets.properties != _property_names(links):
        return {}
    link, left, right = links.conflicts()
    width = len(links.place)
    key = np.minimum(left, right) * width + np.maximum(left, right)
    order = np.argsort(key, kind="stable")
    key, link = key[order], link[order]
    found = {}
    for one in chosen:
        ends = sets.entry[sets.start[one] : sets.start[one + 1]]
        wanted = int(ends.min()) * width + int(ends.max())
        first, stop = np.searchsorted(key, [wanted, wanted + 1])
        found[one] = link[first:stop].tolist()
    return found
