"""A plan under construction: counters of what every adversary holds, kept up to date.

The counters are sparse and created when a set is first used, so that work is linear in
what is touched. They serve solvers only; the judge shares nothing with them. The other
plan state is :mod:`policies.solvers.search.delta_evaluation`: arrays, for searches that
change a plan millions of times. One of them cannot do the work of both: 200,000 entries
and 50 adversaries take 130 MB here and 669 MB there, 200,000 adversaries 47 MB here and
a table of 37 GB there, and a change of plan takes 4 to 6 times as long here (decision
24).

Caps on means are kept exactly (:class:`AverageBudgets`): a cap on the mean of f over
many sets is a budget for the sum of f, and sums are integers over one common
denominator, so that no comparison is rounded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from math import ceil, floor, lcm

import numpy as np

from policies.model.disclosure import reachable
from policies.model.problem import Plan, Problem
from policies.model.sets import Bools, Ints

Classes = dict[int, int]  # class number -> entries held of it


class PlanState:
    """A plan under construction.

    Parameters
    ----------
    problem : Problem
        Its sets, limits and history; entries can be added to history, never removed.

    Attributes
    ----------
    holders : list of set of int
        Adversaries to which the plan gives each entry.
    held : list of set of int
        Entries that the plan gives to each adversary.
    given : int64 array, shape (k,)
        Planned exposures of each adversary.
    room : int64 array, shape (k,)
        Capacities.
    """

    def __init__(self, problem: Problem) -> None:
        sets = problem.sets
        self.problem = problem
        self.holders: list[set[int]] = [set() for _ in range(problem.n_entries)]
        self.held: list[set[int]] = [set() for _ in range(problem.n_adversaries)]
        self.given = np.zeros(problem.n_adversaries, np.int64)
        self.room = problem.room()
        start, row = sets.by_entry()
        owner = sets.member_set
        self._start: list[int] = start.tolist()
        self._row_set: list[int] = owner[row].tolist()
        self._row_amount: list[int] = sets.amount[row].tolist()
        self._cap: list[int] = sets.cap.tolist()
        self._classed: list[bool] = sets.classes.tolist()
        self._load: dict[int, dict[int, int]] = {}
        self._class: dict[int, dict[int, Classes]] = {}
        self._before = _by_entry(problem.history.entry, problem.history.adversary)
        self._barred = _by_entry(problem.forbidden.entry, problem.forbidden.adversary)
        self._trusted = self._trust(problem)
        self._owner: list[int] = sets.owner.tolist()
        self._budgets = AverageBudgets(problem) if problem.averages else None
        self._history(problem)

    @staticmethod
    def _trust(problem: Problem) -> list[frozenset[int]]:
        """Adversaries trusted with each property."""
        if problem.trusted is None:
            return [frozenset()] * len(problem.sets.properties)
        return [frozenset(np.flatnonzero(row).tolist()) for row in problem.trusted]

    def _history(self, problem: Problem) -> None:
        """Count past exposures."""
        for d, a in zip(
            problem.history.entry.tolist(),
            problem.history.adversary.tolist(),
            strict=True,
        ):
            self._count(d, a, 1)

    def rows(self, entry: int) -> list[tuple[int, int]]:
        """(set, amount) of each set that the entry is in."""
        rows = slice(self._start[entry], self._start[entry + 1])
        return list(zip(self._row_set[rows], self._row_amount[rows], strict=True))

    def around(self, entry: int) -> int:
        """Return the number of members of the entry's sets, with repeats, plus one."""
        start = self.problem.sets.start
        return 1 + sum(int(start[s + 1] - start[s]) for s, _ in self.rows(entry))

    def _count(self, entry: int, adversary: int, sign: int) -> None:
        """Add the entry to, or take it from, the loads of the adversary."""
        for one, amount in self.rows(entry):
            before = self._loaded(one, adversary)
            if self._classed[one]:
                classes = self._class.setdefault(one, {}).setdefault(adversary, {})
                left = classes.get(amount, 0) + sign
                if left:
                    classes[amount] = left
                else:
                    del classes[amount]
            else:
                loads = self._load.setdefault(one, {})
                loads[adversary] = loads.get(adversary, 0) + sign * amount
            if self._budgets is not None:
                self._budgets.add(one, adversary, before, self._loaded(one, adversary))

    def _loaded(self, one: int, adversary: int) -> int:
        """Load of the adversary on the set."""
        if self._classed[one]:
            return len(self._class.get(one, {}).get(adversary, ()))
        return self._load.get(one, {}).get(adversary, 0)

    def exhausted(self, entry: int, out: Collection[int] = ()) -> set[int]:
        """Return adversaries, not out already, whose caps on means forbid the entry."""
        if self._budgets is None:
            return set()
        found = set()
        rows = self.rows(entry)
        held = self._before.get(entry, frozenset())
        for a in self._budgets.near(len(rows)):
            if a in out:
                continue
            changes = []
            for one, amount in rows:
                load = self._loaded(one, a)
                more = 0 if a in held else amount
                if self._classed[one]:
                    more = int(amount not in self._class.get(one, {}).get(a, {}))
                changes.append((one, load, load + more))
            if not self._budgets.fits(a, changes):
                found.add(a)
        return found

    def give(self, entry: int, adversary: int) -> None:
        """Plan the pair."""
        self.holders[entry].add(adversary)
        self.held[adversary].add(entry)
        self.given[adversary] += 1
        if adversary not in self._before.get(entry, ()):
            self._count(entry, adversary, 1)

    def take(self, entry: int, adversary: int) -> None:
        """Withdraw the pair."""
        self.holders[entry].remove(adversary)
        self.held[adversary].remove(entry)
        self.given[adversary] -= 1
        if adversary not in self._before.get(entry, ()):
            self._count(entry, adversary, -1)

    def _over(self, one: int, amount: int, held: frozenset[int] | set[int]) -> set[int]:
        """Return adversaries that the entry would take past the cap of the set."""
        cap = self._cap[one]
        if self._classed[one]:
            return {
                a
                for a, classes in self._class.get(one, {}).items()
                if len(classes) + (amount not in classes) > cap
            }
        return {
            a
            for a, load in self._load.get(one, {}).items()
            if load + (0 if a in held else amount) > cap
        }

    def blocked(self, entry: int) -> set[int]:
        """Return adversaries who may not get the entry now: barred, holding it, or full."""
        out = set(self.holders[entry]) | self._barred.get(entry, frozenset())
        held = self._before.get(entry, frozenset())
        for one, amount in self.rows(entry):
            trusted = self._trusted[self._owner[one]]
            alone = 1 if self._classed[one] else amount
            if alone > self._cap[one]:
                everybody = set(range(len(self.given)))
                out |= everybody - trusted
                continue
            over = self._over(one, amount, held)
            out |= over - trusted if trusted else over
        return out | self.exhausted(entry, out)

    def burden(self, entry: int) -> Ints:
        """Return how many other entries the entry would close to each adversary.

        Counts the members of the entry's sets that the adversary may get now but could
        not get afterwards (least constraining value), shape (k,).
        """
        out = np.zeros(len(self.given), np.int64)
        sets = self.problem.sets
        for one, amount in self.rows(entry):
            if self._cap[one] >= int(sets.full[one]):
                continue
            rows = slice(int(sets.start[one]), int(sets.start[one + 1]))
            groups: dict[int, list[int]] = {}
            for e, w in zip(
                sets.entry[rows].tolist(), sets.amount[rows].tolist(), strict=True
            ):
                if e != entry and not (self._classed[one] and w == amount):
                    groups.setdefault(w, []).append(e)
            for w, others in groups.items():
                closed = self._closed(one, amount, w)
                closed[list(self.blocked(others[0]))] = False
                out[closed] += len(others)
        return out

    def _closed(self, one: int, amount: int, other: int) -> Bools:
        """Mask of adversaries whose set has no room for ``other`` after ``amount``."""
        cap = self._cap[one]
        if self._classed[one]:
            out = np.full(len(self.given), cap < 2)
            for a, classes in self._class.get(one, {}).items():
                out[a] = len(classes.keys() | {amount, other}) > cap
            return out
        out = np.full(len(self.given), amount + other > cap)
        for a, load in self._load.get(one, {}).items():
            out[a] = load + amount + other > cap
        return out

    def open(self, entry: int) -> Bools:
        """Mask of the adversaries who may get the entry, capacities included."""
        mask = self.given < self.room
        out = self.blocked(entry)
        if out:
            mask[list(out)] = False
        return mask

    def is_barred(self, entry: int, adversary: int) -> bool:
        """Whether no change of plan could give the entry to the adversary."""
        if adversary in self._barred.get(entry, ()) or adversary in self.holders[entry]:
            return True
        for one, amount in self.rows(entry):
            alone = 1 if self._classed[one] else amount
            trusted = self._trusted[self._owner[one]]
            if alone > self._cap[one] and adversary not in trusted:
                return True
        return False

    def conflicts(self, entry: int, adversary: int, cost: list[int]) -> set[int] | None:
        """Return entries that the adversary must give up to get this one.

        Parameters
        ----------
        entry, adversary : int
        cost : list of int
            Cost of giving up each entry; cheap ones go first.

        Returns
        -------
        set of int, or None
            None if history alone is in the way.
        """
        out: set[int] = set()
        for one, _ in self.rows(entry):
            if adversary in self._trusted[self._owner[one]]:
                continue
            while self._is_past_cap(one, entry, adversary, out):
                movable = [
                    e
                    for e in self.problem.sets.members(one).tolist()
                    if e != entry
                    and e not in out
                    and adversary in self.holders[e]
                    and adversary not in self._before.get(e, ())
                ]
                if not movable:
                    return None
                out.add(min(movable, key=lambda e: (cost[e], e)))
        return out

    def _is_past_cap(self, one: int, entry: int, adversary: int, out: set[int]) -> bool:
        """Whether the set stays past its cap after giving up ``out`` and adding entry."""
        sets = self.problem.sets
        rows = slice(int(sets.start[one]), int(sets.start[one + 1]))
        pairs = zip(sets.entry[rows].tolist(), sets.amount[rows].tolist(), strict=True)
        held = [
            amount
            for e, amount in pairs
            if e == entry
            or (
                e not in out
                and (
                    adversary in self.holders[e] or adversary in self._before.get(e, ())
                )
            )
        ]
        load = len(set(held)) if self._classed[one] else sum(held)
        return load > self._cap[one]

    def give_all(self, entries: list[int], plan: Plan) -> bool:
        """Apply a plan of these entries, unless a cap on a mean forbids one of its pairs.

        Entry i of the plan is ``entries[i]``. Returns whether it was applied.
        """
        done: list[tuple[int, int]] = []
        for d, a in zip(plan.entry.tolist(), plan.adversary.tolist(), strict=True):
            if a in self.exhausted(entries[d]):
                for pair in done:
                    self.take(*pair)
                return False
            self.give(entries[d], a)
            done.append((entries[d], a))
        return True

    def plan(self) -> Plan:
        """Return the plan so far."""
        size = [len(h) for h in self.holders]
        adversary: Ints = np.fromiter(
            (a for h in self.holders for a in sorted(h)), np.int64, sum(size)
        )
        return Plan(np.repeat(np.arange(len(size)), size), adversary)


