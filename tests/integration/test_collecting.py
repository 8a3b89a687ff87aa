"""Collecting: each answer once, from the one it was asked of; the rest is set aside."""

from __future__ import annotations

import csv
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from connectors.base import (
    Answer,
    Collected,
    Limits,
    Misconfigured,
    Outcome,
    Quarantined,
    TryLater,
)
from connectors.folder import Folder
from connectors.testing.hostile import MEMORY, Hostile, Memory
from dispatcher.core.errors import StaleLease
from dispatcher.ledger.book import Push
from dispatcher.stages.collecting import Collecting
from dispatcher.store import collecting as rows
from dispatcher.store import lease
from tests import builders
from tests.integration.exchange_house import Exchange, logs
from tests.integration.ledger_cases import Case, policy

__all__ = ["logs"]

HOUR = 3600 * 1_000_000


@pytest.fixture
def exchange(store, clock):
    made = Exchange(Case(store), clock)
    made.workers("ann", "bob")
    made.case.load(("r1", "p1", 1, "abcd"), ("r2", "p2", 1, "abcd"))
    return made


@pytest.fixture
def sent(exchange):
    """Ann has r1.a, r1.b, r1.c; Bob has r2.a. All of it was sent."""
    tasks = [
        *exchange.book(("ann", "r1.a r1.b r1.c")).tasks,
        *exchange.book(("bob", "r2.a")).tasks,
    ]
    exchange.sending().tick(exchange.epoch)
    return tasks


def answers(exchange):
    return exchange.rows(
        "SELECT task_id, raw, valid, reason FROM answer ORDER BY task_id"
    )


def test_an_answer_is_judged_and_kept_as_it_was_given(exchange, sent):
    a, b, c, _ = sent
    exchange.market.give(exchange.token(a), "ann", " Anna   Lee ")
    exchange.market.give(exchange.token(b), "ann", "7,50")
    exchange.market.give(exchange.token(c), "ann", "RED")
    assert exchange.collecting().tick(exchange.epoch) == 3
    assert [(n, bytes(raw), *rest) for n, raw, *rest in answers(exchange)] == [
        (a, b" Anna   Lee ", 1, None),
        (b, b"7,50", 1, None),
        (c, b"RED", 1, None),
    ]
    assert exchange.states("task") == ["answered"] * 3 + ["sent"]


def test_the_cursor_moves_with_what_was_kept(exchange, sent):
    exchange.market.give(exchange.token(sent[0]), "ann", "x")
    collecting = exchange.collecting()
    collecting.tick(exchange.epoch)
    assert exchange.ask("SELECT value FROM cursor") == "1"
    assert collecting.tick(exchange.epoch) == 0


def test_a_crash_before_the_commit_loses_and_doubles_nothing(
    exchange, sent, monkeypatch
):
    exchange.market.give(exchange.token(sent[0]), "ann", "x")
    collecting = exchange.collecting()

    class Killed(BaseException):
        pass

    def die(*_):
        raise Killed

    monkeypatch.setattr("dispatcher.store.collecting.save_cursor", die)
    with pytest.raises(Killed):
        collecting.tick(exchange.epoch)
    monkeypatch.undo()
    assert answers(exchange) == []
    assert exchange.collecting().tick(exchange.epoch) == 1
    assert len(answers(exchange)) == 1


def test_an_invalid_answer_is_kept_as_such_and_a_later_one_mends_it(exchange, sent):
    collecting = exchange.collecting()
    exchange.market.give(exchange.token(sent[1]), "ann", "eleven")
    collecting.tick(exchange.epoch)
    [(_, _, valid, reason)] = answers(exchange)
    assert (valid, "not a number" in reason) == (0, True)
    exchange.assembly().tick(exchange.epoch)
    assert exchange.ask("SELECT counted FROM answer") == 1
    exchange.market.give(exchange.token(sent[1]), "ann", "10")
    collecting.tick(exchange.epoch)
    [(_, raw, valid, reason)] = answers(exchange)
    assert (bytes(raw), valid, reason) == (b"10", 1, None)
    assert exchange.ask("SELECT counted FROM answer") == 0


