"""What an erasure has still to delete outside of the store, and the files written."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from sqlalchemy import BigInteger, Row, Text, bindparam, delete
from sqlmodel import col, select

from dispatcher.model import ExportFile, Record, Run
from dispatcher.store.settings import add_setting, set_setting, setting
from dispatcher.store.statements import in_list, insert, select_columns
from dispatcher.store.transaction import Tx

ExportRow: TypeAlias = "Row[int, str, str]"
"""A file of whole records that was written: ``id``, ``run`` and ``path``."""

_PENDING: Final = "erasing"


def add_pending(tx: Tx, record_ids: Sequence[int]) -> None:
    """Note that spools and exports may hold something of erased records."""
    add_setting(tx, _PENDING, b"")
    _keep_pending(tx, {*pending(tx), *record_ids})


def pending(tx: Tx) -> list[int]:
    """Records of which something may be left outside; locked."""
    return list(array("q", setting(tx, _PENDING, lock=True) or b""))


def drop_pending(tx: Tx, record_ids: Sequence[int]) -> None:
    """Note that nothing of the records is left outside."""
    _keep_pending(tx, set(pending(tx)).difference(record_ids))


def _keep_pending(tx: Tx, record_ids: Iterable[int]) -> None:
    if setting(tx, _PENDING) is not None:
        set_setting(tx, _PENDING, array("q", sorted(record_ids)).tobytes())


# -- files -------------------------------------------------------------------------


_RUN: Final = col(Run.name) == bindparam("run", type_=Text())
_FORGET: Final = delete(ExportFile).where(
    col(ExportFile.path) == bindparam("file"),
    col(ExportFile.run_id) == select(Run.id).where(_RUN).scalar_subquery(),
)
_WRITTEN: Final = insert(ExportFile).from_select(
    ["id", "run_id", "path", "at"],
    select_columns(
        bindparam("number", type_=BigInteger()),
        col(Run.id),
        bindparam("file", type_=Text()),
        bindparam("now", type_=BigInteger()),
    ).where(_RUN),
)
_EXPORTS: Final = (
    select_columns(ExportFile.id, col(Run.name).label("run"), ExportFile.path)
    .join(Run, col(Run.id) == ExportFile.run_id)
    .where(
        col(ExportFile.run_id).in_(
            select(Record.run_id).where(in_list(Record.id, "records"))
        )
    )
    .order_by(col(ExportFile.id))
)
_DROP: Final = delete(ExportFile).where(col(ExportFile.id) == bindparam("number"))


def add_export(tx: Tx, run: str, path: str, now: int) -> None:
    """Note that a run's records were written to a file."""
    tx.execute(_FORGET, {"file": path, "run": run})
    number = tx.reserve("export_file")
    tx.execute(_WRITTEN, {"number": number, "file": path, "now": now, "run": run})


def exports_of(tx: Tx, record_ids: Sequence[int]) -> Sequence[ExportRow]:
    """Files that may hold some of the records."""
    return tx.execute(_EXPORTS, {"records": record_ids}).all()


def drop_export(tx: Tx, export_id: int) -> None:
    """Forget a file that is no more."""
    tx.execute(_DROP, {"number": export_id})
