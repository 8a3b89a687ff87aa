"""A store with tens of thousands of fields: no page and no list of the API reads it all.

What counts is what the database does: steps of SQLite's machine for one statement, rows
that PostgreSQL read in one transaction. Neither depends on the machine.
"""

from collections import Counter
from contextlib import contextmanager

import pytest

from dispatcher.operations import agreement, figures, rules, totals
from dispatcher.operations.sampling import Sampler
from dispatcher.operations.status import status
from dispatcher.operations.workspace import Workspace
from dispatcher.store import lease, open_store
from dispatcher.store.sqlite import SqliteBackend
from dispatcher.store.transaction import Tx
from dispatcher.surfaces.api.calls import Shared
from dispatcher.surfaces.api.requests import Requests
from dispatcher.surfaces.api.routes import ROUTES
from dispatcher.surfaces.console import ConsoleSettings
from dispatcher.surfaces.console.screens import SCREENS
from tests import sql
from tests.integration.api_house import BASE, House
from tests.integration.console_house import console_that_acts
from tests.integration.large_store import fill
from tests.integration.ledger_cases import Case
from tests.integration.test_console_acts import as_role

ENTRIES, EXPOSURES, WORKERS = 16_000, 32_000, 320
GROWING = ("record", "subject", "entry", "result", "ledger_line", "exposure_count",
           "task", "outbox", "answer")  # fmt: skip
STEPS = 40_000
"""Of SQLite's machine: looking at every entry once takes more."""
ROWS = ENTRIES // 4
"""As many records there are, and no growing table has fewer rows."""
NOW = 10**15 + 60 * 10**6


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def large(request, tmp_path_factory):
    if request.param == "sqlite":
        path = tmp_path_factory.mktemp("large") / "dispatcher.db"
        path.write_bytes(request.getfixturevalue("sqlite_template").read_bytes())
        path.chmod(0o600)
        url = str(path)
    else:
        cluster = request.getfixturevalue("postgres_cluster")
        of = request.getfixturevalue("postgres_template")
        cluster.administer("CREATE DATABASE large_store TEMPLATE {of}", of=of)
        for step in ("seqscan", "hashjoin", "mergejoin"):  # as with millions of rows
            cluster.administer(f"ALTER DATABASE large_store SET enable_{step} = off")
        url = cluster.url("large_store")
    with open_store(url) as store:
        fill(store, ENTRIES, EXPOSURES, WORKERS)
    with pytest.MonkeyPatch.context() as patch:
        read = watched(patch, request.param)
        with open_store(url) as store:
            yield store, read
    if request.param == "postgresql":
        cluster.administer("DROP DATABASE large_store WITH (FORCE)")


def watched(patch, dialect):
    """What was read since it was cleared: by statement, or by table."""
    read = Counter()
    if dialect == "sqlite":
        connect, running = SqliteBackend.connect, []

        def connected(self, *, writes):
            made = connect(self, writes=writes)
            made.set_trace_callback(running.append)
            made.set_progress_handler(lambda: read.update({running[-1]: 1000}), 1000)
            return made

        patch.setattr(SqliteBackend, "connect", connected)
        return read
    finish = Tx.finish

    def finished(tx):
        # or what one transaction read would be counted in those of the next second too
        sql.rows(tx, "SELECT pg_stat_force_next_flush()")
        if tx.reads:
            for table, scanned, fetched in sql.rows(
                tx,
                "SELECT relname, seq_tup_read, COALESCE(idx_tup_fetch, 0)"
                " FROM pg_stat_xact_user_tables",
            ):
                read[table] = max(read[table], scanned + fetched)
        finish(tx)

    patch.setattr(Tx, "finish", finished)
    return read


@contextmanager
def bounded(read, dialect, what):
    """Refuse what reads a growing table whole."""
    read.clear()
    yield
    most = STEPS if dialect == "sqlite" else ROWS
    over = [
        (name, number)
        for name, number in read.items()
        if number >= most and (dialect == "sqlite" or name in GROWING)
    ]
    assert not over, (what, over)


@pytest.fixture(scope="module")
def counted(large):
    """The daemon has counted, once."""
    store, read = large
    with store.write() as tx:
        epoch = lease.take(tx, lease.SHARD, "host-a/b/4121/9", NOW, NOW + 10**12)
    Sampler(store, lambda: NOW).tick(epoch)
    return store, read


