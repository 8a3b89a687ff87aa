"""Made-up values for the fields of a record that is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from policies.discovery.column_names import meaning_of
from policies.policy import Field

_BY_MEANING: Final[Mapping[str, str]] = {
    "national id number": "000-00-0001",
    "e-mail address": "ada@example.org",
    "phone number": "555 0101",
    "bank account": "XX00 0000 0001",
    "card number": "0000 0001",
    "user account": "ada_example",
    "device or network address": "192.0.2.1",
    "full name": "Ada Example",
    "given name": "Ada",
    "surname": "Example",
    "name of an organisation": "Example Ltd",
    "birthplace": "Exampleville",
    "birth date": "1901-02-03",
    "date of death": "1991-02-03",
    "age": "31",
    "sex": "F",
    "postal code": "00001",
    "address": "1 Example Street",
    "place of living": "Exampleville",
    "region": "Example County",
    "coordinate": "0.0001",
    "nationality": "Examplian",
    "occupation": "baker",
    "doctor or place of treatment": "Dr. Example",
    "insurer": "Example Mutual",
    "free text": "some words",
    "health": "some finding",
    "money": "100.00",
    "behaviour": "some choice",
    "date": "1901-02-03",
}
_BY_ASK: Final[Mapping[str, str]] = {
    "number": "10",
    "date": "1901-02-03",
    "yes_no": "yes",
    "spans": "some words",
    "table": "1 row",
}


def drawn_value(field: Field) -> str:
    """Return a made-up value of a field; never one of a record.

    From the policy (choices, an example), from what its name says, or from what is
    asked.
    """
    if field.choices:
        return field.choices[0]
    if field.example is not None:
        return field.example.shown
    by_name = _BY_MEANING.get(meaning_of(field.name).label)
    return by_name or _BY_ASK.get(field.ask or "", "a value")
