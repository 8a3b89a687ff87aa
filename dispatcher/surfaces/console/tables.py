"""Tables: columns, what an address asks of them, and the same rows as CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from connectors.formats.formula_guard import guard
from dispatcher.surfaces.filters import LONGEST, Filter

Kind = Literal[
    "text", "number", "time", "state", "code", "hash", "share", "percent", "figure"
]
Row = Mapping[str, Any]
"""One row: a value of each column, by its key."""

SIZE: Final = 50
"""Rows on a page."""
MOST: Final = 10_000
"""Rows that a file has at most."""
_LARGEST: Final = 2**62
_OWN: Final = ("sort", "q", "page", "after")


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes
    ----------
    key : str
        Of the value in a row, in a file and in a filter.
    title : str
    kind : Kind
        How a value is shown: ``time`` takes microseconds, ``share`` a share of a limit, ``percent`` a share of
        a whole, ``figure`` either that or a number.
    link : callable, optional
        Address that the value leads to, of a row; None: it leads nowhere.
    wide : bool
        Whether long text may take several lines.
    """

    key: str
    title: str
    kind: Kind = "text"
    link: Callable[[Row], str | None] | None = None
    wide: bool = False

    @property
    def is_number(self) -> bool:
        """Whether its values stand at the right, and the largest comes first."""
        return self.kind in ("number", "share", "percent", "figure")


@dataclass(frozen=True)
class Empty:
    """What stands where a table has no row.

    Attributes
    ----------
    what, why : str
        What will be here, and why nothing is yet.
    button, href : str
        The one thing to do, and where; empty: there is nothing to do.
    command : str
        The command that does it, where no page does.
    """

    what: str
    why: str
    button: str = ""
    href: str = ""
    command: str = ""


