"""Consensus of several answers to one task: a value, a confidence, and what to do next.

:func:`estimate` finds the true values and the workers' skill together, by expectation
maximisation. For open answers each worker has one coin, the probability of being right;
a wrong answer is any of K - 1 values, and K is large (two strangers who write the same
are right). If no value has a majority, the result is the medoid by edit distance.

For closed answers (declared choices, or few distinct values) each worker has
confusions: how often which value is given for which. Each row of such a matrix has a
Dirichlet prior around the worker's coin in this field. The evidence decides how many
answers the prior weighs: the field keeps one coin per worker until another model is
e^15 times as probable.

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
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policies.answers.distance import medoid
from policies.answers.skill import EXPECTED_RIGHT
from policies.answers.validation import Mark, Valid
from policies.policy import Field

FREE_VALUES: Final = 1_000
PRIOR_ANSWERS: Final = 20.0
MIN_CONFIDENCE: Final = 0.6

DECLARED: Final = frozenset({"choose", "yes_no"})
"""Kinds of question whose possible values are declared."""

OUTVOTED_CONFIDENCE: Final = 0.8
"""Confidence from which a declared value is accepted without a majority of the workers."""

MOST_CLASSES: Final = 12
"""Closed fields with more possible values use one coin per worker."""

FEW_VALUES: Final = 20
"""Answers per distinct value from which an open field is treated as closed."""

CLASS_PRIOR: Final = 100.0
"""Tasks, per value, by which the prior "all values are equally frequent" is weighted: a
skew is inferred only if many tasks show it."""

STRENGTHS: Final = (np.inf, 64.0, 16.0, 8.0, 4.0, 2.0)
"""Candidate weights of the coin, in answers per row, beside a worker's confusions."""

WARM_UP: Final = 10
"""Rounds with one coin per worker before confusions are learned. Where one value is nearly
always true, the rows of the others would otherwise be learned from mere doubt, and the
model would end where answers say nothing about the truth."""

STRONG_EVIDENCE: Final = 15.0

CORRELATION: Final = 0.5
"""Correlation of the errors in one task. A hard task misleads several workers alike, so
n answers count as n / (1 + (n - 1) * correlation) in the confidence."""

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Skill:
    """The estimates of :func:`estimate`.

    Attributes
    ----------
    right : ndarray, shape (workers,), float64 in (0, 1)
        Probability that a worker is right.
    posterior : ndarray, shape (answers,), float64 in [0, 1]
        Probability that the value of this answer is the true value of its task.
    rounds : int
        Rounds until no change exceeded the tolerance.
    confusions : dict of int to ndarray, shape (workers of the field, L, L)
        Closed field -> for each of its workers, in the order of their numbers: row l is
        the distribution of the label given where l is true. L: the labels that occur,
        in their order, and one more if only one does.
    """

    right: _Floats
    posterior: _Floats
    rounds: int
    confusions: dict[int, _Floats] = field(default_factory=dict)


