"""Token buckets: of visitors to our pages, and of connectors."""

import pytest

from dispatcher.core.rate_limit import Rate, RateLimiter, network_of

SECOND = 1_000_000


def test_a_burst_passes_and_then_the_rate_holds():
    limiter = RateLimiter(Rate(per_minute=60, burst=2))
    assert [limiter.wait("ann", 0) for _ in range(3)] == [0, 0, 1]
    assert limiter.wait("ann", SECOND) == 0
    assert limiter.wait("ann", SECOND) == 1


def test_callers_do_not_wait_for_one_another():
    limiter = RateLimiter(Rate(per_minute=1, burst=1))
    assert limiter.wait("ann", 0) == 0
    assert limiter.wait("bob", 0) == 0
    assert limiter.wait("ann", 0) == 60


def test_a_clock_that_goes_back_gives_nothing_away():
    limiter = RateLimiter(Rate(per_minute=60, burst=1))
    assert limiter.wait("ann", 10 * SECOND) == 0
    assert limiter.wait("ann", 5 * SECOND) == 1


def test_only_so_many_callers_are_remembered(monkeypatch):
    monkeypatch.setattr("dispatcher.core.rate_limit._REMEMBERED", 2)
    limiter = RateLimiter(Rate(per_minute=1, burst=1))
    for caller in ("ann", "bob", "cat"):
        assert limiter.wait(caller, 0) == 0
    assert limiter.wait("cat", 0) > 0
    assert limiter.wait("ann", 0) == 0  # forgotten


def test_what_is_spent_at_once_is_earned_back_before_anything_is_available():
    limiter = RateLimiter(Rate(per_minute=60, burst=5))
    limiter.spend("market", 7, 0)
    assert limiter.available("market", 2 * SECOND) == 0
    assert limiter.available("market", 3 * SECOND) == 1
    assert limiter.available("market", 60 * SECOND) == 5


@pytest.mark.parametrize("name", ["per_minute", "burst"])
def test_a_rate_below_one_is_refused(name):
    with pytest.raises(ValueError, match=f"{name} is 0"):
        Rate(**{"per_minute": 1, "burst": 1, name: 0})


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:aaaa::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::ffff", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("testclient", "testclient"),
    ],
)
def test_safety_44_one_subscriber_is_one_caller_with_all_addresses(address, network):
    assert network_of(address) == network
