"""What could never be sent is neither planned nor booked, and its mend is told."""

import json
from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from connectors.base import Binding, Limits, Misconfigured
from connectors.inhouse import Inhouse
from connectors.testing.hostile import MEMORY, Memory
from dispatcher.core.errors import Infeasible, Invalid
from dispatcher.core.plugins import open_connector
from dispatcher.model import UNIT, Budget
from dispatcher.operations import workers
from dispatcher.operations.workspace import Workspace
from dispatcher.preflight import Preflight
from dispatcher.stages.booking import Booking
from dispatcher.stages.planning import Planning
from dispatcher.stages.sending import Sending, SendingTerms
from dispatcher.store import booking, money, pause
from tests import builders, sql
from tests.contract.memory_feed import FEED, MemoryFeed
from tests.integration.ledger_cases import Case, policy
from tests.integration.test_booking import House
from tests.integration.test_planning import pairs

OWN = (b"k" * 32).hex()
LINK = "https://tasks.example.test"
FIELDS = 'a = { ask = "transcribe" }\nb = {}\nc = {}\nd = { ask = "number" }'
APART = '[property.b-c]\nof = ["b", "c"]'
GROUP = '[workers.groups.g]\nmembers = ["ads/*"]'


class OneReceiver(MemoryFeed):
    """A feed as they all are: whatever account it is sent for, one receiver gets it."""

    def __init__(self, **declared):
        super().__init__()
        self.declared = replace(FEED, binding=Binding.NONE, **declared)

    @property
    def manifest(self):
        return self.declared

    def send(self, offer):
        self.declared.check(offer)
        return super().send(offer)


class Declares(Memory):
    """A market that declares something else than it usually does."""

    def __init__(self, **declared):
        super().__init__()
        self.declared = replace(MEMORY, **declared)

    @property
    def manifest(self):
        return self.declared

    def publish(self, offer):
        self.declared.check(offer)
        return super().publish(offer)


@pytest.fixture
def house(store, clock):
    case = Case(store)
    case.apply(policy(APART, FIELDS))
    return House(case, clock)


def stages(house, connectors, **more):
    preflight = Preflight(connectors, link=LINK, **more)
    store = house.case.store
    planning = Planning(store, house.clock, rest=0.0, preflight=preflight, partial=True)
    rng = np.random.default_rng(5)
    return preflight, planning, Booking(store, preflight, house.clock, rng)


def obstacles(house, preflight):
    with house.case.store.read() as tx:
        return preflight.look(tx).obstacles


def planned_for(case, connector):
    return {pair for pair in pairs(case) if pair[0].startswith(f"{connector}/")}


def exposures(case):
    return case.count("ledger_line", "kind = 'exposure'")


# -- the case: two accounts on one feed connector ----------------------------------------


def test_two_accounts_of_one_feed_are_refused_before_anything_is_planned(house):
    case = house.case
    case.add("x/ann", "ads/acme", "ads/bolt")
    case.load(("r1", "p", None, "abc"))
    ads = OneReceiver()
    _, planning, booking_ = stages(house, {"x": Memory(), "ads": ads})
    with pytest.raises(Infeasible) as error:
        planning.draft()
    assert "ads is given nothing (2 accounts): its accounts are 2 adversaries" in (
        error.value.why
    )
    assert "a connector of its own" in error.value.why
    assert "one group of the policy" in error.value.why
    assert planning.tick(house.epoch) == 1
    assert pairs(case) == {("x/ann", "r1.a")}
    assert booking_.tick(house.epoch) == 1
    assert exposures(case) == 1, "of ann's field alone"


