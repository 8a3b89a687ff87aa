"""Servers beside the leader, on PostgreSQL: who may show, what fences, who ships."""

import itertools
import threading
from contextlib import contextmanager

import pytest
from prometheus_client import CollectorRegistry
from starlette.testclient import TestClient

from dispatcher.app.daemon import Daemon, Tick
from dispatcher.app.guard import InService
from dispatcher.app.leadership import LEASE_SECONDS, take_lease
from dispatcher.app.metrics import health_app
from dispatcher.app.server_lease import (
    CLOCKS_SECONDS,
    LEADERLESS_SECONDS,
    ServerLease,
    ServerWatch,
)
from dispatcher.core.config import Config
from dispatcher.core.errors import (
    NeedsMigration,
    NotShipped,
    Refused,
    StaleLease,
    StoreEdited,
    StoreUnreachable,
    Usage,
)
from dispatcher.core.processes import process_digest
from dispatcher.ledger.book import Asks, Pull, book
from dispatcher.ledger.shipping import RemoteShipper, attach, shipped_lines
from dispatcher.ledger.shipping import remote as remote_shipping
from dispatcher.operations.workspace import Workspace
from dispatcher.store import api_requests, lease, migrations, open_store, settings
from dispatcher.store.engine import committed
from dispatcher.surfaces import server as server_surface
from tests import sql
from tests.integration.ledger_cases import PAIR, Case, policy
from tests.patience import PATIENCE, together

GROUPS = '[workers.groups.g]\nmembers = ["x/g*"]\n'


