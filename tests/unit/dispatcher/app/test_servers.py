"""Sockets of the servers: bound before anything starts, and quick to answer."""

from __future__ import annotations

import asyncio
import socket

import pytest
import uvicorn

from dispatcher.app.servers import (
    ANSWER,
    BODY,
    HEAD,
    SHARES,
    Connection,
    Connections,
    Listener,
    Swap,
    _Server,
    accepted_at_once,
    bind,
    most_connections,
)
from dispatcher.core.config import LOOPBACK
from dispatcher.core.errors import AddressTaken


def test_answers_do_not_wait_for_the_acknowledgement_of_their_head():
    """Connections of a bound socket have Nagle's algorithm off."""
    seen = []

    class Greeter(asyncio.Protocol):
        def connection_made(self, transport):
            accepted = transport.get_extra_info("socket")
            seen.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            transport.close()

    async def visit():
        bound = bind("workers", "127.0.0.1", 0)
        server = await asyncio.get_running_loop().create_server(Greeter, sock=bound)
        reader, writer = await asyncio.open_connection(*bound.getsockname())
        await reader.read()
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()

    asyncio.run(visit())
    assert len(seen) == 1
    assert seen[0] != 0


def test_a_port_that_is_taken_is_told():
    with bind("admin", "127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        first.listen()
        with pytest.raises(
            AddressTaken, match=f"surfaces.admin cannot listen on .*:{port}"
        ) as caught:
            bind("admin", "127.0.0.1", port)
        assert (caught.value.code, caught.value.exit_status) == ("E113", 75)


# -- how long a connection may wait, and who goes when there are too many --------------


class Loop:
    """A loop whose time is set, and whose timers are fired, by the test."""

    def __init__(self):
        self.now = 0.0
        self.timers = []

    def time(self):
        return self.now

    def call_later(self, seconds, callback):
        timer = asyncio.TimerHandle(self.now + seconds, callback, [], self)
        self.timers.append(timer)
        return timer

    def create_task(self, coroutine):
        coroutine.close()  # the application stays silent
        return asyncio.Future(loop=self)

    def get_debug(self):
        return False

    def call_soon(self, *_arguments, **_named):
        pass

    def _timer_handle_cancelled(self, timer):
        self.timers.remove(timer)

    def until(self, moment):
        """Let the time pass."""
        self.now = moment
        for timer in [one for one in self.timers if one.when() <= moment]:
            self.timers.remove(timer)
            timer._run()


class Transport:
    """Remembers whether it was closed."""

    def __init__(self, host):
        self._peer = host, 1
        self.open = True

    def get_extra_info(self, name):
        return {"peername": self._peer, "sockname": ("127.0.0.1", 80)}.get(name)

    def abort(self):
        self.open = False

    close = abort

    def is_closing(self):
        return not self.open

    def write(self, data):
        pass

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


async def silent(scope, receive, send):
    """An application that is never run."""


class Server:
    def __init__(self, most=8, *, proxies=()):
        self.loop = Loop()
        self.connections = Connections(most, proxies=proxies)

    def connect(self, host="192.0.2.1", request=b""):
        """A new connection, a second after the one before."""
        self.loop.now += 1
        config = uvicorn.Config(silent, http=Connection, log_config=None)
        made = Connection(config, self.connections, {}, self.loop)
        made.connection_made(Transport(host))
        if request:
            made.data_received(request)
        return made


@pytest.mark.parametrize(
    ("parts", "limit"),
    [
        ([], HEAD),
        ([b"G", b"ET", b" / HTTP/1.1\r\n", b"host: a\r\n"], HEAD),
        (
            [b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n", b"a", b"b"],
            BODY,
        ),
        ([b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"], ANSWER),
    ],
    ids=["silent", "slow headers", "slow body", "answer not taken"],
)
def test_no_part_of_a_request_takes_longer_than_its_limit(parts, limit):
    server = Server()
    connection = server.connect()
    began = server.loop.now
    for part in parts:
        connection.data_received(part)
        server.loop.until(server.loop.now + 0.5)  # no byte gives more time
    if limit != HEAD:
        began = connection.waits_since if limit == BODY else began
    server.loop.until(began + limit - 0.1)
    assert connection.transport.open
    server.loop.until(began + limit + 2)
    assert not connection.transport.open


def test_the_one_that_waits_longest_makes_room():
    server = Server(most=2, proxies=LOOPBACK)
    first, second = (server.connect("127.0.0.1") for _ in range(2))
    third = server.connect("127.0.0.1")
    assert [one.transport.open for one in (first, second, third)] == [False, True, True]
    assert server.connections.connections == {second, third}


def test_a_connection_that_is_being_answered_is_not_closed_for_another():
    server = Server(most=2, proxies=LOOPBACK)
    request = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
    busy = [server.connect("127.0.0.1", request) for _ in range(2)]
    late = server.connect("127.0.0.1")
    assert not late.transport.open
    assert all(one.transport.open for one in busy)


def test_one_address_takes_no_more_than_half():
    server = Server(most=8)
    calm = [server.connect("192.0.2.7") for _ in range(2)]
    crowd = [server.connect("192.0.2.1") for _ in range(50)]
    assert all(one.transport.open for one in calm)
    assert sum(one.transport.open for one in crowd) == 4


@pytest.mark.parametrize(
    ("peer", "proxies", "believed"),
    [
        ("127.0.0.1", LOOPBACK, True),
        ("192.0.2.1", LOOPBACK, False),
        ("192.0.2.1", ("192.0.2.1",), True),
        ("127.0.0.1", (), False),
    ],
    ids=["a proxy here", "somebody else", "a proxy elsewhere", "no proxy"],
)
def test_safety_50_what_is_forwarded_is_believed_from_a_named_proxy_alone(
    peer, proxies, believed
):
    seen = {}

    async def remember(scope, receive, send):
        seen.update(scope)

    with bind("workers", "127.0.0.1", 0) as bound:
        config = _Server(
            Listener("workers", Swap(remember), bound), proxies=proxies
        ).config
    config.load()
    forwarded = {
        "for": b"198.51.100.9",
        "proto": b"https",
        "host": b"elsewhere.example",
    }
    headers = [(f"x-forwarded-{key}".encode(), word) for key, word in forwarded.items()]
    scope = {"type": "http", "client": (peer, 1), "scheme": "http", "headers": headers}
    asyncio.run(config.loaded_app(scope, None, None))
    told = seen["client"][0], seen["scheme"]
    assert told == (("198.51.100.9", "https") if believed else (peer, "http"))


@pytest.mark.parametrize("descriptors", [160, 256, 1024, 8192, 10**6, -1])
def test_the_servers_leave_descriptors_to_the_rest(descriptors):
    kept = sum(most_connections(name, descriptors) for name in SHARES)
    passing = 5 * len(SHARES) * accepted_at_once(descriptors)
    assert kept + passing <= (descriptors if descriptors > 0 else 65_536) * 0.96
