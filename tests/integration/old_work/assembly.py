"""What the assembly stage reads and writes: answers to count, results, whole records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from dispatcher.store import accounts
from dispatcher.store.transaction import Tx
from dispatcher.store.values import sealed


class AnswerRow(NamedTuple):
    """An answer with its giver's estimated accuracy."""

    entry_id: int
    task_id: int
    account_id: int
    raw: bytes
    valid: int
    quality: float


class ResultRow(NamedTuple):
    """The consensus of an entry; ``value`` is None where there is none yet."""

    entry_id: int
    value: bytes | None
    confidence: float
    answers: int
    wanted: int
    state: str
    at: int


class RunRow(NamedTuple):
    """A run whose records are put together."""

    id: int
    name: str


class RecordRow(NamedTuple):
    """A loaded record: its load and its cells as they were loaded (JSON list)."""

    id: int
    load_id: int
    columns: bytes


class FilledRow(NamedTuple):
    """An entry of a record with what is known of it."""

    record_id: int
    field_id: int
    value: bytes | None
    confidence: float | None
    state: str | None


def uncounted(tx: Tx, limit: int) -> list[int]:
    """Entries with answers that assembly has not looked at."""
    rows = tx.rows(
        "SELECT DISTINCT entry_id FROM answer WHERE counted = 0"
        " ORDER BY entry_id LIMIT ?",
        [limit],
    )
    return [row[0] for row in rows]


def stalled(tx: Tx, after: int, limit: int, live_states: Sequence[str]) -> list[int]:
    """Open entries above an id for which nothing is under way any more."""
    rows = tx.rows(
        "SELECT r.entry_id FROM result r WHERE r.state = 'open' AND r.entry_id > ?"
        " AND NOT EXISTS (SELECT 1 FROM task t WHERE t.entry_id = r.entry_id"
        " AND t.state = ANY(?)) ORDER BY r.entry_id LIMIT ?",
        [after, live_states, limit],
    )
    return [row[0] for row in rows]


def answers_of(
    tx: Tx, entry_ids: Sequence[int], *, lock: bool = False
) -> list[AnswerRow]:
    """All answers to the entries, by entry and task."""
    rows = tx.rows(
        "SELECT x.task_id, x.entry_id, x.account_id, x.raw, x.valid, a.quality,"
        " x.key_id FROM answer x JOIN account a ON a.id = x.account_id"
        " WHERE x.entry_id = ANY(?) ORDER BY x.entry_id, x.task_id"
        + (" FOR UPDATE OF x" if lock else ""),
        [entry_ids],
    )
    return [
        AnswerRow(row[1], row[0], *row[2:6])
        for row in tx.vault.opened(tx, rows, [(3, "answer.raw")], 6)
    ]


def live_tasks(
    tx: Tx, entry_ids: Sequence[int], live_states: Sequence[str]
) -> dict[int, int]:
    """How many tasks of each entry may still bring an answer."""
    return dict(
        tx.rows(
            "SELECT entry_id, count(*) FROM task WHERE entry_id = ANY(?)"
            " AND state = ANY(?) GROUP BY entry_id",
            [entry_ids, live_states],
        )
    )


def save(
    tx: Tx,
    results: Sequence[ResultRow],
    counted: Sequence[int],
    qualities: Mapping[int, float],
) -> None:
    """Write results, note which answers are in them and how good their givers are."""
    columns = ResultRow._fields
    kept = list(sealed(tx, "result", columns, results, ("value",)))
    tx.upsert_many("result", ["entry_id"], (*columns, "key_id"), kept)
    tx.execute("UPDATE answer SET counted = 1 WHERE task_id = ANY(?)", [counted])
    accounts.set_qualities(tx, sorted(qualities.items()))


# -- records, whole again ------------------------------------------------------------


def run_named(tx: Tx, name: str) -> RunRow | None:
    """Return the run of a name."""
    row = tx.one("SELECT id, name FROM run WHERE name = ?", [name])
    return RunRow._make(row) if row else None


def loads(tx: Tx, run_id: int) -> list[tuple[int, str]]:
    """Loads of a run in order: id and columns (JSON list)."""
    return [
        (row[0], row[1])
        for row in tx.rows(
            "SELECT id, columns FROM load WHERE run_id = ? ORDER BY id", [run_id]
        )
    ]


def records(tx: Tx, run_id: int) -> Iterator[RecordRow]:
    """Records of a run by id, as they stream in."""
    found = tx.stream(
        "SELECT id, load_id, columns, key_id FROM record WHERE run_id = ?"
        " AND erased_at IS NULL ORDER BY id",
        [run_id],
    )
    for row in tx.vault.opened(tx, found, [(2, "record.columns")], 3):
        yield RecordRow(*row[:3])


def filled(tx: Tx, run_id: int) -> Iterator[FilledRow]:
    """Entries of a run's records with their results, by record, as they stream in.

    In the order of the index: a sort would spill values into temporary files.
    """
    found = tx.stream(
        "SELECT e.id, e.record_id, e.field_id, x.value, x.confidence, x.state, x.key_id"
        " FROM record r JOIN entry e ON e.record_id = r.id"
        " LEFT JOIN result x ON x.entry_id = e.id"
        " WHERE r.run_id = ? AND r.erased_at IS NULL ORDER BY r.id",
        [run_id],
    )
    for row in tx.vault.opened(tx, found, [(3, "result.value")], 6):
        yield FilledRow(*row[1:6])


def progress(tx: Tx, run_id: int) -> dict[str, int]:
    """How many entries of a run are in each state of their result."""
    return dict(
        tx.rows(
            "SELECT x.state, count(*) FROM result x JOIN entry e ON e.id = x.entry_id"
            " JOIN record r ON r.id = e.record_id WHERE r.run_id = ?"
            " GROUP BY x.state",
            [run_id],
        )
    )
