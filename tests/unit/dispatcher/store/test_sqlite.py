"""The file of the embedded store is private, local and safe."""

import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from dispatcher.core.errors import Invalid, NoStore, StoreUnusable
from dispatcher.store import sqlite

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:25 / /home rw,relatime shared:2 - nfs4 server:/home rw
31 30 254:1 / /home/local\\040disk rw,relatime shared:3 - xfs /dev/vdb rw
32 22 0:26 / /mnt/c rw - 9p drvfs rw
33 22 0:27 / /mnt/c rw - ext4 /dev/vdc rw
bad line
"""


@pytest.mark.parametrize(
    ("version", "safe"),
    [
        ((3, 40, 1), False),
        ((3, 44, 5), False),
        ((3, 44, 6), True),
        ((3, 45, 0), False),
        ((3, 50, 6), False),
        ((3, 50, 7), True),
        ((3, 51, 0), False),
        ((3, 51, 2), False),
        ((3, 51, 3), True),
        ((3, 53, 4), True),
        ((4, 0, 0), True),
    ],
)
def test_only_versions_without_the_wal_reset_bug_are_safe(
    version: tuple[int, ...], safe: bool
) -> None:
    assert sqlite.safe_version(version) is safe


def test_the_first_safe_driver_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    old = SimpleNamespace(sqlite_version_info=(3, 40, 1), sqlite_version="3.40.1")
    new = SimpleNamespace(sqlite_version_info=(3, 53, 4), sqlite_version="3.53.4")
    monkeypatch.setitem(__import__("sys").modules, "old_driver", old)
    monkeypatch.setitem(__import__("sys").modules, "new_driver", new)
    names = ["no_such_driver", "old_driver", "new_driver"]
    assert sqlite.safe_driver(names) is new
    with pytest.raises(StoreUnusable) as refused:
        sqlite.safe_driver(["old_driver", "no_such_driver"])
    assert "walresetbug" in refused.value.why
    assert "old_driver has 3.40.1" in refused.value.why
    assert "pysqlite3" in refused.value.fix


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/dispatcher", "ext4"),
        ("/home", "nfs4"),
        ("/home/ann", "nfs4"),
        ("/homeless", "ext4"),
        ("/home/local disk/x", "xfs"),
        ("/mnt/c/x", "ext4"),  # mounted over the 9p one
    ],
)
def test_the_nearest_mount_says_the_file_system(path: str, kind: str) -> None:
    assert sqlite.file_system(Path(path), MOUNTS) == kind


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "9p", "fuse.sshfs"])
def test_safety_34_a_network_file_system_is_refused(tmp_path: Path, kind: str) -> None:
    mounts = f"1 0 0:1 / / rw - {kind} there rw\n"
    with pytest.raises(StoreUnusable, match=f"network file system \\({kind}\\)"):
        sqlite.check_place(tmp_path / "dispatcher.db", mounts)


def test_a_local_file_system_is_taken(tmp_path: Path) -> None:
    sqlite.check_place(tmp_path / "dispatcher.db", "1 0 0:1 / / rw - ext4 /dev/vda rw")
    sqlite.check_place(tmp_path / "dispatcher.db", "")


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoStore, match="no directory"):
        sqlite.check_place(tmp_path / "nowhere" / "dispatcher.db")


def test_a_directory_where_anybody_swaps_files_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(StoreUnusable, match="anybody may replace"):
        sqlite.check_place(tmp_path / "dispatcher.db")
    tmp_path.chmod(0o1777)  # sticky, as /tmp: only the owner may
    sqlite.check_place(tmp_path / "dispatcher.db")


@pytest.mark.parametrize("mask", [0o022, 0o000, 0o277])
def test_a_new_file_is_private_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "dispatcher.db"
    before = os.umask(mask)
    try:
        sqlite.make_private(path, create=True)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) & 0o177 == 0


def test_a_file_open_to_others_is_closed_to_them(tmp_path: Path) -> None:
    path, log = tmp_path / "dispatcher.db", tmp_path / "dispatcher.db-wal"
    for name in (path, log):
        name.touch()
        name.chmod(0o644)
    sqlite.make_private(path, create=False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_missing_file_is_made_only_when_asked(tmp_path: Path) -> None:
    with pytest.raises(NoStore) as missing:
        sqlite.make_private(tmp_path / "dispatcher.db", create=False)
    assert "dispatcher init" in missing.value.fix
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="not a file"):
        sqlite.make_private(tmp_path, create=True)
