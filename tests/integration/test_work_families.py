"""What tasks pass through in the store: each statement on one small world, both databases.

The world has a task, a message and a result in every state. A case is a call, what it
returns and which cells it changes.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import select

from dispatcher.model import (
    LIVE_TASK_STATES,
    Account,
    Cursor,
    Outbox,
    Result,
    Task,
    TaskAnswer,
)
from dispatcher.store import (
    Store,
    Tx,
    accounts,
    answers,
    collecting,
    erasure,
    exhausted_fields,
    outbox,
    serving,
    tasks,
)

LATE, SOON = 1000, 2000  # moments before and after 1500, which is now
NOW = 1500
TABLES = (Task, Outbox, TaskAnswer, Result, Cursor, Account)

ACCOUNTS = [
    # id, connector, name, adversary, state, invite
    (1, "inhouse", "ann", 1, "active", 1),
    (2, "inhouse", "bob", 2, "stopped", 3),
    (3, "folder", "cat", 2, "blocked", 1),
    (4, "folder", "dan", 3, "active", 1),
]
TASKS = [
    # id, entry, account, adversary, connector, message, state, created, leased, draft
    (1, 1, 1, 1, "inhouse", None, "shown", 10, SOON, b"half"),
    (2, 2, 1, 1, "inhouse", None, "shown", 11, LATE, b"gone"),
    (3, 3, 1, 1, "inhouse", None, "expired", 12, LATE, None),
    (4, 4, 2, 2, "inhouse", None, "answered", 13, None, None),
    (5, 5, 2, 2, "inhouse", None, "returned", 13, None, None),
    (6, 1, 4, 3, "folder", 1, "booked", 14, None, None),
    (7, 2, 4, 3, "folder", 2, "sent", 15, None, None),
    (8, 3, 4, 3, "folder", 3, "dead", 16, None, None),
    (9, 4, 4, 3, "folder", 2, "published", 17, None, None),
    (10, 5, 4, 3, "folder", 2, "answered", 18, None, None),
    (11, 6, 4, 3, "folder", 1, "booked", 19, None, None),
    (12, 3, 3, 2, "folder", 2, "booked", 19, None, None),
]
OUTBOX = [
    # id, connector, account, kind, state, due, attempts, epoch, leased, handle, error, at
    (1, "folder", 4, "publish", "ready", LATE, 0, 0, None, None, None, 1),
    (2, "folder", 4, "publish", "sent", LATE, 1, 1, None, "h-2", None, 1),
    (3, "folder", 4, "publish", "dead", LATE, 5, 1, None, None, "no", 1),
    (4, "folder", 3, "offer", "leased", LATE, 2, 7, SOON, "h-4", "slow", 1),
    (5, "turkle", 1, "offer", "leased", LATE, 2, 7, LATE, None, None, 1),
    (6, "folder", 3, "withdraw", "ready", SOON, 1, 0, None, "2", None, 1),
    (7, "folder", 4, "offer", "ready", SOON, 0, 0, None, None, None, SOON),
    (8, "folder", 4, "offer", "ready", 500, 0, 0, None, None, None, 1),
    (9, "folder", 4, "offer", "cancelled", 500, 0, 0, None, None, None, 1),
]
ANSWERS = [
    # task, entry, account, raw, valid, reason, at, counted
    (4, 4, 2, b"yes", 1, None, 50, 0),
    (5, 5, 2, b"?", 0, "unreadable", 51, 0),
    (10, 5, 4, b"no", 1, None, 52, 1),
]
RESULTS = [
    # entry, value, confidence, wanted, state, at
    (1, None, 0.0, 2, "open", 60),
    (2, b"v", 0.9, 1, "answered", 61),
    (4, b"w", 0.4, 3, "conflict", 62),
    (5, None, 0.0, 2, "open", 63),
    (6, None, 0.0, 0, "erased", 64),
]


def put(tx: Tx, name: str, columns: str, rows: list[tuple[Any, ...]]) -> None:
    tx.insert_many(name, columns.split(), rows)


@pytest.fixture
def world(store: Store) -> Store:
    with store.write() as tx:
        tx.reserve("outbox", len(OUTBOX))
        put(
            tx,
            "run",
            "id name state created_at",
            [
                (1, "one", "active", 1),
                (2, "two", "lost", 1),
                (3, "three", "active", 1),
            ],
        )
        put(
            tx,
            "load",
            "id run_id source columns records rejected state started_at",
            [
                (1, 1, "a", '["x"]', 0, 0, "done", 1),
                (2, 1, "b", '["y"]', 0, 0, "done", 1),
                (3, 2, "c", '["z"]', 0, 0, "done", 1),
            ],
        )
        put(
            tx,
            "record",
            "id run_id load_id pseudonym key columns subject_id erased_at waits_since",
            [
                (1, 1, 1, "r1", b"k", b'["1"]', 9, None, None),
                (2, 1, 2, "r2", b"k", b'["2"]', None, None, 5),
                (3, 1, 1, "r3", b"", b"[]", None, 7, None),
                (4, 2, 3, "r4", b"k", b'["4"]', None, None, None),
            ],
        )
        put(
            tx,
            "entry",
            "id record_id field_id subject_id shown media",
            [
                (1, 1, 1, 9, b"one", "text/plain"),
                (2, 1, 2, None, b"two", "image/png"),
                (3, 2, 1, None, b"three", "text/plain"),
                (4, 2, 2, None, b"x", "text/plain"),
                (5, 4, 1, None, b"y", "text/plain"),
                (6, 3, 1, None, b"", "text/plain"),
            ],
        )
        put(
            tx,
            "account",
            "id connector name adversary_id state invite groups quality",
            [(*row, "[]", 0.8) for row in ACCOUNTS],
        )
        put(
            tx,
            "task",
            "id entry_id account_id adversary_id connector outbox_id state"
            " created_at leased_until draft",
            TASKS,
        )
        put(
            tx,
            "outbox",
            "id connector account_id kind state due attempts epoch"
            " leased_until handle error created_at",
            OUTBOX,
        )
        put(
            tx,
            "answer",
            "task_id entry_id account_id raw valid reason at counted",
            ANSWERS,
        )
        put(tx, "result", "entry_id value confidence wanted state at", RESULTS)
        put(
            tx,
            "plan",
            "id policy_version state verdict algorithm seed summary"
            " created_at applied_at",
            [
                (1, 1, "superseded", "x", "y", 0, "{}", 1, 1),
                (2, 1, "applied", "x", "y", 0, "{}", 1, 8),
                (3, 1, "applied", "x", "y", 0, "{}", 1, None),
                (4, 2, "draft", "x", "y", 0, "{}", 1, None),
            ],
        )
        put(
            tx,
            "assignment",
            "plan_id account_id adversary_id entries",
            [(2, 1, 1, b"packed"), (2, 4, 3, b""), (1, 1, 1, b"old")],
        )
        put(
            tx,
            "pause",
            "scope reason at",
            [("all", "why", 1), ("run:three", "why", 1)],
        )
        put(tx, "cursor", "connector value", [("folder", "c-1")])
        put(tx, "recusal", "adversary_id unit_id", [(3, 19), (2, 4)])
        put(
            tx,
            "ledger_line",
            "chain_id seq kind at policy_version entry_id showing body hash",
            [
                (1, 1, "exposure", 1, 1, 1, 1, None, b"h"),
                (1, 2, "exposure", 1, 1, 1, 0, None, b"h"),
                (2, 1, "exposure", 1, 1, 1, 1, None, b"h"),
                (2, 2, "exposure", 1, 1, 2, 1, None, b"h"),
                (2, 3, "exposure", 1, 1, 4, 1, None, b"h"),
                (2, 4, "exposure", 1, 1, 4, 1, None, b"h"),
                (0, 1, "unburn", 1, 1, 1, None, json.dumps({"extra": 2}), b"h"),
                (0, 2, "unburn", 1, 1, 1, None, json.dumps({"extra": 1}), b"h"),
            ],
        )
    return store  # fmt: skip


def rows_of(tx: Tx) -> dict[tuple[str, int | str], dict[str, Any]]:
    """Every row of the tables that cases write, by table and first column."""
    found = {}
    for kind in TABLES:
        for row in tx.models(select(kind)):
            cells = row.model_dump()
            found[str(kind.__tablename__), next(iter(cells.values()))] = cells
    return found


def changes(before: dict[Any, Any], after: dict[Any, Any]) -> list[str]:
    """``TABLE ID COLUMN VALUE`` of each cell that changed."""
    return sorted(
        f"{table} {key} {name} {value!r}"
        for (table, key), row in after.items()
        for name, value in row.items()
        if before.get((table, key), {}).get(name) != value
    ) + sorted(f"{table} {key} gone" for table, key in before.keys() - after.keys())


def plain(found: Any) -> Any:
    """What a call returned, of values that compare."""
    if isinstance(found, bytes | str | int | float | None):
        return found
    if isinstance(found, dict):
        return {key: plain(found[key]) for key in sorted(found)}  # in no order
    if isinstance(found, frozenset | set):
        return sorted(found)
    if isinstance(found, Iterator):
        return [plain(one) for one in found]
    if is_dataclass(found):
        found = tuple(getattr(found, field.name) for field in fields(found))
    if isinstance(found, tuple) or hasattr(found, "_mapping"):
        return tuple(plain(one) for one in found)
    return [plain(one) for one in found]


class Undone(Exception):
    pass


def result(store: Store, call: Callable[[Tx], Any]) -> tuple[Any, list[str]]:
    """What a call returns, and what it changes; nothing stays."""
    told: list[Any] = []

    def tried(tx: Tx) -> None:
        before = rows_of(tx)
        told.append(plain(call(tx)))
        told.append(changes(before, rows_of(tx)))
        raise Undone

    with pytest.raises(Undone), store.write() as tx:
        tried(tx)
    return told[0], told[1]


def made(*cells: Any) -> Result:
    names = ("entry_id", "value", "confidence", "wanted", "state", "at")
    return Result(**dict(zip(names, cells, strict=True)))


def task(tx: Tx, number: int) -> Any:
    return tasks.task_of(tx, number)


def answer(task_id: int, raw: bytes) -> Any:
    return TaskAnswer(
        task_id=task_id, entry_id=1, account_id=1, raw=raw, valid=0, reason="bad", at=99
    )


EXPECTED = Path(__file__).with_suffix(".txt").with_stem("work_families")

ALL_TASKS = [row[0] for row in TASKS]
ENTRIES = [1, 2, 3, 4, 5, 6, 7]
CASES: dict[str, Callable[[Tx], Any]] = {
    "account_named": lambda tx: serving.account_named(tx, "inhouse", "bob"),
    "account_named none": lambda tx: serving.account_named(tx, "folder", "bob"),
    "account": lambda tx: serving.account(tx, 3),
    "account none": lambda tx: serving.account(tx, 99),
    "task_of": lambda tx: tasks.task_of(tx, 1),
    "task_of message": lambda tx: tasks.task_of(tx, 6),
    "task_of none": lambda tx: tasks.task_of(tx, 99),
    "lock_task": lambda tx: tasks.lock_task(tx, 2),
    "lock_task none": lambda tx: tasks.lock_task(tx, 99),
    "leased_task": lambda tx: tasks.leased_task(tx, 1, NOW),
    "leased_task earlier": lambda tx: tasks.leased_task(tx, 1, 999),
    "leased_task none": lambda tx: tasks.leased_task(tx, 1, SOON),
    "has_other_task": lambda tx: [
        tasks.has_other_task(tx, task(tx, 1), NOW),
        tasks.has_other_task(tx, task(tx, 1), 1),
        tasks.has_other_task(tx, task(tx, 6), 1),
    ],
    "last_task": lambda tx: [tasks.last_task(tx, n) for n in (1, 2, 99)],
    "tasks_since": lambda tx: [
        tasks.tasks_since(tx, *asked) for asked in ((1, -1), (1, 11), (99, 0))
    ],
    "entries_given": lambda tx: [sorted(tasks.entries_given(tx, n)) for n in (4, 99)],
    "shown_entry": lambda tx: [serving.shown_entry(tx, n) for n in (1, 2, 6, 99)],
    "paused": serving.paused,
    "idle_runs": lambda tx: [
        serving.idle_runs(tx, frozenset(scopes)) for scopes in ([], ["run:three"])
    ],
    "plan_in_force": lambda tx: [serving.plan_in_force(tx, n) for n in (1, 2, 3)],
    "planned_rows": lambda tx: [sorted(serving.planned_rows(tx, n)) for n in (2, 9)],
    "planned_entries": lambda tx: [
        serving.planned_entries(tx, *asked) for asked in ((2, 1), (2, 4), (2, 99))
    ],
    "entries_touched_lately": lambda tx: [
        tasks.entries_touched_lately(tx, n) for n in (0, 4, 100)
    ],
    "idle_accounts": serving.idle_accounts,
    "standings": lambda tx: serving.standings(tx, ENTRIES, LIVE_TASK_STATES),
    "standings none": lambda tx: serving.standings(tx, [], LIVE_TASK_STATES),
    "lease": lambda tx: tasks.lease(tx, 3, 77),
    "save_draft": lambda tx: tasks.save_draft(tx, 1, b"more"),
    "end_task": lambda tx: tasks.end(tx, [1], "returned"),
    "end_task ended": lambda tx: tasks.end(tx, [4], "returned"),
    "expire_tasks": lambda tx: tasks.expire_tasks(tx, NOW),
    "expire_tasks all": lambda tx: tasks.expire_tasks(tx, SOON),
    "expire_tasks none": lambda tx: tasks.expire_tasks(tx, 5),
    "add_answer": lambda tx: answers.add_answer(tx, answer(1, b"a")),
    "cursor": lambda tx: [collecting.cursor(tx, n) for n in ("folder", "none")],
    "save_cursor": lambda tx: [
        collecting.save_cursor(tx, n, "c-2") for n in ("folder", "other")
    ],
    "lock_tasks": lambda tx: tasks.lock_tasks(tx, [10, 5, 4, 5, 99, 11]),
    "lock_tasks none": lambda tx: tasks.lock_tasks(tx, []),
    "put_answers": lambda tx: answers.put_answers(
        tx, [answer(1, b"n"), answer(5, b"again")]
    ),
    "end_tasks collected": lambda tx: tasks.end(tx, ALL_TASKS, "returned"),
    "end_tasks collected none": lambda tx: tasks.end(tx, [], "dead"),
    "end_tasks barred": lambda tx: tasks.give_up(tx, ALL_TASKS),
    "end_tasks barred none": lambda tx: tasks.give_up(tx, []),
    "end_tasks erased": lambda tx: tasks.end_live(tx, ALL_TASKS, "dead"),
    "end_tasks erased none": lambda tx: tasks.end_live(tx, [], "dead"),
    "end_in_hand": lambda tx: [tasks.end_in_hand(tx, n) for n in (1, 99)],
    "end_work": lambda tx: [
        tuple(accounts.end_work(tx, [n], NOW, in_hand=True)) for n in (4, 99)
    ],
    "take_back": lambda tx: tasks.end_live(tx, ALL_TASKS),
    "take_back none": lambda tx: tasks.end_live(tx, []),
    "cancel_empty": lambda tx: outbox.cancel_empty(tx, [1, 6, 7, 8, 9]),
    "cancel_empty of ended": lambda tx: [
        tasks.end_live(tx, ALL_TASKS),
        outbox.cancel_empty(tx, [1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ],
    "dead": lambda tx: [
        outbox.dead(tx, ids, name)
        for ids, name in (([], None), ([3, 4], "folder"), ([4], None), ([], "x"))
    ],
    "revive": lambda tx: outbox.revive(tx, [1, 2, 3, 4], NOW),
    "revive none": lambda tx: outbox.revive(tx, [], NOW),
    "messages": lambda tx: [
        outbox.messages(tx, state, most) for state, most in ((None, 2), ("dead", 9))
    ],
    "end_adversary": lambda tx: accounts.end_adversary(tx, 2, 3),
    "blank": lambda tx: erasure.blank(tx, [1], [1, 2], NOW),
    "release_left": lambda tx: outbox.release_left(tx, "folder", 7, NOW),
    "release_left earlier": lambda tx: outbox.release_left(tx, "folder", 6, 1),
    "claim": lambda tx: [
        outbox.claim(tx, "folder", 9, NOW, SOON, 5),
        outbox.claim(tx, "folder", 9, NOW, SOON, 5),
    ],
    "claim one": lambda tx: outbox.claim(tx, "folder", 9, NOW, SOON, 1),
    "claim none": lambda tx: outbox.claim(tx, "none", 9, NOW, SOON, 5),
    "is_blocked": lambda tx: [accounts.is_blocked(tx, n) for n in (1, 2, 3, 99)],
    "cargo": lambda tx: [tasks.cargo(tx, n) for n in (1, 2, 3, 9)],
    "adversaries_at": lambda tx: [
        accounts.adversaries_at(tx, n) for n in ("inhouse", "folder", "none")
    ],
    "handle_of": lambda tx: [outbox.handle_of(tx, n) for n in (2, 3, 99)],
    "may_leave": lambda tx: [outbox.may_leave(tx, n) for n in range(1, 11)],
    "settle": lambda tx: outbox.settle(
        tx,
        7,
        [
            outbox.MessageOutcome(4, "sent", 5, 0, None, None),
            outbox.MessageOutcome(5, "ready", 6, 1, "h-5", "later"),
            outbox.MessageOutcome(1, "dead", 6, 0, None, "never held"),
        ],
    ),
    "settle earlier epoch": lambda tx: outbox.settle(
        tx, 6, [outbox.MessageOutcome(4, "sent", 5, 0, "x", None)]
    ),
    "settle none": lambda tx: outbox.settle(tx, 7, []),
    "cancel": lambda tx: outbox.cancel(tx, [1, 2, 3, 4, 6]),
    "cancel none": lambda tx: outbox.cancel(tx, []),
    "mark_tasks sent": lambda tx: tasks.mark_tasks(tx, [1, 2, 3], "sent", [11]),
    "mark_tasks dead": lambda tx: tasks.mark_tasks(tx, [1, 2, 3], "dead", []),
    "mark_tasks none": lambda tx: tasks.mark_tasks(tx, [], "dead", [1]),
    "uncounted": lambda tx: [answers.uncounted(tx, n) for n in (0, 1, 9)],
    "stalled": lambda tx: [
        answers.stalled(tx, *asked, LIVE_TASK_STATES)
        for asked in ((0, 9), (0, 0), (5, 9))
    ],
    "stalled no state": lambda tx: answers.stalled(tx, 0, 9, []),
    "answers_of": lambda tx: [
        answers.answers_of(tx, ENTRIES),
        answers.answers_of(tx, [5], lock=True),
        answers.answers_of(tx, []),
    ],
    "live_tasks": lambda tx: [
        answers.live_tasks(tx, ENTRIES, LIVE_TASK_STATES),
        answers.live_tasks(tx, [], LIVE_TASK_STATES),
    ],
    "save": lambda tx: answers.save(
        tx,
        [
            made(1, b"z", 0.5, 2, "answered", 70),
            made(3, None, 0.0, 2, "open", 71),
        ],
        [4, 5],
        {1: 0.9},
    ),
    "save none": lambda tx: answers.save(tx, [], [], {}),
    "loads": lambda tx: [answers.loads(tx, n) for n in (1, 9)],
    "records": lambda tx: [answers.records(tx, n) for n in (1, 9)],
    "filled": lambda tx: [
        sorted(answers.filled(tx, n), key=lambda row: row[:2]) for n in (1, 2, 9)
    ],
    "often_shown": lambda tx: [exhausted_fields.often_shown(tx, n) for n in (1, 2, 3)],
    "in_state": lambda tx: [
        exhausted_fields.in_state(tx, *asked)
        for asked in ((None, 9), (None, 2), ("open", 9), ("conflict", 9), ("x", 9))
    ],
    "fields": lambda tx: [
        exhausted_fields.fields(tx, ids) for ids in (ENTRIES, [], [4])
    ],
    "reopen": lambda tx: [answers.reopen(tx, n) for n in (4, 5, 99)],
}


def test_a_message_is_withdrawn_once(world: Store) -> None:
    with world.write() as tx:
        assert outbox.withdraw(tx, [1, 2, 3, 4], NOW) == 3  # the other one was
        assert outbox.withdraw(tx, [1, 2], NOW) == 0
        found = tx.models(select(Outbox).where(Outbox.kind == "withdraw"))
    new = [row for row in found if row.id > len(OUTBOX)]
    assert [(row.handle, row.account_id, row.state, row.due) for row in new] == [
        ("1", 4, "ready", NOW),
        ("3", 4, "ready", NOW),
        ("4", 3, "ready", NOW),
    ]


def test_each_call_returns_and_changes_what_it_did(world: Store) -> None:
    """``work_families.txt`` has what each case returned and changed, a line for each."""
    told = []
    for name, call in CASES.items():
        found, changed = result(world, call)
        told += [f"{name}: {found!r}", *(f"    {one}" for one in changed)]
    assert told == EXPECTED.read_text().splitlines()
