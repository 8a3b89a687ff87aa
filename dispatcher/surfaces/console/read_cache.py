"""What the pages show, read from the store and remembered for a moment.

Several browsers that look at once, each again and again, cost the store one look.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Any, Final, TypeVar, cast

from dispatcher.ledger.active_policy import ActivePolicy, asked_fields, current_policy
from dispatcher.ledger.limit_usage import (
    LimitUsage,
    LimitUsages,
    UsageByRule,
    nearest_units,
)
from dispatcher.operations import figures, totals
from dispatcher.operations.agreement import Agreement, agreement
from dispatcher.operations.figures import DAY
from dispatcher.operations.pictures import Picture, in_force
from dispatcher.operations.rules import RuleSets, show
from dispatcher.operations.runs import RunProgress, progress
from dispatcher.operations.status import Status, status
from dispatcher.preflight import Preflight
from dispatcher.store import (
    Clock,
    Store,
    exposure_queries,
    outbox,
    record_states,
    settings,
    statistics,
)
from dispatcher.store.statistics import (
    ListedRecord,
    MemberRow,
    MessageTotal,
    SealRow,
)
from dispatcher.surfaces import charts
from dispatcher.surfaces.charts.plot import Chart
from dispatcher.surfaces.console.tables import Row
from policies.rules.kinds import title

Read = TypeVar("Read")

SECOND: Final = 1_000_000
COSTLY: Final = 10
"""What grows with the store is kept so many times longer."""

RARELY: Final = 1_800
"""What takes a search is kept so many times longer."""
SEEN: Final = 500
"""Fields that a worker saw last, of which a page tells."""
PICTURE_SECONDS: Final = 20.0
"""Of search for a picture, at most."""


PAST: Final = 2 * DAY
"""So far back the burn-down begins; the growth of the ledger ten times as far."""

CHARTS: Final[Mapping[str, Callable[[Store, int, LimitUsages], Chart]]] = {
    "answers": lambda store, now, _: charts.answers(figures.answer_rate(store, now)),
    "burn-down": lambda store, now, _: charts.burn_down(
        figures.burn_down(store, since=now - PAST)
    ),
    "coverage": lambda store, _, __: charts.coverage(figures.coverage(store)),
    "agreement": lambda store, _, __: charts.agreement(figures.coverage(store)),
    "times": lambda store, _, __: charts.times(figures.durations(store)),
    "exposure": lambda store, _, near: charts.exposure(
        figures.exposure_map(store, near)
    ),
    "nearness": lambda store, _, near: charts.nearness(
        figures.exposure_map(store, near)
    ),
    "calls": lambda store, now, _: charts.calls(figures.connector_calls(store, now)),
    "waiting": lambda store, now, _: charts.waiting(figures.waiting(store, now)),
    "retries": lambda store, _, __: charts.retries(figures.failing(store)),
    "growth": lambda store, now, _: charts.growth(
        figures.growth(store, since=now - 10 * PAST)
    ),
}
"""What a template draws with ``{{ chart("answers") }}``."""

CONNECTOR_CHARTS: Final = {"latency": charts.latency, "errors": charts.errors}
"""What it draws with ``{{ chart("latency", connector) }}``."""


@dataclass(frozen=True)
class Limit:
    """One rule, over all adversaries.

    Attributes
    ----------
    name, scope, kind : str
    fields : tuple of str
    tau : Fraction or None
    f : Fraction
        Largest disclosure to anybody.
    share : float or None
        The largest f / tau, 0 where nothing is held; None for a rule over links of
        people, which the gate judges when it is asked.
    judged : int
        Pairs of an adversary and a record (or subject) of which it holds something.
    adversaries : int
        Those among the pairs.
    at_worst : int
        Those that came that near.
    left : int or None
        Fewest fields left to a refusal of anybody, in any record or subject; None where
        none is to be refused.
    nearest : int
        Pairs that are that near.
    crossed : int
        Those at or past the limit.
    """

    name: str
    scope: str
    kind: str
    fields: tuple[str, ...]
    tau: Fraction | None
    f: Fraction
    share: float | None
    judged: int
    adversaries: int
    at_worst: int
    left: int | None
    nearest: int
    crossed: int


@dataclass(frozen=True)
class Sealed:
    """The ledger: its size, its last seals, and when it was last verified."""

    chains: int
    lines: int
    unsealed: int
    seals: Sequence[SealRow]
    verified_at: int | None


class ReadCache:
    """What was read from a store, kept for a moment; safe to use from several threads."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        nearness: LimitUsages,
        *,
        stale: float,
        preflight: Preflight | None = None,
    ) -> None:
        self._store = store
        self._preflight = preflight
        self._clock = clock
        self._nearness = nearness
        self._stale = stale
        self._locks: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self._known: dict[str, tuple[int, Any]] = {}

    def status(self) -> Status:
        """Return what ``dispatcher status`` says."""

        def make() -> Status:
            return status(self._store, self._clock(), self._preflight, exact=False)

        return self._fresh("status", make)

    def limits(self) -> list[Limit]:
        """Return every rule of the policy in force, the nearest first."""

        def make() -> list[Limit]:
            with self._store.read() as tx:
                force = current_policy(tx)
                near = self._nearness.look(tx)
            if force is None:
                return []
            names = (*force.rules.all, *force.rules.links)
            found = [_limit(force, name, near) for name in names]
            return sorted(found, key=lambda limit: (*_order([limit]), limit.name))

        return self._fresh("limits", make)

    def backup_made(self) -> int | None:
        """When the last backup was made."""
        with self._store.read() as tx:
            return settings.moment(tx, settings.BACKUP_MADE)

    def sets_of(self, rule: str) -> RuleSets:
        """Return the sets of a rule that are nearest to its limit."""
        with self._store.read() as tx:
            force = current_policy(tx)
        if force is None or rule not in force.policy.properties:
            return show(self._store, self._nearness, rule)  # says why

        def make() -> RuleSets:
            return show(self._store, self._nearness, rule)

        return self._fresh(f"sets {rule}", make, COSTLY)

    def runs(self) -> Sequence[RunProgress]:
        """How far every run is."""

        def make() -> Sequence[RunProgress]:
            return progress(self._store, exact=False)

        return self._fresh("runs", make, COSTLY)

    def picture(self) -> tuple[int, Picture] | None:
        """Return what one stranger could know under the policy in force, and since when.

        It is drawn again for another policy, and once in a while for other records.
        """
        with self._store.read() as tx:
            force = current_policy(tx)
        if force is None:
            return None

        def make() -> tuple[int, Picture]:
            return self._clock(), in_force(self._store, seconds=PICTURE_SECONDS)

        return self._fresh(f"picture {force.version}", make, RARELY)

    def accounts(self) -> dict[str, int]:
        """How many accounts are in each state."""

        def make() -> dict[str, int]:
            with self._store.read() as tx:
                return statistics.states(tx, "account")

        return self._fresh("accounts", make)

    def workers(self) -> Sequence[Row]:
        """Every worker, the nearest to any limit first; the rules by their names."""

        def make() -> Sequence[Row]:
            with self._store.read() as tx:
                near = self._nearness.look(tx)
                every = statistics.adversaries(tx)
                members: dict[int, list[MemberRow]] = defaultdict(list)
                for row in statistics.members(tx, every):
                    members[row.adversary_id].append(row)
            every.sort(
                key=lambda number: (*_order(near.get(number, {}).values()), number)
            )
            return [
                _worker(number, members[number], near.get(number, {}))
                for number in every
            ]

        return self._fresh("workers", make)

    def showings(self, adversaries: Sequence[int]) -> dict[int, int]:
        """How often something was shown to each of these."""
        with self._store.read() as tx:
            return statistics.exposures(tx, adversaries)

    def seen_by(self, adversary: int) -> Sequence[Row]:
        """What one worker saw last."""
        with self._store.read() as tx:
            found = exposure_queries.latest_of(tx, adversary, SEEN)
        return [
            {"at": row.at, "record": row.pseudonym, "field": row.field,
             "account": row.account, "cause": row.cause}
            for row in found
        ]  # fmt: skip

    def waiting(self) -> Sequence[MessageTotal]:
        """Messages by connector and state."""

        def make() -> Sequence[MessageTotal]:
            with self._store.read() as tx:
                kept = totals.kept(tx)
                if kept is None:
                    return statistics.messages(tx)
                found = statistics.pending_messages(tx)
            known = {(row.connector, row.state) for row in found}
            found += [
                MessageTotal(*key, number, None)
                for key, number in kept.messages.items()
                if key not in known
            ]
            return sorted(found)

        return self._fresh("waiting", make)

    def messages(
        self, state: str, connector: str | None, after: int, limit: int
    ) -> Sequence[Row]:
        """Messages in a state, behind one."""
        with self._store.read() as tx:
            found = outbox.messages_of(tx, state, connector, after, limit)
        # when a message that waits for nothing more is due says nothing
        waits = state in ("ready", "leased")
        return [
            {**row._mapping, "due": row.due if waits else None}  # noqa: SLF001
            for row in found
        ]

    def record_states(self) -> Mapping[str, int]:
        """How many records are in each state."""

        def make() -> Mapping[str, int]:
            with self._store.read() as tx:
                kept = totals.kept(tx)
                return (
                    kept.records
                    if kept
                    else statistics.record_states(tx, asked_fields(tx))
                )

        return self._fresh("record-states", make, COSTLY)

    def field_states(self) -> dict[str, int]:
        """How many fields are in each state; burnt ones are open or in conflict too."""
        found = self.status()
        return {**found.fields, "burnt": sum(found.burnt.values())}

    def conflicts(self) -> int:
        """How many fields are in conflict."""
        return self.status().fields.get("conflict", 0)

    def records(self, after: int, state: str | None, limit: int) -> list[ListedRecord]:
        """Records after one, in order of loading."""
        with self._store.read() as tx:
            asked, found, up_to = asked_fields(tx), [], 0
            if state == "open":
                known, up_to = totals.listed(tx, "records", after)
                found = [
                    one
                    for one in statistics.records_of(tx, asked, known)
                    if one.state == state
                ]
            if len(found) < limit:
                begin, rest = max(after, up_to), limit - len(found)
                found += statistics.records(tx, asked, begin, state, rest)
        return found[:limit]

    def record_id(self, pseudonym: str) -> int | None:
        """Return the number of the record that the ledger calls so."""
        with self._store.read() as tx:
            return record_states.record_named(tx, pseudonym)

    def entries_of(self, pseudonym: str, fields: Sequence[str]) -> dict[int, str]:
        """Numbers of entries of a record, with their fields."""
        with self._store.read() as tx:
            found = {
                record_states.entry_named(tx, pseudonym, name): name for name in fields
            }
        return {number: name for number, name in found.items() if number is not None}

    def ledger(self, limit: int) -> Sealed:
        """Return the state of the ledger with its last seals."""

        def make() -> Sealed:
            with self._store.read() as tx:
                return Sealed(
                    *statistics.lines(tx),
                    statistics.seals(tx, limit),
                    settings.moment(tx, settings.LEDGER_VERIFIED),
                )

        return self._fresh("ledger", make)

    def chart(self, name: str, connector: str = "") -> Chart:
        """Return one of :data:`CHARTS`, or of :data:`CONNECTOR_CHARTS`."""

        def make() -> Chart:
            if connector:
                found = figures.calls_of(self._store, self._clock(), connector)
                return CONNECTOR_CHARTS[name](found)
            return CHARTS[name](self._store, self._clock(), self._nearness)

        return self._fresh(f"chart {name} {connector}", make)

    def agreement(self) -> Agreement:
        """Return how far workers agree."""
        return self._fresh("agreement", lambda: agreement(self._store), COSTLY)

    def forget(self) -> None:
        """Read all anew: somebody acted here, and looks at what came of it."""
        self._known.clear()

    def _fresh(self, name: str, make: Callable[[], Read], times: int = 1) -> Read:
        with self._locks[name]:
            now = self._clock()
            at, known = self._known.get(name, (0, None))
            if not at or not at <= now < at + self._stale * times * SECOND:
                known = make()
                self._known[name] = (now, known)
        return cast(Read, known)


