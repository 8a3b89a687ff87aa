"""The interface of solvers: limits, verdicts and solutions.

A solver is a callable ``(problem, rng, limits) -> Solution`` whose
``supports(problem)`` says when it applies. It never just fails: every Solution has a
verdict, and an INFEASIBLE one names what clashes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import Protocol

import numpy as np

from policies.judging.judge import Judgement, judge
from policies.model.objective import Objective
from policies.model.problem import Plan, Problem
from policies.model.sets import Ints


class Verdict(StrEnum):
    """What is known about a problem."""

    CERTIFIED = "CERTIFIED"  # a plan is proven to exist, but none was found
    SOLVED = "SOLVED"  # a judged plan, and a proven bound
    INFEASIBLE = "INFEASIBLE"  # no plan exists; the cores say why
    UNKNOWN = "UNKNOWN"  # neither; ``tried`` says what was tried


def never() -> bool:
    """Never stop."""
    return False


def timeless() -> float:
    """Return a constant, as a clock on which no time passes."""
    return 0.0


def _share(amount: float, share: float) -> float:
    """Return a share of an amount; 0 of infinity is 0."""
    return amount * share if share else 0.0


@dataclass(frozen=True)
class Limits:
    """Limits on a solver's work, time and methods.

    Attributes
    ----------
    work : float
        Deterministic work for exact search, roughly in seconds of a slow core, > 0. The
        same work and seed give the same plan on every machine.
    seconds : float
        Time after which the search ends, by ``clock``; > 0, inf for none.
    clock : callable
        Seconds, monotonic; the machine's own where none is given.
    wall_factor : float
        Wall seconds that pass, at most, for each second of ``clock``; more than 1 if it
        counts CPU seconds. Engines also end by their own clocks, which they check more
        often than they call back.
    stopped : callable
        True once the caller wants the search to end.
    threads : int
        Threads for exact search, >= 1; more than one is not deterministic.
    spread : float
        No adversary is planned more than ``spread`` times its fair share while others
        have room; >= 1, inf for utility alone.
    exact_size : int
        Entries x adversaries up to which ``auto`` searches for the best plan; above it,
        plans are constructed in time that grows with the problem's size.
    paper : bool
        Whether heuristics work as the paper prints them, mistakes included, instead of
        never leaking (``solve --mode paper``).
    trace : callable or None
        ``auto`` calls it after each row of its table, also for parts of a problem: with
        the row's name, the seconds it took, and its outcome (``passed``, ``plan``,
        ``bound``, ``proof`` or ``no plan``).
    """

    work: float = 10.0
    seconds: float = float("inf")
    clock: Callable[[], float] = time.monotonic
    wall_factor: float = 1.0
    stopped: Callable[[], bool] = never
    threads: int = 1
    spread: float = float("inf")
    exact_size: int = 4_000_000
    paper: bool = False
    trace: Callable[[str, float, str], object] | None = None

    def __post_init__(self) -> None:
        for name, low in (("work", 0.0), ("seconds", 0.0)):
            value = getattr(self, name)
            if not value > low:
                raise ValueError(f"limits.{name} is {value}, expected > {low}")
        if not self.spread >= 1:
            raise ValueError(f"limits.spread is {self.spread}, expected >= 1")
        if self.threads < 1:
            raise ValueError(f"limits.threads is {self.threads}, expected >= 1")

    def deadline(self) -> Callable[[], bool]:
        """Start the clock; the result is True once time is over or a stop was asked."""
        end = self.clock() + self.seconds
        return lambda: self.stopped() or self.clock() > end

    def left(self, began: float, share: float = 1.0, least: float = 0.01) -> Limits:
        """Return the same limits with a share of the time that is left since then.

        At least ``least`` seconds are left, so that there is something to report.
        """
        seconds = _share(self.seconds - (self.clock() - began), share)
        return replace(self, seconds=max(seconds, least))

    def part(self, share: float) -> Limits:
        """Return the same limits with a share of the work."""
        return replace(self, work=max(_share(self.work, share), 0.01))


class Cause(StrEnum):
    """Why no plan exists."""

    ALONE = "alone"  # one entry by itself crosses the limit of a set
    COPIES = "copies"  # an entry needs more answers than adversaries may see it
    SET = "set"  # a set's answers, of which each worker may give only so many
    CLASSES = "classes"  # classes of entries that no worker may complete
    CAPACITY = "capacity"  # all answers needed exceed the capacities
    SEARCH = "search"  # all assignments were searched
    HISTORY = "history"  # past exposures alone are past a limit
    LIMIT = "limit"  # no plan can have f below the limit
    COALITION = "coalition"  # adversaries who pool hold a whole set in any assignment
    MEAN = "mean"  # a mean over sets cannot stay below its limit


@dataclass(frozen=True)
class Clash:
    """A proof by counting: these answers need so many adversaries.

    Attributes
    ----------
    cause : Cause
    sets : tuple of int
        The sets that clash.
    properties : tuple of int
        Their properties.
    entries : tuple of int
        The entries whose answers are counted.
    answers : int
        Answers that must go to different adversaries or be spread over them.
    per_adversary : int
        Answers that one adversary may be given, or 0.
    needed : int or None
        Least number of adversaries; None: no number suffices.
    """

    cause: Cause
    sets: tuple[int, ...] = ()
    properties: tuple[int, ...] = ()
    entries: tuple[int, ...] = ()
    answers: int = 0
    per_adversary: int = 0
    needed: int | None = None


@dataclass(frozen=True)
class Core:
    """What clashes in one component, and how many adversaries would suffice.

    Attributes
    ----------
    entries : tuple of int
        Entries of one such component.
    clashes : tuple of Clash
        Most demanding first; the first proves the verdict.
    needed : int or None
        Number of adversaries that would suffice; None: no number does.
    exact : bool
        Whether one fewer was proven insufficient.
    available : int
        Number of adversaries there are.
    repeats : int
        Number of components of the same shape.
    """

    entries: tuple[int, ...]
    clashes: tuple[Clash, ...]
    needed: int | None
    exact: bool
    available: int
    repeats: int = 1


class Ground(StrEnum):
    """The reason why a plan is known to exist without a search."""

    ORDER = "any-order"  # enough adversaries that no order of assigning gets stuck
    EXPECTATION = (
        "expectation"  # a uniform draw crosses fewer than one limit on average
    )
    LEMMA = "local-lemma"  # of a uniform draw, by the Lovasz local lemma


@dataclass(frozen=True)
class Proof:
    """A proof, before any search, that components have a plan.

    Attributes
    ----------
    ground : Ground
    entries : tuple of int
        Their entries, ascending.
    components : int
        Number of these components.
    """

    ground: Ground
    entries: tuple[int, ...]
    components: int = 1


@dataclass(frozen=True, eq=False)
class Solution:
    """A solver's answer.

    Attributes
    ----------
    verdict : Verdict
    plan : Plan
        SOLVED: the whole plan. INFEASIBLE and UNKNOWN: the plan of the components that
        could be planned; empty if none.
    held : int64 array
        Entries of the components without a plan, ascending.
    reason : int64 array, shape as ``held``
        Index into ``cores`` of the core that withholds the entry; -1 if it is not
        explained.
    value : Fraction
        Objective of ``plan``, as judged.
    bound : Fraction
        Proven upper bound on the objective of every plan.
    cores : tuple of Core
        INFEASIBLE: one for each shape of component that cannot be planned.
    tried : tuple of str
        The steps that were tried, in words.
    judged : Judgement or None
        The judgement of ``plan``; None where there is none.
    stopped : str
        Why the search ended: ``optimal``, ``gap``, ``work``, ``time`` or ``interrupt``;
        empty if there was no search.
    proofs : tuple of Proof
        Components certified before the search, one proof for each ground.
    """

    verdict: Verdict
    plan: Plan = field(default_factory=Plan)
    held: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    reason: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    value: Fraction = Fraction(0)
    bound: Fraction = Fraction(0)
    cores: tuple[Core, ...] = ()
    tried: tuple[str, ...] = ()
    judged: Judgement | None = None
    stopped: str = ""
    proofs: tuple[Proof, ...] = ()

    def __post_init__(self) -> None:
        if len(self.reason) != len(self.held):
            object.__setattr__(self, "reason", np.full(len(self.held), -1))

    @property
    def core(self) -> Core | None:
        """The most demanding core."""
        return max(
            self.cores,
            key=lambda c: float("inf") if c.needed is None else c.needed,
            default=None,
        )


class Solver(Protocol):
    """The interface of a solver."""

    def supports(self, problem: Problem) -> bool:
        """Whether the solver accepts this problem."""
        ...

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Solve."""
        ...


