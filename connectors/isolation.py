"""Isolation tests: a market's access control, tried from the outside with synthetic work.

The contract suite checks a manifest's claims against a server of its own. Whether the
market that the operator has set up keeps them too is tested here: by visiting as
somebody else, as nobody, and with manipulated proofs of identity. An attempt that is
refused shows that the isolation works.
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
    """The claim of a manifest that was tested."""

    IDENTITY = "identity"
    BINDING = "binding"
    PREVIEW = "preview"
    CONTENT = "content"


@dataclass(frozen=True)
class Tried:
    """The result of one attempt.

    Attributes
    ----------
    wall : Wall
    held : bool
    finding : str
        What was tried, and what happened if isolation failed; no value, no secret.
    """

    wall: Wall
    held: bool
    finding: str


@dataclass(frozen=True)
class Stranger:
    """A worker of the market for whom the work is not meant.

    Attributes
    ----------
    account : str
        In the market's own spelling.
    secret : str
        Their password there; empty if there is none or it is unknown.
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
"""Parameters in which markets name a visitor; without a signature they prove nothing."""


def synthetic_offer(account: str, link: str, *, content: bytes | None = None) -> Offer:
    """Return an offer of one task that belongs to no record."""
    token = os.urandom(16).hex()
    form = None if content is None else Form("transcribe", question="A test.")
    items = (Item(token, form, content=content),)
    return Offer(f"probe-{token}", account=account, items=items, link=link)


def try_claims(arrive: Arrive, other: str, now: datetime) -> Iterator[Tried]:
    """Visit without any proof, and with only another worker's name."""
    visits = [("no proof", Visit())]
    visits += [(f"a bare {name}", Visit({name: other})) for name in CLAIMS]
    every = dict.fromkeys(CLAIMS, other)
    visits.append(("every name at once", Visit(every, {"remote-user": other})))
    for what, visit in visits:
        yield _refused(arrive, visit, now, f"arriving with {what}")


def try_links(
    arrive: Arrive, invite: Invite, account: str, other: str, now: datetime
) -> Iterator[Tried]:
    """Open a personal link unchanged, too late, and manipulated."""
    until = now + timedelta(minutes=5)
    own, foreign = invite(account, "probe", until), invite(other, "probe", until)
    came = ""
    with suppress(Rejected):
        came = arrive(Visit({"token": own}), now).account
    yield Tried(
        Wall.IDENTITY,
        held=came == account,
        finding="the worker's own link opens as that worker",
    )
    late = now + timedelta(minutes=10)
    yield _refused(arrive, Visit({"token": own}), late, "opening a link too late")
    for manipulation, code in _tampered(own, foreign):
        yield _refused(arrive, Visit({"token": code}), now, f"opening {manipulation}")


def try_content(
    publish: Callable[[Offer], Handle],
    withdraw: Callable[[Handle], None],
    account: str,
    link: str,
) -> Iterator[Tried]:
    """Offer content that must stay home; withdraw it if it was accepted."""
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
        return Tried(Wall.IDENTITY, held=True, finding=what)
    except ConnectorError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 (code given bad input)
        failure = f"{what} makes it fail: {type(error).__name__}"
        return Tried(Wall.IDENTITY, held=False, finding=failure)
    if arrival.preview:
        return Tried(Wall.IDENTITY, held=True, finding=f"{what}: a preview of nothing")
    sure = arrival.identity is not Identity.UNSIGNED
    so = ", and it is called proven" if sure else ""
    return Tried(Wall.IDENTITY, held=False, finding=f"{what} was let in{so}")


def _tampered(own: str, foreign: str) -> Iterator[tuple[str, str]]:
    """Yield codes that nobody signed."""
    yield "half a link", own[: len(own) // 2]
    yield "a link with a last character more", f"{own}A"
    mine, theirs = own.split("."), foreign.split(".")
    for place in range(len(mine)):
        spliced = [*mine[:place], *theirs[place : place + 1], *mine[place + 1 :]]
        if len(mine) == len(theirs) and spliced not in (mine, theirs):
            yield "a link with a part of another worker's", ".".join(spliced)
    made_up = base64.urlsafe_b64encode(os.urandom(48)).decode()
    yield "a link that was made up", made_up
