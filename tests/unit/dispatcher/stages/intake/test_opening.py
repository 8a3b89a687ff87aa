"""Gzip, Parquet and workbooks: the same rows, and no bombs."""

import base64
import gzip
import io
import re
import time
import zipfile
import zlib
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import polars as pl
import psutil
import pytest

from dispatcher.core.errors import Invalid
from dispatcher.stages.intake.opening import open_table
from dispatcher.stages.intake.table import MAX_CELL, Options, plain_text

DATA = Path(__file__).parents[4] / "data" / "intake"
PLAIN = b"id,zip\n1,00501\n2,10001\n"
ROWS = [("1", "00501"), ("2", "10001")]


def rows(where, name=None, **options):
    with open_table(where, Options(**options), name=name) as table:
        return [tuple(row) for batch in table.batches for row in batch.rows]


def parquet(frame, path=None):
    out = path or io.BytesIO()
    frame.write_parquet(out)
    return path or io.BytesIO(out.getvalue())


def test_a_folder_of_scans_is_a_table_with_a_row_for_each(tmp_path):
    """A newcomer's first file was a folder of receipts, and the answer `name a file`."""
    folder = tmp_path / "receipts"
    (folder / "more.png").mkdir(parents=True)
    with pytest.raises(Invalid, match="receipts is a folder without scans"):
        open_table(folder)
    for name in ("b.PNG", "a, 1.pdf", "notes.txt", ".hidden"):
        (folder / name).write_bytes(b"x")
    with open_table(folder, Options(batch_rows=1)) as table:
        assert (table.facts.name, table.facts.format, table.size) == (
            "receipts",
            "folder",
            2,
        )
        assert table.columns == ("file", "scan")
        first, second = table.batches
        assert (first.lines, second.lines, table.position()) == ([1], [2], 2)
        assert [*first.rows, *second.rows] == [("a, 1.pdf",) * 2, ("b.PNG",) * 2]
    with pytest.raises(Invalid, match="not numbered"):
        open_table(folder, Options(numbered=True))


def test_gzip_is_opened_from_a_path_and_from_a_stream(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(PLAIN))
    assert rows(path) == ROWS
    assert rows(io.BytesIO(path.read_bytes())) == ROWS


def test_several_gzip_members_are_one_file():
    packed = gzip.compress(PLAIN[:10]) + gzip.compress(PLAIN[10:]) + b"\0" * 20
    assert rows(io.BytesIO(packed), "a.csv.gz") == ROWS


@pytest.mark.parametrize("cut", [11, 20, -1])
def test_gzip_cut_short_is_refused(cut):
    with pytest.raises(Invalid, match="broken"):
        rows(io.BytesIO(gzip.compress(PLAIN)[:cut]), "a.csv.gz")


def test_damaged_gzip_is_refused():
    packed = bytearray(gzip.compress(PLAIN * 50))
    packed[30] ^= 0xFF
    with pytest.raises(Invalid, match="broken"):
        rows(io.BytesIO(bytes(packed)), "a.csv.gz")


def test_safety_18_gzip_inside_gzip_is_refused():
    with pytest.raises(Invalid, match="gzip inside gzip"):
        rows(io.BytesIO(gzip.compress(gzip.compress(PLAIN))))


def test_safety_18_a_gzip_bomb_is_refused_at_once_and_in_little_memory():
    # 200 MB of one row in 194 kB: ratio 1,028.
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = b"a,b\n" * 250_000
    bomb = b"".join(packer.compress(block) for _ in range(200)) + packer.flush()
    assert len(bomb) < 250_000
    before = psutil.Process().memory_info().rss
    start = time.process_time()
    with pytest.raises(Invalid, match="200 times its size"):
        rows(io.BytesIO(bomb), "a.csv.gz")
    assert time.process_time() - start < 20  # all of its rows would take minutes
    assert psutil.Process().memory_info().rss - before < 200 << 20


def test_max_bytes_limits_what_gzip_decodes_to():
    with pytest.raises(Invalid, match="more than 10 bytes") as caught:
        rows(io.BytesIO(gzip.compress(PLAIN)), max_bytes=10)
    assert "--max-bytes" in caught.value.fix


