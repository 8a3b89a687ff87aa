"""What every adversary holds while a plan is being built: counters kept up to date.

The counters are sparse and made when a set is first asked about, so that work is
linear in what is touched. They serve solvers only; the judge shares nothing with them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

import numpy as np

from policies.model.problem import Plan, Problem
from policies.model.sets import Bools, Ints
from policies.solvers.search.average_budgets import Means

Classes = dict[int, int]  # class number -> entries held of it


class Hands:
    """A plan under construction.

    Parameters
    ----------
    problem : Problem
        Its sets, limits and history; history can be added to and never given up.

    Attributes
    ----------
    holders : list of set of int
        Adversaries that the plan gives each entry to.
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
        self._means = Means(problem) if problem.averages else None
        self._history(problem)

    @staticmethod
    def _trust(problem: Problem) -> list[frozenset[int]]:
        """Adversaries trusted with each property."""
        if problem.trusted is None:
            return [frozenset()] * len(problem.sets.properties)
        return [frozenset(np.flatnonzero(row).tolist()) for row in problem.trusted]

    def _history(self, problem: Problem) -> None:
        """Count what was shown before."""
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
        """Members of the entry's sets, with repeats, and one more."""
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
            if self._means is not None:
                self._means.add(one, adversary, before, self._loaded(one, adversary))

    def _loaded(self, one: int, adversary: int) -> int:
        """Load of the adversary on the set."""
        if self._classed[one]:
            return len(self._class.get(one, {}).get(adversary, ()))
        return self._load.get(one, {}).get(adversary, 0)

    def exhausted(self, entry: int, out: Collection[int] = ()) -> set[int]:
        """Adversaries, not out already, whose caps on means forbid the entry."""
        if self._means is None:
            return set()
        found = set()
        rows = self.rows(entry)
        held = self._before.get(entry, frozenset())
        for a in self._means.near(len(rows)):
            if a in out:
                continue
            changes = []
            for one, amount in rows:
                load = self._loaded(one, a)
                more = 0 if a in held else amount
                if self._classed[one]:
                    more = int(amount not in self._class.get(one, {}).get(a, {}))
                changes.append((one, load, load + more))
            if not self._means.fits(a, changes):
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
        """Adversaries that would be past the cap of the set with the entry added."""
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
        """Adversaries who may not get the entry now: barred, holding it, or at a limit."""
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
        """How much each adversary would be closed to others by getting the entry.

        Counts the members of the entry's sets that the adversary may get now and could
        not get any more (least constraining value), shape (k,).
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
        """Adversaries for whom the set has no room for ``other`` beside ``amount``."""
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

    def barred(self, entry: int, adversary: int) -> bool:
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
        """Entries the adversary must give up to be given this one.

        Parameters
        ----------
        entry, adversary : int
        cost : list of int
            What giving up each entry costs; cheap ones go first.

        Returns
        -------
        set of int, or None
            None where history alone stands in the way.
        """
        out: set[int] = set()
        for one, _ in self.rows(entry):
            if adversary in self._trusted[self._owner[one]]:
                continue
            while self._stuck(one, entry, adversary, out):
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

    def _stuck(self, one: int, entry: int, adversary: int, out: set[int]) -> bool:
        """Whether the set stays past its cap with ``out`` given up and entry added."""
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
        """Give the plan of these entries; nothing where a cap on a mean forbids a pair.

        Entry i of the plan is ``entries[i]``. Returns whether it was given.
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
    """Adversaries of each entry that has any."""
    out: dict[int, set[int]] = defaultdict(set)
    for d, a in zip(entry.tolist(), adversary.tolist(), strict=True):
        out[d].add(a)
    return {d: frozenset(s) for d, s in out.items()}
