"""One ask, decided against the whole history in a handful of primary-key look-ups.

What a decision costs depends on the rules that touch the entry and on the showings that
the entry has had (at most t and what came again), never on the length of the ledger.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from dispatcher.core import keys
from dispatcher.core.errors import NotFound
from dispatcher.ledger import averages, refusals, relations
from dispatcher.ledger.lines import adversary_name
from dispatcher.ledger.refusals import Refusal
from dispatcher.ledger.standing import FieldStanding, InForce
from dispatcher.model import record_unit, subject_unit
from dispatcher.store import decisions
from dispatcher.store import ledger as rows
from dispatcher.store.decisions import AskRow, Known
from dispatcher.store.ledger import AccountRow, EntryRow
from dispatcher.store.transaction import Tx
from policies.policy import Scope
from policies.rules.asks import EntryFacts, Finding, judge_ask
from policies.rules.record_rules import by_field

Held = dict[tuple[str, int], int]


class Decision(NamedTuple):
    """What the gate says of one ask.

    Attributes
    ----------
    entry : EntryRow
    account : AccountRow
    held : bool
        Whether the adversary holds the entry already: it is then not judged again.
    showings, limit : int
        How many adversaries it was shown to, and t with what ``unburn`` added.
    findings : tuple of Finding
        What every rule says that touches the field, if that was asked for or one of
        them refuses; empty if the field is not sent.
    refusal : Refusal or None
        Why not; None allows it.
    sums : tuple of (str, Fraction)
        What the exposure adds to the adversary's sums of f, where means are capped.
    """

    entry: EntryRow
    account: AccountRow
    held: bool
    showings: int
    limit: int
    findings: tuple[Finding, ...]
    refusal: Refusal | None
    sums: tuple[tuple[str, Fraction], ...] = ()


def decide(
    tx: Tx, force: InForce, entry_id: int, account_id: int, *, told: bool = False
) -> Decision:
    """Decide one ask; nothing is written.

    Without locks the answer is good for looking only; with them, :func:`judge` is.

    Parameters
    ----------
    tx : Tx
    force : InForce
    entry_id, account_id : int
    told : bool
        Fill ``findings`` in any case; else only when a rule refuses.

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
    return judge(tx, force, ask, decisions.known(tx.driver_rows(*question)), told=told)


def missing(tx: Tx, entry_id: int, account_id: int) -> NotFound:
    """Error for an ask whose entry or account is not there."""
    if decisions.account_exists(tx, account_id):
        return refusals.unknown("entry", entry_id)
    return refusals.unknown("account", account_id)


def judge(
    tx: Tx, force: InForce, ask: AskRow, found: Known, *, told: bool = False
) -> Decision:
    """Decide one ask by what was found of it; parameters as of :func:`decide`.

    A booking calls this with what it read after it had locked the barrier, the
    adversary and the entry.
    """
    account, entry = ask.account, ask.entry
    field = force.fields.get(entry.field_id)
    held, showings, limit = _showings(tx, ask, field, found.shown)
    known = (entry, account, held, showings, limit)
    if field is None or not field.sent:
        return Decision(*known, (), refuse(entry, account, refusals.FIELDS_SEND))
    refusal = _standing(tx, ask)
    if not told and (held or refusal is not None):
        return Decision(*known, (), refusal)
    of_record, of_subject = _holdings(force, found.held)
    trusted = trust(tx, force, account.adversary_id)
    findings: tuple[Finding, ...] = ()
    if told or _past(field, entry, of_record, of_subject, trusted):
        if held:
            of_record.setdefault((field.name, 0), 1)
        facts_ = facts(entry, field)
        findings = judge_ask(force.rules, facts_, of_record, of_subject, trusted)
    around = relations.around(tx, force, entry, account.adversary_id, held=held)
    findings += relations.findings(around, trusted)
    sums: tuple[tuple[str, Fraction], ...] = ()
    if refusal is None and not held:
        refusal = _judged(entry, account, showings, limit, findings)
        if refusal is None and force.averages:
            refusal, sums = averages.judge(tx, force, entry, account, trusted, around)
    return Decision(*known, findings, refusal, sums)