def estimate(
    tasks: _Ints,
    workers: _Ints,
    labels: _Ints,
    values: _Ints,
    *,
    closed: _Ints | None = None,
    expected: _Floats | None = None,
    max_rounds: int = 100,
    tolerance: float = 1e-6,
) -> Skill:
    """Estimate the workers' skill and the right answers together (Dawid and Skene 1979).

    Deterministic; starts from the shares of the votes. A worker's coin has a Beta prior
    with the weight of twenty answers (0.8 of them right, unless `expected` says
    otherwise); confusions have a Dirichlet prior around the coin. A round takes time
    linear in the answers.

    Parameters
    ----------
    tasks, workers, labels : ndarray, shape (answers,), int64
        Row i: this worker gave this label to this task; tasks and workers are numbered
        from 0. Labels of tasks that are not of one closed field are never compared.
    values : ndarray, shape (tasks,), int64
        K: number of possible values, >= 2 each.
    closed : ndarray, shape (tasks,), int64, optional
        Number of each task's closed field, or -1 for an open one (all, by default).
        Tasks of one field have one K, and labels from 0 to K - 1.
    expected : ndarray, shape (workers,), float64 in (0, 1), optional
        Prior accuracy of each worker.
    max_rounds : int
    tolerance : float
        Largest change of a coin and of a posterior that counts as none.

    Raises
    ------
    ValueError
        Arrays of different shape, K < 2, or a label outside a closed field's K.
    """
    _check_shapes(tasks, workers, labels, values)
    if tasks.size == 0:
        return Skill(np.zeros(0), np.zeros(0), 0)
    given = np.bincount(workers)
    known = np.full(given.size, EXPECTED_RIGHT) if expected is None else expected
    known = np.clip(known, 0.05, 0.95)
    field_of = np.full(tasks.size, -1) if closed is None else closed[tasks]
    parts: list[_Open | _Closed] = []
    for number in np.unique(field_of).tolist():
        rows = np.flatnonzero(field_of == number)
        own = (rows, tasks[rows], workers[rows], labels[rows], values)
        parts.append(_Open(*own) if number < 0 else _Closed(number, known, *own))
    posterior = np.zeros(tasks.size)
    for part in parts:
        posterior[part.rows] = part.votes()
    right = np.zeros(given.size)
    rounds = 0
    for _ in range(max_rounds):
        rounds += 1
        before, posterior_before = right, posterior.copy()
        won = np.bincount(workers, weights=posterior)
        right = (won + PRIOR_ANSWERS * known) / (given + PRIOR_ANSWERS)
        for part in parts:
            posterior[part.rows] = part.expect(right)
        change = max(
            np.abs(right - before).max(), np.abs(posterior - posterior_before).max()
        )
        if change <= tolerance and rounds > WARM_UP:
            break
    confusions = {}
    for part in parts:
        posterior[part.rows] = part.confidence()
        if isinstance(part, _Closed):
            confusions[part.number] = part.confusions
    return Skill(right, posterior, rounds, confusions)


def _check_shapes(tasks: _Ints, workers: _Ints, labels: _Ints, values: _Ints) -> None:
    if not tasks.shape == workers.shape == labels.shape:
        raise ValueError(
            f"tasks, workers, labels have shapes {tasks.shape}, {workers.shape}, "
            f"{labels.shape}, expected the same"
        )
    if tasks.size and values.min() < 2:
        raise ValueError(f"values has {values.min()}, expected >= 2")


class _Open:
    """Answers whose labels are compared only within their task: one coin per worker."""

    def __init__(
        self, rows: _Ints, tasks: _Ints, workers: _Ints, labels: _Ints, values: _Ints
    ) -> None:
        self.rows = rows
        self._workers = workers
        own, self._tasks = np.unique(tasks, return_inverse=True)
        pairs = np.stack((self._tasks, labels), axis=1)
        kinds, kind = np.unique(pairs, axis=0, return_inverse=True)
        self._kind = kind.reshape(-1)
        self._task_of_kind = kinds[:, 0]
        seen = np.bincount(self._task_of_kind)
        self._unseen = np.maximum(values[own] - seen, 0).astype(np.float64)
        self._wrong = np.log(values[tasks] - 1.0)
        self._posterior = (
            np.bincount(self._kind) / np.bincount(self._tasks)[kinds[:, 0]]
        )

    def votes(self) -> _Floats:
        posterior: _Floats = self._posterior[self._kind]
        return posterior

    def expect(self, right: _Floats) -> _Floats:
        """E step: posterior of each (task, label) given; unseen values count too."""
        hit = np.log(right)[self._workers]
        miss = np.log1p(-right)[self._workers] - self._wrong
        base = np.bincount(self._tasks, weights=miss)
        gain = np.bincount(self._kind, weights=hit - miss)
        score = base[self._task_of_kind] + gain
        top = base.copy()
        np.maximum.at(top, self._task_of_kind, score)
        mass = np.exp(score - top[self._task_of_kind])
        total = np.bincount(self._task_of_kind, weights=mass)
        total += self._unseen * np.exp(base - top)
        self._posterior = mass / total[self._task_of_kind]
        return self.votes()

    confidence = votes


