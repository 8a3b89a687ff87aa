"""Checks of the address of our own task page, for connectors."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from connectors.errors import Misconfigured, Rejected
from connectors.http.client import Http


def origin(url: str) -> tuple[str, str]:
    """Return scheme and host of an address."""
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def check_link(link: str) -> None:
    """Check that an offer has the address of the task page.

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
    """Check that an offer's link leads where a connector sends its workers.

    Raises
    ------
    Misconfigured
    """
    if origin(link) != origin(page):
        raise Misconfigured(
            "page of this connector and worker_url lead to different places",
            fix="set page to worker_url and /from/ and the connector's name",
        )


def check_entrance(
    http: Http, page: str, kind: str, *, who: str = "workers"
) -> SplitResult:
    """Check that the setting ``page`` is an entrance of the task page; return its parts.

    Raises
    ------
    Misconfigured
        If it is not, or its address must not be called.
    """
    parts = http.check(page)
    if not parts.path.startswith("/from/"):
        raise no_entrance(kind, who=who)
    return parts


def no_entrance(kind: str, *, who: str = "workers") -> Misconfigured:
    """Return the error for a setting ``page`` that is no entrance of the task page."""
    return Misconfigured(
        f"page of {kind} is not where {who} arrive",
        fix="set page to worker_url and /from/ and the connector's name",
    )
