"""The objective of a plan, in a module of its own so that policies load without numpy."""

from __future__ import annotations

from enum import StrEnum


class Objective(StrEnum):
    """What a plan maximises below the limits (paper, section 3)."""

    DISC_BUDGET = "disc-budget"
    TRADEOFF = "tradeoff"
