"""Refusals of the gate: which limit, how close, whose. Never a field value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final

from dispatcher.core import keys
from dispatcher.core.errors import NotFound, PastLimit, Refused
from dispatcher.ledger.lines import adversary_name
from dispatcher.store.ledger import GateAccount, GateEntry

Number = Fraction | int


class Cause(StrEnum):
    """Why an ask is refused, in the order of the gate's checks."""

    FIELDS_SEND = "fields.send"
    ACCOUNT = "account"
    PILOT = "pilot"
    PAUSE = "pause"
    RECUSAL = "recusal"
    DISCLOSURE = "disclosure"
    BUDGET_T = "budget.t"
    MEAN = "mean"
    BUDGET_AVERAGE = "budget.average"


PASSING: Final = frozenset({Cause.PAUSE, Cause.ACCOUNT, Cause.PILOT})
"""Temporary refusals: the pair stays in the plan."""

OF_LIMITS: Final = frozenset({Cause.DISCLOSURE, Cause.MEAN, Cause.BUDGET_AVERAGE})
"""Refusals of what would have crossed a limit."""

SENTENCES: Final = {
    Cause.FIELDS_SEND: "The policy in force never sends this field (or lacks it).",
    Cause.ACCOUNT: "The account is blocked.",
    Cause.PILOT: "The record waits for the pilot of its run to be accepted.",
    Cause.PAUSE: "Work is paused here, or the record was lost with its store.",
    Cause.RECUSAL: "The worker asked not to be shown anything of this person.",
    Cause.DISCLOSURE: "Rule {rule} would reach f = {value}; the limit is f < {limit}.",
    Cause.BUDGET_T: "It would be shown to {value} adversaries in its lifetime; "
    "the limit is {limit}.",
    Cause.MEAN: "Rule {rule}: the mean would be {value}, the limit is mean <= {limit}.",
    Cause.BUDGET_AVERAGE: "The mean over all rules would be {value}; "
    "the limit is mean <= {limit}.",
}
"""Messages by cause; ``{value}`` is the limited quantity with the ask granted."""

_ANOTHER: Final = (
    "Give the task to another worker (dispatcher explain FIELD --who); "
    "waiting does not help, what was shown stays shown."
)

FIXES: Final = {
    Cause.FIELDS_SEND: "Nobody is shown it. Apply a policy that sends the field, "
    "without send = false.",
    Cause.ACCOUNT: "Give the task to another worker (dispatcher explain FIELD --who), "
    "or let this one work again: dispatcher workers unblock",
    Cause.PILOT: "See how the pilot went, then: dispatcher runs accept",
    Cause.PAUSE: "End the pause: dispatcher resume",
    Cause.RECUSAL: "Give the task to another worker (dispatcher explain FIELD --who).",
    Cause.DISCLOSURE: _ANOTHER,
    Cause.BUDGET_T: "Nobody new may see it. Grant further showings: dispatcher fields "
    "unburn FIELD --extra-showings N --reason TEXT",
    Cause.MEAN: _ANOTHER,
    Cause.BUDGET_AVERAGE: _ANOTHER,
}
"""Remedies by cause."""


@dataclass(frozen=True)
class Refusal:
    """One ask that the gate refuses; :func:`refuse` makes it.

    Attributes
    ----------
    cause : Cause
    entry_id, account_id : int
    entry, account, adversary : str
        The entry's ledger name, the account's text, the name of its chain.
    rule : str
        The property whose limit it is; otherwise the cause.
    value, limit : Fraction or int
        The limited quantity with the ask granted, and the limit: f and tau, an average
        and its cap, a number of showings and t.
    """

    cause: Cause
    entry_id: int
    account_id: int
    entry: str
    account: str
    adversary: str
    rule: str
    value: Number = 1
    limit: Number = 1

    @property
    def why(self) -> str:
        """The reason in one sentence."""
        value, limit = in_digits(self.value), in_digits(self.limit)
        return SENTENCES[self.cause].format(rule=self.rule, value=value, limit=limit)

    def error(self) -> Refused:
        """Return the refusal as the error that a booking raises."""
        return Refused(
            f"{self.account} may not see {self.entry}",
            why=self.why,
            fix=FIXES[self.cause],
            facts={
                "property": self.rule,
                "adversary": self.adversary,
                "value": str(self.value),
                "limit": str(self.limit),
                "entry": self.entry,
                "account": self.account,
            },
        )


def refuse(
    entry: GateEntry,
    account: GateAccount,
    cause: Cause,
    *,
    rule: str = "",
    value: Number = 1,
    limit: Number = 1,
) -> Refusal:
    """Refuse one ask: the only way to make a refusal.

    Parameters
    ----------
    entry : GateEntry
    account : GateAccount
    cause : Cause
    rule : str
        The property, where the limit is that of one.
    value, limit : Fraction or int
        See :class:`Refusal`.
    """
    return Refusal(
        cause=cause,
        entry_id=entry.id,
        account_id=account.id,
        entry=keys.entry_name(entry.record, entry.field_id),
        account=account.text,
        adversary=adversary_name(account.adversary_id),
        rule=rule or str(cause),
        value=value,
        limit=limit,
    )


def in_digits(number: Number) -> str:
    """Format a number for people: exact if it is a short decimal, else as a ratio."""
    shown = f"{float(number):.6g}"
    return shown if Fraction(shown) == number else f"{number} ({shown})"


def unknown(what: str, number: int) -> NotFound:
    """Return the error for an id that the store does not have."""
    return NotFound(
        f"there is no {what} {number} in the store",
        why="It was never added, or it was erased.",
        fix="Look the id up again; nothing was booked.",
    )


def past_limit(what: str, found: Sequence[tuple[str, str]]) -> PastLimit:
    """Return the error for a change under which booked exposures are past a limit.

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
        why=f"Past their limit, by rule: {counts}; "
        f"adversaries concerned: {len(adversaries)}. What was seen cannot be undone.",
        fix="Loosen the limits named, trust the group concerned with the rule, or "
        f"accept what cannot be undone: --accept-past {len(found)}; nothing was "
        "changed.",
        facts={
            "property": ", ".join(properties),
            "adversaries": len(adversaries),
            "units": len(found),
        },
    )
