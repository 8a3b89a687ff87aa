"""Commands as an operator meets them: what is printed, where, and the exit status."""

import io
import json
import os
import pwd
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from connectors.base import Rejected
from connectors.tickets import read
from dispatcher.core.errors import NotFound
from dispatcher.model import TaskAnswer
from dispatcher.operations import status as status_operation
from dispatcher.store import answers, open_store, records, tasks
from dispatcher.surfaces.cli import status as status_command
from dispatcher.surfaces.cli.context import wall_clock
from tests import builders, edits, sql

POLICY = """
version = 1
name = "forms"

[budget]
t = 3

[entity.form]
key = "rx_id"

[entity.form.fields]
patient_name = { ask = "transcribe", answers = 2 }
disease = { ask = "transcribe", answers = 2 }

[property.both]
of = ["patient_name", "disease"]

[[test]]
name = "name then disease is refused"
worker = "inhouse/ann"
seen = ["f1.patient_name"]
ask = "f1.disease"
expect = "deny"
by = "both"
"""
FORMS = (
    "rx_id,patient_name,disease\nf1,Canary One,Secret gout\nf2,Canary Two,Secret flu\n"
)
TWO = ("inhouse/ann", "inhouse/bob")


@pytest.fixture
def house(run, set_up):
    """A directory with a policy in force, two workers and two forms loaded."""
    set_up(POLICY, FORMS, TWO)
    return run


def fails(done, code, error):
    """A command that failed said why on stderr, and nothing on stdout."""
    assert done.code == code
    assert done.out == ""
    assert f"error[{error}]: " in done.err
    assert "\n  why: " in done.err
    assert "\n  fix: " in done.err
    assert done.err.endswith(f"  docs: dispatcher explain {error}\n")
    assert "Traceback" not in done.err


def document(done, schema):
    """The one document on stdout; its first key says what it is."""
    found = json.loads(done.out)
    assert next(iter(found)) == "schema"
    assert found["schema"] == f"dispatcher.{schema}/1"
    return found


# -- all commands ---------------------------------------------------------------------


def test_help_loads_nothing_heavy_not_even_typer():
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "dispatcher", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"COLUMNS": "100"},
    )
    assert "Daily use:" in done.stdout
    assert not heavy_imports(done.stderr)


@pytest.mark.parametrize("code", ["E203", "POL203"])
def test_a_code_is_explained_without_loading_store_or_solvers(code):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "dispatcher", "explain", code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert code in done.stdout.partition("\n")[0]
    assert heavy_imports(done.stderr) <= {
        "pydantic",
        "typer",
        "rich",
    }  # what reads settings


@pytest.mark.parametrize("words", [["status"], []])
def test_a_look_at_the_store_loads_no_solver_and_no_reader(house, tmp_path, words):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "dispatcher", *words],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert done.stdout
    store_and_rules = {"numpy", "pydantic", "sqlalchemy", "sqlmodel", "typer"}
    assert heavy_imports(done.stderr) == store_and_rules


def heavy_imports(told):
    """Packages that a start need not wait for, by what -X importtime told."""
    loaded = {line.rpartition("|")[2].strip() for line in told.splitlines()}
    heavy = {
        "PIL",
        "alembic",
        "cryptography.x509",
        "dispatcher.stages.intake.opening",
        "jwt",
        "numpy",
        "ortools",
        "structlog",
        "sqlalchemy",
        "sqlmodel",
        "scipy",
        "numba",
        "pydantic",
        "clarabel",
        "highspy",
        "jinja2",
        "starlette",
        "typer",
        "rich",
    }
    return heavy & (loaded | {name.partition(".")[0] for name in loaded})


@pytest.mark.parametrize("words", [["--help"], ["policy"], ["queue"]])
def test_help_is_no_failure(run, words):
    done = run(*words)
    assert done.code == 0
    assert "Usage: dispatcher" in done.out


@pytest.mark.parametrize(
    "words",
    [
        ["bogus"],
        ["status", "--bogus"],
        ["plan", "apply", "one"],
        ["queue", "list", "--state", "bogus"],
        ["init", "--example", "bogus"],
    ],
)
def test_wrong_words_are_told_like_every_error(run, words):
    done = run(*words)
    fails(done, 2, "E002")
    assert "--help" in done.err


@pytest.mark.parametrize("words", [["--json", "status"], ["status", "--json"]])
def test_an_error_as_json_is_one_object_on_stderr(run, words):
    done = run(*words)
    assert (done.code, done.out) == (10, "")
    error = json.loads(done.err)["error"]
    assert error["code"] == "E101"
    assert error["retryable"] is False
    assert all(error[key] for key in ("title", "why", "fix"))


