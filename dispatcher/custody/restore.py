"""Restoring a backup without forgetting what was shown since.

A backup is first restored into a new file beside the target. There the newer lines of
the shipped ledger are replayed or, where there is no shipped ledger, everything that
may have been shown is assumed to have been. It is checked, and only then moved into
place.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from dispatcher.core.canonical import NO_HASH
from dispatcher.core.errors import (
    AnotherLeads,
    Conflict,
    DispatcherError,
    LedgerAhead,
    Usage,
    WrongKey,
)
from dispatcher.custody import erasure_list
from dispatcher.custody.backup import Backup, checked_schema, look, staged
from dispatcher.custody.in_place_recovery import hold, keep_out, refuse_led
from dispatcher.custody.replaced_stores import aside_of, parts_of
from dispatcher.custody.sealed_file import Secret
from dispatcher.ledger.book import Asks, Pull, book
from dispatcher.ledger.comparison import refuse_edited
from dispatcher.ledger.recovery import replay
from dispatcher.ledger.shipping import shipped_lines, store_id
from dispatcher.ledger.shipping.anchors import check_anchor
from dispatcher.ledger.shipping.checking import check_files, check_store, compare
from dispatcher.ledger.shipping.shipper import refuse_forgotten
from dispatcher.model import record_unit, subject_unit
from dispatcher.store import Clock, Store, accounts, ledger, open_store, pause, settings
from dispatcher.store import replaying as rows
from dispatcher.store.dumping import dumped, make_ready, rebuilt
from dispatcher.store.transaction import Tx
from dispatcher.store.vault import KeyFile

# -- what a restored store would forget, and whether the shipped ledger is stale -------
# The shipped ledger says what was shown. That a copy of it ends too early only others
# can show: the backup, where it knows more; roots that were anchored; and the store that
# is to be replaced.

Heads = dict[str, tuple[int, str]]
"""By chain: number and hash of its last line."""


@dataclass(frozen=True)
class Shipped:
    """How far the files of a shipped ledger go.

    Attributes
    ----------
    heads : Heads
    at : int
        Time of their newest line; 0: they have none.
    """

    heads: Heads = field(default_factory=dict)
    at: int = 0


def read_shipped(folder: Path, store: Store) -> Shipped:
    """Read how far the files of a store's ledger go.

    Raises
    ------
    LedgerForeign, LedgerBroken
    """
    heads: Heads = {}
    at = 0
    for line in shipped_lines(folder, store=store_id(store)):
        if "attached" not in line.members:
            members = line.members
            heads[members["chain"]] = (members["seq"], members["hash"])
            at = max(at, members["at"])
    return Shipped(heads, at)


def forgotten(store: Store, heads: Heads) -> LedgerAhead | None:
    """Return an error if a store lacks lines that another one or its files have.

    Raises
    ------
    LedgerAhead
        They diverge: no replay can reconcile them.
    """
    try:
        with store.read() as tx:
            refuse_forgotten(tx, ledger.all_chains(tx), heads)
    except LedgerAhead as ahead:
        if "lines" not in ahead.facts:
            raise
        return ahead
    return None


def refuse_stale(store: Store, shipped: Shipped, folder: Path) -> None:
    """Refuse files that end before a store's own ledger does.

    Raises
    ------
    LedgerAhead
    """
    with store.read() as tx:
        chains = ledger.all_chains(tx)
    lacking = [
        chain.seq - shipped.heads.get(chain.name, (0, NO_HASH))[0] for chain in chains
    ]
    lines = sum(number for number in lacking if number > 0)
    if lines:
        raise LedgerAhead(
            "the shipped ledger ends before the backup: it is a stale copy",
            why=f"{folder} lacks {lines:,} lines that the backup has, so nobody says "
            "what was shown since.",
            fix="Name the folder that it was last shipped to: --ledger DIR. If that is "
            "lost, move the copy away, and take for shown what may have been: "
            "--assume-shown-since TIME",
            facts={"stale": lines},
        )


def heads_of(tx: Tx) -> Heads:
    """Return the heads of all chains of a store."""
    return {c.name: (c.seq, c.head) for c in ledger.all_chains(tx) if c.seq}


def refuse_outdone(store: Store, heads: Heads, there: Path) -> None:
    """Refuse a filled store that lacks lines of the one it would replace.

    Raises
    ------
    LedgerAhead
    """
    try:
        with store.read() as tx:
            refuse_forgotten(tx, ledger.all_chains(tx), heads)
    except LedgerAhead as ahead:
        lines = ahead.facts.get("lines")
        raise LedgerAhead(
            f"the store at {there} "
            + (
                "parts ways with the restored one"
                if lines is None
                else f"knows {lines:,} lines that the restored one would not"
            ),
            why="What it has shown would be forgotten. The shipped ledger that was read "
            "is a stale copy, or those lines were never shipped.",
            fix="Name the folder that it was last shipped to: --ledger DIR; let that "
            "store ship what it has: dispatcher doctor --fix. Only if it is not to be "
            "trusted move it away yourself, and repeat.",
            facts=ahead.facts,
        ) from None


ASSUMED: Final = "assumed"
"""Cause, in the ledger, of exposures that are assumed."""


@dataclass(frozen=True)
class Gap:
    """How the time between the backup and now is filled.

    Attributes
    ----------
    replay : bool
        By the shipped ledger.
    shown_since : int or None
        By assuming everything that may have been shown since this time.
    """

    replay: bool = False
    shown_since: int | None = None


@dataclass(frozen=True)
class Restored:
    """Summary of a restore.

    Attributes
    ----------
    backup : Backup
    lines : int
        Lines of the ledger now.
    replayed, assumed, recused : int
        Lines booked from the shipped ledger; exposures assumed; pairs of an adversary
        and a record or person that it will be shown nothing more of.
    lost : int
        Records that the ledger knows and the backup does not: to be loaded again.
    erased : int
        People and records that were erased since, and are erased in it again.
    listed : bool
        Whether there is a list of what was erased.
    known_to : int
        Time of the newest line of the shipped ledger; 0: it was not read.
    anchored : int
        Anchored roots that it has.
    aside : Path or None
        Where the replaced store is kept now.
    other_key : bool
        Whether the target's other key file opens it.
    """

    backup: Backup
    lines: int
    replayed: int = 0
    assumed: int = 0
    recused: int = 0
    lost: int = 0
    erased: int = 0
    listed: bool = True
    known_to: int = 0
    anchored: int = 0
    aside: Path | None = None
    other_key: bool = False


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
        Do all of it beside the target, then discard it.

    Raises
    ------
    LedgerAhead
        The backup would forget what was shown since, and ``gap`` does not fill it; or
        the shipped ledger appears to be a stale copy.
    WrongKey, BackupBroken, NotFound
        The backup cannot be read.
    NeedsMigration
        A newer version of the program made it.
    AnotherLeads
        A daemon leads the store that would be replaced.
    Conflict
        There is something at the target.
    StoreEdited
        What was backed up is not as its ledger says.
    Usage
        ``gap`` does not fit the backup or the target.
    """
    backup = look(path)
    checked_schema(backup)
    _check_gap(backup, gap)
    _check_known(target, gap, backup)
    there = check_target(target, backup.store, clock)
    beside = target.file.parent if target.file is not None else path.parent
    with tempfile.TemporaryDirectory(prefix=".restore-", dir=beside) as place:
        stage = Path(place) / "restored.db"
        staged(path, secret, stage).close()
        with opened(stage, target) as store:
            done = _filled(store, backup, target, gap, clock, there)
            other_key = store.vault.file != target.key_file
            if not dry_run:
                _look_again(store, target, clock)
            if not dry_run and target.file is None:
                _copy(store, target)
            store.checkpoint()
        if not dry_run and target.file is not None:
            done = replace(done, aside=put(stage, target.file))
    return replace(done, other_key=other_key)


