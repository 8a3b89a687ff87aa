"""A connection may break anywhere, in a commit too: nothing is lost, nothing is doubled.

A proxy of the tests' own stands before the server and cuts where it is told to.
"""

import threading
from collections import Counter
from contextlib import ExitStack, suppress

import pytest
from sqlalchemy import bindparam, insert, update

from connectors.testing.hostile import Memory
from dispatcher.app.daemon import Daemon, Tick
from dispatcher.core.errors import StoreUnreachable
from dispatcher.ledger.book import Asks, Push, book
from dispatcher.ledger.comparison import compare
from dispatcher.model import Pause
from dispatcher.stages.serving import Given, Saved
from dispatcher.store import lease, open_store
from dispatcher.store.driver_errors import Contended, NotKept
from dispatcher.store.engine import committed
from tests import sql
from tests.integration import stages
from tests.integration.cutting import AFTER, BEFORE, LATE, cutter
from tests.integration.exchange_house import Exchange
from tests.integration.ledger_cases import PAIR, Case, policy
from tests.integration.serving_house import House
from tests.patience import PATIENCE, until

COMMIT = b"COMMIT\0"  # the statement alone, as a simple query


@pytest.fixture
def proxy(postgres_cluster):
    with cutter(postgres_cluster.socket / ".s.PGSQL.5432") as made:
        yield made


@pytest.fixture
def far(proxy, postgres_cluster, postgres_url):
    """The store through the proxy; it is asked for 2 s how a commit ended."""
    database = postgres_url.rpartition("/")[2]
    url = f"postgresql://{postgres_cluster.user}@127.0.0.1:{proxy.port}/{database}"
    with open_store(url, wait_ms=2000) as store:
        yield store


LATER = update(Pause).where(Pause.scope == bindparam("name")).values(at=Pause.at + 1)


def note(tx, name="a"):
    tx.execute(insert(Pause).values(scope=name, reason="x", at=1))


def noted(store):
    with store.read() as tx:
        return [row[0] for row in sql.rows(tx, "SELECT scope FROM pause ORDER BY 1")]


def write(store, name="a"):
    with store.write() as tx:
        note(tx, name)


def test_a_commit_that_never_arrived_is_told_as_not_kept(proxy, far, postgres_store):
    proxy.cut(BEFORE, COMMIT)
    with pytest.raises(NotKept, match="broke") as told:
        write(far)
    assert proxy.cuts == 1
    assert told.value.retryable
    assert noted(postgres_store) == []
    write(far)
    assert noted(postgres_store) == ["a"]


@pytest.mark.parametrize("how", [AFTER, LATE])
def test_a_commit_whose_reply_is_lost_is_asked_for_and_counts(
    how, proxy, far, postgres_store
):
    proxy.cut(how, COMMIT)
    write(far)  # no error: the store, asked, says that it is kept
    assert proxy.cuts == 1
    assert noted(postgres_store) == ["a"]


@pytest.mark.parametrize(
    ("how", "kept"), [(AFTER, ["a"]), (BEFORE, [])], ids=["kept", "not kept"]
)
def test_a_commit_that_nobody_can_be_asked_about_is_never_repeated(
    how, kept, proxy, far, postgres_store
):
    proxy.then_close = True
    proxy.cut(how, COMMIT)
    tries = []

    def work(tx):
        tries.append(1)
        note(tx)

    with pytest.raises(StoreUnreachable, match="cannot be reached") as told:
        committed(far, work)
    assert type(told.value) is StoreUnreachable
    assert "may or may not" in told.value.why
    assert len(tries) == 1
    assert noted(postgres_store) == kept


@pytest.mark.parametrize("how", [BEFORE, AFTER])
def test_a_whole_transaction_is_repeated_and_kept_once(how, proxy, far, postgres_store):
    proxy.cut(how, COMMIT)
    committed(far, note)
    assert noted(postgres_store) == ["a"]


def test_what_fails_for_another_reason_is_not_repeated(far):
    tries = []

    def work(tx):
        tries.append(1)
        sql.value(tx, "SELECT 1 FROM nowhere")

    with pytest.raises(Exception, match="tables"):
        committed(far, work)
    assert len(tries) == 1


@pytest.mark.parametrize("how", [BEFORE, AFTER])
def test_a_booking_cut_off_at_any_of_its_messages_is_booked_once(
    how, proxy, far, postgres_store
):
    case = Case(postgres_store)
    case.apply(policy(PAIR))
    case.add("x/1")
    case.load(*((f"r{i}", None, None, "ab") for i in range(60)))

    def booking(name):
        def work(tx):
            asks = [Asks(case.accounts["x/1"], [case.entries[name]])]
            return book(tx, asks, delivery=Push(), at=1, cause="test").new

        return work

    number = 0
    while True:
        before = proxy.cuts
        proxy.cut(how, number + 1)
        assert committed(far, booking(f"r{number}.a")) in (0, 1)
        booked = number + 1
        assert case.count("ledger_line", "kind = 'exposure'") == booked
        assert case.count("task") == case.count("outbox") == booked
        if proxy.cuts == before:
            break
        number += 1
    assert number > 5, "the cuts came too early to mean anything"
    with postgres_store.read() as tx:
        assert compare(tx).differences == ()


