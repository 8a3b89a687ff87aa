"""The list of erasures: durable, private, repeated names once, cut ends left out."""

import pytest

from dispatcher.core.errors import Invalid
from dispatcher.custody import erasure_list


@pytest.fixture
def path(tmp_path):
    return tmp_path / "erasures.jsonl"


def test_names_are_kept_in_order_and_once(path):
    assert erasure_list.read(path).names == ()
    for name in ("s1", "r2", "s1"):
        erasure_list.note(path, name, 5)
    assert erasure_list.read(path).names == ("s1", "r2")
    assert path.read_text() == '{"at":5,"id":"s1"}\n{"at":5,"id":"r2"}\n'
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_line_that_a_crash_cut_short_is_left_out(path):
    erasure_list.note(path, "s1", 5)
    with path.open("a") as file:
        file.write('{"at":6,"i')
    assert erasure_list.read(path).names == ("s1",)


@pytest.mark.parametrize("line", ["nonsense", "[]", "{}", '"s1"'])
def test_a_broken_line_is_told(path, line):
    path.write_text(f"{line}\n")
    with pytest.raises(Invalid, match="line 1"):
        erasure_list.read(path)


def test_where_the_list_can_not_be_written_nothing_is_erased(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(Invalid, match="cannot be written"):
        erasure_list.note(tmp_path / "file" / "erasures.jsonl", "s1", 5)


def test_a_line_that_was_cut_short_does_not_spoil_the_next_one(path):
    erasure_list.note(path, "s1", 5)
    with path.open("a") as file:
        file.write('{"at":6,"i')
    erasure_list.note(path, "s2", 7)
    assert erasure_list.read(path).names == ("s1", "s2")


def test_other_spellings_and_purges_are_kept_beside(path):
    erasure_list.note(path, "s1", 5, ["Sx"])
    erasure_list.note(path, "s1", 6, ["Sx"])
    erasure_list.note(path, "r1", 6)
    erasure_list.note_purge(path, 100, 7)
    erasure_list.note_purge(path, 90, 8)
    found = erasure_list.read(path)
    assert (found.names, found.spelled, found.before) == (("s1", "r1"), {"Sx"}, 100)
    assert len(path.read_text().splitlines()) == 3


def test_two_lists_are_read_as_one_and_each_gets_what_the_other_has(tmp_path):
    one, other = erasure_list.places(tmp_path / "home", None, tmp_path / "shipped")
    assert not erasure_list.read(one, other).there
    erasure_list.share([one, other])
    assert not erasure_list.read(one, other).there
    erasure_list.note(one, "s1", 5)
    erasure_list.note(other, "s2", 6, ["Sx"])
    erasure_list.note_purge(other, 100, 7)
    found = erasure_list.read(one, other)
    assert (found.names, found.spelled, found.before, found.there) == (
        ("s1", "s2"), {"Sx"}, 100, True,
    )  # fmt: skip
    for _ in range(2):
        erasure_list.share([one, other])
        for path in (one, other):
            assert set(erasure_list.read(path).names) == {"s1", "s2"}
            assert len(path.read_text().splitlines()) == 3


def test_a_broken_list_is_not_shared(tmp_path):
    one, other = erasure_list.places(tmp_path, tmp_path / "shipped")
    erasure_list.note(other, "s1", 5)
    one.write_text("nonsense\n")
    with pytest.raises(Invalid, match="line 1"):
        erasure_list.share([one, other])
    assert one.read_text() == "nonsense\n"


def test_a_list_that_can_not_be_read_is_told_and_is_not_taken_for_none(path):
    path.mkdir()
    with pytest.raises(Invalid, match="cannot be read") as caught:
        erasure_list.read(path)
    assert str(path) in caught.value.what
    assert "Is a directory" in caught.value.why
