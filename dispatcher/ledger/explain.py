"""Why an ask would be allowed or not: the gate's own decision, told in full."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from dispatcher.ledger.decision import AskFacts, decide, findings
from dispatcher.ledger.refusals import Refusal
from dispatcher.ledger.standing import current_policy, no_policy
from dispatcher.store import accounts, explaining
from dispatcher.store.explaining import SeenRow
from dispatcher.store.transaction import Tx
from policies.rules.asks import Finding


@dataclass(frozen=True)
class Explanation:
    """What the gate says of one ask, and what it rests on.

    Attributes
    ----------
    facts : AskFacts
        What the decision rests on.
    refusal : Refusal or None
        None if the ask would be allowed.
    findings : tuple of Finding
        F before and after, and the limit, for every rule that touches the field.
    seen : tuple of SeenRow
        What the adversary was shown of the same record and subject in fields of those
        rules, and of linked people at the same place or in the same fields, and when.
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
    """Who could be shown an entry.

    Attributes
    ----------
    accounts : tuple of str
        One active account of each adversary that the gate would allow.
    adversaries : int
        How many there are in all, of those asked about.
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
    seen = explaining.seen_of_unit(tx, who, entry, numbers)
    for rule in field.links if field else ():
        mine = [force.field_ids[name] for name in sorted(rule.fields)]
        seen += (
            explaining.seen_of_links(tx, who, entry, rule.relation)
            if rule.vector is not None
            else explaining.seen_of_people(tx, who, entry, rule.relation, mine)
        )
    return Explanation(
        facts, refusal, findings(force, facts), tuple(dict.fromkeys(seen))
    )


def takers(
    tx: Tx,
    entry_id: int,
    among: Callable[[accounts.Account], bool] = lambda _: True,
    barred: Collection[int] = (),
) -> Takers:
    """Find who of some accounts could be shown an entry (grows with the adversaries).

    Those that are ``barred`` are counted, and could be shown nothing.

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
