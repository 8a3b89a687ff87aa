"""Loading: turn a file into records, subjects and entries, chunk by chunk.

Each chunk is one transaction with its lines in the ledger, so a killed load leaves
whole chunks only; loading the same file again adds the others. A record that exists
already with the same cells is skipped, with other cells it is rejected.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from dispatcher.core.errors import Conflict, Invalid, StoreLocked
from dispatcher.core.keys import spelled
from dispatcher.core.plurals import count
from dispatcher.ledger.active_policy import ActivePolicy, current_policy, no_policy
from dispatcher.ledger.loads import register_keys
from dispatcher.stages.intake import record_rows, runs
from dispatcher.stages.intake.images import PageFolder
from dispatcher.stages.intake.opening import folder_of_pages, open_table
from dispatcher.stages.intake.record_builder import (
    CandidateRow,
    PreparedRecord,
    RecordBuilder,
)
from dispatcher.stages.intake.rejects import RejectsFile
from dispatcher.stages.intake.runs import check_run_name
from dispatcher.stages.intake.table import (
    DOUBLED,
    ROW_KEY,
    FileFacts,
    OpenedFile,
    Options,
    RejectedRow,
    RowBatch,
)
from dispatcher.store import Clash, Clock, Store, Tx, notices
from dispatcher.store import records as rows
from dispatcher.store.policies import lock_policy_shared
from policies.policy import Policy

CHUNK_BYTES: Final = 16 << 20  # of shown forms in one transaction
CHUNK_ROWS: Final = 5_000
PAGE_ROWS: Final = 16
"""Rows a chunk where pages are cut: one takes up to a second or two of one core."""
MOST: Final = 2**63
TRIES: Final = 5  # when another load adds the same records meanwhile
DEFAULT_RUN: Final = "default"

CHANGED: Final = (
    "the key is in the store already, with other cells in {columns}; records never change: "
    "to load this row, give it a new key (the old one keeps its answers; {seen})"
)
COUNTS_ON: Final = "what was seen of its {subject} counts on"
COUNTS_NOT: Final = (
    "what was seen of it does not count for the new one: the policy names no subject, "
    "the column that says whose a record is"
)
DIFFERENT: Final = 3
"""Columns that the reason of a changed row names, at most."""
ERASED: Final = "its values were erased, and it is not taken in again"
RESPELLED: Final = "its key is one that was erased, but for its spelling"
OTHER: Final = "the ledger knows it with other fields, subject, time or place"
ERASED_MEANWHILE: Final = "a person of this load was erased meanwhile"


def load(
    store: Store,
    where: Path | BinaryIO,
    *,
    clock: Clock,
    run: str = DEFAULT_RUN,
    options: Options | None = None,
    name: str | None = None,
    folder: Path | None = None,
    rejects: Path | None = None,
    progress: Callable[[LoadProgress], None] | None = None,
    pilot: int | None = None,
    actor: str = "operator",
) -> Loaded:
    """Load a file or a folder of scans into the store under the policy in force.

    Parameters
    ----------
    store : Store
    where : Path or binary stream
    clock : Clock
    run : str
        Name of the run that the records belong to; made if there is none.
    options : Options, optional
    name : str, optional
        Name of the file, by default its own. A file of the same name and columns
        repeats the same load.
    folder : Path, optional
        Where pages of images lie; by default the folder of the file, or that of the
        scans.
    rejects : Path, optional
        Where rejected rows are listed.
    progress : Callable, optional
        Called after each chunk.
    pilot : int, optional
        How many records of the run may be shown until its pilot is accepted.
    actor : str
        Who begins the pilot, for the event.

    Raises
    ------
    Usage
        The run's name is invalid.
    Invalid
        The file is no table, has no row, or lacks a column that the policy names.
    Conflict
        No policy is in force, another one came during the load, or the run is
        cancelled. What was loaded before stays.
    """
    check_run_name(run)
    if folder is not None and not folder.is_dir():
        raise Invalid(
            f"there is no folder {folder}",
            why="the pages of images are looked for in it",
            fix="check --folder; without it they are looked for beside the file",
        )
    force = _force(store)
    options = _numbered(force.policy, where, options or Options(batch_rows=CHUNK_ROWS))
    if any(field.image_column for field in force.policy.entity.fields.values()):
        options = replace(options, batch_rows=min(options.batch_rows, PAGE_ROWS))
    if folder is None:
        folder = folder_of_pages(where)
    with (
        open_table(where, options, name=name) as table,
        RejectsFile(rejects) as rejected,
    ):
        loading = _Loading(store, force, table, PageFolder(folder), clock, rejected)
        loading.begin(run, pilot, actor)
        for batch in table.batches:
            loading.take(batch)
            if progress is not None:
                progress(loading.counts)
        loading.end()
        return Loaded(
            table.facts,
            run,
            loading.load_id,
            loading.counts,
            rejected.path if rejected.count else None,
        )


def as_loaded(store: Store, where: Path | BinaryIO, options: Options) -> Options:
    """Return how a load reads a file under the policy in force, if there is one."""
    with store.read() as tx:
        force = current_policy(tx)
    return options if force is None else _numbered(force.policy, where, options)


def _numbered(policy: Policy, where: Path | BinaryIO, options: Options) -> Options:
    """Number the rows of a file where the policy's key asks for it, and no column is it."""
    is_asked = policy.entity.key == ROW_KEY and isinstance(where, Path)
    if options.numbered or not is_asked:
        return options
    with open_table(where, options) as table:
        return options if ROW_KEY in table.columns else replace(options, numbered=True)


