"""What is asked of a Label Studio server: its REST interface, nothing of its pages."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

import jwt

from connectors.http.client import Http
from connectors.http.rest import Rest, Told

PAGE: Final = 100
_MOST_PAGES: Final = 10_000
_LARGEST_PAGE: Final = 12_800


class Api:
    """Calls to one server.

    Parameters
    ----------
    url : str
        Where the server's pages begin.
    token : str
        Sent in a header, or once in a while to buy another; never in an address.
    http : Http
    clock : callable
        () -> seconds, monotonic.

    Raises
    ------
    Misconfigured
        A URL that must not be called.
    """

    def __init__(
        self,
        url: str,
        token: str,
        http: Http,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._access = Access(f"{url.rstrip('/')}/api/", token, http, clock)

    def project(self, title: str) -> dict[str, Any] | None:
        """Find the oldest project of a title: its id, title and labelling config."""
        query = urlencode({"include": "id,title,label_config", "page_size": PAGE})
        for page in range(1, _MOST_PAGES):
            told = self._thing("GET", f"projects/?{query}&ordering=id&page={page}")
            for one in self._list(told.get("results")):
                if one.get("title") == title:
                    return one
            if not told.get("next"):
                break
        return None

    def make_project(self, title: str, config: str) -> int:
        """Make a project; asked again, Label Studio makes a second one."""
        told = {"title": title, "label_config": config, "show_skip_button": True}
        return int(self._thing("POST", "projects/", told)["id"])

    def change_project(self, number: int, config: str) -> None:
        """Give a project another labelling config."""
        self._ask("PATCH", f"projects/{number}/", {"label_config": config})

    def load(self, project: int, tasks: Sequence[Mapping[str, Any]]) -> None:
        """Import tasks; asked again, Label Studio makes second ones."""
        self._ask("POST", f"projects/{project}/import", tasks)

    def named(self, project: int, column: str, value: str) -> Iterator[dict[str, Any]]:
        """Give the tasks with a text in a column of their data, oldest first."""
        wanted = {"filter": f"filter:tasks:data.{column}", "operator": "equal",
                  "type": "String", "value": value}  # fmt: skip
        for page in range(1, _MOST_PAGES):
            found, total = self._tasks(project, [wanted], "tasks:id", page, PAGE)
            yield from found
            if page * PAGE >= total:  # past the last page stands a 404
                return

    def behind(self, project: int, after: int) -> tuple[list[dict[str, Any]], bool]:
        """Give a page of the tasks behind an id, oldest first; whether there are more.

        By number of the page, one that is deleted meanwhile would have others passed
        over.
        """
        wanted = {"filter": "filter:tasks:id", "operator": "greater",
                  "type": "Number", "value": after}  # fmt: skip
        found, total = self._tasks(project, [wanted], "tasks:id", 1, PAGE)
        return found, len(found) < total

    def changed(
        self, project: int, since: datetime
    ) -> tuple[list[dict[str, Any]], bool]:
        """Give tasks that changed at a moment or later, and whether there may be more.

        They come in the order of their changes, so that the last one's moment begins
        the next call; more of one moment than fit a page widen the page.
        """
        moment = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        wanted = {"filter": "filter:tasks:updated_at", "operator": "greater_or_equal",
                  "type": "Datetime", "value": moment}  # fmt: skip
        size = PAGE
        while True:
            found, total = self._tasks(project, [wanted], "tasks:updated_at", 1, size)
            if len(found) >= total:
                return found, False
            if moment_of(found[-1].get("updated_at")) != since or size > _LARGEST_PAGE:
                return found, True
            size *= 2

    def annotation(self, number: int) -> dict[str, Any] | None:
        """Read one annotation whole; None for one that is gone.

        Raises
        ------
        Rejected
            It is larger than an answer may be.
        """
        told = self._ask("GET", f"annotations/{number}/", missing=True)
        return None if told is None else self._access.rest().thing(told)

    def blank(self, number: int, data: Mapping[str, Any]) -> None:
        """Replace the data of a task; one that is gone already is left gone."""
        self._ask("PATCH", f"tasks/{number}/", {"data": data}, missing=True)

    def delete(self, number: int) -> None:
        """Delete a task and its annotations; gone already is no error."""
        self._ask("DELETE", f"tasks/{number}/", missing=True)

    def hooks(self, project: int) -> list[dict[str, Any]]:
        """Give the webhooks of a project."""
        return self._list(self._ask("GET", f"webhooks/?project={project}"))

    def make_hook(self, told: Mapping[str, Any]) -> None:
        """Make a webhook."""
        self._ask("POST", "webhooks/", told)

    def close(self) -> None:
        """Close what is kept open."""
        self._access.close()

    def _tasks(
        self,
        project: int,
        wanted: Sequence[Mapping[str, object]],
        order: str,
        page: int,
        size: int,
    ) -> tuple[list[dict[str, Any]], int]:
        query = {"filters": {"conjunction": "and", "items": wanted},
                 "ordering": [order]}  # fmt: skip
        asked = urlencode({
            "project": project,
            "page": page,
            "page_size": size,
            "fields": "all",
            "include": "id,meta,updated_at,annotations",  # without what is shown
            "query": json.dumps(query),
        })  # fmt: skip
        told = self._thing("GET", f"tasks?{asked}")
        return self._list(told.get("tasks")), int(told.get("total") or 0)

    def _ask(
        self,
        method: str,
        path: str,
        told: Told | None = None,
        *,
        missing: bool = False,
    ) -> object:
        return self._access.rest().ask(method, path, told, missing=missing)

    def _thing(
        self, method: str, path: str, told: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        return self._access.rest().thing(self._ask(method, path, told))

    def _list(self, told: object) -> list[dict[str, Any]]:
        rest = self._access.rest()
        if not isinstance(told, list):
            raise rest.strange()
        return [rest.thing(one) for one in told]


def moment_of(text: object) -> datetime | None:
    """Read a moment as Label Studio writes it; None for what is none."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found.astimezone(UTC) if found.tzinfo is not None else None