@dataclass(frozen=True)
class Table:
    """What a table is, before its rows.

    Attributes
    ----------
    name : str
        Of its file, and of its part of the page.
    caption : str
        What it lists; screen readers say it.
    columns : tuple of Column
        The first names the row and stays in view.
    empty : Empty
    prefix : str
        Before its parameters in the address, where a page has several tables.
    choose : tuple of str
        Key of the rows' ids, name of the action's field, and the actions that take
        several rows at once.
    acts : tuple of (str, callable)
        Actions on one row: the name, and what fills in the form, of a row; None: this
        row has no such action.
    """

    name: str
    caption: str
    columns: tuple[Column, ...]
    empty: Empty
    prefix: str = ""
    choose: tuple[str, str, tuple[str, ...]] | None = None
    acts: tuple[tuple[str, Callable[[Row], Mapping[str, Any] | None]], ...] = ()

    def unlinked(self) -> Table:
        """Return it without links, for who may not look at what they lead to."""
        plain = tuple(replace(column, link=None) for column in self.columns)
        return replace(self, columns=plain)

    def rows(self, request: Request, found: Sequence[Row], *, sort: str = "") -> Rows:
        """Filter, sort and cut rows that are all at hand, as the address says.

        Parameters
        ----------
        request : Request
        found : sequence of Row
        sort : str
            Column, with ``-`` before it for the largest first; empty: as they come.
        """
        asked = _Asked.read(self, request)
        kept = [row for row in found if asked.matches(row)]
        by = asked.sort or sort
        if by:
            kept = _sorted(kept, by)
        pages = max(1, -(-len(kept) // SIZE))
        page = min(asked.page, pages)
        return Rows(
            self,
            request,
            kept[(page - 1) * SIZE : page * SIZE],
            whole=kept,
            filtered=len(kept) < len(found) or bool(asked.q),
            q=asked.q,
            sort=by,
            page=page,
            pages=pages,
            total=len(kept),
            filters=True,
            sorts=True,
        )

    def part(
        self,
        request: Request,
        read: Callable[[int, int], Sequence[Row]],
        *,
        place: str = "id",
        filtered: bool = False,
    ) -> Rows:
        """Read a part of a list that is too long to be read whole.

        Parameters
        ----------
        request : Request
        read : callable
            Takes what the part begins behind (0: the beginning) and how many rows.
        place : str
            Key of what the next part begins behind.
        filtered : bool
            Whether a filter of the page leaves rows out.
        """
        after = number(request.query_params, f"{self.prefix}after", 0)
        most = MOST if _wants(request, self) else SIZE
        found = list(read(after, most + 1))
        more = len(found) > most
        shown = found[:most]
        return Rows(
            self,
            request,
            shown[:SIZE],
            whole=shown,
            filtered=filtered,
            after=after,
            following=shown[-1][place] if more and shown else None,
        )


@dataclass(frozen=True)
class Rows:
    """Rows of a table, as one request asks for them."""

    table: Table
    request: Request
    shown: Sequence[Row]
    whole: Sequence[Row]
    filtered: bool = False
    q: str = ""
    sort: str = ""
    page: int = 1
    pages: int = 1
    total: int | None = None
    after: int = 0
    following: int | None = None
    filters: bool = False
    sorts: bool = False

    def href(self, **changed: object) -> str:
        """Address of the same page with other parameters of this table; None: without."""
        prefix = self.table.prefix
        own = {f"{prefix}{name}": value for name, value in changed.items()}
        kept = {
            name: text
            for name, text in self.request.query_params.items()
            if name not in own and name not in ("format", "table")
        }
        if "page" not in changed:
            kept.pop(f"{prefix}page", None)
        given = kept | {name: value for name, value in own.items() if value is not None}
        query = urlencode(given)
        return self.request.url.path + (f"?{query}" if query else "")

    def sort_href(self, column: Column) -> str:
        """Address that sorts by a column; by the one it is sorted by: the other way."""
        first = f"-{column.key}" if column.is_number else column.key
        other = column.key if column.is_number else f"-{column.key}"
        return self.href(sort=other if self.sort == first else first)

    def sorted_by(self, column: Column) -> str:
        """``ascending``, ``descending`` or nothing, for ``aria-sort``."""
        return {column.key: "ascending", f"-{column.key}": "descending"}.get(
            self.sort, ""
        )

    def file_href(self, form: str) -> str:
        """Address of these rows as a file."""
        separator = "&" if "?" in (href := self.href(page=None)) else "?"
        return (
            f"{href}{separator}{urlencode({'format': form, 'table': self.table.name})}"
        )

    @property
    def others(self) -> list[tuple[str, str]]:
        """Parameters that a filter form keeps."""
        own = {f"{self.table.prefix}{name}" for name in _OWN} - {
            f"{self.table.prefix}sort"
        }
        return [
            (name, text)
            for name, text in self.request.query_params.items()
            if name not in own and name not in ("format", "table")
        ]

    @property
    def completions(self) -> list[str]:
        """What the filter box offers: columns, and the words of those that have few."""
        found = []
        for column in self.table.columns:
            found.append(f"{column.key}{'>' if column.is_number else ':'}")
            if column.kind == "state":
                words = {
                    str(row[column.key]) for row in self.whole if row.get(column.key)
                }
                found += [f"{column.key}:{word}" for word in sorted(words)]
        return found

    @property
    def hint(self) -> str:
        """An example of what the filter box takes."""
        columns = self.table.columns
        states = [one.key for one in columns if one.kind == "state"]
        texts = [one.key for one in columns if one.kind in ("text", "code")]
        return f"{(states or texts or [columns[0].key])[0]}:…"

    def file(self) -> Response | None:
        """Return these rows as the file that the address asks for, if it asks for one."""
        form = _wants(self.request, self.table)
        if form is None:
            return None
        columns, name = self.table.columns, self.table.name
        values = [
            {column.key: _plain(column, row) for column in columns}
            for row in self.whole[:MOST]
        ]
        if form == "csv":
            text = io.StringIO()
            writer = csv.writer(text, lineterminator="\r\n")
            writer.writerow(guard(column.key) for column in columns)
            writer.writerows(
                [guard("" if cell is None else str(cell)) for cell in row.values()]
                for row in values
            )
            body, media = text.getvalue(), "text/csv; charset=utf-8"
        else:
            found = {"schema": f"dispatcher.console-{name}/1", "items": values}
            body, media = json.dumps(found, ensure_ascii=False), "application/json"
        attached = {"content-disposition": f'attachment; filename="{name}.{form}"'}
        return Response(body.encode(), media_type=media, headers=attached)


@dataclass(frozen=True)
class _Asked:
    """What an address asks of a table."""

    q: str
    sort: str
    page: int
    filter: Filter
    columns: tuple[Column, ...]

    @classmethod
    def read(cls, table: Table, request: Request) -> _Asked:
        """Read it.

        Raises
        ------
        HTTPException
            400: it asks for what the table does not have.
        """
        given = request.query_params
        q = given.get(f"{table.prefix}q", "").strip()
        sort = given.get(f"{table.prefix}sort", "")
        keys = {column.key for column in table.columns}
        page = number(request.query_params, f"{table.prefix}page", 1)
        if (sort and sort.removeprefix("-") not in keys) or page < 1:
            raise HTTPException(400)
        if len(q) > LONGEST:
            raise HTTPException(400)
        return cls(q, sort, page, Filter.read(q, keys), table.columns)

    def matches(self, row: Row) -> bool:
        """Whether a row has all that the filter says."""
        return self.filter.matches(
            {
                one.key: _plain(one, row) if one.kind == "time" else row.get(one.key)
                for one in self.columns
            }
        )


def _sorted(rows: Sequence[Row], by: str) -> list[Row]:
    """Sort by a column; rows without a value come last either way."""
    key = by.removeprefix("-")
    full = [row for row in rows if row.get(key) is not None]
    text = any(isinstance(row[key], str) for row in full)
    full.sort(
        key=lambda row: str(row[key]).casefold() if text else row[key],
        reverse=by.startswith("-"),
    )
    return full + [row for row in rows if row.get(key) is None]


def _plain(column: Column, row: Row) -> object:
    """Return a value as a file has it."""
    value = row.get(column.key)
    if column.kind == "time" and isinstance(value, int):
        return f"{datetime.fromtimestamp(value // 1_000_000, UTC):%Y-%m-%dT%H:%M:%SZ}"
    if column.kind in ("share", "percent") and value is not None:
        return round(float(value), 4)
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return value


def _wants(request: Request, table: Table) -> str | None:
    """Return the form of file that an address asks for, of this table."""
    form = request.query_params.get("format")
    if form is None:
        return None
    if form not in ("csv", "json"):
        raise HTTPException(400)
    named = request.query_params.get("table")
    return form if named in (None, table.name) else None


def number(given: Mapping[str, str], name: str, default: int) -> int:
    """Read a whole number of an address or a form.

    Raises
    ------
    HTTPException
        400: it is none.
    """
    text = given.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise HTTPException(400)
    return min(int(text), _LARGEST)
