"""Plans of instance files: from a parsed JSON document to a Plan.

A plan comes in two forms: the output of ``dispatcher solve -o``, an object with the key
``assignment``; or that list alone, one row an entry, of lists of adversaries. Limits
are the judge's task: only what cannot be a plan is refused here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from policies.instances.instance_file import SCHEMA
from policies.instances.json_values import (
    InvalidInstance,
    as_integer,
    as_list,
    describe,
)
from policies.model.problem import Plan

KEY: Final = "assignment"

_FROM_ZERO_HINT: Final = (
    "Adversaries count from 0; name the instance that the plan was made for."
)
_SHAPE_HINT: Final = (
    "Name the output of: dispatcher solve -o; or a list, one row an entry, of lists of "
    "adversaries."
)


def read_plan(document: object, n_entries: int, n_adversaries: int) -> Plan:
    """Read a plan from a parsed JSON document, for an instance of these sizes.

    Raises
    ------
    InvalidInstance
        Says what is wrong, where, and how to correct it.
    """
    given, where = document, "the plan"
    if isinstance(document, dict):
        given, where = _assignment(document), KEY
    if not isinstance(given, list):
        raise InvalidInstance(
            f"found {describe(given)}, expected a list", where, _SHAPE_HINT
        )
    if len(given) != n_entries:
        raise InvalidInstance(
            f"the list has {len(given)} rows, expected {n_entries}, one an entry",
            where,
            "Give every entry a row, [] to one that goes to nobody; or name the "
            "instance that the plan was made for.",
        )
    entry: list[int] = []
    adversary: list[int] = []
    for d, row in enumerate(given):
        found = _row(row, f"{where}[{d}]", n_adversaries)
        entry += [d] * len(found)
        adversary += found
    return Plan(np.array(entry, np.int64), np.array(adversary, np.int64))


def _assignment(document: Mapping[str, Any]) -> object:
    """Return the assignment of an object."""
    if document.get("schema") == SCHEMA:
        raise InvalidInstance(
            "this is an instance, expected a plan",
            "schema",
            "Name the instance first, then the plan.",
        )
    if KEY not in document:
        raise InvalidInstance(
            f"the key {KEY!r} is missing, so this is no plan", "the plan", _SHAPE_HINT
        )
    if document[KEY] is None:
        raise InvalidInstance(
            "found null, expected a list: the answer in this file is that there is no "
            "plan, or that none was found",
            KEY,
            "Name the file of an answer with a plan.",
        )
    return document[KEY]


def _row(row: object, where: str, k: int) -> list[int]:
    """Return the adversaries of one entry, each once."""
    found = as_list(row, where)
    seen: set[int] = set()
    for i, a in enumerate(found):
        as_integer(a, f"{where}[{i}]", 0, k - 1, mend=_FROM_ZERO_HINT)
        if a in seen:
            raise InvalidInstance(
                f"adversary {a} stands there twice, expected once",
                f"{where}[{i}]",
                "Take one of both out: an entry is shown to an adversary once.",
            )
        seen.add(a)
    return found
