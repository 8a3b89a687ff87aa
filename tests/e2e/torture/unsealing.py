"""Sealed values of a store opened from outside, by the form of the files alone."""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.e2e.torture.raw import Raw

NONCE, NAME = 12, 16
KEY_FILE = "dispatcher.key"


def open_text(cipher: AESGCM, place: str, sealed: bytes) -> bytes:
    """Nonce, then the text of AES-GCM; bound to a column and the id of its row."""
    return cipher.decrypt(sealed[:NONCE], sealed[NONCE:], place.encode())


class Unsealing:
    """Opens values with the key file of a directory; what is in clear stays as it is."""

    def __init__(self, store: Raw, directory: Path) -> None:
        self._wrapping: dict[str, AESGCM] = {}
        path = directory / KEY_FILE
        if path.exists():
            for line in path.read_text(encoding="ascii").splitlines():
                words = line.split()
                if words[:1] == ["dispatcher-key-1"]:
                    self._wrapping[words[1]] = AESGCM(bytes.fromhex(words[2]))
        self._data = {
            number: AESGCM(
                open_text(self._wrapping[kek], f"value_key:{number}", bytes(wrapped))
            )
            for number, kek, wrapped in store.rows(
                "SELECT id, kek, wrapped FROM value_key"
            )
        }

    def value(
        self, column: str, row_id: int, key_id: int | None, value: bytes
    ) -> bytes:
        """A value of a row; words that nobody gives for one that was changed."""
        if key_id is None:
            return bytes(value)
        try:
            return open_text(self._data[key_id], f"{column}:{row_id}", bytes(value))
        except (InvalidTag, ValueError):  # changed, or too short to be one
            return b"(does not open)"

    def setting(self, name: str, value: bytes) -> bytes:
        """A key of the store: 32 bytes, or the name of its wrapping key and its text."""
        if len(value) == 32:
            return value
        kek, wrapped = value[:NAME].decode("ascii"), value[NAME:]
        return open_text(self._wrapping[kek], f"setting.{name}:0", wrapped)
