"""``dispatcher runs budget`` and ``payments``: amounts exact, mistakes told, nothing lost."""

from __future__ import annotations

import json

import pytest

from dispatcher.ledger import chains
from dispatcher.store import accounts, open_store, records
from dispatcher.store import money as rows
from dispatcher.store.money import PaymentRow
from tests import sql


@pytest.fixture
def place(run, sqlite_path, monkeypatch):
    """A store with one run and two workers."""
    monkeypatch.setenv("DISPATCHER_STORE", str(sqlite_path))
    with open_store(sqlite_path) as store, store.write() as tx:
        records.run(tx, "default", 1)
        for number, where, who in ((1, "inhouse", "ann"), (2, "folder", "cat")):
            chain = chains.begin(tx)
            account = accounts.AccountRow(number, where, who, chain.id, "[]", "active")
            accounts.add_account(tx, account)
    return sqlite_path


def budget(run, *more: str, run_name: str = "default"):
    return run("runs", "budget", run_name, *more, "--json")


def promise(place, *payments: PaymentRow, move: str = "due") -> None:
    """Take money as the stages do, and let it be owed."""
    with open_store(place) as store, store.write() as tx:
        held = rows.lock_budgets(tx, [1])[1]
        assert rows.reserve(tx, held, payments, now=1, actor="test") is not None
        if move != "reserved":
            found = [
                row
                for one in payments
                for row in rows.lock_payments(tx, one.kind, [one.about]).values()
            ]
            rows.move(tx, found, move, now=2)


def field(task: int, pence: int = 12, **more) -> PaymentRow:
    told = {"account_id": 1, "connector": "inhouse", "piece": None, "fee": 0} | more
    return PaymentRow("field", task, 1, amount=pence * 10_000, **told)


def test_a_budget_is_set_piece_by_piece_and_shown_exactly(run, place):
    set_ = budget(run, "--cap", "GBP:100", "--per-day", "GBP:20.5")
    assert set_.code == 0
    told = json.loads(set_.out)
    assert (told["cap"], told["per_day"]) == ("GBP:100.00", "GBP:20.50")
    budget(run, "--bonus", "GBP:0.125", "--fee", "33.3333")
    told = json.loads(run("runs", "show", "default", "--json").out)["budget"]
    assert told == {
        "run": "default", "cap": "GBP:100.00", "per_day": "GBP:20.50",
        "reward": "GBP:0.00", "bonus": "GBP:0.125", "fee_percent": "33.3333",
        "promised": "GBP:0.00", "paid": "GBP:0.00", "today": "GBP:0.00",
        "room": "GBP:20.50", "used_up": "",
    }  # fmt: skip
    budget(run, "--per-day", "none")
    shown = run("runs", "show", "default").out
    assert "at most GBP:100.00\n" in shown
    assert "default\tGBP:100.00\tGBP:100.00" in run("runs", "list").out


@pytest.mark.parametrize(
    "words",
    [
        ("--cap", "100"),
        ("--cap", "GBP:-1"),
        ("--cap", "GBP:1e9"),
        ("--cap", "gbp:1"),
        ("--cap", "GBP:0.0000001"),
        ("--bonus", "GBP:1"),  # no cap yet
        ("--cap", "GBP:1", "--bonus", "EUR:1"),
        ("--cap", "GBP:1", "--fee", "101"),
        ("--cap", "GBP:1", "--fee", "x"),
        ("--cap", "GBP:1", "--per-day", "no"),
        (),
    ],
)
def test_what_is_no_budget_is_refused_and_nothing_is_set(run, place, words):
    refused = budget(run, *words)
    assert refused.code == 2
    assert json.loads(refused.err)["error"]["fix"]
    assert json.loads(run("runs", "show", "default", "--json").out)["budget"] is None


def test_a_run_that_is_not_there_is_told(run, place):
    refused = budget(run, "--cap", "GBP:1", run_name="march")
    assert refused.code == 1
    assert "default" in refused.err


