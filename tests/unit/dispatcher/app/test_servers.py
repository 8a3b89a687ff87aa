"""Sockets of the servers: bound before anything starts, and quick to answer."""

import asyncio
import socket

import pytest

from dispatcher.app.servers import bind
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
