"""Consensus next to plain majority, on answers of real workers with known truth.

    python -m benchmarks.consensus DATA

DATA holds ``crowd_zheng2017`` and ``crowd_text_crowdwsa``. Closed sets: share of tasks
with the true label. Text sets: mean similarity (1 - edit distance / length) of the
chosen answer to the true one, after folding. Numbers: mean absolute error (less is
better) of the same medoid. "thinned" keeps at most 3 answers a task.
"""

from __future__ import annotations

import csv
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

from policies.answers.consensus import one_coin
from policies.answers.distance import medoid, similarity
from policies.answers.notation import fold

CLOSED = ("bluebirds_duck", "dog", "face", "product")
NUMERIC = "emotion_numeric"
SEED = 20170101
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


def thinned(answers: Answers, most: int) -> Answers:
    rng = np.random.default_rng(SEED)
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


def by_one_coin(answers: Answers, values: int) -> dict[str, str]:
    tasks, workers, labels = {}, {}, {}
    rows = [
        (
            tasks.setdefault(task, len(tasks)),
            workers.setdefault(worker, len(workers)),
            labels.setdefault(answer, len(labels)),
        )
        for task, given in answers.items()
        for worker, answer in given
    ]
    table = np.array(rows, dtype=np.int64)
    skill = one_coin(table[:, 0], table[:, 1], table[:, 2], np.full(len(tasks), values))
    chosen, best = {}, defaultdict(float)
    spelt = [(task, answer) for task, given in answers.items() for _, answer in given]
    for (task, answer), share in zip(spelt, skill.posterior, strict=True):
        if share > best[task]:
            best[task], chosen[task] = float(share), answer
    return chosen


def by_medoid(answers: Answers) -> dict[str, str]:
    chosen = {}
    for task, given in answers.items():
        texts = [fold(answer) for _, answer in given]
        chosen[task] = given[medoid(texts, [1.0] * len(texts))][1]
    return chosen


def share_right(chosen: dict[str, str], truth: dict[str, str]) -> float:
    known = [task for task in truth if task in chosen]
    return sum(chosen[task] == truth[task] for task in known) / len(known)


def likeness(chosen: dict[str, str], truth: dict[str, str]) -> float:
    known = [task for task in truth if task in chosen]
    return sum(similarity(fold(chosen[t]), fold(truth[t])) for t in known) / len(known)


def error(chosen: dict[str, str], truth: dict[str, str]) -> float:
    known = [task for task in truth if task in chosen]
    return sum(abs(float(chosen[t]) - float(truth[t])) for t in known) / len(known)


def line(name: str, answers: Answers, majority: float, ours: float, took: float):
    count = sum(map(len, answers.values()))
    print(
        f"| {name} | {len(answers)} | {count} | {majority:.4f} | {ours:.4f} "
        f"| {ours - majority:+.4f} | {took:.2f} |"
    )


def main(data: Path) -> None:
    print("| set | tasks | answers | majority | ours | gain | seconds |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name in CLOSED:
        whole, truth = read_closed(data / "crowd_zheng2017" / name)
        values = len({a for given in whole.values() for _, a in given})
        for label, answers in ((name, whole), (f"{name}, thinned", thinned(whole, 3))):
            started = time.perf_counter()
            ours = by_one_coin(answers, max(values, 2))
            took = time.perf_counter() - started
            plain = share_right(by_majority(answers), truth)
            line(label, answers, plain, share_right(ours, truth), took)
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
