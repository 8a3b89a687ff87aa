"""``dispatcher backup`` and ``restore`` as an operator meets them."""

import errno
import io
import json
import os
import shutil

import pytest

from dispatcher.core import progress
from dispatcher.core.errors import StoreUnusable
from dispatcher.custody.erasure import erase_again
from dispatcher.ledger.book import Asks, Push, book
from dispatcher.operations.subjects import erasure_context
from dispatcher.store import pause, settings
from dispatcher.surfaces.cli.context import CliContext
from dispatcher.surfaces.cli.start import main
from tests import sql
from tests.integration.ledger_cases import set_up_one_record


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command in a directory with a store that has one record."""
    for name in [n for n in os.environ if n.startswith("DISPATCHER_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def call(*words):
        code = main(list(words))
        out, err = capsys.readouterr()
        assert "Canary" not in out + err
        return code, out, err

    set_up_one_record(tmp_path, call)
    return call


def show(field):
    with CliContext().open_store() as store, store.write() as tx:
        account = sql.value(tx, "SELECT id FROM account")
        entry = sql.value(tx, "SELECT min(id) FROM entry") + field
        asks = [Asks(account, [entry])]
        book(tx, asks, delivery=Push(), at=9, cause="test")


def put_back(tmp_path, old):
    for name in ("dispatcher.db", "dispatcher.db-wal", "dispatcher.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / "dispatcher.db").write_bytes(old)


def test_the_whole_way_from_backup_to_a_store_that_goes_on(run, tmp_path):
    code, out, _ = run("--json", "backup", "create")
    made = json.loads(out)
    assert (code, made["verified"]) == (0, True)
    data = (tmp_path / "backups" / f"{made['id']}.backup").read_bytes()
    assert b"Canary" not in data
    show(0)
    assert run("--no-header", "backup", "list")[1].startswith(made["id"])
    assert run("backup", "verify")[0] == 0
    (tmp_path / "dispatcher.db").rename(tmp_path / "lost.db")
    code, out, err = run("backup", "restore", made["id"], "--to", "dispatcher.db")
    assert (code, out) == (6, "")
    assert "--replay-ledger" in err
    code, out, err = run(
        "backup", "restore", made["id"], "--to", "dispatcher.db", "--replay-ledger"
    )
    assert code == 0, err
    assert "1 of them replayed" in out
    assert run("ledger", "verify")[0] == 0
    code, out, _ = run("explain", "r1.b", "--worker", "folder/ann")
    assert "DENY" in out
    code, out, err = run("audit", "export", "evidence")
    assert code == 0, err
    assert run("audit", "verify", "evidence")[1].startswith("VERIFIED")


def test_whatever_goes_over_all_of_a_store_says_how_far_it_is(run, tmp_path):
    show(0)
    heard = []
    for words, of in (
        (("ledger", "verify"), {"lines"}),
        (("audit", "export", "evidence"), {"lines"}),
        (("backup", "create"), {"rows", "MiB"}),
        (("records", "reassemble", "-o", "whole.csv"), {"records"}),
        (("records", "purge", "--older-than=0d", "--confirm=purge-0d"), {"records"}),
    ):
        heard.clear()
        with progress.listening(lambda *said: heard.append(said)):
            code, _, err = run(*words)
        assert code == 0, err
        ended = {what for done, total, what in heard if total and done <= total}
        assert ended >= of, (words, heard)


def test_a_store_that_was_copied_back_by_hand_is_not_led(run, tmp_path):
    with CliContext().open_store() as store:
        store.checkpoint()
    old = (tmp_path / "dispatcher.db").read_bytes()
    show(0)
    put_back(tmp_path, old)
    code, out, err = run("up", "--allow-root")
    assert (code, out) == (6, ""), err
    assert "E132" in err
    assert run("ledger", "verify")[0] == 6
    code, out, err = run("ledger", "replay")
    assert (code, out[:16]) == (0, "1 lines replayed"), err
    assert run("ledger", "verify")[0] == 0
    assert "DENY" in run("explain", "r1.b", "--worker", "folder/ann")[1]


def test_an_anchored_root_tells_a_stale_ledger_whoever_looks(run, tmp_path):
    """A machine put back whole: store and ledger agree, and are both old."""
    with (tmp_path / "dispatcher.toml").open("a") as settings:
        settings.write('\n[ledger]\nanchor = "roots.txt"\n')
    assert run("ledger", "root", "--seal")[0] == 0
    made = json.loads(run("--json", "backup", "create", "--no-verify")[1])["id"]
    old = {path: path.read_bytes() for path in [
        tmp_path / "dispatcher.db", *(tmp_path / "ledger").glob("*.jsonl")]}  # fmt: skip
    show(0)
    assert run("ledger", "root", "--seal")[0] == 0
    assert "all 2 anchored roots" in run("doctor", "--only", "ledger")[1]
    for name in ("dispatcher.db-wal", "dispatcher.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    for path, data in old.items():
        path.write_bytes(data)
    assert run("ledger", "verify")[0] == 1
    assert "do not agree (E132)" in run("doctor", "--only", "ledger")[1]
    for words in (
        ("up", "--allow-root"),
        ("ledger", "replay"),
        ("ledger", "root", "--seal"),
        ("backup", "restore", made, "--to", "dispatcher.db", "--force"),
        (
            "backup",
            "restore",
            made,
            "--to",
            "dispatcher.db",
            "--force",
            "--replay-ledger",
        ),
    ):
        code, out, err = run(*words)
        assert (code, out) == (6, ""), (words, err)
        assert "roots that were anchored" in err
    assert len((tmp_path / "roots.txt").read_text().splitlines()) == 2


def test_a_restore_of_what_is_not_there_says_so_before_it_asks_where_to(run):
    code, out, err = run("backup", "restore", "nope.backup")
    assert (code, out) == (1, "")
    assert "there is no backup nope.backup" in err
    assert "--to" not in err


def test_a_restore_says_up_to_when_its_ledger_knows(run, tmp_path):
    made = json.loads(run("--json", "backup", "create", "--no-verify")[1])["id"]
    code, out, err = run(
        "--json", "backup", "restore", made, "--to", "dispatcher.db", "--force"
    )
    assert code == 0, err
    assert "taken for whole" in err
    assert "dispatcher.db.replaced, with all its values" in err
    told = json.loads(out)
    assert (told["known_to"] > 0, told["anchored_roots"]) == (True, 0)
    assert told["put_aside"].endswith("dispatcher.db.replaced")


def test_a_fresh_machine_restores_with_the_key_file_that_is_named(run, tmp_path):
    made = json.loads(run("--json", "backup", "create", "--no-verify")[1])["id"]
    key = tmp_path / "kept.key"
    (tmp_path / "dispatcher.key").rename(key)
    words = ("backup", "restore", made, "--to", "again.db")
    assert run(*words)[0] == 12
    code, _, err = run(*words, "--key-file", str(key))
    assert code == 0, err
    assert f"{key} opens the store: copy it to" in err
    key.rename(tmp_path / "dispatcher.key")
    assert run("--store", "again.db", "ledger", "verify")[0] == 0


def erased(run):
    """Erase the one person; return the pseudonym."""
    (CliContext().directory / "key").write_text("pat")
    found = json.loads(run("--json", "subject", "find", "--key-from", "key")[1])
    name = found["found"][0]["id"]
    (CliContext().directory / "key").unlink()
    assert run("subject", "erase", name, f"--confirm={name}")[0] in (0, 3)
    return name


def records(run):
    return [
        row.split("\t")[2]
        for row in run("records", "list", "--no-header")[1].splitlines()
    ]


def test_who_was_erased_is_erased_again_though_no_line_is_replayed(run, tmp_path):
    with CliContext().open_store() as store:
        store.checkpoint()
    old = (tmp_path / "dispatcher.db").read_bytes()
    erased(run)
    put_back(tmp_path, old)
    (tmp_path / "erasures.jsonl").unlink()  # the one with the ledger is enough
    assert records(run) == ["open"]
    code, out, err = run("ledger", "replay")
    assert (code, out[:16]) == (0, "0 lines replayed"), err
    assert "1 people and records were erased again" in err
    assert "all is paused" in err
    assert records(run) == ["erased"]
    assert run("ledger", "replay")[2] == ""


@pytest.mark.parametrize("lost", ["a line", "an erasure", "a purge"])
def test_a_replay_that_is_broken_off_has_paused_all_the_same(
    run, tmp_path, monkeypatch, lost
):
    """A repetition finds no line to book, and would not know that any was lost."""
    with CliContext().open_store() as store:
        store.checkpoint()
    old = (tmp_path / "dispatcher.db").read_bytes()
    if lost == "a line":
        show(0)
    elif lost == "an erasure":
        erased(run)
    else:
        words = ("records", "purge", "--older-than", "0h", "--confirm=purge-0h")
        assert run(*words)[0] in (0, 3)
    put_back(tmp_path, old)

    def broken_off(*about):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("dispatcher.custody.in_place_recovery.keep_out", broken_off)
        assert run("ledger", "replay")[0] not in (0, 1)
    with CliContext().open_store() as store, store.read() as tx:
        assert list(pause.paused(tx)) == [pause.ALL]
        assert sql.value(tx, "SELECT invite FROM account") > 1
    code, out, _ = run("--json", "ledger", "replay")
    assert code == 0
    told = json.loads(out)
    assert (told["lines"], told["erased_again"]) == (0, int(lost != "a line"))


@pytest.mark.parametrize("ship", ["ledger", ""])
def test_a_list_that_is_put_there_later_is_followed(run, tmp_path, ship):
    """Where no ledger is shipped there is nothing to replay: the daemon erases."""
    made = json.loads(run("--json", "backup", "create", "--no-verify")[1])["id"]
    name = erased(run)
    kept = (tmp_path / "erasures.jsonl").read_bytes()
    (tmp_path / "erasures.jsonl").unlink()
    (tmp_path / "ledger").rename(tmp_path / "lost")
    if not ship:
        with (tmp_path / "dispatcher.toml").open("a") as settings:
            settings.write('\n[ledger]\nship = ""\n')
    words = ("--to", "dispatcher.db", "--force", "--assume-shown-since", "2020-01-01")
    code, _, err = run("backup", "restore", made, *words)
    assert code == 0, err
    assert "dispatcher up erases them again" in err
    assert "ledger replay" not in err
    (tmp_path / "erasures.jsonl").write_bytes(kept)
    context = CliContext()
    with context.open_store() as store:
        assert erase_again(erasure_context(context, store, {})) == [name]
    assert records(run) == ["erased"]


def test_the_settings_own_list_is_read_where_another_ledger_is_named(run, tmp_path):
    made = json.loads(run("--json", "backup", "create", "--no-verify")[1])["id"]
    shutil.copytree(tmp_path / "ledger", tmp_path / "copy")
    erased(run)
    (
        tmp_path / "erasures.jsonl"
    ).unlink()  # the one with the settings' own ledger lasts
    code, _, err = run("backup", "restore", made, "--to", "b.db", "--ledger", "copy")
    assert (code, "whoever was erased after" in err) == (0, False), err
    assert records(lambda *words: run("--store", "b.db", *words)) == ["erased"]


def test_where_no_list_says_who_was_erased_a_restore_says_what_follows(run, tmp_path):
    made = json.loads(run("--json", "backup", "create", "--no-verify")[1])["id"]
    assert (
        "whoever was erased after" in run("backup", "restore", made, "--to", "a.db")[2]
    )
    erased(run)
    for place in (tmp_path, tmp_path / "ledger"):
        assert (place / "erasures.jsonl").stat().st_mode & 0o777 == 0o600
    (tmp_path / "erasures.jsonl").unlink()
    code, _, err = run("backup", "restore", made, "--to", "b.db")
    assert (code, "whoever was erased after" in err) == (0, False)
    assert records(lambda *words: run("--store", "b.db", *words)) == ["erased"]


def test_passphrases_come_by_file_and_are_not_short(run, tmp_path, monkeypatch):
    (tmp_path / "short").write_text("hunter2\n")
    assert run("backup", "create", "--passphrase-from", "short")[0] == 2
    (tmp_path / "long").write_text("correct horse battery staple\n")
    assert (
        run("backup", "create", "--passphrase-from", "long", "--key-file", "k")[0] == 2
    )
    code, out, _ = run("--json", "backup", "create", "--passphrase-from", "long")
    assert code == 0
    name = json.loads(out)["id"]
    assert run("backup", "verify", name)[0] == 12  # with the key file
    text = io.TextIOWrapper(io.BytesIO(b"correct horse battery staple"))
    monkeypatch.setattr("sys.stdin", text)
    assert run("backup", "verify", name, "--passphrase-from", "-")[0] == 0
    assert run("backup", "verify", name, "--passphrase-from", "none")[0] == 5


def test_damage_and_names_that_are_none_are_told(run, tmp_path):
    assert run("backup", "verify", "bk_none")[0] == 1
    assert run("backup", "restore", "bk_none", "--to", "x.db")[0] == 1
    name = json.loads(run("--json", "backup", "create", "--no-verify")[1])["id"]
    path = tmp_path / "backups" / f"{name}.backup"
    path.write_bytes(path.read_bytes()[:-9])
    assert run("backup", "verify", name)[0] == 1
    code, out, err = run("backup", "verify")
    assert (code, out[:4]) == (1, "FAIL")
    assert "E141" not in err  # told in words; the code is in --json
    assert run("backup", "restore", name, "--to", "x.db")[0] == 1
    assert (
        run("backup", "restore", name, "--to", "x.db", "--assume-shown-since", "noon")[
            0
        ]
        == 2
    )
    assert not (tmp_path / "x.db").exists()


def folders():
    with CliContext().open_store() as store, store.read() as tx:
        return settings.backup_folders(tx)


def test_a_folder_is_noted_where_a_backup_was_written_and_only_there(
    run, tmp_path, monkeypatch
):
    (tmp_path / "file").write_text("in the way")
    assert run("backup", "create", "--folder", "file/below")[0] != 0
    assert folders() == []
    made = json.loads(run("--json", "backup", "create", "--folder", "usb")[1])["id"]

    def full(*about):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("dispatcher.custody.backup.write_sealed", full)
    for folder in ("usb", "other"):
        assert run("backup", "create", "--folder", folder)[0] != 0
    assert folders() == [settings.BackupFolder(str(tmp_path / "usb"), made)]


def test_a_store_that_can_not_note_a_backup_is_backed_up_all_the_same(
    run, tmp_path, monkeypatch
):
    def full(*about):
        raise StoreUnusable(
            "the disk of the store is full", why="It is.", fix="Free it."
        )

    monkeypatch.setattr("dispatcher.store.settings.note_backup_folder", full)
    code, out, err = run("--json", "backup", "create", "--folder", "usb")
    assert code == 0, err
    assert err.count("WARN the disk of the store is full") == 2
    assert (tmp_path / "usb" / f"{json.loads(out)['id']}.backup").exists()


def test_each_folder_is_noted_by_itself(store):
    """Two that note theirs at the same time lose neither."""
    with store.write() as tx:
        settings.note_backup_folder(tx, "/a")
        settings.note_backup_folder(tx, "/b", "bk_1")
        settings.note_backup_folder(tx, "/b")
        settings.note_backup_folder(tx, settings.OWN_FOLDER, "bk_2")
    with store.write() as tx:
        for folder in ("/a", "/b"):
            settings.take_back_folder(tx, folder)
    with store.write() as tx:
        settings.forget_backup_folder(tx, settings.OWN_FOLDER)
    with store.read() as tx:
        assert settings.backup_folders(tx) == [settings.BackupFolder("/b", "bk_1")]
        names = sql.rows(tx, "SELECT name FROM setting WHERE name LIKE 'backup-%'")
    assert [len(row[0]) <= 40 for row in names] == [True]


def test_pruning_asks_first(run):
    run("backup", "create", "--no-verify")
    assert run("backup", "prune", "--keep", "1")[0] == 0  # nothing would go
    assert run("backup", "prune", "--keep", "1", "--dry-run")[1] == ""
