"""Tasks: one showing of one entry to one account, from the booking to its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import sqlalchemy
from sqlalchemy import BigInteger, bindparam, exists, func, update
from sqlalchemy.orm import aliased
from sqlmodel import col, select

from dispatcher.model import (
    LIVE_TASK_STATES,
    Account,
    Entry,
    Outbox,
    Record,
    Recusal,
    Task,
    TaskAnswer,
)
from dispatcher.store.column_blocks import Block
from dispatcher.store.statements import (
    DriverStatement,
    fixed,
    in_list,
    in_words,
    not_in_list,
    select_columns,
)
from dispatcher.store.transaction import Row, Tx


class TaskRow(NamedTuple):
    """One task; moments are microseconds, ``draft`` is what was typed so far."""

    id: int
    entry_id: int
    account_id: int
    adversary_id: int
    connector: str
    state: str
    created_at: int
    leased_until: int | None
    draft: bytes | None


class CargoRow(NamedTuple):
    """One task that leaves, with the form of its entry that may be shown."""

    task_id: int
    field_id: int
    run_id: int
    shown: bytes
    media: str
    recused: bool = False  # the worker asked for nothing of this person or record


OpenTask: TypeAlias = "sqlalchemy.Row[*tuple[Any, ...]]"
"""A task that may still bring an answer, and where it is.

The columns of :data:`_OPEN`: ``record_id``, ``subject_id`` and ``field_id`` of its entry,
``message_state`` and ``attempts`` of its message.
"""


# -- new ones ---------------------------------------------------------------------------

TASK = (
    "id",
    "entry_id",
    "account_id",
    "adversary_id",
    "connector",
    "state",
    "created_at",
)
"""Columns that every new task has, in the order of the blocks given here."""


def add_pushed(tx: Tx, tasks: Iterable[Block]) -> None:
    """Write tasks that leave in messages: :data:`TASK`, then the message's id."""
    tx.insert_blocks("task", (*TASK, "outbox_id"), tasks)


def add_pulled(tx: Tx, tasks: Iterable[Block]) -> None:
    """Write tasks that are shown by us: :data:`TASK`, then the end of the lease."""
    tx.insert_blocks("task", (*TASK, "leased_until"), tasks)


# -- of one account ---------------------------------------------------------------------

_TASK: Final = select_columns(
    Task.id,
    Task.entry_id,
    Task.account_id,
    Task.adversary_id,
    Task.connector,
    Task.state,
    Task.created_at,
    Task.leased_until,
    Task.draft,
    Task.key_id,
)
_task_of = _TASK.where(Task.id == bindparam("task"))
_TASK_OF: Final = DriverStatement(_task_of)
_LOCK_TASK: Final = DriverStatement(_task_of.with_for_update())
_LAST_TASK: Final = DriverStatement(
    _TASK.where(Task.account_id == bindparam("account"))
    .order_by(col(Task.created_at).desc(), col(Task.id).desc())
    .limit(1)
)
_in_hand = (
    Task.account_id == bindparam("account"),
    col(Task.state) == fixed("shown"),  # in the text, for the partial index
    Task.leased_until > bindparam("now"),
)
_IN_HAND: Final = DriverStatement(
    _TASK.where(*_in_hand)
    .order_by(col(Task.leased_until).desc(), col(Task.id).desc())
    .limit(1)
)
_OTHER_IN_HAND: Final = DriverStatement(
    select(Task.id).where(*_in_hand, Task.id != bindparam("task")).limit(1)
)
_COUNT_SINCE: Final = DriverStatement(
    select(func.count())
    .select_from(Task)
    .where(
        Task.account_id == bindparam("account"), Task.created_at > bindparam("since")
    )
)
_GIVEN: Final = DriverStatement(
    select(Task.entry_id).where(Task.account_id == bindparam("account"))
)
_latest = aliased(Task)
_LAST_ID: Final = select(func.coalesce(func.max(_latest.id), 0)).scalar_subquery()
_LATELY: Final = (
    select(Task.entry_id)
    .distinct()
    .where(Task.id > _LAST_ID - bindparam("tasks", type_=BigInteger()))
    .order_by(col(Task.entry_id))
)


def task_of(tx: Tx, task_id: int) -> TaskRow | None:
    """Task by id."""
    return _task(tx, tx.driver_one(_TASK_OF, {"task": task_id}))


def lock_task(tx: Tx, task_id: int) -> TaskRow | None:
    """Task by id, locked until the end of the transaction."""
    return _task(tx, tx.driver_one(_LOCK_TASK, {"task": task_id}))


