"""Limit usage: how close each adversary is to each limit, from the gate's summaries.

It serves people and the metric: the gate itself judges one unit at a time. An adversary
is judged again only when its chain has grown or another policy is in force.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from dispatcher.ledger.active_policy import (
    ActivePolicy,
    current_policy,
    trusted_rules_of,
)
from dispatcher.model import SYSTEM_CHAIN
from dispatcher.store import exposure_counts
from dispatcher.store import ledger as rows
from dispatcher.store.transaction import Tx
from policies.policy import Scope
from policies.rules.record_rules import Rule, by_field

Ints = npt.NDArray[np.int64]

_MASK_BITS: Final = 62

_Number = Fraction | int | None


@dataclass(frozen=True, slots=True)
class LimitUsage:
    """How close one adversary is to one limit.

    Attributes
    ----------
    f : Fraction
        Largest disclosure over the units, in [0, 1].
    tau : Fraction or None
        The limit, f < tau; None is no limit.
    units : int
        Records or subjects of which something is held that the rule judges, >= 1.
    worst : int
        How many of them have this f, >= 1.
    left : int or None
        Fields that may be shown of the nearest unit until the last of them is refused:
        1 where the next one may be, 0 where the limit is reached. None: none is refused.
    nearest : int
        How many units are that near.
    """

    f: Fraction
    tau: Fraction | None
    units: int
    worst: int
    left: int | None = None
    nearest: int = 0

    @property
    def share(self) -> Fraction:
        """Share of the limit, f / tau; of 1 where there is no limit."""
        return self.f / (self.tau or 1)


UsageByRule = Mapping[str, LimitUsage]
"""By rule; without rules that judge nothing of what is held."""


def nearest_units(usages: Collection[LimitUsage]) -> tuple[int | None, int]:
    """Fewest fields left to a refusal in any of these, and how many units are that near."""
    left = min((one.left for one in usages if one.left is not None), default=None)
    return left, sum(one.nearest for one in usages if one.left == left)


class LimitUsages:
    """Caches usages by adversary; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[int, tuple[tuple[int, int], UsageByRule]] = {}

    def look(self, tx: Tx) -> dict[int, UsageByRule]:
        """Return the usages of every active adversary that holds something.

        Grows with what is held by adversaries whose chains grew since the last call.

        Parameters
        ----------
        tx : Tx
            A read transaction is enough.
        """
        force = current_policy(tx)
        if force is None:
            return {}
        with self._lock:
            found: dict[int, UsageByRule] = {}
            kept: dict[int, tuple[tuple[int, int], UsageByRule]] = {}
            for chain in rows.all_chains(tx):
                if chain.id == SYSTEM_CHAIN or chain.survivor_id is not None:
                    continue
                stamp = (force.version, chain.seq)
                known = self._kept.get(chain.id)
                if known is None or known[0] != stamp:
                    known = (stamp, judge(tx, force, chain.id))
                kept[chain.id] = known
                if known[1]:
                    found[chain.id] = known[1]
            self._kept = kept
        return found


def judge(tx: Tx, force: ActivePolicy, adversary_id: int) -> UsageByRule:
    """Judge all that one adversary holds (grows with it)."""
    held = exposure_counts.all_counts(tx, adversary_id)
    return judge_counts(force, held, trusted_rules_of(tx, force, adversary_id))


def judge_counts(
    force: ActivePolicy,
    held: Sequence[tuple[int, int, int, int]],
    trusted: frozenset[str],
) -> UsageByRule:
    """Judge rows (unit, field, time, entries) of one adversary, but by no trusted rule."""
    if not held:
        return {}
    table = np.array(held, np.int64)
    table = table[np.lexsort(table.T[2::-1])]  # by unit, field, time
    shares = {}
    for rule in force.rules.all.values():
        if rule.name in trusted:
            continue
        of_rule = _judged_by(rule, force, table)
        if len(of_rule):
            shares[rule.name] = _near(rule, force, of_rule)
    return shares


def _judged_by(rule: Rule, force: ActivePolicy, table: Ints) -> Ints:
    """Return the rows that a rule judges."""
    subject = rule.scope is Scope.SUBJECT
    mine = [force.field_ids[name] for name in sorted(rule.fields)]
    found: Ints = table[(table[:, 0] & 1 == subject) & np.isin(table[:, 1], mine)]
    return found


@dataclass(frozen=True, slots=True)
class UnitUsage:
    """How close an adversary is to a limit in one record or subject."""

    unit: int
    f: Fraction
    left: int | None


