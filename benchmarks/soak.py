"""Whether the memory of ``dispatcher up`` stays flat while workers answer.

    python -m benchmarks.soak [--minutes 60] [--workers 16] [--records 3000]
        [--rate 20] [--postgres] [--set 'cache_mib = 16']

It starts a real ``dispatcher up`` on a new store, and so many in-house workers who answer
by HTTP as fast as they are served, or ``--rate`` answers a second at most. Every minute it
prints the answers and the least and the most of the daemon's resident memory in it, read
every second: what a tick needs for a moment (planning all that is open: some 30 MiB for
35,000 fields) comes and goes, and once a minute the daemon gives back what is free.

What stays raises the least, so the least of the last third is compared with the least of
the third before it: MiB for each 10,000 answers between their ends. The caches of store and
keys fill up in the first third (for SQLite: with ``cache_mib = 16``). The limit is judged
after an hour: at most 2 MiB for each 10,000 answers.

``--set`` adds a line to the settings. The PostgreSQL server is one of its own that waits
for the disk; its memory is not counted.
"""

import argparse
import contextlib
import http.client
import json
import re
import sys
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path
from typing import NamedTuple

from benchmarks.machine import load_average, verdict
from benchmarks.spine import POLICY, write_records
from dispatcher.app.servers import free_ports
from dispatcher.surfaces.demo.show import Stage, end
from tests.conftest import private_cluster

SETTINGS = """\
store = {store!r}
{more}
[surfaces]
operators = "127.0.0.1:{ports[0]}"
workers = "127.0.0.1:{ports[1]}"
admin = "127.0.0.1:{ports[2]}"
[tasks]
apart = 0.0
patience = 0.0
[connectors.inhouse]
"""
EVERY = 60  # seconds of one line
GROWTH = 2.0  # MiB for each 10,000 answers
WARM = 5_000  # answers after which the caches are full
FEWEST = 5  # minutes of a third

_TASK = re.compile(r'data-token="([^"]+)"')
_FORM = re.compile(r'name="form_token" value="([^"]+)"')


class Worker(threading.Thread):
    """Opens an invite link, then answers whatever is shown, a while after each."""

    def __init__(self, link: str, stop: threading.Event, pause: float) -> None:
        super().__init__(daemon=True)
        self._link = link
        self._stopping = stop
        self._pause = pause
        self._host = urllib.parse.urlsplit(link).netloc
        self._cookies: dict[str, str] = {}
        self._connection = http.client.HTTPConnection(self._host, timeout=60)
        self.answered = 0

    def run(self) -> None:
        """Work until told to stop; start anew where the connection is lost."""
        while not self._stopping.is_set():
            try:
                self._work()
            except (OSError, http.client.HTTPException):
                self._connection.close()
                self._stopping.wait(1)

    def _work(self) -> None:
        page = self._ask("GET", "/")
        if "/arrive" in page:
            page = self._ask("POST", "/arrive", page, invite=self._link)
        page = self._ask("GET", "/")
        while not self._stopping.is_set():
            task = _TASK.search(page)
            if task is None:
                page = self._ask("POST", "/start", page)
                if not _TASK.search(page):
                    self._stopping.wait(0.5)
                    page = self._ask("GET", "/")
                continue
            given = {"answer": "a word", "outcome": "answered", "then": "next"}
            began = time.monotonic()
            page = self._ask("POST", f"/task/{task[1]}/answer", page, **given)
            self.answered += 1
            self._stopping.wait(max(0.0, began + self._pause - time.monotonic()))

    def _ask(self, method: str, path: str, page: str = "", **form: str) -> str:
        token = _FORM.search(page)
        if token is not None:
            form["form_token"] = token[1]
        body = urllib.parse.urlencode(form) if method == "POST" else None
        for _ in range(3):
            reply = self._exchange(method, path, body)
            self._stopping.wait(float(reply.getheader("retry-after") or 0))
            text = reply.read().decode()
            place = reply.getheader("location")
            if reply.status == 429:
                continue
            if place is None:
                return text
            method, path, body = "GET", urllib.parse.urlsplit(place).path, None
        return text

    def _exchange(
        self, method: str, path: str, body: str | None
    ) -> http.client.HTTPResponse:
        headers = {
            "Origin": f"http://{self._host}",
            "Sec-Fetch-Site": "same-origin",
            "Cookie": "; ".join(f"{k}={v}" for k, v in self._cookies.items()),
        }
        if body is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        self._connection.request(method, path, body, headers)
        reply = self._connection.getresponse()
        for cookie in reply.headers.get_all("set-cookie") or ():
            name, _, value = cookie.partition(";")[0].partition("=")
            self._cookies[name] = value
        return reply


