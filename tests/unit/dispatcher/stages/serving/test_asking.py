"""From a policy's field to a form and back to an answer."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.stages.serving.asking import asked, compose, spread
from policies.policy import Field

TABLE = Field("lines", ask="table", columns=("drug", "dose"))
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
    assert asked(NAME).question == "Name: type exactly what you see"


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
