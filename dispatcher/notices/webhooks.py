"""Webhooks out: thin messages, signed as Standard Webhooks has it.

A message has ids only: who wants to know more asks the API, where roles apply.
"""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from standardwebhooks import Webhook

from connectors.errors import ConnectorError
from connectors.http.client import Http

SECONDS: Final = 15.0
"""Time limit of one call in total."""
MOST: Final = 64 << 10
"""Bytes of an answer that are read, at most; what it says does not matter."""
LARGEST: Final = 20_000
"""Bytes of a message, at most."""
SECRET_BYTES: Final = 32
GONE: Final = 410

_PREFIX: Final = "whsec_"


@dataclass(frozen=True)
class CallResult:
    """What came of a call.

    Attributes
    ----------
    status : int or None
        None: there was no whole answer.
    error : str or None
        Why it counts as failed; names a host at most.
    """

    status: int | None
    error: str | None


def new_secret(entropy: Callable[[int], bytes]) -> bytes:
    """Return a secret that no other webhook has."""
    return entropy(SECRET_BYTES)


def spell(secret: bytes) -> str:
    """Return a secret as receivers are given it."""
    return _PREFIX + base64.b64encode(secret).decode()


def body_of(kind: str, at: int, data: Mapping[str, object]) -> bytes:
    """Return the message of a notice; the same notice gives the same bytes."""
    moment = datetime.fromtimestamp(at / 1_000_000, UTC).isoformat(
        timespec="milliseconds"
    )
    message = {"type": kind, "timestamp": moment.replace("+00:00", "Z"), "data": data}
    body = json.dumps(message, separators=(",", ":")).encode("ascii")
    assert len(body) <= LARGEST, "a message has ids only"
    return body


def post(
    http: Http, url: str, secrets: Sequence[bytes], message: str, body: bytes, now: int
) -> CallResult:
    """Sign a message with every secret that is valid, and post it.

    Parameters
    ----------
    http : Http
    url : str
    secrets : sequence of bytes
        The newest first.
    message : str
        Id of the message: the same for each attempt.
    body : bytes
    now : int
        Microseconds UTC: when it is sent, not when it happened.
    """
    at = datetime.fromtimestamp(now // 1_000_000, UTC)
    text = body.decode("ascii")
    signed = " ".join(Webhook(secret).sign(message, at, text) for secret in secrets)
    try:
        answered = http.call(
            "POST",
            url,
            headers={
                "content-type": "application/json",
                "webhook-id": message,
                "webhook-timestamp": str(now // 1_000_000),
                "webhook-signature": signed,
            },
            body=body,
        )
    except ConnectorError as error:
        return CallResult(None, error.what[:200])
    status = answered.status
    if 200 <= status < 300:
        return CallResult(status, None)
    redirect = " (redirects are not followed)" if 300 <= status < 400 else ""
    return CallResult(status, f"the answer is {status}{redirect}")


def guarded(private: Iterable[str]) -> Http:
    """Return the client of all webhooks; it reaches public addresses and these hosts."""
    return Http(private=private, seconds=SECONDS, most=MOST, trusted=_trusted())


@lru_cache(maxsize=1)
def _trusted() -> ssl.SSLContext:
    """Return the system's certificates: to read them costs more than a call."""
    return ssl.create_default_context()
