"""Persons and their records: find, report and erase them, on request or by age."""

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
    """A signed receipt of an erasure: its name and path."""

    name: str
    path: Path


@dataclass(frozen=True)
class Erasure:
    """Result of an erasure, and where the values remain.

    Attributes
    ----------
    erased : Erased
    backups : Kept
        Earlier backups: they contain the values until they are pruned.
    receipt : Receipt or None
        None after a purge by age.
    """

    erased: Erased
    backups: Kept
    receipt: Receipt | None

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left except in backups and what was shown."""
        done = self.erased
        return not (done.left or done.aside or done.beyond) and done.scrubbed


@dataclass(frozen=True)
class ReceiptCheck:
    """Whether a receipt is signed under a key, and its content."""

    holds: bool
    receipt: Mapping[str, Any]
    key: str


def erasure_context(
    workspace: Workspace, store: Store, connectors: Mapping[str, object] | None = None
) -> ErasureContext:
    """Build the context of an erasure; connectors are opened if none are given."""

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
    """Repeat erasures of persons whom a restored backup has brought back."""
    erase_again(erasure_context(workspace, store, connectors))


def find(store: Store, key: str) -> list[Scope]:
    """Find a person or record by the key in the operator's files."""
    return erasure.find(store, key)


def scope(store: Store, name: str) -> Scope:
    """Return what is stored about a person or record, by an ID from :func:`find`.

    Raises
    ------
    NotFound
    """
    return erasure.scope(store, name)


def report(
    workspace: Workspace, store: Store, name: str, output: Path, *, with_names: bool
) -> dict[str, int]:
    """Write all data about a person to a zip file; return counts of its content."""
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
    """Count records with values that were loaded before a time."""
    return erasure.count_older(store, moment)


def purge(workspace: Workspace, store: Store, moment: int) -> Erasure:
    """Erase the values of records loaded before a time."""
    context = erasure_context(workspace, store)
    for path in context.lists:
        erasure_list.note_purge(path, moment, workspace.clock())
    done = erasure.purge(context, moment)
    return Erasure(done, backups_of(store, folder_of(workspace)), None)
