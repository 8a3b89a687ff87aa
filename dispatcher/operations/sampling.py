"""Figures of now are kept, so that there is a past to draw.

The tables know what is; only few know what was. Every few minutes the daemon that leads
counts what a page must not (it grows with the store), also for pages that show how it is
now (:mod:`dispatcher.operations.totals`), and adds what its meters counted of calls to
connectors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final

from dispatcher.core import meters
from dispatcher.ledger.active_policy import asked_fields
from dispatcher.operations import totals
from dispatcher.store import (
    Clock,
    Store,
    Tx,
    answers,
    lease,
    planning,
    samples,
    statistics,
)

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

PERIOD: Final = 5 * MINUTE
"""Of levels; after a day only one an hour is kept."""
KEPT: Final = 90 * DAY

REST: Final = 50
"""What grows with the store is counted again after so many times its duration."""

TOTALS: Final = ("asked", "answered", "conflict", "held")
"""Fields: all that are asked, by result, and those that the plan holds back."""
FIELDS: Final = tuple(f"field-{name}" for name in TOTALS)
"""The same by field, once an hour."""
VALID, REFUSED = "answers-valid", "answers-refused"
"""Answers by connector, an hour."""
LATE: Final = 6 * HOUR
"""Answers are counted again for so long: a market may tell of them late."""
LINES, BYTES = "ledger-lines", "store-bytes"
OLDEST, WAITING = "outbox-oldest", "outbox-messages"
"""By connector: seconds that the oldest message waits, and how many wait."""
CALLS: Final = "calls-"
"""By connector, an hour: calls with an outcome (``calls-ok``, ``calls-try-later``)."""
TOOK: Final = "took-"
"""By connector, an hour: calls of at most so many seconds (``took-0.5``, ``took-+Inf``)."""
OUTCOMES: Final = ("ok", "try-later", "rejected", "misconfigured", "failed")
BOUNDS: Final = (*(f"{bound:g}" for bound in meters.CALLS), "+Inf")
MEASURES: Final = (
    *TOTALS,
    *FIELDS,
    VALID,
    REFUSED,
    LINES,
    BYTES,
    OLDEST,
    WAITING,
    *(CALLS + outcome for outcome in OUTCOMES),
    *(TOOK + bound for bound in BOUNDS),
)


class Sampler:
    """Keeps samples of one daemon.

    Parameters
    ----------
    store : Store
    clock : Clock
    feeds : collection of str
        Connectors that publish: their fields count as asked.
    """

    def __init__(self, store: Store, clock: Clock, feeds: Collection[str] = ()) -> None:
        self._store = store
        self._clock = clock
        self._feeds = feeds
        self._counted = Counter(dict(_calls()))
        self._again = 0
        self._late = DAY

    def tick(self, epoch: int) -> int:
        """Keep one sample under an epoch; it is no work that is to be logged: 0."""
        now = self._clock()
        rows: list[tuple[str, int, str, int]] = []
        counted: list[tuple[str, int, str, int]] = []
        # another clock: what it said of the next count is void
        if not self._again - DAY < now < self._again:
            with self._store.read() as tx:
                rows += self._fields(tx, now)
                rows += _answers(tx, now, self._late)
                found = totals.count(tx, self._feeds)
                counted += [*found.samples(now), *totals.lists(tx, found, now)]
            took = max(0, self._clock() - now)
            self._again = now + REST * took
        with self._store.read() as tx:
            rows += _small(tx, now)
        calls = Counter(dict(_calls()))
        added = [
            (measure, now - now % HOUR, connector, count)
            for (measure, connector), count in (calls - self._counted).items()
        ]
        with self._store.write() as tx:
            lease.check_epoch(tx, lease.SHARD, epoch)
            samples.keep(tx, rows)
            samples.replace(tx, counted)
            samples.add(tx, added)
            samples.thin(tx, MEASURES, before=now - DAY, every=HOUR, oldest=now - KEPT)
        self._counted, self._late = calls, LATE
        return 0

    def _fields(self, tx: Tx, now: int) -> Iterator[tuple[str, int, str, int]]:
        feeds = planning.has_accounts(tx, self._feeds)
        held: Counter[str] = Counter()
        for reason in statistics.held_back(tx):
            held.update(reason.fields)
        totals: Counter[str] = Counter()
        for name, asked, answered, conflict in statistics.by_field(
            tx, asked_fields(tx, feeds=feeds)
        ):
            numbers = (asked, answered, conflict, held[name])
            for measure, number in zip(TOTALS, numbers, strict=True):
                totals[measure] += number
                yield f"field-{measure}", now - now % HOUR, name, number
        for measure in TOTALS:
            yield measure, now - now % PERIOD, "", totals[measure]


def _answers(tx: Tx, now: int, late: int) -> Iterator[tuple[str, int, str, int]]:
    until = now - now % HOUR + HOUR
    since = until - HOUR - late
    for place, connector, valid, total in answers.per_period(tx, since, until, HOUR):
        at = since + place * HOUR
        yield VALID, at, connector, valid
        yield REFUSED, at, connector, total - valid


def _small(tx: Tx, now: int) -> Iterator[tuple[str, int, str, int]]:
    """Figures that do not grow with records or showings."""
    at = now - now % PERIOD
    yield LINES, at, "", statistics.lines(tx)[1]
    yield BYTES, at, "", statistics.size(tx)
    for row in statistics.waiting(tx):
        age = max(0, now - row.oldest) // SECOND
        yield OLDEST, at, row.connector, age
        yield WAITING, at, row.connector, int(row.messages)


def _calls() -> Iterator[tuple[tuple[str, str], int]]:
    """Calls that this process made: by measure and connector."""
    for family in meters.CALL_COUNT.collect():
        for sample in family.samples:
            if sample.name.endswith("_total"):
                measure = CALLS + sample.labels["code"]
                yield (measure, sample.labels["connector"]), int(sample.value)
    for family in meters.CALL_DURATION.collect():
        for sample in family.samples:
            if sample.name.endswith("_bucket"):
                bound = sample.labels["le"]
                name = bound if bound == "+Inf" else f"{float(bound):g}"
                yield (TOOK + name, sample.labels["connector"]), int(sample.value)
