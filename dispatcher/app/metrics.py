"""The admin address: liveness, readiness, and metrics counted from the tables.

Labels are connectors, states, kinds, properties, routes and codes. None names a worker,
a record or a subject: such a label would be personal data in a place that keeps it for
years without access control.
"""

from __future__ import annotations

import json
import platform
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from fractions import Fraction
from importlib.metadata import version
from typing import Any, Final, Protocol

from prometheus_client import (
    CollectorRegistry,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dispatcher.app.guard import Guard
from dispatcher.core import meters
from dispatcher.core.errors import DispatcherError
from dispatcher.ledger import comparison, exhausted_fields
from dispatcher.ledger.active_policy import current_policy
from dispatcher.ledger.limit_usage import LimitUsage, LimitUsages, nearest_units
from dispatcher.ledger.lines import adversary_name
from dispatcher.model import UNIT
from dispatcher.store import (
    Clock,
    Store,
    erasure,
    lease,
    migrations,
    settings,
    statistics,
    worker_quality,
)
from dispatcher.store import money as budget_rows
from dispatcher.store import policies as policy_rows
from dispatcher.store.transaction import Tx

PREFIX: Final = "dispatcher_"
SECOND: Final = 1_000_000
REST: Final = 10.0
"""Seconds between two counts, and the minimum as a multiple of a count's duration."""

CAUSES: Final = {"member": "membership", "join": "merge", "policy": "policy"}
"""Kinds of ledger lines that accept what they put past a limit, as people call them."""


class StageMeters(Collector):
    """Exports the meters of the stages.

    Parameters
    ----------
    webhooks : frozenset of str
        Names of the connectors that are webhooks.
    """

    def __init__(self, webhooks: frozenset[str] = frozenset()) -> None:
        self._webhooks = webhooks

    def collect(self) -> Iterator[Metric]:
        """Yield all counts and durations since the start of the process."""
        for meter in meters.METERS:
            yield from meter.collect()
        outcomes: Counter[str] = Counter()
        for family in meters.CALL_COUNT.collect():
            for sample in family.samples:
                mine = sample.labels["connector"] in self._webhooks
                if mine and sample.name.endswith("_total"):
                    outcomes[sample.labels["code"]] += int(sample.value)
        found = CounterMetricFamily(
            PREFIX + "webhook_deliveries", "Calls to webhooks.", labels=("outcome",)
        )
        for outcome, number in sorted(outcomes.items()):
            found.add_metric([outcome], number)
        yield found


class Timing:
    """Histogram of requests, labelled by route, not by the values in its path."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._histogram = Histogram(
            PREFIX + "http_request_duration_seconds",
            "Time from a request to the start of its answer.",
            ("route", "method", "code"),
            registry=registry,
            buckets=(0.005, 0.02, 0.1, 0.5, 1, 2.5, 10),
        )

    def note(self, route: str, method: str, code: int, seconds: float) -> None:
        """Record one request."""
        known = method if method in ("GET", "HEAD", "POST") else "other"
        self._histogram.labels(route, known, str(code)).observe(seconds)


class Timed:
    """Times the requests of an application, by route.

    Parameters
    ----------
    app : ASGI application
    name : str
        Prefix of the route.
    timing : Timing
    """

    def __init__(self, app: ASGIApp, name: str, timing: Timing) -> None:
        self._app = app
        self._name = name
        self._timing = timing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        began = time.monotonic()

        async def timed(message: Message) -> None:
            if message["type"] == "http.response.start":
                code, took = message["status"], time.monotonic() - began
                route = f"{self._name}:{_route(scope)}"
                self._timing.note(route, scope["method"], code, took)
            await send(message)

        await self._app(scope, receive, timed)


def _route(scope: Scope) -> str:
    """Return a request's path with parameter names; ``other`` if no route matches."""
    path, parameters = str(scope["path"]), scope.get("path_params")
    if parameters is None or "endpoint" not in scope:
        return "other"
    for name, value in parameters.items():
        if name == "rest":  # matches no page
            return "other"
        path = path.replace(f"/{value}", f"/:{name}", 1)
    return path


class Tables(Collector):
    """Counts the tables on demand, but not too often.

    Parameters
    ----------
    store : Store
    clock : Clock
    nearness : LimitUsages
    leads : callable
        Whether this process leads.
    reloaded : callable
        Whether the last reload of the settings went well.
    connectors : collection of str
        Names of those that are set up, also later: they are exported even if nothing waits.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        nearness: LimitUsages,
        *,
        leads: Callable[[], bool],
        reloaded: Callable[[], bool],
        connectors: Collection[str] = (),
    ) -> None:
        self._store = store
        self._clock = clock
        self._nearness = nearness
        self._leads = leads
        self._reloaded = reloaded
        self._connectors = connectors
        self._lock = threading.Lock()
        self._counted: list[Metric] = []
        self._again = 0.0
        self._lengths: dict[int, int] = {}
        self._exposures: Counter[str] = Counter()
        self._crossings: Counter[tuple[str, str]] = Counter()

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics; those of the tables may be a few seconds old."""
        build = InfoMetricFamily(PREFIX + "build", "The program.")
        build.add_metric(
            [],
            {
                "version": version("sparsi-dispatcher"),
                "python": platform.python_version(),
            },
        )
        yield build
        yield _gauge("leader", "Whether this process leads.", int(self._leads()))
        yield _gauge(
            "config_last_reload_successful",
            "Whether the settings in force are those of the file last reloaded.",
            int(self._reloaded()),
        )
        with self._lock:
            began = time.monotonic()
            if began >= self._again:
                self._count()
                took = time.monotonic() - began
                self._again = began + took + max(REST, 10 * took)
            yield from self._counted

    def _count(self) -> None:
        try:
            with self._store.read() as tx:
                self._counted = [
                    *self._work(tx),
                    *self._fields(tx),
                    *self._messages(tx),
                    *self._ledger(tx),
                    *money_metrics(tx),
                    _gauge("store_up", "Whether the store answers.", 1),
                ]
        except DispatcherError:
            self._counted = [_gauge("store_up", "Whether the store answers.", 0)]

    def _work(self, tx: Tx) -> Iterator[Metric]:
        by_state = _labelled(
            "tasks", "Tasks.", ("connector", "state"), statistics.tasks(tx)
        )
        yield by_state
        answers = CounterMetricFamily(
            PREFIX + "answers", "Answers taken.", labels=("connector", "verdict")
        )
        for *labels, count in statistics.answers(tx):
            answers.add_metric([str(label) for label in labels], count)
        yield answers
        yield _labelled(
            "workers",
            "Accounts; those that are stopped are below the accuracy floor.",
            ("state",),
            sorted(statistics.states(tx, "account").items()),
        )
        yield _labelled(
            "gold_right_ratio",
            "Share of the answers to made-up questions that are right.",
            ("field",),
            [
                (row.field, row.right / row.answered)
                for row in worker_quality.stock(tx, "gold")
                if row.answered
            ],
        )
        safe = settings.safe_workers(tx)
        if safe is not None and safe.needed is not None:
            help_text = "Workers that must stay active so that every field finds one."
            yield _gauge("safe_workers_needed", help_text, safe.needed)
            help_text = "Workers that are active; several accounts of one count once."
            yield _gauge("safe_workers_present", help_text, safe.present)
        yield _gauge("store_bytes", "Size of the store.", statistics.size(tx))

    def _fields(self, tx: Tx) -> Iterator[Metric]:
        held = sum(row.entries for row in statistics.held_back(tx))
        yield _gauge(
            "plan_unassignable_fields", "Fields that the plan holds back.", held
        )
        yield _gauge("fields", "Fields of all records.", statistics.entries(tx))
        burnt_now = len(exhausted_fields.burnt(tx))
        yield _gauge(
            "fields_burnt", "Fields shown t times without enough answers.", burnt_now
        )
        yield _labelled(
            "agreement_ratio",
            "Share of the fields with enough answers whose answers agree.",
            ("field",),
            [(name, yes / (yes + no)) for name, yes, no in statistics.agreement(tx)],
        )
        summary = statistics.plan_summary(tx)
        if summary is not None:
            plan = json.loads(summary)
            help_text = "Utility of the last plan, of the best without limits."
            yield _gauge("plan_utility_ratio", help_text, _utility(plan))
            if "gap" in plan:  # not in a plan made before it was kept
                help_text = "By how much the last plan could be better, at most."
                yield _gauge("plan_gap_ratio", help_text, plan["gap"])
        yield _gauge(
            "retention_overdue_records",
            "Records with values that are older than the policy's retain.",
            self._overdue(tx),
        )

    def _overdue(self, tx: Tx) -> int:
        force = current_policy(tx)
        retain = None if force is None else force.policy.entity.retain
        if retain is None:
            return 0
        return erasure.count_loaded_before(tx, self._clock() - retain)

    def _messages(self, tx: Tx) -> Iterator[Metric]:
        waiting = statistics.waiting(tx)
        empty = dict.fromkeys(self._connectors, 0)
        yield _labelled(
            "outbox_messages",
            "Messages that wait to be sent.",
            ("connector",),
            sorted((empty | {row.connector: row.messages for row in waiting}).items()),
        )
        yield _labelled(
            "outbox_oldest_message_timestamp_seconds",
            "When the oldest message that waits was written.",
            ("connector",),
            [(row.connector, row.oldest / SECOND) for row in waiting],
        )
        yield _labelled(
            "dead_letters",
            "Messages that were given up.",
            ("connector", "kind"),
            statistics.dead(tx),
        )
        up = dict.fromkeys(self._connectors, 1)
        yield _labelled(
            "connector_up",
            "0 where what waits has failed several times.",
            ("connector",),
            sorted(
                (
                    up
                    | {
                        w.connector: int(w.tries < statistics.MOST_FAILURES)
                        for w in waiting
                    }
                ).items()
            ),
        )

    def _ledger(self, tx: Tx) -> Iterator[Metric]:
        found = lease.holder(tx, lease.SHARD)
        yield _gauge("lease_epoch", "Epoch of the lease.", found.epoch if found else 0)
        held = bool(found and found.leased_until > self._clock())
        yield _gauge("lease_held", "Whether any daemon holds the lease.", int(held))
        usages: dict[str, list[LimitUsage]] = defaultdict(list)
        for by_rule in self._nearness.look(tx).values():
            for name, one in by_rule.items():
                usages[name].append(one)
        near = {name: nearest_units(each) for name, each in sorted(usages.items())}
        yield _labelled(
            "disclosure_fields_left",
            "Fewest fields left to a refusal of anybody; 1: the next may be refused.",
            ("property",),
            [(name, left) for name, (left, _) in near.items() if left is not None],
        )
        yield _labelled(
            "disclosure_nearest_units",
            "Pairs of a worker and a record or person with so few fields left.",
            ("property",),
            [(name, units) for name, (left, units) in near.items() if left is not None],
        )
        yield _labelled(
            "disclosure_max_ratio",
            "Largest disclosure to anybody over the limit; 1 is the limit.",
            ("property",),
            [
                (name, float(max(one.share for one in each)))
                for name, each in sorted(usages.items())
                if each[0].tau is not None
            ],
        )
        self._read_on(tx)
        exposures = CounterMetricFamily(
            PREFIX + "exposures", "Exposures booked.", labels=("connector",)
        )
        for connector, count in sorted(self._exposures.items()):
            exposures.add_metric([connector], count)
        yield exposures
        crossings = CounterMetricFamily(
            PREFIX + "limit_crossings",
            "Units that a change put past a limit, which an operator accepted.",
            labels=("property", "cause"),
        )
        # All rules from 0 on: what was not there before has not increased for Prometheus.
        none = {(rule, cause): 0 for rule in _rules(tx) for cause in CAUSES.values()}
        for labels, count in sorted((none | self._crossings).items()):
            crossings.add_metric(labels, count)
        yield crossings
        for name, moment in (
            ("ledger_last_verified", settings.LEDGER_VERIFIED),
            ("backup_last_success", settings.BACKUP_MADE),
        ):
            at = (settings.moment(tx, moment) or 0) / SECOND
            yield _gauge(
                f"{name}_timestamp_seconds", "When it was last done; 0: never.", at
            )

    def _read_on(self, tx: Tx) -> None:
        """Count the ledger: only the lines added since the last count."""
        for chain, seq in statistics.chain_lengths(tx).items():
            before = self._lengths.get(chain, 0)
            if seq > before:
                for connector, count in statistics.exposures_after(tx, chain, before):
                    self._exposures[connector] += count
                for kind, text in statistics.accepted_after(tx, chain, before):
                    for rule in _crossed(chain, json.loads(text)):
                        self._crossings[rule, CAUSES[kind]] += 1
                self._lengths[chain] = seq


def make_registry(
    tables: Tables | None, events: StageMeters
) -> tuple[CollectorRegistry, Timing]:
    """Create the registry of one process, and the timer of its requests.

    Without ``tables`` for a server beside the leader, which counts them for all.
    """
    # else each would have a second series, which nobody was promised
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    if tables is not None:
        registry.register(tables)
    registry.register(events)
    ProcessCollector(registry=registry)
    return registry, Timing(registry)


def _rules(tx: Tx) -> list[str]:
    force = current_policy(tx)
    return [] if force is None else list(force.policy.properties)


def _crossed(chain: int, body: dict[str, Any]) -> list[str]:
    """Properties of what a line accepts; all chains of a merge have the same line."""
    if adversary_name(chain) != body.get("chains", [adversary_name(chain)])[0]:
        return []
    return [str(past["property"]) for past in body.get("accepted", ())]


def _utility(numbers: dict[str, Any]) -> float:
    """Return the share of the best utility that a plan has."""
    best = Fraction(numbers["best"])
    return float(Fraction(numbers["utility"]) / best) if best else 1.0


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, help_text, value=value)


