"""The proxies of docs/howto/operators/scale.md, as they stand there, before two servers.

nginx and HAProxy come from Debian; where one is not installed, its test is left out.
"""

import itertools
import os
import shutil
import socket
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest

from dispatcher.app.servers import free_ports
from tests.patience import PATIENCE, until

EXAMPLES = Path("docs/howto/operators/proxies")


class Backend(ThreadingHTTPServer):
    """A server as a proxy sees it: in service, or answering 503 to everything."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.serves = True
        self.seen: list[tuple[str, str, str]] = []


class Answer(BaseHTTPRequestHandler):
    server: Backend

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        path = "health" if self.path == "/readyz" else self.path
        ours = self.headers.get("x-forwarded-for", "")
        if path != "health":
            self.server.seen.append((self.command, ours, body.decode()))
        self.send_response(200 if self.server.serves else 503)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def backends():
    made = [Backend() for _ in range(4)]
    threads = [threading.Thread(target=one.serve_forever) for one in made]
    for thread in threads:
        thread.start()
    try:
        yield made
    finally:
        for one in made:
            one.shutdown()
            one.server_close()


def placed(text, made, ports):
    """An example with the addresses of this machine in place of its own."""
    places = itertools.product(("8421", "8420"), ("10.0.0.11", "10.0.0.12"))
    for (port, host), one in zip(places, made, strict=True):
        here = f"127.0.0.1:{one.server_port}"
        text = "\n".join(
            line.replace(f"{host}:{port}", here).replace("9464", str(one.server_port))
            if f"{host}:{port}" in line
            else line
            for line in text.splitlines()
        )
    text = text.replace("8080", str(ports[0])).replace("8081", str(ports[1]))
    return f"{text}\n"


def command(name, text, place):
    """A command line that runs an example in the foreground, as it stands."""
    file = place / "proxy.conf"
    if name == "haproxy":
        file.write_text(text)
        return ["haproxy", "-db", "-f", str(file)]
    file.write_text(
        f"daemon off; error_log {place}/error.log; pid {place}/pid; user root;\n"
        "events {}\nhttp { access_log off;\n"
        + "".join(
            f"{kind}_temp_path {place}/{kind};\n"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        + text
        + "}\n"
    )
    return ["nginx", "-p", str(place), "-c", str(file)]


@pytest.mark.parametrize("name", ["nginx", "haproxy"])
def test_a_server_that_is_not_in_service_costs_no_request(name, tmp_path):
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        pytest.skip(f"{name} is not installed: apt-get install {name}")
    example = "nginx.conf" if name == "nginx" else "haproxy.cfg"
    ports = free_ports(2)
    with backends() as made:
        text = placed((EXAMPLES / example).read_text(), made, ports)
        line = command(name, text, tmp_path)
        proxy = subprocess.Popen([found, *line[1:]], stderr=subprocess.DEVNULL)
        try:
            until(lambda: all(map(listens, ports)) or proxy.poll(), "it listens")
            assert proxy.poll() is None
            ask(ports[0], made[:2])
            ask(ports[1], made[2:], sticky=name == "haproxy")
        finally:
            proxy.terminate()
            proxy.wait(PATIENCE)


def ask(port, made, *, sticky=False):
    """Both servers get requests; once one is closed, the other gets all of them."""
    with httpx2.Client(
        base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=PATIENCE
    ) as browser:
        assert all(browser.get("/").status_code == 200 for _ in range(4))
        busy = max(made, key=lambda one: len(one.seen))
        busy.serves = False
        if sticky:  # until its health is asked again, within a second
            until(lambda: statuses(browser) == {200}, "the other is asked")
        sent = [browser.post("/start", content=f"{n}") for n in range(4)]
        assert [one.status_code for one in sent] == [200] * 4
        other = made[1 - made.index(busy)]
        posted = [seen for seen in other.seen if seen[2]]
        assert [body for _, _, body in posted] == ["0", "1", "2", "3"]
        assert {client for _, client, _ in posted} == {"127.0.0.1"}


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def statuses(browser):
    return {browser.post("/").status_code for _ in range(8)}
