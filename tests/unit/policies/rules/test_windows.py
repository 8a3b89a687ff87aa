"""Sliding windows over columns, against a look at every entry."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from policies.rules.windows import LATEST, every_window, widest_windows

ROWS = st.lists(st.tuples(st.integers(3, 5), st.integers(-4, 9)), max_size=9)


def columns(rows):
    return tuple(np.array([r[i] for r in rows], np.int64) for i in (0, 1))


@given(ROWS, ROWS, st.integers(1, 6))
def test_each_start_begins_a_window_of_its_own_unit(rows, more, window):
    rows = sorted(rows)
    found = every_window(*columns(rows), window, columns(rows + more))
    told = [
        (unit, since, rows[first:last])
        for first, last, unit, since in zip(*(c.tolist() for c in found), strict=True)
    ]
    assert told == [
        (u, x, [(v, t) for v, t in rows if v == u and x <= t <= x + window])
        for u, x in sorted({*rows, *more})
    ]


@given(ROWS, st.integers(1, 6))
def test_each_window_lies_within_a_widest_one(rows, window):
    rows = sorted(rows)
    first, last = widest_windows(*columns(rows), window)
    kept = [range(a, b) for a, b in zip(first.tolist(), last.tolist(), strict=True)]
    first, last, _, _ = every_window(*columns(rows), window, columns(rows))
    for a, b in zip(first.tolist(), last.tolist(), strict=True):
        assert any(a in one and b - 1 in one for one in kept)


def test_a_window_ends_with_time_itself():
    rows = [(1, LATEST - 2), (1, LATEST)]
    assert [c.tolist() for c in widest_windows(*columns(rows), 9)] == [[0], [2]]
    ends = every_window(*columns(rows), 9, columns(rows))[1]
    assert ends.tolist() == [2, 2]
