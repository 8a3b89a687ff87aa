"""Queries of an erasure: a person's or a record's values, and their traces.

Rows of records and entries stay, without values: the ledger speaks of them by
pseudonym, and a record that is loaded again must be known.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from sqlalchemy import BigInteger, Select, Text, bindparam, delete, exists, func, or_
from sqlalchemy import Row as SqlRow
from sqlalchemy import select as sql_select
from sqlmodel import col, select

from dispatcher.model import (
    Account,
    Chain,
    Entry,
    ExportFile,
    FieldName,
    LedgerLine,
    Load,
    Outbox,
    Record,
    Result,
    Run,
    Subject,
    Task,
    TaskAnswer,
)
from dispatcher.store import answers, planning, tasks
from dispatcher.store import records as record_rows
from dispatcher.store.settings import add_setting, set_setting, setting
from dispatcher.store.statements import in_list, insert, select_columns
from dispatcher.store.transaction import Row, Tx

SubjectRow: TypeAlias = "SqlRow[*tuple[Any, ...]]"
"""A person: id, key_id, and erased_at, None while the values are there."""

TaskRow: TypeAlias = "SqlRow[int, int, str, str]"
"""A showing of one of the entries: id, entry_id, connector, state."""

Showings: TypeAlias = "SqlRow[*tuple[Any, ...]]"
"""Ledger data about entries, which stays: lines, adversaries, first_at, last_at."""


_SUBJECT: Final = select_columns(Subject.id, Subject.key_id, Subject.erased_at).where(
    Subject.pseudonym == bindparam("called")
)
_SUBJECT_LOCKED: Final = _SUBJECT.with_for_update()
_RECORDS_OF: Final = (
    select(Record.id)
    .where(Record.subject_id == bindparam("of_subject"))
    .order_by(col(Record.id))
    .with_for_update()
)
_RECORD_NAMED: Final = (
    select(Record.id).where(Record.pseudonym == bindparam("called")).with_for_update()
)
_LOADED_AT: Final = func.coalesce(Record.loaded_at, Load.started_at)
_LOADED_BEFORE: Final = (
    select(Record.id)
    .join(Load, col(Load.id) == Record.load_id)
    .where(col(Record.erased_at).is_(None), bindparam("moment") > _LOADED_AT)
    .order_by(col(Record.id))
    .limit(bindparam("most"))
    .with_for_update(of=Record)
)
_COUNT_BEFORE: Final = (
    select(func.count())
    .select_from(Record)
    .join(Load, col(Load.id) == Record.load_id)
    .where(col(Record.erased_at).is_(None), bindparam("moment") > _LOADED_AT)
)
_ENTRIES_OF: Final = (
    select(Entry.id).where(in_list(Entry.record_id, "records")).order_by(col(Entry.id))
)


def _count(model: Any, *conditions: Any) -> Select[int]:  # noqa: ANN401
    return sql_select(func.count()).select_from(model).where(*conditions)


_IN_RECORDS: Final = in_list(Record.id, "records")
_IN_ENTRIES: Final = in_list(Entry.id, "entries")
_FILLED: Final = func.length(Entry.shown) > 0
_COUNTS: Final = {
    "records": _count(Record, _IN_RECORDS, col(Record.erased_at).is_(None)),
    "fields": _count(Entry, _IN_ENTRIES, _FILLED),
    "crops": _count(Entry, _IN_ENTRIES, _FILLED, col(Entry.media).like("image/%")),
    "answers": _count(TaskAnswer, in_list(TaskAnswer.entry_id, "entries")),
    "drafts": _count(
        Task, in_list(Task.entry_id, "entries"), col(Task.draft).is_not(None)
    ),
    "results": _count(
        Result, in_list(Result.entry_id, "entries"), col(Result.value).is_not(None)
    ),
}
_SHOWINGS: Final = (
    select_columns(
        func.count().label("lines"),
        func.count(func.coalesce(Chain.survivor_id, Chain.id).distinct()).label(
            "adversaries"
        ),
        func.min(LedgerLine.at).label("first_at"),
        func.max(LedgerLine.at).label("last_at"),
    )
    .select_from(LedgerLine)
    .join(Chain, col(Chain.id) == LedgerLine.chain_id)
    .where(in_list(LedgerLine.entry_id, "entries"), LedgerLine.kind == "exposure")
)
_TASKS: Final = (
    select(Task.id, Task.entry_id, Task.connector, Task.state)
    .where(in_list(Task.entry_id, "entries"))
    .order_by(col(Task.id))
)
_TASKS_LOCKED: Final = _TASKS.with_for_update()
_MESSAGES: Final = (
    select_columns(Outbox.state, Outbox.leased_until)
    .where(
        col(Outbox.id).in_(
            select(Task.outbox_id).where(
                in_list(Task.entry_id, "entries"), col(Task.outbox_id).is_not(None)
            )
        )
    )
    .order_by(col(Outbox.id))
    .with_for_update()
)
_PERSON: Final = select_columns(Subject.value, Subject.key_id).where(
    Subject.id == bindparam("of_subject")
)
_RECORDS: Final = (
    select_columns(
        Record.id,
        Record.key,
        col(Load.columns).label("names"),
        Record.columns,
        Record.key_id,
        Record.pseudonym,
        Run.name,
        _LOADED_AT,
    )
    .join(Load, col(Load.id) == Record.load_id)
    .join(Run, col(Run.id) == Record.run_id)
    .where(_IN_RECORDS, col(Record.erased_at).is_(None))
    .order_by(col(Record.id))
)
_ALL_CELLS: Final = select(Record.id, Record.columns, Record.key_id).where(
    col(Record.erased_at).is_(None)
)
_SOURCES: Final = (
    select(Load.source)
    .distinct()
    .join(Record, col(Record.load_id) == Load.id)
    .where(_IN_RECORDS)
    .order_by(col(Load.source))
)
_ANSWERS: Final = (
    select_columns(
        TaskAnswer.task_id,
        TaskAnswer.entry_id,
        TaskAnswer.account_id,
        TaskAnswer.raw,
        TaskAnswer.at,
        TaskAnswer.key_id,
    )
    .where(in_list(TaskAnswer.entry_id, "entries"))
    .order_by(col(TaskAnswer.task_id))
)
_TEXTS: Final = select(Entry.id, Entry.shown, Entry.key_id).where(
    _IN_ENTRIES, col(Entry.media).like("text/%")
)
_RECIPIENTS: Final = (
    select_columns(
        Record.pseudonym,
        FieldName.name,
        Account.connector,
        Account.name,
        LedgerLine.at,
        LedgerLine.cause,
    )
    .select_from(LedgerLine)
    .join(Entry, col(Entry.id) == LedgerLine.entry_id)
    .join(Record, col(Record.id) == Entry.record_id)
    .join(FieldName, col(FieldName.id) == Entry.field_id)
    .join(Account, col(Account.id) == LedgerLine.account_id)
    .where(in_list(LedgerLine.entry_id, "entries"), LedgerLine.kind == "exposure")
    .order_by(col(LedgerLine.at), col(LedgerLine.seq))
)


def subject(tx: Tx, pseudonym: str, *, lock: bool = False) -> SubjectRow | None:
    """Return a person by pseudonym."""
    asked = _SUBJECT_LOCKED if lock else _SUBJECT
    return tx.execute(asked, {"called": pseudonym}).first()


def records_of(tx: Tx, subject_id: int) -> list[int]:
    """Ids of a person's records, erased ones too."""
    return tx.scalars(_RECORDS_OF, {"of_subject": subject_id})