def _filled(
    store: Store, backup: Backup, target: Target, gap: Gap, clock: Clock, there: There
) -> Restored:
    """Add to a staged store what was shown since, and check it.

    ``there`` is what the store to be replaced knows.
    """
    replayed = assumed = recused = 0
    shipped = _compared(store, backup, target, gap)
    with store.write() as tx:
        make_ready(tx, clock())
        settings.note_backup_folder(tx, str(backup.path.parent.resolve()), backup.id)
        for noted in there.folders:
            settings.note_backup_folder(tx, *noted)
        if gap.replay:
            assert target.shipped is not None
            lines = shipped_lines(target.shipped, store=store_id(store))
            replayed = replay(tx, lines, at=clock())
    if target.file is not None:
        refuse_outdone(store, there.heads, target.file)
    roots = 0
    if target.anchor is not None:
        roots = check_anchor(store, target.anchor, owner=store_id(store))
    if gap.shown_since is not None:
        assumed, recused = assume_shown(store, gap.shown_since, clock())
    listed = erasure_list.read(*erasure_list.places(*target.listed, target.shipped))
    erased = keep_out(store, listed, clock)
    with store.write() as tx:
        hold(tx, clock())
    refuse_edited(store)
    with store.read() as tx:
        found = check_store(tx)
        lost = rows.count_lost(tx)
        if gap.replay and target.shipped is not None:
            grown = compare(tx, check_files(target.shipped))
            if grown:
                raise _would_forget(backup, sum(seq - have for _, have, seq in grown))
    return Restored(
        backup,
        found.lines,
        replayed,
        assumed,
        recused,
        lost,
        erased,
        listed.there,
        shipped.at,
        roots,
    )


