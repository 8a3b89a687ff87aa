"""What a screen is given: who looks, what may be read, and how an answer is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from dispatcher.access import Operator
from dispatcher.operations.workspace import Workspace
from dispatcher.store import Clock, Store
from dispatcher.surfaces.api.calls import Shared
from dispatcher.surfaces.console.pages import Pages
from dispatcher.surfaces.console.read_cache import ReadCache
from dispatcher.surfaces.console.tables import Rows

if TYPE_CHECKING:
    from dispatcher.surfaces.console.actions import Action


@dataclass(frozen=True)
class Screen:
    """One page of the console.

    Attributes
    ----------
    path : str
    name : str
        Of its template, and of the part of the navigation that it belongs to.
    title : str
    operation : str
        A line of :data:`dispatcher.access.OPERATIONS`: whoever may do it sees the page.
    show : callable
    key : str
        Pressed after ``g`` it leads there.
    listed : bool
        Whether the navigation has it; else another page links to it.
    part_of : str
        Name of the page that is marked in the navigation; empty: itself.
    posts : bool
        Whether it also takes a form that changes nothing: what it asks is too long for
        an address, or is not fit for one.
    acts : bool
        Whether it takes a form that acts, by a handler of its own.
    """

    path: str
    name: str
    title: str
    operation: str
    show: Callable[[View], Response]
    key: str = ""
    listed: bool = True
    part_of: str = ""
    posts: bool = False
    acts: bool = False


@dataclass(frozen=True)
class Site:
    """What all screens share."""

    workspace: Workspace
    store: Store
    cache: ReadCache
    pages: Pages
    shared: Shared
    screens: Sequence[Screen]
    actions: Sequence[Action]

    @property
    def clock(self) -> Clock:
        """The clock of the workspace."""
        return self.workspace.clock


@dataclass(frozen=True)
class View:
    """One look at one screen.

    Attributes
    ----------
    site : Site
    screen : Screen
    request : Request
    operator : Operator
    form : Mapping of str to str
        What was sent with it.
    """

    site: Site
    screen: Screen
    request: Request
    operator: Operator
    form: Mapping[str, str] = field(default_factory=dict)

    @property
    def store(self) -> Store:
        """The store."""
        return self.site.store

    @property
    def workspace(self) -> Workspace:
        """The workspace."""
        return self.site.workspace

    @property
    def cache(self) -> ReadCache:
        """What was read a moment ago."""
        return self.site.cache

    def may(self, operation: str) -> bool:
        """Whether who looks may do an operation."""
        return self.operator.principal.may(operation)

    def chosen(self, name: str, among: Sequence[str], default: str) -> str:
        """Return a word of the address.

        Raises
        ------
        HTTPException
            400: it is none of those.
        """
        text = self.request.query_params.get(name) or default
        if text not in among:
            raise HTTPException(400)
        return text

    def show(
        self,
        *tables: Rows,
        template: str = "",
        title: str = "",
        status: int = 200,
        **context: object,
    ) -> Response:
        """Show the screen, or one of its tables as the file that the address asks for.

        Parameters
        ----------
        *tables : Rows
            In the template by the names of their tables, with ``_`` for ``-``.
        template : str
            The screen's own where none is named.
        title : str
            The screen's own where none is given.
        status : int
        **context : object
            What else the template has.
        """
        for rows in tables:
            if (file := rows.file()) is not None:
                return file
        if "format" in self.request.query_params:
            raise HTTPException(404)
        named = {rows.table.name.replace("-", "_"): rows for rows in tables}
        name = template or self.screen.name
        return self.site.pages.page(
            self.request,
            f"{name}.html",
            status,
            name=self.screen.name,
            title=title or self.screen.title,
            current=self.screen.part_of or self.screen.name,
            screens=[one for one in self.site.screens if self.may(one.operation)],
            actions={
                one.name: one for one in self.site.actions if self.may(one.operation)
            },
            operator=self.operator,
            may=self.may,
            stays=self.screen.posts or self.screen.acts,
            chart=self.cache.chart,
            now=self.site.clock(),
            **named,
            **context,
        )