def nearest_of(
    tx: Tx, force: ActivePolicy, adversary_id: int, rule: Rule, most: int
) -> list[UnitUsage]:
    """Find the units in which an adversary is nearest to a limit (grows with it).

    With a window those are judged that would be nearest without it.
    """
    held = exposure_counts.all_counts(tx, adversary_id)
    if not held or rule.name in trusted_rules_of(tx, force, adversary_id):
        return []
    table = np.array(held, np.int64)
    table = _judged_by(rule, force, table[np.lexsort(table.T[2::-1])])
    if not len(table):
        return []
    starts = np.flatnonzero(np.diff(table[:, 0], prepend=table[0, 0] - 1))
    ends, names = np.append(starts[1:], len(table)), force.numbered
    _, first, kind = np.unique(
        _kinds(rule, force, table, starts), return_index=True, return_inverse=True
    )

    def look(i: int, *, whole: bool) -> UnitUsage:
        rows = table[starts[i] : ends[i]].tolist()
        unit = {(names[field], time): count for _, field, time, count in rows}
        if not whole:  # no unit of its kind is nearer
            counts = by_field(unit)
            f, left = rule.fraction(rule.score(counts)), rule.left_of(counts)
        else:
            f, left = rule.value(unit), rule.left(unit)
        return UnitUsage(int(table[starts[i], 0]), f, left)

    bounds = [_unit_order(look(i, whole=False)) for i in first.tolist()]
    place = np.empty(len(bounds), np.int64)
    place[sorted(range(len(bounds)), key=bounds.__getitem__)] = np.arange(len(bounds))
    units = np.argsort(place[kind.ravel()], kind="stable")[:most].tolist()
    return sorted((look(i, whole=True) for i in units), key=_unit_order)


def _unit_order(one: UnitUsage) -> tuple[bool, int, Fraction]:
    """Order units: the fewest fields left first, then the largest disclosure."""
    return one.left is None, one.left or 0, -one.f


def _near(rule: Rule, force: ActivePolicy, held: Ints) -> LimitUsage:
    """Judge rows (unit, field, time, entries) in order of unit and field.

    Units of which the same is held are judged once. With a window the times count as
    well: those come first that would be nearest without it, and no more than need be.
    """
    starts = np.flatnonzero(np.diff(held[:, 0], prepend=held[0, 0] - 1))
    ends, names = np.append(starts[1:], len(held)), force.numbered
    kinds = _kinds(rule, force, held, starts)
    _, first, kind = np.unique(kinds, return_index=True, return_inverse=True)

    def unit(i: int) -> dict[tuple[str, int], int]:
        rows = held[starts[i] : ends[i]].tolist()
        return {(names[field], time): count for _, field, time, count in rows}

    counts = [by_field(unit(i)) for i in first.tolist()]
    f, worst = _lowest(
        kind,
        [-rule.fraction(rule.score(one)) for one in counts],
        None if rule.window is None else lambda i: -rule.value(unit(i)),
    )
    assert f is not None, "every unit has an f"
    left, nearest = _lowest(
        kind,
        [rule.left_of(one) for one in counts],
        None if rule.window is None else lambda i: rule.left(unit(i)),
    )
    least = None if left is None else int(left)
    return LimitUsage(Fraction(-f), rule.tau, len(starts), worst, least, nearest)


def _kinds(rule: Rule, force: ActivePolicy, held: Ints, starts: Ints) -> Ints:
    """Give units the same number only if they are judged alike without a window."""
    if rule.by_entry and rule.scope is Scope.SUBJECT:
        return np.add.reduceat(held[:, 3], starts)
    if len(rule.fields) > _MASK_BITS:
        return np.arange(len(starts))
    bit = np.zeros(max(force.field_ids.values()) + 1, np.int64)
    for place, name in enumerate(sorted(rule.fields)):
        bit[force.field_ids[name]] = 1 << place
    return np.bitwise_or.reduceat(bit[held[:, 1]], starts)


def _lowest(
    kind: Ints, bounds: Sequence[_Number], exact: Callable[[int], _Number] | None
) -> tuple[_Number, int]:
    """Find the lowest number of a unit, and how many units have it; None is no number.

    Parameters
    ----------
    kind : int64 array, shape (units,)
        Index into ``bounds``.
    bounds : sequence of number or None
        No unit of the kind is below it.
    exact : callable, optional
        The number of a unit; None: the bound is.
    """
    there = [(bound, i) for i, bound in enumerate(bounds) if bound is not None]
    many = np.bincount(kind, minlength=len(bounds))
    lowest: _Number = None
    count = 0
    for bound, i in sorted(there):
        if lowest is not None and bound > lowest:
            break
        numbers: Iterable[tuple[_Number, int]] = [(bound, int(many[i]))]
        if exact is not None:
            numbers = ((exact(j), 1) for j in np.flatnonzero(kind == i).tolist())
        for number, units in numbers:
            if number is None:
                continue
            if lowest is None or number < lowest:
                lowest, count = number, 0
            count += units * (number == lowest)
    return lowest, count
