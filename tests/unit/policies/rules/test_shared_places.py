"""Encounters: a set for each link and place in common, against plain loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.rules.shared_places import PeoplePairs, shared_places


@settings(max_examples=80, deadline=None)
@given(
    entries=st.lists(
        st.tuples(st.integers(-1, 3), st.integers(-1, 2), st.booleans()), max_size=9
    ),
    links=st.sets(
        st.tuples(st.integers(0, 3), st.integers(0, 3)).filter(lambda p: p[0] < p[1])
    ),
)
def test_they_are_what_two_loops_find(entries, links):
    person = np.array([e[0] for e in entries], np.int64)
    place = np.array([e[1] for e in entries], np.int64)
    rows = np.flatnonzero([e[2] for e in entries]).astype(np.int64)
    ordered = sorted(links)
    pairs = PeoplePairs(
        np.arange(len(ordered)) + 10,
        np.array([one for one, _ in ordered], np.int64),
        np.array([other for _, other in ordered], np.int64),
    )
    found = shared_places(rows, person, place, pairs)
    expected = {}
    for number, ends in enumerate(ordered, start=10):
        for spot in range(3):
            sides = [
                {d for d in rows.tolist() if person[d] == end and place[d] == spot}
                for end in ends
            ]
            if all(sides):
                expected[number, spot] = sides
    got = {}
    stop = np.cumsum(found.sizes)
    for i, (link, spot) in enumerate(
        zip(found.link.tolist(), found.place.tolist(), strict=True)
    ):
        part = slice(int(stop[i] - found.sizes[i]), int(stop[i]))
        got[link, spot] = [
            {
                d
                for d, side in zip(
                    found.entry[part].tolist(), found.side[part].tolist(), strict=True
                )
                if side == end
            }
            for end in (0, 1)
        ]
    assert got == expected


def test_columns_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match="lengths"):
        PeoplePairs(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(2, np.int64))
