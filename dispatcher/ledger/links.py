"""Links of people: what ``policy apply`` brings beside the policy file."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dispatcher.errors import Invalid
from dispatcher.ledger.lines import canonical
from dispatcher.store import relations as rows
from dispatcher.store.transaction import Tx
from policies.document.policy import Policy

Pairs = Collection[tuple[str, str]]
"""Pseudonyms of two subjects, sorted, each pair once."""


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
