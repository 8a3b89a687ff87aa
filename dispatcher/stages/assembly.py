"""Assembly: turn the answers to an entry into its result, or ask for another showing.

An answer is processed while ``answer.counted`` is 0, so a late one (after its entry was
settled, from another process, while this stage was at work) is never missed.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from dispatcher.core import progress
from dispatcher.core.errors import Invalid, NotFound
from dispatcher.core.log import get_logger
from dispatcher.core.private_files import private
from dispatcher.export_format import (
    FORMS,
    STATES,
    Cell,
    Layout,
    answer_of,
    decided_by,
    how_written,
    load_polars,
    state_of,
    write,
    write_parquet,
)
from dispatcher.ledger.active_policy import ActivePolicy, current_policy, no_policy
from dispatcher.model import LIVE_TASK_STATES, Result
from dispatcher.store import Clock, Store, Tx, lease, statistics
from dispatcher.store import answers as rows
from dispatcher.store import ledger as gate_rows
from dispatcher.store.answers import AnswerRow, FilledRow
from policies.answers.consensus import Consensus, Given, Next, decide, weigh
from policies.answers.validation import Mark, Valid, check
from policies.policy import Field

BATCH: Final = 500
"""Entries counted in one transaction."""

TURNS: Final = 20
"""Transactions in one tick, at most."""

_STATES: Final = {
    Next.WAIT: "open",
    Next.ONE_MORE: "open",
    Next.ACCEPT: "answered",
    Next.CONFLICT: "conflict",
}


class Assembly:
    """The stage; one object lives as long as the daemon.

    Parameters
    ----------
    store : Store
    clock : Clock
    held_back : int
        Microseconds for which an answer may be taken back, and is not counted.
    """

    def __init__(self, store: Store, clock: Clock, held_back: int = 0) -> None:
        self._store = store
        self._clock = clock
        self._held_back = held_back
        self._swept = 0
        self._log = get_logger("assembly")

    def tick(self, epoch: int) -> int:
        """Count new answers, then check some entries that no longer wait for anything.

        Returns
        -------
        int
            Entries looked at because of new answers.

        Raises
        ------
        StaleLease
            This daemon does not lead any more.
        """
        looked = 0
        for _ in range(TURNS):
            with self._store.write() as tx:
                lease.check_epoch(tx, lease.SHARD, epoch)
                ids = rows.uncounted(tx, BATCH, self._clock() - self._held_back)
                self._count(tx, ids)
            looked += len(ids)
            if len(ids) < BATCH:
                break
        self._sweep(epoch)
        return looked

    def _sweep(self, epoch: int) -> None:
        """Find open entries that no longer wait for anything: late conflicts.

        Nothing else notices when the last task of an entry is returned or expires,
        since that brings no answer. Only reads, unless there is something to write.
        """
        with self._store.read() as tx:
            waiting = rows.stalled(tx, self._swept, BATCH, LIVE_TASK_STATES)
            found, _ = self._decide(tx, rows.answers_of(tx, waiting), waiting)
        self._swept = waiting[-1] if len(waiting) == BATCH else 0
        ended = [result.entry_id for result in found if result.state == "conflict"]
        if ended:
            with self._store.write() as tx:
                lease.check_epoch(tx, lease.SHARD, epoch)
                self._count(tx, ended)

    def _count(self, tx: Tx, ids: Sequence[int]) -> None:
        """Decide on entries and store the decisions, in the caller's transaction."""
        if not ids:
            return
        answers = rows.answers_of(tx, ids, lock=True)
        judged = rows.judged(tx, ids)  # what an operator decided stays as it is
        results, right = self._decide(
            tx,
            [row for row in answers if row.entry_id not in judged],
            [entry_id for entry_id in ids if entry_id not in judged],
        )
        rows.save(tx, results, [row.task_id for row in answers], right)
        conflicts = sum(result.state == "conflict" for result in results)
        if conflicts:
            self._log.info("conflicts", entries=conflicts)

    def _decide(
        self, tx: Tx, answers: Sequence[AnswerRow], ids: Sequence[int]
    ) -> tuple[list[Result], dict[int, float]]:
        """Decide on entries; also return the accounts' quality."""
        force = current_policy(tx)
        asked = _asked(tx, ids, force)
        given: dict[int, list[Given]] = {entry_id: [] for entry_id in asked}
        for row in answers:
            field = asked.get(row.entry_id)
            if field is not None and (valid := _valid(field, row)) is not None:
                given[row.entry_id].append(Given(str(row.account_id), valid))
        order = list(given)
        known = {str(row.account_id): row.quality for row in answers}
        weighed = weigh([(asked[n], given[n]) for n in order], known)
        left = self._showings_left(tx, order, force)
        results = []
        for entry_id, confidence in zip(order, weighed.confidence, strict=True):
            field, own = asked[entry_id], given[entry_id]
            found = decide(field, own, confidence, left[entry_id])
            results.append(self._result(entry_id, field, len(own), found))
        return results, {int(name): right for name, right in weighed.right.items()}

    def _showings_left(
        self, tx: Tx, ids: Sequence[int], force: ActivePolicy | None
    ) -> dict[int, int]:
        """How often each entry may still bring an answer: showings and tasks left."""
        if force is None or not ids:
            return {}
        left = {
            entry.id: force.fields[entry.field_id].showings
            for entry in gate_rows.entries(tx, ids)
        }
        for line in gate_rows.showings_of(tx, ids):
            left[line.entry_id] += line.extra - line.showing
        live = rows.live_tasks(tx, ids, LIVE_TASK_STATES)
        return {n: max(0, count) + live.get(n, 0) for n, count in left.items()}

    def _result(
        self, entry_id: int, field: Field, answers: int, found: Consensus
    ) -> Result:
        known = found.next is not Next.WAIT
        more = found.next is Next.ONE_MORE
        return Result(
            entry_id=entry_id,
            value=_stored(found.text, found.mark) if known else None,
            confidence=found.confidence,
            wanted=max(field.answers, answers + 1 if more else 0),
            state=_STATES[found.next],
            at=self._clock(),
        )


