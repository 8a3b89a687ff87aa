"""Serving: a worker arrives, presses Start, sees one field, answers.

Reads the plan, books through the ledger's one door and writes tasks and answers. The
exposure is durable before :meth:`Serving.start` returns the bytes of the field.
"""

from dispatcher.stages.serving.asking import asked, compose, spread
from dispatcher.stages.serving.floor import stop_by_agreement
from dispatcher.stages.serving.own_work import DAYS, OwnWork, leave, own_work
from dispatcher.stages.serving.values import (
    Given,
    Present,
    Saved,
    Showing,
    Terms,
    Wrong,
)
from dispatcher.stages.serving.working import Serving, expire

__all__ = [
    "DAYS",
    "Given",
    "OwnWork",
    "Present",
    "Saved",
    "Serving",
    "Showing",
    "Terms",
    "Wrong",
    "asked",
    "compose",
    "expire",
    "leave",
    "own_work",
    "spread",
    "stop_by_agreement",
]