def _look_again(store: Store, target: Target, clock: Clock) -> None:
    """Check the target again: filling a store takes minutes.

    Raises
    ------
    AnotherLeads, Conflict, LedgerAhead
        Meanwhile a daemon leads it, or it has grown, or it was created.
    """
    if target.file is None:
        return
    there = check_target(target, store_id(store), clock)
    refuse_outdone(store, there.heads, target.file)
    with store.write() as tx:
        for noted in there.folders:
            settings.note_backup_folder(tx, *noted)


def _compared(store: Store, backup: Backup, target: Target, gap: Gap) -> Shipped:
    """Compare a staged store with the shipped ledger, if there is one.

    Raises
    ------
    LedgerAhead
        The store lacks lines of the files, or the files lack lines of the store.
    LedgerForeign, LedgerBroken
    """
    if target.shipped is None or not target.ships:
        return Shipped()
    shipped = read_shipped(target.shipped, store)
    behind = forgotten(store, shipped.heads)
    refuse_stale(store, shipped, target.shipped)
    if behind is not None and not gap.replay:
        raise _would_forget(backup, int(behind.facts["lines"]), behind.facts)
    return shipped


def _would_forget(
    backup: Backup, lines: int, facts: Mapping[str, str | int | float] | None = None
) -> LedgerAhead:
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
    """Refuse to restore where it is unknown what was shown since.

    Raises
    ------
    LedgerAhead
        There is no shipped ledger, and nothing is assumed.
    Usage
        There is one, but it is not to be read; or there is none to replay.
    """
    if target.ships and gap.shown_since is not None:
        raise Usage(
            "--assume-shown-since, and there is a shipped ledger",
            why=f"{target.shipped} says what was shown; and a store that goes on from "
            "assumptions parts ways with it.",
            fix="Use --replay-ledger. If these files are broken, move them away first.",
        )
    if not target.ships and gap.replay:
        raise Usage(
            "there is no shipped ledger to replay",
            why="No file ledger-*.jsonl is in "
            f"{target.shipped or 'a folder: [ledger] ship is empty'}.",
            fix="Name its folder: --ledger DIR; if it is lost: --assume-shown-since",
        )
    if not target.ships and gap.shown_since is None:
        raise LedgerAhead(
            "nobody says what was shown after the backup",
            why=f"There is no shipped ledger to compare {backup.id} with, and what was "
            "shown since would be shown again.",
            fix="Name the folder of the shipped ledger: --ledger DIR. If it is lost too,"
            " take for shown what may have been: --assume-shown-since TIME",
        )


def _copy(store: Store, target: Target) -> None:
    """Fill an empty database from a staged store."""
    with store.read() as tx:
        rebuilt(target.location, _parsed(tx), password_allowed=target.private).close()


def _parsed(tx: Tx) -> Iterator[dict[str, Any] | list[Any]]:
    for line in dumped(tx):
        yield json.loads(line)


