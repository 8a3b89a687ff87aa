"""From a policy and a table of entries to sensitive sets (the paper's D_p).

The same compiled rules (:mod:`policies.rules.record_rules`) have two interfaces:

* for one asked entry: :func:`compile_rules` and :func:`judge_ask`, which the gate and
  policy tests use;
* for a plan: :func:`expand`, columnar, with a few array passes for each rule.

Tests check that both agree: for any held entries of a unit, ``rule.past(held)`` if and
only if some set of that unit is over its cap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from policies.model.measures import Measure
from policies.model.sets import NO_CAP, Bools, Ints, SetSystem
from policies.policy import Policy, Scope
from policies.rules.asks import (
    compile_rules,
    unsupported,
)
from policies.rules.entry_table import EntryTable
from policies.rules.link_rules import LinkRule
from policies.rules.record_rules import Rule
from policies.rules.shared_places import PeoplePairs, shared_places, spread
from policies.rules.tabulated import FieldTable, TabulatedRule
from policies.rules.tabulated_links import (
    SeparatedSets,
    TabulatedLinkRule,
    separated_sets,
)

LARGEST_SCALE: Final = 1 << 52  # loads stay exact, also as float64
MOST_SUMMED: Final = 12  # fields up to which all sums are enumerated
MOST_WINDOWS: Final = 8  # mean windows of an entry up to which every window is a set
MOST_MEMBERS: Final = 10**5  # members of a rule's windows that are always sets
LATEST: Final = int(np.iinfo(np.int64).max)  # of all times


@dataclass(frozen=True)
class Expansion:
    """The sensitive sets of a table of entries, and the origin of each (S sets).

    Left out are sets that cannot be complete (a step set or alternative that lacks a
    field, ``at = k`` with fewer than k entries), and windows inside a wider window of
    the same subject, unless a mean is capped: then each counts, see ``widest``. Entries
    of fields with ``send = false`` are members too, since they decide whether a set
    exists; nobody ever holds them.

    Attributes
    ----------
    rules : tuple of Rule or LinkRule
        The compiled rules, relation rules last; ``sets.owner`` points into them.
    sets : SetSystem
        is represented as weighted.
        is given as weighted.
    unit : int64[S]
        The record, subject or link that the set belongs to, by the rule's scope.
    alternative : int64[S]
        Index into the rule's ``alternatives``.
    since : int64[S]
        First time of the set's window; 0 without a window.
    widest : frozenset of int
        Rules with a capped mean whose nested windows are too many to be sets of their
        own: only the widest are here, whose f adds up to no more than that of all.
    """

    rules: tuple[Rule | LinkRule, ...]
    sets: SetSystem
    unit: Ints
    alternative: Ints
    since: Ints
    widest: frozenset[int] = frozenset()


def expand(
    policy: Policy,
    entries: EntryTable,
    links: Mapping[str, PeoplePairs] | None = None,
    tables: Mapping[str, FieldTable] | None = None,
) -> Expansion:
    """Return all sensitive sets of the entries.

    Parameters
    ----------
    policy : Policy
    entries : EntryTable
        All loaded entries of the units in question. A unit must be whole: a missing
        field means that its set does not exist.
    links : Mapping of str to PeoplePairs, optional
        By relation; a relation that is missing has no links. A relation rule yields the
        sets of :mod:`policies.rules.shared_places` or, if it is tabulated, of
        :mod:`policies.rules.tabulated_links`.
    tables : Mapping of str to FieldTable, optional
        f by fields held, for every tabulated rule. Such a rule makes step sets of the
        smallest sets of fields with f >= tau; without a tau none.

    Raises
    ------
    ValueError
        If :func:`unsupported` names a rule, or an entry of a subject rule has none.
    """
    refused = unsupported(policy, tables)
    if refused:
        raise ValueError("no plan can judge these rules: " + "; ".join(refused))
    compiled = compile_rules(policy, tables)
    rules = tuple(compiled.all.values())
    whole = policy.budget.average is not None
    blocks = [
        _set_block(
            index, shape, alternative, entries, every=whole or rule.average is not None
        )
        for index, rule in enumerate(rules)
        if (shape := _planned_rule(rule)) is not None
        for alternative in range(len(shape.alternatives))
    ]
    paired = tuple(compiled.links.values())
    for index, link in enumerate(paired, start=len(rules)):
        pairs = (links or {}).get(link.relation)
        if pairs is not None and isinstance(link, TabulatedLinkRule):
            apart = separated_sets(link, entries, pairs)
            blocks += [_apart_block(index, one) for one in apart]
        elif pairs is not None and entries.place is not None:
            blocks.append(_link_block(index, link, entries, entries.place, pairs))
    return _concatenated((*rules, *paired), blocks, len(entries))


@dataclass(frozen=True)
class _Block:
    """Sets of one alternative of one rule; columns as in :class:`Expansion`."""

    owner: int
    alternative: int
    unit: Ints
    since: Ints
    classes: Bools
    cap: int
    full: int
    sizes: Ints
    entry: Ints
    amount: Ints
    widest: bool = False


def _set_block(
    index: int, rule: Rule, alternative: int, table: EntryTable, *, every: bool
) -> _Block:
    """Return all sets of one alternative: of ``every`` window, or of the widest only."""
    fields = rule.alternatives[alternative]
    rows, unit, time, classes = _members_of(rule, fields, table)
    wanted = every and rule.window is not None
    windows = _every(rule, unit, time, table) if wanted else None
    if windows is None:
        first, last = widest_windows(unit, time, rule.window)
        since, of_set = time[first], unit[first]
    else:
        first, last, of_set, since = windows
    held = _classes_present(classes, first, last, len(fields))
    keep = _exists(rule, held, last - first, len(fields))
    first, last, held = first[keep], last[keep], held[keep]
    sizes = last - first
    members = spread(first, sizes)
    whole = rule.complete & (sizes > held)  # some class has several entries
    weights, cap, full = _weights_and_cap(rule, fields)
    amount = weights[classes[members]]
    in_classes = np.repeat(whole, sizes)
    amount[in_classes] = classes[members][in_classes]
    return _Block(
        owner=index,
        alternative=alternative,
        unit=of_set[keep],
        since=since[keep],
        classes=whole,
        cap=NO_CAP if rule.tau is None else cap,
        full=full,
        sizes=sizes,
        entry=rows[members],
        amount=amount,
        widest=wanted and windows is None,
    )


def _every(
    rule: Rule, unit: Ints, time: Ints, table: EntryTable
) -> tuple[Ints, Ints, Ints, Ints] | None:
    """Return every window; None if n windows of up to n members are too many."""
    assert rule.window is not None
    starts = _members_of(rule, tuple(rule.fields), table)[1:3]
    found = every_window(unit, time, rule.window, starts)
    members = int((found[1] - found[0]).sum())
    return found if members <= max(MOST_MEMBERS, MOST_WINDOWS * len(unit)) else None


def _members_of(
    rule: Rule, fields: tuple[str, ...], table: EntryTable
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the rows in these fields with unit, time (0 without a window) and field.

    Rows are sorted by (unit, time).
    """
    rows, classes = table.of_fields(fields)
    unit = (table.record if rule.scope is Scope.RECORD else table.subject)[rows]
    if rule.scope is Scope.SUBJECT and len(unit) and unit.min() < 0:
        raise ValueError(
            f"rule {rule.name}: an entry has no subject, expected one each"
        )
    time = (
        table.time[rows] if rule.window is not None else np.zeros(len(rows), np.int64)
    )
    order = np.lexsort((time, unit))
    return rows[order], unit[order], time[order], classes[order]


