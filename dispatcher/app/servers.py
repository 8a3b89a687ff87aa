"""Several HTTP servers in one process and event loop, stopped together by a signal.

SIGHUP reloads. The first SIGTERM or SIGINT begins a drain: ``drained`` is asked four times a second and
the servers stop when it says yes, or when the drain's time is over. The second signal
stops at once, which is safe: exposures are booked before bytes leave.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import resource
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, cast

import h11
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from dispatcher.app.guard import safe_headers
from dispatcher.core.errors import AddressTaken
from dispatcher.core.rate_limit import network_of

# -- connections to the servers: fewer than the process has descriptors, none idle for long ---
# uvicorn times only the pause between two requests, and only while not a byte comes. Here each
# part of a request has its time in all, and where connections are many, the one that has waited
# longest for its request makes room for the next, as nginx does it.

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


def most_connections(server: str, descriptors: int) -> int:
    """Return how many connections a server keeps, for a process's descriptor limit."""
    return max(8, _bounded(descriptors) // SHARES[server])


def accepted_at_once(descriptors: int) -> int:
    """Return how many connections are accepted before excess ones are closed."""
    return min(128, max(2, _bounded(descriptors) // 128))


def _bounded(descriptors: int) -> int:
    unlimited = descriptors < 0
    return _MOST_DESCRIPTORS if unlimited else min(descriptors, _MOST_DESCRIPTORS)


class Connections(ServerState):
    """The connections of one server.

    Parameters
    ----------
    most : int
        How many are kept; one subscriber's network may have half of them.
    proxies : sequence of str
        Addresses of proxies in front of the server: each, shared by all clients, may
        have all.
    """

    def __init__(self, most: int, *, proxies: Sequence[str]) -> None:
        super().__init__()
        self._most = most
        self._proxies = proxies

    def make_room(self, added: Connection) -> None:
        """Close the connection that waits longest if there is one too many."""
        kept = cast(set[Connection], self.connections)
        theirs = {one for one in kept if one.network == added.network}
        if added.host in self._proxies:
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
    """A connection with a time limit on every state."""

    server_state: Connections

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - uvicorn's
        super().__init__(*arguments, **named)
        self._limit = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.waits_since = math.inf
        """When it began to wait for a request; infinite while one is answered."""

    @property
    def host(self) -> str:
        """Address of the peer; empty if it is gone already."""
        return self.client[0] if self.client else ""

    @cached_property
    def network(self) -> str:
        """The subscriber's network that the peer is in."""
        return network_of(self.host)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for it, and wait for its first request."""
        super().connection_made(transport)
        self._wait_for(HEAD)
        self.server_state.make_room(self)

    def data_received(self, data: bytes) -> None:
        """Receive a part of a request."""
        super().data_received(data)
        limit = self._limit_now()
        if limit != self._limit:
            self._wait_for(limit)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._wait_for(self._limit_now())

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def send_400_response(self, msg: str) -> None:
        """Refuse invalid HTTP, with the headers of every response."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers = {
                **safe_headers(secrets.token_urlsafe(24), https=False),
                "content-type": "text/plain; charset=utf-8",
                "content-length": str(len(msg)),
                "connection": "close",
            }
            events = (
                h11.Response(status_code=400, headers=list(headers.items())),
                h11.Data(data=msg.encode("ascii")),
                h11.EndOfMessage(),
            )
            self.transport.write(
                b"".join(self.conn.send(part) or b"" for part in events)
            )
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


QUEUE: Final = 2048
"""Connections that may wait to be accepted."""


@dataclass
class Swap:
    """An application that can be replaced while it is served."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; the application that began it finishes it."""
        await self.app(scope, receive, send)


@dataclass(frozen=True)
class Listener:
    """An application and the bound socket that it answers on."""

    name: str
    app: Swap
    socket: socket.socket

    @property
    def url(self) -> str:
        """The URL of the address to which the socket is bound."""
        host, port = self.socket.getsockname()[:2]
        return f"http://{'[' + host + ']' if ':' in host else host}:{port}"


def bind(name: str, host: str, port: int) -> socket.socket:
    """Bind before anything starts, so that a taken port is reported at once.

    Raises
    ------
    AddressTaken
        If the address cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio turns Nagle's algorithm off only where it is:
    # else each answer's body waits 40 ms for the acknowledgement of its head.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        # SO_REUSEADDR lets two bind where none listens yet: listen at once.
        bound.listen(QUEUE)
    except OSError as error:
        bound.close()
        raise AddressTaken(
            f"surfaces.{name} cannot listen on {host}:{port}: {error.strerror}",
            why="another program has the port, or the address is not this machine's",
            fix=f'set another address in dispatcher.toml: [surfaces] {name} = "HOST:PORT"',
        ) from None
    return bound


class _Server(uvicorn.Server):
    """A server whose signals are handled outside, for all servers at once."""

    def __init__(self, listener: Listener, *, proxies: Sequence[str]) -> None:
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        at_once = accepted_at_once(descriptors)
        super().__init__(_settings(listener, at_once, proxies=proxies))
        most = most_connections(listener.name, descriptors)
        self.server_state = Connections(most, proxies=proxies)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen; those that are not accepted yet wait in a long queue."""
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(QUEUE)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(
    listeners: Sequence[Listener],
    *,
    draining: Callable[[], None],
    drained: Callable[[], bool],
    drain_seconds: float,
    started: Callable[[], None] = lambda: None,
    reload: Callable[[], object] = lambda: None,
    beat: Callable[[], object] = lambda: None,
    proxies: Sequence[str] = (),
) -> None:
    """Serve until a signal ends it.

    Parameters
    ----------
    listeners : sequence of Listener
    draining : callable
        Called once, in the loop, when the first signal comes.
    drained : callable
        Whether nothing is left to wait for; may do a short query.
    drain_seconds : float
        How long to wait for that, at most.
    started : callable
        Called when all servers answer.
    reload : callable
        Called in a thread when SIGHUP comes, never twice at once.
    beat : callable
        Called in a thread about once a second, as long as the loop turns.
    proxies : sequence of str
        Addresses of proxies before them, whose ``X-Forwarded-*`` headers are believed.
    """
    servers = [_Server(listener, proxies=proxies) for listener in listeners]

    async def run() -> None:
        async with _beside(reload, beat):
            await _serve(servers, listeners, draining, drained, drain_seconds, started)

    asyncio.run(run())


@contextlib.asynccontextmanager
async def _beside(
    reload: Callable[[], object], beat: Callable[[], object]
) -> AsyncIterator[None]:
    """Reload on SIGHUP, and beat, as long as the block runs."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, asked.set)

    async def reloading() -> None:
        while True:
            await asked.wait()
            asked.clear()
            await asyncio.to_thread(reload)

    async def beating() -> None:
        while True:
            await asyncio.to_thread(beat)
            await asyncio.sleep(1)

    tasks = [asyncio.create_task(reloading()), asyncio.create_task(beating())]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        loop.remove_signal_handler(signal.SIGHUP)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # by default it would end us


def _settings(
    listener: Listener, at_once: int, *, proxies: Sequence[str]
) -> uvicorn.Config:
    return uvicorn.Config(
        listener.app,
        http=Connection,  # with the extra `server` too: one parser, one behaviour
        backlog=at_once,  # asyncio accepts so many before it does anything else
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        date_header=True,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
        timeout_keep_alive=round(HEAD),
        timeout_graceful_shutdown=5,
    )


async def _serve(
    servers: Sequence[_Server],
    listeners: Sequence[Listener],
    draining: Callable[[], None],
    drained: Callable[[], bool],
    drain_seconds: float,
    started: Callable[[], None],
) -> None:
    stop, stop_now = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        (stop_now if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    running = [
        asyncio.create_task(server.serve(sockets=[listener.socket]))
        for server, listener in zip(servers, listeners, strict=True)
    ]
    while not all(server.started for server in servers):
        if any(task.done() for task in running):
            break
        await asyncio.sleep(0.01)
    started()
    ended = asyncio.gather(*running)
    either: list[asyncio.Future[Any]] = [asyncio.ensure_future(stop.wait()), ended]
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    draining()
    await _drain(drained, drain_seconds, stop_now)
    for server in servers:
        server.should_exit = True
        server.force_exit = stop_now.is_set()
    await ended


async def _drain(
    drained: Callable[[], bool], seconds: float, stop_now: asyncio.Event
) -> None:
    for _ in range(int(seconds * 4)):
        if stop_now.is_set() or await asyncio.to_thread(drained):
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop_now.wait(), 0.25)


SERVERS: Final = range(20_000, 32_000)
"""Below the range of client ports: no client takes a port before its server does."""


def free_ports(count: int) -> list[int]:
    """Return random ports on which nobody listens now."""
    sockets: list[socket.socket] = []
    try:
        while len(sockets) < count:
            one = socket.socket()
            sockets.append(one)
            try:
                one.bind(("127.0.0.1", secrets.choice(SERVERS)))
            except OSError:  # somebody has it
                sockets.pop().close()
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