PLACES = 16
"""Messages to the server of a turn or a showing that are cut off, one after another."""


class Counted(Memory):
    """Counts how often each message is handed over."""

    def __init__(self):
        super().__init__()
        self.calls = Counter()

    def publish(self, offer):
        self.calls[offer.key] += 1
        return super().publish(offer)


@pytest.mark.parametrize("how", [BEFORE, AFTER])
def test_a_sending_cut_off_at_any_of_its_messages_hands_over_once(
    how, proxy, far, postgres_store, clock
):
    market = Counted()
    exchange = Exchange(Case(postgres_store), clock, market)
    exchange.workers("ann")
    exchange.case.load(*((f"r{i}", None, None, "ab") for i in range(PLACES)))
    sending = stages.sending(far, exchange.connectors, clock)

    def sent():
        with suppress(StoreUnreachable):
            sending.tick(exchange.epoch)
        clock.advance(seconds=4000)
        return exchange.states()[-1] == "sent"

    for number in range(PLACES):
        exchange.book(("ann", f"r{number}.a"))
        proxy.cut(how, number + 1)
        until(sent, "it is sent")
    assert proxy.cuts > 5
    assert list(market.calls.values()) == [1] * PLACES
    assert len(market.offers) == exchange.case.count("outbox") == PLACES


@pytest.mark.parametrize("how", [BEFORE, AFTER])
def test_a_showing_cut_off_at_any_of_its_messages_is_booked_once_and_before(
    how, proxy, far, postgres_store, clock
):
    house = House(postgres_store, clock)
    entries = [house.record(n, name=f"value {n}")["name"] for n in range(1, 2 * PLACES)]
    ann = house.account("ann")
    house.plan((ann, entries))
    house.store = far
    serving = house.serving()

    def shown():
        with suppress(StoreUnreachable):
            return serving.start(ann)
        return None

    for number in range(PLACES):
        proxy.cut(how, number + 1)
        showing = until(shown, "a field is shown")
        with postgres_store.read() as tx:
            booked = sql.value(
                tx, "SELECT count(*) FROM ledger_line WHERE kind = 'exposure'"
            )
            tasks = sql.value(tx, "SELECT count(*) FROM task")
        assert booked == tasks == number + 1, "a showing without its exposure, or two"
        proxy.cut(how, 10_000)
        assert serving.answer(ann, showing.token, Given({"answer": "x"})) == Saved()
    assert proxy.cuts > 5


def test_a_daemon_goes_on_when_its_connections_break(proxy, far, postgres_store, clock):
    turns, again = [], threading.Event()

    def tick(epoch):
        with far.write() as tx:
            lease.check_epoch(tx, lease.SHARD, epoch)
            note(tx, f"run:{len(turns)}")
        turns.append(epoch)
        if len(turns) in (2, 4):
            proxy.cut(BEFORE, 3)
        if len(turns) > 6:
            again.set()
        return 1

    daemon = Daemon(
        far, [Tick("t", 0.02, tick)], clock, lost=lambda: None, renew_seconds=0.05
    )
    daemon.lead()
    daemon.start()
    assert again.wait(PATIENCE)
    daemon.stop()
    daemon.raise_if_lost()
    assert proxy.cuts == 2
    with postgres_store.read() as tx:
        found = lease.holder(tx, lease.SHARD)
    assert (found.epoch, found.leased_until) == (1, 0)


def test_two_that_stand_in_each_others_way_both_come_through(postgres_store):
    write(postgres_store, "one")
    write(postgres_store, "two")
    both = threading.Barrier(2)
    met, seen = [], []

    def crossing(first, second):
        def work(tx):
            tx.execute(LATER, {"name": first})
            if len(met) < 2:
                met.append(1)
                both.wait(PATIENCE)
            tx.execute(LATER, {"name": second})

        try:
            committed(postgres_store, work)
        except Contended as error:
            seen.append(error)

    with ExitStack() as stack:
        for names in (("one", "two"), ("two", "one")):
            thread = threading.Thread(target=crossing, args=names)
            stack.callback(thread.join, PATIENCE)
            thread.start()
    assert not seen
    with postgres_store.read() as tx:
        assert sql.rows(tx, "SELECT at FROM pause") == [(3,), (3,)]
