"""What the sending stage reads and writes: outbox messages and what they carry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

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


def release_left(tx: Tx, connector: str, epoch: int, now: int) -> int:
    """Put back what an earlier turn of a connector leased and did not settle.

    Its daemon is gone, or could not write down what became of it: the outcome is
    unknown. A daemon takes one turn of a connector after another, so that at the
    beginning of one nothing that goes there is under way. A lease that is over binds
    nobody, whatever it was for: the connector may be gone from the settings.
    """
    return tx.execute(
        "UPDATE outbox SET state = 'ready', leased_until = NULL"
        " WHERE state = 'leased' AND (leased_until <= ?"
        " OR (connector = ? AND epoch <= ?))",
        [now, connector, epoch],
    )


def claim(
    tx: Tx, connector: str, epoch: int, now: int, until: int, limit: int
) -> list[MessageRow]:
    """Lease due messages of a connector, oldest first; each counts as an attempt.

    One that was written in the future is due: the clock was set back since.
    """
    rows = tx.rows(
        "UPDATE outbox SET state = 'leased', epoch = ?, leased_until = ?,"
        " attempts = attempts + 1 WHERE id IN (SELECT id FROM outbox"
        " WHERE state = 'ready' AND (due <= ? OR created_at > ?) AND connector = ?"
        " ORDER BY due, id LIMIT ? FOR UPDATE SKIP LOCKED)"
        " RETURNING id, account_id, kind, attempts, handle, error",
        [epoch, until, now, now, connector, limit],
    )
    names = tx.rows(
        "SELECT id, name FROM account WHERE id = ANY(?)",
        [sorted({row[1] for row in rows})],
    )
    accounts = dict[int, str](names)
    found = [MessageRow._make((*row, accounts[row[1]])) for row in rows]
    return sorted(found, key=lambda message: message.id)


def is_blocked(tx: Tx, account_id: int) -> bool:
    """Whether nothing goes to an account any more."""
    state = tx.value("SELECT state FROM account WHERE id = ?", [account_id])
    return bool(state != "active")


def cargo(tx: Tx, outbox_id: int) -> Iterator[CargoRow]:
    """Tasks of a message that are not answered or ended yet, in order of id."""
    found = tx.rows(
        "SELECT e.id, t.id, e.field_id, r.run_id, e.shown, e.media, e.key_id,"
        " EXISTS (SELECT 1 FROM recusal q JOIN account a"
        " ON a.adversary_id = q.adversary_id WHERE a.id = t.account_id"
        " AND q.unit_id IN (2 * e.record_id, 2 * e.subject_id + 1))"
        " FROM task t JOIN entry e ON e.id = t.entry_id"
        " JOIN record r ON r.id = e.record_id"
        " WHERE t.outbox_id = ? AND t.state IN ('booked', 'sent', 'dead')"
        " AND r.erased_at IS NULL ORDER BY t.id",
        [outbox_id],
    )
    for row in tx.vault.opened(tx, found, [(4, "entry.shown")], 6):
        yield CargoRow._make((*row[1:6], bool(row[7])))


def adversaries_at(tx: Tx, connector: str) -> int:
    """How many adversaries the accounts of a connector are."""
    return int(
        tx.value(
            "SELECT COUNT(DISTINCT adversary_id) FROM account WHERE connector = ?",
            [connector],
        )
    )


def handle_of(tx: Tx, outbox_id: int) -> str | None:
    """Return the outside's reference of a sent message."""
    row = tx.one("SELECT handle FROM outbox WHERE id = ?", [outbox_id])
    return row[0] if row else None


def may_leave(tx: Tx, outbox_id: int) -> bool:
    """Whether a message waits to be sent, or is being sent."""
    row = tx.one(
        "SELECT 1 FROM outbox WHERE id = ? AND state IN ('ready', 'leased')",
        [outbox_id],
    )
    return row is not None


class Outcome(NamedTuple):
    """What became of a message: the new state and what goes with it."""

    id: int
    state: str  # sent, ready, dead
    due: int
    back: int  # 1: it was never tried, so the attempt does not count
    handle: str | None
    error: str | None


def settle(tx: Tx, epoch: int, outcomes: Sequence[Outcome]) -> int:
    """Write outcomes of messages that this daemon still holds.

    Returns
    -------
    int
        How many it still held.
    """
    settled = 0
    for one in outcomes:
        settled += tx.execute(
            "UPDATE outbox SET state = ?, due = ?, attempts = attempts - ?,"
            " handle = coalesce(?, handle), error = ?, leased_until = NULL"
            " WHERE id = ? AND state = 'leased' AND epoch = ?",
            [one.state, one.due, one.back, one.handle, one.error, one.id, epoch],
        )
    return settled


def cancel(tx: Tx, outbox_ids: Sequence[int]) -> None:
    """Drop messages that wait: what they tell of is no more."""
    tx.execute(
        "UPDATE outbox SET state = 'cancelled' WHERE id = ANY(?) AND state = 'ready'",
        [outbox_ids],
    )


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
    return {
        old: tx.execute(
            "UPDATE task SET state = ? WHERE outbox_id = ANY(?)"
            " AND state = ? AND id <> ALL(?)",
            [state, outbox_ids, old, kept_back],
        )
        for old in before
    }


def end_tasks(tx: Tx, task_ids: Sequence[int]) -> dict[str, int]:
    """Give up tasks that must not be sent any more; how many, by state before."""
    if not task_ids:
        return {}
    return {
        old: tx.execute(
            "UPDATE task SET state = 'dead' WHERE id = ANY(?) AND state = ?",
            [task_ids, old],
        )
        for old in ("booked", "sent")
    }
