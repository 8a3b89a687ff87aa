"""The folder market: a directory a worker, a directory a batch, answers dropped in."""

from __future__ import annotations

import csv
import io
import os
import shutil
import tempfile
import threading
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from connectors.base import (
    Answer,
    Arrival,
    Binding,
    Collected,
    Content,
    Handle,
    Idempotency,
    Identity,
    Limits,
    Listed,
    Manifest,
    Misconfigured,
    Offer,
    Preview,
    Quarantined,
    Rejected,
    Role,
    Settings,
    Visit,
)
from connectors.folder.batch import batch_files
from connectors.folder.files import (
    disk_errors,
    is_directory,
    locked,
    make_directory,
    read_file,
    replace_file,
    sync_directory,
    write_file,
)
from connectors.folder.forgetting import forget_tasks
from connectors.folder.listing import batches_behind
from connectors.folder.names import (
    MAX_DIRECTORY,
    account_of,
    batch_of,
    directory_of,
)
from connectors.folder.sheets import NAMED, READ, SheetRow, read_rows
from connectors.formats.formula_guard import guard

MANIFEST = Manifest(
    name="folder",
    role=Role.MARKET,
    binding=Binding.ASSIGNED,
    identity=Identity.LOGIN,
    content=Content.MARKET,
    preview=Preview.NONE,
    idempotency=Idempotency.KEY,
    limits=Limits(items=10_000, account_bytes=MAX_DIRECTORY),
    tested_against="real files",
)
MAX_FILE = 64 << 20
MAX_TAKEN = 200  # files per call of collect
_INCOMING, _TAKEN, _KNOWN = ".incoming", ".taken", ".known"


@dataclass(frozen=True)
class _TakenFile:
    """A file taken from a worker: number, account, origin, name."""

    number: int
    directory: str
    batch: str
    name: str
    path: Path


