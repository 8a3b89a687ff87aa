"""Limits on links that history alone is past, whatever else is given.

A cosine falls again when more of one end is held, so it is not enough to look at what is
held now: only its lower bound counts, over the lengths of all that could ever be held.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from policies.model.links import LinkMeasure, LinkSimilarity, link_similarities
from policies.model.problem import Pairs, Problem
from policies.model.sets import Ints
from policies.solvers.bounds.link_pairs import lengths, root_down
from policies.solvers.interfaces import Cause, Clash


def members(problem: Problem, chosen: Ints) -> Ints:
    """Return the entries of these links, ascending."""
    links = problem.links
    assert links is not None
    return np.unique(links.entry[np.isin(links.link, chosen)])


def outgrown(problem: Problem) -> Iterator[Clash]:
    """Find a limit that is passed for good: a clash for the first of each sort.

    Parameters
    ----------
    problem : Problem
        With links that are limited; a limit on an aggregate is not looked at.
    """
    links = problem.links
    assert links is not None
    before, length = problem.held(problem.history), lengths(problem, links)
    seen = [
        (one, _least(one, links.relation, length[one.link]))
        for one in link_similarities(links, before.entry, before.adversary)
    ]
    if links.tau is not None:
        past = (one for one, square in seen if square >= links.tau**2)
        yield from (_clash(problem, before, [one]) for one in past)
    if links.mean_tau is None:
        return
    by_hand: dict[int, list[tuple[LinkSimilarity, Fraction]]] = defaultdict(list)
    for one, square in seen:
        by_hand[one.observer].append((one, root_down(square)))
    over = problem.goal.over or links.n_links
    for parts in by_hand.values():
        if sum(root for _, root in parts) >= links.mean_tau * over:
            yield _clash(problem, before, [one for one, _ in parts])


def _least(seen: LinkSimilarity, relation: LinkMeasure, length: int) -> Fraction:
    """Square of what this observer will see of this link at least."""
    if relation is LinkMeasure.COMMON:
        return Fraction(1)
    return Fraction(seen.dot**2, length)


def _clash(problem: Problem, before: Pairs, seen: list[LinkSimilarity]) -> Clash:
    """Name the links, and what the observer holds of them."""
    chosen = sorted({one.link for one in seen})
    mine = before.entry[before.adversary == seen[0].observer]
    inside = np.intersect1d(members(problem, np.array(chosen)), mine)
    return Clash(
        Cause.HISTORY, properties=tuple(chosen), entries=tuple(inside.tolist())
    )
