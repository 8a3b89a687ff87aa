"""``dispatcher solve``: documents, exit statuses, errors, and an end by Ctrl-C."""

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import time
from fractions import Fraction
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from dispatcher import strategies
from dispatcher.__main__ import main as program
from dispatcher.core import plugins
from dispatcher.operations import instances
from dispatcher.operations.instances import report, write_whole
from dispatcher.surfaces.cli import solve as solving
from dispatcher.surfaces.cli.start import main
from policies.instances.instance_file import read_instance
from policies.judging.judge import judge
from policies.model.problem import Plan
from policies.rules.functions import UserUtility
from policies.solvers import Solution, Verdict
from policies.solvers.search import greedy
from tests.patience import until
from tests.unit.policies.instances.test_importers import mycielski

SAMPLES = Path(__file__).parents[1] / "data" / "instances"
KEYS = {
    "verdict", "algorithm", "objective", "utility", "disclosure", "complete_sets",
    "bound", "gap", "seconds", "stopped", "assignment", "core",
}  # fmt: skip


def run(capsys, *words):
    status = main(["solve", *map(str, words)])
    out, err = capsys.readouterr()
    return status, out, err


def test_a_plan_is_told_whole(capsys):
    """All keys, the reference's objective, proven; a line for people on stderr."""
    path = SAMPLES / "linear_average.json"
    status, out, err = run(capsys, path, "--time-limit", 600, "--seed", 7)
    told = json.loads(out)
    best = json.loads(path.read_text())["reference"]["best"]
    assert status == 0
    assert set(told) >= KEYS
    page = (SAMPLES.parents[2] / "docs/reference/instances.md").read_text()
    assert [key for key in told if key != "schema" and f"`{key}`" not in page] == []
    assert told["verdict"] == "SOLVED"
    assert told["objective"] == pytest.approx(best, abs=1e-9)
    assert told["bound"] >= told["objective"]
    assert told["gap"] == told["bound"] - told["objective"]
    assert (told["stopped"], told["core"]) == ("optimal", None)
    assert told["seed"] == 7
    assert len(told["assignment"]) == 7
    assert err.startswith("SOLVED: objective")


def test_a_trace_says_of_each_row_of_auto_how_long_it_took_and_what_came_of_it(capsys):
    path = SAMPLES / "step_pairs.json"
    plain = json.loads(run(capsys, path, "--work", 9)[1])
    status, out, err = run(capsys, path, "--work", 9, "--trace")
    told = json.loads(out)
    assert status == 0
    assert "rows" not in plain
    assert told["assignment"] == plain["assignment"]
    assert all(row["seconds"] >= 0 for row in told["rows"])
    outcomes = {row["row"]: row["outcome"] for row in told["rows"]}
    reached = [row["row"] for row in told["rows"] if row["runs"]]
    assert outcomes[reached[-1]] == "proof"
    assert {outcomes[name] for name in outcomes.keys() - {*reached}} == {"not reached"}
    assert all(row in err for row in outcomes)
    page = (SAMPLES.parents[2] / "docs/reference/instances.md").read_text()
    assert [key for key in told["rows"][0] if f"`{key}`" not in page] == []


def test_with_o_the_document_goes_to_the_file(capsys, tmp_path):
    """Nothing but the line for people is printed; --json leaves even that out."""
    target = tmp_path / "plan.json"
    status, out, err = run(capsys, SAMPLES / "step_pairs.json", "-o", target)
    assert (status, out) == (0, "")
    assert json.loads(target.read_text())["complete_sets"] == 0
    status, out, err = run(capsys, SAMPLES / "step_pairs.json", "-o", target, "--json")
    assert (status, out, err) == (0, "", "")


