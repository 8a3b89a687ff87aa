"""What an operator does in a month, by the API alone and by the console alone.

The journeys follow one another over one store: the first ten minutes, a new worker, a
day, a night, a new market, a change of the policy, a merge, an audit, a purge, and a
second daemon. What workers do in between is written into the store.
"""

import csv
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect
from starlette.testclient import TestClient

from dispatcher.access import sessions, users
from dispatcher.access.roles import NOT_FOR_TOKENS, scopes_of
from dispatcher.app.metrics import make_registry
from dispatcher.client import ApiError, Client
from dispatcher.ledger.limit_usage import LimitUsages
from dispatcher.operations import people
from dispatcher.operations.fields import find_entry
from dispatcher.operations.workspace import Workspace
from dispatcher.store import accounts, lease
from dispatcher.store import people as stored
from dispatcher.surfaces.api import documents as d
from dispatcher.surfaces.applications import API, CONSOLE, Applications, events_of
from tests import builders
from tests.conftest import FakeClock
from tests.e2e.browsing import Served
from tests.integration.ledger_cases import Case

POLICY = """
version = 1
name = "clinic"

[budget]
t = 4

[entity.scan]
key = "scan"
subject = "person"

[entity.scan.fields]
patient = { ask = "transcribe" }
disease = { ask = "choose", choices = ["gout", "flu", "measles"] }

[property.who-has-what]
of = ["patient", "disease"]
"""
STRICTER = (
    POLICY
    + """
[property.history]
scope = "subject"
of = ["disease"]
disclosure = { kind = "step", at = 2 }
"""
)
SCANS = "scan,person,patient,disease\n" + "".join(
    f"scan-{n},person-{n // 2},Ada {n},gout\n" for n in range(10)
)
DAY = 86_400
PEOPLE = {
    "operator": ("operator", "policy-admin", "reviewer", "data-viewer"),
    "officer": ("privacy-officer",),
    "admin": ("admin", "operator"),
}
"""Roles of three people: who checks does not act, and an admin sees no value."""
WORKERS = ("inhouse/ann", "inhouse/bob", "inhouse/cat", "inhouse/dan", "folder/eve")


class House:
    """A workspace and the operators' pages over it, as a daemon serves them."""

    def __init__(self, directory: Path, template: Path, clock: FakeClock) -> None:
        self.directory, self.clock = directory, clock
        path = directory / "dispatcher.db"
        path.write_bytes(template.read_bytes())
        path.chmod(0o600)
        (directory / "dispatcher.toml").write_text("[surfaces]\napi = true\n")
        (directory / "policy.toml").write_text(POLICY)
        (directory / "scans.csv").write_text(SCANS)
        self.workspace = Workspace(directory, clock=clock, actor="daemon")
        self.store = self.workspace.open_store()
        self.case = Case(self.store, now=clock.now)
        _, timing = make_registry(None, events_of(self.workspace))
        self.made = Applications(
            self.store,
            self.workspace.open_connectors(self.store),
            self.workspace,
            None,
            LimitUsages(),
            timing=timing,
            serves=(API, CONSOLE),
        )
        self.app = self.made.make()["operators"]

    @property
    def ended(self) -> Callable[..., None]:
        """Wait until what was begun has ended."""
        return lambda *_: self.made._api.requests.wait()

    def api(self, role: str) -> Client:
        """A program of one of the people: nobody may do all of it."""
        scopes = sorted(scopes_of(PEOPLE[role]) - NOT_FOR_TOKENS)
        made = people.make_token(self.workspace, self.store, role, scopes, days=365)
        url = "http://127.0.0.1:8420"
        return Client(url, made.secret, http=TestClient(self.app, base_url=url))

    def work(self, *fields: str, disagree: bool = False) -> None:
        """Three workers are shown fields and answer, in one way or in three."""
        for field in fields:
            self.show(field, *WORKERS[:3])
            said = ("gout", "flu", "measles") if disagree else ("gout",) * 3
            builders.dispute(self.store, self.case.entries[field], *said)
            if not disagree:
                entry = self.case.entries[field]
                builders.save_results(self.store, [entry], value=b"gout")

    def show(self, field: str, *workers: str) -> None:
        with self.store.read() as tx:
            self.case.entries[field] = find_entry(self.store, tx, field)
            known = accounts.all_accounts(tx)
        self.case.accounts = {f"{one.connector}/{one.name}": one.id for one in known}
        self.case.now = self.clock.advance(60)
        self.case.book(*((who, field) for who in workers))

    def give_up(self) -> None:
        """A message to a market is tried until it is given up."""
        self.show("scan-9.disease", "folder/eve")
        builders.settle_messages(
            self.store, "dead", account="folder/eve", tries=12, error="token expired"
        )

    def lead(self, host: str) -> None:
        """Another daemon takes the lease when that of the one before is over."""
        now = self.clock.advance(DAY)
        with self.store.write() as tx:
            lease.take(tx, lease.SHARD, f"{host}/x/1/1", now, now + 10**12)


