"""What intake reads and writes: runs, loads, subjects, records, entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import bindparam, func, update
from sqlmodel import col, select

from dispatcher.model import Load, Record, Run, Subject, Suppression
from dispatcher.store import answers
from dispatcher.store.entry_registrations import Facts
from dispatcher.store.statements import DriverStatement, in_list, select_columns
from dispatcher.store.transaction import Tx

RECORD: Final = ("id", "run_id", "load_id", "pseudonym", "key", "columns")
"""Columns that every record has; ``subject_id`` may follow."""

ENTRY: Final = ("id", "record_id", "field_id", "media", "shown")
"""Columns that every entry has; facts that rules need may follow."""


class RunRow(NamedTuple):
    """A run."""

    id: int
    state: str


class LoadRow(NamedTuple):
    """A load: its columns as JSON."""

    id: int
    columns: str


class RecordRow(NamedTuple):
    """A record that is in the store: its cells as JSON, in its load's order."""

    id: int
    load_id: int
    columns: bytes
    erased: bool
    lost: bool


class SubjectRow(NamedTuple):
    """A person that is in the store."""

    id: int
    key_id: int | None
    erased: bool


# -- runs and loads --------------------------------------------------------------------

_RUN: Final = select(Run.id, Run.state).where(Run.name == bindparam("name"))
_LOADS: Final = (
    select(Load.id, Load.columns)
    .where(Load.run_id == bindparam("run"), Load.source == bindparam("source"))
    .order_by(col(Load.id))
)
_of_load: Final = update(Load).where(col(Load.id) == bindparam("of_id"))
_BEGIN_AGAIN: Final = _of_load.values(
    state="loading", rejected=0, started_at=bindparam("now")
)
_CHUNK: Final = _of_load.values(
    columns=bindparam("names"), records=Load.records + bindparam("more")
)
_END: Final = _of_load.values(state="done", rejected=bindparam("refused"))
_COLUMNS: Final = select(Load.id, Load.columns).where(in_list(Load.id, "ids"))


def run(tx: Tx, name: str, now: int, state: str = "active") -> RunRow:
    """Return the run of that name, made with a state if there is none."""
    found = tx.execute(_RUN, {"name": name}).first()
    if found is None:
        number = tx.reserve("run")
        tx.insert_new(
            "run",
            ["name"],
            ["id", "name", "state", "created_at"],
            [(number, name, state, now)],
        )
        found = tx.execute(_RUN, {"name": name}).one()
    return RunRow(*found)


def loads_of(tx: Tx, run_id: int, source: str) -> list[LoadRow]:
    """Loads of files of that name into the run, the first one first."""
    found = tx.execute(_LOADS, {"run": run_id, "source": source})
    return [LoadRow(*row) for row in found]


def begin_load(tx: Tx, run_id: int, source: str, columns: str, now: int) -> int:
    """Note that a file is being loaded; return the load's id."""
    number = tx.reserve("load")
    tx.insert_many(
        "load",
        ["id", "run_id", "source", "columns", "records", "rejected", "state",
         "started_at"],
        [(number, run_id, source, columns, 0, 0, "loading", now)],
    )  # fmt: skip
    return number


def begin_again(tx: Tx, load_id: int, now: int) -> None:
    """Note that the same file is being loaded once more."""
    tx.execute(_BEGIN_AGAIN, {"of_id": load_id, "now": now})


def note_chunk(tx: Tx, load_id: int, columns: str, records: int) -> None:
    """Count in what one transaction of a load brought."""
    tx.execute(_CHUNK, {"of_id": load_id, "names": columns, "more": records})


def end_load(tx: Tx, load_id: int, rejected: int) -> None:
    """Note that a file was read to its end."""
    tx.execute(_END, {"of_id": load_id, "refused": rejected})


def columns_of_loads(tx: Tx, load_ids: Iterable[int]) -> dict[int, str]:
    """Columns of loads, as JSON."""
    return dict(tx.execute(_COLUMNS, {"ids": sorted(load_ids)}).all())


# -- what is in the store --------------------------------------------------------------

