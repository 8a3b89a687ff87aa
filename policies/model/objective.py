"""What a plan is for. It stands alone so that a policy is read without numpy."""

from __future__ import annotations

from enum import StrEnum


class Objective(StrEnum):
    """What a plan maximises below the limits (paper, section 3)."""

    DISC_BUDGET = "disc-budget"
    TRADEOFF = "tradeoff"
