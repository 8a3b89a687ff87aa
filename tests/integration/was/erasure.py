"""What an erasure reads and writes: a person's or a record's values, and their traces.

Rows of records and entries stay, without values: the ledger speaks of them by
pseudonym, and a record that is loaded again must be known.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from dispatcher.model import LIVE_TASK_STATES
from dispatcher.store.transaction import Row, Tx


class SubjectRow(NamedTuple):
    """A person; ``erased_at`` is None while the values are there."""

    id: int
    key_id: int | None
    erased_at: int | None


class TaskRow(NamedTuple):
    """A showing of one of the entries."""

    id: int
    entry_id: int
    connector: str
    state: str


class Showings(NamedTuple):
    """What the ledger holds about entries: it stays."""

    lines: int
    adversaries: int
    first_at: int | None
    last_at: int | None


def subject(tx: Tx, pseudonym: str, *, lock: bool = False) -> SubjectRow | None:
    """Return a person by pseudonym."""
    row = tx.one(
        "SELECT id, key_id, erased_at FROM subject WHERE pseudonym = ?"
        + (" FOR UPDATE" if lock else ""),
        [pseudonym],
    )
    return None if row is None else SubjectRow(*row)


def records_of(tx: Tx, subject_id: int) -> list[int]:
    """Ids of a person's records, erased ones too."""
    rows = tx.rows(
        "SELECT id FROM record WHERE subject_id = ? ORDER BY id FOR UPDATE",
        [subject_id],
    )
    return [row[0] for row in rows]


def record_named(tx: Tx, pseudonym: str) -> int | None:
    """Id of a record by pseudonym."""
    found = tx.value(
        "SELECT id FROM record WHERE pseudonym = ? FOR UPDATE", [pseudonym]
    )
    return None if found is None else int(found)


def loaded_before(tx: Tx, moment: int, limit: int) -> list[int]:
    """Records with values that were loaded before a moment, oldest first."""
    rows = tx.rows(
        "SELECT r.id FROM record r JOIN load l ON l.id = r.load_id"
        " WHERE r.erased_at IS NULL AND COALESCE(r.loaded_at, l.started_at) < ?"
        " ORDER BY r.id LIMIT ? FOR UPDATE OF r",
        [moment, limit],
    )
    return [row[0] for row in rows]


def count_loaded_before(tx: Tx, moment: int) -> int:
    """How many records with values were loaded before a moment."""
    return int(
        tx.value(
            "SELECT count(*) FROM record r JOIN load l ON l.id = r.load_id"
            " WHERE r.erased_at IS NULL AND COALESCE(r.loaded_at, l.started_at) < ?",
            [moment],
        )
    )


def entries_of(tx: Tx, record_ids: Sequence[int]) -> list[int]:
    """Ids of all entries of records."""
    rows = tx.rows(
        "SELECT id FROM entry WHERE record_id = ANY(?) ORDER BY id", [record_ids]
    )
    return [row[0] for row in rows]


def counts(
    tx: Tx, record_ids: Sequence[int], entry_ids: Sequence[int]
) -> dict[str, int]:
    """How much there is to delete: records, fields, crops, answers, drafts, results."""
    ask = {
        "records": ("record WHERE id = ANY(?) AND erased_at IS NULL", record_ids),
        "fields": ("entry WHERE id = ANY(?) AND length(shown) > 0", entry_ids),
        "crops": (
            "entry WHERE id = ANY(?) AND length(shown) > 0 AND media LIKE 'image/%'",
            entry_ids,
        ),
        "answers": ("answer WHERE entry_id = ANY(?)", entry_ids),
        "drafts": ("task WHERE entry_id = ANY(?) AND draft IS NOT NULL", entry_ids),
        "results": ("result WHERE entry_id = ANY(?) AND value IS NOT NULL", entry_ids),
    }
    return {
        name: int(tx.value(f"SELECT count(*) FROM {text}", [ids]))
        for name, (text, ids) in ask.items()
    }


def showings(tx: Tx, entry_ids: Sequence[int]) -> Showings:
    """What the ledger holds about entries."""
    row = tx.one(
        "SELECT count(*), count(DISTINCT COALESCE(c.survivor_id, c.id)), min(l.at),"
        " max(l.at) FROM ledger_line l JOIN chain c ON c.id = l.chain_id"
        " WHERE l.entry_id = ANY(?) AND l.kind = 'exposure'",
        [entry_ids],
    )
    assert row is not None
    return Showings(*row)


def tasks_of(tx: Tx, entry_ids: Sequence[int], *, lock: bool = False) -> list[TaskRow]:
    """All tasks on entries."""
    rows = tx.rows(
        "SELECT id, entry_id, connector, state FROM task WHERE entry_id = ANY(?)"
        " ORDER BY id" + (" FOR UPDATE" if lock else ""),
        [entry_ids],
    )
    return [TaskRow(*row) for row in rows]


