"""Made-up values for the fields of a record that is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from policies.policy import Field

_BY_ASK: Final[Mapping[str, str]] = {
    "number": "10",
    "date": "1901-02-03",
    "yes_no": "yes",
    "spans": "some words",
    "table": "1 row",
}


def drawn_value(field: Field) -> str:
    """Return a made-up value of a field, from the policy alone; never one of a record."""
    if field.choices:
        return field.choices[0]
    if field.example is not None:
        return field.example.shown
    return _BY_ASK.get(field.ask or "", f"some {field.name.replace('_', ' ')}")
