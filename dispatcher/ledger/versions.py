"""Policy versions: check, test, judge against what was shown, then apply."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dispatcher.core.errors import Changed, Conflict, Invalid
from dispatcher.ledger import averages, chains, recall
from dispatcher.ledger.active_policy import (
    ActivePolicy,
    compile_version,
    trusted_rules_of,
    version_of,
)
from dispatcher.ledger.chains import seal
from dispatcher.ledger.identity_changes import regroup
from dispatcher.ledger.links import (
    Beside,
    add_links,
    functions_sha256,
    tables_text,
)
from dispatcher.ledger.loads import RecordKeys, key_lines, needs, write_keys
from dispatcher.ledger.recall import (
    NOTHING_OPEN,
    NOTHING_RECALLED,
    InFlightAction,
    Recall,
    Recalled,
)
from dispatcher.ledger.violations import Acceptance, Past
from dispatcher.model import SYSTEM_CHAIN
from dispatcher.store import (
    entry_registrations,
    events,
    exposure_counts,
    ledger,
)
from dispatcher.store import policies as policy_rows
from dispatcher.store.ledger import ChainRow
from dispatcher.store.policies import TableRow
from dispatcher.store.transaction import Tx
from policies.document import parse, run_tests
from policies.policy import Box, Field, Policy
from policies.rules.asks import unsupported
from policies.rules.crops import box_of, redactions
from policies.rules.field_utility import UTILITY_NAME as UTILITY
from policies.rules.link_rules import place_columns
from policies.rules.tabulated import FieldTable


@dataclass(frozen=True)
class AppliedPolicy:
    """Result of applying a policy file.

    Attributes
    ----------
    version : int
        The version in force now.
    sha256 : str
    changed : bool
        False if the file is already in force: nothing was written.
    judged : int
        Adversaries whose past was judged.
    joined : int
        Adversaries that ended because groups of the version join them.
    keys : int
        Additional key lines for loaded entries.
    accepted : tuple of Past
        Findings past a limit of the version that were accepted.
    recall, recalled : Recall, Recalled
        Tasks in progress that the version would not allow, and what became of them.
    """

    version: int
    sha256: str
    changed: bool = True
    judged: int = 0
    joined: int = 0
    keys: int = 0
    accepted: tuple[Past, ...] = ()
    recall: Recall = NOTHING_OPEN
    recalled: Recalled = NOTHING_RECALLED


@dataclass(frozen=True)
class ApplyTerms:
    """How to put a version in force.

    Attributes
    ----------
    accept : int or None
        How many findings past the new limits are accepted; None: any, for a preview.
    in_flight : InFlightAction
        What happens to tasks in progress that the version would not allow.
    if_active : int or None
        The version that must be in force now; 0 is none. None: whichever is.
    withdrawing : frozenset of str
        Connectors that can withdraw tasks.
    actor, reason : str
        Who acts, and why, for the audit log; no field value.
    """

    accept: int | None = 0
    in_flight: InFlightAction = InFlightAction.RECALL
    if_active: int | None = None
    withdrawing: frozenset[str] = frozenset()
    actor: str = "operator"
    reason: str = ""


def check_policy(
    source: bytes, levels: Mapping[str, FieldTable] | None = None
) -> Policy:
    """Parse a policy file and check that it may be applied.

    ``levels`` has f by fields held, of rules that name a table or a user's function.

    Raises
    ------
    Invalid
        The file has errors, one of its tests fails, or a rule is of a kind that the
        gate cannot judge yet.
    """
    result = parse(source)
    if result.policy is None:
        first = next(d for d in result.diagnostics if d.severity == "error")
        raise Invalid(
            f"the policy has {result.errors} errors; the first: {first.message}",
            why=f"line {first.line}: {first.why} ({first.code})",
            fix="See all of them with: dispatcher policy check",
        )
    failed = [o.test.name for o in run_tests(result.policy) if not o.passed]
    if failed:
        raise Invalid(
            f"{len(failed)} tests of the policy fail; the first: {failed[0]}",
            why="A policy is applied only if it does what its own tests say.",
            fix="See them with: dispatcher policy test",
        )
    refused = unsupported(result.policy, levels)
    if refused:
        raise Invalid(
            f"the gate cannot judge {len(refused)} rules of the policy",
            why="; ".join(refused),
            fix="Take these rules out, or write them as a step or a power of a sum.",
        )
    if result.policy.budget.utility is not None and UTILITY not in (levels or {}):
        raise Invalid(
            f"what utility plugin:{result.policy.budget.utility} says is missing",
            why="Plans are made by it, and it was not asked.",
            fix="Install its package where this runs, then: dispatcher policy apply",
        )
    return result.policy


def apply_policy(
    tx: Tx,
    source: bytes,
    *,
    at: int,
    terms: ApplyTerms | None = None,
    links: Beside | None = None,
) -> AppliedPolicy:
    """Put a policy file in force as the next version.

    It is a barrier: it waits for bookings in flight, and judges every later one.

    Parameters
    ----------
    tx : Tx
        A write transaction.
    source : bytes
        The file, kept byte for byte.
    at : int
        Now.
    terms : ApplyTerms, optional
    links : Beside, optional
        Inputs beside the file. Links are added to the existing ones; a link never
        lapses.

    Raises
    ------
    Invalid
        See :func:`check_policy`; or a relation's links were not given.
    Conflict
        Another version is in force than the terms say; or loaded records lack facts
        that the version needs, or were loaded under incompatible declarations
        (:mod:`dispatcher.ledger.versions`).
    PastLimit
        What was already shown is past a limit of the version, and the terms accept
        another number of findings; ``facts`` has the properties, and how many
        adversaries and units. Nothing may be committed: let the error end the
        transaction.
    """
    terms = terms or ApplyTerms()
    beside = links or Beside()
    policy = check_policy(source, beside.levels)
    sha256 = hashlib.sha256(source).hexdigest()
    before = policy_rows.lock_policy_exclusive(tx)
    _check_active(before, terms.if_active)
    old = version_of(tx, before) if before else None
    if old is not None and old.sha256 == sha256 and not beside.adds(tx, before):
        return AppliedPolicy(before, sha256, changed=False)
    check_loaded(tx, policy)
    ids = ledger.number_fields(tx, policy.entity.fields)
    force = compile_version(before + 1, sha256, policy, ids, beside.levels)
    link_lines = add_links(tx, policy, beside.links, force.version)
    written = _write_missing_keys(tx, old, force, at, link_lines)
    exposure_counts.rebuild_counts(tx, force.kept)
    if force.averages:
        averages.rebuild(tx, force)
    living = [c for c in ledger.all_chains(tx) if _lives(c)]
    what = f"version {force.version} of the policy"
    acceptance = Acceptance(tx, what, terms.accept)
    accepted = _judge_past(tx, force, living, acceptance)
    if before:
        seal(tx, at=at)  # all that was shown under the version before
    functions = [beside.functions[name].row(name) for name in sorted(beside.functions)]
    _write_version(tx, force, source, functions, accepted, at)
    joined = regroup(tx, force, acceptance, at=at)
    found = acceptance.settle()
    unsafe = recall.foresee(tx, force, terms.withdrawing)
    recalled = recall.take_back(tx, unsafe, terms.in_flight, at=at)
    _note(tx, force, terms, found, recalled, at)
    return AppliedPolicy(
        version=force.version,
        sha256=sha256,
        judged=len(living),
        joined=joined,
        keys=written,
        accepted=found,
        recall=unsafe,
        recalled=recalled,
    )


def _check_active(active: int, wanted: int | None) -> None:
    if wanted is not None and wanted != active:
        raise Changed(
            f"version {active} is in force, not {wanted}"
            if active
            else f"no version is in force, so not {wanted}",
            why="Another version was applied since you looked; nothing was changed.",
            fix="Look again with: dispatcher policy diff; then name the version that "
            "is in force",
            facts={"active": active, "if_active": wanted},
        )


def _write_version(
    tx: Tx,
    force: ActivePolicy,
    source: bytes,
    functions: list[TableRow],
    accepted: list[dict[str, object]],
    at: int,
) -> None:
    """Write a version's line, its file, and the functions of its rules."""
    number, sha256 = force.version, force.sha256
    body = {"version": number, "sha256": sha256, "accepted": accepted}
    if tables := tables_text(functions):
        body["tables_sha256"] = hashlib.sha256(tables.encode()).hexdigest()
    body["functions_sha256"] = functions_sha256(functions)
    chains.append(tx, chains.lock_system(tx), "policy", body, at=at)
    policy_rows.put_policy(tx, number, force.policy.name, source, sha256, at)
    policy_rows.add_functions(tx, number, functions)


