"""Agreement of several answers beyond chance."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.answers.agreement import Reliability, reliability

PUBLISHED = """
1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 .
"""
"""Four observers and twelve units, some missing: Krippendorff (2011), section C."""


def of(*rows: tuple[int, int]) -> Reliability:
    table = np.array(rows, np.int64).reshape(-1, 2)
    return reliability(table[:, 0], table[:, 1])


def test_the_published_example_has_its_published_alpha():
    rows = [line.split() for line in PUBLISHED.strip().splitlines()]
    given_ = [
        (unit, int(text))
        for row in rows
        for unit, text in enumerate(row)
        if text != "."
    ]
    found = of(*given_)
    assert (found.units, found.answers) == (11, 40)
    assert found.alpha == pytest.approx(0.743, abs=5e-4)


def test_what_was_answered_once_tells_nothing():
    assert of() == of((0, 1), (1, 2)) == Reliability(0, 0, None, None)
    assert of((0, 1), (0, 1), (1, 2)).answers == 2


def test_chance_cannot_tell_where_all_answers_are_the_same():
    assert of((0, 1), (0, 1), (1, 1), (1, 1)) == Reliability(2, 4, 1.0, None)


def test_those_who_always_contradict_one_another_are_below_chance():
    found = of((0, 0), (0, 1), (1, 1), (1, 0))
    assert found.observed == 0.0
    assert found.alpha is not None
    assert found.alpha < 0


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=2, max_size=40)
)
def test_alpha_is_what_the_pairs_say(rows):
    """The same by its definition: pairs within units against pairs of all answers."""
    found = of(*rows)
    kept = [(u, x) for u, x in rows if sum(v == u for v, _ in rows) > 1]
    number = len(kept)
    differ = sum(
        (x != y) / (sum(w == u for w, _ in kept) - 1)
        for i, (u, x) in enumerate(kept)
        for j, (v, y) in enumerate(kept)
        if i != j and u == v
    )
    apart = sum(
        x != y
        for i, (_, x) in enumerate(kept)
        for j, (_, y) in enumerate(kept)
        if i != j
    )
    if not apart:
        assert found.alpha is None
    else:
        expected = 1 - (differ / number) / (apart / (number * (number - 1)))
        assert found.alpha == pytest.approx(expected)


def test_shapes_must_fit():
    with pytest.raises(ValueError, match="expected the same"):
        reliability(np.zeros(2, np.int64), np.zeros(3, np.int64))
