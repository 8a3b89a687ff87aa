"""Relation rules at the gate: what an adversary sees of each link.

A decision costs what the adversary holds of the people linked with the asked one: the
links are the properties that touch the entry. Every link of the asked person is judged,
so that one which is past its limit by an accepted join takes no further entry at all,
neither before nor after it: a cosine can fall, and what was seen stays seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dispatcher.ledger.standing import FieldStanding, InForce
from dispatcher.model import link_unit
from dispatcher.store import relations as rows
from dispatcher.store.ledger import EntryRow
from dispatcher.store.transaction import Tx
from policies.asks import Finding
from policies.document.links import Vector
from policies.relations import LinkRule, value, vectors, with_visit

Seen = list[tuple[int, str, str, int]]
Visit = tuple[int, int, int, str, int]
"""Adversary, subject, field, place and visits: a row of the summary."""

EMPTY: Vector = {}


@dataclass(frozen=True)
class Around:
    """What an adversary holds of an asked entry's person and of those linked with it.

    Attributes
    ----------
    rule : LinkRule
    before, after : Vector
        Of the person, without and with the asked entry.
    friends : tuple of Vector
        Of those linked with the person of whom anything is held.
    """

    rule: LinkRule
    before: Vector
    after: Vector
    friends: tuple[Vector, ...]

    def finding(self) -> Finding:
        """What the rule says of the ask."""
        rule = self.rule
        before = rule.worst(self.before, self.friends)
        after = rule.worst(self.after, self.friends)
        refused = rule.past(before) or rule.past(after)
        worst = max(before, after, key=lambda f: f.square) if refused else after
        return Finding(
            rule.name, rule.scope, value(before), value(worst), rule.tau, refused
        )

    def change(self) -> Fraction:
        """What the entry adds to the sum of f over the links."""
        total = Fraction(0)
        for other in self.friends:
            total += value(self.rule.reached(self.after, other))
            total -= value(self.rule.reached(self.before, other))
        return total


def around(
    tx: Tx,
    force: InForce,
    entry: EntryRow,
    adversary_id: int,
    *,
    held: bool,
    more: Sequence[Visit] = (),
) -> list[Around]:
    """Read what the relation rules that look at an entry need to judge it.

    ``held`` says that the adversary holds the entry: then it adds nothing. ``more`` are
    visits of the adversary that are granted, and not in the summary yet.
    """
    field = force.fields[entry.field_id]
    if not field.links or entry.subject_id is None:
        return []
    place, visits = (None, 0) if held else rows.place_of(tx, entry.id)
    person = entry.subject_id
    found = []
    of_relation: dict[str, tuple[list[int], Seen]] = {}
    for rule in field.links:
        if rule.relation not in of_relation:
            others = rows.friends(tx, rule.relation, person)
            near = {person, *others}
            told = [*rows.visits(tx, adversary_id, sorted(near))]
            told += [visit[1:] for visit in more if visit[1] in near]
            of_relation[rule.relation] = others, list(named(force, told))
        others, seen = of_relation[rule.relation]
        of = vectors(seen, rule.fields)
        mine = of.get(person, EMPTY)
        friends = tuple(of[other] for other in others if other in of)
        found.append(Around(rule, mine, with_visit(mine, place, visits), friends))
    return found


def named(
    force: InForce, told: Iterable[tuple[Any, ...]]
) -> Iterator[tuple[int, str, str, int]]:
    """Rows (person, field, place, visits) with the field's name, of this version."""
    names = force.numbered
    for person, number, place, visits in told:
        if number in names:
            yield person, names[number], str(place), visits


def findings(seen: list[Around], trusted: frozenset[str]) -> tuple[Finding, ...]:
    """What every relation rule says that is judged for the adversary."""
    return tuple(a.finding() for a in seen if a.rule.name not in trusted)


def visit_of(
    tx: Tx, field: FieldStanding, entry: EntryRow, adversary_id: int
) -> list[Visit]:
    """What one showing adds to the summary of visits."""
    if not field.links or entry.subject_id is None:
        return []
    place, visits = rows.place_of(tx, entry.id)
    if place is None:
        return []
    return [(adversary_id, entry.subject_id, entry.field_id, place, visits)]


def past_links(
    tx: Tx, force: InForce, adversary_id: int, trusted: frozenset[str]
) -> list[tuple[str, int]]:
    """Links of which an adversary sees too much: (property, unit id).

    Grows with the links: for changes of policy and of membership, never for a booking.
    """
    rules = [r for r in force.rules.links.values() if r.name not in trusted]
    if not rules:
        return []
    seen = list(named(force, rows.all_visits(tx, adversary_id)))
    found = []
    for rule in rules:
        of = vectors(seen, rule.fields)
        for number, one, other in rows.links(tx, rule.relation):
            if (
                one in of
                and other in of
                and rule.past(rule.reached(of[one], of[other]))
            ):
                found.append((rule.name, link_unit(number)))
    return found


def count_and_sums(
    tx: Tx, force: InForce, rule: LinkRule
) -> tuple[int, Mapping[int, Fraction]]:
    """How many links could disclose something, and each adversary's sum of f over them.

    A cosine that is no fraction goes in rounded up to 10^-18: a mean is never told below
    what it is. Grows with what is loaded.
    """
    numbers = [force.field_ids[name] for name in sorted(rule.fields)]
    known = vectors(named(force, rows.known_visits(tx, numbers)), rule.fields)
    links = [
        (one, other)
        for _, one, other in rows.links(tx, rule.relation)
        if rule.reached(known.get(one, EMPTY), known.get(other, EMPTY)).square > 0
    ]
    sums: dict[int, Fraction] = {}
    for adversary in rows.adversaries(tx):
        of = vectors(named(force, rows.all_visits(tx, adversary)), rule.fields)
        total = Fraction(0)
        for one, other in links:
            if one in of and other in of:
                total += value(rule.reached(of[one], of[other]))
        if total:
            sums[adversary] = total
    return len(links), sums
