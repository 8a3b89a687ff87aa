"""The state of the work in numbers, and what only the operator can fix."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dispatcher.core.plurals import count
from dispatcher.core.processes import describe_process
from dispatcher.ledger.active_policy import showings
from dispatcher.ledger.limit_usage import LimitUsages, nearest_units
from dispatcher.model import LIVE_TASK_STATES
from dispatcher.operations import totals
from dispatcher.operations.runs import RunBudget, budgets_in
from dispatcher.preflight import Clearance, Obstacle, Preflight
from dispatcher.store import (
    Store,
    Tx,
    arrivals,
    lease,
    payables,
    pilots,
    planning,
    settings,
    statistics,
    worker_quality,
)
from dispatcher.store import pause as pauses
from dispatcher.store import policies as policy_rows
from dispatcher.store.settings import SafeWorkers, TickFailure
from dispatcher.store.statistics import ConnectorRow, DownRow, HeldRow
from policies.document.diagnostic import listed

MINUTE: Final = 60_000_000
JUDGED: Final = 2_000_000
"""Showings that ``status`` judges: about 1.5 s of CPU a million. How near the
limits are beyond that, the console and the metrics show: they judge what has grown."""
NAMED: Final = 8
"""Names that a sentence lists; ``--json`` has all."""
PLANNING: Final = "planning"
_NUMBER: Final = re.compile(r"\d+")
LATE: Final = 10
"""Minutes that a message may wait before somebody should look."""


@dataclass(frozen=True)
class WaitingPilot:
    """A run with a pilot: records that were let go, and those that wait."""

    run: str
    let_go: int
    waiting: int


@dataclass(frozen=True)
class LimitsNow:
    """How near anybody came to any limit, by what the ledger says was shown.

    Attributes
    ----------
    crossed : tuple of str
        Rules whose limit is reached.
    worst : NearestLimit
        The largest share of a limit.
    left : int or None
        Fewest fields left to a refusal; None where none is to be refused.
    rule : str
        Of which rule.
    units : int
        Pairs of a worker and a record (or person) that are that near.
    """

    crossed: tuple[str, ...]
    worst: NearestLimit
    left: int | None
    rule: str
    units: int


@dataclass(frozen=True)
class PauseNow:
    """Why something is paused, and since when."""

    reason: str
    since: int


@dataclass(frozen=True)
class NearestLimit:
    """The rule whose limit is nearest: its worst f, its limit, and f / tau."""

    rule: str
    f: str
    limit: str
    share: float


@dataclass(frozen=True)
class PlanInForce:
    """What matters of the applied plan; what was shown is the ledger's to tell.

    Attributes
    ----------
    plan : int
    pairs : int
        Showings that it means still.
    planned_worst : NearestLimit or None
        Its nearest limit, once all was shown that it meant when it was made.
    planned_complete : int
        Sets that it would complete, or that were complete before.
    gap : float or None
        By how much of its proven bound it could be better, at most, in 0..1; None: it
        was made before this was kept.
    outdated : bool
        A merge took showings out of it, and nothing was planned since.
    moves : int
        Showings that it moved to other workers when it replaced the plan before.
    """

    plan: int
    pairs: int
    planned_worst: NearestLimit | None
    planned_complete: int
    gap: float | None
    outdated: bool
    moves: int


@dataclass(frozen=True)
class Status:
    """The numbers of one snapshot.

    Attributes
    ----------
    at : int
        Moment of the snapshot.
    policy_version, epoch : int
        0: none.
    leader : str or None
        Host and pid of the daemon that leads.
    servers : list of str
        Host and pid of those that serve beside it, and what they serve.
    counts : Mapping of str to int
        Records, entries, accounts, adversaries, and those of them that are ``feeds``,
        exposures, answers, quarantined ones.
    asked : int
        Fields of the records that the policy asks or, where there is a feed, publishes.
    tasks, outbox, results, workers, payments : Mapping of str to int
        How many are in each state; a field without an answer is in no state. ``results``
        counts the fields of ``asked``.
    connectors : sequence of ConnectorRow
    pilots : sequence of WaitingPilot
    gold_left : Mapping of str to int
        Made-up questions left, by field.
    oldest_waiting_minutes : int
    sealed_minutes_ago : int or None
        None: nothing was sealed yet.
    paused : Mapping of str to PauseNow
        By scope.
    down : sequence of DownRow
        Connectors that fail again and again.
    budgets : sequence of RunBudget
    suspects : int
        Pairs of accounts that may be one person: they arrived with one browser.
    waiting_for_money : int
        Messages that wait for a budget.
    refused : sequence of Obstacle
        What cannot be sent.
    held_back : sequence of HeldRow
    burnt : Mapping of str to int
        Fields that were shown t times without enough answers, by name.
    plan : PlanInForce or None
    safe_workers : SafeWorkers or None
        How many workers must stay active, as of the last planning; None before it.
    limits : LimitsNow or None
        None where no rule judges anything that was shown, nobody looked, or too much
        was shown (:attr:`is_beyond_judging`).
    failing : Mapping of str to TickFailure
        What the daemon that leads tries again and again, by tick.
    planning_since : int or None
        Since when the daemon that leads makes a plan; None: it does not.
    counted_at : int or None
        Of a large store, when the daemon counted its tasks, fields, records and answers;
        None: just now.
    """

    at: int
    policy_version: int
    leader: str | None
    servers: list[str]
    epoch: int
    counts: Mapping[str, int]
    asked: int
    tasks: Mapping[str, int]
    connectors: Sequence[ConnectorRow]
    outbox: Mapping[str, int]
    results: Mapping[str, int]
    workers: Mapping[str, int]
    pilots: Sequence[WaitingPilot]
    gold_left: Mapping[str, int]
    oldest_waiting_minutes: int
    sealed_minutes_ago: int | None
    paused: Mapping[str, PauseNow]
    down: Sequence[DownRow]
    budgets: Sequence[RunBudget]
    payments: Mapping[str, int]
    waiting_for_money: int
    suspects: int
    refused: Sequence[Obstacle]
    held_back: Sequence[HeldRow]
    burnt: Mapping[str, int]
    plan: PlanInForce | None
    safe_workers: SafeWorkers | None
    limits: LimitsNow | None
    failing: Mapping[str, TickFailure]
    planning_since: int | None
    counted_at: int | None

    @property
    def is_beyond_judging(self) -> bool:
        """Whether so much was shown that a look at the limits would take too long."""
        return self.counts.get("exposures", 0) > JUDGED

    @property
    def fields(self) -> dict[str, int]:
        """Fields asked or published, by state; those without an answer are open."""
        found = {**self.results, "open": 0}
        found["open"] = max(0, self.asked - sum(found.values()))
        return found

    @property
    def held(self) -> int:
        """Fields that the plan holds back."""
        return sum(one.entries for one in self.held_back)

    @property
    def placed(self) -> int:
        """Open fields that are planned or under way: neither held back nor burnt."""
        return max(0, self.fields["open"] - self.held - sum(self.burnt.values()))

    @property
    def is_safe_by_plan(self) -> bool:
        """Whether the plan in force, with what is under way, places every open field.

        Not where workers choose what they are shown: they may leave the plan.
        """
        if self.safe_workers is not None and self.safe_workers.choosing:
            return False
        if self.plan is None or self.plan.outdated or self.held_back or self.burnt:
            return False
        under_way = sum(self.tasks.get(state, 0) for state in LIVE_TASK_STATES)
        return self.plan.pairs + under_way >= self.fields["open"]

    @property
    def needs_you(self) -> list[str]:
        """Sentences about what only the operator can fix, each with its command."""
        said: list[str] = []
        if not self.policy_version:
            said.append("no policy is in force: dispatcher policy apply")
        if not self.leader:
            said.append("no daemon runs: dispatcher up")
        said += [str(one) for one in self.refused]
        said += [
            f"the daemon cannot do its {name} ({failure.code}), "
            f"{(self.at - failure.since) // MINUTE} min by now: "
            + ("dispatcher plan --dry-run" if name == PLANNING else "dispatcher doctor")
            for name, failure in self.failing.items()
        ]
        said += self._about_fields()
        said += self._about_messages()
        said += self._about_answers()
        said += self._about_money()
        named = {f"connector:{one.connector}" for one in self.refused}
        said += [
            f"{scope} is paused: {pause.reason}, {(self.at - pause.since) // MINUTE} "
            f"min by now: dispatcher resume {_resumed(scope)}"
            for scope, pause in self.paused.items()
            if scope not in named
        ]
        safe = self.safe_workers
        if safe is not None and safe.short and not self.is_safe_by_plan:
            said.append(
                f"{safe.field} may be left without a worker who may see it: safe to go "
                f"on with at least {count(safe.needed or 0, 'active worker')}, and "
                f"there {'is' if safe.present == 1 else 'are'} {safe.present:,}: "
                "dispatcher workers add CONNECTOR/NAME"
            )
        return said

    def _about_fields(self) -> list[str]:
        said = [
            f"{count(sum(held.entries for held in alike), 'field is', 'fields are')} held "
            f"back ({_named(_fields_of(alike))}): {_reason(alike)}; for one field: "
            "dispatcher explain RECORD.FIELD, for all: dispatcher plan --dry-run"
            for alike in _grouped_by_reason(self.held_back)
        ]
        if self.burnt:
            total = sum(self.burnt.values())
            names = _named(self.burnt)
            said.append(
                f"{count(total, 'field is', 'fields are')} burnt, shown t times without "
                f"enough answers ({names}): dispatcher fields list --burnt"
            )
        return said

    def _about_messages(self) -> list[str]:
        said = [
            f"connector {one.connector} is down, the others are not affected: "
            f"{count(one.messages, 'message waits', 'messages wait')} "
            f"({one.error or 'no reason given'}): "
            f"dispatcher connectors test {one.connector}"
            for one in self.down
        ]
        if self.outbox.get("dead"):
            said.append(
                f"{count(self.outbox['dead'], 'message was', 'messages were')} "
                "given up: dispatcher queue list --state dead"
            )
        if self.oldest_waiting_minutes >= LATE:
            said.append(
                f"a message waits for {self.oldest_waiting_minutes} min: "
                "dispatcher queue list --state ready"
            )
        return said

    def _about_answers(self) -> list[str]:
        said: list[str] = []
        if strange := self.counts["quarantined"]:
            said.append(
                f"{count(strange, 'answer was', 'answers were')} refused: "
                "dispatcher answers list"
            )
        if conflicts := self.results.get("conflict", 0):
            said.append(
                f"{count(conflicts, 'field is', 'fields are')} in "
                "conflict: dispatcher answers conflicts"
            )
        if stopped := self.workers.get("stopped", 0):
            said.append(
                f"{count(stopped, 'worker is', 'workers are')} below the accuracy floor "
                "and given nothing new: "
                "dispatcher workers list, then: dispatcher workers show ACCOUNT"
            )
        if self.suspects:
            said.append(
                f"{count(self.suspects, 'pair', 'pairs')} of accounts arrived with one "
                "browser and may be one person: dispatcher workers suspects"
            )
        said += [
            f"the made-up questions of {name} are used up: "
            f"dispatcher questions add {name} FILE --purpose gold"
            for name, left in self.gold_left.items()
            if not left
        ]
        said += [
            f"run {one.run} has a pilot, "
            f"{count(one.waiting, 'record waits', 'records wait')}: "
            f"dispatcher runs show {one.run}, then: "
            f"dispatcher runs accept {one.run}"
            for one in self.pilots
        ]
        return said

    def _about_money(self) -> list[str]:
        said = [
            f"the budget of run {one.run} is used up, and nothing new is begun: "
            f"dispatcher runs budget {one.run} --cap AMOUNT"
            for one in self.budgets
            if one.used_up == "cap"
        ]
        if self.waiting_for_money:
            waits = count(self.waiting_for_money, "message waits", "messages wait")
            said.append(f"{waits} for money: dispatcher runs list")
        undecided = sum(self.payments.get(state, 0) for state in ("held", "unknown"))
        if undecided:
            waits = count(undecided, "payment waits", "payments wait")
            said.append(f"{waits} for your decision: dispatcher payments list")
        return said


def status(
    store: Store,
    now: int,
    preflight: Preflight | None = None,
    usages: LimitUsages | None = None,
    *,
    exact: bool = True,
) -> Status:
    """Read the numbers of one snapshot.

    Parameters
    ----------
    store : Store
    now : int
        Microseconds UTC.
    preflight : Preflight, optional
        Finds what cannot be sent.
    usages : LimitUsages, optional
        Judges what was shown, up to :data:`JUDGED` showings.
    exact : bool
        Count a large store too; else what the daemon counted last.
    """
    with store.read() as tx:
        leader = lease.holder(tx, lease.SHARD)
        seal = statistics.last_seal(tx)
        oldest = statistics.oldest_waiting(tx)
        leads = leader is not None and leader.leased_until > now
        version = policy_rows.version_in_force(tx)
        counts = statistics.counts(tx)
        epoch = leader.epoch if leader else 0
        looked = usages if counts["exposures"] <= JUDGED else None
        clear = preflight.look(tx) if preflight is not None else Clearance()
        counted = totals.look(tx, clear.feeds, exact=exact)
        return Status(
            at=now,
            policy_version=version,
            leader=describe_process(leader.holder) if leader and leads else None,
            servers=[
                f"{describe_process(one.holder)} ({one.serves})"
                for one in lease.servers(tx)
            ],
            epoch=epoch,
            counts={
                **counted.rows,
                **counts,
                "feeds": statistics.only_at(tx, clear.feeds),
            },
            asked=counted.asked,
            tasks=_by_state(counted.tasks),
            connectors=statistics.connectors(tx, counted.tasks, now),
            outbox=_by_state(counted.messages),
            results=counted.results,
            workers=statistics.states(tx, "account"),
            pilots=_pilots(tx),
            gold_left=worker_quality.gold_left(tx, showings(tx)),
            oldest_waiting_minutes=(now - oldest) // MINUTE if oldest else 0,
            sealed_minutes_ago=(now - seal[1]) // MINUTE if seal else None,
            paused={
                scope: PauseNow(one.reason, one.at)
                for scope, one in pauses.paused(tx).items()
            },
            down=statistics.down(tx),
            budgets=budgets_in(tx, now),
            payments=payables.counts(tx),
            waiting_for_money=payables.waiting_messages(tx, now),
            suspects=arrivals.count_suspects(tx),
            refused=clear.obstacles,
            held_back=statistics.held_back(tx),
            burnt=counted.burnt,
            plan=_plan(tx, version),
            safe_workers=settings.safe_workers(tx),
            limits=None if looked is None else _limits(tx, looked),
            failing=settings.failing_ticks(tx) if leads else {},
            planning_since=settings.planning_since(tx, epoch) if leads else None,
            counted_at=counted.counted_at,
        )


def repeated(preflight: Preflight) -> Callable[[Store, int], Status]:
    """Return :func:`status` for looks in a row, with how near limits are.

    Only workers who were shown something since the look before are judged again.
    """
    usages = LimitUsages()
    return lambda store, now: status(store, now, preflight, usages)


def _resumed(scope: str) -> str:
    """Options of ``dispatcher resume`` that end the pause of a scope."""
    kind, _, name = scope.partition(":")
    return f"--{kind} {name}".rstrip()


def _pilots(tx: Tx) -> list[WaitingPilot]:
    return [
        WaitingPilot(one.name, one.opened, pilots.waiting(tx, one.run_id))
        for one in pilots.under_way(tx)
    ]


def _by_state(counted: Mapping[tuple[str, str], int]) -> dict[str, int]:
    found = Counter[str]()
    for (_, state), number in counted.items():
        found[state] += number
    return dict(sorted(found.items()))


def _limits(tx: Tx, usages: LimitUsages) -> LimitsNow | None:
    found = [
        (name, usage)
        for by_rule in usages.look(tx).values()
        for name, usage in by_rule.items()
        if usage.tau is not None
    ]
    if not found:
        return None
    rule, usage = max(found, key=lambda one: one[1].share)
    left, _ = nearest_units([one for _, one in found])
    near = Counter[str]()
    for name, one in found:
        near[name] += one.nearest * (one.left == left)
    nearest, units = near.most_common(1)[0]
    return LimitsNow(
        tuple(sorted({name for name, one in found if one.share >= 1})),
        NearestLimit(rule, str(usage.f), str(usage.tau), round(float(usage.share), 4)),
        left,
        nearest,
        units,
    )


def _plan(tx: Tx, version: int) -> PlanInForce | None:
    """The newest plan that was applied under the policy version in force."""
    rows = planning.plans(tx)
    for row in rows:
        if row.state == "applied" and row.policy_version == version:
            numbers = json.loads(row.summary)
            worst, last = numbers["worst"], json.loads(rows[0].summary)
            return PlanInForce(
                row.id,
                planning.showings(tx, version),
                NearestLimit(**worst) if worst else None,
                numbers["complete"],
                numbers.get("gap"),
                bool(row.refused) and last.get("joins") != planning.joins(tx),
                numbers.get("moves", 0),
            )
    return None


def _grouped_by_reason(rows: Sequence[HeldRow]) -> list[list[HeldRow]]:
    """Group reasons that differ in their numbers, records and rules only."""
    found: dict[str, list[HeldRow]] = {}
    for row in rows:
        lead = row.reason.partition(": ")[0]
        found.setdefault(_NUMBER.sub("", lead).replace("workers", "worker"), []).append(
            row
        )
    return list(found.values())


def _reason(alike: Sequence[HeldRow]) -> str:
    """Say the reason of most fields, and how many others there are like it."""
    more = len(alike) - 1
    others = f", and {count(more, 'reason')} like it" if more else ""
    return alike[0].reason + others


def _fields_of(alike: Iterable[HeldRow]) -> Mapping[str, int]:
    found = Counter[str]()
    for row in alike:
        found.update(row.fields)
    return dict(found.most_common())


def _named(counts: Mapping[str, int]) -> str:
    """Say how many there are of each name, of the first few names."""
    return listed([f"{name} {n:,}" for name, n in counts.items()], NAMED)
