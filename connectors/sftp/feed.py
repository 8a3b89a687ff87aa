"""Write items as a file and its manifest, each renamed into place."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

from connectors.base import (
    Handle,
    Identity,
    Limits,
    Manifest,
    Misconfigured,
    Offer,
    Settings,
    feed_manifest,
)
from connectors.formats.feed_files import check_format, file_name, written
from connectors.sftp.session import Server, check_host_key, library, read_key, session

if TYPE_CHECKING:
    import paramiko

MANIFEST = feed_manifest(
    name="sftp",
    identity=Identity.LOGIN,
    limits=Limits(items=10_000),
    tested_against="a real OpenSSH server",
)

_SETTINGS: Final = (
    "host", "port", "user", "host_key", "directory", "format", "guard", "allow_private",
)  # fmt: skip


class SftpFeed:
    """One directory of one server.

    Parameters
    ----------
    server : Server
    directory : str
        Where files are written; ``"."``: the login directory.
    form : str
        One of :data:`connectors.formats.feed_files.FORMATS`.
    guarded : bool
        Whether cells of CSV are guarded against formulas.
    """

    def __init__(
        self, server: Server, directory: str, form: str, *, guarded: bool
    ) -> None:
        self._server = server
        self._directory = directory
        self._form = form
        self._guarded = guarded

    @property
    def manifest(self) -> Manifest:
        """A feed that stores a file once, and can be searched for it."""
        return MANIFEST

    def send(self, offer: Offer) -> Handle:
        """Write the file, then its manifest; a repeat writes the same bytes."""
        MANIFEST.check(offer)
        body = written(offer.items, self._form, guarded=self._guarded)
        name = file_name(offer.key, self._form)
        manifest = {
            "file": name,
            "bytes": len(body),
            "rows": len(offer.items),
            "sha256": hashlib.sha256(body).hexdigest(),
        }
        with session(self._server) as sftp:
            sftp.chdir(self._directory)
            if not _is_there(sftp, _manifest_of(name)):
                _drop(sftp, name, body)
                text = json.dumps(manifest, sort_keys=True) + "\n"
                _drop(sftp, _manifest_of(name), text.encode("ascii"))
        return Handle(offer.key, name)

    def find(self, key: str) -> Handle | None:
        """Look for the manifest: without it the file may be incomplete."""
        name = file_name(key, self._form)
        with session(self._server) as sftp:
            sftp.chdir(self._directory)
            return Handle(key, name) if _is_there(sftp, _manifest_of(name)) else None


def _manifest_of(name: str) -> str:
    return f"{name.rpartition('.')[0]}.manifest.json"


def _is_there(sftp: paramiko.SFTPClient, name: str) -> bool:
    try:
        sftp.stat(name)
    except FileNotFoundError:
        return False
    return True


def _drop(sftp: paramiko.SFTPClient, name: str, body: bytes) -> None:
    """Write under another name, check the size, and rename over an existing file."""
    half = f".{name}.tmp"
    with sftp.open(half, "wb") as file:
        file.set_pipelined(True)
        file.write(body)
    if sftp.stat(half).st_size != len(body):
        raise OSError("the file is not whole")
    sftp.posix_rename(half, name)


def open_sftp(settings: Settings) -> SftpFeed:
    """Open the directory in the settings; uses no network."""
    values = settings.of("sftp", _SETTINGS, ("host", "user", "host_key"))
    form, guarded = values.get("format", "csv"), values.get("guard", "yes")
    check_format(form, guarded)
    port = values.get("port", "22")
    if not port.isascii() or not port.isdigit() or not 0 < int(port[:6]) < 65_536:
        raise Misconfigured(f"port is {port[:20]!r}", fix="write 1 to 65535")
    host = values["host"].strip().lower()
    library()
    text = settings.secret.decode("ascii", "replace") + "\n"
    read_key(text)
    server = Server(
        host=host,
        port=int(port),
        user=values["user"],
        host_key=check_host_key(values["host_key"]),
        private=host in settings.private,
        key=text,
    )
    directory = values.get("directory", ".")
    return SftpFeed(server, directory, form, guarded=guarded == "yes")
