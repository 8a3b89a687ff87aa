"""What the collecting stage reads and writes: cursors, tasks by id, answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import sqlalchemy
from sqlalchemy import bindparam, update
from sqlmodel import col, select

from dispatcher.model import Account, Answer, Cursor, Entry, Record, Task
from dispatcher.store import values
from dispatcher.store.serving import AnswerRow
from dispatcher.store.statements import in_list, select_columns
from dispatcher.store.transaction import Tx

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

TaskRow: TypeAlias = "sqlalchemy.Row[*tuple[Any, ...]]"
"""A task with what an answer to it must fit.

Besides its own columns ``account``: the account's name at its connector; ``field_id``;
``valid``: of the answer it has, if any; ``erased``: the values of its record are gone.
"""

_CURSOR: Final = select(Cursor.value).where(Cursor.connector == bindparam("connector"))
_TASKS: Final = (
    select_columns(
        Task.id,
        Task.entry_id,
        Task.account_id,
        Task.connector,
        Task.state,
        Task.created_at,
        col(Account.name).label("account"),
        Entry.field_id,
        Answer.valid,
        col(Record.erased_at).is_not(None).label("erased"),
    )
    .select_from(Task)
    .join(Account, col(Account.id) == Task.account_id)
    .join(Entry, col(Entry.id) == Task.entry_id)
    .join(Record, col(Record.id) == Entry.record_id)
    .outerjoin(Answer, col(Answer.task_id) == Task.id)
    .where(in_list(Task.id, "tasks"))
    .order_by(col(Task.id))
    .with_for_update(of=Task)
)
_END_ALL: Final = (
    update(Task)
    .where(in_list(Task.id, "tasks"))
    .values(state=bindparam("after"), leased_until=None, draft=None)
)


def cursor(tx: Tx, connector: str) -> str:
    """Where collecting stands with a connector; empty at the beginning."""
    return tx.scalar(_CURSOR, {"connector": connector}) or ""


def save_cursor(tx: Tx, connector: str, value: str) -> None:
    """Remember where collecting stands, in the transaction of what was collected."""
    tx.upsert_many(
        "cursor", ["connector"], ["connector", "value"], [(connector, value)]
    )


def lock_tasks(tx: Tx, ids: Sequence[int]) -> dict[int, TaskRow]:
    """Tasks by id, locked in order of id."""
    found = tx.execute(_TASKS, {"tasks": sorted(set(ids))})
    return {row.id: row for row in found}


def put_answers(tx: Tx, answers: Sequence[AnswerRow]) -> None:
    """Keep answers; one that corrects an invalid one takes its place."""
    values.put_answers(tx, _ANSWER, answers, correct=True)


def end_tasks(tx: Tx, task_ids: Sequence[int], state: str) -> None:
    """Take tasks out of their workers' hands."""
    tx.execute(_END_ALL, {"tasks": task_ids, "after": state})
