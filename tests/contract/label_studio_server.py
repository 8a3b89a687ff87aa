"""A small Label Studio of our own: what the connector asks of one, with its habits.

Held against the real server by one suite (``label_studio_suite``): both pass it.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt

from tests.contract.receiver import served

LEGACY = "0123456789abcdef0123456789abcdef01234567"
SECRET = "s" * 32
PERSONAL = jwt.encode({"token_type": "refresh", "user_id": "1"}, SECRET)
_PLACE = re.compile(r"/api/([a-z]+)/(?:(\d+)/(?:(import|annotations)/?)?)?")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")

Fault = Callable[[str, str], "tuple[int, dict[str, str]] | None"]
"""(method, path) -> status and headers instead of an answer; 0 cuts the line."""


@dataclass
class World:
    """What the server holds."""

    url: str = ""
    token: str = LEGACY
    legacy: bool = True
    lasts: float = 300.0
    projects: dict[int, dict[str, Any]] = field(default_factory=dict)
    tasks: dict[int, dict[str, Any]] = field(default_factory=dict)
    annotations: dict[int, dict[str, Any]] = field(default_factory=dict)
    webhooks: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    bought: int = 0
    before: Fault = lambda method, path: None
    after: Fault = lambda method, path: None
    lock: threading.RLock = field(default_factory=threading.RLock)
    _at: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> str:
        self._at += timedelta(microseconds=1)
        return self._at.isoformat().replace("+00:00", "Z")

    def pass_time(self, seconds: float) -> None:
        self._at += timedelta(seconds=seconds)

    def number(self) -> int:
        return 1 + max((0, *self.projects, *self.tasks, *self.annotations))

    # Each of these answers as (status, JSON).

    def who(self, header: str) -> bool:
        kind, _, word = header.partition(" ")
        if kind == "Token":
            return self.legacy and word == LEGACY
        try:
            said = jwt.decode(
                word, SECRET, algorithms=["HS256"], options={"verify_exp": False}
            )
        except jwt.PyJWTError:
            return False
        return kind == "Bearer" and said["token_type"] == "access"

    def refresh(self, told: Any) -> tuple[int, Any]:
        if told.get("refresh") != PERSONAL:
            return 401, {"detail": "Token is invalid", "code": "token_not_valid"}
        self.bought += 1
        said = {"token_type": "access", "iat": 1_000, "exp": 1_000 + self.lasts}
        return 200, {"access": jwt.encode(said, SECRET)}

    def list_projects(self, query: dict[str, str]) -> tuple[int, Any]:
        size, page = int(query.get("page_size", 30)), int(query.get("page", 1))
        every = sorted(self.projects.values(), key=lambda one: one["id"])
        part = every[(page - 1) * size : page * size]
        more = "next" if page * size < len(every) else None
        return 200, {"count": len(every), "next": more, "results": part}

    def add_project(self, told: Any) -> tuple[int, Any]:
        if not 3 <= len(told["title"]) <= 50:
            return 400, {"validation_errors": {"title": ["3 to 50 characters"]}}
        number = self.number()
        self.projects[number] = {"id": number, **told}
        return 201, self.projects[number]

    def load(self, project: int, told: Any) -> tuple[int, Any]:
        if project not in self.projects:
            return 404, {}
        for one in told:
            number = self.number()
            self.tasks[number] = {
                "id": number, "project": project, "meta": {}, **one,
                "updated_at": self.now(),
            }  # fmt: skip
        return 201, {"task_count": len(told)}

    def whole(self, task: dict[str, Any]) -> dict[str, Any]:
        mine = [a for a in self.annotations.values() if a["task"] == task["id"]]
        return {**task, "annotations": mine}

    def list_tasks(self, query: dict[str, str]) -> tuple[int, Any]:
        project = int(query["project"])
        if project not in self.projects:
            return 404, {}
        asked = json.loads(query.get("query", "{}"))
        found = [self.whole(t) for t in self.tasks.values() if t["project"] == project]
        for one in asked.get("filters", {}).get("items", ()):
            column = one["filter"].removeprefix("filter:tasks:")
            if column == "updated_at":
                assert _MOMENT.fullmatch(one["value"]), "the server fails over others"
                since = datetime.fromisoformat(one["value"])
                found = [
                    t for t in found if datetime.fromisoformat(t["updated_at"]) >= since
                ]
            elif column == "id":
                found = [t for t in found if t["id"] > one["value"]]
            else:
                name = column.removeprefix("data.")
                found = [t for t in found if t["data"].get(name) == one["value"]]
        order = asked.get("ordering", ["tasks:id"])[0].removeprefix("tasks:")
        found.sort(key=lambda t: (t[order], t["id"]))
        size, page = int(query.get("page_size", 100)), int(query.get("page", 1))
        if page > 1 and (page - 1) * size >= len(found):
            return 404, {"detail": "Invalid page."}
        part = found[(page - 1) * size : page * size]
        if "include" in query:
            names = query["include"].split(",")
            part = [{n: t[n] for n in names} for t in part]
            for one in part:
                one["annotations"] = [
                    {"id": a["id"], "updated_at": a["updated_at"]}
                    for a in one["annotations"]
                ]
        return 200, {"total": len(found), "tasks": part}

    def annotate(self, task: int, told: Any) -> tuple[int, Any]:
        number = self.number()
        self.annotations[number] = {
            "id": number, "task": task, "was_cancelled": False, **told,
            "updated_at": self.now(),
        }  # fmt: skip
        self.tasks[task]["updated_at"] = self.now()
        return 201, self.annotations[number]

    def delete(self, task: int) -> tuple[int, Any]:
        if self.tasks.pop(task, None) is None:
            return 404, {}
        self.annotations = {
            n: a for n, a in self.annotations.items() if a["task"] != task
        }
        return 204, None

    def change(self, kind: str, number: int, told: Any) -> tuple[int, Any]:
        place = {"tasks": self.tasks, "annotations": self.annotations,
                 "projects": self.projects}[kind]  # fmt: skip
        if number not in place:
            return 404, {}
        place[number] |= {**told, "updated_at": self.now()}
        if kind == "annotations":
            self.tasks[place[number]["task"]]["updated_at"] = self.now()
        return 200, place[number]

    def answer(
        self, method: str, kind: str, number: int, under: str, query: dict[str, str],
        told: Any,
    ) -> tuple[int, Any]:  # fmt: skip
        match method, kind, bool(number), under:
            case "GET", "version", _, _:
                return 200, {"release": "1.23.2", "edition": "Community"}
            case "GET", "projects", False, _:
                return self.list_projects(query)
            case "POST", "projects", False, _:
                return self.add_project(told)
            case "POST", "projects", True, "import":
                return self.load(number, told)
            case "GET", "tasks", False, _:
                return self.list_tasks(query)
            case "POST", "tasks", True, "annotations":
                return self.annotate(number, told)
            case "DELETE", "tasks", True, "":
                return self.delete(number)
            case "DELETE", "projects", True, "":
                del self.projects[number]
                return 204, None
            case "PATCH", ("tasks" | "annotations" | "projects"), True, "":
                return self.change(kind, number, told)
            case "GET", "annotations", True, "":
                found = self.annotations.get(number)
                return (404, {}) if found is None else (200, found)
            case "GET", "webhooks", False, _:
                mine = [
                    w for w in self.webhooks if w["project"] == int(query["project"])
                ]
                return 200, mine
            case "POST", "webhooks", False, _:
                self.webhooks.append(told)
                return 201, told
        return 404, {}


@contextmanager
def label_studio() -> Iterator[World]:
    world = World()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            parts = urlsplit(self.path)
            size = int(self.headers.get("content-length", "0"))
            body = self.rfile.read(size)
            told = json.loads(body) if body else {}
            query = {name: last[-1] for name, last in parse_qs(parts.query).items()}
            with world.lock:
                world.asked.append((self.command, parts.path))
                fault = world.before(self.command, parts.path)
                if fault is None:
                    status, said = self.act(parts.path, query, told)
                    fault = world.after(self.command, parts.path)
            if fault is not None:
                status, headers = fault
                said = None
            else:
                headers = {}
            if not status:
                self.close_connection = True
                return
            self.tell(status, headers, said)

        def act(self, path: str, query: dict[str, str], told: Any) -> tuple[int, Any]:
            if path == "/api/token/refresh/":
                return world.refresh(told)
            if not world.who(self.headers.get("authorization", "")):
                return 401, {"detail": "Authentication credentials were not provided."}
            found = _PLACE.fullmatch(path if path.endswith("/") else f"{path}/")
            if found is None:
                return 404, {}
            kind, number, under = found[1], int(found[2] or 0), found[3] or ""
            return world.answer(self.command, kind, number, under, query, told)

        def tell(self, status: int, headers: dict[str, str], said: Any) -> None:
            body = b"" if said is None else json.dumps(said).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PATCH = do_DELETE = handle_any  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with served(Handler) as world.url:
        yield world