def test_safety_33_what_is_written_whole_is_its_owners_alone(tmp_path):
    """A backlog or a picture of a policy; a file that is shared already stays so."""
    new, shared = tmp_path / "new.json", tmp_path / "shared.json"
    shared.touch()
    shared.chmod(0o644)
    before = os.umask(0)
    try:
        write_whole(new, "{}")
        write_whole(shared, "{}")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (new, shared)]
    assert modes == [0o600, 0o644]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("missing/plan.json", "cannot be written"),
        ("folder", "is a folder"),
        ("file/plan.json", "cannot be written"),
        ("ring", "cannot be written"),
        ("instance.json", "in use by this very command"),
    ],
)
def test_a_place_that_will_not_do_is_refused_before_the_search(
    capsys, tmp_path, monkeypatch, name, told
):
    """Nothing is even read, nothing is left, the instance stays."""
    monkeypatch.setattr(instances, "read_document", lambda *_: pytest.fail("read"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "ring").symlink_to(tmp_path / "ring")
    instance = tmp_path / "instance.json"
    text = (SAMPLES / "step_pairs.json").read_text()
    instance.write_text(text)
    status, out, err = run(capsys, instance, "-o", tmp_path / name)
    assert (status, out) == (5 if "use" not in told else 2, "")
    assert told in err
    assert instance.read_text() == text
    before = {"folder", "file", "ring", "instance.json"}
    assert {p.name for p in tmp_path.iterdir()} == before


def test_a_file_that_can_not_be_replaced_stays_and_the_answer_is_printed(
    capsys, tmp_path, monkeypatch
):
    """The disk is full after the search: exit 5, and the document on stdout."""
    target = tmp_path / "plan.json"
    target.write_text("before")

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    status, out, err = run(capsys, SAMPLES / "step_pairs.json", "-o", target)
    assert status == 5
    assert json.loads(out)["verdict"] == "SOLVED"
    assert "No space left on device" in err
    assert [path.read_text() for path in tmp_path.iterdir()] == ["before"]


def test_a_link_a_mode_and_a_device_stay_what_they_are(capsys, tmp_path):
    """The link's file is replaced, with its mode; a device is written to."""
    target, link = tmp_path / "plan.json", tmp_path / "link"
    target.touch(mode=0o640)
    link.symlink_to(target)
    assert run(capsys, SAMPLES / "step_pairs.json", "-o", link)[0] == 0
    assert link.is_symlink()
    assert json.loads(target.read_text())["verdict"] == "SOLVED"
    assert target.stat().st_mode & 0o777 == 0o640
    assert run(capsys, SAMPLES / "step_pairs.json", "-o", "/dev/null")[0] == 0
    assert Path("/dev/null").is_char_device()


def test_no_plan_is_seven_with_a_smallest_core(capsys):
    """An odd ring has no two sides; the set beside it is not in the core."""
    status, out, err = run(capsys, SAMPLES / "odd_ring.json")
    told = json.loads(out)
    assert status == 7
    assert told["verdict"] == "INFEASIBLE"
    assert told["assignment"] is None
    assert told["core"]["properties"] == [0, 1, 2, 3, 4]
    assert told["core"]["entries"] == [0, 1, 2, 3, 4]
    assert (told["core"]["needed"], told["core"]["exact"]) == (3, True)
    assert "every assignment to 2 adversaries was ruled out" in err
    assert "3 adversaries are enough, and no fewer are" in err


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("history_breach", "past its limit by history alone: entries 2 and 3"),
        ("tau_zero", "no disclosure is below this tau"),
        ("budget_average_thirds", "keeps the disclosure to every adversary below tau"),
    ],
)
def test_other_reasons_are_in_words(capsys, name, told):
    """History, a limit of 0, and a mean that cannot be kept."""
    status, _, err = run(capsys, SAMPLES / f"{name}.json")
    assert status == 7
    assert told in err


