"""The package of the authors' how-to is loaded and run as it is printed there."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import ModuleType

import pytest

from dispatcher import strategies
from dispatcher.core import plugins
from policies.rules.functions import FieldFunction, UserUtility

HOW_TO = Path(__file__).parents[2] / "docs" / "howto" / "function-authors.md"
TEXT = HOW_TO.read_text(encoding="utf-8")
PACKAGE = ModuleType("my_package")
*CODE, SUITE = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
for block in CODE:
    exec(
        compile(block, str(HOW_TO), "exec"), PACKAGE.__dict__
    )  # the project's own text
TABLES = tomllib.loads("".join(re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)))

sys.modules["my_package"] = PACKAGE
PRINTED: dict[str, object] = {}
exec(compile(SUITE, str(HOW_TO), "exec"), PRINTED)
del sys.modules["my_package"]

TestMySolver = PRINTED["TestMySolver"]


@pytest.fixture
def installed(monkeypatch):
    """The printed tables of entry points."""
    points = EntryPoints(
        EntryPoint(name, target, group)
        for group, named in TABLES["project"]["entry-points"].items()
        for name, target in named.items()
    )
    monkeypatch.setitem(sys.modules, "my_package", PACKAGE)
    for module in (plugins, strategies):
        monkeypatch.setattr(
            module, "entry_points", lambda *, group: points.select(group=group)
        )


def test_the_printed_tables_offer_what_the_code_has(installed):
    assert TABLES["tool"]["setuptools"]["py-modules"] == ["my_package"]
    ages = strategies.load_function("ages")
    assert isinstance(ages, FieldFunction)
    variety = strategies.load_utility("variety")
    assert isinstance(variety, UserUtility)
    assert strategies.solver_names() == ["mine"]
    assert isinstance(strategies.load_solver("mine"), PACKAGE.MySolver)