def leased_task(tx: Tx, account_id: int, now: int) -> TaskRow | None:
    """Return the task that an account has in its hands, or None."""
    return _task(tx, tx.driver_one(_IN_HAND, {"account": account_id, "now": now}))


def has_other_task(tx: Tx, task: TaskRow, now: int) -> bool:
    """Whether the account of a task has another one in its hands."""
    asked = {"account": task.account_id, "now": now, "task": task.id}
    return tx.driver_one(_OTHER_IN_HAND, asked) is not None


def last_task(tx: Tx, account_id: int) -> TaskRow | None:
    """Return the task that an account was given last."""
    return _task(tx, tx.driver_one(_LAST_TASK, {"account": account_id}))


def _task(tx: Tx, row: Row | None) -> TaskRow | None:
    if row is None:
        return None
    *rest, draft, key_id = row
    if draft is not None:
        draft = tx.vault.open(tx, "task.draft", row[0], key_id, draft)
    return TaskRow._make((*rest, draft))


def tasks_since(tx: Tx, account_id: int, since: int) -> int:
    """How many tasks an account was given after a moment."""
    asked = {"account": account_id, "since": since}
    return int(tx.driver_value(_COUNT_SINCE, asked))


def entries_given(tx: Tx, account_id: int) -> list[int]:
    """Entries that an account was ever given a task on."""
    return [row[0] for row in tx.driver_rows(_GIVEN, {"account": account_id})]


def entries_touched_lately(tx: Tx, tasks: int) -> list[int]:
    """Entries of the last so many tasks of the store, returned ones among them."""
    return tx.scalars(_LATELY, {"tasks": tasks})


# -- in a worker's hands ----------------------------------------------------------------

_OF: Final = col(Task.id) == bindparam("task")
_LEASE: Final = (
    update(Task).where(_OF).values(state="shown", leased_until=bindparam("until"))
)
_KEY_OF: Final = (
    select_columns(Entry.key_id)
    .join(Task, col(Task.entry_id) == Entry.id)
    .where(Task.id == bindparam("task"))
)
_SAVE_DRAFT: Final = (
    update(Task).where(_OF).values(draft=bindparam("sealed"), key_id=bindparam("key"))
)
_EXPIRE: Final = (
    update(Task)
    .where(
        col(Task.state) == fixed("shown"), col(Task.leased_until) <= bindparam("now")
    )
    .values(state="expired", draft=None)
    .returning(col(Task.connector))
)


def lease(tx: Tx, task_id: int, until: int) -> None:
    """Put a task into its worker's hands until a moment."""
    tx.execute(_LEASE, {"task": task_id, "until": until})


def save_draft(tx: Tx, task_id: int, draft: bytes) -> None:
    """Keep what was typed so far, sealed as its entry is."""
    key_id = tx.scalar(_KEY_OF, {"task": task_id})
    sealed = tx.vault.seal(tx, "task.draft", task_id, key_id, draft)
    tx.execute(_SAVE_DRAFT, {"task": task_id, "sealed": sealed, "key": key_id})


def expire_tasks(tx: Tx, now: int) -> list[str]:
    """End the leases that are over; the drafts go. Returns each one's connector."""
    return tx.scalars(_EXPIRE, {"now": now})


# -- with what goes out and comes back ---------------------------------------------------

