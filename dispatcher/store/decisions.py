"""What one decision looks up: two statements, by primary key or from indexes alone."""

from __future__ import annotations

from typing import NamedTuple

from dispatcher.store.ledger import AccountRow, EntryRow
from dispatcher.store.transaction import Tx


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
    " EXISTS (SELECT 1 FROM pause)"
    " OR EXISTS (SELECT 1 FROM run WHERE state <> 'active'),"
    " EXISTS (SELECT 1 FROM recusal WHERE adversary_id = a.adversary_id),"
    " EXISTS (SELECT 1 FROM chain WHERE survivor_id = a.adversary_id)"
    " FROM account a, entry e JOIN record r ON r.id = e.record_id"
    " WHERE a.id = ? AND e.id = ?"
)


def ask(tx: Tx, entry_id: int, account_id: int) -> AskRow | None:
    """One account and one entry; None unless both are there."""
    row = tx.one(_ASK, (account_id, entry_id))
    if row is None:
        return None
    account_row, entry_row = AccountRow._make(row[:5]), EntryRow._make(row[5:12])
    return AskRow(account_row, entry_row, *row[12:])


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


def known(tx: Tx, entry_id: int, adversary_id: int, one: int, other: int) -> Known:
    """Return the lines about an entry, and what an adversary holds of two units.

    One statement, from the indexes alone. The units differ; -1 is none.
    """
    shown: list[tuple[int, int | None]] = []
    held: list[tuple[int, int, int, int]] = []
    for row in tx.rows(_KNOWN, (entry_id, adversary_id, one, adversary_id, other)):
        if row[3] is None:
            shown.append(row[:2])
        else:
            held.append(row)
    return Known(shown, held)
