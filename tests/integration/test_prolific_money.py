"""From a budget to a paid participant: the engine, and Prolific's emulator over HTTP."""

from __future__ import annotations

import pytest

from connectors.base import Settings
from connectors.prolific import CONNECTOR
from dispatcher.stages.sending import SendingTerms
from tests.contract.prolific_server import PROJECT, TOKEN, WORKSPACE, prolific_server
from tests.integration import stages
from tests.integration.paying_house import PayingHouse

PAGE = "https://tasks.example.test"
PID = "5f3e1c9d2b7a4e0011223344"


@pytest.fixture
def server():
    with prolific_server() as running:
        yield running


class ProlificHouse(PayingHouse):
    """Offers go to Prolific; what a participant does there is played by the emulator."""

    def join(self, server) -> None:
        values = {
            "workspace": WORKSPACE, "project": PROJECT, "page": f"{PAGE}/from/paying",
            "minutes": "10", "url": server.url, "allow_private": "127.0.0.1",
        }  # fmt: skip
        secret = f"{TOKEN}\n{(b'k' * 32).hex()}\n".encode()
        self.market = CONNECTOR.open(Settings(values, secret=secret))
        self.connectors, self.link = {"paying": self.market}, PAGE
        self.sending = stages.sending(
            self.store, self.connectors, self.clock, SendingTerms(link=PAGE)
        )
        self.paying = stages.paying(self.store, self.connectors, self.clock)
        self.server = server

    def take(self) -> str:
        (study,) = self.server.visible(PID)
        return self.server.take(PID, study)


@pytest.fixture
def house(store, clock, server):
    made = ProlificHouse(store, clock)
    made.join(server)
    yield made
    made.market.close()


def planned(house, fields: int = 3):
    ann = house.account(PID, "paying")
    house.plan((ann, [house.record(n, age="36")["age"] for n in range(1, fields + 1)]))
    return ann


def test_a_participant_is_paid_reward_and_bonus_once(house, server):
    house.budget(reward=120, bonus=12, fee=40)
    ann = planned(house)
    assert house.offer() == 1
    session = house.take()
    house.collect()
    assert house.work(ann, 3) == 3
    server.hand_in(session)
    house.collect()
    for _ in range(3):
        house.settle()
    assert server.paid == [(PID, 120), (PID, 36)]
    assert house.taken() == (218, 218)  # 1.20 and 3 times 0.12, and 40 % of both
    assert set(house.payments().values()) == {"paid"}
    house.check_books()


def test_without_a_budget_no_study_is_made(house, server):
    planned(house)
    assert house.offer() == 0
    assert server.studies == {}


def test_a_budget_in_another_currency_makes_no_study_and_keeps_its_money(house, server):
    house.budget(currency="EUR")
    planned(house)
    house.offer()
    assert server.studies == {}
    assert house.payments() == {"reward-1": "reserved"}


@pytest.mark.parametrize("state", ["RETURNED", "TIMED-OUT"])
def test_a_study_that_was_handed_back_costs_nothing_and_is_offered_anew(
    house, server, clock, state
):
    house.budget()
    planned(house)
    house.offer()
    server.end(house.take(), state)
    house.collect()
    house.settle()
    assert (house.taken(), house.payments()) == ((0, 0), {"reward-1": "released"})
    clock.advance(seconds=3601)
    assert house.offer() == 1
    assert len(server.visible(PID)) == 1


def test_what_a_person_approved_at_prolific_is_paid_there_and_booked(house, server):
    house.budget()
    ann = planned(house)
    house.offer()
    session = house.take()
    house.work(ann)
    server.hand_in(session)
    server.end(session, "APPROVED")
    house.collect()
    house.settle()
    assert house.taken() == (120, 120)
    assert server.paid == []  # not by us


def rewarded(house, server):
    """Let ann hand one field in and have her reward; its bonus is due."""
    house.budget(bonus=12)
    ann = planned(house)
    house.offer()
    session = house.take()
    house.work(ann)
    server.hand_in(session)
    house.collect()
    house.settle()


def test_an_answer_that_is_lost_pays_a_bonus_once(house, server, clock):
    """Prolific pays minutes later, and once more for every call."""
    rewarded(house, server)
    server.slow = True
    respond = server.receiver.respond
    server.receiver.respond = lambda request: (
        respond(request) and None
        if request.path.endswith("/pay/")
        else respond(request)
    )
    house.settle()
    server.receiver.respond = respond
    for _ in range(4):
        clock.advance(seconds=700)
        house.settle()
    assert house.payments()["field-1"] == "due"  # asked after, not asked for
    server.catch_up()
    clock.advance(seconds=700)
    house.settle()
    assert server.paid == [(PID, 120), (PID, 12)]
    assert house.payments()["field-1"] == "paid"


def test_an_empty_workspace_pays_when_there_is_money(house, server, clock):
    rewarded(house, server)
    server.balance = 0
    house.settle()
    server.balance = 100
    clock.advance(seconds=61)
    house.settle()
    assert server.paid == [(PID, 120), (PID, 12)]
