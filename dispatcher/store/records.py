"""Runs, loads, people, records and entries: written by this module alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from sqlalchemy import BigInteger, Integer, Row, bindparam, func, update
from sqlmodel import col, select

from dispatcher.model import Entry, Load, Record, Run, Subject, Suppression
from dispatcher.store import answers
from dispatcher.store.entry_registrations import KnownEntry
from dispatcher.store.statements import DriverStatement, in_list, select_columns
from dispatcher.store.transaction import Tx

RECORD: Final = ("id", "run_id", "load_id", "pseudonym", "key", "columns")
"""Columns that every record has; ``subject_id`` may follow."""

ENTRY: Final = ("id", "record_id", "field_id", "media", "shown")
"""Columns that every entry has; facts that rules need may follow."""


RunRow: TypeAlias = "Row[int, str]"
"""A run: id, state."""

LoadRow: TypeAlias = "Row[int, str]"
"""A load: id, columns (JSON)."""


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
_WHOLE_RUN: Final = select(Run).where(Run.name == bindparam("name"))
_WHOLE_LOADS: Final = (
    select(Load).where(Load.run_id == bindparam("run")).order_by(col(Load.id))
)


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
    return found


def loads_of(tx: Tx, run_id: int, source: str) -> Sequence[LoadRow]:
    """Loads of files of that name into the run, the first one first."""
    return tx.execute(_LOADS, {"run": run_id, "source": source}).all()


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


def run_named(tx: Tx, name: str) -> Run | None:
    """Return the run of that name."""
    return tx.model(_WHOLE_RUN, {"name": name})


def loads_in(tx: Tx, run_id: int) -> list[Load]:
    """Loads of a run, in their order."""
    return tx.models(_WHOLE_LOADS, {"run": run_id})


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


class _KnownRow(NamedTuple):
    """What :data:`_KNOWN_RECORDS` reads of a record."""

    id: int
    load_id: int
    columns: bytes
    key_id: int | None
    erased_at: int | None
    pseudonym: str
    lost_at: int | None


def known_records(tx: Tx, pseudonyms: Sequence[str]) -> dict[str, RecordRow]:
    """Those of the records that are in the store, by pseudonym."""
    found = tx.driver_rows(_KNOWN_RECORDS, {"pseudonyms": list(pseudonyms)})
    return {
        row.pseudonym: RecordRow(
            row.id,
            row.load_id,
            row.columns,
            row.erased_at is not None,
            row.lost_at is not None,
        )
        for row in tx.vault.opened(tx, map(_KnownRow._make, found), "record.columns")
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


def add_lost_entry(tx: Tx, facts: KnownEntry, loaded_at: int, at: int) -> None:
    """Write an entry whose value was lost with the store, from the facts of its load.

    Its record counts as erased: it has a history, and no value, until it is loaded
    again.
    """
    subject = _lost_subject(tx, facts.subject)
    row = tx.execute(_RECORD, {"name": facts.record}).first()
    if row is None:
        lost_at: int | None = at
        number = tx.reserve("record")
        run_id = run(tx, LOST_RUN, at, "lost").id
        values = (number, run_id, 0, facts.record, b"", b"[]", subject)
        columns = ("subject_id", "loaded_at", "erased_at", "lost_at")
        add_records(tx, [(*values, loaded_at, at, at)], columns)
    else:
        number, lost_at = row.id, row.lost_at
    entry = tx.reserve("entry")
    values_ = (entry, number, facts.field_id, "text/plain", b"")
    known = (subject, facts.time, facts.place, facts.visits)
    add_entries(tx, [(*values_, *known)], ("subject_id", "time", "vector", "visits"))
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


# -- pilots: records that wait -----------------------------------------------------------

_THE_RUN: Final = col(Run.id) == bindparam("of_run")
_OF_RUN: Final = col(Record.run_id) == bindparam("of_run")
_WAITS: Final = col(Record.waits_since).is_not(None)
_BEGIN_PILOT: Final = (
    update(Run).where(_THE_RUN).values(pilot=bindparam("records"), piloted=0)
)
_ENLARGE_PILOT: Final = update(Run).where(_THE_RUN).values(pilot=bindparam("records"))
_END_PILOT: Final = update(Run).where(_THE_RUN).values(pilot=None, piloted=None)
_COUNT_CHOSEN: Final = (
    update(Run)
    .where(_THE_RUN)
    .values(piloted=func.coalesce(Run.piloted, 0) + bindparam("records"))
)
_PILOT_OF: Final = (
    select(Run.pilot).where(Run.id == bindparam("of_run")).with_for_update(read=True)
)
_LET_WAIT: Final = update(Record).values(
    waits_since=bindparam("moment", type_=BigInteger())
)
_ALL_WAIT: Final = _LET_WAIT.where(_OF_RUN)
_NEW_WAIT: Final = _ALL_WAIT.where(
    col(Record.id) >= bindparam("first"), col(Record.id) < bindparam("end")
)
_BACK_WAIT: Final = _LET_WAIT.where(in_list(Record.id, "records"))
_LET_GO: Final = update(Record).values(waits_since=None)
_CHOOSE: Final = _LET_GO.where(
    col(Record.id).in_(
        select(Record.id)
        .where(_OF_RUN, _WAITS, col(Record.erased_at).is_(None))
        .order_by(col(Record.pseudonym))
        .limit(bindparam("records", type_=Integer()))
    )
)
_ALL_GO: Final = _LET_GO.where(_OF_RUN, _WAITS)


def begin_pilot(tx: Tx, run_id: int, records: int, at: int) -> None:
    """Let all records of a run wait, but for so many that are still to be chosen."""
    tx.execute(_BEGIN_PILOT, {"of_run": run_id, "records": records})
    tx.execute(_ALL_WAIT, {"of_run": run_id, "moment": at})


def enlarge_pilot(tx: Tx, run_id: int, records: int) -> None:
    """Let a pilot have more records."""
    tx.execute(_ENLARGE_PILOT, {"of_run": run_id, "records": records})


def hold_records(
    tx: Tx, run_id: int, first: int, count: int, back: Sequence[int], at: int
) -> None:
    """Let records that a load has just written wait, if their run has a pilot.

    Parameters
    ----------
    tx : Tx
    run_id, first, count : int
        New records: so many ids from the first on.
    back : sequence of int
        Lost records that came back into the run: they wait for its pilot, and for none
        of the run where they were.
    at : int
    """
    piloted = tx.execute(_PILOT_OF, {"of_run": run_id}).scalar()
    if piloted is not None:
        new = {"of_run": run_id, "first": first, "end": first + count, "moment": at}
        tx.execute(_NEW_WAIT, new)
    if back:
        moment = None if piloted is None else at
        tx.execute(_BACK_WAIT, {"records": back, "moment": moment})


def choose_records(tx: Tx, run_id: int, records: int) -> int:
    """Let so many of a run's records go, in the order of their pseudonyms: by chance.

    Returns
    -------
    int
        How many there were.
    """
    opened = tx.execute(_CHOOSE, {"of_run": run_id, "records": records}).rowcount
    tx.execute(_COUNT_CHOSEN, {"of_run": run_id, "records": opened})
    return opened


def accept_pilot(tx: Tx, run_id: int) -> int:
    """End a pilot: let all records go; return how many waited."""
    tx.execute(_END_PILOT, {"of_run": run_id})
    return tx.execute(_ALL_GO, {"of_run": run_id}).rowcount


# -- erased, and lost with a store -------------------------------------------------------

_IN_RECORDS: Final = in_list(Record.id, "records")
_OWN_KEYS: Final = select_columns(Record.key_id).where(
    _IN_RECORDS, col(Record.key_id).is_not(None), col(Record.subject_id).is_(None)
)
_BLANK: Final = (
    update(Record)
    .where(_IN_RECORDS)
    .values(
        key_id=None,
        lost_at=None,
        erased_at=func.coalesce(Record.erased_at, bindparam("now", type_=BigInteger())),
    )
)
_FORGET_KEYS: Final = (
    update(Entry).where(in_list(Entry.id, "entries")).values(key_id=None)
)
_BLANK_SUBJECT: Final = (
    update(Subject)
    .where(col(Subject.id) == bindparam("of_subject"))
    .values(
        value=b"",
        key_id=None,
        erased_at=func.coalesce(
            Subject.erased_at, bindparam("moment", type_=BigInteger())
        ),
    )
)
_IS_LOST: Final = (
    col(Record.lost_at).is_not(None),
    col(Record.loaded_at) < bindparam("moment"),
)
_ANY_LOST: Final = select(Record.id).where(*_IS_LOST).limit(1)
_GIVE_UP: Final = update(Record).where(*_IS_LOST).values(lost_at=None)


def erase_values(
    tx: Tx, record_ids: Sequence[int], entry_ids: Sequence[int], now: int
) -> list[int]:
    """Delete the values of records and entries; return the records' own keys."""
    keys = set(tx.scalars(_OWN_KEYS, {"records": record_ids}))
    tx.update_many(
        "record",
        ["id"],
        ["key", "columns"],
        ((number, b"", b"[]") for number in record_ids),
    )
    tx.execute(_BLANK, {"records": record_ids, "now": now})
    tx.update_many("entry", ["id"], ["shown"], ((number, b"") for number in entry_ids))
    tx.execute(_FORGET_KEYS, {"entries": entry_ids})
    return sorted(key for key in keys if key is not None)