def test_a_second_account_that_comes_after_the_plan_stops_the_booking(house):
    """What is planned stays planned, and goes when the two are one adversary."""
    case = house.case
    case.add("ads/acme")
    case.load(("r1", "p", None, "b"))
    ads = OneReceiver()
    _, planning, booking_ = stages(house, {"ads": ads})
    assert planning.tick(house.epoch) == 1
    case.add("ads/bolt")
    assert booking_.tick(house.epoch) == 0
    assert (exposures(case), planned_for(case, "ads")) == (0, {("ads/acme", "r1.b")})
    case.apply(policy(APART, FIELDS, groups=GROUP, name="two"))
    assert planning.tick(house.epoch) == 1
    assert booking_.tick(house.epoch) == 1
    Sending(case.store, "ads", ads, house.clock).tick(house.epoch)
    assert len(ads.sent) == 1


def test_feeds_and_workers_are_counted_apart(house):
    """b and c want two feeds, there is one; a further worker would not help."""
    case = house.case
    case.add("x/ann", "x/bob", "x/cat", "ads/acme")
    case.load(("r1", "p", None, "abc"))
    _, planning, _ = stages(house, {"x": Memory(), "ads": OneReceiver()})
    with pytest.raises(Infeasible) as error:
        planning.draft()
    assert "with 3 workers and 1 feed; 2 feeds needed" in str(error.value)
    assert "Register 1 more feed (2, each a connector of its own)" in error.value.fix
    assert "worker" not in error.value.fix
    assert "b-c clash together" in error.value.why
    assert error.value.facts["needed"] == 2
    planning.tick(house.epoch)
    with case.store.read() as tx:
        (told,) = {row[0] for row in sql.rows(tx, "SELECT reason FROM held_back")}
    assert told.startswith("2 feeds needed: ")


def test_a_worker_is_needed_beside_feeds(house):
    """a wants two workers; the three feeds are none."""
    case = house.case
    fields = FIELDS.replace('"transcribe"', '"transcribe", answers = 2')
    case.apply(policy(APART, fields, name="two"))
    case.add("x/ann", "ads/a", "ads2/b", "ads3/c")
    case.load(("r1", "p", None, "abc"))
    feeds = {name: OneReceiver() for name in ("ads", "ads2", "ads3")}
    _, planning, _ = stages(house, {"x": Memory(), **feeds})
    with pytest.raises(Infeasible) as error:
        planning.draft()
    assert "with 1 worker and 3 feeds; 2 workers needed" in str(error.value)
    assert error.value.fix.startswith("Register 1 more worker (2)")
    assert "more answers than workers may see it -> 2" in error.value.why


def test_what_lacks_of_both_kinds_is_counted_of_both(house):
    """One rule joins all three fields: one more worker and one more feed are needed."""
    case = house.case
    fields = FIELDS.replace('"transcribe"', '"transcribe", answers = 2')
    both = APART + '\n[property.a-b-c]\nof = ["a", "b", "c"]'
    case.apply(policy(both, fields, name="two"))
    case.add("x/ann", "ads/acme")
    case.load(("r1", "p", None, "abc"))
    _, planning, _ = stages(house, {"x": Memory(), "ads": OneReceiver()})
    with pytest.raises(Infeasible) as error:
        planning.draft()
    assert "2 workers and 2 feeds needed" in str(error.value)
    assert "Register 1 more worker (2), or Register 1 more feed (2" in error.value.fix


# -- siblings: every connector, every reason that is known before booking ----------------


def private_key():
    return Ed25519PrivateKey.generate().private_bytes(
        form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption()
    )


def host_key():
    public = Ed25519PrivateKey.generate().public_key()
    return public.public_bytes(
        form.Encoding.OpenSSH, form.PublicFormat.OpenSSH
    ).decode()


