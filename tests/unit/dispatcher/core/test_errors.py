"""Errors: a code, a page and an exit status for each, and nothing left unsaid."""

import inspect
import re

import pytest

from dispatcher.core import errors
from dispatcher.core.errors import PAGES, DispatcherError, Refused

CLASSES = [
    found
    for _, found in inspect.getmembers(errors, inspect.isclass)
    if issubclass(found, DispatcherError)
]
STATUSES = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}


def test_codes_are_e_and_three_digits_each_of_one_class():
    codes = [found.code for found in CLASSES]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"E\d{3}", code) for code in codes)


@pytest.mark.parametrize("found", CLASSES, ids=lambda c: c.code)
def test_every_error_has_a_page_and_a_documented_exit_status(found):
    page = PAGES[found.code]
    assert page.startswith(f"{found.code}: ")
    assert len(page.splitlines()) >= 3
    assert found.exit_status in STATUSES
    assert found.__doc__


def test_no_page_is_of_a_code_that_does_not_exist():
    assert set(PAGES) == {found.code for found in CLASSES}


def test_exit_statuses_are_those_that_are_promised():
    assert sorted(STATUSES) == [1, 2, 3, *range(5, 15), 75, 130]  # 4: for a sign-in


def test_facts_are_the_errors_own_copy():
    facts = {"value": 1}
    error = Refused("no", facts=facts)
    facts["value"] = 2
    assert error.facts == {"value": 1}
    assert str(error) == "no"