def assume_shown(store: Store, since: int, now: int) -> tuple[int, int]:
    """Assume everything that may have been shown: (exposures, adversary-unit pairs).

    Every pair of an applied plan that was not booked counts as shown, in the order of
    the plan, as far as the gate allows. What else may have been shown is unknown: so no
    adversary is shown anything more of a record or person of which an entry was still
    open.
    """
    with store.write() as tx:
        pauses = pause.lift_all(tx)
        showings = 0
        for account_id, packed in rows.planned_pairs(tx):
            entry_ids = np.frombuffer(packed, "<i8").tolist()
            booked = book(
                tx,
                [Asks(account_id, entry_ids)],
                delivery=Pull(leased_until=now),
                at=now,
                cause=ASSUMED,
                skip_refused=True,
            )
            showings += booked.new
        pause.put_back(tx, pauses)
        records, subjects = rows.open_units(tx, since)
        units = [record_unit(n) for n in records] + [subject_unit(n) for n in subjects]
        living = rows.living_adversaries(tx)
        pairs = ((adversary, unit) for adversary in living for unit in units)
        recused = accounts.add_recusals(tx, pairs)
    return showings, recused


@dataclass(frozen=True)
class Target:
    """Where a backup is restored to.

    Attributes
    ----------
    location : str
        A file, or the URL of an empty database.
    key_file : KeyFile
        Opens the values of the store.
    other_key_file : KeyFile or None
        May do so where the first one is missing or another's.
    shipped : Path or None
        Folder of the shipped ledger to compare with.
    private : bool
        Whether the URL comes from a private file.
    force : bool
        Whether a file that is there may be replaced.
    listed : tuple of Path or None
        Folders with lists of erasures, which must not come back; that of ``shipped`` is
        read too. None: there is no such folder.
    anchor : Path or None
        File of roots that the restored store must have.
    """

    location: str
    key_file: KeyFile
    shipped: Path | None
    private: bool = False
    force: bool = False
    listed: tuple[Path | None, ...] = ()
    anchor: Path | None = None
    other_key_file: KeyFile | None = None

    @property
    def ships(self) -> bool:
        """Whether there is a shipped ledger."""
        return self.shipped is not None and any(self.shipped.glob("ledger-*.jsonl"))

    @property
    def file(self) -> Path | None:
        """The file, unless it is a database server's."""
        if "://" in self.location and not self.location.startswith("sqlite:///"):
            return None
        return Path(self.location.removeprefix("sqlite:///")).absolute()


@dataclass(frozen=True)
class There:
    """What the store to be replaced knows, if it is the same store.

    Attributes
    ----------
    heads : Heads
        Heads of its chains.
    folders : tuple of BackupFolder
        Where backups of it were written to.
    """

    heads: Heads = field(default_factory=dict)
    folders: tuple[settings.BackupFolder, ...] = ()


def opened(place: str | Path, target: Target) -> Store:
    """Open a store with whichever of the target's key files fits.

    Raises
    ------
    WrongKey
        None is.
    """
    try:
        return open_store(place, key_file=target.key_file)
    except WrongKey:
        if target.other_key_file is None:
            raise
    return open_store(place, key_file=target.other_key_file)


def check_target(target: Target, store: str, clock: Clock) -> There:
    """Inspect what is at a target.

    Parameters
    ----------
    target : Target
    store : str
        Id of the store that is to be restored there.
    clock : Clock

    Returns
    -------
    There
        Nothing, unless it is the same store that is there.

    Raises
    ------
    AnotherLeads
        A daemon leads it.
    Conflict
        It is not to be replaced.
    """
    if target.file is None:
        return There()  # that a database is empty is seen when it is filled
    if not target.file.exists():
        return There()
    found = There()
    try:
        with opened(target.location, target) as there:
            refuse_led(there, clock)
            if store_id(there) == store:
                with there.read() as tx:
                    found = There(heads_of(tx), tuple(settings.backup_folders(tx)))
    except AnotherLeads:
        raise
    except DispatcherError as error:
        if not target.force:
            raise _is_there(target.file) from error
    if not target.force:
        raise _is_there(target.file)
    return found


def _is_there(file: Path) -> Conflict:
    return Conflict(
        f"{file} is there already",
        why="A restore replaces nothing by itself.",
        fix="Name another file, or say --force: it is put aside as "
        f"{aside_of(file).name}, with its log.",
    )


def put(stage: Path, file: Path) -> Path | None:
    """Move a restored file into place; return where the replaced file is kept."""
    stage.chmod(0o600)
    aside = aside_of(file) if any(part.exists() for part in parts_of(file)) else None
    if aside is not None:
        for part, kept in zip(parts_of(file), parts_of(aside), strict=True):
            if part.exists():
                part.replace(kept)
    shutil.move(stage, file)
    return aside
