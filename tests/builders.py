"""Put a store into the state that a test begins with, by what the product itself calls.

Each function is a transaction of its own. A state that the product never writes (an
edited store, a fault) is made by ``tests/edits.py``.
"""

from __future__ import annotations

from base64 import b32encode
from collections.abc import Iterable, Sequence

import numpy as np
from pyotp import TOTP

from dispatcher import identity
from dispatcher.ledger.active_policy import current_policy
from dispatcher.model import Plan, Result, TaskAnswer
from dispatcher.store import (
    Store,
    Tx,
    accounts,
    answers,
    gold_questions,
    outbox,
    planning,
    records,
    tasks,
)
from dispatcher.store import pause as pauses
from dispatcher.store.outbox import MessageOutcome
from tests import sql

FORMS = """
version = 1
name = "forms"
[entity.form]
key = "id"
[entity.form.fields]
name = { ask = "transcribe", answers = 1 }
disease = { ask = "transcribe", answers = 1 }
[property.both]
of = ["name", "disease"]
"""
"""A policy by which nobody may see both fields of a form."""
FAR = 2**62
"""A moment after every other: whatever waits is due."""

# -- what stands against an account, a record or all work ---------------------------------


def pause(store: Store, scope: str = pauses.ALL) -> None:
    with store.write() as tx:
        pauses.pause(tx, scope, "x", 1)


def resume(store: Store) -> None:
    """End all pauses."""
    with store.write() as tx:
        pauses.lift_all(tx)


def block(store: Store, *names: str) -> None:
    """Block accounts, named ``CONNECTOR/NAME``."""
    with store.write() as tx:
        for name in names:
            identity.block(tx, name, 1, "operator")


def unblock(store: Store, name: str) -> None:
    with store.write() as tx:
        identity.unblock(tx, name, 1, "operator")


def move_account(store: Store, name: str, state: str) -> None:
    """Let an active account be stopped, or have left."""
    with store.write() as tx:
        assert accounts.set_state(tx, identity.find(tx, name).id, "active", state)


def revoke_invites(store: Store, name: str) -> int:
    """Let no earlier invite of an account count; return the number that does."""
    with store.write() as tx:
        return identity.revoke_invites(tx, name).invite


def recuse(store: Store, name: str, unit: int) -> None:
    """Show an account's adversary nothing of a unit any more."""
    with store.write() as tx:
        accounts.add_recusals(tx, [(identity.find(tx, name).adversary_id, unit)])


def rate(store: Store, name: str, quality: float) -> None:
    """Let an account be as good as that, as estimated from its answers."""
    with store.write() as tx:
        accounts.set_qualities(tx, [(identity.find(tx, name).id, quality)])


def hold_for_pilot(store: Store, *, only: int | None = None) -> None:
    """Let every record of run 1 wait for a pilot, or only one: the others are its own."""
    with store.write() as tx:
        records.begin_pilot(tx, 1, 0, 1)
        if only is not None:
            records.choose_records(tx, 1, 2**31 - 1)
            records.hold_records(tx, 1, only, 1, (), 1)


def end_pilot(store: Store) -> None:
    with store.write() as tx:
        records.accept_pilot(tx, 1)


# -- runs --------------------------------------------------------------------------------


def add_run(store: Store, name: str, state: str = "active") -> int:
    """Make a run without records; return its id."""
    with store.write() as tx:
        return records.run(tx, name, 1, state).id


def erase_records(store: Store, record_ids: Sequence[int]) -> None:
    """Delete the values of records, as an erasure does."""
    with store.write() as tx:
        entries = [
            row[0]
            for row in sql.rows(
                tx, "SELECT id FROM entry WHERE record_id = ANY(?)", [list(record_ids)]
            )
        ]
        records.erase_values(tx, record_ids, entries, 1)


# -- plans -------------------------------------------------------------------------------


def add_plan(
    store: Store,
    pairs: Iterable[tuple[int, Iterable[int]]],
    *,
    version: int | None = None,
    at: int = 0,
    state: str = "applied",
    summary: str = "{}",
) -> int:
    """Write a plan of (account id, entries), as planning would; return its id.

    Without a version it is for the policy in force.
    """
    with store.write() as tx:
        if version is None:
            force = current_policy(tx)
            assert force is not None
            version = force.version
        adversaries = {who.id: who.adversary_id for who in accounts.all_accounts(tx)}
        number = tx.reserve("plan")
        planning.add_plan(
            tx,
            Plan(
                id=number,
                policy_version=version,
                state=state,
                verdict="SOLVED",
                algorithm="auto",
                seed=0,
                summary=summary,
                created_at=at,
                applied_at=at,
            ),
            [
                (who, adversaries[who], np.array(sorted(entries), "<i8").tobytes())
                for who, entries in pairs
            ],
        )
    return number


def end_plans(store: Store) -> None:
    """Let nothing be planned any more."""
    with store.write() as tx:
        applied = planning.lock_applied(tx)
        planning.end_plans(tx, applied)
        planning.replace_assignments(tx, 0, applied, [])


# -- tasks and their messages --------------------------------------------------------------


