"""Completion in a shell offers the names that there are, in all four shells' own words."""

import os
import subprocess
import sys

import pytest

from dispatcher.surfaces.cli import completion
from tests import builders


@pytest.fixture
def house(set_up, run):
    set_up(
        builders.FORMS,
        "id,name,disease\nf1,Ann,gout\n",
        ("folder/ann", "folder/bob", "folder/$(touch out)"),
    )
    return run


@pytest.fixture
def complete(run, monkeypatch):
    """Ask as a shell asks, and read what it would offer."""

    def asked(line, shell="bash"):
        words = ["dispatcher", *line.split(" ")]
        text = " ".join(words)
        given = {
            "bash": {"COMP_WORDS": text, "COMP_CWORD": str(len(words) - 1)},
            "zsh": {"_TYPER_COMPLETE_ARGS": text},
            "fish": {
                "_TYPER_COMPLETE_ARGS": text,
                "_TYPER_COMPLETE_FISH_ACTION": "get-args",
            },
            "powershell": {
                "_TYPER_COMPLETE_ARGS": text,
                "_TYPER_COMPLETE_WORD_TO_COMPLETE": words[-1],
            },
        }[shell]
        with monkeypatch.context() as patch:
            patch.setenv("_DISPATCHER_COMPLETE", f"complete_{shell}")
            for name, value in given.items():
                patch.setenv(name, value)
            done = run()
        assert done.err == ""
        return done.out

    return asked


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("workers show ", ["folder/ann", "folder/bob"]),
        ("workers block folder/a", ["folder/ann"]),
        ("workers merge folder/ann folder/b", ["folder/bob"]),
        ("explain f1.name --worker folder/b", ["folder/bob"]),
        ("explain folder/", ["folder/ann", "folder/bob"]),
        ("explain f1.di", ["f1.disease"]),
        ("explain E20", ["E203", "E204"]),
        ("fields unburn f1.", ["f1.disease", "f1.name"]),
        ("ledger prove f1.n", ["f1.name"]),
        ("questions drop d", ["disease"]),
        ("connectors show fo", ["folder"]),
        ("pause --connector fo", ["folder"]),
        ("records list --run d", ["default"]),
        ("runs show ", ["default"]),
        ("workers show nobody/", []),
    ],
)
def test_names_of_the_store_are_offered(house, complete, line, offered):
    assert complete(line).split() == offered


@pytest.mark.parametrize(
    ("shell", "offered"),
    [
        ("bash", "folder/bob\n"),
        ("zsh", "_arguments '*: :((\"folder/bob\"))'\n"),
        ("fish", "folder/bob\n"),
        ("powershell", "folder/bob::: \n"),
    ],
)
def test_every_shell_is_offered_them_in_its_own_form(house, complete, shell, offered):
    assert complete("workers show folder/b", shell) == offered


def test_the_directory_on_the_line_is_the_one_looked_into(
    house, complete, tmp_path, monkeypatch
):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert complete("workers show folder/b") == "\n"
    assert complete(f"-C {tmp_path} workers show folder/b") == "folder/bob\n"


def test_a_name_that_a_shell_would_run_is_not_offered(house, complete):
    listed = house("workers", "list").out
    assert "folder/$(touch out)" in listed
    for shell in ("bash", "zsh", "fish", "powershell"):
        assert "touch" not in complete("workers show folder/", shell)


def test_where_nothing_can_be_read_nothing_is_offered_or_said(complete, tmp_path):
    path = tmp_path / "dispatcher.db"
    assert complete("workers show ") == "\n"  # no store
    assert not path.exists()
    path.write_bytes(b"no database")
    for line in ("workers show ", "runs show ", "explain f1."):
        assert complete(line) == "\n"
    (tmp_path / "dispatcher.toml").write_text("no settings")
    assert complete("connectors show ") == "\n"


def test_completion_changes_nothing_in_the_store(house, complete, tmp_path):
    path = tmp_path / "dispatcher.db"
    before = path.read_bytes()
    assert complete("workers show folder/a") == "folder/ann\n"
    assert path.read_bytes() == before


def test_of_many_names_the_first_are_offered(house, complete, tmp_path):
    most = completion.MOST
    team = "\n".join(f"folder/w{number:04}" for number in range(most + 5))
    (tmp_path / "team.csv").write_text(f"worker\n{team}\n")
    house("workers", "add", "--from", "team.csv")
    offered = complete("workers show folder/w").split()
    assert (len(offered), offered[0]) == (most, "folder/w0000")


def test_a_noun_completes_its_commands_without_loading_the_store(tmp_path):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "dispatcher"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=os.environ
        | {
            "_DISPATCHER_COMPLETE": "complete_bash",
            "COMP_WORDS": "dispatcher workers sho",
            "COMP_CWORD": "2",
        },
    )
    assert done.stdout == "show\n"
    assert "sqlalchemy" not in done.stderr
