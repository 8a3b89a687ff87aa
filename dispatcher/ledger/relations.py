"""Relation rules at the gate: what an adversary learns of each link.

The cost of a decision grows with what the adversary holds of the people linked with the
asked one: the links are the properties that touch the entry. Every link of the asked
person is judged both without and with the entry, so that a link which an accepted join
put past its limit admits no further entry: a cosine can fall, but what was seen stays
seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

from dispatcher.ledger.active_policy import ActivePolicy, FieldPolicy
from dispatcher.model import link_unit
from dispatcher.store import relations as rows
from dispatcher.store.ledger import GateEntry
from dispatcher.store.transaction import Tx
from policies.rules.asks import Finding
from policies.rules.link_rules import End, LinkRule, value, vectors, with_visit
from policies.rules.tabulated_links import TabulatedLinkRule, ends_held

Seen = list[tuple[int, str, str, int]]
Held = list[tuple[int, int, str]]
Visit = tuple[int, int, int, str, int]
"""A row of the summary: adversary, subject, field, place and visits."""

EMPTY: End = {}


@dataclass(frozen=True)
class Granted:
    """Grants to an adversary that are not in the summaries yet, by person.

    An ask reads only the people around it, however many were granted before it.
    """

    visits: dict[int, list[Visit]] = field(default_factory=lambda: defaultdict(list))
    entries: dict[int, list[GateEntry]] = field(
        default_factory=lambda: defaultdict(list)
    )


NONE: Final = Granted()


@dataclass(frozen=True)
class Around:
    """What an adversary holds of an asked entry's person and of those linked with it.

    Attributes
    ----------
    rule : LinkRule
    before, after : End
        Of the person, without and with the asked entry.
    friends : tuple of End
        Of those linked with the person; for a rule of places only those of whom
        something is held.
    """

    rule: LinkRule
    before: End
    after: End
    friends: tuple[End, ...]

    def finding(self) -> Finding:
        """Return the rule's finding on the ask."""
        rule = self.rule
        before = rule.worst(self.before, self.friends)
        after = rule.worst(self.after, self.friends)
        refused = rule.past(before) or rule.past(after)
        worst = max(before, after, key=lambda f: f.square) if refused else after
        return Finding(
            rule.name, rule.scope, value(before), value(worst), rule.tau, refused
        )

    def change(self) -> Fraction:
        """Return what the entry adds to the sum of f over the links."""
        total = Fraction(0)
        for other in self.friends:
            total += value(self.rule.reached(self.after, other))
            total -= value(self.rule.reached(self.before, other))
        return total


def around(
    tx: Tx,
    force: ActivePolicy,
    entry: GateEntry,
    adversary_id: int,
    *,
    held: bool,
    granted: Granted = NONE,
) -> list[Around]:
    """Read what the relation rules on an entry need to judge it.

    ``held``: the adversary already holds the entry, so that it adds nothing.
    """
    field = force.fields[entry.field_id]
    if not field.links or entry.subject_id is None:
        return []
    unplaced = held or not field.placed
    place = None if unplaced else entry.place
    asked = {} if held else {(entry.record_id, force.fields[entry.field_id].name): 1}
    person = entry.subject_id
    found = []
    of_relation: dict[str, tuple[list[int], Seen]] = {}
    of_mates: dict[str, tuple[list[int | None], Held]] = {}
    for rule in field.links:
        if isinstance(rule, TabulatedLinkRule):
            if rule.relation not in of_mates:
                mates = rows.mates(tx, rule.relation, person)
                people = {person, *(mate for mate in mates if mate is not None)}
                fields = _held_of(tx, adversary_id, people, granted)
                of_mates[rule.relation] = mates, list(_fields_named(force, fields))
            found.append(_told(rule, person, asked, *of_mates[rule.relation]))
            continue
        if rule.relation not in of_relation:
            others = rows.friends(tx, rule.relation, person)
            near = {person, *others}
            visit_rows = [*rows.visits(tx, adversary_id, sorted(near))]
            for one in near & granted.visits.keys():
                visit_rows += [visit[1:] for visit in granted.visits[one]]
            of_relation[rule.relation] = others, list(named(force, visit_rows))
        others, seen = of_relation[rule.relation]
        of = vectors(seen, rule.fields)
        mine = of.get(person, EMPTY)
        friends = tuple(of[other] for other in others if other in of)
        found.append(
            Around(rule, mine, with_visit(mine, place, entry.visits or 0), friends)
        )
    return found


def _held_of(
    tx: Tx, adversary_id: int, people: set[int], granted: Granted
) -> Iterator[tuple[Any, ...]]:
    """Yield what an adversary holds of people: (person, record, field)."""
    yield from rows.held_of(tx, adversary_id, sorted(people))
    for person in people & granted.entries.keys():
        for entry in granted.entries[person]:
            yield person, entry.record_id, entry.field_id