def _labelled(
    name: str,
    help_text: str,
    labels: tuple[str, ...],
    found: list[tuple[str, str, int]] | list[tuple[str, int]] | list[tuple[str, float]],
) -> Metric:
    gauge = GaugeMetricFamily(PREFIX + name, help_text, labels=labels)
    for row in found:
        gauge.add_metric([str(label) for label in row[:-1]], float(row[-1]))
    return gauge


def money_metrics(tx: Tx) -> Iterator[Metric]:
    """Count budgets and payments."""
    sums: Counter[tuple[str, str]] = Counter()
    for row in budget_rows.budgets(tx):
        sums[row.currency, "cap"] += row.cap
        sums[row.currency, "promised"] += row.taken - row.paid
        sums[row.currency, "paid"] += row.paid
    amounts = GaugeMetricFamily(
        PREFIX + "budget_amount",
        "Units of a currency: caps of all runs, what is promised or owed, and paid.",
        labels=("currency", "kind"),
    )
    for labels, parts in sorted(sums.items()):
        amounts.add_metric(labels, parts / UNIT)
    yield amounts
    payments = GaugeMetricFamily(
        PREFIX + "payments",
        "Payments; held and unknown ones wait for a person.",
        labels=("connector", "state"),
    )
    for connector, state, count in statistics.payments(tx):
        payments.add_metric([connector, state], count)
    yield payments