class _Closed:
    """Answers to one closed field: confusions of each worker (Dawid and Skene 1979)."""

    def __init__(
        self,
        number: int,
        known: _Floats,
        rows: _Ints,
        tasks: _Ints,
        workers: _Ints,
        labels: _Ints,
        values: _Ints,
    ) -> None:
        self.number = number
        self.rows = rows
        own, self._tasks = np.unique(tasks, return_inverse=True)
        self._who, self._workers = np.unique(workers, return_inverse=True)
        self._known = known[self._who, None]
        allowed = int(values[own[0]])
        if (
            (values[own] != allowed).any()
            or labels.min() < 0
            or labels.max() >= allowed
        ):
            raise ValueError(
                f"closed field {number} has labels outside 0 to K - 1, or several K"
            )
        # Errors go to values that somebody gave; if a coin spread them over all K, the
        # evidence would favour confusions where there are none.
        given, labels = np.unique(labels, return_inverse=True)
        self._labels = labels
        self._classes = classes = max(2, given.size)
        votes = np.bincount(
            self._tasks * classes + labels, minlength=own.size * classes
        )
        self._answers = np.bincount(self._tasks)
        self._posterior = votes.reshape(-1, classes) / self._answers[:, None]
        self._rounds = 0
        self.confusions = np.zeros((self._who.size, classes, classes))

    def votes(self) -> _Floats:
        posterior: _Floats = self._posterior[self._tasks, self._labels]
        return posterior

    def expect(self, _: _Floats) -> _Floats:
        """M step of the confusions and of the values' frequencies, then E step.

        The coin in the field is a mean over the true values: otherwise a worker who
        always gives the most frequent value would seem skilled.
        """
        classes = self._classes
        cells = self._workers * classes + self._labels
        counts: _Floats = np.stack(
            [
                np.bincount(
                    cells,
                    weights=self._posterior[self._tasks, true],
                    minlength=self._who.size * classes,
                ).reshape(-1, classes)
                for true in range(classes)
            ],
            axis=1,
        )
        hits = np.diagonal(counts, axis1=1, axis2=2)
        prior = PRIOR_ANSWERS * self._known
        total = counts.sum(axis=2)
        # A value that is never true says nothing about a worker's skill.
        weight = total / (total + PRIOR_ANSWERS) + np.finfo(np.float64).eps
        rows = (hits + prior) / (total + PRIOR_ANSWERS)
        mine = (rows * weight).sum(axis=1) / weight.sum(axis=1)
        coin = np.repeat(((1 - mine) / (classes - 1))[:, None], classes, axis=1)
        coins = np.repeat(coin[:, None, :], classes, axis=1)
        coins[:, np.arange(classes), np.arange(classes)] = mine[:, None]
        self._rounds += 1
        strength = _strength(counts, coins) if self._rounds > WARM_UP else np.inf
        if np.isinf(strength):
            self.confusions = coins
        else:
            prior = strength * coins
            self.confusions = (counts + prior) / (total[:, :, None] + strength)
        frequent = self._posterior.sum(axis=0) + CLASS_PRIOR
        given = np.log(self.confusions)[self._workers, :, self._labels]
        score = np.stack(
            [np.bincount(self._tasks, weights=column) for column in given.T], axis=1
        )
        self._posterior = _normal(score + np.log(frequent / frequent.sum()))
        return self.votes()

    def confidence(self) -> _Floats:
        """Posterior in which answers to one task count as correlated, not as n."""
        counted = 1 / (1 + (self._answers - 1) * CORRELATION)
        tiny = np.finfo(np.float64).tiny
        score = np.log(np.maximum(self._posterior, tiny)) * counted[:, None]
        confident: _Floats = _normal(score)[self._tasks, self._labels]
        return confident


def _normal(score: _Floats) -> _Floats:
    """Turn rows of log scores into distributions, shifted so that none underflows to 0."""
    mass = np.exp(score - score.max(axis=1, keepdims=True))
    normal: _Floats = mass / mass.sum(axis=1, keepdims=True)
    return normal


def _strength(counts: _Floats, coins: _Floats) -> float:
    """Choose the coin's weight, in answers per row.

    By the evidence of the (expected) counts, integrated over the confusions; one coin
    unless another weight is e^15 times as probable.
    """
    best, most = np.inf, float((counts * np.log(coins)).sum()) + STRONG_EVIDENCE
    for strength in STRENGTHS[1:]:
        prior = strength * coins
        total = counts.sum(axis=2) + strength
        found = float((_log_gamma(counts + prior) - _log_gamma(prior)).sum())
        found -= float((_log_gamma(total) - _log_gamma(np.full(1, strength))).sum())
        if found > most:
            best, most = strength, found
    return best


