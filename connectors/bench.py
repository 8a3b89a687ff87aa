"""What the contract suite is given of a connector, and what it offers to it.

Import the names from :mod:`connectors.contract`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

from connectors.base import (
    Content,
    Feed,
    Form,
    Handle,
    Item,
    Manifest,
    Market,
    Money,
    Offer,
    Role,
    Visit,
)

REWARD = Money(Decimal("1.20"), "GBP")
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CANARY = "canary-7d1f-Ünïcödé"


@dataclass(frozen=True)
class Bench:
    """What the suite needs to know of the connector under test.

    Attributes
    ----------
    open : callable
        () -> connector; each call a fresh object on the same outside, as after a crash.
    seen : callable
        account -> all bytes that this account can see outside. For ``""``: all bytes
        that lie outside at all.
    copies : callable or None
        key -> how many copies of the offer lie outside.
    answer : callable or None
        (handle, token, account, value) -> None: plays the worker, so that an answer
        waits outside. None where ``collect`` is always empty.
    visit : callable or None
        (account, now) -> Visit that proves the account at `now` and for an hour. None
        where nobody arrives.
    forged : sequence of Visit
        Visits that must be refused.
    crash_after_accept : callable or None
        () -> context in which ``publish`` fails after the outside has accepted.
    submit : callable or None
        (handle, account) -> None: the account takes the work of an offer and hands it
        in. None where the market does not pay.
    give_up : callable or None
        The same, but it is handed back undone.
    payments : callable or None
        (account) -> what the market has paid it: amounts, in the order of paying.
    lose_the_answer : callable or None
        () -> context in which ``approve`` and ``bonus`` fail after the outside has paid.
    remove : callable or None
        (handle): somebody outside deletes the offer, and we are not told.
    """

    open: Callable[[], Market | Feed]
    seen: Callable[[str], bytes]
    copies: Callable[[str], int] | None = None
    answer: Callable[[Handle, str, str, str], None] | None = None
    visit: Callable[[str, datetime], Visit] | None = None
    forged: Sequence[Visit] = ()
    crash_after_accept: Callable[[], AbstractContextManager[object]] | None = None
    submit: Callable[[Handle, str], None] | None = None
    give_up: Callable[[Handle, str], None] | None = None
    payments: Callable[[str], list[Decimal]] | None = None
    lose_the_answer: Callable[[], AbstractContextManager[object]] | None = None
    remove: Callable[[Handle], object] | None = None


def reward_at(manifest: Manifest) -> Money:
    """Give what the suite's offers pay, in a currency that the market pays in."""
    return replace(REWARD, currency=manifest.currency or REWARD.currency)


def offer_for(
    manifest: Manifest, key: str, account: str = "ann", items: int = 2
) -> Offer:
    """Make an offer that fits the manifest; item i shows CANARY and its number."""
    held = manifest.content is Content.MARKET
    market = manifest.role is Role.MARKET
    made = tuple(
        Item(
            token=f"task-{key}-{number}",
            form=Form("transcribe", question="Write down what you read.")
            if market
            else None,
            content=f"{CANARY}-{key}-{number}".encode() if held else None,
            label="" if market else "name",
        )
        for number in range(items)
    )
    link = "" if held else "https://tasks.example.test/"
    reward = reward_at(manifest) if manifest.pays else None
    return Offer(key, account=account, items=made, link=link, reward=reward)
