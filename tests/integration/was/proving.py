"""What proofs of showings are made from."""

from __future__ import annotations

from collections.abc import Sequence

from dispatcher.core.keys import entry_name
from dispatcher.model import SYSTEM_CHAIN
from dispatcher.store import audit
from dispatcher.store.audit import LineRow
from dispatcher.store.ledger import parts
from dispatcher.store.transaction import Tx


def exposures_of(tx: Tx, entry_ids: Sequence[int]) -> list[tuple[int, int]]:
    """Places of all exposures of some entries: (chain, seq)."""
    return [
        (row[0], row[1])
        for part in parts(entry_ids)
        for row in tx.rows(
            "SELECT chain_id, seq FROM ledger_line"
            " WHERE entry_id = ANY(?) AND kind = 'exposure' ORDER BY chain_id, seq",
            (part,),
        )
    ]


def names_of(tx: Tx, entry_ids: Sequence[int]) -> list[str]:
    """Ledger names of entries, sorted."""
    found = (
        row
        for part in parts(entry_ids)
        for row in tx.rows(
            "SELECT r.pseudonym, e.field_id FROM entry e"
            " JOIN record r ON r.id = e.record_id WHERE e.id = ANY(?)",
            (part,),
        )
    )
    return sorted(entry_name(record, field) for record, field in found)


def entries_of_subject(tx: Tx, pseudonym: str) -> list[int] | None:
    """Entries of one person; None if nobody has that pseudonym."""
    subject = tx.value("SELECT id FROM subject WHERE pseudonym = ?", (pseudonym,))
    if subject is None:
        return None
    return [
        row[0]
        for row in tx.rows(
            "SELECT e.id FROM entry e JOIN record r ON r.id = e.record_id"
            " WHERE r.subject_id = ? ORDER BY e.id",
            (subject,),
        )
    ]


def last_seal(tx: Tx) -> tuple[LineRow, str] | None:
    """Return the last seal's row, and the hash of the line before it."""
    seq = tx.value(
        "SELECT MAX(seq) FROM ledger_line WHERE chain_id = ? AND kind = 'seal'",
        (SYSTEM_CHAIN,),
    )
    if seq is None:
        return None
    row = next(audit.lines_up_to(tx, SYSTEM_CHAIN, seq, after=seq - 1))
    return row, audit.hash_at(tx, SYSTEM_CHAIN, seq - 1) or "0" * 64


def seals_after(tx: Tx, seq: int) -> list[tuple[int, int, str]]:
    """Seals after a line of chain ``system``: (seq, at, body)."""
    return [
        (row[0], row[1], row[2])
        for row in tx.rows(
            "SELECT seq, at, body FROM ledger_line WHERE chain_id = ?"
            " AND kind = 'seal' AND seq > ? ORDER BY seq",
            (SYSTEM_CHAIN, seq),
        )
    ]