@pytest.mark.parametrize("data", [b"", gzip.compress(b"", mtime=0)])
def test_an_empty_file_is_refused(data):
    with pytest.raises(Invalid, match="is empty"):
        rows(io.BytesIO(data), "a.csv")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"%PDF-1.7 ...", "a PDF"),
        (b"\x89PNG\r\n\x1a\n", "an image"),
        (b"SQLite format 3\0....", "a SQLite database"),
        (b"\x28\xb5\x2f\xfd....", "zstd"),
    ],
)
def test_files_of_other_kinds_are_named(data, what):
    with pytest.raises(Invalid, match=what):
        rows(io.BytesIO(data), "a.csv")


def test_a_zip_of_something_else_is_named():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.csv", "a,b\n")
    with pytest.raises(Invalid, match="a zip archive"):
        rows(io.BytesIO(out.getvalue()))


@pytest.mark.parametrize("name", ["a.parquet", "a.xlsx"])
def test_a_name_that_lies_is_told(name):
    with pytest.raises(Invalid, match="not what its name says"):
        rows(io.BytesIO(PLAIN), name)


def test_missing_files_and_folders_are_told(tmp_path):
    with pytest.raises(Invalid, match="no file"):
        rows(tmp_path / "none.csv")
    with pytest.raises(Invalid, match="a folder"):
        rows(tmp_path)


def test_parquet_values_are_rendered_canonically(tmp_path):
    frame = pl.DataFrame(
        {
            "t": ["00501", None, "é"],
            "i": [1, None, -3],
            "f": [1.0, 0.1, 1e300],
            "b": [True, False, None],
            "d": [date(2026, 2, 1), None, date(1900, 1, 1)],
            "m": [datetime(2026, 2, 1, 3, 4, 5, tzinfo=UTC)] * 3,
            "l": [[1, 2], [], None],
            "x": [Decimal("1.50"), None, Decimal("-2.00")],
        }
    )
    path = parquet(frame, tmp_path / "a.parquet")
    moment = "2026-02-01T03:04:05+00:00"
    assert rows(path) == [
        ("00501", "1", "1", "true", "2026-02-01", moment, "[1,2]", "1.50"),
        ("", "", "0.1", "false", "", moment, "[]", ""),
        ("é", "-3", "1e+300", "", "1900-01-01", moment, "", "-2.00"),
    ]


def test_parquet_comes_from_gzip_and_streams_too(tmp_path):
    data = parquet(pl.DataFrame({"a": ["x", "y"]})).getvalue()
    assert rows(io.BytesIO(data)) == [("x",), ("y",)]
    assert rows(io.BytesIO(gzip.compress(data))) == [("x",), ("y",)]


def test_parquet_is_read_in_order_and_in_batches(tmp_path):
    path = tmp_path / "a.parquet"
    pl.DataFrame({"n": list(range(5_000))}).write_parquet(path, row_group_size=700)
    with open_table(path, Options(batch_rows=500)) as table:
        batches = list(table.batches)
    assert max(len(batch.rows) for batch in batches) <= 500
    assert [row[0] for b in batches for row in b.rows] == [str(n) for n in range(5_000)]
    assert [line for b in batches for line in b.lines] == list(range(2, 5_002))
    assert table.position() == table.size


def test_parquet_moments_keep_every_nanosecond(tmp_path):
    numbers = pl.Series([1_646_058_685_919_897_849, None], dtype=pl.Int64)
    frame = pl.DataFrame(
        {
            "at": numbers.cast(pl.Datetime("ns")),
            "zoned": numbers.cast(pl.Datetime("ns", "UTC")),
            "clock": pl.Series([1, 3_600_000_000_000]).cast(pl.Time),
            "length": pl.Series([1_000_000_001, -5]).cast(pl.Duration("ns")),
            "nested": pl.Series([[numbers[0]], None]).cast(pl.List(pl.Datetime("ns"))),
        }
    )
    second = "2022-02-28T14:31:25.919897849"
    assert rows(parquet(frame, tmp_path / "a.parquet")) == [
        (
            second,
            f"{second}+00:00",
            "00:00:00.000000001",
            "00:00:01.000000001",
            f'["{second}"]',
        ),
        ("", "", "01:00:00", "-00:00:00.000000005", ""),
    ]


LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("kind", "far"),
    [
        (pl.Datetime("us"), [LARGEST, -LARGEST, 253_402_300_800 * 10**6]),
        (pl.Datetime("ms", "Asia/Tokyo"), [LARGEST, 253_402_300_799_000]),
        (pl.Date, [2**31 - 1, -(2**31), 2_932_896, -719_163]),
        (pl.Duration("ms"), [LARGEST, -LARGEST]),
    ],
)
def test_moments_that_python_has_none_for_cost_their_row(tmp_path, kind, far):
    numbers = pl.Series([None, *far, 0], dtype=pl.Int64)
    if kind == pl.Date:
        numbers = numbers.cast(pl.Int32)
    frame = pl.DataFrame({"n": range(len(numbers)), "v": numbers.cast(kind)})
    with open_table(parquet(frame, tmp_path / "a.parquet")) as table:
        batch = next(table.batches)
    assert [row[0] for row in batch.rows] == ["0", str(len(numbers) - 1)]
    assert [one.line for one in batch.rejected] == list(range(3, 3 + len(far)))
    assert {(one.column, one.reason) for one in batch.rejected} == {
        ("v", "a moment outside of the years 1 to 9999")
    }


def test_the_longest_durations_and_first_nanoseconds_are_read(tmp_path):
    frame = pl.DataFrame(
        {
            "a": pl.Series([LARGEST], dtype=pl.Int64).cast(pl.Datetime("ns")),
            "b": pl.Series([LARGEST], dtype=pl.Int64).cast(pl.Duration("us")),
        }
    )
    assert rows(parquet(frame, tmp_path / "a.parquet")) == [
        ("2262-04-11T23:47:16.854775807", "2562047788:00:54.775807"),
    ]


def test_parquet_that_makes_its_library_panic_is_refused_by_name(tmp_path, capfd):
    """Such a panic is no Exception: it would end a tick of the daemon, or the program."""
    far = pl.Series([[LARGEST]], dtype=pl.List(pl.Int64)).cast(
        pl.List(pl.Datetime("us"))
    )
    path = parquet(pl.DataFrame({"v": far}), tmp_path / "a.parquet")
    with pytest.raises(Invalid, match="cannot be read as Parquet"):
        rows(path)
    capfd.readouterr()  # the library says so itself


def test_parquet_numbers_of_32_bits_have_their_shortest_text(tmp_path):
    single = pl.Series([0.1, 1.0, 1e20, 3.4e38], dtype=pl.Float32)
    nested = pl.Series([[0.1], [], None, [0.3]], dtype=pl.List(pl.Float32))
    frame = pl.DataFrame({"f": single, "l": nested})
    assert rows(parquet(frame, tmp_path / "a.parquet")) == [
        ("0.1", "[0.1]"),
        ("1", "[]"),
        ("1e+20", ""),
        ("3.4e+38", "[0.3]"),
    ]


def test_parquet_numbers_of_16_bits_have_their_shortest_text(tmp_path):
    half = pl.Series([1.1, 0.1, None, 65504.0], dtype=pl.Float16)
    frame = pl.DataFrame({"f": half})
    assert rows(parquet(frame, tmp_path / "a.parquet")) == [
        ("1.1",), ("0.1",), ("",), ("65504",),
    ]  # fmt: skip


def test_a_number_without_digits_costs_its_row_and_its_word_as_a_text_does_not(
    tmp_path,
):
    frame = pl.DataFrame(
        {"t": ["nan", "inf", "x"], "f": [1.5, float("nan"), float("inf")]}
    )
    with open_table(parquet(frame, tmp_path / "a.parquet")) as table:
        batches = list(table.batches)
    assert [row for b in batches for row in b.rows] == [("nan", "1.5")]
    assert [(r.line, r.column) for b in batches for r in b.rejected] == [
        (3, "f"),
        (4, "f"),
    ]


def test_safety_19_a_parquet_bomb_is_refused_by_what_it_decodes_to(tmp_path):
    path = tmp_path / "a.parquet"
    value = "x" * 100_000
    pl.DataFrame({"a": [value] * 4_000}).write_parquet(path)  # 400 MB of text
    assert path.stat().st_size < 1 << 20
    with pytest.raises(Invalid, match="decodes to more"):
        rows(path, max_bytes=50 << 20)


