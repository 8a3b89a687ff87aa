"""Files that only their owner may read."""

from __future__ import annotations

import fcntl
import os

import pytest

from dispatcher.core import private_files
from dispatcher.core.private_files import (
    ScratchFolder,
    append_lines,
    private,
    sync_folder,
)


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.mark.parametrize("mode", ["x", "w", "a", "x+b", "a+b"])
def test_a_new_file_is_its_owners_alone(tmp_path, umask, mode):
    path = tmp_path / "new"
    with open(path, mode, opener=private):
        pass
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", ["x", "w", "a", "r", "r+"])
def test_a_link_is_not_followed(tmp_path, mode):
    """Else who may write to the folder chooses which file is overwritten."""
    other = tmp_path / "other"
    other.write_text("as it was")
    link = tmp_path / "link"
    link.symlink_to(other)
    with pytest.raises(OSError, match=r"File exists|symbolic links"):
        open(link, mode, opener=private).close()
    assert other.read_text() == "as it was"


def test_a_new_file_takes_no_other_ones_place(tmp_path):
    path = tmp_path / "there"
    path.write_text("as it was")
    with pytest.raises(FileExistsError):
        open(path, "x", opener=private).close()
    assert path.read_text() == "as it was"


def test_no_child_process_inherits_it(tmp_path):
    number = private(tmp_path / "new", os.O_RDWR | os.O_CREAT)
    assert not os.get_inheritable(number)
    os.close(number)


def test_a_folder_that_is_not_there_is_not_synced(tmp_path):
    sync_folder(tmp_path)
    with pytest.raises(FileNotFoundError):
        sync_folder(tmp_path / "none")


class OnlyAppended:
    """A file as the system gives it under ``chattr +a``."""

    def __init__(self, file):
        self._file = file
        if not fcntl.fcntl(file, fcntl.F_GETFL) & os.O_APPEND:
            raise PermissionError(1, "Operation not permitted")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._file.close()

    def __getattr__(self, name):
        return getattr(self._file, name)

    def truncate(self, size):
        raise PermissionError(1, "Operation not permitted")


def test_lines_go_to_a_file_that_may_only_be_appended_to(tmp_path, monkeypatch):
    path = tmp_path / "roots"
    append_lines(path, b"one\n")
    opened = os.fdopen
    monkeypatch.setattr(os, "fdopen", lambda *about: OnlyAppended(opened(*about)))
    append_lines(path, b"two\n")
    assert path.read_bytes() == b"one\ntwo\n"
    with path.open("ab") as file:
        file.write(b"thr")
    with pytest.raises(PermissionError):  # the cut line cannot go: told, not doubled
        append_lines(path, b"three\n")
    monkeypatch.undo()
    append_lines(path, b"three\n")
    assert path.read_bytes() == b"one\ntwo\nthree\n"


def test_the_name_of_a_new_file_is_durable_before_its_first_line(tmp_path, monkeypatch):
    path = tmp_path / "new"
    seen = []
    monkeypatch.setattr(
        private_files,
        "sync_folder",
        lambda folder: seen.append((folder, path.stat().st_size)),
    )
    append_lines(path, b"one\n")
    append_lines(path, b"two\n")
    assert seen == [(tmp_path, 0)]


def test_what_a_crash_left_is_removed_and_a_running_process_keeps_its_files(tmp_path):
    left = tmp_path / "scratch" / "crashed" / "upload-1"
    left.mkdir(parents=True)
    (left / "body").write_text("a value")
    running, starting = (ScratchFolder(tmp_path / "scratch") for _ in range(2))
    kept = running.make("upload-", {"upload-": 1})
    starting.sweep()
    assert not left.parent.exists()
    assert kept.is_dir()
    assert running.make("upload-", {"upload-": 1}) is None
    assert kept.stat().st_mode & 0o777 == 0o700
    running.close()
    assert not kept.parent.exists()
