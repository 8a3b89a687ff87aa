"""Who comes from Prolific: the signed study link (RS256 JSON Web Token) checked.

Prolific signs the parameters of a study's URL, for two minutes, with a key of its
published set. The address bar says nothing: the account is read from what was signed.
However long a token claims to be valid, it is taken for at most `LIFE`, and once: a link
that is read over a shoulder or out of a history opens nothing.
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
"""How long the published keys are taken for true."""
STALE: Final = timedelta(days=2)
"""How long they are used while newer ones cannot be fetched."""
AGAIN: Final = timedelta(minutes=1)
"""Time between two fetches, whatever comes in."""
LIFE: Final = timedelta(minutes=5)
"""How old a token may be by our clock, whatever it says of its end."""
SKEW: Final = timedelta(minutes=1)
"""How far Prolific's clock may be ahead of ours."""
_LONGEST: Final = 4096


class Used:
    """The tokens that were taken and are not too old yet; none is taken twice.

    They are kept in the memory of this process: after a restart, or in another process on
    the same store, a token can be taken once more within its `LIFE`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until: dict[bytes, datetime] = {}

    def take(self, proof: bytes, now: datetime) -> None:
        """Take a token that was found right.

        Parameters
        ----------
        proof : bytes
            Its signature, which another spelling of the same token does not change.
        now : datetime

        Raises
        ------
        Rejected
            It was taken before.
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
    """The published signing keys, fetched when needed and kept for a day.

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
        """Find a key by its ``kid``; an unknown one asks for the set anew.

        Raises
        ------
        TryLater, Misconfigured
            The set cannot be fetched, and there is none to go on with.
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
            told = self._fetch()
        except ConnectorError:
            if self._fetched is None or not _within(self._fetched, now, STALE):
                self._keys = {}
                self._tried = None  # nobody can come in: the next one asks again
                raise
            return
        self._keys = dict(_usable(told))
        self._fetched = now


def _within(then: datetime, now: datetime, span: timedelta) -> bool:
    return abs(now - then) < span  # a clock that was set back makes nothing fresh


def _usable(told: Sequence[Mapping[str, Any]]) -> list[tuple[str, jwt.PyJWK]]:
    found = []
    for key in told:
        if key.get("kty") == "RSA" and isinstance(key.get("kid"), str):
            try:
                found.append((key["kid"], jwt.PyJWK(dict(key), algorithm="RS256")))
            except (jwt.PyJWTError, ValueError, TypeError):
                continue  # one bad key takes no other with it
    return found


def read(
    token: str, keys: Keys, page: str, now: datetime
) -> tuple[Mapping[str, Any], bytes]:
    """Check a study link's token and give the parameters that were signed.

    Parameters
    ----------
    token : str
    keys : Keys
    page : str
        Where our page begins; the token must be meant for its host.
    now : datetime

    Returns
    -------
    signed : Mapping
        Claim ``prolific``, whose ``SESSION_ID`` equals the token's subject.
    proof : bytes
        The signature, for `Used`.

    Raises
    ------
    Rejected
        Forged, damaged, of another kind, of another place, too old or not valid yet.
        One wording for all but the time.
    TryLater, Misconfigured
        The keys cannot be fetched.
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
