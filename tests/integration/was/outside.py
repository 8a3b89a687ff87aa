"""What an erasure has still to delete outside of the store, and the files written."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from dispatcher.store.settings import add_setting
from dispatcher.store.transaction import Tx


class ExportRow(NamedTuple):
    """A file of whole records that was written."""

    id: int
    run: str
    path: str


_PENDING: Final = "erasing"


def add_pending(tx: Tx, record_ids: Sequence[int]) -> None:
    """Note that spools and exports may hold something of erased records."""
    add_setting(tx, _PENDING, b"")
    _keep_pending(tx, {*pending(tx), *record_ids})


def pending(tx: Tx) -> list[int]:
    """Records of which something may be left outside; locked."""
    found = tx.value("SELECT value FROM setting WHERE name = ? FOR UPDATE", [_PENDING])
    return list(array("q", bytes(found or b"")))


def drop_pending(tx: Tx, record_ids: Sequence[int]) -> None:
    """Note that nothing of the records is left outside."""
    _keep_pending(tx, set(pending(tx)).difference(record_ids))


def _keep_pending(tx: Tx, record_ids: Iterable[int]) -> None:
    packed = array("q", sorted(record_ids)).tobytes()
    tx.execute("UPDATE setting SET value = ? WHERE name = ?", [packed, _PENDING])


# -- files -------------------------------------------------------------------------


def add_export(tx: Tx, run: str, path: str, now: int) -> None:
    """Note that a run's records were written to a file."""
    tx.execute(
        "DELETE FROM export_file WHERE path = ? AND run_id ="
        " (SELECT id FROM run WHERE name = ?)",
        [path, run],
    )
    tx.execute(
        "INSERT INTO export_file (id, run_id, path, at)"
        " SELECT CAST(? AS BIGINT), id, ?, CAST(? AS BIGINT) FROM run WHERE name = ?",
        [tx.reserve("export_file"), path, now, run],
    )


def exports_of(tx: Tx, record_ids: Sequence[int]) -> list[ExportRow]:
    """Files that may hold some of the records."""
    rows = tx.rows(
        "SELECT x.id, u.name, x.path FROM export_file x JOIN run u ON u.id = x.run_id"
        " WHERE x.run_id IN (SELECT run_id FROM record WHERE id = ANY(?))"
        " ORDER BY x.id",
        [record_ids],
    )
    return [ExportRow(*row) for row in rows]


def drop_export(tx: Tx, export_id: int) -> None:
    """Forget a file that is no more."""
    tx.execute("DELETE FROM export_file WHERE id = ?", [export_id])