def test_a_long_cell_of_parquet_is_refused_by_row(tmp_path):
    frame = pl.DataFrame({"a": ["x", "y" * (MAX_CELL + 1), "n\0n", "z"]})
    with open_table(parquet(frame, tmp_path / "a.parquet")) as table:
        batches = list(table.batches)
    assert [row for b in batches for row in b.rows] == [("x",), ("z",)]
    assert [(r.line, r.column) for b in batches for r in b.rejected] == [
        (3, "a"),
        (4, "a"),
    ]


@pytest.mark.parametrize("cell", [b"y", [b"y"], {"in": b"y"}, [{"in": [b"y"]}]])
def test_binary_parquet_columns_are_refused_however_deep_they_lie(tmp_path, cell):
    with pytest.raises(Invalid, match=r"column 2 .* is binary"):
        rows(parquet(pl.DataFrame({"a": ["x"], "b": [cell]}), tmp_path / "a.parquet"))


def test_a_number_without_digits_inside_a_list_costs_its_row_too(tmp_path):
    frame = pl.DataFrame({"l": [[0.5], [float("nan")]], "s": [{"a": 1.0}, {"a": 2.0}]})
    with open_table(parquet(frame, tmp_path / "a.parquet")) as table:
        batches = list(table.batches)
    assert [row for b in batches for row in b.rows] == [("[0.5]", '{"a":1.0}')]
    assert [(r.line, r.column) for b in batches for r in b.rejected] == [(3, "l")]


def in_zone(path, zone, unit):
    """A file of two moments in a zone that the library reads and does not write."""
    moments = pl.Series([0, None], dtype=pl.Int64).cast(pl.Datetime(unit, "Israel"))
    data = parquet(pl.DataFrame({"m": moments}), path).read_bytes()
    (schema,) = re.findall(rb"/////[A-Za-z0-9+/=]+", data)
    changed = base64.b64decode(schema).replace(b"Israel", zone.encode())
    path.write_bytes(data.replace(schema, base64.b64encode(changed)))
    return path


@pytest.mark.parametrize("unit", ["us", "ns"])
@pytest.mark.parametrize(
    ("zone", "text"),
    [("+05:30", "1970-01-01T05:30:00+05:30"), ("-03:30", "1969-12-31T20:30:00-03:30")],
)
def test_a_moment_in_a_zone_without_a_name_is_read(tmp_path, zone, text, unit):
    assert rows(in_zone(tmp_path / "a.parquet", zone, unit)) == [(text,), ("",)]


def test_a_moment_in_an_unknown_zone_is_refused_by_its_column(tmp_path):
    path = in_zone(tmp_path / "a.parquet", "Mars/X", "us")
    with pytest.raises(Invalid, match=r"column 1 .* unknown time zone"):
        rows(path)


def test_damaged_parquet_is_refused():
    data = parquet(pl.DataFrame({"a": ["x"] * 100})).getvalue()
    with pytest.raises(Invalid, match="as Parquet"):
        rows(io.BytesIO(data[:-20]))


def test_a_workbook_is_read_as_text():
    with open_table(DATA / "sheet.xlsx") as table:
        read = [tuple(row) for batch in table.batches for row in batch.rows]
        lines = [line for batch in table.batches for line in batch.lines]
    assert lines == []  # the batches were read once
    assert table.facts.sheet == "Forms"
    assert table.facts.notes == ["1 other sheet is not read"]
    assert table.columns == ("id", "zip", "amount", "day", "paid")
    assert read == [
        ("a1", "00501", "12", "2026-02-01", "true"),
        ("a2", "10001", "1.5", "2026-02-01T13:30:00", "false"),
        ("a3", "", "", "", ""),
    ]


def test_a_workbook_comes_from_gzip_too():
    packed = gzip.compress((DATA / "sheet.xlsx").read_bytes())
    assert len(rows(io.BytesIO(packed))) == 3


def test_safety_20_a_workbook_bomb_is_refused_before_it_is_read():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", b"<x/>")
        archive.writestr("xl/workbook.xml", b"<x/>")
        archive.writestr("xl/worksheets/sheet1.xml", b"<c/>" * (5 << 20))
    with pytest.raises(Invalid, match="is refused") as caught:
        rows(io.BytesIO(out.getvalue()), "a.xlsx")
    assert "200 times" in caught.value.why