class Steady:
    """Seconds that pass only when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def steady():
    return Steady()


@pytest.fixture
def store(postgres_store, clock, monkeypatch):
    monkeypatch.setattr(settings, "database_time", lambda _: clock())
    return postgres_store


class Scene:
    """A leader that opened the store, and servers beside it."""

    def __init__(self, store, clock, steady):
        self.store, self.clock, self.steady = store, clock, steady
        self.numbers = itertools.count(1)
        self.epoch = 0
        self.watch = ServerWatch(store, clock, steady=steady)

    def lead(self):
        self.epoch = take_lease(self.store, self.clock, f"leader-{self.epoch}")
        self.watch = ServerWatch(self.store, self.clock, steady=self.steady)
        self.watch.tick(self.epoch)

    def renew(self):
        self.clock.advance(seconds=1)
        until = self.clock() + LEASE_SECONDS * 1_000_000
        with self.store.write() as tx:
            assert lease.renew(tx, lease.SHARD, self.epoch, until)

    def wait(self, seconds):
        """Let time pass, by all clocks."""
        self.steady.now += seconds
        self.clock.advance(seconds=seconds)

    def server(self, name="s", store=None):
        return ServerLease(
            store or self.store,
            self.clock,
            "tasks",
            steady=self.steady,
            number=lambda: next(self.numbers),
            me=name,
        )

    def joined(self, name="s", store=None):
        """A server that is let in."""
        made = self.server(name, store)
        made.beat()
        self.renew()
        made.beat()
        assert made.is_open(), made.why
        return made


@pytest.fixture
def scene(store, clock, steady):
    made = Scene(store, clock, steady)
    made.lead()
    return made


@pytest.fixture
def case(store):
    made = Case(store)
    made.apply(policy(PAIR, budget="t = 2", groups=GROUPS))
    made.add("x/ann", "x/g1", "x/g2")
    made.load(("r1", "p1", 1, "abcd"), ("r2", "p2", 2, "abcd"))
    return made


def show(case, who, what, fence, store=None):
    """Book one showing as a server does."""
    asks = [Asks(case.accounts[who], [case.entries[what]])]

    def booking(tx):
        until = Pull(leased_until=case.now)
        return book(tx, asks, delivery=until, at=case.now, cause="served", fence=fence)

    return committed(store or case.store, booking)


def shown(case):
    return case.count("ledger_line", "kind = 'exposure'")


def test_a_server_shows_nothing_before_a_leader_was_seen_to_lead(store, clock, steady):
    scene = Scene(store, clock, steady)
    server = scene.server()
    server.beat()
    assert (server.is_serving(), server.why) == (False, "no daemon leads")
    with pytest.raises(StaleLease, match="nothing new"):
        server.fence()
    scene.epoch = take_lease(store, clock, "one that compares the store yet")
    server.beat()
    scene.renew()
    server.beat()
    assert server.why == "the daemon that leads has not opened the store yet"
    scene.watch.tick(scene.epoch)
    server.beat()
    assert server.is_open()


def test_it_books_under_its_own_lease_and_gives_it_back(scene, case):
    server = scene.joined()
    assert server.fence().shard != lease.SHARD
    show(case, "x/ann", "r1.a", server.fence())
    server.begin_drain()
    assert (server.is_open(), server.is_serving()) == (False, True)
    show(case, "x/ann", "r1.c", server.fence())  # whoever comes is still served
    server.leave()
    assert not server.is_serving()
    with case.store.read() as tx:
        assert lease.servers(tx) == []


def test_safety_a_frozen_server_is_fenced_off_and_can_book_nothing(scene, case, steady):
    frozen, alive = scene.joined("frozen"), scene.joined("alive")
    held = frozen.fence()
    assert scene.watch.tick(scene.epoch) == 0
    scene.wait(LEASE_SECONDS)
    alive.beat()
    assert scene.watch.tick(scene.epoch) == 1
    with pytest.raises(StaleLease):
        show(case, "x/ann", "r1.a", held)
    assert shown(case) == 0
    assert not frozen.is_serving()  # by its own clock too
    show(case, "x/ann", "r1.a", alive.fence())
    scene.renew()
    frozen.beat()  # it wakes up, and begins anew
    assert frozen.is_open()
    assert frozen.fence() != held


def test_a_booking_that_began_is_waited_for_before_its_server_is_gone(scene, case):
    server = scene.joined()
    fence, went_on = server.fence(), threading.Event()
    entry, ann = case.entries["r1.a"], case.accounts["x/ann"]

    def books():
        with case.store.write() as tx:
            lease.check(tx, fence)
            went_on.wait(0.2)
            delivery = Pull(leased_until=1)
            book(
                tx,
                [Asks(ann, [entry])],
                delivery=delivery,
                at=1,
                cause="x",
                fence=fence,
            )

    def fences():
        with case.store.write() as tx:
            assert lease.end_server(tx, fence.shard)
        return shown(case)

    said = together(books, fences)
    assert said[1] == shown(case)  # booked before it was gone, or not at all
    with pytest.raises(StaleLease):
        show(case, "x/ann", "r2.a", fence)


def test_servers_outlive_a_change_of_leader_and_no_longer_absence(scene, case, steady):
    server = scene.joined()
    steady.now += LEADERLESS_SECONDS - 1  # nobody renews
    server.beat()
    show(case, "x/ann", "r1.a", server.fence())
    steady.now += 1
    assert not server.is_serving()
    server.beat()
    assert server.why == "no daemon leads"
    scene.clock.advance(seconds=60)
    scene.lead()
    server.beat()
    show(case, "x/ann", "r1.c", server.fence())  # its lease is the one it had


def test_safety_where_the_store_was_edited_all_servers_are_fenced_off(scene, case):
    server = scene.joined()
    fence, lost = server.fence(), threading.Event()

    def edited(_epoch):
        raise StoreEdited("the store is not as its ledger says")

    with case.store.write() as tx:
        lease.release(tx, lease.SHARD, scene.epoch)
    daemon = Daemon(
        case.store, [Tick("comparing", 9, edited)], scene.clock, lost=lost.set
    )
    daemon.lead()
    show(case, "x/ann", "r1.a", fence)
    daemon.start()
    assert lost.wait(PATIENCE)
    daemon.stop()
    with pytest.raises(StaleLease):
        show(case, "x/ann", "r2.a", fence)
    server.beat()
    assert not server.is_serving()


def test_a_clock_that_is_minutes_off_shows_nothing(scene, clock, monkeypatch):
    server = scene.joined()
    off = round((CLOCKS_SECONDS + 30) * 1_000_000)
    monkeypatch.setattr(settings, "database_time", lambda _: clock() + off)
    server.beat()
    assert not server.is_serving()
    assert server.why == "its clock and the database's differ by 90 s"


def test_without_the_database_its_lease_lapses_by_its_own_clock(
    scene, steady, monkeypatch
):
    server = scene.joined()

    def away():
        raise StoreUnreachable("the server does not answer")

    monkeypatch.setattr(scene.store, "write", away)
    server.beat()
    assert server.is_serving()  # it may be back in time
    steady.now += LEASE_SECONDS
    server.beat()
    assert not server.is_serving()


def test_another_schema_closes_it_at_once(scene, monkeypatch):
    server = scene.joined()

    def newer(*_):
        raise NeedsMigration("the store is of a newer program")

    monkeypatch.setattr(migrations, "check_version", newer)
    server.beat()
    assert server.why == "the store refused it (E103)"


def test_what_a_proxy_is_told(scene, store):
    server = scene.joined()

    async def page(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"page"})

    browser = TestClient(InService(page, server.is_serving, https=True))
    standing = "has a lease beside a leader and does not drain"
    health = TestClient(
        health_app(store, server, None, CollectorRegistry(), standing=standing)
    )
    assert f"ok   {standing}" in health.get("/readyz").text
    assert browser.get("/").text == "page"
    server.begin_drain()
    assert f"FAIL {standing}" in health.get("/readyz").text
    assert browser.get("/").status_code == 200
    server.leave()
    refused = browser.get("/")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
    assert refused.headers["cache-control"] == "no-store"
    assert "Nothing was lost" in refused.text


def test_safety_two_servers_never_show_one_worker_what_is_apart(
    scene, case, postgres_url
):
    """The same worker presses Start at two servers at once."""
    with open_store(postgres_url) as other:
        servers = [scene.joined("a"), scene.joined("b", other)]
        case.load(*((f"q{i}", None, None, "ab") for i in range(12)))
        for i in range(12):
            said = together(
                lambda i=i: show(case, "x/g1", f"q{i}.a", servers[0].fence()),
                lambda i=i: show(case, "x/g2", f"q{i}.b", servers[1].fence(), other),
            )
            refused = [one for one in said if isinstance(one, Refused)]
            assert len(refused) == 1, said


# -- the leader ships -------------------------------------------------------------------


@contextmanager
def shipping(store, epoch):
    """The loop of a leader that ships what servers wait for."""
    over = threading.Event()

    def ship():
        while not over.wait(0.002):
            store.ship_waiting(epoch)

    thread = threading.Thread(target=ship)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(PATIENCE)


def served(url, scene, name="s"):
    """A server's own store and lease: its lines are shipped by the leader."""
    store = open_store(url)
    server = scene.joined(name, store)
    store.attach(
        RemoteShipper(
            store,
            leads=server.is_led,
            needed=lambda: server.leader_ships,
            steady=scene.steady,
        )
    )
    return store, server


