"""What a process counts and times: no event twice, none lost, none below zero."""

import pytest

from dispatcher.core import meters


def samples(meter):
    """What a meter holds, by the name of the sample and its labels."""
    return {
        (one.name, *one.labels.values()): one.value
        for family in meter.collect()
        for one in family.samples
        if not one.name.endswith("_created")
    }


def changed(meter, before):
    """What came to it since."""
    after = samples(meter).items()
    grown = {key: value - before.get(key, 0.0) for key, value in after}
    return {key: value for key, value in grown.items() if value}


def test_a_task_that_stays_as_it_is_makes_no_transition():
    before = samples(meters.TRANSITIONS)
    meters.count_moves([("shown", "shown", "m"), *2 * [("shown", "answered", "m")]])
    name = "dispatcher_task_transitions_total"
    assert changed(meters.TRANSITIONS, before) == {(name, "shown", "answered", "m"): 2}


@pytest.mark.parametrize(
    ("micros", "seconds"), [(7_500_000, 7.5), (-86_400_000_000, 0)]
)
def test_a_clock_that_was_put_back_makes_no_negative_turnaround(micros, seconds):
    before = samples(meters.TURNAROUND)
    meters.note_turnaround(micros)
    grown = changed(meters.TURNAROUND, before)
    assert grown["dispatcher_task_turnaround_seconds_count",] == 1
    assert grown.get(("dispatcher_task_turnaround_seconds_sum",), 0) == seconds


def test_a_call_that_fails_is_timed_too_and_its_error_goes_on():
    before = samples(meters.CALL_DURATION)
    with pytest.raises(ValueError, match="odd"), meters.calling("m"):
        raise ValueError("odd")
    name = "dispatcher_connector_request_duration_seconds_count"
    assert changed(meters.CALL_DURATION, before)[name, "m"] == 1


def test_a_call_that_would_end_the_program_is_counted_as_failed():
    before = samples(meters.CALL_COUNT)
    with pytest.raises(SystemExit), meters.calling("m"):
        raise SystemExit(0)
    name = "dispatcher_connector_requests_total"
    assert changed(meters.CALL_COUNT, before) == {(name, "m", "failed"): 1}


def test_every_meter_is_shown_and_each_once():
    kinds = meters.Counter | meters.Histogram
    made = [one for one in vars(meters).values() if isinstance(one, kinds)]
    assert sorted(map(id, meters.METERS)) == sorted(map(id, made))