def _note(
    tx: Tx,
    force: ActivePolicy,
    terms: ApplyTerms,
    found: tuple[Past, ...],
    recalled: Recalled,
    at: int,
) -> None:
    """Log in the audit log who put the version in force, and why."""
    detail: dict[str, object] = {"version": force.version, "accepted": len(found)}
    detail |= {"in_flight": terms.in_flight.value, "recalled": recalled.tasks}
    detail |= {"left": recalled.left, "reason": terms.reason}
    events.add_event(tx, at, terms.actor, "policy.activated", detail)
    if found:
        rules = sorted({past.property for past in found})
        detail = {"cause": "policy", "units": len(found), "properties": rules}
        events.add_event(tx, at, terms.actor, "limit.crossed", detail)


def _lives(chain: ChainRow) -> bool:
    return chain.id != SYSTEM_CHAIN and chain.survivor_id is None


def _judge_past(
    tx: Tx, force: ActivePolicy, living: list[ChainRow], acceptance: Acceptance
) -> list[dict[str, object]]:
    """Judge all that is held; return what the version's line must accept."""
    items: list[dict[str, object]] = []
    for chain in living:
        trusted = trusted_rules_of(tx, force, chain.id)
        found = acceptance.judge(force, chain.id, trusted, means=force.averages)
        items += [{"chain": chain.name, **item} for item in found]
    return sorted(items, key=lambda i: (i["chain"], i["property"], i["unit"]))