def test_work_instead_of_time_gives_the_same_plan_on_any_number_of_threads(capsys):
    """Seed and work fix it all but the seconds."""
    told = []
    for threads in (1, 2):
        _, out, _ = run(
            capsys, SAMPLES / "any_two_pool.json", "--work", 5, "--threads", threads
        )
        told.append(json.loads(out) | {"seconds": 0})
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.json", "{", "line 1, column 2"),
        ("a.json", "{", "docs/reference/instances.md"),
        ("a.json", '{"prior": [[0, 0]], "prior": []}', "'prior' appears twice"),
        ("a.json", "[" * 100_000, "nested too deeply"),
        ("a.json", '{"n": 1' + "0" * 5000 + "}", "too many digits"),
        ("a.json", '{"schema": "other"}', "expected one of sparsi-instance/1"),
        ("a.json", "\xff", "line 1"),
        ("a.col", "p edge 2 1\ne 1 9\n", "line 2"),
        ("a.hgr", "1\n", "line 1"),
        ("a.csv", "user\nx\n", "line 1"),
    ],
)
def test_a_bad_file_is_five_with_its_place(capsys, tmp_path, name, text, told):
    """What, where, and how to mend it; nothing on stdout."""
    path = tmp_path / name
    path.write_text(text)
    friends = tmp_path / "friends.csv"
    friends.write_text("a,b\nx,y\n")
    words = [] if name.endswith("json") else ["--adversaries", 2]
    words += ["--friendships", friends] if name.endswith("csv") else []
    status, out, err = run(capsys, path, *words)
    assert (status, out) == (5, "")
    assert told in err
    assert "fix:" in err


def test_a_file_that_is_no_text_is_five(capsys, tmp_path):
    """Bytes that are not UTF-8."""
    path = tmp_path / "a.json"
    path.write_bytes(b"\xff\xfe\x00")
    assert run(capsys, path)[0] == 5
    assert run(capsys, tmp_path / "missing.json")[0] == 5


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["step_pairs.json", "--algorithm", "magic"], "no algorithm 'magic'"),
        (["step_pairs.json", "--time-limit", "0"], "time-limit"),
        (["cosine_tradeoff.json", "--algorithm", "milp"], "does not solve this kind"),
        (["linear_average.json", "--algorithm", "clique"], "one of: annealing, auto, "),
        (["linear_average.json", "--adversaries", "3"], "does not take --adversaries"),
        (["linear_average.json", "--copies", "2"], "does not take --copies"),
        (["ring.col", "--friendships", "ring.col"], "does not take --friendships"),
        (["step_pairs.json", "--order", "input"], "--order: auto has no such choice"),
        (
            ["step_pairs.json", "--algorithm", "grasp", "--local", "onward"],
            "only greedyl and graspl go entry by entry",
        ),
        (["step_pairs.json", "--algorithm", "greedyl", "--order", "best"], "--order"),
    ],
)
def test_wrong_words_are_two(capsys, words, told):
    """Unknown names, bad numbers, a solver for other problems."""
    status, _, err = run(capsys, SAMPLES / words[0], *words[1:])
    assert status == 2
    assert told in err


def test_the_order_and_the_local_form_are_chosen(capsys, tmp_path):
    """Entry 1 is in two sets, 0 and 2 in one; t = 1, two adversaries, lambda 1.

    As given, 0 takes adversary 0 (.4) and 1 is left with .1; by degree, and onward, 1
    comes first (.5), and 0 is left with .3. Entry 2 must not meet 1 either, and is worth
    nothing.
    """
    document = {
        "schema": "sparsi-instance/1",
        "n_entries": 3,
        "n_adversaries": 2,
        "t": 1,
        "weights": [[0.4, 0.3], [0.5, 0.1], [0, 0]],
        "utility_norm": 1.0,
        "properties": [{"entries": [0, 1]}, {"entries": [1, 2]}],
        "disclosure": {"kind": "step", "aggregation": "worst"},
        "problem": "tradeoff",
    }
    path = tmp_path / "three.json"
    path.write_text(json.dumps(document))
    found = {}
    for words in (
        ("--order", "input"),
        ("--order", "degree"),
        (),
        ("--order", "input", "--local", "onward"),
    ):
        status, out, _ = run(capsys, path, "--algorithm", "greedyl", *words)
        told = json.loads(out)
        assert status == 0
        assert ("onward" in told["tried"][0]) is ("onward" in words)
        found[words] = told["utility"]
    assert list(found.values()) == pytest.approx([0.5, 0.8, 0.8, 0.8])


def test_the_command_offers_the_choices_that_the_heuristics_have():
    """The words stand twice, so that --help loads no numpy."""
    assert tuple(solving.Order) == greedy.ORDERS
    assert tuple(solving.Local) == greedy.LOCALS