_IS_RECUSED: Final = (
    exists()
    .where(
        col(Recusal.adversary_id) == Account.adversary_id,
        col(Recusal.unit_id).in_(
            [2 * col(Entry.record_id), 2 * col(Entry.subject_id) + 1]
        ),
    )
    .correlate(Account, Entry)
)
_FORM: Final[tuple[Any, ...]] = (
    Entry.id,
    col(Task.id).label("task_id"),
    Entry.field_id,
    Record.run_id,
    Entry.shown,
    Entry.media,
    Entry.key_id,
)
"""A task's entry, and the form of it that may be shown."""
_CARGO: Final = (
    select_columns(*_FORM, _IS_RECUSED.label("recused"))
    .select_from(Task)
    .join(Entry, col(Entry.id) == Task.entry_id)
    .join(Record, col(Record.id) == Entry.record_id)
    .join(Account, col(Account.id) == Task.account_id)
    .where(
        Task.outbox_id == bindparam("message"),
        in_words(Task.state, "booked", "sent", "dead"),
        col(Record.erased_at).is_(None),
    )
    .order_by(col(Task.id))
)
_PUBLISHED: Final = (
    select_columns(*_FORM)
    .select_from(Task)
    .join(Entry, col(Entry.id) == Task.entry_id)
    .join(Record, col(Record.id) == Entry.record_id)
    .join(Account, col(Account.id) == Task.account_id)
    .where(
        in_list(Task.id, "tasks"),
        Task.connector == bindparam("connector"),
        in_words(Task.state, "booked", "published"),
        col(Record.erased_at).is_(None),
        Account.state == "active",
    )
    .order_by(col(Task.id))
)
AnswerableRow: TypeAlias = "sqlalchemy.Row[*tuple[Any, ...]]"
"""A task with what an answer to it must fit.

Besides its own columns ``account``: the account's name at its connector; ``field_id``;
``valid``: of the answer it has, if any; ``erased``: the values of its record are gone.
"""
_ANSWERABLE: Final = (
    select_columns(
        Task.id,
        Task.entry_id,
        Task.account_id,
        Task.connector,
        Task.state,
        Task.created_at,
        col(Account.name).label("account"),
        Entry.field_id,
        TaskAnswer.valid,
        col(Record.erased_at).is_not(None).label("erased"),
    )
    .select_from(Task)
    .join(Account, col(Account.id) == Task.account_id)
    .join(Entry, col(Entry.id) == Task.entry_id)
    .join(Record, col(Record.id) == Entry.record_id)
    .outerjoin(TaskAnswer, col(TaskAnswer.task_id) == Task.id)
    .where(in_list(Task.id, "tasks"))
    .order_by(col(Task.id))
    .with_for_update(of=Task)
)
_MARK: Final = (
    update(Task)
    .where(
        in_list(Task.outbox_id, "messages"),
        col(Task.state) == bindparam("before"),
        not_in_list(Task.id, "kept_back"),
    )
    .values(state=bindparam("after"))
)


def cargo(tx: Tx, outbox_id: int) -> Iterator[CargoRow]:
    """Tasks of a message that are not answered or ended yet, in order of id."""
    found = tx.execute(_CARGO, {"message": outbox_id}).all()
    for row in tx.vault.opened(tx, found, "entry.shown"):
        yield _cargo_row(row)._replace(recused=bool(row.recused))


def published(tx: Tx, connector: str, ids: Sequence[int]) -> Iterator[CargoRow]:
    """Tasks of a connector that were booked and not ended, in order of id, one a time.

    ``booked``: its message is on its way, and has arrived before that was written down.
    """
    asked = {"tasks": list(ids), "connector": connector}
    found = tx.execute(_PUBLISHED, asked).all()
    for row in tx.vault.opened(tx, found, "entry.shown"):
        yield _cargo_row(row)


def _cargo_row(row: Any) -> CargoRow:  # noqa: ANN401 - an opened row of _FORM
    return CargoRow(row.task_id, row.field_id, row.run_id, row.shown, row.media)


def lock_tasks(tx: Tx, ids: Sequence[int]) -> dict[int, AnswerableRow]:
    """Tasks by id, locked in order of id."""
    found = tx.execute(_ANSWERABLE, {"tasks": sorted(set(ids))})
    return {row.id: row for row in found}


def mark_tasks(
    tx: Tx, outbox_ids: Sequence[int], state: str, kept_back: Sequence[int]
) -> dict[str, int]:
    """Let the tasks of messages follow them: sent, published, or dead: nothing went.

    ``kept_back`` are tasks that were not part of what was sent. Returns how many
    followed, by their state before.
    """
    if not outbox_ids:
        return {}
    before = ("booked", "sent") if state == "dead" else ("booked", "dead")
    given = {"messages": outbox_ids, "kept_back": kept_back, "after": state}
    return {old: tx.execute(_MARK, {**given, "before": old}).rowcount for old in before}


# -- their end ---------------------------------------------------------------------------

