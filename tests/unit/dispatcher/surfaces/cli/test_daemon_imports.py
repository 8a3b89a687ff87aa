"""The daemon takes nothing from a command: other surfaces can then act as it does."""

import ast
from pathlib import Path

import pytest

CLI = "dispatcher.surfaces.cli."
DAEMON = ("daemon", "front", "leading")
ITS_OWN = {*DAEMON, "context", "plain"}


def imported(path: Path) -> set[str]:
    """Modules of the command line that a file imports, at its top or later."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            inside = f"{node.module}." == CLI
            names = [f"{CLI}{alias.name}" for alias in node.names] if inside else []
            found.update(names or [node.module])
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return {name.removeprefix(CLI) for name in found if name.startswith(CLI)}


@pytest.mark.parametrize("name", DAEMON)
def test_the_daemon_imports_no_command(name):
    import dispatcher.surfaces.cli

    folder = Path(dispatcher.surfaces.cli.__file__).parent
    assert imported(folder / f"{name}.py") <= ITS_OWN