@pytest.fixture
def house(tmp_path, sqlite_template, clock) -> Iterator[House]:
    """One whose settings are read again when it is told to, as a daemon does it."""
    made = House(tmp_path, sqlite_template, clock)
    before = signal.signal(signal.SIGHUP, lambda *_: made.made.reload())
    yield made
    signal.signal(signal.SIGHUP, before)
    made.made.close()
    made.store.close()


# -- by the API ----------------------------------------------------------------------------


def test_a_month_by_the_api(house):
    with (
        house.api("operator") as operator,
        house.api("officer") as officer,
        house.api("admin") as admin,
    ):
        for api, journey in (
            (operator, first_ten_minutes),
            (operator, new_worker),
            (operator, daily),
            (operator, three_in_the_morning),
            (admin, new_market),
            (operator, policy_change),
            (operator, merge),
            (officer, audit),
            (officer, purge),
            (operator, two_daemons),
        ):
            journey(api, house)


def wait(api: Client, house: House, path: str, returns, body=None, **query):
    """Begin what takes long, and return what came of it."""
    begun = api.post(path, d.Operation, body or {}, **query)
    return api.wait(begun, returns, pause=house.ended)


def first_ten_minutes(api, house):
    assert "dispatcher policy apply" in api.get("/status", d.Status).needs_you[0]
    scans = house.directory / "scans.csv"
    assert api.post("/policies:check", d.Checked, {"source": POLICY}).valid
    tag = api.etag("/policies/active")
    applied = api.post("/policies:apply", d.AppliedPolicy, {"source": POLICY}, etag=tag)
    assert applied.version == 1
    assert api.send("/records:preview", scans, d.Preview).rejections == 0
    loaded = api.wait(api.load("default", scans), d.Loaded, pause=house.ended)
    assert (loaded.records, loaded.entries) == (10, 20)
    with pytest.raises(ApiError, match="2 are needed"):
        wait(api, house, "/plans", d.Drafted, {"time_limit": 1})
    people = {"workers": list(WORKERS)}
    assert len(api.post("/workers", d.Added, people).added) == 5
    drafted = wait(api, house, "/plans", d.Drafted, {"time_limit": 1})
    assert api.post(f"/plans/{drafted.plan}:apply", d.AppliedPlan).pairs
    assert api.get("/status", d.Status).plan.plan == drafted.plan


def new_worker(api, house):
    one = {"workers": ["inhouse/fay"]}
    assert api.post("/workers", d.Added, one, dry_run=True).added == ["inhouse/fay"]
    assert api.post("/workers", d.Added, one).past == 0
    links = api.post("/workers:invite", d.Invited, one).links
    assert "#k=" in links["inhouse/fay"]
    assert api.get("/workers/inhouse/fay", d.Worker).state == "active"


def daily(api, house):
    house.work("scan-0.disease", "scan-2.disease")
    house.work("scan-1.disease", disagree=True)
    (conflict,) = api.pages("/answers/conflicts", d.Conflict)
    reason = {"reason": "compared with the scan"}
    shown = api.post(f"/fields/{conflict.id}:reveal", d.RevealedField, reason)
    letter = next(one for one, said in shown.answers.items() if said == "flu")
    choice = {**reason, "decision": "choose", "letter": letter}
    judged = api.post(f"/fields/{conflict.id}:judge", d.Judged, choice)
    assert judged.after == "answered"
    assert api.get("/status", d.Status).results == {"answered": 3}
    body = {"format": "csv", "reason": "end of the day"}
    begun = api.post("/runs/default:export", d.Operation, body)
    assert api.wait(begun, d.Exported, pause=house.ended).records == 10
    api.fetch(begun, house.directory / "out.csv")
    with (house.directory / "out.csv").open(encoding="utf-8") as file:
        rows = {row["scan"]: row for row in csv.DictReader(file)}
    judged = rows["scan-1"]
    assert (judged["disease_answer"], judged["disease_decided_by"]) == (
        "flu",
        "operator",
    )