def resident(pid: int) -> float:
    """Resident memory of a process in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


class Minute(NamedTuple):
    """The answers until its end; the least and the most resident memory in it, in MiB."""

    answers: int
    least: float
    most: float


def show(when: str, minute: Minute) -> None:
    """Print a line on one minute."""
    print(
        f"{when}  {minute.answers:8,} answers"
        f"  {minute.least:6.1f} to {minute.most:6.1f} MiB",
        flush=True,
    )


def growth(seen: list[Minute]) -> float:
    """MiB that stay of each 10,000 answers: last third against the third before it."""
    third = len(seen) // 3
    before, after = seen[third : 2 * third], seen[2 * third :]
    if third < FEWEST or before[0].answers < WARM:
        sys.exit(
            f"too few answers in the first third ({WARM:,}): give it more --minutes"
        )
    answers = after[-1].answers - before[-1].answers
    least = [min(minute.least for minute in part) for part in (before, after)]
    return (least[1] - least[0]) / answers * 10_000


def soak(options: argparse.Namespace, place: Path, store: str) -> tuple[float, float]:
    """Run the daemon and its workers; return the growth."""
    stage = Stage(place, print)
    where = ["--store", store] if "://" in store else []
    stage.command(*where, "init")
    settings = SETTINGS.format(
        store=store, ports=free_ports(3), more="\n".join(options.set)
    )
    (place / "dispatcher.toml").write_text(settings)
    (place / "policy.toml").write_text(POLICY)
    write_records(place / "records.csv", options.records)
    stage.command("policy", "apply")
    names = [f"inhouse/w{i}" for i in range(options.workers)]
    made = stage.command("--json", "workers", "add", *names, "--invite", echo=False)
    stage.command("records", "load", str(place / "records.csv"))
    stop = threading.Event()
    links = json.loads(made)["invites"].values()
    pause = len(links) / options.rate if options.rate else 0.0
    workers = [Worker(link, stop, pause) for link in links]
    daemon = stage.start()
    seen: list[Minute] = []
    began = time.monotonic()
    try:
        for worker in workers:
            worker.start()
        while time.monotonic() - began < options.minutes * 60:
            memory = []
            for _ in range(EVERY):
                stop.wait(1)
                if daemon.poll() is not None:
                    sys.exit(f"the daemon ended: see {place / 'up.log'}")
                memory.append(resident(daemon.pid))
            answers = sum(worker.answered for worker in workers)
            seen.append(Minute(answers, min(memory), max(memory)))
            show(f"{time.monotonic() - began:6.0f} s", seen[-1])
    finally:
        stop.set()
        end(daemon)
    for when, minute in zip(
        ("start", "half", "end"), (seen[0], seen[len(seen) // 2], seen[-1]), strict=True
    ):
        show(f"{when:6}", minute)
    return growth(seen)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--records", type=int, default=3000)
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        store = "dispatcher.db"
        if options.postgres:
            cluster = stack.enter_context(private_cluster(durable=True))
            cluster.administer("CREATE DATABASE soak")
            store = cluster.url("soak")
        print(f"{store.partition(':')[0]}, load {load_average():.1f}", flush=True)
        found = soak(options, place, store)
    print(verdict("MiB for each 10,000 answers", found, GROWTH))
    return 0 if found <= GROWTH else 1


if __name__ == "__main__":
    sys.exit(main())
