"""Answers, their results, and reassembled records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import (
    BigInteger,
    Row,
    bindparam,
    delete,
    exists,
    func,
    literal_column,
    or_,
    update,
)
from sqlmodel import col, select

from dispatcher.model import (
    Account,
    Entry,
    FieldName,
    Load,
    Record,
    Result,
    Run,
    Task,
    TaskAnswer,
)
from dispatcher.store import accounts
from dispatcher.store.statements import in_list, select_columns
from dispatcher.store.transaction import Tx


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """An answer with its worker's estimated accuracy."""

    entry_id: int
    task_id: int
    account_id: int
    raw: bytes
    valid: int
    quality: float


TaskRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""A task: id, entry_id, adversary_id, connector, state, created_at, and answered_at."""


class FilledRow(NamedTuple):
    """An entry of a record with its result."""

    record_id: int
    field_id: int
    value: bytes | None
    confidence: float | None
    state: str | None
    judged_by: str | None


# -- answers that came in --------------------------------------------------------------

_ANSWER: Final = (
    "task_id",
    "entry_id",
    "account_id",
    "raw",
    "valid",
    "reason",
    "at",
    "counted",
)
_RESULT: Final = (
    "entry_id",
    "value",
    "confidence",
    "wanted",
    "state",
    "at",
    "judged_by",
)
_KEYS: Final = select_columns(Entry.id, Entry.key_id).where(
    in_list(Entry.id, "entries")
)


def _keys_of_entries(tx: Tx, entry_ids: Iterable[int]) -> dict[int, int | None]:
    """Ids of the data keys of entries; None for what is stored in clear."""
    wanted = sorted(set(entry_ids))
    found: dict[int, int | None] = dict(tx.execute(_KEYS, {"entries": wanted}).all())
    tx.vault.prepare(tx, found.values())
    return found


def _cells(
    rows: Iterable[TaskAnswer | Result], columns: Sequence[str]
) -> list[tuple[Any, ...]]:
    return [tuple(getattr(row, name) for name in columns) for row in rows]


def _sealed(
    tx: Tx,
    table: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    values: Sequence[str],
) -> Iterator[tuple[Any, ...]]:
    """Rows of a table about entries, their values sealed, with the key's id at the end.

    Parameters
    ----------
    tx : Tx
    table : str
    columns : sequence of str
        Columns of the rows: the row's id first, ``entry_id`` among them.
    rows : sequence of tuples
    values : sequence of str
        The columns that hold values.
    """
    at = columns.index("entry_id")
    keys = _keys_of_entries(tx, [row[at] for row in rows])
    places = [(columns.index(name), f"{table}.{name}") for name in values]
    for row in rows:
        key_id = keys.get(row[at])
        kept = list(row)
        if key_id is not None:
            for place, column in places:
                if kept[place] is not None:
                    kept[place] = tx.vault.seal(tx, column, row[0], key_id, kept[place])
        yield (*kept, key_id)


def add_answer(tx: Tx, row: TaskAnswer) -> None:
    """Store the answer of a task that has none yet."""
    kept = _sealed_answers(tx, [row])
    tx.insert_many("answer", (*_ANSWER, "key_id"), kept)


def put_answers(tx: Tx, answers: Sequence[TaskAnswer]) -> None:
    """Store answers; one that corrects an invalid one replaces it."""
    kept = _sealed_answers(tx, answers)
    tx.upsert_many("answer", ["task_id"], (*_ANSWER, "key_id"), kept)


def _sealed_answers(tx: Tx, answers: Sequence[TaskAnswer]) -> list[tuple[Any, ...]]:
    rows = _cells(answers, _ANSWER)
    return list(_sealed(tx, "answer", _ANSWER, rows, ("raw",)))


FOREVER: Final = 2**62
"""A moment after all others."""

# -- answers over time -----------------------------------------------------------------

_SINCE: Final = bindparam("since", type_=BigInteger())
_periods: Final = (
    select_columns(
        (
            (col(TaskAnswer.at) - _SINCE) // bindparam("period", type_=BigInteger())
        ).label("place"),
        TaskAnswer.account_id,
        TaskAnswer.valid,
    )
    .where(col(TaskAnswer.at) >= _SINCE, col(TaskAnswer.at) < bindparam("until"))
    .subquery()
)
_BY_ACCOUNT: Final = (
    select_columns(
        _periods.c.place,
        _periods.c.account_id,
        func.sum(_periods.c.valid).label("valid"),
        func.count().label("total"),
    )
    .group_by(_periods.c.place, _periods.c.account_id)
    .subquery()
)
_PER_PERIOD: Final = (
    select_columns(
        _BY_ACCOUNT.c.place,
        Account.connector,
        func.sum(_BY_ACCOUNT.c.valid),
        func.sum(_BY_ACCOUNT.c.total),
    )
    .join(Account, col(Account.id) == _BY_ACCOUNT.c.account_id)
    .group_by(_BY_ACCOUNT.c.place, col(Account.connector))
    .order_by(_BY_ACCOUNT.c.place, col(Account.connector))
)
_newest: Final = (
    select_columns(TaskAnswer.task_id, TaskAnswer.entry_id, TaskAnswer.at)
    .where(TaskAnswer.valid == 1)
    .order_by(col(TaskAnswer.at).desc())
    .limit(bindparam("most", type_=BigInteger()))
    .subquery()
)
_DURATIONS: Final = (
    select_columns(FieldName.name, _newest.c.at - col(Task.created_at))
    .select_from(_newest)
    .join(Task, col(Task.id) == _newest.c.task_id)
    .join(Entry, col(Entry.id) == _newest.c.entry_id)
    .join(FieldName, col(FieldName.id) == col(Entry.field_id))
)


_LATELY: Final = select(_newest.c.entry_id).distinct().order_by(_newest.c.entry_id)


def per_period(
    tx: Tx, since: int, until: int, period: int
) -> list[tuple[int, str, int, int]]:
    """Answers of periods from a moment on, before another (grows with these answers).

    Rows of the period's number from 0 on, the connector, how many answers are valid, and
    how many there are.
    """
    given = {"since": since, "until": until, "period": period}
    return [
        (int(place), connector, int(valid), int(total))
        for place, connector, valid, total in tx.execute(_PER_PERIOD, given)
    ]


def answered_lately(tx: Tx, most: int) -> list[int]:
    """Entries of the newest valid answers, by id."""
    return tx.scalars(_LATELY, {"most": most})


def durations(tx: Tx, most: int) -> list[tuple[str, int]]:
    """Field and time from booking to answer of the newest valid answers."""
    return [(name, int(took)) for name, took in tx.execute(_DURATIONS, {"most": most})]


# -- results ---------------------------------------------------------------------------

_UNCOUNTED: Final = (
    select(TaskAnswer.entry_id)
    .where(
        TaskAnswer.counted == literal_column("0")
    )  # in the text, for the partial index
    .group_by(col(TaskAnswer.entry_id))
    .having(func.max(col(TaskAnswer.at)) <= bindparam("before"))
    .order_by(col(TaskAnswer.entry_id))
    .limit(bindparam("most"))
)
_FRESH: Final = (
    select(TaskAnswer.task_id)
    .where(
        TaskAnswer.task_id == bindparam("task"),
        TaskAnswer.at >= bindparam("since"),
        TaskAnswer.counted == 0,
    )
    .with_for_update()
)
_WITHDRAW: Final = delete(TaskAnswer).where(
    col(TaskAnswer.task_id) == bindparam("task")
)
_STALLED: Final = (
    select(Result.entry_id)
    .where(
        Result.state == "open",
        Result.entry_id > bindparam("after"),
        ~exists().where(
            col(Task.entry_id) == Result.entry_id, in_list(Task.state, "live")
        ),
    )
    .order_by(col(Result.entry_id))
    .limit(bindparam("most"))
)
_ANSWERS: Final = (
    select_columns(
        TaskAnswer.task_id,
        TaskAnswer.entry_id,
        TaskAnswer.account_id,
        TaskAnswer.raw,
        TaskAnswer.valid,
        Account.quality,
        TaskAnswer.key_id,
    )
    .join(Account, col(Account.id) == TaskAnswer.account_id)
    .where(in_list(TaskAnswer.entry_id, "entries"))
    .order_by(col(TaskAnswer.entry_id), col(TaskAnswer.task_id))
)
_LOCK_ANSWERS: Final = _ANSWERS.with_for_update(of=TaskAnswer)
_TASKS: Final = (
    select_columns(
        Task.id,
        Task.entry_id,
        Account.adversary_id,
        Task.connector,
        Task.state,
        Task.created_at,
        col(TaskAnswer.at).label("answered_at"),
    )
    .join(Account, col(Account.id) == Task.account_id)
    .outerjoin(TaskAnswer, col(TaskAnswer.task_id) == Task.id)
    .where(in_list(Task.entry_id, "entries"))
    .order_by(col(Task.entry_id), col(Task.created_at), col(Task.id))
)
_LIVE: Final = (
    select(Task.entry_id, func.count())
    .where(in_list(Task.entry_id, "entries"), in_list(Task.state, "live"))
    .group_by(col(Task.entry_id))
)
_REOPEN: Final = (
    update(Result)
    .where(
        col(Result.entry_id) == bindparam("entry"),
        or_(col(Result.state) == "conflict", col(Result.judged_by).is_not(None)),
    )
    .values(state="open", judged_by=None)
)
_JUDGED: Final = select(Result.entry_id).where(
    in_list(Result.entry_id, "entries"), col(Result.judged_by).is_not(None)
)
_IN_CONFLICT: Final = (
    select(Result.entry_id)
    .where(
        Result.state == literal_column("'conflict'"),  # for the partial index
        Result.entry_id > bindparam("after"),
    )
    .order_by(col(Result.entry_id))
    .limit(bindparam("most"))
)
_RESULT_OF: Final = select_columns(Result.state, Result.judged_by).where(
    Result.entry_id == bindparam("entry")
)
_UNCOUNT: Final = (
    update(TaskAnswer)
    .where(col(TaskAnswer.entry_id) == bindparam("entry"))
    .values(counted=0)
)
_DELETE: Final = (
    delete(TaskAnswer).where(in_list(TaskAnswer.entry_id, "entries")),
    delete(Result).where(in_list(Result.entry_id, "entries")),
)
_COUNT: Final = (
    update(TaskAnswer).where(in_list(TaskAnswer.task_id, "tasks")).values(counted=1)
)


def uncounted(tx: Tx, limit: int, before: int = FOREVER) -> list[int]:
    """Find entries with answers that assembly has not counted.

    Those of which an answer came after ``before`` are left out: it may be taken back.
    """
    return tx.scalars(_UNCOUNTED, {"most": limit, "before": before})


def is_fresh(tx: Tx, task_id: int, since: int) -> bool:
    """Whether the answer of a task came since a moment and nothing was made of it."""
    asked = {"task": task_id, "since": since}
    return tx.execute(_FRESH, asked).first() is not None


def withdraw(tx: Tx, task_id: int) -> None:
    """Delete the answer of a task: its worker takes it back."""
    tx.execute(_WITHDRAW, {"task": task_id})


def stalled(tx: Tx, after: int, limit: int, live_states: Sequence[str]) -> list[int]:
    """Find open entries above an id that wait for no task any more."""
    asked = {"after": after, "live": live_states, "most": limit}
    return tx.scalars(_STALLED, asked)


def answers_of(
    tx: Tx, entry_ids: Sequence[int], *, lock: bool = False
) -> list[AnswerRow]:
    """All answers to the entries, by entry and task."""
    asked = _LOCK_ANSWERS if lock else _ANSWERS
    rows = tx.execute(asked, {"entries": entry_ids}).all()
    return [
        AnswerRow(
            row.entry_id, row.task_id, row.account_id, row.raw, row.valid, row.quality
        )
        for row in tx.vault.opened(tx, rows, "answer.raw")
    ]


def tasks_of(tx: Tx, entry_ids: Sequence[int]) -> Sequence[TaskRow]:
    """All tasks of the entries, by entry and time, with when each was answered."""
    return tx.execute(_TASKS, {"entries": entry_ids}).all()


def live_tasks(
    tx: Tx, entry_ids: Sequence[int], live_states: Sequence[str]
) -> dict[int, int]:
    """Count the tasks of each entry that may still bring an answer."""
    asked = {"entries": entry_ids, "live": live_states}
    return dict(tx.execute(_LIVE, asked).all())


def save(
    tx: Tx,
    results: Sequence[Result],
    counted: Sequence[int],
    qualities: Mapping[int, float],
) -> None:
    """Store results, which answers are in them, and their workers' accuracy."""
    rows = _cells(results, _RESULT)
    kept = list(_sealed(tx, "result", _RESULT, rows, ("value",)))
    tx.upsert_many("result", ["entry_id"], (*_RESULT, "key_id"), kept)
    tx.execute(_COUNT, {"tasks": counted})
    accounts.set_qualities(tx, sorted(qualities.items()))


