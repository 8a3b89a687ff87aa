"""Turkle as a notice board: one project a worker, one content-free batch an offer.

The order of calls makes it safe: the project's permissions come first (a task's preview
checks the project and never the batch), the batch is created inactive, its permissions
are set and read back, and only then is it activated.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from connectors.base import (
    Binding,
    Collected,
    Handle,
    Idempotency,
    Identity,
    Limits,
    Listed,
    Manifest,
    Offer,
    Posted,
    Rejected,
    Settings,
    Stranger,
    Tried,
    Wall,
    pull_manifest,
)
from connectors.http.client import Http
from connectors.isolation import synthetic_offer
from connectors.listing_cache import Index
from connectors.task_page import check_link
from connectors.tickets import Linked, check_key, opaque, token_and_key
from connectors.turkle.api import Api
from connectors.turkle.isolation import try_pages

Pages = Callable[[int, str, Stranger], Iterator[Tried]]

MANIFEST = pull_manifest(
    name="turkle",
    binding=Binding.ASSIGNED,
    identity=Identity.SIGNED,
    idempotency=Idempotency.SEARCH,
    limits=Limits(items=1000, per_minute=60, account_bytes=150),
    tested_against="a real Turkle server",
)

_ALLOTTED_HOURS: Final = 24
_OFFER, _WORK, _CLOSED = "offer-", "work-", "-closed"
_OURS: Final = (_OFFER, _WORK)
_PAGE: Final = (
    "<p>There is work for you. It opens on a page of its own; your personal link lets "
    'you in.</p><p><a href="{link}" target="_blank" rel="noopener noreferrer">Open the '
    "task page</a></p><p>When it says that nothing is left, submit here.</p>"
    '<input type="hidden" name="offer" value="${{offer}}">'
    '<input type="submit" value="Done">'
)


class Turkle(Linked):
    """One Turkle server.

    Parameters
    ----------
    api : Api
    key : bytes
        Signs the personal links and hides who a project is for; at least 32 bytes.
    pages : callable
        (batch, its name, another worker) -> attempts to open it on the server's pages.
    """

    _why = "what Turkle says of a visitor is not signed"
    _fix = "open your personal link once, then come from Turkle"

    def __init__(self, api: Api, key: bytes, pages: Pages) -> None:
        self._api = api
        self._pages = pages
        self._key = check_key(
            key, "write 32 random bytes in hex into the second line of secret_file"
        )
        # Turkle has no search for projects and batches by name.
        self._batches = Index(lambda: _named(api.every("batches")))
        self._projects = Index(lambda: _named(api.every("projects")))

    @property
    def manifest(self) -> Manifest:
        """Assigned to one account, content ours."""
        return MANIFEST

    def check_offer(self, offer: Offer) -> None:
        """Refuse an offer without a task page."""
        MANIFEST.check(offer)
        check_link(offer.link)

    def publish(self, offer: Offer) -> Handle:
        """Create a notice of work as a batch that only one worker can see.

        An existing batch with this key (from an interrupted attempt, or withdrawn) is
        never created again. `find` does not activate an inactive one, so a repeated
        `publish` completes it unless it was withdrawn.
        """
        self.check_offer(offer)
        user = self._api.user(offer.account)
        name = _name(offer.key)
        found = self._batch(name) or self._draft(name, offer, user)
        number = int(found["id"])
        if found["name"] == name and not found["active"]:
            self._api.permit("projects", int(found["project"]), user)
            self._api.permit("batches", number, user)
            self._api.change("batches", number, active=True)
        return Handle(offer.key, str(number))

    def _draft(self, name: str, offer: Offer, user: int) -> dict[str, Any]:
        """Create an inactive batch, which nobody sees."""
        project = self._project(offer.account, offer.link, user)
        with self._batches.making(name) as made:
            found = self._api.create("batches", {
                "name": name,
                "project": project,
                "filename": "offer.csv",
                "csv_text": f"offer\r\n{name}\r\n",
                "active": False,
                "published": True,
                "login_required": True,
                "assignments_per_task": 1,
                "allotted_assignment_time": _ALLOTTED_HOURS,
            })  # fmt: skip
            made(str(found["id"]))
        return found

    def _project(self, account: str, link: str, user: int) -> int:
        """Find or create the project of one worker, with permissions before any batch."""
        name = f"{_WORK}{opaque(self._key, 'project', account, link)}"
        there = [n for n in self._projects.find(name) if self._is(n, name)]
        if not there:
            with self._projects.making(name) as made:
                found = self._api.create("projects", {
                    "name": name,
                    "filename": "work.html",
                    "html_template": _PAGE.format(link=html.escape(_plain(link))),
                    "login_required": True,
                    "assignments_per_task": 1,
                    "allotted_assignment_time": _ALLOTTED_HOURS,
                })  # fmt: skip
                there = [str(found["id"])]
                made(there[0])
        self._api.permit("projects", int(there[0]), user)
        return int(there[0])

    def _is(self, number: str, name: str) -> bool:
        """Whether a project still exists and has its name."""
        found = self._api.read("projects", number)
        if found is None or found["name"] != name:
            self._projects.drop(name, number)
            return False
        return True

    def _batch(self, name: str) -> dict[str, Any] | None:
        """Return the batch with a name, in its present state; prefer one that was shown."""
        there = []
        for number in self._batches.find(name):
            found = self._api.read("batches", number)
            if found is None or _base(found) != name:
                self._batches.drop(name, number)
            else:
                there.append(found)
        there.sort(key=lambda one: one["name"] == name and not one["active"])
        return there[0] if there else None

    def find(self, key: str) -> Handle | None:
        """Look for the batch with this key; one left inactive does not count."""
        name = _name(key)
        found = self._batch(name)
        if found is None or (found["name"] == name and not found["active"]):
            return None
        return Handle(key, str(found["id"]))

    def listing(self, cursor: str) -> Listed:
        """Return a page of Turkle's list of batches, with closed ones marked."""
        if cursor and not (cursor.isascii() and cursor.isdigit()):
            raise Rejected("the cursor is not one of this connector")
        number = int(cursor or "1")
        batches, more = self._api.page("batches", number)
        posted = tuple(
            Posted(
                _base(one).removeprefix(_OFFER),
                str(one["id"]),
                open=bool(one["active"]) and not one.get("completed"),
            )
            for one in batches
            if _base(one).startswith(_OFFER) and _base(one) != _OFFER
        )
        return Listed(posted, str(number + 1) if more else "")

    def withdraw(self, handle: Handle) -> None:
        """Close the batch and mark it as closed by us; no error if it is gone."""
        name = f"{_name(handle.key)}{_CLOSED}"
        number = int(handle.reference)
        self._api.change("batches", number, active=False, name=name)

    def probe(self, account: str, other: Stranger, link: str) -> Iterator[Tried]:
        """Give the worker a batch, and try to open it as another one and as nobody."""
        offer = synthetic_offer(account, link)
        handle = self.publish(offer)
        try:
            permitted = self._api.permitted("batches", int(handle.reference))
            alone = permitted == [self._api.user(account)]
            yield Tried(Wall.BINDING, alone, "the server says who may open it")
            yield from self._pages(int(handle.reference), _name(offer.key), other)
        finally:
            self.withdraw(handle)

    def collect(self, cursor: str) -> Collected:
        """Return nothing: answers are given on our own page."""
        return Collected(cursor)

    def close(self) -> None:
        """Close idle connections."""
        self._api.close()


def _name(key: str) -> str:
    return f"{_OFFER}{key}"


def _base(batch: Mapping[str, Any]) -> str:
    """Return a batch's original name."""
    return str(batch["name"]).removesuffix(_CLOSED)


def _named(batches: Iterator[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    named = ((_base(batch), str(batch["id"])) for batch in batches)
    return ((name, number) for name, number in named if name.startswith(_OURS))


def _plain(link: str) -> str:
    """Escape an address so that Turkle reads no column name from it."""
    return link.replace("$", "%24").replace("{", "%7B").replace("}", "%7D")


def open_turkle(settings: Settings) -> Turkle:
    """Open the server in the settings."""
    values = settings.of("turkle", ("url", "allow_private"), ("url",))
    token, key = token_and_key(settings.secret, "turkle")
    http = Http(private=settings.private)
    pages = partial(try_pages, values["url"], http)
    return Turkle(Api(values["url"], token, http), key, pages)
