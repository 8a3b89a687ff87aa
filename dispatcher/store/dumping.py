"""Dump all rows of a store as lines of text, and rebuild a store from them.

The lines are the same for both databases, so that what was kept of one is restored into
the other. Summaries are kept too; sessions and sign-in links of operators are not: a
restored store must not let in again who was sent away.
"""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    LargeBinary,
    TableClause,
    bindparam,
    case,
    column,
    delete,
    func,
    select,
    table,
    update,
)
from sqlmodel import col

from dispatcher.core.errors import BackupBroken, Conflict
from dispatcher.model import (
    Chain,
    IdBlock,
    Lease,
    Outbox,
    Payment,
    PolicyLock,
    metadata,
)
from dispatcher.store import lease, migrations
from dispatcher.store.engine import Store, make_backend
from dispatcher.store.statements import in_words, insert
from dispatcher.store.transaction import Row, Tx

Columns = dict[str, bool]
"""Columns of a table in order; whether each has bytes."""

LEFT_OUT: Final = frozenset(
    {
        "api_request",
        "unshipped_piece",
        "sign_in_link",
        "operator_session",
        "worker_session",
        "webhook_delivery",
    }
)
"""Tables that no copy of a store contains."""

JUMP: Final = 1_000_000_000
"""Numbers that are left out after a restore by a clock that was put back."""

_LINES: Final = select(func.sum(Chain.seq))
_READY: Final = (
    update(Outbox)
    .where(in_words(Outbox.state, "ready", "leased"))
    .values(
        error=func.coalesce(Outbox.error, "restored from a backup"),
        attempts=case((col(Outbox.attempts) == 0, 1), else_=col(Outbox.attempts)),
    ),
    # a market is asked whether it has paid before it pays
    update(Payment)
    .where(col(Payment.state) != "paid")
    .values(attempts=col(Payment.attempts) + 1),
)
_ID_BLOCK: Final = (
    insert(IdBlock)
    .values(name=bindparam("table"), next_id=0)
    .on_conflict_do_nothing(index_elements=["name"])
)
_LEASE: Final = (
    insert(Lease)
    .values(shard=lease.SHARD, holder="", epoch=0, leased_until=0)
    .on_conflict_do_update(index_elements=["shard"], set_={"leased_until": 0})
)


def _later(number: Any) -> ColumnElement[int]:  # noqa: ANN401
    """Return a number that was given away by nobody."""
    now = bindparam("now", type_=BigInteger())
    jump = bindparam("jump", type_=BigInteger())
    return case((number < now, now), else_=number + jump)


_JUMPS: Final = (
    update(Lease).values(epoch=_later(col(Lease.epoch))),
    update(IdBlock).values(next_id=_later(col(IdBlock.next_id))),
)

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
    lines = int(tx.scalar(_LINES) or 0)
    return Extent(lines, migrations.version(tx) or "")


def row_count(tx: Tx) -> int:
    """Count what is dumped: all rows, a head for each table, and the end."""
    names = layout(migrations.version(tx) or "")
    counts = (select(func.count()).select_from(table(name)) for name in names)
    return sum(1 + int(tx.scalar(count) or 0) for count in counts) + 1


def dumped(tx: Tx) -> Iterator[str]:
    """Yield all rows, table by table, each line with its LF; the store may be older."""
    counts = {}
    for name, columns in layout(migrations.version(tx) or "").items():
        yield _line({"table": name, "columns": list(columns)})
        blobs = [i for i, is_blob in enumerate(columns.values()) if is_blob]
        count = 0
        for row in tx.stream(select(*_plain(name, columns).c)):
            yield _line(_told(row, blobs))
            count += 1
        counts[name] = count
    yield _line({"end": counts})


def _told(row: Row, blobs: list[int]) -> list[Any]:
    cells = list(row)
    for i in blobs:
        if cells[i] is not None:
            cells[i] = base64.b64encode(bytes(cells[i])).decode("ascii")
    return cells


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


