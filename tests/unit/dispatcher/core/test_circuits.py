"""Connectors that fail, are slow or must not be called often, each for itself."""

import threading

import pytest

from dispatcher.core.circuits import LONGEST, Circuits, Turns
from tests.patience import until

MINUTE = 60_000_000


class Clock:
    def __init__(self):
        self.now = 10**15

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def rests(circuits, clock, name="a"):
    """Minutes until a connector is called again."""
    return (circuits.resting.get(name, clock()) - clock()) / MINUTE


def test_failures_in_a_row_rest_twice_as_long_each_up_to_half_an_hour(clock):
    circuits = Circuits({}, clock)
    told = []
    for _ in range(8):
        assert circuits.failed("a", MINUTE)
        told.append(rests(circuits, clock))
        clock.now += LONGEST
    assert told == [1, 2, 4, 8, 16, 30, 30, 30]
    assert not circuits.rests("a")
    assert not circuits.rests("b")


def test_a_pause_that_the_outside_asked_for_is_kept_when_it_is_longer(clock):
    circuits = Circuits({}, clock)
    circuits.failed("a", 3 * LONGEST)
    assert rests(circuits, clock) == 90


def test_what_works_again_begins_anew(clock):
    circuits = Circuits({}, clock)
    circuits.failed("a", MINUTE)
    circuits.failed("a", MINUTE)
    circuits.worked("a")
    circuits.failed("a", MINUTE)
    assert rests(circuits, clock) == 1


def test_single_faults_that_may_be_a_tasks_let_nobody_rest(clock):
    circuits = Circuits({}, clock)
    assert not circuits.failed("a", after=3)
    assert not circuits.failed("a", after=3)
    circuits.worked("a")
    assert [circuits.failed("a", after=3) for _ in range(3)] == [False, False, True]


def test_a_pace_is_earned_back_over_the_minute(clock):
    circuits = Circuits({"a": 6, "b": None}, clock)
    assert circuits.room("a", 50) == 6
    circuits.spend("a", 6)
    circuits.spend("b", 50)
    assert (circuits.room("a", 50), circuits.room("b", 50)) == (0, 50)
    clock.now += MINUTE // 6
    assert circuits.room("a", 50) == 1
    clock.now += 5 * MINUTE
    assert circuits.room("a", 50) == 6
    assert circuits.room("a", 4) == 4


def some(turns, names, job):
    """Take turns until something was done: a quick job may take long by chance."""
    return until(lambda: turns.take(names, job), "a turn does something")


def test_a_slow_turn_holds_up_no_other_and_is_not_begun_twice():
    turns, go, begun = Turns(hurry=0.05), threading.Event(), []

    def job(name):
        begun.append(name)
        if name == "slow":
            assert go.wait(240)
        return 1

    assert some(turns, ["slow", "quick"], job) == 1
    assert turns.busy == ["slow"]
    assert some(turns, ["slow", "quick"], job) == 1
    go.set()
    until(lambda: not turns.busy, "no turn is under way")
    assert turns.take([], job) == 1
    assert sorted(begun) == ["quick", "quick", "slow"]


def test_what_a_late_turn_raised_is_raised_at_the_next():
    turns, go = Turns(hurry=0.05), threading.Event()

    def job(name):
        if name == "slow":
            assert go.wait(240)
            raise KeyError(name)
        return 1

    assert some(turns, ["slow", "quick"], job) == 1
    go.set()
    until(lambda: not turns.busy, "no turn is under way")
    with pytest.raises(KeyError):
        turns.take(["quick"], job)
