"""``python -m tests.e2e.torture.walking``: the long walk, on files, databases or memory.

``--steps 1000000 --store memory --seed 7 --state build/walk-7.json``. It goes in legs with
a seed of their own; a state file counts them, so that a walk may be broken off and goes
on where it was. Seeds of their own may walk side by side.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import structlog

from tests.conftest import private_cluster
from tests.e2e.torture.ground import Ground, databases, files
from tests.e2e.torture.walk import EPISODE, walk

LEG = 4 * EPISODE
"""Steps that are counted together."""

MEMORY = Path("/dev/shm")
"""A disk in memory."""


@contextmanager
def ground(store: str) -> Iterator[Ground]:
    """Where one leg walks."""
    within = MEMORY if store == "memory" else None
    with tempfile.TemporaryDirectory(prefix="walk-", dir=within) as place:
        if store != "postgresql":
            with files(Path(place)) as made:
                yield made
            return
        with private_cluster() as cluster, databases(Path(place), cluster) as made:
            yield made


class State:
    """What was walked so far, in a file that is replaced whole after each leg."""

    def __init__(self, path: Path | None, store: str, seed: int) -> None:
        self._path = path
        self.steps, self.seconds, self.done = 0, 0.0, Counter[str]()
        self._walk = [store, seed]
        if path is not None and path.exists():
            found = json.loads(path.read_text(encoding="utf-8"))
            if found["walk"] != self._walk:
                sys.exit(f"{path} is of another walk: {found['walk']}")
            self.steps, self.seconds = found["steps"], found["seconds"]
            self.done = Counter(found["done"])

    def add(self, steps: int, seconds: float, done: Counter[str]) -> None:
        """Count a leg in."""
        self.steps, self.seconds = self.steps + steps, self.seconds + seconds
        self.done += done
        if self._path is not None:
            facts = {
                "walk": self._walk, "steps": self.steps,
                "seconds": round(self.seconds), "done": self.done,
            }  # fmt: skip
            self._path.parent.mkdir(parents=True, exist_ok=True)
            draft = self._path.with_suffix(".part")
            draft.write_text(json.dumps(facts), encoding="utf-8")
            draft.replace(self._path)


def main() -> int:
    """Walk; an AssertionError tells of a difference."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.torture.walking")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=7)
    stores = ("memory", "sqlite", "postgresql")
    parser.add_argument("--store", choices=stores, default="sqlite")
    parser.add_argument("--state", type=Path, help="where to go on from, and count")
    chosen = parser.parse_args()
    quiet = structlog.make_filtering_bound_logger(logging.CRITICAL)
    structlog.configure(wrapper_class=quiet)
    state = State(chosen.state, chosen.store, chosen.seed)
    while state.steps < chosen.steps:
        began = time.monotonic()
        steps = min(LEG, chosen.steps - state.steps)
        rng = np.random.default_rng([chosen.seed, state.steps])
        with ground(chosen.store) as here:
            done = walk(here, steps, rng)
        state.add(steps, time.monotonic() - began, done)
    print(
        f"{state.steps} steps on {chosen.store} in {state.seconds:.0f} s, no difference: "
        + ", ".join(f"{name} {count}" for name, count in sorted(state.done.items()))
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
