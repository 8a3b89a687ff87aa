"""Fixtures for all tests: a clock, a generator, and stores on both databases."""

import hashlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg import sql
from sqlalchemy import Engine
from sqlalchemy.util import LRUCache

from dispatcher.app import servers
from dispatcher.store import Store, driver_adapters, open_store, postgres, sqlite

# The same examples in every run: a run goes red for what was changed, not by chance. To
# look for more, HYPOTHESIS_PROFILE=search.
settings.register_profile(
    "same",
    max_examples=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "search", settings.get_profile("same"), max_examples=200, derandomize=False
)
os.environ.setdefault("DISPATCHER_ALLOW_ROOT", "1")  # tests may run in a container

# Without it each of the thousand processes that tests start would compile the whole
# program anew, for a second, and each run of pytest the tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Files of tests lie in memory where there is enough of it: stores, spools and daemons
# wait for a disk thousands of times else.
_MEMORY = Path("/dev/shm")
with suppress(OSError):
    if shutil.disk_usage(_MEMORY).free > 8 << 30 and os.access(_MEMORY, os.W_OK):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

START = 1_800_000_000_000_000  # 2027-01-15, in microseconds


class FakeClock:
    """A clock that moves only when told to.

    >>> clock = FakeClock()
    >>> clock.advance(seconds=2) == clock()
    True
    """

    def __init__(self, now: int = START) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float = 0, *, micros: int = 0) -> int:
        self.now += round(seconds * 1_000_000) + micros
        return self.now


def counting_entropy() -> Callable[[int], bytes]:
    """Random bytes that are the same in every test."""
    count = 0

    def entropy(size: int) -> bytes:
        nonlocal count
        count += 1
        return hashlib.shake_256(b"test %d" % count).digest(size)

    return entropy


@pytest.fixture(scope="session", autouse=True)
def own_ports() -> Iterator[None]:
    """Ports that no other process of this run draws, nor a demo that a test starts.

    A server that starts a moment later, or is killed and comes back, finds its own free.
    """
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(servers, "SERVERS", range(12_000, 20_000)[number::count])
        yield


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A folder for reports of faults that tests provoke: none is left at home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def statements_compiled_once() -> Iterator[None]:
    """One cache of compiled statements for all stores of a kind of database.

    Each engine has one of its own, and nearly each test opens a store: compiling was a
    quarter of what the tests of stages took.
    """
    compiled = LRUCache[Any, Any](4000)

    def shared(make: Callable[..., Engine]) -> Callable[..., Engine]:
        def engine(self: object, *, writes: bool) -> Engine:
            made = make(self, writes=writes)
            made._compiled_cache = compiled
            return made

        return engine

    with pytest.MonkeyPatch.context() as patch:
        for backend in (sqlite.SqliteBackend, postgres.PostgresBackend):
            patch.setattr(backend, "engine", shared(backend.engine))
        for dialect in (
            sqlite.SQLiteStoreDialect,
            driver_adapters.PostgresStoreDialect,
        ):
            # Dialects are part of the cache's keys.
            patch.setattr(
                dialect, "__eq__", lambda own, other: type(own) is type(other)
            )
            patch.setattr(dialect, "__hash__", lambda own: hash(type(own)))
        yield


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20270115)


# -- PostgreSQL: one private cluster a session, one cloned database a test ----------