def _force(store: Store) -> ActivePolicy:
    with store.read() as tx:
        force = current_policy(tx)
    if force is None:
        raise no_policy()
    return force


class _Loading:
    """One load in progress."""

    def __init__(
        self,
        store: Store,
        force: ActivePolicy,
        table: OpenedFile,
        pages: PageFolder,
        clock: Clock,
        rejected: RejectsFile,
    ) -> None:
        self.counts = LoadProgress(size=table.size)
        self.load_id = 0
        self._run, self._run_id = "", 0
        self._store = store
        self._force = force
        self._table = table
        self._pages = pages
        self._clock = clock
        self._rejected = rejected
        self._sent = frozenset(force.asked(feeds=True))
        self._secret = store.key("pseudonym-key")
        self._mine: list[tuple[int, int]] = []  # ranges of ids that this load added
        self._columns_of: dict[int, tuple[str, ...]] = {}
        self._builder = self._builder_for(table.columns)

    def _builder_for(self, columns: Sequence[str]) -> RecordBuilder:
        force = self._force
        return RecordBuilder(
            force.policy, force.field_ids, columns, self._secret, self._pages
        )

    def begin(self, run: str, pilot: int | None, actor: str) -> None:
        """Find or create the run and the load; the pilot first, before any showing."""
        now = self._clock()
        source = self._table.facts.name
        columns = self._table.columns
        with self._store.write() as tx:
            found = rows.run(tx, run, now)
            if found.state != "active":
                raise Conflict(
                    f"run {run} takes no records",
                    why="it is of records that were lost with their store",
                    fix="name another run with --run",
                )
            self._run, self._run_id = run, found.id
            if pilot is not None:
                runs.begin_in(tx, run, pilot, now, actor)
            for earlier in rows.loads_of(tx, found.id, source):
                if _names(earlier.columns)[: len(columns)] == columns:
                    self.load_id = earlier.id
                    rows.begin_again(tx, earlier.id, now)
                    return
            self.load_id = rows.begin_load(tx, found.id, source, _json(columns), now)

    def take(self, batch: RowBatch) -> None:
        """Load the rows of a batch."""
        refused = self._taken(batch)
        self.counts.rejected += len(refused)
        self.counts.position = self._table.position()
        self._rejected.add(sorted(refused, key=lambda r: r.line))

    def _taken(self, batch: RowBatch) -> list[RejectedRow]:
        """Load the rows of a batch; return the rejected ones."""
        if batch.columns != self._builder.columns:
            self._builder = self._builder_for(batch.columns)
        found, refused = self._builder.rows(batch)
        refused += batch.rejected
        for chunk in self._chunks(self._fresh(found, refused), refused):
            self._bring(chunk, refused)
        return refused

    def end(self) -> None:
        """Record that the file was read to its end.

        Raises
        ------
        Invalid
            It had no row.
        """
        counts = self.counts
        with self._store.write() as tx:
            rows.end_load(tx, self.load_id, counts.rejected)
            notices.add(tx, self._clock(), "record.loaded", {"load": self.load_id})
            runs.fill(tx, self._run)
        if not counts.records + counts.skipped + counts.rejected:
            raise Invalid(
                f"{self._table.facts.name} has a header and no row",
                why="there is nothing to load",
                fix="check the file, or the command that wrote it",
            )

    def _fresh(
        self, found: list[CandidateRow], refused: list[RejectedRow]
    ) -> list[CandidateRow]:
        """Return the rows whose key no earlier line and no record has."""
        key = self._force.policy.entity.key
        first: dict[str, CandidateRow] = {}
        for row in found:
            if first.setdefault(row.pseudonym, row) is not row:
                refused.append(RejectedRow(row.line, key, DOUBLED))  # noqa: PERF401
        return self._unknown(list(first.values()), refused)

    def _unknown(
        self, found: list[CandidateRow], refused: list[RejectedRow]
    ) -> list[CandidateRow]:
        """Return the rows that are no records yet; skip or reject the others."""
        key = self._force.policy.entity.key
        if not found:
            return found
        known, erased, respelled = self._known(found)
        if not known and not erased and not respelled:
            return found
        fresh: list[CandidateRow] = []
        for row in found:
            record = known.get(row.pseudonym)
            row.lost = record is not None and record.lost
            gone = record is not None and record.erased and not record.lost
            if row.person in erased or gone:
                refused.append(RejectedRow(row.line, key, ERASED))
            elif row.pseudonym in respelled:
                refused.append(RejectedRow(row.line, key, RESPELLED))
            elif record is None or record.lost:
                fresh.append(row)
            elif self._is_mine(record.id):
                refused.append(RejectedRow(row.line, key, DOUBLED))
            elif differing := self._differing(row, record):
                refused.append(RejectedRow(row.line, key, self._changed(differing)))
            else:
                self.counts.skipped += 1
        return fresh

    def _is_mine(self, record_id: int) -> bool:
        """Whether this load added the record, so that two lines have its key."""
        at = bisect_right(self._mine, (record_id, MOST)) - 1
        return at >= 0 and record_id < self._mine[at][1]

    def _known(
        self, found: list[CandidateRow]
    ) -> tuple[dict[str, rows.RecordRow], frozenset[str], frozenset[str]]:
        """Return the records among the rows; erased people; rows of respelled keys."""
        people = sorted({row.person for row in found if row.person is not None})
        with self._store.read() as tx:
            known = rows.known_records(tx, [row.pseudonym for row in found])
            erased = rows.erased_people(tx, people) if people else frozenset()
            loads = {record.load_id for record in known.values()}
            for number, columns in rows.columns_of_loads(tx, loads).items():
                self._columns_of[number] = _names(columns)
            respelled = _respelled(tx, self._secret, found, known)
        return known, erased, respelled

    def _differing(self, row: CandidateRow, record: rows.RecordRow) -> list[str]:
        """Return the columns in which a row has other cells than its record has."""
        cells = msgspec.json.decode(record.columns, type=list[str])
        columns = self._columns_of[record.load_id]
        if columns == self._builder.columns and cells == list(row.cells):
            return []
        before = _filled(columns, cells)
        now = _filled(self._builder.columns, row.cells)
        names = dict.fromkeys((*self._builder.columns, *columns))
        return [name for name in names if before.get(name) != now.get(name)]

    def _changed(self, columns: Sequence[str]) -> str:
        """Say why a row is refused whose key is known with other cells."""
        named = ", ".join(columns[:DIFFERENT])
        if len(columns) > DIFFERENT:
            named += f" and {count(len(columns) - DIFFERENT, 'more column')}"
        subject = self._force.policy.entity.subject
        seen = COUNTS_NOT if subject is None else COUNTS_ON.format(subject=subject)
        return CHANGED.format(columns=named, seen=seen)

    def _bring(self, chunk: list[PreparedRecord], refused: list[RejectedRow]) -> None:
        """Write a chunk, except what another load adds meanwhile."""
        for last in (*[False] * (TRIES - 1), True):
            try:
                self._write(chunk, refused)
            except StoreLocked:  # also a deadlock with another load: nothing is lost
                if last:
                    raise
                continue
            except Clash:
                left = self._unknown([prepared.row for prepared in chunk], refused)
                kept = {row.pseudonym for row in left}
                chunk = [s for s in chunk if s.row.pseudonym in kept]
                if chunk:
                    continue
            return
        raise _crowded()

    def _chunks(
        self, fresh: Iterable[CandidateRow], refused: list[RejectedRow]
    ) -> Iterator[list[PreparedRecord]]:
        chunk: list[PreparedRecord] = []
        size = 0
        for row in fresh:
            prepared = self._builder.prepared(row)
            if isinstance(prepared, RejectedRow):
                refused.append(prepared)
                continue
            chunk.append(prepared)
            size += prepared.size
            if size >= CHUNK_BYTES:
                yield chunk
                chunk, size = [], 0
        if chunk:
            yield chunk

    def _write(self, chunk: list[PreparedRecord], refused: list[RejectedRow]) -> None:
        """Write records, subjects, entries and their ledger keys in one transaction."""
        now = self._clock()
        fresh = [prepared for prepared in chunk if not prepared.row.lost]
        with self._store.write() as tx:
            if lock_policy_shared(tx) != self._force.version:
                raise _other_policy()
            back, others = record_rows.sorted_out(
                tx, self._force, [prepared for prepared in chunk if prepared.row.lost]
            )
            brought = [*fresh, *(one.prepared for one in back)]
            known = rows.subjects(tx, _people(brought))
            if any(person.erased for person in known.values()):
                raise Clash(ERASED_MEANWHILE)
            of = record_rows.Bound(self._run_id, self.load_id, now)
            first = record_rows.add(tx, of, fresh, known)
            registered = [
                *record_rows.ledger_keys(fresh),
                *record_rows.bring_back(tx, of, back, known),
            ]
            returned = [one.record.id for one in back]
            rows.hold_records(tx, self._run_id, first, len(fresh), returned, now)
            register_keys(tx, registered, at=now)
            columns = _json(self._builder.columns)
            rows.note_chunk(tx, self.load_id, columns, len(brought))
        insort(self._mine, (first, first + len(fresh)))
        key = self._force.policy.entity.key
        refused += [RejectedRow(prepared.row.line, key, OTHER) for prepared in others]
        self.counts.records += len(brought)
        self.counts.returned += len(back)
        fields = [number for one in brought for number, _, _ in one.shown]
        self.counts.entries += len(fields)
        self.counts.sent += sum(number in self._sent for number in fields)


