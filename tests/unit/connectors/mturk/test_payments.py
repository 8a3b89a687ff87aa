"""MTurk's money: exact dollars, approvals that show, bonuses under our key."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.base import Money, Pay, PayKind, Rejected, TryLater
from connectors.mturk.api import MTurkRefused
from connectors.mturk.payments import MTurkPayments, dollars

TAKEN = datetime(2026, 11, 1, tzinfo=UTC)
PIECE = f"a1~{int(TAKEN.timestamp())}"


class Api:
    """MTurk with one assignment of worker w1 in HIT h1; calls are noted."""

    def __init__(self, status="Submitted", reward="0.50"):
        self.piece = {
            "AssignmentId": "a1",
            "WorkerId": "w1",
            "AssignmentStatus": status,
            "AcceptTime": TAKEN,
        }
        self.hit = {"HITId": "h1", "Reward": reward}
        self.listed = []
        self.given = []
        self.approves = True
        self.refuses = False

    def assignment(self, number):
        return (self.piece, self.hit) if number == "a1" else None

    def approve(self, number):
        self.given.append(number)
        if self.approves:
            self.piece = {**self.piece, "AssignmentStatus": "Approved"}
        if self.refuses:
            raise MTurkRefused("RequestError", "it is so already")

    def bonuses(self, number):
        return self.listed if number == "a1" else []

    def bonus(self, **words):
        self.given.append(words)


def pay(kind=PayKind.REWARD, amount="USD:0.50", **other):
    named = {"submission": PIECE, "reference": "h1", "account": "w1", **other}
    return Pay("k-1", kind, reward=Money.read(amount), **named)


@given(st.integers(1, 10**9))
def test_dollars_are_exact(cents):
    text = dollars(Money.read(f"USD:{cents // 100}.{cents % 100:02d}"))
    whole, _, part = text.partition(".")
    assert len(part) == 2
    assert int(whole) * 100 + int(part) == cents


@pytest.mark.parametrize("amount", ["USD:0", "USD:0.125", "GBP:1"])
def test_other_amounts_are_rejected(amount):
    with pytest.raises(Rejected, match="whole cents of US dollars"):
        dollars(Money.read(amount))


def test_work_is_approved_once():
    api = Api()
    MTurkPayments(api).approve(pay())
    MTurkPayments(api).approve(pay())
    assert api.given == ["a1"]


def test_another_reward_than_was_booked_is_a_persons_to_judge():
    with pytest.raises(Rejected, match="another reward"):
        MTurkPayments(Api(reward="0.40")).approve(pay())
    MTurkPayments(Api(reward="0.5")).approve(pay())


@pytest.mark.parametrize("approved", [True, False])
def test_a_refusal_is_looked_into(approved):
    """The response to an earlier call was lost, or MTurk approved by itself."""
    api = Api()
    api.refuses, api.approves = True, approved
    if approved:
        MTurkPayments(api).approve(pay())
    else:
        with pytest.raises(MTurkRefused):
            MTurkPayments(api).approve(pay())


def test_an_approval_that_does_not_show_is_asked_for_later():
    api = Api()
    api.approves = False
    with pytest.raises(TryLater, match="not show yet"):
        MTurkPayments(api).approve(pay())


@pytest.mark.parametrize("kind", [PayKind.REWARD, PayKind.BONUS])
def test_rejected_work_is_not_paid(kind):
    api = Api("Rejected")
    act = (
        MTurkPayments(api).approve
        if kind is PayKind.REWARD
        else MTurkPayments(api).bonus
    )
    with pytest.raises(Rejected, match="was rejected at MTurk"):
        act(pay(kind))
    assert api.given == []


@pytest.mark.parametrize(
    "other",
    [
        {"account": "w2"},
        {"reference": "h2"},
        {"submission": "a1~7"},  # the id went to another acceptance
        {"submission": "a2~7"},
    ],
)
def test_work_of_another_worker_hit_or_acceptance_is_not_touched(other):
    api = Api()
    for kind, act in ((PayKind.REWARD, "approve"), (PayKind.BONUS, "bonus")):
        with pytest.raises(Rejected, match="no such work"):
            getattr(MTurkPayments(api), act)(pay(kind, **other))
        assert MTurkPayments(api).paid(pay(kind, **other)) is False
    assert api.given == []


def test_a_bonus_bears_our_key_and_is_paid_once():
    api = Api()
    MTurkPayments(api).bonus(pay(PayKind.BONUS))
    (words,) = api.given
    assert (words["WorkerId"], words["BonusAmount"]) == ("w1", "0.50")
    assert words["UniqueRequestToken"] == "k-1"
    api.listed = [{"WorkerId": "w1", "Reason": words["Reason"]}]
    assert MTurkPayments(api).paid(pay(PayKind.BONUS))
    MTurkPayments(api).bonus(pay(PayKind.BONUS))
    assert len(api.given) == 1


@pytest.mark.parametrize(
    "other",
    [{"WorkerId": "w2", "Reason": "(k-1)"}, {"WorkerId": "w1", "Reason": "k-1"}],
)
def test_another_bonus_is_not_taken_for_ours(other):
    api = Api()
    api.listed = [other]
    assert not MTurkPayments(api).paid(pay(PayKind.BONUS))
    MTurkPayments(api).bonus(pay(PayKind.BONUS))
    assert len(api.given) == 1
