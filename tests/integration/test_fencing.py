"""Each stage of a daemon whose lease was taken changes nothing, inside or outside."""

import csv
import os
import shutil

import pytest

from dispatcher.app.leadership import take_lease
from dispatcher.app.ticks import make_ticks
from dispatcher.core.errors import StaleLease
from dispatcher.core.plugins import open_connectors
from dispatcher.ledger.book import Asks, Pull, book
from dispatcher.store import lease, open_store
from dispatcher.surfaces.cli.context import CliContext, wall_clock
from dispatcher.surfaces.cli.start import main
from tests import sql

POLICY = """
version = 1
name = "forms"

[budget]
t = 3

[entity.form]
key = "rx_id"

[entity.form.fields]
name = { ask = "transcribe" }
disease = { ask = "transcribe" }

[property.both]
of = ["name", "disease"]
"""
STAGES = (
    "intake", "planning", "booking", "sending:folder", "collecting:folder",
    "serving", "assembly",
    "sealing",
)  # fmt: skip
"""Stages with something to do here, in this order."""


@pytest.fixture
def here(tmp_path, sqlite_template, monkeypatch):
    """A directory with a policy, workers of both kinds, a form in store and inbox."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(sqlite_template, tmp_path / "dispatcher.db")
    (tmp_path / "policy.toml").write_text(POLICY)
    (tmp_path / "dispatcher.toml").write_text('inbox = "inbox"\n[tasks]\nundo = 0\n')
    (tmp_path / "forms.csv").write_text("rx_id,name,disease\nf1,One,gout\n")
    (tmp_path / "inbox").mkdir()
    (tmp_path / "inbox" / "more.csv").write_text("rx_id,name,disease\nf2,Two,flu\n")
    for words in (
        ["policy", "apply"],
        ["workers", "add", "folder/dan", "folder/eve", "inhouse/ann"],
        ["records", "load", "forms.csv"],
    ):
        assert main(words) == 0
    return tmp_path


def picture(directory):
    """All rows of all tables, and all files that workers and operators see."""
    with open_store(directory / "dispatcher.db") as store, store.read() as tx:
        names = sql.rows(tx, "SELECT name FROM sqlite_master WHERE type = 'table'")
        rows = {
            name: sorted(sql.rows(tx, f"SELECT * FROM {name}"), key=repr)
            for (name,) in names
            if name not in {"lease", "sqlite_sequence"}
        }
    files = {
        str(path): path.read_bytes() if path.is_file() else b""
        for folder in ("spool", "inbox")
        for path in sorted((directory / folder).rglob("*"))
    }
    return rows, files


def prepare(name, directory, store):
    """Give a stage something to do that earlier ones left out."""
    if name == "collecting:folder":
        for tasks in (directory / "spool").rglob("tasks.csv"):
            with tasks.open(newline="", encoding="utf-8-sig") as file:
                given = [(row["task"], "x", "") for row in csv.DictReader(file)]
            with (tasks.parent / "answers.csv").open("w", newline="") as file:
                csv.writer(file).writerows([("task", "answer", "state"), *given])
            os.utime(tasks.parent / "answers.csv", (1, 1))  # it lies still
    if name == "serving":
        with store.write() as tx:
            asks = [Asks(3, [1])]
            book(tx, asks, delivery=Pull(leased_until=2), at=1, cause="test")


def test_safety_38_no_stage_of_a_daemon_of_before_changes_anything(here):
    context = CliContext(directory=here)
    with context.open_store() as store:

        def daemon():
            connectors = open_connectors(
                context.config.connectors,
                directory=here,
                secrets={"inhouse": store.key("token-key")},
            )
            return {tick.name: tick for tick in make_ticks(store, connectors, context)}

        old = take_lease(store, wall_clock, "old/b/1/1")
        with store.write() as tx:
            found = lease.holder(tx, lease.SHARD)
            new = lease.seize(tx, lease.SHARD, found, "new/b/2/2", 2**62)
        before, after = daemon(), daemon()
        assert set(STAGES) <= set(after)
        for stages in (before, after):
            stages["intake"].run(new)  # the first look at a file only remembers it
        for name in (*STAGES, *sorted(set(after) - set(STAGES))):
            prepare(name, here, store)
            rows, files = picture(here)
            refused = False
            try:
                before[name].run(old)
            except StaleLease:
                refused = True
            same_rows, same_files = picture(here)
            assert rows == same_rows, f"{name} wrote under a stale epoch"
            if (
                name != "collecting:folder"
            ):  # answers taken aside are read by the next one
                assert files == same_files, f"{name} did something outside"
            after[name].run(new)
            if name in STAGES:
                assert refused, f"{name} does not look at its epoch"
                assert picture(here)[0] != rows, f"{name} had nothing to do"