def rebuilt(
    location: str | Path,
    lines: Lines,
    *,
    version: str | None = None,
    password_allowed: bool = False,
) -> Store:
    """Make a store from dumped lines, and bring it up to date.

    Parameters
    ----------
    location : str or Path
        A file that does not exist, or an empty database.
    lines : iterator of dict or list
        The dumped lines, parsed. All are read before anything is committed.
    version : str, optional
        Schema of the store that they are of, None for this program's; an older one
        only into SQLite.
    password_allowed : bool

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
    version = version or migrations.HEAD
    backend = make_backend(location, create=True, password_allowed=password_allowed)
    store = Store(backend)
    try:
        _refuse_store(store)
        migrations.upgrade(backend, to=version)
        with store.write() as tx:
            for model in (PolicyLock, Chain):  # what a new store is born with
                tx.execute(delete(model))
            _load(tx, lines, layout(version))
        if version != migrations.HEAD:
            migrations.upgrade(backend)
    except BaseException:
        store.close()
        raise
    return store


def _refuse_store(store: Store) -> None:
    with store.read() as tx:
        found = migrations.version(tx)
    if found is not None:
        raise Conflict(
            f"there is a store at {store.place} already",
            why="A restore never mixes with what is there.",
            fix="Make an empty database: createdb NAME; or name another file.",
        )


def _load(tx: Tx, lines: Lines, known: Mapping[str, Columns]) -> None:
    counts: dict[str, int] = {}
    with closing(_DumpReader(lines)) as reader:
        while (head := reader.head()) is not None:
            if "end" in head:
                if head["end"] != counts:
                    raise broken("its tables do not have the rows that it counts")
                return
            table, names = str(head.get("table")), head.get("columns")
            columns = known.get(table, {})
            if not columns or names != list(columns):
                raise broken("its tables are not those of its schema")
            blobs = [i for i, is_blob in enumerate(columns.values()) if is_blob]
            counts[table] = _insert(tx, table, names, reader.rows(len(names), blobs))
    raise broken("it ends before its last table")


def _insert(tx: Tx, name: str, names: list[str], rows: Iterator[list[Any]]) -> int:
    known = metadata.tables.get(name)
    if known is not None and {*names} <= {*known.columns.keys()}:
        return max(0, tx.insert_many(name, names, rows))
    # It is of an older schema; the bulk writer knows the columns of the model alone.
    old = _plain(name, names)
    add = insert(old).values({one: bindparam(f"{one}_") for one in names})
    count = 0
    for row in rows:
        cells = zip(names, row, strict=True)
        tx.execute(add, {f"{one}_": cell for one, cell in cells})
        count += 1
    return count


def _plain(name: str, columns: Iterable[str]) -> TableClause:
    """Return a table of any schema: its columns have no types."""
    return table(name, *map(column, columns))


class _DumpReader:
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
                raise broken("a row outside of any table")
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
    """Error for a backup that cannot be used."""
    return BackupBroken(
        "the backup cannot be used",
        why=f"{why[0].upper()}{why[1:]}.",
        fix="Take an older one: dispatcher backup list",
    )


def make_ready(tx: Tx, now: int) -> None:
    """Prepare a restored store for use.

    What the lost store sent since is unknown. Messages still to be sent count as tried:
    the connector is asked first, and where it cannot be asked they are not repeated; no
    task's id is assigned twice; and a former leader that wakes up must not write here.
    A backup may be restored more than once: the numbers go on from the moment, so that
    no two stores made of it give away the same.

    Parameters
    ----------
    tx : Tx
        A write transaction of a store that nobody else uses.
    now : int
        Microseconds UTC.
    """
    for statement in _READY:
        tx.execute(statement)
    for name, columns in layout(migrations.HEAD).items():
        if "id" in columns:
            tx.execute(_ID_BLOCK, {"table": name})
    tx.execute(_LEASE)
    jump = {"now": now, "jump": JUMP}
    for statement in _JUMPS:
        tx.execute(statement, jump)


# -- which tables and columns a schema has ---------------------------------------------


def layout(version: str) -> dict[str, Columns]:
    """Tables that copies of a store keep, at one of the program's migrations.

    Parameters
    ----------
    version : str
        Not after :data:`.migrations.HEAD`.
    """
    found = _modelled() if version == migrations.HEAD else _migrated(version)
    return {name: columns for name, columns in found.items() if name not in LEFT_OUT}


def _modelled() -> dict[str, Columns]:
    return {
        table.name: {c.name: isinstance(c.type, LargeBinary) for c in table.columns}
        for table in metadata.sorted_tables  # what is referred to comes first
    }


def _migrated(version: str) -> dict[str, Columns]:
    """Tables of an empty store that was migrated so far: no model is left of them."""
    with tempfile.TemporaryDirectory() as place:
        backend = make_backend(Path(place) / "empty.db", create=True)
        migrations.upgrade(backend, to=version)
        with Store(backend) as store, store.read() as tx:
            found = tx.reflected()
    return {
        table.name: {c.name: isinstance(c.type, LargeBinary) for c in table.columns}
        for table in found.sorted_tables
        if table.name != "alembic_version"
    }
