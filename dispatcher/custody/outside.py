"""What an erasure deletes outside of the store: rows of spools, files of whole records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from connectors.base import ConnectorError, Forgetting
from dispatcher.core.errors import DispatcherError
from dispatcher.custody.erasure_context import Erased, ErasureContext, tokens
from dispatcher.store import Store, Tx, outside
from dispatcher.store import erasure as rows
from dispatcher.store.repeating import committed


def finish(context: ErasureContext, done: Erased) -> bool:
    """Delete what lies outside of the store (spools, exports) of all that was erased.

    Which records those are stands in the store, so that a run that was broken off, or
    met a connector that was away, is ended by the next one.

    Returns
    -------
    bool
        Whether there was anything to do.
    """
    records, tasks, exports = committed(context.store, _left)
    if not records:
        return False
    away = False
    by_connector: dict[str, list[int]] = {}
    for task in tasks:
        by_connector.setdefault(task.connector, []).append(task.id)
    for name, ids in by_connector.items():
        connector = context.connectors.get(name)
        if isinstance(connector, Forgetting):
            try:
                done.left += connector.forget(tokens(context.store, ids))
            except ConnectorError:
                done.left.append(f"connector {name}: it could not be reached")
                away = True
    for export in exports:
        _renew(context, export, done)
    if not away:
        committed(context.store, lambda tx: outside.drop_pending(tx, records))
    return True


def _left(tx: Tx) -> tuple[list[int], list[rows.TaskRow], Sequence[outside.ExportRow]]:
    records = outside.pending(tx)
    tasks = rows.tasks_of(tx, rows.entries_of(tx, records))
    return records, tasks, outside.exports_of(tx, records)


def _renew(context: ErasureContext, export: outside.ExportRow, done: Erased) -> None:
    """Write an export anew without what is gone; one that cannot be is deleted."""
    path = Path(export.path)
    if path.is_file():
        try:
            context.rewrite(export.run, path)
        except DispatcherError:
            try:
                path.unlink(missing_ok=True)
            except OSError:
                done.left.append(str(path))
                return
        done.exports.append(str(path))
    if not path.exists():
        committed(context.store, lambda tx: outside.drop_export(tx, export.id))


def note_export(store: Store, run: str, path: Path, at: int) -> None:
    """Note that the whole records of a run are about to be written to a file."""
    committed(store, lambda tx: outside.add_export(tx, run, str(path.absolute()), at))
