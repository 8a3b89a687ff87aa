"""Problems check themselves; the message gives value and expectation."""

from dataclasses import replace

import numpy as np
import pytest

from policies.model.measures import Measure
from policies.model.problem import Goal, Pairs, Problem
from policies.model.sets import InvalidProblem, SetSystem
from policies.model.weights import Weights
from tests.unit.policies.tiny import Made, Tiny, classes, step, system


def good(**changes):
    fields = {
        "sets": system(3, [step(0, 1)], (Measure.STEP,)),
        "lo": np.array([1, 1, 0]),
        "hi": np.array([1, 2, 0]),
        "weights": Weights.flat(3, 2),
    }
    return Problem(**(fields | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        # one copy list too short
        ({"lo": np.array([1, 1])}, "lo has length 2, expected 3"),
        ({"lo": np.array([1, -1, 0])}, "lo holds -1, expected >= 0"),
        ({"lo": np.array([2, 1, 0])}, "entry 0 has lo = 2, expected <= hi = 1"),
        ({"hi": np.array([1.0, 2.0, np.nan])}, "hi is float64 of 1 dim"),
        ({"capacity": np.array([1])}, "capacity has length 1, expected 2"),
        ({"capacity": np.array([1, -2])}, "capacity holds -2, expected >= 0"),
        ({"history": Pairs.of([(3, 0)])}, "history.entry holds 3, expected < 3"),
        (
            {"forbidden": Pairs.of([(0, 2)])},
            "forbidden.adversary holds 2, expected < 2",
        ),
        (
            {"trusted": np.ones((2, 2))},
            r"trusted has shape \(2, 2\), expected \(1, 2\)",
        ),
        ({"weights": Weights.flat(4, 2)}, "sets speak of 3 entries, expected 4"),
    ],
)
def test_a_problem_that_is_off_can_not_be_built(changes, message):
    """Each is refused with its value and what was expected."""
    with pytest.raises(InvalidProblem, match=message):
        good(**changes)


def test_lambda_is_never_negative():
    """A reward for disclosure is no goal."""
    with pytest.raises(InvalidProblem, match="lambda is -1, expected >= 0"):
        Goal(lambda_=-1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"entry": np.array([0, 5])}, "sets.entry holds 5, expected < 3"),
        ({"entry": np.array([1, 1])}, "set 0 names entry 1 twice, expected once"),
        ({"start": np.array([0, 1])}, "sets.start runs from 0 to 1, expected 0 to 2"),
        ({"start": np.array([0])}, "sets.start has length 1, expected 2"),
        ({"owner": np.array([1])}, "sets.owner holds 1, expected < 1"),
        ({"full": np.array([0])}, "sets.full holds 0, expected >= 1"),
        ({"amount": np.array([1, -1])}, "sets.amount holds -1, expected >= 0"),
        ({"measures": ()}, "sets.measures has length 0, expected 1"),
        ({"classes": np.array([True, False])}, r"has shape \(2,\), expected \(1,\)"),
        ({"n_entries": -1}, "n_entries is -1, expected >= 0"),
    ],
)
def test_sets_that_are_off_can_not_be_built(changes, message):
    """Columns must fit each other."""
    with pytest.raises(InvalidProblem, match=message):
        replace(system(3, [step(0, 1)], (Measure.STEP,)), **changes)


def test_offsets_that_fall_are_refused():
    """Two sets whose second begins before the first."""
    made = system(3, [step(0), step(1)], (Measure.STEP,))
    with pytest.raises(InvalidProblem, match="falls somewhere"):
        replace(made, start=np.array([0, 3, 2]))


def test_classes_go_with_step_only():
    """A linear rule has no classes."""
    with pytest.raises(InvalidProblem, match="measure other than step"):
        system(2, [classes((0,), (1,))], (Measure.LINEAR,))


def test_pairs_are_sorted_and_each_once():
    """A pair given twice is one pair."""
    pairs = Pairs.of([(1, 0), (0, 1), (1, 0)])
    assert (pairs.entry.tolist(), pairs.adversary.tolist()) == ([0, 1], [1, 0])
    assert pairs.start(3).tolist() == [0, 1, 2, 2]


def test_arrays_are_frozen():
    """Nobody changes a problem by accident."""
    with pytest.raises(ValueError, match="read-only"):
        good().lo[0] = 7


def test_a_part_keeps_its_sets_history_and_room():
    """Entries 1 and 2 of three, renumbered, with the set that joins them."""
    tiny = Tiny(
        3,
        2,
        [step(0), Made({1: 2, 2: 1}, cap=2, full=3)],
        capacity=[4, 1],
        history=[(0, 0), (2, 1)],
        forbidden=[(1, 0)],
        weights=[[1, 2], [3, 4], [5, 6]],
    )
    part = tiny.problem().select(np.array([1, 2]), np.array([1]))
    assert part.sets.entry.tolist() == [0, 1]
    assert part.sets.amount.tolist() == [2, 1]
    assert part.history.entry.tolist() == [1]
    assert part.forbidden.adversary.tolist() == [0]
    assert part.weights.row(0).tolist() == [3, 4]
    assert part.capacity.tolist() == [4, 1]


def test_room_is_never_more_than_could_be_used():
    """No limit means as many as there are entries that want copies."""
    assert good().room().tolist() == [2, 2]
    assert good(capacity=np.array([1, 9])).room().tolist() == [1, 2]


def test_by_entry_is_the_incidence_turned_round():
    """Entry 1 is in both sets, entry 2 in none."""
    sets = system(3, [step(0, 1), step(1)], (Measure.STEP,))
    start, row = sets.by_entry()
    assert start.tolist() == [0, 1, 3, 3]
    assert sets.member_set[row].tolist() == [0, 0, 1]


def test_no_sets_at_all():
    """Without properties there is nothing to check."""
    assert SetSystem(2).n_sets == 0
