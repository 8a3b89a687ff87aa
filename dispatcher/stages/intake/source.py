"""Bytes from a path or a stream, decompressed with limits.

A gzip bomb is refused by its decoded size, never by its declared one: at most
``max_bytes``, and at most 200 bytes for each byte read once past 1 MiB. One level only.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

from dispatcher.core.errors import Invalid
from dispatcher.core.input_files import open_input

BLOCK: Final = 1 << 18
HEAD: Final = 1 << 18
GZIP: Final = b"\x1f\x8b"
MAX_RATIO: Final = 200
RATIO_FREE: Final = 1 << 20  # short runs of equal rows compress better than any text
IN_MEMORY: Final = 512 << 20


@dataclass(slots=True)
class Source:
    """Bytes to read once.

    Attributes
    ----------
    name : str
        Its name in messages.
    path : Path or None
        None for a stream.
    size : int or None
        Bytes as stored.
    compressed : bool
    head : bytes
        The first bytes, decoded; at most about 512 KiB.
    max_bytes : int
    """

    name: str
    path: Path | None
    size: int | None
    compressed: bool
    head: bytes
    max_bytes: int
    whole: bool
    _rest: Iterator[bytes]
    _stream: BinaryIO
    _counter: _Counter

    def blocks(self) -> Iterator[bytes]:
        """Return all bytes in order, in blocks; once."""
        return chain((self.head,), self._rest)

    def position(self) -> int:
        """Return how many stored bytes have been read."""
        return self._counter.total

    def at(self, position: int) -> None:
        """Record progress of a reader that opens the path itself."""
        self._counter.total = position

    def everything(self) -> bytes:
        """Return all bytes at once, for formats that are read from their end.

        Raises
        ------
        Invalid
            They are more than 512 MiB.
        """
        parts: list[bytes] = []
        total = 0
        for block in self.blocks():
            total += len(block)
            if total > IN_MEMORY:
                raise Invalid(
                    f"{self.name} is too large to be held in memory",
                    why="this format cannot be read from a compressed file or a "
                    f"stream beyond {IN_MEMORY >> 20} MiB",
                    fix="unpack it to a file first, or convert it to CSV",
                )
            parts.append(block)
        return b"".join(parts)

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


@dataclass(slots=True)
class _Counter:
    total: int = 0


def open_source(where: Path | BinaryIO, *, name: str | None, max_bytes: int) -> Source:
    """Open a path or take a binary stream; read its head, decompress if gzip.

    Raises
    ------
    Invalid
        The file cannot be read, is empty, or is gzip inside gzip.
    """
    path = where if isinstance(where, Path) and where.is_file() else None
    name = name or (shown_name(where) if isinstance(where, Path) else "standard input")
    stream = _opened(where) if isinstance(where, Path) else where
    try:
        source = _begun(stream, path, name, max_bytes)
    except BaseException:
        stream.close()
        raise
    return source


def _begun(stream: BinaryIO, path: Path | None, name: str, max_bytes: int) -> Source:
    size = path.stat().st_size if path is not None else None
    counter = _Counter()
    raw = _raw_blocks(stream, counter, name)
    first = next(raw, b"")
    if not first:
        raise Invalid(
            f"{name} is empty",
            why="it has no byte",
            fix="check the file, or the command that wrote it",
        )
    compressed = first.startswith(GZIP)
    rest = chain((first,), raw)
    if compressed:
        rest = chain(_inflated(rest, name, max_bytes))
    head = bytearray()
    whole = True
    for block in rest:
        head += block
        if len(head) >= HEAD:
            whole = False
            break
    if compressed and head.startswith(GZIP):
        raise Invalid(
            f"{name} is gzip inside gzip",
            why="only one level of compression is opened",
            fix="unpack the outer one first",
        )
    if not head:
        raise Invalid(
            f"{name} is empty", why="it unpacks to no byte", fix="check the file"
        )
    return Source(
        name,
        path,
        size,
        compressed,
        bytes(head),
        max_bytes,
        whole,
        rest,
        stream,
        counter,
    )


def _opened(path: Path) -> BinaryIO:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise Invalid(
                f"{path.name} is a folder",
                why="a file is read here",
                fix="name a file",
            )
        return open_input(path)
    except FileNotFoundError:
        raise Invalid(
            f"there is no file {path}",
            why="nothing has that name",
            fix="check the path",
        ) from None
    except OSError as error:
        raise Invalid(
            f"{path.name} cannot be read",
            why=error.strerror or type(error).__name__,
            fix="check its owner and mode",
        ) from None


def _raw_blocks(stream: BinaryIO, counter: _Counter, name: str) -> Iterator[bytes]:
    try:
        while block := stream.read(BLOCK):
            counter.total += len(block)
            yield block
    except OSError as error:  # a bad disk, a lost share, a stream that is closed
        raise Invalid(
            f"{name} cannot be read to its end",
            why=error.strerror or type(error).__name__,
            fix="copy it to a disk that can be read, then load the copy: rows that are "
            "in already are skipped",
        ) from None


def shown_name(path: Path) -> str:
    """Return the name of a file, its undecodable bytes as escapes: a store keeps it."""
    return os.fsencode(path.name).decode("utf-8", "backslashreplace")


def _inflated(blocks: Iterator[bytes], name: str, max_bytes: int) -> Iterator[bytes]:
    """Yield the decoded bytes of one or more gzip members, within limits."""
    read = decoded = 0
    inflate = zlib.decompressobj(wbits=31)
    fresh = True  # nothing of the current member was fed yet
    for block in blocks:
        read += len(block)
        data = block
        while data:
            if inflate.eof:
                if not data.strip(b"\0"):  # padding after the last member
                    break
                inflate = zlib.decompressobj(wbits=31)
            try:
                out = inflate.decompress(data, BLOCK)
            except zlib.error:
                raise _broken(name, "its compressed data is damaged") from None
            fresh = False
            decoded += len(out)
            data = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
            _guard(name, read - len(data), decoded, max_bytes)
            if out:
                yield out
    if fresh or not inflate.eof:
        raise _broken(name, "it ends before its compressed data does")


def _guard(name: str, read: int, decoded: int, max_bytes: int) -> None:
    if decoded > max_bytes:
        raise Invalid(
            f"{name} unpacks to more than {max_bytes:,} bytes",
            why="a small file that unpacks to a huge one can fill memory and disk",
            fix="if it is meant to be that large, say so with --max-bytes",
        )
    if decoded > RATIO_FREE and decoded > MAX_RATIO * read:
        raise Invalid(
            f"{name} unpacks to more than {MAX_RATIO} times its size",
            why="no table compresses that well; this looks like a decompression bomb",
            fix="if it is genuine, unpack it yourself and load the plain file",
        )


def _broken(name: str, why: str) -> Invalid:
    return Invalid(f"{name} is broken", why=why, fix="copy or download the file again")
