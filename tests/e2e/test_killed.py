"""Nothing is lost, doubled or shown unbooked, whatever kills, freezes or starves it.

The long form is ``make torture`` (``python -m tests.e2e.torture --kills 50``).
"""

import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import private_cluster
from tests.e2e.torture import hard
from tests.e2e.torture.__main__ import fresh
from tests.e2e.torture.checks import Findings, check
from tests.e2e.torture.course import Course
from tests.e2e.torture.scene import Scene, Sizes

SMALL = Sizes(records=12, workers=20, waves=4)
TINY = Sizes(records=8, workers=20, waves=2)

DAMAGES = {
    "DELETE FROM answer WHERE task_id = (SELECT max(task_id) FROM answer)": "lost",
    "UPDATE answer SET raw = X'78' WHERE task_id ="
    " (SELECT min(task_id) FROM answer)": "nobody gave the answer of",
    "UPDATE task SET account_id = (SELECT max(id) FROM account WHERE id <> account_id)"
    " WHERE id = (SELECT min(task_id) FROM answer)": "another's task",
    "DELETE FROM ledger_line WHERE (account_id, entry_id) ="
    " (SELECT account_id, entry_id FROM answer ORDER BY task_id LIMIT 1)": "without one",
    "UPDATE ledger_line SET at = at + 3600000000 WHERE kind = 'exposure'": "before its",
    "UPDATE ledger_line SET cause = 'x' WHERE kind = 'exposure'": "breaks at",
    "UPDATE task SET outbox_id = NULL WHERE outbox_id IS NOT NULL": "batch",
}
"""What a crash could do to a store, and a word of the check that must see it."""


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
    for damage, word in DAMAGES.items():  # and the checks are not blind
        wrong = check(damaged(scene, damage)).wrong
        assert any(word in line for line in wrong), (damage, wrong)


def test_a_demo_with_servers_killed_five_times_keeps_its_promises_on_postgresql(
    tmp_path: Path,
) -> None:
    with private_cluster() as cluster:  # its server is killed too
        url = fresh(cluster, "torture")
        scene = Scene(tmp_path / "demo", SMALL, url, cluster, servers=2)
        assert killed(scene, 5).wrong == []


def damaged(scene: Scene, damage: str) -> Scene:
    """A copy of what a scene left, its guards removed and its store changed."""
    copy = Scene(scene.directory.with_name("copy"), scene.sizes)
    copy.known, copy.truth = scene.known, scene.truth
    shutil.rmtree(copy.directory, ignore_errors=True)
    shutil.copytree(scene.directory, copy.directory)
    store = sqlite3.connect(copy.directory / "dispatcher.db", isolation_level=None)
    guards = store.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
    for (name,) in guards.fetchall():
        store.execute(f"DROP TRIGGER {name}")
    assert store.execute(damage).rowcount > 0
    store.close()
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