def test_a_cap_below_what_is_taken_is_allowed_and_said(run, place):
    budget(run, "--cap", "GBP:100")
    promise(place, field(1, 500))
    lowered = run("runs", "budget", "default", "--cap", "GBP:3")
    assert lowered.code == 0
    assert "room      GBP:0" not in lowered.out
    assert "-GBP:2.00" in lowered.out
    assert "nothing new is begun" in lowered.err


def test_another_currency_is_refused_once_work_was_promised(run, place):
    budget(run, "--cap", "GBP:100", "--bonus", "GBP:1")
    assert budget(run, "--cap", "EUR:100").code == 2  # the bonus is in pounds
    assert budget(run, "--cap", "EUR:100", "--bonus", "EUR:1").code == 0
    promise(place, field(1))
    refused = budget(run, "--cap", "GBP:100", "--bonus", "GBP:1")
    assert (refused.code, "of its own" in refused.err) == (1, True)


def test_what_is_owed_is_summed_and_settled_by_worker(run, place):
    budget(run, "--cap", "GBP:100")
    promise(
        place, field(1), field(2, 13), field(3, 1, account_id=2, connector="folder")
    )
    owed = json.loads(run("payments", "owed", "--json").out)["owed"]
    assert owed == [
        {"run": "default", "account": "folder/cat", "amount": "GBP:0.01", "fields": 1},
        {"run": "default", "account": "inhouse/ann", "amount": "GBP:0.25", "fields": 2},
    ]
    settled = run("payments", "settle", "--worker", "inhouse/ann", "--reason", "May")
    assert (settled.code, settled.out) == (0, "settled: 2 payments\n")
    assert (
        run("payments", "settle", "--worker", "inhouse/ann", "--reason", "May").code
        == 1
    )
    assert "paid      GBP:0.25" in run("runs", "show", "default").out
    listed = run("payments", "list", "--state", "paid", "--json")
    assert {p["why"] for p in json.loads(listed.out)["payments"]} == {"May"}


def test_the_history_of_a_payment_says_who_changed_it_and_why(run, place):
    budget(run, "--cap", "GBP:100")
    promise(place, field(1), field(2), move="held")
    run("payments", "refuse", "field-1", "--reason", "no work")
    told = json.loads(run("payments", "show", "field-1", "--json").out)
    assert told["payment"] == "field-1"
    changes = [(one["state"], one["by"], one["why"]) for one in told["changes"]]
    assert changes[0] == ("reserved", "test", "")
    assert [state for state, *_ in changes] == ["reserved", "held", "refused"]
    assert changes[-1] == ("refused", "cli", "no work")
    assert {one["amount"] for one in told["changes"]} == {"GBP:0.12"}
    assert "no work" not in run("payments", "show", "field-2").out  # of this one only
    assert run("payments", "show", "field-9").code == 1
    assert run("payments", "show", "field").code == 2


def test_a_person_decides_what_is_held(run, place):
    budget(run, "--cap", "GBP:100")
    promise(place, field(1), field(2), move="held")
    assert "field-2" in run("payments", "list").out
    assert run("payments", "refuse", "field-1", "--reason", "no work").code == 0
    assert run("payments", "settle", "field-2", "--reason", "paid by hand").code == 0
    assert run("payments", "list").out == ""
    told = json.loads(run("runs", "show", "default", "--json").out)["budget"]
    assert (told["promised"], told["paid"]) == ("GBP:0.00", "GBP:0.12")


def test_of_what_was_refused_exactly_what_is_named_is_settled(run, place):
    budget(run, "--cap", "GBP:100")
    both = [field(number)._replace(piece=7) for number in (1, 2)]
    promise(place, *both, move="held")
    run("payments", "refuse", "field-1", "field-2", "--reason", "no work")
    assert run("payments", "settle", "field-1", "--reason", "by hand").code == 0
    with open_store(place) as store, store.read() as tx:
        states = [
            row[0] for row in sql.rows(tx, "SELECT state FROM payment ORDER BY about")
        ]
    assert states == ["paid", "refused"]