def test_graphs_need_a_number_of_adversaries(capsys, tmp_path):
    """A .col file does not say it; with it the triangle is coloured."""
    path = tmp_path / "three.col"
    path.write_text("p edge 3 3\ne 1 2\ne 2 3\ne 1 3\n")
    assert run(capsys, path)[0] == 2
    assert run(capsys, path, "--adversaries", 3)[0] == 0
    status, _, err = run(capsys, path, "--adversaries", 2)
    assert status == 7
    assert "one adversary may get 1; 2 adversaries are too few" in err


def hard(n=300, m=30, k=5):
    """A linear worst case that nobody proves in seconds."""
    sets = [[(7 * i + 3 * j * j + i * j) % n for j in range(60)] for i in range(m)]
    properties = [sorted(set(s)) for s in sets]
    return {
        "schema": "sparsi-instance/1",
        "n_entries": n,
        "n_adversaries": k,
        "t": 2,
        "weights": [[(1 + (d * a) % 7) / 7 for a in range(k)] for d in range(n)],
        "properties": [{"entries": s, "a": [1 / len(s)] * len(s)} for s in properties],
        "disclosure": {"kind": "linear", "aggregation": "worst"},
        "problem": "tradeoff",
    }


PAIRED = UserUtility("paired", lambda held: min(len(held), 2))
GROWING = UserUtility("growing", lambda held: len(held) ** 2)
DECLARED = UserUtility("declared", lambda held: len(held) ** 2, submodular=False)
FALLING = UserUtility("falling", lambda held: 4 - len(held))
NAN = UserUtility("nan", lambda held: float("nan") if len(held) > 1 else 1.0)
RAISING = UserUtility("raising", lambda held: {}[held])
LEAVING = UserUtility("leaving", lambda held: sys.exit(0))


@pytest.fixture
def installed(monkeypatch):
    """The utilities of this module are those of a package."""
    names = ("PAIRED", "GROWING", "DECLARED", "FALLING", "NAN", "RAISING", "LEAVING")
    points = EntryPoints(
        EntryPoint(name.lower(), f"{__name__}:{name}", strategies.UTILITIES)
        for name in names
    )
    monkeypatch.setattr(
        plugins, "entry_points", lambda *, group: points.select(group=group)
    )


def valued(tmp_path, name, **more):
    """Four entries, two adversaries, a utility of a package."""
    document = {
        "schema": "sparsi-instance/1",
        "n_entries": 4,
        "n_adversaries": 2,
        "t": 1,
        "weights": [[1.0, 1.0]] * 4,
        "utility": {"kind": "plugin", "name": name, **more},
        "utility_norm": 1.0,
        "properties": [{"entries": [0, 1]}, {"entries": [2, 3]}],
        "disclosure": {"kind": "step", "aggregation": "worst"},
        "problem": "zero_step",
    }
    path = tmp_path / "valued.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.usefixtures("installed")
def test_a_users_utility_is_sampled_planned_by_and_told(capsys, tmp_path):
    """min(entries, 2): two each are worth 4; what samples showed stands in the answer."""
    status, out, _ = run(capsys, valued(tmp_path, "paired", scale=[1, 0.5]))
    told = json.loads(out)
    assert (status, told["objective"], told["complete_sets"]) == (0, 3.0, 0)
    assert told["tried"][0].startswith("utility plugin:paired: never falls and its")
    assert "200 samples; that is no proof" in told["tried"][0]
    status, out, _ = run(capsys, valued(tmp_path, "declared"))
    assert (status, json.loads(out)["complete_sets"]) == (0, 0)
    assert "gains shrink" not in json.loads(out)["tried"][0]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("missing", "there is no utility 'missing'"),
        ("growing", "declare u as not submodular"),
        ("falling", "u falls from"),
        ("nan", "it gives nan for"),
        ("raising", "KeyError"),
        ("leaving", "SystemExit"),
        (7, "expected the name of a utility"),
    ],
)
def test_what_is_no_utility_is_five(capsys, tmp_path, name, told):
    """Missing, falling, growing, no number, an exception: said, and no traceback."""
    status, out, err = run(capsys, valued(tmp_path, name))
    assert (status, out) == (5, "")
    assert told in err
    assert "fix:" in err


