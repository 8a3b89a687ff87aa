"""Check-ins to advertisers by real feeds, and what could be linked from what they got.

The paper's case: entries (user, place, visits) go to 5 or 10 advertisers, and friendships
must not show from where two people were. The data are ``NAME_entries.csv`` (user,
location, count) and ``NAME_edges.csv`` (user_a, user_b) of a directory, or drawn::

    nice python -m tests.markets.checkins_run DIRECTORY --advertisers 5 --kind webhook \\
      --data FOLDER_OF_FILES

What every receiver got is held against the ledger, which is read by plain SQL, and all
cosines are worked out anew from what was received, by code of this file alone.
"""

from __future__ import annotations

import argparse
import csv
import json
import logging
import math
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain, cycle
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from standardwebhooks import Webhook, WebhookVerificationError

from benchmarks.paper_data import Checkins, drawn_checkins, read_checkins
from dispatcher.app.servers import free_ports
from dispatcher.surfaces.demo.show import Stage, end
from tests.contract.buckets import SECRET, bucket_server, objects
from tests.contract.receiver import Receiver, Request, receiving
from tests.e2e.torture import raw
from tests.e2e.torture.checks import read_ledger

TAU, MEAN = Fraction(3, 10), Fraction(1, 100)
WHSEC = "whsec_" + "a2tr" * 8
POLICY = """
version = 1
name = "checkins"

[budget]
objective = "tradeoff"
tau = 0.3
t = 2

[entity.checkin]
key = "checkin_id"
subject = "user_id"

[entity.checkin.fields]
place = {}

[relation.friendship]
source = "friends.csv"
ends = ["user_a", "user_b"]

[property.friend-link]
scope = "relation"
relation = "friendship"
of = ["place"]
disclosure = { kind = "cosine", vector = "place_id", count = "visits" }
average = 0.01

[capacity]
default = { open = 1000000, per_day = 1000000, per_hour = 1000000 }
"""
SETTINGS = """
[surfaces]
operators = "127.0.0.1:{}"
workers = "127.0.0.1:{}"
admin = "127.0.0.1:{}"

[ticks]
planning = 1.0
booking = 0.5
sending = 0.3
"""

Visits = dict[str, dict[str, int]]
"""User -> place -> visits."""
Pairs = set[tuple[str, str]]
"""(user, place): the key of an entry."""


@dataclass(frozen=True)
class Sizes:
    """What is run."""

    advertisers: int = 5
    kind: str = "webhook"
    seconds: float = 3600.0
    patience: float = 300.0  # without anything new: nothing more will come


@dataclass
class World:
    """The check-ins as an operator has them, and as the check needs them."""

    entries: list[tuple[str, str, int]] = field(default_factory=list)
    friends: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def of(cls, data: Checkins) -> World:
        users, places = data.user.tolist(), data.place.tolist()
        rows = zip(users, places, data.count.tolist(), strict=True)
        return cls(
            [(f"u{user}", f"p{place}", count) for user, place, count in rows],
            [(f"u{one}", f"u{other}") for one, other in data.friends.tolist()],
        )


class Hooks:
    """A path of a real HTTP server for each advertiser."""

    secret = WHSEC.encode()

    def __init__(self, receiver: Receiver) -> None:
        self._url = receiver.url
        self._told: dict[str, dict[str, list[str]]] = defaultdict(dict)
        receiver.respond = self._take

    def _take(self, request: Request) -> tuple[int, Mapping[str, str], bytes]:
        """Take a message as its receiver should: its signature is checked first."""
        try:
            said = Webhook(WHSEC).verify(request.body, dict(request.headers))
        except WebhookVerificationError:
            return 400, {}, b""
        name = urlsplit(request.path).path.removeprefix("/")
        texts = [one["text"] for one in said["data"]["items"]]
        self._told[name][request.headers["webhook-id"]] = texts  # a repeat is the same
        return 204, {}, b""

    def settings(self, name: str) -> str:
        url = f"{self._url}/{name}"
        return f'kind = "webhook"\nurl = "{url}"\nallow_private = "127.0.0.1"\n'

    def messages(self, name: str) -> list[list[str]]:
        """Texts of every message that one advertiser got."""
        return list(self._told[name].values())