def lock_record(tx: Tx, pseudonym: str) -> int | None:
    """Lock a record by pseudonym; return its id."""
    return tx.scalar(_RECORD_NAMED, {"called": pseudonym})


def loaded_before(tx: Tx, moment: int, limit: int) -> list[int]:
    """Find records with values that were loaded before a time, oldest first."""
    return tx.scalars(_LOADED_BEFORE, {"moment": moment, "most": limit})


def count_loaded_before(tx: Tx, moment: int) -> int:
    """Count records with values that were loaded before a time."""
    return tx.scalar(_COUNT_BEFORE, {"moment": moment}) or 0


def entries_of(tx: Tx, record_ids: Sequence[int]) -> list[int]:
    """Ids of all entries of records."""
    return tx.scalars(_ENTRIES_OF, {"records": record_ids})


def counts(
    tx: Tx, record_ids: Sequence[int], entry_ids: Sequence[int]
) -> dict[str, int]:
    """How much there is to delete: records, fields, crops, answers, drafts, results."""
    return {
        name: tx.scalar(
            asked,
            {"records": record_ids} if name == "records" else {"entries": entry_ids},
        )
        or 0
        for name, asked in _COUNTS.items()
    }


def showings(tx: Tx, entry_ids: Sequence[int]) -> Showings:
    """Summarise what the ledger contains about entries."""
    return tx.execute(_SHOWINGS, {"entries": entry_ids}).one()