class _Rehearsal(_Loading):
    """A dry run of a load."""

    def __init__(
        self,
        store: Store,
        force: ActivePolicy,
        table: OpenedFile,
        pages: PageFolder,
        clock: Clock,
    ) -> None:
        super().__init__(store, force, table, pages, clock, RejectsFile(None))
        self._brought: set[str] = set()

    def refused(self, batch: RowBatch) -> list[RejectedRow]:
        """Return the rows of a batch that a load would reject, by line."""
        return sorted(self._taken(batch), key=lambda r: r.line)

    def _unknown(
        self, found: list[CandidateRow], refused: list[RejectedRow]
    ) -> list[CandidateRow]:
        key = self._force.policy.entity.key
        refused += [
            RejectedRow(row.line, key, DOUBLED)
            for row in found
            if row.pseudonym in self._brought
        ]
        new = [row for row in found if row.pseudonym not in self._brought]
        return super()._unknown(new, refused)

    def _bring(self, chunk: list[PreparedRecord], refused: list[RejectedRow]) -> None:
        del refused
        self._brought.update(prepared.row.pseudonym for prepared in chunk)


def screen(
    store: Store, table: OpenedFile, folder: Path, clock: Clock
) -> Callable[[RowBatch], list[RejectedRow]] | None:
    """Return a function that finds the rows of a table that a load would reject now.

    Returns
    -------
    callable or None
        None if no policy is in force, or it is about other columns.
    """
    with store.read() as tx:
        force = current_policy(tx)
    if force is None:
        return None
    try:
        return _Rehearsal(store, force, table, PageFolder(folder), clock).refused
    except Invalid:
        return None


