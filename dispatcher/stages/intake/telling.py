"""Functions of rules that come from beside the policy file: finite tables, packages.

A table is a CSV of worlds: a column for each field of the rule (over a relation, for each
field of each end), ``secret`` (the value that must not be guessed), and how likely the
world is, in the column that ``prior`` names (``chance`` if none). The chances may be
counts: they are brought to add up to 1.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Final

from dispatcher.core.errors import Invalid
from dispatcher.ledger.links import Told
from dispatcher.strategies import load_function, load_utility
from policies.policy import Policy, Property, Scope
from policies.rules.belief import Beliefs, InvalidBeliefs, World
from policies.rules.field_utility import UTILITY_NAME as UTILITY
from policies.rules.field_utility import tabulate_utility
from policies.rules.functions import InvalidFunction
from policies.rules.kinds import is_tabulated, reads_table
from policies.rules.tabulated import (
    FieldTable,
    tabulate_beliefs,
    tabulate_function,
)
from policies.rules.tabulated_links import both_ends, symmetric

GUESSED: Final = "secret"
CHANCE: Final = "chance"
LARGEST: Final = 1 << 26  # bytes of a table
DIGITS: Final = 40  # of a chance


def read_functions(policy: Policy, folder: Path) -> dict[str, Told]:
    """Work out f of every set of fields, for each rule that does not say it itself.

    And u of every set, where the policy names a user's utility: under its reserved name.

    Raises
    ------
    Invalid
        A table cannot be read or is no table of worlds; a function is not installed,
        or not what a disclosure function must be.
    """
    found = {}
    for name, prop in policy.properties.items():
        if not is_tabulated(prop):
            continue
        try:
            found[name] = _told(prop, folder)
        except (InvalidFunction, InvalidBeliefs) as error:
            raise Invalid(
                f"rule {name} cannot be judged by what it names",
                why=str(error),
                fix="mend the table, or tell the author of the function",
            ) from None
    if policy.budget.utility is not None:
        found[UTILITY] = _worth(policy, policy.budget.utility)
    return found


def _worth(policy: Policy, name: str) -> Told:
    """Ask a user's utility for every set of the fields that are sent."""
    sent = [f.name for f in policy.entity.fields.values() if f.send]
    utility = load_utility(name)
    try:
        levels = _guarded(lambda: tabulate_utility(utility, sent))
    except InvalidFunction as error:
        raise Invalid(
            f"utility plugin:{name} cannot be planned by",
            why=str(error),
            fix="tell the author of the function, or leave budget.utility out",
        ) from None
    return _said(f"plugin:{name}", levels)


def _told(prop: Property, folder: Path) -> Told:
    shape, linked = prop.disclosure, prop.scope is Scope.RELATION
    fields = both_ends(prop.fields) if linked else sorted(prop.fields)
    if not reads_table(prop):
        function = load_function(shape.plugin or "")
        levels = _guarded(
            lambda: tabulate_function(function.f, fields, monotone=function.monotone)
        )
        if linked:
            levels = symmetric(levels)
        return _said(f"plugin:{function.name}", levels)
    path = folder / (shape.table or "")
    raw = _bytes(path)
    worlds = tuple(_worlds(path, raw, fields, shape.prior or CHANCE))
    beliefs = Beliefs(worlds)
    levels = tabulate_beliefs(shape.kind, beliefs, fields)
    if linked:
        levels = symmetric(levels)
    return Told(shape.table or "", hashlib.sha256(raw).hexdigest(), levels, worlds)


def _said(source: str, levels: FieldTable) -> Told:
    """What a function said of every set, and its hash."""
    said = json.dumps(sorted((sorted(held), str(f)) for held, f in levels.items()))
    return Told(source, hashlib.sha256(said.encode()).hexdigest(), levels)


def _guarded(ask: Callable[[], FieldTable]) -> FieldTable:
    try:
        return ask()
    except InvalidFunction:
        raise
    except (Exception, SystemExit) as error:
        # somebody else's code: whatever it raises, it cannot be judged or planned by
        raise InvalidFunction(f"the function raised {type(error).__name__}") from error


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
    except OSError as error:
        raise Invalid(
            f"{path}: {error.strerror or type(error).__name__}",
            why="a rule is judged by this table",
            fix="put the file there, or name another one in the policy",
        ) from None
    if len(raw) > LARGEST:
        raise InvalidFunction(f"{path} has more than {LARGEST >> 20} MiB")
    return raw


def _worlds(path: Path, raw: bytes, fields: list[str], prior: str) -> Iterator[World]:
    try:
        text = raw.decode("utf-8-sig")
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidFunction(f"{path} is no CSV in UTF-8: {error}") from None
    header = rows[0] if rows else []
    missing = [name for name in (*fields, GUESSED, prior) if header.count(name) != 1]
    if missing:
        raise InvalidFunction(
            f"{path} must have the column `{missing[0]}` once in its header"
        )
    place = {name: header.index(name) for name in (*fields, GUESSED, prior)}
    lines = [(n, row) for n, row in enumerate(rows[1:], start=2) if any(row)]
    if any(len(row) != len(header) for _, row in lines):
        raise InvalidFunction(
            f"{path} has rows with more or fewer cells than its header"
        )
    chances = [_chance(path, n, row[place[prior]]) for n, row in lines]
    total = sum(chances, Fraction(0))
    if not total:
        raise InvalidFunction(f"{path}: no world has a chance above 0")
    for (_, row), chance in zip(lines, chances, strict=True):
        if not chance:
            continue
        values = tuple(row[place[name]] for name in fields)
        yield World(values, row[place[GUESSED]], chance / total)


def _chance(path: Path, line: int, text: str) -> Fraction:
    odd = len(text) > DIGITS or "e" in text.lower() or "_" in text
    try:
        chance = Fraction("no number" if odd else text)
    except (ValueError, ZeroDivisionError):
        raise InvalidFunction(f"{path}:{line}: the chance is no number") from None
    if chance < 0:
        raise InvalidFunction(f"{path}:{line}: the chance is below 0")
    return chance
