"""Statements about money, erasure and keys: those that were, and those that are.

One store has payments in every state beside tasks, answers and messages in every state;
every function of both is called on it, and what it gives back and leaves is compared.
"""

import importlib
import itertools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from dispatcher.model import TRANSITIONS
from dispatcher.store import Store, Tx
from dispatcher.store import money as now_money
from dispatcher.store import pieces as now_pieces

TABLES = ("budget", "payment", "money_line", "run", "record", "entry", "subject", "task",
          "answer", "result", "held_back", "assignment", "quarantine")  # fmt: skip
PROGRESS = (None, "open", "submitted", "approved", "rejected", "gone")


class Undo(Exception):
    """Ends a transaction that is to leave nothing."""


def fill(tx: Tx) -> None:
    """Fields of every kind, and pieces of work of every kind, of two runs."""
    tx.insert_many(
        "run",
        ["id", "name", "state", "created_at", "pilot", "piloted"],
        [(1, "one", "active", 1, 2, 1), (2, "two", "active", 1, None, None)],
    )
    tx.insert_many(
        "budget",
        ["run_id", "currency", "cap", "per_day", "reward", "bonus", "fee", "taken",
         "paid", "day", "day_taken", "set_at"],
        [(1, "EUR", 10**6, None, 10, 5, 0, 10**5, 10, 3, 50, 1),
         (2, "USD", 10**6, 90, 10, 5, 0, 10**5, 10, 0, 50, 1)],
    )  # fmt: skip
    tx.insert_many(
        "account",
        ["id", "connector", "name", "adversary_id", "groups", "state", "invite",
         "quality", "added_at"],
        [(n, "mturk" if n % 2 else "inhouse", f"w{n}", n, "[]", "active", 1, 0.8, 1)
         for n in range(1, 5)],
    )  # fmt: skip
    tx.insert_many("field", ["id", "name"], [(1, "a"), (2, "b")])
    tx.insert_many(
        "record",
        ["id", "run_id", "load_id", "pseudonym", "key", "columns", "waits_since",
         "erased_at"],
        [(n, n % 2 + 1, 1, f"r{n}", b"", b"", 4 if n in (3, 5) else None,
          6 if n == 5 else None) for n in range(1, 9)],
    )  # fmt: skip
    tx.insert_many(
        "entry",
        ["id", "record_id", "field_id", "shown", "media"],
        [(n, (n + 1) // 2, n % 2 + 1, b"", "text/plain") for n in range(1, 17)],
    )
    states = ("open", "answered", "conflict", "erased")
    tx.insert_many(
        "result",
        ["entry_id", "confidence", "answers", "wanted", "state", "at"],
        [(n, 0.5, 1, 1, states[n % 4], 1) for n in range(1, 13)],
    )
    fields = list(
        itertools.product(TRANSITIONS["task"], (None, 0, 1), TRANSITIONS["payment"])
    )
    tasks, answers, payments = [], [], []
    for number, (state, valid, paid) in enumerate(fields, start=1):
        account = number % 4 + 1
        tasks.append((number, number % 16 + 1, account, account, "x",
                      1000 + number % 37, state, number % 9))  # fmt: skip
        if valid is not None:
            answers.append(
                (number, number % 16 + 1, account, b"", valid, number % 7, 1)
            )
        piece = 1000 + number % 37 if number % 3 else None
        payments.append(("field", number, number % 2 + 1, account,
                         "mturk" if account % 2 else "inhouse", piece, 5, 1, paid,
                         number % 5, number % 4, number % 11, None, None, None, None,
                         "why", number % 6, 1))  # fmt: skip
    outbox = []
    pieces = itertools.product(TRANSITIONS["payment"], PROGRESS)
    causes = (None, "ended", "given-up")
    for number, (paid, progress) in enumerate(pieces):
        for cause in causes if paid == "held" else (None,):
            about = 1000 + len(outbox)
            account = about % 4 + 1
            states = tuple(TRANSITIONS["outbox"])
            outbox.append((about, "mturk", account, "offer", states[(about + 3) % 5],
                           about % 11, about % 3, 0, about % 4))  # fmt: skip
            payments.append(("reward", about, number % 2 + 1, account, "mturk", about,
                             10, 2, paid, 1, about % 3, about % 13,
                             f"ref{about}" if about % 5 else None,
                             f"sub{about}" if about % 7 else None, progress, cause,
                             None, number % 6, 1))  # fmt: skip
    tx.insert_many("payment", now_money.PaymentRow._fields, payments)
    tx.insert_many("task", ["id", "entry_id", "account_id", "adversary_id", "connector",
                            "outbox_id", "state", "created_at"], tasks)  # fmt: skip
    tx.insert_many("answer", ["task_id", "entry_id", "account_id", "raw", "valid", "at", "counted"],
                   answers)  # fmt: skip
    tx.insert_many("outbox", ["id", "connector", "account_id", "kind", "state", "due",
                              "attempts", "epoch", "created_at"], outbox)  # fmt: skip
    tx.insert_many(
        "probe_task",
        ["id", "probe_id", "account_id", "state", "created_at", "attempt"],
        [(n, 1, n % 4 + 1, "answered" if n % 2 else "shown", n % 6, 0)
         for n in range(9000, 9020)],
    )  # fmt: skip
    tx.insert_many("plan", ["id", "policy_version", "state", "verdict", "algorithm",
                            "seed", "summary", "created_at"],
                   [(1, 1, "applied", "SOLVED", "x", 1, "{}", 1),
                    (2, 1, "draft", "SOLVED", "x", 1, "{}", 1)])  # fmt: skip
    tx.insert_many(
        "assignment",
        ["plan_id", "account_id", "adversary_id", "entries"],
        [(1, 1, 1, b"12345678"), (1, 2, 2, b""), (2, 1, 1, b"87654321")],
    )
    tx.execute("UPDATE record SET subject_id = 1 + id % 2 WHERE id < 7")
    tx.execute("UPDATE record SET lost_at = 3, loaded_at = 2 WHERE id IN (5, 6)")
    tx.execute("UPDATE record SET columns = ?, key = ?", [b'["x"]', b"k"])
    tx.execute("UPDATE entry SET shown = ? WHERE id % 3 > 0", [b"shown"])
    tx.execute("UPDATE entry SET media = 'image/png' WHERE id % 4 = 0")
    tx.execute("UPDATE task SET draft = ? WHERE id % 2 = 0", [b"typed"])
    tx.execute("UPDATE result SET value = ? WHERE state = 'answered'", [b"said"])
    tx.insert_many("subject", ["id", "pseudonym", "value", "erased_at"],
                   [(1, "s1", b"ann", None), (2, "s2", b"", 7)])  # fmt: skip
    tx.insert_many("load", ["id", "run_id", "source", "columns", "records", "rejected",
                            "state", "started_at"],
                   [(1, 1, "a.csv", '["c"]', 8, 0, "done", 5)])  # fmt: skip
    tx.insert_many("held_back", ["entry_id", "plan_id", "reason"], [(1, 1, "x")])
    tx.insert_many("quarantine", ["id", "connector", "reason", "payload", "at"],
                   [(1, "x", "y", b"said", 1), (2, "x", "y", b"", 1)])  # fmt: skip
    tx.insert_many("chain", ["id", "name", "seq", "head", "at", "policy_version",
                             "sealed_seq"],
                   [(n, f"c{n}", 1, "0" * 64, n, 1, 0) for n in (1, 2, 3)])  # fmt: skip
    tx.execute("UPDATE chain SET survivor_id = 1 WHERE id = 2")
    tx.insert_many("ledger_line", ["chain_id", "seq", "kind", "at", "policy_version",
                                   "account_id", "entry_id", "cause", "showing", "hash"],
                   [(n % 3 + 1, n, "exposure", n, 1, n % 4 + 1, n, "plan", 1, b"")
                    for n in range(1, 13)])  # fmt: skip
    tx.insert_many("pause", ["scope", "reason", "at"], [("run:two", "", 1)])


CALLS: dict[str, Callable[[Tx, Any], Any]] = {
    "budgets": lambda tx, m: m.money.budgets(tx),
    "budget": lambda tx, m: [m.money.budget(tx, n) for n in (1, 9)],
    "lock_budgets": lambda tx, m: [m.money.lock_budgets(tx, i) for i in ([2, 1], [])],
    "put_budget": lambda tx, m: [
        m.money.put_budget(
            tx, m.money.no_budget(run, "GBP")._replace(cap=7, per_day=3), 8
        )
        for run in (1, 3)
    ],
    "has_payments": lambda tx, m: [m.money.has_payments(tx, n) for n in (1, 3)],
    "run_id_of": lambda tx, m: [m.money.run_id_of(tx, n) for n in ("two", "x")],
    "run_names": lambda tx, m: m.money.run_names(tx),
    "lock_payments": lambda tx, m: m.money.lock_payments(tx, "field", [3, 9, 3, 10**9]),
    "lock_accounts": lambda tx, m: [
        m.money.lock_accounts(tx, i) for i in ([1, 2, 3, 4], [9], [])
    ],
    "reserve": lambda tx, m: reserve(tx, m, 20),
    "reserve without room": lambda tx, m: reserve(tx, m, 10**7),
    "move": lambda tx, m: [
        m.money.move(
            tx,
            list(m.payments.stranded_fields(tx, 9)),
            "released",
            now=9,
            actor="x",
            why="y",
        ),
        m.money.move(tx, m.owing.owed_to(tx, "inhouse", "w2"), "paid", now=9),
    ],
    "carried": lambda tx, m: m.money.carried(tx, [1001, 1002, 1005]),
    "run_of_entry": lambda tx, m: m.money.run_of_entry(tx, 3),
    "piece_in_hand": lambda tx, m: [m.money.piece_in_hand(tx, n) for n in range(1, 6)],
    "put_into_piece": lambda tx, m: m.money.put_into_piece(
        tx, m.money.lock_payments(tx, "field", [3])[3], 77
    ),
    "had_pieces": lambda tx, m: [m.money.had_pieces(tx, n) for n in (1, 9)],
    "reward_of": lambda tx, m: [m.money.reward_of(tx, n) for n in (1003, 3)],
    "note_sent": lambda tx, m: m.money.note_sent(tx, [(1003, "x"), (3, "y")]),
    "lost_fields": lambda tx, m: [m.payments.lost_fields(tx, n) for n in (3, 999)],
    "late_fields": lambda tx, m: [
        m.payments.late_fields(tx, 5, after, most, page=page)
        for after, most, page in [(0, 99, 99), (0, 1, 99), (0, 9, 2), (30, 9, 4)]
    ],
    "earned_fields": lambda tx, m: [
        m.payments.earned_fields(tx, 6, n, 99) for n in (0, 3, 9)
    ],
    "stranded_fields": lambda tx, m: m.payments.stranded_fields(tx, 99),
    "ended_pieces": lambda tx, m: [
        m.payments.ended_pieces(tx, now, most) for now, most in [(99, 99), (5, 3)]
    ],
    "unsent_pieces": lambda tx, m: m.payments.unsent_pieces(tx, 99),
    "returning": lambda tx, m: [
        m.payments.returning(tx, now, most) for now, most in [(99, 99), (3, 1)]
    ],
    "found_pieces": lambda tx, m: [
        m.payments.found_pieces(tx, who, 99) for who in ([1, 2, 3, 4], [])
    ],
    "begin_anew": lambda tx, m: m.payments.begin_anew(
        tx, m.payments.found_pieces(tx, [1, 2, 3, 4], 9), 55
    ),
    "had_work_since": lambda tx, m: [
        m.payments.had_work_since(tx, row)
        for row in m.payments.ended_pieces(tx, 99, 99)
    ],
    "look_later": lambda tx, m: m.payments.look_later(
        tx, m.payments.lost_fields(tx, 5), 66
    ),
    "work_in": lambda tx, m: [
        m.payments.work_in(tx, row._replace(created_at=at))
        for row in m.payments.ended_pieces(tx, 99, 99)
        for at in (0, 4, 86_400 * 10**6 + 4)
    ],
    "fields_of": lambda tx, m: [m.payments.fields_of(tx, n) for n in range(1000, 1040)],
    "due_rewards": lambda tx, m: [
        m.payments.due_rewards(tx, *given)
        for given in [("mturk", 99, 99), ("mturk", 99, 1), ("x", 99, 9)]
    ],
    "due_bonuses": lambda tx, m: [
        m.payments.due_bonuses(tx, *given)
        for given in [("mturk", 99, 99), ("mturk", 99, 1), ("x", 99, 9)]
    ],
    "put_off": lambda tx, m: [
        m.payments.put_off(tx, row, 7, 88, why)
        for row in m.payments.due_rewards(tx, "mturk", 99, 99)
        for why in ("because", None)
    ],
    "fields_in_state": lambda tx, m: m.payments.fields_in_state(
        tx, [1001, 1004], "due"
    ),
    "of_piece": lambda tx, m: sorted(m.payments.of_piece(tx, 1004)),
    "forget_tries": lambda tx, m: m.payments.forget_tries(
        tx, m.payments.lost_fields(tx, 5)
    ),
    "by_reference": lambda tx, m: m.pieces.by_reference(
        tx, "mturk", {"ref1001", "ref1002", "x"}
    ),
    "untold": lambda tx, m: [m.pieces.untold(tx, "mturk", n) for n in (2, 99)],
    "hold": lambda tx, m: [
        m.pieces.hold(tx, n, "why", 9) for n in (1000, 1001, 1012, 1018, 1030)
    ],
    "adopt": lambda tx, m: m.now("adopt")(
        tx, "mturk", [(1000, "new"), (1001, "other"), (3, "x")]
    ),
    "note_progress": lambda tx, m: m.now("note_progress")(
        tx, [(1000, "s", "gone"), (1001, None, "open")], 9
    ),
    "end": lambda tx, m: m.now("end_pieces", "end")(tx, [1000, 1001, 1002, 1003], 9),
    "listed": lambda tx, m: [
        m.owing.listed(tx, *given)
        for given in [
            (["due", "paid"], None, None, 99),
            (["due"], "two", None, 99),
            (["held", "unknown"], None, "mturk", 3),
            ([], None, None, 9),
            (["due"], "one", "inhouse", 99),
        ]
    ],
    "owed": lambda tx, m: m.owing.owed(tx),
    "owed_to": lambda tx, m: [
        m.owing.owed_to(tx, where, who)
        for where, who in [("inhouse", "w2"), ("x", "w2")]
    ],
    "counts": lambda tx, m: m.owing.counts(tx),
    "waiting_messages": lambda tx, m: [m.owing.waiting_messages(tx, n) for n in (0, 9)],
    "booked": lambda tx, m: m.booked(tx, range(3, 9)),
    "run_of_each": lambda tx, m: m.paid_work.run_of_each(tx, [1, 5, 99]),
    "planned_for": lambda tx, m: [m.paid_work.planned_for(tx, n) for n in (1, 2, 9)],
    "given_to": lambda tx, m: sorted(m.paid_work.given_to(tx, 2)),
    "open_runs_of": lambda tx, m: [
        m.paid_work.open_runs_of(tx, i) for i in (list(range(1, 17)), [])
    ],
    "runs_of": lambda tx, m: m.paid_work.runs_of(tx, [1, 2, 3, 4, 99]),
    "accounts_of": lambda tx, m: m.paid_work.accounts_of(tx, ["mturk", "x"]),
    "pilots": lambda tx, m: [m.pilots.find(tx, n) for n in ("one", "two", "x")],
    "pilot locked": lambda tx, m: [m.pilots.lock(tx, n) for n in ("one", "x")],
    "pilots under way": lambda tx, m: m.pilots.under_way(tx),
    "is_shown": lambda tx, m: [m.pilots.is_shown(tx, n) for n in (1, 9)],
    "waiting": lambda tx, m: [m.pilots.waiting(tx, n) for n in (1, 2, 9)],
    "begin": lambda tx, m: m.pilots.begin(tx, 2, 3, 9),
    "enlarge": lambda tx, m: m.pilots.enlarge(tx, 1, 9),
    "hold records": lambda tx, m: m.pilots.hold(tx, 1, 3, 3, [1, 7], 8),
    "hold none": lambda tx, m: m.pilots.hold(tx, 2, 3, 3, [3], 8),
    "choose": lambda tx, m: [m.pilots.choose(tx, 2, n) for n in (1, 5)],
    "accept": lambda tx, m: [m.pilots.accept(tx, n) for n in (1, 2)],
    "subject": lambda tx, m: [
        m.erasure.subject(tx, n, lock=lock)
        for n in ("s1", "s2", "x")
        for lock in (0, 1)
    ],
    "records_of": lambda tx, m: [m.erasure.records_of(tx, n) for n in (1, 9)],
    "record_named": lambda tx, m: [m.erasure.record_named(tx, n) for n in ("r2", "x")],
    "loaded_before": lambda tx, m: [
        m.erasure.loaded_before(tx, *given) for given in [(9, 99), (9, 2), (3, 99)]
    ],
    "count_loaded_before": lambda tx, m: [
        m.erasure.count_loaded_before(tx, n) for n in (0, 3, 9)
    ],
    "entries_of": lambda tx, m: [m.erasure.entries_of(tx, i) for i in ([1, 2], [])],
    "counts of values": lambda tx, m: [
        m.erasure.counts(tx, *given) for given in [([1, 5, 6], [1, 2, 3, 4]), ([], [])]
    ],
    "showings": lambda tx, m: [m.erasure.showings(tx, i) for i in ([1, 2, 3], [99])],
    "tasks_of": lambda tx, m: [
        m.erasure.tasks_of(tx, i, lock=lock) for i in ([1, 2], []) for lock in (0, 1)
    ],
    "being_sent": lambda tx, m: [
        m.erasure.being_sent(tx, list(range(17)), n) for n in (0, 9)
    ],
    "person_of": lambda tx, m: [m.erasure.person_of(tx, n) for n in (1, 2, 9)],
    "records": lambda tx, m: m.erasure.records(tx, [1, 5, 6, 99]),
    "cells_of_others": lambda tx, m: list(m.erasure.cells_of_others(tx, [1, 2])),
    "sources_of": lambda tx, m: [m.erasure.sources_of(tx, i) for i in ([1, 2], [])],
    "said_of": lambda tx, m: m.erasure.said_of(tx, [1, 2]),
    "shown_of": lambda tx, m: sorted(m.erasure.shown_of(tx, list(range(17)))),
    "recipients": lambda tx, m: m.erasure.recipients(tx, [3, 1, 2]),
    "blank": lambda tx, m: m.erasure.blank(tx, [1, 5, 6], [1, 2, 9, 10], 77),
    "blank_subject": lambda tx, m: [
        m.erasure.blank_subject(tx, m.erasure.subject(tx, name), at)
        for name, at in [("s1", None), ("s2", 9), ("s1", 8)]
    ],
    "subjects_without_records": lambda tx, m: [
        m.erasure.subjects_without_records(tx, i) for i in ([1, 2, 3, 4, 5, 6], [])
    ],
    "end_tasks": lambda tx, m: m.erasure.end_tasks(tx, list(range(99)), "dead"),
    "unplan": lambda tx, m: m.erasure.unplan(
        tx, [int.from_bytes(b"12345678", "little"), 9]
    ),
    "not_erased": lambda tx, m: m.erasure.not_erased(
        tx, ["s1", "s2", "r5", "r6", "r7"]
    ),
    "suppress": lambda tx, m: m.erasure.suppress(tx, ["x", "y", "x"]),
    "lost_before": lambda tx, m: [m.erasure.lost_before(tx, n) for n in (2, 3)],
    "give_up_lost": lambda tx, m: m.erasure.give_up_lost(tx, 3),
    "sealed_under": lambda tx, m: [m.rekey.sealed_under(tx), m.rekey.hold_sealing(tx)],
    "remaining": lambda tx, m: m.rekey.remaining(tx),
    "seal_piece": lambda tx, m: [
        m.rekey.seal_piece(tx, plain, after, most)
        for plain in m.rekey.TABLES
        for after, most in [(-1, 3), (3, 99), (10**9, 9)]
    ],
    "wrapping_keys": lambda tx, m: [m.rekey.wrapping_keys(tx)],
    "checks": lambda tx, m: [
        m.checks.integrity(tx),
        m.checks.missing_guards(tx),
        m.checks.last_moment(tx),
        m.checks.first_moment(tx),
        m.checks.server_clock(tx) is None,
    ],
    "by_field": lambda tx, m: [m.pilots.by_field(tx, n) for n in (1, 2, 9)],
}


def reserve(tx: Tx, m: Any, amount: int) -> Any:
    new = m.money.PaymentRow("field", 5000, 1, 1, "x", None, amount, 0)
    again = m.owing.owed_to(tx, "inhouse", "w2")[0]._replace(state="released", run_id=1)
    held = m.money.lock_budgets(tx, [1])[1]
    return m.money.reserve(tx, held, [new, again], now=9 * now_money.DAY, actor="x")


class Modules:
    """Modules of statements, old or new."""

    def __init__(self, place: str) -> None:
        for name in (
            "money",
            "payments",
            "pieces",
            "owing",
            "paid_work",
            "pilots",
            "erasure",
            "rekey",
            "checks",
        ):
            setattr(self, name, importlib.import_module(f"{place}.{name}"))

    def now(self, name: str, was: str = "") -> Any:
        return getattr(now_money, name) if self.pieces is now_pieces else getattr(
            self.pieces, was or name
        )  # fmt: skip

    @property
    def booked(self) -> Any:
        return getattr(self.paid_work, "booked", None) or self.money.booked


@pytest.fixture
def filled(store: Store) -> Store:
    with store.write() as tx:
        fill(tx)
    return store


def outcome(store: Store, call: Callable[[Tx, Any], Any], place: str) -> Any:
    with suppress(Undo), store.write() as tx:
        given = told(call(tx, Modules(place)))
        left = [
            tx.rows(f"SELECT * FROM {name} ORDER BY 1, 2")
            if name != "money_line"
            else tx.rows("SELECT about, state, amount, at, actor, why FROM money_line")
            for name in TABLES
        ]
        raise Undo
    return given, left


def told(value: Any) -> Any:
    """Value without the types of rows."""
    if isinstance(value, tuple | list):
        return [told(one) for one in value]
    if isinstance(value, dict):
        return {key: told(one) for key, one in value.items()}
    return value


def test_each_does_what_it_did(filled: Store) -> None:
    differing = []
    for name, call in CALLS.items():
        was = outcome(filled, call, "tests.integration.was")
        assert was[0] not in ([], {}), f"{name} finds nothing"
        if outcome(filled, call, "dispatcher.store") != was:
            differing.append(name)
    assert differing == []