@dataclass(frozen=True)
class Cluster:
    """A private PostgreSQL server on a unix socket."""

    socket: Path
    user: str
    starter: tuple[str, ...] = ()

    def start(self) -> None:
        """Start the server, after :meth:`kill` too: it recovers by its log."""
        _run(list(self.starter))

    def kill(self) -> None:
        """SIGKILL the server and all its processes, as a crash would."""
        first = (self.socket / "data" / "postmaster.pid").read_text().split()[0]
        pids = [int(first)]
        os.kill(pids[0], signal.SIGSTOP)  # it brings no more of them forth
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                facts = stat.read_text().rpartition(")")[2].split()
                if facts[1] == first:
                    pids.append(int(stat.parent.name))
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        while any(_runs(pid) for pid in pids):
            time.sleep(0.01)
        # Where nobody buries the dead, a zombie would pass for a server that runs.
        (self.socket / "data" / "postmaster.pid").unlink()
        (self.socket / ".s.PGSQL.5432.lock").unlink()

    def url(self, database: str) -> str:
        host = str(self.socket).replace("/", "%2F")
        return f"postgresql://{self.user}@{host}/{database}"

    def administer(self, statement: str, **names: str) -> None:
        quoted = {key: sql.Identifier(name) for key, name in names.items()}
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(**quoted))


def _runs(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def _postgres_binaries() -> Path:
    """Directory of initdb and pg_ctl, of the newest version installed."""
    found = shutil.which("pg_ctl")
    places = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name)
    )
    for place in [*places[::-1], *([Path(found).parent] if found else [])]:
        if (place / "initdb").exists():
            return place
    pytest.fail(
        "these tests need PostgreSQL's programs (initdb, pg_ctl) and found none in"
        " /usr/lib/postgresql/*/bin or PATH: apt-get install postgresql (make test"
        " does it where it may)",
        pytrace=False,
    )


def _as_server_user(user: str) -> list[str]:
    """Words before a command: PostgreSQL refuses to run as root."""
    return ["runuser", "-u", user, "--"] if os.geteuid() == 0 else []


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd="/", timeout=600
    )
    if done.returncode:
        pytest.fail(
            f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}",
            pytrace=False,
        )


