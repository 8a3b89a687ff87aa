"""The gate's decision: facts in, a refusal or None out.

:func:`judge` is pure, and every booking uses it, for one ask or many.
:func:`read_facts` reads what it needs for one ask in a handful of primary-key look-ups:
the cost depends on the rules that touch the entry and on the showings that the entry
has had (at most t and what came again), never on the length of the ledger.
:mod:`dispatcher.ledger.bulk` makes the facts of many asks from arrays.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Final, NamedTuple

from dispatcher.core.errors import NotFound
from dispatcher.ledger import averages, refusals, relations
from dispatcher.ledger.active_policy import ActivePolicy, FieldPolicy, trusted_rules_of
from dispatcher.ledger.averages import AveragesAfter
from dispatcher.ledger.refusals import Cause, Refusal, refuse
from dispatcher.ledger.relations import Around
from dispatcher.model import record_unit, subject_unit
from dispatcher.store import decisions
from dispatcher.store import ledger as rows
from dispatcher.store.decisions import AskRow, Known
from dispatcher.store.ledger import GateAccount, GateEntry
from dispatcher.store.transaction import Tx
from policies.policy import Scope
from policies.rules.asks import EntryFacts, Finding, judge_ask
from policies.rules.record_rules import Held, by_field

NOTHING_PAUSED: Final[AbstractSet[str]] = frozenset()
NOBODY_RECUSED: Final[AbstractSet[tuple[int, int]]] = frozenset()
NOTHING_HELD: Final[Held] = MappingProxyType({})


class AskFacts(NamedTuple):
    """The inputs of the decision about one ask.

    Attributes
    ----------
    entry : GateEntry
    account : GateAccount
    paused : set of str
        Active pauses: ``all``, ``connector:NAME``, ``run#ID``.
    recused : set of (int, int)
        Adversary and unit: who must not be shown what.
    held : bool
        Whether the adversary already holds the entry: then no limit is judged again.
    showings, limit : int
        How many adversaries it was shown to, and t with what ``unburn`` added.
    of_record, of_subject : Held
        What the adversary holds of the entry's record, and of its subject.
    trusted : frozenset of str
        Rules that are not judged for the adversary.
    around : sequence of Around
        What relation rules read of the entry's subject and of those linked with it.
    averages : AveragesAfter or None
        Where an average is capped, the sums behind it, including this exposure.
    """

    entry: GateEntry
    account: GateAccount
    paused: AbstractSet[str] = NOTHING_PAUSED
    recused: AbstractSet[tuple[int, int]] = NOBODY_RECUSED
    held: bool = False
    showings: int = 0
    limit: int = 0
    of_record: Held = NOTHING_HELD
    of_subject: Held = NOTHING_HELD
    trusted: frozenset[str] = frozenset()
    around: tuple[Around, ...] = ()
    averages: AveragesAfter | None = None


class Decision(NamedTuple):
    """The gate's decision on one ask; without a refusal it is allowed."""

    facts: AskFacts
    refusal: Refusal | None


def judge(force: ActivePolicy, ask: AskFacts) -> Refusal | None:
    """Decide one ask; None allows it. Pure: all inputs are in the facts."""
    refusal = judge_standing(force, ask)
    if refusal is None and not ask.held:
        refusal = judge_limits(force, ask)
    return refusal


def judge_standing(force: ActivePolicy, ask: AskFacts) -> Refusal | None:
    """Refuse what may not be shown now, whatever was shown before."""
    entry, account = ask.entry, ask.account
    field = force.fields.get(entry.field_id)
    if field is None or not field.sent:
        return refuse(entry, account, Cause.FIELDS_SEND)
    if account.state != "active":
        return refuse(entry, account, Cause.ACCOUNT)
    if entry.waiting:
        return refuse(entry, account, Cause.PILOT)
    if ask.paused:
        scopes = ("all", f"connector:{account.connector}", f"run#{entry.run_id}")
        if not ask.paused.isdisjoint(scopes):
            return refuse(entry, account, Cause.PAUSE)
    if ask.recused:
        units = {(account.adversary_id, unit) for unit in units_of(entry)}
        if not ask.recused.isdisjoint(units):
            return refuse(entry, account, Cause.RECUSAL)
    return None


def judge_limits(force: ActivePolicy, ask: AskFacts) -> Refusal | None:
    """Refuse what would reach a limit: of a property, of showings, of an average."""
    entry, account = ask.entry, ask.account
    found = _findings_of_rules(force, ask) if _any_refuses(force, ask) else ()
    if ask.around:
        found += _findings_of_relations(ask)
    for finding in found:
        if finding.refused:
            assert finding.tau is not None
            return refuse(
                entry,
                account,
                Cause.DISCLOSURE,
                rule=finding.property,
                value=finding.after,
                limit=finding.tau,
            )
    if ask.showings + 1 > ask.limit:
        showings = ask.showings + 1
        return refuse(entry, account, Cause.BUDGET_T, value=showings, limit=ask.limit)
    if ask.averages is not None:
        after = ask.averages
        past = averages.past_averages(force, after.sets, after.sums, ask.trusted)
        if past:
            rule, mean, cap = past[0]
            whole = rule == Cause.BUDGET_AVERAGE
            cause = Cause.BUDGET_AVERAGE if whole else Cause.MEAN
            return refuse(entry, account, cause, rule=rule, value=mean, limit=cap)
    return None


