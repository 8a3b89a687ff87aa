"""``auto`` beside plain HiGHS and plain CP-SAT, and beside greedy, at the same limits.

    python -m benchmarks.peers DIR [--seconds 1 2 3 10] [--only PART ...]
        [--solvers NAME ...] [--wall] [--busy 0] [--path CSV]

For every instance file of a directory, each limit and each solver, a process of its own
on one thread reads the instance, and then has the limit. The limit is counted in CPU
seconds, whatever else the machine does; with ``--wall`` by the clock, and with ``--busy
4`` beside four other processes that compute all the time. All plans are judged here.
Cells that are in the file are not run again. Printed at the end: at each limit, how often
``auto`` is better, even and worse than a peer, and by how much at most; then the cells
where it is worse.

The peers solve the plain formulation (paper, section 4): a 0-1 column a pair, one a
coalition and entry that is above its members', one row a set and observer, and a column
above all f, or above their mean. Powers are secants between whole loads.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from ortools.sat.python import cp_model
from scipy.sparse import csr_matrix

from benchmarks.baseline import of_file
from benchmarks.cells import (
    Row,
    arguments,
    by_cpu,
    by_wall,
    fill,
    forked,
    is_wanted,
    rows_of,
)
from policies.judging.judge import judge
from policies.model.measures import Measure
from policies.model.objective import Objective
from policies.model.problem import Plan, Problem
from policies.model.sets import NO_CAP
from policies.solvers import SOLVERS, Limits, Verdict
from policies.solvers.exact.highs import EMPTY, Model
from policies.solvers.exact.highs import run as run_highs

PATH = Path(__file__).parent / "results" / "peers.csv"
KEY = ("instance", "seconds", "solver")
FIELDS = (*KEY, "verdict", "value", "bound", "took")
OURS, PEERS, SIMPLE = "auto", ("highs", "cp-sat"), ("greedy", "greedyl")
SECANTS = 60  # of a power, at most
SCALE = 10**6  # of what is no whole number, for CP-SAT
NEAR = 1e-7  # values that differ by so little, relative to 1, are even
FAR = 1e-7  # what a strict limit is kept away from


@dataclass
class Formulation:
    """Columns, rows and cost: maximise ``gain``; every column from 0 to 1."""

    gain: list[float] = field(default_factory=list)
    whole: list[bool] = field(default_factory=list)
    rows: list[tuple[dict[int, float], float]] = field(default_factory=list)  # <=
    pairs: dict[tuple[int, int], int] = field(default_factory=dict)

    def column(self, gain: float = 0.0, *, whole: bool = True) -> int:
        self.gain.append(gain)
        self.whole.append(whole)
        return len(self.gain) - 1

    def row(self, terms: dict[int, float], most: float) -> None:
        self.rows.append((terms, most))


def formulated(problem: Problem) -> Formulation:
    """The plain formulation."""
    out, k = Formulation(), problem.n_adversaries
    closed = set(zip(*_lists(problem.forbidden), strict=True))
    for d in range(problem.n_entries):
        worth = problem.weights.row(d) * float(problem.weights.unit)
        if problem.hi[d]:
            for a in range(k):
                if (d, a) not in closed:
                    out.pairs[d, a] = out.column(float(worth[a]))
    for d in range(problem.n_entries):
        mine = [c for a in range(k) if (c := out.pairs.get((d, a))) is not None]
        out.row(dict.fromkeys(mine, 1.0), float(problem.hi[d]))
        out.row(dict.fromkeys(mine, -1.0), -float(problem.lo[d]))
    if problem.capacity is not None:
        for a, room in enumerate(problem.room().tolist()):
            mine = [c for (_, b), c in out.pairs.items() if a == b]
            out.row(dict.fromkeys(mine, 1.0), float(min(room, len(mine))))
    _disclosed(problem, out)
    return out


def _lists(pairs: object) -> tuple[list[int], list[int]]:
    return pairs.entry.tolist(), pairs.adversary.tolist()  # type: ignore[attr-defined]


def _disclosed(problem: Problem, out: Formulation) -> None:
    """Limits on sets, and f where it counts."""
    sets, goal = problem.sets, problem.goal
    before = set(zip(*_lists(problem.history), strict=True))
    who = [(a,) for a in range(problem.n_adversaries)] + list(problem.groups)
    priced = goal.objective is Objective.TRADEOFF
    counts = priced or bool(problem.averages)
    top = out.column(-float(goal.lambda_) if priced else 0.0, whole=False)
    if problem.averages:  # the mean of all stays below its limit
        cap = problem.averages[0]
        out.row({top: 1.0}, float(cap.limit) * (1 - FAR if cap.strict else 1))
    mean = goal.average if priced else bool(problem.averages)
    over = (problem.averages[0].over if problem.averages else goal.over) or sets.n_sets
    seen: dict[tuple[int, tuple[int, ...]], int | None] = {}

    def held(d: int, hand: tuple[int, ...]) -> int | None:
        """The column that says whether somebody of the hand is given the entry."""
        columns = [c for a in hand if (c := out.pairs.get((d, a))) is not None]
        if (d, hand) not in seen:
            one = columns[0] if columns else None
            if len(columns) > 1:
                one = out.column()
                for c in columns:
                    out.row({c: 1.0, one: -1.0}, 0.0)
            seen[d, hand] = one
        return seen[d, hand]

    for hand in who:
        mine = []
        for one in range(sets.n_sets):
            rows = slice(int(sets.start[one]), int(sets.start[one + 1]))
            members = zip(
                sets.entry[rows].tolist(), sets.amount[rows].tolist(), strict=True
            )
            terms, base = _load(out, members, hand, before, held, sets.classes[one])
            if sets.cap[one] < NO_CAP:
                out.row(terms, float(int(sets.cap[one]) - base))
            if counts and (terms or base):
                size, measure = int(sets.full[one]), sets.measures[sets.owner[one]]
                mine.append(_f(out, terms, base, size, measure))
        if counts and mean:
            out.row(dict.fromkeys(mine, 1.0) | {top: -float(over)}, 0.0)
        elif counts:
            for f in mine:
                out.row({f: 1.0, top: -1.0}, 0.0)


def _load(
    out: Formulation,
    members: object,
    hand: tuple[int, ...],
    before: set[tuple[int, int]],
    held: Callable[[int, tuple[int, ...]], int | None],
    classed: object,
) -> tuple[dict[int, float], int]:
    """Columns of a set's load, and what it is already."""
    terms: dict[int, float] = {}
    base, classes, known = 0, defaultdict(list), set()
    for d, w in members:  # type: ignore[attr-defined]
        had = any((d, a) in before for a in hand)
        column = held(d, hand)
        if classed:
            known |= {w} if had else set()
            if column is not None:
                classes[w].append(column)
        elif had:
            base += w
        elif column is not None:
            terms[column] = terms.get(column, 0.0) + w
    for w, columns in classes.items():
        if w not in known:
            mark = columns[0] if len(columns) == 1 else out.column()
            for c in columns if len(columns) > 1 else ():
                out.row({c: 1.0, mark: -1.0}, 0.0)
            terms[mark] = 1.0
    return terms, base + len(known)