# -- the admin address: alive, ready to work, and the metrics --------------------------

TAIL: Final = 20
"""Lines of the system's chain that readiness checks again."""

Lines = list[tuple[str, bool]]


class Leader(Protocol):
    """The part of the daemon that readiness needs."""

    def is_open(self) -> bool:
        """Whether new showings may begin: it leads and does not drain."""


def health_app(
    store: Store,
    leader: Leader,
    clock: Clock | None,
    registry: CollectorRegistry,
    *,
    standing: str = "leads and does not drain",
) -> Guard:
    """Make the app.

    ``/livez`` does no I/O. ``/readyz`` says whether this process can work: an
    unavailable market does not affect it. ``/metrics`` is for Prometheus.

    Parameters
    ----------
    store : Store
    leader : Leader
        The daemon, or the lease of a server.
    clock : Clock or None
        By which the leader's lease shows that the store takes writes; None for a server,
        whose own lease does.
    registry : CollectorRegistry
    standing : str
        What it means that ``leader`` is open.
    """

    async def livez(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    def readyz(_request: Request) -> Response:
        lines = [(standing, leader.is_open())]
        lines += store_lines(store, clock)
        ready = all(ok for _, ok in lines)
        text = "".join(f"{'ok' if ok else 'FAIL':4} {name}\n" for name, ok in lines)
        return PlainTextResponse(text, status_code=200 if ready else 503)

    def metrics(request: Request) -> Response:
        encode, media = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"content-type": media})

    app = Starlette(
        routes=[
            Route("/livez", livez, methods=["GET"]),
            Route("/readyz", readyz, methods=["GET"]),
            Route("/metrics", metrics, methods=["GET"]),
        ]
    )
    app.router.redirect_slashes = False  # it would repeat the Host header
    return Guard(app, "admin", https=False)


def store_lines(store: Store, clock: Clock | None) -> Lines:
    """Check whether the store is usable, by reading only.

    The lease, renewed every few seconds, shows that it accepts writes.
    """
    try:
        with store.read() as tx:
            held = lease.holder(tx, lease.SHARD)
            takes = clock is None or bool(held and held.leased_until > clock())
            return [
                ("store answers", True),
                ("store takes writes", takes),
                ("schema is this program's", migrations.version(tx) == migrations.HEAD),
                ("a policy is in force", policy_rows.version_in_force(tx) > 0),
                ("ledger is shipped", store.ships()),
                (
                    "ledger's tail reads as written",
                    comparison.chain_ends_hold(tx, lines=TAIL),
                ),
            ]
    except DispatcherError:
        return [("store answers", False)]
