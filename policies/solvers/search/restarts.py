"""Annealing in runs: the clock around them, and the best plan of all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from math import inf

import numpy as np

from policies.model.sets import Bools
from policies.solvers.interfaces import Limits, never
from policies.solvers.search.exchange import closed, ending


class Runs(ABC):
    """Runs, and the best plan of all of them.

    Parameters
    ----------
    rng : numpy.random.Generator
    limits : Limits
        A run that has not enough time cools down as much faster.
    done : callable
        True once the plan is not wanted any more.

    Attributes
    ----------
    best : bool array, shape (n, k), or None
        The best plan within all limits.
    value : float
        Its objective, up to rounding; -inf without one.
    spent : int
        Steps that were made.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        limits: Limits,
        done: Callable[[], bool] = never,
    ) -> None:
        self.rng, self._done = rng, done
        self.best: Bools | None = None
        self.value, self.spent = -inf, 0
        self.within(limits)

    def within(self, limits: Limits) -> None:
        """Start the clock."""
        self._limits, self._began = limits, limits.clock()
        self._over = limits.deadline()

    def over(self) -> bool:
        """Whether there is no time for more, or no wish."""
        return self._over() or self._done()

    @property
    @abstractmethod
    def possible(self) -> bool:
        """Whether there is anything to start from."""

    @abstractmethod
    def run(self, most: int) -> None:
        """Anneal once, so many steps at most."""

    def anneal(self, steps: int, bound: float) -> str:
        """Make runs, so many steps, or until the bound; return why that ended."""
        end = self.spent + steps
        while self.possible and self.spent < end:
            if closed(self.value, bound):
                return "gap"
            if self.over():
                return ending(self._limits)
            self.run(end - self.spent)
        return "work"

    def _late(self, began: float) -> float:
        """Part of a run's time that is over, if it ends with all time there is."""
        end = self._began + self._limits.seconds
        return min((self._limits.clock() - began) / max(end - began, 1e-9), 1.0)
