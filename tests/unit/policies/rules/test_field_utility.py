"""A user's utility over the fields of a record: asked for all sets, and summed."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.rules.field_utility import by_record, growing, tabulate_utility
from policies.rules.functions import InvalidFunction, UserUtility

ABC = ("a", "b", "c")


def utility(u, **declared):
    return UserUtility("mine", u, **declared)


def test_every_set_is_asked_and_kept_exactly():
    found = tabulate_utility(utility(lambda held: Fraction(len(held), 3)), ABC)
    assert len(found) == 8
    assert found[frozenset("ab")] == Fraction(2, 3)
    assert growing(found) is None


COUNT = iter(range(10**6))


@pytest.mark.parametrize(
    ("u", "told"),
    [
        (lambda held: -len(held), "u of a is -1.0, expected >= 0"),
        (lambda held: 1 - len(held) / 4, "u falls from no fields to a"),
        (lambda held: len(held) ** 2, "gains more with"),
        (lambda held: float("nan"), "expected a finite number"),
        (lambda held: 10**400, "expected a finite number"),
        (lambda held: "1", "is str, expected a number"),
        (lambda held: next(COUNT), "differs when asked twice"),
    ],
)
def test_what_is_no_utility_is_refused_with_the_sets_that_show_it(u, told):
    with pytest.raises(InvalidFunction, match=told):
        tabulate_utility(utility(u), ABC)


def test_gains_may_grow_where_that_is_declared():
    found = tabulate_utility(
        utility(lambda held: len(held) ** 2, submodular=False), ABC
    )
    one, less, more = growing(found)
    assert one not in more
    assert less < more


def test_too_many_fields_are_refused():
    with pytest.raises(InvalidFunction, match="13 fields, expected at most 12"):
        tabulate_utility(utility(len), map(str, range(13)))


@given(
    st.sets(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1), st.randoms()
)
def test_u_is_the_sum_over_records_and_gains_are_differences(pairs, random):
    """Whichever entries are held; a field that was not asked for is worth nothing."""
    rows = sorted(pairs)
    levels = tabulate_utility(utility(lambda held: len(held) ** 0.5), "ab")
    fields = ("a", "b", "unsent")
    record, kind = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    made = by_record(levels, fields, record, kind)
    sent = [i for i, (_, k) in enumerate(rows) if k < 2]
    held = frozenset(i for i in sent if random.random() < 0.5)
    total = sum(
        len({rows[i][1] for i in held if rows[i][0] == r}) ** 0.5 for r in range(3)
    )
    assert made(held) == pytest.approx(total)
    mask = np.zeros(len(rows), np.bool_)
    mask[list(held)] = True
    for i in sent:
        assert made.gains(mask)[i] == pytest.approx(made(held | {i}) - made(held))


def test_growing_finds_what_all_pairs_of_sets_would():
    """Against the definition: every A within B, every further field."""
    rng = np.random.default_rng(3)
    every = [frozenset(c) for n in range(4) for c in combinations(ABC, n)]
    seen = set()
    for _ in range(200):
        levels = {held: int(rng.integers(0, 4)) + 2 * len(held) for held in every}
        refuted = any(
            levels[b | {d}] - levels[b] > levels[a | {d}] - levels[a]
            for a in every
            for b in every
            for d in ABC
            if a <= b and d not in b
        )
        assert (growing(levels) is not None) == refuted
        seen.add(refuted)
    assert seen == {True, False}
