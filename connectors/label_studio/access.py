"""How we prove to a Label Studio server who we are: by a legacy or a personal token.

A legacy token goes with every call as it is. A personal access token is a JSON Web Token
that only buys access tokens, each good for some minutes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import jwt

from connectors.http.client import Http
from connectors.http.rest import Rest

SERVER: Final = "Label Studio"
_SHORTEST: Final = 10.0


class Access:
    """Calls to one server that carry a token which holds.

    Parameters
    ----------
    base : str
        Where the server's interface begins, with a slash at the end.
    token : str
        Legacy token, or personal access token.
    http : Http
    clock : callable
        () -> seconds, monotonic.

    Raises
    ------
    Misconfigured
        A URL that must not be called.
    """

    def __init__(
        self, base: str, token: str, http: Http, clock: Callable[[], float]
    ) -> None:
        self._base = base
        self._http = http
        self._clock = clock
        self._lock = threading.Lock()
        self._until = float("inf")
        self._personal = token if token.count(".") == 2 else ""
        self._rest = Rest(base, {"authorization": f"Token {token}"}, http, SERVER)
        if self._personal:
            self._until = float("-inf")

    def rest(self) -> Rest:
        """Give the client for the next call.

        Raises
        ------
        TryLater, Misconfigured
            No access token can be had.
        """
        with self._lock:
            if self._clock() >= self._until:
                self._renew()
            return self._rest

    def _renew(self) -> None:
        plain = Rest(self._base, {}, self._http, SERVER)
        told = plain.ask("POST", "token/refresh/", {"refresh": self._personal})
        access = plain.thing(told).get("access")
        try:
            # whether it is genuine is the server's to judge; we ask how long it lasts
            said = jwt.decode(str(access), options={"verify_signature": False})
            lasts = float(said["exp"]) - float(said["iat"])
        except (jwt.PyJWTError, LookupError, TypeError, ValueError):
            raise plain.strange() from None
        who = {"authorization": f"Bearer {access}"}
        self._rest = Rest(self._base, who, self._http, SERVER)
        self._until = self._clock() + max(lasts / 2, _SHORTEST)

    def close(self) -> None:
        """Close what is kept open."""
        self._http.close()
