"""What the collecting stage reads and writes: cursors, tasks by id, answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from dispatcher.store import values
from dispatcher.store.transaction import Tx
from tests.integration.old_work.serving import AnswerRow

__all__ = [
    "AnswerRow",
    "TaskRow",
    "cursor",
    "end_tasks",
    "lock_tasks",
    "put_answers",
    "save_cursor",
]

_ANSWER: Final = AnswerRow._fields


class TaskRow(NamedTuple):
    """A task with what an answer to it must fit."""

    id: int
    entry_id: int
    account_id: int
    connector: str
    state: str
    created_at: int
    account: str  # the account's name at its connector
    field_id: int
    valid: int | None  # of the answer it has, if any
    erased: bool  # the values of its record are gone


def cursor(tx: Tx, connector: str) -> str:
    """Where collecting stands with a connector; empty at the beginning."""
    found = tx.value("SELECT value FROM cursor WHERE connector = ?", [connector])
    return str(found or "")


def save_cursor(tx: Tx, connector: str, value: str) -> None:
    """Remember where collecting stands, in the transaction of what was collected."""
    tx.upsert_many(
        "cursor", ["connector"], ["connector", "value"], [(connector, value)]
    )


def lock_tasks(tx: Tx, ids: Sequence[int]) -> dict[int, TaskRow]:
    """Tasks by id, locked in order of id."""
    rows = tx.rows(
        "SELECT t.id, t.entry_id, t.account_id, t.connector, t.state,"
        " t.created_at, a.name, e.field_id, x.valid, r.erased_at FROM task t"
        " JOIN account a ON a.id = t.account_id JOIN entry e ON e.id = t.entry_id"
        " JOIN record r ON r.id = e.record_id"
        " LEFT JOIN answer x ON x.task_id = t.id"
        " WHERE t.id = ANY(?) ORDER BY t.id FOR UPDATE OF t",
        [sorted(set(ids))],
    )
    return {row[0]: TaskRow._make((*row[:-1], row[-1] is not None)) for row in rows}


def put_answers(tx: Tx, answers: Sequence[AnswerRow]) -> None:
    """Keep answers; one that corrects an invalid one takes its place."""
    values.put_answers(tx, _ANSWER, answers, correct=True)


def end_tasks(tx: Tx, task_ids: Sequence[int], state: str) -> None:
    """Take tasks out of their workers' hands."""
    tx.execute(
        "UPDATE task SET state = ?, leased_until = NULL, draft = NULL"
        " WHERE id = ANY(?)",
        [state, task_ids],
    )
