"""The commands around keys and erasure: what is asked, printed, and the exit statuses."""

import errno
import io
import json
import os
import shutil
import stat
import sys
from functools import partial
from pathlib import Path

import pytest

from dispatcher.surfaces.cli.context import CliContext, wall_clock
from dispatcher.surfaces.cli.start import main

POLICY = """
version = 1
name = "forms"
[entity.form]
key = "rx_id"
subject = "patient"
retain = "90d"
[entity.form.fields]
patient_name = { ask = "transcribe" }
zip = { ask = "transcribe" }
[property.both]
of = ["patient_name", "zip"]
"""
FORMS = "rx_id,patient,patient_name,zip\n" + "".join(
    f"canary-rx-{i},canary-p-{i % 2},canary-name-{i},canary-zip-{i}\n" for i in range(4)
)


@pytest.fixture(params=["sqlite", "postgresql"])
def run(request, tmp_path, monkeypatch, capsys):
    """Run the program in a directory of its own; gives status, stdout, stderr."""
    home = tmp_path / "home"
    for name in ("DISPATCHER_KEY_FILE", "CREDENTIALS_DIRECTORY", "DISPATCHER_STORE"):
        monkeypatch.delenv(name, raising=False)
    if request.param == "postgresql":
        location = request.getfixturevalue("postgres_database")
        monkeypatch.setenv("DISPATCHER_STORE", location)

    def invoke(*words, stdin=""):
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        status = main(["-C", str(home), *(str(word) for word in words)])
        out, err = capsys.readouterr()
        return status, out, err

    invoke.home = home
    return invoke


@pytest.fixture
def filled(run, tmp_path):
    assert run("init")[0] == 0
    (run.home / "policy.toml").write_text(POLICY)
    assert run("policy", "apply", "--yes")[0] == 0
    source = tmp_path / "forms.csv"
    source.write_text(FORMS)
    assert run("records", "load", source)[0] == 0
    return run


def canaries(home) -> list[str]:
    return sorted(
        str(path.relative_to(home))
        for path in home.rglob("*")
        if path.is_file() and b"canary" in path.read_bytes()
    )


def test_a_new_store_is_sealed_from_birth(filled):
    key = filled.home / "dispatcher.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert "*.key" in (filled.home / ".gitignore").read_text()
    assert canaries(filled.home) == []
    assert "canary-rx-0" in filled("records", "list", "--no-header")[1]


def test_a_person_is_found_by_a_key_from_stdin_and_erased_for_good(filled):
    whole = filled.home / "whole.csv"
    assert filled("records", "reassemble", "-o", whole)[0] == 0
    assert canaries(filled.home) == ["whole.csv"]
    status, out, _ = filled("--json", "subject", "find", stdin="canary-p-1\n")
    [found] = json.loads(out)["found"]
    assert (status, found["kind"], found["records"], found["fields"]) == (
        0, "subject", 2, 4,
    )  # fmt: skip
    name = found["id"]
    status, out, _ = filled("subject", "erase", name, "--dry-run")
    assert status == 0
    assert out.startswith("DRY RUN")
    assert "2 records, 4 fields" in out
    for words in ((), ("--confirm", "s000")):
        status, _, err = filled("subject", "erase", name, *words)
        assert status == 2
        assert f"--confirm={name}" in err
    assert whole.read_text().count("canary-p-1") == 2
    status, out, err = filled("subject", "erase", name, f"--confirm={name}")
    assert status == 0, err
    assert "backups made before now" in out
    assert "canary-p-1" not in whole.read_text()
    assert "canary-p-0" in whole.read_text()
    assert "erased" in filled("subject", "find", stdin="canary-p-1\n")[1]
    states = [
        row.split("\t")[2]
        for row in filled("records", "list", "--no-header")[1].splitlines()
    ]
    assert sorted(states) == ["erased", "erased", "open", "open"]


def test_no_word_on_the_command_line_is_a_key(filled):
    assert filled("subject", "find", "canary-p-1")[0] == 2
    assert filled("subject", "find", stdin="")[0] == 2
    status, _, err = filled("subject", "find", stdin="canary-nobody\n")
    assert status == 1
    assert "canary-nobody" not in err


def test_a_report_is_private_and_whole(filled, tmp_path):
    name = json.loads(filled("--json", "subject", "find", stdin="canary-p-0")[1])
    target = tmp_path / "report.zip"
    assert filled("subject", "report", name["found"][0]["id"], "-o", target)[0] == 0
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    status, _, err = filled("subject", "report", name["found"][0]["id"], "-o", target)
    assert status == 5
    assert "new file" in err


