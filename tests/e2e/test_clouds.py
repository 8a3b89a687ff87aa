"""The paper's cloud case: one data set over three clouds, none of which can link it."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from dispatcher.verifier import main as verify
from tests.contract.buckets import SECRET, bucket_server, objects
from tests.e2e.programs import Program, terminate, until
from tests.e2e.torture import raw

EXAMPLE = Path(__file__).parents[2] / "examples" / "clouds"
CLOUDS = ("north", "south", "west")
APART = (
    {"name", "diagnosis"}, {"email", "diagnosis"}, {"name", "drug"}, {"email", "drug"},
    {"name", "salary"}, {"email", "salary"}, {"birth", "diagnosis", "salary"},
)  # fmt: skip


@pytest.fixture
def outside():
    with bucket_server(*(f"{name}-data" for name in CLOUDS)) as url:
        yield url


@pytest.fixture
def program(tmp_path, sqlite_template, outside):
    made = Program(tmp_path)
    made.settle(sqlite_template)
    for name in ("policy.toml", "patients.csv"):
        shutil.copy(EXAMPLE / name, tmp_path)
    text = (EXAMPLE / "dispatcher.toml").read_text()
    near = f'endpoint = "{outside}"\nallow_private = "127.0.0.1"\nformat'
    with (tmp_path / "dispatcher.toml").open("a") as file:
        file.write(text.replace("format", near))
    for name in CLOUDS:
        (tmp_path / f"{name}.secret").write_bytes(SECRET)
    return made


def held(url, cloud):
    """What lies in a cloud: (field, text) of every line of every object."""
    bodies = objects(url, f"{cloud}-data").values()
    lines = [json.loads(line) for body in bodies for line in body.splitlines()]
    return [(line["field"], line["text"]) for line in lines]


def published(program):
    """How many fields are known to lie in a cloud."""
    with raw.opened(program.directory, None) as store:
        return store.value("SELECT count(*) FROM task WHERE state = 'published'")


def test_every_value_lies_in_one_cloud_and_no_cloud_can_link(
    program, outside, tmp_path
):
    fields = ("name", "email", "birth", "diagnosis", "drug", "salary")
    people = [f"p{number}" for number in range(12)]
    with (tmp_path / "patients.csv").open("w", newline="") as file:
        rows = ([p, *(f"{p} {field}" for field in fields)] for p in people)
        csv.writer(file).writerows([("id", *fields), *rows])
    program.run("policy", "apply")
    program.run("records", "load", str(tmp_path / "patients.csv"))
    program.run("workers", "add", *(f"{name}/data" for name in CLOUDS))
    wanted = sorted((field, f"{p} {field}") for p in people for field in fields)
    with program.up("--drain", "0") as process:
        program.ready()
        until(lambda: published(program) == len(wanted), "everything lies in a cloud")
        assert terminate(process) == 0
    holds = {name: held(outside, name) for name in CLOUDS}
    assert sorted(pair for each in holds.values() for pair in each) == wanted
    for pairs in holds.values():
        assert len(pairs) > len(wanted) / 6  # none of them is left out
        for person in people:
            mine = {field for field, text in pairs if text.split()[0] == person}
            assert not any(together <= mine for together in APART)
    assert "72 published   (0 answers)" in program.run("status").stdout
    program.run("audit", "export", str(tmp_path / "evidence"))
    assert verify([str(tmp_path / "evidence")]) == 0


def test_the_example_can_be_planned_as_it_stands(program, tmp_path):
    program.run("policy", "apply")
    program.run("records", "load", str(tmp_path / "patients.csv"))
    program.run("workers", "add", *(f"{name}/data" for name in CLOUDS))
    assert "0 fields held back" in program.run("plan").stdout
