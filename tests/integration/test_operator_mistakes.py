"""What an operator gets wrong: the first line and the exit status, and nothing is lost."""

import json
import os
import signal
import socket

import pytest

from dispatcher.app import servers
from dispatcher.core.keyring import make_keyring
from dispatcher.store import migrations, sqlite
from dispatcher.surfaces import applications
from dispatcher.surfaces.cli.context import CliContext
from tests import edits, sql
from tests.integration.ledger_cases import PAIR, policy


@pytest.fixture
def house(run, tmp_path):
    """A directory with a sealed store of one record, a worker and a backup."""
    hangup = signal.getsignal(signal.SIGHUP)  # `up` takes it
    yield build(run, tmp_path)
    signal.signal(signal.SIGHUP, hangup)


def build(run, tmp_path):
    (tmp_path / "records.csv").write_text(
        "id,person,when,a,b,c,d\nr1,pat,2026-01-01,Canary,x,y,z\n"
    )
    assert run("init").code == 0
    (tmp_path / "policy.toml").write_bytes(policy(PAIR))
    (tmp_path / "dispatcher.toml").write_text(
        '[connectors.inhouse]\n[ledger]\nship="l"\n'
    )
    for words in (
        ("policy", "apply", "--yes"),
        ("workers", "add", "inhouse/ann"),
        ("records", "load", "records.csv"),
        ("backup", "create", "--no-verify"),
    ):
        done = run(*words)
        assert done.code == 0, (words, done.err)
    return tmp_path


def contents(house):
    """All rows of the store, and the bytes of everything that lies beside it."""
    with CliContext(house).open_store() as store, store.read() as tx:
        tables = [
            name
            for (name,) in sql.rows(
                tx, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
            )
        ]
        rows = {
            name: sorted(map(repr, sql.rows(tx, f"SELECT * FROM {name}")))
            for name in tables
        }
    files = {
        path: path.read_bytes()
        for folder in ("l", "backups")
        for path in sorted((house / folder).iterdir())
    }
    return rows, files


def wrong_key(house, monkeypatch):
    key, kept = house / "dispatcher.key", house / "kept.key"
    key.rename(kept)
    make_keyring(key, os.urandom)
    return ("up",), lambda: kept.replace(key)


def no_key(house, monkeypatch):
    key = house / "dispatcher.key"
    key.rename(house / "away.key")
    return ("up",), lambda: (house / "away.key").rename(key)


def cut_backup(house, monkeypatch):
    [path] = (house / "backups").glob("*.backup")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    words = ("backup", "restore", path.stem, "--to", "restored.db")
    return words, lambda: path.write_bytes(whole)


def restore_nowhere(house, monkeypatch):
    [path] = (house / "backups").glob("*.backup")
    return ("backup", "restore", path.stem), lambda: None


def ledger_gap(house, monkeypatch):
    [path] = (house / "l").glob("*.jsonl")
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    first = next(n for n, line in enumerate(lines) if b'"prev"' in line)
    path.write_bytes(b"".join(lines[:first] + lines[first + 1 :]))
    return ("up",), lambda: path.write_bytes(whole)


def ledger_of_another(house, monkeypatch):
    [path] = (house / "l").glob("*.jsonl")
    whole = path.read_bytes()
    head, _, rest = whole.partition(b"\n")
    other = json.dumps(json.loads(head) | {"store": "0" * 64}).encode()
    path.write_bytes(other + b"\n" + rest)
    return ("up",), lambda: path.write_bytes(whole)


def ledger_in_the_way(house, monkeypatch):
    (house / "l").rename(house / "away")
    (house / "l").write_text("a file")

    def mend():
        (house / "l").unlink()
        (house / "away").rename(house / "l")

    return ("up",), mend


def future_schema(house, monkeypatch):
    store = house / "dispatcher.db"
    edits.set_schema_of_file(store, "9999")
    return ("up",), lambda: edits.set_schema_of_file(store, migrations.HEAD)


def network_disk(house, monkeypatch):
    monkeypatch.setattr(sqlite, "file_system", lambda *_: "nfs4")
    return ("up",), monkeypatch.undo


def root(house, monkeypatch):
    monkeypatch.delenv("DISPATCHER_ALLOW_ROOT")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return ("up",), monkeypatch.undo


