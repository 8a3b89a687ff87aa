"""What statements are written with beside SQLAlchemy's own constructs.

* :func:`in_list` and :func:`not_in_list`: a list of any length as one parameter.
* :func:`insert`, with ``on_conflict_do_nothing`` and ``on_conflict_do_update``: it is
  PostgreSQL's construct, and SQLAlchemy compiles it for SQLite as well.
* :func:`fixed`: a literal of the program's own within the statement's text, so
  that a partial index is found.
* :class:`DriverStatement`: a construct that is compiled once for each database and then
  goes to the driver as it is, on the paths where that pays (docs/decisions/0011).
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from sqlalchemy import (
    BigInteger,
    Boolean,
    Dialect,
    Executable,
    String,
    Text,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    select,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import BindParameter, ColumnElement
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import Select
from sqlalchemy.types import TypeDecorator, TypeEngine
from sqlmodel import col
from sqlmodel.sql import expression

Parameters = Mapping[str, Any]
"""Values of a statement's parameters, by their names."""

Columns: TypeAlias = "expression.Select[*tuple[Any, ...]]"
"""A query of some columns."""

_WORD: Final = re.compile(r"[a-z][a-z0-9_]*")


class _List(TypeDecorator[Sequence[Any]]):
    """A list as one value: an array of PostgreSQL, a JSON text for SQLite."""

    impl = Text
    cache_ok = True

    def __init__(self, item: TypeEngine[Any]) -> None:
        super().__init__()
        self.item = item

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Type of the parameter on one database."""
        if dialect.name == "postgresql":
            return dialect.type_descriptor(postgresql.ARRAY(self.item))
        return dialect.type_descriptor(Text())

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:  # noqa: ANN401
        """Value as the driver takes it."""
        return value if dialect.name == "postgresql" else json.dumps(list(value))


class _ListTest(FunctionElement[bool]):
    """A column beside a list: both are its clauses."""

    inherit_cache = True
    type = Boolean()

    def self_group(self, against: Any = None) -> Any:  # noqa: ANN401, ARG002
        """Stand as it is: SQLite would be asked for ``... = 1``, and use no index."""
        return self


class _InList(_ListTest):
    inherit_cache = True


class _NotInList(_ListTest):
    inherit_cache = True


def _sides(
    element: _ListTest, compiler: SQLCompiler, options: dict[str, Any]
) -> tuple[str, str]:
    column, values = element.clauses
    return compiler.process(column, **options), compiler.process(values, **options)


@compiles(_InList)
def _in_array(element: _InList, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401
    left, right = _sides(element, compiler, options)
    return f"{left} = ANY({right})"


@compiles(_NotInList)
def _not_in_array(element: _NotInList, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401
    left, right = _sides(element, compiler, options)
    return f"{left} <> ALL({right})"


@compiles(_InList, "sqlite")
def _in_json(element: _InList, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401
    left, right = _sides(element, compiler, options)
    return f"{left} IN (SELECT value FROM json_each({right}))"


@compiles(_NotInList, "sqlite")
def _not_in_json(element: _NotInList, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401
    left, right = _sides(element, compiler, options)
    return f"{left} NOT IN (SELECT value FROM json_each({right}))"


def in_list(column: Any, values: str | Sequence[Any]) -> ColumnElement[bool]:  # noqa: ANN401
    """Whether a column's value is one of a list, which is one parameter.

    Parameters
    ----------
    column : column expression
        Of integers or of texts.
    values : str or sequence
        The parameter's name, or the list itself. A statement stays the same for lists
        of any length, so it is compiled and prepared once.
    """
    return _InList(column, _list(column, values))


def not_in_list(column: Any, values: str | Sequence[Any]) -> ColumnElement[bool]:  # noqa: ANN401
    """Whether a column's value is none of a list; see :func:`in_list`."""
    return _NotInList(column, _list(column, values))


def _list(column: Any, values: str | Sequence[Any]) -> BindParameter[Any]:  # noqa: ANN401
    kind = _List(Text() if isinstance(column.type, String) else BigInteger())
    if isinstance(values, str):
        return bindparam(values, type_=kind)
    return bindparam(None, list(values), type_=kind)


def select_columns(*columns: Any) -> Columns:  # noqa: ANN401
    """``select`` of any number of columns: that of SQLModel is typed for up to four."""
    return expression.Select(*columns)


def sum_where(
    condition: ColumnElement[bool],
    amount: Any = 1,  # noqa: ANN401 - a column or a number
) -> ColumnElement[int]:
    """Sum an amount over the rows of a group that meet a condition, or count them."""
    return cast(func.sum(case((condition, amount), else_=0)), BigInteger)


@lru_cache(maxsize=256)
def fixed(word: str) -> ColumnElement[str]:
    """Return a state or kind as a literal in the statement's text.

    Databases use a partial index only where they see its condition: a parameter hides
    it from them.

    Raises
    ------
    ValueError
        It is no word of the program's own.
    """
    if not _WORD.fullmatch(word):
        message = "a fixed word is lower-case letters, digits and _"
        raise ValueError(message)
    return literal_column(f"'{word}'", Text())