def _asked(tx: Tx, ids: Sequence[int], force: ActivePolicy | None) -> dict[int, Field]:
    """Fields of entries that the policy in force asks for."""
    if force is None:
        return {}
    fields = force.policy.entity.fields
    return {
        entry.id: fields[force.fields[entry.field_id].name]
        for entry in gate_rows.entries(tx, ids)
        if entry.field_id in force.fields
    }


def _valid(field: Field, row: AnswerRow) -> Valid | None:
    """Validate an answer again: the policy may have changed since it was given."""
    if not row.valid:
        return None
    verdict = check(field, row.raw.decode("utf-8", "replace"))
    return verdict if isinstance(verdict, Valid) else None


@dataclass(frozen=True)
class Reading:
    """The answers to one entry that mean the same.

    Attributes
    ----------
    letter : str
        ``A``, ``B``…, in the order in which they were given.
    value : bytes
        As a result stores it, of the most reliable worker among them.
    tasks : tuple of int
        Whose answers they are.
    accounts : tuple of int
        Their accounts.
    """

    letter: str
    value: bytes = field(repr=False)
    tasks: tuple[int, ...]
    accounts: tuple[int, ...]


def readings(tx: Tx, entry_ids: Sequence[int]) -> dict[int, list[Reading]]:
    """Group the valid answers to each entry by what they mean."""
    groups: dict[int, dict[str, list[tuple[AnswerRow, Valid]]]] = {
        entry_id: {} for entry_id in entry_ids
    }
    for row, _, valid in valid_answers(tx, entry_ids):
        groups[row.entry_id].setdefault(valid.key, []).append((row, valid))
    return {
        entry_id: [
            Reading(
                _letters(place),
                stored(max(same, key=lambda one: one[0].quality)[1]),
                tuple(row.task_id for row, _ in same),
                tuple(row.account_id for row, _ in same),
            )
            for place, same in enumerate(found.values())
        ]
        for entry_id, found in groups.items()
    }


def valid_answers(
    tx: Tx, entry_ids: Sequence[int]
) -> Iterator[tuple[AnswerRow, Field, Valid]]:
    """Answers that are valid under the policy in force, with how it asks for the field."""
    fields = asked_of(tx, entry_ids)
    for row in rows.answers_of(tx, entry_ids):
        asked = fields.get(row.entry_id)
        valid = None if asked is None else _valid(asked, row)
        if asked is not None and valid is not None:
            yield row, asked, valid


def stored(answer: Valid) -> bytes:
    """Return a valid answer as a result stores it."""
    return _stored(answer.text, answer.mark)


def _stored(text: str, mark: Mark | None) -> bytes:
    return (text if mark is None else f"[{mark.value}]").encode()