def _people(chunk: Iterable[PreparedRecord]) -> dict[str, bytes]:
    return {
        prepared.row.person: prepared.row.subject.encode()
        for prepared in chunk
        if prepared.row.person is not None
    }


def _json(columns: Sequence[str]) -> str:
    return msgspec.json.encode(list(columns)).decode()


def _names(columns: str) -> tuple[str, ...]:
    return tuple(msgspec.json.decode(columns, type=list[str]))


def _filled(columns: Sequence[str], cells: Sequence[str]) -> dict[str, str]:
    pairs = zip(columns, cells, strict=False)  # an early row lacks late columns
    return {name: cell for name, cell in pairs if cell}


def _other_policy() -> Conflict:
    return Conflict(
        "another policy came into force during the load",
        why="the rows so far were loaded under the one before",
        fix="load the file again: rows that are in already are skipped",
    )


def _crowded() -> Conflict:
    return Conflict(
        "another load keeps bringing the same records",
        why="two loads of one file run side by side",
        fix="let one of them end, then load again: what is in is skipped",
    )


@dataclass(slots=True)
class LoadProgress:
    """Progress of a load.

    Attributes
    ----------
    records, entries : int
        New in the store, or back in it.
    sent : int
        Of these entries, those that the policy sends to anybody.
    returned : int
        Records lost with a store, and restored.
    skipped : int
        In it already, with the same cells.
    rejected : int
    position : int
        Bytes of the file read.
    size : int or None
        Bytes of the file; None for a stream.
    """

    records: int = 0
    entries: int = 0
    sent: int = 0
    skipped: int = 0
    rejected: int = 0
    returned: int = 0
    position: int = 0
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """Result of a load.

    Attributes
    ----------
    facts : FileFacts
        How the file was understood.
    run : str
    load_id : int
    counts : LoadProgress
    rejects : Path or None
        The file of rejected rows, if there are any and a path was given.
    """

    facts: FileFacts
    run: str
    load_id: int
    counts: LoadProgress
    rejects: Path | None


def _respelled(
    tx: Tx, secret: bytes, found: Sequence[CandidateRow], known: Collection[str]
) -> frozenset[str]:
    """Return the rows of somebody who was erased under another spelling.

    A record with exactly the same key (in ``known``) belongs to somebody else, who was
    loaded before the erasure.

    Returns
    -------
    frozenset of str
        Pseudonyms of the rows' records.
    """
    if not rows.suppresses(tx):
        return frozenset()
    new = [row for row in found if row.pseudonym not in known]
    there = rows.known_people(tx, [row.person for row in new if row.person is not None])
    names = {spelled(secret, "r", row.key): row.pseudonym for row in new}
    people = {
        row.person: spelled(secret, "s", row.subject)
        for row in new
        if row.person is not None and row.person not in there
    }
    hit = rows.suppressed(tx, [*names, *people.values()])
    return frozenset(
        row.pseudonym
        for row in new
        if spelled(secret, "r", row.key) in hit or people.get(row.person or "") in hit
    )
