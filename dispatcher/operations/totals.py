"""Totals of whole tables: counted now, or as the daemon that leads last counted them.

Counting every task and every showing takes as long as there are many. While a store is
small nobody notices. Of a large one the daemon keeps the totals from time to time
(:mod:`dispatcher.operations.sampling`), and pages show those, with their moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dispatcher.ledger import exhausted_fields
from dispatcher.ledger.active_policy import asked_fields
from dispatcher.store import Tx, planning, samples, statistics
from dispatcher.store.exhausted_fields import in_state
from dispatcher.store.statistics import RunTotals

LARGE: Final = 20_000
"""Fields, or lines of the ledger, from which on a store is large."""
NEEDING: Final = ("conflict",)
"""States of results that are few, and counted by an index: a person waits for them."""
WAITING: Final = ("ready", "leased", "dead")
"""The same of messages."""

_ROWS, _TASKS, _MESSAGES = "total-rows", "total-tasks", "total-messages"
_RESULTS, _RECORDS, _BURNT = "total-results", "total-records", "total-burnt"
_RUNS: Final = tuple(f"total-run-{name}" for name in RunTotals._fields)
_MEASURES: Final = (_ROWS, _TASKS, _MESSAGES, _RESULTS, _RECORDS, _BURNT, *_RUNS)
_ASKED: Final = "asked"

LISTED: Final = 1_000
"""Of what may be rare among much, so many of the first are kept, to be listed at once."""
_LIST: Final = "total-list-"
_UP_TO: Final = "up to"


@dataclass(frozen=True)
class Totals:
    """What a look at whole tables tells.

    Attributes
    ----------
    counted_at : int or None
        Moment at which it was counted; None: just now.
    rows : Mapping of str to int
        ``records``, ``entries`` and ``answers`` (valid ones).
    tasks, messages : Mapping of (str, str) to int
        By connector and state.
    asked : int
        Fields that the policy asks or publishes.
    results, records : Mapping of str to int
        Those fields that have a result, and records, by state.
    burnt : Mapping of str to int
        Burnt fields by name, the most first.
    runs : Mapping of int to RunTotals
    burnt_ids : sequence of int
        Entries of the burnt fields; empty where it was counted before.
    """

    counted_at: int | None
    rows: Mapping[str, int]
    tasks: Mapping[tuple[str, str], int]
    messages: Mapping[tuple[str, str], int]
    asked: int
    results: Mapping[str, int]
    records: Mapping[str, int]
    burnt: Mapping[str, int]
    runs: Mapping[int, RunTotals]
    burnt_ids: Sequence[int] = ()

    def samples(self, now: int) -> Iterator[tuple[str, int, str, int]]:
        """Yield rows to be kept: measure, moment, label, value."""
        pairs = {
            _ROWS: self.rows,
            _TASKS: {"/".join(key): value for key, value in self.tasks.items()},
            _MESSAGES: {"/".join(key): value for key, value in self.messages.items()},
            _RESULTS: {**self.results, _ASKED: self.asked},
            _RECORDS: self.records,
            _BURNT: self.burnt,
        }
        for place, measure in enumerate(_RUNS):
            pairs[measure] = {str(run): of[place] for run, of in self.runs.items()}
        for measure, values in pairs.items():
            yield measure, now, "", 0  # it was counted, though nothing was there
            for label, value in values.items():
                yield measure, now, label, value


def count(tx: Tx, feeds: Collection[str] = ()) -> Totals:
    """Count (grows with the store); ``feeds`` are the connectors that publish."""
    wanted = asked_fields(tx, feeds=planning.has_accounts(tx, feeds))
    asked, results = statistics.fields(tx, wanted)
    burnt = exhausted_fields.burnt(tx)
    return Totals(
        counted_at=None,
        rows=statistics.whole(tx),
        tasks={(name, state): n for name, state, n in statistics.tasks(tx)},
        messages={
            (row.connector, row.state): row.messages for row in statistics.messages(tx)
        },
        asked=asked,
        results=results,
        records=statistics.record_states(tx, asked_fields(tx)),
        burnt=dict(Counter(one.field for one in burnt).most_common()),
        runs=statistics.run_totals(tx, asked_fields(tx)),
        burnt_ids=[one.entry_id for one in burnt],
    )


def look(tx: Tx, feeds: Collection[str] = (), *, exact: bool = False) -> Totals:
    """Return the totals; those of a large store as they were counted last.

    What waits for a person is counted in any case: conflicts, and messages that wait
    or were given up.
    """
    found = None if exact else kept(tx)
    return found or count(tx, feeds)


def is_large(tx: Tx) -> bool:
    """Whether counting takes long enough to be noticed."""
    return statistics.lines(tx)[1] > LARGE or statistics.has_entries(tx, LARGE)


def kept(tx: Tx) -> Totals | None:
    """Return what the daemon counted last; None: the store is small, or none has yet."""
    if not is_large(tx):
        return None
    found = {measure: samples.latest(tx, measure) for measure in _MEASURES}
    at, _ = found[_ROWS] or (0, {})
    if not at:
        return None
    of = {
        measure: {
            label: value for label, value in (last or (0, {}))[1].items() if label
        }
        for measure, last in found.items()
    }
    asked = of[_RESULTS].pop(_ASKED, 0)
    results = {k: n for k, n in of[_RESULTS].items() if k not in NEEDING}
    if conflicts := statistics.conflicts(tx, asked_fields(tx)):
        results["conflict"] = conflicts
    messages = {k: n for k, n in _pairs(of[_MESSAGES]) if k[1] not in WAITING}
    for row in statistics.pending_messages(tx):
        messages[row.connector, row.state] = row.messages
    return Totals(
        counted_at=at,
        rows=of[_ROWS],
        tasks=dict(_pairs(of[_TASKS])),
        messages=dict(sorted(messages.items())),
        asked=asked,
        results=results,
        records=of[_RECORDS],
        burnt=dict(Counter(of[_BURNT]).most_common()),
        runs={
            int(run): RunTotals(*(of[measure].get(run, 0) for measure in _RUNS))
            for run in of[_RUNS[0]]
        },
    )


def lists(tx: Tx, totals: Totals, now: int) -> Iterator[tuple[str, int, str, int]]:
    """Yield rows to be kept of what is listed by itself (grows with the store)."""
    end = statistics.last_entry(tx)
    opened = in_state(tx, "open", LISTED)
    records = statistics.records(tx, asked_fields(tx), 0, "open", LISTED)
    for name, ids, last in (
        ("burnt", totals.burnt_ids[:LISTED], end),
        ("open", opened, end),
        ("records", [one.id for one in records], statistics.last_record(tx)),
    ):
        yield f"{_LIST}{name}", now, _UP_TO, ids[-1] if len(ids) == LISTED else last
        for one in ids:
            yield f"{_LIST}{name}", now, str(one), 1


def listed(tx: Tx, name: str, after: int) -> tuple[list[int], int]:
    """Return what is rare, as it was found last: ``burnt``, ``open`` or ``records``.

    Returns
    -------
    list of int
        Ids behind one; it may be otherwise with them by now.
    int
        Up to this id it was looked; 0: the store is small, or nobody has looked.
    """
    last = samples.latest(tx, f"{_LIST}{name}") if is_large(tx) else None
    of = dict(last[1]) if last else {}
    up_to = of.pop(_UP_TO, 0)
    return sorted(number for one in of if (number := int(one)) > after), up_to


def _pairs(of: Mapping[str, int]) -> Iterator[tuple[tuple[str, str], int]]:
    for label, value in of.items():
        name, _, state = label.rpartition("/")
        yield (name, state), value
