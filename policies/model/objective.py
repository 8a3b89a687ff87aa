"""The objective of a plan and what else is preferred, in a module of its own so that policies load without numpy."""

from __future__ import annotations

from enum import StrEnum


class Objective(StrEnum):
    """What a plan maximises below the limits (paper, section 3)."""

    DISC_BUDGET = "disc-budget"
    TRADEOFF = "tradeoff"


class Preference(StrEnum):
    """Which of the plans that place the most entries is preferred.

    ``UTILITY``: that of most utility. ``FEWEST_WORKERS``: one that uses the fewest
    adversaries. ``FAIREST_LOAD``: one whose fullest adversary is given the least.
    ``MOST_AGREEMENT``: that of most right answers to be expected for the money.
    """

    UTILITY = "utility"
    FEWEST_WORKERS = "fewest-workers"
    FAIREST_LOAD = "fairest-load"
    MOST_AGREEMENT = "most-agreement"
