"""An SFTP session, in which the server's key is checked before anything is sent."""

from __future__ import annotations

import base64
import io
import itertools
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NoReturn

from connectors.base import ConnectorError, Misconfigured, TryLater
from connectors.http.client import Resolve, addresses, is_public

if TYPE_CHECKING:
    import paramiko

SECONDS: Final = 30.0


@dataclass(frozen=True)
class Server:
    """The address and login of a server, and its key.

    Attributes
    ----------
    host, user : str
    port : int
    host_key : str
        Its public key: type, space, base64.
    private : bool
        Whether it may be in the own network.
    key : str
        Our private key in OpenSSH's format.
    """

    host: str
    port: int
    user: str
    host_key: str
    private: bool
    key: str = field(repr=False)


def library() -> object:
    """Import paramiko.

    Raises
    ------
    Misconfigured
        If it is not installed.
    """
    try:
        import paramiko  # noqa: PLC0415 (an extra)
    except ImportError as error:
        raise Misconfigured(
            "the feed sftp needs the library paramiko",
            fix="pip install 'sparsi-dispatcher[sftp]'",
        ) from error
    return paramiko


def read_key(text: str) -> paramiko.PKey:
    """Read a private key of any kind that the library supports.

    Raises
    ------
    Misconfigured
        If it is none, or has a passphrase.
    """
    library()
    import paramiko  # noqa: PLC0415

    for kind in (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey):
        try:
            return kind.from_private_key(io.StringIO(text))
        except (paramiko.SSHException, ValueError, IndexError):
            continue
    raise Misconfigured(
        "the private key is none",
        why="it is neither ed25519, ecdsa nor rsa, or it has a passphrase",
        fix="make one: ssh-keygen -t ed25519 -N '' -f KEY; name KEY as secret_file",
    )


def check_host_key(text: str) -> str:
    """Return type and base64 of a public key in the format of ``ssh-keyscan``.

    Raises
    ------
    Misconfigured
    """
    words = [word for word in text.split() if word]
    for kind, blob in itertools.pairwise(words):
        if kind.startswith(("ssh-", "ecdsa-")):
            try:
                base64.b64decode(blob, validate=True)
            except ValueError:
                break
            return f"{kind} {blob}"
    raise Misconfigured(
        "host_key is no public key",
        why="without it anybody could stand in for the server",
        fix="write what ssh-keyscan prints, after asking the server's people whether "
        "it is theirs",
    )


@contextmanager
def session(
    server: Server, resolve: Resolve = addresses
) -> Iterator[paramiko.SFTPClient]:
    """Log in for the duration of the block.

    Raises
    ------
    Misconfigured
        If another server answers, it does not accept our key, or it may not be reached.
    TryLater
        If nobody answers, or the connection breaks.
    """
    import paramiko  # noqa: PLC0415

    key = read_key(server.key)
    transport = None
    try:
        transport = paramiko.Transport(_connected(server, resolve))
        transport.set_keepalive(10)
        transport.start_client(timeout=SECONDS)
        shown = transport.get_remote_server_key()
        if f"{shown.get_name()} {shown.get_base64()}" != server.host_key:
            raise Misconfigured(
                f"{server.host} shows another host key than the one that is set",
                why="this may be another server, or somebody between",
                fix="ask its people for the new key before you set it",
            )
        transport.auth_publickey(server.user, key)
        client = paramiko.SFTPClient.from_transport(transport)
        assert client is not None, "a transport that is authenticated opens a channel"
        channel = client.get_channel()
        if channel is not None:
            channel.settimeout(SECONDS)
        yield client
    except ConnectorError:
        raise
    except paramiko.AuthenticationException:
        raise Misconfigured(
            f"{server.host} does not know our key",
            fix="give its people the public key that belongs to the secret_file",
        ) from None
    except PermissionError:
        raise Misconfigured(
            f"{server.host} does not let us write there",
            fix="ask for the right to write and rename in the directory",
        ) from None
    except FileNotFoundError:
        raise Misconfigured(
            f"{server.host} has no such directory", fix="correct the setting directory"
        ) from None
    except (paramiko.SSHException, OSError, EOFError) as error:
        _later(server, error)
    finally:
        if transport is not None:
            transport.close()


def _later(server: Server, error: BaseException) -> NoReturn:
    raise TryLater(
        f"the session with {server.host} broke",
        why=type(error).__name__,
        fix="it is tried again later",
    ) from None


def _connected(
    server: Server,
    resolve: Resolve,
    connect: Callable[..., socket.socket] = socket.create_connection,
) -> socket.socket:
    """Connect to an address of the host after checking it."""
    try:
        found = list(dict.fromkeys(resolve(server.host, server.port)))
    except (OSError, UnicodeError) as error:
        _later(server, error)
    if not server.private and not all(map(is_public, found)):
        raise Misconfigured(
            f"{server.host} lies in a private network",
            fix=f'if it is meant: allow_private = "{server.host}" at this connector',
        )
    last: OSError = OSError("no address")
    for address in found:
        try:
            return connect((address, server.port), timeout=SECONDS)
        except OSError as error:
            last = error
    _later(server, last)
