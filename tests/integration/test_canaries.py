"""No command tells a value: not on its output, not in an error, not in a log.

Every command of the program has its line here: one that has none fails the first test.
"""

import logging
import os
import re
import tempfile
from pathlib import Path

import pytest
import structlog

from dispatcher.store import Store
from dispatcher.surfaces.cli.reference import page
from dispatcher.surfaces.cli.start import main

CANARIES = [f"zebra-{number:03}" for number in range(100)]
PROCESSES = {"up", "serve", "demo", "down", "layout draw"}
"""Commands that are processes: tests/e2e reads their logs for values."""

POLICY = """
version = 1
name = "forms"

[budget]
t = 3

[entity.form]
key = "id"
subject = "person"

[entity.form.fields]
name = { ask = "transcribe", answers = 2 }
disease = { ask = "transcribe", answers = 2 }

[property.both]
of = ["name", "disease"]
"""

COURSE = """
policy check
policy test
policy ask --seen name --next disease
policy diff
policy apply --dry-run
policy apply
policy list
policy show
policy picture
schema policy-file
explain POL101
policy suggest forms.csv -o other.toml
policy check other.toml --against forms.csv
workers add inhouse/ann inhouse/bob folder/cat --invite
workers add --from team.csv
workers list
workers show inhouse/ann
workers invite inhouse/ann
workers block inhouse/bob
workers unblock inhouse/bob
workers groups
questions add name tests.csv --purpose test
questions list
questions drop name --purpose test
questions add name tests.csv --purpose gold
questions list
questions drop name --purpose gold
workers merge inhouse/ann inhouse/bob --reason same --dry-run
workers suspects
workers distinct inhouse/ann inhouse/bob --reason twins
records preview forms.csv
records load forms.csv
records load ragged.csv
runs pilot default 9
runs show default
runs accept default
records list
records show k1
plan --dry-run
plan
plan apply
plan frontier --points 2
plan list
plan show
plan export
status
status --json
explain k1.name --who
explain k1
explain inhouse/ann
explain k1.disease --worker inhouse/ann
pause --all --reason test
resume --all
queue list
queue retry --all
queue list --state dead
queue retry --all --yes
queue withdraw 1
runs list
runs budget default --cap GBP:10 --bonus GBP:0.10
runs show default
payments list
payments owed
payments show field-1
payments settle --worker inhouse/ann --reason test
payments approve reward-1 --reason test --yes
payments refuse field-1 --reason test
fields list
fields unburn k1.name --extra-showings 1 --reason test
answers list
answers conflicts
answers agreement
answers show k1.name
answers judge k1.name --value-from person.txt --reason test --dry-run
answers judge k1.name --unreadable --reason test
answers dismiss --all
connectors list
connectors show folder
connectors test folder
connectors add drop --kind folder --set spool=drop
connectors set-secret drop --secret-from person.txt
connectors enable drop
connectors disable drop
connectors reconcile folder --mend
connectors new printer --output plugin
console link
console sign-out
doctor
doctor --bundle bundle.json
ledger verify
ledger tail
ledger export -o ledger.jsonl
ledger root
ledger replay
ledger prove k1.name
audit verify proof.json
audit export evidence
audit verify evidence
audit log
audit events
users invite
users add ann --role operator
users list
users role ann --role viewer
users disable ann
users reset ann
tokens make load --scope records:write
tokens list
tokens revoke 1
sessions list
sessions revoke none
notices add https://hooks.example.org/d
notices list
notices rotate 1
notices deliveries 1
notices deliveries mail --failed
notices redeliver 1
notices test mail
notices remove 1
records reassemble -o whole.csv
subject find --key-from person.txt
subject report s0 -o report.zip
subject erase s0 --dry-run
audit verify receipts/none.json
schema
layout check forms.csv
backup create --no-verify
backup list
backup verify
backup prune --keep 1 --yes
backup restore bk_none --to other.db
records purge --older-than 90d --dry-run
solve forms.csv
judge ragged.csv forms.csv --adversaries 2 --friendships forms.csv
db status
db check
db upgrade
db rekey
db scrub
init
"""


def leaves() -> set[str]:
    """Commands of the program that do something themselves."""
    found = set()
    for path, usage in re.findall(
        r"^## dispatcher ?([a-z -]*)\n\n    dispatcher (.*)$", page(), re.MULTILINE
    ):
        if path and not re.search(r"(?<!\[)COMMAND", usage):
            found.add(path)
    return found


def named(line: str) -> str:
    """The longest command that a line of the course begins with."""
    return max(
        (leaf for leaf in leaves() if f"{line} ".startswith(f"{leaf} ")), key=len
    )


def test_every_command_is_in_the_course():
    lines = COURSE.strip().splitlines()
    assert {named(line) for line in lines} | PROCESSES >= leaves()


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    for name in [n for n in os.environ if n.startswith("DISPATCHER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DISPATCHER_ALLOW_ROOT", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    assert main(["init"]) == 0
    (tmp_path / "policy.toml").write_text(POLICY)
    rows = [
        f"k{n},person-{CANARIES[3 * n]},{CANARIES[3 * n + 1]},{CANARIES[3 * n + 2]}"
        for n in range(33)
    ]
    (tmp_path / "forms.csv").write_text("\n".join(["id,person,name,disease", *rows]))
    (tmp_path / "ragged.csv").write_text(
        f'id,person,name,disease\nr1,{CANARIES[99]}\nr2,"{CANARIES[99]},,,,,\n'
    )
    (tmp_path / "team.csv").write_text("worker\ninhouse/dan\ninhouse/eve\n")
    (tmp_path / "tests.csv").write_text("shown,answer\nJo Doe,Jo Doe\n")
    (tmp_path / "person.txt").write_text(f"person-{CANARIES[0]}\n")
    (tmp_path / "person.txt").chmod(0o600)
    return tmp_path


def told(line: str, capfd) -> tuple[str, int]:
    """What one command says on every channel, with what it logs; and its status."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        status = main([*line.split(), "--no-input"])
    finally:
        structlog.reset_defaults()
        root.handlers[:], root.level = before
    out, err = capfd.readouterr()
    return out + err, status


def spoken(place: Path, capfd) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """Canaries that any command of the course tells, and how each command ended."""
    found, statuses = [], {}
    for line in COURSE.strip().splitlines():
        text, status = told(line, capfd)
        statuses[line] = status
        text += "".join(path.read_text() for path in (place / "tmp").glob("*.log"))
        found += [(line, canary) for canary in CANARIES if canary in text]
    return found, statuses


def test_safety_29_no_command_tells_a_value(place, capfd):
    found, statuses = spoken(place, capfd)
    assert found == []
    assert sum(status == 0 for status in statuses.values()) >= 45, statuses
    bundle = (place / "bundle.json").read_text()
    assert not [canary for canary in CANARIES if canary in bundle]


def test_safety_29_no_command_tells_the_words_of_a_fault(place, capfd, monkeypatch):
    assert main(["policy", "apply"]) == 0
    assert main(["records", "load", "forms.csv"]) == 0

    def broken(*_args, **_more):
        raise RuntimeError(f"could not convert {CANARIES[7]!r}")

    monkeypatch.setattr(Store, "_transaction", broken)
    found, statuses = spoken(place, capfd)
    assert found == []
    assert sum(status == 1 for status in statuses.values()) >= 45, statuses
