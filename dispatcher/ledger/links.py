"""What ``policy apply`` brings beside the policy file: links, and functions of rules."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dispatcher.core.errors import Invalid
from dispatcher.ledger.lines import canonical
from dispatcher.store import policies
from dispatcher.store import relations as rows
from dispatcher.store.policies import TableRow
from dispatcher.store.transaction import Tx
from policies.policy import Policy
from policies.rules.belief import World
from policies.rules.tabulated import FieldTable

Pairs = Collection[tuple[str, str]]
"""Pseudonyms of two subjects, sorted, each pair once."""


@dataclass(frozen=True)
class Told:
    """F of every set of a rule's fields, and what told it.

    Attributes
    ----------
    source : str
        The file, or ``plugin:NAME``.
    sha256 : str
        Of the file, or of what the function said.
    levels : Levels
    worlds : tuple of World
        The rows of a finite table, of which the evidence tells; empty for a function.
    """

    source: str
    sha256: str
    levels: FieldTable
    worlds: tuple[World, ...] = ()

    def row(self, rule: str) -> TableRow:
        """Return the row that keeps it."""
        listed = sorted((sorted(held), str(f)) for held, f in self.levels.items())
        text = json.dumps(listed, ensure_ascii=False, separators=(",", ":"))
        worlds = "".join(_world_lines(rule, self.worlds))
        return TableRow(rule, self.source, self.sha256, text, worlds)


def _world_lines(rule: str, worlds: Iterable[World]) -> Iterator[str]:
    """Rows of a table as evidence has them: each value by its number in its column."""
    numbers: dict[int, dict[object, int]] = defaultdict(dict)
    for world in worlds:
        row = [
            numbers[column].setdefault(value, len(numbers[column]))
            for column, value in enumerate((world.secret, *world.entries))
        ]
        line = {"chance": str(world.chance), "property": rule}
        yield canonical(line | {"secret": row[0], "values": row[1:]}) + "\n"


def tables_text(rows_: Iterable[TableRow]) -> str:
    """Return the tables of a version, as evidence has them; empty if it has none."""
    return "".join(row.worlds for row in sorted(rows_))


@dataclass(frozen=True)
class Beside:
    """What stands beside a policy file.

    Attributes
    ----------
    links : Mapping of str to Pairs
        By relation.
    told : Mapping of str to Told
        By rule that names a table or a user's function.
    """

    links: Mapping[str, Pairs] = field(default_factory=dict)
    told: Mapping[str, Told] = field(default_factory=dict)

    @property
    def levels(self) -> dict[str, FieldTable]:
        """F by fields held, for each such rule."""
        return {name: told.levels for name, told in self.told.items()}

    def adds(self, tx: Tx, version: int) -> bool:
        """Whether something of it is not in a version of the store."""
        known = {
            row.property: (row.levels, row.worlds)
            for row in policies.functions_of(tx, version)
        }
        rows_ = [told.row(name) for name, told in self.told.items()]
        mine = {row.property: (row.levels, row.worlds) for row in rows_}
        return known != mine or links_grew(tx, self.links)


def told_text(rows_: Sequence[TableRow]) -> str:
    """Functions of a version as they are shipped; nothing where there is none."""
    return canonical(rows_) if rows_ else ""


def functions_sha256(rows_: Sequence[TableRow]) -> str:
    """Digest of :func:`told_text`, which the line of the version has."""
    return hashlib.sha256(told_text(rows_).encode()).hexdigest()


def read_told(text: str) -> list[TableRow]:
    """Read functions that :func:`told_text` wrote.

    Raises
    ------
    ValueError, TypeError
        They are of another form.
    """
    return [TableRow._make(row) for row in json.loads(text or "[]")]


def read_levels(rows_: Iterable[tuple[str, str]]) -> dict[str, FieldTable]:
    """Read what was kept: (rule, levels) -> f by fields held."""
    return {
        rule: {frozenset(held): Fraction(f) for held, f in json.loads(text)}
        for rule, text in rows_
    }


def add_links(
    tx: Tx, policy: Policy, links: Mapping[str, Pairs], version: int
) -> list[str]:
    """Keep the links that are new with a version; return their lines of evidence.

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
    """Whether there are links that the store does not have."""
    return any(set(pairs) - set(_kept(tx, name)) for name, pairs in links.items())


def _kept(tx: Tx, relation: str) -> set[tuple[str, str]]:
    return {(one, other) for one, other in rows.pairs(tx, relation)}


def _fresh(tx: Tx, relation: str, pairs: Pairs, version: int) -> list[tuple[str, str]]:
    known = _kept(tx, relation)
    fresh = [pair for pair in sorted(set(pairs)) if pair not in known]
    rows.add_links(tx, relation, fresh, version)
    return fresh