def _write_missing_keys(
    tx: Tx, old: ActivePolicy | None, force: ActivePolicy, at: int, links: list[str]
) -> int:
    """Write the facts of loaded entries that only the new version needs, and links."""
    wanted = needs(force)
    given = needs(old) if old else {}
    loaded = {row[0]: row[1:] for row in entry_registrations.loaded_fields(tx)}
    more = []
    for number, (count, subjects, times) in loaded.items():
        need, had = wanted.get(number), given.get(number)
        if need is None:
            continue
        lacking = (need.subject and subjects < count) or (need.time and times < count)
        if lacking:
            raise Conflict(
                "loaded records lack facts that this version of the policy needs",
                why=f"Field {force.fields[number].name}: the rules ask for the subject"
                " or the time of its entries, and the policy in force when they were"
                " loaded named no such column.",
                fix="Load these records into a new store under this policy.",
            )
        if need.exceeds(had):
            more.append(number)
    lines = key_lines(force, _facts(tx, more)) if more else iter(())
    return write_keys(tx, lines, at=at, links=links)


def _facts(tx: Tx, field_ids: list[int]) -> Iterator[RecordKeys]:
    for record, number, *facts in entry_registrations.facts(tx, field_ids):
        yield RecordKeys(record, (number,), *facts)


def check_loaded(tx: Tx, policy: Policy) -> None:
    """Refuse a policy that would read loaded records differently than they were loaded.

    Grows with the number of loads and of versions, never with the records.

    Raises
    ------
    Conflict
    """
    for version in _versions_with_loads(tx):
        before = version_of(tx, version).policy
        difference = next(_other_words(before, policy), None)
        if difference is not None:
            raise Conflict(
                f"{difference}, and records are loaded",
                why="What identifies a record or a person, and what is shown of a "
                f"field, was made when they were loaded, under version {version}; "
                "this version would not mean the same by it.",
                fix="Load the records into a new store under this policy, or keep "
                "these words as they were.",
            )


def _versions_with_loads(tx: Tx) -> list[int]:
    lines = entry_registrations.policy_lines(tx)
    found = {bisect_left(lines, load) for load in entry_registrations.loads(tx)}
    return sorted(found - {0})


def _other_words(before: Policy, after: Policy) -> Iterator[str]:
    old, new = before.entity, after.entity
    if old.key != new.key:
        yield "the policy takes the key of a record from another column"
    for word in ("subject", "time"):
        one, other = getattr(old, word), getattr(new, word)
        if one is not None and other is not None and one != other:
            yield f"the policy takes the {word} from another column"
    place, other = place_columns(before.properties), place_columns(after.properties)
    if other is not None and place != other:
        yield "the policy takes the place of a record from another column"
    for name, field in new.fields.items():
        known = old.fields.get(name)
        if known is None or not field.send:
            continue
        if _shown_from(before, known) != _shown_from(after, field):
            yield f"the policy shows another part of the record for field {name}"
        elif not _masked(after, field) <= _masked(before, known):
            yield f"the policy masks more in field {name}"


def _shown_from(policy: Policy, field: Field) -> tuple[object, ...]:
    """Return where a field's shown form comes from: column, box, and template."""
    if field.image_column is None:
        return ()
    entity, box = policy.entity, field.image_box
    found = None if box is None else entity.layout.get(box, box)
    return field.image_column, found, entity.template


def _masked(policy: Policy, field: Field) -> set[str | Box]:
    """Return what is masked in a field: tags of its text, or boxes of its page."""
    if field.image_column is None:
        return {*field.redact}
    box = box_of(policy.entity, field)
    return {*redactions(policy.entity, 1 if isinstance(box, str) else box.page)}
