"""What a request may look like, and what is said about one that is refused (RFC 9457)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any, Final, NoReturn

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse

from dispatcher.core.errors import (
    AnotherLeads,
    Changed,
    Conflict,
    DispatcherError,
    Infeasible,
    Invalid,
    MarketUnavailable,
    NotFound,
    NotShipped,
    PastLimit,
    Refused,
    StaleLease,
    StoreEdited,
    StoreLocked,
    StoreUnreachable,
    StoreUnusable,
    Unfinished,
    Usage,
)

MEDIA: Final = "application/problem+json"
MOST_JSON: Final = 1 << 20
"""Most bytes of a body of JSON; files of records come as lines, of any number."""
DEEPEST: Final = 64
LONGEST_NUMBER: Final = 40

STATUS: Final[dict[type[DispatcherError], int]] = {
    Usage: 422,
    Invalid: 422,
    NotFound: 404,
    Conflict: 409,
    Changed: 412,
    Refused: 409,
    PastLimit: 409,
    Infeasible: 409,
    Unfinished: 409,
    MarketUnavailable: 502,
    # where this process is fenced, or has no database that it may trust
    AnotherLeads: 503,
    StaleLease: 503,
    NotShipped: 503,
    StoreEdited: 503,
    StoreLocked: 503,
    StoreUnreachable: 503,
    StoreUnusable: 503,
}
"""HTTP status of each kind of error; 500 of all others."""

_TITLES: Final = {
    400: "The request is malformed",
    401: "A valid token is needed",
    403: "The token does not permit this",
    404: "There is no such thing",
    405: "This address does not take that method",
    409: "The present state does not allow this",
    412: "It was changed meanwhile",
    413: "The body is too long",
    415: "The body is of another media type",
    421: "The API is not reached under this name",
    422: "The request cannot be processed",
    428: "If-Match is needed",
    429: "Too many attempts",
    500: "The program failed unexpectedly",
    502: "A market cannot be asked now",
    503: "The store cannot be used now",
}


class ProblemError(Exception):
    """A request that is refused by the API itself.

    Parameters
    ----------
    status : int
    detail : str
        What is wrong; never a value.
    fix : str
        What the caller can do about it.
    pointer : str, optional
        JSON pointer to the part of the body that is wrong.
    line : int, optional
        Line of the file that is wrong, from 1.
    headers : Mapping[str, str], optional
    """

    def __init__(
        self,
        status: int,
        detail: str,
        fix: str,
        *,
        pointer: str | None = None,
        line: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.fix = fix
        self.place = (
            {"pointer": pointer}
            if pointer is not None
            else {"line": str(line)}
            if line is not None
            else {}
        )
        self.headers = headers


class UntriableError(ProblemError):
    """A dry run of what cannot be tried: it would leave the store, or show a secret."""


def document(error: Exception) -> dict[str, Any]:
    """Describe an error as a problem document; no field value gets into it."""
    if isinstance(error, DispatcherError):
        # a resembling name may be the key of a record that the caller may not see
        offered, _, fix = error.fix.rpartition("? If not: ")
        status = next(
            (STATUS[kind] for kind in type(error).mro() if kind in STATUS), 500
        )
        return _document(
            status,
            error.what,
            error.code,
            fix=fix if offered.startswith("did you mean ") else error.fix,
            retryable=error.retryable,
            # where the store is and what its server says is for the machine's log
            why=error.why if status < 500 else "",
            facts=error.facts,
        )
    if isinstance(error, ProblemError):
        found = _document(error.status, error.detail, "E002", fix=error.fix)
        if error.place:
            found["errors"] = [{**error.place, "detail": error.detail}]
        return found
    if isinstance(error, RequestValidationError):
        return _document(
            422,
            "The request is not as the description of this operation says",
            "E003",
            fix="correct what `errors` names; see /api/v1/openapi.json",
            errors=[_located(one) for one in error.errors()],
        )
    if isinstance(error, HTTPException):
        fix = "see /api/v1/openapi.json for the addresses and methods"
        return _document(error.status_code, "", "E002", fix=fix)
    return _document(
        500,
        "",
        "E001",
        fix="the log of the daemon has the place in the code; please report it",
    )


def _document(
    status: int,
    detail: str,
    code: str,
    *,
    fix: str,
    retryable: bool = False,
    why: str = "",
    facts: Mapping[str, object] | None = None,
    errors: list[dict[str, str]] | None = None,
) -> dict[str, Any]:
    title = _TITLES.get(status, "The request failed")
    found: dict[str, Any] = {
        "type": f"/api/v1/errors/{code}",
        "title": title,
        "status": status,
        "detail": detail or title,
        "code": code,
        "fix": fix,
        "retryable": retryable,
    }
    if why:
        found["why"] = why
    if facts:
        found["facts"] = dict(facts)
    if errors:
        found["errors"] = errors
    return found


def _located(error: Mapping[str, Any]) -> dict[str, str]:
    """One finding of pydantic, without the input that it is about."""
    where, *path = (str(part) for part in error["loc"])
    if where == "body":
        steps = (part.replace("~", "~0").replace("/", "~1") for part in path)
        return {
            "pointer": "".join(f"/{part}" for part in steps),
            "detail": _said(error),
        }
    return {"parameter": ".".join(path) or where, "in": where, "detail": _said(error)}


def _said(error: Mapping[str, Any]) -> str:
    # A message of pydantic may quote what was given; that of a check of ours does not.
    kind = str(error["type"])
    bounds = {
        name: value
        for name, value in (error.get("ctx") or {}).items()
        if name in ("ge", "gt", "le", "lt", "min_length", "max_length", "expected")
    }
    said = kind.replace("_", " ")
    return (
        f"{said} ({', '.join(f'{k} {v}' for k, v in bounds.items())})"
        if bounds
        else said
    )


def respond(request: Request, error: Exception) -> JSONResponse:
    """Answer a request with the problem that an error is."""
    found = document(error)
    found["instance"] = getattr(request.state, "request_id", "")
    response = JSONResponse(found, found["status"], media_type=MEDIA)
    headers = getattr(request.state, "rate", {}) | (
        getattr(error, "headers", None) or {}
    )
    if found["status"] == 503:
        headers = {"retry-after": "5", **headers}
    for name, value in headers.items():
        response.headers[name] = value
    return response


# -- bodies of JSON ------------------------------------------------------------------------


class StrictRequest(Request):
    """A request whose body is JSON as everybody reads it, and not too long."""

    async def body(self) -> bytes:
        """Read the body, up to :data:`MOST_JSON` bytes."""
        if not hasattr(self, "_body"):
            parts, size = [], 0
            try:
                async for part in self.stream():
                    size += len(part)
                    if size > MOST_JSON:
                        raise ProblemError(
                            413,
                            f"the body has more than {MOST_JSON:,} bytes",
                            "load records as lines: POST /runs/{run}/records",
                        )
                    parts.append(part)
            except ClientDisconnect:
                raise ProblemError(400, "the body broke off", "send it again") from None
            self._body = b"".join(parts)
        return self._body

    async def json(self) -> Any:  # noqa: ANN401 - what JSON can be
        """Parse the body; see :func:`parse`."""
        if not hasattr(self, "_json"):
            self._json = parse(await self.body())
        return self._json


def parse(body: bytes) -> Any:  # noqa: ANN401 - what JSON can be
    """Parse JSON that has one meaning only.

    Raises
    ------
    ProblemError
        It is no JSON in UTF-8, is nested too deeply, has a number too long to be kept
        exactly, or names a key of one object twice.
    """
    _check_depth(body)
    try:
        found = json.loads(
            body.decode("utf-8"),
            object_pairs_hook=_without_doubles,
            parse_int=_int,
            parse_float=_float,
            parse_constant=_no_constant,
        )
    except (ValueError, RecursionError):
        raise ProblemError(
            400, "the body is no JSON in UTF-8", "send one JSON document"
        ) from None
    if not all(map(is_text, _strings(found))):
        raise ProblemError(
            400,
            "a text of the body has a NUL character or half of a character",
            "leave it out",
        )
    return found


def is_text(text: str) -> bool:
    """Whether a string can be stored: no NUL, and no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _strings(found: object) -> Iterator[str]:
    """Yield all texts of a parsed document."""
    if isinstance(found, str):
        yield found
    elif isinstance(found, list):
        for one in found:
            yield from _strings(one)
    elif isinstance(found, dict):
        yield from found
        for one in found.values():
            yield from _strings(one)


