"""Answers side by side, and refused ones: list, reveal and dismiss them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dispatcher.core.errors import NotFound, Usage
from dispatcher.ledger.lines import adversary_name
from dispatcher.operations.workspace import Workspace
from dispatcher.stages.assembly import alike
from dispatcher.store import Store, events
from dispatcher.store import answers as given
from dispatcher.store import collecting as rows
from dispatcher.store.collecting import RefusedRow


def list_refused(
    store: Store, *, dismissed: bool = False, limit: int = 100
) -> Sequence[RefusedRow]:
    """List answers that fit no task, newest first; values stay hidden."""
    with store.read() as tx:
        return rows.listed(tx, limit, dismissed=dismissed)


@dataclass(frozen=True)
class GivenAnswer:
    """A task of a field: whose it is, and which answers mean the same; no value.

    Attributes
    ----------
    entry_id, task : int
    worker : str
        Pseudonym of the adversary.
    connector, state : str
    shown_at : int
        When it was booked.
    answered_at : int or None
    alike : str
        ``A``, ``B``…: the same for answers to this field that mean the same; empty where
        there is none, or it is not valid.
    """

    entry_id: int
    task: int
    worker: str
    connector: str
    state: str
    shown_at: int
    answered_at: int | None
    alike: str


def side_by_side(store: Store, entry_ids: Sequence[int]) -> list[GivenAnswer]:
    """Return the tasks of entries with which of their answers agree; values stay hidden."""
    with store.read() as tx:
        names = alike(tx, entry_ids)
        return [
            GivenAnswer(
                entry_id=row.entry_id,
                task=row.id,
                worker=adversary_name(row.adversary_id),
                connector=row.connector,
                state=row.state,
                shown_at=row.created_at,
                answered_at=row.answered_at,
                alike=names.get(row.id, ""),
            )
            for row in given.tasks_of(tx, entry_ids)
        ]


def reveal(
    workspace: Workspace, store: Store, ids: Sequence[int], reason: str
) -> Mapping[int, bytes]:
    """Return the content of refused answers; the audit log records who looked, and why.

    Raises
    ------
    Usage
        The reason is empty, or not one line.
    """
    check_reason(reason, "values are shown")
    if not ids:
        return {}
    with store.write() as tx:
        contents = rows.payloads(tx, ids)
        detail: dict[str, object] = {"answers": len(contents), "reason": reason}
        events.add_event(
            tx, workspace.clock(), workspace.actor, "answer.revealed", detail
        )
    return contents


def dismiss(
    workspace: Workspace, store: Store, ids: Sequence[int] | None, reason: str
) -> int:
    """Mark refused answers as reviewed; all of them if none is named.

    Returns
    -------
    int
        How many.

    Raises
    ------
    Usage
        The reason is empty, or not one line.
    NotFound
        There is no such unreviewed answer.
    """
    check_reason(reason, "refused answers are dismissed")
    because = reason.strip()
    with store.write() as tx:
        now, waiting = workspace.clock(), rows.waiting(tx)
        missing = sorted(set(ids or ()) - set(waiting))
        if missing:
            raise NotFound(
                f"there is no refused answer {missing[0]} to dismiss",
                why="there is none of this number, or it was dismissed before",
                fix="dispatcher answers list",
            )
        done = rows.dismiss(tx, waiting if ids is None else ids, because, now)
        if done:
            detail: dict[str, object] = {"answers": done, "reason": because}
            events.add_event(tx, now, workspace.actor, "answer.dismissed", detail)
    return done


def check_reason(reason: str, what: str) -> None:
    """Refuse a reason that is empty, or not one line.

    Raises
    ------
    Usage
    """
    if not reason.strip() or not reason.isprintable():
        raise Usage(
            f"{what} only for a reason, one line of text",
            why="the audit log keeps who looked, and why",
            fix='--reason "spreadsheet of the agency was mixed up"',
        )
