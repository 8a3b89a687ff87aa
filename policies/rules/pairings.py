"""Relation rules told set by set: tables and user functions over both ends of a link.

What matters is which fields of each end one adversary holds, never which values. They
are called ``left.FIELD`` and ``right.FIELD``; a link has no direction, so f is the higher
of both ways round. It may rise by one end alone, of whom nothing else is held.

A table tells of one record of each end. Who holds entries of two records of one person
knows what no column tells, and there f counts as 1 (design: count high, fail closed). A
user's function is asked for fields, of whichever records, as over a subject.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from policies.model.sets import Ints
from policies.policy import Kind, Property
from policies.rules.encounters import PeoplePairs, matched
from policies.rules.entries import EntryTable
from policies.rules.functions import InvalidFunction
from policies.rules.kinds import MOST_FIELDS, Reached
from policies.rules.levels import Levels, check_told, least_past
from policies.rules.relations import End, LinkRule

LEFT: Final = "left."
RIGHT: Final = "right."
WHOLE: Final = Reached(Fraction(1))


def both_ends(fields: Iterable[str]) -> list[str]:
    """Name the fields of a rule once for each end, sorted.

    Raises
    ------
    InvalidFunction
        There are more than ``MOST_FIELDS / 2``.

    Examples
    --------
    >>> both_ends(["zip", "age"])
    ['left.age', 'left.zip', 'right.age', 'right.zip']
    """
    names = sorted(set(fields))
    if 2 * len(names) > MOST_FIELDS:
        raise InvalidFunction(
            f"the rule has {len(names)} fields, expected at most {MOST_FIELDS // 2} over "
            "a relation: f is told for every set of the fields of both ends"
        )
    return [end + name for end in (LEFT, RIGHT) for name in names]


def either_way(levels: Levels) -> dict[frozenset[str], Fraction]:
    """The higher f of a set and of the same set seen from the other end."""
    return {held: max(f, levels[mirrored(held)]) for held, f in levels.items()}


def mirrored(held: frozenset[str]) -> frozenset[str]:
    """The same fields, the ends exchanged."""
    return frozenset(
        RIGHT + name.removeprefix(LEFT)
        if name.startswith(LEFT)
        else LEFT + name.removeprefix(RIGHT)
        for name in held
    )


class ToldLink(LinkRule):
    """A relation rule whose f is looked up by which fields of each end are held.

    What is held of a person is a mapping (record, field) -> 1.

    Attributes
    ----------
    single : bool
        Whether f counts as 1 once entries of two records of one person are held.
    alternatives : tuple of (tuple of str, tuple of str)
        The smallest fields of one end, and of the other, with f >= tau; what a plan
        keeps apart. With each its mirror.
    """

    __slots__ = ("_levels", "alternatives", "single")

    def __init__(self, prop: Property, levels: Levels) -> None:
        super().__init__(prop)
        self._levels = levels
        self.single = self.kind is not Kind.PLUGIN
        check_told(levels, both_ends(prop.fields))
        least = [] if prop.tau is None else least_past(levels, prop.tau)
        self.alternatives = tuple(
            sorted((_of_end(held, LEFT), _of_end(held, RIGHT)) for held in least)
        )

    def reached(self, one: End, other: End) -> Reached:
        """F of one link, as its exact square."""
        if self.single and (_records(one) > 1 or _records(other) > 1):
            return WHOLE
        held = {LEFT + field for _, field in one}
        held |= {RIGHT + field for _, field in other}
        f = self._levels[frozenset(held)]
        return Reached(f * f)


def _of_end(held: Iterable[str], end: str) -> tuple[str, ...]:
    return tuple(sorted(n.removeprefix(end) for n in held if n.startswith(end)))


def _records(end: End) -> int:
    return len({record for record, _ in end})


def ends_held(
    held: Iterable[tuple[int, int, str]], fields: frozenset[str]
) -> dict[int, dict[tuple[int, str], int]]:
    """Bring held entries together by person.

    Parameters
    ----------
    held : iterable of (int, int, str)
        Person, record, field.
    fields : frozenset of str
        The rule's; others are left out.
    """
    found: dict[int, dict[tuple[int, str], int]] = {}
    for person, record, field in held:
        if field in fields:
            found.setdefault(person, {})[record, field] = 1
    return found


@dataclass(frozen=True)
class Apart:
    """Sets of classes of entries that must not come together, columnar.

    Attributes
    ----------
    alternative : int
        Index into the rule's ``alternatives``; their number for sets of records.
    link : int64 array, shape (sets,)
    sizes : int64 array, shape (sets,)
    entry, number : int64 array, shape (members,)
        Members of the sets one after another, and the class of each.
    classes : int64 array, shape (sets,)
        How many classes there are.
    full : int
        Classes of which an entry is held when f is past tau.
    """

    alternative: int
    link: Ints
    sizes: Ints
    entry: Ints
    number: Ints
    classes: Ints
    full: int


def kept_apart(
    rule: ToldLink, table: EntryTable, pairs: PeoplePairs
) -> Iterator[Apart]:
    """Make all sets of a rule: whoever completes none keeps every link below tau.

    ``pairs`` names -1 for an end of whom nothing is loaded.
    """
    for number, (left, right) in enumerate(rule.alternatives):
        yield _together(number, left, right, table, pairs)
    if rule.single and rule.tau is not None:
        yield _two_records(len(rule.alternatives), rule, table, pairs)


def _rows_of(names: Iterable[str], table: EntryTable) -> tuple[Ints, Ints]:
    """Entries of somebody's in these fields, and which field of them each is in."""
    rows, number = table.of_fields(names)
    owned = table.subject[rows] >= 0
    return rows[owned], number[owned]


