"""What one decision looks up and locks, by primary key or from indexes alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dispatcher.model import record_unit, subject_unit
from dispatcher.store.ledger import AccountRow, ChainRow, EntryRow
from dispatcher.store.transaction import Question, Row, Tx


class AskRow(NamedTuple):
    """One account and one entry, and whether there is more to look up."""

    account: AccountRow
    entry: EntryRow
    stopped: bool  # something is paused
    recused: bool  # the adversary recused itself from someone
    joined: bool  # other chains ended in the adversary's


_ASK = (
    "SELECT a.id, a.connector, a.name, a.adversary_id, a.state,"
    " e.id, e.record_id, e.field_id, e.subject_id, e.time, r.pseudonym, r.run_id,"
    " r.waits_since IS NOT NULL,"
    " EXISTS (SELECT 1 FROM pause)"
    " OR EXISTS (SELECT 1 FROM run WHERE state <> 'active'),"
    " EXISTS (SELECT 1 FROM recusal WHERE adversary_id = a.adversary_id),"
    " EXISTS (SELECT 1 FROM chain WHERE survivor_id = a.adversary_id)"
    " FROM account a, entry e JOIN record r ON r.id = e.record_id"
    " WHERE a.id = ? AND e.id = ?"
)


def ask_question(entry_id: int, account_id: int) -> Question:
    """Ask for one account and one entry: one row, if both are there."""
    return _ASK, (account_id, entry_id)


def ask(row: Row) -> AskRow:
    """Read the row that :func:`ask_question` asks for."""
    account_row, entry_row = AccountRow._make(row[:5]), EntryRow._make(row[5:13])
    return AskRow(account_row, entry_row, *row[13:])


def account_exists(tx: Tx, account_id: int) -> bool:
    """Whether there is such an account."""
    return tx.one("SELECT 1 FROM account WHERE id = ?", (account_id,)) is not None


_KNOWN = (
    "SELECT chain_id, showing, NULL, NULL FROM ledger_line WHERE entry_id = ?"
    " UNION ALL SELECT unit_id, field_id, time, entries FROM holding"
    " WHERE adversary_id = ? AND unit_id = ?"
    # Once more, for SQLite would build a tree for the two members of an IN.
    " UNION ALL SELECT unit_id, field_id, time, entries FROM holding"
    " WHERE adversary_id = ? AND unit_id = ?"
)


class Known(NamedTuple):
    """What one decision rests on.

    Attributes
    ----------
    shown : list of (int, int or None)
        Lines about the entry: (chain, showing), None for an ``unburn``. At most t
        showings, and what came again.
    held : list of (int, int, int, int)
        What the adversary holds of the two units: (unit, field, time, entries).
    """

    shown: list[tuple[int, int | None]]
    held: list[tuple[int, int, int, int]]


def known_question(
    entry_id: int, adversary_id: int, record_id: int, subject_id: int | None
) -> Question:
    """Ask for the lines about an entry, and what an adversary holds of its units.

    One statement, from the indexes alone.
    """
    one = record_unit(record_id)
    other = -1 if subject_id is None else subject_unit(subject_id)
    return _KNOWN, (entry_id, adversary_id, one, adversary_id, other)


def known(rows: Iterable[Row]) -> Known:
    """Read the rows that :func:`known_question` asks for."""
    shown: list[tuple[int, int | None]] = []
    held: list[tuple[int, int, int, int]] = []
    for row in rows:
        if row[3] is None:
            shown.append(row[:2])
        else:
            held.append(row)
    return Known(shown, held)


_VERSION = (
    "b.policy_version, (SELECT sha256 FROM policy WHERE version = b.policy_version)"
)


class LookRow(NamedTuple):
    """What there is to lock for one ask, and which version was in force."""

    version: int
    sha256: str
    adversary_id: int
    record_id: int
    subject_id: int | None


def look(tx: Tx, entry_id: int, account_id: int) -> LookRow | None:
    """Look what one ask has to lock; None unless account and entry are there."""
    row = tx.one(
        f"SELECT {_VERSION}, a.adversary_id, e.record_id, e.subject_id"
        " FROM barrier b, account a, entry e WHERE b.id = 1 AND a.id = ? AND e.id = ?",
        (account_id, entry_id),
    )
    return LookRow._make(row) if row else None


def lock_question(entry_id: int, adversary_id: int, *, alone: bool) -> Question:
    """Lock the barrier, a chain and an entry, in this order.

    The row has the version in force and its hash, which is None if the version came
    while the lock was waited for, and then the chain's head.

    Parameters
    ----------
    entry_id, adversary_id : int
    alone : bool
        Hold the barrier alone instead of sharing it with other bookings.
    """
    chain = ", ".join(f"c.{name}" for name in ChainRow._fields)
    text = (
        f"SELECT {_VERSION}, {chain} FROM barrier b, chain c, entry e"
        " WHERE b.id = 1 AND c.id = ? AND e.id = ?"
        f" FOR {'UPDATE' if alone else 'SHARE'} OF b"
        " FOR NO KEY UPDATE OF c FOR NO KEY UPDATE OF e"
    )
    return text, (adversary_id, entry_id)
