"""Cosine and common links by hand, exactly."""

from fractions import Fraction

import numpy as np
import pytest

from policies.model.coalitions import Coalitions, membership, pooled, sights
from policies.model.links import (
    LinkMeasure,
    Links,
    below_limit,
    conflict_sets,
    link_similarities,
    root_up,
)
from policies.model.sets import InvalidProblem


def links(relation=LinkMeasure.COSINE, **changes):
    """Left: entries 0 (home, 3) and 1 (park, 4); right: 2 (home, 1), 3 (shop, 0)."""
    fields = {
        "relation": relation,
        "place": np.array([0, 1, 0, 2]),
        "count": np.array([3, 4, 1, 0]),
        "link": np.array([0, 0, 0, 0]),
        "entry": np.array([0, 1, 2, 3]),
        "side": np.array([0, 0, 1, 1]),
        "n_links": 1,
    }
    return Links(**(fields | changes))


def seen(held, relation=LinkMeasure.COSINE):
    made = links(relation)
    found = link_similarities(made, np.array(held), np.zeros(len(held), np.int64))
    return {a.observer: a.share(relation) for a in found}


def test_a_cosine_falls_when_an_entry_is_added():
    """Home alone: 3 * 1 / (3 * 1) = 1; with the park 3 / 5."""
    assert seen([0, 2]) == {0: 1}
    assert seen([0, 1, 2]) == {0: Fraction(3, 5)}


def test_common_is_one_as_soon_as_a_place_is_shared():
    """The park does not change that; nothing in common is not listed."""
    assert seen([0, 1, 2], LinkMeasure.COMMON) == {0: 1}
    assert seen([1, 2, 3]) == {}


@pytest.mark.parametrize("large", [2**24, 2**53, 2**63, 10**300])
def test_a_count_of_one_is_seen_beside_any_larger_one(large):
    """Home (large, 1) and the park (large): f = large / root(2 large^2), not 0 or 1."""
    made = links(count=np.array([large, large, 1, 0], object))
    (alike,) = link_similarities(made, np.array([0, 1, 2]), np.zeros(3, np.int64))
    assert (alike.dot, alike.square) == (large, 2 * large**2)
    assert float(alike.share(LinkMeasure.COSINE)) == pytest.approx(0.5**0.5, abs=1e-15)
    assert made.rough.tolist() == [2**24 - 1, 2**24 - 1, 1, 0]
    assert conflict_sets(made).n_sets == 1


def test_many_large_counts_do_not_overflow():
    """70,000 places, 2^24 - 1 visits at each by both: f = 1, though 2^48 n > 2^63."""
    n = 70_000
    every = np.arange(2 * n)
    made = Links(
        LinkMeasure.COSINE,
        place=every % n,
        count=np.full(2 * n, 2**24 - 1),
        link=np.zeros(2 * n, np.int64),
        entry=every,
        side=every // n,
        n_links=1,
    )
    (alike,) = link_similarities(made, every, np.zeros(2 * n, np.int64))
    assert alike.dot == n * (2**24 - 1) ** 2
    assert alike.share(LinkMeasure.COSINE) == 1


def test_limits_are_compared_by_squares():
    """3/5 is not below 3/5."""
    made = links()
    (alike,) = link_similarities(made, np.array([0, 1, 2]), np.zeros(3, np.int64))
    assert not below_limit(alike, LinkMeasure.COSINE, Fraction(3, 5))
    assert below_limit(alike, LinkMeasure.COSINE, Fraction(600001, 1000000))


def test_roots_are_rounded_up():
    """The root of 2 is a little above, that of 9/16 exact."""
    assert root_up(Fraction(9, 16)) == Fraction(3, 4)
    assert 0 < root_up(Fraction(2)) ** 2 - 2 < Fraction(1, 10**17)


def test_meetings_are_the_pairs_at_common_places():
    """Home 0 and 2; the shop's count of 0 meets nobody."""
    sets = conflict_sets(links())
    assert [sets.members(i).tolist() for i in range(sets.n_sets)] == [[0, 2]]
    assert sets.cap.tolist() == [1]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"place": np.array([0, 0, 0, 2])}, "names place 0 twice at end 0"),
        ({"count": np.array([3, 4, 1, -1])}, "links.count holds -1"),
        ({"count": np.array([3, 4, 10**30, -1], object)}, "not 4 integers >= 0"),
        ({"count": np.array([3, 4, 10**30, 0.5], object)}, "not 4 integers >= 0"),
        ({"count": np.array([3, 4, 10**30], object)}, "not 4 integers >= 0"),
        ({"side": np.array([0, 0, 1, 2])}, "links.side holds 2"),
        ({"entry": np.array([0, 1, 2, 4])}, "links.entry holds 4"),
        ({"n_links": 0}, "links.link holds 0"),
    ],
)
def test_links_check_themselves(changes, told):
    """The message gives the value."""
    with pytest.raises(InvalidProblem, match=told):
        links(**changes)


class TestCoalitions:
    def test_declared_and_any_two_are_listed_once(self):
        """Groups {0, 1} and {2}, and all pairs of three."""
        told = Coalitions(((1, 0, 1), (2,)), 2).listed(3)
        assert told == ((0, 1), (0, 2), (1, 2))

    def test_a_coalition_holds_what_its_members_hold(self):
        """Hand 2 is {0, 1}."""
        entry, hand = pooled(((0, 1),), 2, np.array([4, 5]), np.array([0, 1]))
        assert sorted(zip(entry.tolist(), hand.tolist(), strict=True)) == [
            (4, 0), (4, 2), (5, 1), (5, 2),
        ]  # fmt: skip
        assert membership(((0, 1),), 2).tolist() == [
            [True, False], [False, True], [True, True],
        ]  # fmt: skip
        seen = np.transpose(sights(((0, 1),), 2)).tolist()
        assert seen == [[0, 0], [0, 2], [1, 1], [1, 2]]

    @pytest.mark.parametrize(
        ("make", "told"),
        [
            (lambda: Coalitions(any_m=0), "any_m is 0"),
            (lambda: Coalitions(((0, 3),)).check(3), "names adversary 3"),
            (lambda: Coalitions(any_m=5).check(100), "makes 75287520 coalitions"),
        ],
    )
    def test_they_check_themselves(self, make, told):
        """The message gives the value."""
        with pytest.raises(InvalidProblem, match=told):
            make()
