"""Erasing a person's or a record's values, on request or by age.

Deleted: values, crops, answers, drafts, results, quarantined answers about them, their
data keys, their rows in spools. Kept: rows without values, and the ledger, which knows
entries, records and people by keyed pseudonyms only. So the history of who was shown
what stays complete, and a record that is loaded again is recognised and refused
(docs/why.md says why that matters).

Everything here may be repeated: an interrupted run is completed by the next one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from connectors.base import ConnectorError, Forgetting
from dispatcher.core import progress
from dispatcher.core.errors import Conflict, DispatcherError, NotFound
from dispatcher.core.keys import pseudonym, spelled, task_tokens
from dispatcher.core.log import get_logger
from dispatcher.custody import erasure_list
from dispatcher.custody.erasure_list import ErasureList
from dispatcher.custody.key_rotation import seal_leftovers
from dispatcher.custody.replaced_stores import put_aside
from dispatcher.custody.residue_scan import sought
from dispatcher.ledger.active_policy import current_policy
from dispatcher.model import LIVE_TASK_STATES
from dispatcher.store import Clock, Store, Tx, collecting, lease, planning, records
from dispatcher.store import erasure as rows
from dispatcher.store import tasks as task_rows
from dispatcher.store.engine import committed
from dispatcher.store.events import add_event

TRIES: Final = 60
PAUSE: Final = 0.5
"""How often, and how many seconds apart, to check whether a message has left."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class Scope:
    """What the store has about a person (``s...``) or a record (``r...``).

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
    """Return what the store has under a pseudonym.

    Raises
    ------
    NotFound
    """
    with store.write() as tx:  # rows are read under lock, nothing is changed
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
    record = rows.lock_record(tx, name) if name.startswith("r") else None
    if record is None:
        raise NotFound(
            f"there is no {name[:40]} in the store",
            why="an ID is what `dispatcher subject find` gives: s... or r...",
            fix="dispatcher subject find --key-from - reads the key from stdin",
        )
    return [record], None


def erase(context: ErasureContext, name: str) -> Erased:
    """Erase a person with all records, or one record, for good.

    The outcome of an uncertain commit is looked up; nothing is repeated blindly. An
    interrupted erasure is completed by repeating it, or by the daemon.

    Raises
    ------
    NotFound
    Conflict
        A message with the values is being sent and does not end.
    StoreUnreachable
        The connection broke, and whether the commit succeeded cannot be found out.
    """
    found = scope(context.store, name)
    traces = sought(context.store, found.id, found.record_ids, found.entry_ids)
    at, spellings = context.clock(), _spelled(context.store, found)
    for path in context.lists:
        erasure_list.note(path, name, at, spellings)
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
    """Erase the rows of a person or record from the store.

    What lies outside the store is noted there and left to :func:`finish`.

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
        add_event(tx, context.clock(), context.actor, "subject.erased", detail)
        return part

    done.add(once_sent(context, work))


def once_sent(context: ErasureContext, work: Callable[[Tx], Result]) -> Result:
    """Run `work` in one transaction, once none of its messages is being sent.

    Raises
    ------
    Conflict
        A message is being sent and does not end.
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
    """Delete the rows of records, in one transaction that may be repeated.

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
    done.strange = collecting.drop_strange(tx, [*needles, *(t.encode() for t in names)])
    planning.unplan(tx, entries)
    rows.suppress(tx, _spelled_in(tx, context.store.key("pseudonym-key"), records))
    rows.blank(tx, records, entries, context.clock())
    rows.add_pending(tx, records)
    return done


def _recall(
    tx: Tx, context: ErasureContext, tasks: Iterable[rows.TaskRow], done: Erased
) -> None:
    """End the open tasks; count those whose content cannot be withdrawn."""
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
        task_rows.end_live(tx, ids, state)


def _spelled(store: Store, found: Scope) -> list[str]:
    """Return the pseudonyms of other spellings of the keys, while the keys exist."""
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
    """Purge deleted rows from the store's files, unless another process prevents it."""
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


