"""What 1, 2 and 4 ``dispatcher serve`` do beside one leader, on PostgreSQL that waits for the disk.

``python -m benchmarks.servers [SECONDS]``. Workers answer a field and get the next one, over
HTTP, as fast as they get it. Printed by number of servers: Starts a second, CPU of servers,
leader and PostgreSQL for each, and the share of looks at PostgreSQL's sessions in which one
waited for a lock. Everything runs on this machine, so what one part takes the others lack.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import httpx2
import psycopg

from dispatcher.app.servers import free_ports
from tests.conftest import Cluster, private_cluster
from tests.e2e.torture.people import Page

WORKERS: Final = 24
RECORDS: Final = 1200
TICK: Final = os.sysconf("SC_CLK_TCK")
SETTINGS: Final = """\
[surfaces]
workers = "127.0.0.1:{0}"
operators = "127.0.0.1:{1}"
admin = "127.0.0.1:{2}"
[tasks]
apart = 0.0
undo = 0.0
patience = 0.0
[quality]
gold = 0.0
[ticks]
leading = 0.5
planning = 1.0
[connectors.inhouse]
"""
POLICY: Final = """\
version = 1
name = "speed"
[budget]
t = 3
[entity.visit]
key = "visit"
[entity.visit.fields]
name = { ask = "transcribe", answers = 3 }
town = { ask = "transcribe", answers = 3 }
drug = { ask = "transcribe", answers = 3 }
[property.who-what]
of = ["name", "drug"]
"""


class Directory:
    """A dispatcher's directory on a database of its own."""

    def __init__(self, place: Path, url: str) -> None:
        self._environment = {
            **os.environ,
            "DISPATCHER_STORE": url,
            "DISPATCHER_ALLOW_ROOT": "1",
        }
        self._place = place
        self.ports = free_ports(3)
        (place / "dispatcher.toml").write_text(SETTINGS.format(*self.ports))
        (place / "policy.toml").write_text(POLICY)
        rows = (f"v{n},Name {n},Town {n},Drug {n}" for n in range(RECORDS))
        lines = "\n".join(["visit,name,town,drug", *rows])
        (place / "visits.csv").write_text(f"{lines}\n")
        self.run("init")
        self.run("policy", "apply", "policy.toml")
        self.run("records", "load", "visits.csv")
        names = [f"inhouse/w{n:02}" for n in range(WORKERS)]
        made = self.run("--json", "workers", "add", *names, "--invite")
        self.invites: list[str] = list(json.loads(made)["invites"].values())

    def run(self, *words: str) -> str:
        """Run a command to its end."""
        return subprocess.run(
            self._words(*words),
            env=self._environment,
            cwd=self._place,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    @contextmanager
    def process(self, *words: str) -> Iterator[int]:
        """Run a command beside the block; yield its process id."""
        log = (self._place / f"{words[0]}.log").open("ab")
        process = subprocess.Popen(
            self._words(*words), env=self._environment, stdout=log, stderr=log
        )
        try:
            yield process.pid
        finally:
            process.terminate()
            process.wait(60)

    def _words(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "dispatcher", "-C", str(self._place), *words]


def cpu(pids: Sequence[int]) -> float:
    """CPU seconds of processes."""
    total = 0
    for pid in pids:
        try:
            facts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += int(facts[11]) + int(facts[12])
    return total / TICK


def backends(cluster: Cluster) -> float:
    """CPU seconds of PostgreSQL, with those of its processes that have ended."""
    first = int((cluster.socket / "data" / "postmaster.pid").read_text().split()[0])
    facts = Path(f"/proc/{first}/stat").read_text().rpartition(")")[2].split()
    ended = (int(facts[13]) + int(facts[14])) / TICK
    alive = [first]
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if stat.read_text().rpartition(")")[2].split()[1] == str(first):
                alive.append(int(stat.parent.name))
        except OSError:
            continue
    return ended + cpu(alive)


class Worker(threading.Thread):
    """Answers as fast as it is shown something."""

    def __init__(self, url: str, invite: str, over: threading.Event) -> None:
        super().__init__(daemon=True)
        self.shown = 0
        self._invite, self._over = invite, over
        self._http = httpx2.Client(
            base_url=url,
            timeout=60,
            follow_redirects=True,
            headers={"Origin": url, "Sec-Fetch-Site": "same-origin"},
        )

    def run(self) -> None:
        """Work until it is over; what is cut off at the end was not counted."""
        with suppress(httpx2.HTTPError):
            self._work()

    def _work(self) -> None:
        page = self._post(
            "/arrive", Page(self._http.get("/").text), invite=self._invite
        )
        while not self._over.is_set():
            if page.page != "task":
                page = self._post("/start", page)
            else:
                self.shown += 1
                said = {"answer": "An answer", "outcome": "answered", "then": "next"}
                page = self._post(f"/task/{page.token}/answer", page, **said)
            if page.page in ("nothing", "message", ""):
                self._over.wait(0.2)
                page = Page(self._http.get("/").text)

    def _post(self, path: str, page: Page, **form: str) -> Page:
        data = {"form_token": page.form_token, **form}
        return Page(self._http.post(path, data=data).text)


def wait_ready(port: int) -> None:
    """Wait until a process is ready."""
    for _ in range(600):
        try:
            url = f"http://127.0.0.1:{port}/readyz"
            if httpx2.get(url, trust_env=False, timeout=10).status_code == 200:
                return
        except httpx2.HTTPError:
            pass
        time.sleep(0.2)
    message = f"nothing is ready on {port}"
    raise RuntimeError(message)


def measure(cluster: Cluster, place: Path, servers: int, seconds: float) -> str:
    """One row of the table."""
    name = f"servers_{servers}"
    cluster.administer("CREATE DATABASE {name}", name=name)
    url = cluster.url(name)
    with ExitStack() as stack:
        directory = Directory(place, url)
        leader = stack.enter_context(directory.process("up", "--drain", "0"))
        wait_ready(directory.ports[2])
        pages, pids = [], []
        for page, admin in zip(*[iter(free_ports(2 * servers))] * 2, strict=True):
            words = ["serve", "--only", "tasks", "--drain", "0"]
            words += ["--workers-at", f"127.0.0.1:{page}"]
            words += ["--admin-at", f"127.0.0.1:{admin}"]
            pids.append(stack.enter_context(directory.process(*words)))
            pages.append(f"http://127.0.0.1:{page}")
            wait_ready(admin)
        over = threading.Event()
        crew = [
            Worker(page, invite, over)
            for page, invite in zip(
                itertools.cycle(pages), directory.invites, strict=False
            )
        ]
        for one in crew:
            one.start()
        while sum(one.shown for one in crew) < 4 * WORKERS:  # arrivals, and the plan
            time.sleep(0.2)
        before = sum(one.shown for one in crew)
        used = cpu(pids), cpu([leader]), backends(cluster)
        began, looks, waits = time.monotonic(), 0, 0
        with psycopg.connect(cluster.url("postgres"), autocommit=True) as watch:
            while time.monotonic() - began < seconds:
                row = watch.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                ).fetchone()
                looks += 1
                waits += bool(row and row[0])
                time.sleep(0.02)
        lasted = time.monotonic() - began
        shown = sum(one.shown for one in crew) - before
        after = cpu(pids), cpu([leader]), backends(cluster)
        over.set()
        for one in crew:
            one.join(60)
        each = [
            1000 * (b - a) / max(1, shown) for a, b in zip(used, after, strict=True)
        ]
        return (
            f"| {servers} | {shown / lasted:.1f} | {each[0]:.1f} | {each[1]:.1f} "
            f"| {each[2]:.1f} | {waits / max(1, looks):.0%} | {os.getloadavg()[0]:.0f} |"
        )


def main() -> None:
    """Print the table."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    print("| servers | Starts/s | ms CPU of servers a Start | of the leader | of PostgreSQL "
          "| looks with a lock wait | load |")  # fmt: skip
    print("|---|---|---|---|---|---|---|")
    with private_cluster(durable=True) as cluster:
        for servers in (1, 2, 4):
            with tempfile.TemporaryDirectory(prefix="servers-") as place:
                print(measure(cluster, Path(place), servers, seconds), flush=True)


if __name__ == "__main__":
    main()