KINDS = {
    "folder": ({"spool": "spool"}, b""),
    "inhouse": ({}, bytes(32)),
    "pickup": ({"path": "pickup"}, b""),
    "webhook": ({"url": "https://a.example/x"}, b"whsec_" + b"a2tr" * 8),
    "segment": ({"url": "https://a.example"}, b"WK"),
    "s3": ({"bucket": "fields"}, b"id\nkey"),
    "sftp": ({"host": "a.example", "user": "u", "host_key": host_key()}, private_key()),
    "turkle": ({"url": "https://t.example"}, f"word\n{OWN}".encode()),
    "label-studio": ({"url": "https://l.example"}, f"word\n{OWN}".encode()),
    "mturk": (
        {"url": "sandbox", "page": f"{LINK}/from/c"},
        f"id\nkey\n{OWN}".encode(),
    ),
    "prolific": (
        {"workspace": "w", "project": "p", "page": f"{LINK}/from/c", "minutes": "5"},
        f"word\n{OWN}".encode(),
    ),
}
THERE = {"content": "there"}
ELSEWHERE = {"page": "https://other.example/from/c"}


def opened(kind, tmp_path, **more):
    values, secret = KINDS[kind]
    told = {"kind": kind, **values, **more}
    return open_connector("c", told, directory=tmp_path, secret=secret)


def budget(case, reward, currency):
    row = Budget(
        run_id=1, currency=currency, cap=100 * UNIT, reward=round(reward * UNIT)
    )
    with case.store.write() as tx:
        money.put_budget(tx, row)