def _worker(number: int, members: Sequence[MemberRow], near: UsageByRule) -> Row:
    """One row of the heat map; ``near`` has what is left to each rule's refusal."""
    states = {one.state for one in members}
    return {
        "id": number,
        "worker": f"a{number}",
        "accounts": [one.account for one in members],
        "state": "active" if "active" in states else min(states, default="none"),
        "states": {one.account: one.state for one in members},
        "left": nearest_units(list(near.values()))[0],
        "groups": sorted({group for one in members for group in one.groups}),
        "near": near,
        **{name: float(one.share) for name, one in near.items()},
    }


def _order(
    found: Collection[LimitUsage | Limit],
) -> tuple[int | float, Fraction | float]:
    """Fewest fields left, then the largest share of a limit: what sorts first is nearest."""
    left = [one.left for one in found if one.left is not None]
    shares = [one.share or 0 for one in found if one.tau is not None]
    return min(left, default=inf), -max(shares, default=0)


def _limit(force: ActivePolicy, name: str, near: Mapping[int, UsageByRule]) -> Limit:
    prop = force.policy.properties[name]
    found = [shares[name] for shares in near.values() if name in shares]
    best = max((one.f for one in found), default=Fraction(0))
    left, nearest = nearest_units(found)
    return Limit(
        name=name,
        scope=prop.scope.value,
        kind=title(prop.disclosure),
        fields=tuple(sorted(prop.fields)),
        tau=prop.tau,
        f=best,
        share=None if name in force.rules.links else float(best / (prop.tau or 1)),
        judged=sum(one.units for one in found),
        adversaries=len(found),
        at_worst=sum(one.f == best for one in found) if best else 0,
        left=left,
        nearest=nearest,
        crossed=sum(_crossed(one) for one in found),
    )


def _crossed(near: LimitUsage) -> bool:
    return near.tau is not None and near.f >= near.tau
