"""Erasing a person's or a record's values, on request or by age.

What goes: values, crops, answers, drafts, results, what lies in quarantine about them,
their data keys, their rows in spools. What stays: rows without values, and the ledger,
which knows entries, records and people by keyed pseudonyms only. So the history of who
was shown what stays whole, and a record that is loaded again is known and refused
(docs/why.md says why that matters).

Everything here may be repeated: a run that was broken off is ended by another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from connectors.base import Forgetting
from dispatcher.core.errors import Conflict, DispatcherError, NotFound
from dispatcher.core.keys import pseudonym, spelled
from dispatcher.core.log import get_logger
from dispatcher.custody import erasures
from dispatcher.custody.asides import put_aside
from dispatcher.custody.erasure_context import Erased, ErasureContext, tokens
from dispatcher.custody.outside import finish
from dispatcher.custody.residue_scan import sought
from dispatcher.model import LIVE_TASK_STATES
from dispatcher.store import Store, Tx, outside, quarantine
from dispatcher.store import erasure as rows
from dispatcher.store.events import add_event
from dispatcher.store.repeating import committed

TRIES: Final = 60
PAUSE: Final = 0.5
"""How often, and how many seconds apart, to look whether a message has left."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class Scope:
    """What is there about a person (``s...``) or a record (``r...``).

    Attributes
    ----------
    id : str
        The pseudonym.
    record_ids, entry_ids : tuple of int
    counts : Mapping of str to int
        What an erasure would delete.
    open_tasks : Mapping of str to int
        Tasks that may still bring an answer, by connector.
    showings : rows.Showings
        What the ledger keeps.
    erased_at : int or None
        When it was erased.
    """

    id: str
    record_ids: tuple[int, ...]
    entry_ids: tuple[int, ...]
    counts: Mapping[str, int]
    open_tasks: Mapping[str, int]
    showings: rows.Showings
    erased_at: int | None


def find(store: Store, key: str) -> list[Scope]:
    """Find a person, and a record, by the key that the operator's files have."""
    secret = store.key("pseudonym-key")
    found = []
    for kind in "sr":
        try:
            found.append(scope(store, pseudonym(secret, kind, key)))
        except NotFound:
            continue
    if not found:
        raise NotFound(
            "nobody and nothing of that key is in the store",
            why="neither a subject nor a record was ever loaded under it",
            fix="check the key: it must be as in the loaded file, to the letter",
        )
    return found


def scope(store: Store, name: str) -> Scope:
    """Tell what there is under a pseudonym.

    Raises
    ------
    NotFound
    """
    with store.write() as tx:  # rows are looked at under lock, nothing is changed
        return _scope(tx, name)


def _scope(tx: Tx, name: str) -> Scope:
    records, erased_at = _records(tx, name)
    entries = rows.entries_of(tx, records)
    live = (
        task.connector
        for task in rows.tasks_of(tx, entries)
        if task.state in LIVE_TASK_STATES
    )
    return Scope(
        name,
        tuple(records),
        tuple(entries),
        rows.counts(tx, records, entries),
        dict(sorted(Counter(live).items())),
        rows.showings(tx, entries),
        erased_at,
    )


def _records(tx: Tx, name: str) -> tuple[list[int], int | None]:
    person = rows.subject(tx, name, lock=True) if name.startswith("s") else None
    if person is not None:
        return rows.records_of(tx, person.id), person.erased_at
    record = rows.record_named(tx, name) if name.startswith("r") else None
    if record is None:
        raise NotFound(
            f"there is no {name[:40]} in the store",
            why="an ID is what `dispatcher subject find` gives: s... or r...",
            fix="dispatcher subject find --id-from-file - reads the key from stdin",
        )
    return [record], None


def erase(context: ErasureContext, name: str) -> Erased:
    """Erase a person with all records, or one record, for good.

    A commit of unknown outcome is asked for, and nothing is repeated blindly. When it
    was broken off, the same once more, or the daemon, ends it.

    Raises
    ------
    NotFound
    Conflict
        A message with the values is being sent and does not end.
    StoreUnreachable
        The store broke off, and cannot be asked what it kept.
    """
    found = scope(context.store, name)
    traces = sought(context.store, found.id, found.record_ids, found.entry_ids)
    at, spellings = context.clock(), _spelled(context.store, found)
    for path in context.lists:
        erasures.note(path, name, at, spellings)
    done = Erased()
    erase_rows(context, name, done, traces.needles)
    finish(context, done)
    scrub(context.store, done)
    if context.directory is not None:
        done.left += traces.left_in(context.directory, but=_own_files(context.store))
    done.aside = put_aside(context.store)
    done.tidy()
    return done