def test_safety_30_a_fault_of_the_program_hides_its_message(
    house, monkeypatch, tmp_path
):
    def fail(*_):
        raise ValueError("Canary Secretson")

    monkeypatch.setattr(status_operation, "status", fail)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    done = house("status")
    fails(done, 1, "E001")
    assert "(ValueError)" in done.err
    (report,) = (tmp_path / "state/dispatcher").glob("dispatcher-*.log")
    assert str(report) in done.err
    assert stat.S_IMODE(report.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    assert "Canary" not in report.read_text()
    assert "test_commands.py" in report.read_text()


def test_an_interrupt_exits_130(house, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(status_operation, "status", interrupt)
    assert house("status").code == 130


def test_the_shells_completion_is_no_failure(run, monkeypatch):
    monkeypatch.setenv("_DISPATCHER_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "dispatcher sta")
    monkeypatch.setenv("COMP_CWORD", "1")
    done = run()
    assert (done.code, done.out, done.err) == (0, "status\n", "")


def test_a_reader_that_has_enough_is_no_failure(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "dispatcher", "schema", "policy-file"],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("code", ["E101", "E203", "POL203"])
def test_every_code_is_explained(run, code):
    assert run("explain", code).out.removeprefix("# ").startswith(f"{code}: ")
    assert document(run("--json", "explain", code), "page")["code"] == code


def test_an_unknown_code_is_told(run):
    fails(run("explain", "E999"), 1, "E004")


# -- where the store is ---------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["policy", "show"],
        ["workers", "list"],
        ["plan"],
        ["queue", "list"],
        ["records", "list"],
        ["pause", "--reason", "x"],
        ["audit", "export", "e"],
        ["up"],
    ],
)
def test_without_a_store_every_command_exits_10(run, words):
    fails(run(*words), 10, "E101")


def test_safety_28_a_password_in_the_store_option_is_refused(run):
    done = run("--store", "postgresql://me:hunter2@127.0.0.1:1/x", "status")
    fails(done, 2, "E002")
    assert "hunter2" not in done.err


def test_a_private_file_may_hold_the_store_and_the_option_wins(
    house, tmp_path, monkeypatch
):
    file = tmp_path / "url"
    file.write_text(str(tmp_path / "elsewhere.db"))
    file.chmod(0o600)
    monkeypatch.setenv("DISPATCHER_STORE_FILE", str(file))
    fails(house("status"), 10, "E101")
    assert house("--store", "dispatcher.db", "status").code == 0


def test_a_store_of_a_newer_program_exits_13(house, tmp_path):
    with open_store(tmp_path / "dispatcher.db") as store, store.write() as tx:
        edits.set_schema(tx, "9999")
    fails(house("status"), 13, "E103")


def test_another_directory_is_worked_in(house, tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    assert house("-C", tmp_path, "status").code == 0
    monkeypatch.setenv("DISPATCHER_DIR", str(tmp_path))
    assert house("status").code == 0


# -- init -----------------------------------------------------------------------------


def test_init_writes_files_that_only_their_owner_reads(run, tmp_path):
    before = os.umask(0o022)
    try:
        done = run("init")
    finally:
        os.umask(before)
    assert (done.code, done.out) == (0, "")
    assert "next: dispatcher records preview" in done.err
    for name in ("dispatcher.toml", "policy.toml", "dispatcher.db", ".gitignore"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600, name
    assert run("policy", "check").code == 0
    assert run("status").code == 0


def test_init_overwrites_nothing(run, tmp_path):
    run("init", "--example", "tickets")
    fails(run("init"), 1, "E005")
    assert 'name    = "tickets"' in (tmp_path / "policy.toml").read_text()


def test_init_makes_the_store_that_settings_lack_and_keeps_the_settings(run, tmp_path):
    settings = tmp_path / "dispatcher.toml"
    settings.write_text("seed = 7\n")
    failed = run("status")
    fails(failed, 10, "E101")
    assert "dispatcher init" in failed.err
    (tmp_path / "policy.toml").write_text(POLICY)
    (tmp_path / ".gitignore").touch()
    done = run("init")
    assert (done.code, done.err.splitlines()[0][:16]) == (0, "wrote the store ")
    assert settings.read_text() == "seed = 7\n"
    assert run("status").code == 0


def test_init_keeps_a_policy_that_is_there(run, tmp_path):
    (tmp_path / "policy.toml").write_text(POLICY)
    done = run("--json", "init")
    assert "policy.toml" not in " ".join(document(done, "init")["written"])
    assert (tmp_path / "policy.toml").read_text() == POLICY


def test_init_in_a_place_that_is_none_is_told(run, tmp_path):
    (tmp_path / "file").touch()
    assert run("--dir", tmp_path / "file" / "x", "init").code == 5


# -- policy ---------------------------------------------------------------------------


def test_policy_check_exits_5_with_the_place(run, tmp_path):
    (tmp_path / "policy.toml").write_text(POLICY.replace("t = 3", "t = 0"))
    done = run("policy", "check")
    assert done.code == 5
    assert "policy.toml:6:" in done.out
    assert run("policy", "check", "--exit-zero").code == 0
    assert json.loads(run("--json", "policy", "check").out)
    concise = run("policy", "check", "--format", "concise").out
    assert len(concise.splitlines()) == 1
    fails(run("policy", "check", "none.toml"), 5, "E003")


def test_policy_test_exits_1_if_one_fails(house, tmp_path):
    done = house("policy", "test")
    assert done.code == 0
    assert len(done.out.splitlines()) == 1
    (tmp_path / "policy.toml").write_text(
        POLICY.replace('"deny"\nby = "both"', '"allow"')
    )
    assert house("policy", "test").code == 1
    (one,) = document(house("policy", "test", "--json"), "policy-tests")["tests"]
    assert (one["test"], one["passed"]) == ("name then disease is refused", False)
    assert house("policy", "test", "-k", "nothing").code == 0


def test_policy_show_gives_the_file_back_byte_for_byte(house):
    assert house("policy", "show").out == POLICY
    found = document(house("policy", "show", 1, "--json"), "policy")
    assert found["source"] == POLICY
    fails(house("policy", "show", 2), 1, "E004")


def test_policy_apply_counts_versions_and_the_same_file_is_no_new_one(house, tmp_path):
    assert house("policy", "apply").out == "version 1 was in force already\n"
    (tmp_path / "policy.toml").write_text(POLICY + "# changed\n")
    assert document(house("policy", "apply", "--json"), "policy")["version"] == 2


def test_policy_apply_of_a_bad_file_changes_nothing(house, tmp_path):
    (tmp_path / "policy.toml").write_text(POLICY.replace("t = 3", "t = 0"))
    done = house("policy", "apply")
    assert (done.code, done.out) == (5, "")
    assert "policy.toml:6:" in done.err
    assert house("policy", "show").out == POLICY


def test_a_policy_that_the_past_breaks_exits_6(house, tmp_path):
    looser = POLICY.partition("[property.both]")[0]
    looser = looser.replace("t = 3", 't = 3\nobjective = "tradeoff"')
    looser += '[property.both]\nof = ["patient_name", "disease"]\ntau = "none"\n'
    (tmp_path / "policy.toml").write_text(looser)
    assert house("policy", "apply").code == 0
    book(tmp_path, "inhouse/ann", "f1.patient_name", "f1.disease")
    (tmp_path / "policy.toml").write_text(POLICY)
    fails(house("policy", "apply"), 6, "E204")
    assert house("policy", "show").out == looser


def test_policy_rule_and_schema_print_what_they_name(run):
    assert run("explain", "POL203").out.startswith("# POL203: ")
    fails(run("explain", "POL999"), 1, "E004")
    assert "did you mean POL" in run("explain", "POL299").err
    assert "properties" in json.loads(run("schema", "policy-file").out)


def test_policy_suggest_drafts_from_columns_and_asks_before_it_overwrites(
    run, tmp_path
):
    (tmp_path / "forms.csv").write_text(FORMS)
    assert run("policy", "suggest", "forms.csv").code == 0
    first = tmp_path / "policy.toml"
    assert stat.S_IMODE(first.stat().st_mode) == 0o600
    assert "Canary" not in first.read_text()
    first.write_text("mine")
    fails(run("policy", "suggest", "forms.csv"), 2, "E002")
    assert first.read_text() == "mine"
    assert run("policy", "suggest", "forms.csv", "--yes").code == 0
    assert first.read_text() != "mine"


# -- workers --------------------------------------------------------------------------


def test_workers_add_says_what_it_did_and_invites(house):
    done = house("workers", "add", "inhouse/ann", "inhouse/cat", "--invite")
    assert done.code == 0
    head, *rows = [line.split("\t") for line in done.out.splitlines()]
    assert head == ["worker", "link"]
    assert [row[0] for row in rows] == ["inhouse/ann", "inhouse/cat"]
    assert all(row[1].startswith("http://127.0.0.1:8421/#k=") for row in rows)
    assert "inhouse/ann is here already" in done.err
    assert "1 worker added" in done.err
    found = document(house("--json", "workers", "add", "inhouse/dan"), "workers")
    assert found["added"] == ["inhouse/dan"]
    assert found["invites"] == {}


TURKLE = """
[connectors.inhouse]

[connectors.turkle]
url = "https://turkle.example.org"
secret_file = "turkle.secret"

[connectors.second]
kind = "inhouse"
"""


def test_each_connector_signs_its_links_with_a_key_of_its_own(house, tmp_path):
    (tmp_path / "turkle.secret").write_text(f"word\n{'6b' * 32}\n")
    with (tmp_path / "dispatcher.toml").open("a") as settings:
        settings.write(TURKLE)
    names = ["turkle/ann", "second/ann", "inhouse/cat"]
    done = house("--no-header", "workers", "add", *names, "--invite")
    assert done.code == 0, done.err
    rows = done.out.splitlines()
    codes = [row.partition("#k=")[2] for row in rows]
    assert [code.rpartition("~")[0] for code in codes] == ["turkle", "second", ""]
    bodies = [code.rpartition("~")[2] for code in codes]
    later = datetime.fromtimestamp(wall_clock() / 10**6, UTC) + timedelta(hours=1)
    assert read(b"k" * 32, bodies[0], later).account == "ann"
    with open_store(str(tmp_path / "dispatcher.db")) as store:
        plain = store.key("token-key")
    assert read(plain, bodies[2], later).account == "cat"
    for code in bodies[:2]:
        with pytest.raises(Rejected):
            read(plain, code, later)


def test_links_that_can_not_be_made_are_told_before_anybody_is_added(house, tmp_path):
    with (tmp_path / "dispatcher.toml").open("a") as settings:
        settings.write(TURKLE)  # its secret is missing
    fails(house("workers", "add", "turkle/eve", "--invite"), 5, "E003")
    assert "eve" not in house("workers", "list").out
    assert house("workers", "add", "turkle/eve").code == 0


@pytest.mark.parametrize("name", ["ann", "/ann", "inhouse/", "nowhere/ann", "in/a\tb"])
def test_a_worker_of_no_connector_is_refused_and_none_is_added(house, name):
    fails(house("workers", "add", "inhouse/eve", name), 2, "E002")
    assert "eve" not in house("workers", "list").out


def test_a_slash_and_an_emoji_in_a_name_are_fine(house):
    assert house("workers", "add", "inhouse/a/b🙂").code == 0
    assert "inhouse/a/b🙂" in house("workers", "list").out


def test_workers_import_tells_bad_rows_by_line_and_exits_3(house, tmp_path):
    team = tmp_path / "team.csv"
    team.write_text("worker\ninhouse/cat\nnobody\nnowhere/dan\nfolder/eve\n")
    dry = house("workers", "add", "--from", team, "--dry-run")
    assert dry.code == 3
    assert "DRY RUN" in dry.err
    assert "cat" not in house("workers", "list").out
    done = house("workers", "add", "--from", team, "--invite")
    assert done.code == 3
    assert f"{team}:3: it has no connector before a slash" in done.err
    assert "nowhere/dan: no connector nowhere is set up" in done.err
    assert "1 get no link" in done.err
    assert [row.split("\t")[0] for row in done.out.splitlines()[1:]] == ["inhouse/cat"]
    fails(house("workers", "add", "--from", "none.csv"), 5, "E003")


def test_an_invitation_of_a_folder_worker_is_refused_and_revokes_none(house, tmp_path):
    house("workers", "add", "folder/eve")
    numbers = invite_numbers(tmp_path)
    fails(house("workers", "invite", "inhouse/ann", "folder/eve"), 1, "E005")
    assert invite_numbers(tmp_path) == numbers
    assert house("workers", "invite", "inhouse/ann", "--no-header").out.startswith(
        "inhouse/ann\t"
    )
    assert invite_numbers(tmp_path) != numbers


def test_a_blocked_worker_is_shown_as_such(house):
    assert house("workers", "block", "inhouse/ann").out == "inhouse/ann is blocked\n"
    rows = document(house("workers", "list", "--json"), "workers")["workers"]
    assert [row["state"] for row in rows] == ["blocked", "active"]
    fails(house("workers", "block", "inhouse/ann"), 1, "E005")
    assert house("workers", "unblock", "inhouse/ann").code == 0
    fails(house("workers", "block", "inhouse/none"), 1, "E004")


def test_groups_of_the_policy_are_listed(house, tmp_path):
    assert house("workers", "groups").out == ""
    (tmp_path / "policy.toml").write_text(
        POLICY + '[workers.groups.us]\nmembers = ["inhouse/*"]\n'
    )
    assert house("policy", "apply").code == 0
    assert (
        house("workers", "groups", "--no-header").out
        == "us\t-\tinhouse/ann inhouse/bob\n"
    )
    listed = house("workers", "list", "--json")
    assert {tuple(w["groups"]) for w in document(listed, "workers")["workers"]} == {
        ("us",)
    }


# -- records --------------------------------------------------------------------------


def test_records_are_listed_by_key_and_state(house):
    head, *rows = house("records", "list").out.splitlines()
    assert head == "record\trun\tstate\tfields\tanswered\tconflict\tpseudonym"
    assert [row.rpartition("\t")[0] for row in rows] == [
        "f1\tdefault\topen\t2\t0\t0",
        "f2\tdefault\topen\t2\t0\t0",
    ]
    assert house("records", "list", "--no-header").out.splitlines() == rows
    name = rows[0].rpartition("\t")[2]
    shown = house("records", "show", name)
    assert shown.out == house("records", "show", "f1").out
    assert f"pseudonym {name}, as in the console" in shown.err
    assert house("records", "list", "--state", "answered").out == ""
    assert house("records", "list", "--run", "none").out == ""
    assert len(house("records", "list", "--limit", 1).out.splitlines()) == 2
    rows = document(house("--json", "records", "list"), "records")["records"]
    assert rows[0] == {
        "record": "f1",
        "run": "default",
        "state": "open",
        "fields": 2,
        "answered": 0,
        "conflict": 0,
        "pseudonym": name,
    }


def test_a_record_is_shown_by_its_fields(house, tmp_path):
    book(tmp_path, "inhouse/ann", "f1.patient_name")
    assert house("records", "show", "f1").out == (
        "field\tstate\ttasks\tlive\tanswers\theld_back\tnot_valid\tdecided_by\n"
        "patient_name\topen\t1\t1\t0\t\t\t\ndisease\topen\t0\t0\t0\t\t\t\n"
    )
    found = document(house("records", "show", "f1", "--json"), "record")
    assert [field["live"] for field in found["fields"]] == [1, 0]
    fails(house("records", "show", "f9"), 1, "E004")


def test_a_field_says_why_an_answer_does_not_count(house, tmp_path):
    book(tmp_path, "inhouse/ann", "f1.patient_name")
    with open_store(tmp_path / "dispatcher.db") as store, store.write() as tx:
        [task] = tasks.open_tasks(tx)
        row = TaskAnswer(task_id=task.id, entry_id=task.entry_id, account_id=1, raw=b"x",
                     valid=0, reason="none of the choices", at=1)  # fmt: skip
        answers.put_answers(tx, [row])
    found = document(house("records", "show", "f1", "--json"), "record")["fields"]
    assert [field["not_valid"] for field in found] == ["none of the choices", ""]


def test_a_run_is_shown_with_its_files(house, tmp_path):
    more = "rx_id,patient_name,disease\nf3,x\nf4,y,z\nf5,y,z\n"
    (tmp_path / "more.csv").write_text(more)
    house("records", "load", "more.csv")
    house("records", "reassemble", "-o", "whole.csv")
    with open_store(tmp_path / "dispatcher.db") as store, store.write() as tx:
        records.begin_load(tx, 1, "broken-off.csv", "[]", 1)
    found = document(house("runs", "show", "default", "--json"), "run")
    loads = [
        (one["source"], one["records"], one["rejected"], one["complete"])
        for one in found["loads"]
    ]
    assert loads == [
        ("forms.csv", 2, 0, True),
        ("more.csv", 2, 1, True),
        ("broken-off.csv", 0, 0, False),
    ]
    assert [one["path"] for one in found["exports"]] == [str(tmp_path / "whole.csv")]
    assert found["state"] == "active"
    assert found["created_at"] <= found["loads"][0]["started_at"]
    assert found["loads"][1]["started_at"] <= found["exports"][0]["at"]
    shown = house("runs", "show", "default").out
    assert "broken-off.csv\t1970-01-01T00:00:00+00:00\t0\t0\tno\n" in shown
    fails(house("runs", "show", "none"), 1, "E004")


def test_the_events_say_what_was_done_by_whom(house):
    house("pause", "--all", "--reason", "wait")
    house("runs", "budget", "default", "--cap", "GBP:10")
    house("workers", "block", "inhouse/ann")
    lines = document(house("audit", "events", "--json"), "events")["lines"]
    actions = [line["action"] for line in lines]
    assert actions[:2] == ["account.blocked", "budget.set"]
    assert lines[0]["at"] >= lines[1]["at"]
    who = lines[0]["actor"]
    assert who
    assert len(document(house("audit", "events", "--actor", who, "--json"), "events")[
        "lines"]) == actions.count("account.blocked") + sum(
            line["actor"] == who for line in lines[1:])  # fmt: skip
    assert house("audit", "events", "--actor", "nobody", "--no-header").out == ""
    shown = house("audit", "events", "--action", "budget.set", "--no-header").out
    assert f"\t{who}\tbudget.set\t" in shown
    assert len(shown.splitlines()) == 1


def test_the_audit_log_says_who_did_what_and_why(house):
    me = pwd.getpwuid(os.getuid()).pw_name
    house("pause", "--all", "--reason", "wait")
    house("pause", "--all", "--reason", "wait", "--dry-run")
    house("workers", "block", "inhouse/ann")
    house("workers", "block", "inhouse/nobody-of-this-name")
    house("workers", "list")

    def lines(*words):
        shown = document(house("audit", "log", *words, "--json"), "audit-log")["lines"]
        return [
            tuple(
                one[name]
                for name in ("actor", "operation", "target", "reason", "outcome")
            )
            for one in shown
        ]

    found = lines()
    assert found[:3] == [
        (me, "workers.block", "", "", "E004"),
        (me, "workers.block", "inhouse/ann", "", "done"),
        (me, "pause", "", "wait", "done"),
    ]
    assert {"init", "policy.apply", "records.load"} & {one[1] for one in found}
    assert lines("--operation", "workers", "--limit", "2") == found[:2]
    assert lines("--actor", "nobody") == []
    assert lines("--until", "2001-01-01") == []
    assert lines("--since", "2001-01-01") == found


def test_users_tokens_and_sessions_by_command(house):
    link = house("users", "invite").out
    assert link.startswith("http://127.0.0.1:8420/enrol#k=")
    assert (
        house("users", "add", "ann", "--role", "viewer", "--role", "operator").code == 0
    )
    fails(house("users", "invite"), 1, "E005")
    fails(house("users", "add", "ann", "--role", "viewer"), 1, "E005")
    refused = house(
        "users", "add", "eve", "--role", "admin", "--role", "privacy-officer"
    )
    fails(refused, 5, "E003")
    assert "separation of duties" in refused.err
    house("users", "role", "ann", "--role", "viewer")
    house("users", "disable", "ann")
    (ann,) = document(house("users", "list", "--json"), "users")["users"]
    assert (ann["name"], ann["roles"], ann["state"]) == ("ann", ["viewer"], "disabled")
    made = house("tokens", "make", "load", "--scope", "records:write")
    assert made.out.startswith("dsp_live_")
    house("tokens", "revoke", "1")
    listed = house("tokens", "list", "--no-header").out
    assert made.out[:15] in listed
    assert made.out.strip() not in listed
    assert "\trevoked\t" in listed
    assert house("sessions", "list", "--no-header").out == ""
    fails(house("sessions", "revoke", "0" * 12), 1, "E004")


def test_a_load_with_rejects_exits_3(house, tmp_path):
    (tmp_path / "more.csv").write_text("rx_id,patient_name,disease\nf3,x\nf4,y,z\n")
    assert house("records", "load", "more.csv").code == 3


# -- plan and explain -----------------------------------------------------------------


def test_too_few_workers_exit_7_and_the_message_says_how_many_would_do(house):
    done = house("plan")
    fails(done, 7, "E701")
    assert "with 2 adversaries; 4 are needed" in done.err
    assert "Register 2 more workers (4)" in done.err
    assert "(both)" in done.err
    assert house("plan", "list").out == ""


def test_the_rest_is_planned_with_partial_and_exits_3(house):
    done = house("plan", "--partial")
    assert done.code == 3
    assert "held back: 4 workers needed" in done.out


def test_a_plan_is_made_shown_listed_and_applied(house):
    house("workers", "add", "inhouse/cat", "inhouse/dan")
    dry = house("plan", "--dry-run")
    assert dry.code == 0
    assert dry.out.startswith("DRY RUN - nothing was changed\n")
    assert house("plan", "list").out == ""
    made = document(house("plan", "--json", "--seed", 3), "plan")
    assert (made["verdict"], made["held"], made["complete"]) == ("SOLVED", 0, 0)
    number = made["plan"]
    assert house("plan", "list", "--no-header").out.startswith(
        f"{number}\tdraft\tSOLVED\t1\t"
    )
    assert "0 sensitive sets whole with one worker" in house("plan", "show", number).out
    assert "is applied" in house("plan", "apply", number).out
    fails(house("plan", "apply", number), 1, "E005")
    fails(house("plan", "apply", 99), 1, "E004")
    fails(house("plan", "show", 99), 1, "E004")
    assert document(house("status", "--json"), "status")["plan"]["plan"] == number


def test_a_plan_of_nothing_says_so_and_shows_no_numbers(house):
    house("workers", "add", "inhouse/cat", "inhouse/dan")
    assert house("plan").code == 0
    assert house("plan", "apply").code == 0
    for words in (["--dry-run"], []):
        done = house("plan", *words)
        assert done.code == 0
        assert "  nothing is left to plan: what is in force" in done.out
        assert "utility" not in done.out
        assert "0 records" not in done.out


def test_an_algorithm_that_is_none_is_told(house):
    fails(house("plan", "--algorithm", "magic"), 2, "E002")


def test_without_a_policy_there_is_no_plan(run, sqlite_path):
    assert sqlite_path.name == "dispatcher.db"
    assert run("plan").code == 1


def test_explain_suggests_the_field_that_a_mistyped_one_resembles(house):
    done = house("explain", "f1.diseese", "--who")
    fails(done, 1, "E004")
    assert "did you mean `disease`? known fields: " in done.err


def test_a_worker_is_explained_as_workers_show_does(house, tmp_path):
    book(tmp_path, "inhouse/ann", "f1.patient_name")
    done = house("explain", "inhouse/ann")
    assert (done.code, done.out) == (0, house("workers", "show", "inhouse/ann").out)
    assert "disease of 1 record or person would be refused next" in done.out
    found = document(house("explain", "inhouse/ann", "--json"), "worker")
    assert (found["state"], found["fields_seen"]) == ("active", 1)


def test_a_record_is_explained_by_who_saw_what_and_what_is_open(house, tmp_path):
    book(tmp_path, "inhouse/ann", "f1.patient_name")
    seen_by = document(house("explain", "inhouse/ann", "--json"), "worker")["adversary"]
    done = house("explain", "f1")
    assert done.code == 0
    assert done.out.splitlines()[0].split("\t")[:3] == ["field", "state", "seen by"]
    assert "2 of 2 fields are open" in done.err
    told = house("explain", "f1", "--json")
    found = document(told, "record-explanation")
    fields = {one["field"]: one for one in found["fields"]}
    assert fields["patient_name"]["seen_by"] == [seen_by]
    assert fields["disease"]["seen_by"] == []
    could = {name: one["could_take"] for name, one in fields.items()}
    assert could == {"patient_name": 1, "disease": 1}  # bob's, of both
    by_pseudonym = house("explain", found["pseudonym"], "--json")
    assert document(by_pseudonym, "record-explanation")["fields"] == found["fields"]


def test_a_worker_and_a_record_of_one_name_are_told_apart(run, set_up):
    forms = "rx_id,patient_name,disease\ninhouse/ann,Canary One,Secret gout\n"
    set_up(POLICY, forms, TWO)
    done = run("explain", "inhouse/ann")
    fails(done, 2, "E002")
    assert "dispatcher workers show NAME, or dispatcher records show KEY" in done.err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("workers show inhouse/an", "inhouse/ann"),
        ("workers block inhouse/bobb", "inhouse/bob"),
        ("workers distinct inhouse/ann inhouse/bobb --reason x", "inhouse/bob"),
        ("workers merge inhouse/ann inhouse/bobb --reason x", "inhouse/bob"),
        ("workers invite inhouse/anm", "inhouse/ann"),
        ("explain inhouse/anm", "inhouse/ann"),
        ("explain f1.disease --worker inhouse/anm", "inhouse/ann"),
        ("connectors show inhousse", "inhouse"),
        ("connectors enable inhousse", "inhouse"),
        ("connectors reconcile inhousse", "inhouse"),
        ("pause --connector inhousse --reason x", "inhouse"),
        ("pause --run defualt --reason x", "default"),
        ("runs show defualt", "default"),
        ("runs budget defualt --cap GBP:1", "default"),
        ("records reassemble --run defualt -o out.csv", "default"),
        ("records show ff1", "f1"),
        ("explain ff1", "f1"),
        ("explain ff1.disease", "f1.disease"),
        ("explain ff1.disease --who", "f1.disease"),
        ("fields unburn ff1.disease --reason x", "f1.disease"),
        ("ledger prove ff1.disease", "f1.disease"),
        ("plan show 11", "1"),
        ("plan apply 11", "1"),
        ("questions drop diseese --purpose gold", "disease"),
        ("schema recrds", "records"),
    ],
)
def test_a_mistyped_name_meets_the_nearest_of_its_kind(house, words, meant):
    house("workers", "add", "inhouse/cyd", "inhouse/eve")
    house("plan")
    done = house(*words.split())
    fails(done, 1, "E004")
    assert f"did you mean {meant}? If not: " in done.err


def test_what_resembles_nothing_gets_no_guess(house):
    for words in ("workers show inhouse/zzzzzzzz", "runs show zzz", "explain zzz"):
        done = house(*words.split())
        fails(done, 1, "E004")
        assert "did you mean" not in done.err


def test_explain_tells_what_the_gate_would_say(house, tmp_path):
    assert house("explain", "f1.disease", "--worker", "inhouse/ann").out.startswith(
        "ALLOW"
    )
    book(tmp_path, "inhouse/ann", "f1.patient_name")
    done = house("explain", "f1.disease", "--worker", "inhouse/ann")
    assert done.code == 0
    assert done.out.startswith("DENY  both")
    assert "REFUSES  both: f 0 -> 1, limit f < 1" in done.out
    assert "has: f1.patient_name, shown 20" in done.out
    found = document(
        house("explain", "f1.disease", "--worker", "inhouse/ann", "--json"), "explain"
    )
    assert (found["allowed"], found["refused_by"]) == (False, "both")
    assert (found["can_take"], found["adversaries"]) == (1, 2)
    assert house("explain", "f1.disease", "--who").out == "inhouse/bob\n"


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["f1.disease"], 2, "E002"),
        (["f1.disease", "--who", "--worker", "inhouse/ann"], 2, "E002"),
        (["f9.disease", "--who"], 1, "E004"),
        (["f1.colour", "--who"], 1, "E004"),
        (["f1.disease", "--worker", "inhouse/none"], 1, "E004"),
        (["f1.disease", "--worker", "none"], 2, "E002"),
    ],
)
def test_what_can_not_be_explained_is_told(house, words, code, error):
    fails(house("explain", *words), code, error)


