"""The suite that every market with a listing must pass.

It extends :class:`connectors.testing.suite.MarketContract`; see there how to use it.
"""

# A test's name is its sentence; a docstring would say it twice.
# ruff: noqa: D102

from __future__ import annotations

from contextlib import suppress

from connectors.base import ConnectorError, Listing, Posted
from connectors.testing.suite import Bench, MarketContract, offer_for

_MOST_PAGES = 1000


class ListingContract(MarketContract):
    """For markets with a listing; subclass it and define the fixture ``bench``."""

    def listed(self, bench: Bench) -> list[Posted]:
        """Read all pages."""
        market = bench.open()
        assert isinstance(market, Listing)
        found: list[Posted] = []
        cursor = ""
        for _ in range(_MOST_PAGES):
            page = market.listing(cursor)
            found += page.posted
            cursor = page.cursor
            if not cursor:
                return found
        raise AssertionError("the pages have no end")

    def test_nothing_is_listed_where_nothing_was_offered(self, bench: Bench) -> None:
        assert self.listed(bench) == []

    def test_every_offer_is_listed_once_by_its_key_and_reference(
        self, bench: Bench
    ) -> None:
        manifest = bench.open().manifest
        accounts = ("ann", "bob", "ann", "bob", "ann")
        handles = [
            self.put(bench, offer_for(manifest, f"k{number}", account))
            for number, account in enumerate(accounts)
        ]
        found = {(one.key, one.reference) for one in self.listed(bench) if one.open}
        assert found == {(handle.key, handle.reference) for handle in handles}
        assert len(self.listed(bench)) == len(handles)

    def test_what_was_withdrawn_is_not_listed_as_open(self, bench: Bench) -> None:
        handle = self.put(bench, offer_for(bench.open().manifest, "k1"))
        self.market(bench).withdraw(handle)
        assert not any(one.open for one in self.listed(bench))

    def test_what_is_gone_outside_is_withdrawn_like_any_other(
        self, bench: Bench
    ) -> None:
        super().test_what_is_gone_outside_is_withdrawn_like_any_other(bench)
        assert not any(one.open for one in self.listed(bench))

    def test_a_strange_place_to_go_on_from_is_an_error_of_the_protocol(
        self, bench: Bench
    ) -> None:
        market = bench.open()
        assert isinstance(market, Listing)
        with suppress(ConnectorError):  # refused, or an end
            market.listing("no cursor of yours; 💥")
