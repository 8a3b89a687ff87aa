"""Connected components of a problem, and components of the same shape.

Entries that share a set, directly or through others, are one component; only capacities
couple components. Records of one form give components of one shape, which is solved
once. The solutions of the components are joined: one plan, one bound, one verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from policies.model.problem import Plan, Problem
from policies.model.sets import Ints, SetSystem
from policies.solvers.bounds.certificates import gathered, numbered
from policies.solvers.interfaces import Core, Solution, Verdict, answer

Part = tuple[Ints, Solution]
"""Entries of a component, ascending, and its solution in its own numbering."""


@dataclass(frozen=True, eq=False)
class Components:
    """Components that need copies, with their entries and sets.

    Attributes
    ----------
    count : int
    label : int64 array, shape (n entries,)
        Component of each entry.
    entry, entry_start : int64 array
        Entries of component c, ascending: ``entry[entry_start[c]:entry_start[c + 1]]``.
    set, set_start : int64 array
        Sets of component c, likewise.
    """

    count: int
    label: Ints
    entry: Ints
    entry_start: Ints
    set: Ints
    set_start: Ints

    def entries_of(self, chosen: Ints) -> Ints:
        """Entries of these components, ascending."""
        return np.sort(_gather(self.entry, self.entry_start, chosen))

    def sets_of(self, chosen: Ints) -> Ints:
        """Sets of these components, ascending."""
        return np.sort(_gather(self.set, self.set_start, chosen))


def _gather(values: Ints, start: Ints, chosen: Ints) -> Ints:
    """Concatenate slices of ``values``."""
    size = np.diff(start)[chosen]
    ends = np.cumsum(size)
    rows = np.repeat(start[chosen] - ends + size, size)
    return values[rows + np.arange(len(rows))]


def split(sets: SetSystem) -> Components:
    """Return the components; a set without members belongs to none."""
    size = np.diff(sets.start)
    used = np.flatnonzero(size > 0)
    head = sets.entry[sets.start[used]]
    count, label = _labels(sets, used, size[used])
    order = np.argsort(label, kind="stable")
    edges = np.searchsorted(label[order], np.arange(count + 1))
    home = label[head]
    by_home = np.argsort(home, kind="stable")
    set_edges = np.searchsorted(home[by_home], np.arange(count + 1))
    return Components(
        count=int(count),
        label=label,
        entry=order.astype(np.int64),
        entry_start=edges.astype(np.int64),
        set=used[by_home].astype(np.int64),
        set_start=set_edges.astype(np.int64),
    )


def _labels(sets: SetSystem, used: Ints, size: Ints) -> tuple[int, Ints]:
    """Number the components, by their first entries, and label every entry.

    Each label is an entry of the same component. Labels fall to the least of a set, and
    follow the labels of labels, until nothing changes: some ten rounds on any graph.
    (scipy.sparse.csgraph is three times as fast on a million entries, .4 s in all, and
    takes .2 s of CPU to load.)
    """
    label = np.arange(sets.n_entries)
    rank = np.repeat(np.arange(len(used)), size)
    while len(used):
        now = label[sets.entry]
        least = np.minimum.reduceat(now, sets.start[used])[rank]
        if (least == now).all():
            break
        np.minimum.at(label, now, least)
        while not np.array_equal(label, label[label]):
            label = label[label]
    roots, numbers = np.unique(label, return_inverse=True)
    return len(roots), numbers.astype(np.int64)


def shapes(problem: Problem, parts: Components) -> Ints:
    """Number the shapes of components, shape (count,).

    A shape is the entries in ascending order, each with (kind, lo, hi), and the
    multiset of sets over those positions. Two 64-bit hashes represent it; the judge
    checks every plan that is built from shapes, so a collision can cost a plan, never a
    limit.
    """
    sets = problem.sets
    place = np.empty(problem.n_entries, np.int64)
    size = np.diff(parts.entry_start)
    place[parts.entry] = np.arange(problem.n_entries) - np.repeat(
        parts.entry_start[:-1], size
    )
    home = np.zeros(sets.n_sets, np.int64)
    home[parts.set] = np.repeat(np.arange(parts.count), np.diff(parts.set_start))
    hashes = []
    for salt in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F):
        entry = _mix(salt, place, problem.weights.kind, problem.lo, problem.hi)
        member = _mix(salt + 1, place[sets.entry], sets.amount)
        inner = np.zeros(sets.n_sets, np.uint64)
        np.add.at(inner, sets.member_set, member)
        outer = _mix(salt + 2, inner, sets.owner, sets.cap, sets.full, sets.classes)
        total = np.zeros(parts.count, np.uint64)
        np.add.at(total, parts.label, entry)
        filled = parts.set
        np.add.at(total, home[filled], outer[filled])
        hashes.append(total)
    _, shape = np.unique(np.stack(hashes, axis=1), axis=0, return_inverse=True)
    return np.asarray(shape.reshape(-1), dtype=np.int64)


def _mix(salt: int, *columns: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Hash rows of integer columns to uint64 (splitmix64 steps)."""
    out = np.full(len(columns[0]), salt & (2**64 - 1), np.uint64)
    for column in columns:
        out = out + column.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        out = (out ^ (out >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        out = (out ^ (out >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        out = out ^ (out >> np.uint64(31))
    return out


def renumbered(core: Core, entries: Ints, sets: Ints) -> Core:
    """Return a component's core in the numbering of the whole problem."""
    clashes = tuple(
        replace(
            c,
            sets=tuple(sets[list(c.sets)].tolist()),
            entries=tuple(entries[list(c.entries)].tolist()),
        )
        for c in core.clashes
    )
    own = tuple(entries[list(core.entries)].tolist())
    return replace(core, entries=own, clashes=clashes)


def lifted(found: Solution, entries: Ints, sets: Ints) -> Solution:
    """Return a component's solution with its cores in the whole problem's numbering."""
    cores = tuple(renumbered(core, entries, sets) for core in found.cores)
    return replace(found, cores=cores)


def joined(problem: Problem, ready: Sequence[Part], why: str) -> Solution:
    """Join the components' plans and judge the whole.

    Parameters
    ----------
    problem : Problem
    ready : sequence of Part
        Every component once, its cores :func:`lifted`.
    why : str
        Why the search ended, where no optimum was proven.
    """
    verdicts = {found.verdict for _, found in ready}
    plans = [(e, f.plan) for e, f in ready if f.verdict is Verdict.SOLVED]
    plan = Plan(
        np.concatenate([np.empty(0, np.int64), *(e[p.entry] for e, p in plans)]),
        np.concatenate([np.empty(0, np.int64), *(p.adversary for _, p in plans)]),
    )
    bound = sum((f.bound for _, f in ready), Fraction(0))
    tried = tuple(dict.fromkeys(text for _, f in ready for text in f.tried))
    proofs = gathered(p for e, f in ready for p in numbered(f.proofs, e))
    if verdicts <= {Verdict.SOLVED}:
        made = answer(problem, plan, bound=bound, tried=tried)
        proven = all(f.stopped in ("", "optimal") for _, f in ready)
        stopped = "optimal" if proven else why
        return replace(made, stopped=stopped, proofs=proofs)
    away = [e for e, f in ready if f.verdict is not Verdict.SOLVED]
    impossible = Verdict.INFEASIBLE in verdicts
    return Solution(
        _verdict(verdicts),
        plan,
        held=np.sort(np.concatenate(away)),
        bound=bound,
        cores=tuple(core for _, f in ready for core in f.cores),
        tried=tried,
        stopped="optimal" if impossible else why,
        proofs=proofs,
    )


def _verdict(verdicts: set[Verdict]) -> Verdict:
    """Return the verdict on a problem with a part that has no plan."""
    if Verdict.INFEASIBLE in verdicts:
        return Verdict.INFEASIBLE
    open_ = Verdict.UNKNOWN in verdicts
    return Verdict.UNKNOWN if open_ else Verdict.CERTIFIED
