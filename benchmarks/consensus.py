"""Consensus next to plain majority, on answers of real workers with known truth.

    python -m benchmarks.consensus DATA

DATA holds ``crowd_zheng2017`` and ``crowd_text_crowdwsa``. Closed sets: share of tasks
with the true label, ties of the majority counted by their chance; "thinned" keeps at
most 3 answers a task, and is the mean of ten draws with fixed seeds, "worst" the worst
difference of one draw. Then how often an answer of some confidence is right, and how
many answers a task are saved where more are asked for only below a confidence. Text
sets: mean similarity (1 - edit distance / length) of the chosen answer to the true one,
after folding. Numbers: mean absolute error (less is better) of the same medoid.
"""

from __future__ import annotations

import csv
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean

import numpy as np
from numpy.typing import NDArray

from policies.answers.consensus import estimate
from policies.answers.distance import medoid, similarity
from policies.answers.notation import fold

CLOSED = ("bluebirds_duck", "dog", "face", "product")
NUMERIC = "emotion_numeric"
SEED = 20170101
DRAWS = 10
FIRST, MOST = 2, 9  # answers a task that an adaptive draw begins and ends with
BINS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
Answers = dict[str, list[tuple[str, str]]]  # task -> (worker, answer)


def read_closed(place: Path) -> tuple[Answers, dict[str, str]]:
    answers: Answers = defaultdict(list)
    with (place / "answer.csv").open(newline="", encoding="utf-8-sig") as file:
        for row in csv.DictReader(file):
            answers[row["question"]].append((row["worker"], row["answer"]))
    with (place / "truth.csv").open(newline="", encoding="utf-8-sig") as file:
        truth = {row["question"]: row["truth"] for row in csv.DictReader(file)}
    return answers, truth


def read_text(place: Path, name: str) -> tuple[Answers, dict[str, str]]:
    answers: Answers = defaultdict(list)
    labels = place / f"CrowdWSA2019_{name}_label_anonymous.tsv"
    for line in labels.read_text(encoding="utf-8-sig").splitlines()[1:]:
        worker, task, answer = line.split("\t")
        answers[task].append((worker, answer))
    lines = (place / f"CrowdWSA2019_{name}_gt.tsv").read_text(encoding="utf-8-sig")
    truth = dict(line.split("\t") for line in lines.splitlines()[1:])
    return answers, truth


def thinned(answers: Answers, most: int, seed: int = SEED) -> Answers:
    rng = np.random.default_rng(seed)
    kept = {}
    for task in sorted(answers):
        given = sorted(answers[task])
        order = rng.permutation(len(given))[:most]
        kept[task] = [given[int(i)] for i in order]
    return kept


def by_majority(answers: Answers) -> dict[str, str]:
    """The most frequent answer; ties are drawn with the seed."""
    rng = np.random.default_rng(SEED)
    chosen = {}
    for task, given in answers.items():
        counts = Counter(answer for _, answer in given)
        top = sorted(a for a, n in counts.items() if n == max(counts.values()))
        chosen[task] = top[int(rng.integers(len(top)))]
    return chosen