def test_a_second_valid_answer_changes_nothing(exchange, sent):
    collecting = exchange.collecting()
    for value in ("first", "second"):
        exchange.market.give(exchange.token(sent[0]), "ann", value)
    collecting.tick(exchange.epoch)
    exchange.market.give(exchange.token(sent[0]), "ann", "third")
    collecting.tick(exchange.epoch)
    assert [bytes(row[1]) for row in answers(exchange)] == [b"first"]


def test_marks_are_kept_as_the_task_page_keeps_them(exchange, sent):
    token = exchange.token(sent[1])
    exchange.market.answers.append(Answer("i", token, "ann", Outcome.ILLEGIBLE))
    exchange.collecting().tick(exchange.epoch)
    [(_, raw, valid, _)] = answers(exchange)
    assert (bytes(raw), valid) == (b"[illegible]", 1)


def test_a_returned_task_is_returned_and_may_still_be_answered(exchange, sent):
    token = exchange.token(sent[0])
    collecting = exchange.collecting()
    exchange.market.answers.append(Answer("i", token, "ann", Outcome.RETURNED))
    assert collecting.tick(exchange.epoch) == 0
    assert exchange.states("task")[0] == "returned"
    exchange.market.give(token, "ann", "after all")
    assert collecting.tick(exchange.epoch) == 1
    assert exchange.states("task")[0] == "answered"


def test_a_return_after_the_answer_takes_nothing_back(exchange, sent):
    token = exchange.token(sent[0])
    exchange.market.give(token, "ann", "x")
    exchange.market.answers.append(Answer("i", token, "ann", Outcome.RETURNED))
    exchange.collecting().tick(exchange.epoch)
    assert exchange.states("task")[0] == "answered"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda e, t: ("no-such-token", "ann"), "there is no such task"),
        (lambda e, t: ("f" * 32, "ann"), "there is no such task"),
        (lambda e, t: (e.token(999_999), "ann"), "there is no such task"),
        (lambda e, t: (e.token(t[0]), "bob"), "the task is another worker's"),
        (lambda e, t: (e.token(t[0]), "nobody"), "the task is another worker's"),
    ],
)
def test_an_answer_that_fits_no_task_is_set_aside_and_never_counted(
    exchange, sent, logs, make, reason
):
    token, account = make(exchange, sent)
    exchange.market.give(token, account, "canary-value")
    assert exchange.collecting().tick(exchange.epoch) == 0
    assert answers(exchange) == []
    assert exchange.states("task") == ["sent"] * 4
    [(told, payload)] = exchange.rows("SELECT reason, payload FROM quarantine")
    assert told == reason
    assert json.loads(bytes(payload))["value"] == "canary-value"
    event = exchange.ask("SELECT detail FROM event WHERE action = 'answer.quarantined'")
    assert "canary" not in event
    assert "quarantined" in logs.getvalue()
    assert "canary" not in logs.getvalue()


def test_a_task_of_another_connector_is_not_answered_through_this_one(exchange, sent):
    exchange.connectors["second"] = Memory()
    exchange.connectors["second"].give(exchange.token(sent[0]), "ann", "x")
    exchange.collecting().tick(exchange.epoch)
    assert exchange.ask("SELECT reason FROM quarantine") == (
        "the task is of another connector"
    )


def test_an_answer_to_a_field_that_is_asked_for_no_more_is_set_aside(exchange, sent):
    exchange.market.give(exchange.token(sent[0]), "ann", "x")
    exchange.case.apply(policy("", 'd = { ask = "transcribe" }', budget="t = 3"))
    exchange.collecting().tick(exchange.epoch)
    assert "no longer" in exchange.ask("SELECT reason FROM quarantine")


def test_ten_megabytes_are_set_aside_and_the_answer_behind_them_counts(exchange, sent):
    huge = Answer("h1", exchange.token(sent[0]), "ann", value="x" * (10 << 20))
    exchange.market.answers += [huge]
    exchange.market.give(exchange.token(sent[0]), "ann", "short")
    assert exchange.collecting().tick(exchange.epoch) == 1
    assert [bytes(row[1]) for row in answers(exchange)] == [b"short"]
    assert "10485760 characters" in exchange.ask("SELECT reason FROM quarantine")
    assert exchange.ask("SELECT length(payload) FROM quarantine") < 110_000


