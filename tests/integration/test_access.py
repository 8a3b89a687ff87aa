"""One-time links and sessions: what opens the console, for how long, and what does not."""

import threading

import pytest

from dispatcher import access
from tests import sql

MINUTE = 60


@pytest.fixture
def opened(store, clock):
    """The secret of a session that was just opened."""
    return access.sign_in_by_link(store, access.make_link(store, clock()), clock())


def test_safety_1_a_link_opens_a_session_once(store, clock):
    link = access.make_link(store, clock())
    session = access.sign_in_by_link(store, link, clock())
    assert access.authenticate_session(store, session, clock()) is not None
    assert access.sign_in_by_link(store, link, clock()) is None


def test_safety_1_a_link_is_over_after_ten_minutes(store, clock):
    early, late = access.make_link(store, clock()), access.make_link(store, clock())
    clock.advance(10 * MINUTE - 1)
    assert access.sign_in_by_link(store, early, clock()) is not None
    clock.advance(1)
    assert access.sign_in_by_link(store, late, clock()) is None


def test_a_link_opens_nothing_before_it_was_made(store, clock):
    link = access.make_link(store, clock())
    assert access.sign_in_by_link(store, link, clock() - 1) is None


@pytest.mark.parametrize("secret", ["", "x", "x" * 43, "x" * 1000, "\ud800", "é" * 9])
def test_what_is_no_secret_opens_nothing(store, clock, secret):
    access.make_link(store, clock())
    assert access.sign_in_by_link(store, secret, clock()) is None
    assert access.authenticate_session(store, secret, clock()) is None


def test_safety_4_secrets_have_256_bits_and_are_kept_as_digests_alone(
    store, clock, opened
):
    link = access.make_link(store, clock())
    assert len(link) == len(opened) == 43
    with store.read() as tx:
        kept = str(sql.rows(tx, "SELECT * FROM sign_in_link"))
        kept += str(sql.rows(tx, "SELECT * FROM operator_session"))
        kept += str(sql.rows(tx, "SELECT actor, action, detail FROM event"))
    assert link not in kept
    assert opened not in kept


def test_a_link_is_no_session_and_a_session_no_link(store, clock, opened):
    assert (
        access.authenticate_session(store, access.make_link(store, clock()), clock())
        is None
    )
    assert access.sign_in_by_link(store, opened, clock()) is None


def test_safety_4_a_session_ends_after_half_an_hour_without_a_look(
    store, clock, opened
):
    for _ in range(4):
        clock.advance(29 * MINUTE)
        assert access.authenticate_session(store, opened, clock()) is not None
    clock.advance(30 * MINUTE)
    assert access.authenticate_session(store, opened, clock()) is None


def test_what_a_page_asks_by_itself_keeps_no_session_alive(store, clock, opened):
    for _ in range(29):
        clock.advance(MINUTE)
        assert (
            access.authenticate_session(store, opened, clock(), acting=False)
            is not None
        )
    clock.advance(MINUTE)
    assert access.authenticate_session(store, opened, clock()) is None


def test_safety_4_a_session_ends_after_twelve_hours_in_any_case(store, clock, opened):
    for _ in range(12 * 3 - 1):
        clock.advance(20 * MINUTE)
        assert access.authenticate_session(store, opened, clock()) is not None
    clock.advance(20 * MINUTE)
    assert access.authenticate_session(store, opened, clock()) is None


def test_safety_4_signing_out_ends_the_session_in_the_store(store, clock, opened):
    other = access.sign_in_by_link(store, access.make_link(store, clock()), clock())
    access.sign_out(store, opened, clock())
    assert access.authenticate_session(store, opened, clock()) is None
    assert access.authenticate_session(store, other, clock()) is not None


def test_everybody_is_signed_out_and_no_link_is_left(store, clock, opened):
    link = access.make_link(store, clock())
    assert access.sign_everybody_out(store, clock()) == 1
    assert access.authenticate_session(store, opened, clock()) is None
    assert access.sign_in_by_link(store, link, clock()) is None


def test_a_clock_set_back_before_the_session_ends_it(store, clock, opened):
    assert access.authenticate_session(store, opened, clock() - 1) is None


def test_a_form_token_is_of_its_session(store, clock, opened):
    other = access.sign_in_by_link(store, access.make_link(store, clock()), clock())
    one = access.authenticate_session(store, opened, clock())
    two = access.authenticate_session(store, other, clock())
    assert one.sent(one.form_token)
    assert not one.sent(two.form_token)
    assert not one.sent("é")


def test_of_many_at_once_one_alone_uses_the_link(store, clock):
    link = access.make_link(store, clock())
    found = []

    def use():
        found.append(access.sign_in_by_link(store, link, clock()))

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(session is not None for session in found) == 1


def test_safety_31_who_signed_in_and_out_is_in_the_audit_log(store, clock, opened):
    access.sign_out(store, opened, clock())
    with store.read() as tx:
        rows = sql.rows(tx, "SELECT actor, action FROM event ORDER BY id")
    assert [action for _, action in rows] == [
        "console.link",
        "console.sign-in",
        "console.sign-out",
    ]
    assert rows[1][0] == rows[2][0]
    assert rows[1][0].startswith("console:")


def test_links_and_sessions_of_last_month_are_forgotten(store, clock, opened):
    clock.advance(31 * 86_400)
    access.make_link(store, clock())
    with store.read() as tx:
        assert sql.value(tx, "SELECT count(*) FROM operator_session") == 0
        assert sql.value(tx, "SELECT count(*) FROM sign_in_link") == 1
