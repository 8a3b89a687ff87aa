"""Trying a connector's walls as another worker: ``connectors test NAME --as OTHER``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatcher.core.errors import Conflict, DispatcherError, NoStore, Usage
from dispatcher.surfaces.cli.context import CliContext, wall_clock

if TYPE_CHECKING:
    from connectors.base import Feed, Market, Stranger, Tried
    from dispatcher.store import Store

MICRO = 1_000_000
WALLS = ("identity", "binding", "preview", "content")


def try_walls(
    context: CliContext, name: str, other: str, worker: str | None, secret: Path | None
) -> list[Tried]:
    """Try all walls of a market, and keep what was found in the store.

    Parameters
    ----------
    context : CliContext
    name : str
        The connector.
    other : str
        The worker that synthetic work is not meant for.
    worker : str or None
        Whom it is meant for; None: the first of the connector's workers.
    secret : Path or None
        File with the other worker's password at the market.
    """
    from connectors.base import ConnectorError, Market, Stranger

    given = "" if secret is None else _password(secret)
    with context.open_store() as store:
        opened = context.open_connectors(store, [name])[name]
        if not isinstance(opened, Market):
            raise Usage(
                f"connector {name!r} is a feed",
                why="nobody arrives at a feed: whoever reads there has seen all",
                fix="test it without --as",
            )
        account = worker or _first_worker(store, name, other)
        try:
            tried = list(_tried(context, opened, account, Stranger(other, given)))
        except ConnectorError as error:
            raise Conflict(
                f"connector {name!r} can not be tried: {error.what}",
                why=error.why,
                fix=error.fix,
            ) from error
        except DispatcherError:
            raise
        except (Exception, SystemExit) as error:  # a plugin's fault is told by its type
            raise Conflict(
                f"connector {name!r} failed while it was tried",
                why=type(error).__name__,
                fix="tell its author: connectors.testing.suite would have found it",
            ) from error
        finally:
            _close(opened)
        _keep(store, name, other, tried)
    return tried


def _password(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise Usage(
            "the other worker's password can not be read",
            why=type(error).__name__,
            fix="name a text file that holds it, and nothing else",
        ) from error


def _first_worker(store: Store, name: str, other: str) -> str:
    from dispatcher.store import accounts

    with store.read() as tx:
        found = [
            account.name
            for account in accounts.all_accounts(tx)
            if account.connector == name and account.name != other
            if account.state == "active"  # nobody who was stopped or has left
        ]
    if not found:
        raise Usage(
            f"connector {name!r} has no active worker to offer synthetic work to",
            why="it is offered to one worker, and another one tries to open it",
            fix="name one: --worker ACCOUNT",
        )
    return found[0]


def _tried(
    context: CliContext, opened: Market, account: str, other: Stranger
) -> Iterator[Tried]:
    from connectors import isolation
    from connectors.base import Content, Inviting, Probing

    now = datetime.fromtimestamp(wall_clock() / MICRO, UTC)
    link = context.config.surfaces.task_page
    yield from isolation.try_claims(opened.arrive, other.account, now)
    if isinstance(opened, Inviting):
        yield from isolation.try_links(
            opened.arrive, opened.invite, account, other.account, now
        )
    if opened.manifest.content is Content.OURS:
        yield from isolation.try_content(opened.publish, opened.withdraw, account, link)
    if isinstance(opened, Probing):
        yield from opened.probe(account, other, link)


def _close(opened: Market | Feed) -> None:
    close = getattr(opened, "close", None)
    if close is not None:
        close()


def _keep(store: Store, name: str, other: str, tried: Sequence[Tried]) -> None:
    from dispatcher.store import probed

    walls = {
        wall: all(one.held for one in tried if one.wall == wall)
        for wall in {one.wall.value for one in tried}
    }
    told = {"at": wall_clock(), "as": other, "walls": walls}
    with store.write() as tx:
        probed.note(tx, name, told)


def as_told(last: dict[str, Any] | None, wall: str) -> str:
    """What the last try of a wall came to, in words; empty where it is none."""
    if wall not in WALLS:
        return ""
    if last is None or wall not in last["walls"]:
        return "not tried"
    state = "holds" if last["walls"][wall] else "FAILS"
    at = datetime.fromtimestamp(last["at"] / MICRO, UTC).isoformat(timespec="seconds")
    return f"{state} ({at}, as {last['as']})"


def last_tried(context: CliContext, name: str) -> dict[str, Any] | None:
    """What the walls were found to be when they were tried last; None if never."""
    from dispatcher.store import probed

    try:
        with context.open_store() as store, store.read() as tx:
            return probed.last(tx, name)
    except NoStore:
        return None
