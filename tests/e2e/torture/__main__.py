"""``python -m tests.e2e.torture``: the long form, 50 kills on one database or both."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import private_cluster
from tests.e2e.torture.course import Course
from tests.e2e.torture.scene import Scene, Sizes


@contextmanager
def database(store: str) -> Iterator[str | None]:
    """URL of an empty PostgreSQL database, of a server that ends with it; or None."""
    if store == "sqlite":
        yield None
        return
    with private_cluster() as cluster:
        cluster.administer("CREATE DATABASE torture")
        yield cluster.url("torture")


def main() -> int:
    """Run; 0 if everything holds."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.torture")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--records", type=int, default=100)
    parser.add_argument("--workers", type=int, default=20)
    parser.add_argument("--waves", type=int, default=25)
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--dir", type=Path, help="a new directory, kept afterwards")
    chosen = parser.parse_args()
    place = chosen.dir or Path(tempfile.mkdtemp(prefix="torture-"))
    sizes = Sizes(chosen.records, chosen.workers, chosen.waves, chosen.seed)

    def say(text: str) -> None:
        print(text, flush=True)

    with database(chosen.store) as url:
        scene = Scene(place / "demo", sizes, url)
        scene.prepare()
        told = Course(scene, chosen.kills, chosen.seed, say).run()
    say(told.text())
    if told.findings.wrong:
        say(f"look into {scene.directory}")
        return 1
    if chosen.dir is None:
        shutil.rmtree(place)
    return 0


if __name__ == "__main__":
    sys.exit(main())