def started(*words, place=None, program=("-m", "dispatcher")):
    """A process of its own: dispatcher solve."""
    return subprocess.Popen(
        [sys.executable, *program, "solve", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=place,
    )


SEARCHING = f"""
import pathlib, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from dispatcher import strategies
from dispatcher.__main__ import main

find = strategies.find_solver

def found(name):
    pathlib.Path("searching").touch()
    return find(name)

strategies.find_solver = found
sys.exit(main())
"""


def searching(place, *words):
    """The same, with all loaded and read: to load it may take longer than to search."""
    child = started(*words, place=place, program=("-c", SEARCHING))
    mark = place / "searching"
    until(lambda: mark.exists() or child.poll() is not None, "the search begins")
    return child


def busy(child):
    """Seconds of processor time that the process has used so far."""
    fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc")
def test_ctrl_c_ends_the_search_with_the_best_plan_so_far(tmp_path):
    """Interrupted after some seconds of work: a plan, exit 0, stopped: interrupt."""
    path = tmp_path / "hard.json"
    path.write_text(json.dumps(hard()))
    child = searching(tmp_path, path, "--time-limit", "600")
    enough = busy(child) + 4
    while child.poll() is None and busy(child) < enough:
        time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=600)
    assert child.returncode == 0, err
    told = json.loads(out)
    assert told["stopped"] == "interrupt"
    assert told["assignment"] is not None
    assert told["bound"] >= told["objective"]


def interrupted_while(monkeypatch, module, name):
    """Press Ctrl-C as soon as this function is called."""
    real = getattr(module, name)

    def pressed(*args, **kwargs):
        signal.raise_signal(signal.SIGINT)
        return real(*args, **kwargs)

    monkeypatch.setattr(module, name, pressed)


@pytest.mark.parametrize(
    ("module", "when"),
    [
        (instances, "read_document"),
        (strategies, "find_solver"),
        (instances, "report"),
    ],
)
def test_ctrl_c_at_any_time_of_reading_or_writing_still_shows_a_plan(
    capsys, monkeypatch, module, when
):
    """One Ctrl-C while the file is read, before the search, or while it is written."""
    before = signal.getsignal(signal.SIGINT)  # ignored, where a shell runs this aside
    interrupted_while(monkeypatch, module, when)
    status, out, _ = run(capsys, SAMPLES / "linear_average.json")
    told = json.loads(out)
    assert status == 0
    assert told["assignment"] is not None
    assert told["stopped"] in ("interrupt", "optimal")
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_ends_the_program(capsys, monkeypatch):
    """130, and no document."""
    interrupted_while(monkeypatch, instances, "read_document")
    interrupted_while(monkeypatch, strategies, "find_solver")
    status, out, err = run(capsys, SAMPLES / "linear_average.json")
    assert (status, out) == (130, "")
    assert "Traceback" not in err


def test_ctrl_c_while_the_program_is_loaded_is_130_without_a_traceback(
    capsys, monkeypatch
):
    """Whatever is imported when it comes."""

    class Loading:
        def __getattr__(self, name):
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "dispatcher.surfaces.cli.start", Loading())
    assert program() == 130
    assert capsys.readouterr() == ("", "")


def test_the_limit_counts_from_when_the_file_was_read(capsys, monkeypatch):
    """Reading took an hour: the search has its 600 s all the same, and both are told."""
    since = time.perf_counter()
    late = iter([since - 3600])
    seen = []
    real = instances._Task.within

    def noted(self, share=1.0):
        seen.append(real(self, share))
        return seen[-1]

    monkeypatch.setattr(instances._Task, "within", noted)
    monkeypatch.setattr(
        solving.time, "perf_counter", lambda now=time.perf_counter: next(late, now())
    )
    status, out, _ = run(capsys, SAMPLES / "step_pairs.json", "--time-limit", 600)
    assert 500 < seen[0].seconds <= 600
    assert status == 0
    assert json.loads(out)["seconds"] >= 3600


