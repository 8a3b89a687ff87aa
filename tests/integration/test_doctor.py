"""``dispatcher doctor``: what is wrong is found, told how to mend, and named to nobody."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dispatcher.surfaces.cli.context import CliContext
from tests.e2e.programs import environment
from tests.integration.ledger_cases import PAIR, Case, policy

CANARIES = ("canary-key", "canary-person", "canary-worker", "canary-value")


@pytest.fixture
def place(tmp_path) -> Path:
    """A directory with a store in which something was shown, a moment ago."""
    done = doctor(tmp_path, "init", code=0)
    assert "wrote" in done.stderr + done.stdout
    with CliContext(tmp_path).open_store() as store:
        case = Case(store)
        case.apply(policy(PAIR))
        case.add("x/canary-worker")
        case.load(("canary-key", "canary-person", 1, "abcd"))
        with store.write() as tx:
            tx.execute("UPDATE entry SET shown = ?", [b"canary-value"])
        case.book(("x/canary-worker", "canary-key.a canary-key.c"))
        with store.write() as tx:  # the case's clock stands in the future
            tx.execute("UPDATE chain SET at = 1")
    return tmp_path


def doctor(place, *words, code=None):
    command = words if words[:1] == ("init",) else ("doctor", *words)
    done = subprocess.run(
        [sys.executable, "-m", "dispatcher", "-C", str(place), *command],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        timeout=60,
    )
    if code is not None:
        assert done.returncode == code, done.stdout + done.stderr
    return done


def change(place, statement, *values) -> None:
    with CliContext(place).open_store() as store, store.write() as tx:
        tx.execute(statement, list(values))


def test_a_file_that_others_may_read_fails_with_its_cure(place):
    (place / "dispatcher.db").chmod(0o644)
    done = doctor(place, "--only", "permissions", code=1)
    assert "FAIL  a file is open to others (mode 0644)" in done.stdout
    assert f"fix: chmod go= {place / 'dispatcher.db'}" in done.stdout


def test_a_message_that_waits_too_long_fails(place):
    change(place, "UPDATE outbox SET created_at = 1, attempts = 4")
    done = doctor(place, "--only", "queue", code=1)
    assert "FAIL  outbox: oldest message" in done.stdout
    assert "4 tries   [x]" in done.stdout


def test_a_summary_that_was_written_past_the_gate_fails(place):
    change(place, "UPDATE holding SET entries = entries + 1")
    done = doctor(place, "--only", "ledger", code=1)
    assert "the gate's summary differs from the ledger in" in done.stdout


def test_a_head_that_is_no_lines_hash_fails(place):
    change(place, "UPDATE chain SET head = ? WHERE id <> 0", "f" * 64)
    done = doctor(place, "--only", "ledger", code=1)
    assert "a chain's last lines do not follow from each other" in done.stdout


def test_a_clock_behind_the_ledger_fails(place):
    change(place, "UPDATE chain SET at = ?", 4_000_000_000_000_000)
    done = doctor(place, "--only", "clock", code=1)
    assert "behind the ledger's last line" in done.stdout


def test_a_connector_that_can_not_be_opened_fails(place):
    with (place / "dispatcher.toml").open("a") as file:
        file.write('[connectors.nowhere]\nmore = "x"\n')
    done = doctor(place, "--only", "connectors", code=1)
    assert "can not be opened (E" in done.stdout
    assert "nowhere" in done.stdout


def test_a_directory_without_a_store_says_so(tmp_path):
    done = doctor(tmp_path, code=1)
    assert "FAIL  the store can not be opened (E" in done.stdout
    assert "dispatcher init" in done.stdout


def test_the_bundle_and_all_that_is_said_name_nobody(place):
    change(place, "UPDATE outbox SET created_at = 1, error = ?", "canary-value")
    done = doctor(place, "--bundle", str(place / "bundle.json"), code=1)
    bundle = place / "bundle.json"
    assert bundle.stat().st_mode & 0o777 == 0o600
    text = bundle.read_text()
    for canary in CANARIES:
        assert canary not in text + done.stdout + done.stderr
    for name in (str(place), "inhouse", "folder"):
        assert name not in text
    found = json.loads(text)
    assert found["schema"] == "dispatcher.doctor-bundle/1"
    assert {"part", "word", "text"} == set(found["findings"][0])


def test_the_bundle_is_not_written_over_the_store(place):
    done = doctor(place, "--bundle", str(place / "dispatcher.db"), code=2)
    assert "in use by this very command" in done.stderr
