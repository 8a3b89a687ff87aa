"""What hands hold of sets, summed up: the figures that a judgement is made of."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from policies.model.aggregates import Parts
from policies.model.disclosure import Loads, share
from policies.model.fraction_sums import FractionSum
from policies.model.problem import Problem
from policies.model.sets import Bools, Ints, Measure

_TABLE: Final = 2_000_000
"""Numbers in a table of sums by set and hand; bounds memory."""

_HALF: Final = 2**62 - 1
"""Sums of 64 bits above this are followed in Python's integers."""

SHOWN: Final = 20
"""Violations of one sort that are told one by one."""


@dataclass(frozen=True)
class Crossing:
    """A set on which a hand (an adversary, or a coalition) would be past the limit."""

    set: int
    adversary: int
    load: int
    cap: int


class Tally:
    """Sums over the pieces of loads that the judge walks through.

    Attributes
    ----------
    parts : Parts or None
        Of the problem's aggregate, where it has one over sets.
    crossed, inherited : list of Crossing
        Limits passed by the plan, and by history alone; at most ``SHOWN`` of each.
    n_crossed, past : int
        How many of each there are.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.hands = problem.n_adversaries + len(problem.groups)
        self.judged = problem.judged()
        self.size = np.diff(problem.sets.start)
        self.whole: set[int] = set()
        self.worst = Fraction(0)
        self.where: tuple[int, int] | None = None
        self.by_property = [Fraction(0)] * len(problem.sets.properties)
        how = problem.aggregate if problem.links is None else None
        self.parts = None if how is None else Parts(how)
        self.complete = 0
        self.past = 0
        self.n_crossed = 0
        self.crossed: list[Crossing] = []
        self.inherited: list[Crossing] = []
        self.sums: dict[tuple[int, int], Ints] = {}

    def add(self, piece: Loads) -> None:
        """Count one piece."""
        sets = self.problem.sets
        owner = sets.owner[piece.set]
        if self.judged is not None:
            judged = self.judged[owner, piece.adversary]
            piece = Loads(
                piece.set[judged],
                piece.adversary[judged],
                piece.load[judged],
                piece.count[judged],
                piece.fresh[judged],
            )
            owner = owner[judged]
        full = sets.full[piece.set]
        self.complete += int(np.sum(piece.load >= full))
        every = np.where(
            sets.classes[piece.set],
            piece.load >= full,
            piece.count == self.size[piece.set],
        )
        self.whole.update(np.unique(piece.set[every]).tolist())
        over = piece.load > sets.cap[piece.set]
        self.past += self._note(piece, over & ~piece.fresh, self.inherited)
        self.n_crossed += self._note(piece, over & piece.fresh, self.crossed)
        self._shares(piece, owner, full)
        if self.parts is not None:
            self._gather(self.parts, piece, owner, full)

    def _note(self, piece: Loads, over: Bools, noted: list[Crossing]) -> int:
        """Note the first of these crossings, and return how many there are."""
        rows = np.flatnonzero(over)
        for row in rows[: max(0, SHOWN - len(noted))]:
            one = int(piece.set[row])
            noted.append(
                Crossing(
                    one,
                    int(piece.adversary[row]),
                    int(piece.load[row]),
                    int(self.problem.sets.cap[one]),
                )
            )
        return len(rows)

    def _shares(self, piece: Loads, owner: Ints, full: Ints) -> None:
        """Worst f and the sums of f, by (property, full)."""
        held = np.minimum(piece.load, full)
        order = np.lexsort((held, full, owner))
        owner, full, held = owner[order], full[order], held[order]
        same = (owner[1:] == owner[:-1]) & (full[1:] == full[:-1])
        edges = np.concatenate([[0], np.flatnonzero(~same) + 1, [len(owner)]])
        edges = edges[: len(edges) if len(owner) else 0]
        last = edges[1:] - 1
        tops = zip(
            owner[last].tolist(),
            full[last].tolist(),
            held[last].tolist(),
            order[last].tolist(),
            strict=True,
        )
        known: dict[tuple[Measure, int, int], Fraction] = {}
        for number, whole, highest, row in tops:
            key = self.problem.sets.measures[number], highest, whole
            if key not in known:
                known[key] = share(*key)
            top = known[key]
            self.by_property[number] = max(self.by_property[number], top)
            if self.where is None or top > self.worst:
                self.worst = top
                self.where = (int(piece.set[row]), int(piece.adversary[row]))
        groups = max(1, _TABLE // max(1, self.hands))
        for i in range(0, len(last), groups):
            part = edges[i : i + groups + 1]
            rows = slice(int(part[0]), int(part[-1]))
            adversary = piece.adversary[order[rows]]
            self._sum(owner[rows], full[rows], held[rows], adversary, part - part[0])

    def _sum(
        self, owner: Ints, full: Ints, held: Ints, adversary: Ints, edges: Ints
    ) -> None:
        """Add f of rows in groups of one property and one ``full`` each."""
        kind = np.array([int(m) for m in self.problem.sets.measures], np.int64)[owner]
        square = kind == Measure.QUADRATIC
        value = np.where(kind == Measure.STEP, held == full, held)
        if square.any():
            value = np.where(square, _squared(value, int(full.max())), value)
        if value.sum(dtype=np.float64) > _HALF:
            value = value.astype(object)
        group = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
        table = np.zeros((len(edges) - 1, self.hands), value.dtype)
        np.add.at(table, (group, adversary), value)
        keys = zip(owner[edges[:-1]].tolist(), full[edges[:-1]].tolist(), strict=True)
        for key, sums in zip(keys, table, strict=True):
            more = _wide(sums)
            self.sums[key] = _wide(self.sums[key] + more) if key in self.sums else more

    def _gather(self, parts: Parts, piece: Loads, owner: Ints, full: Ints) -> None:
        """Count one piece for the aggregate."""
        known: dict[tuple[int, int, int], Fraction] = {}
        rows = zip(
            piece.set.tolist(),
            owner.tolist(),
            piece.adversary.tolist(),
            piece.load.tolist(),
            full.tolist(),
            strict=True,
        )
        for one, number, hand, load, whole in rows:
            key = number, load, whole
            if key not in known:
                known[key] = share(self.problem.sets.measures[number], load, whole)
            parts.add(one, number, hand, known[key])

    def means(
        self, properties: tuple[int, ...], counted: Bools, over: int = 0
    ) -> dict[int, Fraction]:
        """Mean of f over the counted sets of these properties, by hand, where above 0.

        ``over`` is what the sum is divided by, 0 for the number of counted sets.
        """
        sets, judged = self.problem.sets, self.judged
        wanted = set(properties)
        parts: dict[int, FractionSum] = defaultdict(FractionSum)
        for scale, sums in self._by_scale(wanted).items():
            for a in np.flatnonzero(sums).tolist():
                parts[a].add(Fraction(int(sums[a]), scale))
        total = {a: part.exact for a, part in parts.items()}
        if over:
            return {a: t / over for a, t in total.items()}
        rows = list(properties)
        per = np.bincount(sets.owner[counted], minlength=len(sets.properties))[rows]
        size = {
            a: int(per.sum() if judged is None else per @ judged[rows, a])
            for a in total
        }
        return {a: t / size[a] for a, t in total.items() if size[a]}

    def _by_scale(self, properties: set[int]) -> dict[int, Ints]:
        """Sums over these properties, by what they are divided by."""
        found: dict[int, Ints] = {}
        for (number, whole), sums in self.sums.items():
            if number not in properties:
                continue
            scale = whole ** int(self.problem.sets.measures[number])
            more = _wide(sums)
            found[scale] = _wide(found[scale] + more) if scale in found else more
        return found


def _wide(sums: Ints) -> Ints:
    """Sums to which as much can be added: large ones in Python's integers."""
    wide = sums.dtype != object and bool((sums > _HALF).any())
    return sums.astype(object) if wide else sums


def _squared(value: Ints, whole: int) -> Ints:
    """Squares; in Python's integers where 64 bits could be too few."""
    return value.astype(object) ** 2 if whole >= 2**31 else value**2
