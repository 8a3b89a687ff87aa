"""Cells without a text cost their row; the sheet that people see is the one read."""

import io
import zipfile

import pytest

from dispatcher.core.errors import Invalid
from dispatcher.stages.intake.opening import open_table
from dispatcher.stages.intake.table import Options

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
DATE, LENGTH, CLOCK, ZIP, SOCIAL = 1, 2, 3, 4, 5
STYLES = (
    f'<styleSheet xmlns="{MAIN}"><numFmts count="4">'
    '<numFmt numFmtId="164" formatCode="[Red]dd/mm/yyyy"/>'
    '<numFmt numFmtId="165" formatCode="[h]:mm:ss"/>'
    '<numFmt numFmtId="166" formatCode="[Red]00000"/>'
    '<numFmt numFmtId="167" formatCode="000\\-00\\-0000"/></numFmts>'
    '<cellXfs count="6"><xf numFmtId="0"/><xf numFmtId="164"/><xf numFmtId="165"/>'
    '<xf numFmtId="20"/><xf numFmtId="166"/><xf numFmtId="167"/></cellXfs></styleSheet>'
)


def text(place, value):
    return f'<c r="{place}" t="inlineStr"><is><t>{value}</t></is></c>'


def sheet(*values):
    """Rows of a key and a cell: each value is the inside of column B's `c`."""
    rows = f'<row r="1">{text("A1", "id")}{text("B1", "val")}</row>'
    for number, value in enumerate(values, 2):
        key, cell = text(f"A{number}", f"k{number}"), value.replace("@", f"B{number}")
        rows += f'<row r="{number}">{key}{cell}</row>'
    return rows


def workbook(*sheets, hidden=(), from_1904=False, calculated=True, before="", after=""):
    """The bytes of a workbook of sheets named S1, S2, ..."""
    out = io.BytesIO()
    kind = f"{LINKS}/worksheet"
    listed = "".join(
        f'<sheet name="S{n}" sheetId="{n}" r:id="rId{n}"'
        + (' state="hidden"/>' if n in hidden else "/>")
        for n in range(1, len(sheets) + 1)
    )
    targets = "".join(
        f'<Relationship Id="rId{n}" Type="{kind}" Target="worksheets/sheet{n}.xml"/>'
        for n in range(1, len(sheets) + 1)
    )
    targets += f'<Relationship Id="rId90" Type="{LINKS}/styles" Target="styles.xml"/>'
    properties = '<workbookPr date1904="1"/>' if from_1904 else ""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        parts = {
            "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"/>',
            "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships">'
            f'<Relationship Id="rId1" Type="{LINKS}/officeDocument" '
            'Target="xl/workbook.xml"/></Relationships>',
            "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{LINKS}">'
            f"{properties}<sheets>{listed}</sheets>"
            f'<calcPr fullCalcOnLoad="{int(not calculated)}"/></workbook>',
            "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}/'
            f'relationships">{targets}</Relationships>',
            "xl/styles.xml": STYLES,
        }
        for name, content in parts.items():
            archive.writestr(name, content)
        for number, rows in enumerate(sheets, 1):
            archive.writestr(
                f"xl/worksheets/sheet{number}.xml",
                f'<worksheet xmlns="{MAIN}">{before}<sheetData>{rows}</sheetData>'
                f"{after}</worksheet>",
            )
    return io.BytesIO(out.getvalue())


def read(book, **options):
    """The second cell of each row, and the reason of each refused row by its line."""
    with open_table(book, Options(**options), name="a.xlsx") as table:
        batches = list(table.batches)
    rows = [row[1] for batch in batches for row in batch.rows]
    refused = {r.line: (r.column, r.reason) for b in batches for r in b.rejected}
    return rows, refused, table.facts


def reason_of(value, **how):
    _, refused, _ = read(workbook(sheet(value), **how))
    assert list(refused) == [2]
    column, reason = refused[2]
    assert column == "val"
    return reason


