"""What a replay of shipped lines writes, beside the lines themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dispatcher.model import SYSTEM_CHAIN
from dispatcher.store import reloads
from dispatcher.store.entry_registrations import Facts
from dispatcher.store.transaction import Tx

LOST_RUN: Final = "lost-with-the-store"
"""Run of records that only the shipped ledger knows: nothing of it is ever shown."""


def entry_id(tx: Tx, record: str, field_id: int) -> int | None:
    """Id of the entry that the ledger names so."""
    found = tx.value(
        "SELECT e.id FROM entry e JOIN record r ON r.id = e.record_id"
        " WHERE r.pseudonym = ? AND e.field_id = ?",
        (record, field_id),
    )
    return None if found is None else int(found)


def holds(tx: Tx, adversary: int, entry: int) -> bool:
    """Whether an adversary, with all that joined it, was shown an entry."""
    found = tx.value(
        "SELECT 1 FROM ledger_line l JOIN chain c ON c.id = l.chain_id"
        " WHERE l.entry_id = ? AND l.kind = 'exposure' AND l.showing = 1"
        " AND COALESCE(c.survivor_id, c.id) = ?",
        (entry, adversary),
    )
    return found is not None


def add_lost_entry(tx: Tx, facts: Facts, loaded_at: int, at: int) -> None:
    """Write an entry whose value was lost with the store, from the facts of its load.

    Its record counts as erased: it has a history, and no value, until it is loaded
    again.
    """
    subject = _subject(tx, facts.subject)
    row = tx.one("SELECT id, lost_at FROM record WHERE pseudonym = ?", (facts.record,))
    number, lost_at = row or (tx.reserve("record"), at)
    if row is None:
        tx.execute(
            "INSERT INTO record (id, run_id, load_id, pseudonym, key, columns,"
            " subject_id, loaded_at, erased_at, lost_at)"
            " VALUES (?, ?, 0, ?, ?, ?, ?, ?, ?, ?)",
            (number, _run(tx, at), facts.record, b"", b"[]", subject, loaded_at,
             at, at),
        )  # fmt: skip
    entry = tx.reserve("entry")
    tx.execute(
        "INSERT INTO entry (id, record_id, field_id, subject_id, time, vector, visits,"
        " shown, media) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'text/plain')",
        (
            entry,
            number,
            facts.field_id,
            subject,
            facts.time,
            facts.place,
            facts.visits,
            b"",
        ),
    )
    if lost_at is None:  # the record has its values: this one alone stays without
        reloads.leave_empty(tx, [entry], at)


def _subject(tx: Tx, pseudonym: str | None) -> int | None:
    if pseudonym is None:
        return None
    found = tx.value("SELECT id FROM subject WHERE pseudonym = ?", (pseudonym,))
    if found is None:
        found = tx.reserve("subject")  # gets value and data key when loaded again
        tx.execute(
            "INSERT INTO subject (id, pseudonym, value) VALUES (?, ?, ?)",
            (found, pseudonym, b""),
        )
    return int(found)


def _run(tx: Tx, at: int) -> int:
    found = tx.value("SELECT id FROM run WHERE name = ?", (LOST_RUN,))
    if found is None:
        found = tx.reserve("run")
        tx.execute(
            "INSERT INTO run (id, name, state, created_at)"
            " VALUES (?, ?, 'cancelled', ?)",
            (found, LOST_RUN, at),
        )
    return int(found)


def entries_of_names(tx: Tx, records: Iterable[str]) -> set[tuple[str, int]]:
    """Entries of some records that are in the store: (record's pseudonym, field)."""
    return {
        (row[0], int(row[1]))
        for row in tx.rows(
            "SELECT r.pseudonym, e.field_id FROM entry e"
            " JOIN record r ON r.id = e.record_id WHERE r.pseudonym = ANY(?)",
            (list(records),),
        )
    }


def count_lost(tx: Tx) -> int:
    """How many records may be loaded again."""
    return int(tx.value("SELECT count(*) FROM record WHERE lost_at IS NOT NULL"))


# -- what may have been shown, where no ledger tells ---------------------------------


def planned_pairs(tx: Tx) -> list[tuple[int, bytes]]:
    """Pairs of applied plans that were not booked yet: (account, packed entries)."""
    return [
        (int(row[0]), bytes(row[1]))
        for row in tx.rows(
            "SELECT s.account_id, s.entries FROM assignment s"
            " JOIN plan p ON p.id = s.plan_id"
            " WHERE p.state = 'applied' AND length(s.entries) > 0"
            " ORDER BY s.plan_id, s.account_id"
        )
    ]


def open_units(tx: Tx, since: int) -> tuple[list[int], list[int]]:
    """Records and subjects with an entry that was still open at a moment or later."""
    rows = tx.rows(
        "SELECT DISTINCT e.record_id, COALESCE(e.subject_id, r.subject_id)"
        " FROM entry e JOIN record r ON r.id = e.record_id"
        " LEFT JOIN result x ON x.entry_id = e.id"
        " WHERE x.entry_id IS NULL OR x.state <> 'answered' OR x.at >= ?",
        (since,),
    )
    records = sorted({int(row[0]) for row in rows})
    return records, sorted({int(row[1]) for row in rows if row[1] is not None})


def living_adversaries(tx: Tx) -> list[int]:
    """Ids of the adversaries that have not ended."""
    return [
        int(row[0])
        for row in tx.rows(
            "SELECT id FROM chain WHERE id <> ? AND survivor_id IS NULL ORDER BY id",
            (SYSTEM_CHAIN,),
        )
    ]
