"""Leftovers: what is looked for, and where it is found."""

import pytest

from dispatcher.custody import residue_scan


def test_keys_and_long_texts_are_looked_for_and_what_proves_nothing_is_not():
    found = residue_scan.needles_of(
        [b"rx-104", b"7", b" rx-104 "],
        [b"Ann Secretson", b"2026-01-01", b"flu", b"12345678901", b""],
    )
    assert found == [b"Ann Secretson", b"rx-104"]


def test_a_long_text_is_looked_for_by_its_beginning():
    assert residue_scan.needles_of([], [b"a" * 1000]) == [b"a" * 256]


@pytest.mark.parametrize("before", [0, residue_scan.BLOCK - 3, residue_scan.BLOCK, 5])
def test_a_text_is_found_wherever_it_stands(tmp_path, before):
    file = tmp_path / "deep" / "file.bin"
    file.parent.mkdir()
    file.write_bytes(b"." * before + b"Secretson" + b"." * 10)
    assert residue_scan.search(tmp_path, [b"Secretson"]) == [str(file)]
    assert residue_scan.search(tmp_path, [b"Secretson"], but=[file]) == []
    assert residue_scan.search(tmp_path, [b"Other"]) == []
    assert residue_scan.search(tmp_path, []) == []


def test_links_are_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.write_bytes(b"Secretson")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(outside)
    assert residue_scan.search(inside, [b"Secretson"]) == []
