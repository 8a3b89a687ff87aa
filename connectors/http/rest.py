"""JSON over HTTP, for connectors whose outside is a REST interface."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from connectors.errors import Misconfigured
from connectors.http.client import Http, expect_done

Told = Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""What is sent as JSON."""


class Rest:
    """Calls to one server.

    Parameters
    ----------
    base : str
        Where its interface begins, with a slash at the end.
    headers : Mapping[str, str]
        Sent with every call: who calls.
    http : Http
    server : str
        What kind of server it should be, for messages.

    Raises
    ------
    Misconfigured
        A URL that must not be called.
    """

    def __init__(
        self, base: str, headers: Mapping[str, str], http: Http, server: str
    ) -> None:
        self._base = base
        self._host = http.check(base).hostname or ""
        self._headers = {
            **headers,
            "content-type": "application/json",
            "accept": "application/json",
        }
        self._http = http
        self._server = server

    def ask(
        self,
        method: str,
        path: str,
        told: Told | None = None,
        *,
        missing: bool = False,
    ) -> object:
        """Call, and read the JSON that is answered; None for an empty answer.

        Parameters
        ----------
        method, path : str
            `path` is appended to the base; it holds no value.
        told : Mapping or Sequence of Mapping, optional
            Sent as JSON.
        missing : bool
            Whether 404 means None instead of an error.

        Raises
        ------
        TryLater, Misconfigured, Rejected
            By what the caller does next.
        """
        return self.ask_whole(method, path, told, missing=missing)[0]

    def ask_whole(
        self,
        method: str,
        path: str,
        told: Told | None = None,
        *,
        missing: bool = False,
    ) -> tuple[object, Mapping[str, str]]:
        """Call as :meth:`ask` does; return the headers of the answer as well."""
        body = b"" if told is None else json.dumps(told).encode("ascii")
        answered = self._http.call(
            method, self._base + path, headers=self._headers, body=body
        )
        if missing and answered.status == 404:
            return None, answered.headers
        expect_done(answered, self._host, 0.0)
        try:
            said = json.loads(answered.body) if answered.body else None
        except ValueError:
            raise self.strange() from None
        return said, answered.headers

    def thing(self, told: object) -> dict[str, Any]:
        """Return what should be a JSON object.

        Raises
        ------
        Misconfigured
            It is none.
        """
        if not isinstance(told, dict):
            raise self.strange()
        return told

    def strange(self) -> Misconfigured:
        """What is raised for an answer that the server should not give."""
        return Misconfigured(
            f"{self._host} does not answer as {self._server} does",
            fix="mend the url of this connector",
        )

    def close(self) -> None:
        """Close what is kept open."""
        self._http.close()