def alike(tx: Tx, entry_ids: Sequence[int]) -> dict[int, str]:
    """Which answers to an entry mean the same, by task: ``A``, ``B``…, and no value.

    One that is not valid under the policy in force is left out.
    """
    return {
        task: one.letter
        for found in readings(tx, entry_ids).values()
        for one in found
        for task in one.tasks
    }


def asked_of(tx: Tx, entry_ids: Sequence[int]) -> dict[int, Field]:
    """Return how the policy in force asks for each entry; others are left out."""
    return _asked(tx, entry_ids, current_policy(tx))


def _letters(place: int) -> str:
    """``A`` to ``Z``, then ``A2`` and so on."""
    times, letter = divmod(place, 26)
    return chr(ord("A") + letter) + (str(times + 1) if times else "")


@dataclass
class Reassembled:
    """Summary of what was written.

    Attributes
    ----------
    records : int
    whole : int
        Records of which no asked field is open or in conflict.
    states : dict of str to int
        Asked fields by state.
    """

    records: int = 0
    whole: int = 0
    states: dict[str, int] = field(default_factory=dict)


def reassemble(
    store: Store, run: str, target: Path, form: str = "", *, excel_guard: bool = True
) -> Reassembled:
    """Write the records of a run to a file (mode 0600), put in place once complete.

    Parameters
    ----------
    store : Store
    run : str
        Name of the run.
    target : Path
        An existing file is replaced.
    form : str
        ``csv``, ``jsonl`` or ``parquet``; by default what the name ends in.
    excel_guard : bool
        CSV: put ``'`` before cells that a spreadsheet would run as a formula.

    Raises
    ------
    NotFound
        There is no such run.
    Invalid
        The form is none of the three, the directory cannot be written to, or Parquet
        was asked for and its package is missing.
    """
    form = form or target.suffix.lstrip(".").lower()
    if form not in FORMS:
        raise Invalid(
            f"records are written as {', '.join(FORMS)}, not as {form or 'nothing'!r}",
            why="the form comes from --format, or from the ending of the file's name",
            fix="name the file NAME.csv, NAME.jsonl or NAME.parquet",
        )
    if target.is_dir():
        raise Invalid(
            f"{target} is a folder",
            why="records are written to a file",
            fix=f"name a file in it: {target / f'records.{form}'}",
        )
    is_stream = target.exists() and not target.is_file()  # a pipe or a device
    if form == "parquet" and not is_stream:
        return _replace(target, lambda path: _write_parquet(store, run, path))

    def write(path: Path) -> Reassembled:
        with path.open("wb") as stream:
            done = write_records(store, run, stream, form, excel_guard=excel_guard)
            stream.flush()
            if not is_stream:
                os.fsync(stream.fileno())
        return done

    return _write(target, target, write) if is_stream else _replace(target, write)


def rewrite(store: Store, run: str, target: Path) -> Reassembled:
    """Rewrite an export in its own format from the current store.

    Raises
    ------
    NotFound, Invalid
        As :func:`reassemble`.
    """
    try:
        written = how_written(target)
    except OSError as error:
        raise Invalid(
            f"{target} cannot be read",
            why=error.strerror or type(error).__name__,
            fix="let the user that runs this read it",
        ) from error
    return reassemble(store, run, target, written.form, excel_guard=written.guarded)


def write_records(
    store: Store, run: str, stream: BinaryIO, form: str, *, excel_guard: bool = True
) -> Reassembled:
    """Write the records of a run to a stream as ``csv`` or ``jsonl``."""
    return _write_records(store, run, stream, form, excel_guard)[0]


def _write_records(
    store: Store, run: str, stream: BinaryIO, form: str, excel_guard: bool
) -> tuple[Reassembled, Layout]:
    done = Reassembled(states=dict.fromkeys(STATES, 0))
    with store.read() as tx:
        source = _Source.of(tx, run)
        found = _rows(tx, source, done)
        write(stream, form, source.layout.names, found, guarded=excel_guard)
    return done, source.layout


@dataclass(frozen=True)
class _Source:
    """A run prepared for export."""

    run_id: int
    layout: Layout
    by_load: dict[int, list[int]]  # place of each column of a load
    asked: list[int]  # field ids

    @classmethod
    def of(cls, tx: Tx, run: str) -> _Source:
        found = rows.run_named(tx, run)
        if found is None:
            raise NotFound(
                f"there is no run {run!r}",
                why="records are put together run by run",
                fix="see the runs: dispatcher runs list",
                name=run,
                known=statistics.runs(tx),
            )
        force = current_policy(tx)
        if force is None:
            raise no_policy()
        asked = force.asked()
        loads = {n: json.loads(columns) for n, columns in rows.loads(tx, found)}
        layout = Layout.of(
            (name for names in loads.values() for name in names),
            [force.fields[number].name for number in asked],
        )
        places = {name: place for place, name in enumerate(layout.loaded)}
        return cls(
            found,
            layout,
            {n: [places[name] for name in names] for n, names in loads.items()},
            asked,
        )


