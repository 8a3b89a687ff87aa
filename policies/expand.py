"""Policy + record keys -> sets and classes of entries.

The one expansion: gate, planner and tests use it. It has two faces on the same rules
(compiled by :mod:`policies.rules`):

* the scalar face, for one ask: :func:`compile_rules`, :func:`judge_ask`;
* the array face, for a plan: :func:`expand`, columnar, a few array passes a rule.

That both say the same is a law under test: for any held entries of a unit,
``rule.past(held)`` iff some set of that unit is over its cap.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from policies.asks import (
    EntryFacts,
    Finding,
    Rules,
    compile_rules,
    judge_ask,
    unsupported,
)
from policies.document.policy import Policy, Scope
from policies.groups import Adversary, adversaries, groups_of, trusted_rules
from policies.rules import Held, Rule, reaches_limit

__all__ = [
    "Adversary",
    "EntryFacts",
    "EntryTable",
    "Finding",
    "Held",
    "Rule",
    "Rules",
    "SetKind",
    "SetSystem",
    "adversaries",
    "compile_rules",
    "expand",
    "groups_of",
    "judge_ask",
    "reaches_limit",
    "trusted_rules",
    "unsupported",
]

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

NO_LIMIT: Final = np.iinfo(np.int64).max
LARGEST_SCALE: Final = 1 << 52  # sums of weights stay exact, also as float64


class SetKind(IntEnum):
    """How the score of a set is counted."""

    WEIGHTED = 0  # the sum of the values of the held entries
    CLASSES = 1  # the number of different values among the held entries


@dataclass(frozen=True)
class EntryTable:
    """Entries as columns of equal length n; ids are opaque, no value is here.

    Attributes
    ----------
    fields : tuple of str
        Names that ``field`` points into.
    record : int64[n]
    subject : int64[n]
        The person of the entry's record, -1 if none.
    field : int32[n]
        A record has at most one entry of a field.
    time : int64[n]
        Microseconds UTC; 0 where no rule slides a window.

    Raises
    ------
    ValueError
        If the columns differ in length or ``field`` points outside ``fields``.
    """

    fields: tuple[str, ...]
    record: Ints
    subject: Ints
    field: npt.NDArray[np.int32]
    time: Ints

    def __post_init__(self) -> None:
        lengths = [len(c) for c in (self.record, self.subject, self.field, self.time)]
        if len(set(lengths)) > 1:
            raise ValueError(f"columns have lengths {lengths}, expected equal ones")
        if lengths[0] and not 0 <= self.field.min() <= self.field.max() < len(
            self.fields
        ):
            raise ValueError(f"field has indices outside 0..{len(self.fields) - 1}")

    def __len__(self) -> int:
        return len(self.record)


@dataclass(frozen=True)
class SetSystem:
    """The sensitive sets of a table of entries, as columns (S sets, N memberships).

    A set is kept below its limit by an adversary iff the score of the entries that it
    holds is <= ``cap``. f of the set is exact from the score:
    ``rules[rule[s]]`` has ``power`` and ``f = min(1, score * unit) ** power``; for a
    step rule f is 1 if ``score >= need``, else 0.

    Sets that can not exist yield none: a step set or alternative that lacks a field,
    ``at = k`` where fewer than k entries are there, windows inside a wider window of the
    same subject. Entries of fields with ``send = false`` are members too (they tell
    whether a set exists); nobody ever holds them.

    Attributes
    ----------
    rules : tuple of Rule
        The compiled rules, in the order of the file.
    rule : int32[S]
        Index into ``rules``.
    unit : int64[S]
        The record or subject that the set belongs to, by the rule's scope.
    alternative : int32[S]
        Index into the rule's ``alternatives``.
    start : int64[S]
        First time of the window; 0 without a window.
    kind : int8[S]
        :class:`SetKind`. A set of classes with one entry each is given as weighted.
    cap : int64[S]
        Largest score below tau; ``NO_LIMIT`` for tau "none".
    need : int64[S]
        Step: the score from which f is 1. Else 0.
    scale : float64[S]
        f = min(1, score * scale) ** power, for objectives in floats. Step: 0.
    indptr : int64[S + 1]
        Set s has the memberships ``indptr[s]:indptr[s + 1]``.
    entries : int64[N]
        Row of the entry table, in no particular order within a set.
    values : int64[N]
        Weighted: the integer weight, >= 0. Classes: the class, 0 .. need - 1.
    """

    rules: tuple[Rule, ...]
    rule: npt.NDArray[np.int32]
    unit: Ints
    alternative: npt.NDArray[np.int32]
    start: Ints
    kind: npt.NDArray[np.int8]
    cap: Ints
    need: Ints
    scale: npt.NDArray[np.float64]
    indptr: Ints
    entries: Ints
    values: Ints

    def __len__(self) -> int:
        return len(self.rule)

    def scores(self, held: Flags) -> Ints:
        """Score of every set, int64[S], for one adversary that holds ``held`` (bool[n])."""
        set_of = np.repeat(np.arange(len(self)), np.diff(self.indptr))
        here = held[self.entries]
        set_of, values = set_of[here], self.values[here]
        classes = self.kind[set_of] == SetKind.CLASSES
        sums = np.zeros(len(self), dtype=np.int64)
        np.add.at(sums, set_of[~classes], values[~classes])
        width = int(values.max(initial=0)) + 1
        pairs = np.unique(set_of[classes] * width + values[classes])
        np.add.at(sums, pairs // width, 1)
        return sums

    def over(self, held: Flags) -> Flags:
        """Whether each set is at or past its limit, bool[S], for one adversary."""
        over: Flags = self.scores(held) > self.cap
        return over


def expand(policy: Policy, entries: EntryTable) -> SetSystem:
    """Make all sensitive sets of the entries.

    Parameters
    ----------
    policy : Policy
    entries : EntryTable
        Every loaded entry of the units in question: a unit must be whole, since a
        missing field means that its set does not exist.

    Raises
    ------
    ValueError
        If :func:`unsupported` names a rule, or an entry of a subject rule has none.
    """
    refused = unsupported(policy)
    if refused:
        raise ValueError("no plan can judge these rules: " + "; ".join(refused))
    rules = tuple(compile_rules(policy).all.values())
    blocks = [
        _block(index, rule, alternative, entries)
        for index, rule in enumerate(rules)
        for alternative in range(len(rule.alternatives))
    ]
    return _joined(rules, blocks)


@dataclass(frozen=True)
class _Block:
    """The sets of one alternative of one rule: columns as in :class:`SetSystem`."""

    rule: int
    alternative: int
    unit: Ints
    start: Ints
    kind: npt.NDArray[np.int8]
    cap: Ints
    need: Ints
    scale: float
    sizes: Ints
    entries: Ints
    values: Ints


def _block(index: int, rule: Rule, alternative: int, table: EntryTable) -> _Block:
    """All sets of one alternative."""
    fields = rule.alternatives[alternative]
    class_of = np.full(len(table.fields), -1, dtype=np.int64)
    for number, name in enumerate(fields):
        if name in table.fields:
            class_of[table.fields.index(name)] = number
    rows = np.flatnonzero(class_of[table.field] >= 0)
    unit = (table.record if rule.scope is Scope.RECORD else table.subject)[rows]
    if rule.scope is Scope.SUBJECT and len(unit) and unit.min() < 0:
        raise ValueError(
            f"rule {rule.name}: an entry has no subject, expected one each"
        )
    time = (
        table.time[rows] if rule.window is not None else np.zeros(len(rows), np.int64)
    )
    order = np.lexsort((time, unit))
    rows, unit, time = rows[order], unit[order], time[order]
    classes = class_of[table.field[rows]]
    first, last = _ranges(unit, time, rule.window)
    held = _classes_present(classes, first, last, len(fields))
    keep = _exists(rule, held, last - first, len(fields))
    first, last, held = first[keep], last[keep], held[keep]
    sizes = last - first
    members = _spread(first, sizes)
    whole = rule.complete & (sizes > held)  # some class has several entries
    weights, cap, scale = _measured(rule, fields)
    values = weights[classes[members]]
    in_classes = np.repeat(whole, sizes)
    values[in_classes] = classes[members][in_classes]
    full = np.full(len(first), len(fields), dtype=np.int64)
    need = (
        full if rule.complete else np.full(len(first), rule.need or 0, dtype=np.int64)
    )
    caps = need - 1 if rule.complete else np.full(len(first), cap, dtype=np.int64)
    if rule.tau is None:
        caps = np.full(len(first), NO_LIMIT, dtype=np.int64)
    return _Block(
        rule=index,
        alternative=alternative,
        unit=unit[first],
        start=time[first],
        kind=np.where(whole, SetKind.CLASSES, SetKind.WEIGHTED).astype(np.int8),
        cap=caps,
        need=need,
        scale=scale,
        sizes=sizes,
        entries=rows[members],
        values=values,
    )


def _ranges(unit: Ints, time: Ints, window: int | None) -> tuple[Ints, Ints]:
    """First and last + 1 position of every set, over rows sorted by (unit, time).

    With a window: one for each different time x of a unit, from x to x + window, closed;
    a window that ends where the one before it ends lies inside it and is left out.
    """
    if not len(unit):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    fresh = np.flatnonzero(np.r_[True, unit[1:] != unit[:-1]])
    ends = np.r_[fresh[1:], len(unit)]
    if window is None:
        return fresh, ends
    last = np.empty(len(unit), dtype=np.int64)
    for begin, end in zip(fresh.tolist(), ends.tolist(), strict=True):
        times = time[begin:end]
        reach = np.where(times > NO_LIMIT - window, NO_LIMIT, times + window)
        last[begin:end] = begin + np.searchsorted(times, reach, side="right")
    # Within a unit `last` never falls, so a window is widest where it first reaches.
    widest = np.r_[True, (last[1:] != last[:-1]) | (unit[1:] != unit[:-1])]
    first = np.flatnonzero(widest)
    return first, last[first]


def _classes_present(classes: Ints, first: Ints, last: Ints, number: int) -> Ints:
    """How many different classes lie in each range."""
    present = np.zeros(len(first), dtype=np.int64)
    for c in range(number):
        upto = np.r_[0, np.cumsum(classes == c)]
        present += upto[last] > upto[first]
    return present


def _exists(rule: Rule, classes: Ints, sizes: Ints, number: int) -> Flags:
    """Which sets could disclose something: see :class:`SetSystem`."""
    there: Flags = classes == number if rule.complete else sizes >= (rule.need or 1)
    return there


def _spread(first: Ints, sizes: Ints) -> Ints:
    """The positions of all ranges, one range after another."""
    if not len(first):
        return np.zeros(0, np.int64)
    offsets = np.cumsum(sizes) - sizes
    spread: Ints = np.arange(int(sizes.sum())) + np.repeat(first - offsets, sizes)
    return spread


def _measured(rule: Rule, fields: Iterable[str]) -> tuple[Ints, int, float]:
    """Integer weights by class, the cap, and f a point of score.

    Weights of very many digits do not fit: they are brought to a smaller scale, rounded
    up, and the cap down, so that what is kept there is kept exactly.
    """
    weights = [rule.weights[f] for f in fields]
    cap, scale = rule.cap or 0, rule.unit
    steps = rule.need is not None
    if 1 / scale > LARGEST_SCALE and max(weights) > 1:
        shrink = LARGEST_SCALE * scale
        weights = [-int(-w * shrink // 1) for w in weights]
        cap, scale = int(cap * shrink // 1), Fraction(1, LARGEST_SCALE)
    cap = min(cap, int(NO_LIMIT))
    return np.array(weights, dtype=np.int64), cap, 0.0 if steps else float(scale)


def _joined(rules: tuple[Rule, ...], blocks: list[_Block]) -> SetSystem:
    """One system of all blocks, in the order of the file."""
    counts = [len(b.unit) for b in blocks]

    def column(name: str, kind: type[np.generic]) -> npt.NDArray[np.generic]:
        parts = [np.asarray(getattr(b, name), dtype=kind) for b in blocks]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=kind)

    sizes = column("sizes", np.int64).astype(np.int64)
    return SetSystem(
        rules=rules,
        rule=np.repeat(np.array([b.rule for b in blocks], dtype=np.int32), counts),
        unit=column("unit", np.int64).astype(np.int64),
        alternative=np.repeat(
            np.array([b.alternative for b in blocks], dtype=np.int32), counts
        ),
        start=column("start", np.int64).astype(np.int64),
        kind=column("kind", np.int8).astype(np.int8),
        cap=column("cap", np.int64).astype(np.int64),
        need=column("need", np.int64).astype(np.int64),
        scale=np.repeat(np.array([b.scale for b in blocks], dtype=np.float64), counts),
        indptr=np.r_[0, np.cumsum(sizes)].astype(np.int64),
        entries=column("entries", np.int64).astype(np.int64),
        values=column("values", np.int64).astype(np.int64),
    )
