"""Judge one asked entry by every rule that it touches, for the gate and policy tests."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, assert_never

from policies.policy import Policy, Property, Scope
from policies.rules.kinds import (
    PLUGIN,
    PlaceSimilarity,
    PowerOfSum,
    Step,
    Tabulated,
    family,
    is_tabulated,
)
from policies.rules.link_rules import LinkRule
from policies.rules.record_rules import Held, Rule, by_field
from policies.rules.tabulated import FieldTable, TabulatedRule
from policies.rules.tabulated_links import TabulatedLinkRule

FieldCounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class EntryFacts:
    """What rules need to know about an entry. Ids are opaque; there are no values here.

    Attributes
    ----------
    record, field : str
    subject : str or None
        The person, for subject rules.
    time : int
        Microseconds UTC; 0 if the policy does not use it.
    vector : str or None
        Opaque id of the place, for relation rules.
    count : int
        Visits at that place, >= 0.
    """

    record: str
    field: str
    subject: str | None = None
    time: int = 0
    vector: str | None = None
    count: int = 1


class Finding(NamedTuple):
    """The result of one rule for one asked entry.

    Attributes
    ----------
    property : str
    scope : Scope
        Gives the unit: the record or the subject of the asked entry, or the worst of
        the links that end in its subject.
    before, after : Fraction
        f without and with the asked entry, in [0, 1]; an irrational cosine is
        rounded up to 10^-18.
    tau : Fraction or None
        The limit, f < tau; None is no limit.
    refused : bool
        Whether ``after`` is at or past the limit.
    """

    property: str
    scope: Scope
    before: Fraction
    after: Fraction
    tau: Fraction | None
    refused: bool


class Rules:
    """The compiled rules of a policy, which the gate and the planner judge.

    Attributes
    ----------
    all : Mapping[str, Rule]
        Record and subject rules, by name.
    links : Mapping[str, LinkRule]
        Relation rules, by name.

    Notes
    -----
    Rules that :func:`unsupported` names are missing here: refuse a policy with such
    rules first.
    """

    def __init__(
        self, policy: Policy, tables: Mapping[str, FieldTable] | None = None
    ) -> None:
        tables = tables or {}
        unsent = [f.name for f in policy.entity.fields.values() if not f.send]
        compiled = [
            _compiled(prop, tables.get(prop.name), unsent)
            for prop in policy.properties.values()
            if _reason(prop, tables) is None
        ]
        self.all: Mapping[str, Rule] = {
            rule.name: rule for rule in compiled if isinstance(rule, Rule)
        }
        self.links: Mapping[str, LinkRule] = {
            rule.name: rule for rule in compiled if isinstance(rule, LinkRule)
        }
        self._of_field = {
            name: tuple(rule for rule in self.all.values() if name in rule.fields)
            for name in policy.entity.fields
        }

    def of_field(self, field: str) -> tuple[Rule, ...]:
        """Return the record and subject rules that name this field."""
        return self._of_field.get(field, ())

    def links_of_field(self, field: str) -> tuple[LinkRule, ...]:
        """Return the relation rules that name this field."""
        return tuple(rule for rule in self.links.values() if field in rule.fields)


def _compiled(
    prop: Property, table: FieldTable | None, unsent: Collection[str]
) -> Rule | LinkRule:
    """Compile one rule, with its table if it is tabulated."""
    match family(prop):
        case Step() | PowerOfSum():
            return Rule(prop, unsent)
        case PlaceSimilarity():
            return LinkRule(prop)
        case Tabulated():
            assert table is not None, f"rule {prop.name} has no table"
            linked = prop.scope is Scope.RELATION
            if linked:
                return TabulatedLinkRule(prop, table)
            return TabulatedRule(prop, table, unsent)
        case other:
            assert_never(other)


def compile_rules(
    policy: Policy, tables: Mapping[str, FieldTable] | None = None
) -> Rules:
    """Compile the rules of a policy.

    ``tables`` has f by fields held, for every tabulated rule.
    """
    return Rules(policy, tables)


def judge_ask(
    rules: Rules,
    entry: EntryFacts,
    held_in_record: Held,
    held_in_subject: Held,
    trusted: Collection[str] = frozenset(),
    *,
    whole_unit: bool = True,
) -> tuple[Finding, ...]:
    """Judge one asked entry by every record and subject rule that names its field.

    Parameters
    ----------
    rules : Rules
    entry : EntryFacts
        The asked entry. If ``held_in_record`` has its field, it is held already (a
        record has one entry of a field), and is judged the same way.
    held_in_record, held_in_subject : Mapping[tuple[str, int], int]
        All that the adversary holds of the entry's record and of its subject; the
        record's entries are in the subject's mapping too.
    trusted : Collection of str
        Rules that are not judged for this adversary (:func:`~policies.rules.groups
        .trusted_rules`).
    whole_unit : bool
        True (the gate): judge f of the whole unit, as an auditor does, so that a unit
        past its limit by an accepted merge takes no further entry. False (``[[test]]``
        blocks): judge only the sets that contain the asked entry. The two differ only
        if another set of the same unit is past the limit already.

    Returns
    -------
    tuple of Finding
        One for each rule judged, in the order of the file. The ask is refused if any
        of them is.
    """
    already = any(f == entry.field and n > 0 for (f, _), n in held_in_record.items())
    findings = []
    counted: dict[
        Scope, tuple[FieldCounts, FieldCounts]
    ] = {}  # once per scope, not once per rule
    for rule in rules.of_field(entry.field):
        if rule.name in trusted:
            continue
        scope = rule.scope
        held = held_in_record if scope is Scope.RECORD else held_in_subject
        if rule.window is not None:
            before, after = _in_windows(rule, entry, held, already, whole_unit)
        else:
            if scope not in counted:
                counted[scope] = _with_asked(entry.field, held, already)
            through = None if whole_unit else entry.field
            before, after = (rule.score(c, through) for c in counted[scope])
        findings.append(
            Finding(
                rule.name,
                scope,
                rule.fraction(before),
                rule.fraction(after),
                rule.tau,
                rule.cap is not None and after > rule.cap,
            )
        )
    return tuple(findings)


def _with_asked(
    field: str, held: Held, already: bool
) -> tuple[FieldCounts, FieldCounts]:
    """Return the entries held by field, without and with the asked one."""
    before = by_field(held)
    return before, before if already else {**before, field: before.get(field, 0) + 1}


def _in_windows(
    rule: Rule, entry: EntryFacts, held: Held, already: bool, whole_unit: bool
) -> tuple[int, int]:
    """Return the highest scores over the windows, without and with the asked entry."""
    key = (entry.field, entry.time)
    through = None if whole_unit else key
    before = rule.highest(held, through)
    if already:
        return before, before
    return before, rule.highest({**held, key: held.get(key, 0) + 1}, through)


def unsupported(
    policy: Policy, tables: Mapping[str, FieldTable] | None = None
) -> tuple[str, ...]:
    """Return the rules that the gate and the planner cannot judge, with the reasons.

    ``tables`` is as for :func:`compile_rules`.

    Returns
    -------
    tuple of str
        ``"NAME: reason"``; empty if the whole policy can be planned and booked.
    """
    given = tables or {}
    reasons = ((p.name, _reason(p, given)) for p in policy.properties.values())
    return tuple(f"{name}: {reason}" for name, reason in reasons if reason)


def _reason(prop: Property, tables: Mapping[str, FieldTable]) -> str | None:
    kind = prop.disclosure.kind
    if prop.scope not in family(prop).scopes:
        return f"{kind} rules do not have the scope {prop.scope}"
    if not is_tabulated(prop) or prop.name in tables:
        return None
    what = "user's function" if kind == PLUGIN else "table"
    return f"{kind} rules are judged by their {what}, and it was not given"