def test_an_invalid_answer_does_not_hide_the_valid_one_of_the_same_collection(
    exchange, sent
):
    for value in ("many", "5", "6"):
        exchange.market.give(exchange.token(sent[1]), "ann", value)  # b: a number
    exchange.collecting().tick(exchange.epoch)
    assert [(bytes(row[1]), row[2]) for row in answers(exchange)] == [(b"5", 1)]


def test_what_is_no_answer_is_set_aside_once_however_often_it_comes(exchange, sent):
    class Strange(Memory):
        def collect(self, cursor):
            one = Quarantined("s1", "line 3", "the row names no task\0", "ann")
            return Collected(str(int(cursor or 0) + 1), (), (one, one))

    exchange.market = exchange.connectors["memory"] = Strange()
    collecting = exchange.collecting()
    for _ in range(3):
        collecting.tick(exchange.epoch)
    assert exchange.rows("SELECT connector, reason FROM quarantine") == [
        ("memory", "the row names no task ")
    ]


@pytest.mark.parametrize(
    "error",
    [TryLater("busy", after=30), Misconfigured("no"), OSError("x"), SystemExit(0)],
)
def test_a_market_that_fails_rests_and_the_others_are_asked(
    exchange, sent, clock, error
):
    class Broken(Memory):
        asked = 0

        def collect(self, cursor):
            self.asked += 1
            raise error

    exchange.connectors["broken"] = broken = Broken()
    exchange.market.give(exchange.token(sent[0]), "ann", "x")
    collecting = exchange.collecting()
    assert collecting.tick(exchange.epoch) == 1
    collecting.tick(exchange.epoch)
    assert broken.asked == 1
    clock.advance(seconds=61)
    collecting.tick(exchange.epoch)
    assert broken.asked == 2


def test_a_market_that_keeps_failing_is_asked_less_and_less(exchange, clock):
    class Broken(Memory):
        asked = 0

        def collect(self, cursor):
            self.asked += 1
            raise OSError

    exchange.connectors["broken"] = broken = Broken()
    collecting = exchange.collecting()
    for _ in range(60):  # an hour; rests of 1, 2, 4, 8, 16 and 30 minutes
        collecting.tick(exchange.epoch)
        clock.advance(seconds=60)
    assert broken.asked == 6


def test_a_market_whose_answers_can_not_be_written_down_rests_alone(
    exchange, sent, logs
):
    class Odd(Memory):
        asked = 0

        def collect(self, cursor):
            self.asked += 1

    exchange.connectors["odd"] = odd = Odd()
    exchange.market.give(exchange.token(sent[0]), "ann", "x")
    collecting = exchange.collecting()
    assert collecting.tick(exchange.epoch) == 1
    collecting.tick(exchange.epoch)
    assert odd.asked == 1
    assert "connector-resting" in logs.getvalue()


def test_a_market_that_floods_the_quarantine_is_left_until_somebody_has_looked(
    exchange, sent, clock, monkeypatch, logs
):
    monkeypatch.setattr("dispatcher.stages.collecting.MOST_STRANGE", 3)
    market, collecting = exchange.market, exchange.collecting()
    for number in range(3):
        market.give(f"made-up-{number}", "ann", "x")
    collecting.tick(exchange.epoch)
    market.give(exchange.token(sent[0]), "ann", "x")
    assert collecting.tick(exchange.epoch) == 0
    assert "quarantine-full" in logs.getvalue()
    with exchange.store.write() as tx:
        rows.dismiss(tx, rows.waiting(tx), "looked", clock())
    clock.advance(seconds=61)
    assert collecting.tick(exchange.epoch) == 1  # nothing was lost


@pytest.mark.parametrize("year", [1, 9999])
def test_a_market_with_a_mad_clock_dates_no_answer_outside_of_its_task(
    exchange, sent, clock, year
):
    clock.advance(seconds=60)
    given = datetime(year, 1, 2, tzinfo=UTC)
    exchange.market.answers.append(
        Answer("a1", exchange.token(sent[0]), "ann", value="x", given=given)
    )
    exchange.collecting().tick(exchange.epoch)
    made = exchange.ask("SELECT created_at FROM task WHERE id = ?", sent[0])
    assert made <= exchange.ask("SELECT at FROM answer") <= clock()


