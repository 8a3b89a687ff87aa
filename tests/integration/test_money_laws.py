"""Laws of money: whatever happens in whatever order, the books fit and the cap holds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from connectors.base import Progress
from dispatcher.stages.serving import Given
from tests import sql
from tests.conftest import FakeClock
from tests.integration.paying_house import PENNY, PayingHouse

STEPS = 80
SEEDS = range(5)


class Walk:
    """One store, and things that happen to it by chance."""

    def __init__(self, store, clock: FakeClock, seed: int) -> None:
        self.house = PayingHouse(store, clock)
        self.clock = clock
        self.rng = np.random.default_rng(seed)
        self.cap = int(self.rng.integers(100, 900))
        self.highest = self.cap
        self.set_budget()
        fields = [self.house.record(n, age="36")["age"] for n in range(1, 40)]
        self.people = {
            name: self.house.account(name, connector)
            for name, connector in (("ann", "paying"), ("bob", "paying"),
                                    ("cat", "inhouse"))
        }  # fmt: skip
        self.house.plan(*((who, fields) for who in self.people.values()))
        self.desk = self.house.serving(lease=60)

    def set_budget(self) -> None:
        per_day = None if self.rng.random() < 0.5 else int(self.rng.integers(50, 500))
        self.house.budget(cap=self.cap, per_day=per_day, reward=120, bonus=12, fee=33)

    def step(self) -> None:
        deeds = 4 * (self.work,) + 3 * (self.settle,) + 2 * (self.offer, self.market) + (
            self.start, self.give_back, self.wait, self.move_cap, self.break_market,
        )  # fmt: skip
        deeds[self.rng.integers(len(deeds))]()

    def work(self) -> None:
        self.start()
        self.answer()

    def who(self) -> str:
        return str(self.rng.choice(list(self.people)))

    def offer(self) -> None:
        self.house.offer()

    def start(self) -> None:
        self.desk.start(self.people[self.who()])

    def answer(self) -> None:
        name = self.who()
        showing = self.desk.in_hand(self.people[name])
        if showing is not None:
            given = Given({"answer": str(self.rng.choice(["36", "36", "no age"]))})
            self.desk.answer(self.people[name], showing.token, given)

    def give_back(self) -> None:
        name = self.who()
        showing = self.desk.in_hand(self.people[name])
        if showing is not None:
            self.desk.give_back(self.people[name], showing.token)

    def market(self) -> None:
        references = self.house.references()
        if references:
            number = int(self.rng.integers(len(references)))
            key = list(self.house.outside.offers)[number]
            words = ["submitted", "open", "gone", "rejected"]
            progress = str(self.rng.choice(words, p=[0.7, 0.1, 0.1, 0.1]))
            account = self.house.outside.offers[key].account
            self.house.hand_in(account, number, Progress(progress))

    def settle(self) -> None:
        self.house.settle()

    def wait(self) -> None:
        self.clock.advance(
            seconds=float(
                self.rng.choice([1, 61, 3700, 90_000], p=[0.4, 0.2, 0.3, 0.1])
            )
        )
        self.house.lead()
        self.house.expire()

    def move_cap(self) -> None:
        self.cap = int(self.rng.integers(0, 900))
        self.highest = max(self.highest, self.cap)
        self.set_budget()

    def break_market(self) -> None:
        fault = OSError("gone")
        outside = self.house.outside
        (outside.before if self.rng.random() < 0.5 else outside.after).append(fault)

    def check(self) -> None:
        self.house.check_books()
        assert self.house.purse().taken <= self.highest * PENNY

    def paid_outside(self) -> list[tuple[str, str]]:
        return [
            (pay.kind, pay.reference) for _, pay in self.house.outside.paid.values()
        ]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_books_fit_after_every_step_and_nothing_is_paid_twice(store, clock, seed):
    walk = Walk(store, clock, seed)
    for _ in range(STEPS):
        walk.step()
        walk.check()
    walk.house.outside.before.clear()
    walk.house.outside.after.clear()
    for _ in range(8):
        clock.advance(seconds=3600)
        walk.house.lead()
        walk.house.settle()
    walk.check()
    paid = sorted(walk.paid_outside())
    assert [one for one, of in itertools.groupby(paid) if len(list(of)) > 1] == []
    # what the market paid is what our books say it was asked to pay
    with store.read() as tx:
        ours = sql.value(
            tx,
            "SELECT coalesce(sum(amount), 0) FROM payment"
            " WHERE piece IS NOT NULL AND state = 'paid'",
        )
    theirs = sum(
        int(pay.reward.amount * 1_000_000)
        for _, pay in walk.house.outside.paid.values()
    )
    assert ours == theirs
