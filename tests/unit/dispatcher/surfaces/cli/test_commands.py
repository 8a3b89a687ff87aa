"""Commands parse, call an operation and show: other surfaces can then act as they do."""

import ast
import re
from pathlib import Path

import pytest

import dispatcher
from dispatcher.ledger.recall import InFlightAction
from dispatcher.operations import doctor as checks
from dispatcher.surfaces import cli
from dispatcher.surfaces.cli import doctor as commands
from dispatcher.surfaces.cli import policy
from dispatcher.surfaces.cli.reference import page

ROOT = Path(dispatcher.__file__).parent
COMMANDS = Path(cli.__file__).parent
CALLED = ("dispatcher.core", "dispatcher.operations", "dispatcher.surfaces")


def imported(path: Path) -> set[str]:
    """Our modules that a file imports when it runs, at its top or later."""
    tree = ast.parse(path.read_text())
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return {name for name in found if name.partition(".")[0] == "dispatcher"}


def within(name: str, packages: tuple[str, ...]) -> bool:
    """Whether a module is one of some packages, or inside one."""
    return any(f"{name}.".startswith(f"{package}.") for package in packages)


@pytest.mark.parametrize(
    "path", sorted(COMMANDS.glob("*.py")), ids=lambda path: path.stem
)
def test_a_command_calls_operations_and_nothing_below_them(path):
    assert [name for name in imported(path) if not within(name, CALLED)] == []


def test_safety_28_no_option_takes_a_secret():
    """What a command line holds is seen by everybody who lists processes."""
    values = re.findall(r"^\| `--([\w-]+)` (?:STR|TEXT|ID)", page(), re.MULTILINE)
    assert len(values) > 40
    secret = re.compile(r"token|password|passphrase|secret|credential")
    assert {
        name
        for name in values
        if secret.search(name) and not name.endswith(("-file", "-from"))
    } == set()


def test_nothing_but_the_program_imports_a_command():
    others = [path for path in ROOT.rglob("*.py") if COMMANDS not in path.parents]
    found = {
        path.relative_to(ROOT).as_posix()
        for path in others
        if any(within(name, (cli.__name__,)) for name in imported(path))
    }
    assert found == {"__main__.py"}


def test_doctor_can_check_each_part_alone():
    """The parts are written twice: to list them as options must not load the store."""
    assert [part.value for part in commands.PartChoice] == [
        part.value for part in checks.DoctorPart
    ]


def test_every_fate_of_open_tasks_can_be_chosen():
    assert {one.value for one in policy.InFlight} == {
        one.value for one in InFlightAction
    }
