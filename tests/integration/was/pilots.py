"""Pilots: a run of which only so many records are shown until an operator accepts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dispatcher.store.transaction import Tx


class PilotRow(NamedTuple):
    """A run with its pilot: records that it lets go in all, and by now; and those held.

    ``wanted`` is None where there is no pilot.
    """

    run_id: int
    name: str
    wanted: int | None
    opened: int


_PILOT = "SELECT id, name, pilot, COALESCE(piloted, 0) FROM run"


def lock(tx: Tx, name: str) -> PilotRow | None:
    """Return a run by name, locked until the end: no load writes records meanwhile."""
    row = tx.one(_PILOT + " WHERE name = ? FOR UPDATE", [name])
    return None if row is None else PilotRow(*row)


def find(tx: Tx, name: str) -> PilotRow | None:
    """Return a run by name."""
    row = tx.one(_PILOT + " WHERE name = ?", [name])
    return None if row is None else PilotRow(*row)


def under_way(tx: Tx) -> list[PilotRow]:
    """All runs with a pilot."""
    rows = tx.rows(_PILOT + " WHERE pilot IS NOT NULL ORDER BY name")
    return [PilotRow(*row) for row in rows]


def is_shown(tx: Tx, run_id: int) -> bool:
    """Whether a task was ever made of a record of the run."""
    found = tx.one(
        "SELECT 1 FROM record r JOIN entry e ON e.record_id = r.id"
        " JOIN task t ON t.entry_id = e.id WHERE r.run_id = ? LIMIT 1",
        [run_id],
    )
    return found is not None


def waiting(tx: Tx, run_id: int) -> int:
    """How many records of a run wait."""
    return int(
        tx.value(
            "SELECT count(*) FROM record WHERE run_id = ? AND waits_since IS NOT NULL",
            [run_id],
        )
    )


def begin(tx: Tx, run_id: int, records: int, at: int) -> None:
    """Let all records of a run wait, but for so many that are still to be chosen."""
    tx.execute("UPDATE run SET pilot = ?, piloted = 0 WHERE id = ?", [records, run_id])
    tx.execute("UPDATE record SET waits_since = ? WHERE run_id = ?", [at, run_id])


def enlarge(tx: Tx, run_id: int, records: int) -> None:
    """Let a pilot have more records."""
    tx.execute("UPDATE run SET pilot = ? WHERE id = ?", [records, run_id])


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
    piloted = tx.value("SELECT pilot FROM run WHERE id = ? FOR SHARE", [run_id])
    if piloted is not None:
        tx.execute(
            "UPDATE record SET waits_since = ? WHERE run_id = ? AND id >= ? AND id < ?",
            [at, run_id, first, first + count],
        )
    if back:
        tx.execute(
            "UPDATE record SET waits_since = ? WHERE id = ANY(?)",
            [None if piloted is None else at, back],
        )


def choose(tx: Tx, run_id: int, records: int) -> int:
    """Let so many of a run's records go, in the order of their pseudonyms: by chance.

    Returns
    -------
    int
        How many there were.
    """
    opened = tx.execute(
        "UPDATE record SET waits_since = NULL WHERE id IN (SELECT id FROM record"
        " WHERE run_id = ? AND waits_since IS NOT NULL AND erased_at IS NULL"
        " ORDER BY pseudonym LIMIT ?)",
        [run_id, records],
    )
    tx.execute(
        "UPDATE run SET piloted = COALESCE(piloted, 0) + ? WHERE id = ?",
        [opened, run_id],
    )
    return opened


def accept(tx: Tx, run_id: int) -> int:
    """End a pilot: let all records go; return how many waited."""
    tx.execute("UPDATE run SET pilot = NULL, piloted = NULL WHERE id = ?", [run_id])
    return tx.execute(
        "UPDATE record SET waits_since = NULL"
        " WHERE run_id = ? AND waits_since IS NOT NULL",
        [run_id],
    )


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


def by_field(tx: Tx, run_id: int) -> list[FieldRow]:
    """How the fields of a run's records that do not wait went.

    ``agreement`` is the mean confidence of what was settled; ``seconds`` the mean time
    from a task to its valid answer.
    """
    rows = tx.rows(
        "SELECT f.name, count(*), sum(CASE WHEN x.state = 'answered' THEN 1 ELSE 0 END),"
        " sum(CASE WHEN x.state = 'conflict' THEN 1 ELSE 0 END),"
        " avg(CASE WHEN x.state = 'answered' THEN x.confidence END), f.id"
        " FROM record r JOIN entry e ON e.record_id = r.id"
        " JOIN field f ON f.id = e.field_id LEFT JOIN result x ON x.entry_id = e.id"
        " WHERE r.run_id = ? AND r.waits_since IS NULL GROUP BY f.id, f.name"
        " ORDER BY f.name",
        [run_id],
    )
    times = {
        row[0]: (int(row[1]), float(row[2]) / 1e6)
        for row in tx.rows(
            "SELECT e.field_id, count(*), avg(x.at - t.created_at) FROM record r"
            " JOIN entry e ON e.record_id = r.id JOIN answer x ON x.entry_id = e.id"
            " JOIN task t ON t.id = x.task_id"
            " WHERE r.run_id = ? AND r.waits_since IS NULL AND x.valid = 1"
            " GROUP BY e.field_id",
            [run_id],
        )
    }
    found = []
    for name, entries, answered, conflicts, sure, number in rows:
        answers, seconds = times.get(number, (0, None))
        agreement = None if sure is None else float(sure)
        numbers = int(entries), int(answered), int(conflicts), answers
        found.append(FieldRow(name, *numbers, agreement, seconds))
    return found
