"""Isolation tests on Turkle's pages, as visitors for whom the work is not meant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlencode, urljoin

from connectors.base import Misconfigured, Stranger, Tried, Wall
from connectors.http.client import Answered, Http

_TASK: Final = re.compile(r"/task/\d+")
_LOG_IN: Final = re.compile(rb'href="(/[A-Za-z0-9/_-]*login/)')
_NOBODY: Final = "somebody who has not logged in"


class Visitor:
    """A browser on one server's pages, anonymous until :meth:`log_in`.

    Parameters
    ----------
    url : str
        Base URL of the server's pages.
    http : Http
    """

    def __init__(self, url: str, http: Http) -> None:
        self._url = f"{url.rstrip('/')}/"
        self._http = http
        self._cookies: dict[str, str] = {}

    def get(self, path: str) -> Answered:
        """Open a page; a redirect is a response too."""
        return self._call("GET", path, b"")

    def log_in(self, who: Stranger) -> None:
        """Log in by the server's own form.

        Raises
        ------
        Misconfigured
            If the server does not know this name with this password.
        """
        link = _LOG_IN.search(self.get("").body)
        path = link[1].decode("ascii") if link else "login/"
        self.get("admin/login/")  # sets the token that every form needs
        word = self._cookies.get("csrftoken", "")
        form = {"csrfmiddlewaretoken": word, "username": who.account,
                "password": who.secret}  # fmt: skip
        self._call("POST", path, urlencode(form).encode("ascii"))
        if "sessionid" not in self._cookies:
            raise Misconfigured(
                "Turkle does not let the other worker log in",
                why="the name or the password is not right",
                fix="give the password that this worker has in Turkle",
            )

    def _call(self, method: str, path: str, body: bytes) -> Answered:
        held = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        url = urljoin(self._url, path)
        headers = {"cookie": held, "referer": self._url,
                   "content-type": "application/x-www-form-urlencoded"}  # fmt: skip
        answered = self._http.call(method, url, headers=headers, body=body)
        self._cookies.update(answered.cookies)
        return answered


def try_pages(
    url: str, http: Http, batch: int, name: str, other: Stranger
) -> Iterator[Tried]:
    """Try to find, preview and take a batch as another worker and as nobody.

    Parameters
    ----------
    url : str
    http : Http
    batch : int
    name : str
        The batch's name, which its task shows.
    other : Stranger
        Used only if a password is known.
    """
    nobody = Visitor(url, http)
    yield from _try_as(nobody, _NOBODY, batch, name)
    if other.secret:
        visitor = Visitor(url, http)
        visitor.log_in(other)
        yield from _try_as(visitor, "the other worker", batch, name)


def _try_as(visitor: Visitor, who: str, batch: int, name: str) -> Iterator[Tried]:
    home = visitor.get("")
    attempt = f"{who} looks for it among the work that there is"
    listed = f"/batch/{batch}/".encode() in home.body or name.encode() in home.body
    yield Tried(Wall.BINDING, not listed, attempt)
    for wall, verb in ((Wall.PREVIEW, "preview"), (Wall.BINDING, "accept")):
        page = visitor.get(f"batch/{batch}/{verb}_next_task/")
        led = bool(_TASK.search(page.headers.get("location", "")))
        shown = name.encode() in page.body
        yield Tried(wall, not led and not shown, f"{who} tries to {verb} it")
