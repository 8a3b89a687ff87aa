"""What the gate says when it refuses: which limit, how near, whose. Never a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from dispatcher.core.errors import NotFound, PastLimit, Refused

BUDGET_T: Final = "budget.t"
BUDGET_AVERAGE: Final = "budget.average"
FIELDS_SEND: Final = "fields.send"
ACCOUNT: Final = "account"
PAUSE: Final = "pause"
RECUSAL: Final = "recusal"
PILOT: Final = "pilot"

PASSING: Final = frozenset({PAUSE, ACCOUNT, PILOT})
"""Refusals that pass: the pair stays in the plan."""

_WORDS: Final = {
    ACCOUNT: "The account is blocked.",
    PAUSE: "Work is paused here, or the run is cancelled.",
    PILOT: "The record waits for the pilot of its run to be accepted.",
    RECUSAL: "The worker asked not to be shown anything of this person.",
    FIELDS_SEND: "The policy in force never sends this field (or lacks it).",
}

Number = Fraction | int


@dataclass(frozen=True)
class Refusal:
    """One ask that the gate refuses.

    Attributes
    ----------
    entry_id, account_id : int
    entry, account, adversary : str
        The entry's ledger name, the account's text, the name of its chain.
    rule : str
        The property, or one of the words above.
    value, limit : Fraction or int
        What the ask would make of it, and the limit: f and tau, a mean and its cap, a
        number of showings and t.
    average : bool
        Whether the limit is on a mean over sets.
    """

    entry_id: int
    account_id: int
    entry: str
    account: str
    adversary: str
    rule: str
    value: Number = 1
    limit: Number = 1
    average: bool = False

    @property
    def why(self) -> str:
        """The reason in one sentence."""
        if self.rule in _WORDS:
            return _WORDS[self.rule]
        if self.rule == BUDGET_T:
            return (
                f"It would be shown to {self.value} adversaries in its lifetime; "
                f"the limit is {self.limit}."
            )
        if self.average:
            return (
                f"Property {self.rule}: the mean would be {in_digits(self.value)}, "
                f"the limit is mean <= {in_digits(self.limit)}."
            )
        return (
            f"Property {self.rule} would reach f = {in_digits(self.value)}; "
            f"the limit is f < {in_digits(self.limit)}."
        )

    def error(self) -> Refused:
        """Return the refusal as the error that a booking raises."""
        return Refused(
            f"{self.account} may not see {self.entry}",
            why=self.why,
            fix="Give the task to another worker (dispatcher explain FIELD --who); "
            "waiting does not help, what was shown stays shown.",
            facts={
                "property": self.rule,
                "adversary": self.adversary,
                "value": str(self.value),
                "limit": str(self.limit),
                "entry": self.entry,
                "account": self.account,
            },
        )


def in_digits(number: Number) -> str:
    """Write a number for people: exact if it is short in decimals, else as a ratio."""
    shown = f"{float(number):.6g}"
    return shown if Fraction(shown) == number else f"{number} ({shown})"


def unknown(what: str, number: int) -> NotFound:
    """Error for an id that the store does not have."""
    return NotFound(
        f"there is no {what} {number} in the store",
        why="It was never added, or it was erased.",
        fix="Look the id up again; nothing was booked.",
    )


def past_limit(what: str, found: Sequence[tuple[str, str]]) -> PastLimit:
    """Error for a change under which exposures already booked are past a limit.

    Parameters
    ----------
    what : str
        The change, as the subject of a sentence: ``version 2 of the policy``.
    found : Sequence of (str, str)
        Adversary (chain) and property, one for each unit past its limit.
    """
    properties = sorted({rule for _, rule in found})
    adversaries = sorted({chain for chain, _ in found})
    counts = ", ".join(
        f"{rule} ({sum(1 for _, name in found if name == rule)})" for rule in properties
    )
    return PastLimit(
        f"{what} is refused: what was already shown is past its limits",
        why=f"Past their limit, by property: {counts}; "
        f"adversaries concerned: {len(adversaries)}. What was seen cannot be undone.",
        fix="Loosen the limits named, trust the group concerned with the property, or "
        f"accept what cannot be undone: --accept-past {len(found)}; nothing was "
        "changed.",
        facts={
            "property": ", ".join(properties),
            "adversaries": len(adversaries),
            "units": len(found),
        },
    )