def tasks_of(
    tx: Tx, entry_ids: Sequence[int], *, lock: bool = False
) -> Sequence[TaskRow]:
    """All tasks on entries."""
    asked = _TASKS_LOCKED if lock else _TASKS
    return tx.execute(asked, {"entries": entry_ids}).all()


def being_sent(tx: Tx, entry_ids: Sequence[int], now: int) -> int:
    """Count messages with these entries that are being sent now; all are locked.

    A message whose lease expired (after a crash) does not count: its outcome is
    unknown.
    """
    rows = tx.execute(_MESSAGES, {"entries": entry_ids})
    return sum(state == "leased" and (until or 0) > now for state, until in rows)


def person_of(tx: Tx, subject_id: int) -> bytes:
    """Return the text that named a person in the file; empty when it is gone."""
    row = tx.execute(_PERSON, {"of_subject": subject_id}).first()
    if row is None:
        return b""
    return tx.vault.open(tx, "subject.value", subject_id, row[1], row[0])


def records(tx: Tx, record_ids: Sequence[int]) -> list[Row]:
    """Return key, load, columns and cells (JSON each) of records that have them still."""
    found = tx.execute(_RECORDS, {"records": record_ids}).all()
    return list(tx.vault.opened(tx, found, "record.key", "record.columns"))


def cells_of_others(tx: Tx, record_ids: Sequence[int]) -> Iterator[bytes]:
    """Cells of all other records, of each as one text."""
    mine = frozenset(record_ids)
    found = tx.stream(_ALL_CELLS)
    for row in tx.vault.opened(tx, found, "record.columns"):
        if row.id not in mine:
            yield "\n".join(json.loads(row.columns)).encode()


def sources_of(tx: Tx, record_ids: Sequence[int]) -> list[str]:
    """Names of the files that records were loaded from."""
    return tx.scalars(_SOURCES, {"records": record_ids})


def said_of(tx: Tx, entry_ids: Sequence[int]) -> list[Row]:
    """Answers: (task, entry, account, raw, moment)."""
    found = tx.execute(_ANSWERS, {"entries": entry_ids}).all()
    return [
        (row.task_id, row.entry_id, row.account_id, row.raw, row.at)
        for row in tx.vault.opened(tx, found, "answer.raw")
    ]


def shown_of(tx: Tx, entry_ids: Sequence[int]) -> Iterator[bytes]:
    """Shown forms that are text."""
    found = tx.execute(_TEXTS, {"entries": entry_ids}).all()
    for row in tx.vault.opened(tx, found, "entry.shown"):
        yield row.shown


def recipients(tx: Tx, entry_ids: Sequence[int]) -> list[Row]:
    """Who was shown what: (record, field, connector, account, moment, cause)."""
    found = tx.execute(_RECIPIENTS, {"entries": entry_ids})
    return [tuple(row) for row in found]


# -- writing -----------------------------------------------------------------------


_WITHOUT_RECORDS: Final = (
    select_columns(Subject.id, Subject.key_id, Subject.erased_at)
    .where(
        col(Subject.id).in_(select(Record.subject_id).where(_IN_RECORDS)),
        ~exists().where(
            col(Record.subject_id) == Subject.id, col(Record.erased_at).is_(None)
        ),
    )
    .order_by(col(Subject.id))
    .with_for_update(of=Subject)
)
_NOT_ERASED: Final = (
    select(Subject.pseudonym).where(
        in_list(Subject.pseudonym, "names"), col(Subject.erased_at).is_(None)
    ),
    select(Record.pseudonym).where(
        in_list(Record.pseudonym, "names"),
        or_(col(Record.erased_at).is_(None), col(Record.lost_at).is_not(None)),
    ),
)


def blank(
    tx: Tx, record_ids: Sequence[int], entry_ids: Sequence[int], now: int
) -> None:
    """Delete the values of records, all that was made of them, and their own keys."""
    keys = record_rows.erase_values(tx, record_ids, entry_ids, now)
    tasks.forget_drafts(tx, entry_ids)
    answers.erase(tx, entry_ids, now)
    planning.release(tx, entry_ids)
    tx.vault.delete_keys(tx, keys)


