"""The command tree as a whole: one word and one option for one thing, everywhere."""

import ast
import re
from pathlib import Path

import pytest
import typer.main

import dispatcher
from dispatcher.surfaces.cli.app import app
from dispatcher.surfaces.cli.start import main
from dispatcher.surfaces.cli.tree import (
    ANYWHERE,
    COMMANDS,
    DAILY,
    OPTIONS,
    help_page,
    words_of,
)

REPOSITORY = Path(dispatcher.__file__).parents[1]
ROOT = typer.main.get_command(app)


def walk(command, path=()):
    """Every command below one, with its path; a noun that does something too."""
    names = getattr(command, "commands", None)
    if names is None or getattr(command, "invoke_without_command", False):
        yield path, command
    for name in names or ():
        yield from walk(command.get_command(None, name), (*path, name))


LEAVES = {" ".join(path): command for path, command in walk(ROOT) if path}
NOUNS = {path.split()[0] for path in LEAVES}
READS = """
policy check, policy test, policy ask, policy show, policy diff, policy list, policy picture, records preview,
records reassemble, records list, records show, workers list, workers groups, workers suspects, workers show,
plan list, plan show, plan frontier, plan export, status, explain, doctor, fields list, answers list,
answers conflicts, answers agreement, answers show, questions list,
runs list, runs show, payments list, payments show, payments owed, connectors list,
connectors show, connectors test, notices list, notices deliveries, notices test, queue list, layout check, audit verify, audit log, audit events, users list, tokens list, sessions list, ledger verify, ledger tail,
ledger export, ledger prove, subject find, backup list, backup verify, db status, db check, schema, solve,
judge
"""
"""Commands that change nothing, but for a file that --output names."""
PROCESSES = {
    "up": "it runs",
    "serve": "it runs",
    "demo": "it runs, in a directory of its own",
    "layout draw": "its page saves what is drawn",
}
DRY_BY_DEFAULT = {"connectors reconcile": "--mend"}


def options_of(command):
    """Options of a command by the words that name them."""
    return {
        word: option
        for option in command.params
        if option.param_type_name == "option"
        for word in (*option.opts, *option.secondary_opts)
    }


def test_the_page_says_of_each_command_what_the_command_says():
    for entry in COMMANDS:
        command = ROOT.get_command(None, entry.name)
        first = " ".join((command.help or "").split("\n\n")[0].split())
        if entry.name != "plan":  # the noun; `plan` alone says what planning does
            assert first == entry.summary, entry.name


def test_ten_commands_of_daily_use_come_first():
    page = help_page()
    daily = page.partition(f"{DAILY}:\n")[2].partition("\n\n")[0]
    names = [line.split()[0] for line in daily.splitlines() if line[2] != " "]
    assert names == [
        "init", "policy", "records", "workers", "plan", "up", "status", "explain",
        "doctor", "demo",
    ]  # fmt: skip
    assert {entry.name for entry in COMMANDS} == NOUNS


