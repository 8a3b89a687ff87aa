"""Tabulated relation rules: tables and user functions over both ends of a link.

f depends on which fields of each end an adversary holds, never on their values. The
fields are called ``left.FIELD`` and ``right.FIELD``. A link has no direction, so f is
the higher of both directions. Fields of one end alone may already disclose something.

A table of worlds describes one record of each end. Whoever holds entries of two records
of one person knows what no column describes, so f counts as 1 then (count high, fail
closed). A user's function is called with fields of any records, as over a subject.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from policies.model.sets import Ints
from policies.policy import Property
from policies.rules.entry_table import EntryTable
from policies.rules.functions import InvalidFunction
from policies.rules.kinds import MOST_FIELDS, PLUGIN, LinkDisclosure
from policies.rules.link_rules import End, LinkRule
from policies.rules.shared_places import PeoplePairs, matched
from policies.rules.tabulated import FieldTable, check_complete, minimal_sets_past

LEFT: Final = "left."
RIGHT: Final = "right."
WHOLE: Final = LinkDisclosure(Fraction(1))


def both_ends(fields: Iterable[str]) -> list[str]:
    """Return the fields of a rule once for each end, sorted.

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
            "a relation: f is tabulated for every set of the fields of both ends"
        )
    return [end + name for end in (LEFT, RIGHT) for name in names]


def symmetric(table: FieldTable) -> dict[frozenset[str], Fraction]:
    """Return the higher f of each set and of the same set with both ends exchanged."""
    return {held: max(f, table[mirrored(held)]) for held, f in table.items()}


def mirrored(held: frozenset[str]) -> frozenset[str]:
    """Return the same fields with both ends exchanged."""
    return frozenset(
        RIGHT + name.removeprefix(LEFT)
        if name.startswith(LEFT)
        else LEFT + name.removeprefix(RIGHT)
        for name in held
    )


class TabulatedLinkRule(LinkRule):
    """A relation rule whose f is looked up by which fields of each end are held.

    What is held of a person is a mapping (record, field) -> 1.

    Attributes
    ----------
    single : bool
        Whether f counts as 1 once entries of two records of one person are held.
    alternatives : tuple of (tuple of str, tuple of str)
        The minimal fields of one end and of the other with f >= tau, each with its
        mirror: the sets that a plan keeps apart.
    """

    __slots__ = ("_table", "alternatives", "single")

    def __init__(self, prop: Property, table: FieldTable) -> None:
        super().__init__(prop)
        self._table = table
        self.single = self.kind != PLUGIN
        check_complete(table, both_ends(prop.fields))
        least = [] if prop.tau is None else minimal_sets_past(table, prop.tau)
        self.alternatives = tuple(
            sorted((_of_end(held, LEFT), _of_end(held, RIGHT)) for held in least)
        )

    def reached(self, one: End, other: End) -> LinkDisclosure:
        """Return f of one link, as its exact square."""
        if self.single and (_records(one) > 1 or _records(other) > 1):
            return WHOLE
        held = {LEFT + field for _, field in one}
        held |= {RIGHT + field for _, field in other}
        f = self._table[frozenset(held)]
        return LinkDisclosure(f * f)


def _of_end(held: Iterable[str], end: str) -> tuple[str, ...]:
    return tuple(sorted(n.removeprefix(end) for n in held if n.startswith(end)))


def _records(end: End) -> int:
    return len({record for record, _ in end})


def ends_held(
    held: Iterable[tuple[int, int, str]], fields: frozenset[str]
) -> dict[int, dict[tuple[int, str], int]]:
    """Group held entries by person.

    Parameters
    ----------
    held : iterable of (int, int, str)
        Person, record, field.
    fields : frozenset of str
        The rule's fields; others are ignored.
    """
    found: dict[int, dict[tuple[int, str], int]] = {}
    for person, record, field in held:
        if field in fields:
            found.setdefault(person, {})[record, field] = 1
    return found


@dataclass(frozen=True)
class SeparatedSets:
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
        Number of classes.
    full : int
        Number of classes of which an entry must be held for f >= tau.
    """

    alternative: int
    link: Ints
    sizes: Ints
    entry: Ints
    number: Ints
    classes: Ints
    full: int


def separated_sets(
    rule: TabulatedLinkRule, table: EntryTable, pairs: PeoplePairs
) -> Iterator[SeparatedSets]:
    """Yield all sets of a rule: whoever completes none keeps every link below tau.

    ``pairs`` has -1 for an end of which nothing is loaded.
    """
    for number, (left, right) in enumerate(rule.alternatives):
        yield _together(number, left, right, table, pairs)
    if rule.single and rule.tau is not None:
        yield _two_records(len(rule.alternatives), rule, table, pairs)


def _rows_of(names: Iterable[str], table: EntryTable) -> tuple[Ints, Ints]:
    """Return the entries with a subject in these fields, and the field of each."""
    rows, number = table.of_fields(names)
    owned = table.subject[rows] >= 0
    return rows[owned], number[owned]


def _together(
    alternative: int,
    left: tuple[str, ...],
    right: tuple[str, ...],
    table: EntryTable,
    pairs: PeoplePairs,
) -> SeparatedSets:
    """Return the sets of one alternative: an entry of each field of its end."""
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
    alternative: int, rule: TabulatedLinkRule, table: EntryTable, pairs: PeoplePairs
) -> SeparatedSets:
    """Return the sets of a linked person's records, of which only one may be seen."""
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
) -> SeparatedSets:
    """Group members by set, without sets of fewer than ``full`` classes."""
    span = int(number.max(initial=0)) + 1
    classes = np.bincount(
        np.unique(set_of * span + number) // span, minlength=len(link)
    )
    kept = np.flatnonzero(classes >= full)
    mine = np.flatnonzero(classes[set_of] >= full)
    mine = mine[np.argsort(set_of[mine], kind="stable")]
    return SeparatedSets(
        alternative=alternative,
        link=link[kept],
        sizes=np.bincount(set_of[mine], minlength=len(link))[kept],
        entry=entry[mine],
        number=number[mine],
        classes=classes[kept],
        full=full,
    )
