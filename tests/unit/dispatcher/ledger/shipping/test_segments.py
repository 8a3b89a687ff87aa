"""The files of the shipped ledger: appended, rotated, cut off, changed, shared."""

import json
import os
import stat

import pytest

from dispatcher.core.canonical import NO_HASH, canonical, line_hash
from dispatcher.core.errors import LedgerBroken, LedgerForeign, NotShipped
from dispatcher.ledger.shipping import Segments, shipped_lines


class Chain:
    """Makes lines of one chain, each with its head."""

    def __init__(self, name):
        self.name, self.seq, self.head = name, 0, NO_HASH

    def line(self):
        self.seq += 1
        members = {"chain": self.name, "seq": self.seq, "prev": self.head, "n": 7}
        self.head = line_hash(self.head, members)
        text = canonical(members | {"hash": self.head}) + "\n"
        return text.encode(), {self.name: (self.seq, self.head)}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "ledger"


def write(segments, chain, count=1):
    for _ in range(count):
        text, heads = chain.line()
        with segments.locked():
            segments.append(text, heads)


def places(folder):
    return [
        (line.members["chain"], line.members["seq"]) for line in shipped_lines(folder)
    ]


def test_lines_come_back_in_order_of_each_chain(folder):
    segments, a, b = Segments(folder, "i1"), Chain("a1"), Chain("a2")
    for chain in (a, b, a):
        write(segments, chain)
    assert places(folder) == [("a1", 1), ("a2", 1), ("a1", 2)]


def test_files_and_folder_are_for_their_owner_only(folder):
    before = os.umask(0)
    try:
        write(Segments(folder, "i1"), Chain("a1"))
    finally:
        os.umask(before)
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in folder.iterdir()}
    assert modes == {"ledger-000001.jsonl": 0o600, "lock": 0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_full_file_is_followed_by_one_that_says_where_the_chains_stand(folder):
    segments, a = Segments(folder, "i1", limit=500), Chain("a1")
    write(segments, a, 7)
    assert len(list(folder.glob("ledger-*.jsonl"))) > 2
    assert places(folder) == [("a1", n) for n in range(1, 8)]
    fresh = Segments(folder, "i1", limit=500)
    with fresh.locked():
        assert fresh.head("a1") == (7, a.head)


def test_two_processes_see_what_the_other_wrote(folder):
    one, two, a = Segments(folder, "i1", limit=400), Segments(folder, "i1"), Chain("a1")
    for _ in range(4):
        write(one, a)
        with two.locked():
            assert two.head("a1") == (a.seq, a.head)
        write(two, a)
    assert places(folder) == [("a1", n) for n in range(1, 9)]


@pytest.mark.parametrize("kept", range(1, 60, 7))
def test_a_line_that_was_cut_off_is_cut_away_and_written_again(folder, kept):
    segments, a = Segments(folder, "i1"), Chain("a1")
    write(segments, a, 2)
    segments.close()
    path = folder / "ledger-000001.jsonl"
    text, heads = a.line()
    with path.open("ab") as file:
        file.write(text[:kept])
    assert places(folder) == [("a1", 1), ("a1", 2)]
    with segments.locked():
        assert segments.head("a1")[0] == 2
        segments.append(text, heads)
    assert places(folder)[-1] == ("a1", 3)


def test_a_file_whose_first_line_was_cut_off_is_begun_again(folder):
    segments, a = Segments(folder, "i1", limit=10), Chain("a1")
    write(segments, a)
    segments.close()
    (folder / "ledger-000002.jsonl").write_bytes(b'{"format":1,"hea')
    assert places(folder) == [("a1", 1)]
    write(segments, a)
    assert places(folder) == [("a1", 1), ("a1", 2)]


def test_another_stores_ledger_is_refused(folder):
    write(Segments(folder, "i1"), Chain("a1"))
    other = Segments(folder, "i2")
    with pytest.raises(LedgerForeign, match="another store's"), other.locked():
        pass
    with pytest.raises(LedgerForeign):
        list(shipped_lines(folder, store="i2"))


def lines_of(path):
    return path.read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda ls: ls[:2] + ls[3:], "line 3 follows line 1"),
        (lambda ls: [ls[0], ls[2], ls[1], *ls[3:]], "line 2 follows line 0"),
        (lambda ls: [*ls[:2], b"{x\n", *ls[3:]], "not JSON"),
        (lambda ls: [*ls[:2], b"[]\n", *ls[3:]], "no object"),
        (lambda ls: [*ls[:2], b"{}\n", *ls[3:]], "no line of a ledger"),
        (lambda ls: ls[1:], "first line"),
    ],
)
def test_a_gap_or_an_edit_is_told_with_its_place(folder, damage, told):
    segments, a = Segments(folder, "i1"), Chain("a1")
    write(segments, a, 4)
    segments.close()
    path = folder / "ledger-000001.jsonl"
    path.write_bytes(b"".join(damage(lines_of(path))))
    for read in (lambda: list(shipped_lines(folder)), segments.locked().__enter__):
        with pytest.raises(LedgerBroken) as caught:
            read()
        assert told in caught.value.why
        assert "ledger-000001.jsonl" in caught.value.what


def test_a_missing_file_and_a_shortened_one_are_told(folder):
    segments, a = Segments(folder, "i1", limit=300), Chain("a1")
    write(segments, a, 5)
    second = folder / "ledger-000002.jsonl"
    whole = second.read_bytes()
    second.write_bytes(b"".join(lines_of(second)[:-1]))
    with pytest.raises(LedgerBroken, match="000003"):
        list(shipped_lines(folder))
    second.unlink()
    with pytest.raises(LedgerBroken) as caught:
        list(shipped_lines(folder))
    assert "missing" in caught.value.why
    second.write_bytes(whole)
    assert len(places(folder)) == 5


def test_no_ledger_at_all_is_told(folder):
    with pytest.raises(LedgerBroken):
        list(shipped_lines(folder))


def test_a_disk_that_takes_nothing_leaves_whole_lines_and_can_be_tried_again(
    folder, monkeypatch
):
    segments, a = Segments(folder, "i1"), Chain("a1")
    write(segments, a)
    text, heads = a.line()
    real = os.pwrite

    def half(file, data, offset):
        if len(data) > 10:
            return real(file, bytes(data[:10]), offset)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", half)
        with pytest.raises(NotShipped, match="cannot be shipped"), segments.locked():
            segments.append(text, heads)
    assert places(folder) == [("a1", 1)]
    with segments.locked():
        assert segments.head("a1")[0] == 1
        segments.append(text, heads)
    assert places(folder) == [("a1", 1), ("a1", 2)]


def test_a_folder_that_can_not_be_made_says_what_to_do(tmp_path):
    (tmp_path / "file").write_text("x")
    segments = Segments(tmp_path / "file" / "ledger", "i1")
    with pytest.raises(NotShipped) as caught, segments.locked():
        pass
    assert caught.value.retryable
    assert "ship" in caught.value.fix


def test_the_first_line_names_store_and_form(folder):
    write(Segments(folder, "i1"), Chain("a1"))
    head = json.loads(lines_of(folder / "ledger-000001.jsonl")[0])
    assert head == {"format": 1, "heads": {}, "segment": 1, "store": "i1"}