@pytest.mark.parametrize("word", ["#N/A", "#DIV/0!", "#REF!", "#NAME?", "#SPILL!"])
def test_an_error_costs_its_row_and_is_named(word):
    cell = f'<c r="@" t="e"><v>{word}</v></c>'
    good = text("@", "ok")
    rows, refused, _ = read(workbook(sheet(cell, good)))
    assert rows == ["ok"]
    assert refused == {2: ("val", f"the cell is an error: {word}")}


def test_an_error_of_a_kind_that_no_spreadsheet_has_is_not_repeated():
    assert reason_of('<c r="@" t="e"><v>#secret text</v></c>').endswith("error: #?")


@pytest.mark.parametrize("number", ["1234567890123456789", "-9007199254740993"])
def test_a_number_that_would_lose_digits_costs_its_row(number):
    """A program wrote it: spreadsheets keep 15 digits, and a reader 2^53."""
    for cell in (
        f'<c r="@"><v>{number}</v></c>',
        f'<c r="@" t="n"><v>{number}</v></c>',
    ):
        assert "more digits than a spreadsheet keeps" in reason_of(cell)


def test_a_long_number_that_loses_nothing_or_is_a_text_is_read():
    cells = (
        '<c r="@"><v>9007199254740992</v></c>',
        '<c r="@" t="str"><v>1234567890123456789</v></c>',
    )
    rows, refused, _ = read(workbook(sheet(*cells)))
    assert rows == ["9007199254740992", "1234567890123456789"]
    assert refused == {}


@pytest.mark.parametrize(
    "cell",
    [
        '<c r="@"><f>1+1</f></c>',
        '<c r="@"><f>1+1</f><v/></c>',
        '<c r="@" t="str"><f>"a"</f></c>',
        '<c r="@"><f t="shared" si="0"/><v></v></c>',
    ],
)
def test_a_formula_without_a_stored_value_costs_its_row(cell):
    assert "without a stored value" in reason_of(cell)


def test_a_value_that_waits_to_be_calculated_costs_its_row():
    """Libraries that write workbooks store 0 for each formula, and say so there."""
    formula = '<c r="@"><f>2+3</f><v>0</v></c>'
    assert "formula without a stored" in reason_of(formula, calculated=False)


@pytest.mark.parametrize(
    ("style", "value", "shown"),
    [
        (ZIP, "1234", "01234"),
        (ZIP, "123456", "123456"),
        (ZIP, "-7", "-00007"),
        (ZIP, "1.5", "1.5"),
        (SOCIAL, "1234567", "001-23-4567"),
        (SOCIAL, "12345678901", "12345-67-8901"),
    ],
)
def test_a_number_in_a_format_of_zeros_is_read_as_it_is_shown(style, value, shown):
    cell = f'<c r="@" s="{style}"><v>{value}</v></c>'
    assert read(workbook(sheet(cell)))[:2] == ([shown], {})


def test_a_cell_merged_into_another_one_costs_its_row():
    blank = '<c r="@"/>'
    book = workbook(
        sheet(text("@", "Sales"), blank, text("@", "IT")),
        after='<mergeCells><mergeCell ref="B2:B3"/></mergeCells>',
    )
    rows, refused, _ = read(book)
    assert rows == ["Sales", "IT"]
    assert list(refused) == [3]
    assert "merged" in refused[3][1]


def test_hidden_rows_and_columns_are_read_and_said():
    rows = sheet(text("@", "a"), text("@", "b"), text("@", "c"))
    rows = rows.replace('<row r="3">', '<row r="3" hidden="1">')
    columns = '<cols><col min="2" max="16384" hidden="true"/></cols>'
    values, _, facts = read(workbook(rows, before=columns))
    assert values == ["a", "b", "c"]
    assert facts.notes == ["1 row and 1 column of the sheet are hidden, and read too"]


def test_a_formula_with_a_value_is_its_value_also_the_empty_text():
    cells = (
        '<c r="@"><f>1+1</f><v>2</v></c>',
        '<c r="@" t="str"><f>"x"</f><v>x</v></c>',
        '<c r="@" t="str"><f>""</f><v></v></c>',
    )
    rows, refused, _ = read(workbook(sheet(*cells)))
    assert rows == ["2", "x", ""]
    assert refused == {}


