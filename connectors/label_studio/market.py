"""Which of the two a Label Studio connector is: a notice board, or where fields lie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from connectors.base import Manifest, Market, Misconfigured, Settings
from connectors.http.client import Http
from connectors.label_studio import instance, notices
from connectors.label_studio.api import Api
from connectors.tickets import check_key, token_and_key

MANIFEST: Final = notices.MANIFEST
TITLE: Final = "Data entry"
MOST: Final = 24
"""Characters of a title: Label Studio takes 50, and we put words behind it."""

_KNOWN: Final = ("url", "content", "project", "hook", "allow_private")


def declared(values: Mapping[str, str]) -> Manifest:
    """Tell what a connector of these settings declares."""
    return instance.MANIFEST if values.get("content") == "there" else MANIFEST


def open_label_studio(settings: Settings) -> Market:
    """Open the server that the settings name.

    Raises
    ------
    Misconfigured
        A setting or the secret is not as it should be.
    """
    values = settings.of("label-studio", _KNOWN, ("url",))
    content = values.get("content", "ours")
    if content not in ("ours", "there"):
        raise Misconfigured(
            "content of label-studio is neither ours nor there",
            fix="leave it out, so that Label Studio gets no field",
        )
    title = values.get("project", TITLE)
    if not (3 <= len(title) <= MOST and title.isprintable()):
        raise Misconfigured(
            "project of label-studio is no title",
            fix=f"write 3 to {MOST} printable characters",
        )
    token, key = token_and_key(settings.secret, "label-studio")
    check_key(key, "write 32 random bytes in hex into the second line of secret_file")
    http = Http(private=settings.private)
    hook = values.get("hook", "")
    if hook:
        _check_hook(content, hook)
    api = Api(values["url"], token, http)
    if content == "there":
        return instance.Instance(api, key, title, hook)
    return notices.Notices(api, key, title)


def _check_hook(content: str, hook: str) -> None:
    if content != "there" or "/hooks/" not in hook:
        raise Misconfigured(
            "hook of label-studio does not fit",
            why="only with content = there does anything happen that is worth a call",
            fix="leave it out, or set it to worker_url, /hooks/ and the name",
        )
