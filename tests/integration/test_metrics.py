"""``/metrics`` and ``/readyz``: counted from the tables, true, and about nobody."""

import re

import pytest
from prometheus_client import CollectorRegistry
from starlette.testclient import TestClient

from dispatcher import access
from dispatcher.ledger.nearness import Nearness
from dispatcher.store import lease, metering, moments
from dispatcher.surfaces import metrics
from dispatcher.surfaces.console import console_app
from dispatcher.surfaces.health import health_app
from tests.integration.ledger_cases import Case, policy

RULES = """
[property.history]
scope = "subject"
of = ["c", "d"]
disclosure = { kind = "linear", per = "entry", weight = 0.25 }
tau = 0.75
"""
SECOND = 1_000_000


class Leads:
    """A daemon that leads."""

    open = True

    def is_open(self) -> bool:
        return self.open


class Seen:
    """One process's admin address over a store."""

    def __init__(self, store, clock) -> None:
        self.leads = Leads()
        self.tables = metrics.Tables(
            store, clock, Nearness(), leads=self.leads.is_open, reloaded=lambda: True
        )
        self.registry, self.timing = metrics.make_registry(self.tables)
        app = health_app(store, self.leads, clock, self.registry)
        self.client = TestClient(app)

    def text(self) -> str:
        self.tables._again = 0  # count anew
        return self.client.get("/metrics").text

    def value(self, name: str) -> float:
        [line] = [x for x in self.text().splitlines() if x.startswith(f"{name} ")]
        return float(line.rpartition(" ")[2])


@pytest.fixture
def case(store, clock):
    made = Case(store)
    made.apply(policy(RULES))
    made.add("x/canary-ann", "y/canary-bob")
    made.load(*((f"canary-{n}", "canary-person", n, "abcd") for n in range(3)))
    clock.now = made.now
    return made


@pytest.fixture
def seen(case, clock):
    return Seen(case.store, clock)


def test_what_is_in_the_tables_is_counted(case, seen):
    case.book(("x/canary-ann", "canary-0.c canary-1.d"), ("y/canary-bob", "canary-0.a"))
    assert seen.value('dispatcher_tasks{connector="x",state="booked"}') == 2
    assert seen.value('dispatcher_exposures_total{connector="x"}') == 2
    assert seen.value('dispatcher_exposures_total{connector="y"}') == 1
    assert seen.value('dispatcher_outbox_messages{connector="x"}') == 1
    found = seen.value('dispatcher_disclosure_max_ratio{property="history"}')
    assert found == pytest.approx(2 / 3)
    assert seen.value("dispatcher_fields") == 12
    assert seen.value("dispatcher_fields_burnt") == 0
    assert seen.value("dispatcher_store_up") == 1


def test_exposures_are_counted_on_from_the_last_line(case, seen, monkeypatch):
    case.book(("x/canary-ann", "canary-0.c"))
    assert seen.value('dispatcher_exposures_total{connector="x"}') == 1
    asked = []
    original = metering.exposures_after
    monkeypatch.setattr(
        metering,
        "exposures_after",
        lambda tx, chain, seq: asked.append(seq) or original(tx, chain, seq),
    )
    case.book(("x/canary-ann", "canary-1.d"))
    assert seen.value('dispatcher_exposures_total{connector="x"}') == 2
    assert seen.value('dispatcher_exposures_total{connector="x"}') == 2
    assert len(asked) == 1
    assert asked[0] > 0


def test_a_connector_whose_message_fails_again_and_again_is_down(case, seen):
    case.book(("x/canary-ann", "canary-0.c"), ("y/canary-bob", "canary-0.a"))
    with case.store.write() as tx:
        tx.execute("UPDATE outbox SET attempts = 3 WHERE connector = 'x'")
        tx.execute("UPDATE outbox SET state = 'dead' WHERE connector = 'y'")
    assert seen.value('dispatcher_connector_up{connector="x"}') == 0
    assert seen.value('dispatcher_dead_letters{connector="y",kind="publish"}') == 1


def test_when_things_were_last_done_is_told(case, seen, clock):
    name = "dispatcher_ledger_last_verified_timestamp_seconds"
    assert seen.value(name) == 0
    with case.store.write() as tx:
        moments.note_moment(tx, moments.LEDGER_VERIFIED, clock())
    assert seen.value(name) == clock() / SECOND


def test_no_label_names_a_worker_a_record_or_a_person(case, seen):
    case.book(("x/canary-ann", "canary-0.c"))
    text = seen.text()
    assert "canary" not in text
    labels = set(re.findall(r'[{,](\w+)="', text))
    assert labels <= {
        "connector", "state", "kind", "property", "verdict", "version", "python",
    }  # fmt: skip


def test_the_store_is_not_counted_at_every_question(seen, monkeypatch):
    seen.text()
    monkeypatch.setattr(
        metering, "tasks", lambda _: pytest.fail("counted again at once")
    )
    assert "dispatcher_tasks" in seen.client.get("/metrics").text


def test_requests_are_timed_by_route_without_what_is_in_the_path(case, clock):
    registry = CollectorRegistry()
    timing = metrics.Timing(registry)
    app = metrics.Timed(console_app(case.store, clock=clock), "operators", timing)
    client = TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 1))
    secret = access.make_link(case.store, clock())
    client.post(
        "/login", data={"code": secret}, headers={"sec-fetch-site": "same-origin"}
    )
    client.get("/records?after=77")
    client.get("/static/canary.css")
    client.get("/canary")
    client.request("BREW", "/")
    routes = {
        (s.labels["route"], s.labels["method"], s.labels["code"])
        for metric in registry.collect()
        for s in metric.samples
    }
    assert ("operators:/records", "GET", "200") in routes
    assert ("operators:/static/:name", "GET", "404") in routes
    assert ("operators:other", "GET", "404") in routes
    assert not [route for route in routes if "canary" in str(route)]


# -- readiness -------------------------------------------------------------------------


def lead(case, clock):
    with case.store.write() as tx:
        lease.take(tx, lease.SHARD, "me", clock(), clock() + 8 * SECOND)


def test_it_is_ready_when_it_leads_writes_and_the_ledger_reads(case, seen, clock):
    lead(case, clock)
    ready = seen.client.get("/readyz")
    assert ready.status_code == 200, ready.text
    assert "FAIL" not in ready.text
    assert seen.client.get("/livez").text == "ok\n"


def test_it_is_not_ready_while_it_drains(case, seen, clock):
    lead(case, clock)
    seen.leads.open = False
    assert "FAIL leads and does not drain" in seen.client.get("/readyz").text


def test_a_lease_that_nobody_renews_tells_that_nothing_is_written(case, seen, clock):
    lead(case, clock)
    clock.advance(9)
    ready = seen.client.get("/readyz")
    assert ready.status_code == 503
    assert "FAIL store takes writes" in ready.text


def test_a_ledger_whose_tail_was_changed_is_not_ready(case, seen, clock):
    lead(case, clock)
    with case.store.write() as tx:
        tx.execute("UPDATE chain SET head = ? WHERE id = 0", ["f" * 64])
    ready = seen.client.get("/readyz")
    assert ready.status_code == 503
    assert "FAIL ledger's tail reads as written" in ready.text


def test_without_a_policy_it_is_not_ready(store, clock):
    seen = Seen(store, clock)
    assert "FAIL a policy is in force" in seen.client.get("/readyz").text
