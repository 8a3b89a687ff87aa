"""The demo as a newcomer runs it, smaller: it ends by itself with the proof."""

import csv
import json
import subprocess
import sys
from urllib.parse import urlsplit

from dispatcher.surfaces.demo.forms import FIELDS
from tests.e2e.programs import PATIENCE, environment, is_free

# A worker may see two entries of a patient's history, and none beside the name: 16 could
# be shown four more than are wanted, and how many are handed back is chance.
RECORDS, WORKERS = 12, 20


def test_a_small_demo_ends_by_itself_verified_and_leaks_nothing(tmp_path):
    directory = tmp_path / "demo"
    words = ["demo", str(directory), "--minutes", "15", "--json"]
    words += ["--records", str(RECORDS), "--workers", str(WORKERS)]
    words += ["--patience", str(PATIENCE)]
    done = subprocess.run(
        [sys.executable, "-m", "dispatcher", *words],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        timeout=1200,
    )
    log = (directory / "up.log").read_text()
    assert done.returncode == 0, done.stderr + log
    found = json.loads(done.stdout)
    assert found["verdict"].startswith("VERIFIED")
    assert found["complete"] == 0
    assert found["strangers"] == 0
    assert (found["records"], found["wanted"]) == (RECORDS, RECORDS)
    assert found["matching"] >= 0.9 * found["fields"]
    assert found["answers"] >= RECORDS * len(FIELDS)

    with (directory / "truth.csv").open(newline="") as file:
        truth = list(csv.DictReader(file))
    names = {row[field] for row in truth for field in ("patient_name", "disease")}
    for text in (log, done.stdout, done.stderr):
        assert not [name for name in names if name in text]
    assert "Traceback" not in log
    assert "level=error" not in log

    pages = [line.split()[1] for line in log.splitlines() if "http://" in line]
    ports = [urlsplit(page).port for page in pages]
    assert len(ports) == 3
    assert is_free(ports)


def test_the_demo_does_not_run_in_a_directory_in_use(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    done = subprocess.run(
        [sys.executable, "-m", "dispatcher", "demo", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        timeout=PATIENCE,
    )
    assert done.returncode == 1
    assert "error[E005]" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
