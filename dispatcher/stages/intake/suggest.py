"""A first policy from what a file holds; values are looked at, none is written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from dispatcher.core.errors import Invalid
from dispatcher.stages.intake.opening import open_table
from dispatcher.stages.intake.preview import ColumnFacts, preview
from dispatcher.stages.intake.table import Options
from policies.document import Column, starter

KINDS: Final = {
    "date": "date",
    "integer": "number",
    "decimal": "number",
    "boolean": "yes_no",
}


def suggest_policy(file: Path, options: Options | None = None) -> str:
    """Return the text of a policy for the records of a file.

    Parameters
    ----------
    file : Path
    options : Options, optional

    Raises
    ------
    Invalid
        The file is no table, or no column of it identifies its rows.
    """
    with open_table(file, options) as table:
        found = preview(table)
    key = next((c.name for c in found.columns if c.suggestion == "key"), None)
    if key is None:
        raise Invalid(
            f"no column of {found.file.name} can be the key",
            why="a key is filled and different in every row",
            fix="add a column that numbers the rows, or write policy.toml by hand",
        )
    subject = next((c.name for c in found.columns if c.suggestion == "subject"), None)
    columns = [_column(c) for c in found.columns if c.name != key and _is_field(c)]
    if not columns or all(column.name == subject for column in columns):
        raise Invalid(
            f"{found.file.name} has no column besides its key and its subject",
            why="a policy needs a field that is asked for",
            fix="check the file",
        )
    return starter(_entity(found.file.name), key, subject, columns)


def _is_field(column: ColumnFacts) -> bool:
    return not column.suggestion.startswith(("leave out", "box", "image"))


def _column(column: ColumnFacts) -> Column:
    return Column(
        column.name,
        KINDS.get(column.kind, "text"),
        sensitive="sensitive" in column.suggestion,
        quasi="quasi-identifier" in column.suggestion,
    )


def _entity(name: str) -> str:
    """Name the kind of record after the file: ``scans-2026.csv`` holds a scans-2026."""
    stem = re.sub(r"(?:\.\w{1,8}){1,2}$", "", name)
    return re.sub(r"[^\w-]+", "-", stem).strip("-") or "record"
