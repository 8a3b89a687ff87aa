"""Signed tokens of the task page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.base import Misconfigured, Rejected, Settings, Visit
from connectors.inhouse import CONNECTOR, Inhouse, Ticket, sign
from connectors.tickets import read

KEY = b"k" * 32
NOW = datetime(2026, 5, 6, 7, 8, 9, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


@given(st.text(min_size=1, max_size=60), st.text(min_size=1, max_size=20))
def test_a_token_says_what_was_signed(account, id_):
    if any("\ud800" <= char <= "\udfff" for char in account + id_):
        return
    ticket = Ticket(account, id_, LATER)
    assert read(KEY, sign(KEY, ticket), NOW) == ticket


@given(st.integers(0, 200), st.characters(codec="ascii"))
def test_a_token_with_any_character_changed_is_refused(place, char):
    token = sign(KEY, Ticket("ann", "1", LATER))
    changed = token[: place % len(token)] + char + token[place % len(token) + 1 :]
    if changed != token:
        with pytest.raises(Rejected):
            read(KEY, changed, NOW)


def test_a_token_holds_until_its_moment_and_not_after():
    token = sign(KEY, Ticket("ann", "1", LATER))
    assert read(KEY, token, LATER - timedelta(seconds=1)).account == "ann"
    with pytest.raises(Rejected, match="expired"):
        read(KEY, token, LATER)


def test_forged_and_damaged_tokens_get_one_wording():
    good = sign(KEY, Ticket("ann", "1", LATER))
    told = set()
    for token in ("", "x", good[:-2], good + "AA", "é", sign(b"o" * 32,
                  Ticket("ann", "1", LATER))):  # fmt: skip
        with pytest.raises(Rejected) as caught:
            read(KEY, token, NOW)
        told.add((caught.value.what, caught.value.why))
    assert len(told) == 1


def test_the_key_must_be_long():
    with pytest.raises(Misconfigured, match="31 bytes"):
        Inhouse(b"k" * 31)
    with pytest.raises(Misconfigured, match="does not know"):
        CONNECTOR.open(Settings({"colour": "red"}, secret=KEY))
    with pytest.raises(ValueError, match="expected >= 32"):
        sign(b"short", Ticket("ann", "1", LATER))


def test_the_page_is_opened_by_a_link_only():
    with pytest.raises(Rejected, match="no token"):
        Inhouse(KEY).arrive(Visit(), NOW)


def test_a_ticket_without_account_or_zone_can_not_be_made():
    with pytest.raises(ValueError, match="account and an id"):
        Ticket("", "1", LATER)
    with pytest.raises(ValueError, match="zone"):
        Ticket("ann", "1", datetime(2026, 1, 1))  # noqa: DTZ001
