"""PostgreSQL: all commands and the daemon under a role that cannot change the ledger."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from dispatcher.app.servers import free_ports
from dispatcher.surfaces.cli.start import main
from tests import edits
from tests.integration.ledger_cases import PAIR, policy
from tests.patience import PATIENCE

ROLE = "dispatcher_strict"
HOWTO = Path(__file__).parents[2] / "docs" / "howto" / "operators" / "ledger.md"
COMMANDS = """\
policy apply --yes
policy show
policy diff
policy apply --dry-run
workers add folder/ann folder/bob folder/cat
records load records.csv
records list
runs budget default --cap GBP:10 --bonus GBP:0.10
plan
plan apply 1
payments owed
status
fields list
queue list
pause --reason look
resume
workers list
workers show folder/ann
workers groups
workers merge folder/bob folder/cat --reason same --accept-past 0 --yes
explain r0.a --who
policy apply two.toml --yes
db status
db check
db rekey
db rekey --new-key --forget-old-keys
db scrub
doctor
ledger root --seal
ledger tail
ledger verify
ledger export -o ledger-copy.jsonl
audit export evidence
audit verify evidence
records reassemble -o whole.csv
backup create
backup list
backup verify
backup prune --keep 1 --yes
records purge --older-than 9w --confirm=purge-9w
console link
"""

SURFACES = """
[surfaces]
workers = "127.0.0.1:{}"
admin = "127.0.0.1:{}"
operators = "127.0.0.1:{}"

"""


def as_documented(database: str) -> str:
    text = HOWTO.read_text().partition("```sql\n")[2].partition("```")[0]
    return text.replace("DATABASE dispatcher", f"DATABASE {database}").replace(
        "dispatcher_daemon", ROLE
    )


@pytest.fixture
def strict_url(postgres_own_url, postgres_cluster):
    database = postgres_own_url.rpartition("/")[2]
    with psycopg.connect(postgres_own_url, autocommit=True) as owner:
        owner.execute(f"REVOKE ALL ON DATABASE {database} FROM PUBLIC")
        owner.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
        owner.execute(as_documented(database))
    yield postgres_own_url.replace(f"//{postgres_cluster.user}@", f"//{ROLE}@")
    with psycopg.connect(postgres_own_url, autocommit=True) as owner:
        owner.execute(f"DROP OWNED BY {ROLE}")
        owner.execute(f"DROP ROLE {ROLE}")


def test_every_command_and_the_daemon_work_without_the_privilege(
    strict_url, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISPATCHER_STORE", strict_url)
    monkeypatch.setenv("DISPATCHER_ALLOW_ROOT", "1")
    for name in ("DISPATCHER_KEY_FILE", "CREDENTIALS_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "dispatcher.toml").write_text(
        SURFACES.format(*free_ports(3)) + '[connectors.folder]\nspool = "spool"\n'
    )
    (tmp_path / "dispatcher.toml").chmod(0o600)
    (tmp_path / "policy.toml").write_bytes(policy(PAIR))
    (tmp_path / "two.toml").write_bytes(policy(PAIR, name="two"))
    rows = [f"r{i},p{i},2026-01-01,A{i},B{i},C{i},D{i}" for i in range(9)]
    (tmp_path / "records.csv").write_text(
        "\n".join(["id,person,when,a,b,c,d", *rows, ""])
    )

    failed = []

    def run(*words: str, codes=(0,)) -> str:
        status = main(list(words))
        told = capsys.readouterr()
        if status not in codes:
            failed.append((words, told.err))
        return told.out

    for line in COMMANDS.splitlines():
        run(*line.split())
    assert not failed
    _daemon(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO("p3\n"))
    [found] = json.loads(run("--json", "subject", "find"))["found"]
    run("subject", "erase", found["id"], f"--confirm={found['id']}", codes=(0, 3))
    for words in (*edits.FORBIDDEN, edits.SCHEMA_REWRITE):
        with (
            psycopg.connect(strict_url) as connection,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            connection.execute(words)
    assert not failed


def _daemon(place: Path) -> None:
    """Let the daemon work until something was booked."""
    log = place / "log"
    with log.open("wb") as out:
        daemon = subprocess.Popen(
            [sys.executable, "-m", "dispatcher", "up"],
            cwd=place,
            env=os.environ,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + PATIENCE
        while not list(place.glob("spool/*/*")):
            assert daemon.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(PATIENCE)
    assert "E104" not in log.read_text()
