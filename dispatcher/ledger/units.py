"""Units by the thousand: which may be past a limit, found in array passes.

The answer errs on the safe side only: a unit that is past a limit is always named; one
that is named may yet be within it (a sliding window looks at part of a unit), and is
then judged by the rule itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from dispatcher.ledger.standing import InForce
from policies.policy import Scope
from policies.rules.record_rules import Rule
from policies.rules.tabulated import TabulatedRule

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

EXACT: Final = 2**52
"""Up to here sums of integers in float64 are exact."""

MASK_BITS: Final = 62


@dataclass(frozen=True)
class Rows:
    """Entries held or asked for, as columns of equal length.

    Attributes
    ----------
    adversary : int64 array
        Place of the adversary in the batch, from 0.
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
    def of(cls, table: Ints) -> Rows:
        """Take rows (adversary, unit id of the tables, field, time, entries)."""
        return cls(table[:, 0], table[:, 1] >> 1, table[:, 2], table[:, 3], table[:, 4])

    def listed(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Go through the rows as Python integers."""
        columns = (self.adversary, self.unit, self.field, self.time, self.entries)
        yield from zip(*(column.tolist() for column in columns), strict=True)


def over_limit(
    force: InForce,
    trusted: Sequence[frozenset[str]],
    *,
    asked: Rows,
    known: Rows,
    subject: bool,
) -> Flags:
    """Tell which asked rows belong to a unit that may be past a limit.

    Parameters
    ----------
    force : InForce
    trusted : Sequence of frozenset of str
        Rules not judged, by adversary.
    asked, known : Rows
        What is asked for, and what is held already: no entry is in both.
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
            past = _past(rule, force, group, field, entries, len(owner))
            judged = np.array([rule.name not in names for names in trusted])
            groups |= past & judged[owner]
    over = groups[group[: len(over)]]
    return over & (asked.unit >= 0)


def _groups(asked: Rows, known: Rows) -> tuple[Ints, Ints]:
    """Number the (adversary, unit) pairs: the group of each row, each one's adversary."""
    adversary = np.concatenate([asked.adversary, known.adversary])
    _, unit = np.unique(np.concatenate([asked.unit, known.unit]), return_inverse=True)
    span = int(unit.max()) + 1
    pairs, group = np.unique(adversary * span + unit, return_inverse=True)
    return group, pairs // span


def _past(
    rule: Rule, force: InForce, group: Ints, field: Ints, entries: Ints, groups: int
) -> Flags:
    """Which groups reach a score above the cap, all times taken together."""
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
    rule: Rule, force: InForce, group: Ints, field: Ints, groups: int
) -> Flags:
    """Which groups hold an entry of every field of an alternative."""
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
