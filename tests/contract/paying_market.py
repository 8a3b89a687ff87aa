"""A market in memory that pays its workers, and loses its words when it is told to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from connectors.base import (
    Collected,
    Content,
    Handle,
    Misconfigured,
    Offer,
    Pay,
    PayKind,
    Preview,
    Progress,
    Rejected,
    Submission,
)
from connectors.testing.hostile import MEMORY, Memory

MANIFEST = replace(
    MEMORY, name="paying", content=Content.OURS, preview=Preview.CONTENTLESS, pays=True
)


@dataclass
class Outside:
    """What the market holds, whoever speaks to it."""

    offers: dict[str, Offer] = field(default_factory=dict)
    pieces: dict[str, Submission] = field(default_factory=dict)
    paid: dict[str, tuple[str, Pay]] = field(default_factory=dict)
    before: list[Exception] = field(default_factory=list)
    after: list[Exception] = field(default_factory=list)
    calls: int = 0
    can_tell: bool = True

    def take(self, reference: str, account: str, progress: Progress) -> str:
        """Play a worker who has taken the work of an offer."""
        number = f"s-{reference}"
        self.pieces[number] = Submission(number, reference, account, progress)
        return number


class PayingMarket(Memory):
    """Speaks to an :class:`Outside`."""

    def __init__(self, outside: Outside) -> None:
        super().__init__()
        self.outside = outside
        self.offers = outside.offers

    @property
    def manifest(self):
        return MANIFEST

    def publish(self, offer: Offer) -> Handle:
        MANIFEST.check(offer)
        assert offer.reward is not None
        if offer.reward.currency != "GBP":
            raise Misconfigured("this account is kept in GBP")
        self.offers.setdefault(offer.key, offer)
        return Handle(offer.key, f"memory:{offer.key}")

    def collect(self, cursor: str) -> Collected:
        del cursor
        return Collected("", submissions=tuple(self.outside.pieces.values()))

    def approve(self, pay: Pay) -> None:
        piece = self._acting(pay)
        if piece.progress not in (Progress.SUBMITTED, Progress.APPROVED):
            raise Rejected("the work was not handed in")
        approved = replace(piece, progress=Progress.APPROVED)
        self.outside.pieces[pay.submission] = approved
        self._book(f"reward of {pay.submission}", pay)

    def bonus(self, pay: Pay) -> None:
        self._acting(pay)
        # no idempotency: a second call pays once more
        self._book(f"bonus {len(self.outside.paid)}", pay)

    def paid(self, pay: Pay) -> bool | None:
        if not self.outside.can_tell:
            return None
        return any(
            (known.kind, known.submission, known.key)
            == (pay.kind, pay.submission, pay.key)
            for _, known in self.outside.paid.values()
        )

    def _acting(self, pay: Pay) -> Submission:
        self.outside.calls += 1
        if self.outside.before:
            raise self.outside.before.pop(0)
        if pay.reward.currency != "GBP":
            raise Misconfigured("this account is kept in GBP")
        piece = self.outside.pieces.get(pay.submission)
        if piece is None or piece.account != pay.account:
            raise Rejected("there is no such piece of work")
        return piece

    def _book(self, name: str, pay: Pay) -> None:
        self.outside.paid.setdefault(name, (pay.account, pay))
        if self.outside.after:
            raise self.outside.after.pop(0)

    def paid_to(self, account: str, kind: PayKind | None = None):
        return [
            pay.reward.amount
            for who, pay in self.outside.paid.values()
            if who == account and kind in (None, pay.kind)
        ]


@contextmanager
def losing(outside: Outside) -> Iterator[None]:
    """Let the market act, and its answer be lost."""
    outside.after.append(TimeoutError("lost"))
    yield
    outside.after.clear()
