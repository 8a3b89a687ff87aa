"""Connectors are loaded by name only, and refused when they are not what they say."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.metadata import Distribution, EntryPoint
from types import SimpleNamespace

import pytest

from connectors.base import Misconfigured, Plugin
from connectors.folder import Folder
from connectors.inhouse import Inhouse
from connectors.testing.hostile import MEMORY, PLUGIN, Memory
from dispatcher.core import plugins
from dispatcher.core.errors import Invalid


def installed(monkeypatch, name: str, *values: str):
    """Make entry points of other packages appear."""
    points = []
    for number, value in enumerate(values):
        point = EntryPoint(name, value, plugins.GROUP)
        dist = SimpleNamespace(name=f"package-{number}", version="1.0", files=None)
        vars(point)["dist"] = dist
        points.append(point)
    monkeypatch.setattr(plugins, "entry_points", lambda group: points)


def open_one(name, values, tmp_path, **more):
    return plugins.open_connector(name, values, directory=tmp_path, **more)


def test_the_built_in_ones_are_there_without_an_installation(monkeypatch):
    monkeypatch.setattr(plugins, "entry_points", lambda group: [])
    found = plugins.available()
    assert set(found.values()) == {"built in"}
    assert {"folder", "inhouse", "s3", "segment", "sftp", "webhook"} <= set(found)
    assert all(plugins.load_plugin(kind).name == kind for kind in found)


def test_the_settings_open_connectors_by_the_operators_names(tmp_path):
    opened = plugins.open_connectors(
        {
            "inhouse": {},
            "north": {"kind": "folder", "spool": "n"},
            "folder": {"spool": "f"},
        },
        directory=tmp_path,
        secrets={"inhouse": b"k" * 32},
    )
    assert isinstance(opened["inhouse"], Inhouse)
    assert isinstance(opened["north"], Folder)
    assert (tmp_path / "n").is_dir()
    assert (tmp_path / "f").is_dir()


def test_safety_27_one_of_another_package_is_loaded_by_its_entry_point(
    monkeypatch, tmp_path
):
    installed(monkeypatch, "memory", "connectors.testing.hostile:PLUGIN")
    assert plugins.available()["memory"].startswith("package-0 1.0 ")
    assert isinstance(open_one("memory", {}, tmp_path), Memory)


def test_safety_27_a_package_is_shown_by_the_digest_of_the_code_that_would_run(
    monkeypatch, tmp_path
):
    info = tmp_path / "acme-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.2\n")
    (info / "RECORD").write_text("acme.py,,\nacme-1.2.dist-info/RECORD,,\ngone.py,,\n")
    code = tmp_path / "acme.py"
    code.write_text("PLUGIN = None\n")
    point = EntryPoint("acme", "acme:PLUGIN", plugins.GROUP)
    vars(point)["dist"] = Distribution.at(info)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point])
    first = plugins.available()["acme"]
    assert re.fullmatch(r"acme 1\.2 \(sha256:[0-9a-f]{16}\)", first)
    assert plugins.available()["acme"] == first
    code.write_text("PLUGIN = 1\n")
    assert plugins.available()["acme"] != first
    (info / "RECORD").write_text("")
    assert plugins.available()["acme"] == "acme 1.2 (its files are elsewhere)"


def test_a_package_can_not_take_the_name_of_a_built_in_one(monkeypatch, tmp_path):
    installed(monkeypatch, "folder", "connectors.testing.hostile:PLUGIN")
    assert isinstance(open_one("folder", {"spool": "s"}, tmp_path), Folder)


def test_an_unknown_kind_is_refused_with_the_kinds_that_exist(tmp_path):
    with pytest.raises(Invalid) as caught:
        open_one("toloka", {}, tmp_path)
    assert "folder, inhouse" in caught.value.fix


def test_two_packages_of_one_name_are_refused_with_both_names(monkeypatch, tmp_path):
    installed(
        monkeypatch, "memory", "connectors.testing.hostile:PLUGIN", "other:PLUGIN"
    )
    with pytest.raises(Invalid) as caught:
        open_one("memory", {}, tmp_path)
    assert "package-0" in caught.value.why
    assert "package-1" in caught.value.why


@pytest.mark.parametrize(
    ("target", "match"),
    [
        ("connectors.testing.hostile:Memory", "is no connector"),
        ("connectors.testing.hostile:MEMORY", "is no connector"),
        ("connectors.testing.hostile:NOTHING", "cannot be loaded"),
        ("no.such.module:X", "cannot be loaded"),
    ],
)
def test_what_is_no_plugin_is_refused(monkeypatch, tmp_path, target, match):
    installed(monkeypatch, "memory", target)
    with pytest.raises(Invalid, match=match):
        open_one("memory", {}, tmp_path)


def test_a_package_that_ends_the_program_is_refused(monkeypatch, tmp_path):
    (tmp_path / "a_script.py").write_text("raise SystemExit(0)")
    monkeypatch.syspath_prepend(tmp_path)
    installed(monkeypatch, "memory", "a_script:PLUGIN")
    with pytest.raises(Invalid, match="cannot be loaded") as refused:
        open_one("memory", {}, tmp_path)
    assert "raised SystemExit" in refused.value.why


def test_a_plugin_of_another_name_is_refused(monkeypatch, tmp_path):
    installed(monkeypatch, "other", "connectors.testing.hostile:PLUGIN")
    with pytest.raises(Invalid, match="calls itself 'memory'"):
        open_one("other", {}, tmp_path)


class Lame:
    manifest = MEMORY

    def publish(self, offer):
        """Only this."""


class Liar(Memory):
    manifest = replace(MEMORY, withdraws=False)


@pytest.mark.parametrize(
    ("made", "match"), [(Lame, "lacks find, withdraw"), (Liar, "something else")]
)
def test_a_connector_that_breaks_the_protocol_is_refused(
    monkeypatch, tmp_path, made, match
):
    broken = Plugin(MEMORY, lambda settings: made())
    monkeypatch.setattr("connectors.testing.hostile.PLUGIN", broken)
    installed(monkeypatch, "memory", "connectors.testing.hostile:PLUGIN")
    with pytest.raises(Invalid, match=match):
        open_one("memory", {}, tmp_path)
    assert PLUGIN is not broken


def test_a_wrong_setting_says_which_connector_it_is_of(tmp_path):
    with pytest.raises(Invalid, match="connector 'north': folder needs"):
        open_one("north", {"kind": "folder"}, tmp_path)


def leaving(_):
    raise SystemExit(0)


def breaking(_):
    raise KeyError("a-token")


@pytest.mark.parametrize(
    ("plugin", "told"),
    [
        (Plugin(MEMORY, leaving), "SystemExit"),
        (Plugin(MEMORY, breaking), "KeyError"),
        (Plugin(MEMORY, lambda _: Memory(), leaving), "SystemExit"),
    ],
)
def test_safety_27_one_that_fails_while_it_is_opened_is_told_by_its_fault_alone(
    monkeypatch, tmp_path, plugin, told
):
    monkeypatch.setattr(plugins, "load_plugin", lambda kind: plugin)
    with pytest.raises(Invalid, match="'north' cannot be opened") as caught:
        open_one("north", {"kind": "memory"}, tmp_path)
    assert caught.value.why == f"the plug-in 'memory' raised {told}"


def test_safety_28_a_secret_comes_by_file_and_never_by_value(monkeypatch, tmp_path):
    seen = []

    def opening(settings):
        seen.append(settings)
        raise Misconfigured("the secret is refused")

    monkeypatch.setattr("connectors.testing.hostile.PLUGIN", Plugin(MEMORY, opening))
    installed(monkeypatch, "memory", "connectors.testing.hostile:PLUGIN")
    (tmp_path / "token").write_bytes(b"s3cret\n")
    with pytest.raises(Invalid) as caught:
        open_one("memory", {"secret_file": "token", "x": "y"}, tmp_path)
    assert (seen[0].secret, dict(seen[0].values)) == (b"s3cret", {"x": "y"})
    assert "s3cret" not in f"{caught.value}{caught.value.why}{seen[0]!r}"


def test_a_secret_file_that_is_missing_or_empty_is_refused(tmp_path):
    (tmp_path / "empty").write_bytes(b" \n")
    for name, match in (("none", "cannot be read"), ("empty", "is empty")):
        with pytest.raises(Invalid, match=match):
            open_one("inhouse", {"secret_file": name}, tmp_path)


def by_settings(values):
    return replace(MEMORY, finds=False) if values.get("mute") == "yes" else MEMORY


@pytest.mark.parametrize("mute", ["yes", "no"])
def test_a_kind_may_declare_by_its_settings_what_it_is(monkeypatch, tmp_path, mute):
    class Fitting(Memory):
        manifest = by_settings({"mute": mute})

    plugin = Plugin(MEMORY, lambda settings: Fitting(), by_settings)
    monkeypatch.setattr(plugins, "load_plugin", lambda kind: plugin)
    opened = open_one("memory", {"mute": mute}, tmp_path)
    assert opened.manifest.finds == (mute == "no")
    with pytest.raises(Invalid, match="something else than it declares"):
        open_one("memory", {"mute": "no" if mute == "yes" else "yes"}, tmp_path)
