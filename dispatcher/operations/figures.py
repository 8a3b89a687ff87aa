"""Figures over time and over fields, for charts and for the API: typed, never a value.

Each reads a bounded part of the store: a window of an index, the newest answers, the
samples that the daemon keeps, or what was judged already. None grows with the records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, sqrt
from statistics import fmean, quantiles, stdev
from typing import Any, Final

from dispatcher.ledger.active_policy import current_policy
from dispatcher.ledger.limit_usage import LimitUsage, LimitUsages
from dispatcher.ledger.lines import adversary_name
from dispatcher.operations import sampling
from dispatcher.operations.sampling import DAY, HOUR, MINUTE, PERIOD, SECOND
from dispatcher.store import Store, answers, samples, statistics

PERIODS: Final = (
    *(MINUTE, 5 * MINUTE, 15 * MINUTE),
    *(HOUR, 6 * HOUR, DAY, 2 * DAY),
)
"""Of which one divides a window into at most :data:`MOST_PERIODS`."""
MOST_PERIODS: Final = 60
YOUNG: Final = 2 * HOUR
NEWEST: Final = 2_000
"""Answers whose durations are looked at."""
FEW_PERIODS, FEW_FIELDS = 6, 20
"""Nothing is estimated from fewer periods, or fewer fields done in them."""
SURE: Final = 1.64
"""Standard errors to each side that nine of ten estimates are within."""
NEAREST: Final = 50
"""Adversaries that a map shows."""
TENTHS: Final = 10
MOST_DAYS: Final = 3_650
"""An end beyond that is no estimate."""


# -- answers, and when the work ends ---------------------------------------------------


@dataclass(frozen=True)
class AnswerRate:
    """Answers that came in, by period and connector.

    Attributes
    ----------
    since, period : int
        Begin of the first period, and the length of each; microseconds.
    now : int
        The last period ends after this: it is not over.
    valid : Mapping of str to sequence of int
        By connector, those of each period.
    refused : sequence of int
        Invalid ones of each period.
    """

    since: int
    period: int
    now: int
    valid: Mapping[str, Sequence[int]]
    refused: Sequence[int]


def answer_rate(store: Store, now: int, *, window: int | None = None) -> AnswerRate:
    """Count the answers of a window that ends now.

    Hours and days are added up from samples, minutes from the answers themselves.

    Parameters
    ----------
    store : Store
    now : int
    window : int, optional
        Microseconds. Without one: since the first answer of the last day, by the hour;
        while that is not long ago, two hours by five minutes.
    """
    with store.read() as tx:
        if window is None:
            early = samples.first(tx, sampling.VALID, now - DAY)
            period, window = 5 * MINUTE, YOUNG
            if early is not None and now - early > YOUNG:
                period, window = HOUR, now - now % HOUR + HOUR - early
        else:
            fit = (p for p in PERIODS if window <= p * MOST_PERIODS)
            period = next(fit, PERIODS[-1])
        until = now - now % period + period
        since = until - ceil(window / period) * period
        if period < HOUR:
            found = answers.per_period(tx, since, until, period)
        else:
            found = [
                (
                    (at - since) // period,
                    name,
                    value * (measure == sampling.VALID),
                    value,
                )
                for measure in (sampling.VALID, sampling.REFUSED)
                for at, name, value in samples.since(tx, measure, since)
                if at < until
            ]
    number = (until - since) // period
    valid: dict[str, list[int]] = {}
    refused = [0] * number
    for place, connector, right, total in found:
        valid.setdefault(connector, [0] * number)[place] += right
        refused[place] += total - right
    return AnswerRate(since, period, now, valid, refused)


@dataclass(frozen=True)
class End:
    """When the work ends at the pace of late: most likely, and a band around it.

    ``latest`` is None where the pace is so uneven that no end can be told.
    """

    earliest: int
    likely: int
    latest: int | None


@dataclass(frozen=True)
class BurnDown:
    """Fields that still lack a result, over time.

    Attributes
    ----------
    left : sequence of (int, int)
        Moments and fields; those that the plan holds back are not counted.
    end : End or None
    why_none : str
        Why there is no estimate; empty if there is one.
    pace : float
        Fields an hour, as the estimate takes it; 0 without one.
    """

    left: Sequence[tuple[int, int]]
    end: End | None
    why_none: str
    pace: float


def burn_down(store: Store, *, since: int, pace_of: int = 6 * HOUR) -> BurnDown:
    """Read how many fields lacked a result, and estimate when none does.

    Parameters
    ----------
    store : Store
    since : int
        Moment from which on samples are read.
    pace_of : int
        The estimate takes the pace of so many microseconds before the last sample.
    """
    by_moment: dict[int, dict[str, int]] = defaultdict(dict)
    with store.read() as tx:
        for measure in sampling.TOTALS:
            for at, _, value in samples.since(tx, measure, since):
                by_moment[at][measure] = value
    left, done = [], []
    for at, of in sorted(by_moment.items()):
        asked, answered, conflict, held = (of.get(m, 0) for m in sampling.TOTALS)
        left.append((at, max(0, asked - answered - conflict - held)))
        done.append((at, answered + conflict))
    return _estimated(left, done, pace_of)


def _estimated(
    left: Sequence[tuple[int, int]], done: Sequence[tuple[int, int]], pace_of: int
) -> BurnDown:
    if not left or not done[-1][1] + left[-1][1]:
        return BurnDown(left, None, "nothing is asked yet", 0.0)
    (last, rest), total = left[-1], 0
    if not rest:
        return BurnDown(left, None, "nothing is left that can be placed", 0.0)
    steps = [
        ((after - before) * HOUR / (at - since), after - before)
        for (since, before), (at, after) in pairwise(done)
        if since >= last - pace_of
    ]
    total = sum(max(0, step) for _, step in steps)
    if len(steps) < FEW_PERIODS or total < FEW_FIELDS:
        few = (
            f"no estimate yet: it takes {FEW_PERIODS} samples in which {FEW_FIELDS} "
            f"fields were done, and there are {len(steps)} with {total}"
        )
        return BurnDown(left, None, few, 0.0)
    rates = [rate for rate, _ in steps]
    pace, error = fmean(rates), SURE * stdev(rates) / sqrt(len(rates))
    hours = rest / pace
    if hours * HOUR > MOST_DAYS * DAY:
        return BurnDown(left, None, "at this pace there is no end in sight", 0.0)
    slow = rest / (pace - error) if pace > error else None
    latest = None
    if slow is not None and slow * HOUR <= MOST_DAYS * DAY:
        latest = last + round(slow * HOUR)
    end = End(
        last + round(rest / (pace + error) * HOUR), last + round(hours * HOUR), latest
    )
    return BurnDown(left, end, "", pace)


@dataclass(frozen=True)
class FieldCount:
    """Entries of one field: all, with a result, in conflict, and held back by the plan."""

    field: str
    asked: int
    answered: int
    conflict: int
    held: int

    @property
    def open(self) -> int:
        """Those that may still be answered."""
        return max(0, self.asked - self.answered - self.conflict - self.held)


@dataclass(frozen=True)
class Coverage:
    """How far each field is.

    Attributes
    ----------
    at : int or None
        When it was counted; None: nothing was counted yet.
    fields : sequence of FieldCount
    asked_once : frozenset of str
        Fields that one worker each is asked for, so that no two answers agree.
    """

    at: int | None
    fields: Sequence[FieldCount]
    asked_once: frozenset[str] = frozenset()


def coverage(store: Store) -> Coverage:
    """Return how far each field is, as the daemon last counted it."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    moment = None
    with store.read() as tx:
        force = current_policy(tx)
        declared = () if force is None else force.policy.entity.fields.values()
        for measure, name in zip(sampling.FIELDS, sampling.TOTALS, strict=True):
            last = samples.latest(tx, measure)
            if last is not None:
                moment = last[0]
                for field, value in last[1].items():
                    found[field][name] = value
    return Coverage(
        moment,
        [
            FieldCount(field, *(of.get(name, 0) for name in sampling.TOTALS))
            for field, of in sorted(found.items())
        ],
        frozenset(field.name for field in declared if field.answers == 1),
    )


