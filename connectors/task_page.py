"""Where our own task page is: what connectors ask of its address."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from connectors.errors import Misconfigured, Rejected
from connectors.http.client import Http


def origin(url: str) -> tuple[str, str]:
    """Return scheme and host of an address: the place that it leads to."""
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def check_link(link: str) -> None:
    """See that an offer says where the task page is.

    Raises
    ------
    Rejected
    """
    if urlsplit(link).scheme not in ("http", "https"):
        raise Rejected(
            "the offer names no task page",
            fix="set worker_url under [surfaces]",
        )


def check_place(link: str, page: str) -> None:
    """See that an offer's link leads where a connector sends its workers.

    Raises
    ------
    Misconfigured
    """
    if origin(link) != origin(page):
        raise Misconfigured(
            "page of this connector and worker_url lead to different places",
            fix="set page to worker_url and /from/ and the connector's name",
        )


def check_door(
    http: Http, page: str, kind: str, *, who: str = "workers"
) -> SplitResult:
    """See that the setting ``page`` is a door of the task page; return its parts.

    Raises
    ------
    Misconfigured
        It is none, or an address that must not be called.
    """
    parts = http.check(page)
    if not parts.path.startswith("/from/"):
        raise no_door(kind, who=who)
    return parts


def no_door(kind: str, *, who: str = "workers") -> Misconfigured:
    """What is raised for a setting ``page`` that is no door of the task page."""
    return Misconfigured(
        f"page of {kind} is not where {who} arrive",
        fix="set page to worker_url and /from/ and the connector's name",
    )
