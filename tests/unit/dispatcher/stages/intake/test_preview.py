"""The preview: facts of every column, and the rows that would be rejected."""

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.stages.intake.opening import open_table
from dispatcher.stages.intake.preview import Distinct, preview


def looked_at(text, name="a.csv"):
    with open_table(io.BytesIO(text.encode()), name=name) as table:
        return preview(table)


FORMS = "rx_id,patient_id,patient_name,birth_date,zip,disease,scan,roi\n" + "".join(
    f"rx-{i},p{i // 2},Ann{chr(65 + i)} Lee,19{60 + i}-01-02,0{1000 + i},"
    f'{"flu" if i % 2 else ""},scans/{i}.png,"{i},2,30,40"\n'
    for i in range(20)
)


def test_a_form_gets_the_roles_that_an_operator_would_give():
    found = {c.name: c for c in looked_at(FORMS).columns}
    assert found["rx_id"].suggestion == "key"
    assert found["rx_id"].looks_like == "unique key"
    assert found["patient_id"].suggestion == "subject"
    assert found["patient_id"].distinct == 10
    assert found["patient_name"].suggestion == ("field, direct identifier (full name)")
    assert found["patient_name"].looks_like == "PERSON (1.00)"
    assert (found["birth_date"].kind, found["birth_date"].suggestion) == (
        "date",
        "field, quasi-identifier (birth date)",
    )
    assert (found["zip"].kind, found["zip"].looks_like) == (
        "text",
        "US_ZIP  20 leading 0",
    )
    assert found["zip"].suggestion == (
        "field, quasi-identifier (postal code)   keep as text"
    )
    assert (found["disease"].empty, found["disease"].distinct) == (10, 1)
    assert found["scan"].suggestion.startswith("image")
    assert found["roi"].suggestion.startswith("box")


def test_rows_that_would_be_rejected_are_listed_by_line():
    text = "rx_id,zip\n" + "".join(f"r{i},1\n" for i in range(200))
    text += "r200\nr7,2\nr201,3\n"
    found = looked_at(text)
    assert found.rows == 203
    assert found.rejections == 2
    assert [(r.line, r.column, r.reason) for r in found.rejected] == [
        (202, "", "1 columns, expected 2"),
        (203, "rx_id", "the key is on an earlier line"),
    ]


def test_a_file_without_rows_has_columns():
    found = looked_at("a,b\n")
    assert (found.rows, [c.name for c in found.columns]) == (0, ["a", "b"])


def test_members_that_come_late_are_empty_before():
    text = '{"id": 1}\n' * 2_500 + '{"id": 2, "x": "y"}\n'
    late = looked_at(text, "a.jsonl").columns[1]
    assert (late.name, late.empty, late.distinct) == ("x", 2_500, 1)


def test_blank_cells_are_empty():
    found = looked_at("a,b\n1, \n2,x\n")
    assert found.columns[1].empty == 1


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(max_size=3), max_size=60))
def test_few_values_are_counted_exactly(values):
    distinct = Distinct(64)
    for value in values:
        distinct.add([value])
    assert (distinct.count, distinct.exact) == (len(set(values)), True)


def test_many_values_are_estimated_in_bounded_memory():
    distinct = Distinct(4_096)
    for start in range(0, 200_000, 1_000):
        distinct.add([f"v{i}" for i in range(start, start + 1_000)] * 2)
    assert not distinct.exact
    assert abs(distinct.count - 200_000) < 20_000


def test_two_thousand_columns_are_looked_at_in_bounded_work():
    names = ",".join(f"c{i}" for i in range(2_000))
    row = ",".join(["12.5"] * 2_000)
    found = looked_at(f"{names}\n" + f"{row}\n" * 30)
    assert len(found.columns) == 2_000
    assert {column.kind for column in found.columns} == {"decimal"}


@pytest.mark.parametrize(
    ("values", "asked"),
    [
        (["1/1/71", "12/1/06"], "transcribe"),  # years of two digits are no years
        (["31/12/2024", "01/02/2024"], 'date", order = "dmy'),
        (["12/31/2024", "01/02/2024"], 'date", order = "mdy'),
        (["01/02/2024", "03/04/2024"], "transcribe"),  # either order takes them all
        (["2024-01-02", "2024-12-31"], "date"),
        (["31.12.2024", "1.2.2024"], "date"),
        (["1.234,50", "99"], "number"),
        (["1.234", "1.234,50"], 'number", decimal = "comma'),
        (["1,234", "2,500"], "transcribe"),  # thousands or decimals
        (["1,234", "12.5"], 'number", decimal = "point'),
        (["5", "n/a"], "transcribe"),
        (["yes", "no"], "yes_no"),
        (["00501", "10001"], "transcribe"),
    ],
)
def test_a_reading_takes_every_value_of_its_column(values, asked):
    """Also where nine of ten values look like a date or a number."""
    rows = [(f"k{i}", values[min(i, len(values) - 1)]) for i in range(30)]
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows([("id", "seen"), *rows])
    column = looked_at(stream.getvalue()).columns[1]
    notation = "".join(f', {key} = "{word}"' for key, word in column.notation)
    found = f'"{column.ask}"{notation}'.replace('"text"', '"transcribe"')
    assert found == f'"{asked}"'
