"""The facts of a row that rules need, and the rows that lack them."""

import io
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dispatcher.core.errors import Invalid
from dispatcher.stages.intake.images import PageFolder
from dispatcher.stages.intake.record_builder import RecordBuilder, microseconds
from dispatcher.stages.intake.table import RowBatch
from policies.document import parse

CHECKINS = b"""
version = 1
name = "checkins"
[entity.checkin]
key = "id"
subject = "user"
[entity.checkin.fields]
place = {}
[relation.friendship]
source = "friends.csv"
ends = ["a", "b"]
[property.link]
scope = "relation"
relation = "friendship"
of = ["place"]
disclosure = { kind = "cosine", vector = "where", count = "visits" }
tau = 0.5
"""
COLUMNS = ("id", "user", "place", "where", "visits")


def shaper(folder, columns=COLUMNS, policy=CHECKINS):
    found = parse(policy)
    assert found.policy is not None, found.diagnostics
    return RecordBuilder(
        found.policy, {"place": 1}, columns, b"k" * 32, PageFolder(folder)
    )


def sorted_out(folder, *rows):
    return shaper(folder).rows(
        RowBatch(COLUMNS, list(range(2, 2 + len(rows))), [*rows])
    )


def test_a_place_is_a_pseudonym_and_its_visits_a_number(tmp_path):
    (one, two), rejected = sorted_out(
        tmp_path, ["1", "u", "x", "cafe", "3"], ["2", "v", "y", "cafe", "1"]
    )
    assert rejected == []
    assert one.visits == 3
    assert one.place == two.place != "cafe"


@pytest.mark.parametrize(("where", "visits"), [("", "2"), (" ", "2"), ("cafe", "0")])
def test_without_a_place_or_a_visit_an_entry_is_nowhere(tmp_path, where, visits):
    (row,), _ = sorted_out(tmp_path, ["1", "u", "x", where, visits])
    assert (row.place, row.visits) == (None, None)


@pytest.mark.parametrize("visits", ["", "-1", "1.5", "two", "9" * 5_000, "٣"])
def test_a_count_that_is_none_is_refused(tmp_path, visits):
    rows, (rejected,) = sorted_out(tmp_path, ["1", "u", "x", "cafe", visits])
    assert rows == []
    assert (rejected.line, rejected.column) == (2, "visits")


def test_a_relation_needs_the_subject(tmp_path):
    rows, (rejected,) = sorted_out(tmp_path, ["1", " ", "x", "cafe", "1"])
    assert rows == []
    assert rejected.column == "user"


def test_a_column_that_a_disclosure_names_must_be_there(tmp_path):
    with pytest.raises(Invalid, match="no column `where` and 1 more"):
        shaper(tmp_path, COLUMNS[:3])


def test_spaces_around_a_column_name_are_told(tmp_path):
    with pytest.raises(Invalid, match="no column `place`") as caught:
        shaper(tmp_path, ("id", "user", " place", "where", "visits"))
    assert "with spaces around it" in caught.value.why


def test_a_cell_of_blanks_is_no_entry_but_stays_in_the_record(tmp_path):
    made = shaper(tmp_path)
    (row,), _ = made.rows(RowBatch(COLUMNS, [2], [["1", "u", " \t", "", "1"]]))
    prepared = made.prepared(row)
    assert prepared.shown == []
    assert prepared.content == b'["1","u"," \\t","","1"]'


def test_names_of_records_people_and_places_are_unrelated(tmp_path):
    (row,), _ = sorted_out(tmp_path, ["same", "same", "x", "same", "1"])
    names = {row.pseudonym[1:], row.person[1:], row.place[1:]}
    assert len(names) == 3


DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1970-01-01", 0),
        ("1970-01-02", DAY),
        (" 1970-01-01 00:01 ", 60_000_000),
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("1970-01-01T00:00:00.000001+00:00", 1),
        ("1970-01-01T00:00:00,5", 500_000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01 01:00+01", 0),
        ("1970-01-01T00:00:00-0030", 1_800_000_000),
        ("1970-01-01 00:00:00 UTC", 0),
        ("1970-01-01T00:00:00.1000000", 100_000),
        ("1969-12-31T23:59:59.999999", -1),
        ("0001-01-01", -62_135_596_800_000_000),
    ],
)
def test_read(text, moment):
    assert microseconds(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "31.02.2026",
        "2026-02-31",
        "2026-02-01T25:00",
        "2026-02-01T10:00:00+25:00",
        "20260201",
        "now",
        "1700000000",
        "1970-01-01T00:00:00.0000001",
        "٢٠٢٦-٠١-٠١",
    ],
)
def test_refused(text):
    with pytest.raises(ValueError, match=r"not an ISO|no such day|finer") as caught:
        microseconds(text)
    assert not text or text not in str(caught.value)


@given(
    st.datetimes(
        min_value=datetime(2, 1, 1),  # noqa: DTZ001
        max_value=datetime(9998, 1, 1),  # noqa: DTZ001
        timezones=st.integers(-14 * 60, 14 * 60).map(
            lambda minutes: timezone(timedelta(minutes=minutes))
        ),
    )
)
def test_what_isoformat_writes_is_read_back(moment):
    got = microseconds(moment.isoformat())
    assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=got) == moment


PAINTED = """
version = 1
name = "x"
[entity.rx]
key = "id"
[entity.rx.fields]
place = { ask = "transcribe", image = "scan#roi" }
[entity.rx.layout]
roi = { page = 1, box = [0, 0, 1, 0.5] }
seal = { page = 1, box = [0.5, 0, 0.5, 1], redact = true }
"""


def test_what_the_policy_paints_over_is_black_in_the_form_that_is_kept(tmp_path):
    Image.new("L", (8, 8), 255).save(tmp_path / "a.png")
    build = shaper(tmp_path, ("id", "scan"), PAINTED.encode())
    (row,), _ = build.rows(RowBatch(("id", "scan"), [2], [["1", "a.png"]]))
    made = build.prepared(row)
    kept = Image.open(io.BytesIO(made.shown[0][2]))
    assert kept.size == (8, 4)
    assert kept.crop((0, 0, 4, 4)).getextrema() == (255, 255)
    assert kept.crop((4, 0, 8, 4)).getextrema() == (0, 0)


def test_a_load_stops_where_the_template_is_another_file(tmp_path):
    Image.new("L", (8, 8), 255).save(tmp_path / "a.png")
    pinned = f'key = "id"\ntemplate = {{ image = "a.png", sha256 = "{64 * "0"}" }}'
    with pytest.raises(Invalid, match=r"template 'a\.png' cannot be used"):
        shaper(tmp_path, ("id", "scan"), PAINTED.replace('key = "id"', pinned).encode())
