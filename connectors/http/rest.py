"""JSON over HTTP, for connectors to REST interfaces."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from connectors.errors import Misconfigured
from connectors.http.client import Http, expect_done

Payload = Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A JSON request body."""


class Rest:
    """Calls to one server.

    Parameters
    ----------
    base : str
        Base URL of its interface, with a trailing slash.
    headers : Mapping[str, str]
        Sent with every call, for authentication.
    http : Http
    server : str
        The expected kind of server, for messages.

    Raises
    ------
    Misconfigured
        If the URL must not be called.
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
        payload: Payload | None = None,
        *,
        missing: bool = False,
    ) -> object:
        """Make a call and return the JSON response; None for an empty one.

        Parameters
        ----------
        method, path : str
            `path` is appended to the base; it contains no value.
        payload : Mapping or Sequence of Mapping, optional
            Sent as JSON.
        missing : bool
            Whether 404 means None instead of an error.

        Raises
        ------
        TryLater, Misconfigured, Rejected
            Depending on what the caller should do next.
        """
        return self.ask_whole(method, path, payload, missing=missing)[0]

    def ask_whole(
        self,
        method: str,
        path: str,
        payload: Payload | None = None,
        *,
        missing: bool = False,
    ) -> tuple[object, Mapping[str, str]]:
        """Call like :meth:`ask`; return the headers of the response too."""
        body = b"" if payload is None else json.dumps(payload).encode("ascii")
        response = self._http.call(
            method, self._base + path, headers=self._headers, body=body
        )
        if missing and response.status == 404:
            return None, response.headers
        expect_done(response, self._host, 0.0)
        try:
            document = json.loads(response.body) if response.body else None
        except ValueError:
            raise self.unexpected() from None
        return document, response.headers

    def as_object(self, response: object) -> dict[str, Any]:
        """Return a response that must be a JSON object.

        Raises
        ------
        Misconfigured
            If it is not one.
        """
        if not isinstance(response, dict):
            raise self.unexpected()
        return response

    def unexpected(self) -> Misconfigured:
        """Return the error for a response that such a server should not give."""
        return Misconfigured(
            f"{self._host} does not answer as {self._server} does",
            fix="correct the url of this connector",
        )

    def close(self) -> None:
        """Close idle connections."""
        self._http.close()