def erase_subject(tx: Tx, subject_id: int, erased_at: int | None) -> None:
    """Delete a person's value; with a moment the person is refused later."""
    tx.execute(_BLANK_SUBJECT, {"of_subject": subject_id, "moment": erased_at})


def lost_before(tx: Tx, moment: int) -> bool:
    """Whether a record that may be loaded again was first loaded before a moment."""
    return tx.scalar(_ANY_LOST, {"moment": moment}) is not None


def give_up_lost(tx: Tx, moment: int) -> None:
    """Let those records never be loaded again: they were erased by age."""
    tx.execute(_GIVE_UP, {"moment": moment})


# -- loaded again: ledger first, values after --------------------------------------------
#
# Rows of records that went down with a store were written from the ledger's key lines by
# a replay: pseudonyms and facts, no value. Coming back they keep their ids, so that all
# that was shown of them counts.


class LostEntry(NamedTuple):
    """An entry without its value, and the facts that the ledger has of it."""

    id: int
    subject: str | None
    time: int | None
    place: str | None
    visits: int | None


@dataclass
class LostRecord:
    """A record without its values; ``entries`` by field number.

    Subjects by pseudonym.
    """

    id: int
    subject: str | None
    entries: dict[int, LostEntry] = field(default_factory=dict)


class Back(NamedTuple):
    """A record that comes back: where to, under which data key, with which cells."""

    id: int
    run_id: int
    load_id: int
    key: bytes
    columns: bytes
    subject_id: int | None
    key_id: int | None