def erase_rows(
    context: ErasureContext, name: str, done: Erased, needles: Sequence[bytes] = ()
) -> None:
    """Erase what the store holds of a person or record.

    What lies outside of it is noted there, and left to :func:`.outside.finish`.

    Raises
    ------
    NotFound, Conflict, StoreUnreachable
    """

    def work(tx: Tx) -> Erased:
        records, _ = _records(tx, name)
        entries = rows.entries_of(tx, records)
        part = erase_in(tx, context, records, entries, needles)
        person = rows.subject(tx, name)
        if person is not None:
            secret = context.store.key("pseudonym-key")
            rows.suppress(tx, _spelled_in(tx, secret, (), name))
            rows.blank_subject(tx, person, context.clock())
        detail: dict[str, int | str] = {"id": name, **part.deleted}
        add_event(tx, context.clock(), "operator", "subject.erased", detail)
        return part

    done.add(once_sent(context, work))


def once_sent(context: ErasureContext, work: Callable[[Tx], Result]) -> Result:
    """Do work in one transaction, as soon as none of its messages is on its way.

    Raises
    ------
    Conflict
        One is, and does not end.
    """
    for last in (*[False] * (TRIES - 1), True):
        try:
            return committed(context.store, work)
        except OnItsWay:
            if last:
                break
            context.wait(PAUSE)
    raise Conflict(
        "a message with these values is being sent and does not end",
        why="what leaves during an erasure would be left outside",
        fix="wait a little and repeat; or stop the daemon first",
    )


class OnItsWay(Exception):
    """A message with the values is being sent just now."""


def erase_in(
    tx: Tx,
    context: ErasureContext,
    records: Sequence[int],
    entries: Sequence[int],
    needles: Sequence[bytes] = (),
) -> Erased:
    """Delete what the store holds of records, in one transaction that may be repeated.

    Raises
    ------
    OnItsWay
    """
    if rows.being_sent(tx, entries, context.clock()):
        raise OnItsWay
    done = Erased()
    tasks = rows.tasks_of(tx, entries, lock=True)
    done.deleted = Counter(rows.counts(tx, records, entries))
    _recall(tx, context, tasks, done)
    names = tokens(context.store, [task.id for task in tasks])
    done.strange = quarantine.drop_strange(tx, [*needles, *(t.encode() for t in names)])
    rows.unplan(tx, entries)
    rows.suppress(tx, _spelled_in(tx, context.store.key("pseudonym-key"), records))
    rows.blank(tx, records, entries, context.clock())
    outside.add_pending(tx, records)
    return done


def _recall(
    tx: Tx, context: ErasureContext, tasks: Iterable[rows.TaskRow], done: Erased
) -> None:
    """End the open tasks; count those whose content nobody can call back."""
    ended: dict[str, list[int]] = {"dead": [], "returned": []}
    for task in tasks:
        outside = task.state in ("sent", "published") and not isinstance(
            context.connectors.get(task.connector), Forgetting
        )
        if outside:
            done.beyond[task.connector] += 1
        elif task.state in LIVE_TASK_STATES:
            done.recalled[task.connector] += 1
        if task.state in LIVE_TASK_STATES:
            ended["dead" if task.state == "booked" else "returned"].append(task.id)
    for state, ids in ended.items():
        rows.end_tasks(tx, ids, state)


def _spelled(store: Store, found: Scope) -> list[str]:
    """Names that other spellings of the keys have, while the keys are there."""
    with store.read() as tx:
        return _spelled_in(tx, store.key("pseudonym-key"), found.record_ids, found.id)


def _spelled_in(
    tx: Tx, secret: bytes, records: Sequence[int], name: str = ""
) -> list[str]:
    kinds = [("r", bytes(row[1])) for row in rows.records(tx, records)]
    person = rows.subject(tx, name) if name.startswith("s") else None
    if person is not None:
        kinds.append(("s", rows.person_of(tx, person.id)))
    return [
        spelled(secret, kind, key.decode("utf-8", "replace"))
        for kind, key in kinds
        if key
    ]


def scrub(store: Store, done: Erased) -> None:
    """Let the store's files hold nothing of deleted rows, if nobody is in the way."""
    try:
        store.scrub()
        done.scrubbed = True
    except DispatcherError as error:
        get_logger("erasure").warning("not-scrubbed", code=error.code)


def _own_files(store: Store) -> frozenset[Path]:
    if store.path is None:
        return frozenset()
    ends = ("", "-wal", "-shm", "-journal")
    return frozenset(store.path.with_name(store.path.name + end) for end in ends)