def findings(force: ActivePolicy, ask: AskFacts) -> tuple[Finding, ...]:
    """Return the findings of all rules that touch the field; none if it is not sent."""
    field = force.fields.get(ask.entry.field_id)
    if field is None or not field.sent:
        return ()
    return _findings_of_rules(force, ask) + _findings_of_relations(ask)


def _findings_of_rules(force: ActivePolicy, ask: AskFacts) -> tuple[Finding, ...]:
    entry, field = ask.entry, force.fields[ask.entry.field_id]
    of_record = ask.of_record
    if ask.held:
        of_record = {(field.name, 0): 1, **of_record}
    facts = EntryFacts(
        record=entry.record,
        field=field.name,
        subject=None if entry.subject_id is None else str(entry.subject_id),
        time=(entry.time or 0) if field.timed else 0,
    )
    return judge_ask(force.rules, facts, of_record, ask.of_subject, ask.trusted)


def _findings_of_relations(ask: AskFacts) -> tuple[Finding, ...]:
    return tuple(a.finding() for a in ask.around if a.rule.name not in ask.trusted)


def _any_refuses(force: ActivePolicy, ask: AskFacts) -> bool:
    """Whether any rule refuses one more entry: cheaper than collecting all findings."""
    entry, field = ask.entry, force.fields[ask.entry.field_id]
    time = (entry.time or 0) if field.timed else 0
    counted: dict[Scope, dict[str, int]] = {}  # once a scope, not once a rule
    for rule in field.rules:
        if rule.cap is None or rule.name in ask.trusted:
            continue
        scope = rule.scope
        of_record = scope is Scope.RECORD
        held = ask.of_record if of_record else ask.of_subject
        if rule.window is not None:
            key = (field.name, 0 if of_record else time)
            if rule.past({**held, key: held.get(key, 0) + 1}):
                return True
            continue
        counts = counted.get(scope)
        if counts is None:
            counts = counted[scope] = by_field(held)
            counts[field.name] = counts.get(field.name, 0) + 1
        if rule.score(counts) > rule.cap:
            return True
    return False


def units_of(entry: GateEntry) -> list[int]:
    """Return the units that an entry belongs to: its record, and its subject if any."""
    units = [record_unit(entry.record_id)]
    if entry.subject_id is not None:
        units.append(subject_unit(entry.subject_id))
    return units


def decide(tx: Tx, force: ActivePolicy, entry_id: int, account_id: int) -> Decision:
    """Decide one ask; nothing is written.

    Without locks the answer is only informative: a booking reads the facts after it has
    locked the policy, the adversary and the entry.

    Raises
    ------
    NotFound
        There is no such entry or account.
    """
    row = tx.driver_one(*decisions.ask_question(entry_id, account_id))
    if row is None:
        raise missing(tx, entry_id, account_id)
    ask = decisions.ask(row)
    entry, who = ask.entry, ask.account.adversary_id
    question = decisions.known_question(
        entry_id, who, entry.record_id, entry.subject_id
    )
    facts = read_facts(tx, force, ask, decisions.known(tx.driver_rows(*question)))
    return Decision(facts, judge(force, facts))


def missing(tx: Tx, entry_id: int, account_id: int) -> NotFound:
    """Return the error for an ask whose entry or account does not exist."""
    if decisions.account_exists(tx, account_id):
        return refusals.unknown("entry", entry_id)
    return refusals.unknown("account", account_id)


def read_facts(tx: Tx, force: ActivePolicy, ask: AskRow, known: Known) -> AskFacts:
    """Read the missing inputs of one ask, and assemble its facts."""
    account, entry = ask.account, ask.entry
    who = account.adversary_id
    field = force.fields.get(entry.field_id)
    held, showings, limit = _showings(tx, ask, field, known.shown)
    around: tuple[Around, ...] = ()
    after = None
    if field is not None and field.links:
        around = tuple(relations.around(tx, force, entry, who, held=held))
    if force.averages and field is not None and not held:
        after = averages.averages_after(tx, force, entry, who, around)
    return AskFacts(
        entry,
        account,
        rows.stopped_scopes(tx) if ask.stopped else NOTHING_PAUSED,
        rows.recusals(tx, [who]) if ask.recused else NOBODY_RECUSED,
        held,
        showings,
        limit,
        *_counts(force, known.held),
        trusted_rules_of(tx, force, who) if force.trusting else frozenset(),
        around,
        after,
    )


def _showings(
    tx: Tx,
    ask: AskRow,
    field: FieldPolicy | None,
    shown: list[tuple[int, int | None]],
) -> tuple[bool, int, int]:
    """Return whether the entry is held, how often it was shown, and its limit."""
    adversary = ask.account.adversary_id
    limit = field.showings if field else 0
    if ask.joined or None in [showing for _, showing in shown]:
        lines = rows.showings(tx, ask.entry.id)
        shown = [(line.adversary_id, line.showing) for line in lines]
        limit += sum(line.extra for line in lines)
    held, count = False, 0
    for chain, showing in shown:
        held = held or chain == adversary
        count += showing or 0
    return held, count, limit


def _counts(
    force: ActivePolicy, found: list[tuple[int, int, int, int]]
) -> tuple[Held, Held]:
    """What the adversary holds of the entry's record, and of its subject."""
    of_record: dict[tuple[str, int], int] = {}
    of_subject: dict[tuple[str, int], int] = {}
    fields = force.fields
    for unit, number, time, count in found:
        if number in fields:
            held = of_subject if unit & 1 else of_record
            held[fields[number].name, time] = count
    return of_record, of_subject
