"""Connectors are added, given secrets, enabled, and written anew as packages."""

import errno
import json
import os
import subprocess
import sys
import tomllib
import zipfile

import pytest

from dispatcher.app.servers import free_ports

KEY = "6b" * 32
TURKLE = ["add", "turkle", "--set", "url=https://turkle.example.org"]


@pytest.fixture
def house(run, tmp_path, sqlite_template):
    """An empty store, a secret, and settings with a remark of the operator's."""
    (tmp_path / "dispatcher.db").write_bytes(sqlite_template.read_bytes())
    (tmp_path / "given").write_text(f"word\n{KEY}\n")
    return lambda *words: run("connectors", *words)


def settings(tmp_path):
    return tomllib.loads((tmp_path / "dispatcher.toml").read_text())


def paused(run):
    found = json.loads(run("--json", "status").out)["paused"]
    return {scope: one["reason"] for scope, one in found.items()}


def test_a_connector_is_added_disabled_beside_those_of_the_defaults(
    house, run, tmp_path
):
    done = house(*TURKLE, "--secret-from", "given")
    assert done.code == 0, done.err
    assert set(settings(tmp_path)["connectors"]) == {"folder", "inhouse", "turkle"}
    assert (tmp_path / "turkle.secret").read_text() == f"word\n{KEY}\n"
    assert (tmp_path / "turkle.secret").stat().st_mode & 0o777 == 0o600
    assert paused(run) == {"connector:turkle": "added and not enabled yet"}
    assert "turkle" in house("list").out


def test_settings_that_are_there_keep_their_remarks(house, tmp_path):
    before = '# mine\nplans = "manual"\n\n[connectors.inhouse]  # ours\n'
    (tmp_path / "dispatcher.toml").write_text(before)
    done = house("add", "drop", "--kind", "folder", "--set", 'spool=a "b" \\c')
    assert done.code == 0, done.err
    assert (tmp_path / "dispatcher.toml").read_text().startswith(before)
    assert settings(tmp_path)["connectors"] == {
        "inhouse": {},
        "drop": {"kind": "folder", "spool": 'a "b" \\c'},
    }


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["add", "turkle", "--set", "url=x", "--secret-from", "given"], 5),
        (["add", "turkle", "--set", "url=https://t.example.org"], 5),  # no secret
        ([*TURKLE, "--set", "nonsense=1", "--secret-from", "given"], 5),
        ([*TURKLE, "--secret-from", "missing"], 5),
        (["add", "turkle", "--set", "url"], 2),
        (["add", "no name"], 2),
        (["add", "x", "--kind", "nothing"], 5),
        (["add", "inhouse"], 1),
    ],
)
def test_what_is_wrong_changes_nothing(house, run, tmp_path, words, code):
    assert house(*words).code == code
    assert not (tmp_path / "dispatcher.toml").exists()
    assert not (tmp_path / "turkle.secret").exists()
    assert paused(run) == {}


def test_a_secret_is_replaced_only_by_one_that_fits(house, tmp_path):
    house(*TURKLE, "--secret-from", "given")
    (tmp_path / "bad").write_text("one line")
    (tmp_path / "good").write_text(f"new\n{KEY}\n")
    assert house("set-secret", "turkle", "--secret-from", "bad").code == 5
    assert (tmp_path / "turkle.secret").read_text() == f"word\n{KEY}\n"
    done = house("set-secret", "turkle", "--secret-from", "good")
    assert done.code == 0, done.err
    assert (tmp_path / "turkle.secret").read_text() == f"new\n{KEY}\n"
    assert KEY not in done.out + done.err
    assert house("set-secret", "folder", "--secret-from", "good").code == 1


def test_a_secret_that_finds_no_room_leaves_no_part_of_it(house, tmp_path, monkeypatch):
    house(*TURKLE, "--secret-from", "given")
    (tmp_path / "good").write_text(f"new\n{KEY}\n")
    before = {path: path.stat().st_mode for path in tmp_path.iterdir()}

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert house("set-secret", "turkle", "--secret-from", "good").code != 0
    assert {path: path.stat().st_mode for path in tmp_path.iterdir()} == before
    assert (tmp_path / "turkle.secret").read_text() == f"word\n{KEY}\n"


def test_a_secret_that_is_replaced_keeps_who_may_read_it(house, tmp_path):
    house(*TURKLE, "--secret-from", "given")
    (tmp_path / "turkle.secret").chmod(0o640)
    assert house("set-secret", "turkle", "--secret-from", "given").code == 0
    assert (tmp_path / "turkle.secret").stat().st_mode & 0o777 == 0o640


def test_enabling_needs_a_test_that_passes_and_disabling_is_at_once(house, run):
    house("add", "drop", "--kind", "folder", "--set", "spool=spool")
    assert house("enable", "drop").code == 0
    assert paused(run) == {}
    assert house("disable", "drop", "--reason", "audit").code == 0
    assert paused(run) == {"connector:drop": "audit"}
    assert house("disable", "dorp").code == 1


def test_what_can_not_be_reached_is_enabled_only_untested(house, run):
    url = f"url=http://127.0.0.1:{free_ports(1)[0]}"
    here = ["--set", "allow_private=127.0.0.1", "--secret-from", "given"]
    assert house("add", "turkle", "--set", url, *here).code == 0
    done = house("enable", "turkle")
    assert done.code == 1
    assert "127.0.0.1 cannot be reached" in done.err
    assert list(paused(run)) == ["connector:turkle"]
    assert house("enable", "turkle", "--untested").code == 0
    assert paused(run) == {}


def wheel_of(package, target):
    """Build the package as its pyproject says, without a builder from the network."""
    project = tomllib.loads((package / "pyproject.toml").read_text())
    name, [folder] = (
        project["project"]["name"].replace("-", "_"),
        project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"],
    )
    path = target / f"{name}-0.1.0-py3-none-any.whl"
    info = f"{name}-0.1.0.dist-info"
    points = "".join(
        f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in found.items())
        for group, found in project["project"]["entry-points"].items()
    )
    with zipfile.ZipFile(path, "w") as wheel:
        for file in sorted((package / folder).rglob("*.py")):
            wheel.write(file, file.relative_to(package))
        wheel.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n",
        )
        wheel.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(f"{info}/entry_points.txt", points)
        wheel.writestr(f"{info}/RECORD", "")
    return path


def test_a_new_package_is_installed_tested_and_used_as_a_third_partys(house, tmp_path):
    assert house("new", "notice-board").code == 0
    assert house("new", "notice-board").code == 1  # nothing is written over
    package = tmp_path / "sparsi-connector_notice_board"
    site = tmp_path / "site"
    wheel = wheel_of(package, tmp_path)
    words = ["-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target"]
    subprocess.run([sys.executable, *words, site, wheel], check=True)
    around = {**os.environ, "PYTHONPATH": str(site)}

    def outside(*words, cwd=tmp_path):
        return subprocess.run(
            [sys.executable, "-m", *words],
            cwd=cwd, env=around, capture_output=True, text=True, check=False,
        )  # fmt: skip

    tested = outside("pytest", "-q", "-p", "no:cacheprovider", cwd=package)
    assert tested.returncode == 0, tested.stdout
    assert "failed" not in tested.stdout
    assert (
        "notice-board"
        in outside("dispatcher", "connectors", "list", "--available").stdout
    )
    added = outside("dispatcher", "connectors", "add", "mine", "--kind", "notice-board")
    assert added.returncode == 0, added.stderr
    used = outside("dispatcher", "connectors", "test", "mine")
    assert used.stdout.splitlines()[-1] == "ok    the outside answers"