_KNOWN_RECORDS: Final = DriverStatement(
    select_columns(
        Record.id,
        Record.load_id,
        Record.columns,
        Record.key_id,
        Record.erased_at,
        Record.pseudonym,
        Record.lost_at,
    ).where(in_list(Record.pseudonym, "pseudonyms"))
)
_KNOWN_PEOPLE: Final = select(Subject.pseudonym).where(
    in_list(Subject.pseudonym, "pseudonyms")
)
_ERASED_PEOPLE: Final = _KNOWN_PEOPLE.where(col(Subject.erased_at).is_not(None))
_ANY_SUPPRESSED: Final = select(Suppression.name).limit(1)
_SUPPRESSED: Final = select(Suppression.name).where(in_list(Suppression.name, "names"))


def known_records(tx: Tx, pseudonyms: Sequence[str]) -> dict[str, RecordRow]:
    """Those of the records that are in the store, by pseudonym."""
    found = tx.driver_rows(_KNOWN_RECORDS, {"pseudonyms": list(pseudonyms)})
    return {
        row[5]: RecordRow(
            row[0], row[1], row[2], row[4] is not None, row[6] is not None
        )
        for row in tx.vault.opened(tx, found, [(2, "record.columns")], 3)
    }


def erased_people(tx: Tx, pseudonyms: Sequence[str]) -> frozenset[str]:
    """Those of the subjects whose values were erased on request."""
    return frozenset(tx.scalars(_ERASED_PEOPLE, {"pseudonyms": list(pseudonyms)}))


def known_people(tx: Tx, pseudonyms: Sequence[str]) -> frozenset[str]:
    """Those of the subjects that are in the store, whatever became of their values."""
    return frozenset(tx.scalars(_KNOWN_PEOPLE, {"pseudonyms": list(pseudonyms)}))


def suppresses(tx: Tx) -> bool:
    """Whether the key of anything erased is known."""
    return tx.scalar(_ANY_SUPPRESSED) is not None


def suppressed(tx: Tx, names: Iterable[str]) -> frozenset[str]:
    """Those names (:func:`dispatcher.core.keys.spelled`) that something erased has."""
    return frozenset(tx.scalars(_SUPPRESSED, {"names": list(names)}))


# -- people ----------------------------------------------------------------------------

_SUBJECTS: Final = DriverStatement(
    select_columns(Subject.pseudonym, Subject.id, Subject.key_id, Subject.erased_at)
    .where(in_list(Subject.pseudonym, "pseudonyms"))
    .order_by(col(Subject.id))
    .with_for_update(read=True)
)
_EMPTY: Final = select(Subject.id).where(
    in_list(Subject.id, "ids"), func.length(Subject.value) == 0
)


def subjects(tx: Tx, values: Mapping[str, bytes]) -> dict[str, SubjectRow]:
    """Return subjects, those that are new made, all locked against erasure.

    Parameters
    ----------
    tx : Tx
    values : Mapping of str to bytes
        By pseudonym, the text that names the subject in the file.
    """
    if not values:
        return {}
    known = _subjects(tx, list(values))
    new = [name for name in values if name not in known]
    if new:
        keys = new_keys(tx, len(new))
        first = tx.reserve("subject", len(new))
        made = {
            name: SubjectRow(first + i, keys[i], erased=False)
            for i, name in enumerate(new)
        }
        added = tx.insert_new(
            "subject",
            ["pseudonym"],
            ["id", "pseudonym", "value", "key_id"],
            [
                (row.id, name, _sealed_subject(tx, row, values[name]), row.key_id)
                for name, row in made.items()
            ],
        )
        # else another load was faster with some
        known.update(made if added == len(new) else _subjects(tx, new))
    _come_back(tx, known, values)
    return known


def _sealed_subject(tx: Tx, row: SubjectRow, value: bytes) -> bytes:
    return tx.vault.seal(tx, "subject.value", row.id, row.key_id, value)


def _come_back(
    tx: Tx, known: dict[str, SubjectRow], values: Mapping[str, bytes]
) -> None:
    """Give people whose values went by age their value and a key again."""
    ids = [row.id for row in known.values() if row.key_id is None and not row.erased]
    empty = set(tx.scalars(_EMPTY, {"ids": ids}))
    back = [name for name, row in known.items() if row.id in empty]
    changed = []
    for name, key_id in zip(back, new_keys(tx, len(back)), strict=True):
        row = known[name] = known[name]._replace(key_id=key_id)
        changed.append((row.id, _sealed_subject(tx, row, values[name]), key_id))
    tx.update_many("subject", ["id"], ["value", "key_id"], changed)