Connectors = Mapping[str, object]
Rewrite = Callable[[str, Path], None]
"""Rewrites an export of a run's records."""


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
        Quarantined answers about them.
    exports : list of str
        Exports that were rewritten, or deleted.
    left : list of str
        Files that still contain something of them.
    aside : list of str
        Stores that a restore has put aside: they still contain all values.
    scrubbed : bool
        Whether the store's files contain nothing of it any more (SQLite).
    """

    deleted: Counter[str] = field(default_factory=Counter)
    recalled: Counter[str] = field(default_factory=Counter)
    beyond: Counter[str] = field(default_factory=Counter)
    strange: int = 0
    exports: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)
    scrubbed: bool = False

    def add(self, other: Erased) -> None:
        """Add what one transaction did, once it has committed."""
        self.deleted = other.deleted + self.deleted
        self.recalled += other.recalled
        self.beyond += other.beyond
        self.strange += other.strange

    def tidy(self) -> None:
        """Remove duplicate file names."""
        self.exports = sorted(set(self.exports))
        self.left = sorted(set(self.left))


@dataclass(frozen=True)
class ErasureContext:
    """Dependencies and settings of an erasure.

    Attributes
    ----------
    store : Store
    connectors : Mapping
        By the operator's names.
    clock : Clock
    rewrite : Callable
        Rewrites an export.
    directory : Path or None
        Where a list of erasures lies, and where to look for files with remaining
        values.
    wait : Callable
        Waits for so many seconds.
    shipped : Path or None
        Folder of the shipped ledger: the list is kept there too.
    actor : str
        Who erases, for the audit log.
    """

    store: Store
    connectors: Connectors
    clock: Clock
    rewrite: Rewrite
    directory: Path | None = None
    wait: Callable[[float], None] = time.sleep
    shipped: Path | None = None
    actor: str = field(kw_only=True)

    @property
    def lists(self) -> list[Path]:
        """Files in which erasures are recorded."""
        return erasure_list.places(self.directory, self.shipped)


def tokens(store: Store, task_ids: Sequence[int]) -> list[str]:
    """Return the public tokens of tasks."""
    return task_tokens(store.key("task-key"), task_ids) if task_ids else []


def finish(context: ErasureContext, done: Erased) -> bool:
    """Delete erased data outside of the store (spools, exports).

    The store records what is pending, so that the next run completes one that was
    interrupted or could not reach a connector.

    Returns
    -------
    bool
        Whether there was anything to do.
    """
    records, tasks, exports = committed(context.store, _left)
    if not records:
        return False
    away = False
    by_connector: dict[str, list[int]] = {}
    for task in tasks:
        by_connector.setdefault(task.connector, []).append(task.id)
    for name, ids in by_connector.items():
        connector = context.connectors.get(name)
        if isinstance(connector, Forgetting):
            try:
                done.left += connector.forget(tokens(context.store, ids))
            except ConnectorError:
                done.left.append(f"connector {name}: it could not be reached")
                away = True
    for export in exports:
        _renew(context, export, done)
    if not away:
        committed(context.store, lambda tx: rows.drop_pending(tx, records))
    return True


def _left(
    tx: Tx,
) -> tuple[list[int], Sequence[rows.TaskRow], Sequence[rows.ExportRow]]:
    records = rows.pending(tx)
    tasks = rows.tasks_of(tx, rows.entries_of(tx, records))
    return records, tasks, rows.exports_of(tx, records)


def _renew(context: ErasureContext, export: rows.ExportRow, done: Erased) -> None:
    """Rewrite an export without erased data; delete it if that fails."""
    path = Path(export.path)
    if path.is_file():
        try:
            context.rewrite(export.run, path)
        except DispatcherError:
            try:
                path.unlink(missing_ok=True)
            except OSError:
                done.left.append(str(path))
                return
        done.exports.append(str(path))
    if not path.exists():
        committed(context.store, lambda tx: rows.drop_export(tx, export.id))


def note_export(store: Store, run: str, path: Path, at: int) -> None:
    """Record that an export of a run is about to be written to a file."""
    committed(
        store,
        lambda tx: rows.add_export(tx, run, str(path.absolute()), at),
    )


PIECE: Final = 200
"""Records erased in one transaction."""

BETWEEN: Final = 50
"""Transactions between two cleanings of spools and exports: each reads all of them."""


def count_older(store: Store, moment: int) -> int:
    """Count the records with values that were loaded before a time."""
    with store.read() as tx:
        return rows.count_loaded_before(tx, moment)


def purge(
    context: ErasureContext,
    moment: int,
    *,
    epoch: int | None = None,
    pieces: int | None = None,
) -> Erased:
    """Erase the records that were loaded before a time, piece by piece.

    Parameters
    ----------
    context : ErasureContext
    moment : int
        Microseconds since 1970.
    epoch : int, optional
        Of the daemon's lease, which is then checked in each transaction.
    pieces : int, optional
        At most so many transactions.

    Raises
    ------
    StaleLease
        Another daemon leads.
    """
    done = Erased()
    if purge_rows(context, moment, done, epoch=epoch, pieces=pieces) + finish(
        context, done
    ):
        scrub(context.store, done)
    else:
        done.scrubbed = True  # nothing was there
    done.aside = put_aside(context.store)
    done.tidy()
    return done


def purge_rows(
    context: ErasureContext,
    moment: int,
    done: Erased,
    *,
    epoch: int | None = None,
    pieces: int | None = None,
) -> int:
    """Erase those records in the store only; return how many transactions it took."""
    total, due = 0, None
    if progress.is_heard():
        with context.store.read() as tx:
            due = rows.count_loaded_before(tx, moment)
    while pieces is None or total < pieces:
        part = once_sent(context, partial(_purge_piece, context, moment, epoch))
        if part is None:
            break
        done.add(part)
        total += 1
        progress.report(min(total * PIECE, due or 0), due, "records")
        if total % BETWEEN == 0:
            finish(context, done)
    return total


def _purge_piece(
    context: ErasureContext, moment: int, epoch: int | None, tx: Tx
) -> Erased | None:
    if epoch is not None:
        lease.check_epoch(tx, lease.SHARD, epoch)
    records = rows.loaded_before(tx, moment, PIECE)
    if not records:
        return None
    entries = rows.entries_of(tx, records)
    part = erase_in(tx, context, records, entries)
    for person in rows.subjects_without_records(tx, records):
        rows.blank_subject(tx, person, None)
    detail: dict[str, int | str] = {"records": len(records)}
    add_event(tx, context.clock(), "retention", "records.purged", detail)
    return part


# -- erasing again what a backup brought back; erasure by age --------------------------


def erase_again(context: ErasureContext) -> list[str]:
    """Erase again what a backup that was put back by hand brought back.

    Returns
    -------
    list of str
        Pseudonyms.
    """
    listed = erasure_list.share(context.lists)
    back = _back(context, listed)
    for name in back:
        erase(context, name)
    if _settle(context, listed):
        purge(context, listed.before)
    if back:
        get_logger("erasure").warning("erased-again", count=len(back))
    return back


def keep_erased(context: ErasureContext, listed: ErasureList) -> int:
    """Erase earlier erasures again in a restored store, before it takes its place.

    Spools and exports are cleaned when the store is used.

    Returns
    -------
    int
        People and records erased again, including those erased by age.
    """
    back = _back(context, listed)
    for name in back:
        erase_rows(context, name, Erased())
    aged = _settle(context, listed)
    if aged:
        purge_rows(context, listed.before, Erased())
    return len(back) + aged


def any_back(tx: Tx, listed: ErasureList) -> bool:
    """Whether any erased person or record is back."""
    return bool(_named(tx, listed)) or _aged(tx, listed) > 0


def _back(context: ErasureContext, listed: ErasureList) -> list[str]:
    with context.store.read() as tx:
        return _named(tx, listed)


def _named(tx: Tx, listed: ErasureList) -> list[str]:
    return rows.not_erased(tx, listed.names) if listed.names else []


def _aged(tx: Tx, listed: ErasureList) -> int:
    return rows.count_loaded_before(tx, listed.before) if listed.before else 0


def _settle(context: ErasureContext, listed: ErasureList) -> int:
    """List other spellings as erased too; return how many records are back by age."""
    with context.store.read() as tx:
        known = records.suppressed(tx, listed.spelled)
        lost = bool(listed.before) and records.lost_before(tx, listed.before)
        aged = _aged(tx, listed)
    if len(known) < len(listed.spelled) or lost:
        with context.store.write() as tx:
            rows.suppress(tx, listed.spelled)
            records.give_up_lost(tx, listed.before)
    return aged


class Retention:
    """The daemon's tick: erases what the policy's ``retain`` no longer allows.

    Parameters
    ----------
    context : ErasureContext
    """

    def __init__(self, context: ErasureContext) -> None:
        self._context = context

    def tick(self, epoch: int) -> int:
        """Erase a bounded number of records that are too old; return how many.

        Raises
        ------
        StaleLease
            This daemon does not lead any more.
        """
        seal_leftovers(self._context.store)
        erase_again(self._context)
        with self._context.store.read() as tx:
            force = current_policy(tx)
        retain = None if force is None else force.policy.entity.retain
        if retain is None:
            finish(self._context, Erased())  # of an erasure that was broken off
            return 0
        done = purge(
            self._context, self._context.clock() - retain, epoch=epoch, pieces=20
        )
        return done.deleted["records"]