def _together(
    alternative: int,
    left: tuple[str, ...],
    right: tuple[str, ...],
    table: EntryTable,
    pairs: PeoplePairs,
) -> Apart:
    """Sets of one alternative: an entry of each field of its end."""
    link, entry, number = [], [], []
    sides = ((left, pairs.one, 0), (right, pairs.other, len(left)))
    for names, people, classes_before in sides:
        rows, classes = _rows_of(names, table)
        order = np.argsort(table.subject[rows], kind="stable")
        owner = table.subject[rows[order]]
        of_link, row = matched(owner, people)
        at = order[row]
        link.append(of_link)
        entry.append(rows[at])
        number.append(classes[at] + classes_before)
    whole = len(left) + len(right)
    members = (np.concatenate(column) for column in (link, entry, number))
    return _grouped(alternative, whole, pairs.link, *members)


def _two_records(
    alternative: int, rule: ToldLink, table: EntryTable, pairs: PeoplePairs
) -> Apart:
    """Sets of a linked person's records, of which one alone may be seen."""
    people, first = np.unique(np.r_[pairs.one, pairs.other], return_index=True)
    rows, _ = _rows_of(rule.fields, table)
    rows = rows[np.isin(table.subject[rows], people)]
    rows = rows[np.lexsort((table.record[rows], table.subject[rows]))]
    subject, record = table.subject[rows], table.record[rows]
    fresh = np.r_[True, record[1:] != record[:-1]][: len(rows)]
    counted = np.cumsum(fresh) - 1
    begins = np.searchsorted(subject, subject)
    number = counted - counted[begins]
    set_of = np.searchsorted(people, subject)
    link = np.r_[pairs.link, pairs.link][first]
    return _grouped(alternative, 2, link, set_of, rows, number)


def _grouped(
    alternative: int,
    full: int,
    link: Ints,
    set_of: Ints,
    entry: Ints,
    number: Ints,
) -> Apart:
    """Put members together by set; leave out sets with fewer than ``full`` classes."""
    span = int(number.max(initial=0)) + 1
    classes = np.bincount(
        np.unique(set_of * span + number) // span, minlength=len(link)
    )
    kept = np.flatnonzero(classes >= full)
    mine = np.flatnonzero(classes[set_of] >= full)
    mine = mine[np.argsort(set_of[mine], kind="stable")]
    return Apart(
        alternative=alternative,
        link=link[kept],
        sizes=np.bincount(set_of[mine], minlength=len(link))[kept],
        entry=entry[mine],
        number=number[mine],
        classes=classes[kept],
        full=full,
    )
