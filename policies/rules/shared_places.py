"""Sensitive sets of relation rules: the entries of both people of a link at one place.

There is one set for each link and each place at which both people have entries. It is
complete once an adversary holds an entry of each. For ``common`` this is the rule
itself. For ``cosine`` it is stricter than the rule: whoever completes no such set sees
a cosine of 0, in any order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.model.sets import Ints


@dataclass(frozen=True)
class PeoplePairs:
    """Links of one relation, as columns of equal length.

    Attributes
    ----------
    link, one, other : int64 array, shape (links,)
        Id of the link, and the numbers of its two people.
    """

    link: Ints
    one: Ints
    other: Ints

    def __post_init__(self) -> None:
        lengths = {len(self.link), len(self.one), len(self.other)}
        if len(lengths) > 1:
            raise ValueError(f"columns have lengths {lengths}, expected equal ones")


@dataclass(frozen=True)
class SharedPlaces:
    """Sets of (link, place), columnar; the members of a set are contiguous.

    Attributes
    ----------
    link : int64 array, shape (sets,)
    place : int64 array, shape (sets,)
    sizes : int64 array, shape (sets,)
    entry : int64 array, shape (members,)
    side : int64 array, shape (members,)
        0 if the entry belongs to the link's first person, 1 to the other.
    """

    link: Ints
    place: Ints
    sizes: Ints
    entry: Ints
    side: Ints


def shared_places(
    rows: Ints, person: Ints, place: Ints, pairs: PeoplePairs
) -> SharedPlaces:
    """Find all places at which both people of a link have entries.

    Parameters
    ----------
    rows : int64 array
        Entries that count.
    person, place : int64 array, shape (all entries,)
        -1 if an entry has none; such entries are at no place.
    pairs : PeoplePairs
    """
    rows = rows[(person[rows] >= 0) & (place[rows] >= 0)]
    spots = int(place.max(initial=0)) + 1
    key = person[rows] * spots + place[rows]
    order = np.argsort(key, kind="stable")
    rows, key = rows[order], key[order]
    group, start, size = np.unique(key, return_index=True, return_counts=True)
    owner = group // spots
    number, left = matched(owner, pairs.one)
    wanted = pairs.other[number] * spots + group[left] % spots
    right = np.minimum(np.searchsorted(group, wanted), max(0, len(group) - 1))
    met = group[right] == wanted if len(group) else np.zeros(0, np.bool_)
    number, left, right = number[met], left[met], right[met]
    sets = np.arange(len(number))
    of_set = np.concatenate([np.repeat(sets, size[g]) for g in (left, right)])
    entry = rows[np.concatenate([spread(start[g], size[g]) for g in (left, right)])]
    side = np.repeat([0, 1], [int(size[left].sum()), int(size[right].sum())])
    order = np.argsort(of_set, kind="stable")
    return SharedPlaces(
        link=pairs.link[number],
        place=group[left] % spots,
        sizes=size[left] + size[right],
        entry=entry[order],
        side=side[order].astype(np.int64),
    )


def matched(ordered: Ints, wanted: Ints) -> tuple[Ints, Ints]:
    """Find all rows of each wanted value in a sorted column.

    Returns
    -------
    number, row : int64 array, shape (found,)
        The index of the wanted value, and the row that has it.
    """
    first = np.searchsorted(ordered, wanted)
    count = np.searchsorted(ordered, wanted, side="right") - first
    return np.repeat(np.arange(len(wanted)), count), spread(first, count)


def spread(first: Ints, sizes: Ints) -> Ints:
    """Return the positions of all ranges, one range after the other."""
    if not len(first):
        return np.zeros(0, np.int64)
    offsets = np.cumsum(sizes) - sizes
    found: Ints = np.arange(int(sizes.sum())) + np.repeat(first - offsets, sizes)
    return found
