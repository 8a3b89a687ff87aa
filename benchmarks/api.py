"""The REST API on loopback beside its bare framework, which does the same query or write.

Both serve one SQLite store in a process of their own, by uvicorn. What counts is the CPU
time of the server for one request: it says how many a second one core can serve, whatever
else the machine does. Reads list the runs; writes pause the work, durable when they are
answered, of ours with their line in the audit chain. The two are measured in turns, and
the ratio is the median of the turns': both saw the same load. Then a thousand readers of
the event stream, and memory over many requests.

    python -m benchmarks.api [--requests 2000] [--streams 1000] [--memory 100000]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from pydantic import BaseModel

HALF = 0.5
AT_ONCE = 8
TURNS = 15
PORT = 18_420
BODY = json.dumps({"reason": "a benchmark"}).encode()
MIB = 1 << 20


def serve(place: Path, port: int, kind: str) -> None:
    import uvicorn

    from dispatcher.core import log
    from dispatcher.store import open_store

    log.configure_command()
    store = open_store(str(place / "dispatcher.db"))
    app = ours(place, store) if kind == "ours" else bare(store)
    uvicorn.run(app, port=port, log_level="error", access_log=False)


def ours(place: Path, store):
    from dispatcher.access import authenticate_token
    from dispatcher.core.private_files import ScratchFolder
    from dispatcher.core.rate_limit import Rate
    from dispatcher.operations.status import status
    from dispatcher.operations.workspace import Workspace, wall_clock
    from dispatcher.surfaces.api.app import ApiSettings, api_app
    from dispatcher.surfaces.api.calls import Shared
    from dispatcher.surfaces.api.events import Stream
    from dispatcher.surfaces.api.requests import Requests

    shared = Shared(
        Requests(store, wall_clock),
        Stream(store),
        lambda: status(store, wall_clock()),
        ScratchFolder(place / "api-files"),
    )
    settings = ApiSettings(requests=Rate(per_minute=10**9, burst=10**9))
    workspace = Workspace(place, clock=wall_clock, actor="daemon")
    return api_app(
        workspace, store, authenticate_token, shared=shared, settings=settings
    )


class Pause(BaseModel):
    reason: str


def bare(store):
    """FastAPI alone: a body that is checked, one query or one write."""
    from fastapi import FastAPI

    from dispatcher.operations.workspace import wall_clock
    from dispatcher.store import pause, statistics

    app = FastAPI()

    @app.get("/api/v1/runs")
    def runs() -> list[dict[str, str]]:
        with store.read() as tx:
            return [{"run": name} for name in statistics.runs(tx)]

    @app.post("/api/v1/pause")
    def stop(body: Pause) -> dict[str, str]:
        with store.write() as tx:
            pause.pause(tx, "all", body.reason, wall_clock())
        return {"scope": "all"}

    return app


def prepare(place: Path) -> list[str]:
    """Make the store with ten runs, and return tokens."""
    from dispatcher.access import make_token
    from dispatcher.operations.workspace import wall_clock
    from dispatcher.store import open_store, records

    url = str(place / "dispatcher.db")
    scopes = ["runs:read", "runs:write", "status:read"]
    with open_store(url, create=True) as store:
        with store.write() as tx:
            for number in range(10):
                records.run(tx, f"run-{number}", wall_clock())
        return [
            make_token(
                store, f"t{n}", scopes, wall_clock(), days=1, entropy=os.urandom
            ).secret
            for n in range(20)
        ]


class Server:
    """A server in a process of its own."""

    def __init__(self, place: Path, kind: str, port: int) -> None:
        words = [sys.executable, "-m", "benchmarks.api", "--serve", str(place), kind]
        self.port = port
        self.process = subprocess.Popen([*words, str(port)])
        self.seen = psutil.Process(self.process.pid)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()

    def cpu(self) -> float:
        times = self.seen.cpu_times()
        return times.user + times.system

    def memory(self) -> float:
        return self.seen.memory_info().rss / MIB

    async def ready(self) -> None:
        for _ in range(3000):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                await asyncio.sleep(0.1)
            else:
                writer.close()
                return
        raise TimeoutError


def request(method: str, path: str, token: str, body: bytes = b"") -> bytes:
    head = (
        f"{method} /api/v1{path} HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\n"
        f"Authorization: Bearer {token}\r\n"
    )
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


async def ask(port: int, sent: bytes, count: int) -> list[float]:
    """Send one request so often, over connections that are kept; seconds of each."""
    took: list[float] = []

    async def worker(share: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(share):
            begun = time.perf_counter()
            writer.write(sent)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(head[:200])
            size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            await reader.readexactly(size)
            took.append(time.perf_counter() - begun)
        writer.close()

    await asyncio.gather(*(worker(count // AT_ONCE) for _ in range(AT_ONCE)))
    return took


async def measure(servers: dict[str, Server], sent: bytes, count: int) -> float:
    """How much of what the bare framework serves ours does; prints both."""
    cpu: dict[str, list[float]] = {kind: [] for kind in servers}
    wall: dict[str, list[float]] = {kind: [] for kind in servers}
    for server in servers.values():
        await ask(server.port, sent, 200)  # what is loaded and compiled once
    for _ in range(TURNS):
        for kind, server in servers.items():
            before = server.cpu()
            took = await ask(server.port, sent, count // TURNS)
            cpu[kind].append(1000 * (server.cpu() - before) / len(took))
            wall[kind] += took
    for kind, took in wall.items():
        took.sort()
        print(
            f"  {kind}: {statistics.median(cpu[kind]):.3f} ms of CPU, wall "
            f"p50 {1000 * statistics.median(took):.1f} ms, "
            f"p99 {1000 * took[int(0.99 * len(took))]:.1f} ms"
        )
    return statistics.median(
        bare / ours for bare, ours in zip(cpu["bare"], cpu["ours"], strict=True)
    )


async def streams(server: Server, tokens: list[str], count: int) -> None:
    opened, heard = [], 0
    empty = server.memory()
    begun = time.perf_counter()
    for number in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request("GET", "/events", tokens[number % len(tokens)]))
        opened.append((reader, writer))
    for reader, _ in opened:
        await reader.readuntil(b"retry: 1000")
    took = time.perf_counter() - begun
    before = server.cpu()

    async def hear(reader) -> None:
        nonlocal heard
        await reader.readuntil(b"event: ")
        heard += 1

    listening = asyncio.gather(*(hear(reader) for reader, _ in opened))
    await change(server.port, tokens[0])
    begun = time.perf_counter()
    await asyncio.wait_for(listening, 60)
    print(
        f"{count:,} streams: opened in {took:.1f} s, all heard {heard:,} of an event "
        f"within {time.perf_counter() - begun:.2f} s, {server.cpu() - before:.2f} CPU s, "
        f"{server.memory() - empty:.0f} MiB"
    )
    for _, writer in opened:
        writer.close()


async def change(port: int, token: str) -> None:
    """Set a budget: an event."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps({"cap": {"amount": "1", "currency": "GBP"}}).encode()
    sent = request("PUT", "/runs/run-1/budget", token, body)
    writer.write(sent.replace(b"\r\n\r\n", b"\r\nIf-None-Match: *\r\n\r\n", 1))
    await reader.readuntil(b"\r\n\r\n")
    writer.close()


