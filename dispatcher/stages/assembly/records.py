"""Records whole again: the loaded columns, then each asked field with its standing.

For each asked field, in the order of the policy: FIELD (``FIELD_answer`` where a column
FIELD was loaded), FIELD_confidence and FIELD_state. The state is ``answered``,
``illegible``, ``not_present``, ``conflict`` (the value is the best guess), ``open``, or
``empty`` where there was nothing to ask for.
"""

from __future__ import annotations

import csv
import errno
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from connectors.formats.formula_guard import guard
from dispatcher.core.errors import Invalid, NotFound
from dispatcher.core.private_files import private
from dispatcher.ledger.active_policy import current_policy, no_policy
from dispatcher.store import Store, Tx
from dispatcher.store import answers as rows
from dispatcher.store.answers import FilledRow
from policies.answers.validation import Mark

FORMS: Final = ("csv", "jsonl", "parquet")
STATES: Final = ("answered", "illegible", "not_present", "conflict", "open", "empty")
_MARKED: Final = {f"[{mark.value}]".encode(): mark.value for mark in Mark}


@dataclass
class Reassembled:
    """What was written.

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


@dataclass(frozen=True)
class _Layout:
    """Columns of the output: the loaded ones, then three for each asked field."""

    loaded: tuple[str, ...]
    by_load: Mapping[int, tuple[int, ...]]  # place of each of the load's columns
    asked: tuple[int, ...]  # field ids
    added: tuple[tuple[str, str, str], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """All columns in order."""
        return (*self.loaded, *(name for three in self.added for name in three))


Cell = str | float | None


def reassemble(
    store: Store, run: str, target: Path, form: str = "", *, excel_guard: bool = True
) -> Reassembled:
    """Write the records of a run to a file, 0600, put in place when it is whole.

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
        return _replace(target, lambda path: _as_parquet(store, run, path))

    def write(path: Path) -> Reassembled:
        with path.open("wb") as stream:
            done = write_records(store, run, stream, form, excel_guard=excel_guard)
            stream.flush()
            if not is_stream:
                os.fsync(stream.fileno())
        return done

    return _write(target, target, write) if is_stream else _replace(target, write)


def write_records(
    store: Store, run: str, stream: BinaryIO, form: str, *, excel_guard: bool = True
) -> Reassembled:
    """Write the records of a run to a stream as ``csv`` or ``jsonl``; see above."""
    if form not in FORMS[:2]:
        raise Invalid(
            f"records are streamed as csv or jsonl, not as {form!r}",
            why="only these can be written from the first byte on",
            fix="use --format csv or jsonl, or name a file",
        )
    done = Reassembled(states=dict.fromkeys(STATES, 0))
    with store.read() as tx:
        layout = _layout(tx, run)
        cells = _rows(tx, run, layout, done)
        if form == "csv":
            _write_csv(stream, layout.names, cells, guarded=excel_guard)
        else:
            _write_jsonl(stream, layout.names, cells)
    return done


