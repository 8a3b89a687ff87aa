"""Prolific's money: approvals may be repeated, a bonus is never asked for twice."""

import pytest

from connectors.errors import Misconfigured, Rejected, TryLater
from connectors.money import Money, Pay, PayKind, Progress
from connectors.prolific.payments import Payments, progress_of, whole_cents


class Api:
    """A workspace in pounds with one submission; calls are noted."""

    def __init__(self, status="AWAITING REVIEW", **more):
        self.calls = []
        self.kept = {"study_id": "s1", "participant": "p1", "status": status, **more}
        self.left = 500
        self.approved = "APPROVED"
        self.fails = {}

    def _note(self, name, *words):
        self.calls.append((name, *words))
        if name in self.fails:
            raise self.fails[name]

    def balance(self):
        return {"currency_code": "GBP", "available_balance": self.left}

    def submission(self, number):
        return self.kept if number == "sub1" else None

    def approve(self, number):
        self._note("approve", number)
        return self.approved

    def set_up(self, study, lines):
        self._note("set_up", study, lines)
        return "b1"

    def pay(self, number):
        self._note("pay", number)


def pay(kind=PayKind.BONUS, amount="GBP:0.12", **other):
    named = {"submission": "sub1", "reference": "s1", "account": "p1", **other}
    return Pay("k-1", kind, reward=Money.read(amount), **named)


@pytest.mark.parametrize(
    ("status", "progress"),
    [
        ("AWAITING REVIEW", Progress.SUBMITTED),
        ("PARTIALLY APPROVED", Progress.APPROVED),
        ("TIMED-OUT", Progress.GONE),
        ("REJECTED", Progress.REJECTED),
        ("SOMETHING NEW", Progress.OPEN),
        (None, Progress.OPEN),
    ],
)
def test_what_prolific_does_not_document_is_open(status, progress):
    assert progress_of(status) is progress


def test_only_whole_cents_are_paid():
    assert whole_cents(Money.read("GBP:1.2")) == 120
    with pytest.raises(Rejected, match="no whole number of cents"):
        whole_cents(Money.read("GBP:0.125"))


def test_another_currency_than_the_workspaces_is_no_cents():
    with pytest.raises(Misconfigured, match="kept in GBP, the budget in USD"):
        Payments(Api()).cents(Money.read("USD:1"))


def test_a_submission_is_approved_once():
    api = Api()
    Payments(api).approve(pay(PayKind.REWARD))
    assert api.calls == [("approve", "sub1")]
    again = Api("APPROVED")
    Payments(again).approve(pay(PayKind.REWARD))
    assert again.calls == []


@pytest.mark.parametrize("status", ["RETURNED", "REJECTED", "ACTIVE"])
def test_what_was_not_handed_in_is_not_approved(status):
    api = Api(status)
    with pytest.raises(Rejected, match="cannot be approved"):
        Payments(api).approve(pay(PayKind.REWARD))
    assert api.calls == []


def test_an_approval_that_does_not_show_is_asked_for_later():
    api = Api()
    api.approved = "AWAITING REVIEW"
    with pytest.raises(TryLater, match="not show"):
        Payments(api).approve(pay(PayKind.REWARD))


@pytest.mark.parametrize("other", [{"reference": "s2"}, {"account": "p2"}])
def test_another_participants_submission_is_not_touched(other):
    api = Api()
    with pytest.raises(Rejected, match="another participant's"):
        Payments(api).bonus(pay(**other))
    with pytest.raises(Rejected, match="no such submission"):
        Payments(api).approve(pay(PayKind.REWARD, submission="sub2"))
    assert api.calls == []


@pytest.mark.parametrize(
    ("amount", "line"), [("GBP:0.12", "sub1,0.12\n"), ("GBP:2", "sub1,2.00\n")]
)
def test_a_bonus_is_set_up_and_paid(amount, line):
    api = Api()
    Payments(api).bonus(pay(amount=amount))
    assert api.calls == [("set_up", "s1", line), ("pay", "b1")]


@pytest.mark.parametrize("left", [11, None, "500"])
def test_without_money_nothing_is_set_up(left):
    api = Api()
    api.left = left
    with pytest.raises(Misconfigured, match="no money"):
        Payments(api).bonus(pay())
    assert api.calls == []
    api.left = 12
    Payments(api).bonus(pay())


def test_a_failure_is_certain_before_the_second_step_and_in_doubt_from_it_on():
    api = Api()
    api.fails["set_up"] = TryLater("busy", why="", fix="")
    with pytest.raises(TryLater) as certain:
        Payments(api).bonus(pay())
    assert certain.value.certain
    for error in (TryLater("busy", why="", fix=""), Misconfigured("no", fix="")):
        api.fails = {"pay": error}
        with pytest.raises(TryLater) as doubtful:
            Payments(api).bonus(pay())
        assert not doubtful.value.certain


@pytest.mark.parametrize(
    ("bonuses", "paid"), [([5, 12], True), ([5], None), ([], None), (None, None)]
)
def test_a_bonus_that_is_not_there_yet_may_be_on_its_way(bonuses, paid):
    api = Api(bonus_payments=bonuses)
    assert Payments(api).paid(pay()) is paid


def test_a_reward_is_paid_when_it_is_approved():
    assert Payments(Api("APPROVED")).paid(pay(PayKind.REWARD)) is True
    assert Payments(Api()).paid(pay(PayKind.REWARD)) is False
