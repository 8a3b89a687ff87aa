"""The REST interface of a Turkle server, as far as we use it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from connectors.errors import Rejected, TryLater
from connectors.http.client import Http
from connectors.http.rest import Rest

_MOST_PAGES: Final = 10_000
_WORD: Final = re.compile(r"[A-Za-z0-9_]+")  # names that the search accepts


class Api:
    """Calls to one server.

    Parameters
    ----------
    url : str
        Base URL of the server's pages.
    token : str
        A superuser's token; sent in a header only.
    http : Http

    Raises
    ------
    Misconfigured
        If the URL must not be called.
    """

    def __init__(self, url: str, token: str, http: Http) -> None:
        who = {"authorization": f"TOKEN {token}"}
        self._rest = Rest(f"{url.rstrip('/')}/api/", who, http, "Turkle")

    def user(self, name: str) -> int:
        """Return the number of a worker by the exact name in Turkle.

        Raises
        ------
        Rejected
            If Turkle has no active worker of this name.
        """
        if _WORD.fullmatch(name):
            found = self._rest.ask(
                "GET", f"users/username/{quote(name)}/", missing=True
            )
            users = iter(() if found is None else (self._rest.as_object(found),))
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
        """Yield all projects, batches (closed ones too) or users."""
        for number in range(1, _MOST_PAGES):
            results, more = self.page(kind, number)
            yield from results
            if not more:
                return

    def read(self, kind: str, number: str) -> dict[str, Any] | None:
        """Return one project or batch; None if it is gone."""
        item = self._rest.ask("GET", f"{kind}/{quote(number, safe='')}/", missing=True)
        return None if item is None else self._rest.as_object(item)

    def page(self, kind: str, number: int) -> tuple[list[dict[str, Any]], bool]:
        """Return one page, and whether another follows; empty after the last."""
        response = self._rest.ask("GET", f"{kind}/?page={number}", missing=True)
        if response is None:
            return [], False
        if isinstance(response, list):  # a server without pages
            return [self._rest.as_object(one) for one in response], False
        page_of = self._rest.as_object(response)
        return list(page_of["results"]), bool(page_of.get("next"))

    def create(self, kind: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Create a project or a batch; if repeated, Turkle creates a second one."""
        return self._rest.as_object(self._rest.ask("POST", f"{kind}/", values))

    def change(self, kind: str, number: int, **values: object) -> None:
        """Change single fields; no error if it is gone already.

        Raises
        ------
        TryLater
            If the server accepted it but returns another value.
        """
        response = self._rest.ask("PATCH", f"{kind}/{number}/", values, missing=True)
        if (
            response is not None
            and not values.items() <= self._rest.as_object(response).items()
        ):
            raise TryLater(
                f"Turkle does not keep what becomes of {kind}",
                why="its answer differs from what was set",
                fix="look whether it is open there; it is tried again by itself",
            )

    def permit(self, kind: str, number: int, user: int) -> None:
        """Permit one worker and nobody else, and read it back.

        Raises
        ------
        TryLater
            If the server accepted it but returns another value.
        """
        wanted = {"users": [user], "groups": []}
        path = f"{kind}/{number}/permissions/"
        self._rest.ask("PUT", path, wanted)
        read = self._rest.as_object(self._rest.ask("GET", path))
        again = self._rest.as_object(self._rest.ask("GET", f"{kind}/{number}/"))
        if read != wanted or not again.get("custom_permissions"):
            raise TryLater(
                "Turkle does not keep who may work",
                why="the permissions read back differ from those set",
                fix="see who else changes permissions at the Turkle server",
            )

    def permitted(self, kind: str, number: int) -> list[int]:
        """Return the users permitted individually; the number 0 stands for a group."""
        read = self._rest.as_object(
            self._rest.ask("GET", f"{kind}/{number}/permissions/")
        )
        whole = self._rest.as_object(self._rest.ask("GET", f"{kind}/{number}/"))
        if not whole.get("custom_permissions") or read.get("groups"):
            return [0]
        return [int(one) for one in read.get("users", ())]

    def close(self) -> None:
        """Close idle connections."""
        self._rest.close()
