"""The connector of the authors' how-to is run as it is printed there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from connectors.base import (
    Binding,
    Content,
    Idempotency,
    Identity,
    Limits,
    Manifest,
    Misconfigured,
    Plugin,
    Preview,
    Settings,
)

HOW_TO = Path(__file__).parents[2] / "docs" / "howto" / "connector-authors.md"
TEXT = HOW_TO.read_text(encoding="utf-8")
PRINTED: dict[str, object] = {}
for block in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL):
    exec(compile(block, str(HOW_TO), "exec"), PRINTED)  # the project's own text

TestNoticeBoard = PRINTED["TestNoticeBoard"]
TestDrop = PRINTED["TestDrop"]


def test_the_printed_feed_opens_what_it_declares(tmp_path):
    plugin = PRINTED["FEED"]
    assert isinstance(plugin, Plugin)
    assert plugin.open(Settings(directory=tmp_path)).manifest == plugin.manifest


def test_the_printed_plugin_opens_what_it_declares(tmp_path):
    plugin = PRINTED["CONNECTOR"]
    assert isinstance(plugin, Plugin)
    with pytest.raises(Misconfigured, match="missing"):
        plugin.open(Settings(directory=tmp_path))
    (tmp_path / "board.json").write_text("{}")
    assert plugin.open(Settings(directory=tmp_path)).manifest == plugin.manifest


@pytest.mark.parametrize("name", list(Manifest.__dataclass_fields__))
def test_every_key_of_the_manifest_is_told(name):
    assert name == "name" or f"`{name}`" in TEXT


@pytest.mark.parametrize("enum", [Binding, Identity, Content, Preview, Idempotency])
def test_every_value_of_the_manifest_is_told(enum):
    [row] = [
        line
        for line in TEXT.splitlines()
        if line.startswith(f"| `{enum.__name__.lower()}`")
    ]
    assert all(f"`{value}`" in row for value in enum)


@pytest.mark.parametrize(
    "verb",
    [
        "publish",
        "find",
        "withdraw",
        "arrive",
        "collect",
        "send",
        "listing",
        "probe",
        "notice",
        "wanted",
        "check_offer",
    ],
)
def test_every_verb_is_told(verb):
    assert f"`{verb}(" in TEXT


@pytest.mark.parametrize("error", ["TryLater", "Rejected", "Misconfigured"])
def test_every_error_is_told(error):
    assert f"| `{error}(what" in TEXT


def test_the_limits_are_those_that_the_text_names():
    assert list(Limits.__dataclass_fields__) == [
        "items",
        "content_bytes",
        "offer_bytes",
        "per_minute",
        "poll_seconds",
        "account_bytes",
    ]