def look_back_a_little(patch):
    """Look at the newest hundred answers: thousands of the newest are many here."""
    patch.setattr(figures, "NEWEST", 100)
    patch.setitem(agreement.agreement.__kwdefaults__, "newest", 100)


def test_what_was_counted_last_is_what_is_there(counted):
    store, _ = counted
    with store.read() as tx:
        kept, now = totals.kept(tx), totals.count(tx)
    assert kept.counted_at == NOW
    for name in ("rows", "tasks", "messages", "asked", "results", "records", "burnt",
                 "runs"):  # fmt: skip
        assert getattr(kept, name) == getattr(now, name), name
    exact, last = status(store, NOW), status(store, NOW, exact=False)
    assert (exact.counted_at, last.counted_at) == (None, NOW)
    assert (exact.counts, exact.fields) == (last.counts, last.fields)
    assert exact.needs_you == last.needs_you


def test_no_page_of_the_console_reads_a_growing_table_whole(
    counted, clock, tmp_path, monkeypatch
):
    store, read = counted
    look_back_a_little(monkeypatch)
    monkeypatch.setattr(rules, "LOOKED_AT", 5)
    clock.now = NOW
    settings = ConsoleSettings(stale=0)
    with console_that_acts(store, clock, tmp_path, settings=settings) as app:
        clients = [
            as_role(app, Case(store), clock, role)
            for role in ("operator", "privacy-officer", "admin")
        ]
        client = clients[0]

        def first(path, key):
            return client.get(f"{path}?format=json").json()["items"][0][key]

        record = first("/records", "record")
        places = {
            "/runs/{run}": "/runs/default",
            "/workers/{connector}/{name:path}": "/workers/inhouse/w3",
            "/policy/{version:int}": "/policy/1",
            "/rules/{rule}": "/rules/history",
            "/rules/{rule}/{unit}": f"/rules/history/{first('/rules/history', 'set')}",
            "/records/{record}": f"/records/{record}",
        }
        paths = [places.get(one.path, one.path) for one in SCREENS]
        # What one stranger could know is drawn from the first records, whatever follows.
        left_out = ("{", "compare", "stranger")
        paths = [path for path in paths if not any(one in path for one in left_out)]
        paths += [f"/records?record={record}"]
        for page, states in (
            ("queue", ("ready", "sent", "dead", "cancelled")),
            ("fields", ("burnt", "open", "conflict", "answered")),
            ("records", ("open", "conflict", "answered")),
        ):
            paths += [f"/{page}?state={state}" for state in states]
        client.get("/workers")  # judged once; afterwards only what has grown
        for path in paths:
            with bounded(read, store.dialect, path):
                assert 200 in {one.get(path).status_code for one in clients}, path
        assert "as counted" in client.get("/").text


def test_no_list_of_the_api_reads_a_growing_table_whole(counted, tmp_path, monkeypatch):
    store, read = counted
    look_back_a_little(monkeypatch)
    case = Case(store, now=NOW)
    house = House(case, Workspace(tmp_path, clock=case.tick, actor="daemon"))
    requests = Requests(store, case.tick)
    house.shared = Shared(
        requests, None, lambda: status(store, case.tick(), exact=False), None
    )
    house.open()
    client = house.client()
    lists = [
        one.path
        for one in ROUTES
        if one.method == "GET"
        and "{" not in one.path
        and one.kind == "now"
        and one.path not in ("/doctor", "/backups")
    ]
    lists += ["/workers/inhouse/w3", "/runs/default", "/ledger/tail"]
    for kind, states in (
        ("fields", ("open", "conflict", "answered")),
        ("records", ("open", "conflict", "answered")),
        ("queue", ("ready", "sent", "dead")),
    ):
        lists += [f"/{kind}?state={state}&limit=20" for state in states]
    client.get(f"{BASE}/figures/exposure")
    with house.speaking:
        for path in lists:
            with bounded(read, store.dialect, path):
                found = client.get(f"{BASE}{path}")
                # 404: no policy's picture; 409: no seal, no cap on money yet
                assert found.status_code in (200, 404, 409), (path, found.text)
    requests.close()