def _showings(
    tx: Tx,
    ask: AskRow,
    field: FieldStanding | None,
    shown: list[tuple[int, int | None]],
) -> tuple[bool, int, int]:
    """Whether the entry is held already, how often it was shown, and its limit."""
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


def _past(
    field: FieldStanding,
    entry: EntryRow,
    of_record: Held,
    of_subject: Held,
    trusted: frozenset[str],
) -> bool:
    """Whether a rule refuses one more entry of these two units."""
    time = (entry.time or 0) if field.timed else 0
    counted: dict[Scope, dict[str, int]] = {}  # once a scope, not once a rule
    for rule in field.rules:
        if rule.cap is None or rule.name in trusted:
            continue
        scope = rule.scope
        of_record_ = scope is Scope.RECORD
        held = of_record if of_record_ else of_subject
        if rule.window is not None:
            key = (field.name, 0 if of_record_ else time)
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


def facts(entry: EntryRow, field: FieldStanding) -> EntryFacts:
    """What the rules ask of an entry."""
    return EntryFacts(
        record=entry.record,
        field=field.name,
        subject=None if entry.subject_id is None else str(entry.subject_id),
        time=(entry.time or 0) if field.timed else 0,
    )


def refuse(
    entry: EntryRow,
    account: AccountRow,
    word: str,
    value: Fraction | int = 1,
    limit: Fraction | int = 1,
) -> Refusal:
    """Refusal of one ask."""
    return Refusal(
        entry_id=entry.id,
        account_id=account.id,
        entry=keys.entry_name(entry.record, entry.field_id),
        account=account.text,
        adversary=adversary_name(account.adversary_id),
        rule=word,
        value=value,
        limit=limit,
    )


def trust(tx: Tx, force: InForce, adversary_id: int) -> frozenset[str]:
    """Rules that are not judged for an adversary."""
    if not force.trusting:
        return frozenset()
    return force.trusted(rows.groups_of(tx, adversary_id))


def stopped(scopes: set[str], entry: EntryRow, account: AccountRow) -> bool:
    """Whether a pause covers the ask."""
    return bool(scopes) and not scopes.isdisjoint(
        ("all", f"connector:{account.connector}", f"run#{entry.run_id}")
    )


def _standing(tx: Tx, ask: AskRow) -> Refusal | None:
    account, entry = ask.account, ask.entry
    if account.state != "active":
        return refuse(entry, account, refusals.ACCOUNT)
    if entry.waiting:
        return refuse(entry, account, refusals.PILOT)
    if ask.stopped and stopped(rows.stopped_scopes(tx), entry, account):
        return refuse(entry, account, refusals.PAUSE)
    if ask.recused:
        units = {(account.adversary_id, unit) for unit in units_of(entry)}
        if not units.isdisjoint(rows.recusals(tx, [account.adversary_id])):
            return refuse(entry, account, refusals.RECUSAL)
    return None


def units_of(entry: EntryRow) -> list[int]:
    """Return the units that an entry belongs to: its record, and its subject if any."""
    units = [record_unit(entry.record_id)]
    if entry.subject_id is not None:
        units.append(subject_unit(entry.subject_id))
    return units


def _judged(
    entry: EntryRow,
    account: AccountRow,
    showings: int,
    limit: int,
    findings: tuple[Finding, ...],
) -> Refusal | None:
    for finding in findings:
        if finding.refused:
            assert finding.tau is not None
            return refuse(entry, account, finding.property, finding.after, finding.tau)
    if showings + 1 > limit:
        return refuse(entry, account, refusals.BUDGET_T, showings + 1, limit)
    return None


def _holdings(
    force: InForce, found: list[tuple[int, int, int, int]]
) -> tuple[Held, Held]:
    """What the adversary holds of the entry's record, and of its subject."""
    of_record: Held = {}
    of_subject: Held = {}
    fields = force.fields
    for unit, number, time, count in found:
        if number in fields:
            held = of_subject if unit & 1 else of_record
            held[fields[number].name, time] = count
    return of_record, of_subject
