"""Walls are tried from the outside: what lets somebody in is told."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from connectors.base import (
    Arrival,
    Identity,
    Rejected,
    Stranger,
    Wall,
)
from connectors.inhouse import Inhouse
from connectors.isolation import try_claims, try_content, try_links
from connectors.testing.hostile import Memory

NOW = datetime(2026, 1, 2, tzinfo=UTC)
LINK = "https://tasks.example.test/"


def broken(tries):
    return [one.finding for one in tries if not one.held]


def test_our_own_task_page_lets_nobody_in_without_a_signed_link():
    page = Inhouse(b"k" * 32)
    claims = list(try_claims(page.arrive, "bob", NOW))
    links = list(try_links(page.arrive, page.invite, "ann", "bob", NOW))
    content = list(try_content(page.publish, page.withdraw, "ann", LINK))
    assert broken([*claims, *links, *content]) == []
    assert len(claims) > 7
    assert len(links) > 5
    assert [one.wall for one in content] == [Wall.CONTENT]


def test_a_market_that_believes_a_name_in_the_address_is_told():
    def arrive(visit, now):
        name = visit.parameters.get("workerId")
        if not name:
            raise Rejected("nobody")
        return Arrival(name, Identity.SIGNED)

    told = broken(try_claims(arrive, "bob", NOW))
    assert any("a bare workerId was let in, and it is called proven" in t for t in told)
    assert not any("no proof" in one for one in told)


def test_a_preview_of_nothing_is_no_leak():
    def arrive(visit, now):
        return Arrival("", Identity.UNSIGNED, preview=True)

    assert broken(try_claims(arrive, "bob", NOW)) == []


def test_links_that_nobody_checks_are_told():
    def invite(account, ticket, expires):
        return f"v1.{account}.mac-{account}"

    def arrive(visit, now):
        return Arrival(visit.parameters["token"].split(".")[1], Identity.SIGNED)

    told = broken(try_links(arrive, invite, "ann", "bob", NOW))
    assert any("too late" in one for one in told)
    assert any("a part of another worker's" in one for one in told)
    assert "opening a link that was made up makes it fail: IndexError" in told


def test_a_market_that_would_end_the_program_is_told():
    def arrive(visit, now):
        raise SystemExit(0)

    told = broken(try_claims(arrive, "bob", NOW))
    assert "arriving with no proof makes it fail: SystemExit" in told


def test_a_page_to_which_nobody_can_come_is_told_too():
    def arrive(visit, now):
        raise Rejected("closed")

    def invite(account, ticket, expires):
        return "a.b"

    told = broken(try_links(arrive, invite, "ann", "bob", NOW))
    assert told == ["the worker's own link opens as that worker"]


def test_a_market_that_takes_content_which_must_stay_home_is_told_and_cleaned():
    market = Memory()
    told = broken(try_content(market.publish, market.withdraw, "ann", LINK))
    assert told == ["offering content that must stay home"]
    assert set(market.offers) == market.withdrawn


def test_a_password_is_in_no_representation():
    assert "hunter2" not in repr(Stranger("bob", "hunter2"))
    with pytest.raises(ValueError, match="account"):
        Stranger("")
