"""CSV and TSV: every cell exactly as written, or its row refused by line."""

import csv
import io
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.core.errors import Invalid
from dispatcher.stages.intake.opening import open_table
from dispatcher.stages.intake.table import MAX_CELL, FileFormat, Options, RejectedRow


def read(data, *, name="a.csv", **options):
    """Columns, rows, lines, rejects of bytes."""
    if isinstance(data, str):
        data = data.encode()
    with open_table(io.BytesIO(data), Options(**options), name=name) as table:
        batches = list(table.batches)
    return (
        table.columns,
        [tuple(row) for batch in batches for row in batch.rows],
        [line for batch in batches for line in batch.lines],
        [r for batch in batches for r in batch.rejected],
    )


def rows(data, **options):
    return read(data, **options)[1]


def test_cells_stay_exactly_as_written():
    text = 'id,zip,n\n1,00501,1.50\n2, 0 ,"say ""hi"", ok"\n'
    columns, cells, lines, rejected = read(text)
    assert columns == ("id", "zip", "n")
    assert cells == [("1", "00501", "1.50"), ("2", " 0 ", 'say "hi", ok')]
    assert lines == [2, 3]
    assert rejected == []


def test_line_ends_inside_quotes_are_kept_and_lines_counted_over_them():
    text = 'a,b\r\n1,"x\r\ny\nz"\r\n2,w\r\n3\r\n'
    _, cells, lines, rejected = read(text)
    assert cells == [("1", "x\r\ny\nz"), ("2", "w")]
    assert lines == [2, 5]
    assert rejected == [RejectedRow(6, "", "1 columns, expected 2")]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_any_line_end_will_do(end):
    assert rows(f"a,b{end}1,2{end}3,4{end}") == [("1", "2"), ("3", "4")]


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(mark):
    text = f"name{mark}note\nann{mark}x.y\nbob{mark}z w\n"
    assert rows(text) == [("ann", "x.y"), ("bob", "z w")]


def test_a_semicolon_file_with_decimal_commas_is_cut_at_the_semicolons():
    assert rows("id;a;b\n1;1,5;2,5\n2;3,5;4,5\n") == [
        ("1", "1,5", "2,5"),
        ("2", "3,5", "4,5"),
    ]


def test_a_decimal_comma_and_a_comma_of_prose_cut_nothing():
    """Both signs cut every row in two; only one of them stands like a delimiter."""
    text = "kunde;betrag, netto\nA;1,50\nB;2,75\n"
    columns, cells, _, _ = read(text)
    assert columns == ("kunde", "betrag, netto")
    assert cells == [("A", "1,50"), ("B", "2,75")]


@pytest.mark.parametrize(
    "text",
    [
        "a,b;c\n1,2;3\n",
        "id;name,age\n1;ann,5\n2;bob,6\n",
        "a|b,c\n",
        "a, b; c\n1, 2; 3\n",
    ],
)
def test_where_two_delimiters_cut_equally_well_the_operator_is_asked(text):
    with pytest.raises(Invalid, match="delimiter of the file is uncertain") as caught:
        read(text)
    assert "--delimiter" in caught.value.fix


def test_a_tie_is_none_where_the_name_of_the_file_says_tabs():
    assert rows("a,b\tc\n1,2\t3\n", name="a.tsv") == [("1,2", "3")]