class Folder:
    """A spool directory as a market.

    Parameters
    ----------
    root : Path
        The spool; created if its parent exists.
    form : str
        ``csv`` or ``jsonl``.
    settle : float
        Seconds for which an answers file must be untouched before it is taken.
    """

    def __init__(self, root: Path, *, form: str = "csv", settle: float = 2.0) -> None:
        self._root = root
        self._form = form
        self._settle = settle
        self._taking = threading.Lock()
        with disk_errors("opening the spool"):
            for path in (root, *(root / n for n in (_INCOMING, _TAKEN, _KNOWN))):
                make_directory(path)
            self._refuse_blind_case()

    @property
    def manifest(self) -> Manifest:
        """Assigned, content at the market: the worker's directory has the crop."""
        return MANIFEST

    def _refuse_blind_case(self) -> None:
        """Refuse a disk on which accounts that differ in case share a directory."""
        if (self._root / _TAKEN.upper()).exists():
            raise Misconfigured(
                "the spool lies on a disk that does not tell upper from lower case",
                why="two workers' accounts could share one directory",
                fix="put the spool on another disk",
            )

    def check_offer(self, offer: Offer) -> None:
        """Refuse an account that is too long for a directory name."""
        MANIFEST.check(offer)
        directory = directory_of(offer.account)
        if len(directory) > MAX_DIRECTORY:
            raise Rejected(
                f"the account needs {len(directory)} characters as a directory name, "
                f"{MAX_DIRECTORY} are possible",
                fix="give the worker a shorter account",
            )

    def publish(self, offer: Offer) -> Handle:
        """Write the batch under a temporary name, sync it, rename it into place."""
        self.check_offer(offer)
        directory = directory_of(offer.account)
        found = self.find(offer.key)
        if found is not None:
            return found
        files = batch_files(offer, self._form)
        with disk_errors("writing a batch"):
            home = self._root / directory
            make_directory(home)
            self._put(home / batch_of(offer.key), files)
            known = self._root / _KNOWN / batch_of(offer.key)
            replace_file(known, directory.encode())
        return Handle(offer.key, f"{directory}/{batch_of(offer.key)}")

    def _put(self, target: Path, files: dict[str, bytes]) -> None:
        incoming = self._root / _INCOMING
        temporary = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=incoming))
        try:
            if any("/" in name for name in files):
                (temporary / "content").mkdir(mode=0o700)
            for name, content in files.items():
                write_file(temporary / name, content)
            for path in (*temporary.glob("content"), temporary):
                sync_directory(path)
            try:
                temporary.rename(target)
            except OSError:
                if not is_directory(target):  # else another sender put the same there
                    raise
            sync_directory(target.parent)
        finally:
            self._sweep(target.name)

    def _sweep(self, batch: str) -> None:
        """Delete what crashes left of writing this batch, and of no other."""
        for leftover in (self._root / _INCOMING).glob(f"{batch}.*"):
            shutil.rmtree(leftover, ignore_errors=True)

    def find(self, key: str) -> Handle | None:
        """Find whatever was published under the key, withdrawn batches too.

        Half-written remains of an existing batch are deleted: a crash may have come
        between the rename and the clean-up.
        """
        batch = batch_of(key)
        with disk_errors("looking for a batch"):
            try:
                directory = (self._root / _KNOWN / batch).read_text()
            except FileNotFoundError:
                # a crash may have come between the batch and its mark
                for directory in self._directories():
                    if is_directory(self._root / directory / batch):
                        break
                else:
                    return None
            self._sweep(batch)
        return Handle(key, f"{directory}/{batch}")

    def withdraw(self, handle: Handle) -> None:
        """Move the batch out of reach and delete it; its key stays known.

        Answers in it are kept: ``collect`` finds them one level up.
        """
        found = self.find(handle.key)
        if found is None:
            return
        source, grave = (
            self._root / found.reference,
            self._root / _INCOMING / f"{batch_of(handle.key)}.withdrawn",
        )
        with self._taking, disk_errors("withdrawing a batch"):
            replace_file(self._root / _KNOWN / source.name, _home(found).encode())
            if is_directory(source):
                for path in _answer_files(source):
                    path.rename(source.parent / f"answers-{source.name}-{path.name}")
                source.rename(grave)
                sync_directory(source.parent)
            shutil.rmtree(grave, ignore_errors=True)

    def listing(self, cursor: str) -> Listed:
        """Return the batches in the workers' directories."""
        with disk_errors("listing batches"):
            return batches_behind(self._root, self._directories(), cursor)

    def forget(self, tokens: Collection[str]) -> tuple[str, ...]:
        """Delete what the spool has of tasks: rows, contents, answers taken or not."""
        left: tuple[str, ...] = ()
        with self._taking, disk_errors("deleting tasks"):
            for _ in range(2):  # a file may have been moved in the first round
                left = forget_tasks(self._root, tokens, kept=_KNOWN)
        return left

    def arrive(self, visit: Visit, now: datetime) -> Arrival:  # noqa: ARG002 (protocol)
        """Raise Rejected: a folder has no page to arrive at."""
        raise Rejected(
            "the folder connector has no page",
            why="its workers find their tasks in their directory",
            fix="send the visitor to the in-house task page",
        )

    def collect(self, cursor: str) -> Collected:
        """Take settled answer files and return the rows of all that follow `cursor`.

        A file is taken by renaming it to a numbered name. It is read whole, repeatedly
        until the cursor has passed its number, and never after that.
        """
        if cursor and not (cursor.isascii() and cursor.isdigit()):
            raise Rejected("the cursor is not one of this connector")
        after = int(cursor or "0")
        mine = locked(self._root / _INCOMING / "collecting")  # excludes other daemons
        with self._taking, disk_errors("collecting answers"), mine:
            self._take(after)
            behind = [taken for taken in self._taken() if taken.number > after]
            now = behind[:MAX_TAKEN]
            answers: list[Answer] = []
            quarantined: list[Quarantined] = []
            for taken in now:
                self._read(taken, answers, quarantined)
        last = now[-1].number if now else after
        more = len(behind) > len(now)
        return Collected(str(last), tuple(answers), tuple(quarantined), more)

    def _directories(self) -> list[str]:
        """List the workers' directories (no hidden ones, no links)."""
        with os.scandir(self._root) as entries:
            return sorted(
                entry.name
                for entry in entries
                if not entry.name.startswith(".")
                and entry.is_dir(follow_symlinks=False)
            )

    def _taken(self) -> list[_TakenFile]:
        found = []
        with os.scandir(self._root / _TAKEN) as entries:
            for entry in entries:
                parts = entry.name.split("~", 3)
                if len(parts) == 4 and parts[0].isdigit():
                    number, directory, batch, name = parts
                    found.append(
                        _TakenFile(
                            int(number), directory, batch, name, Path(entry.path)
                        )
                    )
        return sorted(found, key=lambda taken: taken.number)

    def _take(self, after: int) -> None:
        """Number the settled files and move them out of the workers' reach."""
        settled = list(self._settled())
        if not settled:
            return
        last = max([after, *(taken.number for taken in self._taken())])
        for number, (directory, batch, path) in enumerate(settled, start=last + 1):
            short = os.fsencode(path.name)[-40:].decode("ascii", "ignore")
            target = self._root / _TAKEN / f"{number:010d}~{directory}~{batch}~{short}"
            path.rename(target)
            with suppress(
                PermissionError
            ):  # another user's file: 0700 above protects it
                target.chmod(0o600)
            sync_directory(target.parent)
            sync_directory(path.parent)

    def _settled(self) -> Iterator[tuple[str, str, Path]]:
        """Yield answer files that nobody has touched for `settle` seconds.

        Time is that of the disk's own clock, so a skewed client clock does no harm.
        """
        clock = self._root / _INCOMING / "clock"
        replace_file(clock, b"")
        latest = clock.stat().st_mtime - self._settle
        for directory in self._directories():
            home = self._root / directory
            batches = [""]
            with os.scandir(home) as entries:
                batches += [
                    entry.name
                    for entry in entries
                    if entry.name.startswith("batch-")
                    and entry.is_dir(follow_symlinks=False)
                ]
            for batch in sorted(batches):
                for path in _answer_files(home / batch):
                    if self._settle == 0 or path.lstat().st_mtime <= latest:
                        yield directory, batch, path

    def _read(
        self, taken: _TakenFile, answers: list[Answer], quarantined: list[Quarantined]
    ) -> None:
        content = read_file(taken.path, MAX_FILE)
        if content is None:
            rows = [SheetRow(1, error=f"the file is larger than {MAX_FILE >> 20} MiB")]
        else:
            rows = read_rows(content, taken.name)
        account = account_of(taken.directory)
        for row in rows:
            id_ = f"{taken.number}-{row.line}"
            if row.error:
                place = f"{taken.path.name} line {row.line}"
                quarantined.append(Quarantined(id_, place, row.error, account))
            elif row.outcome is not None:
                answers.append(
                    Answer(id_, row.token, account, row.outcome, row.value)
                )  # the clock of a worker's disk is not trusted: no `given`
        self._report(taken, rows)

    def _report(self, taken: _TakenFile, rows: list[SheetRow]) -> None:
        """Write a report next to the file's old place: one line a row, no values."""
        home = self._root / taken.directory
        place = home / taken.batch if is_directory(home / taken.batch) else home
        path = place / f"report-{taken.number:010d}.csv"
        if path.exists():
            return
        out = io.StringIO(newline="")
        writer = csv.writer(out)
        writer.writerow(("file", "line", "task", "result", "reason"))
        for row in rows:
            result = "error" if row.error else "open"
            if row.outcome is not None:
                result = "read"
            cells = (taken.name, str(row.line), row.token[:128], result, row.error)
            writer.writerow([guard(cell) for cell in cells])
        replace_file(path, out.getvalue().encode("utf-8-sig", "backslashreplace"))


