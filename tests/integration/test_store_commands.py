"""``dispatcher db`` says where the schema stands and mends it."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from dispatcher.store import open_store
from tests import edits
from tests.cradle import completed
from tests.patience import PATIENCE


def run(
    store: str, *words: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    option = ["--store", store] if store else []  # the option beats the environment
    return completed(
        [*option, *words], environment=os.environ | environment, timeout=PATIENCE
    )


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        (tmp_path / "dispatcher.db").touch()
        return str(tmp_path / "dispatcher.db")
    return str(request.getfixturevalue("postgres_database"))


def test_an_empty_database_is_seen_upgraded_and_checked(empty_location: str) -> None:
    status = run(empty_location, "db", "status")
    assert status.returncode == 10, status.stderr
    assert "store empty" in status.stdout
    assert "dispatcher db upgrade" in status.stderr

    script = run(empty_location, "db", "upgrade", "--sql")
    assert script.returncode == 0, script.stderr
    assert "CREATE TABLE ledger_line" in script.stdout
    assert run(empty_location, "db", "status").returncode == 10  # nothing was done

    upgrade = run(empty_location, "--json", "db", "upgrade")
    assert upgrade.returncode == 0, upgrade.stderr
    assert json.loads(upgrade.stdout)["applied"] == ["0001", "0002"]

    status = run(empty_location, "--json", "db", "status")
    assert status.returncode == 0, status.stderr
    assert json.loads(status.stdout)["ready"] is True

    check = run(empty_location, "db", "check")
    assert check.returncode == 0, check.stderr
    open_store(empty_location).close()


@pytest.mark.parametrize("version", ["0000", "9999"])
def test_another_schema_exits_13(store_url: str, version: str) -> None:
    with open_store(store_url) as store, store.write() as tx:
        edits.set_schema(tx, version)
    for words in (["status"], ["check"]):
        done = run(store_url, "db", *words)
        assert done.returncode == 13, done.stdout + done.stderr
        assert "Traceback" not in done.stderr


def test_a_missing_file_exits_10_and_is_not_made(tmp_path: Path) -> None:
    done = run(str(tmp_path / "dispatcher.db"), "db", "upgrade")
    assert done.returncode == 10
    assert "dispatcher init" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_password_on_the_command_line_exits_2_and_is_not_repeated() -> None:
    done = run("postgresql://ann:hunter2@127.0.0.1:1/work", "db", "status")
    assert done.returncode == 2
    assert "hunter2" not in done.stdout + done.stderr


def test_a_url_from_a_private_file_may_have_a_password(
    postgres_url: str, tmp_path: Path
) -> None:
    secret = tmp_path / "store.url"
    secret.touch(mode=0o600)
    secret.write_text(postgres_url.replace("@", ":hunter2@", 1) + "\n")
    done = run("", "db", "status", DISPATCHER_STORE_FILE=str(secret))
    assert done.returncode == 0, done.stderr
    assert "hunter2" not in done.stdout + done.stderr
