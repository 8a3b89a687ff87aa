"""Records of a few people, links between them, and what a rule tells of sets of fields."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from policies.rules.entry_table import EntryTable
from policies.rules.shared_places import PeoplePairs
from policies.rules.tabulated import monotone_closure, subsets

NAMES = ("a", "b", "c")
LINKS = [(0, 1), (1, 2), (0, 2), (0, -1), (-1, 2)]
"""Between three people; -1 stands for somebody who is not loaded."""

Row = tuple[int, int, str]


@st.composite
def entries(draw: st.DrawFn) -> list[Row]:
    """Records of up to three people: (record, person, field)."""
    rows = []
    for record in range(draw(st.integers(1, 5))):
        person = draw(st.integers(0, 2))
        names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
        rows += [(record, person, name) for name in names]
    return rows


def table(rows: Sequence[Row]) -> EntryTable:
    """The same as the engine's table."""
    return EntryTable(
        NAMES,
        np.array([r[0] for r in rows], np.int64),
        np.array([r[1] for r in rows], np.int64),
        np.array([NAMES.index(r[2]) for r in rows], np.int32),
        np.zeros(len(rows), np.int64),
    )


def pairs(links: Sequence[tuple[int, int]], first: int = 0) -> PeoplePairs:
    """Links as the engine's columns, numbered from ``first``."""
    columns = np.array(links, np.int64).reshape(-1, 2).T
    return PeoplePairs(np.arange(len(links)) + first, *columns)


@st.composite
def told(
    draw: st.DrawFn, names: Sequence[str], parts: int
) -> dict[frozenset[str], Fraction]:
    """f of every set of these names: 0 of none, multiples of 1 / parts, never falling."""
    sets = subsets(names)
    size = len(sets) - 1
    shares = st.integers(0, parts).map(lambda n: Fraction(n, parts))
    values = draw(st.lists(shares, min_size=size, max_size=size))
    return monotone_closure(dict(zip(sets, [Fraction(0), *values], strict=True)))