def judged(tx: Tx, entry_ids: Sequence[int]) -> set[int]:
    """Which of the entries an operator decided on."""
    return set(tx.scalars(_JUDGED, {"entries": entry_ids}))


def in_conflict(tx: Tx, after: int, limit: int) -> list[int]:
    """Entries in conflict above an id, by id."""
    return tx.scalars(_IN_CONFLICT, {"after": after, "most": limit})


def result_of(tx: Tx, entry_id: int) -> tuple[str, bool]:
    """State of an entry's result, and whether an operator decided it."""
    found = tx.execute(_RESULT_OF, {"entry": entry_id}).first()
    return ("open", False) if found is None else (found[0], found[1] is not None)


def judge(tx: Tx, entry_id: int, value: bytes, judged_by: str, now: int) -> None:
    """Give an entry the value that an operator decided on."""
    found = Result(
        entry_id=entry_id,
        value=value,
        confidence=1.0,
        state="answered",
        at=now,
        judged_by=judged_by,
    )
    save(tx, [found], [], {})


def reopen(tx: Tx, entry_id: int) -> None:
    """Reopen an entry in conflict, or judged; its answers are counted again."""
    if tx.execute(_REOPEN, {"entry": entry_id}).rowcount:
        tx.execute(_UNCOUNT, {"entry": entry_id})


