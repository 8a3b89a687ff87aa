"""``/metrics`` and ``/readyz``: counted from the tables, true, and about nobody."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from connectors.base import TryLater
from dispatcher import access
from dispatcher.app import metrics
from dispatcher.app.metrics import StageMeters, health_app
from dispatcher.core import meters
from dispatcher.ledger.identity_changes import merge
from dispatcher.ledger.limit_usage import LimitUsages
from dispatcher.ledger.shipping import attach
from dispatcher.model import UNIT, Budget, GoldQuestion
from dispatcher.store import (
    gold_questions,
    lease,
    money,
    records,
    settings,
    statistics,
)
from tests import builders, edits
from tests.integration.console_house import make_console
from tests.integration.ledger_cases import Case, policy

RULES = """
[property.history]
scope = "subject"
of = ["c", "d"]
disclosure = { kind = "linear", per = "entry", weight = 0.25 }
tau = 0.75
"""
SECOND = 1_000_000
ALERTS = Path(__file__).parents[2] / "docs/howto/operators/prometheus/alerts.yml"

NAMES = {
    "build_info": ("gauge", {"version", "python"}),
    "config_last_reload_successful": ("gauge", set()),
    "leader": ("gauge", set()),
    "lease_epoch": ("gauge", set()),
    "lease_held": ("gauge", set()),
    "store_up": ("gauge", set()),
    "tasks": ("gauge", {"state", "connector"}),
    "task_transitions_total": ("counter", {"from", "to", "connector"}),
    "task_turnaround_seconds": ("histogram", set()),
    "outbox_messages": ("gauge", {"connector"}),
    "outbox_oldest_message_timestamp_seconds": ("gauge", {"connector"}),
    "dead_letters": ("gauge", {"connector", "kind"}),
    "gate_decisions_total": ("counter", {"decision", "property"}),
    "gate_duration_seconds": ("histogram", set()),
    "disclosure_max_ratio": ("gauge", {"property"}),
    "disclosure_fields_left": ("gauge", {"property"}),
    "disclosure_nearest_units": ("gauge", {"property"}),
    "exposures_total": ("counter", {"connector"}),
    "fields": ("gauge", set()),
    "fields_burnt": ("gauge", set()),
    "limit_crossings_total": ("counter", {"property", "cause"}),
    "plan_duration_seconds": ("histogram", {"algorithm"}),
    "plan_utility_ratio": ("gauge", set()),
    "plan_gap_ratio": ("gauge", set()),
    "plan_unassignable_fields": ("gauge", set()),
    "safe_workers_needed": ("gauge", set()),
    "safe_workers_present": ("gauge", set()),
    "connector_up": ("gauge", {"connector"}),
    "connector_requests_total": ("counter", {"connector", "code"}),
    "connector_request_duration_seconds": ("histogram", {"connector"}),
    "webhook_deliveries_total": ("counter", {"outcome"}),
    "notice_deliveries_total": ("counter", {"receiver", "outcome"}),
    "http_request_duration_seconds": ("histogram", {"route", "method", "code"}),
    "answers_total": ("counter", {"connector", "verdict"}),
    "agreement_ratio": ("gauge", {"field"}),
    "gold_right_ratio": ("gauge", {"field"}),
    "workers": ("gauge", {"state"}),
    "budget_amount": ("gauge", {"currency", "kind"}),
    "payments": ("gauge", {"connector", "state"}),
    "store_bytes": ("gauge", set()),
    "backup_last_success_timestamp_seconds": ("gauge", set()),
    "ledger_last_verified_timestamp_seconds": ("gauge", set()),
    "retention_overdue_records": ("gauge", set()),
}
"""All that is served: type, and names of the labels."""


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
            store,
            clock,
            LimitUsages(),
            leads=self.leads.is_open,
            reloaded=lambda: True,
            connectors=["w", "x"],
        )
        events = StageMeters(frozenset({"x"}))
        self.registry, self.timing = metrics.make_registry(self.tables, events)
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
    assert seen.value('dispatcher_disclosure_fields_left{property="history"}') == 1
    assert seen.value('dispatcher_disclosure_nearest_units{property="history"}') == 1
    assert seen.value("dispatcher_fields") == 12
    assert seen.value("dispatcher_fields_burnt") == 0
    assert seen.value("dispatcher_store_up") == 1


def test_exposures_are_counted_on_from_the_last_line(case, seen, monkeypatch):
    case.book(("x/canary-ann", "canary-0.c"))
    assert seen.value('dispatcher_exposures_total{connector="x"}') == 1
    asked = []
    original = statistics.exposures_after
    monkeypatch.setattr(
        statistics,
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
    builders.settle_messages(case.store, "ready", connector="x", tries=3)
    builders.settle_messages(case.store, "dead", connector="y")
    assert seen.value('dispatcher_connector_up{connector="x"}') == 0
    assert seen.value('dispatcher_dead_letters{connector="y",kind="publish"}') == 1


def test_a_connector_for_which_nothing_waits_is_told_of_all_the_same(seen):
    assert seen.value('dispatcher_connector_up{connector="w"}') == 1
    assert seen.value('dispatcher_outbox_messages{connector="w"}') == 0


def test_when_things_were_last_done_is_told(case, seen, clock):
    name = "dispatcher_ledger_last_verified_timestamp_seconds"
    assert seen.value(name) == 0
    with case.store.write() as tx:
        settings.note_moment(tx, settings.LEDGER_VERIFIED, clock())
    assert seen.value(name) == clock() / SECOND


@pytest.fixture
def busy(case, seen):
    """A store in which everything that is counted has happened."""
    joined(case)
    case.book(("x/canary-ann", "canary-2.a"), ("y/canary-bob", "canary-1.a"))
    builders.settle_messages(case.store, "dead", connector="y")
    account, entry = case.accounts["x/canary-ann"], case.entries["canary-0.c"]
    with case.store.write() as tx:
        field = gold_questions.field_named(tx, "c")
        gold = GoldQuestion(
            id=1, field_id=field, purpose="gold", shown=b"canary", media="text/plain",
            answer=b"canary",
        )  # fmt: skip
        gold_questions.add(tx, [gold])
    builders.answer_tasks(case.store, [1], "canary", counted=True)
    for correct in (1, 0, 1, 1):
        builders.answer_gold(case.store, 1, account, correct)
    builders.save_results(case.store, [entry])
    summary = json.dumps({"utility": "3/2", "best": "2", "gap": 0.25})
    builders.add_plan(case.store, [], summary=summary)
    with case.store.write() as tx:
        purse = Budget(run_id=1, currency="GBP", cap=5 * UNIT)
        money.put_budget(tx, purse)
        owed = money.PaymentRow("field", 1, 1, account, "x", None, UNIT // 4, 0)
        assert money.reserve(tx, purse, [owed], now=1, actor="test")
        settings.note_safe_workers(tx, settings.SafeWorkers(3, 2, "c"))
    meters.GATE_DECISIONS.labels("deny", "history").inc()
    meters.count_moves([("booked", "sent", "x")])
    meters.GATE_DURATION.observe(0.02)
    meters.note_turnaround(20_000)
    meters.PLAN_DURATION.labels("auto").observe(0.02)
    meters.NOTICES.labels("mail", "sent").inc()
    with meters.calling("x"):
        pass
    seen.timing.note("operators:/", "GET", 200, 0.01)
    return seen


def joined(case):
    """Make one of two who hold halves of a set: two units are past the limit."""
    case.book(("x/canary-ann", "canary-0.c canary-1.d"))
    case.book(("y/canary-bob", "canary-0.d canary-2.c"))
    with case.store.write() as tx:
        parts = [["x/canary-ann", "y/canary-bob"]]
        merge(tx, parts, because="same address", at=case.tick(), accept=1)


def families(seen):
    """Everything that is served, by name as the documents have it."""
    found = {}
    for family in text_string_to_metric_families(seen.text()):
        name = family.name + {"counter": "_total"}.get(family.type, "")
        labels = {n for s in family.samples for n in s.labels} - {"le"}
        found[name] = family.type, labels, family
    return found


def calls(seen):
    """Calls to ``x`` that are served, by what they came to."""
    samples = families(seen)["dispatcher_connector_requests_total"][2].samples
    mine = [one for one in samples if one.labels["connector"] == "x"]
    return Counter({one.labels["code"]: one.value for one in mine})


def test_every_metric_that_is_promised_is_served_and_nothing_beside(busy):
    found = families(busy)
    served = {
        name.removeprefix("dispatcher_"): (kind, labels)
        for name, (kind, labels, _) in found.items()
        if name.startswith("dispatcher_")
    }
    assert served == NAMES


def test_every_metric_of_an_alert_is_served(busy):
    expressions = re.findall(r"^ +expr: (.*)$", ALERTS.read_text(), re.MULTILINE)
    asked = {n for text in expressions for n in re.findall(r"dispatcher_\w+", text)}
    served = {
        sample.name
        for *_, family in families(busy).values()
        for sample in family.samples
    }
    assert asked
    assert asked <= served


def test_limits_that_a_merge_crossed_are_counted_by_property_and_cause(case, seen):
    name = 'dispatcher_limit_crossings_total{cause="merge",property="history"}'
    assert seen.value(name) == 0
    joined(case)
    assert seen.value(name) == 1
    assert seen.value(name) == 1


def test_answers_that_agree_are_a_share_of_each_field(busy):
    assert busy.value('dispatcher_agreement_ratio{field="c"}') == 1
    assert busy.value("dispatcher_plan_utility_ratio") == 0.75
    assert busy.value("dispatcher_plan_gap_ratio") == 0.25
    assert busy.value("dispatcher_safe_workers_needed") == 3
    assert busy.value("dispatcher_safe_workers_present") == 2


def test_money_is_summed_by_currency_and_payments_by_state(busy):
    amount = "dispatcher_budget_amount"
    assert busy.value(f'{amount}{{currency="GBP",kind="cap"}}') == 5
    assert busy.value(f'{amount}{{currency="GBP",kind="promised"}}') == 0.25
    assert busy.value('dispatcher_payments{connector="x",state="reserved"}') == 1


def test_answers_to_made_up_questions_and_who_is_stopped_are_counted(busy):
    assert busy.value('dispatcher_gold_right_ratio{field="c"}') == 0.75
    assert busy.value('dispatcher_workers{state="active"}') == 2


def test_records_older_than_the_policy_keeps_them_are_overdue(case, seen, clock):
    name = "dispatcher_retention_overdue_records"
    assert seen.value(name) == 0
    case.apply(policy(RULES, entity='retain = "30d"'))
    clock.now = case.now
    with case.store.write() as tx:
        assert records.begin_load(tx, 1, "canary", "[]", 1) == 1
    assert seen.value(name) == 0
    clock.advance(31 * 86_400)
    assert seen.value(name) == 3


def test_calls_to_connectors_are_counted_by_what_they_came_to(seen):
    with meters.calling("x"):
        pass
    before = calls(seen)
    with pytest.raises(TryLater), meters.calling("x"):
        raise TryLater("later", why="busy", fix="wait", after=1)
    with pytest.raises(ValueError, match="odd"), meters.calling("x"):
        raise ValueError("odd")
    after = calls(seen)
    assert after == before + Counter({"try-later": 1, "failed": 1})
    assert 'dispatcher_webhook_deliveries_total{outcome="failed"}' in seen.text()


def test_no_label_names_a_worker_a_record_or_a_person(case, seen):
    case.book(("x/canary-ann", "canary-0.c"))
    text = seen.text()
    assert "canary" not in text
    labels = set(re.findall(r'[{,](\w+)="', text))
    assert labels <= set().union(*(names for _, names in NAMES.values())) | {"le"}


def test_the_store_is_not_counted_at_every_question(seen, monkeypatch):
    seen.text()
    monkeypatch.setattr(
        statistics, "tasks", lambda _: pytest.fail("counted again at once")
    )
    assert "dispatcher_tasks" in seen.client.get("/metrics").text


def test_requests_are_timed_by_route_without_what_is_in_the_path(case, clock):
    registry = CollectorRegistry()
    timing = metrics.Timing(registry)
    app = metrics.Timed(make_console(case.store, clock), "operators", timing)
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


def test_a_ledger_that_can_not_be_shipped_is_not_ready_until_it_can(
    case, seen, clock, tmp_path
):
    folder = tmp_path / "ledger"
    attach(case.store, folder)
    case.store.settle(afresh=True)
    lead(case, clock)
    assert seen.client.get("/readyz").status_code == 200
    folder.rename(tmp_path / "elsewhere")
    folder.write_text("in the way")
    assert "FAIL ledger is shipped" in seen.client.get("/readyz").text
    folder.unlink()
    (tmp_path / "elsewhere").rename(folder)
    assert seen.client.get("/readyz").status_code == 200


def test_a_ledger_whose_tail_was_changed_is_not_ready(case, seen, clock):
    lead(case, clock)
    with case.store.write() as tx:
        edits.break_head_of_log(tx)
    ready = seen.client.get("/readyz")
    assert ready.status_code == 503
    assert "FAIL ledger's tail reads as written" in ready.text


def test_without_a_policy_it_is_not_ready(store, clock):
    seen = Seen(store, clock)
    assert "FAIL a policy is in force" in seen.client.get("/readyz").text