@contextmanager
def private_cluster(*, durable: bool = False) -> Iterator[Cluster]:
    """A private cluster in a directory of its own, gone afterwards.

    ``durable`` has it wait for the disk, as benchmarks must.
    """
    binaries = _postgres_binaries()
    root = os.geteuid() == 0
    user = "postgres" if root else pwd.getpwuid(os.geteuid()).pw_name
    if user not in {entry.pw_name for entry in pwd.getpwall()}:
        pytest.fail(f"PostgreSQL refuses root, and there is no user {user}")
    prefix = _as_server_user(user)
    # Not pytest's directory: a socket's path may have 107 bytes at most.
    place = Path(tempfile.mkdtemp(prefix="dpg-", dir="/tmp"))
    if root:
        shutil.chown(place, user)
    data = place / "data"
    try:
        _run(
            [*prefix, str(binaries / "initdb"), "-D", str(data), "-U", user,
             "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        )  # fmt: skip
        options = (
            f"-k {place} -c listen_addresses= -c max_connections=60"
            " -c shared_buffers=64MB -c autovacuum=off"
            + ("" if durable else " -c fsync=off -c full_page_writes=off")
        )
        starter = (
            *prefix, str(binaries / "pg_ctl"), "-D", str(data), "-w", "-t", "240", "-s",
            "-l", str(place / "log"), "-o", options, "start",
        )  # fmt: skip
        cluster = Cluster(place, user, starter)
        cluster.start()
        try:
            yield cluster
        finally:
            _run(
                [*prefix, str(binaries / "pg_ctl"), "-D", str(data), "-t", "240", "-s",
                 "-m", "immediate", "stop"]
            )  # fmt: skip
    finally:
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_cluster() -> Iterator[Cluster]:
    """A private cluster, gone after the session."""
    with private_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def postgres_template(postgres_cluster: Cluster) -> str:
    """A database with the schema, to be cloned."""
    postgres_cluster.administer("CREATE DATABASE store_template")
    open_store(
        postgres_cluster.url("store_template"), create=True, entropy=counting_entropy()
    ).close()
    return "store_template"


_databases = iter(range(1, 1_000_000))


@pytest.fixture
def postgres_database(postgres_cluster: Cluster) -> Iterator[str]:
    """URL of an empty database."""
    name = f"empty_{next(_databases)}"
    postgres_cluster.administer("CREATE DATABASE {name}", name=name)
    yield postgres_cluster.url(name)
    postgres_cluster.administer("DROP DATABASE {name} WITH (FORCE)", name=name)


@dataclass
class SharedStore:
    """A store that all tests use in turn, and what puts its first rows back.

    One connection does it after every test: a new one would have to read the catalogue
    of all tables first, for ten times as long as the rows take.
    """

    url: str
    connection: psycopg.Connection[Any] | None = None

    def prepare(self) -> None:
        """Keep what the rows are now, and make the function that puts them back."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("CREATE SCHEMA pristine")
            tables = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
            ).fetchall()
            steps = ""
            for (table,) in tables:
                connection.execute(f"CREATE TABLE pristine.{table} AS TABLE {table}")
                steps += (
                    f"IF EXISTS (SELECT FROM {table}) THEN DELETE FROM {table}; END IF;"
                    f"IF EXISTS (SELECT FROM pristine.{table}) THEN"
                    f" INSERT INTO {table} SELECT * FROM pristine.{table}; END IF;"
                )
            # The append-only guards sleep meanwhile.
            connection.execute(
                "CREATE FUNCTION pristine.put_back() RETURNS void LANGUAGE plpgsql"
                " SET search_path = public SET session_replication_role = replica"
                f" AS $$ BEGIN {steps} END $$"
            )

    def put_back(self) -> None:
        """End all connections of a test, and give every table its first rows."""
        if self.connection is None:
            self.connection = psycopg.connect(
                self.url, autocommit=True, application_name="tests"
            )
        self.connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        self.connection.execute("SELECT pristine.put_back()")

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()


@pytest.fixture(scope="session")
def postgres_shared(
    postgres_cluster: Cluster, postgres_template: str
) -> Iterator[SharedStore]:
    postgres_cluster.administer(
        "CREATE DATABASE store_shared TEMPLATE {template}", template=postgres_template
    )
    shared = SharedStore(postgres_cluster.url("store_shared"))
    shared.prepare()
    yield shared
    shared.close()


@pytest.fixture
def postgres_url(postgres_shared: SharedStore) -> Iterator[str]:
    """URL of a database that holds a fresh store; its schema must stay as it is.

    Rows are put back after each test: a clone would take ten times as long.
    """
    yield postgres_shared.url
    postgres_shared.put_back()


@pytest.fixture
def postgres_own_url(
    postgres_cluster: Cluster, postgres_template: str
) -> Iterator[str]:
    """URL of a store in a database of the test's own, to be changed at will."""
    name = f"store_{next(_databases)}"
    postgres_cluster.administer(
        "CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY",
        name=name,
        template=postgres_template,
    )
    yield postgres_cluster.url(name)
    postgres_cluster.administer("DROP DATABASE {name} WITH (FORCE)", name=name)


@pytest.fixture
def postgres_store(postgres_url: str) -> Iterator[Store]:
    with open_store(postgres_url) as store:
        yield store


# -- SQLite: one migrated file a session, one copy a test ----------------------------


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "dispatcher.db"
    open_store(path, create=True, entropy=counting_entropy()).close()
    return path


@pytest.fixture
def sqlite_path(sqlite_template: Path, tmp_path: Path) -> Path:
    """Path of a file that holds a fresh store."""
    path = tmp_path / "dispatcher.db"
    shutil.copy(sqlite_template, path)
    return path


@pytest.fixture
def sqlite_store(sqlite_path: Path) -> Iterator[Store]:
    with open_store(sqlite_path) as store:
        yield store


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest) -> str:
    """Location of a fresh store; the test runs once on each database."""
    name = "sqlite_path" if request.param == "sqlite" else "postgres_url"
    return str(request.getfixturevalue(name))


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """A fresh store; the test runs once on each database."""
    with open_store(store_url) as opened:
        yield opened
