"""Whoever reads the output may stop reading: every command then ends quietly."""

import os
import subprocess
import sys

import pytest

from dispatcher.ledger.versions import apply_policy
from dispatcher.stages.intake.loading import load
from dispatcher.store import open_store

POLICY = b"""
version = 1
name = "forms"
[entity.form]
key = "id"
[entity.form.fields]
name = { ask = "transcribe" }
"""
ROWS = 4_000  # more than a pipe holds
QUIET = (
    "records reassemble -o -",
    "records list --limit 4000",
    "schema policy-file",
    "--help",
)


@pytest.fixture(scope="module")
def place(tmp_path_factory, sqlite_template):
    folder = tmp_path_factory.mktemp("pipes")
    store = folder / "dispatcher.db"
    store.write_bytes(sqlite_template.read_bytes())
    big = folder / "big.csv"
    big.write_text("id,name\n" + "".join(f"k{i},Ann {i}\n" for i in range(ROWS)))
    with open_store(store) as opened:
        with opened.write() as tx:
            apply_policy(tx, POLICY, at=1)
        load(opened, big, clock=lambda: 1)
    return folder


@pytest.mark.parametrize("words", QUIET)
@pytest.mark.parametrize("also_messages", [False, True])
def test_a_reader_that_went_is_no_error(place, words, also_messages):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "dispatcher", *words.split()],
            cwd=place,
            stdout=writing,
            stderr=writing if also_messages else subprocess.PIPE,
            text=True,
            check=False,
            timeout=120,
        )
    finally:
        os.close(writing)
    assert done.returncode == 0
    assert "rror" not in (done.stderr or "")
    assert "Traceback" not in (done.stderr or "")
