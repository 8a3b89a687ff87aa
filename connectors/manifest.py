"""The manifest: what a connector declares, and the check of offers against it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Final

from connectors.errors import Misconfigured, Rejected, expect
from connectors.values import ASKS, Identity, Item, Offer


class Binding(StrEnum):
    """Who can open a task at the market."""

    ASSIGNED = "assigned"  # the market restricts a task to one account
    LATE = "late"  # we choose the task when the worker arrives
    NONE = "none"  # anyone there can: the whole market is one adversary


class Content(StrEnum):
    """Where the content of a field is while a worker looks at it."""

    MARKET = "market"
    OURS = "ours"


class Preview(StrEnum):
    """What an account sees before it accepts a task."""

    NONE = "none"
    CONTENTLESS = "contentless"
    FULL = "full"


class Idempotency(StrEnum):
    """What the outside does with a key that it has seen before."""

    KEY = "key"  # publishing again returns the first handle
    SEARCH = "search"  # only ``find`` prevents a second copy
    NONE = "none"  # a second copy cannot be prevented, so never repeat


class Role(StrEnum):
    """Market (answers come back) or feed (nothing comes back)."""

    MARKET = "market"
    FEED = "feed"


@dataclass(frozen=True)
class Limits:
    """Limits of the outside; None = no known limit.

    Attributes
    ----------
    items : int
        Most items in one offer, >= 1.
    content_bytes : int
        Most bytes of content in one item, >= 0; guaranteed whatever the bytes are.
    offer_bytes : int
        Most bytes of content in all items of an offer, >= ``content_bytes``.
    per_minute : int or None
        Most calls of publish or send per minute.
    poll_seconds : int
        Least seconds between two polls for answers, >= 0.
    account_bytes : int
        Longest account in UTF-8 bytes.
    """

    items: int = 1000
    content_bytes: int = 32 << 20
    offer_bytes: int = 64 << 20
    per_minute: int | None = None
    poll_seconds: int = 0
    account_bytes: int = 1024

    def __post_init__(self) -> None:
        expect(self.items >= 1, "items", self.items, ">= 1")
        expect(self.content_bytes >= 0, "content_bytes", self.content_bytes, ">= 0")
        fits = self.offer_bytes >= self.content_bytes
        expect(fits, "offer_bytes", self.offer_bytes, ">= content_bytes")
        expect(self.poll_seconds >= 0, "poll_seconds", self.poll_seconds, ">= 0")
        expect(self.account_bytes >= 1, "account_bytes", self.account_bytes, ">= 1")
        if self.per_minute is not None:
            expect(self.per_minute >= 1, "per_minute", self.per_minute, ">= 1")


@dataclass(frozen=True)
class Manifest:
    """A connector's declaration of itself; the gate refuses what it makes unsafe.

    Attributes
    ----------
    name : str
        Lower-case name of the kind of connector.
    role, binding, identity, content, preview, idempotency
        See the enums of these names.
    limits : Limits
    finds : bool
        Whether ``find`` can look outside. If not, it returns None, and the message is
        sent again under its key, which requires idempotency by key.
    withdraws : bool
        Whether an offer can be withdrawn before it is answered. What was offered counts
        as seen in any case.
    pays : bool
        Whether the market pays the workers itself: then it is :class:`Paying`, every
        offer has a reward, and content is ours.
    currency : str
        The only currency that the market pays in; empty if it differs by account.
    asks : tuple of str
        Kinds of questions that its workers can be asked there, from :data:`ASKS`; empty
        for a feed.
    tested_against : str
        What the contract suite runs against, in a few words ("real files"; "own
        emulator: contract-true, not live").
    """

    name: str
    role: Role
    binding: Binding
    identity: Identity
    content: Content
    preview: Preview
    idempotency: Idempotency
    limits: Limits = field(default_factory=Limits)
    finds: bool = True
    withdraws: bool = True
    pays: bool = False
    currency: str = ""
    asks: tuple[str, ...] = ASKS
    tested_against: str = ""

    def __post_init__(self) -> None:
        expect(
            re.fullmatch(r"[a-z][a-z0-9_-]{0,39}", self.name) is not None,
            "name",
            self.name,
            "a lower-case letter, then up to 39 of a-z, 0-9, - and _",
        )
        leaks = self.content is Content.MARKET and self.preview is Preview.FULL
        expect(
            not (leaks and self.binding is Binding.ASSIGNED),
            "preview",
            self.preview.value,
            "none or contentless where binding is assigned: who can preview a task "
            "has seen it, so nothing is assigned",
        )
        expect(
            self.finds or self.idempotency is Idempotency.KEY,
            "finds",
            self.finds,
            "yes where idempotency is not by key",
        )
        expect(
            not self.pays
            or (self.role is Role.MARKET and self.content is Content.OURS),
            "pays",
            self.pays,
            "no where content lies outside: what is paid is an offer of work on our page",
        )
        strange = sorted(set(self.asks) - set(ASKS))
        expect(not strange, "asks", strange, f"some of {', '.join(ASKS)}")
        if self.role is Role.FEED:
            expect(
                self.content is Content.MARKET, "content", self.content, "market (feed)"
            )

    def carries(self, ask: str | None) -> bool:
        """Whether a field can go there; a feed carries those without a question (None)."""
        return ask is None if self.role is Role.FEED else ask in self.asks

    def check_adversaries(self, count: int) -> None:
        """Refuse accounts of several adversaries if all of them see everything there.

        Raises
        ------
        Misconfigured
        """
        open_to_all = self.binding is Binding.NONE and self.content is Content.MARKET
        if open_to_all and count > 1:
            raise Misconfigured(
                f"its accounts are {count} adversaries, and {self.name} serves one",
                why="whoever can read there sees all that is sent",
                fix="give each receiver a connector of its own; the accounts of this one "
                "must be one adversary: name them all in one group of the policy",
            )

    def check(self, offer: Offer) -> None:
        """Refuse an offer that this connector must not or cannot carry.

        Raises
        ------
        Rejected
            Content that must stay home, missing content, no account where tasks are
            assigned, or more than a limit. Nothing has been sent.
        """
        if self.binding is Binding.ASSIGNED and not offer.account:
            raise Rejected(
                f"{self.name} needs the account of a worker",
                why="its tasks are assigned to one worker each",
                fix="offer to an account, not to an audience",
            )
        if self.pays and (offer.reward is None or not offer.reward.amount):
            raise Rejected(
                f"{self.name} needs to know what the work pays",
                why="it pays its workers itself",
                fix="set it: dispatcher runs budget RUN --reward GBP:1.20",
            )
        if self.currency and offer.reward is not None:
            _reject_unless(
                offer.reward.currency == self.currency,
                f"{self.name} pays in {self.currency}, not in {offer.reward.currency}",
            )
        size = len((offer.account or offer.audience).encode())
        if size > self.limits.account_bytes:
            raise Rejected(
                f"the account has {size} bytes, {self.name} takes at most "
                f"{self.limits.account_bytes}",
                fix="give the worker a shorter account",
            )
        if len(offer.items) > self.limits.items:
            raise Rejected(
                f"the offer has {len(offer.items)} items, {self.name} takes at most "
                f"{self.limits.items}",
                fix="offer fewer at once",
            )
        for item in offer.items:
            self._check_item(item)
        size = sum(len(item.content or b"") for item in offer.items)
        if size > self.limits.offer_bytes:
            raise Rejected(
                f"the offer has {size} bytes of content, {self.name} takes at most "
                f"{self.limits.offer_bytes}",
                fix="offer fewer at once",
            )

    def _check_item(self, item: Item) -> None:
        if self.content is Content.OURS and item.content is not None:
            raise Rejected(
                f"task {item.token} carries content that must stay home",
                why=f"{self.name} declares content = ours",
                fix="send the token only; our own page serves the field",
            )
        if self.content is Content.MARKET and item.content is None:
            raise Rejected(
                f"task {item.token} carries no content",
                why=f"{self.name} declares content = market",
                fix="put the shown form of the field into the item",
            )
        if self.role is Role.MARKET and self.content is Content.MARKET:
            ask = None if item.form is None else item.form.ask
            question = (
                "nothing" if ask is None else f"{ask}, which {self.name} cannot ask"
            )
            _reject_unless(self.carries(ask), f"task {item.token} asks {question}")
        if item.content is not None:
            _reject_unless(
                len(item.content) <= self.limits.content_bytes,
                f"task {item.token} has {len(item.content)} bytes, {self.name} takes "
                f"at most {self.limits.content_bytes}",
            )


feed_manifest: Final = partial(
    Manifest,
    role=Role.FEED,
    binding=Binding.NONE,  # everybody who can read there sees all that is sent
    content=Content.MARKET,
    preview=Preview.NONE,
    idempotency=Idempotency.KEY,
    withdraws=False,
)
"""Declare a feed: what is sent stays there and cannot be withdrawn."""

pull_manifest: Final = partial(
    Manifest,
    role=Role.MARKET,
    content=Content.OURS,
    preview=Preview.CONTENTLESS,
)
"""Declare a market that gets notices of work only; our page shows the fields."""


def _reject_unless(holds: bool, what: str) -> None:
    if not holds:
        raise Rejected(what)