def three_in_the_morning(api, house):
    house.give_up()
    assert any("given up" in one for one in api.get("/status", d.Status).needs_you)
    found = api.get("/doctor", list[d.Finding])
    fixes = [one.fix for one in found if one.severity != "ok"]
    assert "dispatcher queue list --state dead" in fixes
    (dead,) = api.pages("/queue", d.Message, state="dead")
    assert (dead.connector, dead.error) == ("folder", "token expired")
    stop = {"connector": "folder", "reason": "token expired"}
    api.post("/pause", d.Scope, stop)
    body = {"connector": "folder"}
    assert api.post("/queue:retry", d.Retried, body, dry_run=True).messages == 1
    assert api.post("/queue:retry", d.Retried, body).messages == 1
    assert api.post("/resume", d.Resumed, body).was_paused
    assert api.get("/status", d.Status).outbox.get("dead", 0) == 0


def new_market(api, house):
    body = {"name": "crowd", "kind": "folder", "settings": {"spool": "crowd"}}
    assert "folder" in {
        one.name for one in api.get("/connector-kinds", list[d.Connector])
    }
    api.post("/connectors", d.ConnectorName, body)
    assert api.post("/connectors/crowd:test", d.ConnectorState).state == "ok"
    assert api.post("/connectors/crowd:enable", d.Enabled, {}).enabled
    people = {"workers": ["crowd/gus", "crowd/hal"]}
    assert len(api.post("/workers", d.Added, people).added) == 2


def policy_change(api, house):
    body = {"source": STRICTER}
    compared = api.post("/policies:diff", d.Comparison, body)
    assert [one.looser for one in compared.differences] == [False]
    impact = wait(api, house, "/policies:plan", d.PolicyImpact, body)
    tag = api.etag("/policies/active")
    with pytest.raises(ApiError, match="E204"):  # what is past must be accepted
        api.post("/policies:apply", d.AppliedPolicy, body, etag=tag)
    past = sum(impact.by_rule.values())
    accepted = {"accept_past": past, "reason": "DPO 2026-31"}
    done = api.post("/policies:apply", d.AppliedPolicy, body | accepted, etag=tag)
    assert done.version == 2
    with pytest.raises(ApiError) as stale:
        api.post("/policies:apply", d.AppliedPolicy, body, etag=tag)
    assert stale.value.problem.status == 412


def merge(api, house):
    house.work("scan-4.patient")
    body = {"accounts": ["inhouse/dan", "inhouse/fay"], "reason": "one address"}
    tried = api.post("/workers:merge", d.Merge, body, dry_run=True)
    accepted = {"accept_past": sum(tried.by_rule.values())}
    assert api.post("/workers:merge", d.Merge, body | accepted).joined == 1
    assert len(api.get("/workers/inhouse/fay", d.Worker).accounts) == 2


def audit(api, house):
    assert wait(api, house, "/ledger:verify", d.LedgerCheck).ok
    begun = api.post("/evidence", d.Operation)
    api.wait(begun, d.Evidence, pause=house.ended)
    api.fetch(begun, house.directory / "evidence.zip")
    (person,) = api.post("/subjects:find", list[d.Subject], {"key": "person-0"})
    assert person.counts["records"] == 2
    report = api.post(f"/subjects/{person.id}:report", d.Operation, {})
    assert api.wait(report, d.Reported, pause=house.ended).counts
    erase, sure = f"/subjects/{person.id}:erase", {"confirm": person.id}
    would = wait(api, house, erase, d.Erased, sure, dry_run=True)
    gone = wait(api, house, erase, d.Erased, sure)
    assert gone.deleted["records"] == would.deleted["records"] == 2
    assert gone.receipt


def purge(api, house):
    house.clock.advance(91 * DAY)
    body = {"older_than_days": 90}
    would = wait(api, house, "/records:purge", d.Erased, body, dry_run=True)
    assert would.deleted == {"records": 8}
    assert wait(api, house, "/records:purge", d.Erased, body).deleted["records"] == 8
    told = [one.operation for one in api.pages("/audit-log", d.AuditLine)]
    assert told[0] == "records.purge"


def two_daemons(api, house):
    house.lead("host-a")
    before = api.get("/status", d.Status)
    assert before.leader == "host-a pid 1"
    house.clock.advance(12 * DAY)  # it is gone
    house.lead("host-b")
    after = api.get("/status", d.Status)
    assert (after.leader, after.epoch) == ("host-b pid 1", before.epoch + 1)


