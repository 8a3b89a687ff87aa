"""The HTTP client of all connectors: guarded and bounded.

- A URL written by an operator may lead anywhere: the name is resolved here, every
  address of it must be public, and the connection goes to the address that was checked,
  so that a name which resolves differently the second time (DNS rebinding) gains
  nothing. Hosts of the own network are reached only if the operator lists them.
- TLS certificates are always verified; there is no switch. Redirects are never followed.
- One call takes at most `seconds` in total, and a response has at most `most` bytes.
- No error contains a path, a query, a header or a body, which may have tokens and
  values.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Final, TypeVar
from urllib.parse import SplitResult, urlsplit

import httpcore2

from connectors.errors import ConnectorError, Misconfigured, Rejected, TryLater

T = TypeVar("T")

SECONDS: Final = 30.0
MOST: Final = 10 << 20
PORTS: Final = (443, 8443)
_IDLE_SECONDS = 15.0  # keep-alive of a connection
_WAIT = 60.0  # if the server names no time to wait
_LONGEST_WAIT = 86_400.0

Resolve = Callable[[str, int], Iterable[str]]
"""(host, port) -> its addresses as text."""


def addresses(host: str, port: int) -> Iterable[str]:
    """Resolve a host by the system's resolver."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


_GLOBAL: Final = ipaddress.ip_network("2000::/3")
"""All global unicast of IPv6 that IANA has assigned."""
_RESERVED: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
            "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24",
            "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
            "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
            # protocols, with Teredo; documentation; 6to4; AS112; documentation
            "2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
        ),
    )
)  # fmt: skip
"""Special-purpose blocks of IANA's registries within what is otherwise global unicast.

They are listed here because what ``ipaddress`` calls global differs between versions of
Python. Addresses that carry an IPv4 address for a gateway (6to4, Teredo, NAT64) are all
refused: the gateway may reach the own network.
"""


def is_public(address: str) -> bool:
    """Whether an address is global unicast that no registry of IANA reserves."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:  # the system connects to the inner address
            found = found.ipv4_mapped
        elif found.scope_id is not None or found not in _GLOBAL:
            return False
    return not any(found in block for block in _RESERVED)


@dataclass(frozen=True)
class Answered:
    """An HTTP response.

    Attributes
    ----------
    status : int
    headers : Mapping[str, str]
        Names in lower case; the last one of each name.
    body : bytes
        Complete, at most `most` bytes.
    cookies : Mapping[str, str]
        From ``Set-Cookie``.
    """

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    cookies: Mapping[str, str] = field(default_factory=dict, repr=False)


class TooLong(TryLater):
    """No complete response in time: the request may have been carried out."""


class _Deadline(threading.local):
    """When the call that this thread makes is over; ``clock`` is monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until = 0.0

    def begin(self, seconds: float) -> None:
        """Begin a call."""
        self._until = self._clock() + seconds

    def left(self, timeout: float | None) -> float:
        """Return the time limit of a step: its own, or what is left of the call."""
        left = self._until - self._clock()
        if left <= 0:
            raise httpcore2.ReadTimeout("in all")
        return left if timeout is None else min(timeout, left)


class _Bounded(httpcore2.NetworkStream):
    """A connection of which no step lasts longer than the call that makes it."""

    def __init__(self, inner: httpcore2.NetworkStream, deadline: _Deadline) -> None:
        self._inner = inner
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._deadline.left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, self._deadline.left(timeout))

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        left = self._deadline.left(timeout)
        inner = self._inner.start_tls(ssl_context, server_hostname, left)
        return _Bounded(inner, self._deadline)

    def close(self) -> None:
        self._inner.close()

    def get_extra_info(self, info: str) -> object:
        return self._inner.get_extra_info(info)