def test_a_market_that_hangs_holds_up_no_other(exchange, sent):
    go, begun = threading.Event(), threading.Event()

    class Hanging(Memory):
        def collect(self, cursor):
            begun.set()
            assert go.wait(240)
            return super().collect(cursor)

    exchange.connectors["hanging"] = hanging = Hanging()
    exchange.case.add("hanging/bob")
    exchange.case.load(("r9", "p9", 1, "abcd"))
    [task] = exchange.case.book(("hanging/bob", "r9.a"), delivery=Push()).tasks
    builders.settle_messages(exchange.store, "sent", connector="hanging")
    exchange.market.give(exchange.token(sent[0]), "ann", "x")
    hanging.give(exchange.token(task), "bob", "y")
    collecting = exchange.collecting().by_name
    with ThreadPoolExecutor(1) as pool:
        hung = pool.submit(collecting["hanging"].tick, exchange.epoch)
        assert begun.wait(240)
        assert collecting["memory"].tick(exchange.epoch) == 1
        exchange.market.give(exchange.token(sent[1]), "ann", "5")
        assert collecting["memory"].tick(exchange.epoch) == 1
        go.set()
        assert hung.result(240) == 1  # what it says at last is kept
    assert len(answers(exchange)) == 3


def test_a_daemon_that_lost_the_lease_keeps_nothing(exchange, sent, clock):
    exchange.market.give(exchange.token(sent[0]), "ann", "x")
    clock.advance(seconds=1)
    with exchange.store.write() as tx:
        lease.take(tx, lease.SHARD, "other", clock(), clock() + HOUR)
    with pytest.raises(StaleLease):
        exchange.collecting().tick(exchange.epoch)
    assert answers(exchange) == []


def test_a_hostile_market_changes_nothing_but_the_quarantine(store, clock):
    memory = Memory()
    exchange = Exchange(Case(store), clock, Hostile(memory, np.random.default_rng(3)))
    exchange.workers("ann", "bob")
    exchange.case.load(*((f"r{n}", f"p{n}", 1, "abcd") for n in range(5)))
    tasks = exchange.book(*(("ann", f"r{n}.a") for n in range(5)), per_message=1).tasks
    collecting = exchange.collecting()
    for number, task in enumerate(tasks):
        memory.give(exchange.token(task), "ann", f"value {number}")
        collecting.tick(exchange.epoch)
    collecting.tick(exchange.epoch)
    assert [bytes(row[1]).decode() for row in answers(exchange)] == [
        f"value {n}" for n in range(5)
    ]
    # five lies, the answer to no task, and the garbage: each once
    assert exchange.ask("SELECT count(*) FROM quarantine") == 7


def test_a_folder_brings_answers_home(store, clock, tmp_path):
    folder = Folder(tmp_path / "spool", settle=0)
    exchange = Exchange(Case(store), clock, folder, name="folder")
    exchange.workers("ann")
    exchange.case.load(("r1", "p1", 1, "abcd"))
    exchange.book(("ann", "r1.a r1.b"))
    exchange.sending().tick(exchange.epoch)
    [batch] = (tmp_path / "spool").glob("ann/batch-*")
    with (batch / "tasks.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["answer"] = "5" if row["ask"] == "number" else "=Anna"
    with (batch / "answers.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    assert exchange.collecting().tick(exchange.epoch) == 2
    assert sorted(bytes(row[1]) for row in answers(exchange)) == [b"5", b"=Anna"]


class Counting(Memory):
    """A market that is not to be asked more than once in half a minute."""

    manifest = replace(MEMORY, limits=Limits(poll_seconds=30))

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def collect(self, cursor: str) -> Collected:
        self.asked += 1
        return super().collect(cursor)


def test_a_market_is_asked_in_its_rhythm_and_sooner_when_it_has_called(exchange, clock):
    market = Counting()
    collecting = Collecting(exchange.store, "slow", market, clock)
    for _ in range(5):
        collecting.tick(exchange.epoch)
    assert market.asked == 1
    clock.now += 29_000_000
    collecting.tick(exchange.epoch)
    assert market.asked == 1
    with exchange.store.write() as tx:
        rows.note_call(tx, "slow", "call-1", clock())
    collecting.tick(exchange.epoch)
    assert market.asked == 2
    clock.now += 1
    collecting.tick(exchange.epoch)
    assert market.asked == 2, "a call wakes once"
    clock.now += 30_000_000
    collecting.tick(exchange.epoch)
    assert market.asked == 3