def lines_of(folder):
    return [
        line.members["entry"]
        for line in shipped_lines(folder)
        if line.members.get("kind") == "exposure"
    ]


@pytest.fixture
def shipped_scene(store, clock, steady, tmp_path):
    """A leader that ships into a folder."""
    attach(store, tmp_path / "ledger")
    made = Scene(store, clock, steady)
    made.folder = tmp_path / "ledger"
    made.lead()
    return made


def test_safety_a_server_has_its_lines_in_the_leaders_folder_before_it_shows(
    shipped_scene, case, postgres_url
):
    store, server = served(postgres_url, shipped_scene)
    with store, shipping(case.store, shipped_scene.epoch):
        show(case, "x/ann", "r1.a", server.fence(), store)
        assert len(lines_of(shipped_scene.folder)) == 1
        assert case.count("unshipped_piece") == 0
        with store.write() as tx:
            tx.waits = True  # a made-up question: as long, and without a line
        said = together(
            *(
                lambda who=who, what=what: show(case, who, what, server.fence(), store)
                for who, what in [("x/ann", "r1.c"), ("x/g1", "r1.a"), ("x/g2", "r2.c")]
            )
        )
    assert all(one.new == 1 for one in said)
    assert len(lines_of(shipped_scene.folder)) == 4