def _planned_rule(rule: Rule) -> Rule | None:
    """Return the rule whose sets are planned, see ``tables`` of :func:`expand`."""
    return rule.planned if isinstance(rule, TabulatedRule) else rule


def _link_block(
    index: int, rule: LinkRule, table: EntryTable, place: Ints, pairs: PeoplePairs
) -> _Block:
    """Return all sets of a relation rule over places."""
    mine = np.array([name in rule.fields for name in table.fields], np.bool_)
    rows = np.flatnonzero(mine[table.field]) if len(table) else np.zeros(0, np.int64)
    found = shared_places(rows, table.subject, place, pairs)
    classes = found.sizes > 2  # somebody has several entries there
    in_classes = np.repeat(classes, found.sizes)
    return _Block(
        owner=index,
        alternative=0,
        unit=found.link,
        since=np.zeros(len(found.link), np.int64),
        classes=classes,
        cap=NO_CAP if rule.tau is None else 1,
        full=2,
        sizes=found.sizes,
        entry=found.entry,
        amount=np.where(in_classes, found.side, 1),
    )


def _apart_block(index: int, apart: SeparatedSets) -> _Block:
    """Return sets of a tabulated relation rule."""
    classes = apart.sizes > apart.classes  # some class has several entries
    in_classes = np.repeat(classes, apart.sizes)
    return _Block(
        owner=index,
        alternative=apart.alternative,
        unit=apart.link,
        since=np.zeros(len(apart.link), np.int64),
        classes=classes,
        cap=apart.full - 1,
        full=apart.full,
        sizes=apart.sizes,
        entry=apart.entry,
        amount=np.where(in_classes, apart.number, 1),
    )


def _classes_present(classes: Ints, first: Ints, last: Ints, number: int) -> Ints:
    """Count the different classes in each range."""
    present = np.zeros(len(first), dtype=np.int64)
    for c in range(number):
        upto = np.r_[0, np.cumsum(classes == c)]
        present += upto[last] > upto[first]
    return present


def _exists(rule: Rule, classes: Ints, sizes: Ints, number: int) -> Bools:
    """Mask of the sets that could be complete, see :class:`Expansion`."""
    there: Bools = classes == number if rule.complete else sizes >= (rule.need or 1)
    return there