def _rows(tx: Tx, source: _Source, done: Reassembled) -> Iterator[list[Cell]]:
    """Join records and results, both streaming in by record."""
    filled = rows.filled(tx, source.run_id)
    upcoming = next(filled, None)
    records = progress.counted(
        rows.records(tx, source.run_id),
        "records",
        lambda: rows.count_records(tx, source.run_id),
    )
    for record_id, load_id, cells in records:
        known: dict[int, FilledRow] = {}
        while upcoming is not None and upcoming.record_id <= record_id:
            if upcoming.record_id == record_id:
                known[upcoming.field_id] = upcoming
            upcoming = next(filled, None)
        loaded: list[Cell] = [""] * len(source.layout.loaded)
        places = source.by_load.get(load_id, ())
        for place, cell in zip(places, json.loads(cells), strict=False):
            loaded[place] = cell
        entries = [known.get(field_id) for field_id in source.asked]
        states = [state_of(entry) for entry in entries]
        for state in states:
            done.states[state] += 1
        done.records += 1
        done.whole += not {"open", "conflict"} & set(states)
        yield source.layout.row(loaded, entries)


@dataclass(frozen=True)
class Values:
    """The values of one record.

    Attributes
    ----------
    pseudonym, key : str
    loaded : Mapping of str to Cell
        As they were loaded, by column.
    answers : Mapping of str to str
        By field; empty where there is none, or the field is unreadable.
    states : Mapping of str to str
        Of the same fields.
    decided_by : Mapping of str to str
        Of the same fields: ``consensus``, ``operator``, or empty.
    """

    pseudonym: str
    key: str
    loaded: Mapping[str, Cell]
    answers: Mapping[str, str]
    states: Mapping[str, str]
    decided_by: Mapping[str, str]


def values_of(tx: Tx, pseudonym: str) -> Values | None:
    """Put one record together; None: it was erased, or never loaded."""
    found = rows.record(tx, pseudonym)
    if found is None:
        return None
    number, columns, key, cells = found
    force = current_policy(tx)
    asked = {} if force is None else {n: force.fields[n].name for n in force.asked()}
    entries = {
        asked[one.field_id]: one
        for one in rows.filled_in(tx, number)
        if one.field_id in asked
    }
    return Values(
        pseudonym,
        key.decode(),
        dict(zip(json.loads(columns), json.loads(cells), strict=False)),
        {name: answer_of(one) for name, one in entries.items()},
        {name: state_of(one) for name, one in entries.items()},
        {name: decided_by(one) for name, one in entries.items()},
    )


def _write_parquet(store: Store, run: str, path: Path) -> Reassembled:
    load_polars()  # before the records are read
    lines = path.with_name(f"{path.name}.jsonl")
    try:
        with open(lines, "xb", opener=private) as stream:
            done, layout = _write_records(store, run, stream, "jsonl", False)
        write_parquet(path, layout, lines)
    finally:
        lines.unlink(missing_ok=True)
    return done


def _replace(target: Path, write: Callable[[Path], Reassembled]) -> Reassembled:
    """Write beside the target, then move into place; leave nothing on failure."""
    try:
        descriptor, name = tempfile.mkstemp(
            prefix=f".{target.name[:60]}.", dir=target.parent
        )
    except OSError as error:
        raise Invalid(
            f"{target} cannot be written",
            why=error.strerror or type(error).__name__,
            fix="choose a directory that exists and that you may write to",
        ) from error
    os.close(descriptor)
    path = Path(name)
    try:
        done = _write(target, path, write)
        path.chmod(0o600)
        path.replace(target)
    finally:
        with suppress(FileNotFoundError):
            path.unlink()
    return done


def _write(
    target: Path, path: Path, write: Callable[[Path], Reassembled]
) -> Reassembled:
    try:
        return write(path)
    except OSError as error:
        raise Invalid(
            f"{target} cannot be written",
            why=error.strerror or type(error).__name__,
            fix="free some space, or choose another place",
        ) from error


__all__ = [
    "Assembly",
    "Reassembled",
    "Values",
    "reassemble",
    "rewrite",
    "values_of",
    "write_records",
]