class Buckets:
    """A bucket of a server that speaks S3 for each advertiser."""

    secret = SECRET

    def __init__(self, url: str) -> None:
        self._url = url

    def settings(self, name: str) -> str:
        return (f'kind = "s3"\nbucket = "{name}-data"\nendpoint = "{self._url}"\n'
                'format = "jsonl"\nallow_private = "127.0.0.1"\n')  # fmt: skip

    def messages(self, name: str) -> list[list[str]]:
        """Texts of every object in the bucket of one advertiser."""
        bodies = objects(self._url, f"{name}-data").values()
        return [
            [json.loads(line)["text"] for line in body.splitlines()] for body in bodies
        ]


@contextmanager
def outside(kind: str, names: Sequence[str]) -> Iterator[dict[str, Hooks | Buckets]]:
    """Start the receivers; ``both``: by turns."""
    with ExitStack() as stack:
        made: list[Hooks | Buckets] = []
        if kind in ("webhook", "both"):
            made.append(Hooks(stack.enter_context(receiving())))
        if kind in ("s3", "both"):
            url = stack.enter_context(bucket_server(*(f"{n}-data" for n in names)))
            made.append(Buckets(url))
        yield dict(zip(names, cycle(made), strict=False))


def run(
    directory: Path, data: Checkins, sizes: Sizes, say: Callable[[str], None] = print
) -> dict[str, Any]:
    """Run it; what came of it, with a list ``wrong`` that must be empty."""
    world = World.of(data)
    names = [f"advertiser{number}" for number in range(1, sizes.advertisers + 1)]
    directory.mkdir(parents=True)
    stage = Stage(directory, say)
    clock = Laps()
    with outside(sizes.kind, names) as receivers:
        stage.command("init", "--example", "checkins")
        write(directory, world, receivers)
        clock.lap("set up")
        stage.command("policy", "apply", "--sample")
        clock.lap("policy")
        stage.command("records", "load", str(directory / "checkins.csv"))
        clock.lap("load")
        stage.command("workers", "add", *(f"{name}/data" for name in names))
        plan = stage.command("plan")
        clock.lap("plan")
        stage.command("plan", "apply", "1")
        daemon = stage.start()
        try:
            wait(stage, daemon, len(world.entries), sizes)
            clock.lap("send")
        finally:
            end(daemon)
        got = {f"{name}/data": receivers[name].messages(name) for name in names}
    stage.command("audit", "export", str(directory / "evidence"))
    clock.lap("export")
    verdict = stage.command("audit", "verify", str(directory / "evidence"))
    clock.lap("verify")
    texts = {who: list(chain.from_iterable(each)) for who, each in got.items()}
    found = judge(stage, world, texts)
    clock.lap("brute force")
    return found | {
        "kind": sizes.kind,
        "advertisers": sizes.advertisers,
        "messages": sum(map(len, got.values())),
        "plan": plan.strip().splitlines(),
        "verified": verdict.startswith("VERIFIED "),
        "seconds": clock.laps,
    }