# -- by the console ------------------------------------------------------------------------


class Person:
    """Somebody at the console, with a browser of their own; their clicks are counted."""

    def __init__(self, page: Page, house: House, base: str, role: str) -> None:
        self.page, self.clock, self.clicks = page, house.clock, 0
        now = house.clock()
        with house.store.read() as tx:
            known = {one.name for one in stored.users(tx)}
        if role not in known:
            users.add_user(house.store, role, list(PEOPLE[role]), now, os.urandom)
        with house.store.write() as tx:
            (user,) = (one for one in stored.users(tx) if one.name == role)
            secret = sessions.open_session(tx, now, os.urandom, user)
        page.context.add_cookies([{"name": "console", "value": secret, "url": base}])
        page.clock.set_fixed_time(now / 1_000_000)
        page.goto(base)

    def go(self, page: str) -> None:
        """Choose a page of the navigation, some seconds later."""
        self.clock.advance(4)  # what was read before is not shown again
        self._click(self.page.locator("#pages").get_by_role("link", name=page))

    def follow(self, link: str) -> None:
        self._click(self.page.locator("main").get_by_role("link", name=link).first)

    def press(self, button: str) -> None:
        main = self.page.locator("main")
        self._click(main.get_by_role("button", name=button, exact=True).first)

    def press_key(self, key: str) -> None:
        with self.page.expect_navigation():
            self.page.keyboard.press(key)
        self.clicks += 1

    def fill(self, **given: str) -> None:
        """Fill in a form, by the names of its inputs."""
        for name, text in given.items():
            box = self.page.locator(f"main [name='{name}']").first
            if box.evaluate("one => one.tagName") == "SELECT":
                box.select_option(text)
            else:
                box.fill(text)

    def act(self, button: str, typed: str = "") -> None:
        """Look at the preview, and go on; what is severe asks for a name."""
        self.press("Preview")
        expect(self.page.locator("#would")).to_be_visible()
        if typed:
            self.fill(typed=typed)
        self.press(button)
        self.done()

    def done(self) -> None:
        expect(self.page.locator("h1 .badge.good")).to_have_text("done")

    def sees(self, text: str) -> None:
        expect(self.page.locator("main")).to_contain_text(text)

    def fetches(self, link: str, path: Path) -> None:
        with self.page.expect_download() as download:
            self.follow(link)
        download.value.save_as(path)

    def _click(self, what: Locator) -> None:
        what.click()
        self.page.wait_for_load_state()
        self.clicks += 1


@pytest.fixture
def at_console(house, open_page) -> Iterator[Callable[[str], Person]]:
    """Sits somebody of a role down at the console."""
    served = Served(house.app)

    def sit(role: str) -> Person:
        return Person(open_page(), house, served.base, role)

    yield sit
    served.stop()


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_month_by_the_console(house, at_console):
    operator = at_console("operator")
    see_first_ten_minutes(operator, house)
    see_new_worker(operator, house)
    see_daily(operator, house)
    see_three_in_the_morning(operator, house)
    see_new_market(at_console("admin"), house)
    see_policy_change(operator, house)
    see_merge(at_console("operator"), house)  # who it is was just asked
    see_audit(at_console("officer"), house)
    see_two_daemons(operator, house)
    see_purge(house, at_console)


def see_first_ten_minutes(one, house):
    one.sees("No policy is in force")
    one.go("Policy")
    one.follow("Draft")
    one.fill(source=POLICY)
    one.press("Check")
    one.sees("It is valid")
    one.press("Apply …")
    one.act("Apply a policy", typed="clinic")
    with house.api("operator") as api:  # a file of records is loaded by a program
        scans = house.directory / "scans.csv"
        api.wait(api.load("default", scans), d.Loaded, pause=house.ended)
    one.go("Workers")
    one.follow("Add workers")
    one.fill(workers="\n".join(WORKERS))
    one.act("Add workers")
    one.go("Runs and plans")
    one.follow("Plan")
    one.fill(time_limit="1")
    one.press("Plan")
    one.follow("Look at the plan")
    one.follow("Apply")
    one.act("Apply a plan")
    one.go("Overview")
    one.sees("20 showings planned")


def see_new_worker(one, house):
    one.go("Workers")
    one.follow("Add workers")
    one.fill(workers="inhouse/fay")
    one.act("Add workers")
    one.follow("Go on")
    one.follow("Invite")
    one.fill(workers="inhouse/fay")
    one.act("Invite workers")
    one.sees("#k=")