def test_safety_what_a_dead_server_booked_is_shipped_before_another_shows_it(
    shipped_scene, case, postgres_url, steady, monkeypatch
):
    monkeypatch.setattr(remote_shipping, "LONGEST", 0.0)  # it dies before it is shipped
    store, server = served(postgres_url, shipped_scene)
    other, _ = served(postgres_url, shipped_scene, "other")
    with store, other:
        with pytest.raises(NotShipped):
            show(case, "x/ann", "r1.a", server.fence(), store)
        assert (shown(case), lines_of(shipped_scene.folder)) == (1, [])
        with case.store.read() as tx:
            chain = sql.value(tx, "SELECT chain_id FROM unshipped_piece")
        other.settle(chain=chain + 1)  # of somebody else: not waited for
        with pytest.raises(NotShipped):  # another server waits for it, in vain
            other.settle(chain=chain)
        assert not other.ships()
        case.store.settle(chain=chain)  # the leader's own page ships it at once
        assert len(lines_of(shipped_scene.folder)) == 1
        case.store.ship_waiting(shipped_scene.epoch)
        other.settle(chain=chain)
        assert other.ships()
    assert len(lines_of(shipped_scene.folder)) == 1


def test_without_a_leader_nothing_is_booked_that_nobody_would_ship(
    shipped_scene, case, postgres_url, steady
):
    store, server = served(postgres_url, shipped_scene)
    fence = server.fence()
    steady.now += LEADERLESS_SECONDS
    with store, pytest.raises(NotShipped, match="has not shipped"):
        show(case, "x/ann", "r1.a", fence, store)
    assert shown(case) == 0


def test_safety_a_leader_that_was_followed_settles_nothing(
    shipped_scene, case, postgres_url, monkeypatch
):
    monkeypatch.setattr(remote_shipping, "LONGEST", 0.0)
    store, server = served(postgres_url, shipped_scene)
    with store, pytest.raises(NotShipped):
        show(case, "x/ann", "r1.a", server.fence(), store)
    with pytest.raises(StaleLease):
        case.store.ship_waiting(shipped_scene.epoch - 1)
    assert case.count("unshipped_piece") == 1  # so the server goes on waiting


def test_servers_begin_anew_under_a_leader_that_ships_where_the_last_did_not(
    scene, case, tmp_path
):
    server = scene.joined()
    assert not server.leader_ships
    attach(case.store, tmp_path / "ledger")
    scene.clock.advance(seconds=60)
    scene.lead()
    with pytest.raises(StaleLease):
        show(case, "x/ann", "r1.a", server._fence)
    scene.renew()
    server.beat()
    assert server.is_open()
    assert server.leader_ships


# -- what else a process keeps -----------------------------------------------------------


def test_requests_of_a_server_are_broken_off_when_it_is_gone_and_not_before(
    scene, store, clock, steady
):
    scene.joined("gone")
    alive = scene.joined("alive")
    with store.write() as tx:
        for name in ("gone", "alive"):
            api_requests.begin(
                tx, f"op_{name}", caller="c", operation="o", key=None, digest="",
                process=process_digest(name), now=clock(),
            )  # fmt: skip

    def states():
        with store.read() as tx:
            return [
                api_requests.by_id(tx, f"op_{name}").state for name in ("gone", "alive")
            ]

    scene.watch.tick(scene.epoch)
    assert states() == ["running", "running"]
    scene.wait(LEASE_SECONDS)
    alive.beat()
    scene.watch.tick(scene.epoch)
    assert states() == ["interrupted", "running"]


def test_serve_refuses_sqlite_and_an_api_that_is_switched_off(sqlite_path, tmp_path):
    workspace = Workspace(tmp_path, str(sqlite_path))
    words = {"addresses": {}, "drain": 0.0, "begun": None}
    with pytest.raises(Usage, match="need PostgreSQL"):
        server_surface.run(workspace, only=["tasks"], **words)
    with pytest.raises(Usage, match="do not serve the API"):
        server_surface.run(workspace, only=["api"], **words)
    assert server_surface.choose(Config(), []) == ("tasks", "console")
