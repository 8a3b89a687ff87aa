"""Restoring a backup without forgetting what was shown since.

A backup is first restored into a new file beside the target. There it learns what the
shipped ledger knows more than it, or, where no ledger tells, takes for shown what may
have been; it is checked; and only then it takes its place, whole.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dispatcher.custody import erasures
from dispatcher.custody.assuming import assume_shown
from dispatcher.custody.backup import Backup, checked_schema, look, staged
from dispatcher.custody.healing import hold, keep_out, refuse_led
from dispatcher.custody.sealed_file import Secret
from dispatcher.errors import (
    AnotherLeads,
    Conflict,
    DispatcherError,
    LedgerAhead,
    Usage,
)
from dispatcher.ledger.replaying import replay
from dispatcher.ledger.shipping import shipped_lines, store_id
from dispatcher.ledger.shipping.checking import check_files, check_store, compare
from dispatcher.ledger.shipping.shipper import refuse_forgotten
from dispatcher.store import Clock, Store, ledger, open_store
from dispatcher.store import replaying as rows
from dispatcher.store.dumping import dumped, make_ready, rebuilt
from dispatcher.store.transaction import Tx
from dispatcher.store.vault import KeyFile


@dataclass(frozen=True)
class Target:
    """Where a backup is restored to.

    Attributes
    ----------
    location : str
        A file, or the URL of an empty database.
    key_file : KeyFile
        Opens the values of the store.
    shipped : Path or None
        Folder of the shipped ledger to compare with.
    private : bool
        Whether the URL comes from a private file.
    force : bool
        Whether a file that is there may be replaced.
    listed : Path or None
        Folder with a list of what was erased, and must not come back; the shipped
        ledger has one too.
    """

    location: str
    key_file: KeyFile
    shipped: Path | None
    private: bool = False
    force: bool = False
    listed: Path | None = None

    @property
    def file(self) -> Path | None:
        """The file, unless it is a database server's."""
        if "://" in self.location and not self.location.startswith("sqlite:///"):
            return None
        return Path(self.location.removeprefix("sqlite:///")).absolute()


@dataclass(frozen=True)
class Gap:
    """How the time between the backup and now is filled.

    Attributes
    ----------
    replay : bool
        By the shipped ledger.
    shown_since : int or None
        By taking for shown what may have been shown since this moment.
    """

    replay: bool = False
    shown_since: int | None = None


@dataclass(frozen=True)
class Restored:
    """What a restore came to.

    Attributes
    ----------
    backup : Backup
    lines : int
        Lines of the ledger now.
    replayed, assumed, recused : int
        Lines booked from the shipped ledger; exposures taken for granted; pairs of an
        adversary and a record or person that it will be shown nothing more of.
    lost : int
        Records that the ledger knows and the backup does not: to be loaded again.
    erased : int
        People and records that were erased since, and are erased in it again.
    listed : bool
        Whether there is a list of what was erased.
    """

    backup: Backup
    lines: int
    replayed: int = 0
    assumed: int = 0
    recused: int = 0
    lost: int = 0
    erased: int = 0
    listed: bool = True


def restore(
    path: Path,
    secret: Secret,
    target: Target,
    gap: Gap,
    *,
    clock: Clock,
    dry_run: bool = False,
) -> Restored:
    """Restore a backup.

    Parameters
    ----------
    path : Path
    secret : Secret
    target : Target
    gap : Gap
    clock : Clock
    dry_run : bool
        Do all of it beside the target, then throw it away.

    Raises
    ------
    LedgerAhead
        The backup would forget what was shown since, and ``gap`` does not fill it.
    WrongKey, BackupBroken, NotFound
        The backup can not be read.
    NeedsMigration
        A newer version of the program made it.
    AnotherLeads
        A daemon leads the store that would be replaced.
    Conflict
        There is something at the target.
    Usage
        ``gap`` makes no sense for it.
    """
    backup = look(path)
    checked_schema(backup)
    _check_gap(backup, gap)
    _check_known(target, gap, backup)
    _check_target(target, clock)
    beside = target.file.parent if target.file is not None else path.parent
    with tempfile.TemporaryDirectory(prefix=".restore-", dir=beside) as place:
        stage = Path(place) / "restored.db"
        staged(path, secret, stage).close()
        with open_store(stage, key_file=target.key_file) as store:
            done = _filled(store, backup, target, gap, clock)
            if not dry_run and target.file is None:
                _copy(store, target)
            store.checkpoint()
        if not dry_run and target.file is not None:
            _put(stage, target.file)
    return done


def _filled(
    store: Store, backup: Backup, target: Target, gap: Gap, clock: Clock
) -> Restored:
    """Make a staged store know what was shown since, and check it."""
    replayed = assumed = recused = 0
    behind = _behind(store, target)
    if behind is not None and not gap.replay:
        raise _would_forget(backup, behind)
    with store.write() as tx:
        make_ready(tx, clock())
        if gap.replay:
            assert target.shipped is not None
            lines = shipped_lines(target.shipped, store=store_id(store))
            key = store.key("pseudonym-key")
            replayed = replay(tx, lines, at=clock(), key=key)
    if gap.shown_since is not None:
        assumed, recused = assume_shown(store, gap.shown_since, clock())
    listed = erasures.read(*erasures.places(target.listed, target.shipped))
    erased = keep_out(store, listed, clock)
    hold(store, clock)
    with store.read() as tx:
        found = check_store(tx)
        lost = rows.count_lost(tx)
        if gap.replay and target.shipped is not None:
            files = check_files(target.shipped)
            if compare(tx, files):
                raise _would_forget(backup, None)
    return Restored(
        backup, found.lines, replayed, assumed, recused, lost, erased, listed.there
    )


