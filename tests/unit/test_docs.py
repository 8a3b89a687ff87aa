"""The pages say what the program does: commands, settings, links between pages."""

import itertools
import json
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from dispatcher.core.config import Config
from dispatcher.surfaces.cli.reference import page
from policies.document import parse
from policies.document.schema import json_schema
from policies.instances.instance_file import KEYS, read_instance
from policies.solvers import SOLVERS
from policies.solvers.auto import TABLE

DOCS = Path(__file__).parents[2] / "docs"
BENCHMARKS = DOCS.parent / "benchmarks"
PAGES = [
    *sorted(DOCS.rglob("*.md")),
    *(DOCS.parent / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    BENCHMARKS / "README.md",
]
SETTINGS = (DOCS / "reference" / "settings.md").read_text(encoding="utf-8")
README = (DOCS.parent / "README.md").read_text(encoding="utf-8")
PACKAGES = ("policies", "connectors", "dispatcher")
WALK = (DOCS / "why-it-is-built-so.md").read_text(encoding="utf-8")
MAP = (DOCS / "where-is-what.md").read_text(encoding="utf-8")
SECTIONS = {
    name: field.default
    for name, field in Config.model_fields.items()
    if isinstance(field.default, BaseModel)
}


def rows(text):
    """First two cells of each row of the tables in a text."""
    return dict(re.findall(r"^\| `([^`]+)` \| (.*?) \|", text, re.MULTILINE))


def written(default):
    """A default as a settings file would have it."""
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, str):
        return f'`"{default}"`'
    if isinstance(default, tuple):
        return f"`{list(default)}`"
    return "none" if default is None else f"`{default}`"


def test_the_page_of_commands_is_the_programs_own():
    told = "python -m dispatcher.surfaces.cli.reference > docs/reference/commands.md"
    text = (DOCS / "reference" / "commands.md").read_text(encoding="utf-8")
    assert text == page(), f"write it anew: {told}"


def test_every_command_and_option_says_what_it_is():
    assert not re.findall(r"^\| .* \|  \|$", page(), re.MULTILINE)


def test_every_setting_of_the_whole_is_on_the_page():
    part = SETTINGS.partition("## `[ticks]`")[0]
    found = rows(part)
    assert set(found) == set(Config.model_fields)
    for name in ("store", "policy", "plans", "inbox", "seed"):
        assert found[name] == written(Config.model_fields[name].default)


@pytest.mark.parametrize("section", sorted(SECTIONS))
def test_every_setting_of_a_section_is_on_the_page_with_its_default(section):
    part = SETTINGS.partition(f"## `[{section}]`")[2].partition("\n## ")[0]
    fields = type(SECTIONS[section]).model_fields
    assert rows(part) == {name: written(f.default) for name, f in fields.items()}


def keys(schema):
    """All names of keys that a JSON Schema gives."""
    if isinstance(schema, list):
        return {name for part in schema for name in keys(part)}
    if not isinstance(schema, dict):
        return set()
    own = schema.get("properties", {})
    inner = [part for name, part in schema.items() if name != "properties"]
    return set(own) | keys(inner) | keys(list(own.values()))


def test_every_key_and_word_of_the_policy_language_is_on_its_page():
    text = (DOCS / "reference" / "policy.md").read_text(encoding="utf-8")
    schema = json_schema()
    told = set(re.findall(r"[a-z]\w*(?:[-_][a-z]+)*", text))
    assert keys(schema) - told == set()
    enums = re.findall(r'"enum": \[(.*?)\]', json.dumps(schema))
    assert set(re.findall(r'"(.*?)"', " ".join(enums))) - told == set()


