"""Webhooks and what was delivered to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from dispatcher.surfaces.api.documents.base import Document, Moment, Name, Request


class AddWebhook(Request):
    """Where notices are posted, and which; none: all but heartbeats."""

    url: Annotated[str, Field(min_length=1, max_length=2000)]
    types: Annotated[list[Name], Field(max_length=100)] = []


class NewWebhook(Document):
    """A webhook's secret, shown this once; ``old_until``: when the one of before ends."""

    id: int
    secret: str
    old_until: Moment | None


class Webhook(Document):
    """A webhook without its secret; ``failed`` counts what was given up in 30 days."""

    id: int
    url: str
    types: Sequence[str]
    state: str
    made_at: Moment
    old_secret_until: Moment | None
    failed: int


class RemovedWebhook(Document):
    """A webhook that was removed with its log."""

    id: int


class TriedWebhook(Document):
    """What came of a test; ``error`` is null if it arrived."""

    id: int
    status: int | None
    error: str | None


class Delivery(Document):
    """One notice on its way to one webhook; ``state``: ready, sent or failed."""

    id: int
    message: str
    type: str
    at: Moment
    state: str
    attempts: int
    due: Moment
    status: int | None
    error: str | None
    ended_at: Moment | None


class Redelivered(Document):
    """A delivery that the daemon makes again, under the same message id."""

    id: int