def leave_empty(tx: Tx, entry_ids: Sequence[int], now: int) -> None:
    """Close entries without a value: nothing is asked of them any more."""
    tx.insert_many(
        "result",
        ["entry_id", "confidence", "wanted", "state", "at"],
        [(number, 0.0, 0, "erased", now) for number in entry_ids],
    )


def erase(tx: Tx, entry_ids: Sequence[int], now: int) -> None:
    """Delete all answers to entries, and ask nothing of them any more."""
    for statement in _DELETE:
        tx.execute(statement, {"entries": entry_ids})
    leave_empty(tx, entry_ids, now)


# -- reassembled records -------------------------------------------------------------

_RUN_ID: Final = select(Run.id).where(Run.name == bindparam("name"))
_LOADS: Final = (
    select(Load.id, Load.columns)
    .where(Load.run_id == bindparam("run"))
    .order_by(col(Load.id))
)
_RECORDS: Final = (
    select_columns(Record.id, Record.load_id, Record.columns, Record.key_id)
    .where(Record.run_id == bindparam("run"), col(Record.erased_at).is_(None))
    .order_by(col(Record.id))
)
_RECORDS_COUNT: Final = select(func.count()).where(
    Record.run_id == bindparam("run"), col(Record.erased_at).is_(None)
)
_FILLED: Final = (
    select_columns(
        Entry.id,
        Entry.record_id,
        Entry.field_id,
        Result.value,
        Result.confidence,
        Result.state,
        Result.judged_by,
        Result.key_id,
    )
    .select_from(Record)
    .join(Entry, col(Entry.record_id) == Record.id)
    .outerjoin(Result, col(Result.entry_id) == Entry.id)
)
_FILLED_OF_RUN: Final = _FILLED.where(
    Record.run_id == bindparam("run"), col(Record.erased_at).is_(None)
).order_by(col(Record.id))
_FILLED_OF_RECORD: Final = _FILLED.where(Record.id == bindparam("record"))
_RECORD: Final = (
    select_columns(
        Record.id,
        col(Load.columns).label("names"),
        Record.key,
        Record.columns,
        Record.key_id,
    )
    .join(Load, col(Load.id) == Record.load_id)
    .where(Record.pseudonym == bindparam("pseudonym"), col(Record.erased_at).is_(None))
)


