"""What strangers send over raw sockets to the three servers, as they run in the daemon."""

from __future__ import annotations

import gzip
import re
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

import pytest

from dispatcher.app.guard import MAX_BODY
from dispatcher.app.servers import most_connections
from dispatcher.store import open_store
from tests.patience import PATIENCE, until

NAMES = ("operators", "workers", "admin")
POST = {"operators": "/login", "workers": "/arrive"}
SAFE = (
    "cache-control", "content-security-policy", "permissions-policy", "referrer-policy",
    "x-content-type-options", "x-frame-options",
)  # fmt: skip
FORM = "content-type: application/x-www-form-urlencoded\r\n"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Servers:
    """The three servers in a process of their own."""

    def __init__(self, ports, log):
        self.ports = dict(zip(NAMES, map(int, ports), strict=True))
        self._log = log

    def connect(self, name):
        return socket.create_connection(("127.0.0.1", self.ports[name]), PATIENCE)

    def send(self, name, request):
        """Send bytes, and read what comes until the server closes or is silent."""
        with self.connect(name) as connection:
            connection.sendall(request)
            return read(connection)

    def get(self, name, path):
        request = f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n"
        return self.send(name, request.encode())

    def log(self):
        return self._log.read_text()


def read(connection):
    with connection.makefile("rb") as stream:
        status = int(stream.readline().split()[1])
        headers = {}
        while line := stream.readline().decode().strip():
            key, _, value = line.partition(": ")
            headers[key] = value
        return Answer(status, headers, stream.read(int(headers["content-length"])))


@contextmanager
def serving(folder, descriptors):
    store, log = folder / "raw.db", folder / "log"
    open_store(store, create=True).close()
    command = [sys.executable, "-m", "tests.integration.three_servers", str(store)]
    with log.open("w") as sink:
        process = subprocess.Popen(
            [*command, str(descriptors)], stdout=subprocess.PIPE, stderr=sink, text=True
        )
    try:
        yield Servers(process.stdout.readline().split(), log)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("raw"), 1024) as made:
        yield made


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "host", ["[zz", "[::", "zz]", "[zz]", "a/b", "a@b", "a?b", "a#b", "a:b", "a:99999"]
)
def test_a_host_header_that_names_no_host_is_a_fault_of_the_request(
    servers, name, host
):
    answer = servers.send(name, f"GET / HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
    assert answer.status == 400
    assert set(SAFE) <= set(answer.headers)


@pytest.mark.parametrize("name", NAMES)
def test_a_request_with_two_lengths_is_refused_and_nothing_after_it_is_read(
    servers, name
):
    two = "content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
    hidden = "GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with servers.connect(name) as connection:
        connection.sendall(
            f"POST /login HTTP/1.1\r\nhost: localhost\r\n{two}{hidden}".encode()
        )
        answer = read(connection)
        assert answer.status == 400
        assert answer.headers["connection"] == "close"
        with suppress(ConnectionResetError):
            assert connection.recv(1) == b""


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "request_bytes",
    [
        b"no HTTP at all\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1x\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"x" * 70_000,
    ],
    ids=["no http", "no host", "two hosts", "length", "long"],
)
def test_safety_11_what_is_no_http_is_refused_with_the_safe_headers(
    servers, name, request_bytes
):
    answer = servers.send(name, request_bytes)
    assert answer.status == 400
    assert set(SAFE) <= set(answer.headers)


@pytest.mark.parametrize(
    ("name", "path"), [("admin", "/livez"), ("admin", "/none"), ("workers", "/none")]
)
def test_safety_11_every_server_sends_the_safe_headers(servers, name, path):
    assert set(SAFE) <= set(servers.get(name, path).headers)


@pytest.mark.parametrize("name", POST)
def test_a_chunked_body_past_the_limit_is_too_much(servers, name):
    head = (
        f"POST {POST[name]} HTTP/1.1\r\nhost: localhost\r\n{FORM}"
        "transfer-encoding: chunked\r\n\r\n"
    )
    chunk = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
    chunks = chunk * (MAX_BODY // 0x8000 + 1) + b"0\r\n\r\n"
    assert servers.send(name, head.encode() + chunks).status == 413


@pytest.mark.parametrize("name", POST)
def test_who_leaves_in_the_middle_of_a_body_leaves_no_error(servers, name):
    head = f"POST {POST[name]} HTTP/1.1\r\nhost: localhost\r\n{FORM}content-length: 9"
    with servers.connect(name) as connection:
        connection.sendall(head.encode() + b"\r\n\r\nabc")
    for _ in range(3):
        assert servers.get(name, "/robots.txt").status == 200
    assert servers.log() == ""


@pytest.mark.parametrize(
    ("name", "page", "file"),
    [("workers", "/", "task.css"), ("operators", "/login", "console.css")],
)
def test_static_files_are_kept_by_their_digest_and_pages_never(
    servers, name, page, file
):
    shown = servers.get(name, page)
    assert shown.headers["cache-control"] == "no-store"
    (path,) = re.findall(rf'"(/static/{file}\?v=[0-9a-f]+)"', shown.body.decode())
    kept = servers.get(name, path)
    assert kept.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert "set-cookie" not in kept.headers
    request = f"GET {path} HTTP/1.1\r\nhost: localhost\r\naccept-encoding: gzip\r\n\r\n"
    small = servers.send(name, request.encode())
    assert small.headers["content-encoding"] == "gzip"
    assert gzip.decompress(small.body) == kept.body
    for other in (f"/static/{file}", f"{path}0", "/static/none?v=0"):
        assert servers.get(name, other).headers["cache-control"] == "no-store"


def test_idle_connections_above_every_limit_stop_nothing(tmp_path):
    """Far more sockets than descriptors, and each server answers the next who comes."""
    descriptors = 160
    with serving(tmp_path, descriptors) as servers, ExitStack() as idle:
        for name in NAMES:
            for _ in range(2 * descriptors):
                idle.enter_context(servers.connect(name))
        assert servers.get("admin", "/livez").body == b"ok\n"
        assert servers.get("workers", "/").status == 200
        assert servers.get("operators", "/login").status == 200
        most = sum(most_connections(name, descriptors) for name in NAMES)
        assert most < descriptors
        until(lambda: len(servers.log()) < 4096, "a short log")