class BackEntry(NamedTuple):
    """An entry that comes back, with all facts."""

    id: int
    subject_id: int | None
    time: int | None
    place: str | None
    visits: int | None
    media: str
    shown: bytes
    key_id: int | None


_LOST_RECORDS: Final = DriverStatement(
    select_columns(Record.id, Record.pseudonym, Subject.pseudonym)
    .select_from(Record)
    .outerjoin(Subject, col(Subject.id) == col(Record.subject_id))
    .where(in_list(Record.pseudonym, "pseudonyms"), col(Record.lost_at).is_not(None))
    .order_by(col(Record.id))
    .with_for_update(of=Record)
)
_LOST_ENTRIES: Final = DriverStatement(
    select_columns(
        Entry.record_id,
        Entry.field_id,
        Entry.id,
        Subject.pseudonym,
        Entry.time,
        Entry.vector,
        Entry.visits,
    )
    .select_from(Entry)
    .outerjoin(Subject, col(Subject.id) == col(Entry.subject_id))
    .where(in_list(Entry.record_id, "records"))
)
_FOUND: Final = (
    update(Record)
    .where(in_list(Record.id, "ids"))
    .values(
        loaded_at=func.coalesce(Record.loaded_at, bindparam("now", type_=BigInteger())),
        erased_at=None,
        lost_at=None,
    )
)


def lost(tx: Tx, pseudonyms: Sequence[str]) -> dict[str, LostRecord]:
    """Return those of the records that are lost, by pseudonym; locked."""
    found = {
        name: LostRecord(number, subject)
        for number, name, subject in tx.driver_rows(
            _LOST_RECORDS, {"pseudonyms": list(pseudonyms)}
        )
    }
    of = {record.id: record for record in found.values()}
    for record, field_id, *facts in tx.driver_rows(
        _LOST_ENTRIES, {"records": list(of)}
    ):
        of[record].entries[field_id] = LostEntry(*facts)
    return found


def bring_back(tx: Tx, records: Iterable[Back], now: int) -> None:
    """Give records their cells again; the moment of their first load stays."""
    changed = []
    for row in records:
        key, columns = (
            tx.vault.seal(tx, f"record.{name}", row.id, row.key_id, value)
            for name, value in (("key", row.key), ("columns", row.columns))
        )
        changed.append((*row[:3], key, columns, row.subject_id, row.key_id))
    columns_ = ("run_id", "load_id", "key", "columns", "subject_id", "key_id")
    tx.update_many("record", ["id"], columns_, changed)
    tx.execute(_FOUND, {"ids": [row[0] for row in changed], "now": now})


def fill(tx: Tx, entries: Iterable[BackEntry]) -> None:
    """Give entries their shown forms again."""
    tx.update_many(
        "entry",
        ["id"],
        ["subject_id", "time", "vector", "visits", "media", "shown", "key_id"],
        [
            (
                *row[:6],
                tx.vault.seal(tx, "entry.shown", row.id, row.key_id, row.shown),
                row.key_id,
            )
            for row in entries
        ],
    )
