"""All rows of a store as lines of text, and a store made from them.

The lines are the same for both databases, so that what was kept of one is restored into
the other. Summaries are kept too; sessions and sign-in links of operators are not: a
restored store must not let in again who was sent away.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy import LargeBinary, Table

from dispatcher.errors import BackupBroken, Conflict
from dispatcher.model import metadata
from dispatcher.store import lease, migrations, schema
from dispatcher.store.engine import Store, make_backend
from dispatcher.store.sql import quoted
from dispatcher.store.transaction import Row, Tx

LEFT_OUT: Final = frozenset({"sign_in_link", "operator_session", "hook"})

JUMP: Final = 1_000_000_000
"""Numbers that are left out after a restore by a clock that was put back."""

Lines = Iterator[dict[str, Any] | list[Any]]


@dataclass(frozen=True)
class Extent:
    """How far a store's ledger reaches.

    Attributes
    ----------
    lines : int
    schema : str
        Name of its last migration.
    """

    lines: int
    schema: str


def extent(tx: Tx) -> Extent:
    """How far the ledger of a store reaches."""
    lines = int(tx.value("SELECT SUM(seq) FROM chain") or 0)
    return Extent(lines, schema.version(tx) or "")


def tables() -> list[Table]:
    """Tables that are kept, in the order of the model."""
    return [t for name, t in metadata.tables.items() if name not in LEFT_OUT]


def dumped(tx: Tx) -> Iterator[str]:
    """Tell all rows, table by table, each line with its LF."""
    counts = {}
    for table in tables():
        names = [column.name for column in table.columns]
        yield _line({"table": table.name, "columns": names})
        blobs = [i for i, c in enumerate(table.columns) if _is_blob(c.type)]
        count = 0
        listed = ", ".join(quoted(name) for name in names)
        for row in tx.stream(f"SELECT {listed} FROM {quoted(table.name)}"):
            yield _line(_told(row, blobs))
            count += 1
        counts[table.name] = count
    yield _line({"end": counts})


def _is_blob(kind: object) -> bool:
    return isinstance(kind, LargeBinary)


def _told(row: Row, blobs: list[int]) -> list[Any]:
    cells = list(row)
    for i in blobs:
        if cells[i] is not None:
            cells[i] = base64.b64encode(bytes(cells[i])).decode("ascii")
    return cells


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


def rebuilt(
    location: str | Path, lines: Lines, *, password_allowed: bool = False
) -> Store:
    """Make a store from dumped lines.

    Parameters
    ----------
    location : str or Path
        A file that does not exist, or an empty database.
    lines : iterator of dict or list
        The dumped lines, parsed. All are read before anything is committed.

    Returns
    -------
    Store
        Its keys are not read yet.

    Raises
    ------
    BackupBroken
        The lines end early, or are not those of this program.
    Conflict
        There is a store already.
    """
    backend = make_backend(location, create=True, password_allowed=password_allowed)
    store = Store(backend)
    try:
        _refuse_store(store)
        migrations.upgrade(backend)
        with store.write() as tx:
            for name in ("barrier", "chain"):  # what a new store is born with
                tx.execute(f"DELETE FROM {name}")
            _load(tx, lines)
    except BaseException:
        store.close()
        raise
    return store


def _refuse_store(store: Store) -> None:
    with store.read() as tx:
        found = schema.version(tx)
    if found is not None:
        raise Conflict(
            f"there is a store at {store.place} already",
            why="A restore never mixes with what is there.",
            fix="Make an empty database: createdb NAME; or name another file.",
        )


def _load(tx: Tx, lines: Lines) -> None:
    known = {table.name: table for table in tables()}
    counts: dict[str, int] = {}
    with closing(_Reader(lines)) as reader:
        while (head := reader.head()) is not None:
            if "end" in head:
                if head["end"] != counts:
                    raise broken("its tables do not have the rows that it counts")
                return
            table = known.get(str(head.get("table")))
            names = head.get("columns")
            if table is None or names != [column.name for column in table.columns]:
                raise broken("its tables are not those of its schema")
            blobs = [i for i, c in enumerate(table.columns) if _is_blob(c.type)]
            rows = reader.rows(len(names), blobs)
            counts[table.name] = max(0, tx.insert_many(table.name, names, rows))
    raise broken("it ends before its last table")


class _Reader:
    """Splits dumped lines into heads and the rows that follow each."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._next: dict[str, Any] | None = None

    def head(self) -> dict[str, Any] | None:
        """Return the next head, or None at the end."""
        found, self._next = self._next, None
        if found is None:
            line = next(self._lines, None)
            if isinstance(line, list):
                raise broken("a row stands outside of a table")
            return line
        return found

    def rows(self, width: int, blobs: list[int]) -> Iterator[list[Any]]:
        """Rows up to the next head."""
        for line in self._lines:
            if isinstance(line, dict):
                self._next = line
                return
            if len(line) != width:
                raise broken("a row does not fit its table")
            for i in blobs:
                if line[i] is not None:
                    line[i] = bytearray(base64.b64decode(line[i]))
            yield line

    def close(self) -> None:
        """Read no more."""
        if hasattr(self._lines, "close"):
            self._lines.close()


def broken(why: str) -> BackupBroken:
    """Error for a backup that can not be used."""
    return BackupBroken(
        "the backup can not be used",
        why=f"{why[0].upper()}{why[1:]}.",
        fix="Take an older one: dispatcher backup list",
    )


def make_ready(tx: Tx, now: int) -> None:
    """Make a restored store fit to go on.

    What the lost one gave to the world since is unknown. Messages that were still to be
    sent count as tried: they are asked for first, and where nobody can be asked they are
    not repeated; no task's id is given a second time; and whoever led it must
    write nothing here, should it wake up. A backup may be restored more than once: the
    numbers go on from the moment, so that no two stores made of it give away the same.

    Parameters
    ----------
    tx : Tx
        A write transaction of a store that nobody else uses.
    now : int
        Microseconds UTC.
    """
    tx.execute(
        "UPDATE outbox SET error = coalesce(error, 'restored from a backup'),"
        " attempts = CASE WHEN attempts = 0 THEN 1 ELSE attempts END"
        " WHERE state IN ('ready', 'leased')"
    )
    tx.execute(  # a market is asked whether it has paid before it pays
        "UPDATE payment SET attempts = attempts + 1 WHERE state <> 'paid'"
    )
    for table in tables():
        if "id" in table.columns:
            tx.execute(
                "INSERT INTO id_block (name, next_id) VALUES (?, 0)"
                " ON CONFLICT (name) DO NOTHING",
                (table.name,),
            )
    tx.execute(
        "INSERT INTO lease (shard, holder, epoch, leased_until) VALUES (?, '', 0, 0)"
        " ON CONFLICT (shard) DO UPDATE SET leased_until = 0",
        (lease.SHARD,),
    )
    for table_name, column in (("lease", "epoch"), ("id_block", "next_id")):
        tx.execute(
            f"UPDATE {table_name} SET {column} = CASE WHEN {column} < ? THEN ?"
            f" ELSE {column} + ? END",
            (now, now, JUMP),
        )
