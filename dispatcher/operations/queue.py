"""The queue: waiting and dead messages, and pauses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dispatcher.core.errors import NotFound, Usage
from dispatcher.ledger import recall
from dispatcher.ledger.active_policy import current_policy
from dispatcher.operations.dry_run import withdrawing
from dispatcher.operations.workspace import Workspace
from dispatcher.store import Store, Tx, statistics
from dispatcher.store import outbox as rows
from dispatcher.store import pause as pauses


@dataclass(frozen=True)
class Resumed:
    """The resumed scope, whether it was paused, and the remaining pauses."""

    scope: str
    was_paused: bool
    still_paused: tuple[str, ...]


@dataclass(frozen=True)
class Retried:
    """Requeued messages, and their fields that are past a limit by now."""

    messages: int
    kept_back: int


@dataclass(frozen=True)
class WithdrawnMessages:
    """Messages taken back, their tasks that ended, and messages that go on."""

    messages: int
    tasks: int
    left: Sequence[int]


def pause(
    workspace: Workspace,
    store: Store,
    reason: str,
    *,
    connector: str | None = None,
    run: str | None = None,
) -> str:
    """Stop new showings at once, of everything, one connector or one run.

    Returns
    -------
    str
        The scope: ``all``, ``connector:NAME`` or ``run:NAME``.

    Raises
    ------
    Usage
        The reason is empty, or not one line.
    NotFound
        There is no such connector or run.
    """
    if not reason.strip() or not reason.isprintable():
        raise Usage(
            "the reason of a pause is one line of text",
            why="it is shown to whoever asks why nothing moves",
            fix='--reason "market token expired"',
        )
    with store.write() as tx:
        scope = _scope(workspace, tx, connector, run)
        pauses.pause(tx, scope, reason, workspace.clock())
    return scope


def resume(
    workspace: Workspace,
    store: Store,
    *,
    connector: str | None = None,
    run: str | None = None,
) -> Resumed:
    """End a pause; other pauses stay.

    Raises
    ------
    NotFound
        There is no such connector or run.
    """
    with store.write() as tx:
        scope = _scope(workspace, tx, connector, run)
        was_paused = pauses.resume(tx, scope)
        return Resumed(scope, was_paused, tuple(pauses.paused(tx)))


def list_messages(
    store: Store, state: str | None = None, limit: int = 100, after: int = 0
) -> list[tuple[object, ...]]:
    """Messages above an id: id, connector, account, kind, state, tries, error."""
    with store.read() as tx:
        return rows.messages(tx, state, limit, after)


def find_dead(
    store: Store, ids: Sequence[int] = (), connector: str | None = None
) -> list[int]:
    """Find dead messages: the named ones, or all.

    Raises
    ------
    NotFound
        A named message is not dead.
    """
    with store.read() as tx:
        found = rows.dead(tx, ids, connector)
    missing = sorted(set(ids) - set(found))
    if missing:
        raise NotFound(
            f"no dead message {', '.join(map(str, missing[:10]))}",
            why="only messages that were given up can be sent once more"
            + (f"; of connector {connector}" if connector else ""),
            fix="dispatcher queue list --state dead",
        )
    return found


def retry(workspace: Workspace, store: Store, ids: Sequence[int]) -> Retried:
    """Requeue dead messages.

    What they show was booked when they were written and counts as seen. A field that a
    merge or a new version has made unsafe since is nevertheless not sent.
    """
    with store.write() as tx:
        return Retried(*recall.revive(tx, current_policy(tx), ids, workspace.clock()))


def withdraw(
    workspace: Workspace, store: Store, ids: Sequence[int]
) -> WithdrawnMessages:
    """Take messages back, with their tasks: they are planned anew.

    What they show was booked when they were written and counts as seen.
    """
    with store.write() as tx:
        found = recall.withdraw(tx, ids, withdrawing(workspace), at=workspace.clock())
    return WithdrawnMessages(*found)


def _scope(workspace: Workspace, tx: Tx, connector: str | None, run: str | None) -> str:
    """Return the scope of a pause, and check that it exists."""
    if connector is not None:
        known: Sequence[str] = sorted(workspace.config.connectors)
        what, name = "connector", connector
    elif run is not None:
        known, what, name = statistics.runs(tx), "run", run
    else:
        return pauses.ALL
    if name not in known:
        raise NotFound(
            f"there is no {what} {name!r}",
            why=f"there are: {', '.join(known) or 'none'}",
            fix="check its name",
            name=name,
            known=known,
        )
    return f"{what}:{name}"
