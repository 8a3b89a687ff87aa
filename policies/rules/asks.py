"""One ask judged by every rule that touches it: what the gate and policy tests call."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, assert_never

from policies.policy import Kind, Policy, Property, Scope
from policies.rules.kinds import (
    PlaceSimilarity,
    PowerOfSum,
    Step,
    Tabulated,
    family,
    is_tabulated,
)
from policies.rules.levels import LevelRule, Levels
from policies.rules.pairings import ToldLink
from policies.rules.record_rules import Held, Rule, by_field
from policies.rules.relations import LinkRule

FieldCounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class EntryFacts:
    """What the rules need to know of an entry; ids are opaque, no value is here.

    Attributes
    ----------
    record, field : str
    subject : str or None
        The person, for subject rules.
    time : int
        Microseconds UTC, 0 where the policy has no use for it.
    vector : str or None
        Opaque class of the place, for relation rules.
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
    """What one rule says of one ask.

    Attributes
    ----------
    property : str
    scope : Scope
        Tells the unit: the record or the subject of the asked entry, or the worst of
        the links that end in its subject.
    before, after : Fraction
        f without and with the asked entry, in [0, 1]; a cosine that is no fraction is
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
    """All rules of a policy that the gate and the planner judge, by field.

    Attributes
    ----------
    all : Mapping[str, Rule]
        Record and subject rules, by name.
    links : Mapping[str, LinkRule]
        Relation rules, by name.

    Notes
    -----
    Ask :func:`unsupported` first, and refuse a policy for which it names any rule: they
    are not among them.
    """

    def __init__(
        self, policy: Policy, levels: Mapping[str, Levels] | None = None
    ) -> None:
        tables = levels or {}
        compiled = [
            _compiled(prop, tables.get(prop.name))
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
        """The rules with a set that may contain an entry of this field."""
        return self._of_field.get(field, ())

    def links_of_field(self, field: str) -> tuple[LinkRule, ...]:
        """The relation rules that look at entries of this field."""
        return tuple(rule for rule in self.links.values() if field in rule.fields)


def _compiled(prop: Property, levels: Levels | None) -> Rule | LinkRule:
    """Compile one rule; ``levels`` is its table, for a rule that has one."""
    match family(prop):
        case Step() | PowerOfSum():
            return Rule(prop)
        case PlaceSimilarity():
            return LinkRule(prop)
        case Tabulated():
            assert levels is not None, f"rule {prop.name} has no table"
            linked = prop.scope is Scope.RELATION
            return ToldLink(prop, levels) if linked else LevelRule(prop, levels)
        case other:
            assert_never(other)


def compile_rules(policy: Policy, levels: Mapping[str, Levels] | None = None) -> Rules:
    """Compile the rules of a policy.

    ``levels`` has f by fields held, of rules that name a table or a user's function.
    """
    return Rules(policy, levels)


def judge_ask(
    rules: Rules,
    entry: EntryFacts,
    held_in_record: Held,
    held_in_subject: Held,
    trusted: Collection[str] = frozenset(),
    *,
    whole_unit: bool = True,
) -> tuple[Finding, ...]:
    """Judge one ask by every rule that touches the asked field.

    Parameters
    ----------
    rules : Rules
    entry : EntryFacts
        The asked entry. It is taken as held already if ``held_in_record`` has its
        field (a record has one entry a field), and is judged the same way.
    held_in_record, held_in_subject : Mapping[tuple[str, int], int]
        What the adversary holds of the entry's record and of its subject, the whole of
        it: the record's entries are in the subject's mapping too.
    trusted : Collection of str
        Rules that are not judged for this adversary (:func:`~policies.rules.groups
        .trusted_rules`).
    whole_unit : bool
        True, the gate: f of the whole unit, as an auditor judges it, so that a unit
        which is past its limit by an accepted merge takes no further entry at all.
        False, ``[[test]]`` blocks: only the sets that contain the asked entry. The two
        differ only where another set of the same unit is past the limit already.

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
    ] = {}  # once a scope, not once a rule
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
    """Entries held by field, without and with the asked one."""
    before = by_field(held)
    return before, before if already else {**before, field: before.get(field, 0) + 1}


def _in_windows(
    rule: Rule, entry: EntryFacts, held: Held, already: bool, whole_unit: bool
) -> tuple[int, int]:
    """Highest scores over the windows, without and with the asked entry."""
    key = (entry.field, entry.time)
    through = None if whole_unit else key
    before = rule.highest(held, through)
    if already:
        return before, before
    return before, rule.highest({**held, key: held.get(key, 0) + 1}, through)


def unsupported(
    policy: Policy, levels: Mapping[str, Levels] | None = None
) -> tuple[str, ...]:
    """Name the rules that the gate and the planner cannot judge, each with the reason.

    ``levels`` is as for :func:`compile_rules`.

    Returns
    -------
    tuple of str
        ``"NAME: reason"``; empty if the whole policy can be planned and booked.
    """
    told = levels or {}
    reasons = ((p.name, _reason(p, told)) for p in policy.properties.values())
    return tuple(f"{name}: {reason}" for name, reason in reasons if reason)


def _reason(prop: Property, levels: Mapping[str, Levels]) -> str | None:
    kind = prop.disclosure.kind
    if prop.scope not in family(prop).scopes:
        return f"{kind} rules do not have the scope {prop.scope}"
    if not is_tabulated(prop) or prop.name in levels:
        return None
    what = "user's function" if kind is Kind.PLUGIN else "table"
    return f"{kind} rules are judged by their {what}, and it was not given"
