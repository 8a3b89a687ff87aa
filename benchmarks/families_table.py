"""The medians of ``benchmarks.families`` as the tables of ``docs/targets.md``."""

from __future__ import annotations

from collections import defaultdict
from math import isfinite
from pathlib import Path
from statistics import median

from benchmarks.cells import Row

PATH = Path(__file__).parents[1] / "docs" / "targets.md"

HEAD = """# What the solvers reach

Written by `python -m benchmarks.families` from `benchmarks/results/families.csv`; each
row is a median over the seeds named. `ours` is `auto` on two threads under the time limit
of its family; `highs` (one thread) and `cp-sat` (two) solve the plain formulation within
60 s. Gap: (bound - value) / bound, the bound being proven; *proven*: none. *Asked* is the
aim that was set before anything was measured. Times are of two cores, with the machine's
load beside them (1 a busy core): above 2 other work was using them too. Where the load is
*CPU*, `ours` had one thread, and its limits and times are CPU seconds (`--cpu`): half of
what the aim allows, whatever else the machine did. Cells that are in the file are not run
again, and name the commit that solved them; a family of your own, in a minute:

    python -m benchmarks.families step --only ours --path build/families.csv

Instance files: `python -m benchmarks.instances DIR`; GREEDY beside a naive one, and bytes a
pair: `python -m benchmarks.greedy`; what the kernels cost to compile: `python -m
benchmarks.kernels` (both with their limits; `make bench` runs them and others).
"""

NOTES = {
    "step": "No property wholly held, 500 entries: proven in 3 s.",
    "linear-average": "Asked: gap .01 % for k <= 5, .06 % for k = 10, in 3 s. *reach*: "
    "the time after which ours has the better peer's final gap, and how many times sooner "
    "than the peer that is (asked: 3 for k <= 3, 20 above); *never*: not in 20 s.",
    "linear-worst": "Asked: gap 1.5 % in 10 s for k <= 5, 2.5 % in 30 s for k = 10.",
    "quadratic-average": "Asked: gap .1 % in 30 s, 60 s for k = 10.",
    "quadratic-worst": "Asked: gap 1.5 % in 30 s, 60 s for k = 10.",
    "sparse": "Sets of 2 to 4 entries, drawn at random, near the edge of what has a plan. "
    "Asked: no complete set within 10 s, or UNKNOWN.",
    "cosine": "Check-ins of the paper's size, drawn; nothing disclosed. Asked: proven "
    "within 30 s, global GREEDY (on the average tradeoff) in 5 s.",
}
TAIL = """
## Where `auto` does not reach

Found on single instances outside of these families:

- A Schur colouring (44 numbers in 4 classes, no a + b = c in one of them, as a problem of step
  sets): with equal weights optimal in 5 s; with random weights plans of .793, .741 and .808
  in 10 s (three seeds), where the best of all 273 colourings are .798, .788 and .808, and the
  bound stays at .94. Such plans lie far apart: from one no search of its neighbourhood leads
  to the next.
- A tight budget on the average of a quadratic function (42 entries, 12 properties, k = 3): of
  eleven drawn ones CP-SAT proves the best plan of ten in 10 s of CPU; of the eleventh, for
  which no greedy plan is within the limit, the plan is .5969 and the bound .6189. Above 150
  pairs of entry and adversary HiGHS searches first: at 60 entries it left gaps of up to 2.3 % in 4 s.
"""
SIZES = ("n", "m", "k", "t")
PEERS = ("highs", "cp-sat")
SHORT = {"SOLVED": "", "INFEASIBLE": "no plan exists", "UNKNOWN": "UNKNOWN"}


def write(rows: list[Row], path: Path = PATH) -> None:
    """Write the page and print it."""
    text = HEAD
    for family, note in NOTES.items():
        mine = [r for r in rows if r["family"] == family]
        if mine:
            text += f"\n## {family.replace('-', ', ')}\n\n{note}\n\n{table(mine)}"
    text += TAIL
    path.write_text(text, encoding="utf-8")
    print(text)


def table(rows: list[Row]) -> str:
    """One line for the sizes of a family."""
    solvers = list(dict.fromkeys(r["solver"] for r in rows))
    groups: dict[tuple[int, ...], list[Row]] = defaultdict(list)
    for r in rows:
        groups[tuple(int(r[field]) for field in SIZES)].append(r)
    lines = ["| entries | sets | k | t | " + " | ".join(solvers) + " | load |"]
    lines.append("| --- " * (len(SIZES) + len(solvers) + 1) + "|")
    for sizes, group in groups.items():
        told = [cell([r for r in group if r["solver"] == s]) for s in solvers]
        told = [
            w + sooner(group) * (s == "reach")
            for w, s in zip(told, solvers, strict=True)
        ]
        cpu = any(r["solver"] == "ours" and r.get("clock") == "cpu" for r in group)
        load = "CPU" if cpu else f"{median(float(r['load']) for r in group):.0f}"
        words = [*map(str, sizes), *told, load]
        lines.append("| " + " | ".join(words) + " |")
    return "\n".join(lines) + "\n"


def sooner(rows: list[Row]) -> str:
    """Median over seeds of the better peer's seconds as times of ours."""
    times = []
    for ours in (r for r in rows if r["solver"] == "reach"):
        peers = [
            (float(r["gap"]), float(r["seconds"]))
            for r in rows
            if r["seed"] == ours["seed"] and r["solver"] in PEERS and r["gap"]
        ]
        if peers:
            times.append(min(peers)[1] / float(ours["seconds"]))
    return f"; {median(times):.0f} x" if times else ""


def cell(rows: list[Row]) -> str:
    """Median gap and seconds of one solver, verdicts that are no plans, leaks."""
    if not rows:
        return "-"
    seconds = median(float(r["seconds"]) for r in rows)
    seeds = f"{len(rows)} seed{'s' * (len(rows) > 1)}"
    if rows[0]["solver"] == "reach":
        when = f"{seconds:.2g} s" if isfinite(seconds) else "not reached"
        never = sum(not isfinite(float(r["seconds"])) for r in rows)
        rest = f", {never} of them never" if 0 < never < len(rows) else ""
        return f"{when} ({seeds}{rest})"
    gaps = [float(r["gap"]) for r in rows if r["gap"]]
    parts = []
    if gaps:
        gap = median(gaps)
        parts.append("proven" if gap < 2e-6 else f"{gap:.2g} %")
    for verdict, word in SHORT.items():
        many = sum(r["verdict"] == verdict for r in rows)
        if many and word:
            parts.append(f"{many} x {word}")
    leaks = sum(float(r["complete"]) > 0 for r in rows)
    if leaks and rows[0]["family"] in ("step", "sparse"):
        parts.append(f"{leaks} x LEAK")
    return f"{', '.join(parts)}; {seconds:.2g} s ({seeds})"
