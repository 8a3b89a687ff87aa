"""Edit distances, and the medoid by them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.answers.distance import edit_distance, medoid, similarity


def slow_distance(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        old, row = row, [i]
        for j, y in enumerate(b, start=1):
            row.append(min(old[j] + 1, row[j - 1] + 1, old[j - 1] + (x != y)))
    return row[-1]


@given(st.text("abé", max_size=9), st.text("abé", max_size=9))
def test_the_edit_distance_is_that_of_the_plain_table(a, b):
    assert edit_distance(a, b) == slow_distance(a, b)


@given(st.text("ab", max_size=80), st.text("ab", max_size=80), st.integers(0, 80))
def test_a_bound_only_cuts_off_what_lies_above_it(a, b, bound):
    exact, cut = edit_distance(a, b), edit_distance(a, b, bound)
    assert cut == exact if exact <= bound else cut > bound


def test_similarity_of_known_words():
    assert edit_distance("kitten", "sitting") == 3
    assert similarity("kitten", "sitting") == pytest.approx(1 - 3 / 7)
    assert similarity("", "") == 1.0


def test_the_medoid_is_the_text_in_the_middle_and_the_first_on_a_tie():
    assert medoid(["Ana Lee", "Anna Lee", "Anna Leeds"], [1, 1, 1]) == 1
    assert medoid(["a", "b"], [1, 1]) == 0
    assert medoid(["a", "b"], [1, 2]) == 1