def answer(
    problem: Problem,
    plan: Plan,
    *,
    bound: Fraction | None = None,
    tried: tuple[str, ...] = (),
    stopped: str = "",
) -> Solution:
    """Judge a solver's plan and return its answer: SOLVED, or UNKNOWN if refused.

    Parameters
    ----------
    problem : Problem
    plan : Plan
    bound : Fraction, optional
        A proven bound; None: the best utility without limits or disclosure.
    tried : tuple of str
        What was done.
    stopped : str
        See :class:`Solution`.
    """
    ceiling = free_bound(problem)
    ceiling = ceiling if bound is None else min(bound, ceiling)
    judged = judge(problem, plan)
    if not judged.feasible:
        steps = (*tried, f"the plan was refused: {judged.violations[0]}")
        return Solution(Verdict.UNKNOWN, bound=ceiling, tried=steps, stopped=stopped)
    value = judged.objective
    return Solution(
        Verdict.SOLVED,
        plan,
        value=value,
        bound=max(ceiling, value),
        tried=tried,
        judged=judged,
        stopped=stopped,
    )


def best_of(found: Sequence[Solution]) -> Solution | None:
    """Return the solution with the best plan, if any."""
    plans = [one for one in found if one.verdict is Verdict.SOLVED]
    return max(plans, key=lambda one: one.value, default=None)


def free_bound(problem: Problem) -> Fraction:
    """Bound the objective without a search: best copies of every entry, no disclosure."""
    u = problem.weights.best(problem.hi) * problem.weights.unit
    if problem.utilities is not None:  # each adversary gets everything
        whole = frozenset(np.flatnonzero(problem.hi).tolist())
        u = problem.utilities.total([whole] * problem.n_adversaries)
    goal = problem.goal
    return u + goal.lambda_ * goal.tau if goal.objective is Objective.TRADEOFF else u
