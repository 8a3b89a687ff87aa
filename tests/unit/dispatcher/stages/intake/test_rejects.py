"""The file of rejected rows: where it is, what is in it, who may read it."""

import csv
import stat
from pathlib import Path

import pytest

from dispatcher.core.errors import Invalid
from dispatcher.stages.intake.rejects import HEADER, RejectsFile, rejects_path
from dispatcher.stages.intake.table import RejectedRow


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("scans.csv", "scans.rejected.csv"),
        ("scans.csv.gz", "scans.rejected.csv"),
        ("scans.JSONL", "scans.rejected.csv"),
        ("scans.tar.gz", "scans.tar.rejected.csv"),
        ("scans.v2.csv", "scans.v2.rejected.csv"),
        ("scans", "scans.rejected.csv"),
        (".csv", ".csv.rejected.csv"),
        ("a.csv.csv.csv", "a.csv.rejected.csv"),
    ],
)
def test_the_file_is_named_after_the_loaded_one(name, made):
    assert rejects_path(Path("in") / name) == Path("in") / made


def rows(path):
    with path.open(newline="", encoding="utf-8") as stream:
        return [tuple(row) for row in csv.reader(stream)]


def test_rows_are_appended_under_one_header_by_batches(tmp_path):
    path = tmp_path / "x.rejected.csv"
    with RejectsFile(path) as file:
        file.add([])
        assert not path.exists()
        file.add([RejectedRow(3, "a", "empty")])
        assert rows(path) == [HEADER, ("3", "a", "empty")]  # though it is not closed
        file.add(
            [RejectedRow(5, "=b", "no number, no date"), RejectedRow(9, "", "cut off")]
        )
    assert file.count == 3
    assert rows(path)[2:] == [("5", "'=b", "no number, no date"), ("9", "", "cut off")]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_load_replaces_the_file_of_an_earlier_one_and_closes_it(tmp_path):
    path = tmp_path / "x.rejected.csv"
    path.write_text("what an earlier load left, and more of it\n" * 9)
    path.chmod(0o644)
    with RejectsFile(path) as file:
        file.add([RejectedRow(3, "a", "empty")])
    assert rows(path) == [HEADER, ("3", "a", "empty")]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_a_path_rows_are_counted_only():
    with RejectsFile(None) as file:
        file.add([RejectedRow(3, "a", "empty")] * 4)
    assert file.count == 4


def test_a_folder_that_is_not_there_is_said(tmp_path):
    with (
        pytest.raises(Invalid, match=r"x\.rejected\.csv cannot be written"),
        RejectsFile(tmp_path / "none" / "x.rejected.csv") as file,
    ):
        file.add([RejectedRow(3, "a", "empty")])
