"""LOCAL-SEARCH: algorithm 4 of the paper, corrected: until nothing improves.

Neighbours of a plan: one entry given to one more adversary, taken from one, or moved.
Entries come in random order, pass after pass; ties keep the plan unchanged, so no copy
is lost for nothing. LOCAL-SEARCH as an algorithm of its own then exchanges two entries
of two adversaries, which no single move can do where both are full or at a limit. If
copies are missing, ejection chains move others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

import numpy as np

from policies.model.problem import Plan, Problem
from policies.model.sets import Ints
from policies.solvers.interfaces import (
    Limits,
    Solution,
    Verdict,
    answer,
)
from policies.solvers.kernels.plan_state import DEGREE
from policies.solvers.search.delta_evaluation import Gains
from policies.solvers.search.ejection_chains import Ranking, eject, looked_at
from policies.solvers.search.plan_state import PlanState

_LOOKS = 2_000_000  # member rows visited per unit of work
_PACE = 60_000  # member rows between two checks of the clock
_REPAIRS: Final = 3
"""Restarts of ejections, as ties can run in circles.

Of 36 sparse problems of 60 to 200 entries (seeds 0 to 3 of nine shapes of
``benchmarks.families.sparse``) GREEDYL finds plans of 2 without repairs, 31 with one, 32
with three and 33 with six; GREEDY of 0, 32, 32 and 32. A failed one takes .2 s of CPU.
"""

_EACH: Final = 6  # one repair may use 1 / _EACH of the visits
_LARGEST = 2**27  # numbers of the plan state above which a problem is refused


def fits(problem: Problem) -> bool:
    """Whether u is a sum over pairs, and its plan state fits into memory."""
    if problem.utilities is not None:
        return False
    observers = problem.n_adversaries + len(problem.groups)
    links = problem.links
    units = problem.sets.n_sets + (links.n_links if links is not None else 0)
    classes = len(problem.sets.entry) if problem.sets.classes.any() else 0
    return (problem.n_entries + units + classes) * observers <= _LARGEST


@dataclass
class Meter:
    """Deterministic work and the clock.

    Attributes
    ----------
    limits : Limits
    left : float
        Member rows that may still be visited.
    ended : str
        Why work was cut short: time, interrupt or work; empty if it was not.
    """

    limits: Limits
    left: float = field(init=False)
    ended: str = ""

    def __post_init__(self) -> None:
        self.left = self.limits.work * _LOOKS
        self.over: Callable[[], bool] = self.limits.deadline()

    def spend(self, looks: float) -> bool:
        """Count work; return whether more may be done."""
        self.left -= looks
        if not self.ended and self.over():
            self.ended = "interrupt" if self.limits.stopped() else "time"
        if not self.ended and self.left <= 0:
            self.ended = "work"
        return not self.ended

    def ending(self, value: Fraction, bound: Fraction) -> str:
        """Return why the search stopped, for ``Solution.stopped``."""
        return "optimal" if value >= bound else self.ended or "gap"


def blocks(order: Ints, looks: float) -> Iterator[Ints]:
    """Cut an order of entries into pieces of bounded work; each entry takes ``looks``."""
    size = max(1, int(_PACE / max(1.0, looks)))
    for i in range(0, len(order), size):
        yield order[i : i + size]


def climb(
    gains: Gains, rng: np.random.Generator, meter: Meter, *, passes: int | None = None
) -> None:
    """Improve the plan to a local optimum, or for so many passes."""
    degree = gains.state.entry[:, DEGREE]
    looks = gains.rows * gains.k * (1.0 + float(degree.sum()) / max(1, gains.n))
    done = 0
    while passes is None or done < passes:
        moves = 0
        for part in blocks(rng.permutation(gains.n), looks):
            moves += int(gains.run("local", part))
            if not meter.spend(looks * len(part)):
                return
        done += 1
        if not moves:
            return


def swaps(gains: Gains, rng: np.random.Generator, meter: Meter) -> bool:
    """Exchange entries of two adversaries; return whether anything was exchanged.

    Partners are entries of a common set, and all entries of adversaries who are full.
    """
    share = float(gains.state.entry[:, DEGREE].sum()) / max(1, gains.n)
    full = gains.problem.capacity is not None
    looks = 4.0 * share * (gains.n * gains.rows if full else gains.around)
    moves = 0
    for part in blocks(rng.permutation(gains.n), looks):
        moves += int(gains.run("swap", part))
        if not meter.spend(looks * len(part)):
            break
    return moves > 0


def repair(
    problem: Problem,
    plan: Plan,
    rng: np.random.Generator,
    limits: Limits,
    over: Callable[[], bool] | None = None,
) -> Plan:
    """Add missing copies by moving others; return the plan unchanged if that fails.

    ``over`` ends repairs after the first, where the limits do not.
    """
    if problem.coalitions or problem.links is not None:
        return plan
    degree = np.bincount(plan.entry, minlength=problem.n_entries)
    short = np.flatnonzero(degree < problem.lo).tolist()
    visits, ends = looked_at(limits, short) // _EACH, limits.deadline()
    over = over or ends
    for _ in range(_REPAIRS):
        state = PlanState(problem)
        for d, a in zip(plan.entry.tolist(), plan.adversary.tolist(), strict=True):
            state.give(d, a)
        left = eject(state, Ranking(state, rng), short, visits, ends)
        if not left:
            return state.plan()
        if over():
            break
        ends = over
    return plan


def finish(
    gains: Gains,
    plan: Plan,
    rng: np.random.Generator,
    meter: Meter,
    tried: tuple[str, ...],
    over: Callable[[], bool] | None = None,
) -> Solution:
    """Repair a plan that is short of copies, climb once more, and judge it.

    ``over`` ends repairs after the first, where the meter's limits do not.
    """
    problem = gains.problem
    degree = np.bincount(plan.entry, minlength=problem.n_entries)
    if not gains.paper and (degree < problem.lo).any():
        mended = repair(problem, plan, rng, meter.limits, over)
        meter.spend(0.0)  # it checks the clock itself, without reporting it
        if mended is not plan:
            gains.load(mended)
            climb(gains, rng, meter)
            plan = gains.plan()
            tried = (*tried, "ejection chains")
    made = answer(problem, plan, tried=tried)
    return with_end(made, meter)


def improved(
    problem: Problem, plan: Plan, rng: np.random.Generator, limits: Limits
) -> Solution:
    """Climb from a plan to a local optimum."""
    gains, meter = Gains(problem), Meter(limits)
    gains.load(plan)
    climb(gains, rng, meter)
    return finish(gains, gains.plan(), rng, meter, ("local search",))


def with_end(made: Solution, meter: Meter) -> Solution:
    """Add the reason why the search ended."""
    return replace(made, stopped=meter.ending(made.value, made.bound))


class LocalSearch:
    """Algorithm 4 by itself, starting from every entry's best adversaries.

    Mode paper: one pass, as printed.
    """

    def supports(self, problem: Problem) -> bool:
        """All problems that fit."""
        return fits(problem)

    def __call__(
        self, problem: Problem, rng: np.random.Generator, limits: Limits
    ) -> Solution:
        """Start from the highest weights that no limit bars, and climb."""
        gains, meter = Gains(problem, paper=limits.paper), Meter(limits)
        order = np.arange(problem.n_entries)
        ranked = np.argsort(-gains.state.worth, axis=1, kind="stable")
        start = problem.hi if limits.paper else problem.lo
        gains.deal(order, ranked, start)
        climb(gains, rng, meter, passes=1 if limits.paper else None)
        made = finish(gains, gains.plan(), rng, meter, ("local search",))
        if limits.paper or made.verdict is not Verdict.SOLVED:
            return made
        gains.load(made.plan)
        while not meter.ended and swaps(gains, rng, meter):
            climb(gains, rng, meter)
        better = answer(problem, gains.plan(), tried=(*made.tried, "exchanges"))
        return with_end(better if better.verdict is made.verdict else made, meter)
