"""The suite that every market must pass that pays its workers itself.

It extends :class:`connectors.testing.suite.MarketContract`; see there how to use it.
"""

# A test's name is its sentence; a docstring would say it twice.
# ruff: noqa: D102

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from connectors.base import (
    ConnectorError,
    Funded,
    Handle,
    Money,
    Pay,
    Paying,
    PayKind,
    Progress,
    Rejected,
    Submission,
)
from connectors.testing.suite import REWARD, Bench, MarketContract, offer_for


class PayingContract(MarketContract):
    """For markets that pay; subclass it and define the fixture ``bench``.

    Attributes
    ----------
    reward : Money
        Reward of the suite's work; overridden for a market with another currency.
    """

    reward: Money = REWARD

    def paying(self, bench: Bench) -> Paying:
        """Open the market under test as one that pays."""
        market = bench.open()
        assert isinstance(market, Paying)
        return market

    def progress(self, bench: Bench, account: str = "ann") -> dict[str, Submission]:
        """Return the account's pieces of work by the offer's reference."""
        pages = self.all_answers(bench)
        submissions = [one for page in pages for one in page.submissions]
        return {one.reference: one for one in submissions if one.account == account}

    def submitted(self, bench: Bench, key: str = "k1") -> tuple[Handle, Submission]:
        """Offer a piece of work that ann accepts and submits."""
        assert bench.submit is not None
        handle = self.put(bench, offer_for(bench.open().manifest, key))
        bench.submit(handle, "ann")
        return handle, self.progress(bench)[handle.reference]

    def pay_for(
        self,
        piece: Submission,
        kind: PayKind = PayKind.REWARD,
        money: Money | None = None,
        key: str = "p1",
    ) -> Pay:
        """Return the payment of a piece of work."""
        return Pay(key, kind, piece.id, piece.reference, piece.account,
                   money or self.reward)  # fmt: skip

    def paid_to(self, bench: Bench, account: str = "ann") -> list[Decimal]:
        """Return the amounts that the market has paid."""
        assert bench.payments is not None
        return bench.payments(account)

    def test_a_balance_is_in_the_currency_that_it_pays_in(self, bench: Bench) -> None:
        """Only of a market that can tell it."""
        market = self.paying(bench)
        if isinstance(market, Funded):
            assert market.balance().currency == self.reward.currency

    def test_the_manifest_says_that_it_pays(self, bench: Bench) -> None:
        assert bench.open().manifest.pays

    def test_an_offer_without_a_reward_is_rejected(self, bench: Bench) -> None:
        offer = offer_for(bench.open().manifest, "k1")
        for reward in (None, Money(Decimal(0), self.reward.currency)):
            with pytest.raises(Rejected):
                self.put(bench, replace(offer, reward=reward))

    def test_a_piece_of_work_is_told_when_it_is_handed_in(self, bench: Bench) -> None:
        handle, piece = self.submitted(bench)
        assert piece.progress is Progress.SUBMITTED
        assert self.progress(bench)[handle.reference] == piece

    def test_what_is_handed_in_is_approved_and_paid_once(self, bench: Bench) -> None:
        handle, piece = self.submitted(bench)
        assert self.paid_to(bench) == []
        assert self.paying(bench).paid(self.pay_for(piece)) is False
        for _ in range(3):
            self.paying(bench).approve(self.pay_for(piece))
        assert self.paid_to(bench) == [REWARD.amount]
        assert self.paying(bench).paid(self.pay_for(piece)) is True
        assert self.progress(bench).get(handle.reference) in (
            None,
            replace(piece, progress=Progress.APPROVED),
        )

    def test_a_bonus_is_paid_besides(self, bench: Bench) -> None:
        _, piece = self.submitted(bench)
        bonus = Money(Decimal("0.36"), self.reward.currency)
        pay = self.pay_for(piece, PayKind.BONUS, bonus, "p2")
        self.paying(bench).approve(self.pay_for(piece))
        assert self.paying(bench).paid(pay) in (False, None)
        self.paying(bench).bonus(pay)
        assert self.paid_to(bench) == [REWARD.amount, bonus.amount]
        assert self.paying(bench).paid(pay) in (True, None)

    def test_a_lost_answer_pays_nothing_twice(self, bench: Bench) -> None:
        if bench.lose_the_answer is None:
            pytest.skip("the bench cannot lose an answer of this connector")
        _, piece = self.submitted(bench)
        reward = self.pay_for(piece)
        bonus = self.pay_for(piece, PayKind.BONUS, key="p2")
        for pay in (reward, bonus):
            with bench.lose_the_answer(), pytest.raises(Exception):  # noqa: B017, PT011
                self._pay(bench, pay)
            if self.paying(bench).paid(pay) is False:
                self._pay(bench, pay)
        assert self.paid_to(bench) == [REWARD.amount, REWARD.amount]

    def _pay(self, bench: Bench, pay: Pay) -> None:
        market = self.paying(bench)
        (market.approve if pay.kind is PayKind.REWARD else market.bonus)(pay)

    def test_what_was_handed_back_is_told_and_never_paid(self, bench: Bench) -> None:
        assert bench.give_up is not None
        handle = self.put(bench, offer_for(bench.open().manifest, "k1"))
        bench.give_up(handle, "ann")
        piece = self.progress(bench).get(handle.reference)
        if piece is None:
            return  # the market forgets it; a later acceptance has its own id
        assert piece.progress is Progress.GONE
        with pytest.raises(Rejected):
            self.paying(bench).approve(self.pay_for(piece))
        assert self.paid_to(bench) == []

    def test_work_that_the_market_does_not_know_is_rejected(self, bench: Bench) -> None:
        _, piece = self.submitted(bench)
        unknown = replace(self.pay_for(piece), submission="never-taken")
        with pytest.raises(Rejected):
            self.paying(bench).approve(unknown)
        assert self.paid_to(bench) == []

    def test_another_currency_pays_nothing(self, bench: Bench) -> None:
        _, piece = self.submitted(bench)
        strange = Money(REWARD.amount, "XTS")
        with pytest.raises(ConnectorError):
            self._pay(bench, self.pay_for(piece, PayKind.BONUS, strange))
        offer = offer_for(bench.open().manifest, "k2")
        with pytest.raises(ConnectorError):
            self.put(bench, replace(offer, reward=strange))
        assert self.paid_to(bench) == []