def _f(
    out: Formulation, terms: dict[int, float], base: int, size: int, measure: Measure
) -> int:
    """A column above f of one set and observer."""
    f, power = out.column(whole=False), measure.power
    if measure.is_step:
        out.row(terms | {f: -1.0}, float(size - 1 - base))
    elif power == 1:
        out.row(terms | {f: -float(size)}, -float(base))
    else:
        points = np.unique(np.linspace(0, size, min(size, SECANTS) + 1).astype(int))
        for p, q in zip(points[:-1].tolist(), points[1:].tolist(), strict=True):
            slope = (q**power - p**power) // (q - p)  # of a chord: a whole number
            part = {c: w * slope / size**power for c, w in terms.items()}
            most = slope * (p - base) - p**power
            out.row(part | {f: -1.0}, most / size**power)
    return f


Found = tuple[str, Plan | None, float]


def highs(problem: Problem, limits: Limits) -> Found:
    """Plain HiGHS."""
    it = formulated(problem)
    columns = [list(terms) for terms, _ in it.rows]
    start = np.cumsum([0, *map(len, columns)])
    factors = [w for terms, _ in it.rows for w in terms.values()]
    index = [c for row in columns for c in row]
    shape = (len(it.rows), len(it.gain))
    pairs = np.array(list(it.pairs), np.int64).reshape(-1, 2)
    model = Model(
        entry=pairs[:, 0],
        adversary=pairs[:, 1],
        cost=-SCALE * np.array(it.gain),
        whole=np.array(it.whole),
        lower=np.zeros(len(it.gain)),
        upper=np.ones(len(it.gain)),
        matrix=csr_matrix((factors, index, start), shape=shape),
        low=np.full(len(it.rows), -np.inf),
        high=np.array([most for _, most in it.rows]),
        scale=float(SCALE),
        shift=0.0,
        impossible=False,
    )
    found = run_highs(model, limits)
    if found.status == EMPTY:
        return "INFEASIBLE", None, 0.0
    if found.values is None:
        return "UNKNOWN", None, float("inf")
    values = found.values
    return "SOLVED", _plan(it, lambda c: values[c]), -found.bound / SCALE


def cpsat(problem: Problem, limits: Limits) -> Found:
    """Plain CP-SAT: whole numbers, what is none times 10^6."""
    over = limits.deadline()
    it, model = formulated(problem), cp_model.CpModel()
    columns = [
        model.new_bool_var("") if w else model.new_int_var(0, SCALE, "")
        for w in it.whole
    ]
    for terms, most in it.rows:
        exact = all(float(w).is_integer() for w in terms.values())
        up = 1 if exact else SCALE
        mixed = any(not it.whole[c] for c in terms)
        each = SCALE * up if mixed else up
        sum_ = sum(
            round(w * (each if it.whole[c] else up)) * columns[c]
            for c, w in terms.items()
        )
        model.add(sum_ <= int(np.floor(most * each + 1e-9)))
    model.maximize(
        sum(
            round(g * (SCALE * SCALE if w else SCALE)) * column
            for g, w, column in zip(it.gain, it.whole, columns, strict=True)
            if g
        )
    )
    engine = cp_model.CpSolver()
    engine.parameters.num_workers = 1
    engine.parameters.catch_sigint_signal = False
    ended: list[int] = []
    thread = threading.Thread(target=lambda: ended.append(engine.solve(model)))
    thread.start()
    while thread.is_alive():
        thread.join(0.02)
        if over():
            engine.stop_search()
    if ended[0] == cp_model.INFEASIBLE:
        return "INFEASIBLE", None, 0.0
    if ended[0] not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return "UNKNOWN", None, float("inf")
    bound = engine.best_objective_bound / SCALE**2
    return "SOLVED", _plan(it, lambda c: engine.value(columns[c])), bound


