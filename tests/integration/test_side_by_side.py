"""Statements about made-up questions: those of text that were, and those that are."""

import itertools
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest

from dispatcher.model import TRANSITIONS
from dispatcher.store import Store, Tx, probes, proficiency
from tests.integration.was import probes as old_probes
from tests.integration.was import proficiency as old_proficiency

TABLES = ("probe", "probe_task", "field_test", "qualification")


class Undo(Exception):
    """Ends a transaction that is to leave nothing."""


def fill(tx: Tx) -> None:
    tx.insert_many("field", ["id", "name"], [(1, "a"), (2, "b"), (3, "c")])
    tx.insert_many(
        "account",
        ["id", "connector", "name", "adversary_id", "groups", "state", "invite",
         "quality", "added_at", "judged_from"],
        [(n, "x", f"w{n}", n % 3 + 1, "[]", "active" if n % 4 else "left", 1,
          n / 10, 1, n if n % 2 else None) for n in range(1, 7)],
    )  # fmt: skip
    tx.insert_many(
        "probe",
        ["id", "field_id", "purpose", "shown", "media", "answer", "added_at",
         "retired_at"],
        [(n, n % 2 + 1, "gold" if n % 3 else "test", b"shown %d" % n, "text/plain",
          b"right", 1, 5 if n % 5 == 0 else None) for n in range(1, 13)],
    )  # fmt: skip
    states = itertools.product(TRANSITIONS["probe_task"], (None, 0, 1), range(3))
    tx.insert_many(
        "probe_task",
        ["id", "probe_id", "account_id", "state", "created_at", "leased_until", "draft",
         "attempt", "correct", "ended_at"],
        [(n, n % 12 + 1, n % 5 + 1, state, n % 9, n % 11 if n % 2 else None,
          b"typed" if n % 3 else None, attempt, right, n % 8)
         for n, (state, right, attempt) in enumerate(states, start=1)],
    )  # fmt: skip
    tx.insert_many("field_test", ["field_id", "pass_share", "set_at"],
                   [(1, 0.5, 1), (3, 1.0, 1)])  # fmt: skip
    stands = itertools.product(range(1, 4), (1, 2), TRANSITIONS["qualification"])
    tx.insert_many(
        "qualification",
        ["account_id", "field_id", "state", "attempt", "asked", "correct", "ended_at"],
        [(10 * n + account, field, state, n % 3 + 1, 3, 2, n if n % 2 else None)
         for n, (account, field, state) in enumerate(stands)],
    )  # fmt: skip
    tx.insert_many(
        "task",
        ["id", "entry_id", "account_id", "adversary_id", "connector", "state",
         "created_at"],
        [(n, 1, n % 5 + 1, 1, "x", "answered" if n % 3 else "sent", n % 7)
         for n in range(100, 140)],
    )  # fmt: skip
    columns = (
        "kind", "about", "run_id", "account_id", "connector", "amount", "fee", "state",
        "day", "attempts", "due", "created_at", "at",
    )  # fmt: skip
    tx.insert_many(
        "payment",
        columns,
        [("field", n, 1, 1, "x", 5, 0, "reserved" if n % 4 else "paid", 0, 0, 0, 1, 1)
         for n in range(1, 37)],
    )  # fmt: skip
    tx.insert_many(
        "entry",
        ["id", "record_id", "field_id", "shown", "media"],
        [(n, n, n % 2 + 1, b"e%d" % n if n % 3 else b"", "text/plain")
         for n in range(1, 9)],
    )  # fmt: skip
    tx.insert_many(
        "event",
        ["id", "at", "actor", "action", "detail"],
        [(n, n, "floor", "account.stopped",
          f'{{"account": {n % 2}, "by": "gold", "percent": {n}}}') for n in range(1, 5)],
    )  # fmt: skip


EVERY = range(7)