def _log_gamma(x: _Floats) -> _Floats:
    """Logarithm of the gamma function of x > 0, by Stirling's series from x + 6 on."""
    shifted = x + 6.0
    below = np.log(x * (x + 1) * (x + 2) * (x + 3) * (x + 4) * (x + 5))
    series = 1 / (12 * shifted) - 1 / (360 * shifted**3)
    half = 0.5 * np.log(2 * np.pi)
    found: _Floats = (shifted - 0.5) * np.log(shifted) - shifted + half + series - below
    return found


class Next(StrEnum):
    """What to do with a task."""

    WAIT = "wait"  # requested answers are still missing
    ACCEPT = "accept"
    ONE_MORE = "one_more"  # they disagree: show the field once more
    CONFLICT = "conflict"  # they disagree and no showing is left


@dataclass(frozen=True)
class Given:
    """A valid answer of one worker; `worker` is any text that identifies workers."""

    worker: str
    answer: Valid


@dataclass(frozen=True)
class Consensus:
    """The result of the answers to one task.

    Attributes
    ----------
    next : Next
    text : str
        The value for the record; in a conflict the best guess; empty for a mark.
    mark : Mark or None
        Set if the answer is that there is nothing to give.
    confidence : float in [0, 1]
        Probability that the value is right, from :func:`weigh`; for a medoid that
        nobody else wrote, that of its own key.
    """

    next: Next
    text: str = field(default="", repr=False)
    mark: Mark | None = None
    confidence: float = 0.0


def possible_values(asked: Field) -> int:
    """Return K of a field: its choices, two for yes or no, else many; marks count too."""
    if asked.ask == "choose":
        return len(asked.choices) + len(Mark)
    if asked.ask == "yes_no":
        return 2 + len(Mark)
    return FREE_VALUES


@dataclass(frozen=True)
class Confusions:
    """Which values of one closed field its workers give for which.

    Attributes
    ----------
    keys : tuple of str
        The values that were given, as answers compare.
    by_worker : dict of str to ndarray, shape (keys, keys)
        Worker -> row l: the distribution of the value given where l is true.
    """

    keys: tuple[str, ...] = field(repr=False)
    by_worker: dict[str, _Floats]


@dataclass(frozen=True)
class Weighed:
    """The joint estimates for the answers to several tasks.

    Attributes
    ----------
    confidence : list of list of float
        In the shape of the tasks: probability that the value of each answer is right.
    right : dict of str to float
        Worker -> probability that an answer of theirs is right.
    confusions : dict of str to Confusions
        Of the closed fields, by name.
    """

    confidence: list[list[float]]
    right: dict[str, float]
    confusions: dict[str, Confusions] = field(default_factory=dict)


def weigh(
    tasks: Sequence[tuple[Field, Sequence[Given]]],
    expected: Mapping[str, float] | None = None,
) -> Weighed:
    """Estimate the probability of each answer from all tasks together.

    Parameters
    ----------
    tasks : sequence of (Field, sequence of Given)
        A worker has the same name in all of them: skill is learned over all.
    expected : Mapping of str to float, optional
        Worker -> prior accuracy; all others are assumed to be average.
    """
    names: dict[str, int] = {}
    closed_fields = _closed_fields(tasks)
    of_field: dict[str, int] = {}
    keys_of_field: dict[str, dict[str, int]] = {}
    rows: list[tuple[int, int, int]] = []
    for number, (asked, given) in enumerate(tasks):
        keys: dict[str, int] = {}
        if asked.name in closed_fields:
            keys = keys_of_field.setdefault(asked.name, keys)
        for one in given:
            worker = names.setdefault(one.worker, len(names))
            rows.append((number, worker, keys.setdefault(one.answer.key, len(keys))))
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    values, closed = [], []
    for asked, _ in tasks:
        values.append(closed_fields.get(asked.name) or possible_values(asked))
        is_closed = asked.name in closed_fields
        closed.append(
            of_field.setdefault(asked.name, len(of_field)) if is_closed else -1
        )
    known = expected or {}
    before = np.array([known.get(name, EXPECTED_RIGHT) for name in names])
    skill = estimate(
        table[:, 0],
        table[:, 1],
        table[:, 2],
        np.array(values, dtype=np.int64),
        closed=np.array(closed, dtype=np.int64),
        expected=before,
    )
    found = iter(skill.posterior.tolist())
    listed = list(names)
    confusions = {}
    for name, number in of_field.items():
        if number in skill.confusions:
            rows_of = np.isin(table[:, 0], np.flatnonzero(np.array(closed) == number))
            workers = np.unique(table[rows_of, 1]).tolist()
            given_keys = tuple(keys_of_field[name])
            size = len(given_keys)
            matrices = skill.confusions[number][:, :size, :size]
            confusions[name] = Confusions(
                given_keys,
                {listed[n]: own for n, own in zip(workers, matrices, strict=True)},
            )
    return Weighed(
        [[next(found) for _ in given] for _, given in tasks],
        dict(zip(names, skill.right.tolist(), strict=True)),
        confusions,
    )


