"""A real HTTP server on the loopback that notes what it got, for feeds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


def take(request: Request) -> tuple[int, Mapping[str, str], bytes]:
    return 200, {}, b"ok"


@dataclass
class Receiver:
    """What came in, in order, and how it is answered (None: the connection is cut)."""

    requests: list[Request] = field(default_factory=list)
    respond: Callable[[Request], tuple[int, Mapping[str, str], bytes] | None] = take
    url: str = ""


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else each answer waits 40 ms for an ACK

        def handle_any(self) -> None:
            size = int(self.headers.get("content-length", "0"))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.command, self.path, headers, self.rfile.read(size))
            receiver.requests.append(request)
            answer = receiver.respond(request)
            if answer is None:
                self.close_connection = True
                return
            status, more, body = answer
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name, value)
            if "transfer-encoding" not in more:
                self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with served(Handler) as receiver.url:
        yield receiver


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Answer on a free port of this machine in threads; the address of it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