LEAKY = {
    "schema": "sparsi-instance/1",
    "n_entries": 5,
    "n_adversaries": 2,
    "t": 2,
    "weights": [[1, 1]] * 5,
    "utility_norm": 10,
    "properties": [
        {"entries": members, "a": [1 / len(members)] * len(members)}
        for members in ([0], [1, 2], [3, 4])
    ],
    "disclosure": {"kind": "step", "aggregation": "worst"},
    "problem": "tradeoff",
    "lambda": 1,
    "tau": 0,
}


def test_disclosure_is_told_as_the_file_aggregates_it(capsys, tmp_path):
    """Three sets for two adversaries; entry 0 is a set by itself, so one is always seen.

    Counted above 1/4, all three cost 3: u is 0.6 with one. As a limit, fewer than one
    cannot be; levels of a front are such counts too.
    """
    how = {"kind": "step", "aggregation": "count", "level": 0.25}
    path = tmp_path / "counted.json"
    path.write_text(json.dumps(LEAKY | {"disclosure": how}))
    status, out, err = run(capsys, path, "--time-limit", 600)
    told = json.loads(out)
    assert (status, told["disclosure"], told["complete_sets"]) == (0, 1, 1)
    assert (told["objective"], told["stopped"]) == (pytest.approx(-0.4), "optimal")
    assert "disclosure 1 " in err
    status, out, _ = run(capsys, path, "--pareto", 4, "--time-limit", 600)
    told = json.loads(out)
    levels = [(one["level"], one["disclosure"]) for one in told["front"]]
    assert (status, levels) == (0, [(None, 3), (2, 2), (1, 1), (0, None)])
    asked = {"disclosure": how, "problem": "discbudget", "tau": 1}
    path.write_text(json.dumps(LEAKY | asked))
    assert run(capsys, path, "--time-limit", 600)[0] == 7
    path.write_text(json.dumps(LEAKY | {"disclosure": how | {"level": -1}}))
    status, _, err = run(capsys, path)
    assert status == 5
    assert "disclosure.level" in err


def test_the_safe_objective_counts_complete_sets_first(capsys, tmp_path):
    """Entry 0 leaks whoever gets it; by the paper's objective all others then do too."""
    path = tmp_path / "leaky.json"
    path.write_text(json.dumps(LEAKY))
    told = {}
    for aim in ("paper", "safe"):
        status, out, err = run(capsys, path, "--objective", aim, "--work", 5)
        assert status == 0
        told[aim] = json.loads(out)
    assert told["paper"]["complete_sets"] == 3
    assert "complete_sets_bound" not in told["paper"]
    safe = told["safe"]
    assert (safe["complete_sets"], safe["complete_sets_bound"]) == (1, 1)
    assert (safe["utility"], safe["disclosure"], safe["stopped"]) == (0.6, 1, "optimal")
    assert "complete sets 1 (at least 1)" in err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--objective", "safe", "--algorithm", "greedy"], "heuristics count"),
        (["--objective", "safe", "--pareto", 3], "utility alone"),
        (["--pareto", 1], "greater than or equal to 2"),
        (["--trace", "--algorithm", "greedy"], "the rows of auto's table"),
    ],
)
def test_aims_that_do_not_go_together_are_refused(capsys, words, why):
    status, out, err = run(capsys, SAMPLES / "step_pairs.json", *words)
    assert (status, out) == (2, "")
    assert why in " ".join(err.split())


@pytest.mark.parametrize("words", [["--objective", "safe"], ["--pareto", 3]])
def test_relations_are_not_counted_and_have_no_front(capsys, words):
    status, out, err = run(capsys, SAMPLES / "cosine_tradeoff.json", *words)
    assert (status, out) == (2, "")
    assert "relations" in err


def test_a_front_is_asked_of_solvers_that_take_its_levels(capsys):
    """exchange maximises the tradeoff whatever is asked: its bound is none of u."""
    words = [SAMPLES / "linear_average.json", "--algorithm", "exchange", "--pareto", 3]
    status, out, err = run(capsys, *words)
    assert (status, out) == (2, "")
    assert "held at a level" in " ".join(err.split())


