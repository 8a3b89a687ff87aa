"""Figures for charts: what they count, and that no page pays for a large store."""

from fractions import Fraction

import pytest

from dispatcher.core import meters
from dispatcher.ledger.limit_usage import LimitUsages
from dispatcher.operations import figures, sampling
from dispatcher.operations.figures import CallHour, Duration, FieldCount
from dispatcher.operations.sampling import DAY, HOUR, MINUTE, PERIOD, SECOND, Sampler
from dispatcher.store import answers, lease, samples
from tests import builders
from tests.integration.ledger_cases import PAIR, START, Case, Plans, policy

NOON = START - START % DAY + DAY // 2
RULES = f"""
{PAIR}
[property.history]
scope = "subject"
of = ["c", "d"]
disclosure = {{ kind = "linear", per = "entry", weight = 0.25 }}
tau = 0.75
"""


@pytest.fixture
def case(store, clock):
    """Ann has seen r1.a, r1.c and r2.c; Bob, at another connector, r1.b."""
    made = Case(store, now=NOON - HOUR)
    made.apply(policy(RULES))
    made.add("x/ann", "y/bob", "x/cy")
    made.load(*((f"r{n}", "pat", n, "abcd") for n in (1, 2)))
    made.book(("x/ann", "r1.a r1.c r2.c"), ("y/bob", "r1.b"))
    clock.now = NOON
    return made


def answer(case, *moments):
    """Let the open tasks be answered at these moments, in order of their ids."""
    with case.store.read() as tx:
        ids = sorted(task.id for task in builders.tasks.open_tasks(tx))
    for number, at in zip(ids, moments, strict=False):
        builders.answer_tasks(case.store, [number], at=at)


@pytest.fixture
def sample(case, clock):
    """Keep samples, as the daemon that leads does."""
    with case.store.write() as tx:
        epoch = lease.take(tx, lease.SHARD, "test", NOON, NOON + 90 * DAY)
    sampler = Sampler(case.store, clock)
    return lambda: sampler.tick(epoch)


def test_answers_are_counted_by_hour_and_connector(case, clock, sample):
    answer(case, NOON - 3 * HOUR, NOON - 3 * HOUR + 1, NOON - 1, NOON)
    sample()
    found = figures.answer_rate(case.store, NOON + MINUTE)
    assert (found.period, found.since) == (HOUR, NOON - 3 * HOUR)
    assert {name: list(numbers) for name, numbers in found.valid.items()} == {
        "x": [2, 0, 1, 0],
        "y": [0, 0, 0, 1],
    }
    assert sum(found.refused) == 0
    days = figures.answer_rate(case.store, NOON + MINUTE, window=90 * DAY)
    assert days.period == 2 * DAY
    assert [sum(numbers) for numbers in days.valid.values()] == [3, 1]


def test_an_answer_that_is_told_of_late_is_counted_in_its_hour(case, clock, sample):
    sample()
    clock.advance(5 * HOUR / SECOND)
    answer(case, NOON)
    sample()
    found = figures.answer_rate(case.store, clock.now, window=DAY)
    assert list(found.valid["x"])[-6:] == [1, 0, 0, 0, 0, 0]


def test_young_work_is_counted_by_minutes_as_it_is_now(case):
    answer(case, NOON - 2 * MINUTE)
    found = figures.answer_rate(case.store, NOON)
    assert (found.period, len(found.refused)) == (5 * MINUTE, 24)
    assert list(found.valid["x"])[-2:] == [1, 0]
    minutes = figures.answer_rate(case.store, NOON, window=HOUR)
    assert (minutes.period, len(minutes.refused)) == (MINUTE, 60)
    assert list(minutes.valid["x"])[-3:] == [1, 0, 0]


def test_fields_are_counted_and_left_ones_kept_over_time(case, clock, sample):
    assert figures.coverage(case.store).at is None
    assert figures.burn_down(case.store, since=0).why_none == "nothing is asked yet"
    sample()
    builders.save_results(case.store, [case.entries["r1.a"], case.entries["r1.c"]])
    builders.save_results(case.store, [case.entries["r2.c"]], state="conflict")
    clock.advance(PERIOD / SECOND)
    sample()
    found = figures.burn_down(case.store, since=NOON - DAY)
    assert list(found.left) == [(NOON, 8), (NOON + PERIOD, 5)]
    assert found.end is None
    assert "no estimate yet" in found.why_none
    assert figures.coverage(case.store).fields == [
        FieldCount("a", 2, 1, 0, 0),
        FieldCount("b", 2, 0, 0, 0),
        FieldCount("c", 2, 1, 1, 0),
        FieldCount("d", 2, 0, 0, 0),
    ]


def test_an_even_pace_is_estimated_exactly_and_an_uneven_one_by_a_band():
    def at_pace(*steps, left=100):
        rest, total, points, done = left + sum(steps), 0, [], []
        for i, step in enumerate((0, *steps)):
            rest, total = rest - step, total + step
            points.append((NOON + i * HOUR, rest))
            done.append((NOON + i * HOUR, total))
        return figures._estimated(points, done, DAY)

    even = at_pace(*[10] * 8)
    assert even.pace == 10
    assert even.end.earliest == even.end.likely == even.end.latest == NOON + 18 * HOUR
    uneven = at_pace(*[0, 20] * 4)
    assert uneven.end.earliest < uneven.end.likely < uneven.end.latest
    assert uneven.end.likely == NOON + 18 * HOUR
    assert at_pace(*[0] * 7, 80).end.latest is None
    assert at_pace(10, 10, 10).end is None  # too few
    assert at_pace(*[1] * 8).end is None  # too few fields
    assert "nothing is left" in at_pace(*[10] * 8, left=0).why_none
    assert "no end in sight" in at_pace(*[10] * 8, left=10**9).why_none