def test_what_was_never_handed_in_at_a_market_can_not_be_approved(run, place):
    budget(run, "--cap", "GBP:100")
    reward = PaymentRow("reward", 7, 1, 1, "inhouse", 7, 1_200_000, 0)
    promise(place, reward, move="held")
    refused = run("payments", "approve", "reward-7", "--reason", "x", "--yes")
    assert (refused.code, "settle" in refused.err) == (1, True)


def test_an_unknown_payment_is_asked_for_once_more_by_a_person(run, place):
    budget(run, "--cap", "GBP:100")
    promise(place, PaymentRow("reward", 7, 1, 1, "market", 7, 1_200_000, 0))
    with open_store(place) as store, store.write() as tx:
        found = list(rows.lock_payments(tx, "reward", [7]).values())
        for column, value in (("submission", "s"), ("reference", "r"), ("attempts", 3)):
            rows.set_column(tx, found, column, value)
        rows.move(tx, found, "unknown", now=3)
    done = run("payments", "approve", "reward-7", "--reason", "looked", "--yes")
    assert done.code == 0
    with open_store(place) as store, store.read() as tx:
        assert sql.one(tx, "SELECT state, attempts FROM payment") == ("due", 0)


def test_what_a_market_is_about_to_pay_is_not_settled_by_hand(run, place):
    budget(run, "--cap", "GBP:100")
    promise(place, PaymentRow("reward", 7, 1, 1, "market", 7, 1_200_000, 0))
    refused = run("payments", "settle", "reward-7", "--reason", "x")
    assert (refused.code, "twice" in refused.err) == (1, True)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("settle", "--reason", "x"), 2),
        (("settle", "field-1", "--worker", "a/b", "--reason", "x"), 2),
        (("settle", "field-1"), 2),
        (("settle", "field-1", "--reason", "two\nlines"), 2),
        (("settle", "12", "--reason", "x"), 2),
        (("settle", "field-0", "--reason", "x"), 2),
        (("settle", "field-99", "--reason", "x"), 1),
        (("settle", "--worker", "nobody", "--reason", "x"), 1),
        (("refuse", "field-1", "--reason", "x"), 1),
        (("approve", "field-1", "--reason", "x"), 2),  # nobody can be asked
    ],
)
def test_mistakes_about_payments_are_told_and_change_nothing(run, place, words, code):
    budget(run, "--cap", "GBP:100")
    promise(place, field(1), move="reserved")
    refused = run("payments", *words)
    assert refused.code == code
    assert "fix:" in refused.err
    with open_store(place) as store, store.read() as tx:
        assert sql.value(tx, "SELECT state FROM payment") == "reserved"


def test_status_tells_what_is_spent_and_what_needs_a_decision(run, place):
    budget(run, "--cap", "GBP:1", "--bonus", "GBP:0.90")
    promise(place, field(1, 90))
    promise(place, field(2, 10), move="held")
    told = json.loads(run("status", "--json").out)
    assert told["budgets"][0]["used_up"] == "cap"
    assert told["payments"] == {"due": 1, "held": 1}
    shown = run("status").out
    assert "money    default: GBP:0.00 paid" in shown
    assert "the budget of run default is used up" in shown
    assert "1 payment waits for your decision" in shown


def test_a_used_up_day_is_told_and_needs_nobody(run, place):
    budget(run, "--cap", "GBP:5", "--per-day", "GBP:1", "--bonus", "GBP:0.90")
    with open_store(place) as store, store.write() as tx:
        held = rows.lock_budgets(tx, [1])[1]
        now = 4_000_000_000_000_000  # no clock is past that day
        assert rows.reserve(tx, held, [field(1, 90)], now=now, actor="test")
    shown = run("status").out
    assert "today's allowance is used up" in shown
    assert "is used up, and nothing new" not in shown