def blank_subject(tx: Tx, row: SubjectRow, erased_at: int | None) -> None:
    """Delete a person's value and data key; with a moment the person is refused later."""
    record_rows.erase_subject(tx, row.id, erased_at)
    tx.vault.delete_keys(tx, [] if row.key_id is None else [row.key_id])


def subjects_without_records(tx: Tx, record_ids: Sequence[int]) -> Sequence[SubjectRow]:
    """People of records who have no record with values any more."""
    return tx.execute(_WITHOUT_RECORDS, {"records": record_ids}).all()


def not_erased(tx: Tx, names: Sequence[str]) -> list[str]:
    """Return the people and records that have values, or might be loaded again."""
    return sorted(
        name for asked in _NOT_ERASED for name in tx.scalars(asked, {"names": names})
    )


def suppress(tx: Tx, names: Iterable[str]) -> None:
    """Suppress loading of these names (:func:`dispatcher.core.keys.spelled`)."""
    tx.insert_new("suppression", ["name"], ["name"], [(n,) for n in sorted(set(names))])


# -- pending deletions outside of the store, and exported files ------------------------

ExportRow: TypeAlias = "SqlRow[int, str, str]"
"""A file of whole records that was written: ``id``, ``run`` and ``path``."""

_PENDING: Final = "erasing"


def add_pending(tx: Tx, record_ids: Sequence[int]) -> None:
    """Record that spools and exports may contain something of erased records."""
    add_setting(tx, _PENDING, b"")
    _keep_pending(tx, {*pending(tx), *record_ids})


def pending(tx: Tx) -> list[int]:
    """Return records with pending deletions outside; locked."""
    return list(array("q", setting(tx, _PENDING, lock=True) or b""))


def drop_pending(tx: Tx, record_ids: Sequence[int]) -> None:
    """Record that nothing of the records is left outside."""
    _keep_pending(tx, set(pending(tx)).difference(record_ids))


def _keep_pending(tx: Tx, record_ids: Iterable[int]) -> None:
    if setting(tx, _PENDING) is not None:
        set_setting(tx, _PENDING, array("q", sorted(record_ids)).tobytes())


# -- files -------------------------------------------------------------------------


_RUN: Final = col(Run.name) == bindparam("run", type_=Text())
_FORGET: Final = delete(ExportFile).where(
    col(ExportFile.path) == bindparam("file"),
    col(ExportFile.run_id) == select(Run.id).where(_RUN).scalar_subquery(),
)
_WRITTEN: Final = insert(ExportFile).from_select(
    ["id", "run_id", "path", "at"],
    select_columns(
        bindparam("number", type_=BigInteger()),
        col(Run.id),
        bindparam("file", type_=Text()),
        bindparam("now", type_=BigInteger()),
    ).where(_RUN),
)
_EXPORTS: Final = (
    select_columns(ExportFile.id, col(Run.name).label("run"), ExportFile.path)
    .join(Run, col(Run.id) == ExportFile.run_id)
    .where(
        col(ExportFile.run_id).in_(
            select(Record.run_id).where(in_list(Record.id, "records"))
        )
    )
    .order_by(col(ExportFile.id))
)
_EXPORTS_OF_RUN: Final = (
    select(ExportFile)
    .where(col(ExportFile.run_id) == bindparam("run_id"))
    .order_by(col(ExportFile.id))
)
_DROP: Final = delete(ExportFile).where(col(ExportFile.id) == bindparam("number"))


def add_export(tx: Tx, run: str, path: str, now: int) -> None:
    """Note that a run's records were written to a file."""
    tx.execute(_FORGET, {"file": path, "run": run})
    number = tx.reserve("export_file")
    tx.execute(_WRITTEN, {"number": number, "file": path, "now": now, "run": run})


def exports_of_run(tx: Tx, run_id: int) -> list[ExportFile]:
    """Files that a run's records were written to."""
    return tx.models(_EXPORTS_OF_RUN, {"run_id": run_id})


def exports_of(tx: Tx, record_ids: Sequence[int]) -> Sequence[ExportRow]:
    """Find the files that may contain some of the records."""
    return tx.execute(_EXPORTS, {"records": record_ids}).all()


def drop_export(tx: Tx, export_id: int) -> None:
    """Forget a file that is no more."""
    tx.execute(_DROP, {"number": export_id})
