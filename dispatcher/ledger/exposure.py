"""What one adversary was shown, by property: how near, and what is refused next."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction

from dispatcher.ledger.acceptance import judged_trust
from dispatcher.ledger.lines import adversary_name
from dispatcher.ledger.standing import InForce, current_policy
from dispatcher.store import accounts, exposed, holdings, membership
from dispatcher.store.transaction import Tx
from policies.policy import Scope
from policies.rules.record_rules import Held, Rule


@dataclass(frozen=True)
class Near:
    """How near an adversary came to one limit.

    Attributes
    ----------
    rule : str
    f : Fraction
        Largest disclosure over its units, in [0, 1].
    tau : Fraction or None
        The limit, f < tau; None is no limit.
    units : int
        Records or subjects of which it holds something that the rule judges.
    full : int
        Those of which one more field would be refused.
    refused : tuple of str
        The fields that would be.
    """

    rule: str
    f: Fraction
    tau: Fraction | None
    units: int
    full: int
    refused: tuple[str, ...]

    @property
    def share(self) -> Fraction:
        """Share of the limit, f / tau; of 1 where there is none."""
        return self.f / (self.tau or 1)


@dataclass(frozen=True)
class Exposure:
    """All that is known of an adversary, no value among it.

    Attributes
    ----------
    chain : str
    accounts, joins : tuple of str
        Its accounts; why they were joined.
    entries, records, open_tasks : int
    nearness : tuple of Near
        Record and subject rules that it is judged by and holds something of, the
        nearest first.
    """

    chain: str
    accounts: tuple[str, ...]
    joins: tuple[str, ...]
    entries: int
    records: int
    open_tasks: int
    nearness: tuple[Near, ...]


def exposure(tx: Tx, adversary: int) -> Exposure:
    """Tell what an adversary was shown (grows with it); a read transaction will do."""
    force = current_policy(tx)
    near = [] if force is None else _nearness(tx, force, adversary)
    texts = [a.text for a in accounts.all_accounts(tx) if a.adversary_id == adversary]
    joins = {
        str(told["because"]): None
        for told in map(json.loads, exposed.joins(tx, adversary))
    }
    return Exposure(
        chain=adversary_name(adversary),
        accounts=tuple(sorted(texts)),
        joins=tuple(joins),
        entries=membership.held_entries(tx, [adversary]),
        records=exposed.held_records(tx, adversary),
        open_tasks=len(membership.open_tasks(tx, [adversary])),
        nearness=tuple(sorted(near, key=lambda n: (-n.share, n.rule))),
    )


def _nearness(tx: Tx, force: InForce, adversary: int) -> list[Near]:
    units: dict[int, dict[tuple[str, int], int]] = defaultdict(dict)
    names = force.numbered
    for unit, field, time, count in holdings.all_holdings(tx, adversary):
        if field in names:
            units[unit][names[field], time] = count
    trusted = judged_trust(tx, force, adversary)
    found = []
    for rule in force.rules.all.values():
        odd = int(rule.scope is Scope.SUBJECT)
        mine = [
            held
            for unit, held in units.items()
            if unit & 1 == odd and any(field in rule.fields for field, _ in held)
        ]
        if mine and rule.name not in trusted:
            found.append(_near(rule, mine))
    return found


def _near(rule: Rule, units: list[dict[tuple[str, int], int]]) -> Near:
    full, refused = 0, set[str]()
    for held in units:
        next_ = {name for name in rule.fields if _refuses(rule, held, name)}
        full += bool(next_)
        refused |= next_
    worst = max(rule.value(held) for held in units)
    return Near(rule.name, worst, rule.tau, len(units), full, tuple(sorted(refused)))


def _refuses(rule: Rule, held: Held, name: str) -> bool:
    """Whether one more entry of a field would reach the limit, at its worst moment."""
    own = any(field == name for field, _ in held)
    if rule.scope is Scope.RECORD and own:
        return False  # a record has one entry of a field, and it is held
    times = {time for _, time in held}
    return any(
        rule.past({**held, (name, time): held.get((name, time), 0) + 1})
        for time in times
    )