def being_sent(tx: Tx, entry_ids: Sequence[int], now: int) -> int:
    """How many messages with these entries are on their way out now; all are locked.

    One whose sender let its lease end (a crash) is not: what came of it is unknown.
    """
    rows = tx.rows(
        "SELECT state, leased_until FROM outbox WHERE id IN (SELECT outbox_id FROM task"
        " WHERE entry_id = ANY(?) AND outbox_id IS NOT NULL) ORDER BY id FOR UPDATE",
        [entry_ids],
    )
    return sum(row[0] == "leased" and (row[1] or 0) > now for row in rows)


def person_of(tx: Tx, subject_id: int) -> bytes:
    """Return the text that named a person in the file; empty when it is gone."""
    row = tx.one("SELECT value, key_id FROM subject WHERE id = ?", [subject_id])
    if row is None:
        return b""
    return tx.vault.open(tx, "subject.value", subject_id, row[1], row[0])


def records(tx: Tx, record_ids: Sequence[int]) -> list[Row]:
    """Return key, load, columns and cells (JSON each) of records that have them still."""
    found = tx.rows(
        "SELECT r.id, r.key, l.columns, r.columns, r.key_id, r.pseudonym, u.name,"
        " COALESCE(r.loaded_at, l.started_at) FROM record r"
        " JOIN load l ON l.id = r.load_id JOIN run u ON u.id = r.run_id"
        " WHERE r.id = ANY(?) AND r.erased_at IS NULL ORDER BY r.id",
        [record_ids],
    )
    sealed = [(1, "record.key"), (3, "record.columns")]
    return [tuple(row) for row in tx.vault.opened(tx, found, sealed, 4)]


def cells_of_others(tx: Tx, record_ids: Sequence[int]) -> Iterator[bytes]:
    """Cells of all other records, of each as one text."""
    mine = frozenset(record_ids)
    found = tx.stream("SELECT id, columns, key_id FROM record WHERE erased_at IS NULL")
    for row in tx.vault.opened(tx, found, [(1, "record.columns")], 2):
        if row[0] not in mine:
            yield "\n".join(json.loads(row[1])).encode()


def sources_of(tx: Tx, record_ids: Sequence[int]) -> list[str]:
    """Names of the files that records were loaded from."""
    found = tx.rows(
        "SELECT DISTINCT l.source FROM load l JOIN record r ON r.load_id = l.id"
        " WHERE r.id = ANY(?) ORDER BY l.source",
        [list(record_ids)],
    )
    return [row[0] for row in found]


def said_of(tx: Tx, entry_ids: Sequence[int]) -> list[Row]:
    """Answers: (task, entry, account, raw, moment)."""
    found = tx.rows(
        "SELECT task_id, entry_id, account_id, raw, at, key_id FROM answer"
        " WHERE entry_id = ANY(?) ORDER BY task_id",
        [entry_ids],
    )
    opened = tx.vault.opened(tx, found, [(3, "answer.raw")], 5)
    return [tuple(row[:5]) for row in opened]


def shown_of(tx: Tx, entry_ids: Sequence[int]) -> Iterator[bytes]:
    """Shown forms that are text."""
    found = tx.rows(
        "SELECT id, shown, key_id FROM entry WHERE id = ANY(?) AND media LIKE 'text/%'",
        [entry_ids],
    )
    for row in tx.vault.opened(tx, found, [(1, "entry.shown")], 2):
        yield row[1]


def recipients(tx: Tx, entry_ids: Sequence[int]) -> list[Row]:
    """Who was shown what: (record, field, connector, account, moment, cause)."""
    return tx.rows(
        "SELECT r.pseudonym, f.name, a.connector, a.name, l.at, l.cause"
        " FROM ledger_line l JOIN entry e ON e.id = l.entry_id"
        " JOIN record r ON r.id = e.record_id JOIN field f ON f.id = e.field_id"
        " JOIN account a ON a.id = l.account_id"
        " WHERE l.entry_id = ANY(?) AND l.kind = 'exposure' ORDER BY l.at, l.seq",
        [entry_ids],
    )


# -- writing -----------------------------------------------------------------------


