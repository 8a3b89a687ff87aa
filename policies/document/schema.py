"""JSON Schema of the policy file, for completion in editors (``policy schema``).

The schema knows shapes and words; names and mathematics are for :func:`~policies.document
.reader.parse`, which is the judge. That both know the same keys is under test.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from policies.document.entity import ASKS, EXAMPLE_KEYS, TAGS
from policies.document.limits import CAPACITY_KEYS
from policies.document.policy_tests import TEST_KEYS
from policies.document.properties import WORDS
from policies.model.objective import Objective
from policies.policy import Kind, Scope
from policies.rules.kinds import KINDS

Schema = dict[str, Any]

NAME: Schema = {"type": "string", "minLength": 1}
NAMES: Schema = {"type": "array", "items": NAME, "minItems": 1, "uniqueItems": True}
SHARE: Schema = {"type": "number", "exclusiveMinimum": 0, "maximum": 1}
WORTH: Schema = {"type": "number", "minimum": 0}
COUNT: Schema = {"type": "integer", "minimum": 1}
DURATION: Schema = {"type": "string", "pattern": "^[0-9]+[smhdw]$"}
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
    """The schema as a JSON value (draft 2020-12), to print with ``json.dumps``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://sparsi-dispatcher.invalid/policy-1.schema.json",
        "title": "Policy of the dispatcher, version 1",
    } | _table(
        {
            "version": {"const": 1, "description": "of the policy language"},
            "name": NAME,
            "budget": _budget(),
            "entity": _by_name(_entity()) | {"minProperties": 1, "maxProperties": 1},
            "relation": _by_name(
                _table(
                    {
                        "source": NAME | {"description": "CSV beside the policy file"},
                        "ends": NAMES | {"minItems": 2, "maxItems": 2},
                    },
                    ("source", "ends"),
                )
            ),
            "property": _by_name(_property()),
            "workers": _table({"groups": _by_name(_group())}),
            "utility": {"type": "array", "items": _utility()},
            "capacity": _by_name(_table(dict.fromkeys(CAPACITY_KEYS, COUNT))),
            "test": {"type": "array", "items": _test()},
        },
        ("version", "name", "entity"),
    )


def _table(keys: Schema, required: Iterable[str] = ()) -> Schema:
    """A table that knows exactly these keys."""
    schema: Schema = {
        "type": "object",
        "properties": keys,
        "additionalProperties": False,
    }
    return schema | ({"required": list(required)} if required else {})


def _by_name(schema: Schema) -> Schema:
    return {
        "type": "object",
        "propertyNames": {"minLength": 1},
        "additionalProperties": schema,
    }


def _words(words: Iterable[str]) -> Schema:
    return {"enum": sorted(words)}


def _budget() -> Schema:
    return _table(
        {
            "objective": _words(Objective),
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


def _entity() -> Schema:
    field = _table(
        {
            "ask": _words(ASKS),
            "choices": NAMES,
            "columns": NAMES,
            "min": {"type": "number"},
            "max": {"type": "number"},
            "question": NAME,
            "image": NAME | {"description": "COLUMN or COLUMN#BOX"},
            "answers": COUNT,
            "utility": WORTH,
            "send": {"type": "boolean", "description": "false: never leaves"},
            "free": {"type": "boolean", "description": "true: in no sensitive set"},
            "redact": NAMES | {"minItems": 0, "items": _words(TAGS)},
            "help": {"type": "string"},
            "example": _table(
                {"synthetic": {"const": True}, "shown": NAME, "answer": NAME},
                EXAMPLE_KEYS,
            )
            | {"description": "a made-up value and its right answer, for the worker"},
        }
    )
    share = {"type": "number", "minimum": 0, "maximum": 1}
    corners = {"type": "array", "items": share, "minItems": 4, "maxItems": 4}
    box = _table({"page": COUNT, "box": corners}, ("page", "box"))
    return _table(
        {
            "key": NAME | {"description": "column of the record's own id; never sent"},
            "subject": NAME | {"description": "column of the person; never sent"},
            "time": NAME | {"description": "column of the moment; never sent"},
            "retain": DURATION,
            "fields": _by_name(field) | {"minProperties": 1},
            "layout": _by_name(box),
        },
        ("key", "fields"),
    )


def _property() -> Schema:
    return _table(
        {
            "of": NAMES,
            "any_of": {"type": "array", "items": NAMES, "minItems": 1},
            "scope": _words(Scope),
            "relation": NAME,
            "note": {"type": "string"},
            "disclosure": _disclosure(),
            "tau": TAU,
            "average": AVERAGE,
            "window": DURATION,
        }
    ) | {"oneOf": [{"required": ["of"]}, {"required": ["any_of"]}]}


def _disclosure() -> Schema:
    values: Schema = {
        "at": COUNT,
        "weights": _by_name(SHARE) | {"minProperties": 1},
        "per": {"const": "entry"},
        "weight": SHARE,
        "vector": NAME,
        "count": NAME,
        "table": NAME,
        "prior": NAME,
    }
    plugin = {"type": "string", "pattern": "^plugin:.+$"}
    kinds = [
        _table(
            {"kind": plugin if kind is Kind.PLUGIN else {"const": str(kind)}}
            | {key: values[key] for key in row.keys},
            ("kind",),
        )
        for kind, row in KINDS.items()
    ]
    return {"anyOf": [_words(WORDS), plugin, *kinds]}


def _group() -> Schema:
    members = NAMES | {"description": "globs of accounts: together one adversary"}
    trusted = NAMES | {"minItems": 0, "description": "rules its members may know"}
    return _table({"members": members, "trusted": trusted}, ("members",))


def _utility() -> Schema:
    return _table(
        {
            "worker": NAME,
            "field": {"anyOf": [NAME, NAMES]},
            "where": _by_name({"type": ["string", "integer"]}),
            "weight": WORTH,
            "from": {"const": "quality"},
        }
    ) | {"oneOf": [{"required": ["weight"]}, {"required": ["from"]}]}


def _test() -> Schema:
    records: Schema = {"type": "array", "items": NAME}
    whole = {"type": "integer", "minimum": 0}
    pairs = {"type": "array", "items": records | {"minItems": 2, "maxItems": 2}}
    facts: Schema = {
        "type": "object",
        "properties": {
            "subject": _by_name(NAME),
            "vector": _by_name({"type": "string"}),
            "count": _by_name(whole),
            "time": _by_name({"type": "string"}),
        },
        "additionalProperties": pairs,
    }
    values: Schema = {
        "name": NAME,
        "worker": NAME,
        "seen": ENTRIES,
        "seen_by": _by_name(ENTRIES),
        "ask": ENTRIES["items"],
        "same_subject": {
            "anyOf": [records, {"type": "array", "items": records}],
        },
        "facts": facts,
        "expect": _words(("allow", "deny")),
        "by": NAME,
    }
    keys = {key: values[key] for key in TEST_KEYS}
    return _table(keys, ("name", "worker", "ask", "expect"))
