"""``dispatcher up`` as a process: it leads, serves, drains, and comes back."""

import os
import signal
import socket
from unittest.mock import patch

import httpx2
import pytest

from dispatcher.app.servers import serve
from dispatcher.client import ApiError, Client
from dispatcher.ledger.book import Pull
from dispatcher.store import lease, open_store
from dispatcher.surfaces.api import documents
from dispatcher.surfaces.cli.context import wall_clock
from tests import builders, edits, sql
from tests.e2e.programs import PATIENCE, Program, is_free, terminate, until
from tests.integration.ledger_cases import PAIR, Case, policy


@pytest.fixture
def program(tmp_path, sqlite_template):
    made = Program(tmp_path)
    made.settle(sqlite_template)
    return made


def test_it_serves_drains_on_sigterm_and_leaves_nothing_behind(program):
    with program.up("--drain", "30") as process:
        program.ready()
        page = program.page()
        assert page.status_code == 200
        assert page.headers["cache-control"] == "no-store"
        assert program.answers("/livez") == 200
        assert "leader   " in program.run("status").stdout
        assert terminate(process) == 0
    assert "event=draining" in program.log()
    assert "Traceback" not in program.log()
    assert is_free(program.ports)
    wal = program.directory / "dispatcher.db-wal"
    assert not wal.exists() or wal.stat().st_size == 0
    assert "no daemon runs" in program.run("status").stdout


def test_the_console_opens_by_a_link_and_the_api_by_a_token_that_no_log_keeps(program):
    settings = program.directory / "dispatcher.toml"
    text = settings.read_text()
    settings.write_text(text.replace("[surfaces]", "[surfaces]\napi = true"))
    with program.up() as process:
        program.ready()
        link = program.run("console", "link").stdout.strip()
        base, _, secret = link.partition("/login#k=")
        assert base == f"http://127.0.0.1:{program.ports[2]}"
        words = {"trust_env": False, "timeout": PATIENCE}
        with httpx2.Client(follow_redirects=True, **words) as browser:
            assert browser.get(base).status_code == 401
            page = browser.post(f"{base}/login", data={"code": secret})
            assert 'data-page="overview"' in page.text
            assert program.run("console", "sign-out").stdout == "1 session ended\n"
            assert browser.get(base).status_code == 401
        scopes = ["status:read", "connectors:read"]
        scopes += ["connectors:secrets", "connectors:operate"]
        asked = [word for scope in scopes for word in ("--scope", scope)]
        token = program.run("tokens", "make", "test", *asked).stdout.strip()
        with Client(base, token, http=httpx2.Client(base_url=base, **words)) as api:
            assert api.get("/status", documents.Status).leader
            with pytest.raises(ApiError, match=r"workers\.list"):
                list(api.pages("/workers", documents.WorkerLine))
            add_a_market(api)
            assert 'connector="second"' in program.metrics()
        assert terminate(process) == 0
    assert secret not in program.log()
    assert token not in program.log()


def add_a_market(api: Client) -> None:
    """The daemon that runs takes it up, and gives it work once it is enabled."""
    body = {"name": "second", "kind": "folder", "settings": {"spool": "second"}}
    assert api.post("/connectors", documents.ConnectorName, body).name == "second"

    def names() -> list[str]:
        found = api.get("/connectors", list[documents.ConnectorWithHealth])
        return [one.name for one in found]

    until(lambda: "second" in names(), "the daemon has opened it")
    assert api.get("/status", documents.Status).paused.keys() == {"connector:second"}
    tested = api.post("/connectors/second:test", documents.ConnectorState)
    assert tested.state == "ok"
    done = api.post("/connectors/second:enable", documents.Enabled, {})
    assert done.enabled
    assert api.get("/status", documents.Status).paused == {}


def test_sighup_reads_the_settings_again_and_keeps_them_where_the_file_is_bad(program):
    settings = program.directory / "dispatcher.toml"
    good = settings.read_text()
    with program.up() as process:
        program.ready()
        told = "dispatcher_config_last_reload_successful"
        settings.write_text(good.replace("[ticks]", "[ticks]\nsealing = 0"))
        process.send_signal(signal.SIGHUP)
        until(lambda: "event=reload-refused" in program.log(), "refused")
        assert program.metric(told) == 0
        assert program.answers("/readyz") == 200
        worker = f'"127.0.0.1:{program.ports[0]}"'
        settings.write_text(
            good.replace(worker, '"127.0.0.1:1"').replace(
                "[ticks]", "[ticks]\nsealing = 9"
            )
        )
        process.send_signal(signal.SIGHUP)
        until(lambda: "event=reloaded" in program.log(), "reloaded")
        assert "needs_restart=surfaces" in program.log()
        assert program.metric(told) == 1
        assert program.page().status_code == 200
        assert terminate(process) == 0


def test_the_service_manager_is_told_when_it_is_ready_reloads_and_stops(program):
    place = program.directory / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(place))
        manager.settimeout(PATIENCE)
        told = {"NOTIFY_SOCKET": str(place), "WATCHDOG_USEC": "400000"}
        with patch.dict(os.environ, told), program.up("--drain", "7") as process:
            heard: list[bytes] = []

            def hear(what: bytes) -> bytes:
                while what not in (last := manager.recv(999)):
                    heard.append(last)
                return last

            hear(b"READY=1\nSTATUS=leading")
            hear(b"WATCHDOG=1")
            process.send_signal(signal.SIGHUP)
            assert b"MONOTONIC_USEC=" in hear(b"RELOADING=1")
            hear(b"READY=1\nSTATUS=leading")
            process.send_signal(signal.SIGTERM)
            assert b"EXTEND_TIMEOUT_USEC=37000000" in hear(b"STOPPING=1")
            assert set(heard) <= {b"WATCHDOG=1"}
            assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize("asked", [signal.SIGTERM, signal.SIGINT])
