"""A thin client of the REST API: addresses in, typed documents out.

>>> from dispatcher.client import Client
>>> with Client("http://127.0.0.1:8420", token) as api:  # doctest: +SKIP
...     api.get("/status", documents.Status).needs_you

Every address of the API is called by :meth:`Client.get`, :meth:`Client.post` and
:meth:`Client.put` with the document that it returns (:mod:`dispatcher.surfaces.api.documents`).
Acts carry an ``Idempotency-Key``, so that one may be sent again when its answer was lost.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import httpx2
from pydantic import TypeAdapter

from dispatcher.surfaces.api import documents

T = TypeVar("T")
BASE: Final = "/api/v1"
LONG: Final = 120.0
MEDIA: Final = {".jsonl": "application/x-ndjson", ".csv": "text/csv"}


class ApiError(Exception):
    """A request that was refused.

    Attributes
    ----------
    problem : documents.Problem
        Why, and the way out.
    """

    def __init__(self, problem: documents.Problem) -> None:
        super().__init__(f"{problem.code}: {problem.detail} ({problem.fix})")
        self.problem = problem


class Client:
    """Calls the API in the name of one token.

    Parameters
    ----------
    url : str
        Address of the daemon's operators' server.
    token : str
    http : httpx2.Client, optional
        Another one than the client makes itself.
    """

    def __init__(
        self, url: str, token: str, *, http: httpx2.Client | None = None
    ) -> None:
        self._http = http or httpx2.Client(base_url=url, timeout=LONG)
        self._token = token

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._http.close()

    def get(self, path: str, returns: type[T], **query: str | int | bool) -> T:
        """Read a document.

        Raises
        ------
        ApiError
        """
        return self._document(self._send("GET", path, query), returns)

    def post(
        self,
        path: str,
        returns: type[T],
        body: Mapping[str, Any] | None = None,
        *,
        etag: str = "",
        **query: str | int | bool,
    ) -> T:
        """Act once, on what was read under an ETag where the address asks for one.

        Raises
        ------
        ApiError
            It is refused.
        """
        headers = _match(etag) if etag else {}
        sent = self._send("POST", path, query, json=body, headers=headers)
        return self._document(sent, returns)

    def etag(self, path: str) -> str:
        """Return the ETag of what is at a path now; ``*`` where nothing is yet.

        Raises
        ------
        ApiError
        """
        try:
            return self._send("GET", path, {}).headers["etag"]
        except ApiError as error:
            if error.problem.status == 404:
                return "*"
            raise

    def put(
        self, path: str, returns: type[T], body: Mapping[str, Any], *, etag: str
    ) -> T:
        """Edit what was read under an ETag; ``*`` makes what is not there."""
        sent = self._send("PUT", path, {}, json=body, headers=_match(etag))
        return self._document(sent, returns)

    def pages(self, path: str, of: type[T], **query: str | int | bool) -> Iterator[T]:
        """Yield all items of a list, part by part."""
        item_of = TypeAdapter(of)
        cursor: dict[str, str] = {}
        while True:
            part = self._send("GET", path, {**query, **cursor}).json()
            for item in part["items"]:
                yield item_of.validate_python(item, by_name=True)
            if part["next_cursor"] is None:
                return
            cursor = {"cursor": part["next_cursor"]}

    def load(self, run: str, file: Path, **query: str | bool) -> documents.Operation:
        """Send a file of records, in CSV or as lines of JSON, as a stream."""
        return self.send(f"/runs/{run}/records", file, documents.Operation, **query)

    def send(
        self, path: str, file: Path, returns: type[T], **query: str | int | bool
    ) -> T:
        """Send a file to any address that takes one, as a stream."""
        headers = {"Content-Type": MEDIA[file.suffix]}
        with file.open("rb") as stream:
            sent = self._send("POST", path, query, content=stream, headers=headers)
        return self._document(sent, returns)

    def wait(
        self,
        operation: documents.Operation,
        returns: type[T],
        *,
        pause: Callable[[float], object] | None = None,
        every: float = 0.5,
    ) -> T:
        """Wait for the end of an operation, and return its result.

        Raises
        ------
        ApiError
            It failed.
        RuntimeError
            The daemon ended while it worked.
        """
        while operation.state == "running":
            (pause or time.sleep)(every)
            operation = self.get(f"/operations/{operation.id}", documents.Operation)
        if operation.problem is not None:
            raise ApiError(operation.problem)
        if operation.state != "done":
            msg = f"operation {operation.id} was {operation.state}"
            raise RuntimeError(msg)
        return TypeAdapter(returns).validate_python(operation.result, by_name=True)

    def fetch(self, operation: documents.Operation, to: Path) -> None:
        """Write the file that an operation made, for its owner only."""
        to.touch(0o600, exist_ok=False)
        with (
            self._http.stream(
                "GET",
                f"{BASE}/operations/{operation.id}/content",
                headers=self._headers({}),
            ) as answer,
            to.open("wb") as file,
        ):
            if answer.status_code != 200:
                answer.read()
                raise _refused(answer)
            for piece in answer.iter_bytes():
                file.write(piece)

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        *,
        headers: Mapping[str, str] = {},
        **sent: Any,  # noqa: ANN401 - what httpx2 sends
    ) -> httpx2.Response:
        named = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in query.items()
        }
        own = {} if method != "POST" else {"Idempotency-Key": secrets.token_hex(16)}
        answer = self._http.request(
            method,
            BASE + path,
            params=named,
            headers=self._headers({**own, **headers}),
            **sent,
        )
        if answer.status_code >= 400:
            raise _refused(answer)
        return answer

    def _headers(self, more: Mapping[str, str]) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}", **more}

    def _document(self, answer: httpx2.Response, returns: type[T]) -> T:
        return TypeAdapter(returns).validate_python(answer.json(), by_name=True)


def _refused(answer: httpx2.Response) -> ApiError:
    return ApiError(documents.Problem.model_validate(answer.json()))


def _match(etag: str) -> dict[str, str]:
    """Header that an ETag goes by; ``*``: only what is not there is made."""
    return {"If-None-Match" if etag == "*" else "If-Match": etag}
