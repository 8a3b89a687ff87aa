"""Entries in pairs that cost something where one adversary holds both: a proven ceiling.

Branch and bound over one component, in whole numbers. What the search has no nodes for
counts with its bound, so that the ceiling holds wherever it ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import comb
from typing import Final

NODES: Final = 2_000
"""Nodes for one component."""

DEPTH: Final = 150
"""Entries that are chosen for one after another, at most."""

CHOICES: Final = 300
"""Choices of adversaries for one entry above which it is not branched on."""

Choice = tuple[int, tuple[int, ...]]  # what it is worth, less its price; who


@dataclass(eq=False)
class PricedPairs:
    """One component, searched as soon as it is made.

    Attributes
    ----------
    worth : sequence of dict of int to int
        By entry: what a copy is worth, by the adversaries who may get it.
    price : list of list of int
        By entry and adversary: what a copy costs by itself, >= 0.
    near : sequence of dict of int to list of int
        By entry: the others that it meets, and by adversary what holding both costs.
    lo, hi : sequence of int
        Copies.
    nodes : int
        How many are searched.
    best : int or None
        Value of the best choice that was found.
    plan : list of tuple of int
        Who gets each entry by that choice.
    ceiling : int or None
        No choice is worth more; None if there is no choice.
    """

    worth: Sequence[dict[int, int]]
    price: list[list[int]]
    near: Sequence[dict[int, list[int]]]
    lo: Sequence[int]
    hi: Sequence[int]
    nodes: int = NODES
    best: int | None = None
    plan: list[tuple[int, ...]] = field(default_factory=list)
    ceiling: int | None = None

    def __post_init__(self) -> None:
        self._nodes = self._depth = 0
        self._chosen: list[tuple[int, ...]] = [()] * len(self.worth)
        self._deepen(0, set(range(len(self.worth))))
        if self.best is not None:
            self._leave(self.best)

    def _leave(self, bound: int) -> None:
        """Count what is not searched with its bound."""
        self.ceiling = bound if self.ceiling is None else max(self.ceiling, bound)

    def _net(self, d: int) -> list[tuple[int, int]]:
        """(worth less price, adversary) of all who may get the entry, best first."""
        price = self.price[d]
        return sorted((price[a] - w, a) for a, w in self.worth[d].items())

    def _top(self, d: int) -> Choice | None:
        """Return the best choice as prices are now; None where too few may get it."""
        net = self._net(d)
        if len(net) < self.lo[d]:
            return None
        taken = [
            (cost, a)
            for i, (cost, a) in enumerate(net[: self.hi[d]])
            if i < self.lo[d] or cost < 0
        ]
        return -sum(cost for cost, _ in taken), tuple(a for _, a in taken)

    def _choices(self, d: int) -> list[Choice]:
        """All choices, best first."""
        net = {a: -cost for cost, a in self._net(d)}
        sizes = range(self.lo[d], min(self.hi[d], len(net)) + 1)
        found = (who for size in sizes for who in combinations(sorted(net), size))
        return sorted(
            ((sum(net[a] for a in who), who) for who in found),
            key=lambda choice: (-choice[0], choice[1]),
        )

    def _deepen(self, value: int, left: set[int]) -> None:
        """Choose for the entries that are left whatever may still beat the best."""
        self._nodes += 1
        tops: dict[int, Choice] = {}
        for d in left:
            top = self._top(d)
            if top is None:
                return
            tops[d] = top
        total = value + sum(worth for worth, _ in tops.values())
        if self.best is not None and total <= self.best:
            return
        clash = max(self._clashes(tops), default=None)
        if clash is None:
            self.best, self.plan = total, self._chosen.copy()
            for d, (_, who) in tops.items():
                self.plan[d] = who
            return
        d = -clash[1]
        width = sum(
            comb(len(self.worth[d]), size) for size in range(self.lo[d], self.hi[d] + 1)
        )
        if self._nodes > self.nodes or self._depth >= DEPTH or width > CHOICES:
            self._leave(total)
            return
        self._branch(d, value, total - value - tops[d][0], left - {d})

    def _branch(self, d: int, value: int, others: int, rest: set[int]) -> None:
        """Try the choices of one entry."""
        for worth, who in self._choices(d):
            bound = value + worth + others
            if self.best is not None and bound <= self.best:
                return
            if self._nodes > self.nodes:  # choices come best first
                self._leave(bound)
                return
            self._charge(d, who, rest, 1)
            self._chosen[d] = who
            self._depth += 1
            self._deepen(value + worth, rest)
            self._depth -= 1
            self._charge(d, who, rest, -1)

    def _clashes(self, tops: dict[int, Choice]) -> Iterator[tuple[int, int]]:
        """(price, -entry) of entries whose best choices cost something together."""
        for d, (_, who) in tops.items():
            cost = sum(
                price[a]
                for e, price in self.near[d].items()
                if e in tops
                for a in who
                if a in tops[e][1]
            )
            if cost:
                yield cost, -d

    def _charge(self, d: int, who: tuple[int, ...], rest: set[int], sign: int) -> None:
        """Add what the neighbours that are left cost now, or take it off again."""
        for e, price in self.near[d].items():
            if e in rest:
                for a in who:
                    self.price[e][a] += sign * price[a]
