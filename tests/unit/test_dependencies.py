"""What pyproject.toml asks people to install is what the program imports."""

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = {
    "pillow": "PIL",
    "pyjwt": "jwt",
    "python-stdnum": "stdnum",
    "segment-analytics-python": "segment",
}
"""Distributions whose module is not called like them."""

UNSEEN = {
    "pysqlite3": "the store tries drivers by their names",
    "python-multipart": "starlette reads forms with it",
    "uvicorn": "the extra `server`: uvicorn takes the faster loop by itself",
}
"""Distributions that are used without an import statement."""


def imported() -> set[str]:
    """Top-level modules that the product imports."""
    found: set[str] = set()
    for package in ("dispatcher", "connectors", "policies", "alembic"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    found.update(alias.name for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module:
                    found.add(node.module)
    return {name.partition(".")[0] for name in found}


def declared() -> dict[str, list[str]]:
    """Distributions by what declares them; without the extras of developers."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    told = {"core": project["dependencies"], **extras}
    return {
        name: [re.split(r"[\[<>=~; ]", one, maxsplit=1)[0].lower() for one in wanted]
        for name, wanted in told.items()
        if name not in ("test", "lint")
    }


def test_every_declared_distribution_is_imported():
    used = imported()
    idle = {
        f"{extra}: {name}"
        for extra, names in declared().items()
        for name in names
        if MODULES.get(name, name.replace("-", "_")) not in used
        if name not in UNSEEN
    }
    assert not idle