def new_keys(tx: Tx, count: int) -> Sequence[int | None]:
    """Make data keys for so many new subjects or records; None where nothing seals."""
    return tx.vault.make(tx, count)


def _subjects(tx: Tx, pseudonyms: list[str]) -> dict[str, SubjectRow]:
    found = tx.driver_rows(_SUBJECTS, {"pseudonyms": pseudonyms})
    rows = {
        name: SubjectRow(number, key_id, erased is not None)
        for name, number, key_id, erased in found
    }
    tx.vault.prepare(tx, (row.key_id for row in rows.values()))
    return rows


# -- records and entries ---------------------------------------------------------------


def add_records(
    tx: Tx, rows: Iterable[Sequence[object]], facts: Sequence[str] = ()
) -> int:
    """Insert records; columns as :data:`RECORD`, then the facts named.

    With the fact ``key_id`` the values are sealed.

    Raises
    ------
    Clash
        Another load brought one of them since it was looked up.
    """
    columns = (*RECORD, *facts)
    return tx.insert_many("record", columns, _sealed(tx, "record", columns, rows))


def add_entries(
    tx: Tx, rows: Iterable[Sequence[object]], facts: Sequence[str] = ()
) -> int:
    """Insert entries; columns as :data:`ENTRY`, then the facts named.

    With the fact ``key_id`` the values are sealed.
    """
    columns = (*ENTRY, *facts)
    return tx.insert_many("entry", columns, _sealed(tx, "entry", columns, rows))


_VALUES: Final = {"record": ("key", "columns"), "entry": ("shown",)}


def _sealed(
    tx: Tx, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]
) -> Iterable[Sequence[object]]:
    """Rows of records or entries with their values sealed, where they have a key."""
    if "key_id" not in columns:
        return rows
    at = columns.index("key_id")
    places = [(columns.index(name), f"{table}.{name}") for name in _VALUES[table]]
    found: list[Sequence[object]] = []  # a look-up may not come between bulk rows
    for row in rows:
        kept = list(row)
        number, key_id = kept[0], kept[at]
        assert isinstance(number, int)
        if isinstance(key_id, int):
            for place, column in places:
                value = kept[place]
                assert isinstance(value, bytes | bytearray)
                sealed = tx.vault.seal(tx, column, number, key_id, bytes(value))
                kept[place] = bytearray(sealed)  # see store/bulk.py
        found.append(kept)
    return found


# -- what went down with a store -------------------------------------------------------

LOST_RUN: Final = "lost-with-the-store"
"""Run of records that only the shipped ledger knows: nothing of it is ever shown."""

_SUBJECT: Final = select(Subject.id).where(Subject.pseudonym == bindparam("name"))
_RECORD: Final = select_columns(Record.id, Record.lost_at).where(
    Record.pseudonym == bindparam("name")
)


def add_lost_entry(tx: Tx, facts: Facts, loaded_at: int, at: int) -> None:
    """Write an entry whose value was lost with the store, from the facts of its load.

    Its record counts as erased: it has a history, and no value, until it is loaded
    again.
    """
    subject = _lost_subject(tx, facts.subject)
    row = tx.execute(_RECORD, {"name": facts.record}).first()
    if row is None:
        lost_at: int | None = at
        number = tx.reserve("record")
        run_id = run(tx, LOST_RUN, at, "cancelled").id
        values = (number, run_id, 0, facts.record, b"", b"[]", subject)
        columns = ("subject_id", "loaded_at", "erased_at", "lost_at")
        add_records(tx, [(*values, loaded_at, at, at)], columns)
    else:
        number, lost_at = row.id, row.lost_at
    entry = tx.reserve("entry")
    values_ = (entry, number, facts.field_id, "text/plain", b"")
    told = (subject, facts.time, facts.place, facts.visits)
    add_entries(tx, [(*values_, *told)], ("subject_id", "time", "vector", "visits"))
    if lost_at is None:  # the record has its values: this one alone stays without
        answers.leave_empty(tx, [entry], at)


def _lost_subject(tx: Tx, pseudonym: str | None) -> int | None:
    if pseudonym is None:
        return None
    found = tx.scalar(_SUBJECT, {"name": pseudonym})
    if found is None:
        found = tx.reserve("subject")  # gets value and data key when loaded again
        tx.insert_many(
            "subject", ["id", "pseudonym", "value"], [(found, pseudonym, b"")]
        )
    return found