# The closing quote is optional, so that a text without one is read once, not once more
# from each quote within it.
_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_BRACKET: Final = re.compile(rb"[\[\]{}]")


def _check_depth(body: bytes) -> None:
    """Refuse a deeply nested body before the parser descends."""
    brackets = _BRACKET.findall(_STRING.sub(b"", body))
    steps = (1 if one in b"[{" else -1 for one in brackets)
    if max(accumulate(steps), default=0) > DEEPEST:
        raise ProblemError(
            400, f"the body is nested more than {DEEPEST} deep", "flatten it"
        )


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ProblemError(
            400,
            "an object of the body has one key twice",
            "name each key once: readers differ in which of the two counts",
        )
    return found


def _int(text: str) -> int:
    if len(text) > LONGEST_NUMBER:
        _no_number()
    return int(text)


def _float(text: str) -> float:
    if len(text) > LONGEST_NUMBER:
        _no_number()
    found = float(text)
    if found in (float("inf"), float("-inf")):
        _no_number()
    return found


def _no_constant(_: str) -> NoReturn:
    raise ProblemError(400, "NaN and Infinity are no JSON", "leave the value out")


def _no_number() -> NoReturn:
    raise ProblemError(
        400,
        f"a number has more than {LONGEST_NUMBER} digits, or is beyond all numbers",
        "write it shorter, or as text",
    )
