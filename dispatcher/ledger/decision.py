"""One ask, decided against the whole history in a handful of primary-key look-ups.

What a decision costs depends on the rules that touch the entry and on the showings that
the entry has had (at most t and what came again), never on the length of the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dispatcher import keys
from dispatcher.ledger import averages, refusals
from dispatcher.ledger.lines import adversary_name
from dispatcher.ledger.refusals import Refusal
from dispatcher.ledger.standing import FieldStanding, InForce
from dispatcher.model import record_unit, subject_unit
from dispatcher.store import ledger as rows
from dispatcher.store.ledger import AccountRow, EntryRow
from dispatcher.store.transaction import Tx
from policies.asks import EntryFacts, Finding, judge_ask

Held = dict[tuple[str, int], int]


@dataclass(frozen=True)
class Decision:
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
        What every rule says that touches the field; empty if the field is not sent.
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


def decide(tx: Tx, force: InForce, entry_id: int, account_id: int) -> Decision:
    """Decide one ask; nothing is written.

    A booking calls this after it has locked the barrier, the adversary and the entry;
    without locks the answer is good for looking only.

    Raises
    ------
    NotFound
        There is no such entry or account.
    """
    account = rows.account(tx, account_id)
    if account is None:
        raise refusals.unknown("account", account_id)
    entry = rows.entry(tx, entry_id)
    if entry is None:
        raise refusals.unknown("entry", entry_id)
    shown = rows.showings(tx, entry_id)
    held = any(row.adversary_id == account.adversary_id for row in shown)
    showings = sum(row.showing for row in shown)
    field = force.fields.get(entry.field_id)
    limit = sum(row.extra for row in shown) + (field.showings if field else 0)
    known = (entry, account, held, showings, limit)
    if field is None or not field.sent:
        return Decision(*known, (), refuse(entry, account, refusals.FIELDS_SEND))
    in_record, in_subject, recused = _holdings(tx, force, entry, account.adversary_id)
    if held:
        in_record.setdefault((field.name, 0), 1)
    trusted = trust(tx, force, account.adversary_id)
    findings = judge_ask(
        force.rules, facts(entry, field), in_record, in_subject, trusted
    )
    refusal = _standing(tx, entry, account) or (
        refuse(entry, account, refusals.RECUSAL) if recused else None
    )
    sums: tuple[tuple[str, Fraction], ...] = ()
    if not held:
        refusal = refusal or _judged(entry, account, showings, limit, findings)
        if refusal is None and force.averages:
            refusal, sums = averages.judge(tx, force, entry, account, trusted)
    return Decision(*known, findings, refusal, sums)


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


def _standing(tx: Tx, entry: EntryRow, account: AccountRow) -> Refusal | None:
    if account.state != "active":
        return refuse(entry, account, refusals.ACCOUNT)
    if stopped(rows.stopped_scopes(tx), entry, account):
        return refuse(entry, account, refusals.PAUSE)
    return None


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
    tx: Tx, force: InForce, entry: EntryRow, adversary_id: int
) -> tuple[Held, Held, bool]:
    """What the adversary holds of the entry's record and subject; whether it recused."""
    units = [record_unit(entry.record_id)]
    if entry.subject_id is not None:
        units.append(subject_unit(entry.subject_id))
    held: tuple[Held, Held] = ({}, {})
    recused = False
    fields = force.fields
    for unit, field_id, time, count in rows.held_units(tx, adversary_id, units):
        if field_id < 0:
            recused = True
        elif field_id in fields:
            held[unit & 1][fields[field_id].name, time] = count
    return held[0], held[1], recused