def test_the_policy_on_the_page_passes_every_check():
    text = (DOCS / "reference" / "policy.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert parse(example.encode()).diagnostics == ()


def test_every_key_of_an_instance_and_every_algorithm_is_on_their_page():
    text = (DOCS / "reference" / "instances.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE)
    told = {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}
    assert {*KEYS, *SOLVERS} - told == {"auto"}  # told before the table


AGGREGATIONS = {
    "worst": {},
    "average": {},
    "count": {"level": 0.2},
    "soft-max": {"q": 2},
}


def problems(aggregation):
    """Two pairs of entries, by each goal and kind, for one or both adversaries."""
    goals = {"tradeoff": 0, "discbudget": 0.5}
    for goal, kind, t in itertools.product(goals, ("step", "linear"), (1, 2)):
        how = {"kind": kind, "aggregation": aggregation, **AGGREGATIONS[aggregation]}
        document = {
            "schema": "sparsi-instance/1",
            "n_entries": 4,
            "n_adversaries": 2,
            "t": t,
            "weights": [[1, 2]] * 4,
            "properties": [{"entries": pair, "a": [0.5, 0.5]} for pair in ([0, 1], [2, 3])],
            "disclosure": how,
            "problem": goal,
            "tau": goals[goal],
        }  # fmt: skip
        yield read_instance(document).problem


def test_the_table_of_algorithms_says_which_aggregations_each_takes():
    """Of any of some small problems."""
    text = (DOCS / "reference" / "instances.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| (`.*`) \| .* \| (every|`.*`) \|$", text, re.MULTILINE)
    told = {
        name: cell for cells, cell in lines for name in re.findall("`(.+?)`", cells)
    }
    found = {}
    for name in SOLVERS.keys() - {"auto"}:
        takes = [
            f"`{one}`"
            for one in AGGREGATIONS
            if any(map(SOLVERS[name].supports, problems(one)))
        ]
        found[name] = "every" if len(takes) == len(AGGREGATIONS) else ", ".join(takes)
    assert told == found


def test_each_row_of_auto_has_a_run_in_the_ablation_that_loses_without_it():
    text = (DOCS / "ablation.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| (\S+) \| \w+ \| (\d+) \| (\d+) \|", text, re.MULTILINE)
    assert [name for name, _, _ in lines] == [row.name for row in TABLE]
    assert all(0 < int(lost) <= int(runs) for _, runs, lost in lines)


def test_every_benchmark_is_on_their_page():
    """What can be run; the others are parts of these."""
    own = {
        path.stem
        for path in BENCHMARKS.glob("[a-z]*.py")
        if "__main__" in path.read_text("utf-8")
    }
    assert set(rows((BENCHMARKS / "README.md").read_text("utf-8"))) == own


@pytest.mark.parametrize("file", PAGES, ids=lambda p: p.stem)
def test_links_between_pages_lead_somewhere(file):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", file.read_text("utf-8")):
        assert (file.parent / target).exists(), target


def test_the_pages_are_a_site_that_needs_no_network_and_leads_to_each(tmp_path):
    """Built strictly: a link or an anchor that leads nowhere is an error."""
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", tmp_path]
    done = subprocess.run(
        build, cwd=DOCS.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    reached, ahead = set(), [tmp_path / "index.html"]
    while ahead:
        file = ahead.pop()
        if file in reached:
            continue
        assert file.is_file(), file
        reached.add(file)
        if file.suffix == ".html":
            text = file.read_text("utf-8")
            assert not re.findall(r'<(?:script|link|img)[^>]+="(?:https?:)?//', text)
            links = re.findall(r'(?:href|src)="([^"#:?]+)(?=["#?])', text)
            ahead += [Path(os.path.normpath(file.parent / link)) for link in links]
    for file in DOCS.rglob("*.md"):
        name = "index.html" if file.stem == "README" else f"{file.stem}.html"
        assert tmp_path / file.relative_to(DOCS).with_name(name) in reached


def names(text):
    """Modules, classes and functions of ours that a text names in full."""
    return re.findall(rf"`((?:{'|'.join(PACKAGES)})(?:\.\w+)+)`", text)


@pytest.mark.parametrize("name", sorted({*names(WALK), *names(MAP)}))
def test_every_function_that_a_page_names_exists(name):
    pkgutil.resolve_name(name)


def test_the_walk_passes_every_room_that_a_record_passes():
    rooms = {tuple(name.split(".")[:3]) for name in names(WALK)}
    stages = {room[2] for room in rooms if room[:2] == ("dispatcher", "stages")}
    assert stages >= {
        "intake",
        "planning",
        "booking",
        "sending",
        "serving",
        "collecting",
        "assembly",
    }
    assert {room[1] for room in rooms} >= {"operations", "ledger", "surfaces"}


def test_where_is_what_gives_each_behaviour_its_place_and_its_test():
    found = re.findall(r"^\| (?!behaviour|---)(.*) \|$", MAP, re.MULTILINE)
    assert len(found) >= 50
    for row in found:
        _, place, test = row.split(" | ")
        assert names(place) == [place.strip("`")], row
        assert (DOCS.parent / test.strip("`")).is_file(), row


def folders(package):
    """Top-level rooms of a package: folders with Python in them."""
    return {
        path.parent.relative_to(DOCS.parent).as_posix()
        for path in (DOCS.parent / package).glob("*/*.py")
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_the_readme_maps_every_room(package):
    assert {room for room in folders(package) if f"`{room}/`" not in README} == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_where_is_what_enters_every_room(package):
    entered = {"/".join(name.split(".")[:2]) for name in names(MAP)}
    assert folders(package) - entered == set()


def test_every_path_that_the_readme_names_exists():
    told = re.findall(rf"`((?:{'|'.join(PACKAGES)}|alembic)/[\w/.]*)`", README)
    assert len(told) > 20
    for path in told:
        assert (DOCS.parent / path).exists(), path


def test_every_statement_of_the_safety_list_names_the_files_of_its_tests():
    text = (DOCS / "safety-list.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| .*? \| (.*) \|$", text, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 51))
    told = {number: set(re.findall(r"`(tests/[^`]+)`", cell)) for number, cell in rows}
    found = {number: set() for number in told}
    for path in (DOCS.parent / "tests").rglob("test_*.py"):
        for number in re.findall(r"def test_safety_(\d+)_", path.read_text("utf-8")):
            found[number].add(path.relative_to(DOCS.parent).as_posix())
    assert told == found
    assert {number for number, cell in rows if not cell.strip()} == set()
