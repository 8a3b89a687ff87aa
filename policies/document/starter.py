"""A first policy file, suggested from the columns of a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
MOST_PAIR_RULES: Final = 12


@dataclass(frozen=True)
class Column:
    """What is known of one column that may become a field.

    Attributes
    ----------
    name : str
    kind : str
        "date", "number", "yes_no"; anything else is transcribed.
    sensitive : bool
        Tells something about a person, or says who it is.
    quasi : bool
        Identifies a person together with others (birth date, zip, gender).
    notation : tuple of (str, str)
        How its dates or numbers are written: keys of the field and their words.
    """

    name: str
    kind: str = "text"
    sensitive: bool = False
    quasi: bool = False
    notation: tuple[tuple[str, str], ...] = ()


def starter(
    entity: str, key: str, subject: str | None, columns: Sequence[Column]
) -> str:
    """Suggest a policy that passes every check; somebody should review it.

    Any two sensitive columns must not come together (for one person, where a subject
    column is known), nor must all quasi-identifiers. One that is sensitive alone is
    kept apart from each other column.

    Parameters
    ----------
    entity : str
        Name of the kind of record.
    key, subject : str, str or None
        Columns of the record's id and of the person; they never become fields.
    columns : sequence of Column
        The others, in the order of the table. Repeats, and the key and the subject
        themselves, are left out.

    Returns
    -------
    str
        TOML text.

    Raises
    ------
    ValueError
        If a name is empty, or no column is left to become a field.
    """
    unique = {c.name: c for c in reversed(columns) if c.name not in (key, subject)}
    fields = [c for c in columns if unique.get(c.name) is c]
    if not entity or not key or subject == "" or "" in unique:
        raise ValueError("a name is empty, expected a text")
    if not fields:
        raise ValueError("no column is left to become a field, expected at least one")
    name = quoted_key(entity)
    person = f"subject = {quoted(subject)}\n" if subject is not None else ""
    lines = "\n".join(
        f"{quoted_key(c.name)} = {{ ask = {quoted(_ask(c.kind))}{_notation(c)} }}"
        for c in fields
    )
    return (
        "version = 1\n"
        f"name    = {quoted(entity)}\n\n"
        "[budget]\n"
        'tau = 1.0                 # strict f < tau: 1.0 = "never the whole set"\n\n'
        f"[entity.{name}]\n"
        f"key = {quoted(key)}\n{person}\n"
        f"[entity.{name}.fields]\n{lines}\n" + _rules(fields, subject)
    )


def _notation(column: Column) -> str:
    return "".join(f", {key} = {quoted(word)}" for key, word in column.notation)


def _ask(kind: str) -> str:
    return kind if kind in ("date", "number", "yes_no") else "transcribe"


def _rules(fields: Sequence[Column], subject: str | None) -> str:
    """Suggest rules: pairs of sensitive columns, and all quasi-identifiers together."""
    sensitive = [c.name for c in fields if c.sensitive]
    quasi = [c.name for c in fields if c.quasi]
    alone = len(sensitive) == 1
    pairs = list(combinations(sensitive, 2))
    if alone:
        pairs = [(sensitive[0], c.name) for c in fields if c.name != sensitive[0]]
    sets = pairs if alone or len(pairs) <= MOST_PAIR_RULES else []
    names = [f"{a}+{b}" for a, b in sets]
    if len(set(names)) < len(names):  # a column's own name may hold a plus
        names = [f"pair-{n}" for n in range(1, len(names) + 1)]
    rules = [_rule(name, of, subject) for name, of in zip(names, sets, strict=True)]
    if alone and rules:
        rules[0] = (
            "# One column looks sensitive: kept apart from each of the others.\n"
            + rules[0]
        )
    if not alone and len(pairs) > MOST_PAIR_RULES:
        rules.append(_any_two(sensitive))
    if len(quasi) > 1:
        rules.append(_rule("quasi-identifier", quasi, subject))
    if not rules and len(fields) > 1:
        note = "# No column looks sensitive. Kept apart: all of them together.\n"
        rules.append(note + _rule("whole-record", [c.name for c in fields], subject))
    return "".join(f"\n{rule}" for rule in rules)


def _rule(name: str, of: Sequence[str], subject: str | None) -> str:
    scope = 'scope = "subject"\n' if subject is not None else ""
    listed = ", ".join(map(quoted, of))
    return f"[property.{quoted_key(name)}]\n{scope}of = [{listed}]\n"


def _any_two(sensitive: Sequence[str]) -> str:
    """Return one rule for all pairs: any two entries of a record."""
    note = (
        f"# {len(sensitive)} sensitive columns: any two of one record are kept apart.\n"
    )
    rule = _rule("any-two-sensitive", sensitive, None)
    return note + rule + 'disclosure = { kind = "step", at = 2 }\n'


def quoted_key(name: str) -> str:
    """Return a name as a TOML key, bare if possible."""
    return name if _BARE_KEY.fullmatch(name) else quoted(name)


def quoted(text: str) -> str:
    """Return a TOML basic string."""
    inner = "".join(
        f"\\{c}"
        if c in '"\\'
        else f"\\u{ord(c):04x}"
        if ord(c) < 0x20 or ord(c) == 0x7F
        else c
        for c in text
    )
    return f'"{inner}"'
