"""Caps on averages: the exact sums of f behind each average.

They are stored only under a policy that caps an average. The sums follow from exposure
counts and entries and are recomputed when a load or a new version has changed the sets;
a booking then adds what its exposure changes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby
from operator import itemgetter

from dispatcher.ledger import relations
from dispatcher.ledger.active_policy import ActivePolicy
from dispatcher.ledger.refusals import Cause
from dispatcher.ledger.relations import Around
from dispatcher.model import record_unit, subject_unit
from dispatcher.store import averages as rows
from dispatcher.store.ledger import GateEntry
from dispatcher.store.transaction import Tx
from policies.policy import Scope
from policies.rules.link_rules import LinkRule
from policies.rules.record_rules import Held, Rule

Sums = dict[str, Fraction]


@dataclass(frozen=True)
class SumsOfSets:
    """Sums and counts behind the averages.

    Attributes
    ----------
    sets : dict of str to int
        By rule: its sets that could disclose something.
    sums : dict of int to dict of str to Fraction
        By adversary and rule: sum of f over them.
    """

    sets: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    sums: dict[int, Sums] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(Fraction))
    )


def measured(force: ActivePolicy) -> tuple[Rule | LinkRule, ...]:
    """Return the rules whose sums are needed: all, if the budget caps their average."""
    every: list[Rule | LinkRule] = [*force.rules.all.values()]
    every += force.rules.links.values()
    if force.policy.budget.average is not None:
        return tuple(every)
    return tuple(rule for rule in every if rule.average is not None)


def _of_scope(force: ActivePolicy, scope: Scope) -> list[Rule]:
    return [r for r in measured(force) if isinstance(r, Rule) and r.scope is scope]


def refresh(tx: Tx, force: ActivePolicy) -> None:
    """Recompute the stored sums if they are stale (grows with the store)."""
    if force.averages and not is_fresh(tx, force):
        rebuild(tx, force)


def is_fresh(tx: Tx, force: ActivePolicy) -> bool:
    """Whether the stored sums are of this version and newer than the last load."""
    return rows.stamp(tx) == _stamp(tx, force)


def may_be_lifted(tx: Tx, force: ActivePolicy) -> bool:
    """Whether a load can raise an average: only windows begin at entries nobody holds."""
    windows = any(rule.window is not None for rule in measured(force))
    return force.averages and windows and rows.anything_held(tx)


def rebuild(tx: Tx, force: ActivePolicy) -> None:
    """Recompute and store the sums from exposure counts and entries."""
    kept = compute(tx, force)
    rows.replace(
        tx,
        kept.sets.items(),
        (
            (adversary, name, str(total))
            for adversary, sums in kept.sums.items()
            for name, total in sums.items()
            if total
        ),
        _stamp(tx, force),
    )


def _stamp(tx: Tx, force: ActivePolicy) -> bytes:
    return f"{force.version}:{rows.last_load(tx)}".encode()


def read(tx: Tx, force: ActivePolicy, adversary_id: int | None = None) -> SumsOfSets:
    """Return the stored sums, or recomputed ones where those are stale.

    If ``adversary_id`` is given, the sums of others may be missing.
    """
    if not is_fresh(tx, force):
        return compute(tx, force)
    kept = SumsOfSets()
    kept.sets.update(rows.sets(tx))
    for adversary, name, total in rows.sums(tx, adversary_id):
        kept.sums[adversary][name] = Fraction(total)
    return kept


def compute(tx: Tx, force: ActivePolicy) -> SumsOfSets:
    """Sum f over all sets of all adversaries, unit by unit."""
    kept = SumsOfSets()
    for scope in (Scope.RECORD, Scope.SUBJECT):
        rules = _of_scope(force, scope)
        if rules:
            _add_scope(tx, force, rules, scope is Scope.SUBJECT, kept)
    for rule in measured(force):
        if isinstance(rule, LinkRule):
            kept.sets[rule.name], sums = relations.count_and_sums(tx, force, rule)
            for adversary, total in sums.items():
                kept.sums[adversary][rule.name] = total
    return kept


def _add_scope(
    tx: Tx, force: ActivePolicy, rules: list[Rule], subject: bool, kept: SumsOfSets
) -> None:
    held = _Ahead(groupby(rows.counts_by_unit(tx, subject=subject), itemgetter(0)))
    for unit, entries in groupby(
        rows.entries_by_unit(tx, subject=subject), itemgetter(0)
    ):
        known = _held(force, ((f, t or 0, 1) for _, f, t in entries))
        for rule in rules:
            kept.sets[rule.name] += rule.total({}, known)[1]
        mine = sorted(held.of(unit), key=itemgetter(1))
        for adversary, part in groupby(mine, itemgetter(1)):
            own = _held(force, ((f, t, n) for _, _, f, t, n in part))
            for rule in rules:
                kept.sums[adversary][rule.name] += rule.total(own, known)[0]


class _Ahead:
    """Groups ordered by unit, merged into another sequence in that order."""

    def __init__(self, groups: Iterator[tuple[int, Iterable[tuple[int, ...]]]]) -> None:
        self._groups = groups
        self._unit, self._rows = -1, list[tuple[int, ...]]()

    def of(self, unit: int) -> list[tuple[int, ...]]:
        while self._unit < unit:
            found = next(self._groups, None)
            if found is None:
                return []
            self._unit, self._rows = found[0], list(found[1])
        return self._rows if self._unit == unit else []


def _held(force: ActivePolicy, found: Iterable[tuple[int, int, int]]) -> Held:
    """Convert (field, time, entries) to the form that the rules read."""
    held: dict[tuple[str, int], int] = {}
    for number, time, count in found:
        standing = force.fields.get(number)
        if standing is not None:
            key = standing.name, time if standing.timed else 0
            held[key] = held.get(key, 0) + count
    return held


@dataclass(frozen=True, slots=True)
class AveragesAfter:
    """Sums and counts behind the averages, as they would be with one more exposure.

    Attributes
    ----------
    sets : Mapping of str to int
        By rule: its sets that could disclose something.
    sums : Mapping of str to Fraction
        By rule: the adversary's sum of f over them, with the exposure.
    added : Mapping of str to Fraction
        What the exposure adds to the sums of the rules that it changes.
    """

    sets: Mapping[str, int]
    sums: Mapping[str, Fraction]
    added: Mapping[str, Fraction]


def averages_after(
    tx: Tx,
    force: ActivePolicy,
    entry: GateEntry,
    adversary: int,
    around: Iterable[Around],
) -> AveragesAfter:
    """Compute the sums behind the averages, as they would be with one more exposure.

    ``around`` is what the relation rules see of the entry.
    """
    kept = read(tx, force, adversary)
    added = _added(tx, force, entry, adversary)
    names = {rule.name for rule in measured(force)}
    for seen in around:
        if seen.rule.name in names and (change := seen.change()):
            added[seen.rule.name] = change
    before = kept.sums[adversary]
    sums = {
        name: before.get(name, Fraction(0)) + added.get(name, Fraction(0))
        for name in kept.sets.keys() | added.keys()
    }
    return AveragesAfter(kept.sets, sums, added)


def past_averages(
    force: ActivePolicy,
    sets: Mapping[str, int],
    sums: Mapping[str, Fraction],
    trusted: frozenset[str],
) -> list[tuple[str, Fraction, Fraction]]:
    """Return the averages past their caps: (property, average, cap)."""
    past = []
    judged = [rule for rule in measured(force) if rule.name not in trusted]
    for rule in judged:
        count = sets.get(rule.name, 0)
        if rule.average is not None and count:
            mean = sums.get(rule.name, Fraction(0)) / count
            if mean > rule.average:
                past.append((rule.name, mean, rule.average))
    cap = force.policy.budget.average
    total = sum(sets.get(rule.name, 0) for rule in judged)
    if cap is not None and total:
        whole = sum((sums.get(rule.name, Fraction(0)) for rule in judged), Fraction(0))
        if whole / total > cap:
            past.append((Cause.BUDGET_AVERAGE.value, whole / total, cap))
    return past


def _added(tx: Tx, force: ActivePolicy, entry: GateEntry, adversary: int) -> Sums:
    added: Sums = {}
    field_standing = force.fields[entry.field_id]
    for subject, unit in ((False, entry.record_id), (True, entry.subject_id)):
        scope = Scope.SUBJECT if subject else Scope.RECORD
        rules = [
            rule
            for rule in _of_scope(force, scope)
            if field_standing.name in rule.fields
        ]
        if not rules or unit is None:
            continue
        known = _held(
            force,
            ((f, t or 0, 1) for f, t in rows.unit_entries(tx, unit, subject=subject)),
        )
        number = subject_unit(unit) if subject else record_unit(unit)
        held = dict(_held(force, rows.unit_counts(tx, adversary, number)))
        key = field_standing.name, (entry.time or 0) if field_standing.timed else 0
        more = {**held, key: held.get(key, 0) + 1}
        for rule in rules:
            change = rule.total(more, known)[0] - rule.total(held, known)[0]
            if change:
                added[rule.name] = change
    return added


def keep(tx: Tx, adversary_id: int, after: AveragesAfter) -> None:
    """Store an adversary's sums, including an exposure.

    This only writes: a booking writes in one round trip, in which nothing can be read.
    """
    for name in after.added:
        rows.put_sum(tx, adversary_id, name, str(after.sums[name]))
