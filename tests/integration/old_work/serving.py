"""What the serving stage reads and writes: accounts at the page, their tasks, answers.

Selection must stay cheap with millions of entries: every query here is bounded by one
account, one plan row, or a list of candidates that the caller keeps short.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from dispatcher.store.transaction import Row, Tx
from dispatcher.store.values import put_answers

_TASK: Final = (
    "SELECT id, entry_id, account_id, adversary_id, connector, state, created_at,"
    " leased_until, draft, key_id FROM task"
)
_ACCOUNT: Final = "SELECT id, adversary_id, connector, name, state, invite FROM account"
_PLANNED: Final = "SELECT entries FROM assignment WHERE plan_id = ? AND account_id = ?"


class AccountRow(NamedTuple):
    """One account; ``invite`` is the number of the invite that is valid now."""

    id: int
    adversary_id: int
    connector: str
    name: str
    state: str
    invite: int


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


class ShownRow(NamedTuple):
    """What may be shown of an entry, and where it belongs."""

    record_id: int
    subject_id: int | None
    field_id: int
    shown: bytes
    media: str


class EntryRow(NamedTuple):
    """Where a candidate belongs."""

    id: int
    record_id: int
    subject_id: int | None
    field_id: int
    run_id: int
    waiting: bool


class Standing(NamedTuple):
    """What became of one candidate so far.

    ``live`` counts tasks that may still bring an answer, ``valid`` the answers that
    count; ``accounts`` and ``adversaries`` are all that ever had a task on it;
    ``wanted`` is what consensus asks for by now (0: as the policy says); ``settled``
    when nothing more is wanted.
    """

    live: int
    valid: int
    wanted: int
    settled: bool
    accounts: frozenset[int]
    adversaries: frozenset[int]


NOTHING_YET: Final = Standing(0, 0, 0, False, frozenset(), frozenset())


class PlanRow(NamedTuple):
    """The plan in force."""

    id: int
    applied_at: int


def account_named(tx: Tx, connector: str, name: str) -> AccountRow | None:
    """Account of a connector by its name there."""
    row = tx.one(_ACCOUNT + " WHERE connector = ? AND name = ?", [connector, name])
    return None if row is None else AccountRow(*row)


def account(tx: Tx, account_id: int) -> AccountRow | None:
    """Account by id."""
    row = tx.one(_ACCOUNT + " WHERE id = ?", [account_id])
    return None if row is None else AccountRow(*row)


def task_of(tx: Tx, task_id: int) -> TaskRow | None:
    """Task by id."""
    return _task(tx, tx.one(_TASK + " WHERE id = ?", [task_id]))


def lock_task(tx: Tx, task_id: int) -> TaskRow | None:
    """Task by id, locked until the end of the transaction."""
    return _task(tx, tx.one(_TASK + " WHERE id = ? FOR UPDATE", [task_id]))


def leased_task(tx: Tx, account_id: int, now: int) -> TaskRow | None:
    """Return the task that an account has in its hands, or None."""
    return _task(
        tx,
        tx.one(
            _TASK + " WHERE account_id = ? AND state = 'shown' AND leased_until > ?"
            " ORDER BY leased_until DESC, id DESC LIMIT 1",
            [account_id, now],
        ),
    )


def has_other_task(tx: Tx, task: TaskRow, now: int) -> bool:
    """Whether the account of a task has another one in its hands."""
    found = tx.one(
        "SELECT 1 FROM task WHERE account_id = ? AND state = 'shown'"
        " AND leased_until > ? AND id <> ? LIMIT 1",
        [task.account_id, now, task.id],
    )
    return found is not None


def last_task(tx: Tx, account_id: int) -> TaskRow | None:
    """Return the task that an account was given last."""
    return _task(
        tx,
        tx.one(
            _TASK + " WHERE account_id = ? ORDER BY created_at DESC, id DESC LIMIT 1",
            [account_id],
        ),
    )


def _task(tx: Tx, row: Row | None) -> TaskRow | None:
    if row is None:
        return None
    *rest, draft, key_id = row
    if draft is not None:
        draft = tx.vault.open(tx, "task.draft", row[0], key_id, draft)
    return TaskRow._make((*rest, draft))


def tasks_since(tx: Tx, account_id: int, since: int) -> int:
    """How many tasks an account was given after a moment."""
    return int(
        tx.value(
            "SELECT count(*) FROM task WHERE account_id = ? AND created_at > ?",
            [account_id, since],
        )
    )


def entries_given(tx: Tx, account_id: int) -> list[int]:
    """Entries that an account was ever given a task on."""
    rows = tx.rows("SELECT entry_id FROM task WHERE account_id = ?", [account_id])
    return [row[0] for row in rows]


def shown_entry(tx: Tx, entry_id: int) -> ShownRow | None:
    """What may be shown of an entry; None where its values were erased."""
    row = tx.one(
        "SELECT e.record_id, e.subject_id, e.field_id, e.shown, e.media, e.key_id"
        " FROM entry e JOIN record r ON r.id = e.record_id"
        " WHERE e.id = ? AND r.erased_at IS NULL",
        [entry_id],
    )
    if row is None:
        return None
    shown = tx.vault.open(tx, "entry.shown", entry_id, row[5], row[3])
    return ShownRow(row[0], row[1], row[2], shown, row[4])


def paused(tx: Tx) -> frozenset[str]:
    """Scopes that are paused: ``all``, ``connector:NAME``, ``run:NAME``."""
    return frozenset(row[0] for row in tx.rows("SELECT scope FROM pause"))


def idle_runs(tx: Tx, scopes: frozenset[str]) -> frozenset[int]:
    """Runs from which nothing is shown now."""
    rows = tx.rows("SELECT id, name, state FROM run")
    return frozenset(
        run_id
        for run_id, name, state in rows
        if state != "active" or f"run:{name}" in scopes
    )


# -- the plan and other places to look for work ------------------------------------


def plan_in_force(tx: Tx, version: int) -> PlanRow | None:
    """Return the plan that is applied, if it was made for this version of the policy."""
    row = tx.one(
        "SELECT id, applied_at FROM plan WHERE state = 'applied'"
        " AND policy_version = ? ORDER BY id DESC LIMIT 1",
        [version],
    )
    return None if row is None else PlanRow(row[0], row[1] or 0)


def planned_rows(tx: Tx, plan_id: int) -> list[tuple[int, bytes]]:
    """All rows of a plan: account and its packed entries."""
    rows = tx.rows(
        "SELECT account_id, entries FROM assignment WHERE plan_id = ?", [plan_id]
    )
    return [(account_id, bytes(packed)) for account_id, packed in rows]


def planned_entries(tx: Tx, plan_id: int, account_id: int) -> bytes:
    """Packed entries that a plan still means for an account, as they are now."""
    found = tx.value(_PLANNED, [plan_id, account_id])
    return bytes(found or b"")


def entries_touched_lately(tx: Tx, tasks: int) -> list[int]:
    """Entries of the last so many tasks of the store, returned ones among them."""
    rows = tx.rows(
        "SELECT DISTINCT entry_id FROM task"
        " WHERE id > (SELECT coalesce(max(id), 0) FROM task) - ? ORDER BY entry_id",
        [tasks],
    )
    return [row[0] for row in rows]


def idle_accounts(tx: Tx) -> frozenset[int]:
    """Accounts that get nothing any more: what was planned for them is free."""
    rows = tx.rows("SELECT id FROM account WHERE state <> 'active'")
    return frozenset(row[0] for row in rows)


# -- what is known of a few candidates ---------------------------------------------


def entry_rows(tx: Tx, entry_ids: Sequence[int]) -> list[EntryRow]:
    """Where each of the entries belongs."""
    rows = tx.rows(
        "SELECT e.id, e.record_id, e.subject_id, e.field_id, r.run_id,"
        " r.waits_since IS NOT NULL FROM entry e"
        " JOIN record r ON r.id = e.record_id WHERE e.id = ANY(?)",
        [entry_ids],
    )
    return [EntryRow(*row) for row in rows]


def standings(
    tx: Tx, entry_ids: Sequence[int], live_states: Sequence[str]
) -> dict[int, Standing]:
    """What became so far of each of the entries."""
    live: dict[int, int] = {}
    accounts: dict[int, set[int]] = {}
    adversaries: dict[int, set[int]] = {}
    for entry_id, account_id, adversary_id, state in tx.rows(
        "SELECT entry_id, account_id, adversary_id, state FROM task"
        " WHERE entry_id = ANY(?)",
        [entry_ids],
    ):
        accounts.setdefault(entry_id, set()).add(account_id)
        adversaries.setdefault(entry_id, set()).add(adversary_id)
        if state in live_states:
            live[entry_id] = live.get(entry_id, 0) + 1
    valid: dict[int, int] = dict(
        tx.rows(
            "SELECT entry_id, count(*) FROM answer"
            " WHERE entry_id = ANY(?) AND valid = 1 GROUP BY entry_id",
            [entry_ids],
        )
    )
    results = {
        entry_id: (wanted, state != "open")
        for entry_id, wanted, state in tx.rows(
            "SELECT entry_id, wanted, state FROM result WHERE entry_id = ANY(?)",
            [entry_ids],
        )
    }
    return {
        entry_id: Standing(
            live.get(entry_id, 0),
            valid.get(entry_id, 0),
            *results.get(entry_id, (0, False)),
            frozenset(accounts.get(entry_id, ())),
            frozenset(adversaries.get(entry_id, ())),
        )
        for entry_id in {*accounts, *valid, *results}
    }


# -- writing -----------------------------------------------------------------------


def lease(tx: Tx, task_id: int, until: int) -> None:
    """Put a task into its worker's hands until a moment."""
    tx.execute(
        "UPDATE task SET state = 'shown', leased_until = ? WHERE id = ?",
        [until, task_id],
    )


