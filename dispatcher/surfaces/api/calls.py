"""One call of an operation: who calls, on which store, and which part of a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import rmtree
from typing import Annotated, Any, Final, TypeVar

from fastapi import Depends, Query
from fastapi import Path as PathParameter
from itsdangerous import BadData, URLSafeSerializer
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse

from dispatcher.access import Act, Principal
from dispatcher.core import keys
from dispatcher.core.private_files import ScratchFolder
from dispatcher.ledger.limit_usage import LimitUsages
from dispatcher.operations.dry_run import LimitFinding
from dispatcher.operations.workspace import Workspace
from dispatcher.store import Store
from dispatcher.surfaces.api.documents import Page
from dispatcher.surfaces.api.events import Stream
from dispatcher.surfaces.api.problems import ProblemError, UntriableError
from dispatcher.surfaces.api.requests import Requests
from dispatcher.surfaces.filters import LONGEST, Filter

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
MOST: Final = 500
"""Most items of one part of a list."""
LONGEST_CURSOR: Final = 1000


@dataclass
class ServedWorkspace(Workspace):
    """The workspace of a daemon that serves: operations use the store that is open."""

    served: Store | None = field(default=None, kw_only=True)

    def open_store(self, *, older: bool = False) -> Store:
        """Return the open store; to close it ends idle connections only."""
        del older
        assert self.served is not None
        return self.served


@dataclass(frozen=True)
class Upload:
    """A file of records or questions that was sent, alone in a private directory.

    Attributes
    ----------
    path : Path
    digest : str
        SHA-256 of its bytes.
    """

    path: Path
    digest: str

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete it."""
        rmtree(self.path.parent, ignore_errors=True)


@dataclass(frozen=True)
class Shared:
    """What all calls share.

    Attributes
    ----------
    requests : Requests
    stream : Stream
    status : Callable[[], Any]
        Reads the numbers of the work.
    scratch : ScratchFolder
        Where uploads and unfinished reports lie.
    usages : LimitUsages
        How near everybody was to the limits when somebody looked last.
    reload : Callable[[], None]
        Has the process read its settings again, a moment later.
    """

    requests: Requests
    stream: Stream
    status: Callable[[], Any]
    scratch: ScratchFolder
    usages: LimitUsages = field(default_factory=LimitUsages)
    reload: Callable[[], None] = lambda: None

    @contextmanager
    def workplace(self) -> Iterator[Path]:
        """Make a private folder that ends with the block."""
        place = self.scratch.make("work-")
        assert place is not None  # no limit was given
        try:
            yield place
        finally:
            rmtree(place, ignore_errors=True)


@dataclass(frozen=True)
class Call:
    """One call.

    Attributes
    ----------
    workspace : Workspace
        Acts in the name of the principal.
    store : Store
        Undoes all that is written if this is a dry run.
    principal : Principal
    dry_run : bool
    operation : str
        Name of the address.
    act : Act
        For the audit log; with the reason, where one is given.
    shared : Shared
    upload : Upload or None
        The file that was sent, where one is taken.
    read : Any
        What ``If-Match`` named, for the operation to compare under its own lock; None
        where there was nothing yet.
    columns : sequence of str
        Members of what is returned, or of its items.
    """

    workspace: Workspace
    store: Store
    principal: Principal
    dry_run: bool
    operation: str
    act: Act
    shared: Shared
    upload: Upload | None = None
    read: Any = None
    columns: Sequence[str] = ()

    def refuse_trial(self, what: str) -> None:
        """Refuse a dry run of what leaves something outside of the store, or shows it.

        Raises
        ------
        UntriableError
        """
        if self.dry_run:
            raise UntriableError(
                422, f"this cannot be tried: {what}", "leave dry_run out, or do not ask"
            )

    def file(self) -> Upload:
        """Return the file that was sent, to an address that takes one."""
        assert self.upload is not None
        return self.upload

    def masked(self, findings: Sequence[LimitFinding]) -> list[LimitFinding]:
        """Return findings with records by their pseudonyms instead of their keys."""
        secret = self.store.key("pseudonym-key")
        return [
            replace(one, record=keys.pseudonym(secret, "r", one.record))
            if one.record is not None
            else one
            for one in findings
        ]

    def later(
        self, returns: type[BaseModel], work: Callable[[str], object]
    ) -> JSONResponse:
        """Answer 202 and work on it then; see :meth:`Requests.later`."""
        return self.shared.requests.later(
            self.principal.name, self.operation, returns, work, self.ended
        )

    def ended(self, outcome: str) -> None:
        """Leave a line in the audit log, where something was to be done."""
        if not self.dry_run:
            self.act.end(self.store, outcome)