# -- status, pause, queue -------------------------------------------------------------


def test_status_exits_9_only_if_asked_and_something_is_to_do(house):
    done = house("status")
    assert done.code == 0
    assert "no daemon runs" in done.out
    assert house("status", "--exit-code").code == 9


def test_status_is_repeated_one_document_a_line(house, monkeypatch):
    looks = []

    def sleep(seconds):
        looks.append(seconds)
        if len(looks) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(status_command.time, "sleep", sleep)
    done = house("status", "--watch", "5", "--json")
    assert done.code == 130
    assert looks == [5.0, 5.0]
    assert len([json.loads(line) for line in done.out.splitlines()]) == 2


def test_a_pause_is_kept_shown_and_ended(house):
    done = house("pause", "--connector", "inhouse", "--reason", "token expired")
    assert done.out == "paused connector:inhouse\n"
    house("pause", "--run", "default", "--reason", "wait")
    assert "connector:inhouse is paused: token expired" in house("status").out
    done = house("resume", "--connector", "inhouse")
    assert done.out == "resumed connector:inhouse\n"
    assert "still paused: run:default" in done.err
    assert house("resume").out == "all was not paused\n"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--connector", "none", "--reason", "x"], 1),
        (["--run", "none", "--reason", "x"], 1),
        (["--all", "--run", "default", "--reason", "x"], 2),
        (["--reason", "two\nlines"], 2),
        (["--reason", " "], 2),
        ([], 2),
    ],
)
def test_a_pause_of_nothing_is_told(house, words, code):
    done = house("pause", *words)
    assert (done.code, done.out) == (code, "")
    assert "is paused" not in house("status").out


