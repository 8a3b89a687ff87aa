"""A TCP proxy before PostgreSQL that cuts connections at chosen points."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

BEFORE, AFTER, LATE = "before", "after", "late"
"""Cut instead of passing a message on; when its reply comes; at once, but pass it on."""


class Cutter:
    """Passes bytes on until it is told to cut.

    Attributes
    ----------
    port : int
        Where it listens, on 127.0.0.1.
    cuts : int
        How many connections it has cut.
    messages : int
        How many the clients have sent.
    open : bool
        Whether new connections are taken.
    """

    def __init__(self, server: Path) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.cuts = self.messages = 0
        self.open = True
        self._armed: tuple[str, Callable[[bytes], bool]] | None = None
        self.then_close = False
        threading.Thread(target=self._listen, daemon=True).start()

    def cut(self, how: str, where: bytes | int) -> None:
        """Cut once: at a message that holds some bytes, or at the nth from now on."""
        if isinstance(where, bytes):
            self._armed = how, lambda data: where in data
            return
        last = self.messages + where
        self._armed = how, lambda _: self.messages >= last

    def close(self) -> None:
        self._listener.close()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if not self.open:
                    client.close()
                    continue
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(self._server))
                threading.Thread(
                    target=self._pass_on, args=(client, server), daemon=True
                ).start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        silent = threading.Event()  # the next reply is the one that never arrives
        threading.Thread(
            target=self._reply, args=(client, server, silent), daemon=True
        ).start()
        with suppress(OSError):
            while data := client.recv(1 << 16):
                self.messages += 1
                how = self._due(data)
                if how is None:
                    server.sendall(data)
                elif how == AFTER:
                    silent.set()
                    server.sendall(data)
                else:
                    self._shut(client)
                    if how == LATE:
                        time.sleep(0.4)
                        server.sendall(data)
                        time.sleep(0.4)
                    break
        self._end(server)

    def _reply(
        self, client: socket.socket, server: socket.socket, silent: threading.Event
    ) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                if silent.is_set():
                    self._shut(client)
                    break
                client.sendall(data)
        self._end(client)

    def _due(self, data: bytes) -> str | None:
        if self._armed is None or not self._armed[1](data):
            return None
        how, self._armed = self._armed[0], None
        return how

    def _shut(self, client: socket.socket) -> None:
        self.open = not self.then_close
        self.cuts += 1
        self._end(client)

    def _end(self, one: socket.socket) -> None:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


@contextmanager
def cutter(server: Path) -> Iterator[Cutter]:
    """A proxy before the socket of a server."""
    made = Cutter(server)
    try:
        yield made
    finally:
        made.close()