def fill_records(tx: Tx) -> None:
    tx.insert_many("run", ["id", "name", "state", "created_at"],
                   [(1, "one", "active", 1), (2, "two", "active", 1)])  # fmt: skip
    tx.insert_many("subject", ["id", "pseudonym", "value"], [(1, "s1", b"")])
    tx.insert_many(
        "record",
        ["id", "run_id", "load_id", "pseudonym", "key", "columns", "erased_at",
         "subject_id"],
        [(n, n % 2 + 1, 1, f"r{n}", b"k%d" % n if n != 4 else b"", b"[]",
          5 if n == 4 else None, 1 if n < 3 else None) for n in range(1, 9)],
    )  # fmt: skip
    states = ("answered", "conflict", "open", "answered")
    tx.insert_many("result", ["entry_id", "confidence", "answers", "wanted", "state",
                              "at"],
                   [(n, 1.0, 1, 1, states[n % 4], 1) for n in range(1, 7)])  # fmt: skip
    tx.insert_many("held_back", ["entry_id", "plan_id", "reason"], [(1, 1, "why")])
    tx.insert_many("answer", ["task_id", "entry_id", "account_id", "raw", "valid", "at",
                              "counted"],
                   [(n, n % 3 + 1, 1, b"", n % 2, 1, 1) for n in range(9)])  # fmt: skip
    tx.insert_many("chain", ["id", "name", "seq", "head", "at", "policy_version",
                             "sealed_seq"],
                   [(n, f"c{n}", 3, "0" * 64, 1, 1, 0) for n in (1, 2)])  # fmt: skip
    tx.execute("UPDATE chain SET survivor_id = 1 WHERE id = 2")
    tx.execute(
        "UPDATE task SET outbox_id = id - 90, state = CASE WHEN id % 4 = 0 THEN"
        " 'booked' WHEN id % 4 = 1 THEN 'published' ELSE 'sent' END"
    )
    tx.insert_many("link", ["id", "relation", "one", "other", "version"],
                   [(1, "f", "s1", "s2", 1), (2, "f", "s0", "s1", 1)])  # fmt: skip
    tx.insert_many("budget", ["run_id", "currency", "cap", "reward", "bonus", "fee",
                              "taken", "paid", "day", "day_taken", "set_at"],
                   [(1, "EUR", 9, 1, 1, 0, 0, 0, 0, 0, 1)])  # fmt: skip
    tx.insert_many("plan", ["id", "policy_version", "state", "verdict", "algorithm",
                            "seed", "summary", "created_at", "applied_at"],
                   [(1, 1, "applied", "SOLVED", "x", 1, "{}", 1, 3)])  # fmt: skip
    tx.insert_many("assignment", ["plan_id", "account_id", "adversary_id", "entries"],
                   [(1, n, 1, bytes(8 * 20 * n)) for n in range(1, 4)])  # fmt: skip
    kinds = (("exposure", None), ("join", "{}"), ("seal", "{}"))
    tx.insert_many(
        "ledger_line",
        ["chain_id", "seq", "kind", "at", "policy_version", "entry_id", "showing",
         "body", "hash"],
        [(chain, seq + 1, *kinds[seq % 3][:1], 9 - seq, 1, seq % 5 + 1, 1,
          kinds[seq % 3][1], b"%d" % seq) for chain in range(3) for seq in range(9)],
    )  # fmt: skip
    tx.insert_many(
        "outbox",
        ["id", "connector", "account_id", "kind", "state", "due", "attempts", "epoch",
         "handle", "created_at"],
        [(n, "x" if n % 5 else "y", 1, ("publish", "offer", "withdraw")[n % 3],
          "sent" if n % 4 else "ready", n % 7, 0, 0, str(n), n % 6)
         for n in range(1, 60)],
    )  # fmt: skip


