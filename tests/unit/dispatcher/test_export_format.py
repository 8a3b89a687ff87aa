"""Exports: what is written comes back, and no other file is taken for one."""

import csv
import io
import json
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.formats.formula_guard import guard
from dispatcher import export_format
from dispatcher.export_format import (
    COLUMNS,
    ExportColumn,
    ExportForm,
    Layout,
    how_written,
    is_export,
    state_of,
    write,
    write_parquet,
)
from dispatcher.stages.intake.opening import GUARDED, open_table
from dispatcher.stages.intake.table import Options

EXPORT = Layout.of(["id", "note"], ["note"])
SIGNS = st.text(alphabet="'=+-@\ta ,\"", max_size=6)


class Entry(NamedTuple):
    """One entry, as the store gives it."""

    value: bytes | None = None
    confidence: float | None = None
    state: str | None = None
    judged_by: str | None = None


def cells_of(layout, loaded, answer):
    """The cells of a record whose one field was answered, as CSV has them."""
    entry = Entry(answer.encode(), 0.5, "answered")
    return tuple("" if c is None else str(c) for c in layout.row(loaded, [entry]))


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
def test_safety_17_every_cell_that_was_guarded_comes_back_exactly(cells):
    """Also cells that began with quotes of their own."""
    rows = [cells_of(EXPORT, [str(i), c], c) for i, c in enumerate(cells)]
    guarded = [tuple(map(guard, row)) for row in rows]
    columns, found, notes = read(written(EXPORT.names, guarded))
    assert (columns, found) == (EXPORT.names, rows)
    assert notes == [GUARDED]


def test_a_column_that_begins_like_a_formula_keeps_its_name():
    layout = Layout.of(["id", "=n"], ["=n"])
    rows = [cells_of(layout, ["1", "-1.5"], "-1.5")]
    data = written(map(guard, layout.names), [map(guard, row) for row in rows])
    assert read(data)[:2] == (layout.names, rows)


def test_a_file_of_somebody_else_is_loaded_as_it_is():
    """There a quote before a sign is part of the cell."""
    _, rows, notes = read(written(("id", "note"), [("1", "'-1.5")]))
    assert rows == [("1", "'-1.5")]
    assert notes == []


def test_the_operator_has_the_last_word():
    theirs = written(("id", "note"), [("1", "'-1.5")])
    assert read(theirs, guarded=True)[1] == [("1", "-1.5")]
    rows = [cells_of(EXPORT, ["1", "'=x"], "'=x")]
    assert read(written(EXPORT.names, rows), guarded=False)[1] == rows


@pytest.mark.parametrize(
    "loaded",
    [["id"], ["id", "a"], ["a_state", "a", "a_"], ["a_answer", "a_confidence"]],
)
def test_an_export_is_known_by_its_last_columns(loaded):
    """Also where loaded columns have their names: these get underscores behind them."""
    names = Layout.of(loaded, ["a"]).names
    assert is_export(names)
    assert not is_export(names[:-2])
    assert not is_export((*names, "later"))
    assert not is_export(names[1 - len(COLUMNS) :])
    assert not is_export((*names[:-1], "b_decided_by"))


LAYOUTS = [
    ("a", "a_confidence", "a_state"),
    ("a", "a_confidence", "a_state", "a_decided_by"),
]
"""The columns of a field, in each layout that versions wrote; the newest last."""


@pytest.mark.parametrize("names", LAYOUTS)
def test_an_export_of_an_earlier_version_is_known(monkeypatch, names):
    """Else the guards of its formulas would be loaded as text."""
    newest = max(column.since for column in COLUMNS)
    added = ExportColumn("workers", state_of, since=newest + 1)
    monkeypatch.setattr(export_format, "COLUMNS", (*COLUMNS, added))
    assert is_export(Layout.of(["id"], ["a"]).names)
    assert is_export(("id", *names))
    assert not is_export(("id", *names[: len(LAYOUTS[0]) - 1]))


def test_the_newest_layout_stands_last():
    """A column that is added has the next ``since``, and its layout a line here."""
    assert Layout.of([], ["a"]).names == LAYOUTS[-1]


NAMES = st.text(alphabet="ab_=", min_size=1, max_size=4)
ENTRIES = st.one_of(
    st.none(),
    st.just(Entry()),
    st.builds(
        Entry,
        st.one_of(
            st.sampled_from([b"[illegible]", b"[not_present]"]), SIGNS.map(str.encode)
        ),
        st.floats(0, 1),
        st.sampled_from(["answered", "conflict"]),
    ),
)


@st.composite
def exports(draw):
    """A layout, and rows of it."""
    layout = Layout.of(
        draw(st.lists(NAMES, min_size=1, max_size=4, unique=True)),
        draw(st.lists(NAMES, min_size=1, max_size=3, unique=True)),
    )
    rows = draw(
        st.lists(st.tuples(*[SIGNS] * len(layout.loaded)), min_size=1, max_size=4)
    )
    return layout, [
        layout.row(cells, [draw(ENTRIES) for _ in layout.added]) for cells in rows
    ]


