"""What ``--json`` and ``--jsonl`` print has a published form, and keeps it."""

import json
import re
from pathlib import Path

import jsonschema
import pytest

from dispatcher.surfaces import cli
from dispatcher.surfaces.cli.schema import published
from tests import builders

SCHEMAS = published()
LISTS = """
records list
workers list
plan list
policy list
fields list
queue list
runs list
payments list
payments owed
connectors list
questions list
answers list
answers conflicts
workers groups
workers suspects
backup list
audit log
audit events
users list
tokens list
sessions list
notices deliveries mail
schema
"""
DOCUMENTS = """
status
policy diff
policy show
workers show folder/ann
records show f1
explain f1.name --worker folder/ann
explain E203
explain f1
plan show
runs show default
connectors show folder
doctor
ledger verify
db status
db check
notices list
answers agreement
pause --reason lunch --dry-run
answers show f1.name --reason look
answers judge f1.name --unreadable --reason blots
"""


def undeclared(document, schema, place=""):
    """Names in a document that its schema does not have."""
    if isinstance(document, dict) and "properties" in schema:
        known = schema["properties"]
        for name, value in document.items():
            if name not in known:
                yield f"{place}.{name}"
            else:
                yield from undeclared(value, known[name], f"{place}.{name}")
    elif isinstance(document, list):
        for value in document:
            yield from undeclared(value, schema.get("items", {}), f"{place}[]")


def check(text):
    document = json.loads(text)
    assert next(iter(document)) == "schema"
    schema = SCHEMAS[re.fullmatch(r"dispatcher\.(.+)/1", document["schema"])[1]]
    jsonschema.validate(document, schema)
    assert list(undeclared(document, schema)) == []
    return document, schema


def test_every_document_of_a_command_is_published():
    sources = "".join(
        path.read_text("utf-8") for path in Path(cli.__file__).parent.glob("*.py")
    )
    named = set(re.findall(r'"schema": "dispatcher\.([a-z.-]+)/1"', sources))
    assert len(named) > 70
    assert named - set(SCHEMAS) == set()


def test_every_schema_is_one():
    for schema in SCHEMAS.values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_a_document_that_is_another_is_found():
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"schema": "dispatcher.root/1"}, SCHEMAS["records"])
    assert list(undeclared({"x": 1}, {"properties": {}})) == [".x"]


@pytest.fixture
def house(set_up, run):
    set_up(
        builders.FORMS, "id,name,disease\nf1,Ann,gout\n", ("folder/ann", "folder/bob")
    )
    run("plan")
    return run


def test_documents_are_as_published_and_lists_come_row_by_row(house):
    for words in DOCUMENTS.strip().splitlines():
        check(house(*words.split(), "--json").out)
    for words in LISTS.strip().splitlines():
        document, schema = check(house(*words.split(), "--json").out)
        (name,) = [key for key, value in document.items() if isinstance(value, list)]
        rows, items = document[name], schema["properties"][name].get("items", {})
        printed = house(*words.split(), "--jsonl").out.splitlines()
        assert [json.loads(line) for line in printed] == rows, words
        for row in rows:
            jsonschema.validate(row, items)


def test_a_list_has_a_header_in_a_pipe_unless_it_is_left_out(house):
    for words in ("records list", "workers list", "plan list", "fields list"):
        rows = house(*words.split()).out.splitlines()
        assert house(*words.split(), "--no-header").out.splitlines() == rows[1:]
        assert len(rows) > 1


def test_the_schema_of_a_document_is_printed_by_its_name(run):
    assert json.loads(run("schema", "records").out) == SCHEMAS["records"]
    wrong = run("schema", "recrods")
    assert wrong.code == 1
    assert "did you mean records?" in wrong.err
