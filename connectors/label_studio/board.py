"""Two projects of a Label Studio server: the tasks, and what was withdrawn.

Label Studio has no idempotency keys, so each task carries the name of its offer, which
is searched for before tasks are imported. A withdrawn offer leaves its name, and
nothing else, in a second project where nobody works.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from connectors.base import Handle, Listed, Posted, Rejected
from connectors.http.client import within
from connectors.label_studio.api import Api
from connectors.tickets import opaque

_CLOSED: Final = (
    '<View><Text name="gone" value="$offer"/><Choices name="none" toName="gone">'
    '<Choice value="nothing to do"/></Choices></View>'
)
_IMPORT: Final = 8 << 20
"""Size of one import in characters, if it has more than one task."""


@dataclass(frozen=True)
class BoardTask:
    """One task of the server.

    Attributes
    ----------
    token : str
        Opaque; unique within its offer.
    account : str
        The account that the offer is for.
    shown : Mapping
        Columns of the task's data, as named by its labelling config.
    """

    token: str
    account: str
    shown: Mapping[str, Any]


class Board:
    """The tasks of one connector on one server.

    Parameters
    ----------
    api : Api
    key : bytes
        At least 32 bytes.
    title : str
        Title of the projects; a word derived from the key is appended, so that two
        dispatchers can share a server without sharing a project.
    config : str
        Labelling config of the tasks.
    """

    def __init__(self, api: Api, key: bytes, title: str, config: str) -> None:
        self._api = api
        self._key = key
        self._config = config
        mark = opaque(key, "project")[:8]
        self._open = f"{title} {mark}"
        self._closed = f"{title} {mark} (closed)"

    def put(self, key: str, tasks: Sequence[BoardTask]) -> Handle:
        """Import the offer's missing tasks, unless the offer was withdrawn."""
        name = _name(key)
        if self._is_closed(name):
            return Handle(key, name)
        project = self._made(self._open, self._config)
        there = [_meta(one).get("task") for one in self._of(project, name)]
        missing = [
            {"data": {"offer": name, "task": one.token, **one.shown},
             "meta": {"key": key, "of": len(tasks), "task": one.token,
                      "account": one.account}}
            for one in tasks
            if one.token not in there
        ]  # fmt: skip
        for part in within(missing, _size, _IMPORT):
            self._api.load(project, part)
        return Handle(key, name)

    def find(self, key: str) -> Handle | None:
        """Look for the tasks of an offer; an incomplete import does not count."""
        name = _name(key)
        if self._is_closed(name):
            return Handle(key, name)
        found = self._api.project(self._open)
        tasks = [] if found is None else list(self._of(int(found["id"]), name))
        wanted = _meta(tasks[0]).get("of") if tasks else 1
        if isinstance(wanted, int) and len(tasks) < wanted:
            return None
        return Handle(key, name)

    def withdraw(self, key: str, blank: Mapping[str, Any]) -> None:
        """Delete the tasks of an offer; those with an answer are only blanked.

        Their answers may not have been collected yet.
        """
        name = _name(key)
        if not self._is_closed(name):
            closed = self._made(self._closed, _CLOSED)
            self._api.load(closed, [{"data": {"offer": name}}])
        found = self._api.project(self._open)
        if found is None:
            return
        for task in list(self._of(int(found["id"]), name)):
            if task.get("annotations"):
                token = _meta(task).get("task", "")
                data = {"offer": name, "task": token, **blank}
                self._api.blank(int(task["id"]), data)
            else:
                self._api.delete(int(task["id"]))

    def listing(self, cursor: str) -> Listed:
        """Return the offers of a page of tasks; open are those still to be done.

        Raises
        ------
        Rejected
            If the cursor is not ours.
        """
        if cursor and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
            raise Rejected("the cursor is not one of this connector")
        found = self._api.project(self._open)
        if found is None:
            return Listed()
        tasks, more = self._api.behind(int(found["id"]), int(cursor or "0"))
        open_: dict[str, bool] = {}
        for task in tasks:
            key = _meta(task).get("key")
            if isinstance(key, str) and 0 < len(key) <= 200 and key.isprintable():
                open_[key] = open_.get(key, False) or not task.get("annotations")
        posted = tuple(
            Posted(key, _name(key), open=left) for key, left in open_.items()
        )
        return Listed(posted, str(int(tasks[-1]["id"])) if more and tasks else "")

    def forget(self, token: str) -> None:
        """Delete all tasks of a token, and their answers."""
        found = self._api.project(self._open)
        if found is None:
            return
        for task in list(self._api.named(int(found["id"]), "task", token)):
            self._api.delete(int(task["id"]))

    def project(self) -> int | None:
        """Return the project with the tasks; None if there is none yet."""
        found = self._api.project(self._open)
        return None if found is None else int(found["id"])

    def changed(
        self, project: int, since: datetime
    ) -> tuple[list[dict[str, Any]], bool]:
        """Return what changed, as :meth:`Api.changed` does."""
        return self._api.changed(project, since)

    def _is_closed(self, name: str) -> bool:
        found = self._api.project(self._closed)
        return found is not None and any(self._of(int(found["id"]), name))

    def _made(self, title: str, config: str) -> int:
        found = self._api.project(title)
        if found is None:
            return self._api.make_project(title, config)
        if found.get("label_config") != config:
            self._api.change_project(int(found["id"]), config)
        return int(found["id"])

    def _of(self, project: int, name: str) -> Iterator[dict[str, Any]]:
        return self._api.named(project, "offer", name)


def _size(task: Mapping[str, Any]) -> int:
    return sum(len(str(column)) for column in task["data"].values())


def _name(key: str) -> str:
    return f"offer-{key}"


def _meta(task: Mapping[str, Any]) -> Mapping[str, Any]:
    found = task.get("meta")
    return found if isinstance(found, dict) else {}
