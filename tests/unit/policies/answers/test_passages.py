"""Passages of a text and the ranges that they stand for."""

import pytest

from policies.answers.passages import located
from policies.answers.validation import Invalid
from policies.policy import Field

SPANS = Field("parts", ask="spans")


@pytest.mark.parametrize(
    ("raw", "ranges"),
    [
        ("ada", "[[0, 3]]"),
        ("ada\nada", "[[0, 3], [8, 11]]"),
        ("  and \n", "[[4, 7]]"),
        ("0-3; 8-11", "0-3; 8-11"),
        ("[[0, 3]]", "[[0, 3]]"),
        ("[not present]", "[not present]"),
        ("", ""),
    ],
)
def test_passages_become_ranges(raw, ranges):
    assert located(SPANS, raw, "ada and ada") == ranges


def test_a_passage_that_is_not_there_is_told_without_repeating_it():
    wrong = located(SPANS, "grace", "ada and ada")
    assert isinstance(wrong, Invalid)
    assert "grace" not in wrong.reason


def test_a_passage_of_digits_is_looked_for_before_it_is_a_range():
    assert located(SPANS, "2001-02", "born 2001-02-03") == "[[5, 12]]"


def test_spans_of_an_image_stay_as_they_are():
    assert located(SPANS, "0-3", None) == "0-3"
