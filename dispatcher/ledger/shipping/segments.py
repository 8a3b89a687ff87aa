"""The files of the shipped ledger: JSON lines, appended, rotated, never rewritten.

A folder contains ``ledger-000001.jsonl``, ``ledger-000002.jsonl`` and so on. The first
line of each names the store and the head of every chain when the file was begun, so
that only the last file has to be read to continue. All other lines are in the evidence
format; what evidence keeps in separate files (policies, keys) precedes the line it
belongs to.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dispatcher.core.canonical import NO_HASH, canonical
from dispatcher.core.errors import LedgerBroken, LedgerForeign, NotShipped
from dispatcher.core.private_files import private, sync_folder
from dispatcher.ledger.chains import SYSTEM

SEGMENT_BYTES: Final = 16 * 2**20
"""A file that has grown to this size is followed by the next one."""

PADDING: Final = b" " * 479 + b"\n"
"""As long as the line of an exposure, about."""

_NAME: Final = re.compile(r"ledger-([0-9]+)\.jsonl")
_START: Final = (0, NO_HASH)
_ATTACHED: Final = b'{"attached":'


@dataclass(frozen=True, slots=True)
class ShippedLine:
    """A line of the shipped ledger: its members, position and bytes."""

    members: dict[str, Any]
    place: str
    raw: bytes


class Segments:
    """The folder of one store's shipped ledger, as one process sees it.

    Parameters
    ----------
    folder : Path
        Created if missing.
    store : str
        Id of the store that the ledger must be of.
    limit : int
        Bytes after which the next file is begun.

    Attributes
    ----------
    heads : dict of str to (int, str)
        By chain: number and hash of its last line here. Valid under :meth:`locked`.
    """

    def __init__(self, folder: Path, store: str, *, limit: int = SEGMENT_BYTES) -> None:
        self.folder = folder
        self.heads: dict[str, tuple[int, str]] = {}
        self._store = store
        self._lock = str(folder / "lock")
        self._padding = str(folder / "padding")
        self._limit = limit
        self._number = 0
        self._file = -1
        self._size = 0

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder for this process, and read what others wrote.

        Raises
        ------
        NotShipped
            The folder cannot be written or read.
        LedgerForeign, LedgerBroken
        """
        try:
            lock = self._open_lock()
        except OSError as error:
            raise unwritable(self.folder, error) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._refresh()
            yield
        except OSError as error:
            self.close()
            raise unwritable(self.folder, error) from None
        finally:
            os.close(lock)

    def _open_lock(self) -> int:
        try:
            return private(self._lock, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:
            self.folder.mkdir(parents=True, mode=0o700, exist_ok=True)
            return private(self._lock, os.O_RDWR | os.O_CREAT)

    def head(self, chain: str) -> tuple[int, str]:
        """Return number and hash of a chain's last line here."""
        return self.heads.get(chain, _START)

    def append(self, text: bytes, heads: Mapping[str, tuple[int, str]]) -> None:
        """Append whole lines and make them durable; call it under :meth:`locked`.

        Raises
        ------
        OSError
            Nothing was appended: what was written was truncated again.
        """
        if self._size >= self._limit or self._file < 0:
            self._begin()
        try:
            _write(self._file, text, self._size)
            os.fdatasync(self._file)
        except OSError:
            # After a failed sync the disk's content is unknown: forget the state.
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
                os.fsync(self._file)
            self.close()
            raise
        self._size += len(text)
        self.heads.update(heads)

    def pad(self) -> None:
        """Make as much durable as a line is, in a file beside that nobody reads.

        A made-up question appends no line, and must not be known by a shorter wait.
        """
        file = private(self._padding, os.O_WRONLY | os.O_CREAT)
        try:
            size = os.fstat(file).st_size
            if size >= self._limit:
                os.ftruncate(file, size := 0)
            _write(file, PADDING, size)
            os.fdatasync(file)
        finally:
            os.close(file)

    def close(self) -> None:
        """Close the file; it is opened and read again when needed."""
        if self._file >= 0:
            os.close(self._file)
        self._file, self._number, self._size, self.heads = -1, 0, 0, {}

    def _refresh(self) -> None:
        """Read what was appended to the last file since this process read it."""
        number = _last_number(self.folder)
        if self._file >= 0 and number == self._number:
            size = os.fstat(self._file).st_size
            if size == self._size:
                return
            if size > self._size:
                self._read_on()
                return
        self.close()
        if number:
            path = _path(self.folder, number)
            self._file = private(path, os.O_RDWR)
            self._number = number
            self._read_on()

    def _read_on(self) -> None:
        path = _path(self.folder, self._number)
        with path.open("rb") as file:
            file.seek(self._size)
            data = file.read()
        whole = _whole(data)
        if whole < len(data):  # a truncated write: never confirmed
            os.ftruncate(self._file, self._size + whole)
            os.fsync(self._file)
        if self._size == 0:
            if not whole:
                self._drop_empty(path)
                return
            head, _, _ = data.partition(b"\n")
            self.heads = _heads(head, path, self._store)
        first = 1 if self._size == 0 else 0
        _read(self.heads, data[:whole].split(b"\n")[first:-1], path.name, first + 1)
        self._size += whole

    def _drop_empty(self, path: Path) -> None:
        """Remove a file whose first line was truncated."""
        self.close()
        path.unlink()
        sync_folder(self.folder)
        self._refresh()

    def _begin(self) -> None:
        """Begin the next file with the heads of the chains."""
        number = self._number + 1
        heads = {c: {"seq": s, "hash": h} for c, (s, h) in self.heads.items()}
        head = {"format": 1, "heads": heads, "segment": number, "store": self._store}
        text = (canonical(head) + "\n").encode()
        path = _path(self.folder, number)
        file = private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            _write(file, text, 0)
            os.fsync(file)
            sync_folder(self.folder)
        except OSError:
            os.close(file)
            with suppress(OSError):
                path.unlink()
            raise
        if self._file >= 0:
            os.close(self._file)
        self._file, self._number, self._size = file, number, len(text)


def shipped_lines(folder: Path, *, store: str | None = None) -> Iterator[ShippedLine]:
    """Read a whole shipped ledger, file by file, in constant memory.

    Every line is checked to continue its chain, by number and ``prev``, and to follow
    its attachments. A truncated last line is ignored.

    Parameters
    ----------
    folder : Path
    store : str, optional
        Id of the store that it must be of.

    Raises
    ------
    LedgerBroken
        There is none, it has a gap, or a line is malformed.
    LedgerForeign
        It is of another store.
    """
    heads: dict[str, tuple[int, str]] = {}
    last = _last_number(folder)
    if not last:
        raise broken(str(folder), "there is no shipped ledger in this folder")
    for number in range(1, last + 1):
        path = _path(folder, number)
        if not path.is_file():
            raise broken(path.name, "this file is missing, and a later one is there")
        with path.open("rb") as file:
            head = file.readline()
            if not head.endswith(b"\n") and number == last:
                return
            found = _heads(head, path, store)
            if found != heads:
                raise broken(path.name, "it does not go on where the last file ended")
            store = store or _parsed(head, path.name)["store"]
            attachments = Attachments()
            for place, raw in enumerate(file, start=2):
                where = f"{path.name}:{place}"
                if not raw.endswith(b"\n"):
                    if number == last:
                        return
                    raise broken(where, "the line was cut off")
                members = _parsed(raw, where)
                if not attachments.take(members, where):
                    _follow(heads, members, where)
                yield ShippedLine(members, where, raw)


def read_end(folder: Path, store: str) -> tuple[int, dict[str, tuple[int, str]]]:
    """Read the last file of a shipped ledger; return file count and chain heads.

    A truncated line, which may still be being written, is ignored.

    Raises
    ------
    LedgerBroken, LedgerForeign
    OSError
        A file cannot be read.
    """
    files = last = _last_number(folder)
    for number in range(1, last + 1):
        if not _path(folder, number).is_file():
            raise broken(
                _path(folder, number).name,
                "this file is missing, and a later one is there",
            )
    while last:
        path = _path(folder, last)
        head, *lines = path.read_bytes().split(b"\n")[:-1] or [b""]
        if head:
            heads = _heads(head, path, store)
            _read(heads, lines, path.name, 2)
            return files, heads
        last -= 1  # it is just being begun
    return files, {}


def _whole(data: bytes) -> int:
    """Return the length of all complete lines, attachments only with their line."""
    end = data.rfind(b"\n") + 1
    while end:
        start = data.rfind(b"\n", 0, end - 1) + 1
        if not data.startswith(_ATTACHED, start):
            break
        end = start
    return end


def _read(
    heads: dict[str, tuple[int, str]], lines: Iterable[bytes], name: str, first: int
) -> None:
    """Check and yield some lines of a file; ``first`` is the number of the first."""
    attachments = Attachments()
    for number, line in enumerate(lines, first):
        members = _parsed(line, f"{name}:{number}")
        if not attachments.take(members, f"{name}:{number}"):
            _follow(heads, members, f"{name}:{number}")


def _follow(
    heads: dict[str, tuple[int, str]], members: Mapping[str, Any], where: str
) -> None:
    try:
        chain, seq = members["chain"], members["seq"]
        prev, own = members["prev"], members["hash"]
    except KeyError:
        raise broken(where, "it is no line of a ledger") from None
    known = heads.get(chain, _START)
    if seq != known[0] + 1 or prev != known[1]:
        raise broken(
            where, f"chain {chain} has a gap: line {seq} follows line {known[0]}"
        )
    heads[chain] = (seq, own)


def _heads(line: bytes, path: Path, store: str | None) -> dict[str, tuple[int, str]]:
    head = _parsed(line, path.name)
    try:
        owner, fmt = head["store"], head["format"]
        heads = {c: (int(h["seq"]), str(h["hash"])) for c, h in head["heads"].items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise broken(path.name, "its first line is not that of a ledger") from None
    if fmt != 1:
        raise broken(path.name, "a newer version of the program wrote it")
    if store is not None and owner != store:
        raise LedgerForeign(
            f"the shipped ledger in {path.parent} is another store's",
            why=f"It is of store {owner}, this one is {store}.",
            fix='Give each store a folder of its own: ship = "DIR" in [ledger].',
        )
    return heads


def _parsed(line: bytes, where: str) -> dict[str, Any]:
    try:
        members = json.loads(line)
    except (ValueError, RecursionError):
        raise broken(where, "it is not JSON") from None
    if not isinstance(members, dict):
        raise broken(where, "it is no object")
    return members


def check_writable(folder: Path) -> None:
    """Check that this user could append something; free space is not checked.

    Raises
    ------
    NotShipped
    """
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent  # missing folders are created
    last = _last_number(folder)
    files = [(_path(folder, last), os.W_OK)] if last else []
    for path, mode in [(place, os.W_OK | os.X_OK), *files]:
        if not os.access(path, mode):
            raise unwritable(
                folder, OSError(errno.EACCES, f"{path} may not be written")
            )


def unwritable(folder: Path, error: OSError) -> NotShipped:
    """Return the error for a folder that cannot be written or read."""
    return NotShipped(
        f"the ledger cannot be shipped to {folder}",
        why=f"{error.strerror or error}. Every showing must be written there before it "
        "happens; what is in the store is safe, nothing new is shown.",
        fix="Free some space or repair the disk; shipping resumes by itself. To ship elsewhere: "
        "[ledger] ship in dispatcher.toml.",
    )


def _write(file: int, text: bytes, offset: int) -> None:
    view = memoryview(text)
    while view:
        done = os.pwrite(file, view, offset)
        view, offset = view[done:], offset + done


def _path(folder: Path, number: int) -> Path:
    return folder / f"ledger-{number:06d}.jsonl"


def _last_number(folder: Path) -> int:
    """Number of the last file; asked before every append."""
    try:
        found = map(_NAME.fullmatch, os.listdir(folder))  # noqa: PTH208 - a Path each
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return 0
    return max((int(name[1]) for name in found if name), default=0)


# -- attachments: content of which lines of chain system have only digests -------------
# A line of a version or of a load is shipped right after its attachments: policy and
# functions, or keys and links, each in one or several lines that no chain counts. Only
# the line itself shows that one of them was removed or changed.

_DIGESTS: Final = {
    "policy": {"policy": "sha256", "functions": "functions_sha256"},
    "keys": {
        "keys": "keys_sha256",
        "relations": "relations_sha256",
        "facts": "facts_sha256",
    },
}
"""By kind of line: its attachments, and the members with their digests."""

_AGAIN: Final = {"keys-again": "keys"}
"""Aliases of attachments."""


class Attachments:
    """Checks the attachments in a stream of shipped lines."""

    def __init__(self) -> None:
        self._seq = 0
        self._digests: dict[str, Any] = {}

    def take(self, members: Mapping[str, Any], where: str) -> bool:
        """Take the next line; return whether it is attached to one that follows.

        Raises
        ------
        LedgerBroken
            A line's digest does not match its attachments.
        """
        try:
            if "attached" in members:
                self._attach(str(members["attached"]), members, where)
                return True
            if self._digests or members.get("chain") == SYSTEM:
                self._compare(members, where)
        except (KeyError, TypeError, AttributeError, UnicodeError):
            raise broken(where, "it is no line of a ledger") from None
        return False

    def _attach(self, name: str, members: Mapping[str, Any], where: str) -> None:
        if self._digests and members["seq"] != self._seq:
            raise broken(where, f"what line {self._seq} of {SYSTEM} is about is alone")
        self._seq = members["seq"]
        digest = self._digests.setdefault(name, hashlib.sha256())
        digest.update(members["text"].encode())

    def _compare(self, members: Mapping[str, Any], where: str) -> None:
        kind = str(members["kind"]) if members["chain"] == SYSTEM else ""
        found = {_AGAIN.get(n, n): d.hexdigest() for n, d in self._digests.items()}
        if found and (members["seq"] != self._seq or len(found) < len(self._digests)):
            raise broken(where, f"what line {self._seq} of {SYSTEM} is about is alone")
        for name, member in _DIGESTS.get(kind, {}).items():
            if found.pop(name, _NOTHING) != members[member]:
                raise broken(where, f"its {name} do not stand before it as it was")
        if found:
            raise broken(where, "it is preceded by something that it is not about")
        self._digests.clear()


_NOTHING: Final = hashlib.sha256().hexdigest()


def broken(where: str, why: str) -> LedgerBroken:
    """Return the error for files that were changed."""
    return LedgerBroken(
        f"the shipped ledger does not read as it was written: {where}",
        why=f"{why[0].upper()}{why[1:]}.",
        fix="Put the file back from a copy of it. If there is none, move the folder "
        "away: the store's own ledger is shipped anew, whole, if it was never restored.",
    )
