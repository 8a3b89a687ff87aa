"""Violations: units past a limit by what was shown, and their acceptance.

A merge, a lost trust or a stricter version may put what was seen long ago past a limit.
Nothing can undo that: the change is refused, unless the operator names the exact number
of findings, and then each of them is written into the line of the change. Acceptance
covers the past only: the gate still refuses every further entry of the unit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from dispatcher.core.errors import PastLimit
from dispatcher.ledger import averages
from dispatcher.ledger.active_policy import ActivePolicy
from dispatcher.ledger.lines import adversary_name
from dispatcher.ledger.refusals import past_limit
from dispatcher.ledger.relations import past_links
from dispatcher.store import exposure_counts as rows
from dispatcher.store import exposure_queries
from dispatcher.store.transaction import Tx
from policies.policy import Scope
from policies.rules.record_rules import Rule
from policies.rules.tabulated import TabulatedRule

ANY: Final = None
"""Accept any number of findings: for previews, which are rolled back."""


@dataclass(frozen=True, order=True)
class Past:
    """One unit of one adversary that is past a limit.

    Attributes
    ----------
    chain : str
        The adversary's.
    property : str
    unit : tuple of str
        Pseudonym of the record, of the subject, or of the two ends of a link; empty for
        an average.
    """

    chain: str
    property: str
    unit: tuple[str, ...]


class Acceptance:
    """Collects the findings of one change, and judges their number at its end.

    Parameters
    ----------
    tx : Tx
    what : str
        The change, as the subject of a sentence.
    number : int or None
        How many findings the operator accepts; :data:`ANY` for a preview.
    """

    def __init__(self, tx: Tx, what: str, number: int | None) -> None:
        self._tx, self._what, self._number = tx, what, number
        self.found: list[Past] = []

    def judge(
        self,
        force: ActivePolicy,
        adversary: int,
        trusted: frozenset[str],
        *,
        known: Iterable[tuple[str, tuple[str, ...]]] = (),
        means: bool = False,
    ) -> list[dict[str, object]]:
        """Judge all that an adversary holds; return what a line must accept.

        Parameters
        ----------
        force : ActivePolicy
        adversary : int
        trusted : frozenset of str
            Rules not judged.
        known : Iterable of (str, tuple of str)
            Property and unit of findings accepted before: not repeated.
        means : bool
            Judge the averages too; the stored sums must be up to date.

        Returns
        -------
        list of dict
            ``property`` and ``unit``, sorted, as a member or join line holds them.
        """
        chain = adversary_name(adversary)
        listed = past_units(self._tx, force, adversary, trusted)
        names = exposure_queries.unit_names(self._tx, [unit for _, unit in listed])
        items = {Past(chain, rule, names[unit]) for rule, unit in listed}
        if means:
            items |= {
                Past(chain, name, ())
                for name in self._past_averages(force, adversary, trusted)
            }
        before = set(known)
        new = sorted(p for p in items if (p.property, p.unit) not in before)
        self.found += new
        return [{"property": p.property, "unit": list(p.unit)} for p in new]

    def _past_averages(
        self, force: ActivePolicy, adversary: int, trusted: frozenset[str]
    ) -> list[str]:
        kept = averages.read(self._tx, force, adversary)
        past = averages.past_averages(force, kept.sets, kept.sums[adversary], trusted)
        return [name for name, _, _ in past]

    def settle(self) -> tuple[Past, ...]:
        """Return the findings, if the operator accepts exactly that number.

        Raises
        ------
        PastLimit
            Let the error end the transaction: nothing may be committed.
        """
        count = len(self.found)
        if self._number is ANY or self._number == count:
            return tuple(sorted(self.found))
        findings = [(past.chain, past.property) for past in self.found]
        if self._number:
            raise _miscounted(self._what, count, self._number)
        raise past_limit(self._what, findings)


def accepted_before(
    tx: Tx, adversary: int, version: int
) -> set[tuple[str, tuple[str, ...]]]:
    """Return what was accepted for an adversary since the last ``policy`` line.

    Grows with the length of its chains: for changes of membership only.
    """
    names, lines, policy = exposure_queries.accepting_lines(tx, adversary, version)
    items: list[dict[str, object]] = []
    for body in lines:
        items += json.loads(body)["accepted"]
    if policy is not None:
        listed = json.loads(policy)["accepted"]
        items += [item for item in listed if item["chain"] in names]
    return {(str(item["property"]), _unit_of(item["unit"])) for item in items}


def _unit_of(listed: object) -> tuple[str, ...]:
    assert isinstance(listed, Sequence)
    return tuple(str(part) for part in listed)


def _miscounted(what: str, found: int, accepted: int) -> PastLimit:
    return PastLimit(
        f"{what} is refused: {found} findings are past a limit, not {accepted}",
        why="The number accepted must be the number found: something was shown, or "
        "another number was meant.",
        fix=(
            "Look again (--dry-run), then repeat it with "
            f"--accept-past {found}; nothing was changed."
            if found
            else "Nothing is past a limit: leave --accept-past out; nothing was changed."
        ),
        facts={"found": found, "accepted": accepted},
    )


def totals(found: Iterable[Past]) -> dict[str, int]:
    """Count findings by property."""
    counted: dict[str, int] = {}
    for past in found:
        counted[past.property] = counted.get(past.property, 0) + 1
    return dict(sorted(counted.items()))


def past_units(
    tx: Tx, force: ActivePolicy, adversary_id: int, trusted: frozenset[str]
) -> list[tuple[str, int]]:
    """Find the units of an adversary that are at or past a limit: (property, unit id).

    Grows with what the adversary holds: for changes of policy and of membership, which
    are rare, never for a booking.
    """
    table = np.array(rows.all_counts(tx, adversary_id), np.int64).reshape(-1, 4)
    whole = np.concatenate([np.zeros((len(table), 1), np.int64), table], axis=1)
    odd = (whole[:, 1] & 1).astype(np.bool_)
    nothing = EntryTallies.of(whole[:0])
    found = []
    for subject in (False, True):
        mine = whole[odd == subject]
        over = over_limit(
            force,
            [trusted],
            asked=EntryTallies.of(mine),
            known=nothing,
            subject=subject,
        )
        doubtful = np.unique(mine[over, 1])
        found += _past_exactly(
            force, trusted, mine[np.isin(mine[:, 1], doubtful)], subject
        )
    return found + past_links(tx, force, adversary_id, trusted)


def _past_exactly(
    force: ActivePolicy,
    trusted: frozenset[str],
    table: np.ndarray[tuple[int, int], np.dtype[np.int64]],
    subject: bool,
) -> list[tuple[str, int]]:
    scope = Scope.SUBJECT if subject else Scope.RECORD
    units: dict[int, dict[tuple[str, int], int]] = {}
    names = force.numbered
    for _, unit, field, time, count in table.tolist():
        if field in names:
            units.setdefault(unit, {})[names[field], time] = count
    return [
        (rule.name, unit)
        for rule in force.rules.all.values()
        if rule.scope is scope and rule.name not in trusted
        for unit, held in sorted(units.items())
        if rule.past(held)
    ]


def named(adversary_id: int, found: list[tuple[str, int]]) -> list[tuple[str, str]]:
    """Return findings as (chain, property), one for each unit."""
    return [(adversary_name(adversary_id), rule) for rule, _ in found]


Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

EXACT: Final = 2**52
"""Largest sums of integers that are exact in float64."""

MASK_BITS: Final = 62


@dataclass(frozen=True)
class EntryTallies:
    """Entries held or asked for, as columns of equal length.

    Attributes
    ----------
    adversary : int64 array
        Index of the adversary in the batch, from 0.
    unit : int64 array
        Id of the record or subject (not the unit id of the tables); -1 if none.
    field, time : int64 array
    entries : int64 array
        Number of distinct entries, >= 1.
    """

    adversary: Ints
    unit: Ints
    field: Ints
    time: Ints
    entries: Ints

    @classmethod
    def of(cls, table: Ints) -> EntryTallies:
        """Convert rows (adversary, unit id of the tables, field, time, entries)."""
        return cls(table[:, 0], table[:, 1] >> 1, table[:, 2], table[:, 3], table[:, 4])

    def listed(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield the rows as Python integers."""
        columns = (self.adversary, self.unit, self.field, self.time, self.entries)
        yield from zip(*(column.tolist() for column in columns), strict=True)


