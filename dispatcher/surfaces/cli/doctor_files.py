"""What ``doctor`` looks at on the disk: permissions and room."""

from __future__ import annotations

import shutil
import stat
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dispatcher.core.errors import DispatcherError
from dispatcher.surfaces.cli.context import CliContext
from dispatcher.surfaces.cli.findings import Finding, Findings, Part, Repair, Word

if TYPE_CHECKING:
    from dispatcher.store import Store

FULL: Final = (0.9, 0.97)  # of a disk: from here WARN, from here FAIL

SETTLING: Final = 1.0
"""Seconds between two looks at lines that may be on their way."""


def permissions(context: CliContext) -> Findings:
    """Files of the store are for their owner alone."""
    loose = [path for path in _files(context) if _mode(path) & 0o077]
    for path in loose:
        yield Finding(
            Part.PERMISSIONS,
            Word.FAIL,
            f"a file is open to others (mode {_mode(path):04o})",
            "it holds values of records, or a key to them",
            f"chmod go= {path}",
            private=str(path),
            repair=Repair(f"close {path} to others", partial(_close, path)),
        )
    if not loose:
        yield Finding(Part.PERMISSIONS, Word.OK, "files are for their owner alone")


def _close(path: Path) -> None:
    path.chmod(_mode(path) & ~0o077)


def shipped(context: CliContext, store: Store) -> Findings:
    """The shipped ledger can be written, is this store's, and has all of its lines."""
    from dispatcher.ledger.shipping.status import look

    folder = context.shipped
    if folder is None:
        yield Finding(
            Part.LEDGER,
            Word.WARN,
            "the ledger is not shipped: a store put back from a backup would forget",
            fix='set [ledger] ship = "DIR" in dispatcher.toml, on another disk',
        )
        return
    try:
        seen = look(store, folder)
        if seen.behind:  # perhaps a daemon is just writing them
            time.sleep(SETTLING)
            seen = look(store, folder)
    except DispatcherError as error:
        yield _failed(Part.LEDGER, "the shipped ledger cannot be gone on with", error)
        return
    if not seen.behind:
        files = f"{seen.files:,} {'file' if seen.files == 1 else 'files'}"
        text = f"shipped ledger: {files}, has every line of the store"
        yield Finding(Part.LEDGER, Word.OK, text, private=str(folder))
        return
    yield Finding(
        Part.LEDGER,
        Word.WARN,
        f"the shipped ledger lacks {seen.behind:,} lines of the store",
        "whoever wrote them ended before they were shipped; nothing of them was shown",
        "dispatcher doctor --fix; a daemon that starts appends them too",
        private=str(folder),
        repair=Repair(
            f"append {seen.behind:,} lines to {folder}", partial(_ship, context)
        ),
    )


def anchored(context: CliContext, store: Store) -> Findings:
    """The store has every root that was anchored."""
    try:
        roots = context.check_anchor(store)
    except DispatcherError as error:
        what = "the store and its anchored roots do not agree"
        yield _failed(Part.LEDGER, what, error)
        return
    if roots:
        yield Finding(Part.LEDGER, Word.OK, f"all {roots:,} anchored roots are its own")


def erased(context: CliContext) -> Findings:
    """The list of what must stay erased can be read: ``up`` and ``restore`` need it."""
    from dispatcher.custody import erasure_list

    try:
        erasure_list.read(*erasure_list.places(context.directory, context.shipped))
    except DispatcherError as error:
        yield _failed(Part.STORE, "the list of erasures cannot be read", error)


def _failed(part: Part, what: str, error: DispatcherError) -> Finding:
    """What a look ran into, with the error's own way out."""
    told = _one_line(f"{error.what}. {error.why}")
    return Finding(
        part, Word.FAIL, f"{what} ({error.code})", fix=error.fix, private=told
    )


def _ship(context: CliContext) -> None:
    with context.open_store() as store:
        store.settle(afresh=True)


def _one_line(text: str) -> str:
    return " ".join(text.split())


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


def _mode(path: Path) -> int:
    """Permission bits of a file or directory."""
    return stat.S_IMODE(path.stat().st_mode)
