"""Keys: the evidence about each entry, without its value."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from dispatcher.core.canonical import canonical
from dispatcher.ledger import averages, chains
from dispatcher.ledger.active_policy import ActivePolicy, no_policy, version_of
from dispatcher.ledger.identity_changes import refuse_averages
from dispatcher.model import SYSTEM_CHAIN
from dispatcher.store import entry_registrations, ledger
from dispatcher.store import policies as policy_rows
from dispatcher.store.entry_registrations import KnownEntry
from dispatcher.store.transaction import Tx
from policies.policy import Scope

SALT_BYTES: Final = 16


class RecordKeys(NamedTuple):
    """A record whose entries are registered with the ledger.

    Attributes
    ----------
    record : str
        The record's pseudonym.
    field_ids : Sequence of int
        The fields in which it has an entry.
    subject : str or None
        The subject's pseudonym.
    time : int or None
        Microseconds UTC.
    place : str or None
        Pseudonym of the place; None if it is at none.
    visits : int or None
        At that place, >= 1.
    """

    record: str
    field_ids: Sequence[int]
    subject: str | None = None
    time: int | None = None
    place: str | None = None
    visits: int | None = None


@dataclass(frozen=True)
class Needs:
    """Facts of a field's entries that the rules need.

    ``vector`` and ``count`` are the columns that relation rules read, or None.
    """

    subject: bool
    time: bool
    vector: str | None = None
    count: str | None = None

    def exceeds(self, had: Needs | None) -> bool:
        """Whether something is needed that was not written before."""
        if had is None:
            return True
        pairs = ((getattr(self, w), getattr(had, w)) for w in ("subject", "time"))
        more = any(mine and not theirs for mine, theirs in pairs)
        return more or any(
            getattr(self, word) not in (None, getattr(had, word))
            for word in ("vector", "count")
        )


def needs(force: ActivePolicy) -> dict[int, Needs]:
    """Return the facts that the version in force needs, by field number."""
    return {
        number: Needs(
            subject=any(rule.scope is Scope.SUBJECT for rule in field.rules)
            or bool(field.links),
            time=field.timed,
            vector=next((r.vector for r in field.links if r.vector), None),
            count=next((r.count for r in field.links if r.vector), None),
        )
        for number, field in force.fields.items()
    }


def register_keys(tx: Tx, records: Iterable[RecordKeys], *, at: int) -> int:
    """Register the entries of a load with the ledger.

    The lines are stored unchanged, for evidence; chain ``system`` gets their number and
    digest. Call it in the transaction that writes the entries, after they are written.

    Parameters
    ----------
    tx : Tx
        A write transaction.
    records : Iterable of RecordKeys
    at : int
        Now.

    Returns
    -------
    int
        Number of lines written; a load without entries writes none and no line in chain
        ``system``.

    Raises
    ------
    Conflict
        No policy is in force.
    PastLimit
        The new entries raise an average past its cap: each may begin a window over what
        is already held. Nothing may be committed: let the error end the transaction.
    ValueError
        An entry lacks a fact that the policy needs: intake rejects such records.
    """
    version = policy_rows.lock_policy_shared(tx)
    if not version:
        raise no_policy()
    force, loaded = version_of(tx, version), list(records)
    salt = tx.vault.entropy(SALT_BYTES)
    lines, facts = key_lines(force, loaded), fact_lines(loaded, salt)
    written = write_keys(tx, lines, at=at, facts=facts)
    # Chain ``system`` is locked by now, so that loads come here one by one; the policy
    # lock, exclusive where an average is capped, keeps bookings out.
    if written and averages.may_be_lifted(tx, force):
        living = [
            chain.id
            for chain in ledger.all_chains(tx)
            if chain.id != SYSTEM_CHAIN and chain.survivor_id is None
        ]
        refuse_averages(tx, force, living, "the load")
    return written


def write_keys(
    tx: Tx,
    lines: Iterable[str],
    *,
    at: int,
    facts: Iterable[str] | None = None,
    links: Iterable[str] = (),
) -> int:
    """Store raw key lines and their digest in chain ``system``.

    ``facts`` has all that is known of new entries; without it the entries are known
    already, and the lines add facts about them. ``links`` are raw lines of relations.
    Returns the number of key lines.
    """
    kept, paired = list(lines), list(links)
    if not kept and not paired:
        return 0
    raw, relations = "".join(kept).encode(), "".join(paired).encode()
    raw_facts = "".join(facts or ()).encode()
    body = {
        "facts_sha256": hashlib.sha256(raw_facts).hexdigest(),
        "keys_count": len(kept),
        "keys_sha256": hashlib.sha256(raw).hexdigest(),
        "relations_count": len(paired),
        "relations_sha256": hashlib.sha256(relations).hexdigest(),
    }
    system = chains.append(tx, chains.lock_system(tx), "keys", body, at=at)
    repeats = len(kept) if facts is None else 0
    entry_registrations.add(
        tx,
        entry_registrations.LoadLines(system.seq, raw, relations, raw_facts, repeats),
    )
    return len(kept)


def fact_lines(records: Iterable[RecordKeys], salt: bytes) -> Iterator[str]:
    """Yield lines with all facts of new entries, needed or not, each with its LF.

    The store is compared with them (:mod:`.comparison`). After a line with the salt,
    which keeps an auditor from guessing them by their digest, a line is a JSON list
    about a record: its name, fields, subject, time, place, visits; null for none.
    """
    yield f'"{salt.hex()}"\n'
    for record, field_ids, subject, time, place, visits in records:
        person = "null" if subject is None else f'"{subject}"'
        moment = "null" if time is None else time
        where = "null" if place is None else f'"{place}"'
        count = "null" if visits is None else visits
        yield f'["{record}",{[*field_ids]},{person},{moment},{where},{count}]\n'


def key_lines(force: ActivePolicy, records: Iterable[RecordKeys]) -> Iterator[str]:
    """Yield canonical key lines for the version in force, each with its LF.

    An entry at no place has ``vector`` (and ``count``) without a column.
    """
    forms = _forms(force)
    for record, field_ids, subject, time, place, visits in records:
        with_subject = "" if subject is None else f',"subject":"{subject}"'
        with_time = "" if time is None else f',"time":{time}'
        for number in field_ids:
            form = forms[number]
            wanted = form.needs
            if (wanted.subject and subject is None) or (wanted.time and time is None):
                message = f"an entry of field {number} lacks its subject or time"
                raise ValueError(message)
            head = form.count(None if place is None else visits)
            tail = (with_subject if wanted.subject else "") + (
                with_time if wanted.time else ""
            )
            yield (
                f'{{{head}"entry":"{record}.{number}",{form.field}"{record}"{tail}'
                f"{form.vector(place)}}}\n"
            )


def read_facts(text: bytes) -> list[KnownEntry]:
    """Parse the output of :func:`fact_lines`."""
    found = []
    for line in text.splitlines()[1:]:
        record, field_ids, *facts = json.loads(line)
        found += [KnownEntry(record, number, *facts) for number in field_ids]
    return found


@dataclass(frozen=True)
class _Form:
    """Format of a field's key lines."""

    field: str
    needs: Needs

    def count(self, visits: int | None) -> str:
        """Return member ``count`` with its comma, if needed."""
        column = self.needs.count
        if column is None:
            return ""
        inside = "" if visits is None else f"{canonical(column)}:{visits}"
        return f'"count":{{{inside}}},'

    def vector(self, place: str | None) -> str:
        """Return member ``vector`` with its comma, if needed."""
        column = self.needs.vector
        if column is None:
            return ""
        inside = "" if place is None else f'{canonical(column)}:"{place}"'
        return f',"vector":{{{inside}}}'


def _forms(force: ActivePolicy) -> Mapping[int, _Form]:
    wanted = needs(force)
    return {
        number: _Form(f'"field":{canonical(field.name)},"record":', wanted[number])
        for number, field in force.fields.items()
    }
