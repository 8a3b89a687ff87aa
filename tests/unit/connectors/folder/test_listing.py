"""Batches are listed in pages of whole directories: each once, none left out."""

import pytest

from connectors.folder import listing
from connectors.folder.names import batch_of


@pytest.fixture
def root(tmp_path):
    for home, count in (("ann", 2), ("bob", 0), ("cat", 3), ("dan", 1)):
        (tmp_path / home).mkdir()
        for number in range(count):
            (tmp_path / home / batch_of(f"{home}-{number}")).mkdir()
    return tmp_path


def pages(root, homes):
    cursor, found = "", []
    while True:
        page = listing.batches_behind(root, homes, cursor)
        found.append([one.key for one in page.posted])
        if not page.cursor:
            return found
        assert page.cursor > cursor
        cursor = page.cursor


@pytest.mark.parametrize("size", [1, 2, 3, 4, 100])
def test_every_batch_is_listed_once_whatever_the_size_of_a_page(
    root, monkeypatch, size
):
    monkeypatch.setattr(listing, "PAGE", size)
    found = pages(root, ["ann", "bob", "cat", "dan"])
    every = [key for page in found for key in page]
    assert sorted(every) == ["ann-0", "ann-1", "cat-0", "cat-1", "cat-2", "dan-0"]
    assert all(len(page) >= size for page in found[:-1])


def test_a_directory_is_never_cut(root, monkeypatch):
    monkeypatch.setattr(listing, "PAGE", 1)
    assert [len(page) for page in pages(root, ["ann", "bob", "cat", "dan"])] == [
        2,
        3,
        1,
        0,
    ]


def test_what_is_no_batch_of_ours_is_passed_over(root):
    (root / "dan" / "notes").mkdir()
    (root / "dan" / batch_of("a file")).write_text("x")
    (root / "dan" / batch_of("k" * 100)).mkdir()  # a digest names no key
    (root / "dan" / batch_of("a link")).symlink_to(root / "ann")
    page = listing.batches_behind(root, ["dan"], "")
    assert [(one.key, one.reference) for one in page.posted] == [
        ("dan-0", f"dan/{batch_of('dan-0')}")
    ]
