"""A house with a market that pays: offers leave, workers come, money goes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np
import pytest

from connectors.base import Offer, Progress
from connectors.inhouse import Inhouse
from dispatcher.model import UNIT, Budget
from dispatcher.preflight import Preflight
from dispatcher.stages.assembly import Assembly
from dispatcher.stages.booking import Booking
from dispatcher.stages.reconciling import Drift, Mending, Reconciling
from dispatcher.stages.sending import SendingTerms
from dispatcher.stages.serving import Given, Present, expire
from dispatcher.store import lease
from dispatcher.store import money as rows
from dispatcher.store.money import PaymentRow
from tests import sql
from tests.conftest import FakeClock
from tests.contract.paying_market import Outside, PayingMarket
from tests.integration import stages
from tests.integration.serving_house import House

PENNY = UNIT // 100


@dataclass
class PayingHouse(House):
    """Market ``paying`` (pays itself) and ``inhouse`` (paid by the operator)."""

    outside: Outside = field(default_factory=Outside)
    epoch: int = 0
    link: str = "https://t.example"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.connectors = {
            "paying": PayingMarket(self.outside),
            "inhouse": Inhouse(b"i" * 32),
        }
        self.lead()
        self.sending = stages.sending(
            self.store, self.connectors, self.clock, SendingTerms(link=self.link)
        )
        self.paying = stages.paying(self.store, self.connectors, self.clock)

    def lead(self) -> None:
        """Let a daemon take over (again): the epoch is one more."""
        with self.store.write() as tx:
            found = lease.take(tx, lease.SHARD, "me", self.clock(), self.clock() + 1)
        assert found is not None
        self.epoch = found

    def budget(self, run_id: int = 1, **set_: object) -> Budget:
        """Set a run's budget; amounts in pence, fee in per cent."""
        told = {"cap": 10_000, "per_day": None, "reward": 120, "bonus": 0, "fee": 0}
        told |= set_
        row = Budget(
            run_id=run_id,
            currency=str(told.get("currency", "GBP")),
            cap=told["cap"] * PENNY,
            per_day=None if told["per_day"] is None else told["per_day"] * PENNY,
            reward=told["reward"] * PENNY,
            bonus=told["bonus"] * PENNY,
            fee=told["fee"] * UNIT // 100,
        )
        with self.store.write() as tx:
            rows.put_budget(tx, row)
        return self.purse(run_id)

    def purse(self, run_id: int = 1) -> Budget:
        with self.store.read() as tx:
            found = rows.budget(tx, run_id)
        assert found is not None
        return found

    def taken(self, run_id: int = 1) -> tuple[int, int]:
        """What is taken and paid, in pence."""
        purse = self.purse(run_id)
        return purse.taken // PENNY, purse.paid // PENNY

    def payments(self) -> dict[str, str]:
        with self.store.read() as tx:
            found = sql.rows(
                tx, "SELECT kind, about, state FROM payment ORDER BY kind, about"
            )
        return {f"{kind}-{about}": state for kind, about, state in found}

    def payment(self, kind: str, about: int) -> PaymentRow:
        with self.store.write() as tx:
            return rows.lock_payments(tx, kind, [about])[about]

    def offer(self) -> int:
        """Write the offers that are due, and send what there is money for."""
        preflight = Preflight(self.connectors, link=self.link)
        booking = Booking(self.store, preflight, self.clock, np.random.default_rng(5))
        booking.tick(self.epoch)
        return self.sending.tick(self.epoch)

    def collect(self) -> None:
        collecting = stages.collecting(self.store, self.connectors, self.clock)
        collecting.tick(self.epoch)

    def settle(self) -> int:
        """Count the answers, then pay."""
        Assembly(self.store, self.clock).tick(self.epoch)
        return self.paying.tick(self.epoch)

    def expire(self) -> int:
        return expire(self.store, self.clock, self.epoch)

    def work(self, who: Present, count: int = 1, text: str = "36") -> int:
        """Let a worker answer so many fields; how many there were."""
        serving = self.serving()
        for done in range(count):
            showing = serving.start(who)
            if showing is None:
                return done
            serving.answer(who, showing.token, Given({"answer": text}))
        return count

    def references(self) -> list[str]:
        """References of the offers at the market, in order."""
        return [f"memory:{key}" for key in self.outside.offers]

    def hand_in(
        self, account: str, number: int = 0, progress: Progress = Progress.SUBMITTED
    ) -> str:
        found = self.outside.take(self.references()[number], account, progress)
        self.collect()
        return found

    def check_books(self) -> None:
        """The budgets are what the payments say, and the lines tell each change."""
        with self.store.read() as tx:
            for purse in rows.budgets(tx):
                own = sql.rows(
                    tx,
                    "SELECT state, amount + fee FROM payment WHERE run_id = ?",
                    [purse.run_id],
                )
                assert purse.taken == sum(n for state, n in own if state in rows.TAKES)
                assert purse.paid == sum(n for state, n in own if state == "paid")
            last = dict(
                sql.rows(
                    tx,
                    "SELECT kind || '-' || about, state FROM payment_event l"
                    " WHERE id = (SELECT max(id) FROM payment_event m"
                    " WHERE m.kind = l.kind AND m.about = l.about)",
                )
            )
        assert last == self.payments()


def many(house: PayingHouse, count: int, first: int = 1, run_id: int = 1) -> list[int]:
    """Load so many records with one field each; the fields."""
    return [
        house.record(n, run_id=run_id, age="36")["age"]
        for n in range(first, first + count)
    ]


def planned(house: PayingHouse, connector: str = "paying", fields: int = 4):
    """Give ann some fields to do."""
    ann = house.account("ann", connector)
    house.plan((ann, many(house, fields)))
    return ann


def try_until_given_up(house: PayingHouse, clock: FakeClock) -> None:
    """Offer, and let the tries of a message that fails pass."""
    house.offer()
    for _ in range(20):
        clock.advance(seconds=4000)
        house.lead()
        house.sending.tick(house.epoch)


def offer_unheard(
    house: PayingHouse, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offer; it arrives, but no answer of the market's does, and it is given up."""

    def publish(self: PayingMarket, offer: Offer) -> NoReturn:
        self.offers[offer.key] = offer
        raise OSError("gone")

    def find(self: PayingMarket, key: str) -> NoReturn:
        raise OSError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(PayingMarket, "publish", publish)
        patch.setattr(PayingMarket, "find", find)
        try_until_given_up(house, clock)


def submitted(house: PayingHouse, **set_: int) -> PayingMarket:
    """Let ann hand in a piece of work of two fields; its market."""
    house.budget(**{"bonus": 12} | set_)
    ann = planned(house)
    house.offer()
    house.work(ann, 2)
    house.hand_in("ann")
    return PayingMarket(house.outside)


def reconcile(house: PayingHouse) -> Drift:
    """Hold the market to what the store knows, and mend."""
    market = house.connectors["paying"]
    stage = Reconciling(house.store, "paying", market, house.clock)
    return stage.reconcile(Mending(mend=True))
