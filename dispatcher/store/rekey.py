"""Sealing what is in clear, and wrapping data keys anew: bounded pieces of one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Integer,
    bindparam,
    func,
    literal_column,
    null,
    select,
    true,
)
from sqlmodel import SQLModel, col

from dispatcher.model import (
    AppUser,
    Entry,
    Quarantine,
    Record,
    Result,
    Subject,
    Task,
    TaskAnswer,
    ValueKey,
    Webhook,
)
from dispatcher.store.settings import KEYS, setting
from dispatcher.store.statements import Columns, in_list, select_columns
from dispatcher.store.transaction import Row, Tx
from dispatcher.store.vault import SEALING


@dataclass(frozen=True, slots=True)
class Plain:
    """A table with values in clear.

    Attributes
    ----------
    model : type of SQLModel
    number : str
        Its id column.
    values : tuple of str
        Columns of values.
    some : ColumnElement
        What a row with a value in clear looks like.
    key : ColumnElement
        The key that the row takes; NULL for a new one.
    """

    model: type[SQLModel]
    number: str
    values: tuple[str, ...]
    some: ColumnElement[bool]
    key: ColumnElement[Any]

    @property
    def table(self) -> str:
        """Name of the table."""
        return str(self.model.__tablename__)

    def column(self, name: str) -> Any:  # noqa: ANN401
        """Column of the table."""
        return col(getattr(self.model, name))


def _key_of(owner: type[SQLModel], number: Any) -> ColumnElement[Any]:  # noqa: ANN401
    """Key of the row that another one belongs to."""
    key, own = (col(getattr(owner, name)) for name in ("key_id", "id"))
    return select(key).where(own == number).scalar_subquery()


def _is_filled(column: Any) -> ColumnElement[bool]:  # noqa: ANN401
    return func.length(column) > literal_column("0", Integer())


TABLES: Final = (
    Plain(Subject, "id", ("value",), _is_filled(Subject.value), null()),
    Plain(
        Record,
        "id",
        ("key", "columns"),
        col(Record.erased_at).is_(None),
        _key_of(Subject, Record.subject_id),
    ),
    Plain(
        Entry,
        "id",
        ("shown",),
        _is_filled(Entry.shown),
        _key_of(Record, Entry.record_id),
    ),
    Plain(
        Task,
        "id",
        ("draft",),
        col(Task.draft).is_not(None),
        _key_of(Entry, Task.entry_id),
    ),
    Plain(TaskAnswer, "task_id", ("raw",), true(), _key_of(Entry, TaskAnswer.entry_id)),
    Plain(
        Result,
        "entry_id",
        ("value",),
        col(Result.value).is_not(None),
        _key_of(Entry, Result.entry_id),
    ),
    Plain(Quarantine, "id", ("payload",), _is_filled(Quarantine.payload), null()),
    Plain(AppUser, "id", ("totp",), col(AppUser.totp).is_not(None), null()),
    Plain(Webhook, "id", ("secret", "old_secret"), true(), null()),
)
"""All tables with values, in an order in which keys are there before they are needed."""

_WITH_SUBJECT: Final = select_columns(Record.id).where(
    in_list(Record.id, "ids"), col(Record.subject_id).is_not(None)
)
_WRAPPING: Final = select_columns(ValueKey.kek, func.count()).group_by(
    col(ValueKey.kek)
)


@lru_cache(maxsize=len(TABLES))
def _in_clear(name: str) -> Columns:
    """Rows of a table that are in clear, some of them, locked."""
    (plain,) = (one for one in TABLES if one.table == name)
    number = plain.column(plain.number)
    return (
        select_columns(number, plain.key, *map(plain.column, plain.values))
        .where(
            plain.column("key_id").is_(None), plain.some, number > bindparam("after")
        )
        .order_by(number)
        .limit(bindparam("most"))
        .with_for_update(of=plain.model)
    )


def sealed_under(tx: Tx) -> str | None:
    """Id of the wrapping key that the store seals under; None: it is in clear."""
    found = setting(tx, SEALING)
    return None if found is None else found.decode("ascii", "replace")


def hold_sealing(tx: Tx) -> str | None:
    """Return the same, and let nobody change it, or make data keys, meanwhile."""
    for name in (KEYS[0], SEALING):
        setting(tx, name, lock=True)
    return sealed_under(tx)


def remaining(tx: Tx) -> dict[str, int]:
    """How many rows of each table hold a value in clear."""
    found = {}
    for one in TABLES:
        rows = select(func.count()).select_from(one.model)
        asked = rows.where(one.column("key_id").is_(None), one.some)
        found[one.table] = tx.scalar(asked) or 0
    return found


def seal_piece(tx: Tx, plain: Plain, after: int, limit: int) -> tuple[int, int | None]:
    """Seal some rows of a table that are in clear.

    Parameters
    ----------
    tx : Tx
        A write transaction of a store that seals.
    plain : Plain
    after : int
        Rows above this id.
    limit : int

    Returns
    -------
    tuple of (int, int or None)
        Rows sealed, and the id to go on after; None at the table's end.
    """
    asked = _in_clear(plain.table)
    found = tx.execute(asked, {"after": after, "most": limit}).all()
    if not found:
        return 0, None
    keys = _keys(tx, plain, found)
    changed = []
    for row, key_id in zip(found, keys, strict=True):
        if key_id is not None:
            values = _sealed(tx, plain, row, key_id)
            changed.append((row[0], *values, key_id))
    tx.update_many(plain.table, [plain.number], [*plain.values, "key_id"], changed)
    return len(changed), found[-1][0]


def _keys(tx: Tx, plain: Plain, found: Sequence[Row]) -> list[int | None]:
    """Keys of rows: their subject's or record's, new ones where there is none to take."""
    keys: list[int | None] = [row[1] for row in found]
    tx.vault.prepare(tx, keys)
    alone = plain.table in ("subject", "record", "quarantine", "app_user", "webhook")
    lacking = [place for place, key_id in enumerate(keys) if key_id is None]
    if alone and lacking:
        if plain.table == "record":
            lacking = _without_subject(tx, found, lacking)
        made = tx.vault.make(tx, len(lacking))
        for place, key_id in zip(lacking, made, strict=True):
            keys[place] = key_id
    return keys


def _without_subject(tx: Tx, found: Sequence[Row], places: list[int]) -> list[int]:
    """Leave out records whose subject is yet to get its key: the next pass has them."""
    ids = [found[place][0] for place in places]
    bound = set(tx.scalars(_WITH_SUBJECT, {"ids": ids}))
    return [place for place in places if found[place][0] not in bound]


def _sealed(tx: Tx, plain: Plain, row: Row, key_id: int) -> list[bytes | None]:
    return [
        None
        if value is None
        else tx.vault.seal(tx, f"{plain.table}.{name}", row[0], key_id, bytes(value))
        for name, value in zip(plain.values, row[2:], strict=True)
    ]


def rewrap_piece(tx: Tx, kek: str, after: int, limit: int) -> tuple[int, int | None]:
    """Wrap some data keys under a wrapping key; returns as the above."""
    return tx.vault.rewrap(tx, kek, after, limit)


def wrapping_keys(tx: Tx) -> dict[str, int]:
    """Count the data keys wrapped under each wrapping key."""
    return dict(tx.execute(_WRAPPING).all())
