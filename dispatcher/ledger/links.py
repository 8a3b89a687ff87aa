"""Inputs of ``policy apply`` beside the policy file: links, and functions of rules."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dispatcher.core.canonical import canonical
from dispatcher.core.errors import Invalid
from dispatcher.store import policies
from dispatcher.store import relations as rows
from dispatcher.store.policies import TableRow
from dispatcher.store.transaction import Tx
from policies.policy import Policy
from policies.rules.belief import World
from policies.rules.tabulated import FieldTable

Pairs = Collection[tuple[str, str]]
"""Pairs of subjects' pseudonyms, each sorted, without duplicates."""


@dataclass(frozen=True)
class RuleFunction:
    """f of every set of a rule's fields, and its source.

    Attributes
    ----------
    source : str
        The file, or ``plugin:NAME``.
    sha256 : str
        Digest of the file, or of the function's results.
    levels : Levels
    worlds : tuple of World
        The rows of a finite table, for the evidence; empty for a function.
    """

    source: str
    sha256: str
    levels: FieldTable
    worlds: tuple[World, ...] = ()

    def row(self, rule: str) -> TableRow:
        """Return the database row for a rule."""
        listed = sorted((sorted(held), str(f)) for held, f in self.levels.items())
        text = json.dumps(listed, ensure_ascii=False, separators=(",", ":"))
        worlds = "".join(_world_lines(rule, self.worlds))
        return TableRow(rule, self.source, self.sha256, text, worlds)


def _world_lines(rule: str, worlds: Iterable[World]) -> Iterator[str]:
    """Yield a table's rows in the evidence format: values by number in their column."""
    numbers: dict[int, dict[object, int]] = defaultdict(dict)
    for world in worlds:
        row = [
            numbers[column].setdefault(value, len(numbers[column]))
            for column, value in enumerate((world.secret, *world.entries))
        ]
        line = {"chance": str(world.chance), "property": rule}
        yield canonical(line | {"secret": row[0], "values": row[1:]}) + "\n"


def tables_text(rows_: Iterable[TableRow]) -> str:
    """Return the tables of a version in the evidence format; empty if it has none."""
    return "".join(row.worlds for row in sorted(rows_))


@dataclass(frozen=True)
class Beside:
    """Inputs beside a policy file.

    Attributes
    ----------
    links : Mapping of str to Pairs
        By relation.
    functions : Mapping of str to RuleFunction
        By rule that names a table or a user's function.
    """

    links: Mapping[str, Pairs] = field(default_factory=dict)
    functions: Mapping[str, RuleFunction] = field(default_factory=dict)

    @property
    def levels(self) -> dict[str, FieldTable]:
        """Return f by held fields, for each such rule."""
        return {name: table.levels for name, table in self.functions.items()}

    def adds(self, tx: Tx, version: int) -> bool:
        """Whether it contains something that a version of the store lacks."""
        known = {
            row.property: (row.levels, row.worlds)
            for row in policies.functions_of(tx, version)
        }
        rows_ = [table.row(name) for name, table in self.functions.items()]
        mine = {row.property: (row.levels, row.worlds) for row in rows_}
        return known != mine or links_grew(tx, self.links)


def functions_text(rows_: Sequence[TableRow]) -> str:
    """Serialise the functions of a version for shipping; empty if there are none."""
    return canonical(rows_) if rows_ else ""


def functions_sha256(rows_: Sequence[TableRow]) -> str:
    """Return the digest of :func:`functions_text`, a member of the version's line."""
    return hashlib.sha256(functions_text(rows_).encode()).hexdigest()


def parse_functions(text: str) -> list[TableRow]:
    """Parse the output of :func:`functions_text`.

    Raises
    ------
    ValueError, TypeError
        The text is malformed.
    """
    return [TableRow._make(row) for row in json.loads(text or "[]")]


def read_levels(rows_: Iterable[tuple[str, str]]) -> dict[str, FieldTable]:
    """Parse stored functions: (rule, levels) -> f by held fields."""
    return {
        rule: {frozenset(held): Fraction(f) for held, f in json.loads(text)}
        for rule, text in rows_
    }


def add_links(
    tx: Tx, policy: Policy, links: Mapping[str, Pairs], version: int
) -> list[str]:
    """Store a version's new links; return their lines of evidence.

    Raises
    ------
    Invalid
        A rule reads a relation whose links are not among them.
    """
    read = {p.relation for p in policy.properties.values() if p.relation is not None}
    for name in sorted(read - links.keys()):
        raise Invalid(
            f"the links of relation {name} are missing",
            why="A rule over a relation is judged over its links, and none were given.",
            fix=f"Put {policy.relations[name].source} beside the policy file, then: "
            "dispatcher policy apply policy.toml",
        )
    lines = []
    for name in sorted(links):
        for pair in _fresh(tx, name, links[name], version):
            line = {"relation": name, "ends": list(pair)}
            lines.append(canonical(line) + "\n")
    return lines


def links_grew(tx: Tx, links: Mapping[str, Pairs]) -> bool:
    """Whether the store lacks any of the links."""
    return any(set(pairs) - set(_kept(tx, name)) for name, pairs in links.items())


def _kept(tx: Tx, relation: str) -> set[tuple[str, str]]:
    return {(one, other) for one, other in rows.pairs(tx, relation)}


def _fresh(tx: Tx, relation: str, pairs: Pairs, version: int) -> list[tuple[str, str]]:
    known = _kept(tx, relation)
    fresh = [pair for pair in sorted(set(pairs)) if pair not in known]
    rows.add_links(tx, relation, fresh, version)
    return fresh