def _layout(tx: Tx, run: str) -> _Layout:
    run_id = rows.run_named(tx, run)
    if run_id is None:
        raise NotFound(
            f"there is no run {run!r}",
            why="records are put together run by run",
            fix="see the runs: dispatcher status",
        )
    force = current_policy(tx)
    if force is None:
        raise no_policy()
    loaded: dict[str, int] = {}
    by_load = {}
    for load_id, columns in rows.loads(tx, run_id):
        names = json.loads(columns)
        by_load[load_id] = tuple(loaded.setdefault(n, len(loaded)) for n in names)
    asked = [
        (force.field_ids[name], name)
        for name, one in force.policy.entity.fields.items()
        if one.ask is not None
    ]
    taken = set(loaded)
    added = []
    for _, name in asked:
        value = _free(f"{name}_answer" if name in loaded else name, taken)
        confidence = _free(f"{name}_confidence", taken)
        added.append((value, confidence, _free(f"{name}_state", taken)))
    return _Layout(tuple(loaded), by_load, tuple(n for n, _ in asked), tuple(added))


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _rows(tx: Tx, run: str, layout: _Layout, done: Reassembled) -> Iterator[list[Cell]]:
    """Join records and results, both streaming in by record."""
    run_id = rows.run_named(tx, run)
    assert run_id is not None, "the layout is of this run"
    filled = rows.filled(tx, run_id)
    upcoming = next(filled, None)
    for record in rows.records(tx, run_id):
        known: dict[int, FilledRow] = {}
        while upcoming is not None and upcoming.record_id <= record.id:
            if upcoming.record_id == record.id:
                known[upcoming.field_id] = upcoming
            upcoming = next(filled, None)
        cells: list[Cell] = [""] * len(layout.loaded)
        places = layout.by_load.get(record.load_id, ())
        for place, cell in zip(places, json.loads(record.columns), strict=False):
            cells[place] = cell
        states = []
        for field_id in layout.asked:
            value, confidence, state = _standing(known.get(field_id))
            cells += [value, confidence, state]
            states.append(state)
            done.states[state] += 1
        done.records += 1
        done.whole += not {"open", "conflict"} & set(states)
        yield cells


def _standing(entry: FilledRow | None) -> tuple[str, float | None, str]:
    """Tell the three cells of an asked field."""
    if entry is None:
        return "", None, "empty"
    if entry.state is None or entry.value is None:
        return "", None, "open"
    confidence = None if entry.confidence is None else round(entry.confidence, 6)
    mark = _MARKED.get(entry.value)
    if mark is not None:
        return "", confidence, mark if entry.state == "answered" else entry.state
    return entry.value.decode("utf-8", "replace"), confidence, entry.state


def _write_csv(
    stream: BinaryIO,
    names: Sequence[str],
    cells: Iterator[list[Cell]],
    *,
    guarded: bool,
) -> None:
    safe: Callable[[str], str] = guard if guarded else str
    writer = csv.writer(_Encoded(stream))
    writer.writerow([safe(name) for name in names])
    for row in cells:
        writer.writerow(
            ["" if c is None else safe(c) if isinstance(c, str) else c for c in row]
        )


class _Encoded:
    """Text written to a stream as UTF-8.

    A text wrapper would close the stream when an error ends the writing, and the stream
    may be the program's own output.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text at once."""
        return self._stream.write(text.encode())


def _write_jsonl(
    stream: BinaryIO, names: Sequence[str], cells: Iterator[list[Cell]]
) -> None:
    for row in cells:
        record = dict(zip(names, row, strict=True))
        stream.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")


def _as_parquet(store: Store, run: str, path: Path) -> Reassembled:
    """Go by JSON lines, so that memory stays small."""
    try:
        import polars as pl  # noqa: PLC0415 - 175 MB that only Parquet needs
    except ImportError:
        raise Invalid(
            "Parquet cannot be written: the package polars is missing",
            why="it is installed with the extra `parquet` only",
            fix="run: pip install 'sparsi-dispatcher[parquet]'; or write CSV or JSONL",
        ) from None
    lines = path.with_name(f"{path.name}.jsonl")
    try:
        with open(lines, "xb", opener=private) as stream:
            done = write_records(store, run, stream, "jsonl")
        with store.read() as tx:
            layout = _layout(tx, run)
        numbers = {confidence for _, confidence, _ in layout.added}
        schema = {
            name: pl.Float64 if name in numbers else pl.String for name in layout.names
        }
        if done.records:
            pl.scan_ndjson(lines, schema=schema).sink_parquet(path)
        else:
            pl.DataFrame(schema=schema).write_parquet(path)
    except pl.exceptions.PolarsError as error:
        raise OSError(errno.EIO, "Parquet could not be written") from error
    finally:
        lines.unlink(missing_ok=True)
    return done


def _replace(target: Path, write: Callable[[Path], Reassembled]) -> Reassembled:
    """Write beside the target and put in place whole; nothing is left on failure."""
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