async def run(args: argparse.Namespace) -> bool:
    kept = True
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        tokens = prepare(Path(folder))
        servers = {
            kind: stack.enter_context(Server(Path(folder), kind, PORT + place))
            for place, kind in enumerate(("bare", "ours"))
        }
        for server in servers.values():
            await server.ready()
        read = request("GET", "/runs", tokens[0])
        write = request("POST", "/pause", tokens[0], BODY)
        for name, sent in (("read", read), ("write", write)):
            print(f"{name}s:")
            ratio = await measure(servers, sent, args.requests)
            holds = ratio >= HALF
            kept &= holds
            print(
                f"  {ratio:.2f} of the bare framework "
                f"({'ok' if holds else 'BELOW'}, limit {HALF})"
            )
        ours = servers["ours"]
        if args.streams:
            await streams(ours, tokens, args.streams)
        if args.memory:
            await ask(ours.port, read, args.memory // 10)
            before = ours.memory()
            await ask(ours.port, read, args.memory)
            grown = ours.memory() - before
            print(f"{args.memory:,} reads: {before:.0f} MiB, {grown:+.1f} MiB")
    return kept


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", nargs=3, metavar=("PLACE", "KIND", "PORT"))
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--memory", type=int, default=100_000)
    args = parser.parse_args()
    if args.serve:
        serve(Path(args.serve[0]), int(args.serve[2]), args.serve[1])
    else:
        sys.exit(not asyncio.run(run(args)))
