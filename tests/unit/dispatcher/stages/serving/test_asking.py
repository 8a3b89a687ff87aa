"""From a policy's field to a form and back to an answer."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.stages.serving.asking import asked, compose, final, spread
from policies.answers import Invalid
from policies.document.policy import Field

TABLE = Field("lines", ask="table", columns=("drug", "dose"))
SPANS = Field("parts", ask="spans")
NAME = Field("name", ask="transcribe")


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (None, None, ""),
        (Fraction(0), Fraction(130), "From 0 to 130"),
        (Fraction("-0.25"), None, "At least -0.25"),
        (None, Fraction("1000000.5"), "At most 1000000.5"),
    ],
)
def test_the_range_of_a_number_is_told_exactly(low, high, words):
    field = Field("age", ask="number", minimum=low, maximum=high)
    assert asked(field).range == words


def test_the_operators_words_come_before_ours():
    assert asked(Field("x", ask="yes_no", question="Signed?")).question == "Signed?"
    assert asked(NAME).question == "Type exactly what you see"


def test_a_table_has_room_below_what_was_typed():
    assert asked(TABLE).rows == 6
    draft = compose(TABLE, {f"cell-{row}-0": "x" for row in range(9)})
    assert asked(TABLE, draft).rows == 9 + 2


@given(
    st.lists(
        st.tuples(st.text(min_size=1, max_size=9), st.text(max_size=9)), max_size=5
    )
)
def test_a_table_comes_back_as_it_was_typed(rows):
    form = {
        f"cell-{r}-{c}": text
        for r, row in enumerate(rows)
        for c, text in enumerate(row)
    }
    assert spread(TABLE, compose(TABLE, form)) == form


@pytest.mark.parametrize("raw", ["", "x", "{}", "[1]", "[[1]]", "[" * 5000])
def test_a_draft_that_is_no_table_fills_no_cell(raw):
    assert spread(TABLE, raw) == {}


def test_cells_outside_the_table_are_left_out():
    form = {"cell-0-2": "x", "cell-999-0": "x", "cell-a-0": "x", "other": "x"}
    assert compose(TABLE, form) == ""


def test_lines_end_alike_from_every_browser():
    assert compose(NAME, {"answer": "a\r\nb"}) == "a\nb"


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
    assert final(SPANS, raw, "ada and ada") == ranges


def test_a_passage_that_is_not_there_is_told_without_repeating_it():
    wrong = final(SPANS, "grace", "ada and ada")
    assert isinstance(wrong, Invalid)
    assert "grace" not in wrong.reason


def test_a_passage_of_digits_is_looked_for_before_it_is_a_range():
    assert final(SPANS, "2001-02", "born 2001-02-03") == "[[5, 12]]"


def test_spans_of_an_image_stay_as_they_are():
    assert final(SPANS, "0-3", None) == "0-3"
