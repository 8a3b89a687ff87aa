"""JSON lines and lists: values as written, faults by line."""

import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.core.errors import Invalid
from dispatcher.stages.intake.json_reader import MAX_ELEMENT, JsonElements
from dispatcher.stages.intake.opening import open_table
from dispatcher.stages.intake.table import MAX_CELL, FileFormat, Options


def read(text, *, name="a.jsonl", **options):
    data = text if isinstance(text, bytes) else text.encode()
    with open_table(io.BytesIO(data), Options(**options), name=name) as table:
        batches = list(table.batches)
    cells = [
        dict(zip(batch.columns, row, strict=True))
        for batch in batches
        for row in batch.rows
    ]
    return cells, [r for batch in batches for r in batch.rejected], batches


def test_values_are_kept_digit_for_digit():
    cells, rejected, _ = read(
        '{"t": "00501", "n": 1.50, "e": 1e5, "i": 12345678901234567890123, '
        '"z": 0, "m": -0, "b": true, "f": false, "x": null}\n'
    )
    assert rejected == []
    assert cells == [
        {
            "t": "00501",
            "n": "1.50",
            "e": "1e5",
            "i": "12345678901234567890123",
            "z": "0",
            "m": "-0",
            "b": "true",
            "f": "false",
            "x": "",
        }
    ]


def test_nested_values_are_kept_as_their_text():
    cells, _, _ = read('{"a": {"b": [1, 2.0]}, "c": [ ]}\n')
    assert cells == [{"a": '{"b": [1, 2.0]}', "c": "[ ]"}]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('{"a": 1, "a": 2}', "twice"),
        ('{"a" : 1, "a"\t: 2}', "twice"),
        ('{"b": {"a": 1, "a": 2}}', "twice"),
        ('{"a": ' + "[" * 65 + "]" * 65 + "}", "deeper than 64"),
        ('{"a": ' + '{"b":' * 65 + "1" + "}" * 65 + "}", "deeper than 64"),
        ('{"a": ' + "[" * 50_000 + "]" * 50_000 + "}", "deeper than 64"),
        ('{"a": ' + "9" * 41 + "}", "more than 40 digits"),
        ('{"a": ' + "9" * 9_000 + "}", "more than 40 digits"),
        ('{"a": 0.' + "1" * 60 + "}", "more than 40 digits"),
        ('{"a": NaN}', "not valid JSON"),
        ('{"a": 1', "not valid JSON"),
        ('{"a": "\\ud800"}', "not valid JSON"),
        ('{"a": "x\\u0000y"}', "NUL"),
        ("[1, 2]", "not an object"),
        ('"text"', "not an object"),
        ('{"": 1}', "without a name"),
        (json.dumps({"a": "x" * (MAX_CELL + 1)}), "longer than"),
    ],
)
def test_safety_20_a_faulty_row_is_refused_and_the_file_goes_on(row, reason):
    cells, rejected, _ = read('{"a": 1}\n\n' + row + '\n{"a": 2}\n')
    assert [c["a"] for c in cells] == ["1", "2"]
    assert [r.line for r in rejected] == [3]
    assert reason in rejected[0].reason


def test_forty_digits_in_a_text_are_fine():
    cells, rejected, _ = read(json.dumps({"a": "9" * 60, "b": "12:30, x: 1"}) + "\n")
    assert (cells, rejected) == ([{"a": "9" * 60, "b": "12:30, x: 1"}], [])


def test_undecodable_bytes_cost_their_row_only():
    rows = b'{"a": "\xc3\xa9"}\n' * 20 + b'{"a": "\xff"}\n{"a": "ok"}\n'
    cells, rejected, _ = read(rows)
    assert len(cells) == 21
    assert [(r.line, "not text" in r.reason) for r in rejected] == [(21, True)]


def test_members_may_come_late_and_in_any_order():
    cells, _, batches = read(
        '{"a": 1, "b": 2}\n{"b": 3, "a": 4}\n{"b": 5}\n{"a": 6, "c": 7}\n',
        batch_rows=2,
    )
    assert [batch.columns for batch in batches] == [("a", "b"), ("a", "b", "c")]
    assert cells == [
        {"a": "1", "b": "2"},
        {"a": "4", "b": "3"},
        {"a": "", "b": "5", "c": ""},
        {"a": "6", "b": "", "c": "7"},
    ]


