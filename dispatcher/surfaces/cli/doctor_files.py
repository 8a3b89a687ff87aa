"""What ``doctor`` looks at on the disk: permissions and room."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from dispatcher.surfaces.cli.context import CliContext
from dispatcher.surfaces.cli.doctor import (
    FULL,
    Finding,
    Findings,
    Part,
    Word,
    mode_of,
)

if TYPE_CHECKING:
    from dispatcher.store import Store


def permissions(context: CliContext) -> Findings:
    """Files of the store are for their owner alone."""
    loose = [path for path in _files(context) if mode_of(path) & 0o077]
    for path in loose:
        yield Finding(
            Part.PERMISSIONS,
            Word.FAIL,
            f"a file is open to others (mode {mode_of(path):04o})",
            "it holds values of records, or a key to them",
            f"chmod go= {path}",
            private=str(path),
        )
    if not loose:
        yield Finding(Part.PERMISSIONS, Word.OK, "files are for their owner alone")


def _files(context: CliContext) -> list[Path]:
    config = context.config
    named = [context.directory / config.key_file]
    place = context.store_url.removeprefix("sqlite:///")
    if "://" not in place:
        named += [Path(f"{place}{tail}") for tail in ("", "-wal", "-shm")]
    folder = context.shipped
    if folder is not None and folder.is_dir():
        named += [folder, *(path for path in folder.iterdir() if path.is_file())]
    return [path for path in named if path.exists()]


def room(context: CliContext, store: Store) -> Findings:
    """There is room on the disks that are written to."""
    places = {"the store's disk": store.path.parent if store.path else None}
    places["the ledger's disk"] = context.shipped
    for name, place in places.items():
        if place is None or not place.exists():
            continue
        usage = shutil.disk_usage(place)
        share = 1 - usage.free / usage.total if usage.total else 0.0
        text = f"{name} is {share:.0%} full"
        if share < FULL[0]:
            yield Finding(Part.STORE, Word.OK, text, private=str(place))
        else:
            yield Finding(
                Part.STORE,
                Word.WARN if share < FULL[1] else Word.FAIL,
                text,
                "a full disk stops all bookings (nothing is lost by it)",
                "make room, or move the store to a larger disk",
                private=str(place),
            )
