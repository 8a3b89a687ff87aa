"""Cosines kept below their limits, for when no plan keeps all of them at 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from math import ceil
from typing import Final

import numpy as np
import numpy.typing as npt

from policies.model.links import LinkMeasure, Links, below_limit, link_similarities
from policies.model.problem import Pairs, Problem
from policies.model.sets import InvalidProblem
from policies.planning.problem import EntryColumns
from policies.rules.expand import Expansion
from policies.rules.link_rules import LinkRule
from policies.rules.shared_places import matched

Ints = npt.NDArray[np.int64]

STEPS: Final = 10**6
"""Cosines are rounded to 1 / this."""


def loosened(
    problem: Problem,
    expansion: Expansion,
    rules: Sequence[LinkRule],
    backlog: EntryColumns,
    fields: npt.NDArray[np.str_],
) -> Problem | None:
    """Replace the sets that keep cosines at 0 by the cosines themselves.

    Parameters
    ----------
    problem : Problem
    expansion : Expansion
    rules : sequence of LinkRule
        The cosine rules. All are kept below the lowest of their limits.
    backlog : EntryColumns
        Its entries are those of the problem.
    fields : str array, shape (n,)
        Name of each entry's field.

    Returns
    -------
    Problem or None
        None if that is impossible: without such rules, if one has no limit or somebody
        is trusted with it, or if a person has two entries at one place. Adversaries
        past the limit already get nothing: no plan could keep it with them.
    """
    limits = [rule.tau for rule in rules if rule.tau is not None]
    numbers = [expansion.rules.index(rule) for rule in rules]
    trusted = problem.trusted is not None and problem.trusted[numbers].any()
    if not rules or len(limits) < len(rules) or trusted:
        return None
    parts = [_members(rule, backlog, fields) for rule in rules]
    sizes = [len(backlog.links[rule.relation].link) for rule in rules]
    first = [0, *accumulate(sizes)]
    every = np.concatenate([entry for _, entry, _ in parts])
    counted = np.zeros(len(backlog.record), np.bool_)
    counted[every] = True
    try:
        links = Links(
            LinkMeasure.COSINE,
            place=np.maximum(backlog.place, 0),
            count=np.where(counted, backlog.visits, 0),
            link=np.concatenate(
                [link + at for (link, _, _), at in zip(parts, first, strict=False)]
            ),
            entry=every,
            side=np.concatenate([side for _, _, side in parts]),
            n_links=first[-1],
            tau=min(limits),
        )
    except InvalidProblem:  # a person has several entries at a place
        return None
    kept = np.flatnonzero(~np.isin(problem.sets.owner, numbers))
    entries = np.arange(problem.n_entries)
    loose = replace(problem, sets=problem.sets.select(entries, kept), links=links)
    return _without(loose, _past(links, problem.history))


def _past(links: Links, history: Pairs) -> Ints:
    """Return adversaries past the limit of a link by history alone."""
    assert links.tau is not None, "a loosened problem has a limit"
    past = {
        alike.observer
        for alike in link_similarities(links, history.entry, history.adversary)
        if not below_limit(alike, links.relation, links.tau)
    }
    return np.array(sorted(past), np.int64)


def _without(problem: Problem, adversaries: Ints) -> Problem:
    """Return the problem with some adversaries given nothing and without history."""
    if not len(adversaries):
        return problem
    asked, history = np.flatnonzero(problem.hi), problem.history
    never = Pairs(np.tile(asked, len(adversaries)), np.repeat(adversaries, len(asked)))
    kept = ~np.isin(history.adversary, adversaries)
    return replace(
        problem,
        forbidden=problem.forbidden.union(never),
        history=Pairs(history.entry[kept], history.adversary[kept]),
    )


def worst_cosines(
    loose: Problem, rules: Sequence[LinkRule], backlog: EntryColumns, held: Pairs
) -> list[Fraction]:
    """Return the highest cosine of each rule.

    Parameters
    ----------
    loose : Problem
        Made by :func:`loosened` from these rules and this backlog.
    rules : sequence of LinkRule
    backlog : EntryColumns
    held : Pairs
        What was shown and what is planned.

    Returns
    -------
    list of Fraction
        Rounded up to 10^-6.
    """
    assert loose.links is not None, "a loosened problem has links"
    sizes = [len(backlog.links[rule.relation].link) for rule in rules]
    ends = np.cumsum(sizes)
    found = [Fraction(0)] * len(rules)
    for alike in link_similarities(loose.links, held.entry, held.adversary):
        rule = int(np.searchsorted(ends, alike.link, side="right"))
        found[rule] = max(found[rule], alike.share(LinkMeasure.COSINE))
    return [Fraction(ceil(f * STEPS), STEPS) for f in found]


def _members(
    rule: LinkRule, backlog: EntryColumns, fields: npt.NDArray[np.str_]
) -> tuple[Ints, Ints, Ints]:
    """Return link, entry and side of all entries in the rule's fields."""
    pairs = backlog.links[rule.relation]
    mine = np.isin(fields, sorted(rule.fields))
    at = np.flatnonzero(mine & (backlog.place >= 0))
    order = at[np.argsort(backlog.subject[at], kind="stable")]
    mates = backlog.subject[order]
    link, entry, side = [], [], []
    for end, column in enumerate((pairs.one, pairs.other)):
        number, row = matched(mates, column)
        entry.append(order[row])
        link.append(number)
        side.append(np.full(len(number), end))
    return np.concatenate(link), np.concatenate(entry), np.concatenate(side)
