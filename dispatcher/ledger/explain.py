"""Explanations: why an ask is refused, and what an adversary was shown."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, fields
from fractions import Fraction

from dispatcher.ledger.active_policy import (
    ActivePolicy,
    current_policy,
    no_policy,
    trusted_rules_of,
)
from dispatcher.ledger.decision import AskFacts, decide, findings
from dispatcher.ledger.limit_usage import LimitUsage, judge_counts
from dispatcher.ledger.lines import adversary_name
from dispatcher.ledger.refusals import Refusal
from dispatcher.store import accounts, exposure_counts, exposure_queries
from dispatcher.store import tasks as task_rows
from dispatcher.store.exposure_queries import SeenRow
from dispatcher.store.transaction import Tx
from policies.policy import Scope
from policies.rules.asks import Finding
from policies.rules.record_rules import Held, Rule


@dataclass(frozen=True)
class Explanation:
    """The gate's decision on one ask, and its inputs.

    Attributes
    ----------
    facts : AskFacts
        Inputs of the decision.
    refusal : Refusal or None
        None if the ask would be allowed.
    findings : tuple of Finding
        F before and after, and the limit, for every rule that touches the field.
    seen : tuple of SeenRow
        When the adversary was shown what of the same record and subject in fields of
        those rules, and of linked people at the same place or in the same fields.
    """

    facts: AskFacts
    refusal: Refusal | None
    findings: tuple[Finding, ...]
    seen: tuple[SeenRow, ...]

    @property
    def allowed(self) -> bool:
        """Whether the gate would book it."""
        return self.refusal is None


@dataclass(frozen=True)
class Takers:
    """Accounts that could be shown an entry.

    Attributes
    ----------
    accounts : tuple of str
        One active account of each adversary that the gate would allow.
    adversaries : int
        Number of adversaries asked about.
    """

    accounts: tuple[str, ...]
    adversaries: int


def explain(tx: Tx, entry_id: int, account_id: int) -> Explanation:
    """Explain one ask; a read transaction is enough.

    Raises
    ------
    NotFound
        There is no such entry or account.
    Conflict
        No policy is in force.
    """
    force = current_policy(tx)
    if force is None:
        raise no_policy()
    facts, refusal = decide(tx, force, entry_id, account_id)
    entry, who = facts.entry, facts.account.adversary_id
    field = force.fields.get(entry.field_id)
    names = {name for rule in (field.rules if field else ()) for name in rule.fields}
    names |= {name for rule in (field.links if field else ()) for name in rule.fields}
    numbers = [force.field_ids[name] for name in sorted(names)]
    seen = exposure_queries.seen_of_unit(tx, who, entry, numbers)
    for rule in field.links if field else ():
        mine = [force.field_ids[name] for name in sorted(rule.fields)]
        seen += (
            exposure_queries.seen_of_links(tx, who, entry, rule.relation)
            if rule.vector is not None
            else exposure_queries.seen_of_people(tx, who, entry, rule.relation, mine)
        )
    return Explanation(
        facts, refusal, findings(force, facts), tuple(dict.fromkeys(seen))
    )


def takers(
    tx: Tx,
    entry_id: int,
    among: Callable[[accounts.AccountRow], bool] = lambda _: True,
    barred: Collection[int] = (),
) -> Takers:
    """Find which accounts could be shown an entry (grows with the adversaries).

    ``barred`` accounts are counted, but could be shown nothing.

    Raises
    ------
    NotFound, Conflict
        As for :func:`explain`.
    """
    force = current_policy(tx)
    if force is None:
        raise no_policy()
    every: set[int] = set()
    able: dict[int, str] = {}
    for account in filter(among, accounts.all_accounts(tx)):
        every.add(account.adversary_id)
        if account.state != "active" or account.id in barred:
            continue
        if account.adversary_id not in able:
            decision = decide(tx, force, entry_id, account.id)
            if decision.refusal is None and not decision.facts.held:
                able[account.adversary_id] = account.text
    return Takers(tuple(able.values()), len(every))


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleUsage(LimitUsage):
    """How close an adversary is to one limit, and what would be refused next.

    Attributes
    ----------
    rule : str
    full : int
        Units of which one more field would be refused.
    refused : tuple of str
        The fields that would be.
    """

    rule: str
    full: int
    refused: tuple[str, ...]


@dataclass(frozen=True)
class Exposure:
    """Summary of an adversary's exposure, without any value.

    Attributes
    ----------
    chain : str
    accounts, joins : tuple of str
        Its accounts; reasons for their joins.
    entries, records, open_tasks : int
    nearness : tuple of RuleUsage
        Record and subject rules that judge something it holds, closest to the limit
        first.
    """

    chain: str
    accounts: tuple[str, ...]
    joins: tuple[str, ...]
    entries: int
    records: int
    open_tasks: int
    nearness: tuple[RuleUsage, ...]


def exposure(tx: Tx, adversary: int) -> Exposure:
    """Summarise what an adversary was shown (grows with it)."""
    force = current_policy(tx)
    near = [] if force is None else _usages(tx, force, adversary)
    texts = [a.text for a in accounts.all_accounts(tx) if a.adversary_id == adversary]
    joins = {
        str(join["because"]): None
        for join in map(json.loads, exposure_queries.joins(tx, adversary))
    }
    return Exposure(
        chain=adversary_name(adversary),
        accounts=tuple(sorted(texts)),
        joins=tuple(joins),
        entries=exposure_queries.held_entries(tx, [adversary]),
        records=exposure_queries.held_records(tx, adversary),
        open_tasks=len(task_rows.open_tasks(tx, [adversary])),
        nearness=tuple(sorted(near, key=_nearness)),
    )


def _nearness(one: RuleUsage) -> tuple[bool, int, Fraction, str]:
    """Order rules: the fewest fields left first, then the largest share."""
    return one.left is None, one.left or 0, -one.share, one.rule


def _usages(tx: Tx, force: ActivePolicy, adversary: int) -> list[RuleUsage]:
    units: dict[int, dict[tuple[str, int], int]] = defaultdict(dict)
    names, counts = force.numbered, exposure_counts.all_counts(tx, adversary)
    for unit, field, time, count in counts:
        if field in names:
            units[unit][names[field], time] = count
    found = []
    trusted = trusted_rules_of(tx, force, adversary)
    for name, usage in judge_counts(force, counts, trusted).items():
        rule = force.rules.all[name]
        odd = int(rule.scope is Scope.SUBJECT)
        next_ = [
            {field for field in rule.fields if _would_refuse(rule, held, field)}
            for unit, held in units.items()
            if unit & 1 == odd and any(field in rule.fields for field, _ in held)
        ]
        full, refused = sum(map(bool, next_)), tuple(sorted(set().union(*next_)))
        known = {one.name: getattr(usage, one.name) for one in fields(usage)}
        found.append(RuleUsage(**known, rule=name, full=full, refused=refused))
    return found


def _would_refuse(rule: Rule, held: Held, name: str) -> bool:
    """Whether one more entry of a field would reach the limit, at the worst time."""
    own = any(field == name for field, _ in held)
    if rule.scope is Scope.RECORD and own:
        return False  # a record has one entry of a field, and it is held
    times = {time for _, time in held}
    return any(
        rule.past({**held, (name, time): held.get((name, time), 0) + 1})
        for time in times
    )
