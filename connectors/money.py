"""Rewards and payments in exact amounts, and the state of paid work at a market.

A *piece of work* is the unit that a market pays for: a study, a HIT. It is one offer of
ours, and the worker does as many fields in it as our page serves. The market numbers it
when a worker accepts it; ``collect`` returns that number as the id of a
:class:`Submission`, which is required to pay.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Final

from connectors.errors import expect

DIGITS: Final = 6
"""Most decimal digits in parts of a unit: no currency has more than four."""

MOST: Final = Decimal(10**9)
_SPELT: Final = re.compile(r"([A-Z]{3}):([0-9]{1,9}(?:\.[0-9]{1,6})?)")


@dataclass(frozen=True)
class Money:
    """An exact amount of one currency.

    Attributes
    ----------
    amount : Decimal
        In units of the currency (pounds, not pence); 0 to 10**9, at most six digits
        after the point.
    currency : str
        Three capital letters, as in ISO 4217.
    """

    amount: Decimal
    currency: str

    def __post_init__(self) -> None:
        amount = self.amount
        expect(isinstance(amount, Decimal), "amount", type(amount), "a Decimal")
        fits = amount.is_finite() and 0 <= amount <= MOST
        exponent = amount.as_tuple().exponent
        fits = fits and isinstance(exponent, int) and exponent >= -DIGITS
        expect(fits, "amount", amount, "0 to 10**9, at most six digits after the point")
        expect(
            re.fullmatch(r"[A-Z]{3}", self.currency) is not None,
            "currency",
            self.currency,
            "three capital letters",
        )

    @classmethod
    def read(cls, text: str) -> Money:
        """Parse an amount such as ``GBP:0.12``.

        Raises
        ------
        ValueError
            If it has another form.
        """
        found = _SPELT.fullmatch(text)
        expect(found is not None, "amount", text[:40], "such as GBP:0.12")
        assert found is not None
        return cls(Decimal(found[2]), found[1])

    def in_parts(self, parts: int) -> int | None:
        """Return the amount in parts of a unit (100: pence); None if it is not whole."""
        scaled = self.amount * parts
        return int(scaled) if scaled == scaled.to_integral_value() else None

    def __str__(self) -> str:
        return f"{self.currency}:{self.amount:f}"


class PayKind(StrEnum):
    """The kind of a payment."""

    REWARD = "reward"  # the reward that the piece of work was offered for
    BONUS = "bonus"  # what was earned beyond it: once per piece of work


@dataclass(frozen=True)
class Pay:
    """One payment for one piece of work.

    Attributes
    ----------
    key : str
        Derived from what is paid (store, message, kind): always the same for the same
        payment, and never for another. At most 64 of ``a-z0-9-``.
    kind : PayKind
    submission : str
        The market's id of the piece of work that a worker accepted, as in
        :attr:`Submission.id`.
    reference : str
        The market's id of the offer, as in ``Handle.reference``.
    account : str
        The worker's account, in the market's own spelling.
    reward : Money
        Amount for the worker, above 0; the market's fees are extra.
    """

    key: str
    kind: PayKind
    submission: str
    reference: str
    account: str
    reward: Money

    def __post_init__(self) -> None:
        spelt = re.fullmatch(r"[a-z0-9-]{1,64}", self.key) is not None
        expect(spelt, "key", self.key[:70], "1 to 64 of a-z, 0-9 and -")
        for name in ("submission", "reference", "account"):
            value = getattr(self, name)
            expect(bool(value), name, value, "some text")
        expect(self.reward.amount > 0, "reward", self.reward, "above 0")


class Progress(StrEnum):
    """The progress of a piece of work at the market."""

    OPEN = "open"  # a worker has accepted it
    SUBMITTED = "submitted"  # done, waiting for review
    GONE = "gone"  # returned, timed out or never accepted; it can no longer be
    APPROVED = "approved"  # approved and paid there, by anybody
    REJECTED = "rejected"  # rejected by a person there; we never reject


@dataclass(frozen=True)
class Submission:
    """The state of one piece of work, reported by ``collect`` like answers.

    The latest report counts, and the same may be reported any number of times.

    Attributes
    ----------
    id : str
        The market's own id, the same for one acceptance of the work by one worker. If
        the market reuses ids, the connector adds what distinguishes the acceptances.
    reference : str
        The offer's ``Handle.reference``.
    account : str
        The worker according to the market; empty exactly for an offer that nobody
        accepted, which is GONE and has its reference as its id.
    progress : Progress
    key : str
        Our key of the offer (``Offer.key``), if the market stores it: then work is
        recognised that was accepted before we learned the reference.
    """

    id: str
    reference: str
    account: str
    progress: Progress
    key: str = ""

    def __post_init__(self) -> None:
        for name in ("id", "reference"):
            value = getattr(self, name)
            expect(bool(value), name, value, "some text")
        untaken = self.progress is Progress.GONE and self.id == self.reference
        expect(bool(self.account) or untaken, "account", self.account, "some text")
