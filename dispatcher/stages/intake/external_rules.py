"""Inputs beside a policy file: its link tables, and the functions of its rules.

The texts of a link table are subjects as the records name them; they are replaced here
by the pseudonyms of the ledger. A table of a rule is a CSV of worlds: a column for each
field of the rule (over a relation, for each field of each end), ``secret`` (the value
that must not be guessed), and the world's probability, in the column that ``prior``
names (default ``chance``). Probabilities may be counts: they are normalised.
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
from dispatcher.core.input_files import open_input
from dispatcher.core.keys import pseudonyms
from dispatcher.ledger.links import Beside, RuleFunction
from dispatcher.strategies import load_function, load_utility
from policies.policy import Policy, Property, Relation, Scope
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

LARGEST_LINKS: Final = 1 << 30  # bytes of a link table


GUESSED: Final = "secret"
CHANCE: Final = "chance"
LARGEST_TABLE: Final = 1 << 26  # bytes of a table
DIGITS: Final = 40  # of a chance


def read_links(policy: Policy, folder: Path, secret: bytes) -> Beside:
    """Read the inputs beside a policy: link tables, and functions of rules.

    Parameters
    ----------
    policy : Policy
    folder : Path
        Of the policy file; sources are relative to it.
    secret : bytes
        The store's pseudonym key.

    Returns
    -------
    Beside
        By relation: sorted pairs of pseudonyms without duplicates. A row whose two ends
        are one subject is no link. By rule: f of every set of its fields.

    Raises
    ------
    Invalid
        A file cannot be read, lacks a column, or has a row with an empty end; a table
        or a user's function is invalid.
    """
    wanted = {p.relation for p in policy.properties.values() if p.relation is not None}
    links = {
        name: _pairs(policy.relations[name], folder, secret) for name in sorted(wanted)
    }
    return Beside(links, read_functions(policy, folder))


def _pairs(relation: Relation, folder: Path, secret: bytes) -> set[tuple[str, str]]:
    path = folder / relation.source
    rows = csv.reader(io.StringIO(_text(relation, path), newline=""), strict=True)
    try:
        header = next(rows, [])
        places = [_column(relation, path, header, end) for end in relation.ends]
        ends: list[tuple[str, str]] = []
        for row in rows:
            if not any(cell.strip() for cell in row):
                continue
            one, other = (row[at] if at < len(row) else "" for at in places)
            if not one.strip() or not other.strip():
                raise Invalid(
                    f"{path}:{rows.line_num}: a link lacks one of its two ends",
                    why="a link joins two subjects, and one cell is empty",
                    fix="fill the cell in, or take the row out",
                )
            if one != other:
                ends.append((one, other))
    except csv.Error as error:
        raise Invalid(
            f"{path}:{rows.line_num}: {error}",
            why=f"the links of relation {relation.name} are read as CSV",
            fix="correct the line",
        ) from None
    texts = sorted({text for pair in ends for text in pair})
    names = dict(zip(texts, pseudonyms(secret, "s", texts), strict=True))
    return {_sorted(names[one], names[other]) for one, other in ends}


def _sorted(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)


def _text(relation: Relation, path: Path) -> str:
    try:
        with open_input(path) as file:
            raw = file.read(LARGEST_LINKS + 1)
    except OSError as error:
        raise Invalid(
            f"{path}: {error.strerror or type(error).__name__}",
            why=f"it holds the links of relation {relation.name}",
            fix="put the file there, or name another one in the policy",
        ) from None
    if len(raw) > LARGEST_LINKS:
        raise Invalid(
            f"{path} has more than {LARGEST_LINKS >> 30} GiB",
            why="a link table is read whole",
            fix="leave out the links of people who are in no record",
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise Invalid(
            f"{path}:{line}: not UTF-8",
            why=f"the links of relation {relation.name} are read as UTF-8",
            fix="save the file as UTF-8",
        ) from None


def _column(relation: Relation, path: Path, header: list[str], name: str) -> int:
    if header.count(name) == 1:
        return header.index(name)
    found = "twice" if name in header else "nowhere"
    raise Invalid(
        f"{path} has the column `{name}` {found} in its header",
        why=f"`ends` of relation {relation.name} names it",
        fix="rename the column in the file or in the policy",
    )


def read_functions(policy: Policy, folder: Path) -> dict[str, RuleFunction]:
    """Compute f of every set of fields, for each rule that names a table or function.

    Also compute u of every set, under its reserved name, if the policy names a user's
    utility.

    Raises
    ------
    Invalid
        A table cannot be read or is no table of worlds; a function is not installed, or
        is no valid disclosure function.
    """
    found = {}
    for name, prop in policy.properties.items():
        if not is_tabulated(prop):
            continue
        try:
            found[name] = _tabulated(prop, folder)
        except (InvalidFunction, InvalidBeliefs) as error:
            raise Invalid(
                f"rule {name} cannot be judged by what it names",
                why=str(error),
                fix="correct the table, or tell the author of the function",
            ) from None
    if policy.budget.utility is not None:
        found[UTILITY] = _worth(policy, policy.budget.utility)
    return found


def _worth(policy: Policy, name: str) -> RuleFunction:
    """Evaluate a user's utility on every set of sent fields."""
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


def _tabulated(prop: Property, folder: Path) -> RuleFunction:
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
    return RuleFunction(
        shape.table or "", hashlib.sha256(raw).hexdigest(), levels, worlds
    )


def _said(source: str, levels: FieldTable) -> RuleFunction:
    """Return a function's values on all sets, with their hash."""
    text = json.dumps(sorted((sorted(held), str(f)) for held, f in levels.items()))
    return RuleFunction(source, hashlib.sha256(text.encode()).hexdigest(), levels)


def _guarded(ask: Callable[[], FieldTable]) -> FieldTable:
    try:
        return ask()
    except InvalidFunction:
        raise
    except (Exception, SystemExit) as error:
        # third-party code: whatever it raises, it cannot be used for judging or
        # planning
        raise InvalidFunction(f"the function raised {type(error).__name__}") from error


def _bytes(path: Path) -> bytes:
    try:
        with open_input(path) as file:
            raw = file.read(LARGEST_TABLE + 1)
    except OSError as error:
        raise Invalid(
            f"{path}: {error.strerror or type(error).__name__}",
            why="a rule is judged by this table",
            fix="put the file there, or name another one in the policy",
        ) from None
    if len(raw) > LARGEST_TABLE:
        raise InvalidFunction(f"{path} has more than {LARGEST_TABLE >> 20} MiB")
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
