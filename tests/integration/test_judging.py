"""``dispatcher judge``: documents, exit statuses, both forms of a plan, and bad files."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dispatcher.operations import instances
from dispatcher.surfaces.cli.start import main
from policies.rules.functions import UserUtility

SAMPLES = Path(__file__).parents[1] / "data" / "instances"
PAGE = SAMPLES.parents[2] / "docs/reference/instances.md"
SHARED = ("objective", "utility", "disclosure", "complete_sets")
RING = "p edge 4 4\ne 1 2\ne 2 3\ne 3 4\ne 4 1\n"
VISITS = "user,location\nann,1\nann,2\nbob,2\nbob,3\n"


def run(capsys, *words):
    status = main([*map(str, words)])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.mark.parametrize("name", [path.stem for path in sorted(SAMPLES.glob("*.json"))])
def test_what_solve_writes_is_judged_as_solve_judged_it(capsys, tmp_path, name):
    """The file of -o, and its list alone: the same figures, nothing broken, exit 0."""
    instance, whole = SAMPLES / f"{name}.json", tmp_path / "plan.json"
    status, _, _ = run(capsys, "solve", instance, "-o", whole, "--algorithm", "greedyl")
    solved = json.loads(whole.read_text())
    if status:
        assert solved["assignment"] is None
        status, out, err = run(capsys, "judge", instance, whole)
        assert (status, out) == (5, "")
        assert "no plan" in err
        return
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps(solved["assignment"]))
    for plan in (whole, bare):
        status, out, err = run(capsys, "judge", instance, plan)
        told = json.loads(out)
        assert (status, told["feasible"], told["violations"]) == (0, True, [])
        assert [told[key] for key in SHARED] == [solved[key] for key in SHARED]
        assert err.startswith("every limit is kept: objective")


def damaged(tmp_path, rows):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(rows))
    return path


def test_what_is_broken_is_told_and_the_exit_is_one(capsys, tmp_path):
    """An entry left out, and a pair with one adversary; --json leaves out the words."""
    rows = [[0], [1], [2], [1], [0], [2], []]
    plan = damaged(tmp_path, rows)
    status, out, err = run(capsys, "judge", SAMPLES / "step_pairs.json", plan)
    told = json.loads(out)
    assert (status, told["feasible"], told["complete_sets"]) == (1, False, 1)
    assert told["violations"] == [
        "entry 6 gets 0 copies, expected 1 to 2",
        "property 0: entries 0, 4 are all held by adversary 0",
    ]
    assert err.startswith("not every limit is kept: objective")
    assert all(f"  {what}\n" in err for what in told["violations"])
    page = PAGE.read_text()
    assert [key for key in told if key != "schema" and f"`{key}`" not in page] == []
    assert json.loads(plan.read_text()) == rows
    status, out, err = run(capsys, "judge", SAMPLES / "step_pairs.json", plan, "--json")
    assert (status, json.loads(out), err) == (1, told, "")


def test_graphs_and_check_ins_are_judged_by_the_options_of_solve(capsys, tmp_path):
    """A ring by two colours, and by one; two friends at one place with one adversary."""
    (tmp_path / "ring.col").write_text(RING)
    words = ("judge", tmp_path / "ring.col")
    plan = damaged(tmp_path, [[0], [1], [0], [1]])
    assert run(capsys, *words, plan, "--adversaries", 2)[0] == 0
    plan = damaged(tmp_path, [[0], [1], [0], [0]])
    status, out, _ = run(capsys, *words, plan, "--adversaries", 2)
    assert (status, len(json.loads(out)["violations"])) == (1, 2)
    status, _, err = run(capsys, *words, plan)
    assert status == 2
    assert "--adversaries" in err
    (tmp_path / "ties.csv").write_text("left,right\nann,bob\n")
    (tmp_path / "visits.csv").write_text(VISITS)
    ties = ("--adversaries", 2, "--friendships", tmp_path / "ties.csv")
    for rows, status in (([[0], [0], [1], [0]], 0), ([[0], [0], [0], [1]], 1)):
        plan = damaged(tmp_path, rows)
        assert run(capsys, "judge", tmp_path / "visits.csv", plan, *ties)[0] == status


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "not JSON"),
        ('{"assignment": [[0], [1', "not JSON"),
        ('{"assignment": [], "assignment": []}', "appears twice"),
        ("[" * 100_000, "nested too deeply"),
        ("[[" + "9" * 5000 + "]]", "too many digits"),
        ("\udcff", "not UTF-8"),
        ("{}", "the key 'assignment' is missing"),
        ("[[0], [1]]", "the list has 2 rows, expected 7"),
        ("[[0], [1], [2], [1], [0], [2], [NaN]]", "the plan[6][0]"),
        ("[[0], [1], [2], [1], [0], [2], [3]]", "3 is out of range, expected 0 to 2"),
        ("[[0], [1], [2], [1], [0], [2], [1, 1]]", "adversary 1 stands there twice"),
    ],
)
def test_what_is_no_plan_is_five(capsys, tmp_path, text, told):
    """What is wrong, where, and how to mend it; no document, and no traceback."""
    plan = tmp_path / "plan.json"
    plan.write_bytes(text.encode("utf-8", "surrogateescape"))
    status, out, err = run(capsys, "judge", SAMPLES / "step_pairs.json", plan)
    assert (status, out) == (5, "")
    assert told in err
    assert "plan.json" in err
    assert "fix:" in err


def test_files_in_each_others_place_are_told(capsys, tmp_path):
    """The plan first is no instance; an instance is no plan; one that is not there."""
    instance = SAMPLES / "step_pairs.json"
    plan = damaged(tmp_path, {"schema": "x", "assignment": [[0]] * 7})
    status, _, err = run(capsys, "judge", plan, instance)
    assert status == 5
    assert "expected one of sparsi-instance/1" in err
    status, _, err = run(capsys, "judge", instance, instance)
    assert status == 5
    assert "Name the instance first, then the plan" in err
    assert run(capsys, "judge", instance, tmp_path / "none.json")[0] == 5


def test_a_users_utility_is_judged_by_and_its_failure_is_told(
    capsys, tmp_path, monkeypatch
):
    """Two each are worth 4; where it fails after its samples, its author is named."""
    broken = []
    paired = UserUtility("paired", lambda held: min(len(held), 2, *broken))
    monkeypatch.setattr(instances, "load_utility", lambda _: paired)
    document = json.loads((SAMPLES / "step_pairs.json").read_text())
    document |= {"utility": {"kind": "plugin", "name": "paired"}, "utility_norm": 1}
    instance = tmp_path / "valued.json"
    instance.write_text(json.dumps(document))
    plan = damaged(tmp_path, [[0], [1], [2], [1], [1], [2], [0]])
    status, out, err = run(capsys, "judge", instance, plan)
    told = json.loads(out)
    assert (status, told["utility"]) == (0, 6.0)
    assert told["notes"][0].startswith("utility plugin:paired: never falls")
    assert told["notes"][0] in err
    real = instances.read_plan
    monkeypatch.setattr(
        instances, "read_plan", lambda *words: broken.append("Canary") or real(*words)
    )
    status, out, err = run(capsys, "judge", instance, plan)
    assert (status, out) == (5, "")
    assert "its utility failed while it was planned or judged by" in err
    assert "Canary" not in err


LOUD = """
import ctypes
from policies.rules.functions import UserUtility