SERVER: Final = "Label Studio"
_SHORTEST: Final = 10.0


class Access:
    """Calls to one server that carry a token which holds.

    Parameters
    ----------
    base : str
        Where the server's interface begins, with a slash at the end.
    token : str
        Legacy token, or personal access token.
    http : Http
    clock : callable
        () -> seconds, monotonic.

    Raises
    ------
    Misconfigured
        A URL that must not be called.
    """

    def __init__(
        self, base: str, token: str, http: Http, clock: Callable[[], float]
    ) -> None:
        self._base = base
        self._http = http
        self._clock = clock
        self._lock = threading.Lock()
        self._until = float("inf")
        self._personal = token if token.count(".") == 2 else ""
        self._rest = Rest(base, {"authorization": f"Token {token}"}, http, SERVER)
        if self._personal:
            self._until = float("-inf")

    def rest(self) -> Rest:
        """Give the client for the next call.

        Raises
        ------
        TryLater, Misconfigured
            No access token can be had.
        """
        with self._lock:
            if self._clock() >= self._until:
                self._renew()
            return self._rest

    def _renew(self) -> None:
        plain = Rest(self._base, {}, self._http, SERVER)
        told = plain.ask("POST", "token/refresh/", {"refresh": self._personal})
        access = plain.thing(told).get("access")
        try:
            # whether it is genuine is the server's to judge; we ask how long it lasts
            said = jwt.decode(str(access), options={"verify_signature": False})
            lasts = float(said["exp"]) - float(said["iat"])
        except (jwt.PyJWTError, LookupError, TypeError, ValueError):
            raise plain.strange() from None
        who = {"authorization": f"Bearer {access}"}
        self._rest = Rest(self._base, who, self._http, SERVER)
        self._until = self._clock() + max(lasts / 2, _SHORTEST)

    def close(self) -> None:
        """Close what is kept open."""
        self._http.close()
