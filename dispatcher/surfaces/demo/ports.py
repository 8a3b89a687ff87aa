"""Ports for servers that are started a moment later, by another process."""

from __future__ import annotations

import secrets
import socket
from typing import Final

SERVERS: Final = range(20_000, 32_000)
"""Below what systems give to clients: none of them takes a port before its server does."""


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, drawn by chance."""
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
