"""Nothing is lost, doubled or shown unbooked, whatever kills, freezes or starves it.

The long form is ``make torture`` (``python -m tests.e2e.torture --kills 50``).
"""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dispatcher.store import open_store
from dispatcher.store.vault import KeyFile
from tests.conftest import private_cluster
from tests.e2e.torture import hard
from tests.e2e.torture.__main__ import fresh
from tests.e2e.torture.checks import Findings, check
from tests.e2e.torture.course import Course
from tests.e2e.torture.scene import Scene, Sizes
from tests.edits import CRASHES, Edit, unguarded

SMALL = Sizes(records=12, workers=20, waves=4)
TINY = Sizes(records=8, workers=20, waves=2)

FOUND = {
    "an answer is lost": "lost",
    "an answer is another": "nobody gave the answer of",
    "a task is another account's": "another's task",
    "a showing has no line": "without one",
    "lines are of an hour later": "before its",
    "lines have another cause": "breaks at",
    "tasks have lost their message": "batch",
}
"""A word of the check that must see what a crash could do to a store."""


def killed(scene: Scene, seed: int) -> Findings:
    """Kill a demo's daemon five times, let it come to its end, and check."""
    scene.prepare()
    told = Course(scene, kills=5, seed=seed, say=print).run()
    print(told.text())
    assert told.kills == 5
    assert told.servers_killed >= 3 or not scene.servers
    return told.findings


def test_a_demo_killed_five_times_keeps_its_promises(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "demo", SMALL)
    found = killed(scene, seed=3)
    assert found.wrong == []
    assert found.looked["answers confirmed"] > 100
    assert found.looked["crops seen"] > 100
    assert found.looked["batches"] > 3
    for crash, edit in CRASHES.items():  # and the checks are not blind
        wrong = check(damaged(scene, edit)).wrong
        assert any(FOUND[crash] in line for line in wrong), (crash, wrong)


def test_a_demo_with_servers_killed_five_times_keeps_its_promises_on_postgresql(
    tmp_path: Path,
) -> None:
    with private_cluster() as cluster:  # its server is killed too
        url = fresh(cluster, "torture")
        scene = Scene(tmp_path / "demo", SMALL, url, cluster, servers=2)
        assert killed(scene, 5).wrong == []


def damaged(scene: Scene, edit: Edit) -> Scene:
    """A copy of what a scene left, with its store edited."""
    copy = Scene(scene.directory.with_name("copy"), scene.sizes)
    copy.known, copy.truth = scene.known, scene.truth
    shutil.rmtree(copy.directory, ignore_errors=True)
    shutil.copytree(scene.directory, copy.directory)
    key_file = KeyFile(copy.directory / "dispatcher.key")
    with (
        open_store(copy.directory / "dispatcher.db", key_file=key_file) as store,
        store.write() as tx,
        unguarded(tx),
    ):
        assert edit(tx) > 0
    return copy


@pytest.mark.parametrize(
    "ordeal", [hard.frozen_past_the_lease, hard.writes_refused, hard.read_only]
)
def test_safety_37_it_comes_through(
    ordeal: Callable[[Scene], Findings], tmp_path: Path
) -> None:
    if ordeal is hard.read_only and not shutil.which("setpriv"):
        pytest.skip("setpriv (util-linux) takes root's privileges away; it is not here")
    assert ordeal(Scene(tmp_path / "demo", TINY)).wrong == []


@pytest.mark.long
def test_a_frozen_daemon_writes_nothing_on_postgresql(
    postgres_database: str, tmp_path: Path
) -> None:
    scene = Scene(tmp_path / "demo", TINY, postgres_database)
    assert hard.frozen_past_the_lease(scene).wrong == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 48 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=48m,mode=700", "none", str(place)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip(f"a small disk cannot be mounted: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.long
def test_it_comes_through_a_full_disk(small_disk: Path) -> None:
    assert hard.disk_full(Scene(small_disk / "demo", TINY)).wrong == []