def test_durations_are_those_of_the_newest_answers(case, monkeypatch):
    booked = case.now
    answer(case, *(booked + seconds * SECOND for seconds in (4, 2, 8)))
    one, *_ = by_field = figures.durations(case.store)
    assert one == Duration("a", 1, 4.0, 4.0, 4.0)
    assert [(one.field, one.answers, one.p50) for one in by_field] == [
        ("a", 1, 4.0), ("c", 2, 5.0)
    ]  # fmt: skip
    monkeypatch.setattr(figures, "NEWEST", 1)
    assert [(one.field, one.p90) for one in figures.durations(case.store)] == [("c", 8)]


def test_the_nearest_to_a_refusal_come_first(case, monkeypatch):
    found = figures.exposure_map(case.store, LimitUsages())
    assert found.rules == ["history", "a-b"]  # 1 field left of both
    assert found.total == 2
    ann, bob = found.nearest
    assert (ann.accounts, bob.accounts) == (["x/ann"], ["y/bob"])
    assert ann.usages["history"].share == Fraction(2, 3)
    assert (ann.usages["history"].left, ann.usages["a-b"].left) == (1, 1)
    assert list(found.tenths["history"]) == [0] * 6 + [1] + [0] * 4
    assert sum(found.tenths["a-b"]) == 2
    monkeypatch.setattr(figures, "NEAREST", 1)
    short = figures.exposure_map(case.store, LimitUsages())
    assert [one.name for one in short.nearest] == [ann.name]
    assert (short.total, short.tenths) == (2, found.tenths)


def test_calls_are_kept_by_hour_with_their_quantiles(case, clock, sample):
    name = "called-market"
    sample()  # what was counted before is no call of this time
    for seconds, code in ((0.02, "ok"), (0.02, "ok"), (0.2, "ok"), (9.0, "failed")):
        meters.CALL_DURATION.labels(name).observe(seconds)
        meters.CALL_COUNT.labels(name, code).inc()
    sample()
    sample()  # nothing was called since
    (found,) = (
        one
        for one in figures.connector_calls(case.store, clock.now, window=2 * HOUR)
        if one.connector == name
    )
    empty, full = found.hours
    assert empty == CallHour(
        NOON - HOUR, dict.fromkeys(sampling.OUTCOMES, 0), None, None
    )
    assert {code: n for code, n in full.calls.items() if n} == {"ok": 3, "failed": 1}
    assert full.p50 == pytest.approx(0.05)
    assert 5 < full.p95 <= 10
    assert found.whole.calls == full.calls
    day = figures.calls_of(case.store, clock.now, name)
    assert (len(day.hours), day.whole.calls) == (24, full.calls)
    assert figures.calls_of(case.store, clock.now, "another").whole.p50 is None


def test_the_oldest_message_is_known_now_and_as_it_was(case, clock, sample):
    sample()
    clock.advance(PERIOD / SECOND)
    found = figures.waiting(case.store, clock.now)
    minutes = {name: age // 60 for name, (_, age) in found.now.items()}
    assert minutes == {"x": 64, "y": 64}
    assert [age // 60 for _, age in found.ages["x"]] == [59, 64]
    builders.settle_messages(case.store, "sent")
    sample()
    found = figures.waiting(case.store, clock.now)
    assert (found.now, [age for _, age in found.ages["x"]][1:]) == ({}, [0])


def test_the_ledger_grows_line_by_line(case, clock, sample):
    sample()
    case.book(("x/cy", "r1.d"))
    clock.advance(PERIOD / SECOND)
    sample()
    found = figures.growth(case.store, since=NOON)
    (_, before), (_, after) = found.lines
    assert after - before == 1
    assert all(size > 0 for _, size in found.size)


def test_samples_are_thinned_after_a_day_and_end_after_ninety(case, clock, sample):
    for _ in range(3):
        sample()
        clock.advance(PERIOD / SECOND)

    def moments():
        found = figures.growth(case.store, since=0).lines
        return [(at - NOON) // PERIOD for at, _ in found]

    assert moments() == [0, 1, 2]
    clock.now = NOON + 2 * DAY
    sample()
    assert moments() == [0, 576]
    clock.now = NOON + 92 * DAY + HOUR
    sample()
    assert moments() == [(92 * 24 + 1) * 12]


def test_no_figure_reads_a_growing_table_whole(case):
    with case.store.read() as tx:
        plans = Plans(tx)
        answers.per_period(plans, NOON - DAY, NOON, HOUR)
        answers.durations(plans, 2000)
        samples.since(plans, sampling.LINES, NOON)
        samples.latest(plans, sampling.FIELDS[0])
        samples.first(plans, sampling.VALID, NOON)
        figures.statistics.waiting(plans)
    whole = [
        step
        for step in plans.told
        if step.lstrip(" ->").startswith(("SCAN", "Seq Scan on"))
        for table in ("answer", "entry", "task", "sample", "outbox", "ledger_line")
        if f" {table}" in step and "INDEX" not in step
    ]
    assert whole == []