def over_limit(
    force: ActivePolicy,
    trusted: Sequence[frozenset[str]],
    *,
    asked: EntryTallies,
    known: EntryTallies,
    subject: bool,
) -> Flags:
    """Flag the asked rows that belong to a unit which may be past a limit.

    Parameters
    ----------
    force : ActivePolicy
    trusted : Sequence of frozenset of str
        Rules not judged, by adversary.
    asked, known : EntryTallies
        What is asked for, and what is already held: no entry is in both.
    subject : bool
        Whether the units are subjects; else records.

    Returns
    -------
    bool array
        One flag for each row of ``asked``.
    """
    scope = Scope.SUBJECT if subject else Scope.RECORD
    rules = [rule for rule in force.rules.all.values() if rule.scope is scope]
    over = np.zeros(len(asked.unit), np.bool_)
    if not rules or not len(over):
        return over
    group, owner = _groups(asked, known)
    field = np.concatenate([asked.field, known.field])
    entries = np.concatenate([asked.entries, known.entries])
    groups = np.zeros(len(owner), np.bool_)
    for rule in rules:
        if rule.cap is not None:
            past = _over(rule, force, group, field, entries, len(owner))
            judged = np.array([rule.name not in names for names in trusted])
            groups |= past & judged[owner]
    over = groups[group[: len(over)]]
    return over & (asked.unit >= 0)


