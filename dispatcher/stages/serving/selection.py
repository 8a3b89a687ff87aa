"""Which entry an account could be shown now, best first.

The planned pairs come first. Then what is left over: entries that miss more answers
than workers are still planned for (returned, expired, disagreeing, or planned for an
account that is gone). What is planned for others is taken last, and only after the plan
had some time: taking it early could leave a tight plan without a way out.

Every look is bounded by one account's tasks, the store's latest tasks and samples of
the plan, never by the number of entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from dispatcher.ledger.active_policy import ActivePolicy
from dispatcher.model import LIVE_TASK_STATES
from dispatcher.stages.serving.plans import Ids, PlanIndex
from dispatcher.store import serving as rows
from dispatcher.store import tasks as task_rows
from dispatcher.store.serving import AccountRow, EntryRow, Standing
from dispatcher.store.transaction import Tx

FIRST: Final = 8
"""Candidates looked up at first: nearly always one of an account's own is free."""

CHUNK: Final = 128
"""Candidates looked up at once, after these."""

CHUNKS: Final = 16
"""Chunks of the account's own planned entries looked at, at most."""

LATELY: Final = 2048
"""Latest tasks of the store in which leftovers are looked for."""

SAMPLE: Final = 256
"""Planned entries looked at for leftovers, at most."""


@dataclass(frozen=True)
class Question:
    """For whom, and under which circumstances, an entry is looked for.

    Attributes
    ----------
    account : AccountRow
    force : ActivePolicy
        The policy in force.
    plan : PlanIndex
    own : int64 array
        Entries planned for the account and not given to it yet.
    idle_runs : frozenset of int
        Runs from which nothing is shown now.
    untested : frozenset of int
        Fields before whose first entry a test comes.
    barred : frozenset of int
        Fields that the account is not shown: it did not pass their test.
    last_record : int or None
        Record of the task before; nothing of it is shown next.
    taking : bool
        Whether what is planned for others may be taken.
    """

    account: AccountRow
    force: ActivePolicy
    plan: PlanIndex
    own: Ids
    idle_runs: frozenset[int]
    untested: frozenset[int]
    barred: frozenset[int]
    last_record: int | None
    taking: bool


def missing(force: ActivePolicy, field_id: int, standing: Standing) -> int:
    """How many answers an entry still misses, tasks in flight taken as answers.

    0 or less: none. A field that asks nothing, or is not sent, misses none.
    """
    field = force.fields.get(field_id)
    if field is None or not field.sent or standing.settled:
        return 0
    asked = force.policy.entity.fields[field.name]
    if asked.ask is None:
        return 0
    return max(asked.answers, standing.wanted) - standing.valid - standing.live


def candidates(tx: Tx, question: Question, rng: np.random.Generator) -> Iterator[int]:
    """Entries to try for the account, best first; whether they are safe is not asked.

    Parameters
    ----------
    tx : Tx
    question : Question
    rng : Generator
        Shuffles, so that order tells nothing of the records.

    Yields
    ------
    int
        Entry ids without repeats.
    """
    own = rng.permutation(question.own)[: CHUNK * CHUNKS]
    for chunk in _own_chunks(own.tolist()):
        for entry, standing in _open(tx, question, chunk):
            if missing(question.force, entry.field_id, standing) > 0:
                yield entry.id
    yield from _left_over(tx, question, rng, set(own.tolist()))


def _left_over(
    tx: Tx, question: Question, rng: np.random.Generator, known: set[int]
) -> Iterator[int]:
    lately = task_rows.entries_touched_lately(tx, LATELY)
    pool = list(dict.fromkeys([*lately, *question.plan.sample(rng, SAMPLE)]))
    pool = [entry_id for entry_id in pool if entry_id not in known]
    pool = [pool[place] for place in rng.permutation(len(pool))]
    gone = rows.idle_accounts(tx)
    taken: list[tuple[float, int]] = []
    for chunk in _chunks(pool):
        free: list[tuple[float, int]] = []
        for entry, standing in _open(tx, question, chunk):
            misses = missing(question.force, entry.field_id, standing)
            planned = question.plan.accounts_of(entry.id) - standing.accounts - gone
            if misses > 0:
                group = free if misses > len(planned) else taken
                group.append((_worth(question.force, entry), entry.id))
        yield from _best_first(free)
    if question.taking:
        yield from _best_first(taken)


def _open(
    tx: Tx, question: Question, entry_ids: list[int]
) -> list[tuple[EntryRow, Standing]]:
    """Those of the entries that this account may be given at all, in order."""
    standings = rows.standings(tx, entry_ids, LIVE_TASK_STATES)
    found = {row.id: row for row in rows.entry_rows(tx, entry_ids)}
    kept = []
    for entry_id in entry_ids:
        entry = found.get(entry_id)
        standing = standings.get(entry_id, rows.NOTHING_YET)
        if (
            entry is not None
            and entry.run_id not in question.idle_runs
            and not entry.waiting
            and entry.field_id not in question.barred
            and entry.record_id != question.last_record
            # A second answer of the same adversary would tell nothing new.
            and question.account.adversary_id not in standing.adversaries
        ):
            kept.append((entry, standing))
    return kept


def _worth(force: ActivePolicy, entry: EntryRow) -> float:
    name = force.fields[entry.field_id].name
    return float(force.policy.entity.fields[name].utility)


def _best_first(group: list[tuple[float, int]]) -> Iterable[int]:
    return (entry_id for _, entry_id in sorted(group, key=lambda pair: -pair[0]))


def _chunks(ids: list[int]) -> Iterator[list[int]]:
    for first in range(0, len(ids), CHUNK):
        yield ids[first : first + CHUNK]


def _own_chunks(ids: list[int]) -> Iterator[list[int]]:
    if ids:
        yield ids[:FIRST]
    yield from _chunks(ids[FIRST:])
