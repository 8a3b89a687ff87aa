"""The REST interface of a Label Studio server, as far as we use it."""

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
from connectors.http.rest import Payload, Rest

PAGE: Final = 100
_MOST_PAGES: Final = 10_000
_LARGEST_PAGE: Final = 12_800


class Api:
    """Calls to one server.

    Parameters
    ----------
    url : str
        Base URL of the server's pages.
    token : str
        Sent in a header, or exchanged for a short-lived one; never in an address.
    http : Http
    clock : callable
        () -> seconds, monotonic.

    Raises
    ------
    Misconfigured
        If the URL must not be called.
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
        """Return the oldest project with a title: its id, title and labelling config."""
        query = urlencode({"include": "id,title,label_config", "page_size": PAGE})
        for page in range(1, _MOST_PAGES):
            page_of = self._object("GET", f"projects/?{query}&ordering=id&page={page}")
            for project in self._list(page_of.get("results")):
                if project.get("title") == title:
                    return project
            if not page_of.get("next"):
                break
        return None

    def make_project(self, title: str, config: str) -> int:
        """Create a project; if repeated, Label Studio creates a second one."""
        project = {"title": title, "label_config": config, "show_skip_button": True}
        return int(self._object("POST", "projects/", project)["id"])

    def change_project(self, number: int, config: str) -> None:
        """Replace a project's labelling config."""
        self._ask("PATCH", f"projects/{number}/", {"label_config": config})

    def load(self, project: int, tasks: Sequence[Mapping[str, Any]]) -> None:
        """Import tasks; if repeated, Label Studio creates duplicates."""
        self._ask("POST", f"projects/{project}/import", tasks)

    def named(self, project: int, column: str, value: str) -> Iterator[dict[str, Any]]:
        """Yield the tasks with a text in a column of their data, oldest first."""
        wanted = {"filter": f"filter:tasks:data.{column}", "operator": "equal",
                  "type": "String", "value": value}  # fmt: skip
        for page in range(1, _MOST_PAGES):
            found, total = self._tasks(project, [wanted], "tasks:id", page, PAGE)
            yield from found
            if page * PAGE >= total:  # the page after the last is a 404
                return

    def behind(self, project: int, after: int) -> tuple[list[dict[str, Any]], bool]:
        """Return a page of the tasks after an id, oldest first; and whether more follow.

        Pages go by id: by page number, deletions meanwhile would make it skip tasks.
        """
        wanted = {"filter": "filter:tasks:id", "operator": "greater",
                  "type": "Number", "value": after}  # fmt: skip
        found, total = self._tasks(project, [wanted], "tasks:id", 1, PAGE)
        return found, len(found) < total

    def changed(
        self, project: int, since: datetime
    ) -> tuple[list[dict[str, Any]], bool]:
        """Return tasks changed at or after a moment, and whether there may be more.

        They are ordered by their changes, so that the last one's moment starts the next
        call; if more changed at one moment than fit a page, the page is enlarged.
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
        """Return one complete annotation; None if it is gone.

        Raises
        ------
        Rejected
            If it is larger than an answer may be.
        """
        annotation = self._ask("GET", f"annotations/{number}/", missing=True)
        return None if annotation is None else self._access.rest().as_object(annotation)

    def blank(self, number: int, data: Mapping[str, Any]) -> None:
        """Replace the data of a task; no error if it is gone already."""
        self._ask("PATCH", f"tasks/{number}/", {"data": data}, missing=True)

    def delete(self, number: int) -> None:
        """Delete a task and its annotations; no error if it is gone already."""
        self._ask("DELETE", f"tasks/{number}/", missing=True)

    def hooks(self, project: int) -> list[dict[str, Any]]:
        """Return the webhooks of a project."""
        return self._list(self._ask("GET", f"webhooks/?project={project}"))

    def make_hook(self, hook: Mapping[str, Any]) -> None:
        """Create a webhook."""
        self._ask("POST", "webhooks/", hook)

    def close(self) -> None:
        """Close idle connections."""
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
            "include": "id,meta,updated_at,annotations",  # without the fields' content
            "query": json.dumps(query),
        })  # fmt: skip
        response = self._object("GET", f"tasks?{asked}")
        return self._list(response.get("tasks")), int(response.get("total") or 0)

    def _ask(
        self,
        method: str,
        path: str,
        payload: Payload | None = None,
        *,
        missing: bool = False,
    ) -> object:
        return self._access.rest().ask(method, path, payload, missing=missing)

    def _object(
        self, method: str, path: str, payload: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        return self._access.rest().as_object(self._ask(method, path, payload))

    def _list(self, response: object) -> list[dict[str, Any]]:
        rest = self._access.rest()
        if not isinstance(response, list):
            raise rest.unexpected()
        return [rest.as_object(item) for item in response]


def moment_of(text: object) -> datetime | None:
    """Parse a moment as Label Studio writes it; None if it is not one."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found.astimezone(UTC) if found.tzinfo is not None else None


SERVER: Final = "Label Studio"
_SHORTEST: Final = 10.0


class Access:
    """Authenticated calls to one server, with a token that is renewed.

    Parameters
    ----------
    base : str
        Base URL of the server's interface, with a trailing slash.
    token : str
        Legacy token, or personal access token.
    http : Http
    clock : callable
        () -> seconds, monotonic.

    Raises
    ------
    Misconfigured
        If the URL must not be called.
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
        """Return the client for the next call.

        Raises
        ------
        TryLater, Misconfigured
            If no access token can be obtained.
        """
        with self._lock:
            if self._clock() >= self._until:
                self._renew()
            return self._rest

    def _renew(self) -> None:
        plain = Rest(self._base, {}, self._http, SERVER)
        response = plain.ask("POST", "token/refresh/", {"refresh": self._personal})
        access = plain.as_object(response).get("access")
        try:
            # the server verifies it; we only need its expiry
            claims = jwt.decode(str(access), options={"verify_signature": False})
            lasts = float(claims["exp"]) - float(claims["iat"])
        except (jwt.PyJWTError, LookupError, TypeError, ValueError):
            raise plain.unexpected() from None
        headers = {"authorization": f"Bearer {access}"}
        self._rest = Rest(self._base, headers, self._http, SERVER)
        self._until = self._clock() + max(lasts / 2, _SHORTEST)

    def close(self) -> None:
        """Close idle connections."""
        self._http.close()