def _told(
    rule: TabulatedLinkRule,
    person: int,
    asked: End,
    mates: Sequence[int | None],
    fields: Held,
) -> Around:
    """Read what a tabulated rule needs.

    Nobody holds anything of people who are not loaded, but they may be linked.
    """
    of = ends_held(fields, rule.fields)
    mine = of.get(person, EMPTY)
    friends = tuple(EMPTY if mate is None else of.get(mate, EMPTY) for mate in mates)
    return Around(rule, mine, {**mine, **asked}, friends)


def _fields_named(
    force: ActivePolicy, rows_: Iterable[tuple[Any, ...]]
) -> Iterator[tuple[int, int, str]]:
    """Yield rows (person, record, field) with this version's field names."""
    names = force.numbered
    for person, record, number in rows_:
        if number in names:
            yield person, record, names[number]


def named(
    force: ActivePolicy, rows_: Iterable[tuple[Any, ...]]
) -> Iterator[tuple[int, str, str, int]]:
    """Yield rows (person, field, place, visits) with this version's field names."""
    names = force.numbered
    for person, number, place, visits in rows_:
        if number in names:
            yield person, names[number], str(place), visits


def visit_of(field: FieldPolicy, entry: GateEntry, adversary_id: int) -> list[Visit]:
    """Return what one showing adds to the summary of visits."""
    person, place, visits = entry.subject_id, entry.place, entry.visits
    if not field.placed or person is None or place is None or visits is None:
        return []
    return [(adversary_id, person, entry.field_id, place, visits)]


def past_links(
    tx: Tx, force: ActivePolicy, adversary_id: int, trusted: frozenset[str]
) -> list[tuple[str, int]]:
    """Find the links of which an adversary sees too much: (property, unit id).

    Grows with the links: for changes of policy and of membership, never for a booking.
    """
    rules = [r for r in force.rules.links.values() if r.name not in trusted]
    found = []
    read = _AllHeld(tx, force, adversary_id)
    for rule in rules:
        of = read.ends(rule)
        for number, one, other in _links(tx, rule):
            if (one in of or other in of) and rule.past(
                rule.reached(of.get(one, EMPTY), of.get(other, EMPTY))
            ):
                found.append((rule.name, link_unit(number)))
    return found


@dataclass(frozen=True)
class _AllHeld:
    """All that an adversary holds; each kind is read once, on demand."""

    tx: Tx
    force: ActivePolicy
    adversary_id: int

    @cached_property
    def fields(self) -> Held:
        return list(
            _fields_named(self.force, rows.all_held(self.tx, self.adversary_id))
        )

    @cached_property
    def visits(self) -> Seen:
        return list(named(self.force, rows.all_visits(self.tx, self.adversary_id)))

    def ends(self, rule: LinkRule) -> Mapping[int, End]:
        """Return what is held by person, as the rule reads it."""
        if isinstance(rule, TabulatedLinkRule):
            return ends_held(self.fields, rule.fields)
        return vectors(self.visits, rule.fields)


def _links(tx: Tx, rule: LinkRule) -> Iterator[tuple[int, int, int]]:
    """Yield the links that a rule judges: (id, one, other)."""
    tabulated = isinstance(rule, TabulatedLinkRule)
    return (rows.half_links if tabulated else rows.links)(tx, rule.relation)


def count_and_sums(
    tx: Tx, force: ActivePolicy, rule: LinkRule
) -> tuple[int, Mapping[int, Fraction]]:
    """Count the links that could disclose something; sum f over them by adversary.

    An irrational cosine is rounded up to a multiple of 10^-18: an average is never
    underestimated. Grows with what is loaded.
    """
    numbers = [force.field_ids[name] for name in sorted(rule.fields)]
    known: Mapping[int, End]
    if isinstance(rule, TabulatedLinkRule):
        loaded = _fields_named(force, rows.known_of(tx, numbers))
        known, who = ends_held(loaded, rule.fields), rows.holders(tx)
    else:
        visited = named(force, rows.known_visits(tx, numbers))
        known, who = vectors(visited, rule.fields), rows.adversaries(tx)
    links = [
        (one, other)
        for _, one, other in _links(tx, rule)
        if rule.reached(known.get(one, EMPTY), known.get(other, EMPTY)).square > 0
    ]
    sums: dict[int, Fraction] = {}
    for adversary in who:
        of = _AllHeld(tx, force, adversary).ends(rule)
        total = Fraction(0)
        for one, other in links:
            if one in of or other in of:
                reached = rule.reached(of.get(one, EMPTY), of.get(other, EMPTY))
                total += value(reached)
        if total:
            sums[adversary] = total
    return len(links), sums
