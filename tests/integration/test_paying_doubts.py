"""Money in doubt: what a market may have paid, and what a person decides meanwhile."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from connectors.base import (
    Handle,
    Listed,
    PayKind,
    Posted,
    Progress,
    Submission,
    TryLater,
)
from dispatcher.core.errors import Conflict
from dispatcher.operations import payments
from dispatcher.operations.workspace import Workspace
from dispatcher.stages.paying import PaymentBooks
from dispatcher.stages.reconciling import Mending, Reconciling
from dispatcher.stages.serving import Given
from dispatcher.stages.serving.task_assignment import TaskAssignment
from dispatcher.store import money as purse
from dispatcher.store import payables
from dispatcher.store import payments as rows
from tests import builders
from tests.contract.paying_market import MANIFEST, PayingMarket
from tests.integration import stages
from tests.integration.ledger_cases import Plans
from tests.integration.paying_house import PayingHouse, many, planned, submitted


@pytest.fixture
def house(store, clock):
    return PayingHouse(store, clock)


def decide(house, how, *names):
    how(Workspace(clock=house.clock), house.store, names, "looked")


def test_a_question_that_fails_leaves_a_first_bonus_untried(house, clock, monkeypatch):
    """Else an outage of the market would leave each bonus to a person."""
    market = submitted(house)
    house.settle()
    house.outside.can_tell = False
    with monkeypatch.context() as patch:

        def fail(*_):
            raise TryLater("busy", after=1)

        patch.setattr(PayingMarket, "paid", fail)
        house.settle()
    assert house.payment("field", 1).attempts == 0
    clock.advance(seconds=301)
    house.settle()
    assert market.paid_to("ann", PayKind.BONUS) == [Decimal("0.24")]
    assert set(house.payments().values()) == {"paid"}


def test_what_a_market_was_asked_for_is_not_refused_any_more(house):
    """It may have been paid: its money is not free."""
    submitted(house)
    house.outside.after.append(TimeoutError("lost"))
    house.settle()
    assert house.payments()["reward-1"] == "due"
    with pytest.raises(Conflict, match="may have paid"):
        decide(house, payments.refuse, "reward-1")
    assert house.taken() == (144, 0)


def test_what_was_not_asked_for_yet_can_be_refused(house):
    submitted(house)
    house.paying = stages.paying(house.store, {}, house.clock)
    house.settle()
    assert house.payments()["reward-1"] == "due"
    decide(house, payments.refuse, "reward-1")
    assert house.payments()["reward-1"] == "refused"
    house.check_books()


def test_what_was_held_while_the_market_paid_it_counts_as_paid(house, monkeypatch):
    submitted(house)
    approve = PayingMarket.approve

    def meanwhile(market, pay):
        other = Submission("s-2", pay.reference, "eve", Progress.SUBMITTED)
        house.outside.pieces["s-2"] = other
        house.collect()
        assert house.payments()["reward-1"] == "held"
        approve(market, pay)

    monkeypatch.setattr(PayingMarket, "approve", meanwhile)
    house.settle()
    assert house.payments()["reward-1"] == "paid"
    assert house.taken()[1] == 120
    house.check_books()


def test_a_field_left_out_of_a_bonus_is_not_paid_by_it_later(house):
    """One bonus goes to a piece of work: asked again, it counts as paid already."""
    market = submitted(house)
    house.paying = stages.paying(house.store, {}, house.clock)
    house.settle()
    decide(house, payments.refuse, "field-1")
    with pytest.raises(Conflict, match="cannot be paid through"):
        decide(house, payments.approve, "field-1")  # the other's bonus is due
    house.paying = stages.paying(house.store, house.connectors, house.clock)
    house.settle()
    house.settle()
    assert market.paid_to("ann", PayKind.BONUS) == [Decimal("0.12")]
    with pytest.raises(Conflict, match="cannot be paid through"):
        decide(house, payments.approve, "field-1")
    decide(house, payments.settle, "field-1")  # a person pays it by hand
    assert set(house.payments().values()) == {"paid"}
    house.check_books()


def test_what_was_refused_is_settled_only_where_there_is_money(house):
    house.budget(bonus=12)
    house.work(planned(house, "inhouse"))
    house.settle()
    decide(house, payments.refuse, "field-1")
    house.budget(cap=11, bonus=12)
    with pytest.raises(Conflict, match="no money"):
        decide(house, payments.settle, "field-1")
    assert house.taken() == (0, 0)
    house.budget(cap=12, bonus=12)
    decide(house, payments.settle, "field-1")
    assert house.taken() == (12, 12)
    house.check_books()


def test_a_field_of_a_piece_that_is_not_paid_is_not_approved_alone(house):
    """It would be due for ever: its bonus follows the reward."""
    house.budget(bonus=12)
    ann = planned(house)
    house.offer()
    house.work(ann, 1)
    house.hand_in("ann", progress=Progress.REJECTED)
    house.settle()
    decide(house, payments.refuse, "field-1")
    with pytest.raises(Conflict, match="cannot be paid through"):
        decide(house, payments.approve, "field-1")
    assert house.payments() == {"reward-1": "refused", "field-1": "refused"}


# -- a field that is shown once more -----------------------------------------------------


def test_a_field_whose_money_was_given_back_is_shown_again_only_for_money(house, clock):
    house.budget(cap=12, bonus=12)
    fields = [house.record(n, age="36")["age"] for n in (1, 2)]
    ann, bob = (house.account(name, "inhouse") for name in ("ann", "bob"))
    house.plan((ann, fields[:1]), (bob, fields[1:]))
    desk = house.serving(lease=60)
    first = desk.start(ann)
    clock.advance(seconds=61)
    house.expire()
    house.settle()
    assert (house.taken(), desk.start(bob) is None) == ((0, 0), False)
    assert desk.start(ann) is None
    house.budget(cap=24, bonus=12)
    again = desk.start(ann)
    assert again.token == first.token
    assert house.taken() == (24, 0)
    house.check_books()


@pytest.mark.parametrize("bonus", [0, 12])
def test_a_field_of_an_earlier_piece_is_paid_with_the_one_it_is_answered_in(
    house, clock, bonus
):
    house.budget(bonus=bonus)
    ann = planned(house, fields=3)
    house.offer()
    house.work(ann)
    desk = house.serving(lease=60)
    first = desk.start(ann)
    clock.advance(seconds=61)
    house.expire()
    house.hand_in("ann")
    for _ in range(3):
        house.settle()
    assert desk.start(ann) is None  # between two pieces of work
    clock.advance(seconds=3601)
    house.lead()
    house.offer()
    again = desk.start(ann)
    assert again.token == first.token
    desk.answer(ann, again.token, Given({"answer": "36"}))
    house.hand_in("ann", 1)
    for _ in range(3):
        house.settle()
    assert set(house.payments().values()) == {"paid"}
    paid = PayingMarket(house.outside).paid_to("ann")
    assert sum(paid) == Decimal("2.40") + 2 * Decimal(bonus) / 100
    house.check_books()


def test_nothing_is_shown_in_a_piece_that_was_handed_in_a_moment_ago(
    house, monkeypatch
):
    house.budget(bonus=12)
    ann = planned(house)
    house.offer()
    choice = TaskAssignment._choice

    def slowly(*whom):
        chosen = choice(*whom)
        house.hand_in("ann")
        return chosen

    monkeypatch.setattr(TaskAssignment, "_choice", slowly)
    assert house.work(ann) == 0
    assert house.payments() == {"reward-1": "reserved"}
    assert house.count("task") == 0


def test_a_piece_of_work_is_paid_by_a_run_in_the_currency_of_its_market(
    house, monkeypatch
):
    """Another run's offer would be rejected there, and made anew each hour."""
    assert builders.add_run(house.store, "b") == 2
    monkeypatch.setattr(PayingMarket, "manifest", replace(MANIFEST, currency="GBP"))
    house.budget(currency="EUR")
    ann = planned(house, fields=3)
    assert house.offer() == 0
    assert house.count("outbox") == 0  # no run could pay it
    house.budget(2)
    house.offer()
    assert house.payments() == {}
    assert house.ask("SELECT state FROM outbox") == "ready"  # it waits
    house.plan((ann, many(house, 1, first=4, run_id=2)), beside=True)
    house.clock.advance(seconds=61)
    assert house.sending.tick(house.epoch) == 1
    assert (house.taken(1), house.taken(2)) == ((0, 0), (120, 0))


