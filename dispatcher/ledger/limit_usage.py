"""Limit usage: how close each adversary is to each limit, from the gate's summaries.

It serves people and the metric: the gate itself judges one unit at a time. An adversary
is judged again only when its chain has grown or another policy is in force.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
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
from policies.rules.record_rules import Rule

Ints = npt.NDArray[np.int64]

_MASK_BITS: Final = 62


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
    """

    f: Fraction
    tau: Fraction | None
    units: int
    worst: int

    @property
    def share(self) -> Fraction:
        """Share of the limit, f / tau; of 1 where there is no limit."""
        return self.f / (self.tau or 1)


UsageByRule = Mapping[str, LimitUsage]
"""By rule; without rules that judge nothing of what is held."""


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
    if not held:
        return {}
    table = np.array(held, np.int64)
    table = table[np.lexsort(table.T[2::-1])]  # by unit, field, time
    trusted = trusted_rules_of(tx, force, adversary_id)
    shares = {}
    for rule in force.rules.all.values():
        if rule.name in trusted:
            continue
        subject = rule.scope is Scope.SUBJECT
        mine = [force.field_ids[name] for name in sorted(rule.fields)]
        of_rule = (table[:, 0] & 1 == subject) & np.isin(table[:, 1], mine)
        if of_rule.any():
            shares[rule.name] = _near(rule, force, table[of_rule])
    return shares


def _near(rule: Rule, force: ActivePolicy, held: Ints) -> LimitUsage:
    """Judge rows (unit, field, time, entries) in order of unit and field."""
    starts = np.flatnonzero(np.diff(held[:, 0], prepend=held[0, 0] - 1))
    scores = _scores(rule, force, held, starts)
    if scores is None or rule.window is not None:
        best, worst = _search(rule, force, held, starts, scores)
    else:
        best = int(scores.max())
        worst = int((scores >= _least(rule, best)).sum())
    return LimitUsage(rule.fraction(best), rule.tau, len(starts), worst)


def _scores(rule: Rule, force: ActivePolicy, held: Ints, starts: Ints) -> Ints | None:
    """Return the score of each unit over all times; None if 64 bits do not suffice."""
    if rule.complete:
        return _completed(rule, force, held, starts)
    if rule.by_entry:
        return np.add.reduceat(held[:, 3], starts)
    if max(rule.weights.values()) * len(held) >= 2**_MASK_BITS:
        return None
    weights = {force.field_ids[name]: n for name, n in rule.weights.items()}
    lookup = np.zeros(max(weights) + 1, np.int64)
    lookup[list(weights)] = list(weights.values())
    # Only record rules weigh by field, and a record has one entry of a field.
    return np.add.reduceat(lookup[held[:, 1]], starts)


def _completed(
    rule: Rule, force: ActivePolicy, held: Ints, starts: Ints
) -> Ints | None:
    if len(rule.bits) > _MASK_BITS:
        return None
    lookup = np.zeros(max(force.field_ids.values()) + 1, np.int64)
    for name, bit in rule.bits.items():
        lookup[force.field_ids[name]] = bit
    masks = np.bitwise_or.reduceat(lookup[held[:, 1]], starts)
    complete = np.zeros(len(starts), np.bool_)
    for alternative in rule.alternatives:
        need = sum(rule.bits[name] for name in alternative)
        complete |= masks & need == need
    return complete.astype(np.int64)


def _search(
    rule: Rule, force: ActivePolicy, held: Ints, starts: Ints, bounds: Ints | None
) -> tuple[int, int]:
    """Find the largest score and how many units have it, most promising first.

    The score without the window bounds the score with it.
    """
    ends = np.append(starts[1:], len(held))
    order = range(len(starts)) if bounds is None else np.argsort(-bounds).tolist()
    names, best, found = force.numbered, 0, []
    for i in order:
        if bounds is not None and bounds[i] < _least(rule, best):
            break
        unit = {
            (names[field], time): count
            for _, field, time, count in held[starts[i] : ends[i]].tolist()
        }
        found.append(rule.highest(unit))
        best = max(best, found[-1])
    return best, sum(score >= _least(rule, best) for score in found)


def _least(rule: Rule, score: int) -> int:
    """Return the smallest score that has the same f."""
    if rule.need is not None:
        return rule.need if score >= rule.need else 0
    return min(score, ceil(1 / rule.unit))