def test_a_list_of_objects_is_read_with_lines():
    text = '[\n  {"a": 1},\n  {"a": "]}"},\n {"a": \n {"b": [ ]} }\n]\n'
    cells, rejected, batches = read(text, name="a.json")
    assert cells == [{"a": "1"}, {"a": "]}"}, {"a": '{"b": [ ]}'}]
    assert batches[0].lines == [2, 3, 4]
    assert rejected == []


def test_objects_one_after_another_are_read_too():
    cells, _, _ = read('{"a": 1} {"a":\n 2}\n{"a": 3}', name="a.json")
    assert [c["a"] for c in cells] == ["1", "2", "3"]


@pytest.mark.parametrize(
    "text",
    ['[{"a": 1}', '[{"a": 1}]]', '[{"a": 1}] {"a": 2}', '{"a": 1}}', '[{"a": "x}]'],
)
def test_brackets_that_do_not_match_are_refused(text):
    with pytest.raises(Invalid, match="cannot be read from line 1"):
        read(text, name="a.json")


@pytest.mark.parametrize("text", ['["a", "b"]', "[1]", '"x"', "[[1]]"])
def test_a_list_of_other_things_is_no_table(text):
    with pytest.raises(Invalid, match="no list of objects"):
        read(text, name="a.json")


@pytest.mark.parametrize("text", ["[]", "[ \n]", "  \n "])
def test_a_list_of_nothing_is_refused(text):
    with pytest.raises(Invalid, match="no object"):
        read(text, name="a.json")


def test_an_element_that_never_ends_is_refused_before_memory_is_full():
    with pytest.raises(Invalid, match="does not end"):
        list(JsonElements(iter(['[{"a": "', *["x" * (1 << 20)] * 20])))
    assert MAX_ELEMENT == 16 << 20


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(
        st.dictionaries(
            st.text(
                st.characters(exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")),
                min_size=1,
                max_size=4,
            ),
            st.one_of(
                st.text(
                    st.characters(exclude_categories=("Cs",), exclude_characters="\0"),
                    max_size=9,
                ),
                st.integers(-(10**30), 10**30),
                st.booleans(),
            ),
            min_size=1,
            max_size=4,
        ),
        min_size=1,
        max_size=6,
    ),
    cut=st.integers(1, 9),
    ascii_only=st.booleans(),
    indent=st.sampled_from([None, 1]),
)
def test_a_list_cut_anywhere_gives_the_same_objects(values, cut, ascii_only, indent):
    text = json.dumps(values, ensure_ascii=ascii_only, indent=indent)
    pieces = (text[i : i + cut] for i in range(0, len(text), cut))
    assert [json.loads(t) for _, t in JsonElements(pieces)] == values
    cells, rejected, _ = read(text, name="a.json", format=FileFormat.JSON)
    assert rejected == []
    for got, value in zip(cells, values, strict=True):
        filled = {
            name: str(v).lower() if v is True or v is False else str(v)
            for name, v in value.items()
        }
        assert {k: v for k, v in got.items() if k in filled} == filled


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"data": [{"id": 1}, {"id": 2}]}', "`data` is a list of objects"),
        ('{"type": "F", "features": [{"p": 1}]}', "`features` is a list of objects"),
        ('{"id": [1, 2], "x": ["a", "b"]}', "list of the same length"),
        (
            '{"id": {"0": 1, "1": 2}, "x": {"0": 3, "1": 4}}',
            "object with the same names",
        ),
        (
            '{"columns": ["a"], "index": [0], "data": [[1], [2]]}',
            "`columns` and `data`",
        ),
    ],
)
@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_one_object_that_has_a_table_inside_is_refused_by_name(text, what, name):
    with pytest.raises(Invalid, match="one object") as caught:
        read(text, name=name)
    assert what in caught.value.why


def test_one_object_that_is_a_record_is_one_and_so_is_any_that_stands_in_a_list():
    cells, _, _ = read('{"id": 1, "tags": ["a", "b"]}', name="a.json")
    assert cells == [{"id": "1", "tags": '["a", "b"]'}]
    cells, _, _ = read('[{"data": [{"id": 1}]}]', name="a.json")
    assert cells == [{"data": '[{"id": 1}]'}]