def test_a_purge_is_rehearsed_confirmed_and_done(filled, monkeypatch):
    assert (
        "0 records" in filled("records", "purge", "--older-than", "90d", "--dry-run")[1]
    )
    later = wall_clock() + 91 * 86_400 * 10**6
    in_spring = partial(CliContext, clock=lambda: later)
    monkeypatch.setattr("dispatcher.surfaces.cli.app.CliContext", in_spring)
    assert (
        "4 records" in filled("records", "purge", "--older-than", "90d", "--dry-run")[1]
    )
    status, _, err = filled("records", "purge", "--older-than", "90d")
    assert (status, "--confirm=purge-90d" in err) == (2, True)
    words = ("records", "purge", "--older-than", "90d", "--confirm=purge-90d")
    assert filled(*words)[0] == 0
    assert filled("records", "purge", "--older-than", "many", "--dry-run")[0] == 2
    assert (
        "0 records" in filled("records", "purge", "--older-than", "90d", "--dry-run")[1]
    )


def test_a_lost_a_loose_and_a_wrong_key_end_with_12_and_the_way_out(
    filled, tmp_path, monkeypatch
):
    key = filled.home / "dispatcher.key"
    key.chmod(0o644)
    status, _, err = filled("status")
    assert (status, "chmod 600" in err, "E121" in err) == (12, True, True)
    key.chmod(0o600)
    key.rename(tmp_path / "kept.key")
    status, out, err = filled("status")
    assert (status, out) == (12, "")
    assert "DISPATCHER_KEY_FILE" in err
    other = tmp_path / "other"
    with monkeypatch.context() as alone:
        alone.delenv("DISPATCHER_STORE", raising=False)
        assert main(["-C", str(other), "init"]) == 0
    (other / "dispatcher.key").rename(key)
    status, _, err = filled("records", "list")
    assert (status, "is not this store's" in err) == (12, True)
    assert "E121" in filled("explain", "E121")[1]


def test_the_key_may_lie_elsewhere(filled, tmp_path, monkeypatch):
    key = filled.home / "dispatcher.key"
    place = tmp_path / "credentials"
    place.mkdir()
    key.rename(place / "dispatcher.key")
    monkeypatch.setenv("DISPATCHER_KEY_FILE", str(place / "dispatcher.key"))
    assert filled("status")[0] == 0
    monkeypatch.delenv("DISPATCHER_KEY_FILE")
    (place / "dispatcher.key").chmod(0o440)  # as systemd's may be
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(place))
    assert filled("status")[0] == 0
    monkeypatch.delenv("CREDENTIALS_DIRECTORY")
    (place / "dispatcher.key").chmod(0o600)
    settings = filled.home / "dispatcher.toml"
    text = settings.read_text().replace(
        "dispatcher.key", "../credentials/dispatcher.key"
    )
    settings.write_text(text)
    assert filled("status")[0] == 0


def test_a_rekeying_changes_the_key_and_drops_the_old_one_when_told(filled):
    key = filled.home / "dispatcher.key"
    before = key.read_text()
    status, out, _ = filled("db", "rekey", "--new-key")
    assert (status, "2 data keys wrapped" in out) == (0, True)
    lines = [line for line in key.read_text().splitlines() if line[:1] == "d"]
    assert len(lines) == 2
    assert lines[1] in before
    assert filled("db", "rekey", "--forget-old-keys")[0] == 0
    assert lines[1] not in key.read_text()
    assert "canary-rx-3" in filled("records", "list", "--no-header")[1]
    assert [p.name for p in filled.home.glob("*.key*")] == ["dispatcher.key"]
    assert filled("db", "scrub")[0] == 0


def found(filled):
    """The name of a person, as a command finds it."""
    out = filled("--json", "subject", "find", stdin="canary-p-1\n")[1]
    return json.loads(out)["found"][0]["id"]


def test_an_erasure_gives_a_signed_receipt_that_a_command_checks(filled, monkeypatch):
    name = found(filled)
    status, out, _ = filled("subject", "erase", name, f"--confirm={name}")
    assert (status, "(signed)" in out) == (0, True)
    [path] = (filled.home / "receipts").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    receipt = json.loads(path.read_text())
    assert (receipt["erased"], receipt["deleted"]["records"]) == (name, 2)
    assert "canary" not in path.read_text()
    status, out, _ = filled("audit", "verify", path)
    assert (status, out[:8]) == (0, "VERIFIED")
    key = ("--public-key", receipt["key"])
    monkeypatch.setenv("DISPATCHER_STORE", str(filled.home / "none.db"))
    assert filled("audit", "verify", path, *key)[0] == 0  # no store is needed
    for member, value in (("at", 5), ("deleted", {}), ("key", "0" * 64)):
        path.write_text(json.dumps(receipt | {member: value}))
        status, out, _ = filled("audit", "verify", path, *key)
        assert (status, out[:6]) == (1, "BROKEN")
    path.write_text("[1]")
    assert filled("audit", "verify", path, *key)[0] == 5


