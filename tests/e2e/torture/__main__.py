"""``python -m tests.e2e.torture``: the long form, on one database.

Kills go in rounds of a demo each, with a seed of its own. What each round found is kept
in a state file, so that a long course may be broken off and goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.conftest import Cluster, private_cluster
from tests.e2e.torture.course import Course, Told
from tests.e2e.torture.scene import Scene, Sizes

ROUND = 50
"""Kills of ``up`` in one round."""


@contextmanager
def server(store: str) -> Iterator[Cluster | None]:
    """A PostgreSQL server that ends with the block; None for SQLite."""
    if store == "sqlite":
        yield None
        return
    with private_cluster() as cluster:
        yield cluster


@contextmanager
def database(store: str) -> Iterator[str | None]:
    """URL of an empty PostgreSQL database, of a server that ends with it; or None."""
    with server(store) as cluster:
        yield None if cluster is None else fresh(cluster, "torture")


def fresh(cluster: Cluster, name: str) -> str:
    """URL of a new database."""
    cluster.administer("CREATE DATABASE {name}", name=name)
    return cluster.url(name)


class State:
    """What is done so far, in a file that is replaced whole after each round."""

    def __init__(self, path: Path | None, store: str, seed: int) -> None:
        self._path = path
        self.facts: dict[str, Any] = {
            "store": store, "seed": seed, "rounds": 0, "kills": 0, "people": 0,
            "loads": 0, "databases": 0, "servers": 0, "seconds": 0, "longest": 0.0, "wrong": [],
        }  # fmt: skip
        if path is not None and path.exists():
            found = json.loads(path.read_text(encoding="utf-8"))
            if (found["store"], found["seed"]) != (store, seed):
                sys.exit(
                    f"{path} is of another course: {found['store']}, {found['seed']}"
                )
            self.facts |= found

    def add(self, told: Told) -> None:
        """Count a round in."""
        facts = self.facts
        facts["rounds"] += 1
        facts["kills"] += told.kills
        facts["people"] += told.people_killed
        facts["loads"] += told.loads_killed
        facts["databases"] += told.databases_killed
        facts["servers"] += told.servers_killed
        facts["seconds"] += round(told.seconds)
        facts["longest"] = max(facts["longest"], *told.to_lead)
        facts["wrong"] += told.findings.wrong
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            draft = self._path.with_suffix(".part")
            draft.write_text(json.dumps(facts, indent=1), encoding="utf-8")
            draft.replace(self._path)


def say(text: str) -> None:
    print(text, flush=True)


def arguments() -> argparse.Namespace:
    """Words of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.torture")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--records", type=int, default=100)
    parser.add_argument("--workers", type=int, default=20)
    parser.add_argument("--waves", type=int, default=25)
    parser.add_argument("--servers", type=int, default=0, help="dispatcher serve")
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument(
        "--state", type=Path, help="where to go on from, and keep count"
    )
    parser.add_argument("--dir", type=Path, help="a new directory, kept afterwards")
    return parser.parse_args()


def main() -> int:
    """Run; 0 if everything holds."""
    chosen = arguments()
    place = chosen.dir or Path(tempfile.mkdtemp(prefix="torture-"))
    state = State(chosen.state, chosen.store, chosen.seed)
    while state.facts["kills"] < chosen.kills and not state.facts["wrong"]:
        number = state.facts["rounds"]
        kills = min(ROUND, chosen.kills - state.facts["kills"])
        seed = chosen.seed + number
        sizes = Sizes(chosen.records, chosen.workers, chosen.waves, seed)
        scene_place = place / f"round-{number}"
        say(f"round {number + 1}, seed {seed}: {kills} kills on {chosen.store}")
        with server(chosen.store) as cluster:
            url = None if cluster is None else fresh(cluster, "torture")
            scene = Scene(scene_place, sizes, url, cluster, servers=chosen.servers)
            scene.prepare()
            told = Course(scene, kills, seed, say).run()
        say(told.text())
        state.add(told)
        if not told.findings.wrong:
            shutil.rmtree(scene_place)
    say(json.dumps(state.facts))
    if state.facts["wrong"]:
        say(f"look into {place}")
        return 1
    if chosen.dir is None:
        shutil.rmtree(place)
    return 0


if __name__ == "__main__":
    sys.exit(main())
