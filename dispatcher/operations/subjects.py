"""Persons and their records: found, reported, erased on request and by age."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dispatcher.custody import erasure, erasure_list, receipts, subject_report
from dispatcher.custody.backup import Kept, backups_of
from dispatcher.custody.erasure import Erased, ErasureContext, Scope, erase_again
from dispatcher.operations.backups import folder_of
from dispatcher.operations.workspace import Workspace
from dispatcher.stages import assembly
from dispatcher.store import Store


@dataclass(frozen=True)
class Receipt:
    """A signed receipt of an erasure: its name, and where it lies."""

    name: str
    path: Path


@dataclass(frozen=True)
class Erasure:
    """What an erasure did, and what holds the values still.

    Attributes
    ----------
    erased : Erased
    backups : Kept
        Backups made before: they hold the values until they are pruned.
    receipt : Receipt or None
        None after a purge by age.
    """

    erased: Erased
    backups: Kept
    receipt: Receipt | None

    @property
    def is_complete(self) -> bool:
        """Whether nothing but backups and what was shown is left."""
        done = self.erased
        return not (done.left or done.aside or done.beyond) and done.scrubbed


@dataclass(frozen=True)
class ReceiptCheck:
    """Whether a receipt is signed under a key, and what it says."""

    holds: bool
    receipt: Mapping[str, Any]
    key: str


def erasure_context(
    workspace: Workspace, store: Store, connectors: Mapping[str, object] | None = None
) -> ErasureContext:
    """What an erasure works with; connectors are opened if none are given."""

    def rewrite(run: str, path: Path) -> None:
        assembly.rewrite(store, run, path)

    if connectors is None:
        connectors = workspace.open_connectors(store)
    return ErasureContext(
        store,
        connectors,
        workspace.clock,
        rewrite,
        workspace.directory,
        shipped=workspace.shipped,
        actor=workspace.actor,
    )


def erase_restored(
    workspace: Workspace, store: Store, connectors: Mapping[str, object]
) -> None:
    """Erase again who was erased before and is back, since a backup was put back."""
    erase_again(erasure_context(workspace, store, connectors))


def find(store: Store, key: str) -> list[Scope]:
    """Find a person or record by the key in the operator's files."""
    return erasure.find(store, key)


def scope(store: Store, name: str) -> Scope:
    """What there is about a person or record, by the ID that :func:`find` gives.

    Raises
    ------
    NotFound
    """
    return erasure.scope(store, name)


def report(
    workspace: Workspace, store: Store, name: str, output: Path, *, with_names: bool
) -> dict[str, int]:
    """Write all there is about a person to a zip file; counts of what is in it."""
    return subject_report.write_report(
        store, name, output, at=workspace.clock(), name_recipients=with_names
    )


def erase(workspace: Workspace, store: Store, name: str) -> Erasure:
    """Erase a person's values for good, with a signed receipt."""
    found = erasure.scope(store, name)
    done = erasure.erase(erasure_context(workspace, store), name)
    backups = backups_of(store, folder_of(workspace))
    issued = receipts.issue(
        store,
        found.id,
        done,
        kept=found.showings.lines,
        backups=backups,
        at=workspace.clock(),
    )
    path = receipts.write(workspace.directory / receipts.FOLDER, issued)
    return Erasure(done, backups, Receipt(str(issued["receipt"]), path))


def check_receipt(workspace: Workspace, path: Path, key: str = "") -> ReceiptCheck:
    """Check the signature of a receipt, under the store's own key if none is given."""
    found = receipts.read(path)
    if not key:
        with workspace.open_store() as store:
            key = receipts.public_key(store)
    return ReceiptCheck(receipts.holds(found, key), found, key)


def count_older(store: Store, moment: int) -> int:
    """How many records loaded before a moment hold values."""
    return erasure.count_older(store, moment)


def purge(workspace: Workspace, store: Store, moment: int) -> Erasure:
    """Erase the values of records loaded before a moment."""
    context = erasure_context(workspace, store)
    for path in context.lists:
        erasure_list.note_purge(path, moment, workspace.clock())
    done = erasure.purge(context, moment)
    return Erasure(done, backups_of(store, folder_of(workspace)), None)