def test_whatever_holds_a_copy_still_is_named_and_is_in_the_receipt(filled, tmp_path):
    elsewhere = [tmp_path / "usb", tmp_path / "gone"]
    for folder in elsewhere:
        assert filled("backup", "create", "--no-verify", "--folder", folder)[0] == 0
    shutil.rmtree(elsewhere[1])
    [kept] = elsewhere[0].glob("*.backup")
    (elsewhere[0] / "odd.backup").write_bytes(b"cut off")
    name = found(filled)
    aside = [
        filled.home / f"dispatcher.db.{tail}" for tail in ("replaced", "replaced-2")
    ]
    on_a_file = (filled.home / "dispatcher.db").exists()
    for _ in aside if on_a_file else ():
        words = ("backup", "restore", kept.name, "--folder", elsewhere[0], "--force")
        status, _, err = filled(*words, "--to", "dispatcher.db")
        assert status == 0, err
    status, out, err = filled("subject", "erase", name, f"--confirm={name}")
    assert status == (3 if on_a_file else 0), err
    for path in aside if on_a_file else ():
        assert f"STILL THERE  {path}: a store that a restore put aside" in out
    assert f"1 in {elsewhere[0]}\n" in out
    assert f"{elsewhere[0] / 'odd.backup'}: broken" in out
    assert f"NOT LOOKED INTO {elsewhere[1]}" in out  # the restored store knows it too
    [path] = (filled.home / "receipts").iterdir()
    receipt = json.loads(path.read_text())
    assert [one["id"] for one in receipt["backups"]] == [kept.name[: -len(".backup")]]
    assert receipt["backups_broken"] == 1
    assert receipt["backup_folders_away"] == 1
    assert receipt["stores_put_aside"] == (2 if on_a_file else 0)
    assert receipt["store_files_clean"] is not on_a_file
    for one in aside if on_a_file else ():
        one.unlink()
    assert filled("subject", "erase", name, f"--confirm={name}")[0] == 0
    assert filled("audit", "verify", path)[0] == 0


def test_a_folder_that_holds_no_backup_any_more_is_named_until_it_is_given_up(
    filled, tmp_path
):
    """An empty folder may be the mount point of a disk that is elsewhere."""
    own, usb = filled.home / "backups", tmp_path / "usb"
    made = {}
    for folder, words in ((own, ()), (usb, ("--folder", usb))):
        told = filled("--json", "backup", "create", "--no-verify", *words)[1]
        made[folder] = json.loads(told)["id"]
        for path in folder.iterdir():
            path.unlink()
    name = found(filled)
    erase = ("subject", "erase", name, f"--confirm={name}")
    _, out, _ = filled(*erase)
    for folder, last in made.items():
        assert f"{folder}: no backup is in it, and {last} was made there" in out
    [path] = (filled.home / "receipts").iterdir()
    receipt = json.loads(path.read_text())
    assert (receipt["backups"], receipt["backup_folders_away"]) == ([], 2)
    for words in ((), ("--folder", usb)):
        assert filled("backup", "prune", "--keep", 1, "--forget", *words)[0] == 2
        assert (
            filled("--yes", "backup", "prune", "--keep", 1, "--forget", *words)[0] == 0
        )
    assert "NOT LOOKED INTO" not in filled(*erase)[1]


@pytest.mark.parametrize("kind", ["subject", "purge"])
def test_a_folder_that_can_not_be_read_ends_no_erasure_and_is_named(
    filled, tmp_path, monkeypatch, kind
):
    """``sudo dispatcher backup create --folder /root/b``, and the erasure is the daemon's."""
    closed = tmp_path / "closed"
    assert filled("backup", "create", "--no-verify", "--folder", closed)[0] == 0
    name = found(filled)
    words = {
        "subject": ("subject", "erase", name, f"--confirm={name}"),
        "purge": ("records", "purge", "--older-than", "0h", "--confirm=purge-0h"),
    }

    def refusing(call):
        def refused(path=".", *rest, **more):
            if isinstance(path, (str, os.PathLike)) and Path(path) == closed:
                raise PermissionError(
                    errno.EACCES, os.strerror(errno.EACCES), str(path)
                )
            return call(path, *rest, **more)

        return refused

    with monkeypatch.context() as patch:
        for call in ("stat", "scandir"):
            patch.setattr(os, call, refusing(getattr(os, call)))
        status, out, err = filled(*words[kind])
    assert status == 0, err
    assert f"NOT LOOKED INTO {closed}: Permission denied, and bk_" in out
    if kind == "subject":
        [path] = (filled.home / "receipts").iterdir()
        assert json.loads(path.read_text())["backup_folders_away"] == 1


def test_a_purge_is_noted_so_that_a_restored_backup_is_purged_again(filled):
    assert (
        filled("records", "purge", "--older-than", "0h", "--confirm=purge-0h")[0] == 0
    )
    line = json.loads((filled.home / "erasures.jsonl").read_text())
    assert line["before"] <= line["at"]