@pytest.mark.parametrize(
    ("days", "style", "reason"),
    [
        ("-5", DATE, "a negative date or time"),
        ("-0.5", CLOCK, "a negative date or time"),
        ("0", DATE, "before the calendar"),
        ("0.5", DATE, "before the calendar"),
        ("60", DATE, "29 February 1900"),
        ("2958466", DATE, "after the year 9999"),
        ("1e300", DATE, "after the year 9999"),
        ("1e10", LENGTH, "a number that is no time"),
        ("-1e300", LENGTH, "a number that is no time"),
        ("1e400", CLOCK, "a number that is no time"),
        ("nan", DATE, "a number that is no time"),
    ],
)
def test_a_day_that_the_calendar_lacks_costs_its_row(days, style, reason):
    assert reason in reason_of(f'<c r="@" s="{style}"><v>{days}</v></c>')


@pytest.mark.parametrize("value", ["<v/>", "<v></v>", ""])
def test_a_cell_of_shared_text_without_a_number_is_empty(value):
    """Writers leave such cells behind; it is neither the first text nor damage."""
    cells = f'<c r="@" t="s">{value}</c>', text("@", "ok")
    rows, refused, _ = read(workbook(sheet(*cells)))
    assert (rows, refused) == (["", "ok"], {})


def test_days_clocks_lengths_and_numbers_that_are_right_stay():
    cells = [
        f'<c r="@" s="{style}"><v>{value}</v></c>'
        for value, style in (
            ("1", DATE),
            ("61", DATE),
            ("0.5", CLOCK),
            ("-1.25", LENGTH),
            ("-5", 0),
        )
    ]
    rows, refused, _ = read(workbook(sheet(*cells)))
    assert rows == ["1900-01-01", "1900-03-01", "12:00:00", "-30:00:00", "-5"]
    assert refused == {}


def test_a_workbook_that_counts_from_1904_has_another_last_day():
    rows, _, _ = read(workbook(sheet('<c r="@" s="1"><v>60</v></c>'), from_1904=True))
    assert rows == ["1904-03-01"]
    late = '<c r="@" s="1"><v>2957004</v></c>'
    assert "after the year 9999" in reason_of(late, from_1904=True)


def test_the_first_visible_sheet_is_read_and_the_others_are_said():
    book = workbook(
        sheet(text("@", "list")), sheet(text("@", "real")), sheet(), hidden={1}
    )
    rows, _, facts = read(book)
    assert (rows, facts.sheet) == (["real"], "S2")
    assert facts.notes == ["2 other sheets are not read (1 hidden)"]


def test_any_sheet_can_be_chosen_by_name():
    sheets = sheet(text("@", "list")), sheet(text("@", "real"))
    assert read(workbook(*sheets, hidden={1}), sheet="S1")[0] == ["list"]
    with pytest.raises(Invalid, match="no sheet S3") as caught:
        read(workbook(*sheets, hidden={1}), sheet="S3")
    assert "S1, S2" in caught.value.why


def test_a_workbook_whose_sheets_are_all_hidden_is_refused():
    with pytest.raises(Invalid, match="no header") as caught:
        read(workbook(sheet(text("@", "x")), hidden={1}))
    assert "--sheet" in caught.value.fix


def test_a_header_that_is_an_error_names_no_column():
    rows = f'<row r="1">{text("A1", "id")}<c r="B1" t="e"><v>#REF!</v></c></row>'
    with pytest.raises(Invalid, match="column 2 has no name") as caught:
        read(workbook(rows))
    assert "#REF!" in caught.value.why


@pytest.mark.parametrize("name", ["old.xls", "secret.xlsx"])
def test_old_and_encrypted_workbooks_are_refused_by_name(name):
    data = io.BytesIO(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    with pytest.raises(Invalid, match=r"old kind \(\.xls\), or has a password"):
        read_any(data, name)


def read_any(data, name):
    with open_table(data, name=name) as table:
        return list(table.batches)
