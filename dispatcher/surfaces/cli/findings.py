"""What ``doctor`` finds: where, how bad, why, and how it is mended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Word(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARN = "WARN"
    FAIL = "FAIL"


class Part(StrEnum):
    """What can be looked at alone."""

    STORE = "store"
    LEDGER = "ledger"
    QUEUE = "queue"
    CONNECTORS = "connectors"
    CLOCK = "clock"
    PERMISSIONS = "permissions"


@dataclass(frozen=True)
class Repair:
    """Something that can be set right without a choice, and without a loss.

    Attributes
    ----------
    what : str
        What is done, for the operator.
    do : callable
    """

    what: str
    do: Callable[[], object]


@dataclass(frozen=True)
class Finding:
    """One look: no value and no name is in it, but for ``private``.

    Attributes
    ----------
    part : Part
    word : Word
    text : str
        Fit to be sent to somebody else.
    why, fix : str
    private : str
        What only the operator sees beside it: a path, a connector.
    repair : Repair, optional
        What ``--fix`` does about it.
    """

    part: Part
    word: Word
    text: str
    why: str = ""
    fix: str = ""
    private: str = ""
    repair: Repair | None = None

    @property
    def document(self) -> dict[str, Any]:
        """What ``--json`` tells."""
        told = {k: v for k, v in asdict(self).items() if k != "repair"}
        return told | {"repairs": self.repair.what if self.repair else None}


Findings = Iterator[Finding]