# -- a restored store --------------------------------------------------------------------


@pytest.mark.parametrize(("open_", "again"), [(True, 0), (False, 1)])
def test_work_that_is_over_is_told_again_where_nothing_was_heard_of_it(
    house, clock, monkeypatch, open_, again
):
    """A market puts away what it has told; a restored store has forgotten it."""
    house.budget()
    planned(house)
    house.offer()
    ((key, reference),) = zip(house.outside.offers, house.references(), strict=True)
    asked = []

    def listing(_, cursor):
        return Listed((Posted(key, reference, open=open_),), "")

    monkeypatch.setattr(PayingMarket, "listing", listing)
    monkeypatch.setattr(
        PayingMarket, "retell", lambda _, it: asked.append(it), raising=False
    )
    clock.advance(seconds=3600)
    market = house.connectors["paying"]
    stage = Reconciling(house.store, "paying", market, clock)
    stage.reconcile(Mending(mend=False))
    assert asked == []
    for _ in range(2):
        stage.reconcile(Mending(mend=True))
    assert asked == 2 * again * [Handle(key, reference)]
    with house.store.write() as tx:
        purse.note_progress(tx, [(1, None, "approved")], clock())
    stage.reconcile(Mending(mend=True))
    assert len(asked) == 2 * again


# -- cost: what is over is not looked at again -------------------------------------------