libc = ctypes.CDLL(None)

def u(held):
    print("Canary of Python")
    libc.puts(b"Canary of C")
    return len(held)

LOUD = UserUtility("loud", u)
"""


def test_what_a_package_prints_is_no_part_of_the_document(tmp_path):
    """While it is sampled and while it is asked, in a buffer of Python's or of C's."""
    info = tmp_path / "loud-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: loud\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[sparsi_dispatcher.utilities]\nloud = loud:LOUD\n"
    )
    (tmp_path / "loud.py").write_text(LOUD)
    document = json.loads((SAMPLES / "step_pairs.json").read_text())
    document |= {"utility": {"kind": "plugin", "name": "loud"}, "utility_norm": 1}
    instance = tmp_path / "loud.json"
    instance.write_text(json.dumps(document))
    plan = damaged(tmp_path, [[0], [1], [2], [1], [1], [2], [0]])
    around = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    around["PYTHONPATH"] = os.pathsep.join([str(tmp_path), str(PAGE.parents[2])])
    for words, worth in (
        (["judge", instance, plan], 7.0),
        (["solve", instance, "--work", "0.1"], 13.0),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "dispatcher", *map(str, words)],
            env=around,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["utility"] == worth
        assert "Canary of Python" in done.stderr
        assert "Canary of C" in done.stderr