def test_draining_waits_for_a_task_in_hand_and_is_not_ready_meanwhile(program, asked):
    with open_store(program.directory / "dispatcher.db") as store:
        case = Case(store, now=wall_clock())
        case.apply(policy(PAIR))
        case.add("inhouse/ann")
        case.load(("r1", "pat", 0, "ab"))
        lease = Pull(leased_until=wall_clock() + 3_600_000_000)
        case.book(("inhouse/ann", "r1.a"), delivery=lease)
        with program.up("--drain", "300") as process:
            program.ready()
            process.send_signal(asked)
            until(lambda: program.answers("/readyz") == 503, "draining is told")
            assert program.answers("/livez") == 200
            assert process.poll() is None
            builders.answer_tasks(store)
            assert process.wait(PATIENCE) == 0
        with store.read() as tx:
            assert sql.value(tx, "SELECT state FROM task") == "answered"


def test_a_second_signal_ends_the_drain_at_once():
    drains = []

    def first_signal():
        drains.append("draining")
        os.kill(os.getpid(), signal.SIGTERM)

    serve(
        [],
        draining=first_signal,
        drained=lambda: drains.append("asked") or False,
        drain_seconds=300,
        started=lambda: os.kill(os.getpid(), signal.SIGTERM),
    )
    assert drains[0] == "draining"
    assert drains.count("asked") <= 1


def test_a_second_daemon_exits_11_and_a_killed_one_is_followed_at_once(program):
    with program.up() as process:
        program.ready()
        done = program.run("up", code=11)
        assert done.stdout == ""
        assert "error[E111]: another daemon leads this store" in done.stderr
        assert f"pid {process.pid} holds the lease" in done.stderr
        process.kill()
        process.wait()
        with program.up() as next_one:
            program.ready()  # no 10 s of waiting for the lease: see the epoch
            assert "epoch=2" in program.log()
            assert terminate(next_one) == 0


def test_a_taken_port_is_told_and_the_lease_is_given_back(program):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", program.ports[0]))
        taken.listen()
        done = program.run("up", code=75)
        assert done.stdout == ""
        assert "error[E113]: surfaces.workers cannot listen on" in done.stderr
        assert "Address already in use" in done.stderr
    assert "leader   none" in program.run("status").stdout


def test_a_daemon_that_another_one_follows_stops_with_exit_11(program):
    with program.up("--drain", "300") as process:
        program.ready()
        with open_store(program.directory / "dispatcher.db") as store:
            with store.write() as tx:
                assert lease.take(tx, lease.SHARD, "x", builders.FAR, builders.FAR) == 2
            assert process.wait(PATIENCE) == 11
    assert "error[E112]: another daemon took over" in program.log()


def followed(program, store):
    """Renew the first leader's lease, as if it lived; whether a second leads now."""
    with store.write() as tx:
        lease.renew(tx, lease.SHARD, 1, wall_clock() + 60_000_000)
    return "epoch=2" in program.log()


def test_a_standby_takes_over_from_a_killed_leader_at_once_and_goes_on(program):
    """By its being dead: its lease holds still, and is even renewed meanwhile."""
    with program.up() as leader:
        program.ready()
        with program.up("--standby") as standby:
            until(lambda: "standing-by" in program.log(), "it stands by")
            assert standby.poll() is None
            leader.kill()
            leader.wait()
            with open_store(program.directory / "dispatcher.db") as store:
                until(lambda: followed(program, store), "it leads", pause=1)
                program.ready()
                with store.write() as tx:  # somebody takes over, and ends at once
                    edits.change_lease(tx, epoch=9, leased_until=0)
                until(
                    lambda: "epoch=10" in program.log(), "it stood by and leads again"
                )
            program.ready()
            assert terminate(standby) == 0


def test_a_standby_that_is_told_to_end_ends_in_peace(program):
    with program.up() as leader:
        program.ready()
        with program.up("--standby") as standby:
            until(lambda: "standing-by" in program.log(), "it stands by")
            assert terminate(standby) == 0
        assert leader.poll() is None


def test_down_stops_the_leader_of_this_machine(program):
    program.run("down", code=14)
    with program.up() as process:
        program.ready()
        done = program.run("down")
        assert f"pid {process.pid}" in done.stdout
        assert process.wait(PATIENCE) == 0
    program.run("down", code=14)


def test_down_tells_where_to_stop_a_leader_of_another_machine(program):
    path = program.directory / "dispatcher.db"
    with open_store(path) as store, store.write() as tx:
        now = wall_clock()
        lease.take(tx, lease.SHARD, "elsewhere/b/7/7", now, now + 60_000_000)
    assert "elsewhere pid 7 leads" in program.run("down", code=1).stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be refused for being root")
def test_safety_34_root_is_refused_unless_it_is_allowed(program):
    nothing = {"PATH": os.environ["PATH"]}
    with patch("tests.e2e.programs.environment", lambda: nothing):
        done = program.run("up", code=2)
        assert "does not run as root" in done.stderr
        assert "--allow-root" in done.stderr
    with program.up("--allow-root") as process:
        program.ready()
        assert "WARN running as root" in program.log()
        assert terminate(process) == 0