_CHOSEN: Final = in_list(Task.id, "tasks")
_is_live = in_words(Task.state, *LIVE_TASK_STATES)
_END: Final = (
    update(Task)
    .where(_CHOSEN)
    .values(state=bindparam("after"), leased_until=None, draft=None)
)
_END_LIVE: Final = _END.where(_is_live)
_LEAVE: Final = (
    update(Task)
    .where(
        col(Task.account_id) == bindparam("account"),
        in_words(Task.state, "shown", "expired"),
    )
    .values(state="returned", leased_until=None, draft=None)
)
_GIVE_UP: Final = (
    update(Task)
    .where(_CHOSEN, col(Task.state) == bindparam("before"))
    .values(state="dead")
)
_REVIVE: Final = (
    update(Task)
    .where(
        col(Task.state) == "dead",
        col(Task.outbox_id).in_(
            select(Outbox.id).where(Outbox.state == "dead", in_list(Outbox.id, "ids"))
        ),
    )
    .values(state="booked")
)
_JOIN: Final = (
    update(Task)
    .where(
        col(Task.account_id).in_(
            select(Account.id).where(Account.adversary_id == bindparam("ended"))
        )
    )
    .values(adversary_id=bindparam("survivor"))
)
_FORGET: Final = (
    update(Task)
    .where(in_list(Task.entry_id, "entries"))
    .values(draft=None, key_id=None)
)
_OPEN: Final = (
    select_columns(
        Task.id,
        Task.entry_id,
        Entry.record_id,
        Entry.subject_id,
        Entry.field_id,
        Task.account_id,
        Account.adversary_id,
        Task.connector,
        Task.state,
        Task.outbox_id,
        col(Outbox.state).label("message_state"),
        Outbox.attempts,
    )
    .select_from(Task)
    .join(Entry, col(Entry.id) == Task.entry_id)
    .join(Account, col(Account.id) == Task.account_id)
    .outerjoin(Outbox, col(Outbox.id) == Task.outbox_id)
    .where(_is_live)
    .order_by(col(Task.id))
)
_OPEN_OF: Final = _OPEN.where(in_list(Account.adversary_id, "adversaries"))
_OPEN_OF_ACCOUNTS: Final = _OPEN.where(in_list(Account.id, "accounts"))
_OPEN_OF_ENTRY: Final = _OPEN.where(Task.entry_id == bindparam("entry"))
_OF_MESSAGES: Final = select(Task.id).where(
    in_list(Task.outbox_id, "messages"), _is_live
)


def open_tasks(
    tx: Tx, adversary_ids: Sequence[int] | None = None
) -> Sequence[OpenTask]:
    """Tasks under way, by id: of some adversaries, or (None) of all."""
    if adversary_ids is None:
        return tx.execute(_OPEN).all()
    return tx.execute(_OPEN_OF, {"adversaries": list(adversary_ids)}).all()


def open_tasks_of(tx: Tx, account_ids: Sequence[int]) -> Sequence[OpenTask]:
    """Tasks under way of some accounts, by id."""
    return tx.execute(_OPEN_OF_ACCOUNTS, {"accounts": list(account_ids)}).all()


def open_tasks_on(tx: Tx, entry_id: int) -> Sequence[OpenTask]:
    """Tasks under way on one entry, by id."""
    return tx.execute(_OPEN_OF_ENTRY, {"entry": entry_id}).all()


def tasks_of_messages(tx: Tx, outbox_ids: Sequence[int]) -> list[int]:
    """Tasks under way that left with some messages."""
    return tx.scalars(_OF_MESSAGES, {"messages": outbox_ids})


def end(tx: Tx, task_ids: Sequence[int], state: str) -> None:
    """Take tasks out of their workers' hands, whatever they are; the drafts go."""
    tx.execute(_END, {"tasks": task_ids, "after": state})


def end_live(tx: Tx, task_ids: Sequence[int], state: str = "returned") -> int:
    """End those that are under way; a late answer still counts. Returns how many."""
    return tx.execute(_END_LIVE, {"tasks": task_ids, "after": state}).rowcount


def end_in_hand(tx: Tx, account_id: int) -> None:
    """Take all that an account has, or had, in its hands back; the drafts go."""
    tx.execute(_LEAVE, {"account": account_id})


def give_up(tx: Tx, task_ids: Sequence[int]) -> dict[str, int]:
    """Give up tasks that must not be sent any more; how many, by state before."""
    if not task_ids:
        return {}
    return {
        old: tx.execute(_GIVE_UP, {"tasks": task_ids, "before": old}).rowcount
        for old in ("booked", "sent")
    }


def revive(tx: Tx, outbox_ids: Sequence[int]) -> None:
    """Let tasks of dead messages be under way again."""
    tx.execute(_REVIVE, {"ids": outbox_ids})


def join(tx: Tx, ended: int, survivor: int) -> None:
    """Let the tasks of an adversary's accounts be those of the one that goes on."""
    tx.execute(_JOIN, {"ended": ended, "survivor": survivor})


def forget_drafts(tx: Tx, entry_ids: Sequence[int]) -> None:
    """Delete what was typed on entries, and the keys that sealed it."""
    tx.execute(_FORGET, {"entries": entry_ids})
