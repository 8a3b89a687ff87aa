"""What the sending stage reads and writes: outbox messages and what they carry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from sqlalchemy import BigInteger, Text, and_, bindparam, exists, func, or_, update
from sqlmodel import col, select

from dispatcher.model import Account, Entry, Outbox, Record, Recusal, Task
from dispatcher.store.statements import (
    in_list,
    in_words,
    not_in_list,
    select_columns,
)
from dispatcher.store.transaction import Tx


class MessageRow(NamedTuple):
    """A message claimed by this daemon; ``attempts`` counts this one."""

    id: int
    account_id: int
    kind: str
    attempts: int
    handle: str | None
    error: str | None  # of the attempt before
    account: str  # its name at the connector


class CargoRow(NamedTuple):
    """One task of a message with the form of its entry that may be shown."""

    task_id: int
    field_id: int
    run_id: int
    shown: bytes
    media: str
    recused: bool  # the worker asked for nothing of this person or record


class Outcome(NamedTuple):
    """What became of a message: the new state and what goes with it."""

    id: int
    state: str  # sent, ready, dead
    due: int
    back: int  # 1: it was never tried, so the attempt does not count
    handle: str | None
    error: str | None


_CONNECTOR: Final = col(Outbox.connector) == bindparam("of_connector")
_RELEASE: Final = (
    update(Outbox)
    .where(
        col(Outbox.state) == "leased",
        or_(
            col(Outbox.leased_until) <= bindparam("now"),
            and_(_CONNECTOR, col(Outbox.epoch) <= bindparam("turn")),
        ),
    )
    .values(state="ready", leased_until=None)
)
_DUE: Final = (
    select(Outbox.id)
    .where(
        Outbox.state == "ready",
        or_(
            col(Outbox.due) <= bindparam("now"),
            col(Outbox.created_at) > bindparam("now"),
        ),
        _CONNECTOR,
    )
    .order_by(col(Outbox.due), col(Outbox.id))
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)
)
_CLAIM: Final = (
    update(Outbox)
    .where(col(Outbox.id).in_(_DUE))
    .values(
        state="leased",
        epoch=bindparam("turn"),
        leased_until=bindparam("until"),
        attempts=Outbox.attempts + 1,
    )
    .returning(
        col(Outbox.id),
        col(Outbox.account_id),
        col(Outbox.kind),
        col(Outbox.attempts),
        col(Outbox.handle),
        col(Outbox.error),
    )
)
_NAMES: Final = select(Account.id, Account.name).where(in_list(Account.id, "accounts"))
_STATE: Final = select(Account.state).where(Account.id == bindparam("account"))
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
_CARGO: Final = (
    select_columns(
        Entry.id,
        Task.id,
        Entry.field_id,
        Record.run_id,
        Entry.shown,
        Entry.media,
        Entry.key_id,
        _IS_RECUSED,
    )
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
_ADVERSARIES: Final = select(func.count(col(Account.adversary_id).distinct())).where(
    Account.connector == bindparam("connector")
)
_HANDLE: Final = select_columns(Outbox.handle).where(Outbox.id == bindparam("message"))
_MAY_LEAVE: Final = select(Outbox.id).where(
    Outbox.id == bindparam("message"), in_words(Outbox.state, "ready", "leased")
)
_SETTLE: Final = (
    update(Outbox)
    .where(
        col(Outbox.id) == bindparam("message"),
        col(Outbox.state) == "leased",
        col(Outbox.epoch) == bindparam("turn"),
    )
    .values(
        state=bindparam("after"),
        due=bindparam("then"),
        attempts=Outbox.attempts - bindparam("back", type_=BigInteger()),
        handle=func.coalesce(bindparam("reference", type_=Text()), Outbox.handle),
        error=bindparam("why"),
        leased_until=None,
    )
)
_CANCEL: Final = (
    update(Outbox)
    .where(in_list(Outbox.id, "messages"), col(Outbox.state) == "ready")
    .values(state="cancelled")
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
_END: Final = (
    update(Task)
    .where(in_list(Task.id, "tasks"), col(Task.state) == bindparam("before"))
    .values(state="dead")
)


def release_left(tx: Tx, connector: str, epoch: int, now: int) -> int:
    """Put back what an earlier turn of a connector leased and did not settle.

    Its daemon is gone, or could not write down what became of it: the outcome is
    unknown. A daemon takes one turn of a connector after another, so that at the
    beginning of one nothing that goes there is under way. A lease that is over binds
    nobody, whatever it was for: the connector may be gone from the settings.
    """
    given = {"of_connector": connector, "turn": epoch, "now": now}
    return tx.execute(_RELEASE, given).rowcount


def claim(
    tx: Tx, connector: str, epoch: int, now: int, until: int, limit: int
) -> list[MessageRow]:
    """Lease due messages of a connector, oldest first; each counts as an attempt.

    One that was written in the future is due: the clock was set back since.
    """
    given = {"of_connector": connector, "turn": epoch, "now": now}
    rows = tx.execute(_CLAIM, {**given, "until": until, "most": limit}).all()
    wanted = sorted({row.account_id for row in rows})
    accounts = dict(tx.execute(_NAMES, {"accounts": wanted}).all())
    found = [MessageRow(*row, accounts[row.account_id]) for row in rows]
    return sorted(found, key=lambda message: message.id)


def is_blocked(tx: Tx, account_id: int) -> bool:
    """Whether nothing goes to an account any more."""
    return tx.scalar(_STATE, {"account": account_id}) != "active"


def cargo(tx: Tx, outbox_id: int) -> Iterator[CargoRow]:
    """Tasks of a message that are not answered or ended yet, in order of id."""
    found = tx.execute(_CARGO, {"message": outbox_id}).all()
    for row in tx.vault.opened(tx, found, [(4, "entry.shown")], 6):
        yield CargoRow._make((*row[1:6], bool(row[7])))


def adversaries_at(tx: Tx, connector: str) -> int:
    """How many adversaries the accounts of a connector are."""
    return tx.scalar(_ADVERSARIES, {"connector": connector}) or 0


def handle_of(tx: Tx, outbox_id: int) -> str | None:
    """Return the outside's reference of a sent message."""
    return tx.scalar(_HANDLE, {"message": outbox_id})


def may_leave(tx: Tx, outbox_id: int) -> bool:
    """Whether a message waits to be sent, or is being sent."""
    return tx.scalar(_MAY_LEAVE, {"message": outbox_id}) is not None


def settle(tx: Tx, epoch: int, outcomes: Sequence[Outcome]) -> int:
    """Write outcomes of messages that this daemon still holds.

    Returns
    -------
    int
        How many it still held.
    """
    settled = 0
    for one in outcomes:
        given = {
            "message": one.id,
            "turn": epoch,
            "after": one.state,
            "then": one.due,
            "back": one.back,
            "reference": one.handle,
            "why": one.error,
        }
        settled += tx.execute(_SETTLE, given).rowcount
    return settled


def cancel(tx: Tx, outbox_ids: Sequence[int]) -> None:
    """Drop messages that wait: what they tell of is no more."""
    tx.execute(_CANCEL, {"messages": outbox_ids})


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


def end_tasks(tx: Tx, task_ids: Sequence[int]) -> dict[str, int]:
    """Give up tasks that must not be sent any more; how many, by state before."""
    if not task_ids:
        return {}
    return {
        old: tx.execute(_END, {"tasks": task_ids, "before": old}).rowcount
        for old in ("booked", "sent")
    }