READS: dict[str, Callable[[Tx, Any], Any]] = {
    "exposed": lambda tx, m: [
        m("exposed").records_named(tx, ["r1", "r2", "r1", "x"]),
        m("exposed").records_named(tx, []),
        *(m("exposed").held_records(tx, n) for n in (0, 1, 2, 9)),
        *(m("exposed").joins(tx, n) for n in (0, 1, 2, 9)),
    ],
    "proving": lambda tx, m: [
        *(m("proving").exposures_of(tx, i) for i in ([1, 2, 3], [], [99])),
        *(m("proving").names_of(tx, i) for i in ([1, 2, 3], [], [99])),
        *(m("proving").entries_of_subject(tx, n) for n in ("s1", "x")),
        m("proving").last_seal(tx),
        *(m("proving").seals_after(tx, n) for n in (0, 3, 99)),
    ],
    "fetching": lambda tx, m: [
        list(m("fetching").published(tx, where, range(100, 140))) for where in "xz"
    ],
    "reconciling": lambda tx, m: [
        m("reconciling").known(tx, [1, 2, 2, 999]),
        *(m("reconciling").withdrawn(tx, where) for where in "xyz"),
        *(list(m("reconciling").sent_tasks(tx, "x", n)) for n in (0, 3, 9)),
        *(m("reconciling").sent_offers(tx, "x", *n) for n in [(0, 9), (3, 4)]),
    ],
    "own_work": lambda tx, m: [
        *(m("own_work").done(tx, n, since) for n in EVERY for since in (0, 4)),
        *(m("own_work").pay(tx, n) for n in EVERY),
        *(m("own_work").tests(tx, n) for n in range(60)),
        *(m("own_work").planned(tx, where, 1) for where in "xy"),
    ],
    "membership": lambda tx, m: [
        m("membership").unit_names(tx, [2, 3, 4, 99, -1, -9]),
        m("membership").unit_names(tx, []),
        *(m("membership").links(tx, i) for i in ([-1, -2, -9], [])),
        *(told(m("membership").accepting_lines(tx, n, 1)[1:]) for n in (0, 1, 9)),
        *(m("membership").held_entries(tx, i) for i in ([0, 1, 2], [])),
        m("membership").open_tasks(tx),
        *(m("membership").open_tasks(tx, i) for i in ([1, 3], [])),
        *(m("membership").adversaries_of_messages(tx, i) for i in ([1, 2, 99], [])),
        *(sorted(m("membership").tasks_of_messages(tx, i)) for i in (range(60), [])),
    ],
    "record_states": lambda tx, m: [
        *(
            m("record_states").records(tx, run, state, most)
            for run in (None, "one", "x")
            for state in (None, "open", "answered", "conflict", "erased")
            for most in (99, 1)
        ),
        *(m("record_states").fields(tx, n) for n in ("r1", "r2", "r8", "x")),
    ],
}


WRITES: dict[str, Callable[[Tx, Any], Any]] = {
    "end_tasks": lambda tx, m: [m("own_work").end_tasks(tx, n, 9) for n in (1, 2, 99)],
    "take_back": lambda tx, m: [
        m("membership").take_back(tx, i) for i in ([100, 101, 102, 100, 999], [])
    ],
    "cancel_empty": lambda tx, m: [
        m("membership").cancel_empty(tx, i) for i in (range(1, 60), [])
    ],
    "withdraw": lambda tx, m: [
        m("membership").withdraw(tx, i, 9) for i in ([3, 6, 9, 3], [3, 12], [])
    ],
}


@pytest.mark.parametrize("name", WRITES)
def test_each_writes_what_it_wrote(filled: Store, name: str) -> None:
    found = []
    for place in ("tests.integration.was", "dispatcher.store"):
        with suppress(Undo), filled.write() as tx:
            fill_records(tx)
            tx.execute("UPDATE outbox SET attempts = id % 2, state = 'ready'")
            tx.reserve("outbox", 200)
            tx.execute("UPDATE task SET state = 'shown' WHERE id % 5 = 2")
            given = WRITES[name](tx, lambda one: import_module(f"{place}.{one}"))  # noqa: B023
            left = [
                tx.rows("SELECT id, state, leased_until, draft FROM task ORDER BY 1"),
                tx.rows("SELECT * FROM probe_task ORDER BY id"),
                tx.rows("SELECT kind, state, handle, connector FROM outbox"
                        " ORDER BY handle, kind"),
            ]  # fmt: skip
            found.append((given, left))
            raise Undo
    assert found[0] == found[1]


@pytest.mark.parametrize("name", READS)
def test_each_reads_what_it_read(filled: Store, name: str) -> None:
    with filled.write() as tx:
        fill_records(tx)
        found = [
            told(READS[name](tx, lambda one: import_module(f"{place}.{one}")))  # noqa: B023
            for place in ("tests.integration.was", "dispatcher.store")
        ]
    assert found[0] == found[1]
    assert [] not in (found[0], found[1])