def _plan(it: Formulation, value: Callable[[int], float]) -> Plan:
    return Plan.of(pair for pair, c in it.pairs.items() if value(c) > 0.5)


@dataclass(frozen=True)
class Cell:
    path: Path
    seconds: float
    solver: str
    wall: bool

    @property
    def name(self) -> tuple[str, ...]:
        return self.path.stem, f"{self.seconds:g}", self.solver


def told(cell: Cell) -> dict[str, object]:
    """Solve one cell in this process."""
    problem = of_file(cell.path)
    limits = (by_wall if cell.wall else by_cpu)(cell.seconds)
    began = limits.clock()
    if cell.solver in PEERS:
        peer = highs if cell.solver == "highs" else cpsat
        verdict, plan, bound = peer(problem, limits)
        goal = problem.goal
        shift = goal.lambda_ * goal.tau if goal.objective is Objective.TRADEOFF else 0
        bound += float(shift)
    else:
        found = SOLVERS[cell.solver](problem, np.random.default_rng(0), limits)
        plan = found.plan if found.verdict is Verdict.SOLVED else None
        verdict, bound = str(found.verdict), float(found.bound)
    took, value = limits.clock() - began, ""
    if plan is not None:
        judged = judge(problem, plan)
        value = f"{float(judged.objective):.10f}" if judged.feasible else ""
        verdict = verdict if judged.feasible else "UNKNOWN"
    return {"verdict": verdict, "value": value, "bound": bound, "took": took}


def run(cell: Cell) -> dict[str, object]:
    """Solve one cell in a process of its own: nothing is loaded yet."""
    return forked(lambda: told(cell)) or {"verdict": "CRASHED"}


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep the machine busy with so many processes."""
    spin = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(spin) for _ in range(count)]
    try:
        yield
    finally:
        for one in others:
            one.kill()
            one.wait()


def summary(rows: Sequence[Row]) -> str:
    """At each limit, against each other solver: better, even, worse, how much; where."""
    below: list[str] = []
    cells = {tuple(r[f] for f in KEY): r for r in rows}
    lines = ["| seconds | beside | better | even | worse | most | UNKNOWN |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- |")
    for seconds in dict.fromkeys(r["seconds"] for r in rows):
        for peer in (*PEERS, *SIMPLE):
            counts, most, unknown = [0, 0, 0], 0.0, 0
            for (name, at, solver), ours in cells.items():
                theirs = cells.get((name, at, peer))
                if at != seconds or solver != OURS or theirs is None:
                    continue
                if not theirs["value"]:
                    counts[0 if ours["value"] else 1] += 1
                elif not ours["value"]:
                    unknown += 1
                    counts[2] += 1
                else:
                    one, two = float(ours["value"]), float(theirs["value"])
                    less = (two - one) / max(abs(two), 1e-9)
                    most = max(most, less)
                    even = abs(two - one) <= NEAR * max(1.0, abs(two))
                    counts[1 if even else 0 if less < 0 else 2] += 1
                    if even or less < 0:
                        continue
                if theirs["value"]:
                    told = ours["value"] or ours["verdict"]
                    below.append(f"{name}, {at} s: {told}, {peer} {theirs['value']}")
            numbers = " | ".join(map(str, counts))
            lines.append(f"| {seconds} | {peer} | {numbers} | {most:.3%} | {unknown} |")
    return "\n".join((*lines, *below))


def main() -> int:
    parser = arguments(__doc__, PATH)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seconds", type=float, nargs="*", default=[1, 2, 3, 10])
    parser.add_argument("--solvers", nargs="*", default=[OURS, *PEERS, *SIMPLE])
    parser.add_argument("--wall", action="store_true")
    parser.add_argument("--busy", type=int, default=0, help="processes beside it")
    words = parser.parse_args()
    # once per installation, which no limit counts; not here, where cells inherit it
    subprocess.run([sys.executable, "-m", "policies.solvers.kernels"], check=True)
    cells = (
        Cell(path, seconds, solver, words.wall)
        for seconds in words.seconds
        for path in sorted(words.directory.glob("*.json"))
        if is_wanted(words, path.stem)
        for solver in words.solvers
    )
    shown = ("verdict", "value", "bound", "took")
    with busy(words.busy):
        fill(words.path, FIELDS, cells, lambda cell, _: run(cell), shown)
    print(summary(rows_of(words.path)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