TWO = ("c/one", "c/two")
SIBLINGS = {
    "folder: the directory's name": (
        "folder", {}, None, ["c/" + "é" * 60], "needs 360 characters", "shorter",
    ),
    "folder: the account": (
        "folder", {}, None, ["c/" + "a" * 151], "the account has 151 bytes", "shorter",
    ),
    "turkle: the account": (
        "turkle", {}, None, ["c/" + "a" * 151], "the account has 151 bytes", "shorter",
    ),
    "label-studio: the account": (
        "label-studio", {}, None, ["c/" + "a" * 255], "the account has 255", "shorter",
    ),
    "label-studio: whoever is there reads it": (
        "label-studio", THERE, None, TWO, "are 2 adversaries", "one group",
    ),
    "webhook: accounts": ("webhook", {}, None, TWO, "are 2 adversaries", "one group"),
    "segment: accounts": ("segment", {}, None, TWO, "are 2 adversaries", "one group"),
    "s3: accounts": ("s3", {}, None, TWO, "are 2 adversaries", "one group"),
    "sftp: accounts": ("sftp", {}, None, TWO, "are 2 adversaries", "one group"),
    "mturk: no reward": ("mturk", {}, None, TWO, "needs to know what", "runs budget"),
    "mturk: its currency": (
        "mturk", {}, (1.2, "GBP"), TWO, "pays in USD, not in GBP", "",
    ),
    "mturk: parts of a cent": (
        "mturk", {}, (0.125, "USD"), TWO, "whole cents", "runs budget",
    ),
    "mturk: another page": (
        "mturk", ELSEWHERE, (1.2, "USD"), TWO, "different places", "worker_url",
    ),
    "mturk: the account": (
        "mturk", {}, (1.2, "USD"), ["c/" + "A" * 65], "has 65 bytes", "shorter",
    ),
    "prolific: no reward": ("prolific", {}, None, TWO, "needs to know", "runs budget"),
    "prolific: parts of a cent": (
        "prolific", {}, (0.125, "GBP"), TWO, "no whole number of cents", "runs budget",
    ),
    "prolific: another page": (
        "prolific", ELSEWHERE, (1.2, "GBP"), TWO, "different places", "worker_url",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SIBLINGS)
def test_what_a_connector_could_not_send_is_refused_with_its_mend(
    house, tmp_path, name
):
    kind, more, reward, accounts, what, fix = SIBLINGS[name]
    case, connector = house.case, opened(kind, tmp_path, **more)
    if reward is not None:
        case.load(("r0", "p", None, "a"))  # a budget is a run's
        budget(case, *reward)
    case.add(*accounts)
    case.load(("r1", "p", None, "abcd"))
    preflight, planning, booking_ = stages(house, {"c": connector})
    (told,) = obstacles(house, preflight)
    assert (told.connector, told.accounts) == ("c", len(accounts))
    assert what in told.what
    assert fix in told.fix
    assert planning.tick(house.epoch) == 0
    for account in accounts:  # a plan that was made before
        ready = planned_before(house, account)
    assert booking_.tick(house.epoch) == 0
    assert (exposures(case), case.count("outbox")) == (0, 0)
    assert len(planned_for(case, "c")) == ready


def planned_before(house, account):
    """Put a plan in force that gives an account a field; return how many are planned."""
    builders.end_plans(house.case.store)
    house.plan((account, "r1.a"))
    return 1


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_set_up_well_is_refused_nothing(house, tmp_path, kind):
    house.case.load(("r1", "p", None, "a"))
    budget(house.case, 1.2, "USD")
    house.case.add("c/one")
    preflight, _, _ = stages(house, {"c": opened(kind, tmp_path)})
    assert obstacles(house, preflight) == ()


@pytest.mark.parametrize("kind", ["mturk", "prolific"])
def test_one_run_whose_reward_fits_is_enough(house, tmp_path, kind):
    house.case.load(("r1", "p", None, "a"))
    builders.add_run(house.case.store, "other")
    budget(house.case, 0.125, "GBP")
    row = Budget(run_id=2, currency="USD", cap=100 * UNIT, reward=2 * UNIT)
    with house.case.store.write() as tx:
        money.put_budget(tx, row)
    house.case.add("c/one")
    preflight, _, _ = stages(house, {"c": opened(kind, tmp_path)})
    assert obstacles(house, preflight) == ()


def test_a_connector_that_is_not_set_up_or_cannot_be_opened_is_given_nothing(house):
    case = house.case
    case.add("gone/ann", "shut/bob", "x/cat", "new/dan")
    case.load(("r1", "p", None, "a"))
    error = Invalid("its secret file cannot be read", fix="name another file")
    preflight, planning, _ = stages(
        house,
        {"x": Memory()},
        broken={"shut": error},
        declared={"shut": MEMORY, "new": MEMORY},
    )
    gone, new, shut = obstacles(house, preflight)
    assert "no connector of this name is set up" in gone.what
    assert "dispatcher connectors add gone" in gone.fix
    assert new.fix == "dispatcher up"
    assert (shut.what, shut.fix) == (error.what, error.fix)
    planning.tick(house.epoch)
    assert pairs(case) == {("x/cat", "r1.a")}


def test_a_connector_that_is_disabled_is_planned_for_once_it_is_enabled(house):
    case = house.case
    case.add("x/ann")
    case.load(("r1", "p", None, "a"))
    with case.store.write() as tx:
        pause.pause(tx, "connector:x", "added and not enabled yet", 1)
    preflight, planning, booking_ = stages(house, {"x": Memory()})
    (told,) = obstacles(house, preflight)
    assert "added and not enabled yet" in told.what
    assert told.fix == "dispatcher connectors enable x"
    assert planning.tick(house.epoch) == 0
    with case.store.write() as tx:
        pause.resume(tx, "connector:x")
    assert planning.tick(house.epoch) == 1
    assert booking_.tick(house.epoch) == 1


@pytest.mark.parametrize(
    "failure", [Misconfigured("no"), ZeroDivisionError("1"), SystemExit(3)]
)
def test_a_connector_whose_check_fails_stops_nobody_else(house, failure):
    class Failing(Memory):
        def check_offer(self, offer):
            raise failure

    house.case.add("bad/ann", "x/bob")
    house.case.load(("r1", "p", None, "a"))
    preflight, planning, _ = stages(house, {"bad": Failing(), "x": Memory()})
    (told,) = obstacles(house, preflight)
    assert told.connector == "bad"
    planning.tick(house.epoch)
    assert pairs(house.case) == {("x/bob", "r1.a")}


def test_a_kind_of_question_that_a_market_cannot_ask_goes_to_another(house):
    """d is a number, which x cannot ask; a goes to either."""
    case = house.case
    case.add("x/ann", "y/bob")
    case.load(("r1", "p", None, "d"), ("r2", "p", None, "d"))
    few = Declares(asks=("transcribe",))
    _, planning, booking_ = stages(house, {"x": few, "y": Memory()})
    planning.tick(house.epoch)
    assert pairs(case) == {("y/bob", "r1.d"), ("y/bob", "r2.d")}
    builders.end_plans(house.case.store)
    house.plan(("x/ann", "r1.d"))  # made while x was another kind of market
    assert booking_.tick(house.epoch) == 0
    assert exposures(case) == 0
    assert planned_for(case, "x") == set(), "it goes back to planning"
    planning.tick(house.epoch)
    assert ("y/bob", "r1.d") in pairs(case)


# -- sizes -------------------------------------------------------------------------------


SMALL = Limits(items=100, content_bytes=100, offer_bytes=250)


def test_what_is_too_long_for_a_connector_goes_to_one_that_takes_it(house):
    case = house.case
    case.add("x/ann", "y/bob")
    case.load(("r1", "p", None, "a"), shown=b"x" * 101)
    case.load(("r2", "q", None, "a"), shown=b"x" * 100)
    small = Declares(limits=SMALL)
    _, planning, _ = stages(house, {"x": small, "y": Memory()})
    for seed in range(5):
        drafted = planning.draft(seed=seed)
        assert drafted.plan_id is not None
    found = pairs(case, ("draft",))
    assert ("y/bob", "r1.a") in found
    assert ("x/ann", "r1.a") not in found


def test_what_is_too_long_for_all_is_held_back_and_never_booked(house):
    case = house.case
    case.add("x/ann")
    case.load(("r1", "p", None, "a"), shown=b"x" * 101)
    case.load(("r2", "q", None, "a"))
    _, planning, booking_ = stages(house, {"x": Declares(limits=SMALL)})
    assert planning.tick(house.epoch) == 1
    assert pairs(case) == {("x/ann", "r2.a")}
    assert case.count("held_back") == 1
    builders.end_plans(house.case.store)
    house.plan(("x/ann", "r1.a r2.a"))  # made while x took more
    assert booking_.tick(house.epoch) == 1
    assert (exposures(case), planned_for(case, "x")) == (1, set())


def test_messages_are_cut_by_bytes_so_that_each_can_be_sent(house):
    """100, 100, 100 and 40 in any order: two messages, for 250 bytes go in one."""
    case, market = house.case, Declares(limits=SMALL)
    case.add("x/ann")
    for i, size in enumerate((100, 100, 100, 40)):
        case.load((f"r{i}", f"p{i}", None, "a"), shown=b"x" * size)
    _, planning, booking_ = stages(house, {"x": market})
    assert planning.tick(house.epoch) == 4
    assert booking_.tick(house.epoch) == 4
    sending = Sending(case.store, "x", market, house.clock, SendingTerms(link=LINK))
    assert sending.tick(house.epoch) == 2
    sizes = sorted(
        sum(len(item.content) for item in offer.items)
        for offer in market.offers.values()
    )
    assert sizes in ([140, 200], [100, 240])


def test_what_stays_with_us_may_be_of_any_length(house):
    house.case.add("page/ann")
    house.case.load(("r1", "p", None, "a"), shown=b"x" * (40 << 20))
    _, planning, _ = stages(house, {"page": Inhouse(bytes(32))})
    assert planning.tick(house.epoch) == 1


def test_a_sealed_value_is_as_long_as_it_is_when_it_is_opened(run, set_up, tmp_path):
    from dispatcher.store import open_store

    set_up(CLI_POLICY, CLI_FORMS, ["inhouse/ann"])
    with open_store(tmp_path / "dispatcher.db") as store, store.read() as tx:
        ids = [row[0] for row in sql.rows(tx, "SELECT id FROM entry ORDER BY id")]
        told = booking.to_send(tx, ids)[:, 2].tolist()
    assert told == [len(cell) for cell in ("Canary 1", "12345", "100")]


# -- what is said ------------------------------------------------------------------------

CLI_POLICY = """
version = 1
name = "visits"
[entity.visit]
key = "visit_id"
[entity.visit.fields]
patient_name = { ask = "transcribe" }
zip = {}
income = {}
[property.zip-income]
of = ["zip", "income"]
"""
CLI_FORMS = "visit_id,patient_name,zip,income\nv1,Canary 1,12345,100\n"
SETTINGS = """
[connectors.inhouse]
[connectors.ads]
kind = "webhook"
url = "https://ads.example.org/x"
secret_file = "ads.secret"
"""


@pytest.fixture
def desk(run, set_up, tmp_path):
    (tmp_path / "dispatcher.toml").write_text(SETTINGS)
    (tmp_path / "ads.secret").write_text("whsec_" + "a2tr" * 8)
    workers = ["inhouse/ann", "ads/acme", "ads/bolt"]
    set_up(CLI_POLICY, CLI_FORMS, workers)
    return run


REFUSED = "ads is given nothing (2 accounts): its accounts are 2 adversaries"


def test_feeds_are_no_workers_who_stay_when_one_is_blocked(desk, tmp_path):
    workspace = Workspace(tmp_path)
    with workspace.open_store() as store:
        found = workers.cost_of_blocking(workspace, store, "inhouse/ann")
    assert found.workers == 0


def test_every_place_that_tells_how_it_stands_says_what_is_refused(desk):
    assert REFUSED in desk("plan", "--dry-run", "--partial").out
    assert REFUSED in desk("plan").err
    assert REFUSED in desk("status").out
    (told,) = json.loads(desk("--json", "status").out)["refused"]
    assert (told["connector"], told["accounts"]) == ("ads", 2)
    found = desk("doctor", "--only", "connectors").out
    assert "WARN  a connector is given nothing for 2 accounts   [ads: its" in found
    assert REFUSED in desk("workers", "add", "ads/cork").err.replace("3 a", "2 a")


def test_the_bundle_of_the_doctor_names_no_connector(desk, tmp_path):
    desk("doctor", "--bundle", "bundle.json")
    text = (tmp_path / "bundle.json").read_text()
    assert "is given nothing for 2 accounts" in text
    assert "ads" not in text.replace("threads", "").replace("reads", "")


def test_a_secret_that_is_missing_is_said_without_opening_anything(desk, tmp_path):
    (tmp_path / "ads.secret").unlink()
    assert "its secret file cannot be read" in desk("status").out
    done = desk("plan", "--dry-run", "--partial")
    assert "its secret file cannot be read" in done.out


def test_a_kind_that_no_package_brings_any_more_stops_no_other_command(desk, tmp_path):
    with (tmp_path / "dispatcher.toml").open("a") as file:
        file.write('[connectors.cork]\nkind = "bazaarpush"\n')
    done = desk("status")
    assert done.code == 0
    assert REFUSED in done.out


def test_a_field_that_nobody_is_asked_lists_feeds_and_an_asked_one_workers(desk):
    done = desk("explain", "v1.zip", "--who")
    assert done.out == ""
    assert "0 of 2 feeds could be shown it" in done.err
    assert REFUSED in done.err
    done = desk("explain", "v1.patient_name", "--who")
    assert done.out == "inhouse/ann\n"
    assert "1 of 1 workers could be shown it" in done.err
    assert (
        "goes to feeds alone"
        in desk("explain", "v1.zip", "--worker", "inhouse/ann").out
    )
    assert "are 2 adversaries" in desk("explain", "v1.zip", "--worker", "ads/acme").out
    found = json.loads(desk("--json", "explain", "v1.zip", "--worker", "ads/acme").out)
    assert (found["sent"], found["to"]) == (False, "feeds")