@dataclass(frozen=True)
class Duration:
    """How long answers of one field took, in seconds: the tenth, the middle, the ninetieth.

    From the moment that the task was booked, which on the own page is when it was shown.
    """

    field: str
    answers: int
    p10: float
    p50: float
    p90: float


def durations(store: Store) -> list[Duration]:
    """Return how long the newest answers took, by field."""
    by_field: dict[str, list[float]] = defaultdict(list)
    with store.read() as tx:
        for field, took in answers.durations(tx, NEWEST):
            by_field[field].append(max(0, took) / SECOND)
    found = []
    for field, times in sorted(by_field.items()):
        cuts = quantiles([*times, *times], n=10, method="inclusive")
        found.append(Duration(field, len(times), cuts[0], cuts[4], cuts[8]))
    return found


# -- how near to the limits ------------------------------------------------------------


@dataclass(frozen=True)
class Exposed:
    """One adversary on the map: its name, accounts and groups, and usages by rule."""

    name: str
    accounts: Sequence[str]
    groups: Sequence[str]
    usages: Mapping[str, LimitUsage]


@dataclass(frozen=True)
class ExposureMap:
    """How near adversaries are to each limit.

    Attributes
    ----------
    rules : sequence of str
        The nearest to a refusal first.
    nearest : sequence of Exposed
        The nearest to a refusal first, then by share of a limit: :data:`NEAREST` of them.
    total : int
        Adversaries that hold anything that a rule judges.
    tenths : Mapping of str to sequence of int
        Of rules with a limit: how many adversaries are in each tenth of it, of all; the
        last number counts those at or past the limit.
    """

    rules: Sequence[str]
    nearest: Sequence[Exposed]
    total: int
    tenths: Mapping[str, Sequence[int]]


