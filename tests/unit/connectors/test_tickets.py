"""Signed tokens say who may come, until when, and are written in one way only."""

from datetime import UTC, datetime, timedelta

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.base import Misconfigured, Rejected
from connectors.tickets import (
    MAX_TOKEN,
    Ticket,
    check_key,
    opaque,
    read,
    read_claims,
    sign,
    sign_claims,
    token_and_key,
)

KEY, OTHER = bytes(range(32)), bytes(32)
NOW = datetime(2027, 1, 15, tzinfo=UTC)
ANN = Ticket("ann", "7", NOW + timedelta(days=1))


@given(st.text(min_size=1, max_size=40), st.integers(1, 10**6))
def test_what_is_signed_is_read_until_it_expires(account, seconds):
    ticket = Ticket(account, "7", NOW + timedelta(seconds=seconds))
    token = sign(KEY, ticket)
    assert read(KEY, token, NOW) == ticket
    with pytest.raises(Rejected, match="expired"):
        read(KEY, token, ticket.expires)


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "é",
        sign(OTHER, ANN),
        sign(KEY, ANN)[:-1],
        sign(KEY, ANN) + "=",
        sign(KEY, ANN).swapcase(),
        jwt.encode({"sub": "ann", "jti": "7", "exp": 1}, None, algorithm="none"),
        sign_claims(KEY, {"sub": "ann"}),
        sign_claims(KEY, {"sub": "", "jti": "7", "exp": 1}),
        sign_claims(KEY, {"sub": "ann", "jti": "7", "exp": "soon"}),
        sign_claims(KEY, {"sub": "ann", "jti": "7", "exp": 10**30}),
    ],
)
def test_what_is_forged_damaged_or_incomplete_is_not_valid(token):
    with pytest.raises(Rejected, match="not valid"):
        read(KEY, token, NOW)


def test_a_token_has_one_spelling():
    """The last digit of base64 has bits that say nothing; a library reads them all."""
    token = sign(KEY, ANN)
    others = [token[:-1] + last for last in "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"]
    assert [one for one in others if read_claims(KEY, one) and one != token] == []


def test_a_token_that_is_too_long_is_not_looked_at():
    token = sign_claims(KEY, {"sub": "a" * MAX_TOKEN})
    assert read_claims(KEY, token) is None


def test_a_short_key_signs_nothing():
    with pytest.raises(ValueError, match="31 bytes"):
        sign(KEY[:31], ANN)
    with pytest.raises(Misconfigured, match="31 bytes") as caught:
        check_key(KEY[:31], fix="make one")
    assert caught.value.fix == "make one"
    assert check_key(KEY, fix="") == KEY


@pytest.mark.parametrize(("account", "number"), [("", "7"), ("ann", "")])
def test_a_ticket_names_an_account_and_itself(account, number):
    with pytest.raises(ValueError, match="needs"):
        Ticket(account, number, NOW)


def test_a_ticket_expires_in_a_zone():
    with pytest.raises(ValueError, match="zone"):
        Ticket("ann", "7", NOW.replace(tzinfo=None))


def test_an_opaque_word_differs_by_key_and_by_where_parts_end():
    words = {opaque(KEY, "ab", "c"), opaque(KEY, "a", "bc"), opaque(OTHER, "ab", "c")}
    assert len(words) == 3
    assert all(len(word) == 32 and int(word, 16) >= 0 for word in words)


def test_a_secret_of_two_lines_is_a_token_and_a_key():
    assert token_and_key(b"tok\n" + KEY.hex().encode() + b"\n", "x") == ("tok", KEY)


@pytest.mark.parametrize("secret", [b"", b"canary", b"canary\nno hex", b"canary 00 00", b"\xff 00"])  # fmt: skip
def test_a_secret_of_another_shape_is_refused_without_a_word_of_it(secret):
    with pytest.raises(Misconfigured, match="two lines") as caught:
        token_and_key(secret, "x")
    assert "canary" not in str(vars(caught.value)) + str(caught.value)