def blank(
    tx: Tx, record_ids: Sequence[int], entry_ids: Sequence[int], now: int
) -> None:
    """Delete the values of records, all that was made of them, and their own keys."""
    keys = {
        row[0]
        for row in tx.rows(
            "SELECT key_id FROM record WHERE id = ANY(?) AND key_id IS NOT NULL"
            " AND subject_id IS NULL",
            [record_ids],
        )
    }
    tx.update_many(
        "record",
        ["id"],
        ["key", "columns"],
        ((number, b"", b"[]") for number in record_ids),
    )
    tx.execute(
        "UPDATE record SET key_id = NULL, lost_at = NULL,"
        " erased_at = COALESCE(erased_at, ?) WHERE id = ANY(?)",
        [now, record_ids],
    )
    tx.update_many("entry", ["id"], ["shown"], ((number, b"") for number in entry_ids))
    for text in (
        "UPDATE entry SET key_id = NULL WHERE id = ANY(?)",
        "UPDATE task SET draft = NULL, key_id = NULL WHERE entry_id = ANY(?)",
        "DELETE FROM answer WHERE entry_id = ANY(?)",
        "DELETE FROM result WHERE entry_id = ANY(?)",
        "DELETE FROM held_back WHERE entry_id = ANY(?)",
    ):
        tx.execute(text, [entry_ids])
    tx.insert_many(
        "result",
        ["entry_id", "confidence", "answers", "wanted", "state", "at"],
        [(number, 0.0, 0, 0, "erased", now) for number in entry_ids],
    )
    _delete_keys(tx, sorted(keys))


def _delete_keys(tx: Tx, keys: Sequence[int]) -> None:
    if keys:
        tx.execute("DELETE FROM value_key WHERE id = ANY(?)", [keys])
        tx.vault.forget()


def blank_subject(tx: Tx, row: SubjectRow, erased_at: int | None) -> None:
    """Delete a person's value and data key; with a moment the person is refused later."""
    tx.execute(
        "UPDATE subject SET value = ?, key_id = NULL,"
        " erased_at = COALESCE(erased_at, ?) WHERE id = ?",
        [b"", erased_at, row.id],
    )
    _delete_keys(tx, [] if row.key_id is None else [row.key_id])


def subjects_without_records(tx: Tx, record_ids: Sequence[int]) -> list[SubjectRow]:
    """People of records who have no record with values any more."""
    rows = tx.rows(
        "SELECT s.id, s.key_id, s.erased_at FROM subject s WHERE s.id IN"
        " (SELECT subject_id FROM record WHERE id = ANY(?)) AND NOT EXISTS"
        " (SELECT 1 FROM record r WHERE r.subject_id = s.id AND r.erased_at IS NULL)"
        " ORDER BY s.id FOR UPDATE OF s",
        [record_ids],
    )
    return [SubjectRow(*row) for row in rows]


def end_tasks(tx: Tx, task_ids: Sequence[int], state: str) -> None:
    """Take tasks out of their workers' hands, or keep them from leaving."""
    live = ", ".join(f"'{name}'" for name in LIVE_TASK_STATES)
    tx.execute(
        "UPDATE task SET state = ?, leased_until = NULL"
        f" WHERE id = ANY(?) AND state IN ({live})",
        [state, task_ids],
    )


def unplan(tx: Tx, entry_ids: Sequence[int]) -> None:
    """Take entries out of every plan."""
    gone = frozenset(entry_ids)
    changed = []
    for plan_id, account_id, packed in tx.rows(
        "SELECT plan_id, account_id, entries FROM assignment"
        " WHERE length(entries) > 0 ORDER BY plan_id, account_id FOR UPDATE"
    ):
        planned = array("q", bytes(packed))
        if not gone.isdisjoint(planned):
            kept = array("q", (n for n in planned if n not in gone))
            changed.append((plan_id, account_id, kept.tobytes()))
    tx.update_many("assignment", ["plan_id", "account_id"], ["entries"], changed)


def not_erased(tx: Tx, names: Sequence[str]) -> list[str]:
    """Those people and records that are there with values, or might be loaded again."""
    ask = {
        "subject": "erased_at IS NULL",
        "record": "(erased_at IS NULL OR lost_at IS NOT NULL)",
    }
    found = [
        row[0]
        for table, what in ask.items()
        for row in tx.rows(
            f"SELECT pseudonym FROM {table} WHERE pseudonym = ANY(?) AND {what}",
            [list(names)],
        )
    ]
    return sorted(found)


def suppress(tx: Tx, names: Iterable[str]) -> None:
    """Keep out what has one of these names (:func:`dispatcher.core.keys.spelled`)."""
    tx.insert_new("suppression", ["name"], ["name"], [(n,) for n in sorted(set(names))])


def lost_before(tx: Tx, moment: int) -> bool:
    """Whether a record that may be loaded again was first loaded before a moment."""
    text = "SELECT 1 FROM record WHERE lost_at IS NOT NULL AND loaded_at < ? LIMIT 1"
    return tx.value(text, [moment]) is not None


def give_up_lost(tx: Tx, moment: int) -> None:
    """Let those records never be loaded again: they were erased by age."""
    tx.execute(
        "UPDATE record SET lost_at = NULL WHERE lost_at IS NOT NULL AND loaded_at < ?",
        [moment],
    )
