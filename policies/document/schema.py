"""JSON Schema of the policy file, for completion in editors (``schema policy-file``).

The schema knows shapes and words; names and mathematics are for :func:`~policies.document
.reader.parse`, which is the judge. That both know the same keys is under test.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from policies.answers.notation import DECIMALS, IGNORED, ORDERS
from policies.document.entity import ASKS, EXAMPLE_KEYS, TAGS
from policies.document.policy_tests import TEST_KEYS
from policies.document.properties import PARAMETERS, WORDS
from policies.document.reading import Reader
from policies.document.sections import CAPACITY_KEYS
from policies.model.objective import Objective
from policies.policy import Scope
from policies.rules.kinds import KINDS, PLUGIN

Schema = dict[str, Any]

TEXT: Schema = {"type": "string", "minLength": 1}
TEXTS: Schema = {"type": "array", "items": TEXT, "minItems": 1, "uniqueItems": True}
SHARE: Schema = {"type": "number", "exclusiveMinimum": 0, "maximum": 1}
WORTH: Schema = {"type": "number", "minimum": 0}
COUNT: Schema = {"type": "integer", "minimum": 1}
DURATION: Schema = {"type": "string", "pattern": "^[0-9]+[smhdw]$"}
LOCALE: Schema = TEXT | {
    "description": "language and region of what is written: de, de-CH, es-MX"
}
TAU: Schema = {
    "anyOf": [SHARE, {"const": "none"}],
    "description": "hard limit, f < tau; 1.0 means never the whole set",
}
AVERAGE: Schema = SHARE | {
    "description": "extra cap, per adversary, on the mean of f over the sets"
}
ENTRIES: Schema = {
    "type": "array",
    "items": {"type": "string", "pattern": "^.+\\..+$"},
    "description": "entries, RECORD.FIELD",
}


def json_schema() -> Schema:
    """Return the schema as a JSON value (draft 2020-12)."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://sparsi-dispatcher.invalid/policy-1.schema.json",
        "title": "Policy of the dispatcher, version 1",
    } | _table_schema(
        {
            "version": {"const": 1, "description": "of the policy language"},
            "name": TEXT,
            "budget": _budget_schema(),
            "entity": _by_name_schema(_entity_schema())
            | {"minProperties": 1, "maxProperties": 1},
            "relation": _by_name_schema(
                _table_schema(
                    {
                        "source": TEXT | {"description": "CSV beside the policy file"},
                        "ends": TEXTS | {"minItems": 2, "maxItems": 2},
                    },
                    ("source", "ends"),
                )
            ),
            "property": _by_name_schema(_property_schema()),
            "workers": _table_schema({"groups": _by_name_schema(_group_schema())}),
            "utility": {"type": "array", "items": _utility_schema()},
            "capacity": _by_name_schema(
                _table_schema(dict.fromkeys(CAPACITY_KEYS, COUNT))
            ),
            "test": {"type": "array", "items": _test_schema()},
        },
        ("version", "name", "entity"),
    )


def _table_schema(keys: Schema, required: Iterable[str] = ()) -> Schema:
    """Return the schema of a table with exactly these keys."""
    schema: Schema = {
        "type": "object",
        "properties": keys,
        "additionalProperties": False,
    }
    return schema | ({"required": list(required)} if required else {})


def _by_name_schema(schema: Schema) -> Schema:
    return {
        "type": "object",
        "propertyNames": {"minLength": 1},
        "additionalProperties": schema,
    }


def _enum(words: Iterable[str]) -> Schema:
    return {"enum": sorted(words)}


def _budget_schema() -> Schema:
    return _table_schema(
        {
            "objective": _enum(Objective),
            "tau": TAU,
            "average": AVERAGE,
            "t": COUNT
            | {"description": "a field is ever shown to at most t adversaries"},
            "lambda": WORTH | {"description": "weight of the tradeoff"},
            "utility": {
                "type": "string",
                "pattern": "^plugin:.+$",
                "description": "what a worker's part of a record is worth, by a package",
            },
        }
    )


