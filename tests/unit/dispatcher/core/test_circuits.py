"""Connectors that fail, are slow or must not be called often, each for itself."""

import pytest

from dispatcher.core.circuits import LONGEST, Circuit

MINUTE = 60_000_000


class Clock:
    def __init__(self):
        self.now = 10**15

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_failures_in_a_row_rest_twice_as_long_each_up_to_half_an_hour(clock):
    circuit = Circuit(None, clock)
    assert [minutes_of_a_failure(circuit, clock) for _ in range(8)] == [
        1, 2, 4, 8, 16, 30, 30, 30,
    ]  # fmt: skip


def minutes_of_a_failure(circuit, clock, pause=MINUTE):
    """Minutes until it is called again after one more failure."""
    assert circuit.failed(pause)
    minutes = 0
    while circuit.is_open():
        clock.now += MINUTE
        minutes += 1
    return minutes


def test_a_pause_that_the_outside_asked_for_is_kept_when_it_is_longer(clock):
    assert minutes_of_a_failure(Circuit(None, clock), clock, 3 * LONGEST) == 90


def test_what_works_again_begins_anew(clock):
    circuit = Circuit(None, clock)
    minutes_of_a_failure(circuit, clock)
    minutes_of_a_failure(circuit, clock)
    circuit.worked()
    assert minutes_of_a_failure(circuit, clock) == 1


def test_single_faults_that_may_be_a_tasks_let_nobody_rest(clock):
    circuit = Circuit(None, clock)
    assert not circuit.failed(after=3)
    assert not circuit.failed(after=3)
    circuit.worked()
    assert [circuit.failed(after=3) for _ in range(3)] == [False, False, True]


def test_a_rate_is_earned_back_over_the_minute(clock):
    circuit = Circuit(6, clock)
    assert circuit.room(50) == 6
    circuit.spend(6)
    assert circuit.room(50) == 0
    clock.now += MINUTE // 6
    assert circuit.room(50) == 1
    clock.now += 5 * MINUTE
    assert circuit.room(50) == 6
    assert circuit.room(4) == 4


def test_without_a_rate_there_is_room_for_all(clock):
    circuit = Circuit(None, clock)
    circuit.spend(50)
    assert circuit.room(50) == 50


def test_a_circuit_that_rests_says_since_when_until_a_call_works_again(clock):
    circuit = Circuit(None, clock)
    assert circuit.fault is None
    assert not circuit.failed(after=2)
    assert circuit.fault is None
    began = clock.now
    circuit.failed(after=2)
    assert circuit.fault == (began, began + MINUTE, 2)
    clock.now += 2 * MINUTE  # half open: the next call decides
    circuit.failed(after=2)
    assert circuit.fault == (began, clock.now + 2 * MINUTE, 3)
    circuit.worked()
    assert circuit.fault is None
