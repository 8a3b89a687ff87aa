"""Signed sessions and what hangs on them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.surfaces.taskpage.sessions import Session, TokenSigner

SEALS = TokenSigner(b"k" * 32)
SESSION = Session.open(7, 2, 1_000)


def test_a_session_survives_the_cookie():
    assert SEALS.read(SEALS.write(SESSION), now=999) == SESSION


def test_a_session_ends_at_its_moment():
    assert SEALS.read(SEALS.write(SESSION), now=1_000) is None


def test_another_store_does_not_read_it():
    assert TokenSigner(b"x" * 32).read(SEALS.write(SESSION), now=0) is None


@given(st.integers(0, 300), st.characters(codec="ascii"))
def test_no_changed_character_passes(place, char):
    cookie = SEALS.write(SESSION)
    place %= len(cookie)
    changed = cookie[:place] + char + cookie[place + 1 :]
    assert changed == cookie or SEALS.read(changed, now=0) is None


@pytest.mark.parametrize("text", ["", "é", "a", "====", "a" * 5000])
def test_rubbish_is_no_session(text):
    assert SEALS.read(text, now=0) is None


def test_every_arrival_has_an_id_of_its_own():
    ids = {Session.open(7, 2, 1).id for _ in range(100)}
    assert len(ids) == 100
    assert all(len(one) == 16 for one in ids)


def test_a_form_token_fits_its_session_only():
    other = Session.open(7, 2, 1_000)
    assert SEALS.form_fits(SESSION, SEALS.form_token(SESSION))
    assert not SEALS.form_fits(other, SEALS.form_token(SESSION))
    assert not SEALS.form_fits(SESSION, "")
    assert not SEALS.form_fits(SESSION, "é")


def test_a_crop_id_is_of_one_session_and_one_task():
    other = Session.open(7, 2, 1_000)
    ids = {SEALS.crop_id(s, task) for s in (SESSION, other) for task in (1, 2)}
    assert len(ids) == 4
    assert SEALS.crop_id(SESSION, 1) == SEALS.crop_id(SESSION, 1)
