"""The policy in force, compiled for the gate, and the lock that bookings take on it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from dispatcher.core.errors import Conflict
from dispatcher.ledger.links import read_levels
from dispatcher.store import ledger as rows
from dispatcher.store import policies as policy_rows
from dispatcher.store.transaction import Tx
from policies.document import parse
from policies.policy import Policy, Scope
from policies.rules.asks import Rules, compile_rules
from policies.rules.field_utility import UTILITY_NAME as UTILITY
from policies.rules.groups import trusted_rules
from policies.rules.kinds import reads_table
from policies.rules.link_rules import LinkRule
from policies.rules.record_rules import Rule
from policies.rules.tabulated import FieldTable


@dataclass(frozen=True)
class FieldPolicy:
    """The policy in force for one field.

    Attributes
    ----------
    name : str
    sent : bool
        False when ``send = false``.
    showings : int
        Lifetime cap t.
    rules : tuple of Rule
        All that touch the field, in the order of the file.
    in_record, in_subject : bool
        Whether counts are kept for the entry's record, and for its subject.
    timed : bool
        Whether a windowed rule touches it, so that counts are kept by time.
    links : tuple of LinkRule
        The relation rules that look at it.
    """

    name: str
    sent: bool
    showings: int
    rules: tuple[Rule, ...]
    in_record: bool
    in_subject: bool
    timed: bool
    links: tuple[LinkRule, ...] = ()

    @property
    def placed(self) -> bool:
        """Whether visits are kept: a relation rule reads the entry's place."""
        return any(rule.vector is not None for rule in self.links)


@dataclass(frozen=True, eq=False)
class ActivePolicy:
    """A policy version, compiled for the gate.

    Attributes
    ----------
    version : int
    sha256 : str
    policy : Policy
    rules : Rules
    fields : Mapping[int, FieldPolicy]
        By field number; fields that the version lacks are not in it.
    field_ids : Mapping[str, int]
        All numbered fields, over all versions.
    averages : bool
        Whether any cap on an average is set.
    trusting : bool
        Whether any group is trusted with a rule.
    levels : Mapping[str, Levels]
        f by held fields, of rules that name a table or a user's function.
    worth : Levels or None
        What the sent fields of a record are worth together, by a user's utility.
    """

    version: int
    sha256: str
    policy: Policy
    rules: Rules
    fields: Mapping[int, FieldPolicy]
    field_ids: Mapping[str, int]
    averages: bool
    trusting: bool
    levels: Mapping[str, FieldTable] = field(default_factory=dict)
    worth: FieldTable | None = None
    _trust: dict[frozenset[str], frozenset[str]] = field(default_factory=dict)

    def trusted(self, groups: Iterable[str]) -> frozenset[str]:
        """Rules not judged for an adversary.

        Parameters
        ----------
        groups : Iterable of str
            The group names of each of its accounts, each a JSON list.
        """
        asked = frozenset(groups)
        known = self._trust.get(asked)
        if known is None:
            known = trusted_rules(self.policy, [json.loads(text) for text in asked])
            self._trust[asked] = known
        return known

    @property
    def kept(self) -> dict[int, tuple[bool, bool, bool, bool]]:
        """By field: whether counts are kept by record, subject, time, place."""
        return {
            n: (f.in_record, f.in_subject, f.timed, f.placed)
            for n, f in self.fields.items()
        }

    @property
    def tables(self) -> frozenset[str]:
        """Rules that are judged by a finite table."""
        every = self.policy.properties.values()
        return frozenset(p.name for p in every if reads_table(p))

    def asked(self, *, feeds: bool = False) -> list[int]:
        """Numbers of the fields that are asked: sent, with an ``ask``.

        Parameters
        ----------
        feeds : bool
            Whether those count too that feeds get without a question.
        """
        declared = self.policy.entity.fields
        return [
            number
            for number, field in self.fields.items()
            if field.sent and (feeds or declared[field.name].ask is not None)
        ]

    @property
    def numbered(self) -> Mapping[int, str]:
        """Return the names of this version's fields, by number."""
        return {number: standing.name for number, standing in self.fields.items()}