def _groups(asked: EntryTallies, known: EntryTallies) -> tuple[Ints, Ints]:
    """Number the (adversary, unit) pairs; return rows' groups, groups' adversaries."""
    adversary = np.concatenate([asked.adversary, known.adversary])
    _, unit = np.unique(np.concatenate([asked.unit, known.unit]), return_inverse=True)
    span = int(unit.max()) + 1
    pairs, group = np.unique(adversary * span + unit, return_inverse=True)
    return group, pairs // span


def _over(
    rule: Rule,
    force: ActivePolicy,
    group: Ints,
    field: Ints,
    entries: Ints,
    groups: int,
) -> Flags:
    """Flag the groups whose score over all times exceeds the cap."""
    assert rule.cap is not None
    weight_of = {force.field_ids[name]: weight for name, weight in rule.weights.items()}
    mine = np.isin(field, np.array(sorted(weight_of), np.int64))
    group, field, entries = group[mine], field[mine], entries[mine]
    if isinstance(rule, TabulatedRule):  # f is looked up: by the rule itself
        return np.bincount(group, minlength=groups) > 0
    if rule.complete:
        return _complete(rule, force, group, field, groups)
    most = max(weight_of.values()) * int(entries.sum()) if len(entries) else 0
    if most > EXACT:
        return np.bincount(group, minlength=groups) > 0
    lookup = np.zeros(max(weight_of) + 1)
    lookup[list(weight_of)] = list(weight_of.values())
    score = np.bincount(group, weights=lookup[field] * entries, minlength=groups)
    return np.asarray(score > rule.cap, np.bool_)


def _complete(
    rule: Rule, force: ActivePolicy, group: Ints, field: Ints, groups: int
) -> Flags:
    """Flag the groups that hold an entry of every field of an alternative."""
    if len(rule.bits) > MASK_BITS:
        return np.bincount(group, minlength=groups) > 0
    lookup = np.zeros(max(force.field_ids.values()) + 1, np.int64)
    for name, bit in rule.bits.items():
        lookup[force.field_ids[name]] = bit
    mask = np.zeros(groups, np.int64)
    np.bitwise_or.at(mask, group, lookup[field])
    past = np.zeros(groups, np.bool_)
    for alternative in rule.alternatives:
        need = sum(rule.bits[name] for name in alternative)
        past |= mask & need == need
    return past
