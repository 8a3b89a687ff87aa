"""``POST /fetch/CONNECTOR``: where receivers of thin messages come for content."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from connectors.base import ConnectorError, Fetching, Item, Visit
from dispatcher.stages.serving.fetching import fetch
from dispatcher.store import Clock, Store

_SECOND: Final = 1_000_000


class Hatch:
    """Hands content to receivers that prove who they are.

    Parameters
    ----------
    store : Store
        Used in threads.
    feeds : Mapping[str, Fetching]
        By connector name.
    clock : Clock
    """

    def __init__(
        self, store: Store, feeds: Mapping[str, Fetching], clock: Clock
    ) -> None:
        self._store = store
        self._feeds = feeds
        self._clock = clock

    async def fetch(self, request: Request) -> Response:
        """Check the request over its raw bytes, then give what was booked for it."""
        connector = request.path_params["connector"]
        feed = self._feeds.get(connector)
        if feed is None:
            raise HTTPException(404)
        visit = Visit(headers=dict(request.headers), body=await request.body())
        now = datetime.fromtimestamp(self._clock() / _SECOND, UTC)
        try:
            tokens = await run_in_threadpool(feed.wanted, visit, now)
        except ConnectorError:
            return Response(status_code=401)
        found = await run_in_threadpool(fetch, self._store, connector, tokens)
        told = {
            "type": "fields.shared",
            "data": {"items": [_told(item) for item in found.items]},
            "later": list(found.later),
            "missing": list(found.missing),
        }
        return JSONResponse(told)


def _told(item: Item) -> dict[str, str]:
    said = {"token": item.token, "field": item.label, "media_type": item.media_type}
    return said | item.spelt()
