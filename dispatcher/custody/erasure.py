"""Erasing a person's or a record's values, on request or by age.

What goes: values, crops, answers, drafts, results, what lies in quarantine about them,
their data keys, their rows in spools. What stays: rows without values, and the ledger,
which knows entries, records and people by keyed pseudonyms only. So the history of who
was shown what stays whole, and a record that is loaded again is known and refused
(docs/why.md says why that matters).

Everything here may be repeated: a run that was broken off is ended by another one.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from connectors.base import ConnectorError, Forgetting
from dispatcher.custody import erasures
from dispatcher.custody.traces import needles_of, search
from dispatcher.errors import Conflict, DispatcherError, NotFound
from dispatcher.keys import pseudonym, task_tokens
from dispatcher.log import get_logger
from dispatcher.model import LIVE_TASK_STATES
from dispatcher.store import Clock, Store, Tx
from dispatcher.store import erasure as rows
from dispatcher.store.serving import add_event

Connectors = Mapping[str, object]
Rewrite = Callable[[str, Path], None]
"""Writes the whole records of a run to a file anew."""

TRIES: Final = 60
PAUSE: Final = 0.5
"""How often, and how many seconds apart, to look whether a message has left."""


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


@dataclass
class Erased:
    """What an erasure did, and what it could not do.

    Attributes
    ----------
    deleted : Counter of str
        Rows by kind.
    recalled, beyond : Counter of str
        Tasks by connector: open ones taken back, and content out of reach.
    strange : int
        Things in quarantine that told of them.
    exports : list of str
        Files of whole records that were written anew, or deleted.
    left : list of str
        Files that still hold something.
    scrubbed : bool
        Whether the store's files hold nothing of it any more (SQLite).
    """

    deleted: Counter[str] = field(default_factory=Counter)
    recalled: Counter[str] = field(default_factory=Counter)
    beyond: Counter[str] = field(default_factory=Counter)
    strange: int = 0
    exports: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    scrubbed: bool = False


@dataclass(frozen=True)
class Means:
    """What an erasure works with.

    Attributes
    ----------
    store : Store
    connectors : Mapping
        By the operator's names.
    clock : Clock
    rewrite : Callable
        Writes an export anew.
    directory : Path or None
        Where the list of erasures lies, and where to look for files that still hold
        something.
    wait : Callable
        Waits for so many seconds.
    """

    store: Store
    connectors: Connectors
    clock: Clock
    rewrite: Rewrite
    directory: Path | None = None
    wait: Callable[[float], None] = time.sleep


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


def erase(means: Means, name: str) -> Erased:
    """Erase a person with all records, or one record, for good.

    Raises
    ------
    NotFound
    Conflict
        A message with the values is being sent and does not end.
    """
    found = scope(means.store, name)
    if means.directory is not None:
        erasures.note(means.directory / erasures.NAME, name, means.clock())
    done = Erased()
    needles = _needles(means, found)
    for last in (*[False] * (TRIES - 1), True):
        try:
            with means.store.write() as tx:
                records, _ = _records(tx, name)
                entries = rows.entries_of(tx, records)
                erase_in(tx, means, records, entries, done, needles)
                person = rows.subject(tx, name)
                if person is not None:
                    rows.blank_subject(tx, person, means.clock())
                detail: dict[str, int | str] = {"id": name, **done.deleted}
                add_event(tx, means.clock(), "operator", "subject.erased", detail)
        except OnItsWay:
            if last:
                raise still_sending() from None
            means.wait(PAUSE)
        else:
            break
    finish(means, done)
    scrub(means.store, done)
    if means.directory is not None:
        done.left += search(means.directory, needles, but=_own_files(means.store))
    done.left = sorted(set(done.left))
    return done


class OnItsWay(Exception):
    """A message with the values is being sent just now."""


def still_sending() -> Conflict:
    """Error for a message that does not end."""
    return Conflict(
        "a message with these values is being sent and does not end",
        why="what leaves during an erasure would be left outside",
        fix="wait a little and repeat; or stop the daemon first",
    )


def erase_in(
    tx: Tx,
    means: Means,
    records: Sequence[int],
    entries: Sequence[int],
    done: Erased,
    needles: Sequence[bytes],
) -> None:
    """Delete what the store holds of records, in one transaction."""
    if rows.being_sent(tx, entries, means.clock()):
        raise OnItsWay
    tasks = rows.tasks_of(tx, entries, lock=True)
    done.deleted = Counter(rows.counts(tx, records, entries)) + done.deleted
    _recall(tx, means, tasks, done)
    tokens = _tokens(means.store, [task.id for task in tasks])
    done.strange += rows.drop_strange(tx, [*needles, *(t.encode() for t in tokens)])
    rows.unplan(tx, entries)
    rows.blank(tx, records, entries, means.clock())
    rows.add_pending(tx, records)


def _recall(tx: Tx, means: Means, tasks: Iterable[rows.TaskRow], done: Erased) -> None:
    """End the open tasks; count those whose content nobody can call back."""
    ended: dict[str, list[int]] = {"dead": [], "returned": []}
    for task in tasks:
        outside = task.state in ("sent", "published") and not isinstance(
            means.connectors.get(task.connector), Forgetting
        )
        if outside:
            done.beyond[task.connector] += 1
        elif task.state in LIVE_TASK_STATES:
            done.recalled[task.connector] += 1
        if task.state in LIVE_TASK_STATES:
            ended["dead" if task.state == "booked" else "returned"].append(task.id)
    for state, ids in ended.items():
        rows.end_tasks(tx, ids, state)


def _tokens(store: Store, task_ids: Sequence[int]) -> list[str]:
    return task_tokens(store.key("task-key"), task_ids) if task_ids else []


def _needles(means: Means, found: Scope) -> list[bytes]:
    """Texts by which leftovers are known, before they are gone."""
    with means.store.read() as tx:
        keys, texts = [], []
        for row in rows.records(tx, found.record_ids):
            keys.append(row[1])
            texts += [cell.encode() for cell in json.loads(row[3])]
        texts += [row[3] for row in rows.said_of(tx, found.entry_ids)]
        texts += list(rows.shown_of(tx, found.entry_ids))
        if found.id.startswith("s"):
            person = rows.subject(tx, found.id)
            keys.append(b"" if person is None else rows.person_of(tx, person.id))
    return needles_of(keys, texts)


def finish(means: Means, done: Erased) -> bool:
    """Delete what lies outside of the store (spools, exports) of all that was erased.

    Which records those are stands in the store, so that a run that was broken off, or
    met a connector that was away, is ended by the next one.

    Returns
    -------
    bool
        Whether there was anything to do.
    """
    with means.store.write() as tx:
        records = rows.pending(tx)
        if not records:
            return False
        tasks = rows.tasks_of(tx, rows.entries_of(tx, records))
        exports = rows.exports_of(tx, records)
    away = False
    by_connector: dict[str, list[int]] = {}
    for task in tasks:
        by_connector.setdefault(task.connector, []).append(task.id)
    for name, ids in by_connector.items():
        connector = means.connectors.get(name)
        if isinstance(connector, Forgetting):
            try:
                done.left += connector.forget(_tokens(means.store, ids))
            except ConnectorError:
                done.left.append(f"connector {name}: it could not be reached")
                away = True
    for export in exports:
        _renew(means, export, done)
    if not away:
        with means.store.write() as tx:
            rows.drop_pending(tx, records)
    return True


def _renew(means: Means, export: rows.ExportRow, done: Erased) -> None:
    """Write an export anew without what is gone; one that can not be is deleted."""
    path = Path(export.path)
    if path.is_file():
        try:
            means.rewrite(export.run, path)
        except DispatcherError:
            try:
                path.unlink(missing_ok=True)
            except OSError:
                done.left.append(str(path))
                return
        done.exports.append(str(path))
    if not path.exists():
        with means.store.write() as tx:
            rows.drop_export(tx, export.id)


def erase_again(means: Means) -> list[str]:
    """Erase what was erased before and is back, since a backup was restored.

    Returns
    -------
    list of str
        Pseudonyms.
    """
    if means.directory is None:
        return []
    names = erasures.listed(means.directory / erasures.NAME)
    with means.store.read() as tx:
        back = rows.not_erased(tx, names) if names else []
    for name in back:
        erase(means, name)
    if back:
        get_logger("erasure").warning("erased-again", count=len(back))
    return back


def note_export(store: Store, run: str, path: Path, at: int) -> None:
    """Note that the whole records of a run are about to be written to a file."""
    with store.write() as tx:
        rows.add_export(tx, run, str(path.absolute()), at)


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