def _behind(store: Store, target: Target) -> LedgerAhead | None:
    """Compare with the shipped ledger: what the store would forget.

    Raises
    ------
    LedgerForeign, LedgerBroken
    """
    if target.shipped is None or not target.shipped.is_dir():
        return None
    heads: dict[str, tuple[int, str]] = {}
    for line in shipped_lines(target.shipped, store=store_id(store)):
        if "attached" not in line.members:
            chain = line.members["chain"]
            heads[chain] = (line.members["seq"], line.members["hash"])
    try:
        with store.read() as tx:
            refuse_forgotten(tx, ledger.all_chains(tx), heads)
    except LedgerAhead as ahead:
        if "lines" not in ahead.facts:
            raise  # they part ways: no replay brings them together
        return ahead
    return None


def _would_forget(backup: Backup, ahead: LedgerAhead | None) -> LedgerAhead:
    facts = {} if ahead is None else ahead.facts
    lines = int(facts.get("lines", 0))
    return LedgerAhead(
        f"the restored store would forget {lines:,} lines of its ledger",
        why=f"They were written after {backup.id}. What they say was shown would be "
        "shown again, to whom it must not.",
        fix="Repeat it with --replay-ledger: the lines are booked from the shipped "
        "ledger.",
        facts=facts,
    )


def _check_gap(backup: Backup, gap: Gap) -> None:
    if gap.replay and gap.shown_since is not None:
        raise Usage(
            "--replay-ledger and --assume-shown-since together",
            why="The shipped ledger says what was shown; nothing is to be assumed then.",
            fix="Leave the second one out.",
        )
    if gap.shown_since is not None and gap.shown_since > backup.at:
        raise Usage(
            "the time of --assume-shown-since is after the backup",
            why="What was shown between the backup and that time would be forgotten.",
            fix="Give the time of the backup, or an earlier one.",
        )


def _check_known(target: Target, gap: Gap, backup: Backup) -> None:
    """Refuse to restore where nobody says what was shown since.

    Raises
    ------
    LedgerAhead
        There is no shipped ledger, and nothing is assumed.
    Usage
        There is one, and it is not to be asked; or there is none to replay.
    """
    there = target.shipped is not None and any(target.shipped.glob("ledger-*.jsonl"))
    if there and gap.shown_since is not None:
        raise Usage(
            "--assume-shown-since, and there is a shipped ledger",
            why=f"{target.shipped} says what was shown; and a store that goes on from "
            "assumptions parts ways with it.",
            fix="Use --replay-ledger. If these files are broken, move them away first.",
        )
    if not there and gap.replay:
        raise Usage(
            "there is no shipped ledger to replay",
            why="No file ledger-*.jsonl is in "
            f"{target.shipped or 'a folder: [ledger] ship is empty'}.",
            fix="Name its folder: --ledger DIR; if it is lost: --assume-shown-since",
        )
    if not there and gap.shown_since is None:
        raise LedgerAhead(
            "nobody says what was shown after the backup",
            why=f"There is no shipped ledger to compare {backup.id} with, and what was "
            "shown since would be shown again.",
            fix="Name the folder of the shipped ledger: --ledger DIR. If it is lost too,"
            " take for shown what may have been: --assume-shown-since TIME",
        )


def _check_target(target: Target, clock: Clock) -> None:
    if target.file is None:
        return  # that a database is empty is seen when it is filled
    if not target.file.exists():
        return
    try:
        with open_store(target.location, key_file=target.key_file) as there:
            refuse_led(there, clock)
    except AnotherLeads:
        raise
    except DispatcherError as error:
        if not target.force:
            raise _is_there(target.file) from error
    if not target.force:
        raise _is_there(target.file)


def _is_there(file: Path) -> Conflict:
    return Conflict(
        f"{file} is there already",
        why="A restore replaces nothing by itself.",
        fix="Name another file, or say --force: it is put aside as "
        f"{file.name}.replaced, with its log.",
    )


def _put(stage: Path, file: Path) -> None:
    """Put a restored file in its place; what was there is kept aside, whole."""
    stage.chmod(0o600)
    for tail in ("-wal", "-shm", ""):
        old = file.with_name(file.name + tail)
        if old.exists():
            old.replace(file.with_name(f"{file.name}.replaced{tail}"))
    shutil.move(stage, file)


def _copy(store: Store, target: Target) -> None:
    """Fill an empty database from a staged store."""
    with store.read() as tx:
        rebuilt(target.location, _parsed(tx), password_allowed=target.private).close()


def _parsed(tx: Tx) -> Iterator[dict[str, Any] | list[Any]]:
    for line in dumped(tx):
        yield json.loads(line)
