"""The formula guard: taken from what reassemble wrote, and from nothing else."""

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.formats.formula_guard import guard
from dispatcher.stages.intake.guarding import NOTE, is_reassembled
from dispatcher.stages.intake.opening import open_table
from dispatcher.stages.intake.table import Options

HEADER = ("id", "note", "note_answer", "note_confidence", "note_state")
SIGNS = st.text(alphabet="'=+-@\ta ,\"", max_size=6)


def written(header, rows):
    out = io.StringIO(newline="")
    csv.writer(out).writerows([header, *rows])
    return out.getvalue().encode()


def read(data, **options):
    with open_table(io.BytesIO(data), Options(**options), name="whole.csv") as table:
        rows = [tuple(row) for batch in table.batches for row in batch.rows]
        return table.columns, rows, table.facts.notes


@given(cells=st.lists(SIGNS, min_size=1, max_size=5))
@settings(max_examples=60)
def test_every_cell_that_was_guarded_comes_back_exactly(cells):
    """Also cells that began with quotes of their own."""
    rows = [(str(i), c, c, "0.5", "answered") for i, c in enumerate(cells)]
    guarded = [tuple(map(guard, row)) for row in rows]
    columns, found, notes = read(written(HEADER, guarded))
    assert (columns, found) == (HEADER, rows)
    assert notes == [NOTE]


def test_a_column_that_begins_like_a_formula_keeps_its_name():
    header = ("id", "=n", "=n_answer", "=n_confidence", "=n_state")
    rows = [("1", "-1.5", "", "", "open")]
    data = written(map(guard, header), [map(guard, row) for row in rows])
    assert read(data)[:2] == (header, rows)


def test_a_file_of_somebody_else_is_loaded_as_it_is():
    """There a quote before a sign is part of the cell."""
    _, rows, notes = read(written(("id", "note"), [("1", "'-1.5")]))
    assert rows == [("1", "'-1.5")]
    assert notes == []


def test_the_operator_has_the_last_word():
    theirs = written(("id", "note"), [("1", "'-1.5")])
    assert read(theirs, guarded=True)[1] == [("1", "-1.5")]
    ours = written(HEADER, [("1", "'=x", "'=x", "1.0", "answered")])
    assert read(ours, guarded=False)[1] == [("1", "'=x", "'=x", "1.0", "answered")]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (("id", "a", "a_confidence", "a_state"), True),
        (("id", "a", "a_answer", "a_confidence", "a_state"), True),
        (("a_state", "a", "a_", "a_confidence", "a_state_"), True),
        (("id", "a_confidence", "a_state"), False),
        (("a", "a_confidence", "a_state", "later"), False),
        (("a", "b_confidence", "b_state"), False),
        (("a_state",), False),
    ],
)
def test_the_shape_of_a_reassembled_file(columns, expected):
    assert is_reassembled(columns) is expected