@pytest.mark.parametrize(
    ("value", "told"), [(Fraction(1), "optimal"), (Fraction(1, 2), "gap")]
)
def test_only_what_is_proven_is_told_as_optimal(value, told):
    """Of a solver that does not say why it stopped."""
    found = read_instance(json.loads((SAMPLES / "step_pairs.json").read_text()))
    plan = judge(found.problem, Plan())
    bare = Solution(Verdict.SOLVED, value=value, bound=Fraction(1), judged=plan)
    assert report(found, bare, "theirs")["stopped"] == told


def test_a_front_tells_utility_at_levels_of_disclosure(capsys, tmp_path):
    path = tmp_path / "half.json"
    half = LEAKY | {"disclosure": {"kind": "linear", "aggregation": "worst"}}
    half |= {"properties": LEAKY["properties"][1:]}
    path.write_text(json.dumps(half))
    status, out, err = run(capsys, path, "--pareto", 3, "--time-limit", 600)
    told = json.loads(out)
    assert status == 0
    front = [(p["level"], p["utility"], p["disclosure"]) for p in told["front"]]
    assert front == [(None, 1.0, 1.0), (0.5, 0.6, 0.5), (0.0, None, None)]
    assert told["front"][2]["verdict"] == "INFEASIBLE"
    assert told["assignment"] == told["front"][0]["assignment"]
    assert "disclosure 0.5 (at most 0.5): utility 0.6" in err
    page = (SAMPLES.parents[2] / "docs/reference/instances.md").read_text()
    keys = {*told, *told["front"][0]} - {"schema"}
    assert [key for key in keys if f"`{key}`" not in page] == []


TRIANGLE = "p edge 3 3\ne 1 2\ne 2 3\ne 1 3\n"
CROWDED = {
    "schema": "sparsi-instance/1",
    "n_entries": 3,
    "n_adversaries": 2,
    "t": 1,
    "weights": [[1, 1]] * 3,
    "properties": [{"entries": [0, 1, 2], "a": [0.2, 0.2, 0.2]}],
    "disclosure": {"kind": "step", "aggregation": "average"},
    "problem": "tradeoff",
    "tau": 0,
    "capacities": [1, 1],
}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("triangle.col", TRIANGLE, ["--adversaries", 2]),
        ("crowded.json", json.dumps(CROWDED), []),
    ],
)
def test_a_front_without_any_plan_is_infeasible_and_says_why(
    capsys, tmp_path, name, text, words
):
    path = tmp_path / name
    path.write_text(text)
    status, out, err = run(capsys, path, *words, "--pareto", 4, "--time-limit", 600)
    told = json.loads(out)
    assert (status, told["verdict"], told["core"]["needed"]) == (7, "INFEASIBLE", 3)
    assert [point["verdict"] for point in told["front"]] == ["INFEASIBLE"]
    assert "INFEASIBLE" in err
    assert told["core"]["why"][0] in err


def test_exit_statuses_and_streams_of_a_process(tmp_path):
    """0, 7 and 5 at once: stdout is one document or empty, people read stderr."""
    target = tmp_path / "plan.json"
    (tmp_path / "bad.json").write_text("[1]")
    words = {
        0: [SAMPLES / "step_pairs.json", "-o", target, "--json"],
        7: [SAMPLES / "odd_ring.json", "--threads", 1],
        5: [tmp_path / "bad.json"],
    }
    children = {status: started(*each) for status, each in words.items()}
    told = {status: child.communicate() for status, child in children.items()}
    assert {s: c.returncode for s, c in children.items()} == {0: 0, 7: 7, 5: 5}
    assert told[0] == ("", "")
    assert set(json.loads(target.read_text())) >= KEYS
    assert json.loads(told[7][0])["core"]["needed"] == 3
    assert told[5][0] == ""
    assert "the document" in told[5][1]


def test_what_stays_open_is_eight_with_what_was_tried(capsys, tmp_path):
    """myciel6 in 6 colours, too little work or time: no plan, no proof, and no leak."""
    path = tmp_path / "myciel6.col"
    path.write_text(mycielski(6))
    for words, ended in (
        (["--algorithm", "cp-sat", "--work", 0.01, "--threads", 1], "work"),
        (["--time-limit", 0.4], "time"),
    ):
        status, out, err = run(capsys, path, "--adversaries", 6, *words)
        told = json.loads(out)
        assert (status, told["verdict"]) == (8, "UNKNOWN")
        assert (told["assignment"], told["core"]) == (None, None)
        assert told["stopped"] == ended
        assert told["tried"]
        assert "tried:" in err


