"""Receivers that come for content: a signed request names the tokens that it wants.

A thin message tells that there is something; its receiver asks for it with the secret
that the message was signed with. The request is a JSON object of its own type, so that a
message of ours that is sent back to us opens nothing::

    {"type": "fields.fetch", "tokens": ["...", "..."]}
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NoReturn

from standardwebhooks import Webhook

from connectors.base import TOKEN, Rejected, Visit

TYPE: Final = "fields.fetch"
MOST: Final = 100
TOLERANCE: Final = 300.0
"""Seconds that a request's clock may differ from ours (Standard Webhooks)."""


def tokens_wanted(
    signers: Sequence[Webhook], visit: Visit, now: datetime
) -> tuple[str, ...]:
    """Check a request over its raw bytes and return the tokens that it names.

    Raises
    ------
    Rejected
        It is forged, old, or names no tokens; one wording for all.
    """
    name = visit.headers.get("webhook-id", "")
    stamp = visit.headers.get("webhook-timestamp", "")
    given = visit.headers.get("webhook-signature", "").split(" ")
    if not name or not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12):
        _refuse()
    if abs(now.timestamp() - int(stamp)) > TOLERANCE:
        _refuse()  # before it is made a moment: a calendar ends at the year 9999
    at = datetime.fromtimestamp(int(stamp), UTC)
    try:
        text = visit.body.decode("utf-8")
    except UnicodeDecodeError:
        _refuse()
    right = [signer.sign(name, at, text) for signer in signers]
    pairs = [(one, other) for one in given for other in right]
    if not any(hmac.compare_digest(a.encode(), b.encode()) for a, b in pairs):
        _refuse()
    return _tokens(text)


def _tokens(text: str) -> tuple[str, ...]:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        _refuse()
    listed = told.get("tokens") if isinstance(told, dict) else None
    if not isinstance(listed, list) or told.get("type") != TYPE:
        _refuse()
    wanted = [one for one in listed if isinstance(one, str) and TOKEN.fullmatch(one)]
    if not wanted or len(wanted) != len(listed) or len(wanted) > MOST:
        _refuse()
    return tuple(dict.fromkeys(wanted))


def _refuse() -> NoReturn:
    raise Rejected(
        "the request is not one of the receiver's",
        why="its signature, its time or its form does not fit",
        fix="sign it as the messages are signed, within five minutes",
    )
