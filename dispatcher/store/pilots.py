"""Pilots: a run of which only so many records are shown until an operator accepts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import BigInteger, Integer, bindparam, case, func, update
from sqlmodel import col, select

from dispatcher.model import Answer, Entry, FieldName, Record, Result, Run, Task
from dispatcher.store.statements import in_list, select_columns
from dispatcher.store.transaction import Tx


class PilotRow(NamedTuple):
    """A run with its pilot: records that it lets go in all, and by now; and those held.

    ``wanted`` is None where there is no pilot.
    """

    run_id: int
    name: str
    wanted: int | None
    opened: int


_PILOT: Final = select_columns(
    Run.id, Run.name, Run.pilot, func.coalesce(Run.piloted, 0)
)
_FIND: Final = _PILOT.where(Run.name == bindparam("called"))
_LOCK: Final = _FIND.with_for_update()
_UNDER_WAY: Final = _PILOT.where(col(Run.pilot).is_not(None)).order_by(col(Run.name))
_SHOWN: Final = (
    select(Task.id)
    .join(Entry, col(Entry.id) == Task.entry_id)
    .join(Record, col(Record.id) == Entry.record_id)
    .where(Record.run_id == bindparam("of_run"))
    .limit(1)
)
_WAITS: Final = col(Record.waits_since).is_not(None)
_WAITING: Final = (
    select(func.count())
    .select_from(Record)
    .where(Record.run_id == bindparam("of_run"), _WAITS)
)
_THE_RUN: Final = col(Run.id) == bindparam("of_run")
_OF_RUN: Final = col(Record.run_id) == bindparam("of_run")
_BEGIN: Final = (
    update(Run).where(_THE_RUN).values(pilot=bindparam("records"), piloted=0)
)
_ENLARGE: Final = update(Run).where(_THE_RUN).values(pilot=bindparam("records"))
_END: Final = update(Run).where(_THE_RUN).values(pilot=None, piloted=None)
_COUNT: Final = (
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


def lock(tx: Tx, name: str) -> PilotRow | None:
    """Return a run by name, locked until the end: no load writes records meanwhile."""
    row = tx.execute(_LOCK, {"called": name}).first()
    return None if row is None else PilotRow(*row)


def find(tx: Tx, name: str) -> PilotRow | None:
    """Return a run by name."""
    row = tx.execute(_FIND, {"called": name}).first()
    return None if row is None else PilotRow(*row)


def under_way(tx: Tx) -> list[PilotRow]:
    """All runs with a pilot."""
    return [PilotRow(*row) for row in tx.execute(_UNDER_WAY)]


def is_shown(tx: Tx, run_id: int) -> bool:
    """Whether a task was ever made of a record of the run."""
    return tx.scalar(_SHOWN, {"of_run": run_id}) is not None


def waiting(tx: Tx, run_id: int) -> int:
    """How many records of a run wait."""
    return tx.scalar(_WAITING, {"of_run": run_id}) or 0


def begin(tx: Tx, run_id: int, records: int, at: int) -> None:
    """Let all records of a run wait, but for so many that are still to be chosen."""
    tx.execute(_BEGIN, {"of_run": run_id, "records": records})
    tx.execute(_ALL_WAIT, {"of_run": run_id, "moment": at})


def enlarge(tx: Tx, run_id: int, records: int) -> None:
    """Let a pilot have more records."""
    tx.execute(_ENLARGE, {"of_run": run_id, "records": records})


def hold(
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


def choose(tx: Tx, run_id: int, records: int) -> int:
    """Let so many of a run's records go, in the order of their pseudonyms: by chance.

    Returns
    -------
    int
        How many there were.
    """
    opened = tx.execute(_CHOOSE, {"of_run": run_id, "records": records}).rowcount
    tx.execute(_COUNT, {"of_run": run_id, "records": opened})
    return opened


def accept(tx: Tx, run_id: int) -> int:
    """End a pilot: let all records go; return how many waited."""
    tx.execute(_END, {"of_run": run_id})
    return tx.execute(_ALL_GO, {"of_run": run_id}).rowcount


# -- how it went -------------------------------------------------------------------


class FieldRow(NamedTuple):
    """How a field of a run went: entries let go, settled, in conflict; its answers."""

    field: str
    entries: int
    answered: int
    conflicts: int
    answers: int
    agreement: float | None
    seconds: float | None


def _share(state: str) -> Any:  # noqa: ANN401
    return func.sum(case((col(Result.state) == state, 1), else_=0))


_FIELDS: Final = (
    select_columns(
        FieldName.name,
        func.count(),
        _share("answered"),
        _share("conflict"),
        func.avg(case((col(Result.state) == "answered", col(Result.confidence)))),
        FieldName.id,
    )
    .select_from(Record)
    .join(Entry, col(Entry.record_id) == Record.id)
    .join(FieldName, col(FieldName.id) == Entry.field_id)
    .outerjoin(Result, col(Result.entry_id) == Entry.id)
    .where(_OF_RUN, col(Record.waits_since).is_(None))
    .group_by(col(FieldName.id), col(FieldName.name))
    .order_by(col(FieldName.name))
)
_TIMES: Final = (
    select(
        Entry.field_id, func.count(), func.avg(col(Answer.at) - col(Task.created_at))
    )
    .select_from(Record)
    .join(Entry, col(Entry.record_id) == Record.id)
    .join(Answer, col(Answer.entry_id) == Entry.id)
    .join(Task, col(Task.id) == Answer.task_id)
    .where(_OF_RUN, col(Record.waits_since).is_(None), Answer.valid == 1)
    .group_by(col(Entry.field_id))
)


def by_field(tx: Tx, run_id: int) -> list[FieldRow]:
    """How the fields of a run's records that do not wait went.

    ``agreement`` is the mean confidence of what was settled; ``seconds`` the mean time
    from a task to its valid answer.
    """
    times = {
        field: (answers, float(mean) / 1e6)
        for field, answers, mean in tx.execute(_TIMES, {"of_run": run_id})
    }
    found = []
    rows = tx.execute(_FIELDS, {"of_run": run_id})
    for name, entries, answered, conflicts, sure, number in rows:
        answers, seconds = times.get(number, (0, None))
        agreement = None if sure is None else float(sure)
        numbers = int(entries), int(answered), int(conflicts), answers
        found.append(FieldRow(name, *numbers, agreement, seconds))
    return found
