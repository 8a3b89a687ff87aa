"""Prolific's webhook calls: subscribed to, and verified before they are used.

A call is a hint that something has changed; Prolific is then polled. A call that never
comes costs half a minute, and a forged one gains nothing.
"""

from __future__ import annotations

import base64
import hmac
import threading
from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from connectors.errors import ConnectorError, Rejected
from connectors.prolific.api import Api

EVENT: Final = "submission.status.change"
WINDOW: Final = timedelta(minutes=5)
"""How much a call's clock may differ from ours."""
_AGAIN: Final = timedelta(minutes=1)


class Hooks:
    """The webhook calls of one workspace.

    Parameters
    ----------
    api : Api
    target : str
        URL that Prolific calls.
    """

    def __init__(self, api: Api, target: str) -> None:
        self._api = api
        self._target = target
        self._lock = threading.Lock()
        self._secrets: tuple[str, ...] = ()
        self._fetched: datetime | None = None
        self._subscribed = False

    def subscribe(self) -> None:
        """Subscribe, once per process; if that fails, polling continues without calls."""
        if self._subscribed:
            return
        self._subscribed = True
        try:
            if not self._api.hook_secrets():
                self._api.make_hook_secret()
            if not any(
                one.get("target_url") == self._target and one.get("event_type") == EVENT
                for one in self._api.subscriptions()
            ):
                self._api.subscribe(EVENT, self._target)
        except ConnectorError:
            return  # polling for answers has the same problem and reports it

    def heed(self, headers: Mapping[str, str], body: bytes, now: datetime) -> str:
        """Verify a call over its raw bytes, and return its id.

        The id is derived from the signature, the only part that is certainly
        Prolific's: a copied call under another event id is the same call.

        Raises
        ------
        Rejected
            Not signed, signed by another, or too old; one message for all.
        TryLater, Misconfigured
            If the secrets cannot be fetched.
        """
        signature = headers.get("x-prolific-request-signature", "")
        moment = headers.get("x-prolific-request-timestamp", "")
        if not _near(moment, now):
            raise _unsigned()
        signed = moment.encode() + body
        for fresh in (False, True):  # the secret may have been replaced meanwhile
            for secret in self._known(now, fresh=fresh):
                digest = hmac.digest(secret.encode(), signed, "sha256")
                wanted = base64.b64encode(digest)
                if hmac.compare_digest(wanted, signature.encode("utf-8", "replace")):
                    return sha256(wanted).hexdigest()[:32]
        raise _unsigned()

    def _known(self, now: datetime, *, fresh: bool) -> tuple[str, ...]:
        with self._lock:
            early = self._fetched is not None and abs(now - self._fetched) < _AGAIN
            if (fresh or not self._secrets) and not early:
                self._secrets = self._api.hook_secrets()
                self._fetched = now
            return self._secrets


def _near(moment: str, now: datetime) -> bool:
    if not (moment.isascii() and moment.isdigit() and len(moment) <= 12):
        return False
    return abs(int(moment) - now.timestamp()) <= WINDOW.total_seconds()


def _unsigned() -> Rejected:
    return Rejected("the call is not signed by Prolific, or not of now")
