"""The walls of a market, tried from the outside with synthetic work.

What a manifest declares is proven by the contract suite, against a server of the suite's.
Whether the market that the operator has set up keeps it too is tried here: by visiting as
somebody else, as nobody, and with proofs that were tampered with. A try that is refused
is a wall that holds.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from connectors.errors import ConnectorError, Rejected, expect
from connectors.values import Arrival, Form, Handle, Identity, Item, Offer, Visit


class Wall(StrEnum):
    """What of a manifest was tried."""

    IDENTITY = "identity"
    BINDING = "binding"
    PREVIEW = "preview"
    CONTENT = "content"


@dataclass(frozen=True)
class Tried:
    """One try.

    Attributes
    ----------
    wall : Wall
    held : bool
    told : str
        What was tried, and what happened where it did not hold; no value, no secret.
    """

    wall: Wall
    held: bool
    told: str


@dataclass(frozen=True)
class Stranger:
    """A worker of the market that work is not meant for.

    Attributes
    ----------
    account : str
        In the market's own spelling.
    secret : str
        Their password there; empty where there is none, or it is not known.
    """

    account: str
    secret: str = ""

    def __post_init__(self) -> None:
        expect(bool(self.account), "account", self.account, "some text")

    def __repr__(self) -> str:
        return f"Stranger({self.account!r})"


Arrive = Callable[[Visit, datetime], Arrival]
Invite = Callable[[str, str, datetime], str]
CLAIMS: Final = (
    "account", "user", "username", "worker", "workerId", "participant", "PROLIFIC_PID",
)  # fmt: skip
"""Parameters in which markets name a visitor; unsigned each of them is a mere claim."""


def synthetic_offer(account: str, link: str, *, content: bytes | None = None) -> Offer:
    """Make an offer of one task that belongs to no record."""
    token = os.urandom(16).hex()
    form = None if content is None else Form("transcribe", question="A test.")
    items = (Item(token, form, content=content),)
    return Offer(f"probe-{token}", account=account, items=items, link=link)


def try_claims(arrive: Arrive, other: str, now: datetime) -> Iterator[Tried]:
    """Visit with no proof at all, and with nothing but another worker's name."""
    visits = [("no proof", Visit())]
    visits += [(f"a bare {name}", Visit({name: other})) for name in CLAIMS]
    every = dict.fromkeys(CLAIMS, other)
    visits.append(("every name at once", Visit(every, {"remote-user": other})))
    for what, visit in visits:
        yield _refused(arrive, visit, now, f"arriving with {what}")


def try_links(
    arrive: Arrive, invite: Invite, account: str, other: str, now: datetime
) -> Iterator[Tried]:
    """Open a personal link as it is, too late, and tampered with."""
    until = now + timedelta(minutes=5)
    own, foreign = invite(account, "probe", until), invite(other, "probe", until)
    came = ""
    with suppress(Rejected):
        came = arrive(Visit({"token": own}), now).account
    told = "the worker's own link opens as that worker"
    yield Tried(Wall.IDENTITY, came == account, told)
    late = now + timedelta(minutes=10)
    yield _refused(arrive, Visit({"token": own}), late, "opening a link too late")
    for what, code in _tampered(own, foreign):
        yield _refused(arrive, Visit({"token": code}), now, f"opening {what}")


def try_content(
    publish: Callable[[Offer], Handle],
    withdraw: Callable[[Handle], None],
    account: str,
    link: str,
) -> Iterator[Tried]:
    """Offer content where it must stay home; what is taken is taken back."""
    try:
        handle = publish(synthetic_offer(account, link, content=b"synthetic"))
    except Rejected:
        held = True
    else:
        held = False
        withdraw(handle)
    yield Tried(Wall.CONTENT, held, "offering content that must stay home")


def _refused(arrive: Arrive, visit: Visit, now: datetime, what: str) -> Tried:
    try:
        arrival = arrive(visit, now)
    except Rejected:
        return Tried(Wall.IDENTITY, held=True, told=what)
    except ConnectorError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 (code given bad input)
        told = f"{what} makes it fail: {type(error).__name__}"
        return Tried(Wall.IDENTITY, held=False, told=told)
    if arrival.preview:
        return Tried(Wall.IDENTITY, held=True, told=f"{what}: a preview of nothing")
    sure = arrival.identity is not Identity.UNSIGNED
    so = ", and it is called proven" if sure else ""
    return Tried(Wall.IDENTITY, held=False, told=f"{what} was let in{so}")


def _tampered(own: str, foreign: str) -> Iterator[tuple[str, str]]:
    """Codes that nobody signed."""
    yield "half a link", own[: len(own) // 2]
    yield "a link with a last character more", f"{own}A"
    mine, theirs = own.split("."), foreign.split(".")
    for place in range(len(mine)):
        spliced = [*mine[:place], *theirs[place : place + 1], *mine[place + 1 :]]
        if len(mine) == len(theirs) and spliced not in (mine, theirs):
            yield "a link with a part of another worker's", ".".join(spliced)
    made_up = base64.urlsafe_b64encode(os.urandom(48)).decode()
    yield "a link that was made up", made_up
