"""The key file: the wrapping keys of a store, which are never in the store itself.

One key a line, ``dispatcher-key-1 ID SECRET``; the first wraps new data keys, the
others still open older ones. The id is derived from the secret, so that a truncated or
mistyped line is detected at once. The file is 0600.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dispatcher.core.errors import Conflict, WrongKey
from dispatcher.core.input_files import read_input
from dispatcher.core.keys import KEY_BYTES
from dispatcher.core.private_files import private, sync_folder

WORD: Final = "dispatcher-key-1"
ID_CHARS: Final = 16

_HEADER: Final = """\
# The key that opens the values of a dispatcher store. Whoever has this file and the
# store reads everything; without it the values are lost for good. Keep a copy in
# another safe place, never with the backups.
"""


@dataclass(frozen=True)
class WrappingKey:
    """A key that wraps the data keys.

    Attributes
    ----------
    secret : bytes
        32 random bytes.
    """

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) != KEY_BYTES:
            msg = f"a wrapping key has {KEY_BYTES} bytes, got {len(self.secret)}"
            raise ValueError(msg)

    @property
    def id(self) -> str:
        """Id of the key: 16 hex digits that reveal nothing of the secret."""
        return hashlib.sha256(b"wrapping key id\0" + self.secret).hexdigest()[:ID_CHARS]


@dataclass(frozen=True)
class Keyring:
    """The wrapping keys of a file, the current one first."""

    path: Path
    keys: tuple[WrappingKey, ...]

    @property
    def current(self) -> WrappingKey:
        """The key that wraps new data keys."""
        return self.keys[0]

    def find(self, key_id: str) -> WrappingKey | None:
        """Return the key of an id, or None."""
        return next((key for key in self.keys if key.id == key_id), None)


def read_keyring(path: Path, *, credential: bool = False) -> Keyring:
    """Read a key file.

    Parameters
    ----------
    path : Path
    credential : bool
        Whether it is a systemd credential: systemd controls its mode.

    Raises
    ------
    WrongKey
        It is missing, unreadable, readable by others, or no key file.
    """
    try:
        mode = path.stat().st_mode
        text = read_input(path).decode("ascii")
    except FileNotFoundError:
        raise WrongKey(
            f"there is no key file {path}",
            why="the store's values are encrypted, and only this file opens them",
            fix="put the file back, or say where it is: key_file in dispatcher.toml, or"
            " DISPATCHER_KEY_FILE. If all copies are lost, so are the values; ledger"
            " and evidence stay.",
        ) from None
    except PermissionError:
        raise WrongKey(
            f"the key file {path} is closed to this user",
            why="it belongs to somebody else, perhaps to root",
            fix="run the command as the dispatcher's own user, or as root:"
            f" chown DISPATCHER-USER {path}",
        ) from None
    except (OSError, UnicodeDecodeError):
        raise _no_key_file(path, "it cannot be read as text") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO) and not credential:
        raise WrongKey(
            f"others may read the key file {path}",
            why=f"its mode is {stat.S_IMODE(mode):04o}; whoever has the key reads every"
            " value of the store",
            fix=f"chmod 600 {path}; if others had access to it: dispatcher db rekey"
            " --new-key",
        )
    return Keyring(path, _parsed(path, text))


def _parsed(path: Path, text: str) -> tuple[WrappingKey, ...]:
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        words = line.split()
        try:
            key = WrappingKey(bytes.fromhex(words[-1]))
        except ValueError:
            raise _no_key_file(path, f"line {number} is cut short or changed") from None
        if words[:-1] != [WORD, key.id]:
            raise _no_key_file(path, f"line {number} is cut short or changed")
        found.append(key)
    if not found:
        raise _no_key_file(path, "it holds no key")
    return tuple(found)


def _no_key_file(path: Path, why: str) -> WrongKey:
    return WrongKey(
        f"{path} is no key file",
        why=f"{why}; a line is: {WORD} ID SECRET",
        fix="put the right file back from its copy",
    )


def make_keyring(path: Path, entropy: Callable[[int], bytes]) -> Keyring:
    """Make a key file with one new key, 0600 and durable.

    Raises
    ------
    Conflict
        The file exists already: it is never overwritten.
    """
    ring = Keyring(path, (WrappingKey(entropy(KEY_BYTES)),))
    me = f"{os.getpid()}.{threading.get_ident()}"
    temporary = path.with_name(f".{path.name}.{me}")
    try:
        temporary.unlink(missing_ok=True)
        _write(temporary, ring)
        path.hardlink_to(temporary)  # whole, or not at all; never over another one
        sync_folder(path.parent)
    except FileExistsError:
        raise Conflict(
            f"there is a key file {path} already",
            why="a key that is overwritten takes every value under it along",
            fix="move it away yourself, if no store needs it",
        ) from None
    finally:
        temporary.unlink(missing_ok=True)
    return ring


@contextmanager
def changing(path: Path) -> Iterator[None]:
    """Lock a key file against changes by other processes on this machine.

    Raises
    ------
    Conflict
        Another process has locked it.
    WrongKey
        The file's folder cannot be opened.
    """
    try:  # the folder's own lock: no further file lies beside the key
        lock = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _unchangeable(path, error) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(
                f"the key file {path} is being changed by another command",
                why="of two new keys one would be lost, and every value under it",
                fix="wait until the other `dispatcher db rekey` has ended; a second "
                "new key is hardly needed then",
            ) from None
        yield
    finally:
        os.close(lock)


def add_key(ring: Keyring, entropy: Callable[[int], bytes]) -> Keyring:
    """Add a new key before the existing ones."""
    return _replaced(ring, (WrappingKey(entropy(KEY_BYTES)), *ring.keys))


def keep_keys(ring: Keyring, ids: Collection[str]) -> Keyring:
    """Remove all keys except those of the ids and the current one."""
    return _replaced(
        ring, tuple(k for k in ring.keys if k is ring.current or k.id in ids)
    )


def drop_key(ring: Keyring, key_id: str) -> Keyring:
    """Remove a key under which nothing was wrapped."""
    return _replaced(ring, tuple(key for key in ring.keys if key.id != key_id))


def _unchangeable(path: Path, error: OSError) -> WrongKey:
    return WrongKey(
        f"the key file {path} cannot be changed",
        why=error.strerror or type(error).__name__,
        fix="change it where it is made (a systemd credential is read-only): put a"
        " line of a new key before the others",
    )


def _replaced(ring: Keyring, keys: tuple[WrappingKey, ...]) -> Keyring:
    changed = Keyring(ring.path, keys)
    temporary = ring.path.with_name(f".{ring.path.name}.new")
    try:
        temporary.unlink(missing_ok=True)
        _write(temporary, changed)
        temporary.replace(ring.path)
        sync_folder(ring.path.parent)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise _unchangeable(ring.path, error) from None
    return changed


def _write(path: Path, ring: Keyring) -> None:
    lines = [f"{WORD} {key.id} {key.secret.hex()}\n" for key in ring.keys]
    with open(path, "x", encoding="ascii", opener=private) as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(_HEADER + "".join(lines))
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)