def test_dead_messages_are_listed_and_sent_again_after_a_question(house, tmp_path):
    ids = dead_messages(tmp_path)
    assert len(house("queue", "list", "--state", "dead").out.splitlines()) == 3
    assert house("queue", "list", "--state", "ready").out == ""
    fails(house("queue", "retry"), 2, "E002")
    dry = house("queue", "retry", "--dry-run")
    assert "2 dead messages would be sent again" in dry.out
    fails(house("queue", "retry", 999), 1, "E004")
    assert house("queue", "retry", ids[0]).out == "1 wait again\n"
    assert house("queue", "retry", "--yes").out == "1 wait again\n"
    rows = document(house("queue", "list", "--json"), "queue")["messages"]
    assert [row["state"] for row in rows] == ["ready", "ready"]


def test_a_question_is_answered_on_a_terminal(house, tmp_path, monkeypatch):
    dead_messages(tmp_path)

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    done = house("queue", "retry")
    assert done.code == 1
    assert "nothing was changed" in done.err
    fails(house("--no-input", "queue", "retry"), 2, "E002")
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert house("queue", "retry").out == "2 wait again\n"


# -- audit ----------------------------------------------------------------------------


def test_evidence_is_exported_and_verified_by_its_head(house, tmp_path):
    book(tmp_path, "inhouse/ann", "f1.patient_name")
    root = document(house("audit", "export", "evidence", "--json"), "evidence")["root"]
    done = house("audit", "verify", "evidence", "--head", root)
    assert done.code == 0
    assert done.out.startswith("VERIFIED ")
    found = document(house("audit", "verify", "evidence", "--json"), "verdict")
    assert (found["verdict"], found["status"]) == ("VERIFIED", 0)
    assert house("audit", "verify", "evidence", "--head", "0" * 64).code == 2
    fails(house("audit", "export", "evidence"), 1, "E005")