def in_words(column: Any, *words: str) -> ColumnElement[bool]:  # noqa: ANN401
    """Whether a column is one of some words that stand in the statement's text."""
    return col(column).in_([fixed(word) for word in words])


class _Named(dict[str, str]):
    """Values that say which columns they are of."""

    def __missing__(self, name: str) -> str:
        return name.removesuffix("_")


@dataclass(frozen=True, slots=True)
class _Text:
    """A statement as one driver takes it."""

    text: str
    given: Callable[[Parameters], Sequence[Any]]


def locks_rows(statement: Executable) -> bool:
    """Whether a query locks what it finds (``with_for_update``)."""
    return getattr(statement, "_for_update_arg", None) is not None


class DriverStatement:
    """A construct whose text is made once, for statements that the driver gets bare.

    Only for the paths that decision 0011 names. Values go to the driver as they are
    given (lists are the exception), and rows come back as the driver's tuples.

    Parameters
    ----------
    construct : Executable
        With a ``bindparam`` for each value that changes.

    Attributes
    ----------
    locks : bool
        Whether it locks the rows that it finds.

    Examples
    --------
    >>> from sqlalchemy import bindparam
    >>> from sqlmodel import select
    >>> from dispatcher.model import Entry
    >>> RECORD = DriverStatement(
    ...     select(Entry.record_id).where(Entry.id == bindparam("entry_id"))
    ... )
    >>> # tx.driver_value(RECORD, {"entry_id": 7})
    """

    __slots__ = ("_construct", "_packed", "_rows", "_texts", "locks")

    def __init__(self, construct: Executable) -> None:
        self._construct = construct
        self.locks = locks_rows(construct)
        self._texts: dict[str, _Text] = {}
        self._packed: DriverStatement | None = None
        self._rows: dict[
            tuple[str, tuple[str, ...]],
            tuple[str, Callable[[Sequence[Any]], Sequence[Any]] | None],
        ] = {}

    @property
    def is_query(self) -> bool:
        """Whether it only reads."""
        return bool(self._construct.is_select)

    def for_driver(
        self, dialect: Dialect, parameters: Parameters
    ) -> tuple[str, Sequence[Any]]:
        """Text and values as the driver of a database takes them."""
        found = self._texts.get(dialect.name)
        if found is None:
            found = self._texts[dialect.name] = _compiled(self._construct, dialect)
        return found.text, found.given(parameters)

    def for_rows(
        self, dialect: Dialect, columns: tuple[str, ...]
    ) -> tuple[str, Callable[[Sequence[Any]], Sequence[Any]] | None]:
        """Text for many rows, and what puts a row of such columns into its order.

        The parameters are named as the columns, with an ``_`` at the end; None where
        rows are in order already.
        """
        found = self._rows.get((dialect.name, columns))
        if found is None:
            text, names = self.for_driver(dialect, _Named())
            order = [columns.index(name) for name in names]
            is_sorted = order == list(range(len(columns)))
            getter = operator.itemgetter(*order) if len(order) > 1 else None
            found = text, None if is_sorted else getter
            self._rows[dialect.name, columns] = found
        return found

    def packed(self) -> DriverStatement:
        """Return the query of PostgreSQL that puts all rows into one string of bytes.

        Its columns are integers, none of them NULL.
        """
        if self._packed is None:
            assert isinstance(self._construct, Select)
            plain = self._construct.subquery()
            sent = [func.int8send(cast(column, BigInteger)) for column in plain.c]
            row: ColumnElement[Any] = sent[0]
            for cell in sent[1:]:
                row = row.op("||")(cell)
            self._packed = DriverStatement(
                select(func.string_agg(row, literal_column("''::bytea")))
            )
        return self._packed


def _compiled(construct: Executable, dialect: Dialect) -> _Text:
    compiled = construct.compile(dialect=dialect)  # type: ignore[attr-defined]
    assert not compiled.post_compile_params, "a list goes by in_list()"
    assert not compiled.literal_execute_params, "a word goes by fixed()"
    names = list(compiled.positiontup or ())
    binds = [compiled.binds[name] for name in names]
    lists = dialect.name == "sqlite" and any(isinstance(b.type, _List) for b in binds)
    if lists or not all(bind.required for bind in binds):
        return _Text(compiled.string, _mixed(names, binds, lists=lists))
    return _Text(compiled.string, lambda given: [given[name] for name in names])


def _mixed(
    names: list[str], binds: list[BindParameter[Any]], *, lists: bool
) -> Callable[[Parameters], Sequence[Any]]:
    """Values of parameters of which some are the statement's own, or lists."""
    own = {
        name: bind.value
        for name, bind in zip(names, binds, strict=True)
        if not bind.required
    }
    listed = {
        name
        for name, bind in zip(names, binds, strict=True)
        if lists and isinstance(bind.type, _List)
    }

    def given(parameters: Parameters) -> list[Any]:
        values: Parameters = {**own, **parameters} if parameters else own
        return [
            json.dumps(list(values[name])) if name in listed else values[name]
            for name in names
        ]

    return given


__all__ = [
    "Columns",
    "DriverStatement",
    "Parameters",
    "fixed",
    "in_list",
    "in_words",
    "insert",
    "not_in_list",
    "select_columns",
]