def exposure_map(store: Store, usages: LimitUsages) -> ExposureMap:
    """Judge who is how near to which limit.

    Parameters
    ----------
    store : Store
    usages : LimitUsages
        Knows what was judged before: only adversaries that were shown something since
        are judged again.
    """
    with store.read() as tx:
        found = usages.look(tx)
        order = sorted(found, key=lambda one: (nearness_key(found[one]), one))
        members: dict[int, list[statistics.MemberRow]] = defaultdict(list)
        for member in statistics.members(tx, order[:NEAREST]):
            members[member.adversary_id].append(member)
    tenths: dict[str, list[int]] = {}
    rules: dict[str, None] = {}
    for by_rule in found.values():
        for rule, usage in by_rule.items():
            rules.setdefault(rule)
            if usage.tau is not None:
                place = min(TENTHS, int(usage.share * TENTHS))
                tenths.setdefault(rule, [0] * (TENTHS + 1))[place] += 1
    near = {
        rule: nearness_key({n: of[rule] for n, of in found.items() if rule in of})
        for rule in rules
    }
    return ExposureMap(
        sorted(rules, key=lambda rule: (near[rule], rule)),
        [
            Exposed(
                adversary_name(number),
                [member.account for member in members[number]],
                sorted({group for one in members[number] for group in one.groups}),
                found[number],
            )
            for number in order[:NEAREST]
        ],
        len(found),
        tenths,
    )


def nearness_key(usages: Mapping[Any, LimitUsage]) -> tuple[float, Fraction]:
    """Return what sorts the nearest to a refusal first, then the largest share."""
    left = [one.left for one in usages.values() if one.left is not None]
    shares = [one.share for one in usages.values() if one.tau is not None]
    return min(left, default=float("inf")), -max(shares, default=Fraction(0))


# -- connectors, messages and the ledger -----------------------------------------------


@dataclass(frozen=True)
class CallHour:
    """Calls to one connector within one hour; seconds are None without a call."""

    at: int
    calls: Mapping[str, int]
    p50: float | None
    p95: float | None


@dataclass(frozen=True)
class ConnectorCalls:
    """Calls to one connector: by hour, and of all hours together (``at`` is the first)."""

    connector: str
    hours: Sequence[CallHour]
    whole: CallHour


