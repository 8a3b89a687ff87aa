"""Problems so small that exact solvers are asked alone, or that all plans can be looked at.

A quick proof of an engine comes first. What it leaves open is listed where plans are
few, and else planned by greedy with a local search, which costs milliseconds: however
the clock ran out, the answer is no worse than theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

import numpy as np

from policies.model.problem import Problem
from policies.solvers.exact.enumeration import listable, listed
from policies.solvers.exact.highs_then_cpsat import either
from policies.solvers.exact.step_averages import stepped
from policies.solvers.features import modelled
from policies.solvers.interfaces import Limits, Solution
from policies.solvers.parallel_portfolio import few, sure
from policies.solvers.search.greedy import Greedy

_ENGINE: Final = 0.85  # of the time, for exact solvers; the rest is for what is cheap
_QUICK: Final = 0.3  # the same, where all plans can be looked at after them
_LEAST: Final = 0.05  # seconds that greedy gets in any case


def tiny(
    problem: Problem, rng: np.random.Generator, limits: Limits, seed: int
) -> list[Solution]:
    """Ask exact solvers; where they doubt, look at all plans, or improve a greedy one."""
    began, listing = limits.clock(), listable(problem)
    share = _QUICK if listing else _ENGINE
    found = either(problem, rng, limits.left(began, share), seed)
    if listing and not any(map(sure, found)):
        found.append(listed(problem, limits.left(began)))
    first = Greedy(myopic=True)
    if not any(map(sure, found)) and first.supports(problem):
        left = replace(limits.left(began, least=_LEAST), work=few(limits.work))
        found.append(first(problem, rng, replace(left, prove=True)))
    return found


def completed(
    problem: Problem, found: Iterable[Solution], left: Callable[[], Limits]
) -> list[Solution]:
    """Look at all plans too, where nothing found is sure and HiGHS models no such kind."""
    answers = list(found)
    kind = stepped(problem) or not modelled(problem)
    if kind and not any(map(sure, answers)) and listable(problem):
        answers.append(listed(problem, left()))
    return answers
