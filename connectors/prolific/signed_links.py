"""Arrivals from Prolific: verification of the signed study link (RS256 JSON Web Token).

Prolific signs the parameters of a study's URL, for two minutes, with a key of its
published set. The address bar proves nothing: the account is taken from the signed
claims. However long a token claims to be valid, it is accepted for at most `LIFE`, and
once: a link that is read over a shoulder or from a history opens nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

import jwt

from connectors.errors import ConnectorError, Rejected

FRESH: Final = timedelta(days=1)
"""How long the published keys are cached."""
STALE: Final = timedelta(days=2)
"""How long they are used while newer ones cannot be fetched."""
AGAIN: Final = timedelta(minutes=1)
"""Least time between two fetches, whatever arrives."""
LIFE: Final = timedelta(minutes=5)
"""Largest age of a token by our clock, whatever its expiry."""
SKEW: Final = timedelta(minutes=1)
"""How far Prolific's clock may be ahead of ours."""
_LONGEST: Final = 4096


class Used:
    """Recently used tokens, so that none is accepted twice.

    They are kept in this process's memory: after a restart, or in another process on
    the same store, a token can be accepted once more within its `LIFE`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until: dict[bytes, datetime] = {}

    def take(self, proof: bytes, now: datetime) -> None:
        """Mark a verified token as used.

        Parameters
        ----------
        proof : bytes
            Its signature, which is the same for other spellings of the token.
        now : datetime

        Raises
        ------
        Rejected
            If it was used before.
        """
        with self._lock:
            self._until = {one: end for one, end in self._until.items() if end > now}
            if proof in self._until:
                raise Rejected(
                    "the link from Prolific was used before",
                    why="each link opens the page once",
                    fix="open the study again from Prolific",
                )
            self._until[proof] = now + LIFE + SKEW


class Keys:
    """The published signing keys, fetched on demand and cached for a day.

    Parameters
    ----------
    fetch : callable
        () -> keys of the set, as published.
    """

    def __init__(self, fetch: Callable[[], Sequence[Mapping[str, Any]]]) -> None:
        self._fetch = fetch
        self._lock = threading.Lock()
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched: datetime | None = None
        self._tried: datetime | None = None

    def key(self, name: str, now: datetime) -> jwt.PyJWK | None:
        """Return the key with a ``kid``; an unknown one triggers a fetch.

        Raises
        ------
        TryLater, Misconfigured
            If the set cannot be fetched, and there is none to use meanwhile.
        """
        with self._lock:
            old = self._fetched is None or not _within(self._fetched, now, FRESH)
            if old or name not in self._keys:
                self._refresh(now)
            return self._keys.get(name)

    def _refresh(self, now: datetime) -> None:
        if self._tried is not None and _within(self._tried, now, AGAIN):
            return
        self._tried = now
        try:
            keys = self._fetch()
        except ConnectorError:
            if self._fetched is None or not _within(self._fetched, now, STALE):
                self._keys = {}
                self._tried = None  # nobody can enter: the next visitor tries again
                raise
            return
        self._keys = dict(_usable(keys))
        self._fetched = now


def _within(then: datetime, now: datetime, span: timedelta) -> bool:
    return abs(now - then) < span  # a clock that was set back keeps nothing fresh


def _usable(keys: Sequence[Mapping[str, Any]]) -> list[tuple[str, jwt.PyJWK]]:
    usable = []
    for key in keys:
        if key.get("kty") == "RSA" and isinstance(key.get("kid"), str):
            try:
                usable.append((key["kid"], jwt.PyJWK(dict(key), algorithm="RS256")))
            except (jwt.PyJWTError, ValueError, TypeError):
                continue  # one bad key does not affect the others
    return usable


def read(
    token: str, keys: Keys, page: str, now: datetime
) -> tuple[Mapping[str, Any], bytes]:
    """Verify a study link's token and return the signed parameters.

    Parameters
    ----------
    token : str
    keys : Keys
    page : str
        Base URL of our page; the token's audience must be its host.
    now : datetime

    Returns
    -------
    signed : Mapping
        Claim ``prolific``, whose ``SESSION_ID`` equals the token's subject.
    proof : bytes
        The signature, for :class:`Used`.

    Raises
    ------
    Rejected
        Forged, damaged, of another kind, for another place, too old or not valid yet.
        One message for all but the time.
    TryLater, Misconfigured
        If the keys cannot be fetched.
    """
    if not token or len(token) > _LONGEST or not token.isascii():
        raise _unproven()
    try:
        head = jwt.get_unverified_header(token)
    except jwt.PyJWTError:
        raise _unproven() from None
    name = head.get("kid")
    if head.get("alg") != "RS256" or not isinstance(name, str):
        raise _unproven()
    key = keys.key(name, now)
    if key is None:
        raise _unproven()
    # Time and place are checked below: by our clock, and by the host alone.
    try:
        decoded = jwt.decode_complete(token, key, algorithms=["RS256"], options={
            "require": ["exp", "iat", "aud", "sub"],
            "verify_exp": False,
            "verify_iat": False,
            "verify_aud": False,
        })  # fmt: skip
    except jwt.PyJWTError:
        raise _unproven() from None
    said = decoded["payload"]
    _check_time(said, now)
    signed = said.get("prolific")
    ours = isinstance(said["aud"], str) and _place(said["aud"]) == _place(page)
    if not ours or not isinstance(signed, dict):
        raise _unproven()
    if signed.get("SESSION_ID") != said["sub"]:
        raise _unproven()
    return signed, decoded["signature"]


def _check_time(said: Mapping[str, Any], now: datetime) -> None:
    began, ends = said["iat"], said["exp"]
    if not all(isinstance(moment, int | float) for moment in (began, ends)):
        raise _unproven()
    seconds = now.timestamp()
    oldest, newest = (now - LIFE).timestamp(), (now + SKEW).timestamp()
    if not (oldest < began <= newest and seconds < ends):
        raise Rejected(
            "the link from Prolific is not of this moment",
            why="it is valid for two minutes by this machine's clock",
            fix="open the study again from Prolific; look at the clock if all fail",
        )


def _place(url: str) -> tuple[str, str, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "", "", None
    return parts.scheme, parts.hostname or "", port


def _unproven() -> Rejected:
    return Rejected(
        "Prolific's signature does not say who this is",
        fix="open the study again from Prolific",
    )
