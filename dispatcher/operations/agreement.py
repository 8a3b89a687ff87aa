"""How far workers agree, field by field, and what each takes for what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np

from dispatcher import identity
from dispatcher.ledger.lines import adversary_name
from dispatcher.stages import assembly
from dispatcher.store import Store, answers
from policies.answers.agreement import Reliability, reliability
from policies.answers.consensus import DECLARED, Given, weigh
from policies.answers.validation import Valid
from policies.policy import Field

NEWEST: Final = 5_000
"""Answers that are looked at, with all others to the same fields."""


@dataclass(frozen=True)
class FieldAgreement:
    """How far the answers to one field agree.

    Attributes
    ----------
    field, ask : str
        Its name, and how it is asked for.
    fields : int
        Of how many records two or more answered it; the others tell nothing.
    answers : int
        Valid answers to them.
    observed : float or None
        Share of the pairs of answers to one field of one record that mean the same.
    alpha : float or None
        Krippendorff's alpha for nominal data: 1 all agree, 0 as by chance. None where
        all answers are the same.
    """

    field: str
    ask: str
    fields: int
    answers: int
    observed: float | None
    alpha: float | None


@dataclass(frozen=True)
class KindAgreement:
    """The same over all fields of one kind; alpha is their mean, by answers."""

    ask: str
    fields: int
    answers: int
    observed: float | None
    alpha: float | None


@dataclass(frozen=True)
class Confusion:
    """What one worker, or all of them, give where which value is true.

    Attributes
    ----------
    field : str
        One whose values the policy declares.
    worker : str
        Pseudonym of the adversary; empty: all workers.
    answers : int
    labels : tuple of str
        The declared values, and marks, that somebody gave.
    rows : tuple of tuple of float
        Row by true value: the estimated distribution of the value given.
    """

    field: str
    worker: str
    answers: int
    labels: tuple[str, ...]
    rows: tuple[tuple[float, ...], ...]

    @property
    def right(self) -> float:
        """Mean probability of the true value."""
        return sum(row[i] for i, row in enumerate(self.rows)) / len(self.rows)

    @property
    def worst(self) -> tuple[str, str, float] | None:
        """True value, given value and probability of the most frequent error."""
        found = [
            (share, true, given)
            for true, row in zip(self.labels, self.rows, strict=True)
            for given, share in zip(self.labels, row, strict=True)
            if true != given
        ]
        if not found:
            return None
        share, true, given = max(found)
        return true, given, share


@dataclass(frozen=True)
class Agreement:
    """How far workers agree, over the newest answers.

    Attributes
    ----------
    newest : int
        Answers that were looked at, at most.
    fields : sequence of FieldAgreement
        The least agreement first.
    kinds : sequence of KindAgreement
    confusions : sequence of Confusion
        Of all workers together, by field, then of each.
    """

    newest: int
    fields: Sequence[FieldAgreement]
    kinds: Sequence[KindAgreement]
    confusions: Sequence[Confusion]

    def of(self, worker: str) -> list[Confusion]:
        """Confusions of one worker; empty: of all together."""
        return [one for one in self.confusions if one.worker == worker]


@dataclass(frozen=True)
class _Row:
    """One valid answer."""

    entry_id: int
    worker: str
    field: Field
    answer: Valid


def agreement(store: Store, *, worker: str = "", newest: int = NEWEST) -> Agreement:
    """Measure how far workers agree, over the newest answers.

    No value leaves: confusions are given of fields whose values the policy declares.

    Parameters
    ----------
    store : Store
    worker : str
        CONNECTOR/NAME: only what this one takes for what.
    newest : int
        Answers that are looked at, with all others to the same fields.

    Raises
    ------
    NotFound
        There is no such worker.
    """
    with store.read() as tx:
        whose = adversary_name(identity.find(tx, worker).adversary_id) if worker else ""
        ids = answers.answered_lately(tx, newest)
        workers = {row.id: row.adversary_id for row in answers.tasks_of(tx, ids)}
        rows = [
            _Row(row.entry_id, adversary_name(workers[row.task_id]), field, valid)
            for row, field, valid in assembly.valid_answers(tx, ids)
        ]
    by_field: dict[str, list[_Row]] = defaultdict(list)
    for row in rows:
        by_field[row.field.name].append(row)
    fields = [_field(own) for own in by_field.values()]
    fields.sort(key=lambda one: (one.alpha is None, one.alpha or 0, one.field))
    confusions = [one for one in _confusions(rows) if whose in ("", one.worker)]
    return Agreement(newest, fields, _kinds(fields), confusions)


def _field(rows: Sequence[_Row]) -> FieldAgreement:
    found = _reliability(rows)
    asked = rows[0].field
    return FieldAgreement(
        asked.name,
        asked.ask or "",
        found.units,
        found.answers,
        found.observed,
        found.alpha,
    )


def _reliability(rows: Sequence[_Row]) -> Reliability:
    units = _numbered(row.entry_id for row in rows)
    return reliability(units, _numbered(row.answer.key for row in rows))


def _numbered(names: Iterable[object]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    known: dict[object, int] = {}
    return np.array([known.setdefault(name, len(known)) for name in names], np.int64)


def _kinds(fields: Sequence[FieldAgreement]) -> list[KindAgreement]:
    by_kind: dict[str, list[FieldAgreement]] = defaultdict(list)
    for one in fields:
        by_kind[one.ask].append(one)
    return [
        KindAgreement(
            ask,
            sum(one.fields for one in own),
            sum(one.answers for one in own),
            _mean((one.observed, one.answers) for one in own),
            _mean((one.alpha, one.answers) for one in own),
        )
        for ask, own in sorted(by_kind.items())
    ]


def _mean(found: Iterable[tuple[float | None, int]]) -> float | None:
    known = [(value, weight) for value, weight in found if value is not None]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None


def _confusions(rows: Sequence[_Row]) -> list[Confusion]:
    """Estimate what each worker takes for what, in the fields with declared values."""
    closed = [row for row in rows if row.field.ask in DECLARED]
    tasks: dict[int, tuple[Field, list[Given]]] = {}
    given: dict[tuple[str, str], int] = defaultdict(int)
    texts: dict[str, str] = {}
    for row in closed:
        own = tasks.setdefault(row.entry_id, (row.field, []))[1]
        own.append(Given(row.worker, row.answer))
        given[row.field.name, row.worker] += 1
        mark = row.answer.mark
        texts[row.answer.key] = (
            row.answer.text if mark is None else mark.value.replace("_", " ")
        )
    found = weigh(list(tasks.values())).confusions if tasks else {}
    each, together = [], []
    for field, confusions in found.items():
        labels = tuple(texts[key] for key in confusions.keys)
        counts = {who: given[field, who] for who in confusions.by_worker}
        whole = sum(counts.values())
        mean = sum(
            matrix * (counts[who] / whole)
            for who, matrix in confusions.by_worker.items()
        )
        together.append(_confusion(field, "", whole, labels, mean))
        each += [
            _confusion(field, who, counts[who], labels, matrix)
            for who, matrix in confusions.by_worker.items()
        ]
    each.sort(key=lambda one: (one.right, one.field, one.worker))
    return list(chain(together, each))


def _confusion(
    field: str, worker: str, answers: int, labels: tuple[str, ...], matrix: object
) -> Confusion:
    rows = np.asarray(matrix, np.float64).tolist()
    return Confusion(field, worker, answers, labels, tuple(tuple(row) for row in rows))