def port_in_use(house, monkeypatch):
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    settings = house / "dispatcher.toml"
    kept = settings.read_text()
    port = taken.getsockname()[1]
    settings.write_text(
        f'{kept}[surfaces]\nworkers = "127.0.0.1:{port}"\n'
        'operators = "127.0.0.1:0"\nadmin = "127.0.0.1:0"\n'
    )

    def mend():
        taken.close()
        settings.write_text(kept)

    return ("up",), mend


MISTAKES = [
    (wrong_key, 12, "E121"),
    (no_key, 12, "E121"),
    (cut_backup, 1, "E141"),
    (restore_nowhere, 2, "E002"),
    (ledger_gap, 1, "E134"),
    (ledger_of_another, 5, "E133"),
    (ledger_in_the_way, 75, "E131"),
    (future_schema, 13, "E103"),
    (network_disk, 1, "E104"),
    (root, 2, "E002"),
    (port_in_use, 75, "E113"),
]


@pytest.mark.parametrize(
    ("mistake", "code", "error"), MISTAKES, ids=[m.__name__ for m, *_ in MISTAKES]
)
def test_a_mistake_is_told_with_its_way_out_and_loses_nothing(
    house, run, monkeypatch, mistake, code, error
):
    before = contents(house)
    words, mend = mistake(house, monkeypatch)
    done = run(*words)
    assert done.code == code, done.err
    told = [line for line in done.err.splitlines() if line.startswith("error[")]
    assert told[0].startswith(f"error[{error}]: "), done.err
    assert "  why: " in done.err
    assert "  fix: " in done.err
    assert done.out == ""
    assert "Traceback" not in done.err
    mend()
    rows, files = contents(house)
    changed = {name for name in rows if rows[name] != before[0][name]}
    # That it led for a moment, its line in the audit log, and its notice, stay.
    assert changed <= {"lease", "setting", "audit_line", "notice", "id_block"}
    assert set(before[0]["audit_line"]) <= set(rows["audit_line"])
    assert files == before[1]


READERS = (
    "records preview pipe",
    "records load pipe",
    "policy check pipe",
    "policy suggest pipe",
    "policy apply pipe",
    "workers add --from pipe",
    "questions add pipe",
    "audit verify pipe",
    "backup restore pipe --to elsewhere",
    "subject find --key-from pipe",
    "ledger proof --key-from pipe",
    "solve pipe",
    "judge pipe pipe",
)


def test_a_pipe_that_nobody_writes_into_is_waited_for_by_no_command(house, run):
    """Before, each of them waited for ever, and `solve` did not heed SIGTERM either."""
    os.mkfifo(house / "pipe")
    for words in READERS:
        done = run(*words.split())
        assert done.code in (1, 2, 5), (words, done.err)


def test_a_port_that_is_taken_leaves_none_of_the_others_taken(house, run, monkeypatch):
    bound = []

    def bind(name, host, port):
        bound.append(servers.bind(name, host, port))
        return bound[-1]

    monkeypatch.setattr(applications, "bind", bind)
    words, mend = port_in_use(house, monkeypatch)
    assert run(*words).code == 75
    mend()
    assert [one.fileno() for one in bound] == [-1]  # the operators', bound first


@pytest.mark.parametrize("secret", [None, ""])
def test_workers_come_though_the_secret_of_their_feed_is_not_here(house, run, secret):
    """Feeds are opened by the daemon alone; links of others do not wait for them."""
    with (house / "dispatcher.toml").open("a") as settings:
        settings.write(
            '[connectors.hook]\nkind = "webhook"\nurl = "https://example.com/x"\n'
            'secret_file = "hook.secret"\n'
        )
    if secret is not None:
        (house / "hook.secret").write_text(secret)
    assert run("workers", "add", "hook/one").code == 0
    done = run("workers", "add", "hook/two", "inhouse/eve", "--invite")
    assert (done.code, "1 get no link" in done.err) == (0, True)
    assert "\ninhouse/eve\t" in done.out
    tested = run("connectors", "test", "hook")
    assert (tested.code, "secret file" in tested.err) == (5, True)
    assert "Traceback" not in tested.err