def test_no_look_for_what_has_to_move_reads_all_payments(sqlite_store):
    with sqlite_store.write() as tx:
        plans = Plans(tx)
        rows.lost_fields(plans, 9)
        rows.late_fields(plans, 1, 0, 9)
        rows.earned_fields(plans, 1, 1, 9)
        rows.stranded_fields(plans, 9)
        rows.ended_pieces(plans, 1, 9)
        purse.lock_accounts(plans, rows.returning(plans, 1, 9) or [1])
        rows.found_pieces(plans, [1], 9)
        rows.unsent_pieces(plans, 9)
        rows.due_rewards(plans, "paying", 1, 9)
        rows.due_bonuses(plans, "paying", 1, 9)
        purse.by_reference(plans, "paying", ["r"])
        purse.untold(plans, "paying", 1)
        purse.piece_in_hand(tx, 1)
    by_kind_alone = [one for one in plans.told if one.endswith("(kind=?)")]
    whole = [one for one in plans.told if one.startswith("SCAN payment")]
    assert len(plans.told) > 20
    assert by_kind_alone + whole == []


def test_the_history_of_a_payment_reads_that_of_no_other(store):
    with store.read() as tx:
        plans = Plans(tx)
        payables.events(plans, "field", 7)
    assert "ix_payment_event_kind_payment_event_about" in " ".join(plans.told)


def test_late_answers_are_found_page_by_page_and_from_the_first_again(house):
    house.budget(bonus=12)
    ann, desk, tokens = planned(house, "inhouse", fields=5), house.serving(), []
    for _ in range(5):
        showing = desk.start(ann)
        desk.give_back(ann, showing.token)
        tokens.append(showing.token)
    house.settle()
    assert set(house.payments().values()) == {"released"}
    for token in tokens[1], tokens[4]:
        desk.answer(ann, token, Given({"answer": "36"}))
    found, after = [], 0
    with house.store.write() as tx:
        for _ in range(6):
            late, after = rows.late_fields(tx, house.clock(), after, 9, page=2)
            found.append([row.about for row in late])
        full, rest = rows.late_fields(tx, house.clock(), 0, 1)
    assert found == [[2], [5]] * 3
    assert ([row.about for row in full], rest) == ([2], 2)


@pytest.mark.parametrize("days", [-1, 1])
def test_a_clock_that_jumps_while_the_books_are_kept_does_not_stop_them(
    house, clock, monkeypatch, days
):
    house.budget()
    kept = []

    def keep(*_):
        kept.append(clock())
        clock.advance(seconds=86_400 * days)
        return 0

    monkeypatch.setattr(PaymentBooks, "_keep_books", keep)
    house.paying.tick(house.epoch)
    clock.advance(seconds=30 if days > 0 else -86_400)
    house.paying.tick(house.epoch)
    assert len(kept) == 2