def _by_entry(entry: Ints, adversary: Ints) -> dict[int, frozenset[int]]:
    """Return the adversaries of each entry that has any."""
    out: dict[int, set[int]] = defaultdict(set)
    for d, a in zip(entry.tolist(), adversary.tolist(), strict=True):
        out[d].add(a)
    return {d: frozenset(s) for d, s in out.items()}


@dataclass
class _Budget:
    """One cap: sums of f so far and at most, by adversary, in units of the divisor."""

    properties: frozenset[int]
    most: list[int]
    total: list[int]


class AverageBudgets:
    """The budgets of f that caps on means allow.

    Parameters
    ----------
    problem : Problem
        Its ``averages`` are kept, except those of an aggregate, left to the judge.
        Without any, nothing is ever full.
    """

    def __init__(self, problem: Problem) -> None:
        sets, k = problem.sets, problem.n_adversaries
        self._measures = sets.measures
        self._owner: list[int] = sets.owner.tolist()
        self._full: list[int] = sets.full.tolist()
        self._trusted = problem.trusted
        counted = reachable(sets)
        per = np.bincount(sets.owner[counted], minlength=len(sets.properties)).tolist()
        pairs = {(o, f) for o, f in zip(self._owner, self._full, strict=True)}
        self.whole = lcm(1, *(f ** sets.measures[o].power for o, f in pairs))
        self._budgets = []
        for cap in problem.averages:
            if cap.aggregate is not None:
                continue
            size = [
                cap.over
                or sum(per[p] for p in cap.properties if not self._trusts(p, a))
                for a in range(k)
            ]
            sums = [cap.limit * n * self.whole for n in size]
            most = [ceil(s) - 1 if cap.strict else floor(s) for s in sums]
            budget = _Budget(frozenset(cap.properties), most, [0] * k)
            self._budgets.append(budget)

    def __bool__(self) -> bool:
        return bool(self._budgets)

    def _trusts(self, number: int, adversary: int) -> bool:
        return self._trusted is not None and bool(self._trusted[number, adversary])

    def rise(self, one: int, before: int, after: int) -> int:
        """Return the change of f of a set from one load to another, in units."""
        full, measure = self._full[one], self._measures[self._owner[one]]
        change = measure.numerator(after, full) - measure.numerator(before, full)
        return int(change * (self.whole // full**measure.power))

    def add(self, one: int, adversary: int, before: int, after: int) -> None:
        """Count a change of load."""
        owner = self._owner[one]
        if self._trusts(owner, adversary):
            return
        change = self.rise(one, before, after)
        for budget in self._budgets:
            if owner in budget.properties:
                budget.total[adversary] += change

    def near(self, sets: int) -> list[int]:
        """Return adversaries who might lack room for f = 1 in so many more sets."""
        need = sets * self.whole
        return sorted(
            {
                a
                for budget in self._budgets
                for a, (most, total) in enumerate(
                    zip(budget.most, budget.total, strict=True)
                )
                if most - total < need
            }
        )

    def fits(self, adversary: int, changes: list[tuple[int, int, int]]) -> bool:
        """Whether the caps allow these changes: (set, load before, load after)."""
        for budget in self._budgets:
            rise = sum(
                self.rise(one, before, after)
                for one, before, after in changes
                if self._owner[one] in budget.properties
                and not self._trusts(self._owner[one], adversary)
            )
            if rise and budget.total[adversary] + rise > budget.most[adversary]:
                return False
        return True
