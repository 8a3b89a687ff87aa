"""Encrypted files of any size: AES-GCM in chunks whose order and end are authenticated.

Layout: a line of magic, the header (JSON, its length before it), then chunks. Each
chunk is a piece of the compressed text under its own nonce: a random prefix, its
number, and whether it is the last. Header, order and end cannot be changed without the
key. This is the STREAM construction of Hoang, Reyhanitabar, Rogaway and Vizar (CRYPTO
2015).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dispatcher.core.errors import WrongKey
from dispatcher.store.dumping import broken

MAGIC: Final = b"dispatcher-backup-1\n"
CHUNK: Final = 2**20
SCRYPT_N: Final = 2**16
_SCRYPT_MOST: Final = 2**20
_HEADER_MOST: Final = 2**16
_PREFIX: Final = 7
_TAG: Final = 16


@dataclass(frozen=True)
class Secret:
    """What encrypts a backup: a passphrase, or keys of a key file by their ids.

    Attributes
    ----------
    passphrase : bytes or None
    keys : Mapping of str to bytes
        The first one seals.
    """

    passphrase: bytes | None = field(default=None, repr=False)
    keys: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def begin(self, entropy: Callable[[int], bytes]) -> dict[str, Any]:
        """Choose how a new file is sealed: the header's member ``key``."""
        salt = entropy(16).hex()
        if self.passphrase is not None:
            return {"kind": "passphrase", "n": SCRYPT_N, "salt": salt}
        return {"kind": "key-file", "id": next(iter(self.keys)), "salt": salt}

    def key(self, spec: Mapping[str, Any]) -> bytes:
        """Derive the key of a file from the header's member ``key``.

        Raises
        ------
        WrongKey
            The file was sealed with another secret.
        KeyError, TypeError, ValueError
            The member is not of its form.
        """
        salt = bytes.fromhex(spec["salt"])
        if spec["kind"] == "passphrase":
            n = int(spec["n"])
            if self.passphrase is None:
                raise _wrong(
                    "It is sealed with a passphrase.", "--passphrase-from FILE"
                )
            if not 2 <= n <= _SCRYPT_MOST or n & (n - 1):
                raise ValueError(n)
            return hashlib.scrypt(
                self.passphrase, salt=salt, n=n, r=8, p=1, maxmem=2**31 - 1, dklen=32
            )
        found = self.keys.get(str(spec["id"]))
        if found is None:
            raise _wrong(f"It is sealed with key {spec['id']}.", "--key-file FILE")
        return hmac.digest(found, b"dispatcher backup\0" + salt, "sha256")


def write_sealed(
    file: BinaryIO,
    header: Mapping[str, Any],
    lines: Iterator[str],
    secret: Secret,
    entropy: Callable[[int], bytes],
) -> None:
    """Write a sealed file.

    Parameters
    ----------
    file : BinaryIO
    header : Mapping
        Readable without the key, but authenticated; ``key`` and ``check`` are added.
    lines : iterator of str
    secret : Secret
    entropy : callable
    """
    sealed_header = dict(header) | {"key": secret.begin(entropy)}
    key = secret.key(sealed_header["key"])
    sealed_header["check"] = _check(key)
    text = json.dumps(sealed_header, sort_keys=True, separators=(",", ":")).encode()
    prefix = entropy(_PREFIX)
    file.write(MAGIC + struct.pack(">I", len(text)) + text + prefix)
    cipher, bound = AESGCM(key), hashlib.sha256(MAGIC + text).digest()
    for number, (piece, last) in enumerate(_pieces(lines)):
        sealed = cipher.encrypt(_nonce(prefix, number, last=last), piece, bound)
        file.write(struct.pack(">I", len(sealed)) + sealed)


def _pieces(lines: Iterator[str]) -> Iterator[tuple[bytes, bool]]:
    """Yield compressed pieces of ``CHUNK`` bytes; flag the last, shorter one."""
    press = zlib.compressobj(6)
    ready = bytearray()
    for line in lines:
        ready += press.compress(line.encode())
        while len(ready) > CHUNK:
            yield bytes(ready[:CHUNK]), False
            del ready[:CHUNK]
    ready += press.flush()
    while len(ready) > CHUNK:
        yield bytes(ready[:CHUNK]), False
        del ready[:CHUNK]
    yield bytes(ready), True


def read_header(file: BinaryIO) -> tuple[dict[str, Any], bytes]:
    """Read the header of a sealed file, and its bytes.

    Raises
    ------
    BackupBroken
        It is no such file.
    """
    if file.read(len(MAGIC)) != MAGIC:
        raise broken("it is no backup of this program")
    size = struct.unpack(">I", _exactly(file, 4))[0]
    if size > _HEADER_MOST:
        raise broken("its header is too long")
    text = _exactly(file, size)
    try:
        header = json.loads(text)
        header["key"]["kind"], header["id"], header["schema"], header["check"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise broken("its header cannot be read") from None
    return header, text


def read_sealed(file: BinaryIO, secret: Secret) -> tuple[dict[str, Any], Iterator[str]]:
    """Open a sealed file; return its header and a stream of its lines.

    Raises
    ------
    WrongKey
        The secret is not the one that it was sealed with.
    BackupBroken
        It is no such file; or, while it is read: it was cut off or changed.
    """
    header, text = read_header(file)
    try:
        key = secret.key(header["key"])
    except (KeyError, TypeError, ValueError):
        raise broken("its header cannot be read") from None
    if not hmac.compare_digest(str(header["check"]), _check(key)):
        raise _wrong("The passphrase or the key is another one.", "the right one")
    prefix = _exactly(file, _PREFIX)
    bound = hashlib.sha256(MAGIC + text).digest()
    return header, _lines(_opened(file, AESGCM(key), prefix, bound))


def _opened(
    file: BinaryIO, cipher: AESGCM, prefix: bytes, bound: bytes
) -> Iterator[bytes]:
    number, size = 0, file.read(4)
    while True:
        if len(size) < 4:
            raise broken("it was cut off")
        length = struct.unpack(">I", size)[0]
        if not _TAG <= length <= CHUNK + _TAG:
            raise broken("it was changed")
        sealed = _exactly(file, length)
        size = file.read(4)
        try:
            piece = cipher.decrypt(_nonce(prefix, number, last=not size), sealed, bound)
        except InvalidTag:
            raise broken("it was cut off, or changed") from None
        yield piece
        if not size:
            return
        number += 1


def _lines(pieces: Iterator[bytes]) -> Iterator[str]:
    """Decompress, and cut into lines."""
    press = zlib.decompressobj()
    rest = b""
    for piece in pieces:
        left = piece
        while left:
            try:
                rest += press.decompress(left, 4 * CHUNK)
            except zlib.error:
                raise broken("its text cannot be read") from None
            left = press.unconsumed_tail
            *whole, rest = rest.split(b"\n")
            yield from (line.decode() for line in whole)
    if rest or not press.eof:
        raise broken("its text ends in the midst of a line")


def _exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise broken("it was cut off")
    return data


def _nonce(prefix: bytes, number: int, *, last: bool) -> bytes:
    return prefix + struct.pack(">IB", number, last)


def _check(key: bytes) -> str:
    """Return a digest that distinguishes a wrong key from a damaged file."""
    return hmac.digest(key, b"dispatcher backup check", "sha256")[:16].hex()


def _wrong(why: str, fix: str) -> WrongKey:
    return WrongKey(
        "the backup is sealed with another secret",
        why=why,
        fix=f"Give {fix}; nothing was restored.",
    )
