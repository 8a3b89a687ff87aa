"""Connections to the servers: fewer than the process has descriptors, none idle for long.

uvicorn times only the pause between two requests, and only while not a byte comes. Here each
part of a request has its time in all, and where connections are many, the one that has waited
longest for its request makes room for the next, as nginx does it.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from typing import Any, Final, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from dispatcher.app.guard import safe_headers

HEAD: Final = 15.0
"""Seconds from the connection, or the last answer, to the end of a request's headers."""
BODY: Final = 60.0
"""Seconds for a request's body in all."""
ANSWER: Final = 120.0
"""Seconds for an answer, made and taken, in all."""
SHARES: Final = {"workers": 2, "operators": 8, "admin": 16}
"""What part of the descriptors a server may use: one in so many.

The rest, about a third, is for the store, connectors and files.
"""
_MOST_DESCRIPTORS: Final = 65_536
_LOCAL: Final = ("127.0.0.1", "::1")


def most_connections(server: str, descriptors: int) -> int:
    """How many connections a server keeps, of so many descriptors of the process."""
    return max(8, _bounded(descriptors) // SHARES[server])


def accepted_at_once(descriptors: int) -> int:
    """How many connections are accepted before those over the limit are closed."""
    return min(128, max(2, _bounded(descriptors) // 128))


def _bounded(descriptors: int) -> int:
    unlimited = descriptors < 0
    return _MOST_DESCRIPTORS if unlimited else min(descriptors, _MOST_DESCRIPTORS)


class Connections(ServerState):
    """The connections of one server.

    Parameters
    ----------
    most : int
        How many are kept; one address may have half of them.
    proxied : bool
        Whether a proxy on this machine is before the server: then its address, which
        stands for everybody, may have all.
    """

    def __init__(self, most: int, *, proxied: bool) -> None:
        super().__init__()
        self._most = most
        self._proxied = proxied

    def make_room(self, added: Connection) -> None:
        """Close the connection that waits longest, where there are too many by one."""
        kept = cast(set[Connection], self.connections)
        host = added.host
        theirs = {one for one in kept if one.host == host}
        if self._proxied and host in _LOCAL:
            theirs = set()
        if len(theirs) > self._most // 2:
            crowd = theirs
        elif len(kept) > self._most:
            crowd = kept
        else:
            return
        oldest = min(crowd, key=lambda one: one.waits_since)
        kept.discard(oldest)
        oldest.transport.abort()


class Connection(H11Protocol):
    """A connection whose every state has an end."""

    server_state: Connections

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - uvicorn's
        super().__init__(*arguments, **named)
        self._limit = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.waits_since = math.inf
        """When it began to wait for a request; infinite while one is answered."""

    @property
    def host(self) -> str:
        """Address of the other side; empty if it is gone already."""
        return self.client[0] if self.client else ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for it, and wait for its first request."""
        super().connection_made(transport)
        self._wait_for(HEAD)
        self.server_state.make_room(self)

    def data_received(self, data: bytes) -> None:
        """Take in a part of a request."""
        super().data_received(data)
        limit = self._limit_now()
        if limit != self._limit:
            self._wait_for(limit)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._wait_for(self._limit_now())

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, with the headers of every response."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers = {
                **safe_headers(secrets.token_urlsafe(24), https=False),
                "content-type": "text/plain; charset=utf-8",
                "content-length": str(len(msg)),
                "connection": "close",
            }
            said = (
                h11.Response(status_code=400, headers=list(headers.items())),
                h11.Data(data=msg.encode("ascii")),
                h11.EndOfMessage(),
            )
            self.transport.write(b"".join(self.conn.send(part) or b"" for part in said))
        self.transport.close()

    def _limit_now(self) -> float:
        state = self.conn.their_state
        return {h11.IDLE: HEAD, h11.SEND_BODY: BODY}.get(state, ANSWER)

    def _wait_for(self, limit: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._limit = limit
        self.waits_since = math.inf if limit == ANSWER else self.loop.time()
        self._timer = self.loop.call_later(limit, self.transport.abort)
