"""The templates in the package are the examples that a reader of the tree sees."""

from importlib.resources import files
from pathlib import Path


def test_the_packaged_examples_are_those_under_examples():
    packaged = files("policies.document") / "examples"
    shown = {p.name: p.read_bytes() for p in Path("examples/policies").glob("*.toml")}
    assert {p.name: p.read_bytes() for p in packaged.iterdir()} == shown
