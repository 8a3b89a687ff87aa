"""Records: preview, load, list and reassemble them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from dispatcher.core import keys
from dispatcher.core.errors import NotFound, Usage
from dispatcher.custody.erasure import note_export
from dispatcher.ledger.active_policy import asked_fields
from dispatcher.operations import totals
from dispatcher.operations.answers import check_reason
from dispatcher.operations.workspace import Workspace
from dispatcher.stages import assembly
from dispatcher.stages.assembly import Reassembled, Values
from dispatcher.stages.intake import loading
from dispatcher.stages.intake.loading import Loaded, LoadProgress
from dispatcher.stages.intake.opening import folder_of_pages, open_table
from dispatcher.stages.intake.preview import FilePreview
from dispatcher.stages.intake.preview import preview as look
from dispatcher.stages.intake.rejects import rejects_path
from dispatcher.stages.intake.table import FileFormat, Options
from dispatcher.store import Store, Tx, events, record_states, statistics

__all__ = [
    "FIELDS",
    "FileFormat",
    "Options",
    "list_records",
    "load",
    "no_record",
    "preview",
    "reassemble",
    "reassemble_to_stream",
    "rejects_path",
    "reveal",
    "show",
]

Source = Path | BinaryIO
"""A file, or a stream."""

Row = tuple[object, ...]
FIELDS: Final = (
    "field",
    "state",
    "tasks",
    "live",
    "answers",
    "held_back",
    "not_valid",
    "decided_by",
)
"""Attributes of each field in :func:`show`."""


def preview(
    source: Source,
    options: Options,
    workspace: Workspace | None = None,
    store: Store | None = None,
    *,
    loading_it: bool = False,
) -> FilePreview:
    """Describe a file's content, column by column; nothing is loaded.

    With a store, the rejected rows are those that a load would reject, and for a load
    rows are numbered where its policy asks for it.
    """
    if loading_it and store is not None:
        options = loading.as_loaded(store, source, options)
    with open_table(source, options) as opened:
        screen = None
        if workspace is not None and store is not None:
            folder = folder_of_pages(source)
            screen = loading.screen(store, opened, folder, workspace.clock)
        return look(opened, screen)


def load(
    workspace: Workspace,
    store: Store,
    source: Source,
    *,
    options: Options,
    rejects: Path,
    run: str = "default",
    pilot: int | None = None,
    folder: Path | None = None,
    progress: Callable[[LoadProgress], None] | None = None,
) -> Loaded:
    """Load a file under the policy in force; loading it twice changes nothing.

    Parameters
    ----------
    workspace : Workspace
    store : Store
    source : Path or BinaryIO
    options : Options
        How the file is to be read.
    rejects : Path
        File of the rows that cannot be loaded.
    run : str
        The run that records go to.
    pilot : int, optional
        How many records go out until the pilot is accepted.
    folder : Path, optional
        Folder of the pages of images; None: the file's, or that of the scans.
    progress : callable, optional
        Called now and then with the progress of the load.
    """
    return loading.load(
        store,
        source,
        clock=workspace.clock,
        run=run,
        pilot=pilot,
        actor=workspace.actor,
        options=options,
        folder=folder,
        rejects=rejects,
        progress=progress,
    )


def reassemble(
    workspace: Workspace,
    store: Store,
    run: str,
    output: Path,
    format: str = "",
    *,
    excel_guard: bool = True,
) -> Reassembled:
    """Write the records of a run to a file, recorded so that erasures find it.

    Parameters
    ----------
    workspace : Workspace
    store : Store
    run : str
    output : Path
    format : str
        ``csv``, ``jsonl`` or ``parquet``; empty: by the file's name.
    excel_guard : bool
        CSV: put ``'`` before cells that a spreadsheet would run.
    """
    if not output.exists() or output.is_file():
        note_export(store, run, output, workspace.clock())
    return assembly.reassemble(store, run, output, format, excel_guard=excel_guard)


def reassemble_to_stream(
    store: Store,
    run: str,
    stream: BinaryIO,
    format: str = "",
    *,
    excel_guard: bool = True,
) -> Reassembled:
    """Write the records of a run to a stream.

    Raises
    ------
    Usage
        Parquet cannot be written to a stream.
    """
    form = format or "csv"
    if form == "parquet":
        raise Usage(
            "Parquet cannot be written to stdout",
            why="its beginning is known only at its end",
            fix="name a file: -o records.parquet",
        )
    return assembly.write_records(store, run, stream, form, excel_guard=excel_guard)


def reveal(workspace: Workspace, store: Store, name: str, reason: str) -> Values:
    """Return the values of a record; the audit log has who looked, and why, before that.

    Raises
    ------
    Usage
        The reason is empty, or not one line.
    NotFound
        There is no such record, or its values were erased.
    """
    check_reason(reason, "values are shown")
    with store.write() as tx:
        found = assembly.values_of(tx, name)
        if found is None:
            raise no_record(tx, name)
        detail = {"record": name, "reason": reason}
        events.add_event(
            tx, workspace.clock(), workspace.actor, "record.revealed", detail
        )
    return found


def list_records(
    store: Store,
    run: str | None = None,
    state: str | None = None,
    limit: int = 100,
    after: str = "",
    *,
    exact: bool = True,
) -> Sequence[Row]:
    """Records: key, run, state, asked fields, answered ones, conflicts, and the pseudonym.

    Parameters
    ----------
    store : Store
    run, state : str, optional
        Only those.
    limit : int
        Most records to return.
    after : str
        Pseudonym of the record before the first one.
    exact : bool
        Look through a large store too; else begin with those that the daemon found.
    """
    with store.read() as tx:
        asked = asked_fields(tx)
        begin = (record_states.record_named(tx, after) or 0) if after else 0
        known: list[int] = []
        up_to = 0
        if state == "conflict":
            known = statistics.records_in_conflict(tx, asked, begin)
            return record_states.records_of(tx, asked, run, state, known)[:limit]
        if state == "open" and not exact:
            known, up_to = totals.listed(tx, "records", begin)
        found = record_states.records_of(tx, asked, run, state, known)[:limit]
        if len(found) < limit:
            rest = limit - len(found)
            behind = max(begin, up_to)
            found += record_states.records(tx, asked, run, state, rest, behind)
        return found


def show(store: Store, key: str) -> tuple[str, Sequence[Row]]:
    """Pseudonym of a record, and the :data:`FIELDS` of its fields; no value.

    Found by its key, or else by the pseudonym itself.

    Raises
    ------
    NotFound
    """
    name = keys.pseudonym(store.key("pseudonym-key"), "r", key)
    with store.read() as tx:
        asked = asked_fields(tx)
        found = record_states.fields(tx, asked, name)
        if not found:
            name, found = key, record_states.fields(tx, asked, key)
        if not found:
            raise no_record(tx, key)
    return name, found


def no_record(tx: Tx, key: str) -> NotFound:
    """Return the error for an unknown record."""
    return NotFound(
        "there is no such record with a field that is asked",
        why="no record of this key was loaded, or all its asked fields are empty",
        fix="dispatcher records list",
        name=key,
        known=record_states.first_keys(tx),
    )