class _Guarded(httpcore2.NetworkBackend):
    """Connects only to permitted addresses, exactly those that were checked."""

    def __init__(
        self, private: frozenset[str], resolve: Resolve, deadline: _Deadline
    ) -> None:
        self._private = private
        self._resolve = resolve
        self._deadline = deadline
        self._plain = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        try:
            found = list(dict.fromkeys(self._resolve(host, port)))
        except (OSError, UnicodeError) as error:
            raise httpcore2.ConnectError("the name is not known") from error
        if host not in self._private and not all(map(is_public, found)):
            raise Misconfigured(
                f"{host} lies in a private network",
                why="an address given by hand must not reach into the own network",
                fix=f'if it is meant: allow_private = "{host}" at this connector',
            )
        last: Exception = httpcore2.ConnectError("the name has no address")
        for address in found:
            left = self._deadline.left(timeout)
            try:
                stream = self._plain.connect_tcp(
                    address, port, left, local_address, socket_options
                )
                return _Bounded(stream, self._deadline)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                last = error
        raise last


class Http:
    """A bounded HTTP client, one per connector; threads may share it.

    Parameters
    ----------
    private : iterable of str
        Hosts of the own network that may be reached, also without TLS and at any port.
    seconds : float
        Time limit of one call in total, > 0.
    most : int
        Size limit of a response in bytes, >= 0.
    resolve : callable
        (host, port) -> addresses.
    trusted : ssl.SSLContext, optional
        Trusted certificates; None: the system's.
    clock : callable
        () -> seconds, monotonic.
    """

    def __init__(
        self,
        *,
        private: Iterable[str] = (),
        seconds: float = SECONDS,
        most: int = MOST,
        resolve: Resolve = addresses,
        trusted: ssl.SSLContext | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._private = frozenset(host.strip().lower() for host in private) - {""}
        self._seconds = seconds
        self._most = most
        self._deadline = _Deadline(clock)
        self._pool = httpcore2.ConnectionPool(
            ssl_context=trusted or ssl.create_default_context(),
            max_connections=8,
            keepalive_expiry=_IDLE_SECONDS,
            network_backend=_Guarded(self._private, resolve, self._deadline),
        )

    def check(self, url: str) -> SplitResult:
        """Refuse a URL that must not be called, before its name is resolved.

        Raises
        ------
        Misconfigured
            Not https (http for a listed host), with a user, or at no usual web port.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            parts, host, port = urlsplit(""), "", None
        listed = host in self._private
        if not host or parts.scheme not in (
            ("https", "http") if listed else ("https",)
        ):
            raise Misconfigured(
                "the url is not one of https",
                why="what is sent must be read by its receiver alone",
                fix="write it as https://host/path",
            )
        if parts.username is not None or parts.password is not None:
            raise Misconfigured(
                "the url holds a user or a password",
                fix="give the secret by a secret_file",
            )
        if port is not None and port not in PORTS and not listed:
            raise Misconfigured(
                f"port {port} is none of {', '.join(map(str, PORTS))}",
                fix=f'if it is meant: allow_private = "{host}" at this connector',
            )
        return parts

    def call(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Answered:
        """Make one call and read the whole response.

        Raises
        ------
        Misconfigured
            The URL must not be called, or the certificate is not trusted.
        TryLater
            No connection: nothing was done.
        TooLong
            Connected, but no complete response in time: it may have been done.
        Rejected
            The response is too large, or compressed (which was not requested).
        """
        parts = self.check(url)
        self._deadline.begin(self._seconds)
        sent = {
            "host": parts.netloc,
            "accept-encoding": "identity",
            "user-agent": "sparsi-dispatcher",
            "content-length": str(len(body)),
            **{name.lower(): value for name, value in (headers or {}).items()},
        }
        try:
            return self._call(method, url, sent, body)
        except ConnectorError:
            raise
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
            raise _unreached(parts, error) from None
        except (httpcore2.TimeoutException, httpcore2.NetworkError) as error:
            raise TooLong(
                f"{parts.hostname} gave no whole answer",
                why=type(error).__name__,
                fix="it is asked again later",
            ) from None
        except httpcore2.ProtocolError:
            raise TooLong(f"{parts.hostname} does not answer in HTTP") from None

    def _call(
        self, method: str, url: str, sent: Mapping[str, str], body: bytes
    ) -> Answered:
        per_step = dict.fromkeys(("connect", "read", "write", "pool"), self._seconds)
        with self._pool.stream(
            method, url, headers=list(sent.items()), content=body,
            extensions={"timeout": per_step},
        ) as response:  # fmt: skip
            given = [
                (name.decode("latin-1").lower(), value.decode("latin-1"))
                for name, value in response.headers
            ]
            headers = dict(given)
            if headers.get("content-encoding", "identity") != "identity":
                raise Rejected("the answer is compressed, though asked not to be")
            got = bytearray()
            for chunk in response.iter_stream():
                got += chunk
                if len(got) > self._most:
                    raise Rejected(f"the answer has more than {self._most} bytes")
            return Answered(response.status, headers, bytes(got), _cookies(given))

    def close(self) -> None:
        """Close idle connections."""
        self._pool.close()


def _cookies(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    pairs = [
        value.partition(";")[0].partition("=")
        for name, value in headers
        if name == "set-cookie"
    ]
    return {name.strip(): value for name, _, value in pairs}


def expect_done(answered: Answered, host: str, now: float) -> Answered:
    """Return a successful response; raise the connector error that fits any other.

    Parameters
    ----------
    answered : Answered
    host : str
        Used in the message.
    now : float
        Seconds since 1970, to interpret a date in ``Retry-After``.

    Returns
    -------
    Answered
        The same, if its status is 2xx.

    Raises
    ------
    TryLater
        408, 425, 429 and 5xx; it may have been done.
    Misconfigured
        3xx, 401, 403, 404, 405 and 410: no call will succeed.
    Rejected
        Any other: this call cannot succeed.
    """
    status = answered.status
    if 200 <= status < 300:
        return answered
    what = f"{host} answers {status}"
    if status in (408, 425, 429) or status >= 500:
        wait = retry_after(answered.headers.get("retry-after", ""), now)
        raise TryLater(what, after=wait, fix="it is asked again later")
    if status in (401, 403):
        raise Misconfigured(what, why="it does not know the secret",
                            fix="correct its secret_file")  # fmt: skip
    if status < 400 or status in (404, 405, 410):
        raise Misconfigured(what, why="nothing takes it there (redirects are refused)",
                            fix="correct the url of this connector")  # fmt: skip
    raise Rejected(what, why="it does not take this message")


def retry_after(value: str, now: float) -> float:
    """Return ``Retry-After`` in seconds (from seconds or a date); a minute if invalid."""
    text = value.strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), _LONGEST_WAIT)
    try:
        wanted = parsedate_to_datetime(text).timestamp() - now
    except (ValueError, TypeError, OverflowError):
        return _WAIT
    return min(max(wanted, 0.0), _LONGEST_WAIT)


def _unreached(parts: SplitResult, error: Exception) -> ConnectorError:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return Misconfigured(
                f"{parts.hostname} shows a certificate that is not trusted",
                why="TLS is always verified",
                fix="let it use a certificate of a known authority",
            )
        cause = cause.__cause__ or cause.__context__
    return TryLater(
        f"{parts.hostname} cannot be reached",
        why=type(error).__name__,
        fix="it is tried again later",
    )


def within(
    things: Iterable[T], size_of: Callable[[T], int], most: int
) -> Iterator[list[T]]:
    """Split things into requests within a server's size limit, in order.

    Parameters
    ----------
    things : iterable
    size_of : callable
        Contribution of one thing to the size of a request.
    most : int
        Size limit of a request; a single larger thing is sent alone.
    """
    part: list[T] = []
    size = 0
    for one in things:
        more = size_of(one)
        if part and size + more > most:
            yield part
            part, size = [], 0
        part.append(one)
        size += more
    if part:
        yield part
