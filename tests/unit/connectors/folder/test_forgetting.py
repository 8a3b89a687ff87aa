"""Single tasks leave the files of a spool; all else stays, line by line."""

import pytest

from connectors.base import Forgetting
from connectors.folder.market import Folder
from connectors.folder.sheets import read_rows

GONE, STAYS = "a" * 32, "b" * 32


@pytest.fixture
def spool(tmp_path):
    market = Folder(tmp_path / "spool", settle=0)
    home = tmp_path / "spool" / "ann" / "batch-1"
    (home / "content").mkdir(parents=True)
    (home / "content" / f"{GONE}.png").write_bytes(b"canary")
    (home / "content" / f"{STAYS}.png").write_bytes(b"other")
    return market, home


def test_the_folder_can_forget(spool):
    assert isinstance(spool[0], Forgetting)


@pytest.mark.parametrize("mark", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_rows_of_a_sheet_go_and_the_others_keep_their_lines(spool, mark, end):
    market, home = spool
    rows = [
        "task,answer",
        f'{GONE},"canary, in two{end}lines ""quoted"""',
        f'{STAYS},"two{end}lines"',
        f"{GONE},canary",
        f"{STAYS},",
    ]
    sheet = home / "answers.csv"
    sheet.write_bytes((end.join(rows) + end).encode(mark))
    before = [row.line for row in read_rows(sheet.read_bytes(), "answers.csv")]
    assert market.forget([GONE]) == ()
    content = sheet.read_bytes()
    found = read_rows(content, "answers.csv")
    assert b"canary" not in content.replace(b"\0", b"")
    assert [(row.line, row.token) for row in found] == [
        (before[1], STAYS), (before[3], STAYS),
    ]  # fmt: skip
    assert not (home / "content" / f"{GONE}.png").exists()
    assert (home / "content" / f"{STAYS}.png").exists()


def test_lines_of_json_go_too(spool):
    market, home = spool
    sheet = home / "answers.jsonl"
    sheet.write_text(
        f'{{"task": "{GONE}", "answer": "canary"}}\n{{"task": "{STAYS}", "answer": 1}}\n'
    )
    market.forget([GONE])
    [row] = read_rows(sheet.read_bytes(), "answers.jsonl")
    assert (row.line, row.token) == (2, STAYS)


def test_taken_files_and_leftovers_are_looked_into(spool):
    market, home = spool
    root = home.parent.parent
    places = [root / ".taken" / "0000000001~ann~batch-1~answers.csv",
              root / ".incoming" / "left", home.parent / "my notes.txt"]  # fmt: skip
    for place in places:
        place.write_text(f"task,answer\n{GONE},canary\n")
    market.forget([GONE])
    assert not any("canary" in place.read_text() for place in places)
    again = [place.read_bytes() for place in places]
    assert market.forget([GONE]) == ()  # twice does no harm
    assert [place.read_bytes() for place in places] == again


def test_what_names_no_such_task_is_not_touched(spool):
    market, home = spool
    odd = home / "odd.csv"
    odd.write_bytes(b'\xff\xfe\x00"broken\r\r\n' + STAYS.encode())
    before = (odd.read_bytes(), odd.stat().st_mtime_ns)
    market.forget([GONE])
    assert (odd.read_bytes(), odd.stat().st_mtime_ns) == before


def test_a_link_out_of_the_spool_is_not_followed(spool, tmp_path):
    market, home = spool
    outside = tmp_path / "outside.csv"
    outside.write_text(f"{GONE},canary\n")
    (home / "link.csv").symlink_to(outside)
    market.forget([GONE])
    assert "canary" in outside.read_text()


def test_a_file_that_can_not_be_changed_is_named(spool, monkeypatch):
    market, home = spool
    sheet = home / "answers.csv"
    sheet.write_text(f"task,answer\n{GONE},canary\n")

    def refused(*_):
        raise PermissionError(13, "no")

    monkeypatch.setattr("connectors.folder.forgetting.replace_file", refused)
    assert market.forget([GONE]) == (str(sheet),)
