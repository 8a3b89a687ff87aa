"""The assignment problem as numbers: entries, adversaries, sensitive sets and limits.

Entries and adversaries are indices from 0; the caller keeps their names. All data is
columnar, so that a million entries are a few arrays. Objects are frozen and check
themselves: a Problem that exists is well formed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from policies.model.aggregates import Aggregate
from policies.model.coalitions import NOBODY, Coalitions, pooled
from policies.model.links import Links
from policies.model.objective import Objective
from policies.model.sets import Bools, Ints, InvalidProblem, SetSystem, below, column
from policies.model.utility_functions import Utilities
from policies.model.weights import Weights


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs (entry, adversary), sorted by entry, then adversary, each once.

    Attributes
    ----------
    entry, adversary : int64 array, shape (pairs,)
    """

    entry: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    adversary: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def __post_init__(self) -> None:
        entry = column("pairs.entry", self.entry)
        adversary = column("pairs.adversary", self.adversary, len(entry))
        width = int(adversary.max(initial=0)) + 1
        order = np.argsort(entry * width + adversary, kind="stable")
        entry, adversary = entry[order], adversary[order]
        same = (entry[1:] == entry[:-1]) & (adversary[1:] == adversary[:-1])
        if same.any():
            fresh = np.concatenate([[True], ~same])
            entry, adversary = entry[fresh], adversary[fresh]
        for name, array in (("entry", entry), ("adversary", adversary)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return len(self.entry)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.entry.tolist(), self.adversary.tolist(), strict=True)

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> Self:
        """From an iterable of (entry, adversary)."""
        grid = np.array(list(pairs), dtype=np.int64).reshape(-1, 2)
        return cls(grid[:, 0], grid[:, 1])

    def union(self, other: Pairs) -> Pairs:
        """Return the pairs of both, each once."""
        return Pairs(
            np.concatenate([self.entry, other.entry]),
            np.concatenate([self.adversary, other.adversary]),
        )

    def within(self, other: Pairs) -> Bools:
        """Mask of the pairs that the other has too, shape (pairs,)."""
        if not len(other):
            return np.zeros(len(self), np.bool_)
        key = int(max(self.adversary.max(initial=0), other.adversary.max())) + 1
        mine, theirs = (p.entry * key + p.adversary for p in (self, other))
        at = np.minimum(np.searchsorted(theirs, mine), len(theirs) - 1)
        return np.asarray(theirs[at] == mine)

    def start(self, n_entries: int) -> Ints:
        """CSR offsets: pairs of entry d are ``start[d]:start[d + 1]``."""
        return np.searchsorted(self.entry, np.arange(n_entries + 1)).astype(np.int64)


@dataclass(frozen=True)
class Average:
    """A cap on the mean of f over some properties' sets, per adversary: mean <= limit.

    Attributes
    ----------
    properties : tuple of int
        The properties whose sets are counted.
    limit : Fraction
    strict : bool
        Whether the mean must stay below the limit: mean < limit.
    over : int
        Divisor of the sum; 0: the number of counted sets that could disclose anything.
    aggregate : Aggregate or None
        If given, what is capped instead of a mean: the goal's aggregate.
    """

    properties: tuple[int, ...]
    limit: Fraction
    strict: bool = False
    over: int = 0
    aggregate: Aggregate | None = None

    def kept(self, mean: Fraction) -> bool:
        """Whether a mean keeps the cap."""
        return mean < self.limit if self.strict else mean <= self.limit


