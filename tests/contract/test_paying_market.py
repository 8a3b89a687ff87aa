"""The suite of markets that pay holds for the market that the tests work with."""

import pytest

from connectors.base import Progress
from connectors.testing.payment_suite import PayingContract
from connectors.testing.suite import Bench
from tests.contract.paying_market import Outside, PayingMarket, losing


class TestPayingMarket(PayingContract):
    @pytest.fixture
    def bench(self) -> Bench:
        outside = Outside()

        def act(progress: Progress):
            return lambda handle, who: outside.take(handle.reference, who, progress)

        return Bench(
            open=lambda: PayingMarket(outside),
            seen=lambda _: b"",
            submit=act(Progress.SUBMITTED),
            give_up=act(Progress.GONE),
            payments=PayingMarket(outside).paid_to,
            lose_the_answer=lambda: losing(outside),
        )