def _entity_schema() -> Schema:
    field = _table_schema(
        {
            "ask": _enum(ASKS),
            "choices": TEXTS,
            "columns": TEXTS,
            "min": {"type": "number"},
            "max": {"type": "number"},
            "decimal": _enum(DECIMALS),
            "order": _enum(ORDERS),
            "ignore": TEXTS | {"minItems": 0, "items": _enum(IGNORED)},
            "locale": LOCALE,
            "question": TEXT,
            "image": TEXT | {"description": "COLUMN or COLUMN#BOX"},
            "answers": COUNT,
            "utility": WORTH,
            "send": {"type": "boolean", "description": "false: never leaves"},
            "free": {"type": "boolean", "description": "true: in no sensitive set"},
            "redact": TEXTS | {"minItems": 0, "items": _enum(TAGS)},
            "help": {"type": "string"},
            "example": _table_schema(
                {"synthetic": {"const": True}, "shown": TEXT, "answer": TEXT},
                EXAMPLE_KEYS,
            )
            | {"description": "a made-up value and its right answer, for the worker"},
        }
    )
    share = {"type": "number", "minimum": 0, "maximum": 1}
    corners = {"type": "array", "items": share, "minItems": 4, "maxItems": 4}
    box = _table_schema(
        {
            "page": COUNT,
            "box": corners,
            "redact": {"type": "boolean", "description": "true: painted over"},
        },
        ("page", "box"),
    )
    template = _table_schema(
        {
            "image": TEXT | {"description": "a scan under the import folder"},
            "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        },
        ("image", "sha256"),
    )
    return _table_schema(
        {
            "key": TEXT | {"description": "column of the record's own id; never sent"},
            "subject": TEXT | {"description": "column of the person; never sent"},
            "time": TEXT | {"description": "column of the moment; never sent"},
            "retain": DURATION,
            "locale": LOCALE,
            "fields": _by_name_schema(field) | {"minProperties": 1},
            "layout": _by_name_schema(box),
            "template": template
            | {"description": "the scan that all others are aligned to"},
        },
        ("key", "fields"),
    )


def _property_schema() -> Schema:
    return _table_schema(
        {
            "of": TEXTS,
            "any_of": {"type": "array", "items": TEXTS, "minItems": 1},
            "scope": _enum(Scope),
            "relation": TEXT,
            "note": {"type": "string"},
            "disclosure": _disclosure_schema(),
            "tau": TAU,
            "average": AVERAGE,
            "window": DURATION,
        }
    ) | {"oneOf": [{"required": ["of"]}, {"required": ["any_of"]}]}


def _disclosure_schema() -> Schema:
    shapes = {Reader.integer: COUNT, Reader.share: SHARE, Reader.text: TEXT}
    values: Schema = {key: shapes[read] for key, read in PARAMETERS.items()} | {
        "weights": _by_name_schema(SHARE) | {"minProperties": 1},
        "per": {"const": "entry"},
        "weight": SHARE,
    }
    plugin = {"type": "string", "pattern": "^plugin:.+$"}
    kinds = [
        _table_schema(
            {"kind": plugin if kind == PLUGIN else {"const": kind}}
            | {key: values[key] for key in row.keys},
            ("kind",),
        )
        for kind, row in KINDS.items()
    ]
    return {"anyOf": [_enum(WORDS), plugin, *kinds]}


def _group_schema() -> Schema:
    members = TEXTS | {"description": "globs of accounts: together one adversary"}
    trusted = TEXTS | {"minItems": 0, "description": "rules its members may know"}
    return _table_schema({"members": members, "trusted": trusted}, ("members",))


def _utility_schema() -> Schema:
    return _table_schema(
        {
            "worker": TEXT,
            "field": {"anyOf": [TEXT, TEXTS]},
            "where": _by_name_schema({"type": ["string", "integer"]}),
            "weight": WORTH,
            "from": {"const": "quality"},
        }
    ) | {"oneOf": [{"required": ["weight"]}, {"required": ["from"]}]}


def _test_schema() -> Schema:
    records: Schema = {"type": "array", "items": TEXT}
    whole = {"type": "integer", "minimum": 0}
    pairs = {"type": "array", "items": records | {"minItems": 2, "maxItems": 2}}
    facts: Schema = {
        "type": "object",
        "properties": {
            "subject": _by_name_schema(TEXT),
            "vector": _by_name_schema({"type": "string"}),
            "count": _by_name_schema(whole),
            "time": _by_name_schema({"type": "string"}),
        },
        "additionalProperties": pairs,
    }
    values: Schema = {
        "name": TEXT,
        "worker": TEXT,
        "seen": ENTRIES,
        "seen_by": _by_name_schema(ENTRIES),
        "ask": ENTRIES["items"],
        "same_subject": {
            "anyOf": [records, {"type": "array", "items": records}],
        },
        "facts": facts,
        "expect": _enum(("allow", "deny")),
        "by": TEXT,
    }
    keys = {key: values[key] for key in TEST_KEYS}
    return _table_schema(keys, ("name", "worker", "ask", "expect"))
