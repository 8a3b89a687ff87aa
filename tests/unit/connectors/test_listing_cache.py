"""Names at a market that has no look-up by name: listed as seldom as may be."""

from __future__ import annotations

import pytest

from connectors.listing_cache import OVERLAP, Index


class Market:
    """A list of (name, id) with a count of what was read of it."""

    def __init__(self, *lying, newest_first=False):
        self.lying = list(lying)
        self.read = 0
        self.now = 0.0
        self.index = Index(
            self.all, newest_first=newest_first, fresh=60, clock=lambda: self.now
        )

    def all(self):
        for one in self.lying:
            self.read += 1
            yield one


def test_all_is_listed_once_for_names_that_are_there_and_that_are_not():
    market = Market(("a", "1"), ("b", "2"))
    assert market.index.find("a") == ["1"]
    assert market.index.find("z") == []
    assert market.index.find("b") == ["2"]
    assert market.read == 2


def test_what_others_made_is_seen_after_a_while():
    market = Market(("a", "1"))
    assert market.index.find("b") == []
    market.lying.append(("b", "2"))
    assert market.index.find("b") == []
    market.now = 60
    assert market.index.find("b") == ["2"]


def test_what_was_made_here_is_known_without_asking():
    market = Market()
    market.index.find("a")
    with market.index.making("a") as made:
        made("1")
    market.now = 1000
    assert market.index.find("a") == ["1"]


def test_nothing_is_kept_of_what_is_gone():
    market = Market(("a", "1"), ("a", "2"))
    market.index.find("a")
    market.index.drop("a", "1")
    assert market.index.find("a") == ["2"]
    market.index.drop("a", "2")
    assert market.index.find("a") == []
    assert not market.index._known


def test_after_an_unknown_outcome_the_market_is_asked_at_once():
    market = Market()
    market.index.find("a")

    def answer_lost():
        with market.index.making("a"):
            market.lying.append(("a", "1"))
            raise TimeoutError

    with pytest.raises(TimeoutError):
        answer_lost()
    assert market.index.find("a") == ["1"]


def test_what_is_gone_is_looked_for_again_when_the_list_is_old():
    market = Market(("a", "1"))
    market.index.find("a")
    market.index.drop("a", "1")
    market.lying = [("a", "2")]
    assert market.index.find("a") == []
    market.now = 60
    assert market.index.find("a") == ["2"]


def test_two_of_one_name_are_both_told():
    assert Market(("a", "1"), ("a", "2")).index.find("a") == ["1", "2"]


def test_of_a_list_with_the_newest_first_only_what_is_new_is_read_again():
    lying = [(f"n{n}", str(n)) for n in range(10 * OVERLAP)]
    market = Market(*lying, newest_first=True)
    market.index.find("n5")
    market.read, market.now = 0, 60
    market.lying[:0] = [("new", "x")]
    assert market.index.find("new") == ["x"]
    assert market.read == OVERLAP + 1


def test_a_list_that_breaks_off_counts_for_nothing():
    market = Market(("a", "1"), ("b", "2"))
    honest = market.all

    def broken():
        yield next(honest())
        raise TimeoutError

    market.index = Index(lambda: broken() if market.read < 1 else honest())
    with pytest.raises(TimeoutError):
        market.index.find("b")
    assert market.index.find("b") == ["2"]