def connector_calls(
    store: Store, now: int, *, window: int = DAY
) -> list[ConnectorCalls]:
    """Return latency and outcomes of calls to connectors, by hour.

    Parameters
    ----------
    store : Store
    now : int
    window : int
        Microseconds before ``now``.
    """
    since = now - now % HOUR + HOUR - ceil(window / HOUR) * HOUR
    calls: dict[str, dict[int, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
    with store.read() as tx:
        for prefix, names in (
            (sampling.CALLS, sampling.OUTCOMES),
            (sampling.TOOK, sampling.BOUNDS),
        ):
            for name in names:
                for at, connector, value in samples.since(tx, prefix + name, since):
                    calls[connector][at][prefix + name] = value
    hours = range(since, now + 1, HOUR)
    found = []
    for connector, by_hour in sorted(calls.items()):
        whole: dict[str, int] = defaultdict(int)
        for of in by_hour.values():
            for measure, value in of.items():
                whole[measure] += value
        found.append(
            ConnectorCalls(
                connector,
                [_call_hour(at, by_hour.get(at, {})) for at in hours],
                _call_hour(since, whole),
            )
        )
    return found


def calls_of(store: Store, now: int, connector: str) -> ConnectorCalls:
    """Return latency and outcomes of calls to one connector, of the last day by hour."""
    for found in connector_calls(store, now):
        if found.connector == connector:
            return found
    none = CallHour(now - now % HOUR, {}, None, None)
    return ConnectorCalls(connector, [none], none)


def _call_hour(at: int, of: Mapping[str, int]) -> CallHour:
    calls = {name: of.get(sampling.CALLS + name, 0) for name in sampling.OUTCOMES}
    below = [of.get(sampling.TOOK + bound, 0) for bound in sampling.BOUNDS]
    return CallHour(at, calls, _quantile(below, 0.5), _quantile(below, 0.95))


def _quantile(below: Sequence[int], share: float) -> float | None:
    """Estimate a quantile from counts of calls below bounds, as Prometheus does."""
    total = below[-1]
    if not total:
        return None
    bounds = [float(bound) for bound in sampling.BOUNDS[:-1]]
    wanted, lower, before = share * total, 0.0, 0
    for bound, count in zip(bounds, below, strict=False):
        if count >= wanted:
            return lower + (bound - lower) * (wanted - before) / (count - before)
        lower, before = bound, count
    return bounds[-1]


@dataclass(frozen=True)
class Waiting:
    """Messages that wait for connectors: how many now, and the age of the oldest.

    Attributes
    ----------
    at : int
    now : Mapping of str to (int, int)
        By connector: messages, and seconds that the oldest waits.
    ages : Mapping of str to sequence of (int, int)
        By connector: moments, and seconds that the oldest waited then.
    """

    at: int
    now: Mapping[str, tuple[int, int]]
    ages: Mapping[str, Sequence[tuple[int, int]]]


def waiting(store: Store, now: int, *, window: int = DAY) -> Waiting:
    """Return what waits for connectors, and how old the oldest was over time.

    A moment at which nothing waited has an age of 0.
    """
    with store.read() as tx:
        rows = statistics.waiting(tx)
        known = samples.since(tx, sampling.OLDEST, now - window)
        moments = [at for at, _, _ in samples.since(tx, sampling.LINES, now - window)]
    ages: dict[str, dict[int, int]] = {
        name: dict.fromkeys(moments, 0)
        for name in sorted({name for _, name, _ in known} | {r.connector for r in rows})
    }
    for at, name, age in known:
        ages[name][at] = age
    current = {
        row.connector: (int(row.messages), max(0, now - row.oldest) // SECOND)
        for row in rows
    }
    for name, of in ages.items():
        of[now] = current.get(name, (0, 0))[1]
    return Waiting(
        now, current, {name: sorted(of.items()) for name, of in ages.items()}
    )


@dataclass(frozen=True)
class Failing:
    """Messages of one connector with one last error, which has no value in it.

    Attributes
    ----------
    connector, error : str
    retried, dead : int
        Messages that are tried again, and that were given up.
    tries : int
        Of all of them together.
    """

    connector: str
    error: str
    retried: int
    dead: int
    tries: int


def failing(store: Store) -> list[Failing]:
    """Return what is tried again or was given up, by connector and last error."""
    with store.read() as tx:
        rows = statistics.failing(tx)
    return [
        Failing(
            row.connector,
            row.error or "no reason given",
            int(row.retried),
            int(row.dead),
            int(row.tries or 0),
        )
        for row in rows
    ]


@dataclass(frozen=True)
class Growth:
    """Lines of the ledger and bytes of the store, over time: moments and numbers."""

    lines: Sequence[tuple[int, int]]
    size: Sequence[tuple[int, int]]


def growth(store: Store, *, since: int) -> Growth:
    """Return how the ledger and the store have grown since a moment."""
    with store.read() as tx:
        lines, size = (
            [(at, value) for at, _, value in samples.since(tx, measure, since)]
            for measure in (sampling.LINES, sampling.BYTES)
        )
    return Growth(lines, size)


__all__ = [
    "DAY",
    "HOUR",
    "PERIOD",
    "SECOND",
    "AnswerRate",
    "BurnDown",
    "CallHour",
    "ConnectorCalls",
    "Coverage",
    "Duration",
    "End",
    "Exposed",
    "ExposureMap",
    "Failing",
    "FieldCount",
    "Growth",
    "Waiting",
    "answer_rate",
    "burn_down",
    "calls_of",
    "connector_calls",
    "coverage",
    "durations",
    "exposure_map",
    "failing",
    "growth",
    "nearness_key",
    "waiting",
]
