"""Label Studio as a notice board: tasks that only link to our task page.

Every user of the server can open every notice. It reveals who has work, and nothing
else: the page opens by a personal link, which is never sent there.
"""

from __future__ import annotations

import html
from typing import Final

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
    pull_manifest,
)
from connectors.label_studio.api import Api
from connectors.label_studio.board import Board, BoardTask
from connectors.task_page import check_link
from connectors.tickets import Linked

MANIFEST: Final = pull_manifest(
    name="label-studio",
    binding=Binding.LATE,
    identity=Identity.SIGNED,
    idempotency=Idempotency.SEARCH,
    limits=Limits(items=1000, per_minute=60, account_bytes=254),
    tested_against="a real Label Studio Community server",
)

CONFIG: Final = (
    '<View><HyperText name="notice" value="$notice" clickableLinks="true"/>'
    '<Choices name="done" toName="notice"><Choice value="Nothing is left there"/>'
    "</Choices></View>"
)
_NOTICE: Final = (
    "<p>There is work for {account}. It opens on a page of its own; your personal link "
    'lets you in.</p><p><a href="{link}" target="_blank" rel="noopener noreferrer">Open '
    "the task page</a></p><p>When it says that nothing is left, submit here.</p>"
)


class NoticeBoard(Linked):
    """A server with notices and no fields.

    Parameters
    ----------
    api : Api
    key : bytes
        Signs the personal links; at least 32 bytes.
    title : str
        Title of the projects.
    """

    _why = "what Label Studio says of a visitor is not signed"
    _fix = "open your personal link once, then come from Label Studio"

    def __init__(self, api: Api, key: bytes, title: str) -> None:
        self._api = api
        self._key = key
        self._board = Board(api, key, f"{title} notices", CONFIG)

    @property
    def manifest(self) -> Manifest:
        """Bound when the worker arrives, content ours."""
        return MANIFEST

    def check_offer(self, offer: Offer) -> None:
        """Refuse an offer without a task page."""
        MANIFEST.check(offer)
        check_link(offer.link)

    def publish(self, offer: Offer) -> Handle:
        """Post one notice; a notice with this key is never repeated.

        Raises
        ------
        Rejected
            If the offer may not go there, or has no task page.
        TryLater, Misconfigured
            Depending on the server's response.
        """
        self.check_offer(offer)
        whom = offer.account or offer.audience
        notice = _NOTICE.format(account=html.escape(whom), link=html.escape(offer.link))
        return self._board.put(
            offer.key, [BoardTask("notice", whom, {"notice": notice})]
        )

    def find(self, key: str) -> Handle | None:
        """Look for the notice with this key, withdrawn or not."""
        return self._board.find(key)

    def listing(self, cursor: str) -> Listed:
        """Return a page of the offers there, without withdrawn ones."""
        return self._board.listing(cursor)

    def withdraw(self, handle: Handle) -> None:
        """Remove the notice."""
        self._board.withdraw(handle.key, {"notice": ""})

    def collect(self, cursor: str) -> Collected:
        """Return nothing: answers are given on our own page."""
        return Collected(cursor)

    def close(self) -> None:
        """Close idle connections."""
        self._api.close()