def test_evidence_that_was_changed_is_broken(house, tmp_path):
    house("audit", "export", "evidence")
    ledger = tmp_path / "evidence" / "ledger.jsonl"
    ledger.write_text(ledger.read_text().replace('"inhouse/ann"', '"inhouse/eve"'))
    done = house("audit", "verify", "evidence")
    assert done.code == 2
    assert done.out.startswith("BROKEN ")


# -- what tests do behind the commands ------------------------------------------------


def book(directory, account, *fields):
    """Book fields of a form for an account, as the daemon would."""
    from dispatcher.core import keys
    from dispatcher.ledger.book import Asks, Push
    from dispatcher.ledger.book import book as book_asks
    from dispatcher.store import accounts, record_states

    with open_store(directory / "dispatcher.db") as store, store.write() as tx:
        key = store.key("pseudonym-key")
        found = accounts.find(tx, *account.split("/", 1))
        assert found is not None
        entries = []
        for text in fields:
            record, _, field = text.partition(".")
            entry = record_states.entry_named(
                tx, keys.pseudonym(key, "r", record), field
            )
            if entry is None:
                raise NotFound(text)
            entries.append(entry)
        book_asks(
            tx,
            [Asks(found.id, entries)],
            delivery=Push(),
            at=1_800_000_000_000_000,
            cause="test",
        )


def dead_messages(directory):
    """Two messages that were given up; their ids."""
    book(directory, "inhouse/ann", "f1.patient_name")
    book(directory, "inhouse/bob", "f2.patient_name")
    with open_store(directory / "dispatcher.db") as store:
        return builders.settle_messages(store, "dead")


def invite_numbers(directory):
    """Invite numbers of all accounts."""
    with open_store(directory / "dispatcher.db") as store, store.read() as tx:
        return sql.rows(tx, "SELECT id, invite FROM account ORDER BY id")