class Laps:
    """Seconds of each stage."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._began = time.monotonic()

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self.laps[name] = round(now - self._began, 1)
        self._began = now


def write(
    directory: Path, world: World, receivers: Mapping[str, Hooks | Buckets]
) -> None:
    """Write the operator's files."""
    (directory / "policy.toml").write_text(POLICY)
    text = SETTINGS.format(*free_ports(3))
    for name, receiver in receivers.items():
        secret = directory / f"{name}.secret"
        secret.touch(mode=0o600)
        secret.write_bytes(receiver.secret)
        own = receiver.settings(name)
        text += f'\n[connectors.{name}]\n{own}secret_file = "{name}.secret"\n'
    (directory / "dispatcher.toml").write_text(text)
    with (directory / "friends.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("user_a", "user_b"), *world.friends])
    with (directory / "checkins.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("checkin_id", "user_id", "place", "place_id", "visits"))
        for user, place, count in world.entries:
            told = f"{user},{place},{count}"
            writer.writerow((f"{user}-{place}", user, told, place, count))


def wait(
    stage: Stage, daemon: subprocess.Popen[bytes], entries: int, sizes: Sizes
) -> None:
    """Wait until everything has gone out, or nothing moves any more."""
    began = moved = time.monotonic()
    last = -1
    while (now := time.monotonic()) < min(
        began + sizes.seconds, moved + sizes.patience
    ):
        assert daemon.poll() is None, (stage.directory / "up.log").read_text()
        with raw.opened(stage.directory, None) as store:
            sent = store.value("SELECT count(*) FROM task WHERE state = 'published'")
        if sent != last:
            last, moved = sent, now
        if sent >= entries:
            return
        time.sleep(0.5)


def judge(
    stage: Stage, world: World, got: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Hold what was received against the ledger, and against the limits."""
    booked: dict[str, Pairs] = defaultdict(set)
    with raw.opened(stage.directory, None) as store:
        for account, key, name in read_ledger(store, stage.directory).exposed():
            assert name == "place"
            user, _, place = key.partition("-")
            booked[account].add((user, place))
        states = dict(store.rows("SELECT state, count(*) FROM task GROUP BY state"))
    known = {(user, place): count for user, place, count in world.entries}
    wrong = []
    worst, above, sums, placed = 0.0, 0, [], set()
    could = meetable(world)
    for account, texts in got.items():
        seen, visits = read(texts)
        if seen != booked[account]:
            wrong.append(f"{account}: {len(seen ^ booked[account])} not as booked")
        if len(texts) != len(seen):
            wrong.append(f"{account}: {len(texts) - len(seen)} came twice")
        if any(known.get(pair) != visits[pair[0]][pair[1]] for pair in seen):
            wrong.append(f"{account}: something else than was loaded")
        placed |= seen
        past, cosines = disclosed(world, visits)
        above += sum(1 for one in cosines if one > 0)
        worst = max([worst, *cosines])
        sums.append(sum(cosines) / max(1, could))
        if past:
            wrong.append(f"{account}: {past} friendships past tau")
        if sums[-1] >= MEAN:
            wrong.append(f"{account}: the mean is past its limit")
    if not any(got.values()):
        wrong.append("nothing was received")
    return {
        "wrong": wrong,
        "entries": len(world.entries),
        "friendships": len(world.friends),
        "that_can_meet": could,
        "received": {account: len(texts) for account, texts in got.items()},
        "placed": len(placed),
        "withheld": len(world.entries) - len(placed),
        "tasks": states,
        "worst_cosine": worst,
        "highest_mean": max(sums),
        "pairs_above_zero": above,
    }


def read(texts: Sequence[str]) -> tuple[Pairs, Visits]:
    """Read what an advertiser got as one that wants to know would."""
    seen: Pairs = set()
    visits: Visits = defaultdict(dict)
    for text in texts:
        user, place, count = text.split(",")
        seen.add((user, place))
        visits[user][place] = int(count)
    return seen, visits


def disclosed(world: World, visits: Visits) -> tuple[int, list[float]]:
    """Cosines of all friendships by what is held; how many reach tau, exactly."""
    past, cosines = 0, []
    for one, other in world.friends:
        mine, theirs = visits.get(one, {}), visits.get(other, {})
        dot = sum(count * theirs.get(place, 0) for place, count in mine.items())
        norms = squares(mine) * squares(theirs)
        past += dot > 0 and Fraction(dot * dot, norms) >= TAU * TAU
        cosines.append(dot / math.sqrt(norms) if dot else 0.0)
    return past, cosines


def squares(visits: Mapping[str, int]) -> int:
    return sum(count * count for count in visits.values())


def meetable(world: World) -> int:
    """Friendships whose two people were at one place at all."""
    places: dict[str, set[str]] = defaultdict(set)
    for user, place, _ in world.entries:
        places[user].add(place)
    return sum(1 for one, other in world.friends if places[one] & places[other])


def main() -> int:
    """Run the long form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--advertisers", type=int, default=5)
    parser.add_argument("--kind", choices=("webhook", "s3", "both"), default="webhook")
    parser.add_argument("--data", type=Path, help="folder of the files; drawn without")
    parser.add_argument(
        "--name", help="which of the folder's data; the largest without"
    )
    parser.add_argument("--seed", type=int, default=7, help="of what is drawn")
    parser.add_argument("--seconds", type=float, default=3600.0)
    given = parser.parse_args()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # the S3 server's own
    if given.data is None:
        data = drawn_checkins(given.seed)
    else:
        every = {one.name: one for one in read_checkins(given.data)}
        largest = max(every, key=lambda name: len(every[name].user))
        data = every[given.name or largest]
    sizes = Sizes(given.advertisers, given.kind, given.seconds)
    found = run(given.directory, data, sizes) | {"data": data.name}
    print(json.dumps(found, indent=2))
    return 1 if found["wrong"] or not found["verified"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
