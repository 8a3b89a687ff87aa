"""Zero disclosure over links as sensitive sets: pairs of entries that must not meet."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from policies.model.links import Links
from policies.model.sets import Measure, SetSystem


def meetings(links: Links) -> SetSystem:
    """Return the pairs of entries that disclose a link together, as step sets.

    Each pair once, owned by its first link: f = 0 for all links if and only if nobody
    holds such a pair (for a cosine whose empty vectors count 0).
    """
    link, left, right = links.conflicts()
    ends = np.stack([np.minimum(left, right), np.maximum(left, right)], axis=1)
    ends, first = np.unique(ends, axis=0, return_index=True)
    lone = ends[:, 0] == ends[:, 1]
    size = np.where(lone, 1, 2)
    kept = np.ones(2 * len(ends), np.bool_)
    kept[1::2] = ~lone
    return SetSystem(
        n_entries=len(links.place),
        properties=_names(links),
        measures=(Measure.STEP,) * links.n_links,
        owner=link[first],
        start=np.concatenate([[0], np.cumsum(size)]),
        entry=ends.reshape(-1)[kept],
        amount=np.ones(int(kept.sum()), np.int64),
        cap=size - 1,
        full=size,
        classes=np.zeros(len(ends), np.bool_),
    )


def _names(links: Links) -> tuple[str, ...]:
    return tuple(f"property {i}" for i in range(links.n_links))


def sharing(
    sets: SetSystem, links: Links, chosen: Iterable[int]
) -> dict[int, list[int]]:
    """All links that these sets disclose, by set; none of sets that are no meetings."""
    if sets.properties != _names(links):
        return {}
    link, left, right = links.conflicts()
    width = len(links.place)
    key = np.minimum(left, right) * width + np.maximum(left, right)
    order = np.argsort(key, kind="stable")
    key, link = key[order], link[order]
    found = {}
    for one in chosen:
        ends = sets.entry[sets.start[one] : sets.start[one + 1]]
        wanted = int(ends.min()) * width + int(ends.max())
        first, stop = np.searchsorted(key, [wanted, wanted + 1])
        found[one] = link[first:stop].tolist()
    return found
