"""The published JSON Schema and the reader know the same keys and words."""

import json
import tomllib
from dataclasses import fields
from pathlib import Path

from policies.document import json_schema
from policies.document.entity import ENTITY_KEYS, FIELD_KEYS
from policies.document.policy_tests import TEST_KEYS
from policies.document.properties import PARAMETERS, PROPERTY_KEYS, SUMS
from policies.document.reader import FILE_KEYS
from policies.document.sections import BUDGET_KEYS
from policies.policy import Disclosure
from policies.rules.kinds import KINDS

FILES = [*Path("examples/policies").glob("*.toml")]


def test_every_table_has_the_keys_that_the_reader_knows():
    top = json_schema()["properties"]
    entity = top["entity"]["additionalProperties"]["properties"]
    rule = top["property"]["additionalProperties"]["properties"]
    assert set(top) == set(FILE_KEYS)
    assert set(top["budget"]["properties"]) == set(BUDGET_KEYS)
    assert set(entity) == set(ENTITY_KEYS)
    assert set(entity["fields"]["additionalProperties"]["properties"]) == set(
        FIELD_KEYS
    )
    assert set(rule) == set(PROPERTY_KEYS)
    assert set(top["test"]["items"]["properties"]) == set(TEST_KEYS)
    kinds = rule["disclosure"]["anyOf"][2:]
    assert [set(k["properties"]) - {"kind"} for k in kinds] == [
        set(row.keys) for row in KINDS.values()
    ]


def test_every_parameter_of_a_disclosure_is_read_into_the_attribute_of_its_name():
    """A key that one of the three tables lacks is named here."""
    assert {key for row in KINDS.values() for key in row.keys} == {*PARAMETERS, *SUMS}
    assert {*PARAMETERS, "weights"} - {one.name for one in fields(Disclosure)} == set()


def test_it_is_json():
    assert json.loads(json.dumps(json_schema())) == json_schema()


def test_the_examples_use_only_keys_of_the_schema():
    """A small walk: tables, arrays and alternatives, as the schema has them."""
    for path in FILES:
        walk(tomllib.loads(path.read_text()), json_schema(), path.name)


def walk(value: object, schema: dict, at: str) -> None:
    options = schema.get("anyOf")
    if options:
        fitting = [o for o in options if fits(value, o)]
        assert fitting, at
        schema = fitting[0]
    if isinstance(value, dict):
        for key, inner in value.items():
            known = schema.get("properties", {}).get(key)
            below = known if known is not None else schema.get("additionalProperties")
            assert below, f"{at}.{key}"
            walk(inner, below, f"{at}.{key}")
        assert set(schema.get("required", ())) <= set(value), at
    elif isinstance(value, list):
        for inner in value:
            walk(inner, schema["items"], at)
    elif "enum" in schema:
        assert value in schema["enum"], at


def fits(value: object, schema: dict) -> bool:
    if "enum" in schema:
        return value in schema["enum"]
    if "const" in schema:
        return value == schema["const"]
    kind = schema.get("properties", {}).get("kind", {}).get("const")
    if kind is not None:
        return isinstance(value, dict) and value.get("kind") == kind
    types = {"string": str, "array": list, "object": dict, "number": (int, float)}
    return isinstance(value, types[schema["type"]])
