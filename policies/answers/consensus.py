"""Several answers to one task: one value, a confidence, and what to do next.

Closed answers (a few possible values) go through :func:`one_coin`: a worker j is right
with probability p_j and else picks one of the K - 1 wrong values at random; posterior
and p_j are found by expectation maximisation. Free text goes the same way on normal
forms, with a large K (two strangers who write the same are right); where nothing has a
majority the value is the medoid by edit distance.

References
----------
A. P. Dawid, A. M. Skene, "Maximum likelihood estimation of observer error-rates using
the EM algorithm", Applied Statistics 28 (1979); the one-coin form as in Y. Zheng et
al., "Truth inference in crowdsourcing: is the problem solved?", PVLDB 10 (2017).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from policies.answers.distance import medoid
from policies.answers.skill import EXPECTED_RIGHT
from policies.answers.validation import Mark, Valid
from policies.policy import Field

FREE_VALUES = 1_000
PRIOR_ANSWERS = 20.0
MIN_CONFIDENCE = 0.6


@dataclass(frozen=True)
class Skill:
    """Estimates of :func:`one_coin`.

    Attributes
    ----------
    right : ndarray, shape (workers,), float64 in (0, 1)
        Probability that a worker is right.
    posterior : ndarray, shape (answers,), float64 in [0, 1]
        Probability that the value of this answer is the true one of its task.
    rounds : int
        Rounds until nothing changed by more than the tolerance.
    """

    right: NDArray[np.float64]
    posterior: NDArray[np.float64]
    rounds: int


def one_coin(
    tasks: NDArray[np.int64],
    workers: NDArray[np.int64],
    labels: NDArray[np.int64],
    values: NDArray[np.int64],
    *,
    expected: NDArray[np.float64] | None = None,
    max_rounds: int = 100,
    tolerance: float = 1e-6,
) -> Skill:
    """Estimate the workers' skill and the right answers together.

    Deterministic; starts from the share of the votes. p_j has a Beta prior that weighs
    as much as twenty answers (0.8 of them right, unless `expected` knows better).

    Parameters
    ----------
    tasks, workers, labels : ndarray, shape (answers,), int64
        Row i: this worker gave this label to this task; tasks and workers are numbered
        from 0. Labels of different tasks are never compared.
    values : ndarray, shape (tasks,), int64
        K: how many values are possible, >= 2 each.
    expected : ndarray, shape (workers,), float64 in (0, 1), optional
        What is known of the workers from before.
    max_rounds : int
    tolerance : float
        Largest change of a p_j that still counts as none.

    Raises
    ------
    ValueError
        Arrays of different shape, or K < 2.
    """
    if not tasks.shape == workers.shape == labels.shape:
        raise ValueError(
            f"tasks, workers, labels have shapes {tasks.shape}, {workers.shape}, "
            f"{labels.shape}, expected the same"
        )
    if tasks.size == 0:
        return Skill(np.zeros(0), np.zeros(0), 0)
    if values.min() < 2:
        raise ValueError(f"values has {values.min()}, expected >= 2")
    pairs = np.stack((tasks, labels), axis=1)
    kinds, kind = np.unique(pairs, axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    task_of_kind = kinds[:, 0]
    seen = np.bincount(task_of_kind, minlength=values.size)
    unseen = np.maximum(values - seen, 0).astype(np.float64)
    wrong = np.log(np.maximum(values - 1, 1).astype(np.float64))[tasks]
    votes = np.bincount(tasks, minlength=values.size)
    posterior = np.bincount(kind) / votes[task_of_kind]
    given = np.bincount(workers)
    known = np.full(given.size, EXPECTED_RIGHT) if expected is None else expected
    prior = PRIOR_ANSWERS * np.clip(known, 0.05, 0.95)
    right = np.zeros(given.size)
    rounds = 0
    for _ in range(max_rounds):
        rounds += 1
        before = right
        won = np.bincount(workers, weights=posterior[kind])
        right = (won + prior) / (given + PRIOR_ANSWERS)
        posterior = _expect(
            np.log(right)[workers],
            np.log1p(-right)[workers] - wrong,
            (tasks, kind, task_of_kind, unseen),
        )
        if np.abs(right - before).max() <= tolerance:
            break
    return Skill(right, posterior[kind], rounds)


def _expect(
    hit: NDArray[np.float64],
    miss: NDArray[np.float64],
    index: tuple[
        NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]
    ],
) -> NDArray[np.float64]:
    """E step: posterior of each (task, label) that was given; unseen values count too."""
    tasks, kind, task_of_kind, unseen = index
    base = np.bincount(tasks, weights=miss, minlength=unseen.size)
    gain = np.bincount(kind, weights=hit - miss)
    score = base[task_of_kind] + gain
    top = base.copy()
    np.maximum.at(top, task_of_kind, score)
    mass = np.exp(score - top[task_of_kind])
    total = np.bincount(task_of_kind, weights=mass, minlength=unseen.size)
    total += unseen * np.exp(base - top)
    posterior: NDArray[np.float64] = mass / total[task_of_kind]
    return posterior


class Next(StrEnum):
    """What to do with a task."""

    WAIT = "wait"  # answers that were asked for are still missing
    ACCEPT = "accept"
    ONE_MORE = "one_more"  # they disagree: show it once more
    CONFLICT = "conflict"  # they disagree and no showing is left


@dataclass(frozen=True)
class Given:
    """A valid answer of one worker; `worker` is any text that tells workers apart."""

    worker: str
    answer: Valid


@dataclass(frozen=True)
class Consensus:
    """The joint result of the answers to one task.

    Attributes
    ----------
    next : Next
    text : str
        The value for the record; the best guess also in a conflict; empty for a mark.
    mark : Mark or None
        The answer is that there is nothing to give.
    confidence : float in [0, 1]
        Probability that the value is right under the one-coin model; for a medoid that
        nobody else wrote, that of its own key.
    """

    next: Next
    text: str = field(default="", repr=False)
    mark: Mark | None = None
    confidence: float = 0.0


def possible_values(asked: Field) -> int:
    """Return K of a field: its choices, two for yes or no, else many; marks count."""
    if asked.ask == "choose":
        return len(asked.choices) + len(Mark)
    if asked.ask == "yes_no":
        return 2 + len(Mark)
    return FREE_VALUES


@dataclass(frozen=True)
class Weighed:
    """Answers to several tasks, weighed together.

    Attributes
    ----------
    confidence : list of list of float
        In the shape of the tasks: how probable the value of each answer is.
    right : dict of str to float
        Worker -> probability that an answer of theirs is right.
    """

    confidence: list[list[float]]
    right: dict[str, float]


def weigh(
    tasks: Sequence[tuple[Field, Sequence[Given]]],
    expected: Mapping[str, float] | None = None,
) -> Weighed:
    """Estimate how probable each answer is, judging all tasks together.

    Parameters
    ----------
    tasks : sequence of (Field, sequence of Given)
        A worker is named alike in all of them: skill is learned over all.
    expected : Mapping of str to float, optional
        Worker -> what is known from before; those not in it are taken for average.
    """
    names: dict[str, int] = {}
    rows: list[tuple[int, int, int]] = []
    for number, (_, given) in enumerate(tasks):
        keys: dict[str, int] = {}
        for one in given:
            worker = names.setdefault(one.worker, len(names))
            rows.append((number, worker, keys.setdefault(one.answer.key, len(keys))))
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    values = np.array([possible_values(asked) for asked, _ in tasks], dtype=np.int64)
    known = expected or {}
    before = np.array([known.get(name, EXPECTED_RIGHT) for name in names])
    skill = one_coin(table[:, 0], table[:, 1], table[:, 2], values, expected=before)
    found = iter(skill.posterior.tolist())
    return Weighed(
        [[next(found) for _ in given] for _, given in tasks],
        dict(zip(names, skill.right.tolist(), strict=True)),
    )


def decide(
    asked: Field,
    given: Sequence[Given],
    confidence: Sequence[float],
    showings_left: int,
) -> Consensus:
    """Combine the answers to one task into a consensus.

    Accepted is a value that more than half of the answers say and that is more probable
    than :data:`MIN_CONFIDENCE`; a single answer is accepted where one was asked for.

    Parameters
    ----------
    asked : Field
        ``answers`` says how many are wanted.
    given : sequence of Given
        Valid answers, one a worker.
    confidence : sequence of float
        From :func:`weigh`, for the same answers.
    showings_left : int
        How often the field may still be shown to somebody new, >= 0.
    """
    if len(given) < asked.answers:
        if showings_left > 0 or not given:
            return Consensus(Next.WAIT)
        return _value(Next.CONFLICT, given, confidence)
    votes: dict[str, int] = {}
    for one in given:
        votes[one.answer.key] = votes.get(one.answer.key, 0) + 1
    key = max(votes, key=lambda k: (votes[k], _of_key(k, given, confidence)))
    agreed = 2 * votes[key] > len(given)
    sure = _of_key(key, given, confidence) >= MIN_CONFIDENCE or len(given) == 1
    if agreed and sure:
        same = [i for i, one in enumerate(given) if one.answer.key == key]
        return _value(
            Next.ACCEPT, [given[i] for i in same], [confidence[i] for i in same]
        )
    following = Next.ONE_MORE if showings_left > 0 else Next.CONFLICT
    return _value(following, given, confidence)


def _of_key(key: str, given: Sequence[Given], confidence: Sequence[float]) -> float:
    return max(
        c for one, c in zip(given, confidence, strict=True) if one.answer.key == key
    )


def _value(
    following: Next, given: Sequence[Given], confidence: Sequence[float]
) -> Consensus:
    """Choose the value: the medoid of the texts, weighted by confidence.

    Marks are no text: one wins only where it is more probable than every text.
    """
    order = sorted(range(len(given)), key=lambda i: (-confidence[i], given[i].worker))
    best = order[0]
    mark = given[best].answer.mark
    if mark is not None:
        return Consensus(following, "", mark, confidence[best])
    texts = [i for i in order if given[i].answer.mark is None]
    chosen = texts[
        medoid([given[i].answer.text for i in texts], [confidence[i] for i in texts])
    ]
    return Consensus(following, given[chosen].answer.text, None, confidence[chosen])