def test_safety_20_a_workbook_of_ten_thousand_parts_is_refused():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("[Content_Types].xml", b"<x/>")
        for number in range(10_000):
            archive.writestr(f"xl/{number}", b"")
    with pytest.raises(Invalid, match="is refused") as caught:
        rows(io.BytesIO(out.getvalue()), "a.xlsx")
    assert "10,000 parts" in caught.value.why


def changed_workbook(change):
    """The sample workbook with the text of its first sheet changed."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(DATA / "sheet.xlsx") as old,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for member in old.infolist():
            text = old.read(member)
            if member.filename == "xl/worksheets/sheet1.xml":
                text = change(text)
            new.writestr(member.filename, text)
    return io.BytesIO(out.getvalue())


def test_one_cell_far_off_does_not_fill_the_memory():
    far = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
    book = changed_workbook(lambda text: text.replace(b"</sheetData>", far))
    with pytest.raises(Invalid, match="is refused") as caught:
        rows(book, "a.xlsx")
    assert "1,048,576 rows x 16,384 columns" in caught.value.why


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'r="A2"', b'r="ZZZZZ99999999"'),
        (b'r="A2"', b'r="XFE2"'),
        (b'r="A2"', b'r="A1048577"'),
        (b'r="A2"', b"r='XFD1048576'"),
        (b'r="A2"', b'r="XFD104857&#54;"'),
        (b'r="A2"', b'r="xfd1048576"'),
        (b'r="A2"', b'r="\xef\xbc\xa12"'),
        (b'r="A2"', b's=">" r="XFD1048576"'),
        (b'<row r="2"', b'<row r="4294967295"'),
        (b'<row r="2"', b'<row r="-1"'),
        (b"<sheetData>", b'<sheetData a="1" a="2">'),
        (b"<worksheet ", b"<!DOCTYPE x [<!ENTITY e 'f'>]><worksheet "),
    ],
)
def test_a_cell_where_no_sheet_has_one_is_refused_before_room_is_made_for_it(old, new):
    """The library for sheets makes room up to such a cell, or ends the process."""

    def change(text):
        if b"<row" in new:  # its cells say no place
            text = re.sub(rb'<c r="[A-Z]+2"', b"<c", text)
        start = text.index(b"<worksheet")
        assert old in text
        return text[text.index(b"<?") : start] + text[start:].replace(old, new, 1)

    with pytest.raises(Invalid, match="is refused"):
        rows(changed_workbook(change), "a.xlsx")


def rewritten(change):
    """The sample workbook, each part as ``change(name, text)`` gives it."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(DATA / "sheet.xlsx") as old,
        zipfile.ZipFile(out, "w") as new,
    ):
        for member in old.infolist():
            name, text = change(member.filename, old.read(member))
            new.writestr(name, text)
    return out


@pytest.mark.parametrize("count", [b"99999999999", b"-1", b"&#57;999999999"])
def test_a_workbook_that_claims_more_texts_than_it_holds_is_refused(count):
    """The library for sheets makes room for as many, or ends the process."""
    texts = b'<x:sst a=">" uniqueCount="%b"><x:si><x:t>a</x:t></x:si></x:sst>' % count
    book = rewritten(lambda name, text: (name, text))
    with zipfile.ZipFile(book, "a") as archive:
        archive.writestr("xl/sharedStrings.xml", texts)
    with pytest.raises(Invalid, match="is refused") as caught:
        rows(io.BytesIO(book.getvalue()), "a.xlsx")
    assert "more texts" in caught.value.why


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"<?xml ", b"<!DOCTYPE x><?xml "),
        (b'"1.0"', b'"1.0" encoding="UTF-1e400"'),
        (b'numFmtId="', b'numFmtId="x'),
        (b"</styleSheet>", b""),
    ],
)
def test_a_workbook_whose_styles_cannot_be_read_is_refused(old, new):
    """They tell which cells are days: one before 1900 would be read as midnight."""

    def change(name, text):
        if name == "xl/styles.xml":
            assert old in text, text[:300]
            text = text.replace(old, new)
        return name, text

    with pytest.raises(Invalid, match="is refused") as caught:
        rows(io.BytesIO(rewritten(change).getvalue()), "a.xlsx")
    assert "styles" in caught.value.why


