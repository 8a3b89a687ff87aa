"""A real Label Studio Community server on the loopback, from an environment of its own."""

from __future__ import annotations

import http.cookiejar
import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dispatcher.app.servers import free_ports
from tests.markets.installed import installed

BOSS = "boss@example.test"
PASSWORD = "only-for-this-test"
TOKEN = "0123456789abcdef0123456789abcdef01234567"
SECONDS = 300.0  # the first start migrates a new database: most of a minute


@dataclass(frozen=True)
class LabelStudio:
    url: str
    token: str

    def ask(self, method: str, path: str, told: Any = None, **headers: str) -> Any:
        who = headers or {"authorization": f"Token {self.token}"}
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if told is None else json.dumps(told).encode(),
            headers={"content-type": "application/json", **who},
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, None
        return status, json.loads(text) if text else None

    def personal_token(self) -> str:
        """A personal access token of the administrator; it has only one."""
        _, there = self.ask("GET", "/api/token/")
        path = "/api/token/rotate/" if there else "/api/token/"
        told = {"refresh": there[0]["token"]} if there else None
        status, said = self.ask("POST", path, told)
        assert status in (200, 201), status
        return str(said["token"])

    def person(self, name: str) -> Person:
        """Sign somebody up by the organisation's invitation, as annotators come."""
        _, said = self.ask("GET", "/api/invite")
        made = Person(self)
        made.sign_up(urllib.parse.urlsplit(said["invite_url"]), f"{name}@example.test")
        return made


class Person:
    """One user of the server, with a session and no token."""

    def __init__(self, server: LabelStudio) -> None:
        self._server = server
        self._jar = http.cookiejar.CookieJar()
        cookies = urllib.request.HTTPCookieProcessor(self._jar)
        self._open = urllib.request.build_opener(cookies)

    def sign_up(self, invite: urllib.parse.SplitResult, email: str) -> None:
        path = f"{invite.path}?{invite.query}"
        page = self._call("GET", path)[1].decode()
        found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert found, "the page of signing up has no form"
        form = {"csrfmiddlewaretoken": found[1], "email": email, "password": PASSWORD}
        status, _ = self._call("POST", path, urllib.parse.urlencode(form).encode())
        assert status == 200
        assert self.ask("GET", "/api/current-user/whoami")[0] == 200

    def ask(self, method: str, path: str, told: Any = None) -> tuple[int, Any]:
        body = None if told is None else json.dumps(told).encode()
        status, text = self._call(method, path, body, "application/json")
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text.decode()

    def _call(
        self, method: str, path: str, body: bytes | None = None,
        kind: str = "application/x-www-form-urlencoded",
    ) -> tuple[int, bytes]:  # fmt: skip
        url = self._server.url
        words = [c.value for c in self._jar if c.name == "csrftoken"]
        headers = {"content-type": kind, "referer": url, "x-csrftoken": "".join(words)}
        request = urllib.request.Request(
            url + path, method=method, data=body, headers=headers
        )
        try:
            with self._open.open(request, timeout=120) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()


@contextmanager
def label_studio_server(place: Path) -> Iterator[LabelStudio]:
    python = installed("label-studio", "1.23.2")
    (port,) = free_ports(1)
    surroundings = {
        "PATH": os.environ["PATH"],
        "HOME": str(place),
        "LABEL_STUDIO_BASE_DATA_DIR": str(place / "data"),
        "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
        "LABEL_STUDIO_USERNAME": BOSS,
        "LABEL_STUDIO_PASSWORD": PASSWORD,
        "LABEL_STUDIO_USER_TOKEN": TOKEN,
        "SSRF_PROTECTION_ENABLED": "false",  # its webhooks reach the loopback
        "COLLECT_ANALYTICS": "false",
        "LATEST_VERSION_CHECK": "false",
        "DJANGO_DB": "sqlite",
    }
    words = [
        str(python.with_name("label-studio")), "start", "--no-browser",
        "--internal-host", "127.0.0.1", "--port", str(port), "--log-level", "WARNING",
    ]  # fmt: skip
    with (place / "label-studio.log").open("wb") as log:
        process = subprocess.Popen(
            words, env=surroundings, cwd=place, stdout=log, stderr=log
        )
    made = LabelStudio(f"http://127.0.0.1:{port}", TOKEN)
    try:
        wait_for(made, process, place / "label-studio.log")
        yield made
    finally:
        process.terminate()
        process.wait(30)


def wait_for(made: LabelStudio, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + SECONDS
    while True:
        try:
            if made.ask("GET", "/api/projects/")[0] == 200:
                return
        except OSError:
            pass
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < until, "Label Studio does not start"
        time.sleep(0.5)