@dataclass(frozen=True)
class Table:
    """The answers to a closed set; rows are in the order of a draw within each task."""

    tasks: NDArray[np.int64]
    workers: NDArray[np.int64]
    labels: NDArray[np.int64]
    truth: NDArray[np.int64]  # by task; -1 where it is not known or nobody gave it
    known: NDArray[np.bool_]  # by task: counts in the accuracy
    values: int

    @classmethod
    def of(cls, answers: Answers, truth: dict[str, str]) -> Table:
        tasks = {task: n for n, task in enumerate(answers)}
        spelt = [(task, *one) for task, given in answers.items() for one in given]
        workers = {w: n for n, w in enumerate(sorted({w for _, w, _ in spelt}))}
        labels = {a: n for n, a in enumerate(sorted({a for _, _, a in spelt}))}
        rows = [(tasks[task], workers[w], labels[a]) for task, w, a in spelt]
        right = [labels.get(truth.get(task, ""), -1) for task in tasks]
        known = np.array([task in truth for task in tasks])
        table = np.array(rows, dtype=np.int64).T
        return cls(*table, np.array(right), known, max(2, len(labels)))

    def drawn(self, seed: int) -> Table:
        """The same answers, in random order within each task."""
        order = np.random.default_rng(seed).permutation(self.tasks.size)
        return self.where(order[np.argsort(self.tasks[order], kind="stable")])

    def where(self, rows: NDArray[np.int64]) -> Table:
        own = (self.tasks[rows], self.workers[rows], self.labels[rows])
        return Table(*own, self.truth, self.known, self.values)

    def place(self) -> NDArray[np.int64]:
        """Of each row within its task, from 0."""
        return np.arange(self.tasks.size) - np.searchsorted(self.tasks, self.tasks)

    def first(self, most: NDArray[np.int64]) -> Table:
        """The first answers to each task, as many as are said for it."""
        return self.where(np.flatnonzero(self.place() < most[self.tasks]))

    def each(self, number: int) -> NDArray[np.int64]:
        return np.full(self.truth.size, number)

    def share(self) -> float:
        """Accuracy of the majority, ties by their chance."""
        votes = np.zeros((self.truth.size, self.values))
        np.add.at(votes, (self.tasks, self.labels), 1)
        top = votes == votes.max(axis=1, keepdims=True)
        chance = top / top.sum(axis=1, keepdims=True)
        hit = chance[np.arange(self.truth.size), self.truth] * (self.truth >= 0)
        return float(hit[self.known].mean())

    def found(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Of each task: confidence in the value that is found, and whether it is right."""
        closed = np.zeros(self.truth.size, dtype=np.int64)
        numbers = (self.tasks, self.workers, self.labels)
        skill = estimate(*numbers, self.each(self.values), closed=closed)
        shares = np.zeros((self.truth.size, self.values))
        shares[self.tasks, self.labels] = skill.posterior
        return shares.max(axis=1), shares.argmax(axis=1) == self.truth

    def accuracy(self) -> float:
        return float(self.found()[1][self.known].mean())


def adaptive(table: Table, least: float) -> tuple[float, float]:
    """Answers a task and accuracy where more are asked for below a confidence."""
    there = np.minimum(np.bincount(table.tasks), MOST)
    asked = np.minimum(there, FIRST)
    while True:
        confidence, right = table.first(asked).found()
        more = (confidence < least) & (asked < there)
        if not more.any():
            return float(asked.mean()), float(right[table.known].mean())
        asked = asked + more


def print_closed(sets: dict[str, Table]) -> None:
    print(
        "| set | tasks | answers | majority | ours | gain | worst | error | seconds |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name, table in sets.items():
        draws = [table.drawn(SEED + n) for n in range(DRAWS)]
        for label, these in (
            (name, [table]),
            (f"{name}, thinned", [one.first(one.each(3)) for one in draws]),
        ):
            plain = [one.share() for one in these]
            started = time.process_time()
            ours = [one.accuracy() for one in these]
            took = (time.process_time() - started) / len(these)
            gains = [a - b for a, b in zip(ours, plain, strict=True)]
            p, known = mean(plain), int(table.known.sum())
            print(
                f"| {label} | {table.truth.size} | {these[0].tasks.size} | {p:.4f} "
                f"| {mean(ours):.4f} | {mean(gains):+.4f} | {min(gains):+.4f} "
                f"| {(p * (1 - p) / known) ** 0.5:.4f} | {took:.2f} |"
            )


def print_reliability(sets: dict[str, Table]) -> None:
    print("| set | " + " | ".join(f"to {high:g}" for high in BINS[1:]) + " | gap |")
    print("|---|" + "---:|" * len(BINS))
    for name, table in sets.items():
        draws = [table.drawn(SEED + n) for n in range(DRAWS)]
        for label, these in (
            (name, [table]),
            (f"{name}, thinned", [one.first(one.each(3)) for one in draws]),
        ):
            found = [one.found() for one in these]
            sure = np.concatenate([c[table.known] for c, _ in found])
            right = np.concatenate([r[table.known] for _, r in found])
            cells, gap = [], 0.0
            for low, high in pairwise(BINS):
                own = (sure >= low) & ((sure < high) | (high == 1.0))
                if not own.any():
                    cells.append("-")
                    continue
                said, was = sure[own].mean(), right[own].mean()
                gap += abs(said - was) * own.mean()
                cells.append(f"{said:.2f}: {was:.2f} ({own.sum() // len(these)})")
            print(f"| {label} | " + " | ".join(cells) + f" | {gap:.3f} |")


def print_adaptive(sets: dict[str, Table]) -> None:
    print("| set | asked below | answers | accuracy | the same for all | saved |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, table in sets.items():
        draws = [table.drawn(SEED + n) for n in range(3)]
        counts = range(FIRST, min(MOST, int(np.bincount(table.tasks).max())) + 1)
        fixed = [mean(d.first(d.each(n)).accuracy() for d in draws) for n in counts]
        for least in (0.6, 0.7, 0.8, 0.9):
            runs = [adaptive(draw, least) for draw in draws]
            asked, accuracy = mean(r[0] for r in runs), mean(r[1] for r in runs)
            reach = np.maximum.accumulate(fixed)
            if accuracy > reach[-1]:
                equal, saved = f"> {counts[-1]}", f"> {1 - asked / counts[-1]:.0%}"
            else:
                needed = float(np.interp(accuracy, reach, list(counts)))
                equal, saved = f"{needed:.1f}", f"{1 - asked / needed:.0%}"
            print(
                f"| {name} | {least} | {asked:.2f} | {accuracy:.4f} | {equal} "
                f"| {saved} |"
            )


def by_medoid(answers: Answers) -> dict[str, str]:
    chosen = {}
    for task, given in answers.items():
        texts = [fold(answer) for _, answer in given]
        chosen[task] = given[medoid(texts, [1.0] * len(texts))][1]
    return chosen


def likeness(chosen: dict[str, str], truth: dict[str, str]) -> float:
    known = [task for task in truth if task in chosen]
    return sum(similarity(fold(chosen[t]), fold(truth[t])) for t in known) / len(known)


def error(chosen: dict[str, str], truth: dict[str, str]) -> float:
    known = [task for task in truth if task in chosen]
    return sum(abs(float(chosen[t]) - float(truth[t])) for t in known) / len(known)


def line(
    name: str, answers: Answers, majority: float, ours: float, took: float
) -> None:
    count = sum(map(len, answers.values()))
    print(
        f"| {name} | {len(answers)} | {count} | {majority:.4f} | {ours:.4f} "
        f"| {ours - majority:+.4f} | {took:.2f} |"
    )


def main(data: Path) -> None:
    folder = data / "crowd_zheng2017"
    sets = {name: Table.of(*read_closed(folder / name)) for name in CLOSED}
    for show in (print_closed, print_reliability, print_adaptive):
        show(sets)
        print()
    print("| set | tasks | answers | majority | ours | gain | seconds |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name in ("T1", "T2"):
        whole, truth = read_text(data / "crowd_text_crowdwsa", name)
        for label, answers in ((name, whole), (f"{name}, thinned", thinned(whole, 3))):
            started = time.perf_counter()
            ours = by_medoid(answers)
            took = time.perf_counter() - started
            plain = likeness(by_majority(answers), truth)
            line(f"{label} (text)", answers, plain, likeness(ours, truth), took)
    whole, truth = read_closed(data / "crowd_zheng2017" / NUMERIC)
    for label, answers in (
        (NUMERIC, whole),
        (f"{NUMERIC}, thinned", thinned(whole, 3)),
    ):
        started = time.perf_counter()
        ours = by_medoid(answers)
        took = time.perf_counter() - started
        plain = error(by_majority(answers), truth)
        line(f"{label} (error)", answers, plain, error(ours, truth), took)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
