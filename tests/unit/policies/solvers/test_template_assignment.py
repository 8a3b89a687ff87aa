"""Slots to adversaries: every component gets different ones, quotas are kept."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.solvers.template_assignment import (
    ShapeTemplate,
    deal,
    evenly,
    place,
    quotas,
)


@st.composite
def cases(draw):
    q = draw(st.integers(1, 4))
    k = draw(st.integers(q, 7))
    count = draw(st.integers(1, 9))
    worth = draw(st.lists(st.integers(0, 5), min_size=q * k, max_size=q * k))
    ceiling = draw(st.lists(st.integers(0, 9), min_size=k, max_size=k))
    return np.array(worth, float).reshape(q, k), count, np.array(ceiling)


@given(cases())
def test_quotas_are_dealt_out_exactly_and_nobody_takes_two_slots(case):
    """Rows add up to the components; the deal follows the table."""
    worth, count, ceiling = case
    even = np.full(len(ceiling), 1)
    table = quotas(worth, count, ceiling, even)
    if table is None:
        assert np.minimum(ceiling, count).sum() < worth.shape[0] * count
        return
    assert (table.sum(axis=1) == count).all()
    assert (table.sum(axis=0) <= np.minimum(ceiling, count)).all()
    hands = deal(table, count)
    assert hands.shape == (count, worth.shape[0])
    assert all(len(set(row)) == len(row) for row in hands.tolist())
    for slot in range(worth.shape[0]):
        dealt = np.bincount(hands[:, slot], minlength=len(ceiling))
        assert dealt.tolist() == table[slot].tolist()


def test_the_quotas_of_most_worth_win():
    """Two slots, three workers, one is bad at both: it gets nothing."""
    worth = np.array([[5.0, 1.0, 5.0], [5.0, 1.0, 5.0]])
    table = quotas(worth, 10, np.full(3, 99), np.full(3, 7))
    assert table.sum(axis=0).tolist() == [10, 0, 10]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6),
    st.integers(0, 40),
)
def test_evenly_fills_the_emptiest_first(rows, total):
    """As much as there is room for; nobody is raised above one with room left."""
    load = np.array([r[0] for r in rows])
    ceiling = np.array([r[1] for r in rows])
    given_ = evenly(load, ceiling, total)
    assert given_.sum() == min(total, ceiling.sum())
    assert ((given_ >= 0) & (given_ <= ceiling)).all()
    raised = (load + given_)[given_ > 0]
    waiting = (load + given_)[given_ < ceiling]
    if len(raised) and len(waiting):
        assert raised.max() <= waiting.min() + 1


def test_a_template_goes_to_different_adversaries_in_each_component():
    """1,000 records of two fields, two copies each, five workers: 800 each."""
    entries = np.arange(2_000).reshape(1_000, 2)
    slots = tuple(np.array([d]) for d in (0, 0, 1, 1))
    nothing = np.zeros(5, np.int64)
    entry, adversary = place(
        ShapeTemplate(slots, entries),
        np.ones((4, 5)),
        nothing,
        np.full(5, 9_999),
        np.random.default_rng(0),
        None,
    )
    assert np.bincount(adversary).tolist() == [800] * 5
    assert len(np.unique(entry // 2 * 5 + adversary)) == 4_000


@pytest.mark.parametrize(("room", "fits"), [(2, True), (1, False)])
def test_capacities_are_kept_or_the_whole_is_left(room, fits):
    """Two slots of two entries, two components, four workers with so much room."""
    template = ShapeTemplate(
        (np.array([0, 1]), np.array([2, 3])), np.arange(8).reshape(2, 4)
    )
    dealt = place(
        template,
        np.ones((2, 4)),
        np.zeros(4, np.int64),
        np.full(4, room),
        np.random.default_rng(0),
        None,
    )
    assert (dealt is not None) == fits
    if fits:
        assert np.bincount(dealt[1]).tolist() == [2, 2, 2, 2]


def test_the_soft_ceiling_spreads_work_over_good_and_less_good():
    """One worker is best at all; no more than 12 of 20 showings are given to it."""
    template = ShapeTemplate((np.array([0]),), np.arange(20).reshape(20, 1))
    worth = np.array([[9.0, 1.0, 1.0, 1.0]])
    _, adversary = place(
        template,
        worth,
        np.zeros(4, np.int64),
        np.full(4, 99),
        np.random.default_rng(0),
        12,
    )
    assert np.bincount(adversary)[0] == 12