def run_named(tx: Tx, name: str) -> int | None:
    """Id of the run of a name."""
    return tx.scalar(_RUN_ID, {"name": name})


def loads(tx: Tx, run_id: int) -> list[tuple[int, str]]:
    """Loads of a run in order: id and columns (JSON list)."""
    return [(row.id, row.columns) for row in tx.execute(_LOADS, {"run": run_id})]


def records(tx: Tx, run_id: int) -> Iterator[tuple[int, int, bytes]]:
    """Records of a run as they stream in: id, load, cells as loaded (a JSON list)."""
    found = tx.stream(_RECORDS, {"run": run_id})
    for row in tx.vault.opened(tx, found, "record.columns"):
        yield row.id, row.load_id, row.columns


def count_records(tx: Tx, run_id: int) -> int:
    """Count the records of a run that have values."""
    return tx.scalar(_RECORDS_COUNT, {"run": run_id}) or 0


def filled(tx: Tx, run_id: int) -> Iterator[FilledRow]:
    """Entries of a run's records with their results, by record, as they stream in.

    In the order of the index: a sort would spill values into temporary files.
    """
    return _filled(tx, tx.stream(_FILLED_OF_RUN, {"run": run_id}))


def _filled(tx: Tx, found: Iterable[Any]) -> Iterator[FilledRow]:
    for row in tx.vault.opened(tx, found, "result.value"):
        yield FilledRow(
            row.record_id,
            row.field_id,
            row.value,
            row.confidence,
            row.state,
            row.judged_by,
        )


def record(tx: Tx, pseudonym: str) -> tuple[int, str, bytes, bytes] | None:
    """One record with values: its id, columns (JSON list), key and cells (JSON list)."""
    found = tx.execute(_RECORD, {"pseudonym": pseudonym}).all()
    for row in tx.vault.opened(tx, found, "record.key", "record.columns"):
        return row.id, row.names, row.key, row.columns
    return None


def filled_in(tx: Tx, record_id: int) -> list[FilledRow]:
    """Entries of one record with their results."""
    return list(_filled(tx, tx.execute(_FILLED_OF_RECORD, {"record": record_id}).all()))
