"""The file of ``solve -o``: its place is tried before the search, it is replaced whole."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from dispatcher.core.errors import Invalid


def check_place(path: Path) -> None:
    """Raise unless a file can be written there; nothing that is there changes.

    Raises
    ------
    Invalid
    """
    if path.is_dir():
        raise Invalid(
            f"{path} is a folder",
            why="the answer is written to a file",
            fix=f"name a file in it: {path / 'plan.json'}",
        )
    try:
        with suppress(FileNotFoundError):
            path.stat()  # fails where links lead round in a ring
        if path.is_file():
            os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
        if not _is_stream(path):
            draft = _draft(path)
            draft.touch(exist_ok=False)
            draft.unlink()
    except OSError as error:
        raise Invalid(
            f"{path} cannot be written: {error.strerror}",
            why="this was tried before the search, so that no answer is lost",
            fix="name a file in a folder that exists and that you may write to",
        ) from error


def write_whole(path: Path, text: str) -> None:
    """Write a file beside its place and put it there whole; on failure nothing changes.

    A pipe or a device is written to as it is.

    Raises
    ------
    OSError
    """
    if _is_stream(path):
        path.write_text(text, encoding="utf-8")
        return
    draft = _draft(path)
    try:
        with draft.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, draft)
        draft.replace(path.resolve())
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()


def _is_stream(path: Path) -> bool:
    """Whether it is there and no file: a pipe or a device."""
    return path.exists() and not path.is_file()


def _draft(path: Path) -> Path:
    """Where a file is written before it takes its place."""
    target = path.resolve()
    return target.with_name(f".{target.name[:60]}.{os.getpid()}")