def save_draft(tx: Tx, task_id: int, draft: bytes) -> None:
    """Keep what was typed so far, sealed as its entry is."""
    key_id = tx.value(
        "SELECT e.key_id FROM task t JOIN entry e ON e.id = t.entry_id WHERE t.id = ?",
        [task_id],
    )
    sealed = tx.vault.seal(tx, "task.draft", task_id, key_id, draft)
    tx.execute(
        "UPDATE task SET draft = ?, key_id = ? WHERE id = ?", [sealed, key_id, task_id]
    )


def end_task(tx: Tx, task_id: int, state: str) -> None:
    """Take a task out of its worker's hands; the draft goes."""
    tx.execute(
        "UPDATE task SET state = ?, leased_until = NULL, draft = NULL WHERE id = ?",
        [state, task_id],
    )


def expire_tasks(tx: Tx, now: int) -> list[str]:
    """End the leases that are over; the drafts go. Returns each one's connector."""
    rows = tx.rows(
        "UPDATE task SET state = 'expired', draft = NULL"
        " WHERE state = 'shown' AND leased_until <= ? RETURNING connector",
        [now],
    )
    return [row[0] for row in rows]


class AnswerRow(NamedTuple):
    """One answer; ``reason`` says why it does not count, without a value."""

    task_id: int
    entry_id: int
    account_id: int
    raw: bytes
    normal: bytes | None
    valid: int
    reason: str | None
    at: int
    counted: int = 0  # assembly has not looked at it


def add_answer(tx: Tx, row: AnswerRow) -> None:
    """Keep the answer of a task that has none yet."""
    put_answers(tx, AnswerRow._fields, [row], correct=False)