def end_tasks(
    store: Store, state: str = "returned", ids: Sequence[int] | None = None
) -> None:
    """End tasks (None: all that are under way)."""
    with store.write() as tx:
        if ids is None:
            ids = [task.id for task in tasks.open_tasks(tx)]
        tasks.end(tx, ids, state)


def answer_tasks(
    store: Store,
    ids: Sequence[int] | None = None,
    text: str = "x",
    *,
    counted: bool = False,
    at: int = 1,
) -> None:
    """Let tasks under way (None: all of them) be answered, as collecting notes it."""
    raw = text.encode()
    with store.write() as tx:
        if ids is None:
            ids = [task.id for task in tasks.open_tasks(tx)]
        found = tasks.lock_tasks(tx, ids).values()
        answers.put_answers(
            tx,
            [
                TaskAnswer(
                    task_id=task.id,
                    entry_id=task.entry_id,
                    account_id=task.account_id,
                    raw=raw,
                    valid=1,
                    at=at,
                    counted=int(counted),
                )
                for task in found
            ],
        )
        tasks.end(tx, ids, "answered")


def dispute(store: Store, entry: int, *texts: str, at: int = 1) -> None:
    """Let each task of an entry be answered in another way, and nobody else be asked."""
    with store.write() as tx:
        found = tasks.lock_tasks(
            tx, [row.id for row in answers.tasks_of(tx, [entry])]
        ).values()
        given = [
            TaskAnswer(
                task_id=task.id,
                entry_id=entry,
                account_id=task.account_id,
                raw=text.encode(),
                valid=1,
                at=at,
                counted=1,
            )
            for task, text in zip(found, texts, strict=True)
        ]
        answers.put_answers(tx, given)
        tasks.end(tx, [task.id for task in found], "answered")
    save_results(store, [entry], "conflict", wanted=len(texts) + 1)


def settle_messages(
    store: Store,
    state: str,
    ids: Sequence[int] | None = None,
    *,
    connector: str | None = None,
    account: str | None = None,
    tries: int = 1,
    error: str | None = None,
    due: int = 0,
) -> list[int]:
    """Try messages that wait: some, those of a connector or account, or all.

    They become ``sent``, ``published`` (sent to a feed) or ``dead``, with their tasks, or
    ``ready`` again. A message is claimed and settled for each of its tries, as sending
    does it. Returns their ids.
    """
    with store.write() as tx:
        waiting = {
            int(row[0]): str(row[1])
            for row in outbox.messages(tx, "ready", 10**6)
            if connector in (None, row[1]) and account in (None, row[2])
        }
        chosen = sorted(waiting.keys() & set(waiting if ids is None else ids))
        for turn in range(1, tries + 1):
            _try(
                tx,
                {waiting[number] for number in chosen},
                chosen,
                state if turn == tries else "ready",
                due if turn == tries else 0,
                error,
            )
        if state != "ready":
            tasks.mark_tasks(tx, chosen, state, ())
    return chosen


def _try(
    tx: Tx,
    connectors: Iterable[str],
    chosen: Sequence[int],
    state: str,
    due: int,
    error: str | None,
) -> None:
    handle = "h" if state in ("sent", "published") else None
    state = "sent" if state == "published" else state
    for name in connectors:
        claimed = outbox.claim(tx, name, 1, FAR, FAR, 10**6)
        outcomes = [
            MessageOutcome(row.id, state, due, 0, handle, error)
            if row.id in chosen
            else MessageOutcome(row.id, "ready", 0, 1, None, row.error)
            for row in claimed
        ]
        assert outbox.settle(tx, 1, outcomes) == len(claimed)


# -- what came of entries ------------------------------------------------------------------


def save_results(
    store: Store,
    entries: Iterable[int],
    state: str = "answered",
    *,
    value: bytes | None = None,
    confidence: float = 1.0,
    wanted: int = 1,
    at: int = 1,
) -> None:
    """Write what assembly found of entries, each by one answer."""
    found = [
        Result(
            entry_id=entry,
            value=value,
            confidence=confidence,
            wanted=wanted,
            state=state,
            at=at,
        )
        for entry in entries
    ]
    with store.write() as tx:
        answers.save(tx, found, (), {})


def unsettled(store: Store) -> list[int]:
    """Entries without a result."""
    with store.read() as tx:
        return [
            row[0]
            for row in sql.rows(
                tx,
                "SELECT id FROM entry WHERE id NOT IN (SELECT entry_id FROM result)",
            )
        ]


# -- made-up questions -----------------------------------------------------------------------


def answer_gold(
    store: Store, question: int, account_id: int, correct: int, at: int = 1
) -> int:
    """Ask an account a made-up question, and mark its answer; return the showing."""
    with store.write() as tx:
        number = tx.reserve("task")
        asked = gold_questions.question(tx, question)
        assert asked is not None
        gold_questions.hand(
            tx,
            gold_questions.HandedRow(
                number, question, asked.field_id, account_id, asked.purpose, "shown",
                at, at, None, 0,
            ),
        )  # fmt: skip
        gold_questions.end(tx, number, "answered", correct, at)
    return number


def code_at(secret: bytes, now: int) -> str:
    """Return the code that an authenticator shows at a moment (microseconds)."""
    return TOTP(b32encode(secret).decode()).generate_otp(now // 30_000_000)