def _home(handle: Handle) -> str:
    return handle.reference.partition("/")[0]


def _answer_files(place: Path) -> list[Path]:
    """Return regular files named answers* that are read or refused by name; no links."""
    with os.scandir(place) as entries:
        return sorted(
            Path(entry.path)
            for entry in entries
            if entry.name.lower().startswith("answers")
            and entry.name.lower().endswith((*READ, *NAMED))
            and entry.is_file(follow_symlinks=False)
        )


def open_folder(settings: Settings) -> Folder:
    """Open a spool: ``spool`` (its directory, required), ``format``, ``settle_seconds``."""
    known = {"spool", "format", "settle_seconds"}
    unknown = sorted(set(settings.values) - known)
    if unknown:
        raise Misconfigured(
            f"folder does not know the setting {unknown[0]!r}",
            fix=f"use {', '.join(sorted(known))}",
        )
    form = settings.values.get("format", "csv")
    if not settings.values.get("spool"):
        raise Misconfigured("folder needs the setting spool", fix="name its directory")
    if form not in ("csv", "jsonl"):
        raise Misconfigured(f"format is {form!r}, expected csv or jsonl")
    try:
        settle = float(settings.values.get("settle_seconds", "2"))
    except ValueError:
        settle = -1.0
    if not 0 <= settle < 3600:
        raise Misconfigured("settle_seconds must be a number from 0 to 3600")
    return Folder(settings.folder("spool"), form=form, settle=settle)
