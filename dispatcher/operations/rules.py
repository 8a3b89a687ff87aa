"""Rules: which sets are nearest to a limit, who holds what of one, and what is refused next.

A set is what a rule judges together: fields of one record, or of all records of one
person. Names of records and people are their pseudonyms; no value is read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from dispatcher.core.errors import NotFound
from dispatcher.ledger.active_policy import ActivePolicy, current_policy
from dispatcher.ledger.limit_usage import LimitUsage, LimitUsages, nearest_of
from dispatcher.ledger.lines import adversary_name
from dispatcher.store import Store, Tx, exposure_counts, exposure_queries, statistics
from policies.policy import Property, Scope
from policies.rules.record_rules import Rule

LOOKED_AT: Final = 25
"""Adversaries, the nearest to the limit, whose sets are looked at."""
SETS: Final = 200
"""Sets that are listed."""
ENTRIES: Final = 500
"""Entries of a set that are shown."""


@dataclass(frozen=True)
class NearSet:
    """One set as one worker sees it.

    Attributes
    ----------
    unit : str
        Pseudonym of the record or person.
    worker : str
    f : Fraction
    left : int or None
        Fields that may be shown until the last of them is refused; None: none is.
    """

    unit: str
    worker: str
    f: Fraction
    left: int | None


@dataclass(frozen=True)
class RuleSets:
    """A rule, and its sets nearest to the limit.

    Attributes
    ----------
    rule : Property
    judged : bool
        Whether the gate keeps counts for it; else it judges when it is asked.
    workers, pairs, crossed : int
        Workers that hold something that it judges; of how many sets, each counted for
        each worker; and workers at or past the limit.
    nearest : sequence of NearSet
        Of the workers that are nearest.
    """

    rule: Property
    judged: bool
    workers: int
    pairs: int
    crossed: int
    nearest: Sequence[NearSet]


@dataclass(frozen=True)
class Rung:
    """One entry of a set: its record and field, its state, and who was shown it."""

    record: str
    field: str
    state: str
    holders: frozenset[str]


@dataclass(frozen=True)
class SetHolder:
    """What one worker holds of a set.

    Attributes
    ----------
    worker : str
    accounts : tuple of str
    held : int
        Entries.
    f, after : Fraction
        Now, and after the entry that would tell most.
    left : int or None
    refused : frozenset of (str, str)
        Record and field of the entries that would be refused next.
    """

    worker: str
    accounts: tuple[str, ...]
    held: int
    f: Fraction
    after: Fraction
    left: int | None
    refused: frozenset[tuple[str, str]]


@dataclass(frozen=True)
class RuleSet:
    """One set: its entries, and the workers that hold something of it, nearest first."""

    rule: Property
    unit: str
    rungs: Sequence[Rung]
    holders: Sequence[SetHolder]


def show(store: Store, usages: LimitUsages, name: str) -> RuleSets:
    """Show a rule of the policy in force, with its sets nearest to the limit.

    Parameters
    ----------
    store : Store
    usages : LimitUsages
        Knows what was judged before.
    name : str

    Raises
    ------
    NotFound
    """
    with store.read() as tx:
        force, prop = _in_force(tx, name)
        rule = force.rules.all.get(name)
        found = {
            number: by_rule[name]
            for number, by_rule in usages.look(tx).items()
            if name in by_rule
        }
        if rule is None:
            return RuleSets(prop, False, 0, 0, 0, ())
        order = sorted(found, key=lambda number: (*_nearness(found[number]), number))
        near = [
            (one, number)
            for number in order[:LOOKED_AT]
            for one in nearest_of(tx, force, number, rule, SETS)
        ]
        near.sort(
            key=lambda pair: (pair[0].left is None, pair[0].left or 0, -pair[0].f)
        )
        named = exposure_queries.unit_names(tx, {one.unit for one, _ in near[:SETS]})
    return RuleSets(
        prop,
        True,
        len(found),
        sum(one.units for one in found.values()),
        sum(one.tau is not None and one.f >= one.tau for one in found.values()),
        [
            NearSet(named[one.unit][0], adversary_name(number), one.f, one.left)
            for one, number in near[:SETS]
            if one.unit in named
        ],
    )


def show_set(store: Store, name: str, unit_name: str) -> RuleSet:
    """Show one set of a rule: the record or person of a pseudonym.

    Raises
    ------
    NotFound
    """
    with store.read() as tx:
        force, prop = _in_force(tx, name)
        rule = force.rules.all.get(name)
        subject = prop.scope is Scope.SUBJECT
        unit = exposure_queries.unit_named(tx, unit_name, subject=subject)
        if rule is None or unit is None:
            raise NotFound(
                "there is no such set",
                why="a set is named by the pseudonym of its record or person"
                if rule is not None
                else "a rule over links of people is judged when it is asked",
                fix="choose one on the page of the rule",
            )
        mine = [force.field_ids[field] for field in sorted(rule.fields)]
        entries = exposure_queries.entries_of_unit(tx, unit, mine, ENTRIES)
        shown: dict[int, set[int]] = defaultdict(set)
        for entry, adversary in exposure_queries.holders(
            tx, [row.entry_id for row in entries]
        ):
            shown[entry].add(adversary)
        who = sorted(set().union(*shown.values()))
        held: dict[int, dict[tuple[str, int], int]] = defaultdict(dict)
        rows = exposure_counts.counts(tx, [(number, [unit]) for number in who])
        for adversary, of, field, time, many in rows.tolist():
            if of == unit and force.numbered.get(field) in rule.fields:
                held[adversary][force.numbered[field], time] = many
        accounts: dict[int, list[str]] = defaultdict(list)
        for member in statistics.members(tx, who):
            accounts[member.adversary_id].append(member.account)
    holders = [
        _holder(rule, number, accounts[number], held[number],
                [row for row in entries if number not in shown[row.entry_id]])
        for number in who
    ]  # fmt: skip
    holders.sort(key=lambda one: (one.left is None, one.left or 0, -one.f, one.worker))
    return RuleSet(
        prop,
        unit_name,
        [
            Rung(row.pseudonym, row.field, row.state,
                 frozenset(map(adversary_name, shown[row.entry_id])))
            for row in entries
        ],
        holders,
    )  # fmt: skip


def _holder(
    rule: Rule,
    number: int,
    accounts: Sequence[str],
    held: Mapping[tuple[str, int], int],
    others: Sequence[exposure_queries.SeenRow],
) -> SetHolder:
    after, refused = rule.value(held), set()
    for row in others:
        place = (row.field, 0 if rule.window is None else row.time)
        more = {**held, place: held.get(place, 0) + 1}
        after = max(after, rule.value(more))
        if rule.past(more):
            refused.add((row.pseudonym, row.field))
    return SetHolder(
        adversary_name(number),
        tuple(accounts),
        sum(held.values()),
        rule.value(held),
        after,
        rule.left(held),
        frozenset(refused),
    )


def _in_force(tx: Tx, name: str) -> tuple[ActivePolicy, Property]:
    force = current_policy(tx)
    if force is None or name not in force.policy.properties:
        raise NotFound(
            f"there is no rule {name}",
            why="the policy in force does not have it",
            fix="dispatcher policy show lists its rules",
        )
    return force, force.policy.properties[name]


def _nearness(one: LimitUsage) -> tuple[bool, int, Fraction]:
    return one.left is None, one.left or 0, -one.share