def see_daily(one, house):
    house.work("scan-0.disease", "scan-2.disease")
    house.work("scan-1.disease", disagree=True)
    one.go("Overview")
    one.sees("1 field is in conflict")
    one.follow("Judge")
    one.fill(reason="compared with the scan")
    one.press("Begin")
    one.press_key("2")
    one.sees("No field is in conflict")
    one.go("Runs and plans")
    one.follow("default")
    one.sees("15.0 % of 20 fields")
    one.follow("Export")
    one.fill(reason="end of the day")
    one.press("Preview")
    one.press("Take out the records of a run")
    one.fetches("Fetch the file", house.directory / "seen.jsonl")
    lines = (house.directory / "seen.jsonl").read_text().splitlines()
    assert len(lines) == 10


def see_three_in_the_morning(one, house):
    house.give_up()
    one.go("Overview")
    one.sees("1 message was given up")
    one.page.get_by_role("listitem").filter(has_text="given up").get_by_role(
        "link"
    ).click()
    one.sees("token expired")
    one.follow("Pause")
    one.fill(reason="token expired", connector="folder")
    one.act("Pause")
    one.go("Queue")
    one.follow("dead")
    one.page.get_by_label("Select").first.check()
    one.press("Retry selected")
    one.act("Retry messages")
    one.go("Overview")
    one.sees("folder is paused: token expired")
    one.follow("Resume")
    one.fill(connector="folder")
    one.act("Resume")
    one.go("Queue")
    one.follow("dead")
    one.sees("No message is dead")


def see_new_market(one, house):
    one.go("Connectors")
    one.follow("Add a market")
    one.fill(name="crowd", kind="turkle", secret="canary")
    one.press("Add a market")
    one.sees("What helps:")
    assert "canary" not in one.page.content()
    one.fill(kind="folder", settings="spool = crowd")
    one.press("Add a market")
    one.done()
    one.follow("Go on")
    one.follow("Enable crowd")
    one.act("Enable a connector")
    one.follow("Go on")
    expect(one.page.locator("main tr").filter(has_text="crowd").first).to_contain_text(
        "up"
    )


def see_policy_change(one, house):
    one.go("Policy")
    one.follow("Draft")
    one.fill(source=STRICTER)
    one.press("Check")
    one.sees("In no part could workers see more than before")
    one.press("What it would do")
    one.press("What it would do")
    one.sees("By rule")
    past = one.page.locator("dt:text-is('History') + dd").inner_text()
    one.go("Policy")
    one.follow("Draft")
    one.fill(source=STRICTER)
    one.press("Check")
    one.press("Apply …")
    one.fill(accept_past=past, reason="DPO 2026-31")
    one.act("Apply a policy", typed="clinic")
    one.go("Policy")
    one.sees("Version 2")


def see_merge(one, house):
    house.work("scan-4.patient")
    one.go("Workers")
    one.follow("Merge")
    one.fill(accounts="inhouse/dan\ninhouse/fay", reason="one address")
    one.act("Merge workers", typed="inhouse/dan")
    one.go("Workers")
    one.sees("inhouse/dan, inhouse/fay")


def see_audit(one, house):
    one.go("Audit")
    one.follow("Verify now")
    one.press("Verify now")
    one.follow("Audit")
    one.sees("VERIFIED")
    one.follow("Export evidence")
    one.press("Export evidence")
    one.fetches("Fetch the file", house.directory / "seen.zip")
    one.go("Audit")
    one.follow("Find a person")
    one.fill(key="person-0")
    one.press("Preview")
    one.follow("Go on")
    one.follow("Report")
    one.press("Preview")
    one.press("Report all that there is about a person")
    one.fetches("Fetch the file", house.directory / "person.zip")
    one.go("Audit")
    one.follow("Find a person")
    one.fill(key="person-0")
    one.press("Preview")
    one.follow("Go on")
    name = one.page.locator("h1").inner_text().removeprefix("Person ")
    one.follow("Erase")
    one.act("Erase a person", typed=name)


def see_two_daemons(one, house):
    one.go("Overview")
    one.sees("No daemon runs")
    house.lead("host-a")
    house.clock.advance(-DAY)
    one.go("Overview")
    one.sees("host-a")


def see_purge(house, at_console):
    house.clock.advance(91 * DAY)
    one = at_console("officer")
    one.go("Audit")
    one.follow("Purge")
    one.fill(older_than_days="90")
    one.act("Purge old records", typed="purge-90d")
    one.go("Audit")
    one.sees("records.purge")


