"""Who is singled out, and what can be guessed, on tables small enough to count."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from policies.discovery.coded_table import TableSampler
from policies.discovery.frequencies import Frequencies
from policies.rules.belief import Beliefs, World, mean_information_gain

VISITS = [
    ("ann", "12", "F", "flu"),
    ("ann", "12", "F", "gout"),
    ("bob", "12", "M", "flu"),
    ("cat", "34", "F", "flu"),
    ("dan", "34", "M", "gout"),
    ("eve", "34", "M", "gout"),
]
NAMES = ("person", "zip", "sex", "disease")


def frequencies(names, rows, person=None):
    sampler = TableSampler()
    sampler.add(names, rows)
    owner = None if person is None else names[person]
    return Frequencies.of(sampler.finish(names), owner)


@pytest.fixture
def visits():
    return frequencies(NAMES, VISITS, 0)


@pytest.mark.parametrize(
    ("seen", "share"),
    [
        ((), 0),
        (("zip",), 0),
        (("zip", "sex"), Fraction(3, 5)),  # not dan and eve
        (("zip", "sex", "disease"), Fraction(3, 5)),
        (("disease",), 0),
        (("person",), 1),
    ],
)
def test_a_person_is_singled_out_by_a_row_that_looks_like_nobody_elses(
    visits, seen, share
):
    assert (len(visits), visits.people, visits.most_rows) == (6, 5, 2)
    assert visits.singled_out(seen) == share


def test_without_a_column_of_people_every_row_is_a_person():
    found = frequencies(NAMES, VISITS, None)
    assert (found.people, found.most_rows) == (6, 1)
    assert found.singled_out(["zip", "sex"]) == Fraction(2, 6)


def test_rows_without_a_name_are_people_of_their_own():
    found = frequencies(("person", "x"), [("", "1"), ("", "1"), ("ann", "2")], 0)
    assert found.people == 3


def test_an_empty_cell_singles_out_too():
    found = frequencies(("phone",), [("",), ("1",), ("1",)], None)
    assert found.singled_out(["phone"]) == Fraction(1, 3)


def test_nobody_is_singled_out_of_an_empty_table():
    found = frequencies(NAMES, [], 0)
    assert (found.people, found.most_rows, found.singled_out(["zip"])) == (0, 0, 0)
    assert found.guess("disease", ["zip"], np.random.default_rng(0)) is None


def test_what_is_the_same_in_all_records_is_guessed_at_once():
    found = frequencies(("x", "y"), [("1", "a"), ("2", "a"), ("3", "a")], None)
    guess = found.guess("y", ["x"], np.random.default_rng(0))
    assert (guess.blind, guess.informed, guess.gain) == (1, 1, 0)


def test_a_column_that_tells_another_is_guessed_right():
    """Ten of each: x tells y; of two values blindly, at least half are wrong."""
    rows = [(str(i % 2), str(i % 2)) for i in range(20)]
    found = frequencies(("x", "y"), rows, None)
    guess = found.guess("y", ["x"], np.random.default_rng(0))
    assert (guess.records, guess.blind, guess.informed) == (20, 0, 1)
    assert guess.gain > 0.8


def test_the_best_columns_are_compared_and_not_all(visits):
    """With a number that is different in every row nobody would be found equal."""
    rows = [(str(i), str(i % 3), str(i % 3)) for i in range(30)]
    found = frequencies(("number", "x", "y"), rows)
    guess = found.guess("y", ["number", "x"], np.random.default_rng(0))
    assert (guess.by, guess.informed) == (("x",), 1)


def test_two_columns_together_tell_what_neither_does():
    rows = [(str(i % 2), str(i // 2 % 2), str((i + i // 2) % 2)) for i in range(40)]
    found = frequencies(("a", "b", "xor"), rows)
    guess = found.guess("xor", ["a", "b"], np.random.default_rng(0))
    assert (guess.by, guess.informed) == (("a", "b"), 1)


def test_a_column_whose_values_are_all_different_tells_nothing():
    """Nobody else has it, so the guess is the blind one, and no more is gained."""
    rng = np.random.default_rng(3)
    rows = [(str(i), str(rng.integers(2))) for i in range(200)]
    found = frequencies(("x", "y"), rows, None)
    guess = found.guess("y", ["x"], np.random.default_rng(0))
    assert guess.informed == guess.blind
    assert guess.gain == pytest.approx(0, abs=1e-12)


def test_a_row_without_the_value_is_not_guessed():
    found = frequencies(("x", "y"), [("1", "a"), ("1", ""), ("1", "a")], None)
    assert found.guess("y", ["x"], np.random.default_rng(0)).records == 2


# -- laws ------------------------------------------------------------------------------

tables = st.lists(
    st.tuples(*[st.sampled_from(["", "a", "b", "c"])] * 3), min_size=1, max_size=14
)


@given(tables)
def test_more_columns_never_single_out_fewer(rows):
    found = frequencies(("p", "x", "y"), rows, 0)
    shares = [found.singled_out(seen) for seen in ((), ("x",), ("x", "y"))]
    assert shares == sorted(shares)


@given(tables)
def test_the_guess_is_the_most_common_value_of_the_other_rows(rows):
    """Of rows that are equal in what is seen, if that is better than of all rows."""
    found = frequencies(("p", "x", "y"), rows)
    guess = found.guess("y", ["x"], np.random.default_rng(0))
    known = [(x, y) for _, x, y in rows if y]
    if len(known) < 2:
        assert guess is None
        return

    def chance(i, alike):
        others = Counter(known[j][1] for j in alike if j != i)
        top = max(others.values(), default=0)
        leads = top and others[known[i][1]] == top
        return leads / sum(count == top for count in others.values()) if leads else 0

    everybody = range(len(known))
    blind = [chance(i, everybody) for i in everybody]
    informed = []
    for i, (x, _) in enumerate(known):
        alike = [j for j in everybody if known[j][0] == x]
        informed.append(blind[i] if alike == [i] else chance(i, alike))
    assert guess.blind == pytest.approx(np.mean(blind))
    assert guess.informed == pytest.approx(max(np.mean(blind), np.mean(informed)))


class Level:
    """Shuffles a column until all its values are equal: chance alone tells nothing."""

    def permutation(self, column):
        return np.zeros_like(column)


@given(tables)
def test_the_information_gained_is_that_of_the_papers_measure(rows):
    guess = frequencies(("p", "x", "y"), rows).guess("y", ["x"], Level())
    known = [(x, y) for _, x, y in rows if y]
    assume(guess is not None)
    part = Fraction(1, len(known))
    worlds = (World((x if guess.by else "",), y, part) for x, y in known)
    exact = mean_information_gain(Beliefs(tuple(worlds)), [0])
    assert guess.gain == pytest.approx(float(exact), abs=1e-9)