@pytest.mark.parametrize("codec", ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le"])
@pytest.mark.parametrize("marks", [1, 2, 3])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt"])
def test_marks_at_the_beginning_name_no_column(codec, marks, name):
    mark = "\ufeff".encode(codec)
    data = mark * marks + "id\tname, first\r\n1\tZoë, K\r\n".encode(codec)
    columns, cells, _, _ = read(data, name=name)
    assert (columns, cells) == (("id", "name, first"), [("1", "Zoë, K")])


def test_a_mark_inside_the_file_is_refused_by_row():
    one = "id,name\n1,Zoë\n".encode("utf-8-sig")
    _, cells, _, rejected = read(one + one)
    assert cells == [("1", "Zoë"), ("1", "Zoë")]
    assert [(r.line, r.column) for r in rejected] == [(3, "id")]
    assert "files joined" in rejected[0].reason


def test_the_operators_delimiter_holds():
    assert rows("a;b,c\n1;2,3\n", delimiter=",") == [("1;2", "3")]


def test_a_word_is_no_delimiter():
    with pytest.raises(Invalid, match="no delimiter"):
        read("a,b\n1,2\n", delimiter="::")


def test_a_spreadsheets_sep_line_is_obeyed_and_no_header():
    columns, cells, lines, _ = read("sep=;\r\na;b\r\n1;2,0\r\n")
    assert (columns, cells, lines) == (("a", "b"), [("1", "2,0")], [3])


def test_one_column_needs_no_delimiter():
    assert rows("name\nann\nbob\n") == [("ann",), ("bob",)]


def test_blank_lines_hold_nothing():
    assert rows("\n\na,b\n\n1,2\n\n") == [("1", "2")]


def test_a_header_wider_than_its_rows_is_no_table():
    with pytest.raises(Invalid, match="no table") as caught:
        read("a\tb\tc\n1\t2\n3\t4\n5\t6\n", name="a.tsv")
    assert "by tabs the first row has 3, the next ones mostly 2" in caught.value.why


def test_prose_is_no_table_but_a_csv_with_mostly_ragged_rows_is():
    text = "Dear all, hello\nthis is a letter\nof three\nlines, you see\n"
    with pytest.raises(Invalid, match="no table"):
        read(text, name="a.txt")
    _, cells, _, rejected = read(text, name="a.csv")
    assert cells == [("lines", " you see")]
    assert len(rejected) == 2


def test_ragged_rows_are_refused_one_by_one():
    text = "a,b\n1,2\n3\n4,5,6\n7,8\n9,10\n"
    _, cells, _, rejected = read(text)
    assert cells == [("1", "2"), ("7", "8"), ("9", "10")]
    assert [(r.line, r.reason) for r in rejected] == [
        (3, "1 columns, expected 2"),
        (4, "3 columns, expected 2"),
    ]


def test_nul_and_undecodable_bytes_cost_their_row_only():
    good = "é,ü\n" * 30
    data = b"a,b\n1,x\0y\n2,\xff\xfe\n3,ok\n" + good.encode()
    _, cells, _, rejected = read(data)
    assert cells[0] == ("3", "ok")
    assert len(cells) == 31
    assert [(r.line, r.column) for r in rejected] == [(2, "b"), (3, "b")]
    assert "NUL" in rejected[0].reason
    assert "not text" in rejected[1].reason


def test_a_stray_quote_that_never_closes_costs_one_row():
    text = 'a,b\n1,"open\n2,x\n3,y\n'
    _, cells, lines, rejected = read(text)
    assert cells == [("2", "x"), ("3", "y")]
    assert lines == [3, 4]
    assert rejected == [RejectedRow(2, "", "a quote opens here and is never closed")]


def test_two_stray_quotes_at_the_end_cost_two_rows():
    _, cells, lines, rejected = read('a,b\n1,"o\n2,x\n3,"p"q\n4,y\n')
    # The quote of line 2 closes at the one of line 4, where junk follows.
    assert cells == [("4", "y")]
    assert lines == [5]
    assert [r.line for r in rejected] == [2]
    assert "(lines 2 to 4)" in rejected[0].reason


def test_junk_after_a_closing_quote_is_refused_not_repaired():
    _, cells, _, rejected = read('a,b\n1,"x"y\n2,z\n')
    assert cells == [("2", "z")]
    assert rejected[0].line == 2


def test_a_cell_over_size_is_refused_and_not_quoted_in_the_reason():
    _, cells, _, rejected = read("a,b\n1," + "x" * (MAX_CELL + 1) + "\n2,y\n")
    assert cells == [("2", "y")]
    assert rejected[0].line == 2
    assert "xx" not in rejected[0].reason


def test_reading_stops_where_a_quote_swallows_the_file():
    text = 'a,b\n1,ok\n2,"' + "x,y\n" * (MAX_CELL // 4 + 1) + '"\n'
    with (
        open_table(io.BytesIO(text.encode()), name="a.csv") as table,
        pytest.raises(Invalid, match="line 3") as caught,
    ):
        list(table.batches)
    assert "rows that are in already are skipped" in caught.value.fix


@pytest.mark.parametrize(
    ("header", "what"),
    [
        ("a,,c", "column 2 has no name"),
        ("a,b,a", "columns 1 and 3 have the same name"),
        ("a,b\0,c", "name of column 2"),
    ],
)
def test_a_header_that_names_no_columns_is_refused(header, what):
    with pytest.raises(Invalid, match=what):
        read(f"{header}\n1,2,3\n")


def test_nine_thousand_columns_load():
    names = [f"c{i}" for i in range(9_000)]
    text = ",".join(names) + "\n" + ",".join(map(str, range(9_000))) + "\n"
    columns, cells, _, _ = read(text)
    assert len(columns) == 9_000
    assert cells[0][8_999] == "8999"


def test_twenty_thousand_columns_are_too_many():
    with pytest.raises(Invalid, match="20,000 columns"):
        read(",".join(f"c{i}" for i in range(20_000)) + "\n")


def test_header_only_is_a_table_without_rows():
    columns, cells, _, rejected = read("a,b\n")
    assert (columns, cells, rejected) == (("a", "b"), [], [])


@pytest.mark.parametrize("data", ["\n\n\n", "  "])
def test_a_blank_file_has_no_header(data):
    with pytest.raises(Invalid, match=r"header|no name"):
        read(data)


def test_batches_are_bounded_by_rows():
    text = "a\n" + "".join(f"{i}\n" for i in range(250))
    with open_table(io.BytesIO(text.encode()), Options(batch_rows=100)) as table:
        sizes = [len(batch.rows) for batch in table.batches]
    assert sizes == [100, 100, 50]


# Text that any file can hold: no NUL, no lone surrogates.
cell = st.text(
    st.one_of(
        st.sampled_from(",;\t|\"\r\n '=é漢\u2028\x0b\x85"),
        st.characters(exclude_categories=("Cs",), exclude_characters="\0"),
    ),
    max_size=12,
)


@settings(max_examples=120, deadline=None)
@given(
    table=st.integers(1, 5).flatmap(
        lambda width: st.lists(
            st.lists(cell, min_size=width, max_size=width), min_size=1, max_size=8
        )
    ),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    codec=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_what_csv_writes_is_read_back_cell_for_cell(table, delimiter, codec, end):
    width = len(table[0])
    out = io.StringIO(newline="")
    writer = csv.writer(
        out, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL
    )
    names = list(string.ascii_lowercase[:width])
    writer.writerow(names)
    writer.writerows(table)
    columns, cells, lines, rejected = read(
        out.getvalue().encode(codec),
        delimiter=delimiter,
        encoding="utf-8" if codec == "utf-8" else None,
        format=FileFormat.CSV,
    )
    assert columns == tuple(names)
    assert cells == [tuple(row) for row in table]
    assert rejected == []
    assert lines == sorted(set(lines))


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=200), block=st.integers(1, 7))
def test_no_bytes_break_the_reader_and_no_row_vanishes(data, block):
    """Each line that is not blank is a row, a reject, or part of one of them."""
    data = b"a,b\n" + data
    try:
        _, _, lines, rejected = read(data, delimiter=",", encoding="utf-8")
    except Invalid:
        return
    starts = sorted([*lines, *(r.line for r in rejected)])
    assert starts == sorted(set(starts))
    if data[4:].strip(b"\r\n"):
        assert starts