def _closed_fields(tasks: Sequence[tuple[Field, Sequence[Given]]]) -> dict[str, int]:
    """Return name -> K of the fields with closed answers: declared, or few in fact."""
    fields: dict[str, Field] = {}
    keys: dict[str, set[str]] = {}
    answers: dict[str, int] = {}
    for asked, given in tasks:
        fields[asked.name] = asked
        keys.setdefault(asked.name, set()).update(one.answer.key for one in given)
        answers[asked.name] = answers.get(asked.name, 0) + len(given)
    found = {}
    for name, asked in fields.items():
        if asked.ask in DECLARED:
            classes = possible_values(asked)
        elif answers[name] >= FEW_VALUES * len(keys[name]):
            classes = len(keys[name]) + 1  # plus one for values that nobody gave
        else:
            continue
        if 2 <= classes <= MOST_CLASSES:
            found[name] = classes
    return found


def decide(
    asked: Field,
    given: Sequence[Given],
    confidence: Sequence[float],
    showings_left: int,
) -> Consensus:
    """Combine the answers to one task into a consensus.

    A value is accepted that more than half of the answers give and that is at least as
    probable as :data:`MIN_CONFIDENCE`; a single answer is accepted if only one was
    requested. If values are declared, the most probable one is accepted even against
    the majority, from :data:`OUTVOTED_CONFIDENCE` on.

    Parameters
    ----------
    asked : Field
        ``answers`` is the number requested.
    given : sequence of Given
        Valid answers, one per worker.
    confidence : sequence of float
        From :func:`weigh`, for the same answers.
    showings_left : int
        How often the field may still be shown to a new worker, >= 0.
    """
    if len(given) < asked.answers:
        if showings_left > 0 or not given:
            return Consensus(Next.WAIT)
        return _value(Next.CONFLICT, given, confidence)
    votes: dict[str, int] = {}
    for one in given:
        votes[one.answer.key] = votes.get(one.answer.key, 0) + 1
    declared = asked.ask in DECLARED
    sure = {key: _of_key(key, given, confidence) for key in votes}
    if declared:
        key = max(votes, key=lambda k: (sure[k], votes[k]))
    else:
        key = max(votes, key=lambda k: (votes[k], sure[k]))
    agreed = 2 * votes[key] > len(given) or (
        declared and sure[key] >= OUTVOTED_CONFIDENCE
    )
    if agreed and (sure[key] >= MIN_CONFIDENCE or len(given) == 1):
        same = [i for i, one in enumerate(given) if one.answer.key == key]
        return _value(
            Next.ACCEPT, [given[i] for i in same], [confidence[i] for i in same]
        )
    following = Next.ONE_MORE if showings_left > 0 else Next.CONFLICT
    if declared:
        given = [one for one in given if one.answer.key == key]
        confidence = [sure[key]] * len(given)
    return _value(following, given, confidence)


def _of_key(key: str, given: Sequence[Given], confidence: Sequence[float]) -> float:
    return max(
        c for one, c in zip(given, confidence, strict=True) if one.answer.key == key
    )


def _value(
    following: Next, given: Sequence[Given], confidence: Sequence[float]
) -> Consensus:
    """Return the medoid of the texts, weighted by confidence.

    Marks are not texts: a mark wins only if it is more probable than every text.
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