def test_the_page_has_every_option_of_all_commands():
    named = words_of(OPTIONS) | words_of(ANYWHERE)
    assert set(options_of(ROOT)) == named - {"-h", "--help"}


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_page_fits_the_terminal(width):
    assert max(map(len, help_page(width).splitlines())) <= max(width, 76)


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["-C", ".", "--help"]])
def test_help_is_that_page_however_it_is_asked_for(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(words) == 0
    assert capsys.readouterr().out == help_page(80)


VARYING = {
    "--format": "a file's, a diagnostic's or a table's form",
    "--state": "each noun has states of its own",
    "--from": "a file with what the noun is made of",
    "--excel-guard": "read as a guard, or written as one",
    "--no-excel-guard": "as above",
    "--only": "what doctor can check alone",
}
"""Options whose choices are those of the noun."""


def test_an_option_means_one_thing_in_all_commands():
    """One name, one form; and one help, but for what differs by the noun."""
    found = {}
    for path, command in LEAVES.items():
        for word, option in options_of(command).items():
            kind = (option.is_flag, option.multiple, option.help)
            if word not in VARYING:
                found.setdefault(word, {}).setdefault(kind, []).append(path)
    assert {word: kinds for word, kinds in found.items() if len(kinds) > 1} == {}


def test_no_command_takes_the_name_of_an_option_of_all_commands():
    taken = set(options_of(ROOT)) - {"--help", "-h"}
    for path, command in LEAVES.items():
        assert not taken & set(options_of(command)), path


def test_one_thing_has_one_option():
    """Options of the same help are one option: they have the same name."""
    found = {}
    for command in LEAVES.values():
        for option in command.params:
            if option.param_type_name == "option" and option.name != "help":
                found.setdefault(option.help, set()).add(option.opts[0])
    assert {text: names for text, names in found.items() if len(names) > 1} == {}


def test_every_command_that_writes_can_be_tried_dry():
    reads = {path.strip() for path in READS.replace("\n", " ").split(",")}
    dry = {path for path, one in LEAVES.items() if "--dry-run" in options_of(one)}
    assert reads <= set(LEAVES), reads - set(LEAVES)
    for path, option in DRY_BY_DEFAULT.items():
        assert option in options_of(LEAVES[path])
    assert set(LEAVES) - dry - reads == {*PROCESSES, *DRY_BY_DEFAULT}


def test_every_command_is_a_noun_and_a_verb():
    verbs_alone = {entry.name for entry in COMMANDS} - {
        path.split()[0] for path in LEAVES if " " in path
    }
    assert verbs_alone == {
        "init", "up", "serve", "down", "status", "explain", "doctor", "demo", "pause", "resume",
        "schema", "solve", "judge",
    }  # fmt: skip
    assert all(len(path.split()) <= 2 for path in LEAVES)


# -- commands that texts name ----------------------------------------------------------

PAGES = sorted(
    [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")],
    key=lambda path: path.as_posix(),
)
SOURCES = sorted(
    path
    for package in ("dispatcher", "connectors", "policies")
    for path in (REPOSITORY / package).rglob("*.py")
)
COMMAND = re.compile(
    r"(?<![\w/.-])dispatcher((?: (?:--?)?[A-Za-z][\w/-]*(?:\.[\w/-]+)*)+)"
)


def texts_of(path):
    """Texts of a module, each f-string as one; the snippets of a page."""
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        blocks = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
        lines = [line for block in blocks for line in block.splitlines()]
        if path.name == "commands.md":  # written from the program
            return []
        outside = re.sub(r"```\w*\n.*?```", "", text, flags=re.DOTALL)
        return [
            *lines,
            *(" ".join(s.split()) for s in re.findall(r"`([^`]+)`", outside)),
        ]
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.JoinedStr):
            parts = [
                part.value if isinstance(part, ast.Constant) else "X"
                for part in node.values
            ]
            found.append("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return found


def wrong_in(text):
    """Commands in a text that there are not, or options that they do not take."""
    wrong = []
    for match in COMMAND.finditer(text):
        words = match[1].split()
        while words and words[0] in ("-C", "--json", "--store"):
            words = words[2:] if words[0] != "--json" else words[1:]
        if not words or words[0] not in NOUNS:
            continue  # prose: "the dispatcher is ..."
        two = " ".join(words[:2])
        command = LEAVES.get(two) or LEAVES.get(words[0])
        if command is None and len(words) > 1 and not words[1].startswith("-"):
            wrong.append(two)
        known = {} if command is None else options_of(command)
        known = {*known, *words_of(ANYWHERE), "--help", "-h"}
        wrong += [
            f"{two} {word}"
            for word in words
            if word.startswith("--") and command is not None and word not in known
        ]
    return wrong


def test_a_command_that_is_none_is_found():
    assert wrong_in("run: dispatcher records lod FILE") == ["records lod"]
    assert wrong_in("`dispatcher up --wait`") == ["up --wait --wait"]
    assert wrong_in("dispatcher plan apply 3, then dispatcher up") == []


@pytest.mark.parametrize(
    "path", [*PAGES, *SOURCES], ids=lambda path: path.relative_to(REPOSITORY).as_posix()
)
def test_every_command_that_a_text_names_is_one(path):
    assert [one for text in texts_of(path) for one in wrong_in(text)] == []
