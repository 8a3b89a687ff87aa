"""What is asked of a Turkle server: its REST interface, nothing of its pages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from connectors.errors import Rejected, TryLater
from connectors.http.client import Http
from connectors.http.rest import Rest

_MOST_PAGES: Final = 10_000
_WORD: Final = re.compile(r"[A-Za-z0-9_]+")  # what the look-up by name takes


class Api:
    """Calls to one server.

    Parameters
    ----------
    url : str
        Where the server's pages begin.
    token : str
        Of a superuser; sent in a header only.
    http : Http

    Raises
    ------
    Misconfigured
        A URL that must not be called.
    """

    def __init__(self, url: str, token: str, http: Http) -> None:
        who = {"authorization": f"TOKEN {token}"}
        self._rest = Rest(f"{url.rstrip('/')}/api/", who, http, "Turkle")

    def user(self, name: str) -> int:
        """Find the number of a worker by the name that Turkle knows, exactly spelt.

        Raises
        ------
        Rejected
            Turkle knows no active worker of this name.
        """
        if _WORD.fullmatch(name):
            found = self._rest.ask(
                "GET", f"users/username/{quote(name)}/", missing=True
            )
            users = iter(() if found is None else (self._rest.thing(found),))
        else:
            users = self.every("users")
        for user in users:
            if user["username"] == name and user["is_active"]:
                return int(user["id"])
        raise Rejected(
            "Turkle has no active worker of this name",
            why="work is offered to accounts that exist there",
            fix="add the worker in Turkle, spelt as in `dispatcher workers list`",
        )

    def every(self, kind: str) -> Iterator[dict[str, Any]]:
        """Give all projects, batches (closed ones too) or users."""
        for number in range(1, _MOST_PAGES):
            results, more = self.page(kind, number)
            yield from results
            if not more:
                return

    def read(self, kind: str, number: str) -> dict[str, Any] | None:
        """Read one project or batch; None for one that is gone."""
        told = self._rest.ask("GET", f"{kind}/{quote(number, safe='')}/", missing=True)
        return None if told is None else self._rest.thing(told)

    def page(self, kind: str, number: int) -> tuple[list[dict[str, Any]], bool]:
        """Give one page, and whether one follows; one past the last is empty."""
        told = self._rest.ask("GET", f"{kind}/?page={number}", missing=True)
        if told is None:
            return [], False
        if isinstance(told, list):  # a server without pages
            return [self._rest.thing(one) for one in told], False
        page_of = self._rest.thing(told)
        return list(page_of["results"]), bool(page_of.get("next"))

    def create(self, kind: str, told: Mapping[str, Any]) -> dict[str, Any]:
        """Create a project or a batch; Turkle makes a second one if asked again."""
        return self._rest.thing(self._rest.ask("POST", f"{kind}/", told))

    def change(self, kind: str, number: int, **told: object) -> None:
        """Change single fields; one that is gone already is left gone.

        Raises
        ------
        TryLater
            The server took it and says something else.
        """
        said = self._rest.ask("PATCH", f"{kind}/{number}/", told, missing=True)
        if said is not None and not told.items() <= self._rest.thing(said).items():
            raise TryLater(
                f"Turkle does not keep what becomes of {kind}",
                why="its answer differs from what was set",
                fix="look whether it is open there; it is tried again by itself",
            )

    def permit(self, kind: str, number: int, user: int) -> None:
        """Let one worker in and nobody else, and read it back.

        Raises
        ------
        TryLater
            The server took it and says something else.
        """
        wanted = {"users": [user], "groups": []}
        path = f"{kind}/{number}/permissions/"
        self._rest.ask("PUT", path, wanted)
        read = self._rest.thing(self._rest.ask("GET", path))
        again = self._rest.thing(self._rest.ask("GET", f"{kind}/{number}/"))
        if read != wanted or not again.get("custom_permissions"):
            raise TryLater(
                "Turkle does not keep who may work",
                why="the permissions read back differ from those set",
                fix="see who else changes permissions at the Turkle server",
            )

    def permitted(self, kind: str, number: int) -> list[int]:
        """Read who is let in one by one; the number 0 stands for a group."""
        read = self._rest.thing(self._rest.ask("GET", f"{kind}/{number}/permissions/"))
        whole = self._rest.thing(self._rest.ask("GET", f"{kind}/{number}/"))
        if not whole.get("custom_permissions") or read.get("groups"):
            return [0]
        return [int(one) for one in read.get("users", ())]

    def close(self) -> None:
        """Close what is kept open."""
        self._rest.close()