def test_a_workbook_with_two_parts_of_one_name_is_refused():
    book = rewritten(lambda name, text: (name, text))
    with zipfile.ZipFile(book, "a") as archive, pytest.warns(UserWarning, match="Dupl"):
        archive.writestr("xl/worksheets/sheet1.xml", b"<worksheet/>")
    with pytest.raises(Invalid, match="is refused") as caught:
        rows(io.BytesIO(book.getvalue()), "a.xlsx")
    assert "one name" in caught.value.why


def test_a_workbook_whose_directory_lies_about_sizes_makes_no_room():
    """The library would make room for the size that the directory claims."""
    out = rewritten(lambda name, text: (name, text)).getvalue()
    at = out.index(b"PK\x01\x02")  # the directory's first entry
    lying = bytearray(out)
    lying[at + 24 : at + 28] = b"\xf0\xff\xff\xff"
    try:
        found = rows(io.BytesIO(bytes(lying)), "a.xlsx")
    except Invalid:
        return
    assert found == rows(io.BytesIO(out), "a.xlsx")


def test_a_sheet_is_found_by_what_it_holds_wherever_it_lies():
    far = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'

    def move(name, text):
        text = text.replace(b"worksheets/sheet1.xml", b"other/one.bin")
        text = text.replace(b"</sheetData>", far)
        return name.replace("worksheets/sheet1.xml", "other/one.bin"), text

    with pytest.raises(Invalid, match="is refused"):
        rows(io.BytesIO(rewritten(move).getvalue()), "a.xlsx")


def test_a_table_may_stand_anywhere_in_its_sheet_rows_are_counted_from_the_top():
    def down(text):
        for row in range(4, 0, -1):
            text = text.replace(b'r="%d"' % row, b'r="%d"' % (row + 4))
            for letter in b"EDCBA":
                text = text.replace(
                    b'"%c%d"' % (letter, row), b'"%c%d"' % (letter + 1, row + 4)
                )
        return text

    with open_table(changed_workbook(down), name="a.xlsx") as table:
        batch = next(table.batches)
    assert table.columns == ("id", "zip", "amount", "day", "paid")
    assert batch.lines == [6, 7, 8]


@pytest.mark.parametrize("kind", ["xlsb", "ods"])
def test_workbooks_that_can_not_be_checked_are_refused(kind):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        if kind == "ods":
            name = "application/vnd.oasis.opendocument.spreadsheet"
            archive.writestr("mimetype", name)
        else:
            archive.writestr("[Content_Types].xml", "<x/>")
            archive.writestr("xl/workbook.bin", "x")
    with pytest.raises(Invalid, match=r"OpenDocument|no Excel workbook"):
        rows(io.BytesIO(out.getvalue()), f"a.{kind}")


@pytest.mark.parametrize(
    ("packing", "properties"), [(zipfile.ZIP_DEFLATED, 0), (zipfile.ZIP_LZMA, 9)]
)
def test_a_workbook_whose_parts_do_not_unpack_is_refused_by_name(packing, properties):
    """What the decompressor raises is no BadZipFile: it came out as a crash."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", packing) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("xl/workbook.xml", "<workbook/>" * 40)
        header = archive.getinfo("xl/workbook.xml").header_offset
    data = bytearray(out.getvalue())
    start = header + 30 + len("xl/workbook.xml") + properties
    data[start : start + 15] = b"\xff" * 15
    with pytest.raises(Invalid, match="is broken"):
        rows(io.BytesIO(data), "a.xlsx")


def test_a_damaged_workbook_is_refused():
    data = (DATA / "sheet.xlsx").read_bytes()
    with pytest.raises(Invalid, match=r"broken|cannot be read"):
        rows(io.BytesIO(data[: len(data) // 2]), "a.xlsx")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "true"),
        (3.0, "3"),
        (2.5, "2.5"),
        (1e22, "1e+22"),
        (Decimal("1E+3"), "1000"),
        (date(2026, 1, 2), "2026-01-02"),
        (timedelta(hours=27, minutes=4), "27:04:00"),
    ],
)
def test_typed_values_have_one_text(value, text):
    assert plain_text(value) == text