@given(export=exports())
@settings(max_examples=80)
def test_an_export_is_known_again_and_gives_every_cell_back(export):
    """Whatever the names of loaded columns, and whatever was answered."""
    layout, rows = export
    out = io.BytesIO()
    write(out, "csv", layout.names, rows)
    assert is_export(layout.names)
    columns, found, notes = read(out.getvalue(), encoding="utf-8", delimiter=",")
    assert columns == layout.names
    assert found == [tuple("" if c is None else str(c) for c in row) for row in rows]
    assert notes == [GUARDED]


@given(export=exports())
@settings(max_examples=40)
def test_names_of_an_export_are_one_for_each_column(export):
    layout, rows = export
    assert len(set(layout.names)) == len(layout.names)
    assert all(len(row) == len(layout.names) for row in rows)
    assert len(layout.names) == len(layout.loaded) + len(COLUMNS) * len(layout.added)


@pytest.mark.parametrize(
    ("entry", "cells"),
    [
        (None, ("", None, "empty", "")),
        (Entry(), ("", None, "open", "")),
        (
            Entry(b"gout", 0.91234567, "answered"),
            ("gout", 0.912346, "answered", "consensus"),
        ),
        (Entry(b"gout", 0.5, "conflict"), ("gout", 0.5, "conflict", "consensus")),
        (Entry(b"[illegible]", 0.9, "answered"), ("", 0.9, "illegible", "consensus")),
        (Entry(b"[not_present]", 0.9, "conflict"), ("", 0.9, "conflict", "consensus")),
        (
            Entry(b"gout", 1.0, "answered", "ada"),
            ("gout", None, "answered", "operator"),
        ),
    ],
)
def test_each_state_of_a_field_has_its_cells(entry, cells):
    layout = Layout.of(["id"], ["a"])
    row = dict(zip(layout.names, layout.row(["1"], [entry]), strict=True))
    assert tuple(row.values()) == ("1", *cells)


@pytest.mark.parametrize("name", ["whole", "whole.out", "whole.jsonl", "whole.csv"])
@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_the_form_of_an_export_is_read_from_it(tmp_path, form, name):
    """So that an erasure rewrites it alike, under whatever name it was written."""
    layout = Layout.of(["id"], ["a"])
    rows = [layout.row(["1"], [Entry(b"gout", 0.5, "answered")])]
    path = tmp_path / name
    if form == "parquet":
        lines = tmp_path / "lines"
        with lines.open("wb") as stream:
            write(stream, "jsonl", layout.names, rows)
        write_parquet(path, layout, lines)
    else:
        with path.open("wb") as stream:
            write(stream, form, layout.names, rows)
    assert how_written(path).form == form


@pytest.mark.parametrize("guarded", [True, False])
def test_whether_formulas_are_guarded_is_read_from_an_export(tmp_path, guarded):
    path = tmp_path / "whole.csv"
    layout = Layout.of(["id"], ["a"])
    with path.open("wb") as stream:
        rows = [layout.row(["=1+1"], [Entry(b"gout", 0.5, "answered")])]
        write(stream, "csv", layout.names, rows, guarded=guarded)
    assert how_written(path) == ExportForm("csv", guarded)


def test_json_lines_keep_numbers_and_gaps():
    layout, out = Layout.of(["id"], ["a"]), io.BytesIO()
    rows = [
        layout.row(["1"], [Entry(b"gout", 0.5, "answered")]),
        layout.row(["2"], [None]),
    ]
    write(out, "jsonl", layout.names, rows)
    first, second = [json.loads(line) for line in out.getvalue().splitlines()]
    assert tuple(first) == tuple(second) == layout.names
    assert (first["id"], first["a"], first["a_confidence"]) == ("1", "gout", 0.5)
    assert (second["id"], second["a"], second["a_confidence"]) == ("2", "", None)
    assert (first["a_state"], second["a_state"]) == ("answered", "empty")


@pytest.mark.parametrize("sign", ["\x85", "\u2028", "\u2029"])
def test_a_line_of_json_has_no_other_end_of_line_within(sign):
    """Readers that split at any end of line find the same rows."""
    layout, out = Layout.of(["id"], ["a"]), io.BytesIO()
    said = f"one{sign}two"
    write(
        out,
        "jsonl",
        layout.names,
        [layout.row([said], [Entry(said.encode(), 0.5, "answered")])],
    )
    (line,) = out.getvalue().decode().splitlines()
    assert json.loads(line)["a"] == json.loads(line)["id"] == said


@pytest.mark.parametrize(
    "how",
    [ExportForm("csv", True), ExportForm("csv", False), ExportForm("jsonl", False)],
)
def test_an_export_with_a_long_cell_tells_how_it_was_written(tmp_path, how):
    """Else an erasure could not write it anew, and its values would stay."""
    limit = csv.field_size_limit(131_072)  # as the interpreter begins
    file = tmp_path / "export"
    row = EXPORT.row(["1", "x" * (1 << 20)], [Entry(b"=1", 0.5, "answered")])
    try:
        with file.open("wb") as stream:
            write(stream, how.form, EXPORT.names, [row], guarded=how.guarded)
        assert how_written(file) == how
    finally:
        csv.field_size_limit(limit)


def test_what_is_no_csv_any_more_is_written_anew_as_guarded_csv(tmp_path):
    file = tmp_path / "export.csv"
    file.write_text("id,note\n" + "x" * (1 << 23))
    assert how_written(file) == ExportForm("csv", guarded=True)