def _weights_and_cap(rule: Rule, fields: tuple[str, ...]) -> tuple[Ints, int, int]:
    """Return integer amounts by class, the cap, and the load at which f is 1.

    Weights with very many digits do not fit 64 bits and are rounded up to a coarser
    scale. No load past the exact cap is within the coarse one. Loads within it stay
    within, if all weights are equal or the fields are few enough to enumerate all sums;
    else the coarse cap is rounded down.
    """
    if rule.need is not None:
        full = len(fields) if rule.complete else rule.need
        return np.ones(len(fields), dtype=np.int64), full - 1, full
    full = rule.unit.denominator
    exact = [rule.weights[f] * rule.unit.numerator for f in fields]
    weights, cap = exact, (rule.cap or 0) * rule.unit.numerator
    if full > LARGEST_SCALE:
        weights = [-(-w * LARGEST_SCALE // full) for w in exact]
        cap = _coarse_cap(rule, exact, weights)
        full = max(LARGEST_SCALE, cap + 1)
    return np.array(weights, dtype=np.int64), min(cap, full), full


def _coarse_cap(rule: Rule, exact: list[int], weights: list[int]) -> int:
    """Return the cap on rounded weights: no load past the exact cap is within it."""
    cap, unit = rule.cap or 0, rule.unit
    if rule.by_entry:
        return cap * weights[0]
    if len(exact) > MOST_SUMMED:
        return cap * unit.numerator * LARGEST_SCALE // unit.denominator
    sums = [(0, 0)]
    for one, rounded in zip(exact, weights, strict=True):
        sums += [(most + one, load + rounded) for most, load in sums]
    kept = cap * unit.numerator
    past = min((load for most, load in sums if most > kept), default=LATEST)
    return max(load for most, load in sums if most <= kept and load < past)


def _concatenated(
    rules: tuple[Rule | LinkRule, ...], blocks: list[_Block], rows: int
) -> Expansion:
    """Return one expansion of all blocks, in the order of the file."""
    counts = [len(b.unit) for b in blocks]

    def column(parts: list[Ints]) -> Ints:
        return np.concatenate([np.zeros(0, dtype=np.int64), *parts])

    def spread(numbers: list[int]) -> Ints:
        repeated: Ints = np.repeat(np.array(numbers, dtype=np.int64), counts)
        return repeated

    sets = SetSystem(
        n_entries=rows,
        properties=tuple(rule.name for rule in rules),
        measures=tuple(map(_measure, rules)),
        owner=spread([b.owner for b in blocks]),
        start=np.r_[0, np.cumsum(column([b.sizes for b in blocks]))],
        entry=column([b.entry for b in blocks]),
        amount=column([b.amount for b in blocks]),
        cap=spread([b.cap for b in blocks]),
        full=spread([b.full for b in blocks]),
        classes=np.concatenate([np.zeros(0, np.bool_), *(b.classes for b in blocks)]),
    )
    return Expansion(
        rules=rules,
        sets=sets,
        unit=column([b.unit for b in blocks]),
        alternative=spread([b.alternative for b in blocks]),
        since=column([b.since for b in blocks]),
        widest=frozenset(b.owner for b in blocks if b.widest),
    )


def _measure(rule: Rule | LinkRule) -> Measure:
    return Measure.STEP if isinstance(rule, LinkRule) else rule.measure


def widest_windows(unit: Ints, time: Ints, window: int | None) -> tuple[Ints, Ints]:
    """Return first and last + 1 position of every set, over rows sorted by (unit, time).

    Without a window a unit is one set. With one, each different time x of a unit begins
    the closed window from x to x + window; a window that ends where the one before it
    ends lies inside that one and is left out.
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
        reach = _reach(times, window)
        last[begin:end] = begin + np.searchsorted(times, reach, side="right")
    # Within a unit `last` never falls, so a window is widest where it first reaches.
    begins = np.r_[True, (last[1:] != last[:-1]) | (unit[1:] != unit[:-1])]
    first = np.flatnonzero(begins)
    return first, last[first]


def every_window(
    unit: Ints, time: Ints, window: int, starts: tuple[Ints, Ints]
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return one window for each different (unit, time) of the starts; some are empty.

    Parameters
    ----------
    unit, time : int64 array, shape (rows,)
        Sorted by (unit, time).
    window : int
    starts : tuple of int64 array, shape (starts,)
        Units and times, in any order.

    Returns
    -------
    first, last, unit, since : int64 array, shape (windows,)
        First and last + 1 position, unit, and time it begins at.
    """
    unit_of, since = np.unique(np.stack(starts), axis=1)
    units, times = np.unique(np.r_[unit, unit_of]), np.unique(time)
    span = len(times) + 1
    key = np.searchsorted(units, unit) * span + np.searchsorted(times, time)
    base = np.searchsorted(units, unit_of) * span
    first = np.searchsorted(key, base + np.searchsorted(times, since))
    ends = np.searchsorted(times, _reach(since, window), side="right")
    return first, np.searchsorted(key, base + ends), unit_of, since


def _reach(times: Ints, window: int) -> Ints:
    """Return the ends of windows; the latest of all times where they would overflow."""
    return np.where(times > LATEST - window, LATEST, times + window)
