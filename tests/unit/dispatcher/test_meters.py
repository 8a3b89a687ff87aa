"""What a process counts and times: no event twice, none lost, none below zero."""

import threading

from dispatcher import meters
from dispatcher.meters import Count, Durations


def test_events_are_counted_by_their_labels():
    count = Count("decision", "property")
    count.add("deny", "history")
    count.add("deny", "history", count=2)
    count.add("allow", "", count=0)
    assert count.read() == {("deny", "history"): 3}


def test_threads_that_count_together_lose_nothing():
    count = Count()
    threads = [
        threading.Thread(target=lambda: [count.add() for _ in range(2000)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count.read() == {(): 8000}


def test_a_duration_falls_into_the_first_bucket_that_holds_it():
    durations = Durations((0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 7.0):
        durations.note(seconds)
    [measured] = durations.read().values()
    assert measured.buckets == [2, 1, 1]
    assert measured.seconds == 7.65


def test_a_clock_that_was_put_back_makes_no_negative_duration():
    durations = Durations((1.0,))
    durations.note(-86_400.0)
    [measured] = durations.read().values()
    assert (measured.buckets, measured.seconds) == ([1, 0], 0.0)


def test_a_task_that_stays_as_it_is_makes_no_transition():
    before = dict(meters.TRANSITIONS.read())
    meters.count_moves([("shown", "shown", "m"), ("shown", "answered", "m")])
    after = meters.TRANSITIONS.read()
    changed = {key for key in after if after[key] != before.get(key, 0)}
    assert changed == {("shown", "answered", "m")}
