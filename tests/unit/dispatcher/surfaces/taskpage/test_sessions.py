"""What hangs on the cookies of a browser."""

import pytest

from dispatcher.surfaces.taskpage.sessions import PageKeys

KEYS = PageKeys(b"k" * 32)


def test_a_form_token_fits_its_cookie_only():
    token = KEYS.form_token("one")
    assert KEYS.form_fits("one", token)
    assert not KEYS.form_fits("two", token)
    assert not KEYS.form_fits("one", "")
    assert not KEYS.form_fits("one", "é")
    assert not PageKeys(b"x" * 32).form_fits("one", token)


@pytest.mark.parametrize("cookie", ["é", "\udcff", "a" * 5000])
def test_any_cookie_has_a_token_of_its_own(cookie):
    assert KEYS.form_fits(cookie, KEYS.form_token(cookie))


def test_without_a_cookie_no_form_fits():
    assert not KEYS.form_fits("", KEYS.form_token(""))


def test_a_crop_id_is_of_one_session_and_one_task():
    ids = {KEYS.crop_id(cookie, task) for cookie in ("one", "two") for task in (1, 2)}
    assert len(ids) == 4
    assert KEYS.crop_id("one", 1) == KEYS.crop_id("one", 1)