def compile_version(
    version: int,
    sha256: str,
    policy: Policy,
    field_ids: Mapping[str, int],
    levels: Mapping[str, FieldTable] | None = None,
) -> ActivePolicy:
    """Compile a parsed policy for the gate.

    ``levels`` has f by held fields, of rules that name a table or a user's function,
    and the levels of a user's utility under its own name.
    """
    rule_levels = dict(levels or {})
    worth = rule_levels.pop(UTILITY, None)
    rules = compile_rules(policy, rule_levels)
    fields = {}
    for name, entry_field in policy.entity.fields.items():
        touching, links = rules.of_field(name), rules.links_of_field(name)
        fields[field_ids[name]] = FieldPolicy(
            name=name,
            sent=entry_field.send,
            showings=policy.showings(name),
            rules=touching,
            in_record=any(rule.scope is Scope.RECORD for rule in touching)
            or any(rule.vector is None for rule in links),
            in_subject=any(rule.scope is Scope.SUBJECT for rule in touching),
            timed=any(rule.window is not None for rule in touching),
            links=links,
        )
    every: list[Rule | LinkRule] = [*rules.all.values(), *rules.links.values()]
    averages = policy.budget.average is not None or any(
        rule.average is not None for rule in every
    )
    return ActivePolicy(
        version=version,
        sha256=sha256,
        policy=policy,
        rules=rules,
        fields=fields,
        field_ids=dict(field_ids),
        averages=averages,
        trusting=any(group.trusted for group in policy.groups.values()),
        levels=rule_levels,
        worth=worth,
    )


@lru_cache(maxsize=32)
def _compiled(
    version: int,
    sha256: str,
    source: bytes,
    fields: tuple[tuple[str, int], ...],
    levels: tuple[tuple[str, str], ...],
) -> ActivePolicy:
    policy = parse(source).policy
    if policy is None:
        raise Conflict(
            f"version {version} of the policy cannot be read",
            why="It was applied by a program with another policy language.",
            fix="Run the version of the program that applied it, or a newer one.",
        )
    return compile_version(version, sha256, policy, dict(fields), read_levels(levels))


def version_of(tx: Tx, version: int) -> ActivePolicy:
    """Read an applied version.

    Raises
    ------
    Conflict
        There is no such version.
    """
    found = policy_rows.policy_row(tx, version)
    if found is None:
        raise no_policy()
    fields = tuple(sorted(rows.field_ids(tx).items()))
    levels = tuple(
        (t.property, t.levels) for t in policy_rows.functions_of(tx, version)
    )
    return _compiled(version, found.sha256, found.source, fields, levels)


def current_policy(tx: Tx) -> ActivePolicy | None:
    """Return the version in force, or None before the first one."""
    version = policy_rows.version_in_force(tx)
    return version_of(tx, version) if version else None


def asked_fields(tx: Tx, *, feeds: bool = False) -> list[int]:
    """Fields that the version in force asks (:meth:`ActivePolicy.asked`), if there is one."""
    force = current_policy(tx)
    return [] if force is None else force.asked(feeds=feeds)


def showings(tx: Tx) -> dict[int, int]:
    """Lifetime cap t of each field of the version in force, by number."""
    force = current_policy(tx)
    fields = {} if force is None else force.fields
    return {number: one.showings for number, one in fields.items()}


def no_policy() -> Conflict:
    """Error for work that needs a policy before there is one."""
    return Conflict(
        "no policy is in force",
        why="Nothing is loaded or shown before a policy says what must stay apart.",
        fix="Run: dispatcher policy apply policy.toml",
    )


def trusted_rules_of(
    tx: Tx, force: ActivePolicy | None, adversary_id: int
) -> frozenset[str]:
    """Rules that are not judged for an adversary, by its accounts' groups."""
    if force is None or not force.trusting:
        return frozenset()
    return force.trusted(rows.groups_of(tx, adversary_id))


def lock_policy(tx: Tx) -> ActivePolicy:
    """Take the policy lock until the transaction ends; return the version in force.

    It is shared with other bookings, but exclusive where an average is capped: whoever
    finds the stored sums stale recomputes those of all adversaries, and would lose what
    a concurrent booking added to one of them.

    Parameters
    ----------
    tx : Tx
        A write transaction.

    Raises
    ------
    Conflict
        No policy is in force.
    """
    # Read before it is locked: two that share the lock and both want it exclusively
    # would wait for each other.
    seen = known_policy(tx, *policy_rows.in_force(tx))
    lock = "alone" if seen.averages else "shared"
    return locked_policy(tx, seen, *policy_rows.in_force(tx, lock=lock))


def locked_policy(
    tx: Tx, seen: ActivePolicy, version: int, sha256: str | None
) -> ActivePolicy:
    """Take the lock that the version ``seen`` needs; return the version in force."""
    force = known_policy(tx, version, sha256)
    if force.averages and not seen.averages:
        policy_rows.lock_policy_exclusive(tx)
    return force


def known_policy(tx: Tx, version: int, sha256: str | None) -> ActivePolicy:
    """Return the version in force, from the cache where possible.

    Raises
    ------
    Conflict
        There is none: the version is 0.
    """
    if not version:
        raise no_policy()
    known = tx.lasting.get("in force")
    if isinstance(known, ActivePolicy) and (known.version, known.sha256) == (
        version,
        sha256,
    ):
        return known
    tx.lasting["in force"] = force = version_of(tx, version)
    return force