# -- a day, counted ------------------------------------------------------------------------


@dataclass
class Task:
    """Something that an operator does in a day, with the most that it may take."""

    name: str
    clicks: int
    calls: int
    by_console: Callable[[Person], None]
    by_api: Callable[[Client], None]


def see_why_refused(one):
    one.go("Workers")
    one.follow("a1")
    one.follow("May this worker see a field")
    one.fill(field="scan-0.patient")
    one.press("Ask the gate")
    one.sees("Deny")
    one.sees("who-has-what")


def ask_why_refused(api):
    asked = {"field": "scan-0.patient", "worker": "inhouse/ann"}
    told = api.post("/explain", d.Explanation, asked)
    assert (told.allowed, told.refused_by) == (False, "who-has-what")


def see_five_conflicts(one):
    one.follow("Judge")
    one.fill(reason="compared with the scan")
    one.press("Begin")
    for _ in range(5):
        one.press_key("1")
    one.sees("No field is in conflict")


def judge_five_conflicts(api):
    reason = {"reason": "compared with the scan"}
    for one in list(api.pages("/answers/conflicts", d.Conflict))[:5]:
        api.post(f"/fields/{one.id}:reveal", d.RevealedField, reason)
        choice = {**reason, "decision": "choose", "letter": "A"}
        api.post(f"/fields/{one.id}:judge", d.Judged, choice)


def see_block(one):
    one.go("Workers")
    one.follow("a2")
    one.follow("Block")
    one.press("Preview")
    one.sees("Workers left")
    one.press("Block a worker")
    one.done()


def block(api):
    tried = api.post("/workers/inhouse/dan:block", d.BlockedWorker, dry_run=True)
    assert (tried.workers_left, tried.open_tasks) == (4, 0)
    api.post("/workers/inhouse/dan:block", d.BlockedWorker)


def see_market(one):
    one.go("Connectors")
    one.follow("Add a market")
    one.fill(name="other", kind="folder", settings="spool = other")
    one.press("Add a market")
    one.follow("Go on")
    one.follow("Enable other")
    one.press("Preview")
    one.press("Enable a connector")
    one.done()


def add_market(api):
    body = {"name": "crowd", "kind": "folder", "settings": {"spool": "crowd"}}
    api.post("/connectors", d.ConnectorName, body)
    assert api.post("/connectors/crowd:enable", d.Enabled, {}).enabled


def see_all_right(one):
    one.sees("No limit is crossed")
    one.sees("things need you")


def is_all_right(api):
    told = api.get("/status", d.Status)
    assert told.limits.crossed == []
    assert told.needs_you


TASKS = (
    Task("find why a worker was refused", 4, 1, see_why_refused, ask_why_refused),
    Task("judge five conflicts", 7, 11, see_five_conflicts, judge_five_conflicts),
    Task("block a worker, and see what it costs", 5, 2, see_block, block),
    Task("add a market", 7, 2, see_market, add_market),
    Task("is everything all right?", 0, 1, see_all_right, is_all_right),
)


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_an_operators_day_takes_few_clicks_and_calls(house, at_console):
    """Prints the table of docs/howto/operators/console.md; more of either is a fault."""
    with house.api("operator") as api, house.api("admin") as admin:
        first_ten_minutes(api, house)
        house.work(*(f"scan-{n}.disease" for n in range(5)), disagree=True)
        sent: list[str] = []
        for client in (api, admin):
            request = client._http.request

            def counted(method, path, request=request, **asked):
                sent.append(path)
                return request(method, path, **asked)

            client._http.request = counted
        found, seconds = [], []
        for task in TASKS:
            sent.clear()
            begun = time.perf_counter()
            task.by_api(admin if task.name == "add a market" else api)
            found.append((task.name, len(sent)))
            seconds.append(time.perf_counter() - begun)
        assert found == [(task.name, task.calls) for task in TASKS]
    house.work(*(f"scan-{n}.disease" for n in range(5, 10)), disagree=True)
    people = {role: at_console(role) for role in ("operator", "admin")}
    for task, by_api in zip(TASKS, seconds, strict=True):
        one = people["admin" if task.name == "add a market" else "operator"]
        one.go("Overview")
        one.clicks, begun = 0, time.perf_counter()
        task.by_console(one)
        took = time.perf_counter() - begun
        assert one.clicks == task.clicks, task.name
        print(
            f"| {task.name} | {one.clicks} | {took:.1f} | {task.calls} | {by_api:.2f} |"
        )