def begin_call(
    workspace: Workspace,
    store: Store,
    principal: Principal,
    act: Act,
    shared: Shared,
    *,
    name: str,
    dry_run: bool,
    upload: Upload | None = None,
) -> Call:
    """Begin a call of an operation, by the API or the console.

    Parameters
    ----------
    workspace : Workspace
        Its settings are used as they are in force.
    store : Store
    principal : Principal
    act : Act
        Its line is written with what the call changes.
    shared : Shared
    name : str
        Of the address.
    dry_run : bool
        Whether all that is written is undone.
    upload : Upload, optional
    """
    used = (store.trial() if dry_run else store).acting(act)
    served = ServedWorkspace(
        workspace.directory,
        workspace.store,
        workspace.config_file,
        clock=workspace.clock,
        actor=principal.name,
        served=used,
    )
    served.__dict__["config"] = workspace.config
    return Call(served, used, principal, dry_run, name, act, shared, upload)


async def _call(request: Request) -> Call:
    found: Call = request.state.call
    return found


Called = Annotated[Call, Depends(_call)]


@dataclass(frozen=True)
class Part:
    """The asked part of a list, behind the item that the cursor names.

    Attributes
    ----------
    limit : int
        How many items are to be read, but for one that says that there are more.
    after : Any
        Where the part before ended, or None.
    sign : Callable
        Makes a cursor of a place.
    shown : int
        How many items are shown at most: fewer where a filter leaves others out.
    filter : Filter or None
    """

    limit: int
    after: Any
    sign: Callable[[Any], str]
    shown: int
    filter: Filter | None = None

    def page(
        self, items: Iterable[T], place: Callable[[T], Any], shown: Callable[[T], Any]
    ) -> Page[Any]:
        """Return the first items, and a cursor if there may be more.

        A filter looks at as many items as are read: a part may have none that matches,
        and the next one some.

        Parameters
        ----------
        items : iterable
            One more than the limit, if there are so many.
        place : callable
            What the next part begins behind, of an item.
        shown : callable
            The document of an item.
        """
        found: Sequence[T] = list(items)
        kept: list[BaseModel] = []
        looked = 0
        for one in found[: self.limit]:
            document = shown(one)
            looked += 1
            if self.filter is None or self.filter.matches(
                document.model_dump(mode="json")
            ):
                kept.append(document)
                if len(kept) == self.shown:
                    break
        more = self.sign(place(found[looked - 1])) if len(found) > looked else None
        return Page(items=kept, next_cursor=more)

    def slice(self, items: Sequence[T], shown: Callable[[T], Any]) -> Page[Any]:
        """Return the part of a list that is read whole; its cursor is a position."""
        start = self.after or 0
        numbered = list(enumerate(items[start : start + self.limit + 1], start + 1))
        return self.page(numbered, lambda one: one[0], lambda one: shown(one[1]))


def _part(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=MOST, description="At most so many.")] = 100,
    cursor: Annotated[
        str | None,
        Query(
            max_length=LONGEST_CURSOR, description="`next_cursor` of the part before."
        ),
    ] = None,
    filter: Annotated[
        str | None,
        Query(
            max_length=LONGEST,
            description="Such as `connector:mturk state:dead tries>3 -kind:push`; a part "
            "may then have fewer items than asked for, while `next_cursor` goes on.",
        ),
    ] = None,
) -> Part:
    """Read a cursor; one that is not ours, or of another list, is refused."""
    call: Call = request.state.call
    filters = sorted(
        pair for pair in request.query_params.multi_items() if pair[0] not in _OWN
    )
    key = call.store.key("token-key")
    signer = URLSafeSerializer(
        key, salt=repr(("api-cursor", request.url.path, filters, call.principal.name))
    )
    after = None
    if cursor is not None:
        try:
            after = signer.loads(cursor)
        except BadData:
            raise ProblemError(
                400,
                "the cursor is not one of this list",
                "begin without a cursor, and leave the filters as they are",
            ) from None

    def sign(place: Any) -> str:  # noqa: ANN401 - what a list goes on behind
        return str(signer.dumps(place))

    if filter is None:
        return Part(limit, after, sign, limit)
    asked = Filter.read(filter, call.columns)
    if asked.unknown:
        raise ProblemError(
            422,
            "the filter names what these items do not have",
            f"they have {', '.join(call.columns)}",
        )
    return Part(MOST, after, sign, limit, asked)


_OWN: Final = ("limit", "cursor")
Parted = Annotated[Part, Depends(_part)]

Number = Annotated[int, PathParameter(ge=1, le=2**62)]
Named = Annotated[str, PathParameter(min_length=1, max_length=200)]
Worked = Annotated[str, PathParameter(min_length=1, max_length=400)]
Only = Annotated[str | None, Query(min_length=1, max_length=200)]


def take(document: type[M], found: object) -> M:
    """Take the members of a document from what an operation returned."""
    return document.model_validate(found, from_attributes=True)