def test_graphs_hypergraphs_and_check_ins_are_read_by_their_names(capsys, tmp_path):
    """.hgr and .csv beside .col: a plan, or why none."""
    triples, visits = tmp_path / "a.hgr", tmp_path / "visits.csv"
    triples.write_text("2 4\n1 2 3\n2 3 4\n")
    visits.write_text("user,location,count\nann,home,2\nbob,home,1\n")
    friends = tmp_path / "friends.csv"
    friends.write_text("a,b\nann,bob\n")
    assert run(capsys, triples, "--adversaries", 2)[0] == 0
    assert run(capsys, triples, "--adversaries", 1)[0] == 7
    words = [visits, "--friendships", friends]
    status, out, _ = run(capsys, *words, "--adversaries", 2)
    assert status == 0
    assert json.loads(out)["assignment"][0] != json.loads(out)["assignment"][1]
    assert run(capsys, *words, "--adversaries", 1)[0] == 7
    status, _, err = run(capsys, visits, "--adversaries", 2)
    assert status == 2
    assert "--friendships" in err


@pytest.mark.parametrize("name", ["greedy", "grasp", "rand-plus", "lp-rounding"])
def test_paper_mode_is_seeded_and_judged(capsys, name):
    """The same seed, the same plan; safe or paper, what is told is what a judge says."""
    path, told = SAMPLES / "linear_average.json", []
    words = ["--algorithm", name, "--mode", "paper", "--seed", 3, "--work", 5]
    for _ in range(2):
        status, out, _ = run(capsys, path, *words)
        assert status == 0
        told.append(json.loads(out) | {"seconds": 0})
    assert told[0] == told[1]
    found = read_instance(json.loads(path.read_text())).problem
    rows = enumerate(told[0]["assignment"])
    seen = judge(found, Plan.of([(d, a) for d, row in rows for a in row]))
    assert told[0]["objective"] == float(seen.objective)


@pytest.mark.parametrize(
    ("name", "paper"), [("auto", False), ("annealing", False), ("greedy", True)]
)
def test_the_papers_mistakes_are_those_of_its_own_algorithms(
    capsys, monkeypatch, name, paper
):
    seen = []

    class Spy:
        supports = strategies.BUILT_IN[name].supports

        def __call__(self, problem, rng, limits):
            seen.append(limits.paper)
            return Solution(Verdict.UNKNOWN)

    monkeypatch.setitem(strategies.BUILT_IN, name, Spy())
    path = SAMPLES / "linear_average.json"
    status, out, err = run(capsys, path, "--mode", "paper", "--algorithm", name)
    assert status == 8
    assert seen == [paper]
    assert json.loads(out)["mode"] == ("paper" if paper else "safe")
    assert (f"mode safe: {name} has no other" in err) is not paper


def test_where_there_is_no_plan_the_cheapest_entries_to_withhold_are_told(
    capsys, tmp_path
):
    """One entry of the odd ring is enough; the dearest is not taken."""
    document = json.loads((SAMPLES / "odd_ring.json").read_text())
    n = document["n_entries"]
    document["withhold"] = [9, 2, *[9] * (n - 2)]
    path = tmp_path / "ring.json"
    path.write_text(json.dumps(document))
    status, out, err = run(capsys, path)
    told = json.loads(out)
    assert status == 7
    withheld = told["withheld"]
    assert (withheld["entries"], withheld["price"], withheld["bound"]) == ([1], 2, 2)
    assert withheld["assignment"][1] == []
    assert all(withheld["assignment"][d] for d in range(n) if d != 1)
    assert "withhold 1 entry (1) at a price of 2; no choice" in err
    document["withhold"] = [0] * n
    path.write_text(json.dumps(document))
    status, _, err = run(capsys, path)
    assert status == 5
    assert "withhold[0]" in err