CALLS: dict[str, Callable[[Tx, Any, Any], Any]] = {
    "retire": lambda tx, p, _: [p.retire(tx, 1, "gold", 9), p.retire(tx, 1, "gold", 9)],
    "require": lambda tx, p, _: [p.require(tx, n, 0.75, 9) for n in (1, 2)],
    "excuse": lambda tx, p, _: [p.excuse(tx, n) for n in (1, 1, 2)],
    "probe": lambda tx, p, _: [p.probe(tx, n) for n in (1, 5, 99)],
    "active": lambda tx, p, _: [
        p.active(tx, n, w) for n in EVERY for w in ("test", "gold")
    ],
    "active_values": lambda tx, p, _: [p.active_values(tx, n, "gold") for n in EVERY],
    "field_named": lambda tx, p, _: [p.field_named(tx, n) for n in "abx"],
    "asked_of": lambda tx, p, _: [p.asked_of(tx, n) for n in EVERY],
    "adversaries": lambda tx, p, _: [p.adversaries(tx, i) for i in ([1, 2, 3, 99], [])],
    "lock": lambda tx, p, _: [p.lock(tx, n) for n in (1, 99)],
    "shown_values": lambda tx, p, _: [sorted(p.shown_values(tx, n)) for n in (1, 2, 9)],
    "handed": lambda tx, p, _: [
        look(tx, n) for n in range(40) for look in (p.handed, p.lock_handed)
    ],
    "in_hand": lambda tx, p, _: [p.in_hand(tx, n, 4) for n in EVERY],
    "lapsed": lambda tx, p, _: [p.lapsed(tx, n, 1, 8) for n in EVERY],
    "gold_since": lambda tx, p, _: [p.gold_since(tx, n, 3) for n in EVERY],
    "hand": lambda tx, p, _: p.hand(
        tx, p.HandedRow(99, 1, 1, 2, "gold", "shown", 5, 6, None, 0)
    ),
    "lease": lambda tx, p, _: [p.lease(tx, n, 77) for n in (3, 99)],
    "save_draft": lambda tx, p, _: p.save_draft(tx, 3, b"\x00x"),
    "end": lambda tx, p, _: [
        p.end(tx, n, "answered", c, 9) for n, c in [(3, 1), (4, None)]
    ],
    "expire": lambda tx, p, _: p.expire(tx, 6),
    "unpaid_lapsed": lambda tx, p, _: [sorted(p.unpaid_lapsed(tx, n)) for n in (0, 5)],
    "tests": lambda tx, p, _: [p.tests(tx, n) for n in range(1, 60)],
    "attempted": lambda tx, p, _: [
        p.attempted(tx, n, f, a) for n in EVERY for f in (1, 2) for a in range(3)
    ],
    "unmarked": lambda tx, p, _: [
        p.unmarked(tx, n, f, a) for n in EVERY for f in (1, 2) for a in range(3)
    ],
    "stand": lambda tx, p, _: [
        p.stand(tx, n, 1, state="passed", attempt=2, asked=4, ended_at=None)
        for n in (1, 500)
    ],
    "failed_for_good": lambda tx, p, _: p.failed_for_good(tx),
    "gold": lambda tx, _, q: [q.gold(tx, n) for n in EVERY],
    "doubted": lambda tx, _, q: [
        q.doubted(tx, f, n) for f in (0.3, 0.9) for n in (1, 5)
    ],
    "stopped": lambda tx, _, q: [q.stopped(tx, n) for n in (0, 1, 2)],
    "stock": lambda tx, _, q: [q.stock(tx, w) for w in ("gold", "test", "x")],
    "gold_left": lambda tx, _, q: q.gold_left(tx, {1: 1, 2: 3}),
    "standings": lambda tx, _, q: q.standings(tx),
    "tried": lambda tx, _, q: [q.tried(tx, i) for i in (range(200), [])],
}


def told(value: Any) -> Any:
    """Value without the types of rows."""
    if isinstance(value, tuple | list):
        return [told(one) for one in value]
    if isinstance(value, dict):
        return {key: told(one) for key, one in value.items()}
    return value


def outcome(store: Store, name: str, *modules: Any) -> Any:
    with suppress(Undo), store.write() as tx:
        given = told(CALLS[name](tx, *modules))
        left = [tx.rows(f"SELECT * FROM {table} ORDER BY 1, 2") for table in TABLES]
        raise Undo
    return given, left


@pytest.fixture
def filled(store: Store) -> Store:
    with store.write() as tx:
        fill(tx)
    return store


def test_each_does_what_it_did(filled: Store) -> None:
    differing = []
    for name in CALLS:
        was = outcome(filled, name, old_probes, old_proficiency)
        assert was[0] not in ([], {}), f"{name} finds nothing"
        if outcome(filled, name, probes, proficiency) != was:
            differing.append(name)
    assert differing == []
