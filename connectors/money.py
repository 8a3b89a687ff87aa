"""What work pays, in exact amounts, and what a market tells of work that is paid.

One *piece of work* is what a market pays for at once: a study, a HIT. It is one offer of
ours, and the worker does as many fields in it as our page serves. The market numbers it
when a worker takes it; that number (the submission) comes to us by ``collect``, as a
:class:`Submission`, and is needed to pay.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Final

from connectors.errors import expect

DIGITS: Final = 6
"""Most digits after the point: no currency has more than four."""

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
        """Read an amount as it is written: ``GBP:0.12``.

        Raises
        ------
        ValueError
            It is not written so.
        """
        found = _SPELT.fullmatch(text)
        expect(found is not None, "amount", text[:40], "such as GBP:0.12")
        assert found is not None
        return cls(Decimal(found[2]), found[1])

    def in_parts(self, parts: int) -> int | None:
        """Amount in so many parts of a unit (100: pence); None if it is no whole one."""
        scaled = self.amount * parts
        return int(scaled) if scaled == scaled.to_integral_value() else None

    def __str__(self) -> str:
        return f"{self.currency}:{self.amount:f}"


class PayKind(StrEnum):
    """What is paid."""

    REWARD = "reward"  # what the piece of work was offered for
    BONUS = "bonus"  # what was earned in it besides: once a piece of work


@dataclass(frozen=True)
class Pay:
    """One payment for one piece of work.

    Attributes
    ----------
    key : str
        Made from what is paid (store, message, kind): the same payment has the same key
        for ever, another one never. At most 64 of ``a-z0-9-``.
    kind : PayKind
    submission : str
        The market's own id of the piece of work in the worker's hands, as in
        :attr:`Submission.id`.
    reference : str
        The market's own id of the offer, as in ``Handle.reference``.
    account : str
        The worker's, in the market's own spelling.
    reward : Money
        What the worker gets; fees of the market come on top. Above 0.
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
    """How far a piece of work is at the market."""

    OPEN = "open"  # a worker has taken it
    SUBMITTED = "submitted"  # done, and waits to be judged
    GONE = "gone"  # handed back, timed out, ended untaken; it can be taken no more
    APPROVED = "approved"  # judged and paid there, by whomever
    REJECTED = "rejected"  # judged by a person there; we never reject


@dataclass(frozen=True)
class Submission:
    """How one piece of work stands; ``collect`` tells it as it tells answers.

    What is told later counts, and the same may be told any number of times.

    Attributes
    ----------
    id : str
        The market's own; the same for one worker's one taking of the work. Where the
        market uses an id again, the connector adds what sets the takings apart.
    reference : str
        Of the offer: ``Handle.reference``.
    account : str
        Who has it, as the market says; empty exactly for an offer that ended untaken,
        which is GONE and has its reference for an id.
    progress : Progress
    key : str
        Ours of the offer (``Offer.key``), where the market holds it: work is then known
        that was taken before we learned of the reference.
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
