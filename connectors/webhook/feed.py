"""Send items as one signed message, under an id that is the same for repeats."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final, NoReturn

from standardwebhooks import Webhook

from connectors.base import (
    TOKEN,
    Handle,
    Identity,
    Item,
    Limits,
    Manifest,
    Misconfigured,
    Offer,
    Rejected,
    Settings,
    Visit,
    feed_manifest,
)
from connectors.http.client import Http, expect_done

MANIFEST = feed_manifest(
    name="webhook",
    identity=Identity.SIGNED,
    finds=False,
    limits=Limits(
        items=100, content_bytes=1 << 20, offer_bytes=1_200_000, per_minute=600
    ),  # a byte becomes at most six in JSON: a message stays below 8 MiB
    tested_against="real HTTP and the reference library's own check",
)

PREFIX: Final = "whsec_"
_KNOWN: Final = ("url", "payload", "fetch", "allow_private")
_SECRET_BYTES = range(24, 65)  # Standard Webhooks: 192 to 512 bits


class WebhookFeed:
    """One receiver.

    Parameters
    ----------
    url : str
    secrets : sequence of str
        At least one, in the format of Standard Webhooks: ``whsec_`` and base64.
    http : Http
    clock : callable
        () -> seconds since 1970.
    fetch : str
        Where the receiver fetches content; empty: messages contain it.

    Raises
    ------
    Misconfigured
        If the URL must not be called, or a secret is malformed.
    """

    def __init__(
        self,
        url: str,
        secrets: Sequence[str],
        http: Http,
        clock: Callable[[], float],
        fetch: str = "",
    ) -> None:
        self._host = http.check(url).hostname or ""
        self._url = url
        self._fetch = fetch
        self._signers = [_signer(secret) for secret in secrets]
        if not self._signers:
            raise Misconfigured(
                "the webhook has no secret",
                why="its receiver could not tell our messages from anybody's",
                fix="write it into the secret_file of this connector",
            )
        self._http = http
        self._clock = clock

    @property
    def manifest(self) -> Manifest:
        """A feed that is deduplicated by its receiver and cannot be searched."""
        return MANIFEST

    def send(self, offer: Offer) -> Handle:
        """Sign and post the items; the id is the offer's key."""
        MANIFEST.check(offer)
        body = payload(offer.items, self._fetch)
        now = self._clock()
        at = datetime.fromtimestamp(now, UTC)
        name = f"msg_{offer.key}"
        text = body.decode("ascii")
        signed = " ".join(signer.sign(name, at, text) for signer in self._signers)
        answered = self._http.call(
            "POST",
            self._url,
            headers={
                "content-type": "application/json",
                "webhook-id": name,
                "webhook-timestamp": str(int(now)),
                "webhook-signature": signed,
            },
            body=body,
        )
        expect_done(answered, self._host, now)
        return Handle(offer.key, name)

    def wanted(self, visit: Visit, now: datetime) -> tuple[str, ...]:
        """Verify a receiver's request for content of thin messages.

        Raises
        ------
        Rejected
            If it is forged, old or malformed, or messages are not thin.
        """
        if not self._fetch:
            raise Rejected("nothing is fetched here", why="the messages hold it all")
        return tokens_wanted(self._signers, visit, now)

    def close(self) -> None:
        """Close idle connections."""
        self._http.close()

    def find(self, key: str) -> Handle | None:  # noqa: ARG002
        """Return None: there is no search, so it is sent again under the same id."""
        return None


def payload(items: Sequence[Item], fetch: str = "") -> bytes:
    """Return the message: the same items give the same bytes, in ASCII.

    Parameters
    ----------
    items : sequence of Item
    fetch : str
        Where the content is fetched; empty: it is in the message.
    """
    data: dict[str, object] = {
        "items": [_fields(item, thin=bool(fetch)) for item in items]
    }
    if fetch:
        data["fetch"] = fetch
    message = {"type": "fields.announced" if fetch else "fields.shared", "data": data}
    return json.dumps(message, sort_keys=True, separators=(",", ":")).encode("ascii")


def _fields(item: Item, *, thin: bool) -> dict[str, str]:
    fields = {"token": item.token, "field": item.label, "media_type": item.media_type}
    return fields if thin else fields | item.spelt()


def _signer(secret: str) -> Webhook:
    try:
        raw = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except ValueError:
        raw = b""
    if not secret.startswith(PREFIX) or len(raw) not in _SECRET_BYTES:
        raise Misconfigured(
            "a secret of the webhook is none",
            why="it is whsec_ and the base64 of 24 to 64 random bytes",
            fix="make one: python -c \"import base64, os; print('whsec_' + "
            'base64.b64encode(os.urandom(32)).decode())"',
        )
    return Webhook(raw)


def open_webhook(settings: Settings) -> WebhookFeed:
    """Open the receiver in the settings."""
    values = settings.of("webhook", _KNOWN, ("url",))
    form, fetch = values.get("payload", "full"), values.get("fetch", "")
    if form not in ("full", "thin") or (form == "thin") != bool(fetch):
        raise Misconfigured(
            "payload of a webhook is full, or thin with fetch",
            why="the receiver of thin messages must be told where to fetch",
            fix="set fetch to worker_url and /fetch/ and the connector's name",
        )
    http = Http(private=settings.private)
    if fetch and not http.check(fetch).path.startswith("/fetch/"):
        raise Misconfigured(
            "fetch of a webhook is not where content is fetched",
            fix="set fetch to worker_url and /fetch/ and the connector's name",
        )
    secrets = settings.secret.decode("ascii", "replace").split()
    clock = time.time  # noqa: TID251
    return WebhookFeed(values["url"], secrets, http, clock, fetch)


TYPE: Final = "fields.fetch"
MOST: Final = 100
TOLERANCE: Final = 300.0
"""Seconds that a request's clock may differ from ours (Standard Webhooks)."""


def tokens_wanted(
    signers: Sequence[Webhook], visit: Visit, now: datetime
) -> tuple[str, ...]:
    """Verify a request over its raw bytes and return the tokens that it names.

    Raises
    ------
    Rejected
        If it is forged, old, or names no tokens; one message for all.
    """
    name = visit.headers.get("webhook-id", "")
    stamp = visit.headers.get("webhook-timestamp", "")
    given = visit.headers.get("webhook-signature", "").split(" ")
    if not name or not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12):
        _refuse()
    if abs(now.timestamp() - int(stamp)) > TOLERANCE:
        _refuse()  # before it becomes a moment: the calendar ends in the year 9999
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
        request = json.loads(text)
    except (ValueError, RecursionError):
        _refuse()
    listed = request.get("tokens") if isinstance(request, dict) else None
    if not isinstance(listed, list) or request.get("type") != TYPE:
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