@dataclass(frozen=True)
class Goal:
    """What a plan maximises below the limits (paper, section 3).

    Attributes
    ----------
    objective : Objective
        ``disc-budget`` max u; ``tradeoff`` max u + lambda * (tau - f).
    lambda_ : Fraction
        >= 0.
    tau : Fraction
        The constant of the tradeoff; 0 where no limit was given.
    average : bool
        Whether f is the highest mean over the sets of one adversary, not the worst set.
    over : int
        Divisor of the mean's sum; 0: the number of judged sets.
    aggregate : Aggregate or None
        f, where it is neither the worst set nor that mean.
    """

    objective: Objective = Objective.DISC_BUDGET
    lambda_: Fraction = Fraction(1)
    tau: Fraction = Fraction(1)
    average: bool = False
    over: int = 0
    aggregate: Aggregate | None = None

    def __post_init__(self) -> None:
        if self.lambda_ < 0:
            raise InvalidProblem(f"lambda is {self.lambda_}, expected >= 0")
        if self.average and self.aggregate is not None:
            raise InvalidProblem("f is a mean and an aggregate, expected one of both")

    @property
    def worst(self) -> bool:
        """Whether f is that of the worst set."""
        return not self.average and self.aggregate is None


@dataclass(frozen=True, eq=False)
class Problem:
    """Entries, adversaries, sensitive sets and limits.

    Attributes
    ----------
    sets : SetSystem
    lo, hi : int64 array, shape (n entries,)
        Copies that an entry must and may get from this plan, 0 <= lo <= hi. An entry
        with hi = 0 is history only.
    weights : Weights
        w_da; its shape gives n and k.
    capacity : int64 array, shape (k,), or None
        New exposures that each adversary may still get; ``NO_CAP`` for no limit.
    forbidden : Pairs
        Pairs that must not be planned (for example: this worker answered already).
    history : Pairs
        Exposures of the past: they count for disclosure, not for utility or capacity.
    trusted : bool array, shape (properties, k), or None
        Where True, that property is not judged for that adversary.
    goal : Goal
    averages : tuple of Average
    coalitions : Coalitions
        Adversaries who pool what they hold; every limit applies to them too.
    links : Links or None
        With links, f is what they disclose; sets are limits only.
    strict_history : bool
        Whether a limit that history alone exceeds makes every plan infeasible (the
        paper's definition); else only what the plan adds counts.
    utilities : Utilities or None
        A utility that is no sum over pairs; ``weights`` then only give n and k.
    prices : int64 array, shape (n entries,), or None
        Cost of withholding each entry where there is no plan; 0: it must not be.

    Notes
    -----
    k counts merged adversaries: declared groups and accounts known to be one are
    joined before a Problem is made.
    """

    sets: SetSystem
    lo: Ints
    hi: Ints
    weights: Weights
    capacity: Ints | None = None
    forbidden: Pairs = Pairs()
    history: Pairs = Pairs()
    trusted: Bools | None = None
    goal: Goal = Goal()
    averages: tuple[Average, ...] = ()
    coalitions: Coalitions = NOBODY
    links: Links | None = None
    strict_history: bool = False
    utilities: Utilities | None = None
    prices: Ints | None = None

    @classmethod
    def from_sets(
        cls,
        weights: npt.ArrayLike,
        sets: Sequence[Iterable[int] | Mapping[int, float]],
        *,
        adversaries: int | None = None,
        copies: int | Sequence[int] = 1,
        tau: float = 1,
        disclosure: str = "step",
        aggregation: str = "worst",
        objective: str = Objective.DISC_BUDGET,
        lambda_: float = 1,
        utility_norm: float | None = None,
        capacity: Iterable[int | None] | None = None,
        history: Iterable[tuple[int, int]] = (),
        forbidden: Iterable[tuple[int, int]] = (),
        coalitions: Iterable[Iterable[int]] = (),
    ) -> Self:
        """Return the paper's problem, built from plain lists of numbers.

        Parameters
        ----------
        weights : real array, shape (n entries, k adversaries) or (n entries,)
            w_da >= 0, the worth of showing the entry to the adversary; one number an
            entry applies to all ``adversaries``.
        sets : sequence
            The entries of each sensitive set, from 0, all with the same weight; or,
            unless the disclosure is a step, ``{entry: a_dp}``, at most 1 in sum.
        adversaries : int, optional
            k; required with one weight an entry.
        copies : int or sequence of int, one an entry
            Every entry goes to at least one and at most so many adversaries; an entry
            with 0 copies may occur in ``history`` only.
        tau : float
            ``disc-budget``: the limit f < tau; ``tradeoff``: the constant.
        disclosure : str
            A name of :data:`~policies.model.measures.MEASURES`. f of a set and an
            adversary is 1 if it holds the whole set and 0 else; the sum of the a_dp
            that it holds; the square of that sum.
        aggregation : {"worst", "average"}
            f of a plan: the highest f of a set, or the highest mean over all sets.
        objective : {"disc-budget", "tradeoff"}
            Maximise u with f < tau, or u + lambda (tau - f).
        lambda_ : float
            >= 0, of a tradeoff.
        utility_norm : float, optional
            > 0. u is the sum of the planned weights divided by this; by default, by
            the sum of each entry's best weights, so that u is at most 1.
        capacity : iterable of int or None, one an adversary, optional
            New entries that each may get; None: any number.
        history, forbidden : iterable of (entry, adversary)
            Pairs held already, and pairs that must not be planned.
        coalitions : iterable of iterables of int
            Adversaries who pool what they hold.

        Returns
        -------
        Problem
            Floats stand for the simplest fractions that read as them: 0.1 is one tenth.

        Raises
        ------
        InvalidProblem
            Gives the value found and the value expected.

        Examples
        --------
        >>> problem = Problem.from_sets([[9, 2], [8, 3]], [[0, 1]])
        >>> problem.n_entries, problem.n_adversaries
        (2, 2)
        """
        # construction imports this module, so it is imported late
        from policies.model import construction as made

        table = made.table_of(weights, adversaries)
        n, k = table.shape
        most = np.broadcast_to(np.asarray(copies), (n,))
        hi = np.minimum(column("copies", most), k)
        measure = made.measure_of(disclosure)
        rows = [made.sensitive_set(i, one, measure) for i, one in enumerate(sets)]
        goal = made.goal_of(objective, aggregation, tau, lambda_, len(rows))
        caps = [
            made.load_limit(goal, measure, row.full, i) for i, row in enumerate(rows)
        ]
        if utility_norm is not None and not utility_norm > 0:
            raise InvalidProblem(f"utility_norm is {utility_norm}, expected > 0")
        return cls(
            sets=made.set_system(n, rows, measure, caps, "set"),
            lo=np.minimum(hi, 1),
            hi=hi,
            weights=made.exact_weights(table, hi, utility_norm),
            capacity=made.capacities(capacity),
            forbidden=Pairs.of(forbidden),
            history=Pairs.of(history),
            goal=goal,
            averages=made.limits_on_all(goal, len(rows)),
            coalitions=Coalitions(tuple(map(tuple, coalitions))),
            strict_history=True,
        )

    def __post_init__(self) -> None:
        n, k = self.n_entries, self.n_adversaries
        if self.sets.n_entries != n:
            raise InvalidProblem(
                f"sets speak of {self.sets.n_entries} entries, expected {n}"
            )
        object.__setattr__(self, "lo", column("lo", self.lo, n))
        object.__setattr__(self, "hi", column("hi", self.hi, n))
        bad = np.flatnonzero(self.lo > self.hi)
        if bad.size:
            d = int(bad[0])
            raise InvalidProblem(
                f"entry {d} has lo = {int(self.lo[d])}, expected <= hi = {int(self.hi[d])}"
            )
        if self.capacity is not None:
            object.__setattr__(self, "capacity", column("capacity", self.capacity, k))
        if self.prices is not None:
            object.__setattr__(self, "prices", column("prices", self.prices, n))
        for name in ("forbidden", "history"):
            pairs: Pairs = getattr(self, name)
            below(f"{name}.entry", pairs.entry, n)
            below(f"{name}.adversary", pairs.adversary, k)
        if self.trusted is not None:
            self._check_trusted()
        self._check_aggregate()
        self.coalitions.check(k)
        if self.utilities is not None and len(self.utilities.functions) != k:
            raise InvalidProblem(
                f"{len(self.utilities.functions)} utilities, expected {k}"
            )
        if self.links is not None and len(self.links.place) != n:
            raise InvalidProblem(
                f"links speak of {len(self.links.place)} entries, expected {n}"
            )

    def _check_trusted(self) -> None:
        """Copy the mask; raise unless it is properties x adversaries."""
        mask = np.array(self.trusted, dtype=np.bool_)
        want = (len(self.sets.properties), self.n_adversaries)
        if mask.shape != want:
            raise InvalidProblem(f"trusted has shape {mask.shape}, expected {want}")
        mask.flags.writeable = False
        object.__setattr__(self, "trusted", mask)

    def _check_aggregate(self) -> None:
        """Raise unless there is one aggregate at most, of all properties or links."""
        how, links, goal = self.aggregate, self.links, self.goal
        if any(cap.aggregate not in (None, how) for cap in self.averages):
            raise InvalidProblem("caps and the goal are on different aggregates")
        if links is not None and any(
            cap.aggregate is not None for cap in self.averages
        ):
            raise InvalidProblem("a cap is on sets, expected links.aggregate_tau")
        tradeoff = goal.objective is Objective.TRADEOFF
        capped = links is not None and links.aggregate_tau is not None
        wanted = capped or (tradeoff and how is not None)
        if wanted and goal.aggregate is None:
            raise InvalidProblem("a cap is on an aggregate, expected the goal's")
        if how is None or not how.weights:
            return
        many = len(self.sets.properties) if links is None else links.n_links
        if len(how.weights) != many:
            raise InvalidProblem(
                f"{len(how.weights)} weights of properties, expected {many}"
            )

    @property
    def aggregate(self) -> Aggregate | None:
        """The aggregate that the goal or a cap is on."""
        hows = (self.goal.aggregate, *(cap.aggregate for cap in self.averages))
        return next((how for how in hows if how is not None), None)

    @property
    def n_entries(self) -> int:
        """Number of entries, history-only ones included."""
        return self.weights.n_entries

    @property
    def n_adversaries(self) -> int:
        """Number of (merged) adversaries."""
        return self.weights.n_adversaries

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Coalitions of two and more: observer ``k + i`` is ``groups[i]``."""
        if not self.coalitions:
            return ()
        return self.coalitions.listed(self.n_adversaries)

    def held(self, pairs: Pairs) -> Pairs:
        """Return the pairs (entry, observer) held: by adversaries, then by coalitions."""
        if not self.groups:
            return pairs
        k = self.n_adversaries
        return Pairs(*pooled(self.groups, k, pairs.entry, pairs.adversary))

    def judged(self) -> Bools | None:
        """Mask of who is judged, shape (properties, observers); None if all are.

        A coalition is judged unless all its members are trusted.
        """
        if self.trusted is None:
            return None
        free = ~self.trusted
        pools = [free[:, list(group)].any(axis=1) for group in self.groups]
        return np.column_stack([free, *pools])

    def room(self) -> Ints:
        """Capacity of each adversary, shape (k,), never more than could be used."""
        most = int(self.hi.astype(bool).sum())
        if self.capacity is None:
            return np.full(self.n_adversaries, most, np.int64)
        return np.minimum(self.capacity, most)

    def select(self, entries: Ints, sets: Ints) -> Problem:
        """Return the problem over these entries and sets, renumbered; capacities stay."""
        number = np.full(self.n_entries, -1, np.int64)
        number[entries] = np.arange(len(entries))

        def part(pairs: Pairs) -> Pairs:
            inside = number[pairs.entry] >= 0
            return Pairs(number[pairs.entry[inside]], pairs.adversary[inside])

        return replace(
            self,
            sets=self.sets.select(entries, sets),
            lo=self.lo[entries],
            hi=self.hi[entries],
            weights=self.weights.select(entries),
            forbidden=part(self.forbidden),
            history=part(self.history),
            links=None if self.links is None else self.links.select(entries),
            prices=None if self.prices is None else self.prices[entries],
            utilities=self.utilities and self.utilities.select(entries.tolist()),
        )


class Plan(Pairs):
    """An assignment x_da: an intention, by which nothing has been shown yet."""
